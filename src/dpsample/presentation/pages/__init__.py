"""Pages: the basis of all HTML pages. A page is one document, needs no network, and trusts no text.

    document    one self-contained document under a strict content policy
    parts       tables, and charts with their titles
    page.css    how pages look: light and dark, on paper, on a phone
    page.js     what scripts of pages share

Charts are static SVG (`dpsample.presentation.charts`). Their colours are variables of the style sheet, so that light,
dark and print need no second drawing; a wide and a narrow picture need one.
"""

from dpsample.presentation.pages.document import Document, policy
from dpsample.presentation.pages.parts import figure, rows, table

__all__ = ["Document", "figure", "policy", "rows", "table"]

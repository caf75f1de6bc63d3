"""Pages: the basis of all HTML pages. A page is one document, needs no network, and trusts no text.

    markup      HTML that is made of elements; text that is put into one is escaped
    document    one self-contained document under a strict content policy
    front_end   the chart library's own code, out of its installed package
    page.css    how pages look: light and dark, on paper, on a phone
    page.js     draws the charts, in the browser

A chart is made by `dpsample.presentation.page_charts.page_chart`; its colours are variables of the style sheet, so that
light, dark and print need no second drawing.
"""

from dpsample.presentation.pages.document import Document, figure, policy
from dpsample.presentation.pages.front_end import chart_library
from dpsample.presentation.pages.markup import Markup, join, rows, table, tag

__all__ = [
    "Document",
    "Markup",
    "chart_library",
    "figure",
    "join",
    "policy",
    "rows",
    "table",
    "tag",
]

"""A release of elements, in the order in which it happens: totals are bought, then keys are drawn."""

from dpsample.private.drawing import Drawing, DrawnRelease
from dpsample.private.tokens import draw_tokens, listed_rows
from dpsample.private.totals import Totals
from dpsample.release.bought import Bought


def draw_elements(drawing: Drawing) -> DrawnRelease:
    """Draw a release that protects elements."""
    source = drawing.request.source
    counts_elements = drawing.request.setting.budget.total
    totals = Totals(drawing, listed_rows(drawing) if counts_elements else source)
    sized = totals.sized()
    bought = Bought(sized.realized, totals.elements())
    return draw_tokens(drawing, source, sized, bought)

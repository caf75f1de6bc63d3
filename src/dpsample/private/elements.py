"""The walk of a release of elements.

Rows and frequencies are private. What leaves the run is what the last column says, each drawn with coins of its own:

    step           spends                     coins                                      publishes
    sample size    share "sample size"        fresh, discrete Laplace noise              tau, if a size was asked for
    total          share "total"              fresh, discrete Laplace noise              the number of elements
    keys           what the totals leave      of each key: to sample, and to sanitize    keys and their tokens

What a budget has no share for is not measured, and not drawn.
"""

from dpsample.private.drawing import Drawing, DrawnRelease
from dpsample.private.tokens import draw_tokens, listed_rows
from dpsample.private.totals import Totals
from dpsample.release.bought import Bought


def draw_elements(drawing: Drawing) -> DrawnRelease:
    """Draw a release that protects elements."""
    source = drawing.request.source
    buys_total = drawing.request.options.budget.total > 0
    totals = Totals(drawing, listed_rows(drawing) if buys_total else source)
    chosen = totals.choose_sampling()
    total = totals.elements()
    return draw_tokens(drawing, source, chosen, Bought(chosen.realized, total))

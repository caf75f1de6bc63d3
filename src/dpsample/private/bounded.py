"""A release of users with a contribution bound, in the order in which it happens.

each user keeps a bounded number of keys -> totals are bought -> keys are drawn, by their numbers of users
"""

from dpsample.private.checks import rereads
from dpsample.private.drawing import Drawing, DrawnRelease
from dpsample.private.sources.source import Source
from dpsample.private.tokens import draw_tokens, listed_rows
from dpsample.private.totals import Totals
from dpsample.release.bought import Bought


def draw_bounded_users(drawing: Drawing, max_keys: int) -> DrawnRelease:
    """Draw a release that protects users, of whom each keeps up to `max_keys` keys."""
    unbounded = listed_rows(drawing)
    kept = bound_users(drawing, unbounded, max_keys)
    totals = Totals(drawing, kept)
    sized = totals.sized()
    bought = Bought(sized.realized, totals.elements(), totals.dropped(unbounded))
    return draw_tokens(drawing, kept, sized, bought)


def bound_users(drawing: Drawing, source: Source, max_keys: int) -> Source:
    """Let each user keep some of their keys, chosen at random: a source with a row for each user and kept key."""
    request = drawing.request
    drawing.progress.begin("bounding users")
    again = rereads(request) or request.strategy == "two-pass"
    return drawing.keep(drawing.engine.bounded(source, max_keys, drawing.coins, rereads=again))

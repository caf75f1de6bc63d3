"""The walk of a release of users with a contribution bound: each user keeps at most `max_keys` keys.

Rows, and the keys that users keep, are private. What leaves the run is what the last column says, each drawn with coins
of its own. Noise and keys are made for a user who changes `max_keys` frequencies, by one each:

    step           spends                  coins                                     publishes
    bound          nothing                 of each user and key                      nothing
    sample size    share "sample size"     fresh, discrete Laplace noise             tau, if a size was asked for
    total          half of share "total"   fresh, discrete Laplace noise             pairs of a user and a kept key
    dropped keys   the other half          fresh, discrete Laplace noise             pairs of a user and a dropped key
    keys           what the totals leave   of each key: to sample, and to sanitize   keys and their tokens

What a budget has no share for is not measured, and not drawn.
"""

from dpsample.private.checks import rereads
from dpsample.private.drawing import Drawing, DrawnRelease
from dpsample.private.sources.source import Source
from dpsample.private.tokens import draw_tokens, listed_rows
from dpsample.private.totals import Totals
from dpsample.release.bought import Bought


def draw_bounded_users(drawing: Drawing, max_keys: int) -> DrawnRelease:
    """Draw a release that protects users, who keep up to `max_keys` keys each."""
    unbounded = listed_rows(drawing)
    kept = bound_users(drawing, unbounded, max_keys)
    totals = Totals(drawing, kept)
    chosen = totals.choose_sampling()
    total = totals.elements()
    dropped = totals.dropped(unbounded)
    return draw_tokens(drawing, kept, chosen, Bought(chosen.realized, total, dropped))


def bound_users(drawing: Drawing, source: Source, max_keys: int) -> Source:
    """Let each user keep some of their keys, chosen at random: a source with a row for each user and kept key."""
    request = drawing.request
    read_twice = rereads(request) or request.options.strategy == "two-pass"
    drawing.progress.begin("bounding users")
    kept = drawing.engine.bounded(source, max_keys, drawing.coins, rereads=read_twice)
    return drawing.keep(kept)

"""Tokens: the last step of a release of elements, or of users with a contribution bound.

Its terms are fixed, and keys are counted, sampled and sanitized.
"""

from dataclasses import replace

from dpsample.accounting.known import Known, added_to_known
from dpsample.private.checks import usable_strategy
from dpsample.private.drawing import Counting, Drawing, DrawnRelease
from dpsample.private.sources.source import Source
from dpsample.private.totals import Sized
from dpsample.release.bought import Bought


def listed_rows(drawing: Drawing) -> Source:
    """Return the rows of known keys, if there are no others; else all rows."""
    source, known = drawing.request.source, drawing.known
    if known is None or not drawing.only_known:
        return source
    return drawing.engine.restricted(source, known, outside=False)


def draw_tokens(drawing: Drawing, source: Source, sized: Sized, bought: Bought) -> DrawnRelease:
    """Fix the terms, and draw the keys of a source with their tokens."""
    request, setting, known = drawing.request, drawing.request.setting, drawing.known
    terms = terms_of(setting.budget, sized.sampling, source.key, setting.keys_only, request.grid, bought, request.part)
    if known is not None:
        record = Known(known.num_rows, drawing.only_known, added_to_known(terms.per_key))
        terms = replace(terms, known=record)
    strategy = usable_strategy(drawing.engine, request.source, sized.sampling, request.strategy)
    counting = Counting(
        source, drawing.keys, sized.sampling, strategy, sized.counted, known=known, only_known=drawing.only_known
    )
    return drawing.draw_keys(drawing, counting, terms)

"""Tokens: how a release of elements, or of users with a contribution bound, ends.

Its terms are fixed, and keys are counted, sampled and sanitized.
"""

from collections.abc import Sequence
from dataclasses import replace

from dpsample.accounting.budget import Budget
from dpsample.accounting.known import Known, added_to_known
from dpsample.accounting.parts import Part
from dpsample.private.checks import usable_strategy
from dpsample.private.drawing import Counting, Drawing, DrawnRelease
from dpsample.private.sources.source import Source
from dpsample.private.totals import Sized
from dpsample.release.bought import NOTHING, Bought
from dpsample.release.kinds import KeysOnly, Kind, kind_with_tokens
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import KeepAll, Sampling


def listed_rows(drawing: Drawing) -> Source:
    """Return the rows of known keys, if there are no others; else all rows."""
    source, known = drawing.request.source, drawing.known
    if known is None or not drawing.only_known:
        return source
    return drawing.engine.restricted(source, known, outside=False)


def draw_tokens(drawing: Drawing, source: Source, sized: Sized, bought: Bought) -> DrawnRelease:
    """Fix the terms, and draw the keys of a source with their tokens."""
    request, setting, sampling = drawing.request, drawing.request.setting, sized.sampling
    kind = kind_of(setting.budget, sampling, setting.keys_only, request.grid)
    known = None
    if drawing.known is not None:
        known = Known(drawing.known.num_rows, drawing.only_known, added_to_known(kind.per_key))
    terms = Terms(
        setting.privacy,
        source.key,
        kind,
        bought,
        known,
        request.part,
        reading=request.source.reading,
    )
    strategy = usable_strategy(drawing.engine, request.source, sampling, request.strategy)
    counting = Counting(source, drawing.keys, sampling, strategy, sized.counted)
    if drawing.known is not None:
        counting = replace(counting, known=drawing.known, only_known=drawing.only_known)
    return drawing.draw_keys(drawing, counting, terms)


def terms_of(
    budget: Budget,
    sampling: Sampling,
    keys: Sequence[str],
    keys_only: bool = False,
    grid: int | None = None,
    bought: Bought = NOTHING,
    part: Part | None = None,
) -> Terms:
    """Return the terms of a release of elements, or of users with a contribution bound, without known keys."""
    kind = kind_of(budget, sampling, keys_only, grid)
    return Terms(budget.privacy, tuple(keys), kind, bought, part=part)


def kind_of(budget: Budget, sampling: Sampling, keys_only: bool, grid: int | None) -> Kind:
    """Return the kind of such a release: keys have tokens, or are reported without numbers."""
    budget = replace(
        budget, all_keys=isinstance(sampling.sanitized_as, KeepAll), keys_only=keys_only
    )
    if keys_only:
        return KeysOnly(sampling, budget.per_key, budget.max_keys)
    return kind_with_tokens(sampling, budget.per_key, grid, budget.max_keys)

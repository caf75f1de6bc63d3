"""Tokens: the last step of a release of elements, or of users with a contribution bound.

The terms are fixed; then keys are counted, sampled and sanitized.
"""

from collections.abc import Sequence
from dataclasses import replace

from dpsample.accounting.budget import Budget
from dpsample.accounting.known import Known, added_to_known
from dpsample.accounting.parts import Part
from dpsample.private.checks import usable_strategy
from dpsample.private.drawing import Counting, Drawing, DrawnRelease
from dpsample.private.sources.source import Source
from dpsample.private.totals import ChosenSampling
from dpsample.release.bought import NOTHING, Bought
from dpsample.release.kinds import KeysOnly, Kind, kind_with_tokens
from dpsample.release.terms import Terms
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import KeepAll, Sampling


def listed_rows(drawing: Drawing) -> Source:
    """Return the rows that a release reads: all of the source, or with `only_known` those of known keys alone."""
    source = drawing.request.source
    if drawing.known is None or not drawing.only_known:
        return source
    return drawing.engine.restricted(source, drawing.known, outside=False)


def draw_tokens(
    drawing: Drawing, source: Source, chosen: ChosenSampling, bought: Bought
) -> DrawnRelease:
    """Fix the terms, and draw the keys of a source with their tokens."""
    request = drawing.request
    options = request.options
    kind = kind_of(options.budget, chosen.sampling, options.keys_only, options.grid)
    known = _known_terms(drawing, kind.per_key)
    terms = Terms(
        options.privacy,
        source.key,
        kind,
        bought,
        known,
        request.part,
        reading=request.source.reading,
    )
    sampling = chosen.sampling
    strategy = usable_strategy(drawing.engine, request.source, sampling, options.strategy)
    counting = Counting(
        source,
        drawing.keys,
        sampling,
        strategy,
        chosen.counted,
        known=drawing.known,
        only_known=drawing.only_known,
    )
    return drawing.draw_keys(drawing, counting, terms)


def _known_terms(drawing: Drawing, per_key: PerKey) -> Known | None:
    """Return the terms of the list of known keys, if there is one."""
    if drawing.known is None:
        return None
    return Known(drawing.known.num_rows, drawing.only_known, added_to_known(per_key))


def terms_of(
    budget: Budget,
    sampling: Sampling,
    keys: Sequence[str],
    keys_only: bool = False,
    grid: int | None = None,
    part: Part | None = None,
) -> Terms:
    """Return the terms of a release of elements or bounded users, without known keys and without totals."""
    kind = kind_of(budget, sampling, keys_only, grid)
    return Terms(budget.privacy, tuple(keys), kind, NOTHING, part=part)


def kind_of(budget: Budget, sampling: Sampling, keys_only: bool, grid: int | None) -> Kind:
    """Return the kind of a release of elements or bounded users: keys with tokens, or keys alone."""
    keeps_all = isinstance(sampling.sanitized_as, KeepAll)
    budget = replace(budget, all_keys=keeps_all, keys_only=keys_only)
    if keys_only:
        return KeysOnly(sampling, budget.per_key, budget.max_keys)
    return kind_with_tokens(sampling, budget.per_key, grid, budget.max_keys)

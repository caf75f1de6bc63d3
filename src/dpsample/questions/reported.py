"""What the reported keys of a question have together: the first line of every total.

One key has its own interval, as in the release's table. Several have that of the sum of their independent errors, given
that they were reported (`estimators.reported`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpsample.estimators.measures import Form, Measure
from dpsample.estimators.reported import Bools, Reported, Selected, least_of_tokens, sum_of_reported, token_values
from dpsample.estimators.tally import Tally
from dpsample.questions.selection import Selection
from dpsample.questions.single_keys import key_batch, key_frequencies
from dpsample.release.rows import added_elements, token_cells
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.release.release import Release

ONE_KEY = "the same: the question names this key alone"


def reported_sums(
    release: "Release", selection: Selection, tallies: Sequence[Tally], measure: Measure, level: float
) -> list[Reported]:
    """Return what the reported keys of each group have, for a release with tokens."""
    if measure == Measure.of("keys"):
        return [_number(tally) for tally in tallies]
    if measure.form is Form.AT_LEAST:
        return [reaching(release, rows, weights, measure, level) for rows, weights in selection.weighted_rows()[1]]
    if not any(tally.total for tally in tallies):
        return [Reported(0.0, 0.0, 0.0, 0.0) for _ in tallies]
    alone = any(tally.total == 1 for tally in tallies)
    if alone or selection.weighted or release.sampling.seed is not None:
        groups = selection.weighted_rows()[1]
        return [_of_rows(release, rows, weights, measure, level) for rows, weights in groups]
    grid = release.grid or 1
    return [_together(release, _by_token(release, tally, measure, grid), measure, level) for tally in tallies]


def _number(tally: Tally) -> Reported:
    """The number of reported keys, or the sum of their weights, is known."""
    number = float(tally.weights.sum())
    return Reported(number, 0.0, number, number)


def reaching(release: "Release", rows: Ints, weights: Floats, measure: Measure, level: float) -> Reported:
    """The number of some reported keys that have a frequency or more, or the sum of their weights.

    By intervals that all hold at once (Bonferroni): of the keys that have it for certain, and of those that may.
    """
    if not len(rows):
        return Reported(0.0, 0.0, 0.0, 0.0)
    ends = key_frequencies(release, rows, 1 - (1 - level) / len(rows))
    value, certain, possible = (measure.function(np.asarray(i, np.float64)) > 0 for i in ends)
    return number_between(weights, value, certain, possible)


def number_between(weights: Floats, value: Bools, certain: Bools, possible: Bools) -> Reported:
    """Return a sum of weights over keys that are certain, and any of those that are possible."""
    uncertain = weights[possible & ~certain]
    sure = float(weights[certain].sum())
    low, high = sure + float(np.minimum(uncertain, 0).sum()), sure + float(np.maximum(uncertain, 0).sum())
    return Reported(min(max(float(weights[value].sum()), low), high), math.nan, low, high)


def _of_rows(release: "Release", rows: Ints, weights: Floats, measure: Measure, level: float) -> Reported:
    """The sum over some rows of a release: of one, its own interval."""
    if len(rows) == 1:
        return _one_key(release, rows, float(weights[0]), measure, level)
    cells = token_cells(release.table["token"].take(pa.array(rows)), release.grid or 1)
    if release.sampling.seed is None:
        return sum_of_tokens(release, cells, weights, measure, level)
    added = added_elements(key_batch(release.table.take(pa.array(rows))), release.terms)
    return _coordinated(release, cells, added, weights, measure, level)


def sum_of_tokens(release: "Release", cells: Ints, weights: Floats, measure: Measure, level: float) -> Reported:
    """Return the weighted sum over reported keys, by their tokens in units of 1/grid; of any number of keys but one."""
    if not len(cells):
        return Reported(0.0, 0.0, 0.0, 0.0)
    grid = release.grid or 1
    certain = measure(least_of_tokens(cells, _scheme(release)))
    return _together(release, Selected.of(cells / grid, weights, certain), measure, level)


def added_reported(parts: Sequence[Reported]) -> Reported:
    """Return the sum of independent sums: distances of ends from values add up by their squares."""
    value = sum(part.value for part in parts)
    down, up = (math.hypot(*(getattr(part, end) - part.value for part in parts)) for end in ("low", "high"))
    return Reported(value, math.hypot(*(part.standard_error for part in parts)), value - down, value + up)


def _one_key(release: "Release", rows: Ints, weight: float, measure: Measure, level: float) -> Reported:
    """What one key has, as in the release's table."""
    ends = [weight * float(measure.function(i.astype(np.float64))[0]) for i in key_frequencies(release, rows, level)]
    return Reported(ends[0], np.nan, min(ends), max(ends))


def _coordinated(
    release: "Release", cells: Ints, added: Ints, weights: Floats, measure: Measure, level: float
) -> Reported:
    """The sum over keys of a coordinated sample: each has the law of a frequency that is counted from its first one.

    Only sums of such frequencies have one law. Other functions are taken key by key: their errors are independent, too.
    """
    grid = release.grid or 1
    if measure != Measure.of("frequency"):
        ends = [i - added for i in likely_frequencies(cells + added * grid, *_scheme(release), level)]
        value, low, high = (measure.function(i.astype(np.float64)) for i in ends)
        return independent(weights, value, low, high)
    raised = Selected.of((cells + added * grid) / grid, weights, np.ones(len(cells)))
    found, before = _together(release, raised, measure, level), float(weights @ added)
    return replace(found, value=found.value - before, low=found.low - before, high=found.high - before)


def independent(weights: Floats, value: Floats, low: Floats, high: Floats) -> Reported:
    """Return a weighted sum of numbers whose errors are independent: these add up by their squares."""
    down, up = weights * (value - low), weights * (high - value)
    ends = np.where(weights >= 0, down, -up), np.where(weights >= 0, up, -down)
    centre = float(weights @ value)
    return Reported(centre, np.nan, centre - float(np.linalg.norm(ends[0])), centre + float(np.linalg.norm(ends[1])))


def _by_token(release: "Release", tally: Tally, measure: Measure, grid: int) -> Selected:
    """The keys of a tally without weights."""
    keys = tally.keys.astype(np.float64)
    certain = measure(least_of_tokens(tally.cells, _scheme(release)))
    return Selected(tally.cells / grid, keys, keys, keys, certain)


def _scheme(release: "Release") -> Scheme:
    return Scheme(release.sampling.sanitized_as, release.per_key, release.grid or 1)


def _together(release: "Release", keys: Selected, measure: Measure, level: float) -> Reported:
    """The sum over several keys."""
    largest = 1 << int(keys.tokens.max()).bit_length()
    return sum_of_reported(keys, token_values(_scheme(release), measure, largest), level)

"""What the reported keys of a question have together: the first line of every total.

One key has its own interval, as in the release's table. Several have that of the sum of their independent errors, given
that they were reported (`estimators.reported`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsample.answers.selection import Selection
from dpsample.answers.tokens import TokenView
from dpsample.estimators.measures import FREQUENCY, KEYS, Form, Measure
from dpsample.estimators.reported import (
    Bools,
    Reported,
    Selected,
    least_of_tokens,
    sum_of_reported,
    token_values,
)
from dpsample.estimators.tally import Tally
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints

ONE_KEY = "the same: the question names this key alone"
NOTHING = Reported(0.0, 0.0, 0.0, 0.0)


def known_number(number: float) -> Reported:
    """Return a number of reported keys, or a sum of their weights, which has no error."""
    return Reported(number, 0.0, number, number)


def number_between(weights: Floats, value: Bools, certain: Bools, possible: Bools) -> Reported:
    """Return the sum of the weights of keys that are certain, and of any of those that are possible.

    Its value is the sum over the keys that count by their likeliest frequency: `value`.
    """
    uncertain = weights[possible & ~certain]
    sure = float(weights[certain].sum())
    negative = np.minimum(uncertain, 0)
    positive = np.maximum(uncertain, 0)
    low = sure + float(negative.sum())
    high = sure + float(positive.sum())
    likely = float(weights[value].sum())
    likely = min(max(likely, low), high)
    return Reported(likely, math.nan, low, high)


def added_reported(parts: Sequence[Reported]) -> Reported:
    """Return the sum of independent sums: distances of ends from values add up by their squares."""
    value = sum(part.value for part in parts)
    error = math.hypot(*[part.standard_error for part in parts])
    below = [part.value - part.low for part in parts]
    above = [part.high - part.value for part in parts]
    down = math.hypot(*below)
    up = math.hypot(*above)
    return Reported(value, error, value - down, value + up)


@dataclass(frozen=True, eq=False)
class ReportedSums:
    """Sums of a measure over reported keys with tokens, with intervals of a level."""

    view: TokenView
    measure: Measure
    level: float

    def of_groups(self, selection: Selection, tallies: Sequence[Tally]) -> list[Reported]:
        """Return what the reported keys of each group have."""
        if self.measure == KEYS:
            return [known_number(float(tally.weights.sum())) for tally in tallies]
        if self.measure.form is Form.AT_LEAST:
            groups = selection.weighted_rows()[1]
            return [self.number_reaching(rows, weights) for rows, weights in groups]
        sizes = [tally.total for tally in tallies]
        if not any(sizes):
            return [NOTHING for _ in tallies]
        if 1 in sizes or selection.weighted or self.view.is_coordinated:
            groups = selection.weighted_rows()[1]
            return [self.of_rows(rows, weights) for rows, weights in groups]
        return [self._together(self._by_token(tally)) for tally in tallies]

    def number_reaching(self, rows: Ints, weights: Floats) -> Reported:
        """The number of keys that have a frequency or more, or the sum of their weights.

        By intervals that all hold at once (Bonferroni): of the keys that have it for certain, and of those that may.
        """
        if not len(rows):
            return NOTHING
        level_of_each = 1 - (1 - self.level) / len(rows)
        likeliest, low, high = self.view.frequencies(rows, level_of_each)
        value = self._of(likeliest) > 0
        certain = self._of(low) > 0
        possible = self._of(high) > 0
        return number_between(weights, value, certain, possible)

    def of_rows(self, rows: Ints, weights: Floats) -> Reported:
        """The weighted sum over some rows; of one key, with its own interval."""
        if len(rows) == 1:
            return self._of_one_key(rows, float(weights[0]))
        cells = self.view.cells[rows]
        if self.view.is_coordinated and len(rows):
            return self._coordinated(cells, self.view.added[rows], weights)
        return self.of_tokens(cells, weights)

    def of_tokens(self, cells: Ints, weights: Floats) -> Reported:
        """The weighted sum over keys by their tokens, in units of 1/grid; of any number of keys but one."""
        if not len(cells):
            return NOTHING
        scheme = self.view.sanitized_as
        certain = self.measure(least_of_tokens(cells, scheme))
        keys = Selected.of(cells / scheme.grid, weights, certain)
        return self._together(keys)

    def _of_one_key(self, rows: Ints, weight: float) -> Reported:
        """What one key has, as in the release's table."""
        frequencies = self.view.frequencies(rows, self.level)
        numbers = [weight * self._of(frequency).item() for frequency in frequencies]
        value, *_ = numbers
        return Reported(value, math.nan, min(numbers), max(numbers))

    def _coordinated(self, cells: Ints, added: Ints, weights: Floats) -> Reported:
        """The sum over keys of a coordinated sample: each has the law of a frequency that is counted from its first.

        Only sums of such frequencies have one law. Other functions are taken key by key: their errors are independent.
        """
        scheme = self.view.sanitized_as
        raised = cells + added * scheme.grid
        if self.measure != FREQUENCY:
            frequencies = [i - added for i in likely_frequencies(raised, *scheme, self.level)]
            value, low, high = (self._of(frequency) for frequency in frequencies)
            return independent(weights, value, low, high)
        keys = Selected.of(raised / scheme.grid, weights, certain=np.ones(len(cells)))
        together = self._together(keys)
        before = float(weights @ added)
        return replace(
            together,
            value=together.value - before,
            low=together.low - before,
            high=together.high - before,
        )

    def _by_token(self, tally: Tally) -> Selected:
        """The keys of a tally without weights."""
        tokens = tally.cells / self.view.scheme.grid
        keys = tally.keys.astype(np.float64)
        least = least_of_tokens(tally.cells, self.view.sanitized_as)
        certain = self.measure(least)
        # without weights, their sums and the sums of their squares are numbers of keys, too
        return Selected(tokens, keys, keys, keys, certain)

    def _together(self, keys: Selected) -> Reported:
        """The sum over several keys."""
        # a power of two, so that few tables of values serve all sums
        largest = 1 << int(keys.tokens.max()).bit_length()
        values = token_values(self.view.sanitized_as, self.measure, largest)
        return sum_of_reported(keys, values, self.level)

    def _of(self, frequencies: Ints) -> Floats:
        """The measure of frequencies that need not be whole."""
        numbers = np.asarray(frequencies, np.float64)
        return np.asarray(self.measure.function(numbers))


def independent(weights: Floats, value: Floats, low: Floats, high: Floats) -> Reported:
    """Return a weighted sum of numbers whose errors are independent: these add up by their squares."""
    one_end = weights * (low - value)
    other_end = weights * (high - value)
    below = np.minimum(one_end, other_end)
    above = np.maximum(one_end, other_end)
    down = float(np.linalg.norm(below))
    up = float(np.linalg.norm(above))
    centre = float(weights @ value)
    return Reported(centre, math.nan, centre - down, centre + up)

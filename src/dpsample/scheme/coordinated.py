"""Coordinated samples: a public hash of the key decides, so that samples of several days have the same keys.

A key x has a number u_x in [0, 1), its hash with a public seed, and is sampled if u_x < q_i. Once u_x is known this is
a step: the key is sampled if its frequency is at least h_x, the smallest one with q > u_x. So keys are sanitized as all
keys are (`KeepAll`), at the frequency i - h_x + 1, and h_x - 1 is added to the token. This is private for every seed
(docs/theory.md, section 4, Coordinated samples).

    first_kept      u_x -> h_x, exactly
    MixedReporting  the laws over a random seed: a mixture of the laws of all keys, with weights q_h - q_{h-1}

The mixture is for estimators and for words. Nothing is drawn from it.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.bisection import first_integer
from dpsample.scheme.law import Law, first_frequency
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import (
    Floats,
    Ints,
    KeepAll,
    Ppswor,
    Priority,
    Sampling,
    as_frequencies,
)
from dpsample.scheme.tail_map import cell_masses

if TYPE_CHECKING:
    from dpsample.scheme.per_key import PerKey

# h is at most this, so that every token, a multiple of 1/1024 above it, is a float
LAST_FIRST = 1 << 42
HASH_BITS = 128
# precisions of q at which u is compared with it, one after another: more can only be needed where the two are equal
_EXACT_BITS = (192, 512, 1408)
# relative: floats of i**power err by a few units in the last place, and this is 128; what is closer to an integer is
# decided exactly
_CLOSE = 2.0**-46
# A mixture's means are tabulated up to this many times the frequencies of its last row, or up to this many numbers.
# Fewer make estimates of frequent keys less precise, more take longer.
_NEAR_ROWS = 8
_NEAR_SIZE = 1 << 22
# rows of a mixture; with (0.01, 1e-6) one row then stands for 7, and pi errs by 3e-4 of itself
_MOST_ROWS = 1024
# relative, of the frequencies between which means are interpolated; q then errs by 5e-6 at most
_SPACING = 1 / 128

Words = NDArray[np.uint64]


def first_kept(hashes: Words, sampling: Sampling) -> Ints:
    """Return h, the first frequency at which a key of each hash is sampled; 2**42 if there is none, or a larger one.

    `hashes` has two words for each key, the high one first: u is (2**64 high + low) / 2**128. The key is sampled at
    frequency i if u < q_i. Floats decide this where they can, and bounds of the real q_i elsewhere.

    >>> half = np.array([[2**63, 0]], np.uint64)
    >>> first_kept(half, Ppswor(0.01, seed="public")), first_kept(half, Priority(0.01, seed="public"))
    (array([70]), array([51]))
    """
    assert isinstance(sampling, Ppswor | Priority)
    real, error = _real_first(hashes, sampling)
    least_before = np.floor(real - error)  # h - 1 is from this
    most_before = np.floor(real + error)  # to this
    last = _last_first(sampling)
    is_ever_sampled = least_before < last
    first = np.where(is_ever_sampled, most_before + 1, LAST_FIRST).astype(np.int64)
    undecided = np.flatnonzero(is_ever_sampled & (least_before != most_before))
    for key in undecided.tolist():
        high, low = hashes[key].tolist()
        u = high << 64 | low
        not_yet = max(int(least_before[key]), 0)
        at_last = min(int(most_before[key]) + 1, last)
        first[key] = _first_exactly(u, not_yet, at_last, sampling)
    return np.minimum(first, LAST_FIRST)


def _real_first(hashes: Words, sampling: "Ppswor | Priority") -> tuple[Floats, Floats]:
    """Return the real frequency at which q reaches u, for each key, and a bound of its error.

    ``tau i**power`` is then u for priority sampling, and ``-ln(1 - u)`` for ppswor.
    """
    x = _minus_log_complement(hashes) if isinstance(sampling, Ppswor) else _uniform(hashes)
    power = float(sampling.power)
    weights = x / float(sampling.tau)
    with np.errstate(over="ignore"):
        real = weights ** (1 / power) if power else weights
    real = np.minimum(real, 2.0 * LAST_FIRST)
    of_root = 1 / power if power else 0  # a root multiplies relative errors
    return real, _CLOSE * (1 + of_root) * (real + 1)


def _uniform(hashes: Words) -> Floats:
    """Return u, from its two words."""
    high, low = hashes.T
    return np.asarray(high * 2.0**-64 + low * 2.0**-128)


def _minus_log_complement(hashes: Words) -> Floats:
    """Return -ln(1 - u), accurate also where 1 - u is small."""
    high, low = hashes.T
    u = _uniform(hashes)
    complement = ~high * 2.0**-64 + (~low + 1.0) * 2.0**-128  # ~high is 2**64 - 1 - high
    by_u = -np.log1p(-np.minimum(u, 0.5))
    by_complement = -np.log(complement)
    return np.where(u < 0.5, by_u, by_complement)


def _last_first(sampling: "Ppswor | Priority") -> int:
    """Return the last frequency at which a key can be sampled for the first time."""
    if not sampling.power:  # q is the same at all frequencies
        return 1
    return LAST_FIRST if sampling.cap is None else min(sampling.cap, LAST_FIRST)


def _first_exactly(u: int, low: int, high: int, sampling: Sampling) -> int:
    """Return the first frequency above `low` and up to `high` at which q is above u / 2**128; else 2**42."""
    if not _is_below_q(u, high, sampling):
        return LAST_FIRST
    return first_integer(lambda i: _is_below_q(u, i, sampling), low, high)


def _is_below_q(u: int, frequency: int, sampling: Sampling) -> bool:
    """Whether u / 2**128 is below q.

    Bounds tell this unless the two are equal, and equal numbers are not below. Only roots can be equal to u without
    bounds that say so: numbers that differ would differ within the last precision.
    """
    for bits in _EXACT_BITS:
        low, high = sampling.bounds(frequency, bits)
        scaled = u << (bits - HASH_BITS)
        if scaled < low:
            return True
        if scaled >= high:
            return False
    return False


class _Rows:
    """The rows of all keys that a mixture has, from 1 on; the last stands for all later ones.

    Where epsilon is small, laws change little from row to row, and one row in the middle stands for several.
    """

    def __init__(self, steady: int) -> None:
        rounded_up = -(-steady // _MOST_ROWS)
        step = rounded_up | 1  # odd, so that there is a row in the middle
        before_steady = np.arange(1, steady, step, dtype=np.int64)
        self.starts: Ints = np.append(before_steady, steady)
        ends = np.append(self.starts[1:] - 1, steady)
        self.rows: Ints = (self.starts + ends) // 2

    def weights(self, sampling: Sampling, frequencies: Ints) -> Floats:
        """Return the probability that a key of each frequency is in each row: [frequency, row].

        It is in row k or later if it is first kept at i - k + 1 or before.
        """
        first = np.maximum(frequencies[:, None] - self.starts + 1, 0)
        in_row_or_later = sampling.q(first)
        not_in_row_or_later = sampling.complement(first)
        # differences of q where it is small, and of 1 - q where that is
        by_q = -np.diff(in_row_or_later)
        by_complement = np.diff(not_in_row_or_later)
        in_row = np.where(in_row_or_later[:, :-1] < 0.5, by_q, by_complement)
        in_last_row = in_row_or_later[:, -1:]
        return np.append(in_row, in_last_row, axis=1)


class _Mixture:
    """The means of some numbers of the rows of all keys, at the frequencies of a coordinated sample.

    A key of frequency i is in row k = i - h + 1 if it is first kept at h, with probability q_h - q_{h-1}. Means at low
    frequencies are tabulated; at others, they are interpolated between frequencies in equal ratios, the knots.
    """

    def __init__(self, sampling: Sampling, rows: _Rows, of_rows: Floats) -> None:
        self._sampling = sampling
        self._rows = rows
        self._of_rows = of_rows  # [row, number]
        self.numbers = of_rows.shape[1]
        last_row = int(rows.starts[-1])
        self._last_tabulated = max(last_row, min(_NEAR_ROWS * last_row, _NEAR_SIZE // self.numbers))

    def at(self, frequencies: Ints, numbers: Any = slice(None)) -> Floats:
        """Return the means of all numbers at each frequency, [frequency, number]; or of one number of each."""
        is_tabulated = frequencies <= self._last_tabulated
        if is_tabulated.all():
            return np.asarray(self._table[frequencies, numbers])
        tabulated = self._table[np.minimum(frequencies, self._last_tabulated), numbers]
        interpolated = self._interpolated(frequencies, numbers)
        if isinstance(numbers, slice):
            is_tabulated = is_tabulated[:, None]
        means: Floats = np.where(is_tabulated, tabulated, interpolated)
        return means

    def _interpolated(self, frequencies: Ints, numbers: Any) -> Floats:
        """Return the same, between the knots around each frequency."""
        ratio = np.maximum(frequencies / self._last_tabulated, 1.0)
        knots_passed = np.log(ratio) / np.log1p(_SPACING)
        knot_below = np.floor(knots_passed).astype(np.int64)
        knots, back = np.unique(knot_below, return_inverse=True)
        lows = self._frequency_at(knots)
        highs = self._frequency_at(knots + 1)
        at_low = self._means(lows)
        at_high = self._means(highs)
        gaps = (highs - lows).clip(min=1)
        share = ((frequencies - lows[back]) / gaps[back]).clip(0, 1)
        if isinstance(numbers, slice):
            share = share[:, None]
        from_low = (1 - share) * at_low[back, numbers]
        means: Floats = from_low + share * at_high[back, numbers]
        return means

    def _frequency_at(self, knots: Ints) -> Ints:
        """Return the frequencies of knots, by their numbers from the end of the table on."""
        frequencies = self._last_tabulated * (1 + _SPACING) ** knots
        capped: Ints = np.minimum(frequencies, MAX_FREQUENCY / 2).astype(np.int64)
        return capped

    @cached_property
    def _table(self) -> Floats:
        """The means at the frequencies from 0 on."""
        return self._means(np.arange(self._last_tabulated + 1, dtype=np.int64))

    def _means(self, frequencies: Ints) -> Floats:
        """Return the means, [frequency, number], in parts: the weights of rows are large arrays."""
        at_once = max(1, _NEAR_SIZE // len(self._of_rows))
        means = []
        for start in range(0, len(frequencies), at_once):
            weights = self._rows.weights(self._sampling, frequencies[start : start + at_once])
            means.append(weights @ self._of_rows)
        return np.concatenate(means)


class _LawsOfTokens(NamedTuple):
    """S, the gap to pi, and the probability of a token, by its lag behind the frequency: 0, 1/grid, 2/grid, ..."""

    above: _Mixture
    gap: _Mixture
    mass: _Mixture


class MixedReporting(Law):
    """Pi and tokens of a coordinated sample over a random seed: a mixture of those of all keys."""

    def __init__(self, sampling: Sampling, per_key: "PerKey") -> None:
        self.sampling = sampling
        self.per_key = per_key
        self.base = Reporting.of(KeepAll(), per_key)
        self.bell_shaped = self.base.bell_shaped
        self._rows = _Rows(self.base.steady_from)
        self._laws: dict[int, _LawsOfTokens] = {}  # by grid

    @cached_property
    def constant_from(self) -> int:
        """The frequency after which q stays the same, to 2**-64, for all rows of the mixture."""
        bounds = self.sampling.bounds
        last = bounds(LAST_FIRST, 64)
        q_constant_from = first_integer(lambda i: bounds(i, 64) == last, 0, LAST_FIRST)
        return q_constant_from + int(self._rows.starts[-1])

    @cached_property
    def _numbers(self) -> _Mixture:
        """Three numbers of rows: pi, 1 - pi of sampled keys, and `unused_growth`."""
        rows = self._rows.rows
        pi = self.base.probabilities(rows)
        absent = self.base.probabilities(rows, complement=True)
        all_rows = np.arange(int(rows[-1]) + 1, dtype=np.int64)
        _, unused = self.base.unused_growth(all_rows)
        of_rows = np.stack([pi, absent, unused[rows - 1]], axis=1)
        return self._mixture(of_rows)

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:  # noqa: D102
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        pi, absent_if_sampled, _ = self._numbers.at(i).T
        values: Floats = pi
        if complement:
            values = np.minimum(absent_if_sampled + self.sampling.complement(i), 1.0)
        return values[back].reshape(np.shape(frequencies))

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return the probability that a key is reported that is sampled from frequency 1 on."""
        return self.base.probabilities(frequencies)

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:  # noqa: D102
        pi, _, unused = self._numbers.at(rows[1:]).T
        return pi, unused

    def _laws_of(self, grid: int) -> _LawsOfTokens:
        if grid not in self._laws:
            above, gap = self.base.tails(self._rows.rows, grid)
            mass = cell_masses(above, gap)
            self._laws[grid] = _LawsOfTokens(
                self._mixture(above.T), self._mixture(gap.T), self._mixture(mass.T)
            )
        return self._laws[grid]

    def _mixture(self, of_rows: Floats) -> _Mixture:
        return _Mixture(self.sampling, self._rows, of_rows)

    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:  # noqa: D102
        laws = self._laws_of(grid)
        return laws.above.at(frequencies).T, laws.gap.at(frequencies).T

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:  # noqa: D102
        laws = self._laws_of(grid)
        first = first_frequency(cells, grid)
        k = np.arange(window + 1)[:, None]
        frequency = np.minimum(first + k, MAX_FREQUENCY)
        lag = first * grid - cells + grid * k
        last_lag = laws.mass.numbers - 1
        has_token = lag <= last_lag

        def at_lag(law: _Mixture) -> Floats:
            lags = np.minimum(lag, last_lag)
            means = law.at(frequency.ravel(), lags.ravel())
            return means.reshape(lag.shape)

        mass = np.where(has_token, at_lag(laws.mass), 0.0)
        above = np.where(has_token, at_lag(laws.above), 1.0)
        return mass, above

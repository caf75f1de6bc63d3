"""Coordinated samples: a public hash of the key decides, so that samples of several days have the same keys.

A key x has a number u_x in [0, 1), its hash with a public seed, and is sampled if u_x < q_i. Once u_x is known this is
a step: the key is sampled from the frequency h_x on, the smallest one with q > u_x, and never below it. So keys are
sanitized as all keys are, at the frequency i - h_x + 1, and h_x - 1 is added to the token. This is private for every
seed.

    first_kept      u_x -> h_x, exactly
    MixedReporting  what is reported over a random seed: a mixture of the laws of all keys, with weights q_h - q_{h-1}

The mixture is for estimators and for words. Nothing is drawn from it.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

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

LAST_FIRST = (
    1 << 42
)  # h is at most this, so that every token, a multiple of 1/1024 above it, is a float
HASH_BITS = 128
_EXACT_BITS = (192, 512, 1408)  # precisions of q at which a comparison is tried
_CLOSE = (
    2.0**-46
)  # relative: floats of h err less, for power 1; what is closer to an integer is decided exactly
_NEAR_ROWS = 8  # times as many frequencies as rows are tabulated,
_NEAR_SIZE = 1 << 22  # unless these are more numbers; but no fewer frequencies than rows
_MOST_ROWS = (
    1024  # that a mixture has; of (0.01, 1e-6) one stands for 7, and pi errs by 3e-4 of itself
)
_SPACING = (
    1 / 128
)  # relative, of the frequencies between which means are interpolated: q errs by 5e-6 at most

Words = NDArray[np.uint64]


def first_kept(hashes: Words, sampling: Sampling) -> Ints:
    """Return h, the first frequency at which a key of each hash is sampled; 2**42 if it is larger, or never is.

    `hashes` has two words for each key, the high one first: u is (2**64 high + low) / 2**128. The key is sampled at
    frequency i if u < q_i, which is decided for the real q_i.

    >>> half = np.array([[2**63, 0]], np.uint64)
    >>> first_kept(half, Ppswor(0.01, seed="public")), first_kept(half, Priority(0.01, seed="public"))
    (array([70]), array([51]))
    """
    assert isinstance(sampling, Ppswor | Priority)
    real, error = _real_first(hashes, sampling)
    least = np.floor(real - error)  # h - 1 is one of these
    most = np.floor(real + error)
    last = _last_first(sampling)
    ever_sampled = least < last
    first = np.where(ever_sampled, most + 1, LAST_FIRST).astype(np.int64)
    undecided = ever_sampled & (least != most)
    for row in np.flatnonzero(undecided).tolist():
        high, low = hashes[row].tolist()
        u = high << 64 | low
        not_yet = max(int(least[row]), 0)
        at_last = min(int(most[row]) + 1, last)
        first[row] = _first_exactly(u, not_yet, at_last, sampling)
    return np.minimum(first, LAST_FIRST)


def _real_first(hashes: Words, sampling: "Ppswor | Priority") -> tuple[Floats, Floats]:
    """The real frequency at which q reaches u, for each key, and a bound of the error of that.

    ``tau i**power`` is then u for priority sampling, and ``-ln(1 - u)`` for ppswor.
    """
    x = _minus_log_complement(hashes) if isinstance(sampling, Ppswor) else _uniform(hashes)
    power = float(sampling.power)
    weights = x / float(sampling.tau)
    with np.errstate(over="ignore"):
        real = weights ** (1 / power) if power else weights
    real = np.minimum(real, 2.0 * LAST_FIRST)
    error = _CLOSE * (1 + 1 / max(power, 1e-3)) * (real + 1)
    return real, error


def _uniform(hashes: Words) -> Floats:
    """u, from its two words."""
    high, low = hashes.T
    return np.asarray(high * 2.0**-64 + low * 2.0**-128)


def _minus_log_complement(hashes: Words) -> Floats:
    """-ln(1 - u), also where 1 - u is small."""
    high, low = hashes.T
    u = _uniform(hashes)
    complement = ~high * 2.0**-64 + (~low + 1.0) * 2.0**-128
    by_u = -np.log1p(-np.minimum(u, 0.5))
    by_complement = -np.log(complement)
    return np.where(u < 0.5, by_u, by_complement)


def _last_first(sampling: "Ppswor | Priority") -> int:
    """The last frequency at which a key can be sampled for the first time."""
    if not sampling.power:  # q is the same at all frequencies
        return 1
    return LAST_FIRST if sampling.cap is None else min(sampling.cap, LAST_FIRST)


def _first_exactly(u: int, low: int, high: int, sampling: Sampling) -> int:
    """The first frequency above `low` and up to `high` at which q is above u / 2**128; else 2**42."""
    if not _below(u, high, sampling):
        return LAST_FIRST
    return first_integer(lambda i: _below(u, i, sampling), low, high)


def _below(u: int, frequency: int, sampling: Sampling) -> bool:
    """Whether u / 2**128 is below q; equal numbers are not. Only roots can be equal and not be told so by bounds."""
    for bits in _EXACT_BITS:
        low, high = sampling.bounds(frequency, bits)
        scaled = u << (bits - HASH_BITS)
        if scaled < low or scaled >= high:
            return scaled < low
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

        It is in the rows from k on if it is first kept at i - k + 1 or before.
        """
        first = np.maximum(frequencies[:, None] - self.starts + 1, 0)
        from_row = sampling.q(first)
        absent = sampling.complement(first)
        by_q = -np.diff(from_row)
        by_complement = np.diff(absent)
        gains = np.where(from_row[:, :-1] < 0.5, by_q, by_complement)
        last_row = from_row[:, -1:]
        return np.append(gains, last_row, axis=1)


class _Mixture:
    """The means of some numbers of the rows of all keys, at the frequencies of a coordinated sample.

    A key of frequency i is in row k = i - h + 1 if it is first kept at h, with probability q_h - q_{h-1}. Low
    frequencies are tabulated; among others, means are interpolated.
    """

    def __init__(self, sampling: Sampling, rows: _Rows, of_rows: Floats) -> None:
        self._sampling, self._rows, self._of_rows = sampling, rows, of_rows  # [row, number]
        self.numbers, last = of_rows.shape[1], int(rows.starts[-1])
        self._near = max(last, min(_NEAR_ROWS * last, _NEAR_SIZE // self.numbers))

    def at(self, frequencies: Ints, numbers: Any = slice(None)) -> Floats:
        """Return the means at some frequencies, [frequency, number]; or of one of the numbers at each."""
        start = self._near
        near = frequencies <= start
        if near.all():
            return np.asarray(self._table[frequencies, numbers])
        lows, highs, back = self._knots(frequencies)
        at_low, at_high = self._means(lows), self._means(highs)
        gaps = (highs - lows).clip(min=1)
        share = ((frequencies - lows[back]) / gaps[back]).clip(0, 1)
        if isinstance(numbers, slice):
            near, share = near[:, None], share[:, None]
        interpolated = (1 - share) * at_low[back, numbers] + share * at_high[back, numbers]
        tabulated = self._table[np.minimum(frequencies, start), numbers]
        mixed: Floats = np.where(near, tabulated, interpolated)
        return mixed

    def _knots(self, frequencies: Ints) -> tuple[Ints, Ints, Ints]:
        """The frequencies, in equal ratios, between which means are interpolated: below, above, and which of these."""
        ratio = np.maximum(frequencies / self._near, 1.0)
        place = np.log(ratio) / np.log1p(_SPACING)
        knot_below = np.floor(place).astype(np.int64)
        knots, back = np.unique(knot_below, return_inverse=True)
        lows = self._frequency_at(knots)
        highs = self._frequency_at(knots + 1)
        return lows, highs, back

    def _frequency_at(self, knots: Ints) -> Ints:
        frequencies = self._near * (1 + _SPACING) ** knots
        capped: Ints = np.minimum(frequencies, MAX_FREQUENCY / 2).astype(np.int64)
        return capped

    @cached_property
    def _table(self) -> Floats:
        """The means at the frequencies from 0 on."""
        return self._means(np.arange(self._near + 1, dtype=np.int64))

    def _means(self, frequencies: Ints) -> Floats:
        size = max(1, _NEAR_SIZE // len(self._of_rows))
        parts = (frequencies[start : start + size] for start in range(0, len(frequencies), size))
        return np.concatenate(
            [self._rows.weights(self._sampling, part) @ self._of_rows for part in parts]
        )


class MixedReporting(Law):
    """Pi and tokens of a coordinated sample over a random seed: a mixture of those of all keys."""

    def __init__(self, sampling: Sampling, per_key: "PerKey") -> None:
        self.sampling, self.per_key = sampling, per_key
        self.base = Reporting.of(KeepAll(), per_key)
        self.bell_shaped = self.base.bell_shaped
        self._rows = _Rows(self.base.steady_from)
        self._laws: dict[int, tuple[_Mixture, _Mixture, _Mixture]] = {}

    @cached_property
    def constant_from(self) -> int:
        """The frequency from which on q is the same, to 2**-64, for all rows of the mixture."""
        bounds = self.sampling.bounds
        last = bounds(LAST_FIRST, 64)
        q_constant_from = first_integer(lambda i: bounds(i, 64) == last, 0, LAST_FIRST)
        return q_constant_from + int(self._rows.starts[-1])

    @cached_property
    def _numbers(self) -> _Mixture:
        """Pi, 1 - pi of sampled keys, and what growth leaves unused."""
        rows = self._rows.rows
        pi = self.base.probabilities(rows)
        absent = self.base.probabilities(rows, complement=True)
        all_rows = np.arange(int(rows[-1]) + 1, dtype=np.int64)
        _, unused = self.base.unused_growth(all_rows)
        of_rows = np.stack([pi, absent, unused[rows - 1]], axis=1)
        return self._mixture(of_rows)

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:  # noqa: D102
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        values = self._numbers.at(i)[:, int(complement)]
        if complement:
            values = np.minimum(values + self.sampling.complement(i), 1.0)
        return values[back].reshape(np.shape(frequencies))

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return the probability that a key is reported that is sampled from frequency 1 on."""
        return self.base.probabilities(frequencies)

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:  # noqa: D102
        pi, _, unused = self._numbers.at(rows[1:]).T
        return pi, unused

    def _laws_of(self, grid: int) -> tuple[_Mixture, _Mixture, _Mixture]:
        """S, gap and mass at lags of 0, 1/grid, ... behind the frequency."""
        if grid not in self._laws:
            above, gap = self.base.tails(self._rows.rows, grid)
            mass = cell_masses(above, gap)
            self._laws[grid] = self._mixture(above.T), self._mixture(gap.T), self._mixture(mass.T)
        return self._laws[grid]

    def _mixture(self, of_rows: Floats) -> _Mixture:
        return _Mixture(self.sampling, self._rows, of_rows)

    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:  # noqa: D102
        above, gap, _ = self._laws_of(grid)
        return above.at(frequencies).T, gap.at(frequencies).T

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:  # noqa: D102
        above, _, mass = self._laws_of(grid)
        first = first_frequency(cells, grid)
        k = np.arange(window + 1)[:, None]
        lag = first * grid - cells + grid * k
        frequency = np.minimum(first + k, MAX_FREQUENCY)
        last_lag = mass.numbers - 1
        within = lag <= last_lag

        def at_lag(law: _Mixture) -> Floats:
            means = law.at(frequency.ravel(), np.minimum(lag, last_lag).ravel())
            return means.reshape(lag.shape)

        return np.where(within, at_lag(mass), 0.0), np.where(within, at_lag(above), 1.0)

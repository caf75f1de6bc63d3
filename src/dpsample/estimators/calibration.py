"""Calibration: the token laws of a scheme, and corrections of token values that remove their bias.

Seen from the tokens, frequencies are of two kinds. As long as pi grows as fast as privacy allows, by a factor of
exp(epsilon) from one frequency to the next, so does the probability of each token: given that a key is reported, all
these frequencies have nearly the same token law. They cannot be told apart, and few of their keys are reported.

The *calibration threshold* is the lowest frequency at which pi grows more slowly than that, or reaches 1/2. It is at
most the detection threshold (pi >= 1/2), and lower where sampling keeps pi below 1/2. From it on, tokens tell
frequencies apart: there are values ``a(token)`` with ``E[a] = h(i)`` at every frequency i, whatever the distribution of
the frequencies.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.law import Law
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import TokenLaw, first_frequency, support_length, token_law, token_laws

_BLOCK = (
    1 << 21
)  # tokens times frequencies at once: large, since each block walks through the supports anew

Function = Callable[[Ints], Floats]


class _Extent(NamedTuple):
    threshold: int  # the calibration threshold
    last_corrected: int  # the last frequency whose tokens are corrected
    last_frequency: int  # the last frequency of the table


@dataclass(frozen=True)
class Calibration:
    """The token laws of a scheme at the frequencies up to which pi changes: the table.

    Biases are removed from the calibration threshold on. With `balanced`, for sums that count no key below the
    threshold, they are made small from the first frequency on, and cancel out over keys.
    """

    scheme: Scheme
    tuning: Tuning = TUNING
    balanced: bool = False

    @staticmethod
    def of(scheme: Scheme, tuning: Tuning = TUNING) -> "Calibration":
        """Return the calibration of a scheme, which is costly the first time that it is used."""
        return _kept(Calibration(scheme, tuning))

    @property
    def epsilon(self) -> float:
        """The epsilon of each key, by which the width of a token's law goes."""
        return float(self.scheme.per_key.epsilon)

    @property
    def support(self) -> int:
        """The number of frequencies in the support of a token, where pi is constant."""
        return support_length(self.scheme.per_key)

    @cached_property
    def reporting(self) -> Law:
        """The reporting probabilities of the scheme."""
        return Reporting.of(self.scheme.sampling, self.scheme.per_key)

    @property
    def _bin_width(self) -> float:
        """The width of a bin of tokens, in frequencies."""
        spacing = self.tuning.table_spacing / self.epsilon
        return min(spacing, self.support / self.tuning.least_support_points)

    @cached_property
    def spacing(self) -> int:
        """The distance between the table's frequencies."""
        return max(1, round(self._bin_width))

    @property
    def before(self) -> int:
        """The last frequency before the table: no key of it, or of a lower one, is ever sampled."""
        return self.scheme.sampling.least - 1

    @cached_property
    def _extent(self) -> _Extent:
        support, before = self.support, self.before
        end = self.scheme.sampling.largest
        upto = 4 * support
        while True:  # a geometric search for where pi / q has settled
            i = np.arange(before, min(before + upto, end) + 1, dtype=np.int64)
            share = self.reported_share(i[1:])
            if share[-1] >= self.tuning.settled_share or upto >= min(end, 64 * support):
                break
            upto *= 4
        pi, unused = self.reporting.unused_growth(i)
        identified = (unused > self.tuning.growth_tolerance * pi) | (pi >= 0.5)
        threshold = int(i[1 + np.argmax(identified)]) if identified.any() else int(i[-1])
        near = share[: threshold - before + self.tuning.unsettled_supports * support]
        unsettled = np.flatnonzero(near < self.tuning.settled_share)
        settled = before + (int(unsettled[-1]) + 2 if len(unsettled) else 1)
        last = min(max(settled, threshold) + support, end)
        return _Extent(threshold, last, min(last + support, end))

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return pi / q, the probability that a sampled key is reported; if it is sampled from frequency 1 on, for a
        coordinated sample.
        """
        return self.reporting.reported_share(frequencies)

    def unreported_probability(self, frequencies: Ints) -> Floats:
        """Return 1 - pi."""
        return self.reporting.probabilities(frequencies, complement=True)

    @property
    def calibration_threshold(self) -> int:
        """The calibration threshold: the lowest frequency that tokens tell from others."""
        return self._extent.threshold

    @property
    def last_corrected(self) -> int:
        """The last frequency whose tokens are corrected."""
        return self._extent.last_corrected

    @property
    def _unbiased_from(self) -> int:
        """The frequency from which on biases are removed."""
        return self.before + 1 if self.balanced else self.calibration_threshold

    @cached_property
    def frequencies(self) -> Ints:
        """The table's frequencies; each stands for `spacing` of them."""
        first = self.before + (self.spacing + 1) // 2
        return np.arange(first, self._extent.last_frequency + 1, self.spacing, dtype=np.int64)

    @cached_property
    def below(self) -> Any:
        """Which of the table's frequencies are below the one from which on biases are removed."""
        return self.frequencies < self._unbiased_from

    @property
    def table_tokens(self) -> int:
        """The number of tokens, in units of 1/grid, that the table has."""
        return (int(self.frequencies[-1]) - self.before) * self.scheme.grid

    @property
    def last_token(self) -> int:
        """The last token of the table, in units of 1/grid."""
        return int(self.frequencies[-1]) * self.scheme.grid

    def places(self, cells: Ints) -> Ints:
        """Return the places of tokens, in units of 1/grid, among those of the table; from `table_tokens` on beyond."""
        return cells - self.before * self.scheme.grid - 1

    @property
    def feasible(self) -> bool:
        """Whether the table fits into memory; that of a very small epsilon does not."""
        return self.fits(self.scheme.grid)

    def fits(self, grid: int) -> bool:
        """Whether the table fits into memory with this grid."""
        rows = int(self.frequencies[-1]) - self.before
        return rows * grid * self.support <= self.tuning.table_limit

    @cached_property
    def _supports(self) -> tuple[Floats, Floats, Floats]:
        """Of each of the table's tokens, over its support: its probability, and this over pi where biases are removed;
        and the sum of its probabilities there.
        """
        cells = self.before * self.scheme.grid + np.arange(1, self.table_tokens + 1, dtype=np.int64)
        frequencies, mass = supports(cells, self.reporting, self.scheme.grid)
        pi = self.reporting.probabilities(frequencies)
        above = (mass > 0) & (frequencies >= self._unbiased_from)
        over_pi = np.divide(mass, pi, out=np.zeros_like(mass), where=above)
        return mass, over_pi, mass.sum(1, where=above)

    @cached_property
    def laws(self) -> Floats:
        """The probability of each token at each of the table's frequencies: [frequency, token]."""
        if self.balanced:
            return _kept(replace(self, balanced=False)).laws
        table = np.zeros((len(self.frequencies), self.table_tokens))
        mass, _, _ = self._supports
        i = self.frequencies - self.before
        for start in range(1, int(i[-1]) + 1):  # the first frequency of the next `grid` tokens
            row = -(-(start - int(i[0])) // self.spacing) if start > i[0] else 0
            offset = int(i[row]) - start if row < len(i) else mass.shape[1]
            columns = slice((start - 1) * self.scheme.grid, start * self.scheme.grid)
            rows = mass[columns, offset :: self.spacing].T
            table[row : row + len(rows), columns] = rows[: len(i) - row]
        return table

    def laws_beyond(self, frequencies: Ints) -> list[TokenLaw]:
        """Return laws at ascending frequencies; where all are shifts of one another, one is computed."""
        steady = self.reporting.steady_from
        near = frequencies[frequencies < steady]
        laws = list(token_laws(near, *self.scheme))
        if len(near) == len(frequencies):
            return laws
        law = self._steady_law
        shifts = (frequencies[len(near) :] - steady).tolist()
        return laws + [
            replace(law, frequency=steady + by, cells=law.cells + by * self.scheme.grid)
            for by in shifts
        ]

    @cached_property
    def _steady_law(self) -> TokenLaw:
        return token_law(self.reporting.steady_from, *self.scheme)

    @cached_property
    def bins(self) -> Ints:
        """The bin of each token whose value is corrected."""
        width = max(1, round(self._bin_width * self.scheme.grid))
        return (
            np.arange(
                (self._extent.last_corrected - self.before) * self.scheme.grid, dtype=np.int64
            )
            // width
        )

    @cached_property
    def binned_laws(self) -> Floats:
        """The laws of the frequencies that are not `below`, by bin."""
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        return np.add.reduceat(self.laws[~self.below, : len(self.bins)], starts, axis=1)

    @cached_property
    def gram_matrix(self) -> Floats:
        """Of each two bins, the weighted sum over frequencies of the product of their probabilities."""
        return np.asarray((self.binned_laws.T * self.frequency_weights) @ self.binned_laws)

    def posterior_mean_table(self, function: Function) -> Floats:
        """E[h / pi | token] for each of the table's tokens, as `posterior_means`."""
        _, weight, total = self._supports
        rows = self.table_tokens // self.scheme.grid
        length = weight.shape[1]
        i = self.before + np.arange(1, rows + length, dtype=np.int64)
        values = function(np.minimum(i, self.scheme.sampling.largest))
        # tokens of one first frequency have the same support
        values_by_row = sliding_window_view(values, length)[:, :, None]
        weight_by_row = weight.reshape(rows, self.scheme.grid, length)
        sums = weight_by_row @ values_by_row
        return np.divide(sums.reshape(-1), total, out=np.zeros(self.table_tokens), where=total > 0)

    def posterior_means(self, cells: Ints, functions: Sequence[Function]) -> Floats:
        """E[h / pi | token] under a uniform prior on the frequencies where biases are removed: [token, function]."""
        # tokens of frequencies at which pi is constant are shifts of the first such ones
        beyond = first_frequency(cells, self.scheme.grid) - self.reporting.constant_from
        shift = np.maximum(beyond, 0)
        walked, place = np.unique(cells - shift * self.scheme.grid, return_inverse=True)
        means = np.zeros((len(cells), len(functions)))
        at_once = max(1, _BLOCK // self.support)
        for start in range(0, len(walked), at_once):
            weight = self._posterior_weights(walked[start : start + at_once])
            have_these = np.flatnonzero((place >= start) & (place < start + at_once))
            for first in range(0, len(have_these), at_once):
                tokens = have_these[first : first + at_once]
                weight_of_tokens = weight[place[tokens] - start]
                means[tokens] = self._weighted_means(cells[tokens], weight_of_tokens, functions)
        return means

    def _weighted_means(self, cells: Ints, weight: Floats, functions: Sequence[Function]) -> Floats:
        """Sum each function over the support of each token, with its weights: [token, function]."""
        length = weight.shape[1]
        frequencies, starts = _windows(first_frequency(cells, self.scheme.grid), length)
        frequencies = np.minimum(frequencies, self.scheme.sampling.largest)
        sums = np.empty((len(cells), len(functions)))
        for n, function in enumerate(functions):
            values = sliding_window_view(function(frequencies), length)[starts]
            sums[:, n] = np.einsum("tk,tk->t", weight, values)
        return sums

    def _posterior_weights(self, cells: Ints) -> Floats:
        """The weight of each frequency of a token's support in a posterior mean: [token, frequency]."""
        if (
            len(cells) <= self.scheme.grid
            and (first_frequency(cells, self.scheme.grid) == self.reporting.constant_from).all()
        ):
            return self._steady_weights[cells % self.scheme.grid]
        return self._walked_weights(cells)

    @cached_property
    def _steady_weights(self) -> Floats:
        """The same of the first tokens from which on all are shifts of one another, by their remainder: kept."""
        cells = (
            self.reporting.constant_from * self.scheme.grid
            - np.arange(self.scheme.grid, dtype=np.int64)[::-1]
        )
        return self._walked_weights(cells[np.argsort(cells % self.scheme.grid)])

    def _walked_weights(self, cells: Ints) -> Floats:
        """The probability of each frequency of a token's support, given the token, over pi: [token, frequency]."""
        frequencies, mass = supports(cells, self.reporting, self.scheme.grid)
        mass = np.where(frequencies >= self._unbiased_from, mass, 0.0)
        total = np.maximum(mass.sum(1, keepdims=True), 1e-300)
        pi = self.reporting.probabilities(frequencies)
        weights = np.zeros_like(mass)
        np.divide(mass, pi * total, out=weights, where=mass > 0)
        return weights

    def bias_correction(self, bias: Floats, penalty: float) -> Floats:
        """Return what to add to token values, by bin, to remove a bias at the frequencies that are not `below`.

        Minimises ``sum over i of w_i (penalty * bias_i**2 + E_i[correction**2])``, with w the `frequency_weights`. For
        several biases, in rows, there are as many rows.
        """
        weight, A, inverse, scale, empty = _normal_equations(self, penalty)
        target = scale * ((weight * penalty * bias) @ self.binned_laws)
        correction: Floats = target @ inverse
        correction += (target - correction @ A) @ inverse  # one step of iterative refinement
        correction *= -scale
        correction[..., empty] = 0
        if self.balanced:
            correction += self._balance(bias + correction @ self.binned_laws.T, inverse, scale)
        return correction

    def _balance(self, bias: Floats, inverse: Floats, scale: Floats) -> Floats:
        """Return what to add to a correction so that a bias cancels out.

        Over keys whose numbers fall with a power of the frequency; and over the keys of some low frequencies that
        happen to be reported, whatever their number.
        """
        numbers = np.vstack(
            [self._numbers_by_power(), self._numbers_of_rare()]
        )  # of keys: [case, frequency]
        moments = numbers @ self.binned_laws
        spread = (scale * moments) @ inverse * scale
        size = 1 / np.sqrt((spread * moments).sum(1))
        system = spread @ moments.T * size * size[:, None]
        biases = size * (numbers @ bias)
        # low frequencies may be the same one: then the least of all solutions
        solution = np.linalg.lstsq(system, biases, rcond=1e-9)[0]
        return np.asarray(-(size * solution) @ spread)

    def _numbers_by_power(self) -> Floats:
        """Numbers of keys at each frequency that fall with a power of it, for each of the balanced powers."""
        relative = (self.frequencies - self.before) / (self.calibration_threshold - self.before)
        powers = np.array(self.tuning.balanced_powers)[:, None]
        return np.asarray(relative**-powers)

    def _numbers_of_rare(self) -> Floats:
        """Keys at one low frequency, as many as make one reported key, for each of some low frequencies."""
        deviation = math.sqrt(2) / self.epsilon
        deviations_below = np.array(self.tuning.balanced_deviations)
        rare = self.calibration_threshold - deviations_below * deviation
        places = np.searchsorted(self.frequencies, np.maximum(rare, self.before + 1))
        pi = self.reporting.probabilities(self.frequencies[places])
        numbers = np.zeros((len(places), len(self.frequencies)))
        for row, place in enumerate(places):
            numbers[row, place] = 1 / pi[row]
        return numbers

    @cached_property
    def frequency_weights(self) -> Floats:
        """Weights of the frequencies that are not `below`, by which all of them count alike."""
        i = self.frequencies[~self.below]
        pi, i = self.reporting.probabilities(i), i - self.before
        deviation = self.tuning.token_deviation / self.epsilon
        variance = (
            i.astype(np.float64) ** 2 * (1 - pi) + deviation**2
        ) / pi  # of one key's estimate, about
        return np.asarray(1 / (variance * i))


def _windows(first: Ints, length: int) -> tuple[Ints, Ints]:
    """Ascending frequencies that have those of all windows of a length, and where each window starts among them."""
    starts = np.unique(first)
    before_all = starts[:1] - length - 1
    begins_span = np.flatnonzero(np.diff(starts, prepend=before_all) > length)
    span_starts = starts[begins_span]
    last_starts = np.append(starts[begins_span[1:] - 1], starts[-1:])
    spans = []
    for start, last in zip(span_starts, last_starts, strict=True):
        spans.append(np.arange(start, last + length))
    i = np.concatenate(spans)
    return i, np.searchsorted(i, first)


@lru_cache(maxsize=8)  # a sum from bounded noise has seven penalties; each may take many megabytes
def _normal_equations(
    calibration: Calibration, penalty: float
) -> tuple[Floats, Floats, Floats, Floats, Any]:
    """The normal equations of `bias_correction`, which are the same for every function: costly, so kept."""
    weight = calibration.frequency_weights
    square = weight @ calibration.binned_laws
    empty = square <= calibration.tuning.empty_bin * square.max()
    A = penalty * calibration.gram_matrix
    A[np.diag_indices_from(A)] += np.where(empty, square.max(), square)
    scale = 1 / np.sqrt(np.diag(A))
    A = A * scale * scale[:, None]
    A[np.diag_indices_from(A)] += calibration.tuning.ridge
    return weight, A, np.linalg.inv(A).astype(np.float64, copy=False), scale, empty


def calibration_for(of: Function, calibration: Calibration) -> Calibration:
    """Return the calibration by which a function is summed.

    Where pi grows as fast as privacy allows, keys below the threshold have the tokens of keys at it: values without
    bias at the threshold have none below. Bounded noise has another token law at each frequency, and is bell-shaped: no
    values of a moderate size tell keys below a frequency from those at it. If keys below the threshold count 0, biases
    are balanced instead, as far as the table goes; beyond it, intervals allow for all of them.
    """
    if not calibration.reporting.bell_shaped:
        return calibration
    counted = calibration.frequencies[of(calibration.frequencies) > 0]
    if (
        len(counted)
        and calibration.calibration_threshold <= counted[0] <= calibration.last_corrected
    ):
        return _kept(replace(calibration, balanced=True))
    return calibration


@lru_cache(maxsize=16)
def _kept(calibration: Calibration) -> Calibration:
    """The first of equal calibrations, which has computed its table."""
    return calibration

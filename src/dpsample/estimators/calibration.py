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

# Tokens times frequencies at once. Large, since each block walks through the supports anew; larger takes more memory.
_BLOCK = 1 << 21
_TINY = 1e-300  # keeps ratios of zeros defined
# The search for where pi / q settles, in supports of a token: the first stretch, and the longest. A longer first one
# costs time alone; a shorter last one leaves biases where sampling keeps pi unsettled for long.
_FIRST_SUPPORTS = 4
_MOST_SUPPORTS = 64
_SAME_FREQUENCY = (
    1e-9  # singular values that are smaller, relative to the largest one, count as 0: rounding
)

Function = Callable[[Ints], Floats]


class _Extent(NamedTuple):
    """How far the table of a calibration goes."""

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
        """The epsilon of each key; the width of a token's law is proportional to its inverse."""
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
        tuning = self.tuning
        before = self.before
        end = self.scheme.sampling.largest
        i = self._searched_frequencies
        share = self.reported_share(i[1:])

        pi, unused = self.reporting.unused_growth(i)
        grows_more_slowly = unused > tuning.growth_tolerance * pi
        is_told_apart = grows_more_slowly | (pi >= 0.5)
        threshold = int(i[-1])
        if is_told_apart.any():
            threshold = int(i[1 + np.argmax(is_told_apart)])

        # tokens are corrected up to where pi / q has settled near the threshold, and a support further
        length = threshold - before + tuning.unsettled_supports * self.support
        unsettled = np.flatnonzero(share[:length] < tuning.settled_share)
        settled = before + 1
        if len(unsettled):
            settled = before + int(unsettled[-1]) + 2
        last_corrected = min(max(settled, threshold) + self.support, end)
        last_frequency = min(last_corrected + self.support, end)
        return _Extent(threshold, last_corrected, last_frequency)

    @property
    def _searched_frequencies(self) -> Ints:
        """The frequencies from `before` up to where pi / q has settled, or up to 64 supports: more for each try."""
        end = self.scheme.sampling.largest
        most = min(end, _MOST_SUPPORTS * self.support)
        number = _FIRST_SUPPORTS * self.support
        while True:
            last = min(self.before + number, end)
            [share] = self.reported_share(np.array([last]))
            if share >= self.tuning.settled_share or number >= most:
                return np.arange(self.before, last + 1, dtype=np.int64)
            number *= 4

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return pi / q, the probability that a sampled key is reported.

        Of a coordinated sample, it is that of a key that is sampled from frequency 1 on.
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
        """The last frequency whose tokens have values with a correction."""
        return self._extent.last_corrected

    @property
    def _unbiased_from(self) -> int:
        """The frequency from which on biases are removed."""
        return self.before + 1 if self.balanced else self.calibration_threshold

    @cached_property
    def frequencies(self) -> Ints:
        """The table's frequencies; each stands for `spacing` of them."""
        first = self.before + (self.spacing + 1) // 2
        end = self._extent.last_frequency + 1
        return np.arange(first, end, self.spacing, dtype=np.int64)

    @cached_property
    def below(self) -> Any:
        """Which of the table's frequencies are below the one from which on biases are removed."""
        return self.frequencies < self._unbiased_from

    @property
    def table_tokens(self) -> int:
        """The number of tokens in the table: `grid` for each frequency."""
        return (int(self.frequencies[-1]) - self.before) * self.scheme.grid

    @property
    def last_token(self) -> int:
        """The last token of the table, in units of 1/grid."""
        return int(self.frequencies[-1]) * self.scheme.grid

    def places(self, cells: Ints) -> Ints:
        """Return the places of tokens, in units of 1/grid, among those of the table.

        Those beyond the table have places from `table_tokens` on.
        """
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
    def _supports(self) -> "_Supports":
        """The probabilities of the table's tokens over their supports."""
        grid = self.scheme.grid
        last_before = self.before * grid
        cells = last_before + np.arange(1, self.table_tokens + 1, dtype=np.int64)
        frequencies, mass = supports(cells, self.reporting, grid)
        pi = self.reporting.probabilities(frequencies)
        is_unbiased = (mass > 0) & (frequencies >= self._unbiased_from)
        over_pi = np.divide(mass, pi, out=np.zeros_like(mass), where=is_unbiased)
        return _Supports(mass, over_pi, total=mass.sum(1, where=is_unbiased))

    @cached_property
    def laws(self) -> Floats:
        """The probability of each token at each of the table's frequencies: [frequency, token]."""
        if self.balanced:
            return _kept(replace(self, balanced=False)).laws
        grid = self.scheme.grid
        mass = self._supports.mass
        i = self.frequencies - self.before
        first_row = int(i[0])
        table = np.zeros((len(i), self.table_tokens))
        for start in range(1, int(i[-1]) + 1):
            # the support of the next `grid` tokens starts at this frequency, and meets the table's rows from `row` on
            row = 0
            if start > first_row:
                row = -(-(start - first_row) // self.spacing)
            offset = int(i[row]) - start
            tokens = slice((start - 1) * grid, start * grid)
            rows = mass[tokens, offset :: self.spacing].T
            end = min(row + len(rows), len(i))
            table[row:end, tokens] = rows[: end - row]
        return table

    def laws_beyond(self, frequencies: Ints) -> list[TokenLaw]:
        """Return laws at ascending frequencies; where all are shifts of one another, one is computed."""
        steady = self.reporting.steady_from
        near = frequencies[frequencies < steady]
        laws = list(token_laws(near, *self.scheme))
        far = frequencies[len(near) :]
        for frequency in far.tolist():
            law = self._steady_law
            shift = (frequency - steady) * self.scheme.grid
            laws.append(replace(law, frequency=frequency, cells=law.cells + shift))
        return laws

    @cached_property
    def _steady_law(self) -> TokenLaw:
        """The law at the first frequency from which on laws are shifts of one another."""
        return token_law(self.reporting.steady_from, *self.scheme)

    @cached_property
    def bins(self) -> Ints:
        """The bin of each token whose value is corrected."""
        width = max(1, round(self._bin_width * self.scheme.grid))
        corrected_tokens = (self.last_corrected - self.before) * self.scheme.grid
        return np.arange(corrected_tokens, dtype=np.int64) // width

    @cached_property
    def binned_laws(self) -> Floats:
        """The laws of the frequencies that are not `below`, by bin: [frequency, bin]."""
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        corrected = self.laws[~self.below, : len(self.bins)]
        return np.add.reduceat(corrected, starts, axis=1)

    @cached_property
    def gram_matrix(self) -> Floats:
        """The weighted sum over frequencies of the product of the probabilities of two bins: [bin, bin]."""
        weighted = self.binned_laws.T * self.frequency_weights
        return np.asarray(weighted @ self.binned_laws)

    def posterior_mean_table(self, function: Function) -> Floats:
        """Return E[h / pi | token] for each of the table's tokens, as `posterior_means`."""
        grid = self.scheme.grid
        weight = self._supports.over_pi
        total = self._supports.total
        first_frequencies = self.table_tokens // grid
        length = weight.shape[1]
        i = self.before + np.arange(1, first_frequencies + length, dtype=np.int64)
        values = function(np.minimum(i, self.scheme.sampling.largest))
        # the `grid` tokens of one first frequency have the same support
        values_by_first = sliding_window_view(values, length)[:, :, None]
        weight_by_first = weight.reshape(first_frequencies, grid, length)
        sums = weight_by_first @ values_by_first
        means = np.zeros(self.table_tokens)
        np.divide(sums.reshape(-1), total, out=means, where=total > 0)
        return means

    def posterior_means(self, cells: Ints, functions: Sequence[Function]) -> Floats:
        """Return E[h / pi | token] for each function h: [token, function].

        The prior is uniform on the frequencies where biases are removed.
        """
        grid = self.scheme.grid
        # tokens of frequencies at which pi is constant are shifts of the first such ones, and have their weights
        beyond = first_frequency(cells, grid) - self.reporting.constant_from
        shift = np.maximum(beyond, 0)
        without_shift = cells - shift * grid
        unshifted, place = np.unique(without_shift, return_inverse=True)
        means = np.zeros((len(cells), len(functions)))
        at_once = max(1, _BLOCK // self.support)
        for start in range(0, len(unshifted), at_once):
            end = start + at_once
            weight = self._posterior_weights(unshifted[start:end])
            with_these_weights = np.flatnonzero((place >= start) & (place < end))
            for first in range(0, len(with_these_weights), at_once):
                tokens = with_these_weights[first : first + at_once]
                weight_of_tokens = weight[place[tokens] - start]
                means[tokens] = self._weighted_means(cells[tokens], weight_of_tokens, functions)
        return means

    def _weighted_means(self, cells: Ints, weight: Floats, functions: Sequence[Function]) -> Floats:
        """Return the weighted mean of each function over the support of each token: [token, function]."""
        length = weight.shape[1]
        first = first_frequency(cells, self.scheme.grid)
        # one run of frequencies that holds all supports, and where each token's begins in it
        frequencies, starts = _windows(first, length)
        # a window may reach beyond the largest frequency
        frequencies = np.minimum(frequencies, self.scheme.sampling.largest)
        sums = np.empty((len(cells), len(functions)))
        for n, function in enumerate(functions):
            values = sliding_window_view(function(frequencies), length)[starts]
            sums[:, n] = np.einsum("tk,tk->t", weight, values)
        return sums

    def _posterior_weights(self, cells: Ints) -> Floats:
        """Return the weight of each frequency of a token's support in a posterior mean: [token, frequency]."""
        grid = self.scheme.grid
        first = first_frequency(cells, grid)
        is_steady = bool((first == self.reporting.constant_from).all())
        if is_steady and len(cells) <= grid:
            return self._steady_weights[cells % grid]
        return self._computed_weights(cells)

    @cached_property
    def _steady_weights(self) -> Floats:
        """The weights of the tokens of the first frequency at which pi is constant, in the order of their remainder.

        All later tokens are shifts of these, and have their weights.
        """
        grid = self.scheme.grid
        last_token = self.reporting.constant_from * grid
        cells = last_token - np.arange(grid, dtype=np.int64)[::-1]
        by_remainder = np.argsort(cells % grid)
        return self._computed_weights(cells[by_remainder])

    def _computed_weights(self, cells: Ints) -> Floats:
        """Return the probability of each frequency of a token's support, given the token, over pi."""
        frequencies, mass = supports(cells, self.reporting, self.scheme.grid)
        mass = np.where(frequencies >= self._unbiased_from, mass, 0.0)
        total = np.maximum(mass.sum(1, keepdims=True), _TINY)
        pi = self.reporting.probabilities(frequencies)
        weights = np.zeros_like(mass)
        np.divide(mass, pi * total, out=weights, where=mass > 0)
        return weights

    def bias_correction(self, bias: Floats, penalty: float) -> Floats:
        """Return what to add to token values, by bin, to remove a bias at the frequencies that are not `below`.

        Minimises ``sum over i of w_i (penalty * bias_i**2 + E_i[correction**2])``, with w the `frequency_weights`. For
        several biases, in rows, there are as many rows.

        With c the correction and P the `binned_laws`, the bias at i becomes ``bias_i + (P c)_i``. The derivative by c
        is 0 where ``(penalty P'WP + diag(P'w)) c = -penalty P'W bias``: the normal equations, of which
        `_NormalEquations` has the left side.
        """
        equations = _normal_equations(self, penalty)
        weighted_bias = self.frequency_weights * penalty * bias
        target = equations.scale * (weighted_bias @ self.binned_laws)
        solution: Floats = target @ equations.inverse
        # one step of iterative refinement
        solution += (target - solution @ equations.matrix) @ equations.inverse
        correction = solution * -equations.scale
        correction[..., equations.empty] = 0
        if self.balanced:
            left = bias + correction @ self.binned_laws.T
            correction += self._balance(left, equations)
        return correction

    def _balance(self, bias: Floats, equations: "_NormalEquations") -> Floats:
        """Return what to add to a correction so that a bias cancels out over some numbers of keys at each frequency.

        These are numbers that fall with a power of the frequency; and keys of some low frequencies that happen to be
        reported. Of all additions c that have ``N (bias + P c) = 0``, N being these numbers, it is the one that costs
        the least in the minimum of `bias_correction`: with A the matrix there and M = N P, the method of Lagrange
        multipliers gives ``c = -A^-1 M' (M A^-1 M')^-1 N bias``.
        """
        numbers = np.vstack(
            [self._numbers_by_power(), self._numbers_of_rare()]
        )  # [case, frequency]
        moments = numbers @ self.binned_laws  # M
        scale = equations.scale
        directions = (scale * moments) @ equations.inverse * scale  # M A^-1
        # cases are scaled so that the diagonal of the system is 1
        size = 1 / np.sqrt((directions * moments).sum(1))
        system = directions @ moments.T * size * size[:, None]
        biases = size * (numbers @ bias)
        # low frequencies may be the same one: then the smallest of all solutions
        solution = np.linalg.lstsq(system, biases, rcond=_SAME_FREQUENCY)[0]
        return np.asarray(-(size * solution) @ directions)

    def _numbers_by_power(self) -> Floats:
        """Return numbers of keys at each frequency that fall with a power of it, for each of the balanced powers."""
        threshold = self.calibration_threshold - self.before
        relative = (self.frequencies - self.before) / threshold
        powers = np.array(self.tuning.balanced_powers)[:, None]
        return np.asarray(relative**-powers)

    def _numbers_of_rare(self) -> Floats:
        """Return the number of keys at one low frequency of which one is reported on average, for some frequencies."""
        deviation = math.sqrt(2) / self.epsilon
        deviations_below = np.array(self.tuning.balanced_deviations)
        rare = self.calibration_threshold - deviations_below * deviation
        possible = np.maximum(rare, self.before + 1)
        places = np.searchsorted(self.frequencies, possible)
        pi = self.reporting.probabilities(self.frequencies[places])
        numbers = np.zeros((len(places), len(self.frequencies)))
        for row, place in enumerate(places):
            numbers[row, place] = 1 / pi[row]
        return numbers

    @cached_property
    def frequency_weights(self) -> Floats:
        """Weights of the frequencies that are not `below`: the inverse of i times the variance of one key's estimate.

        By them all frequencies count alike. The variance is about ``(i**2 (1 - pi) + deviation**2) / pi``: a key that
        is not reported is missed as a whole, and the token of a reported one has noise.
        """
        frequencies = self.frequencies[~self.below]
        pi = self.reporting.probabilities(frequencies)
        i = frequencies - self.before
        deviation = self.tuning.token_deviation / self.epsilon
        of_reporting = i.astype(np.float64) ** 2 * (1 - pi)
        variance = (of_reporting + deviation**2) / pi
        return np.asarray(1 / (variance * i))


@dataclass(frozen=True, eq=False)
class _Supports:
    """Probabilities of the table's tokens over their supports: [token, frequency]."""

    mass: Floats  # the probability of the token
    over_pi: Floats  # the same over pi, where biases are removed; 0 elsewhere
    total: Floats  # the sum of the probabilities where biases are removed: [token]


def _windows(first: Ints, length: int) -> tuple[Ints, Ints]:
    """Return ascending frequencies that include all windows of a length, and the place where each window starts.

    `first` has the first frequency of each window. Windows that are far apart stand in separate spans.
    """
    starts = np.unique(first)
    before_all = starts[:1] - length - 1
    gaps = np.diff(starts, prepend=before_all)
    begins_span = np.flatnonzero(gaps > length)
    span_starts = starts[begins_span]
    ends_span = begins_span[1:] - 1
    last_starts = np.append(starts[ends_span], starts[-1:])
    spans = []
    for start, last in zip(span_starts, last_starts, strict=True):
        spans.append(np.arange(start, last + length))
    i = np.concatenate(spans)
    return i, np.searchsorted(i, first)


@dataclass(frozen=True, eq=False)
class _NormalEquations:
    """The matrix of the normal equations of `bias_correction`, scaled so that its diagonal is 1, and its inverse."""

    matrix: Floats  # [bin, bin]
    inverse: Floats
    scale: Floats  # what rows and columns were multiplied by: [bin]
    empty: Any  # bins of tokens that are hardly ever drawn, and get no correction: [bin]


@lru_cache(maxsize=8)  # a sum from bounded noise has seven penalties; each may take many megabytes
def _normal_equations(calibration: Calibration, penalty: float) -> _NormalEquations:
    """Return the normal equations of `bias_correction`, the same for every function: costly, so kept."""
    tuning = calibration.tuning
    probability = calibration.frequency_weights @ calibration.binned_laws
    largest = probability.max()
    empty = probability <= tuning.empty_bin * largest
    matrix = penalty * calibration.gram_matrix
    diagonal = np.diag_indices_from(matrix)
    matrix[diagonal] += np.where(empty, largest, probability)
    scale = 1 / np.sqrt(np.diag(matrix))
    scaled = matrix * scale * scale[:, None]
    scaled[diagonal] += tuning.ridge
    inverse = np.linalg.inv(scaled).astype(np.float64, copy=False)
    return _NormalEquations(scaled, inverse, scale, empty)


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
    if not len(counted):
        return calibration
    if calibration.calibration_threshold <= counted[0] <= calibration.last_corrected:
        return _kept(replace(calibration, balanced=True))
    return calibration


@lru_cache(maxsize=16)
def _kept(calibration: Calibration) -> Calibration:
    """Return the first of equal calibrations, which has computed its table."""
    return calibration

"""Functional: values of tokens whose sum over the reported keys estimates a sum over all keys above the threshold."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsample.estimators.calibration import Calibration, Function
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import TokenLaw


class Functional:
    """Token values a with ``E[a] = h(i)``, nearly, at every frequency i from the calibration threshold on.

    Values are posterior means of h / pi under a uniform prior on these frequencies, plus a correction of their bias
    (docs/theory.md, section 7). `keys` is the number of reported keys that they are made for: the more keys, the less
    bias, and the more variance.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme.scheme import Scheme
    >>> calibration = Calibration.of(Scheme(KeepAll(), Privacy(1, 1e-6), 16))
    >>> calibration.calibration_threshold
    14
    >>> total = Functional(calibration, lambda i: i.astype(float), keys=1000)
    >>> above = calibration.frequencies >= 14
    >>> bool(abs(total.bias[above]).max() < 0.1), bool(total.bias[~above].max() <= 0)
    (True, True)
    """

    def __init__(self, calibration: Calibration, function: Function, keys: float) -> None:
        self.calibration = calibration
        self.function = function
        self._beyond: dict[int, _BeyondTable] = {}  # by the largest frequency: costly, so kept

        # of the table's tokens
        self.uncorrected = calibration.posterior_mean_table(function)
        self.table_values = self.uncorrected.copy()
        targets = function(calibration.frequencies)
        uncorrected_bias = calibration.laws @ self.uncorrected - targets
        penalty = calibration.tuning.bias_penalty * keys
        correction = calibration.bias_correction(uncorrected_bias[~calibration.below], penalty)
        corrected = slice(len(calibration.bins))
        self.table_values[corrected] += correction[calibration.bins]

        # of one key's value, at the table's frequencies
        self.mean = calibration.laws @ self.table_values
        self.bias = self.mean - targets

    @cached_property
    def variances(self) -> Floats:
        """The variance of one key's value at the table's frequencies."""
        mean_square = self.calibration.laws @ self.table_values**2
        return mean_square - self.mean**2

    def values(self, cells: Ints) -> Floats:
        """Return the value of each token; beyond the table, the uncorrected one."""
        values = np.empty(len(cells))
        places = self.calibration.places(cells)
        inside = places < len(self.table_values)
        values[inside] = self.table_values[places[inside]]
        uncorrected = self.calibration.posterior_means(cells[~inside], [self.function])
        values[~inside] = uncorrected[:, 0]
        return values

    def covariance(self, other: "Functional", largest: int) -> Function:
        """Return the covariance of one key's two values as a function of its frequency, up to about the largest one."""
        i = self.calibration.frequencies
        products = self.table_values * other.table_values
        mean_product = self.calibration.laws @ products
        covariances = mean_product - self.mean * other.mean
        beyond = self._beyond_table(largest)
        if beyond.laws:
            ours = beyond.values
            others = ours if other is self else other._interpolated_values(beyond.laws)
            far_covariances = [_covariance(law, ours, others) for law in beyond.laws]
            i = np.append(i, beyond.frequencies)
            covariances = np.append(covariances, far_covariances)
        return lambda frequencies: np.interp(frequencies, i, covariances)

    def error_product(self, other: "Functional", largest: int) -> Function:
        """Return the mean product of one key's two errors as a function of its frequency.

        It is their covariance. Balanced biases cancel out over keys, as errors do, so their product is added, several
        times (docs/theory.md, section 7, Sums from bounded noise).
        """
        covariance = self.covariance(other, largest)
        if not self.calibration.balanced:
            return covariance
        frequencies = self.calibration.frequencies
        products = self.calibration.tuning.unbalanced_variance * self.bias * other.bias
        return lambda i: covariance(i) + np.interp(i, frequencies, products, right=0.0)

    def residual_bias(self, largest: int) -> Function:
        """Return the size of the bias that one key's value has left, as a function of its frequency."""
        calibration = self.calibration
        i = calibration.frequencies
        bias = np.where(calibration.below, 0.0, np.abs(self.bias))
        if calibration.balanced:  # from the threshold on, biases mostly cancel out
            is_above = i >= calibration.calibration_threshold
            left_over = calibration.tuning.unbalanced_share * bias
            bias = np.where(is_above, left_over, bias)
        beyond = self._beyond_table(largest)
        if beyond.laws:
            means = [law.probabilities @ beyond.values(law.cells) for law in beyond.laws]
            far_bias = np.abs(np.array(means) - self.function(beyond.frequencies))
            # away from kinks, uncorrected values have no bias to speak of
            is_kink = np.isin(beyond.frequencies, self._kinks)
            i = np.append(i, beyond.frequencies)
            bias = np.append(bias, np.where(is_kink, far_bias, 0.0))
        return lambda frequencies: np.interp(frequencies, i, bias, right=0.0)

    def _beyond_table(self, largest: int) -> "_BeyondTable":
        """Return the laws and values at some frequencies beyond the table, up to about the largest one."""
        if largest not in self._beyond:
            self._beyond[largest] = self._computed_beyond_table(largest)
        return self._beyond[largest]

    def _computed_beyond_table(self, largest: int) -> "_BeyondTable":
        calibration = self.calibration
        start = int(calibration.frequencies[-1]) + 1
        last = min(largest, calibration.scheme.sampling.largest)
        if last < start:
            return _BeyondTable(np.empty(0, np.int64), [], np.zeros_like)
        is_beyond = (self._kinks >= start) & (self._kinks <= last)
        kinks = self._kinks[is_beyond]
        spaced = np.geomspace(start, last, calibration.tuning.variance_frequencies)
        frequencies = np.unique(np.append(spaced.astype(np.int64), kinks))
        laws = calibration.laws_beyond(frequencies)
        return _BeyondTable(frequencies, laws, self._interpolated_values(laws))

    @cached_property
    def _kinks(self) -> Ints:
        """Frequencies around a jump or kink of the function, which token values cannot follow."""
        kink = getattr(self.function, "kink", None)
        if kink is None:
            return np.empty(0, np.int64)
        tuning = self.calibration.tuning
        offsets = np.linspace(-tuning.kink_reach, tuning.kink_reach, tuning.kink_points)
        around = np.rint(offsets / self.calibration.epsilon).astype(np.int64)
        return np.asarray(kink + np.append(around, -1))

    def _interpolated_values(self, laws: list[TokenLaw]) -> Function:
        """Return the values of the tokens of ascending laws, interpolated between some of them."""
        knots_by_law = []
        last_token = 0
        for law in laws:
            # the tokens that the laws before it do not have, and their share of the knots of a law
            cells = law.cells[law.cells > last_token]
            share = self.calibration.tuning.variance_tokens * cells.size // law.cells.size
            number = min(cells.size, max(share, 2))
            spread_out = np.linspace(0, cells.size - 1, number).astype(np.int64)
            knots_by_law.append(cells[spread_out])
            last_token = max(last_token, int(law.cells[-1]))
        knots = np.concatenate(knots_by_law)
        values = self.values(knots)
        return lambda cells: np.interp(cells, knots, values)


@dataclass(frozen=True, eq=False)
class _BeyondTable:
    """Some ascending frequencies beyond the table, their laws, and the values of the tokens of these laws."""

    frequencies: Ints
    laws: list[TokenLaw]
    values: Function


def _covariance(law: TokenLaw, ours: Function, others: Function) -> float:
    """Return the covariance of two values of a key's token; both are 0 if it is not reported."""
    p = law.probabilities
    a = ours(law.cells)
    b = others(law.cells)
    mean_a = p @ a
    mean_b = p @ b
    deviations = (a - mean_a) * (b - mean_b)
    if_reported = p @ deviations
    if_not_reported = law.not_reported * mean_a * mean_b
    return float(if_reported + if_not_reported)

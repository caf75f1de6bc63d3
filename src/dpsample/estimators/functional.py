"""Functional: values of tokens whose sum over the reported keys estimates a sum over all keys above the threshold."""

from functools import cached_property

import numpy as np

from dpsample.estimators.calibration import Calibration, Function
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import TokenLaw


class Functional:
    """Token values a with ``E[a] = h(i)``, nearly, at every frequency i from the calibration threshold on.

    Values are posterior means of h / pi under a uniform prior on these frequencies, plus a correction of their bias.
    `keys` is the number of reported keys that they are made for: the more keys, the less bias, and the more variance.

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
        self.calibration, self.function = calibration, function
        self._beyond: dict[
            int, tuple[Ints, list[TokenLaw], Function]
        ] = {}  # by the largest frequency: costly
        targets = function(calibration.frequencies)
        self.uncorrected = calibration.posterior_mean_table(function)  # of the table's tokens
        self.table_values = self.uncorrected.copy()
        bias = (calibration.laws @ self.uncorrected - targets)[~calibration.below]
        correction = calibration.bias_correction(bias, calibration.tuning.bias_penalty * keys)
        self.table_values[: len(calibration.bins)] += correction[calibration.bins]
        self.mean = (
            calibration.laws @ self.table_values
        )  # at the table's frequencies, as all that follows
        self.bias = self.mean - targets

    @cached_property
    def variances(self) -> Floats:
        """The variance of one key's value at the table's frequencies."""
        return self.calibration.laws @ self.table_values**2 - self.mean**2

    def values(self, cells: Ints) -> Floats:
        """Return the value of each token; beyond the table, the uncorrected one."""
        values = np.empty(len(cells))
        places = self.calibration.places(cells)
        inside = places < len(self.table_values)
        values[inside] = self.table_values[places[inside]]
        values[~inside] = self.calibration.posterior_means(cells[~inside], [self.function])[:, 0]
        return values

    def covariance(self, other: "Functional", largest: int) -> Function:
        """Return the covariance of one key's two values as a function of its frequency, up to about the largest one."""
        calibration = self.calibration
        i = calibration.frequencies
        covariances = (
            calibration.laws @ (self.table_values * other.table_values) - self.mean * other.mean
        )
        beyond, laws, ours = self._beyond_table(largest)
        if laws:
            others = ours if other is self else other._interpolated_values(laws)
            i = np.append(i, beyond)
            covariances = np.append(covariances, [_covariance(law, ours, others) for law in laws])
        return lambda frequencies: np.interp(frequencies, i, covariances)

    def error_product(self, other: "Functional", largest: int) -> Function:
        """Return the mean product of one key's two errors as a function of its frequency.

        It is their covariance. Balanced biases cancel out over keys, as errors do, so their product is added.
        """
        covariance = self.covariance(other, largest)
        if not self.calibration.balanced:
            return covariance
        frequencies = self.calibration.frequencies
        products = self.calibration.tuning.unbalanced_variance * self.bias * other.bias
        return lambda i: covariance(i) + np.interp(i, frequencies, products, right=0.0)

    def residual_bias(self, largest: int) -> Function:
        """Return the size of the bias that one key's value has left, as a function of its frequency."""
        calibration, i = self.calibration, self.calibration.frequencies
        bias = np.where(calibration.below, 0.0, np.abs(self.bias))
        if calibration.balanced:  # from the threshold on, biases mostly cancel out
            above = i >= calibration.calibration_threshold
            bias = np.where(above, calibration.tuning.unbalanced_share * bias, bias)
        beyond, laws, values = self._beyond_table(largest)
        if laws:
            means = np.array([law.probabilities @ values(law.cells) for law in laws])
            # away from kinks, uncorrected values have no bias to speak of
            is_kink = np.isin(beyond, self._kinks)
            sizes = np.abs(means - self.function(beyond))
            at_kinks = np.where(is_kink, sizes, 0.0)
            i = np.append(i, beyond)
            bias = np.append(bias, at_kinks)
        return lambda frequencies: np.interp(frequencies, i, bias, right=0.0)

    def _beyond_table(self, largest: int) -> tuple[Ints, list[TokenLaw], Function]:
        """Some frequencies beyond the table, up to about the largest one, their laws, and values of their tokens."""
        if largest not in self._beyond:
            self._beyond[largest] = self._computed_beyond_table(largest)
        return self._beyond[largest]

    def _computed_beyond_table(self, largest: int) -> tuple[Ints, list[TokenLaw], Function]:
        start = int(self.calibration.frequencies[-1]) + 1
        last = min(largest, self.calibration.scheme.sampling.largest)
        if last < start:
            return np.empty(0, np.int64), [], np.zeros_like
        beyond_table = (self._kinks >= start) & (self._kinks <= last)
        kinks = self._kinks[beyond_table]
        spaced = np.geomspace(start, last, self.calibration.tuning.variance_frequencies).astype(
            np.int64
        )
        beyond = np.unique(np.append(spaced, kinks))
        laws = self.calibration.laws_beyond(beyond)
        return beyond, laws, self._interpolated_values(laws)

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
        picks, end = [], 0
        for law in laws:  # each adds the tokens that the laws before it do not have
            cells = law.cells[law.cells > end]
            share = self.calibration.tuning.variance_tokens * cells.size // law.cells.size
            size = min(cells.size, max(share, 2))
            spread_out = np.linspace(0, cells.size - 1, size).astype(np.int64)
            picks.append(cells[spread_out])
            end = max(end, int(law.cells[-1]))
        knots = np.concatenate(picks)
        values = self.values(knots)
        return lambda cells: np.interp(cells, knots, values)


def _covariance(law: TokenLaw, ours: Function, others: Function) -> float:
    """The covariance of two values of a key's token; both are 0 if it is not reported."""
    p = law.probabilities
    a = ours(law.cells)
    b = others(law.cells)
    mean_a = p @ a
    mean_b = p @ b
    if_reported = p @ ((a - mean_a) * (b - mean_b))
    return float(if_reported + law.not_reported * mean_a * mean_b)

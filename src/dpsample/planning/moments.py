"""Moments of the values of tokens, and the error of an estimated sum that follows from them.

An estimate of a sum is A + D. A, the part above the calibration threshold, is a sum of one value for each reported key;
D, the extrapolation below it, is a function of three densities, which are such sums as well. So for a selection of each
key with probability s, mean and covariance of A's error and of the densities add up over keys: with u the vector of one
key's values (its truth subtracted from the first),

    mean = s * sum of E[u]        covariance = s * sum of E[u u'] - s**2 * sum of E[u] E[u]'

These are exact at the table's frequencies. The rest is approximate. Between the table's frequencies (a tenth of
1/epsilon apart, or more on a quick table) moments are interpolated. Beyond the table the bias is 0, and a reported key
has the variance that it has at the table's end. Sums are normally distributed, and D is averaged over them. The
densities' standard errors, and the rounded number of keys on which the token values depend, are at their expectations.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from dpsample.estimators.calibration import Calibration
from dpsample.estimators.extrapolation import extrapolate, kernels_of
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import FREQUENCY
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats

# The variance of the densities along a principal axis is raised to this share of the largest one. It is far below what
# changes an error, and keeps the division by a standard deviation of 0 away.
_LEAST_VARIANCE = 1e-14


@dataclass(frozen=True, eq=False)
class SelectedKeys:
    """The keys that a sum is over: each key is selected with probability `share`."""

    frequencies: Floats  # distinct, ascending
    counts: Floats  # the number of keys of each frequency
    reported: Floats  # the probability that a key of each frequency is reported
    share: float

    def where(self, chosen: Floats) -> "SelectedKeys":
        """Return the keys of some of the frequencies."""
        frequencies = self.frequencies[chosen]
        counts = self.counts[chosen]
        reported = self.reported[chosen]
        return SelectedKeys(frequencies, counts, reported, self.share)

    def expected(self, values: Floats) -> Floats:
        """Return the expected sum of a value over the selected keys; each row of `values` is summed by itself."""
        return np.asarray(self.share * values @ self.counts)


@dataclass(frozen=True, eq=False)
class _Densities:
    """Moments of the densities that the extrapolation D is a function of."""

    mean: Floats
    error: Floats  # the standard errors that the estimator is expected to state for them
    covariance: Floats
    with_total: Floats  # their covariance with A, the sum above the calibration threshold


class _ValueMoments:
    """Moments of one key's values at the frequencies of a calibration's table."""

    def __init__(self, table: Calibration, keys: int) -> None:
        self.table = table
        self.total = Functional(table, FREQUENCY, keys)
        self.kernels = kernels_of(self.total, keys)
        values = self.total.table_values
        densities = [kernel.functional.table_values / kernel.width for kernel in self.kernels]
        self.density = [table.laws @ density for density in densities]
        self.density_with_total = [table.laws @ (values * density) for density in densities]
        self.products = []
        for one in densities:
            self.products.append([table.laws @ (one * other) for other in densities])

    def error(self, keys: SelectedKeys) -> tuple[float, float]:
        """Return the bias and the variance of a sum."""
        inside = keys.frequencies <= self.table.frequencies[-1]
        near = keys.where(inside)
        far = keys.where(~inside)
        bias = self._at(near, self.total.bias)
        mean = float(near.expected(bias))
        variances = self._at(near, self.total.variances)
        variance = float(near.expected(variances))
        which_are_selected = (1 - near.share) * float(near.expected(bias**2))
        variance += which_are_selected
        variance += float(far.expected(self._variances_beyond(far)))
        if not self.kernels:
            return mean, variance
        densities = self._densities(near, bias)
        added, added_variance = self._extrapolation(densities)
        return mean + added, max(variance + added_variance, 0.0)

    def _at(self, keys: SelectedKeys, values: Floats) -> Floats:
        """Interpolate a value at the frequencies of keys; `values` are those of the table, and 0 at frequency 0."""
        table = np.append(0, self.table.frequencies)
        from_zero = np.append(0.0, values)
        return np.asarray(np.interp(keys.frequencies, table, from_zero))

    def _rows_at(self, keys: SelectedKeys, several: list[Floats]) -> Floats:
        """Interpolate several values, each in a row."""
        return np.array([self._at(keys, values) for values in several])

    def _variances_beyond(self, keys: SelectedKeys) -> Floats:
        """Return the variance of one key of each frequency beyond the table.

        It has two parts: whether the key is reported, and, if it is, its token. The second is that at the table's end,
        where it is what the first leaves of the variance.
        """
        last = self.table.frequencies[-1:]
        scheme = self.table.scheme
        [p] = reporting_probabilities(last, scheme.sampling, scheme.per_key)
        of_reporting_at_end = float(last[0]) ** 2 * (1 - p)
        of_token = max(self.total.variances[-1] * p - of_reporting_at_end, 0.0)
        of_reporting = keys.frequencies**2 * (1 - keys.reported)
        return np.asarray((of_reporting + of_token) / keys.reported)

    def _densities(self, keys: SelectedKeys, bias: Floats) -> _Densities:
        """Return the moments of the densities over the selected keys, by the formulas in the module's docstring."""
        density = self._rows_at(keys, self.density)
        with_total = self._rows_at(keys, self.density_with_total)
        products = [self._rows_at(keys, row) for row in self.products]
        squares = np.array([keys.expected(product) for product in products])

        share = keys.share
        weighted = density * keys.counts
        covariance = squares - share**2 * weighted @ density.T
        with_error = keys.expected(with_total - keys.frequencies * density)
        with_error -= share**2 * weighted @ bias
        errors = np.sqrt(np.diag(squares))
        return _Densities(keys.expected(density), errors, covariance, with_error)

    def _extrapolation(self, densities: _Densities) -> tuple[float, float]:
        """Return the mean of the extrapolation D, and what D adds to the variance of A: var D + 2 cov(A, D).

        Both are averages over normal densities, by Gauss-Hermite quadrature along their principal axes.
        """
        variances, axes = np.linalg.eigh(densities.covariance)
        largest = variances[-1]
        if largest <= 0:  # no key is near the calibration threshold
            return 0.0, 0.0
        scale = np.sqrt(np.maximum(variances, _LEAST_VARIANCE * largest))
        z, p = _normal_nodes(len(scale), self.table.tuning.quadrature_nodes)
        at_nodes = densities.mean + (z * scale) @ axes.T
        extrapolated, _ = extrapolate(self.total, self.kernels, at_nodes, densities.error)

        mean = float(p @ extrapolated)
        deviation = extrapolated - mean
        variance = float(p @ deviation**2)
        # the expectation of A at each node, given the densities: regression of A on the principal axes
        total_by_axis = (densities.with_total @ axes) / scale
        expected_total = z @ total_by_axis
        joint = float(p @ (deviation * expected_total))
        return mean, variance + 2 * joint


@lru_cache(maxsize=2)  # a plan asks for the total and for a selection, whose numbers of keys differ
def value_moments(table: Calibration, keys: int) -> _ValueMoments:
    """Return the moments of the values of tokens, for a number of keys."""
    return _ValueMoments(table, keys)


@cache
def _normal_nodes(dimensions: int, nodes: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Hermite quadrature over the standard normal distribution."""
    places, weights = hermegauss(nodes)
    normalized = weights / weights.sum()
    points = list(product(places, repeat=dimensions))
    weights_by_axis = list(product(normalized, repeat=dimensions))
    return np.array(points), np.prod(np.array(weights_by_axis), axis=1)

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

# Directions in which the densities hardly vary get at least this share of the largest variance, instead of 0.
_LEAST_VARIANCE = 1e-14


@dataclass(frozen=True, eq=False)
class SelectedKeys:
    """The keys that a sum is over: each key is selected with probability `share`."""

    frequencies: Floats  # distinct, ascending
    counts: Floats  # keys of each
    reported: Floats  # the probability that a key of each is reported
    share: float

    def where(self, chosen: Floats) -> "SelectedKeys":
        """Return the keys of some of the frequencies."""
        return SelectedKeys(
            self.frequencies[chosen], self.counts[chosen], self.reported[chosen], self.share
        )

    def expected(self, values: Floats) -> Floats:
        """Return the expected sum of a value over the selected keys; `values` may have several rows."""
        return np.asarray(self.share * values @ self.counts)


@dataclass(frozen=True, eq=False)
class _Densities:
    """The densities of which the extrapolation is a function."""

    mean: Floats
    error: Floats  # the standard errors that are expected to be stated for them
    covariance: Floats
    with_total: Floats  # their covariance with the sum above the calibration threshold


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
        self.products = [[table.laws @ (one * other) for other in densities] for one in densities]

    def error(self, keys: SelectedKeys) -> tuple[float, float]:
        """Return the bias and the variance of a sum."""
        inside = keys.frequencies <= self.table.frequencies[-1]
        near, far = keys.where(inside), keys.where(~inside)
        bias = self._at(near, self.total.bias)
        mean = float(near.expected(bias))
        variance = float(near.expected(self._at(near, self.total.variances)))
        which_are_selected = (1 - near.share) * float(near.expected(bias**2))
        variance += which_are_selected
        variance += float(far.expected(self._variances_beyond(far)))
        if not self.kernels:
            return mean, variance
        added, added_variance = self._extrapolation(self._densities(near, bias))
        return mean + added, max(variance + added_variance, 0.0)

    def _at(self, keys: SelectedKeys, values: Floats) -> Floats:
        """Values of the table, interpolated at the frequencies of keys; 0 at frequency 0."""
        table = np.append(0, self.table.frequencies)
        return np.asarray(np.interp(keys.frequencies, table, np.append(0.0, values)))

    def _rows_at(self, keys: SelectedKeys, columns: list[Floats]) -> Floats:
        return np.array([self._at(keys, column) for column in columns])

    def _variances_beyond(self, keys: SelectedKeys) -> Floats:
        """The variance of one key beyond the table: of whether it is reported, and of its token if it is."""
        last = self.table.frequencies[-1:]
        scheme = self.table.scheme
        [p] = reporting_probabilities(last, scheme.sampling, scheme.per_key)
        unreported = float(last[0]) ** 2 * (1 - p)
        token_variance = max(self.total.variances[-1] * p - unreported, 0.0)
        of_reporting = keys.frequencies**2 * (1 - keys.reported)
        return np.asarray((of_reporting + token_variance) / keys.reported)

    def _densities(self, keys: SelectedKeys, bias: Floats) -> _Densities:
        """The moments of the densities over the selected keys."""
        density = self._rows_at(keys, self.density)
        with_total = self._rows_at(keys, self.density_with_total)
        squares = np.array([keys.expected(self._rows_at(keys, row)) for row in self.products])

        share = keys.share
        weighted = density * keys.counts
        covariance = squares - share**2 * weighted @ density.T
        with_error = keys.expected(with_total - keys.frequencies * density)
        with_error -= share**2 * weighted @ bias
        errors = np.sqrt(np.diag(squares))
        return _Densities(keys.expected(density), errors, covariance, with_error)

    def _extrapolation(self, densities: _Densities) -> tuple[float, float]:
        """The mean of the extrapolation, and what it adds to the variance: averages over normal densities."""
        variances, axes = np.linalg.eigh(densities.covariance)
        largest = variances[-1]
        if largest <= 0:  # no key is near
            return 0.0, 0.0
        scale = np.sqrt(np.maximum(variances, _LEAST_VARIANCE * largest))
        z, p = _normal_nodes(len(scale), self.table.tuning.quadrature_nodes)
        at_nodes = densities.mean + (z * scale) @ axes.T
        extrapolated, _ = extrapolate(self.total, self.kernels, at_nodes, densities.error)

        mean = float(p @ extrapolated)
        deviation = extrapolated - mean
        variance = float(p @ deviation**2)
        total_by_axis = (densities.with_total @ axes) / scale
        expected_total = z @ total_by_axis
        joint = float(p @ (deviation * expected_total))
        return mean, variance + 2 * joint


@lru_cache(maxsize=2)  # for all keys, and for a selection
def value_moments(table: Calibration, keys: int) -> _ValueMoments:
    """Return the moments of the values of tokens, for a number of keys."""
    return _ValueMoments(table, keys)


@cache
def _normal_nodes(dimensions: int, nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Hermite quadrature over the standard normal distribution."""
    places, weights = hermegauss(nodes)
    points = list(product(places, repeat=dimensions))
    weights_by_axis = list(product(weights / weights.sum(), repeat=dimensions))
    return np.array(points), np.prod(np.array(weights_by_axis), axis=1)

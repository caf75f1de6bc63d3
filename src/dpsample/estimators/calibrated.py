"""The default estimator: sums over keys, nearly unbiased above the calibration threshold, extrapolated below it.

**Estimand.** The sum of ``L(x) g(frequency of x)`` over all selected keys x, reported or not.

**Above the threshold.** Each token has a value (`Functional`), such that the values of a key's possible tokens, 0 if it
is not reported, average to g at every frequency from the threshold on. Their sum over the reported keys is a
Horvitz-Thompson-like estimate: linear in the tokens, nearly unbiased, whatever the data are. Its variance is the sum of
one known function of the frequency over keys, so it is estimated in the same way, and so is the covariance of the two.

**Below it.** What this sum misses is extrapolated from the density of keys just above the threshold (`extrapolation`).

**Coverage.** The interval has nominal coverage over the randomness of sampling and tokens, for fixed data, if the data
have no keys below the calibration threshold, or so few that the extrapolation is negligible and right; and if the error
rests on enough keys for the normal approximation. `SumEstimate` says whether the tokens give reason to doubt that.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpsample.estimators.calibration import Calibration, Function, calibration_for
from dpsample.estimators.extrapolation import extrapolate
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.sum_functionals import SumFunctionals, round_up_key_count, sum_functionals
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

_TINY = 1e-300  # keeps ratios of zeros defined


def estimate_sum(
    tally: Tally, scheme: Scheme, of: Function, tuning: Tuning = TUNING
) -> SumEstimate:
    """Estimate the sum of ``L(x) g(frequency of x)`` over all keys from a tally of the reported ones.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.estimators.measures import Measure
    >>> tally = Tally.of([16 * 1000, 16 * 2000])
    >>> estimate = estimate_sum(tally, Scheme(KeepAll(), Privacy(1, 1e-6), 16), Measure.of("frequency"))
    >>> round(estimate.value, 2), round(estimate.standard_error, 2)
    (3027.32, 1.94)
    """
    if not len(tally.cells):
        return SumEstimate(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, tuning=tuning)
    return estimate_sums([tally], scheme, of, tuning)[0]


def estimate_sums(
    tallies: Sequence[Tally],
    scheme: Scheme,
    of: Function,
    tuning: Tuning = TUNING,
    keys: int | None = None,
) -> list[SumEstimate]:
    """Estimate the sums of several groups of keys, each with a reported key, by the same token values.

    So the sums of groups add up to that of all their keys. `keys` is the number of reported keys that the token values
    are made for: those of all groups by default.
    """
    groups = Tallies.of(tallies)
    functionals = functionals_of(groups, scheme, of, tuning, keys)
    calibration = functionals.calibration
    variance_of, covariance_of = functionals.variance, functionals.covariance
    weights, squares = groups.weights, groups.squares
    functions = [of, variance_of.function, covariance_of.function, functionals.residual_bias]
    tokens = TokensOfGroups(groups, calibration, functions)
    _, far_variance, _, _ = tokens.beyond_table.T

    above = groups.sums(weights * tokens.values(functionals.total.table_values, 0))
    extrapolated, extrapolated_error = _extrapolated(functionals, groups)

    # one more key, anywhere from the threshold on to the least reported frequency, that may not have been reported
    moments = unreported_moments(
        groups, calibration, [variance_of.function, covariance_of.function]
    )
    typical_weight = np.sqrt(groups.sums(squares) / groups.sums(groups.keys))
    unreported = moments[0] * typical_weight**2
    unreported_slope = moments[1] * typical_weight**3

    # two estimates of each key's variance: a posterior mean, and one without bias that has a variance of its own
    posterior = tokens.values(variance_of.uncorrected, 1)
    unbiased = tokens.values(variance_of.table_values, 1)
    squared = tokens.in_order(functionals.squared_variance, far_variance**2)
    error = SumErrors.of(groups, posterior, unbiased, squared, unreported, tuning)

    covariance = tokens.values(covariance_of.table_values, 2)
    slope = groups.sums(covariance * (squares * weights / groups.keys))
    bias = tokens.values(functionals.bias_allowance, 3)
    divisor = np.maximum(
        error.variance, (tuning.rounding_bias * above) ** 2
    )  # a variance of 0 is only rounding
    columns = error.columns() | {
        "above": above,
        "bias_allowance": groups.sums(np.abs(weights) * bias),
        "variance_slope": np.maximum(slope, 0.0) / divisor,
        "unreported_share": unreported / divisor,
        "unreported_slope": np.maximum(unreported_slope, 0.0) / divisor,
        "extrapolated": extrapolated,
        "extrapolated_error": extrapolated_error,
    }
    return sum_estimates(columns, tuning)


class TokensOfGroups:
    """The values of the tokens of groups: of the table's tokens, and of those beyond it, where they are functions."""

    def __init__(
        self, groups: Tallies, calibration: Calibration, functions: Sequence[Function]
    ) -> None:
        cells, self._back = np.unique(groups.cells, return_inverse=True)
        places = calibration.places(cells)
        inside = places < calibration.table_tokens
        self._places = places[inside]
        self.beyond_table = calibration.posterior_means(
            cells[~inside], functions
        )  # [token, function]

    def values(self, table: Floats, function: int) -> Floats:
        """Return the value of each token of each group: from a table, and beyond it from one of the functions."""
        return self.in_order(table, self.beyond_table[:, function])

    def in_order(self, table: Floats, beyond: Floats) -> Floats:
        """Return the same with given values beyond the table."""
        return np.append(table[self._places], beyond)[self._back]


def sum_estimates(columns: dict[str, Floats], tuning: Tuning) -> list[SumEstimate]:
    """Return the estimates of groups, from the columns of their fields."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [SumEstimate(**dict(zip(columns, row, strict=True)), tuning=tuning) for row in rows]


class SumErrors(NamedTuple):
    """The variances of the sums of groups, and the effective numbers of keys on which they rest (`SumEstimate`)."""

    variance: Floats
    effective_keys: Floats
    variance_keys: Floats
    raw_variance_keys: Floats

    @staticmethod
    def of(
        groups: Tallies,
        posterior: Floats,
        unbiased: Floats,
        squared: Floats,
        unreported: Floats,
        tuning: Tuning,
    ) -> "SumErrors":
        """Combine two estimates of the variance of each token's key, the square of one, and an unreported key."""
        fourth = groups.squares**2 / groups.keys

        by_posterior = groups.sums(groups.squares * posterior)
        posterior_square = groups.sums(fourth * posterior**2) + unreported**2 + _TINY
        effective_keys = (by_posterior + unreported) ** 2 / posterior_square

        by_functional = groups.sums(groups.squares * unbiased)
        functional_square = groups.sums(fourth * unbiased**2)
        least_square = tuning.variance_floor * groups.sums(fourth * squared)
        error_square = np.maximum(functional_square, least_square) + unreported**2 + _TINY
        of_reported = np.maximum(by_functional, tuning.variance_floor * by_posterior)
        variance = unreported + of_reported + _TINY
        raw_keys = variance**2 / error_square

        # where few keys determine the unbiased estimate, a larger posterior mean is trusted in part
        shortfall = np.maximum(by_posterior - by_functional, 0.0)
        in_part = shortfall * tuning.variance_blend / (tuning.variance_blend + raw_keys**2)
        variance = variance + in_part
        return SumErrors(variance, effective_keys, variance**2 / error_square, raw_keys)

    def columns(self) -> dict[str, Floats]:
        """Return the fields of `SumEstimate` that follow."""
        return {
            "standard_error": np.sqrt(self.variance),
            "effective_keys": self.effective_keys,
            "variance_keys": self.variance_keys,
            "raw_variance_keys": self.raw_variance_keys,
        }


def extrapolated_sums(
    tallies: Sequence[Tally], scheme: Scheme, of: Function, keys: int | None = None
) -> Floats:
    """Return the values of `estimate_sums`, extrapolation included, without their errors."""
    groups = Tallies.of(tallies)
    functionals = functionals_of(groups, scheme, of, keys=keys)
    cells, back = np.unique(groups.cells, return_inverse=True)
    values = functionals.total.values(cells)[back]
    above = groups.sums(groups.weights * values)
    extrapolated, _ = _extrapolated(functionals, groups)
    return np.asarray(above + extrapolated)


def functionals_of(
    groups: Tallies, scheme: Scheme, of: Function, tuning: Tuning = TUNING, keys: int | None = None
) -> SumFunctionals:
    """Return the functionals of a sum over groups."""
    calibration = calibration_for(of, Calibration.of(scheme, tuning))
    if keys is None:
        keys = int(groups.keys.sum())
    largest_frequency = int(groups.cells.max()) // scheme.grid + 2 * calibration.support
    power_of_two = 1 << largest_frequency.bit_length()  # so that few functionals serve all tallies
    return sum_functionals(calibration, of, round_up_key_count(keys, tuning), power_of_two)


def _extrapolated(functionals: SumFunctionals, groups: Tallies) -> tuple[Floats, Floats]:
    """The extrapolation of each group, and its standard error."""
    calibration = functionals.calibration
    kernels = functionals.kernels
    n = len(groups.starts)
    if not kernels:
        return np.zeros(n), np.zeros(n)
    place = np.minimum(calibration.places(groups.cells), calibration.table_tokens)
    density, error = np.zeros((2, n, len(kernels)))
    for k, kernel in enumerate(kernels):
        zero_beyond_table = np.append(kernel.functional.table_values, 0.0)
        value = zero_beyond_table[place]
        counted = groups.sums(groups.weights * value)
        variance = groups.sums(groups.squares * value**2)
        density[:, k] = counted / kernel.width
        error[:, k] = np.sqrt(variance) / kernel.width
    return extrapolate(functionals.total, kernels, density, error)


def unreported_moments(
    groups: Tallies, calibration: Calibration, functions: Sequence[Function]
) -> list[Floats]:
    """Return moments of one more key that may not have been reported, from functions of its frequency, for each group.

    The key is anywhere from the threshold on to the least reported frequency; where it is surely reported, it does not
    matter.
    """
    tuning = calibration.tuning
    start = calibration.calibration_threshold
    first_token = groups.cells[groups.starts] // calibration.scheme.grid
    least_reported = first_token + calibration.support // 2
    distinct, back = np.unique(np.maximum(least_reported, start), return_inverse=True)
    reach = tuning.unreported_reach / calibration.epsilon
    end = np.minimum(distinct + reach, float(calibration.scheme.sampling.largest))
    span = np.maximum(end - start, 1)

    # the mean over the range, by the trapezoidal rule, on points that are denser where frequencies are low
    points = np.linspace(0, 1, tuning.unreported_points)
    i = start + (span[:, None] + 1) ** points - 1  # [group, point]
    missed = calibration.unreported_probability(i.astype(np.int64)) / tuning.certain_miss
    weight = np.minimum(1.0, missed)

    def mean(function: Function) -> Floats:
        values = function(i) * weight
        heights = (values[:, 1:] + values[:, :-1]) / 2
        integral = (heights * np.diff(i)).sum(1)
        return np.asarray((integral / span)[back])

    return [mean(function) for function in functions]

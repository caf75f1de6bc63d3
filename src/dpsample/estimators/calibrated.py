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
    variance_functional = functionals.variance
    covariance_functional = functionals.covariance
    variance_at = variance_functional.function
    covariance_at = covariance_functional.function
    functions = [of, variance_at, covariance_at, functionals.residual_bias]
    tokens = TokensOfGroups(groups, calibration, functions)

    sum_values = tokens.values(functionals.total.table_values, of)
    above = groups.sums(groups.weights * sum_values)
    extrapolated, extrapolated_error = _extrapolated(functionals, groups)

    # one more key, anywhere from the threshold on to the least reported frequency, that may not have been reported
    moment_functions = [variance_at, covariance_at]
    unreported_variance, unreported_covariance = unreported_moments(
        groups, calibration, moment_functions
    )
    mean_square_weight = groups.sums(groups.squares) / groups.sums(groups.keys)
    typical_weight = np.sqrt(mean_square_weight)
    unreported = unreported_variance * typical_weight**2
    unreported_slope = unreported_covariance * typical_weight**3

    # two estimates of each key's variance: a posterior mean, and one without bias that has a variance of its own
    posterior = tokens.values(variance_functional.uncorrected, variance_at)
    unbiased = tokens.values(variance_functional.table_values, variance_at)
    squared_beyond = tokens.beyond_table(variance_at) ** 2
    squared = tokens.in_order(functionals.squared_variance, squared_beyond)
    error = SumErrors.of(groups, posterior, unbiased, squared, unreported, tuning)

    # the keys of one token have one covariance; the sum of their cubed weights is taken as if all weights were equal
    covariance = tokens.values(covariance_functional.table_values, covariance_at)
    cubed_weights = groups.squares * groups.weights / groups.keys
    slope = groups.sums(covariance * cubed_weights)
    bias = tokens.values(functionals.bias_allowance, functionals.residual_bias)
    rounding_variance = (tuning.rounding_bias * above) ** 2  # a smaller variance is only rounding
    divisor = np.maximum(error.variance, rounding_variance)
    allowance = groups.sums(np.abs(groups.weights) * bias)
    columns = error.columns() | {
        "above": above,
        "bias_allowance": allowance,
        "variance_slope": np.maximum(slope, 0.0) / divisor,
        "unreported_share": unreported / divisor,
        "unreported_slope": np.maximum(unreported_slope, 0.0) / divisor,
        "extrapolated": extrapolated,
        "extrapolated_error": extrapolated_error,
    }
    return sum_estimates(columns, tuning)


class TokensOfGroups:
    """The values of the tokens of groups.

    A token of the calibration's table has its value there. Beyond the table it is the posterior mean of h / pi, for one
    of the functions h that are given at first.
    """

    def __init__(
        self, groups: Tallies, calibration: Calibration, functions: Sequence[Function]
    ) -> None:
        cells, self._back = np.unique(groups.cells, return_inverse=True)
        places = calibration.places(cells)
        is_inside = places < calibration.table_tokens
        self._places = places[is_inside]
        self._functions = list(functions)
        # the means of all functions at once: [token, function]
        self._beyond_table = calibration.posterior_means(cells[~is_inside], functions)

    def values(self, table: Floats, function: Function) -> Floats:
        """Return the value of each token of each group: from a table, and beyond it by a function."""
        return self.in_order(table, self.beyond_table(function))

    def beyond_table(self, function: Function) -> Floats:
        """Return the posterior mean of a function over pi, for the distinct tokens beyond the table."""
        return self._beyond_table[:, self._functions.index(function)]

    def in_order(self, table: Floats, beyond: Floats) -> Floats:
        """Return the value of each token of each group: from a table, and beyond it from given values."""
        values = np.append(table[self._places], beyond)
        return values[self._back]


def sum_estimates(columns: dict[str, Floats], tuning: Tuning) -> list[SumEstimate]:
    """Return the estimates of groups, from the columns of their fields."""
    estimates = []
    for row in zip(*[column.tolist() for column in columns.values()], strict=True):
        fields = dict(zip(columns, row, strict=True))
        estimates.append(SumEstimate(**fields, tuning=tuning))
    return estimates


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
        """Return the errors of sums by two estimates of the variance of the key of each token.

        `posterior` is a posterior mean, which is never negative; `unbiased` has no bias, and a variance of its own.
        `squared` is the posterior mean of its square, and `unreported` the variance of a key that was not reported.
        """
        # the sum of the fourth powers of the weights of a token's keys, as if all were equal
        fourth = groups.squares**2 / groups.keys

        by_posterior = groups.sums(groups.squares * posterior)
        posterior_square = groups.sums(fourth * posterior**2) + unreported**2 + _TINY
        effective_keys = (by_posterior + unreported) ** 2 / posterior_square

        without_bias = groups.sums(groups.squares * unbiased)
        square = groups.sums(fourth * unbiased**2)
        least_square = tuning.variance_floor * groups.sums(fourth * squared)
        error_square = np.maximum(square, least_square) + unreported**2 + _TINY
        of_reported = np.maximum(without_bias, tuning.variance_floor * by_posterior)
        raw_variance = unreported + of_reported + _TINY
        raw_keys = raw_variance**2 / error_square

        # where few keys determine the estimate without bias, a larger posterior mean is trusted in part
        shortfall = np.maximum(by_posterior - without_bias, 0.0)
        blend = tuning.variance_blend + raw_keys**2
        variance = raw_variance + shortfall * tuning.variance_blend / blend
        variance_keys = variance**2 / error_square
        return SumErrors(variance, effective_keys, variance_keys, raw_keys)

    def columns(self) -> dict[str, Floats]:
        """Return the fields of `SumEstimate` that follow from these."""
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
    values = functionals.total.values(cells)
    above = groups.sums(groups.weights * values[back])
    extrapolated, _ = _extrapolated(functionals, groups)
    return np.asarray(above + extrapolated)


def functionals_of(
    groups: Tallies, scheme: Scheme, of: Function, tuning: Tuning = TUNING, keys: int | None = None
) -> SumFunctionals:
    """Return the functionals of a sum over groups: by token, what a key adds to the estimate, and to its error.

    Bias and variance are balanced for a number of reported keys: by default, that of all groups together.
    """
    calibration = calibration_for(of, Calibration.of(scheme, tuning))
    if keys is None:
        keys = int(groups.keys.sum())
    largest_token = int(groups.cells.max()) // scheme.grid
    largest_frequency = largest_token + 2 * calibration.support
    # numbers are rounded up, so that few functionals serve all tallies
    power_of_two = 1 << largest_frequency.bit_length()
    rounded_keys = round_up_key_count(keys, tuning)
    return sum_functionals(calibration, of, rounded_keys, power_of_two)


def _extrapolated(functionals: SumFunctionals, groups: Tallies) -> tuple[Floats, Floats]:
    """Return the extrapolation of each group, and its standard error."""
    calibration = functionals.calibration
    kernels = functionals.kernels
    shape = (len(groups.starts), len(kernels))
    if not kernels:
        nothing = np.zeros(len(groups.starts))
        return nothing, nothing
    places = np.minimum(calibration.places(groups.cells), calibration.table_tokens)
    density = np.zeros(shape)
    error = np.zeros(shape)
    for k, kernel in enumerate(kernels):
        zero_beyond_table = np.append(kernel.functional.table_values, 0.0)
        values = zero_beyond_table[places]
        counted = groups.sums(groups.weights * values)
        variance = groups.sums(groups.squares * values**2)
        density[:, k] = counted / kernel.width
        error[:, k] = np.sqrt(variance) / kernel.width
    return extrapolate(functionals.total, kernels, density, error)


def unreported_moments(
    groups: Tallies, calibration: Calibration, functions: Sequence[Function]
) -> list[Floats]:
    """Return the mean of each function of the frequency of a key that may not have been reported, for each group.

    The key is anywhere from the threshold on to the least reported frequency and a little above; where it is surely
    reported, it counts 0.
    """
    tuning = calibration.tuning
    start = calibration.calibration_threshold
    lowest_token = groups.cells[groups.starts] // calibration.scheme.grid
    least_reported = lowest_token + calibration.support // 2
    last_before_reach = np.maximum(least_reported, start)
    distinct, back = np.unique(last_before_reach, return_inverse=True)
    reach = tuning.unreported_reach / calibration.epsilon
    largest = float(calibration.scheme.sampling.largest)
    end = np.minimum(distinct + reach, largest)
    span = np.maximum(end - start, 1)

    # points that are denser where frequencies are low: [group, point]
    shares = np.linspace(0, 1, tuning.unreported_points)
    span_of_group = span[:, None]
    i = start + (span_of_group + 1) ** shares - 1
    unreported = calibration.unreported_probability(i.astype(np.int64))
    weight = np.minimum(1.0, unreported / tuning.certain_miss)

    def mean(function: Function) -> Floats:
        """Return the mean over the range, by the trapezoidal rule."""
        values = function(i) * weight  # [group, point]
        left = values[:, :-1]
        right = values[:, 1:]
        heights = (right + left) / 2
        integral = (heights * np.diff(i)).sum(1)
        mean_of_distinct = np.asarray(integral / span)
        return mean_of_distinct[back]

    return [mean(function) for function in functions]

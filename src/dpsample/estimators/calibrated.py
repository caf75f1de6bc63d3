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

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpsample.estimators.calibration import Calibration, Function, calibration
from dpsample.estimators.extrapolation import Kernel, extrapolated_sum, kernels_of
from dpsample.estimators.functional import Functional
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Sampling
from dpsample.scheme.tokens import support_length

_TINY = 1e-300  # keeps ratios of zeros defined


def estimate_sum(
    tally: Tally, sampling: Sampling, privacy: PerKey, grid: int, of: Function, tuning: Tuning = TUNING
) -> SumEstimate:
    """Estimate the sum of ``L(x) g(frequency of x)`` over all keys from a tally of the reported ones.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.estimators.measures import Measure
    >>> tally = Tally.of([16 * 1000, 16 * 2000])
    >>> estimate = estimate_sum(tally, KeepAll(), Privacy(1, 1e-6), 16, Measure.of("frequency"))
    >>> round(estimate.value, 2), round(estimate.standard_error, 2)
    (3027.32, 1.94)
    """
    if not len(tally.cells):
        return SumEstimate(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, tuning=tuning)
    scheme = calibration(sampling, privacy, grid, tuning)
    largest = 1 << (int(tally.cells[-1]) // grid + 2 * support_length(privacy)).bit_length()
    functionals = sum_functionals(scheme, of, round_up_key_count(tally.total, tuning), largest)
    total, variance = functionals.total, functionals.variance
    places = scheme.places(tally.cells)
    inside = places < scheme.table_tokens
    places = places[inside]
    far = scheme.posterior_means(
        tally.cells[~inside], [of, variance.function, functionals.covariance.function, functionals.residual_bias]
    )
    above = float(tally.weights[inside] @ total.table_values[places] + tally.weights[~inside] @ far[:, 0])
    extrapolated, extrapolated_error = extrapolated_sum(
        total, functionals.kernels, tally.weights[inside], tally.squares[inside], places
    )

    # two estimates of each key's variance: a posterior mean, and one without bias that has a variance of its own
    posterior, unbiased = (
        np.append(values[places], far[:, 1]) for values in (variance.uncorrected, variance.table_values)
    )
    squared = np.append(functionals.squared_variance[places], far[:, 1] ** 2)
    covariance = np.append(functionals.covariance.table_values[places], far[:, 2])
    # one more key, anywhere from the threshold on to the least reported frequency, that may not have been reported
    least = max(int(tally.cells[0]) // grid + support_length(privacy) // 2, scheme.calibration_threshold)
    weight = math.sqrt(float(tally.squares.sum()) / tally.total)
    unreported, unreported_slope = (
        float(moment) for moment in weight ** np.array([2, 3]) * _unreported_moments(functionals, least)
    )
    by_posterior, by_functional = float(tally.squares @ posterior), float(tally.squares @ unbiased)
    fourth = tally.squares**2 / tally.keys
    error_square = max(float(fourth @ unbiased**2), tuning.variance_floor * float(fourth @ squared))
    error_square += unreported**2 + _TINY
    sum_variance = unreported + max(by_functional, tuning.variance_floor * by_posterior) + _TINY
    raw_keys = sum_variance**2 / error_square
    shortfall = max(by_posterior - by_functional, 0.0)
    sum_variance += shortfall * tuning.variance_blend / (tuning.variance_blend + raw_keys**2)
    posterior_square = float(fourth @ posterior**2) + unreported**2 + _TINY
    return SumEstimate(
        above,
        math.sqrt(sum_variance),
        bias_allowance=float(np.abs(tally.weights) @ np.append(functionals.bias_allowance[places], far[:, 3])),
        effective_keys=(by_posterior + unreported) ** 2 / posterior_square,
        variance_keys=sum_variance**2 / error_square,
        raw_variance_keys=raw_keys,
        variance_slope=max(float(covariance @ (tally.squares * tally.weights / tally.keys)), 0.0) / sum_variance,
        unreported_share=unreported / sum_variance,
        unreported_slope=max(unreported_slope, 0.0) / sum_variance,
        extrapolated=extrapolated,
        extrapolated_error=extrapolated_error,
        tuning=tuning,
    )


def round_up_key_count(keys: float, tuning: Tuning = TUNING) -> int:
    """Round a number of reported keys up, so that few functionals serve all tallies.

    >>> [round_up_key_count(keys) for keys in (3, 101, 400, 10**6)]
    [100, 316, 1000, 1000000]
    """
    per_decade = tuning.key_counts_per_decade
    return int(10 ** (np.ceil(per_decade * np.log10(max(keys, tuning.least_key_count))) / per_decade))


@dataclass(frozen=True, eq=False)
class SumFunctionals:
    """The functionals that estimate a sum and its error."""

    total: Functional  # the sum
    variance: Functional  # its variance
    covariance: Functional  # the covariance of these two
    squared_variance: Floats  # for each token, the posterior mean of the square of a key's estimated variance
    residual_bias: Function  # of the sum, at each frequency
    bias_allowance: Floats  # and for each token
    kernels: list[Kernel]  # the densities just above the threshold


@lru_cache(maxsize=64)
def sum_functionals(scheme: Calibration, of: Function, keys: int, largest: int) -> SumFunctionals:
    """Return the functionals of a sum, which are costly and the same for all tallies of about as many keys."""
    total = _least_error(scheme, of, keys)
    variance_at, keys_of_variance = total.covariance(total, largest), scheme.tuning.variance_penalty_factor * keys
    variance = Functional(scheme, lambda i: np.maximum(variance_at(i), 0.0), keys_of_variance)
    covariance = Functional(scheme, total.covariance(variance, largest), keys_of_variance)
    squares, residual_bias = scheme.laws @ variance.table_values**2, total.residual_bias(largest)
    return SumFunctionals(
        total,
        variance,
        covariance,
        squared_variance=scheme.posterior_mean_table(lambda i: np.interp(i, scheme.frequencies, squares)),
        residual_bias=residual_bias,
        bias_allowance=scheme.posterior_mean_table(residual_bias),
        kernels=kernels_of(total, keys),
    )


def _least_error(scheme: Calibration, of: Function, keys: int) -> Functional:
    """The functional of a sum. For bounded noise, which is nearly normal, it trades bias for variance.

    To undo normal noise costs ever more variance the sharper the function is, so there the bias that is left in is
    chosen by the width of the interval, of which it is a part, for keys that are distributed by Zipf's law.
    """
    if not isinstance(scheme.privacy, KeyNoise):
        return Functional(scheme, of, keys)
    above = ~scheme.below
    weights = scheme.frequencies[above] ** -2.0
    weights *= keys / weights.sum()

    def width(total: Functional) -> float:
        variance, bias = np.maximum(total.variances[above], 0), np.abs(total.bias[above])
        return float(2 * math.sqrt(weights @ variance) + weights @ bias)

    return min((Functional(scheme, of, keys * factor) for factor in scheme.tuning.normal_noise_penalties), key=width)


def _unreported_moments(functionals: SumFunctionals, least: int) -> Floats:
    """The variance of a key that may not have been reported, and its covariance with the sum.

    The key is anywhere from the threshold on to the least reported frequency; where it is surely reported, it does not
    matter.
    """
    scheme = functionals.total.scheme
    tuning, start = scheme.tuning, scheme.calibration_threshold
    end = min(least + tuning.unreported_reach / float(scheme.privacy.epsilon), float(scheme.sampling.largest))
    i = start + np.geomspace(1, max(end - start, 1) + 1, tuning.unreported_points) - 1
    weight = np.minimum(1.0, scheme.unreported_probability(i.astype(np.int64)) / tuning.certain_miss)
    moments = np.stack([f.function(i) for f in (functionals.variance, functionals.covariance)]) * weight  # type: ignore[arg-type]
    return np.asarray((moments[:, 1:] + moments[:, :-1]) / 2 @ np.diff(i) / (i[-1] - i[0]))

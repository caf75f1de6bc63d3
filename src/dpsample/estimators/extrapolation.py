"""Extrapolation: what keys below the calibration threshold add to a sum, by the density of keys just above it.

Nothing in the tokens can confirm it. The density of keys (keys per frequency) is estimated by three smooth kernels just
above the threshold and continued below: constant, or falling as a power of the frequency if it falls toward the
threshold. All estimates are taken `extrapolation_caution` standard errors low.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpsample.estimators.calibration import Calibration, Function
from dpsample.estimators.functional import Functional
from dpsample.estimators.tuning import Tuning
from dpsample.scheme.sampling import Floats, Ints


class Kernel(NamedTuple):
    """An estimator of the density of keys around a frequency."""

    functional: Functional
    width: float  # the number of frequencies that it counts
    density_ratio: float  # of the density at the threshold to that here, at most
    centre: float  # logarithm of the frequency


def kernels_of(total: Functional, keys: int) -> list[Kernel]:
    """Return the kernels for a sum; none if keys below the threshold do not matter to it."""
    calibration = total.calibration
    bias_below = np.abs(total.bias[calibration.below])
    matters = (bias_below > calibration.tuning.rounding_bias).any()
    return _kernels(calibration, keys) if matters else []


@lru_cache(maxsize=16)
def _kernels(calibration: Calibration, keys: int) -> list[Kernel]:
    """Return the kernels of a scheme, the same for every sum: all of them, or none if some has no frequency."""
    tuning = calibration.tuning
    threshold = calibration.calibration_threshold - calibration.before
    half_width = (
        calibration.epsilon * tuning.kernel_width * threshold
    )  # at the threshold, in 1/epsilon
    widen = max(1.0, tuning.kernel_resolution / half_width)
    width = tuning.kernel_width * widen
    kernels: list[Kernel] = []
    for multiple, ratio in zip(tuning.kernel_centres, tuning.kernel_density_ratios, strict=True):
        centre = math.log(threshold) + math.log(multiple) * widen
        bump = _cosine(centre, width, calibration.before)
        functional = Functional(calibration, bump, tuning.kernel_penalty_factor * keys)
        inside = functional.function(calibration.frequencies[~calibration.below])
        # reported keys from below the threshold look like keys at it, and are counted
        from_below = functional.mean[calibration.below]
        counted = float(inside.sum()) + float(from_below.sum())
        frequencies_counted = counted * calibration.spacing
        if not inside.any() or frequencies_counted <= 0:
            return []
        kernels.append(Kernel(functional, frequencies_counted, ratio, centre))
    return kernels


def extrapolate(
    total: Functional, kernels: list[Kernel], density: Floats, error: Floats
) -> tuple[Floats, Floats]:
    """Return what keys below the threshold add to the sum if densities continue there, and its standard error.

    `density` and `error` are the density by each kernel and its standard error, for each group: [..., kernel].
    """
    tuning = total.calibration.tuning
    is_positive = density.min(axis=-1) > 0
    missed_if_constant = float(_missed(total, np.zeros(())))
    if missed_if_constant < 0:
        # the sum counts keys below the threshold, which look like those at it: they are taken away
        overcount = density[..., 0] * missed_if_constant
        return np.where(is_positive, overcount, 0.0), error[..., 0] * -missed_if_constant

    # each kernel bounds the density at the threshold; the lowest bound counts
    ratio = np.array([kernel.density_ratio for kernel in kernels])
    bounds = ratio * density
    bound_errors = np.broadcast_to(ratio * error, density.shape)
    cautious_bounds = ratio * (density - tuning.extrapolation_caution * error)
    lowest = np.argmin(cautious_bounds, axis=-1)[..., None]
    at_threshold = np.take_along_axis(bounds, lowest, -1)[..., 0]
    at_threshold_error = np.take_along_axis(bound_errors, lowest, -1)[..., 0]

    positive_density = np.where(is_positive[..., None], density, 1.0)
    slope = _cautious_slope(positive_density, error, kernels, tuning)
    missed = _missed(total, np.where(is_positive, slope, 0.0))
    cautious_density = at_threshold - tuning.extrapolation_caution * at_threshold_error
    extrapolated = np.maximum(cautious_density * missed, 0.0)
    return np.where(is_positive, extrapolated, 0.0), at_threshold_error * missed


def _cautious_slope(
    density: Floats, error: Floats, kernels: list[Kernel], tuning: Tuning
) -> Floats:
    """Return the power of the frequency with which a density falls below the threshold.

    A density that falls toward the threshold, or bends to fall, keeps falling; one that rises stays constant. Slopes
    are those of the logarithm of the density, between kernels next to each other.
    """
    centres = [kernel.centre for kernel in kernels]
    apart = np.diff(centres)
    slopes = np.diff(np.log(density), axis=-1) / apart
    first_slope = slopes[..., 0]
    last_slope = slopes[..., 1]
    bend = first_slope - last_slope

    # the error is that of 2 first_slope - last_slope, the slope if it bends; errors of logarithms are relative errors
    squared_error = (error / density) ** 2
    first_variance = 4 * squared_error[..., :-1].sum(-1) / apart[0] ** 2
    last_variance = squared_error[..., 1:].sum(-1) / apart[1] ** 2
    slope_error = np.sqrt(first_variance + last_variance)

    followed_bend = np.where(bend <= tuning.sharpest_bend, bend, 0.0)
    slope = first_slope + followed_bend
    cautious = slope - tuning.extrapolation_caution * slope_error
    return np.asarray(cautious.clip(0.0, tuning.steepest_power))


def _missed(total: Functional, slope: Floats) -> Floats:
    """Return what the sum misses if the density is 1 at the threshold, and falls with this power of the frequency.

    A key below the threshold is missed by the bias of its value, with the sign changed.
    """
    calibration = total.calibration
    below = calibration.frequencies[calibration.below] - calibration.before
    threshold = calibration.calibration_threshold - calibration.before
    density = (below / threshold) ** slope[..., None]
    missed = -total.bias[calibration.below]
    return np.asarray(density @ missed * calibration.spacing)


def _cosine(centre: float, width: float, before: int) -> Function:
    """Return a raised cosine in the logarithm of i - before: 1 at the centre, 0 from the half-width on."""

    def bump(i: Ints) -> Floats:
        log_frequency = np.log(np.maximum(i - before, 1))
        distance = np.clip((log_frequency - centre) / width, -1, 1)
        return np.asarray((1 + np.cos(np.pi * distance)) / 2)

    return bump

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
    matters = (
        np.abs(total.bias[total.calibration.below]) > total.calibration.tuning.rounding_bias
    ).any()
    return _kernels(total.calibration, keys) if matters else []


@lru_cache(maxsize=16)
def _kernels(calibration: Calibration, keys: int) -> list[Kernel]:
    """The kernels of a scheme, the same for every sum: all of them, or none if some has no frequency."""
    tuning, threshold = calibration.tuning, calibration.calibration_threshold - calibration.before
    resolved = calibration.epsilon * tuning.kernel_width * threshold
    widen = max(1.0, tuning.kernel_resolution / resolved)
    width = tuning.kernel_width * widen
    kernels: list[Kernel] = []
    for place, ratio in zip(tuning.kernel_centres, tuning.kernel_density_ratios, strict=True):
        centre = math.log(threshold) + math.log(place) * widen
        bump = _cosine(centre, width, calibration.before)
        functional = Functional(calibration, bump, tuning.kernel_penalty_factor * keys)
        inside = functional.function(calibration.frequencies[~calibration.below])
        # reported keys from below the threshold look like keys at it, and are counted
        from_below = functional.mean[calibration.below]
        counted = (float(inside.sum()) + float(from_below.sum())) * calibration.spacing
        if inside.any() and counted > 0:
            kernels.append(Kernel(functional, counted, ratio, centre))
    return kernels if len(kernels) == len(tuning.kernel_centres) else []


def extrapolate(
    total: Functional, kernels: list[Kernel], density: Floats, error: Floats
) -> tuple[Floats, Floats]:
    """Continue densities [..., kernels] below the threshold: what they add to the sum, and its error, [...]."""
    caution = total.calibration.tuning.extrapolation_caution
    ratio = np.array([kernel.density_ratio for kernel in kernels])
    # the density at the threshold by each kernel; the lowest counts
    density_there = ratio * density
    error_there = np.broadcast_to(ratio * error, density.shape)
    cautious_density = ratio * (density - caution * error)
    lowest = np.argmin(cautious_density, axis=-1)[..., None]
    at_threshold = np.take_along_axis(density_there, lowest, -1)[..., 0]
    at_threshold_error = np.take_along_axis(error_there, lowest, -1)[..., 0]
    positive = density.min(axis=-1) > 0

    missed_if_constant = float(_missed(total, np.zeros(())))
    if (
        missed_if_constant < 0
    ):  # the sum counts keys below the threshold, which look like those at it
        counted = density[..., 0] * missed_if_constant
        return np.where(positive, counted, 0.0), error[..., 0] * -missed_if_constant
    known = np.where(positive[..., None], density, 1.0)
    slope = _cautious_slope(known, error, kernels, total.calibration.tuning)
    missed = _missed(total, np.where(positive, slope, 0.0))
    cautious = np.maximum((at_threshold - caution * at_threshold_error) * missed, 0.0)
    return np.where(positive, cautious, 0.0), at_threshold_error * missed


def _cautious_slope(
    density: Floats, error: Floats, kernels: list[Kernel], tuning: Tuning
) -> Floats:
    """The power of the frequency with which a density falls below the threshold.

    A density that falls toward the threshold, or bends to fall, keeps falling; one that rises stays constant.
    """
    apart = np.diff([kernel.centre for kernel in kernels])
    slopes = np.diff(np.log(density), axis=-1) / apart
    first_slope = slopes[..., 0]
    last_slope = slopes[..., 1]
    bend = first_slope - last_slope

    # if it bends, the slope is 2 first_slope - last_slope
    squared_error = (error / density) ** 2
    first_two = 4 * squared_error[..., :-1].sum(-1)
    last_two = squared_error[..., 1:].sum(-1)
    slope_error = np.sqrt(first_two / apart[0] ** 2 + last_two / apart[1] ** 2)

    slope = first_slope + np.where(bend <= tuning.sharpest_bend, bend, 0.0)
    cautious = slope - tuning.extrapolation_caution * slope_error
    return np.asarray(cautious.clip(0.0, tuning.steepest_power))


def _missed(total: Functional, slope: Floats) -> Floats:
    """What the sum misses for a density of 1 at the threshold that falls with this power of the frequency below it."""
    calibration = total.calibration
    below = calibration.frequencies[calibration.below] - calibration.before
    relative = below / (calibration.calibration_threshold - calibration.before)
    density = relative ** slope[..., None]
    return np.asarray(density @ -total.bias[calibration.below] * calibration.spacing)


def _cosine(centre: float, width: float, before: int) -> Function:
    """A raised cosine in the logarithm of i - before: 1 at the centre, 0 from the half-width on."""

    def bump(i: Ints) -> Floats:
        log_frequency = np.log(np.maximum(i - before, 1))
        distance = np.clip((log_frequency - centre) / width, -1, 1)
        return np.asarray((1 + np.cos(np.pi * distance)) / 2)

    return bump

"""Stability-based histograms (SbH): Laplace noise, and a cutoff below which nothing is reported.

With j = i + Lap(1/epsilon), a key is reported if j >= T and, in the sampled form, if it is then sampled with the
probability q_j, as if j were its frequency; the estimate is j / q_j. Sampling adds to the variance, given j,
j**2 (1 / q_j - 1), and nothing to the bias. Writing l = i - T,

    P[j >= T] = 1 - exp(-epsilon l) / 2  for l >= 0,  exp(epsilon l) / 2  for l < 0
    phi_i     = q_T P[j >= T] + integral over x > T of q'_x P[j >= x]
    bias_i    = -exp(-epsilon l) (T - 1/epsilon) / 2  for l >= 0,  exp(epsilon l) (T + 1/epsilon) / 2 - i  for l < 0

These are the expressions of the paper's last appendix, arranged into sums of terms of one sign, so that neither small
tau nor large frequencies cancel, and no exponential overflows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Errors, check_frequency_itself
from dpsample.errors import InvalidValue
from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import (
    Floats,
    Ints,
    KeepAll,
    Ppswor,
    Priority,
    Sampling,
    as_frequencies,
)

_AT_ONCE = 1 << 13  # frequencies in one quadrature: their nodes take 8 MB
# The quadrature of the sampling variance has an error of about 1e-13: its integrand is smooth over a panel, and the
# part that is left out, beyond this many of its decay lengths, is below exp(-50) of 2 / epsilon**2.
_PANELS = 8
_NODES_OF_PANEL = 16
_DECAY_LENGTHS = 50.0


@dataclass(frozen=True)
class StabilityHistogram:
    """SbH, or with a `sampling` by frequency the sampled SbH. For comparison, not certified.

    The paper's cutoff is ``T = ln(1 / delta) / epsilon + 1``. A key of frequency 1 is then reported with probability
    delta / 2; `tight` lets it be delta, ``T = ln(1 / (2 delta)) / epsilon + 1`` (at least 1), which is as private.

    >>> from dpsample import Privacy
    >>> sbh = StabilityHistogram(Privacy(1, 1e-6))
    >>> round(sbh.cutoff, 3), sbh.reported([1, 15, 30]).round(4)
    (14.816, array([0.    , 0.5842, 1.    ]))
    >>> StabilityHistogram(Privacy(1, 1e-6), tight=True).reported([15]).round(4)
    array([0.7921])
    """

    privacy: Privacy
    sampling: Sampling = field(default_factory=KeepAll)
    tight: bool = False

    def __post_init__(self) -> None:
        sampling = self.sampling
        is_by_frequency = (
            isinstance(sampling, Ppswor | Priority) and sampling.power == 1 and sampling.cap is None
        )
        if not is_by_frequency and sampling != KeepAll():
            raise InvalidValue(
                f"sampled SbH is stated for KeepAll, Ppswor and Priority by the frequency, not for {sampling!r}",
                "leave out power and cap",
            )

    @property
    def cutoff(self) -> float:
        """T: the least noisy frequency that is reported."""
        spent = self.privacy.delta * (2 if self.tight else 1)
        minus_log = math.log(spent.denominator) - math.log(spent.numerator)
        return max(1 + minus_log / self._epsilon, 1.0)

    @property
    def _epsilon(self) -> float:
        return float(self.privacy.epsilon)

    @property
    def _tau(self) -> float:
        sampling = self.sampling
        return float(sampling.tau) if isinstance(sampling, Ppswor | Priority) else math.inf

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return phi, the probability that a key of each frequency is reported (and sampled)."""
        i = as_frequencies(frequencies)
        probability = self._reaching_cutoff(i)
        if isinstance(self.sampling, Ppswor):
            probability = self._sampled_by_ppswor(i, probability)
        elif self._tau * self.cutoff < 1:  # otherwise each key that reaches the cutoff is sampled
            probability = self._sampled_by_priority(i, probability)
        return np.where(i > 0, np.minimum(probability, 1.0), 0.0)

    def _reaching_cutoff(self, i: Ints) -> Floats:
        """Return P[j >= T]."""
        ahead = self._epsilon * (i - self.cutoff)
        half = np.exp(-np.abs(ahead)) / 2
        reaching: Floats = np.where(ahead >= 0, 1 - half, half)
        return reaching

    def _sampled_by_ppswor(self, i: Ints, reaching: Floats) -> Floats:
        """Return phi for ppswor: a key is sampled by the first T of j, or else by its excess over T."""
        T = self.cutoff
        tau = self._tau
        epsilon = self._epsilon
        low = np.minimum(i - T, 0.0)
        high = np.maximum(i - T, 0.0)

        # the integral of exp(-epsilon y - tau (high - y)) over 0 < y < high, without cancellation
        slow = min(epsilon, tau)
        apart = abs(epsilon - tau)
        difference = -np.expm1(-apart * high) / apart if apart else high
        both = np.exp(-slow * high) * difference

        share = tau / (epsilon + tau) / 2
        not_sampled = np.exp(-tau * high)
        sampled_by_high = -np.expm1(-tau * high)
        sampled_by_excess = sampled_by_high - tau * both / 2 + not_sampled * share
        reaching_low = np.exp(epsilon * low)
        by_excess = math.exp(-tau * T) * reaching_low * sampled_by_excess
        by_cutoff = -math.expm1(-tau * T) * reaching
        phi: Floats = by_cutoff + by_excess
        return phi

    def _sampled_by_priority(self, i: Ints, reaching: Floats) -> Floats:
        """Return phi for priority sampling whose q still grows above T: it is 1 from 1 / tau on."""
        T = self.cutoff
        tau = self._tau
        epsilon = self._epsilon
        low = np.minimum(i - T, 0.0)
        high = np.maximum(i - T, 0.0)

        # the integral of P[j >= x] over T < x < 1 / tau, below i and beyond it
        end = 1 / tau - T
        below = np.minimum(high, end)
        beyond = np.maximum(end - high, 0)
        scale = 2 * epsilon
        fading = np.exp(-epsilon * (high - below))
        missing_below = -fading * np.expm1(-epsilon * below) / scale
        reaching_low = np.exp(epsilon * low)
        area_beyond = -reaching_low * np.expm1(-epsilon * beyond) / scale
        area = below - missing_below + area_beyond
        phi: Floats = tau * (T * reaching + area)
        return phi

    def errors(self, frequencies: ArrayLike, of: Measure | str = FREQUENCY) -> Errors:
        """Return bias and variance of the estimate j / q_j of the frequency."""
        check_frequency_itself(of)
        i = as_frequencies(frequencies)
        truth = i.astype(np.float64)
        bias, noise_variance = self._errors_of_noise(truth)
        variance = noise_variance + self._sampling_variance(truth)
        exists = i > 0
        return Errors(
            frequencies=i,
            truth=truth,
            reported=self.reported(i),
            bias=np.where(exists, bias, 0),
            variance=np.where(exists, variance, 0),
        )

    def _errors_of_noise(self, i: Floats) -> tuple[Floats, Floats]:
        """Return the bias and the variance without sampling, of j where it reaches T and 0 elsewhere."""
        T = self.cutoff
        scale = 1 / self._epsilon
        ahead = i - T
        fading = np.exp(-np.abs(ahead) / scale)
        # above T, moments of the error
        mean_error = -fading * (T - scale) / 2
        added = T**2 / 2 + ahead * (T - scale) - scale**2
        square_error = 2 * scale**2 + fading * added
        # below T, moments of the estimate
        mean = fading * (T + scale) / 2
        at_cutoff = T**2 / 2 + T * scale + scale**2
        square = fading * at_cutoff

        above = ahead > 0
        bias = np.where(above, mean_error, mean - i)
        variance = np.where(above, square_error - mean_error**2, square - mean**2)
        return bias, variance

    def _sampling_variance(self, i: Floats) -> Floats:
        """Return the integral over x > T of x**2 (1 / q_x - 1) times the density of j at x."""
        if not isinstance(self.sampling, Ppswor | Priority):
            return np.zeros(i.shape)
        flat = i.reshape(-1)
        parts = [np.empty(0)]
        for start in range(0, i.size, _AT_ONCE):
            parts.append(self._integrated(flat[start : start + _AT_ONCE]))
        return np.concatenate(parts).reshape(i.shape)

    def _integrated(self, i: Floats) -> Floats:
        """Return the same integral, below i and above it: the density of j has a corner at i."""
        T = self.cutoff
        epsilon = self._epsilon
        tau = self._tau
        if isinstance(self.sampling, Ppswor):
            last = (
                _DECAY_LENGTHS + 2 * math.log1p(epsilon / tau)
            ) / tau  # exp(-tau x) is nothing beyond
            decay_above = epsilon + tau
        else:
            last = 1 / tau  # from there on each key is sampled
            decay_above = epsilon

        def spread(x: Floats) -> Floats:
            """Return x**2 (1 / q_x - 1) times the density of j, relative to its peak."""
            away = np.abs(x - i[:, None])
            density = np.exp(-epsilon * away)
            if not isinstance(self.sampling, Ppswor):
                return x * (1 / tau - x) * density
            not_sampled = np.exp(-tau * x)
            q = -np.expm1(-tau * x)
            return x**2 * not_sampled / q * density

        decayed_below = i - _DECAY_LENGTHS / epsilon
        below = _integral(spread, np.maximum(decayed_below, T), np.minimum(i, last))
        start = np.maximum(i, T)
        decayed_above = start + _DECAY_LENGTHS / decay_above
        above = _integral(spread, start, np.minimum(decayed_above, max(last, T)))
        both: Floats = epsilon / 2 * (below + above)
        return both


def _integral(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return the integral of a smooth function from each of `low` to `high`, by Gauss and Legendre's rule on panels."""
    nodes, weights = leggauss(_NODES_OF_PANEL)  # on [-1, 1]
    within_panel = (nodes + 1) / 2
    panel = np.arange(_PANELS)[:, None]
    places = (panel + within_panel).reshape(-1) / _PANELS  # on [0, 1]
    weights_of_places = np.tile(weights / 2, _PANELS) / _PANELS

    width = np.maximum(high - low, 0)
    x = low[:, None] + width[:, None] * places
    mean = function(x) @ weights_of_places
    return np.asarray(width * mean)

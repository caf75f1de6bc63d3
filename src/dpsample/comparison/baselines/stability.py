"""Stability-based histograms (SbH): Laplace noise, and a cutoff below which nothing is reported.

With j = i + Lap(1/epsilon), a key is reported if j >= T and, in the sampled form, if it is then sampled with the
probability q_j, as if j were its frequency; the estimate is j / q_j. Sampling adds to the variance, given j,
j**2 (1 / q_j - 1), and nothing to the bias. Writing l = i - T,

    P[j >= T] = 1 - exp(-epsilon l) / 2  for l >= 0,  exp(epsilon l) / 2  for l < 0
    phi_i     = q_T P[j >= T] + integral over x > T of q'_x P[j >= x]
    bias_i    = -exp(-epsilon l) (T - 1/epsilon) / 2  for l >= 0,  exp(epsilon l) (T + 1/epsilon) / 2 - i  for l < 0

These are the paper's expressions, arranged into sums of terms of one sign, so that neither small tau nor large
frequencies cancel, and no exponential overflows.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial.laguerre import laggauss
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Errors
from dpsample.errors import InvalidValue
from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Ppswor, Priority, Sampling, as_frequencies

_CHUNK = 1 << 13  # frequencies at once in a quadrature


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
        s = self.sampling
        plain = isinstance(s, Ppswor | Priority) and s.power == 1 and s.cap is None
        if not (plain or s == KeepAll()):
            raise InvalidValue(
                "sampled SbH is stated for KeepAll, and for Ppswor and Priority by the frequency itself",
                f"{s!r}",
                "leave out power and cap",
            )

    @property
    def cutoff(self) -> float:
        """T: what the noisy frequency must reach."""
        spent = self.privacy.delta * (2 if self.tight else 1)
        return max(1 + (math.log(spent.denominator) - math.log(spent.numerator)) / self._epsilon, 1.0)

    def reported(self, frequencies: ArrayLike) -> Floats:
        """phi: the probability that a key of each frequency is reported (and sampled)."""
        i = as_frequencies(frequencies)
        reaching = self._reaching(i)
        grows_above_cutoff = self._tau * self.cutoff < 1
        if isinstance(self.sampling, Ppswor):
            reaching = self._sampled_by_ppswor(i, reaching)
        elif grows_above_cutoff:
            reaching = self._sampled_by_priority(i, reaching)
        return np.where(i > 0, np.minimum(reaching, 1.0), 0.0)

    def _sampled_by_ppswor(self, i: Ints, reaching: Floats) -> Floats:
        """Return phi for ppswor: sampled by the cutoff T, or else by what j exceeds T by."""
        T, tau, epsilon = self.cutoff, self._tau, self._epsilon
        ahead = i - T
        low = np.minimum(ahead, 0.0)
        high = np.maximum(ahead, 0.0)

        # the integral of exp(-epsilon y - tau (high - y)) over 0 < y < high, without cancellation
        slow = min(epsilon, tau)
        apart = abs(epsilon - tau)
        difference = -np.expm1(-apart * high) / apart if apart else high
        both = np.exp(-slow * high) * difference

        above = np.exp(-tau * high) * tau / (epsilon + tau) / 2
        sampled_by_excess = -np.expm1(-tau * high) - tau * both / 2 + above
        by_excess = math.exp(-tau * T) * np.exp(epsilon * low) * sampled_by_excess
        by_cutoff = -math.expm1(-tau * T) * reaching
        phi: Floats = by_cutoff + by_excess
        return phi

    def _sampled_by_priority(self, i: Ints, reaching: Floats) -> Floats:
        """Return phi for priority sampling whose q still grows above T: it is 1 from 1 / tau on."""
        T, tau, epsilon = self.cutoff, self._tau, self._epsilon
        ahead = i - T
        low = np.minimum(ahead, 0.0)
        high = np.maximum(ahead, 0.0)

        # the integral of P[j >= x] over T < x < 1 / tau
        end = 1 / tau - T
        below = np.minimum(high, end)
        beyond = np.maximum(end - high, 0)
        area = below + np.exp(-epsilon * (high - below)) * np.expm1(-epsilon * below) / (2 * epsilon)
        area -= np.exp(epsilon * low) * np.expm1(-epsilon * beyond) / (2 * epsilon)
        phi: Floats = tau * (T * reaching + area)
        return phi

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Bias and variance of the estimate j / q_j of the frequency."""
        check_frequency_itself(of)
        i = as_frequencies(frequencies)
        T = self.cutoff
        e = 1 / self._epsilon
        ahead = i - T
        fading = np.exp(-np.abs(ahead) / e)
        mean = fading * (T + e) / 2
        bias = np.where(ahead > 0, -fading * (T - e) / 2, mean - i)
        variance_above = 2 * e**2 + fading * (T**2 / 2 + ahead * (T - e) - e**2) - bias**2
        variance_below = fading * (T**2 / 2 + T * e + e**2) - mean**2
        of_noise = np.where(ahead > 0, variance_above, variance_below)
        variance = of_noise + self._sampling_variance(i.astype(np.float64))

        exists = i > 0
        truth = i.astype(np.float64)
        return Errors(i, truth, self.reported(i), np.where(exists, bias, 0), np.where(exists, variance, 0))

    def draw(self, frequencies: ArrayLike, generator: np.random.Generator) -> Floats:
        """Draw an estimate for one key of each frequency; 0 where it is not reported."""
        i = as_frequencies(frequencies)
        j = i + generator.laplace(scale=1 / self._epsilon, size=i.shape)
        x = self._tau * np.maximum(j, self.cutoff)
        if isinstance(self.sampling, Ppswor):
            q = -np.expm1(-x)
        else:
            q = np.minimum(x, 1.0)
        sampled = generator.random(i.shape) < q
        reported = (i > 0) & (j >= self.cutoff) & sampled
        return np.where(reported, j / q, 0.0)

    @property
    def _epsilon(self) -> float:
        return float(self.privacy.epsilon)

    @property
    def _tau(self) -> float:
        s = self.sampling
        return float(s.tau) if isinstance(s, Ppswor | Priority) else math.inf

    def _reaching(self, x: ArrayLike) -> Floats:
        ahead = self._epsilon * (np.asarray(x) - self.cutoff)
        half = np.exp(-np.abs(ahead)) / 2
        return np.where(ahead >= 0, 1 - half, half)

    def _sampling_variance(self, i: Floats) -> Floats:
        """Return the integral over x > T of x**2 (1 / q_x - 1) times the density of j at x."""
        if isinstance(self.sampling, Priority):
            return self._by_priority(i)
        if not isinstance(self.sampling, Ppswor):
            return np.zeros(i.shape)
        flat = i.reshape(-1)
        parts = [np.empty(0)]
        for start in range(0, i.size, _CHUNK):
            parts.append(self._by_ppswor(flat[start : start + _CHUNK]))
        return np.concatenate(parts).reshape(i.shape)

    def _by_priority(self, i: Floats) -> Floats:
        """The integral for priority sampling, of x (1/tau - x) up to 1/tau.

        On each side of i it is a sum of positive terms, each of which has a closed form.
        """
        T, epsilon, end = self.cutoff, self._epsilon, 1 / self._tau

        # above i: x = s + y, and 1/tau - x = n - y, for y up to n
        s = np.maximum(i, T)
        n = np.maximum(end - s, 0)
        z = epsilon * n
        above = np.exp(-epsilon * (s - i)) * n**2 * (s * _integral(z, 0, 1) + n * _integral(z, 1, 1))

        # below i: x = u - y, and 1/tau - x = rest + y, for y up to n
        u = np.clip(i, None, end)
        n = np.maximum(u - T, 0)
        z = epsilon * n
        rest = end - u
        ones = n * _integral(z, 0, 0)
        ys = n**2 * _integral(z, 1, 0)
        times_cutoff = T * (rest * ones + ys)
        times_excess = n**2 * (rest * _integral(z, 0, 1) + n * _integral(z, 1, 1))
        below = np.exp(-epsilon * (i - u)) * (times_cutoff + times_excess)

        both: Floats = epsilon / 2 * (above + below)
        return both

    def _by_ppswor(self, i: Floats) -> Floats:
        """The integral for ppswor, of x**2 / (exp(tau x) - 1): by Gauss' rules, to about 1e-13.

        It has no elementary form. Its poles are 2 pi / tau away from the real line, so it is smooth over the steps that
        are taken. Above i it falls at least as exp(-(epsilon + tau) y). Below i, what is left out is below exp(-50) of
        2 / epsilon**2.
        """
        T, epsilon, tau = self.cutoff, self._epsilon, self._tau

        def weight(x: Floats) -> Floats:
            return x**2 / -np.expm1(-tau * x)

        # above i, by the rule of Gauss and Laguerre
        nodes, weights = laggauss(32)
        start = np.maximum(i, T)
        rate = epsilon + tau
        at_nodes = weight(start[:, None] + nodes / rate)
        above = np.exp(-epsilon * (start - i) - tau * start) * (at_nodes @ weights) / rate

        # below i, by the rule of Gauss and Legendre on equal panels
        enough = 50.0
        low = np.maximum(T, i - enough / epsilon)
        high = np.minimum(i, (enough + 2 * math.log1p(epsilon / tau)) / tau)
        width = np.maximum(high - low, 0)
        nodes, weights = leggauss(16)
        panels = 8
        panel = np.arange(panels)[:, None]
        nodes = ((panel + (nodes + 1) / 2) / panels).reshape(-1)
        weights = np.tile(weights / 2 / panels, panels)
        x = np.maximum(low, 1)[:, None] + width[:, None] * nodes
        part = weight(x) * np.exp(-tau * x - epsilon * np.maximum(i[:, None] - x, 0))

        both: Floats = epsilon / 2 * (above + width * (part @ weights))
        return both


def check_frequency_itself(of: Measure | str) -> None:
    """Refuse a measure that the expressions of the baselines do not cover."""
    if Measure.of(of) != FREQUENCY:
        raise InvalidValue(
            "the exact errors of this baseline are stated for the frequency itself",
            str(Measure.of(of)),
            "give of='frequency'; Pws and NonPrivate take any measure",
        )


def _integral(z: Floats, a: int, b: int) -> Floats:
    """Integral over 0 < s < 1 of s**a (1 - s)**b exp(-z s), for a and b 0 or 1; by its series for small z."""
    series = np.zeros(z.shape)
    small, large = np.minimum(z, 1.0), np.maximum(z, 1.0)
    for k in range(20, -1, -1):
        n = k + a + 1
        series = (series * -small / (k + 1)) + (1 / n if b == 0 else 1 / (n * (n + 1)))
    e = np.exp(-large)
    closed = {
        (0, 0): (1 - e) / large,
        (1, 0): (1 - (1 + large) * e) / large**2,
        (0, 1): (large - 1 + e) / large**2,
        (1, 1): (large - 2 + (large + 2) * e) / large**3,
    }[a, b]
    return np.where(z < 1, series, closed)

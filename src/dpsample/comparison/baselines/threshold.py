"""Sample-and-threshold: each element is kept with probability p, and keys with at least t kept elements are reported.

No noise is added: c, the number of kept elements, is published as it is. For a key of n elements c is Binomial(n, p),
with probabilities B_n(c). One element more multiplies that of c by n (1 - p) / (n - c), which grows with c, so with
E = exp(epsilon) and alpha = 1 - (1 - p) / E the outcomes that become more than E times as likely are those above
n alpha, and

    delta_n = sum over c >= t, c > n alpha, of B_n(c) - E B_{n-1}(c)
            = sum of B_n(c) (c - n alpha) / (n (1 - alpha))

"Not reported" becomes less likely. One element less multiplies each by at most 1 / (1 - p), "not reported" included,
which is at most E as long as p <= 1 - 1/E: then nothing is spent that way. So delta is the largest delta_n over all
n >= t. Since delta_n <= P[c >= n alpha] <= exp(-n D), with D the relative entropy of alpha to p, only finitely many n
need to be looked at.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Errors
from dpsample.comparison.baselines.stability import check_frequency_itself
from dpsample.errors import InvalidValue
from dpsample.estimators.measures import Measure
from dpsample.exact import Number, exact, text
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, as_frequencies

_BLOCK = 1 << 20  # frequencies times kept elements at once
_SAFE = 1 + 1e-9  # far above the rounding of the sums
_LEAST = 1e-290  # floats end soon after
_MOST = 0.99  # of the rate: closer to 1, the number of frequencies to look at has no bound


@dataclass(frozen=True)
class SampleAndThreshold:
    """Elements kept with probability `rate`, and keys reported from `threshold` kept ones on. For comparison.

    The estimate is c / rate. `for_privacy` chooses both.

    >>> from dpsample import Privacy
    >>> method = SampleAndThreshold.for_privacy(Privacy(1, 1e-6))
    >>> method.threshold, round(method.rate, 3), method.reported([20, 60, 200]).round(3)
    (18, 0.319, array([0.   , 0.668, 1.   ]))
    """

    rate: float
    threshold: int

    def __post_init__(self) -> None:
        if not 0 < self.rate <= _MOST:
            raise InvalidValue(
                f"the rate is above 0 and at most {_MOST}", f"{self.rate!r}", "choose it with for_privacy"
            )
        if self.threshold < 1:
            raise InvalidValue("the threshold is at least 1", f"{self.threshold!r}", "choose it with for_privacy")

    @classmethod
    def for_privacy(cls, privacy: Privacy) -> "SampleAndThreshold":
        """Choose the rate and threshold that report keys from about the lowest frequency on, threshold / rate.

        Of 16 rates the one with the smallest such frequency, each with the smallest threshold that privacy allows; then
        the largest rate for that threshold. Delta is checked on the safe side.
        """
        if privacy.delta < _LEAST:
            raise InvalidValue(f"delta is at least {_LEAST}", text(privacy.delta), "choose a larger one")
        method = cls._chosen(privacy, everywhere=False)  # nearly always right, and far faster with a small epsilon
        return method if method._keeps(privacy) else cls._chosen(privacy, everywhere=True)

    @classmethod
    def _chosen(cls, privacy: Privacy, everywhere: bool) -> "SampleAndThreshold":
        largest = min(-math.expm1(-float(privacy.epsilon)), _MOST)
        tried = [cls._lowest(largest * k / 16, privacy, everywhere) for k in range(1, 17)]
        best = min(tried, key=lambda method: method.threshold / method.rate)
        low, high = best.rate, largest
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if cls(middle, best.threshold)._keeps(privacy, everywhere) else (low, middle)
        return cls(low, best.threshold)

    @classmethod
    def _lowest(cls, rate: float, privacy: Privacy, everywhere: bool) -> "SampleAndThreshold":
        low, high = 0, 1
        while not cls(rate, high)._keeps(privacy, everywhere):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if cls(rate, middle)._keeps(privacy, everywhere) else (middle, high)
        return cls(rate, high)

    def _keeps(self, privacy: Privacy, everywhere: bool = True) -> bool:
        return self._delta(float(privacy.epsilon), float(privacy.delta), everywhere) <= float(privacy.delta)

    def delta(self, epsilon: Number) -> float:
        """Return the smallest delta with which it is private for this epsilon, rounded up.

        >>> round(SampleAndThreshold(rate=0.001, threshold=1).delta(1), 9)
        0.001
        """
        number = exact(epsilon, "epsilon")
        if self.rate > -math.expm1(-float(number)):
            raise InvalidValue(
                "the rate is at most 1 - exp(-epsilon)",
                f"rate {self.rate:.6g}, epsilon = {text(number)}",
                "choose it with for_privacy",
            )
        return self._delta(float(number))

    def _delta(self, e: float, enough: float = math.inf, everywhere: bool = True) -> float:
        """Return delta; if it exceeds `enough`, anything above; unless `everywhere`, the largest delta_n of a few n."""
        p, t = self.rate, self.threshold
        rest = (1 - p) * math.exp(-e)  # 1 - alpha
        alpha = p - (1 - p) * math.expm1(-e)
        entropy = alpha * math.log(alpha / p) - rest * e
        # as n grows, c = t - 1 ceases to count, and then c = t: the largest delta_n is in between, or close by
        at = max(math.floor(t / alpha), t)
        from_n = max(math.floor((t - 1) / alpha), t)
        near = np.arange(from_n, at + 1)
        largest = float(self._spent(near[-1:], rest)[0])
        if largest <= enough:
            largest = float(self._spent(near, rest).max())
        if largest > enough or not everywhere:
            return max(largest * _SAFE, _LEAST)
        last = at
        if largest > 0:
            last = max(at, math.ceil(-math.log(largest) / entropy))
        step = _BLOCK // 64
        for n in range(t, last + 1, step):
            block = np.arange(n, min(n + step, last + 1))
            largest = max(largest, float(self._spent(block, rest).max()))
        return max(largest * _SAFE, _LEAST)

    def _spent(self, n: Ints, rest: float) -> Floats:
        """Return delta_n: from the first c that counts, terms at least halve, so 64 of them are enough."""
        p = self.rate
        first = np.maximum(n - np.ceil(n * rest).astype(np.int64) + 1, self.threshold)
        c = first[:, None] + np.arange(64)
        left = n[:, None] - c
        expected_left = (n * rest)[:, None]
        weight = np.maximum(1 - left / expected_left, 0)
        log_first = _log_choose(n, first) + first * math.log(p) + (n - first) * math.log1p(-p)
        first_term = np.where(first <= n, np.exp(log_first), 0.0)
        odds = p / (1 - p)
        with np.errstate(divide="ignore"):
            ratios = np.maximum(left[:, :-1], 0) / c[:, 1:] * odds
        factors = np.column_stack([first_term, ratios])
        terms = np.cumprod(factors, axis=1)
        return np.asarray((terms * weight).sum(axis=1))

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return the probability that a key of each frequency is reported, P[c >= threshold]."""
        return self.errors(frequencies).reported

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Bias and variance of the estimate c / rate of the frequency."""
        check_frequency_itself(of)
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        # c at and above the threshold are summed up to where nothing is left, for frequencies below threshold / rate
        width = self.threshold + math.ceil(14 * math.sqrt(self.threshold)) + 80
        at_once = max(1, _BLOCK // width)
        parts = [np.empty((3, 0))]
        for start in range(0, len(i), at_once):
            parts.append(self._moments(i[start : start + at_once], width))
        moments = np.concatenate(parts, axis=1)

        shape = np.shape(frequencies)
        reported, bias, variance = (column[back].reshape(shape) for column in moments)
        i = i[back].reshape(shape)
        return Errors(i, i.astype(np.float64), reported, bias, variance)

    def _moments(self, i: Ints, width: int) -> Floats:
        """Return the reporting probability, bias and variance: from the smaller of both sides of the threshold."""
        p, t = self.rate, self.threshold
        low, high = np.split(self._binomial(i, width), [t], axis=1)
        low_values, high_values = np.split(np.arange(width) / p, [t])
        x = i.astype(np.float64)

        # many keys are reported: what is missing is small
        missing = low.sum(axis=1)
        lost = low @ low_values
        lost_square = (low * low_values * (2 * x[:, None] - low_values)).sum(axis=1)
        many_mse = x * (1 - p) / p + lost_square
        many = np.array([1 - missing, -lost, many_mse - lost**2])

        # few keys are reported
        reported = high.sum(axis=1)
        mean = high @ high_values
        deviation = high_values - mean[:, None]
        spread = (high * deviation**2).sum(axis=1) + (1 - reported) * mean**2
        few = np.array([reported, mean - x, spread])
        return np.where(x * p >= t, many, few)

    def _binomial(self, i: Ints, width: int) -> Floats:
        """Return the probability that c of i elements are counted: shape (frequency, c), for c below `width`."""
        p = self.rate
        c = np.arange(width)
        n = i[:, None]
        with np.errstate(divide="ignore"):
            steps = np.log(np.maximum(n - c[:-1], 0) / c[1:])
        log_choose = np.column_stack([np.zeros(len(i)), np.cumsum(steps, axis=1)])
        return np.asarray(np.exp(log_choose + c * math.log(p) + (n - c) * math.log1p(-p)))

    def draw(self, frequencies: ArrayLike, generator: np.random.Generator) -> Floats:
        """Draw an estimate for one key of each frequency; 0 where it is not reported."""
        c = generator.binomial(as_frequencies(frequencies), self.rate)
        return np.where(c >= self.threshold, c / self.rate, 0.0)


def _log_choose(n: Ints, k: Ints) -> Floats:
    """Return ln of n over k; 0 where k > n."""
    logs = np.cumsum(np.log(np.maximum(np.arange(int(max(n.max(), k.max())) + 1), 1)))
    return np.where(k <= n, logs[n] - logs[k] - logs[np.maximum(n - k, 0)], 0.0)

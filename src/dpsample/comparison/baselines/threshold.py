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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Errors, check_frequency_itself
from dpsample.errors import InvalidValue
from dpsample.estimators.measures import Measure
from dpsample.exact import Number, exact, text
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, as_frequencies

_AT_ONCE = 1 << 20  # frequencies times kept elements: an array takes 8 MB
_TERMS = 64  # of delta_n: from the first that counts, each term is at most half of the one before
_RATES = 16  # that are tried, in equal steps up to the largest one
_BISECTIONS = 30  # the rate is found to 1e-9 of its largest value
_SAFE = 1 + 1e-9  # far above the rounding of the sums
_SMALLEST_DELTA = 1e-290  # floats end soon after
_LARGEST_RATE = 0.99  # closer to 1, the number of frequencies to look at has no bound


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
        if not 0 < self.rate <= _LARGEST_RATE:
            raise InvalidValue(
                f"the rate must be above 0 and at most {_LARGEST_RATE}, not {self.rate!r}",
                "choose it with for_privacy",
            )
        if self.threshold < 1:
            raise InvalidValue(
                f"the threshold must be at least 1, not {self.threshold!r}",
                "choose it with for_privacy",
            )

    @classmethod
    def for_privacy(cls, privacy: Privacy) -> "SampleAndThreshold":
        """Choose the rate and threshold that report keys from about the lowest frequency on, threshold / rate.

        Each of 16 rates has the smallest threshold that privacy allows; the one with the lowest such frequency is
        taken. Its threshold then has the largest rate that privacy allows. Delta is checked on the safe side.
        """
        if privacy.delta < _SMALLEST_DELTA:
            raise InvalidValue(
                f"delta must be at least {_SMALLEST_DELTA}, not {text(privacy.delta)}",
                "choose a larger one",
            )
        epsilon, delta = float(privacy.epsilon), float(privacy.delta)

        def keeps(method: SampleAndThreshold) -> bool:
            return method._delta(epsilon, delta) <= delta

        def keeps_nearby(method: SampleAndThreshold) -> bool:
            return _rounded_up(method._largest_nearby(epsilon, delta)) <= delta

        method = _chosen(
            epsilon, keeps_nearby
        )  # nearly always right, and far faster with a small epsilon
        return method if keeps(method) else _chosen(epsilon, keeps)

    def delta(self, epsilon: Number) -> float:
        """Return the smallest delta with which it is private for this epsilon, rounded up.

        >>> round(SampleAndThreshold(rate=0.001, threshold=1).delta(1), 9)
        0.001
        """
        number = exact(epsilon, "epsilon")
        if self.rate > -math.expm1(-float(number)):
            raise InvalidValue(
                f"the rate must be at most 1 - exp(-epsilon), not {self.rate:.6g} with epsilon {text(number)}",
                "choose it with for_privacy",
            )
        return self._delta(float(number), math.inf)

    def _delta(self, epsilon: float, enough: float) -> float:
        """The largest delta_n over all n >= t, rounded up; if it exceeds `enough`, anything above that."""
        p, t = self.rate, self.threshold
        largest = self._largest_nearby(epsilon, enough)
        if largest <= enough:
            alpha = self._alpha(epsilon)
            rest = (1 - p) * math.exp(-epsilon)  # 1 - alpha
            entropy = alpha * math.log(alpha / p) - rest * epsilon  # D, of alpha to p
            last = max(math.floor(t / alpha), t)
            if largest > 0:  # beyond, exp(-n D) is smaller than what is known
                last = max(last, math.ceil(-math.log(largest) / entropy))
            step = _AT_ONCE // _TERMS
            for n in range(t, last + 1, step):
                block = np.arange(n, min(n + step, last + 1))
                spent = self._spent(block, epsilon)
                largest = max(largest, float(spent.max()))
        return _rounded_up(largest)

    def _largest_nearby(self, epsilon: float, enough: float) -> float:
        """The largest delta_n of a few n, where it is nearly always; if it exceeds `enough`, anything above that.

        As n grows, c = t - 1 ceases to count, and then c = t. The largest delta_n is between the two, or close by.
        """
        t, alpha = self.threshold, self._alpha(epsilon)
        first = max(math.floor((t - 1) / alpha), t)
        last = max(math.floor(t / alpha), t)
        [at_last] = self._spent(np.array([last]), epsilon).tolist()
        if at_last > enough:
            return float(at_last)
        nearby = self._spent(np.arange(first, last + 1), epsilon)
        return float(nearby.max())

    def _alpha(self, epsilon: float) -> float:
        """1 - (1 - p) / E, without cancellation."""
        p = self.rate
        return p - (1 - p) * math.expm1(-epsilon)

    def _spent(self, n: Ints, epsilon: float) -> Floats:
        """delta_n for each n: the sum of B_n(c) (c - n alpha) / (n (1 - alpha)), term by term from B_n of the first."""
        p = self.rate
        rest = (1 - p) * math.exp(-epsilon)  # 1 - alpha
        most_not_kept = np.ceil(n * rest).astype(np.int64)
        first = np.maximum(n - most_not_kept + 1, self.threshold)
        c = first[:, None] + np.arange(_TERMS)
        not_kept = n[:, None] - c
        relative = not_kept / (n * rest)[:, None]
        weight = np.maximum(1 - relative, 0)

        log_kept = first * math.log(p)
        log_not_kept = (n - first) * math.log1p(-p)
        log_first = _log_choose(n, first) + log_kept + log_not_kept
        first_term = np.where(first <= n, np.exp(log_first), 0.0)
        odds = p / (1 - p)
        left = np.maximum(not_kept[:, :-1], 0)
        ratios = left / c[:, 1:] * odds
        factors = np.column_stack([first_term, ratios])
        probabilities = np.cumprod(factors, axis=1)
        terms = probabilities * weight
        return np.asarray(terms.sum(axis=1))

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return the probability that a key of each frequency is reported, P[c >= threshold]."""
        return self.errors(frequencies).reported

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Bias and variance of the estimate c / rate of the frequency."""
        check_frequency_itself(of)
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        back = back.reshape(np.shape(frequencies))
        width = self._counts_that_matter()
        at_once = max(1, _AT_ONCE // width)
        parts = [np.empty((3, 0))]
        for start in range(0, len(i), at_once):
            parts.append(self._moments(i[start : start + at_once], width))
        reported, bias, variance = np.concatenate(parts, axis=1)
        return Errors(
            i[back], i[back].astype(np.float64), reported[back], bias[back], variance[back]
        )

    def _counts_that_matter(self) -> int:
        """The numbers of kept elements that are summed over, from 0 on, for frequencies below threshold / rate.

        Their mean is below the threshold; what is above it by 14 standard deviations and 80 has no weight in floats.
        """
        return self.threshold + math.ceil(14 * math.sqrt(self.threshold)) + 80

    def _moments(self, i: Ints, width: int) -> Floats:
        """The reporting probability, bias and variance, as rows: from the smaller side of the threshold."""
        p, t = self.rate, self.threshold
        x = i.astype(np.float64)
        values = np.arange(width) / p
        low, high = np.split(self._binomial(i, width), [t], axis=1)
        low_values, high_values = np.split(values, [t])
        mostly_reported = _moments_by_loss(x, p, low, low_values)
        mostly_missing = _moments_by_reports(x, high, high_values)
        return np.where(x * p >= t, mostly_reported, mostly_missing)

    def _binomial(self, i: Ints, width: int) -> Floats:
        """The probability that c of i elements are kept: shape (frequency, c), for c below `width`."""
        p = self.rate
        c = np.arange(width)
        left = i[:, None] - c
        ratios = np.maximum(left[:, :-1], 0) / c[1:]
        with np.errstate(divide="ignore"):  # no elements are left: the logarithm is minus infinity
            steps = np.log(ratios)
        nothing_chosen = np.zeros(len(i))
        log_choose = np.column_stack([nothing_chosen, np.cumsum(steps, axis=1)])
        log_kept = c * math.log(p)
        log_not_kept = left * math.log1p(-p)
        return np.asarray(np.exp(log_choose + log_kept + log_not_kept))


def _rounded_up(delta: float) -> float:
    return max(delta * _SAFE, _SMALLEST_DELTA)


def _chosen(epsilon: float, keeps: Callable[[SampleAndThreshold], bool]) -> SampleAndThreshold:
    """The best of several rates, each with its smallest threshold, and then the largest rate for that threshold."""
    largest = min(-math.expm1(-epsilon), _LARGEST_RATE)
    tried = [_lowest(largest * step / _RATES, keeps) for step in range(1, _RATES + 1)]
    best = min(tried, key=lambda method: method.threshold / method.rate)
    low, high = best.rate, largest
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if keeps(SampleAndThreshold(middle, best.threshold)):
            low = middle
        else:
            high = middle
    return SampleAndThreshold(low, best.threshold)


def _lowest(rate: float, keeps: Callable[[SampleAndThreshold], bool]) -> SampleAndThreshold:
    """The smallest threshold that is private with this rate: by doubling, then by bisection."""
    low, high = 0, 1
    while not keeps(SampleAndThreshold(rate, high)):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(SampleAndThreshold(rate, middle)):
            high = middle
        else:
            low = middle
    return SampleAndThreshold(rate, high)


def _moments_by_loss(x: Floats, p: float, low: Floats, values: Floats) -> Floats:
    """The moments of keys that are mostly reported: those of c / p, less what is below the threshold."""
    missing = low.sum(axis=1)
    lost = low @ values
    # the square of an error is x**2 where it was that of the value
    added = values * (2 * x[:, None] - values)
    added_square = (low * added).sum(axis=1)
    square_of_sampling = x * (1 - p) / p
    square = square_of_sampling + added_square
    return np.array([1 - missing, -lost, square - lost**2])


def _moments_by_reports(x: Floats, high: Floats, values: Floats) -> Floats:
    """The moments of keys that are mostly missing: sums over what is reported."""
    reported = high.sum(axis=1)
    mean = high @ values
    deviation = values - mean[:, None]
    if_reported = (high * deviation**2).sum(axis=1)
    if_missing = (1 - reported) * mean**2
    variance = if_reported + if_missing
    return np.array([reported, mean - x, variance])


def _log_choose(n: Ints, k: Ints) -> Floats:
    """Ln of n over k; 0 where k > n."""
    largest = int(max(n.max(), k.max()))
    factors = np.maximum(np.arange(largest + 1), 1)
    log_factorial = np.cumsum(np.log(factors))
    rest = np.maximum(n - k, 0)
    chosen = log_factorial[n] - log_factorial[k] - log_factorial[rest]
    return np.where(k <= n, chosen, 0.0)

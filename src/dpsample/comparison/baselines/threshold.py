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
from dpsample.scheme.bisection import first_integer
from dpsample.scheme.sampling import Floats, Ints, as_frequencies

_AT_ONCE = 1 << 20  # frequencies times kept elements: an array takes 8 MB
# terms of delta_n that are summed. Above n alpha, B_n(c) is at most 1 / (E + 1) of B_n(c - 1) if p <= 1 - 1/E, so all
# others together are below 1e-17 of the sum
_TERMS = 64
_RATES = 16  # that are tried, in equal steps up to the largest one
_BISECTIONS = 30  # the rate is found to 1e-9 of its largest value
_SAFE = 1 + 1e-9  # far above the rounding of the sums
_SMALLEST_DELTA = 1e-290  # floats end soon after
_LARGEST_RATE = 0.99  # closer to 1, the number of frequencies to look at has no bound
_SERIES_FROM = 16  # numbers from here on have their Stirling error by its series, to 1e-16


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
        """Choose the rate and the threshold with the lowest threshold / rate: about the frequency of detection.

        Each of 16 rates has the smallest threshold that privacy allows, and the best of these is taken. Its threshold
        then has the largest rate that privacy allows. Delta is rounded up.
        """
        if privacy.delta < _SMALLEST_DELTA:
            raise InvalidValue(
                f"delta must be at least {_SMALLEST_DELTA}, not {text(privacy.delta)}",
                "choose a larger one",
            )
        epsilon = float(privacy.epsilon)
        delta = float(privacy.delta)

        def is_private(method: SampleAndThreshold) -> bool:
            return method._delta(epsilon, delta) <= delta

        def is_private_nearby(method: SampleAndThreshold) -> bool:
            return _rounded_up(method._largest_nearby(epsilon, delta)) <= delta

        # the quick check is nearly always right, and far faster with a small epsilon
        method = _chosen(epsilon, is_private_nearby)
        return method if is_private(method) else _chosen(epsilon, is_private)

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
        """Return the largest delta_n over all n >= t, rounded up; if it exceeds `enough`, anything above that."""
        largest = self._largest_nearby(epsilon, enough)
        if largest > enough:
            return _rounded_up(largest)
        last = self._last_to_look_at(epsilon, largest)
        at_once = _AT_ONCE // _TERMS
        for first in range(self.threshold, last + 1, at_once):
            stop = min(first + at_once, last + 1)
            spent = self._spent(np.arange(first, stop), epsilon)
            largest = max(largest, float(spent.max()))
        return _rounded_up(largest)

    def _last_to_look_at(self, epsilon: float, known: float) -> int:
        """Return an n beyond which exp(-n D), and so delta_n, is smaller than a delta that is known."""
        p = self.rate
        alpha = self._alpha(epsilon)
        log_rest_ratio = -epsilon  # of (1 - alpha) / (1 - p)
        rest = (1 - p) * math.exp(-epsilon)  # 1 - alpha
        relative_entropy = alpha * math.log(alpha / p) + rest * log_rest_ratio  # D, of alpha to p
        last = max(math.floor(self.threshold / alpha), self.threshold)
        if known > 0:
            last = max(last, math.ceil(-math.log(known) / relative_entropy))
        return last

    def _largest_nearby(self, epsilon: float, enough: float) -> float:
        """Return the largest delta_n for n from (t - 1) / alpha to t / alpha; if the last exceeds `enough`, that one.

        delta_n is a sum over the counts c >= t that exceed n alpha (`_spent`): the term of c = t drops out at
        n = t / alpha. The largest delta_n is nearly always in this range; `_delta` looks at all other n as well.
        """
        t = self.threshold
        alpha = self._alpha(epsilon)
        first = max(math.floor((t - 1) / alpha), t)
        last = max(math.floor(t / alpha), t)
        [at_last] = self._spent(np.array([last]), epsilon).tolist()
        if at_last > enough:
            return float(at_last)
        nearby = self._spent(np.arange(first, last + 1), epsilon)
        return float(nearby.max())

    def _alpha(self, epsilon: float) -> float:
        """Return 1 - (1 - p) / E, without cancellation."""
        p = self.rate
        return p - (1 - p) * math.expm1(-epsilon)

    def _spent(self, n: Ints, epsilon: float) -> Floats:
        """Return delta_n for each n: the sum of B_n(c) (c - n alpha) / (n (1 - alpha)), term by term from the first."""
        p = self.rate
        alpha = self._alpha(epsilon)
        rest = (1 - p) * math.exp(-epsilon)  # 1 - alpha
        after_n_alpha = np.floor(n * alpha).astype(np.int64) + 1
        first = np.maximum(after_n_alpha, self.threshold)
        c = first[:, None] + np.arange(_TERMS)
        excess = c - (n * alpha)[:, None]
        weights = excess / (n * rest)[:, None]

        first_term = np.exp(_log_binomial(n, first, p))
        odds = p / (1 - p)
        not_kept = np.maximum(n[:, None] - c[:, :-1], 0)
        ratios = not_kept / c[:, 1:] * odds  # of B_n(c) to the one before
        factors = np.column_stack([first_term, ratios])
        probabilities = np.cumprod(factors, axis=1)
        terms = probabilities * weights
        return np.asarray(terms.sum(axis=1))

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return the probability that a key of each frequency is reported, P[c >= threshold]."""
        return self.errors(frequencies).reported

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Return bias and variance of the estimate c / rate of the frequency."""
        check_frequency_itself(of)
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        back = back.reshape(np.shape(frequencies))
        width = self._counts_that_matter()
        at_once = max(1, _AT_ONCE // width)
        parts = [np.empty((3, 0))]
        for start in range(0, len(i), at_once):
            parts.append(self._moments(i[start : start + at_once], width))
        reported, bias, variance = np.concatenate(parts, axis=1)
        truth = i.astype(np.float64)
        return Errors(i[back], truth[back], reported[back], bias[back], variance[back])

    def _counts_that_matter(self) -> int:
        """Return how many numbers of kept elements are summed over, from 0 on, for frequencies below threshold / rate.

        Their mean is below the threshold; what is above it by 14 standard deviations and 80 has no weight in floats.
        """
        return self.threshold + math.ceil(14 * math.sqrt(self.threshold)) + 80

    def _moments(self, i: Ints, width: int) -> Floats:
        """Return the reporting probability, bias and variance, as rows: from the smaller side of the threshold."""
        p = self.rate
        t = self.threshold
        x = i.astype(np.float64)
        estimates = np.arange(width) / p
        probabilities = self._binomial(i, width)
        mostly_reported = _moments_by_loss(x, p, probabilities[:, :t], estimates[:t])
        mostly_missing = _moments_by_reports(x, probabilities[:, t:], estimates[t:])
        return np.where(x * p >= t, mostly_reported, mostly_missing)

    def _binomial(self, i: Ints, width: int) -> Floats:
        """Return the probability that c of i elements are kept: shape (frequency, c), for c below `width`."""
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


def _log_binomial(n: Ints, k: Ints, p: float) -> Floats:
    """Return ln of the probability of k among n with probability p each, for 0 < k; minus infinity for k > n.

    Logarithms of factorials would cancel: those of a million are 10**7, and the probability would be off by 1e-9. With
    Stirling's formula, and its error s(n) = ln(n!) - ln(sqrt(2 pi n) (n / e)**n), what cancels is left out:

        s(n) - s(k) - s(n-k) - k ln(k / (n p)) - (n-k) ln((n-k) / (n (1-p))) - ln(2 pi k (n-k) / n) / 2
    """
    log_probability = np.where(k == n, n * math.log(p), -np.inf)
    inside = k < n
    log_probability[inside] = _log_binomial_inside(n[inside], k[inside], p)
    return log_probability


def _log_binomial_inside(n: Ints, k: Ints, p: float) -> Floats:
    """Return the same for 0 < k < n."""
    rest = n - k
    mean = n * p
    errors = _stirling_error(n) - _stirling_error(k) - _stirling_error(rest)
    by_kept = k * np.log(k / mean)
    by_rest = rest * np.log1p((mean - k) / (n - mean))
    variance = k / n * rest
    log_scale = np.log(2 * math.pi * variance) / 2
    log_probability: Floats = errors - by_kept - by_rest - log_scale
    return log_probability


def _stirling_error(n: Ints) -> Floats:
    """Return ln(n!) - ln(sqrt(2 pi n) (n / e)**n) for n >= 1: by Stirling's series, but for small numbers."""
    large = np.maximum(n, _SERIES_FROM)
    y = 1.0 / large / large
    series = 1 / 1680 - y / 1188
    series = 1 / 1260 - y * series
    series = 1 / 360 - y * series
    series = 1 / 12 - y * series
    small = np.minimum(n, _SERIES_FROM - 1)
    errors_of_small = np.array([_small_stirling_error(m) for m in range(1, _SERIES_FROM)])
    return np.where(n < _SERIES_FROM, errors_of_small[small - 1], series / large)


def _small_stirling_error(n: int) -> float:
    log_formula = math.log(2 * math.pi * n) / 2 + n * math.log(n) - n
    return math.log(math.factorial(n)) - log_formula


def _rounded_up(delta: float) -> float:
    return max(delta * _SAFE, _SMALLEST_DELTA)


def _chosen(epsilon: float, is_private: Callable[[SampleAndThreshold], bool]) -> SampleAndThreshold:
    """Return the best of several rates, each with its smallest threshold; with the largest rate for that threshold."""
    largest = min(-math.expm1(-epsilon), _LARGEST_RATE)
    tried = [_lowest(largest * step / _RATES, is_private) for step in range(1, _RATES + 1)]
    best = min(tried, key=lambda method: method.threshold / method.rate)
    low = best.rate
    high = largest
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if is_private(SampleAndThreshold(middle, best.threshold)):
            low = middle
        else:
            high = middle
    return SampleAndThreshold(low, best.threshold)


def _lowest(rate: float, is_private: Callable[[SampleAndThreshold], bool]) -> SampleAndThreshold:
    """Return the method with the smallest threshold that is private with this rate: by doubling, then by bisection."""

    def is_enough(threshold: int) -> bool:
        return is_private(SampleAndThreshold(rate, threshold))

    low = 0
    high = 1
    while not is_enough(high):
        low = high
        high = 2 * high
    return SampleAndThreshold(rate, first_integer(is_enough, low, high))


def _moments_by_loss(x: Floats, p: float, low: Floats, estimates: Floats) -> Floats:
    """Return rows of P(reported), bias and variance of keys of frequencies x that are mostly reported.

    Of a key, c elements are sampled, by a binomial law of x and p. `low[i, c]` is the probability of c for x[i], for
    each c below the threshold, where c / p (`estimates`) is replaced by 0. So the moments are those of c / p, corrected
    there.
    """
    missing = low.sum(axis=1)
    lost = low @ estimates
    # below the threshold the estimate is 0, so the squared error is x**2 instead of (estimate - x)**2
    added = estimates * (2 * x[:, None] - estimates)
    added_square = (low * added).sum(axis=1)
    variance_of_sampling = x * (1 - p) / p  # of c / p
    mean_square_error = variance_of_sampling + added_square
    return np.array([1 - missing, -lost, mean_square_error - lost**2])


def _moments_by_reports(x: Floats, high: Floats, estimates: Floats) -> Floats:
    """Return the moments of keys that are mostly missing: sums over the reported counts."""
    reported = high.sum(axis=1)
    mean = high @ estimates
    deviation = estimates - mean[:, None]
    if_reported = (high * deviation**2).sum(axis=1)
    if_missing = (1 - reported) * mean**2
    variance = if_reported + if_missing
    return np.array([reported, mean - x, variance])

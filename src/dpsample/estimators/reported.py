"""Sums over the keys that were reported: what these keys have, whatever other keys there are.

**Given which keys were reported**, their tokens are independent, and the token of a key of frequency i has the law
P_i(token | reported). So an interval that holds under these laws holds whatever made these keys be reported: that
their noise was high is in the law.

**From a frequency c on**, each token has a value b such that E_i b = g(i), as far as laws tell frequencies apart.
**Below c**, keys that were reported have nearly the tokens of keys at c: there E_i b is above g(i), by up to g(c). So
the sum of b is too high by what reported keys below c lack. The upper end of an interval needs no more. The lower end
takes away e, a function of the token that falls off above c, and is so large that E_i (b - e) <= g(i) at every i.

Both ends are normal, with the correction of Cornish and Fisher for the tails of single keys. One key alone has its own
interval (`single_keys`), which is exact.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.exact import shown_number
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import first_frequency, support_length, token_law

Bools = NDArray[np.bool_]
_DENSE, _FAR, _BELOW = 64, 16, 48  # frequencies at which laws are taken: above c, far above it, and below it
_REACH = 3.0  # supports of a token above c in which laws are taken densely
_LEAST_SLOPE = 0.5  # of the mean token: below, laws hardly tell frequencies apart
_ROUNDS = 30  # each takes away most of the bias that is left
_POWER = 2  # of the probability of a larger token, in e
_MARGIN = 1.03  # of e, for the frequencies between those at which laws are taken
_NO_VARIANCE = 1e-100  # rounding
_QUANTILE = 0.975  # of the tokens of a frequency: larger ones do not speak for it


@dataclass(frozen=True)
class Reported:
    """A sum over the reported keys of a question, with its error and an interval of the level of the answer."""

    value: float
    standard_error: float
    low: float
    high: float
    others: str = ""  # what is said of all keys, if that is no estimate: "the same: ..." or "unknown: ..."

    def __repr__(self) -> str:
        return f"{shown_number(self.value)} ({shown_number(self.low)} to {shown_number(self.high)})"


@dataclass(frozen=True, eq=False)
class Selected:
    """The reported keys of a group, one by one or by token: the sums of their weights, and of powers of these.

    Keys of one token may stand together if no weight is negative.
    """

    tokens: Floats
    weights: Floats
    squares: Floats
    fourths: Floats
    certain: Floats  # what each key has at least

    @staticmethod
    def of(tokens: Floats, weights: Floats, certain: Floats) -> "Selected":
        """Return keys one by one."""
        return Selected(tokens, weights, weights**2, weights**4, certain)


@dataclass(frozen=True, eq=False)
class TokenValues:
    """What each token says of the frequency of a reported key: values between knots, which are tokens, ascending."""

    measure: Measure
    knots: Floats  # the mean tokens of the frequencies from c on
    distance: Floats  # of the frequency from the token, at each knot
    correction: Floats  # of the measure at this frequency
    bias: Floats  # what is left of it, in absolute value
    upper_moments: tuple[Floats, Floats]  # the variance of b, and its fourth cumulant
    lower_knots: Floats  # tokens that are large for each frequency
    lower_moments: tuple[Floats, Floats]  # the same of b - e
    falling_tokens: Floats  # tokens, ascending, and e at each
    falling: Floats

    def values(self, tokens: Floats) -> Floats:
        """Return b of tokens."""
        frequency = np.maximum(tokens + np.interp(tokens, self.knots, self.distance), 0.0)
        return _measured(self.measure, frequency) + np.interp(tokens, self.knots, self.correction)

    def lacking(self, tokens: Floats) -> Floats:
        """Return e of tokens."""
        return np.interp(tokens, self.falling_tokens, self.falling, right=0.0)

    def upper(self, tokens: Floats) -> tuple[Floats, Floats]:
        """Return the variance and the fourth cumulant of b."""
        variance, fourth = (np.interp(tokens, self.knots, moment) for moment in self.upper_moments)
        return variance, fourth

    def lower(self, tokens: Floats) -> tuple[Floats, Floats]:
        """Return those of b - e: of the frequencies that the token does not rule out, the lowest has the largest."""
        variance, fourth = (np.interp(tokens, self.lower_knots, moment) for moment in self.lower_moments)
        return variance, fourth


def sum_of_reported(keys: Selected, values: TokenValues, level: float) -> Reported:
    """Return the weighted sum over reported keys, with its error and its interval."""
    tokens, weights = keys.tokens, keys.weights
    bias = float(np.abs(weights) @ np.interp(tokens, values.knots, values.bias))
    positive = weights >= 0
    lacking = weights * values.lacking(tokens)
    value = float(weights @ values.values(tokens))
    low = value - float(lacking[positive].sum()) - _deviation(keys, positive, values, level) - bias
    high = value - float(lacking[~positive].sum()) + _deviation(keys, ~positive, values, level) + bias
    if positive.all():
        least = float(weights @ keys.certain)
        value, low, high = (max(number, least) for number in (value, low, high))
    variances, _ = values.upper(tokens)
    return Reported(value, math.sqrt(float(keys.squares @ variances)), low, high)


def _deviation(keys: Selected, lacks: Bools, values: TokenValues, level: float) -> float:
    """How far an end of the interval is from the middle: by the moments of b - e for keys that may lack, else of b."""
    low_variances, low_fourths = values.lower(keys.tokens)
    variances, fourths = values.upper(keys.tokens)
    variance = float(keys.squares @ np.where(lacks, low_variances, variances))
    if variance < _NO_VARIANCE:
        return 0.0
    cumulant = float(keys.fourths @ np.where(lacks, low_fourths, fourths))
    excess = cumulant / variance**2
    z = NormalDist().inv_cdf(0.5 + level / 2)
    tails = (z**3 - 3 * z) * excess / 24
    return (z + tails) * math.sqrt(variance)


def least_of_tokens(cells: Ints, scheme: Scheme) -> Ints:
    """Return the frequency that the key of each token has at least: no token is above its frequency."""
    least = scheme.sampling.least
    if isinstance(scheme.per_key, KeyNoise):
        return np.full(len(cells), least)
    return np.maximum(first_frequency(cells, scheme.grid), least)


@lru_cache(maxsize=32)
def token_values(scheme: Scheme, measure: Measure, largest: int) -> TokenValues:
    """Return the values of tokens up to about this frequency."""
    c, above = _frequencies(scheme, largest)
    if measure.kink is not None:
        reach = support_length(scheme.per_key)
        around = np.linspace(max(measure.kink - reach, c), measure.kink + reach, _DENSE).astype(np.int64)
        above = np.unique(np.append(above, around[(around >= c) & (around <= scheme.sampling.largest)]))
    laws = [_Law.of(i, scheme) for i in above.tolist()]
    knots = np.maximum.accumulate([law.mean(law.tokens) for law in laws])
    distance = _without_bias(laws, knots, FREQUENCY, above.astype(np.float64) - knots)
    unbiased = _Values(measure, knots, distance, np.zeros(len(knots)))
    if measure != FREQUENCY:
        correction = _corrected(laws, unbiased, measure, above)
        unbiased = _Values(measure, knots, distance, correction)
    target = measure(above)
    bias = np.array([abs(law.mean(unbiased(law.tokens)) - g) for law, g in zip(laws, target, strict=True)])
    first = laws[0]
    below = [_Law.of(i, scheme) for i in _lower_frequencies(scheme.sampling.least, c)]
    falling_tokens, falling = _falling(first, below, unbiased, measure)
    lowered = _Lowered(unbiased, falling_tokens, falling)
    return TokenValues(
        measure,
        knots,
        distance,
        unbiased.correction,
        bias,
        _moments(laws, unbiased),
        np.maximum.accumulate([law.quantile(_QUANTILE) for law in laws]),
        _moments(laws, lowered),
        falling_tokens,
        falling,
    )


@dataclass(frozen=True, eq=False)
class _Law:
    """The law of the token of a reported key of one frequency."""

    frequency: int
    tokens: Floats
    p: Floats

    @staticmethod
    def of(i: int, scheme: Scheme) -> "_Law":
        law = token_law(i, *scheme)
        order = np.argsort(law.cells)
        probabilities = np.asarray(law.probabilities)[order]
        return _Law(i, law.cells[order] / scheme.grid, probabilities / probabilities.sum())

    def mean(self, values: Floats) -> float:
        return float(self.p @ values)

    def quantile(self, probability: float) -> float:
        place = np.searchsorted(np.cumsum(self.p), probability)
        return float(self.tokens[min(int(place), len(self.tokens) - 1)])

    def reaching(self) -> Floats:
        """The probability of a token that is as large, or larger, for each token."""
        return np.cumsum(self.p[::-1])[::-1]


@dataclass(frozen=True, eq=False)
class _Values:
    """The function b."""

    measure: Measure
    knots: Floats
    distance: Floats
    correction: Floats

    def __call__(self, tokens: Floats) -> Floats:
        frequency = np.maximum(tokens + np.interp(tokens, self.knots, self.distance), 0.0)
        return _measured(self.measure, frequency) + np.interp(tokens, self.knots, self.correction)


@dataclass(frozen=True, eq=False)
class _Lowered:
    """The function b - e."""

    values: _Values
    at: Floats
    falling: Floats

    def __call__(self, tokens: Floats) -> Floats:
        return self.values(tokens) - np.interp(tokens, self.at, self.falling, right=0.0)


def _measured(measure: Measure, frequency: Floats) -> Floats:
    return np.asarray(measure.function(frequency), np.float64)


def _frequencies(scheme: Scheme, largest: int) -> tuple[int, Ints]:
    """Return c, the lowest frequency that laws tell from others, and the frequencies at which laws are taken."""
    [c] = likeliest_frequencies([1], *scheme).tolist()
    c = max(int(c), scheme.sampling.least)
    reach = _REACH * support_length(scheme.per_key)
    if isinstance(scheme.per_key, KeyNoise):  # bell-shaped noise, cut off: at the cut, the mean token hardly moves
        step = max(1, int(reach) // 200)
        around = np.arange(c, c + int(reach), step)
        means = [law.mean(law.tokens) for law in (_Law.of(i, scheme) for i in around.tolist())]
        steep = np.diff(means) / step >= _LEAST_SLOPE
        c = int(around[int(np.argmax(steep))])
    dense = c + reach * np.linspace(0, 1, _DENSE) ** 2  # densest at c, where laws change most
    far = np.geomspace(c + reach, max(largest, c + reach + 1), _FAR)
    above = np.unique(np.append(dense, far).astype(np.int64))
    return c, above[above <= scheme.sampling.largest]


def _lower_frequencies(least: int, c: int) -> list[int]:
    """Frequencies below c, and c."""
    some = np.geomspace(least, c, _BELOW).astype(np.int64)
    near = np.arange(max(least, c - 4), c + 1)
    return sorted({*some.tolist(), *near.tolist()})


def _without_bias(laws: list[_Law], knots: Floats, measure: Measure, distance: Floats) -> Floats:
    """Return distances such that tokens plus distances average to each frequency."""
    distance = np.array(distance, np.float64)
    zeros = np.zeros(len(knots))
    for _ in range(_ROUNDS):
        values = _Values(measure, knots, distance, zeros)
        distance = distance - np.array([law.mean(values(law.tokens)) - law.frequency for law in laws])
    return distance


def _corrected(laws: list[_Law], values: _Values, measure: Measure, above: Ints) -> Floats:
    """Return corrections of a measure, for what remains of its bias. Of all rounds, those of the least bias."""
    target, best, least = measure(above), values.correction, math.inf
    correction = values.correction
    for _ in range(_ROUNDS):
        tried = _Values(measure, values.knots, values.distance, correction)
        bias = np.array([law.mean(tried(law.tokens)) for law in laws]) - target
        if (size := float(np.abs(bias).sum())) < least:
            best, least = correction, size
        correction = correction - bias
    return best


def _falling(first: _Law, below: list[_Law], values: _Values, measure: Measure) -> tuple[Floats, Floats]:
    """Return the tokens of a frequency c, and e at each: as large as what reported keys below c lack, in the mean."""
    shape = first.reaching() ** _POWER
    most = 0.0
    for law in below:
        excess = law.mean(values(law.tokens)) - float(measure([law.frequency])[0])
        fall = law.mean(np.interp(law.tokens, first.tokens, shape, right=0.0))
        most = max(most, excess / max(fall, 1e-300))
    return first.tokens, _MARGIN * most * shape


def _moments(laws: list[_Law], values: "_Values | _Lowered") -> tuple[Floats, Floats]:
    """The variance of a value at each frequency, and its fourth cumulant."""
    variances, fourths = np.zeros((2, len(laws)))
    for n, law in enumerate(laws):
        value = values(law.tokens)
        deviation = value - law.mean(value)
        variances[n] = law.mean(deviation**2)
        fourths[n] = law.mean(deviation**4) - 3 * variances[n] ** 2
    return variances, fourths

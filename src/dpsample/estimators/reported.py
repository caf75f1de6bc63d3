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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.exact import shown_number
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import first_frequency, support_length, token_law

Bools = NDArray[np.bool_]
# Numbers of frequencies at which laws are taken: above c, far above it, and below it. A trade of time against
# exactness, since values in between are interpolated.
_DENSE, _FAR, _BELOW = 64, 16, 48
_REACH = 3.0  # supports of a token above c in which laws are taken densely
_LEAST_SLOPE = 0.5  # of the mean token, by the frequency: below, laws hardly tell frequencies apart
_ROUNDS = 30  # of corrections, each of which takes away most of the bias that is left
_POWER = 2  # of the probability of a larger token, in e: how fast e falls off above c
_MARGIN = 1.03  # of e, for the frequencies between those at which laws are taken
_NO_VARIANCE = 1e-100  # less is rounding
_QUANTILE = 0.975  # of the tokens of a frequency: larger ones do not speak for it
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True)
class Reported:
    """A sum over the reported keys of a question, with its error and an interval of the level of the answer."""

    value: float
    standard_error: float
    low: float
    high: float
    others: str = (
        ""  # what is said of all keys, if that is no estimate: "the same: ..." or "unknown: ..."
    )

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
class Values:
    """The function b of the token, which averages to the measure from c on: between knots, which are tokens."""

    measure: Measure
    knots: Floats  # the mean tokens of the frequencies from c on, ascending
    distance: Floats  # of the frequency from the token, at each knot
    correction: Floats  # of the measure at this frequency

    def __call__(self, tokens: Floats) -> Floats:  # noqa: D102
        frequency = np.maximum(tokens + np.interp(tokens, self.knots, self.distance), 0.0)
        measured = np.asarray(self.measure.function(frequency), np.float64)
        return measured + np.interp(tokens, self.knots, self.correction)


@dataclass(frozen=True, eq=False)
class Lowered:
    """The function b - e of the token, which averages to no more than the measure at any frequency."""

    values: Values
    tokens: Floats  # ascending, and e at each
    falling: Floats

    def lacking(self, tokens: Floats) -> Floats:
        """Return e of tokens."""
        return np.interp(tokens, self.tokens, self.falling, right=0.0)

    def __call__(self, tokens: Floats) -> Floats:  # noqa: D102
        return self.values(tokens) - self.lacking(tokens)


@dataclass(frozen=True, eq=False)
class Moments:
    """The variance of a function of the token, and its fourth cumulant, between knots, which are tokens."""

    knots: Floats
    variance: Floats
    fourth_cumulant: Floats

    def at(self, tokens: Floats) -> tuple[Floats, Floats]:
        """Return both for tokens."""
        variance = np.interp(tokens, self.knots, self.variance)
        return variance, np.interp(tokens, self.knots, self.fourth_cumulant)


@dataclass(frozen=True, eq=False)
class TokenValues:
    """What each token says of the frequency of a reported key."""

    values: Values  # b
    lowered: Lowered  # b - e
    bias: Floats  # of b at its knots, what is left of it, in absolute value
    of_values: Moments
    of_lowered: Moments  # of the frequencies that a token does not rule out, the lowest has the largest moments

    @property
    def lacking(self) -> Callable[[Floats], Floats]:
        """The function e."""
        return self.lowered.lacking


def sum_of_reported(keys: Selected, values: TokenValues, level: float) -> Reported:
    """Return the weighted sum over reported keys, with its error and its interval."""
    tokens, weights = keys.tokens, keys.weights
    value = float(weights @ values.values(tokens))
    bias = float(np.abs(weights) @ np.interp(tokens, values.values.knots, values.bias))

    # a key with a positive weight may lack at the lower end, and one with a negative weight at the upper end
    positive = weights >= 0
    lacking = weights * values.lacking(tokens)
    lacking_below = float(lacking[positive].sum())
    lacking_above = float(lacking[~positive].sum())
    low = value - lacking_below - _deviation(keys, positive, values, level) - bias
    high = value - lacking_above + _deviation(keys, ~positive, values, level) + bias
    if positive.all():
        certain = float(weights @ keys.certain)
        value, low, high = (max(number, certain) for number in (value, low, high))

    variances, _ = values.of_values.at(tokens)
    standard_error = math.sqrt(float(keys.squares @ variances))
    return Reported(value, standard_error, low, high)


def _deviation(keys: Selected, lacks: Bools, values: TokenValues, level: float) -> float:
    """How far an end of the interval is from the middle: by the moments of b - e for keys that may lack, else of b."""
    low_variances, low_cumulants = values.of_lowered.at(keys.tokens)
    variances, cumulants = values.of_values.at(keys.tokens)
    variance = float(keys.squares @ np.where(lacks, low_variances, variances))
    if variance < _NO_VARIANCE:
        return 0.0
    cumulant = float(keys.fourths @ np.where(lacks, low_cumulants, cumulants))
    excess = cumulant / variance**2
    z = NormalDist().inv_cdf(0.5 + level / 2)
    tails = (z**3 - 3 * z) * excess / 24  # the term of the fourth cumulant (Cornish and Fisher)
    return (z + tails) * math.sqrt(variance)


def least_of_tokens(cells: Ints, scheme: Scheme) -> Ints:
    """Return the frequency that the key of each token has at least: no token is above its frequency."""
    least = scheme.sampling.least
    if Reporting.of(scheme.sampling, scheme.per_key).bell_shaped:
        return np.full(len(cells), least)
    return np.maximum(first_frequency(cells, scheme.grid), least)


@lru_cache(maxsize=32)
def token_values(scheme: Scheme, measure: Measure, largest: int) -> TokenValues:
    """Return the values of tokens up to about this frequency."""
    c = _lowest_told_apart(scheme)
    above = _frequencies_above(scheme, c, measure, largest)
    laws = [_Law.of(i, scheme) for i in above.tolist()]
    values = _unbiased(laws, measure, above)
    biases = [
        abs(law.mean(values(law.tokens)) - g) for law, g in zip(laws, measure(above), strict=True)
    ]

    below = [_Law.of(i, scheme) for i in _frequencies_below(scheme.sampling.least, c)]
    lowered = _lowered(laws[0], below, values)
    large_tokens = np.maximum.accumulate([law.quantile(_QUANTILE) for law in laws])
    return TokenValues(
        values,
        lowered,
        np.array(biases),
        of_values=_moments(laws, values, values.knots),
        of_lowered=_moments(laws, lowered, large_tokens),
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


def _lowest_told_apart(scheme: Scheme) -> int:
    """Return c, the lowest frequency that laws tell from others."""
    [likeliest] = likeliest_frequencies([1], *scheme).tolist()
    c = max(int(likeliest), scheme.sampling.least)
    if not Reporting.of(scheme.sampling, scheme.per_key).bell_shaped:
        return c
    # noise is cut off: at the cut, the mean token hardly moves
    reach = int(_REACH * support_length(scheme.per_key))
    step = max(1, reach // 200)
    frequencies = np.arange(c, c + reach, step)
    laws = [_Law.of(i, scheme) for i in frequencies.tolist()]
    mean_tokens = [law.mean(law.tokens) for law in laws]
    is_steep = np.diff(mean_tokens) / step >= _LEAST_SLOPE
    return int(frequencies[int(np.argmax(is_steep))])


def _frequencies_above(scheme: Scheme, c: int, measure: Measure, largest: int) -> Ints:
    """Return the frequencies from c on at which laws are taken."""
    support = support_length(scheme.per_key)
    reach = _REACH * support
    shares = np.linspace(0, 1, _DENSE)
    dense = c + reach * shares**2  # densest at c, where laws change most
    last = max(largest, c + reach + 1)
    far = np.geomspace(c + reach, last, _FAR)
    above = np.unique(np.append(dense, far).astype(np.int64))
    if measure.kink is not None:
        first = max(measure.kink - support, c)
        end = measure.kink + support
        around = np.linspace(first, end, _DENSE).astype(np.int64)
        above = np.unique(np.append(above, around[around >= c]))
    return above[above <= scheme.sampling.largest]


def _frequencies_below(least: int, c: int) -> list[int]:
    """Return frequencies below c at which laws are taken, and c."""
    some = np.geomspace(least, c, _BELOW).astype(np.int64)
    near = np.arange(max(least, c - 4), c + 1)
    return sorted({*some.tolist(), *near.tolist()})


def _unbiased(laws: list[_Law], measure: Measure, above: Ints) -> Values:
    """Return b: knots at mean tokens, distances without bias for the frequency itself, and corrections."""
    knots = np.maximum.accumulate([law.mean(law.tokens) for law in laws])
    zeros = np.zeros(len(knots))
    distance = above.astype(np.float64) - knots
    for _ in range(_ROUNDS):
        frequencies = Values(FREQUENCY, knots, distance, zeros)
        biases = [law.mean(frequencies(law.tokens)) - law.frequency for law in laws]
        distance = distance - np.array(biases)
    values = Values(measure, knots, distance, zeros)
    return values if measure == FREQUENCY else _corrected(laws, values, measure(above))


def _corrected(laws: list[_Law], values: Values, targets: Floats) -> Values:
    """Return values with corrections of what remains of their bias: of all rounds, those of the least bias."""
    best, least = values, math.inf
    for _ in range(_ROUNDS):
        bias = np.array([law.mean(values(law.tokens)) for law in laws]) - targets
        size = float(np.abs(bias).sum())
        if size < least:
            best, least = values, size
        values = replace(values, correction=values.correction - bias)
    return best


def _lowered(at_c: _Law, below: list[_Law], values: Values) -> Lowered:
    """Return b - e: e is as large, in the mean, as what reported keys below c lack, and falls off as tokens of c do."""
    shape = at_c.reaching() ** _POWER
    largest_ratio = 0.0
    for law in below:
        [truth] = values.measure([law.frequency]).tolist()
        excess = law.mean(values(law.tokens)) - truth
        mean_shape = law.mean(np.interp(law.tokens, at_c.tokens, shape, right=0.0))
        largest_ratio = max(largest_ratio, excess / max(mean_shape, _TINY))
    return Lowered(values, at_c.tokens, _MARGIN * largest_ratio * shape)


def _moments(laws: list[_Law], function: Values | Lowered, knots: Floats) -> Moments:
    """The moments of a function of the token at each frequency."""
    variances, cumulants = np.zeros((2, len(laws)))
    for n, law in enumerate(laws):
        value = function(law.tokens)
        deviation = value - law.mean(value)
        variances[n] = law.mean(deviation**2)
        cumulants[n] = law.mean(deviation**4) - 3 * variances[n] ** 2
    return Moments(knots, variances, cumulants)

"""Sums over the keys that were reported: what these keys have, whatever other keys there are.

**Given which keys were reported**, their tokens are independent, and the token of a key of frequency i has the law
P_i(token | reported). So an interval that holds under these laws holds whatever made these keys be reported: that
their noise was high is in the law.

**From a frequency c on**, each token has a value b such that E_i b = g(i), as far as laws tell frequencies apart.
**Below c**, keys that were reported have nearly the tokens of keys at c: there E_i b is above g(i), by up to g(c). So
the sum of b is too high by what reported keys below c lack. The upper end of an interval needs no more. The lower end
takes away e, a function of the token that falls off above c, and is so large that E_i (b - e) <= g(i) at every i.

Both ends are normal, with the correction of Cornish and Fisher for the tails of single keys. One key alone has its own
interval (`answers/reported.py`), which is exact. The names b, e, c and lambda, and why the ends hold: docs/theory.md,
section 7, Sums over reported keys.
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
_DENSE = 64
_FAR = 16
_BELOW = 48
# The range above c in which laws are taken densely, in supports of a token. Beyond, they are shifts of one another.
_REACH = 3.0
# With bounded noise, c is where the mean token starts to grow by this share of what the frequency grows by. Where it
# grows by less, laws hardly tell frequencies apart. A larger share makes c higher. No record of the choice.
_LEAST_SLOPE = 0.5
# Rounds of correction, each of which takes away most of the bias that is left. More cost time alone.
_ROUNDS = 30
# The power of the probability of a larger token, in e: the larger it is, the faster e falls off above c, and the larger
# lambda is. No record of the choice.
_POWER = 2
_MARGIN = 1.03  # lambda is larger by this factor, for the frequencies between those at which laws are taken
_NO_VARIANCE = 1e-100  # a smaller one is rounding
# The quantile of the tokens of a frequency: a token speaks for the frequencies of which it is at most that quantile.
# The same as that of a 95 % interval on one side; a larger one makes intervals longer.
_QUANTILE = 0.975
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True)
class Reported:
    """A sum over the reported keys of a question, with its error and an interval of the level of the answer."""

    value: float
    standard_error: float
    low: float
    high: float
    others: str = (
        ""  # printed for all keys, if there is no estimate: "the same: ..." or "unknown: ..."
    )

    def __repr__(self) -> str:
        value = shown_number(self.value)
        low = shown_number(self.low)
        high = shown_number(self.high)
        return f"{value} ({low} to {high})"


@dataclass(frozen=True, eq=False)
class Selected:
    """The reported keys of a group, one by one, or those of one token together if no weight is negative.

    Together, they have the sums of their weights, of the squares of these, and of their fourth powers.
    """

    tokens: Floats
    weights: Floats
    squares: Floats
    fourths: Floats
    certain: Floats  # what each key has at least

    @staticmethod
    def of(tokens: Floats, weights: Floats, certain: Floats) -> "Selected":
        """Return the keys of a group, one by one."""
        return Selected(tokens, weights, weights**2, weights**4, certain)


@dataclass(frozen=True, eq=False)
class Values:
    """The function b of the token, which averages to the measure from c on: between knots, which are tokens."""

    measure: Measure
    knots: Floats  # the mean tokens of the frequencies from c on, ascending
    distance: Floats  # of the frequency from the token, at each knot
    correction: Floats  # of the measure at this frequency

    def __call__(self, tokens: Floats) -> Floats:  # noqa: D102
        distance = np.interp(tokens, self.knots, self.distance)
        frequency = np.maximum(tokens + distance, 0.0)
        measured = np.asarray(self.measure.function(frequency), np.float64)
        correction = np.interp(tokens, self.knots, self.correction)
        return measured + correction


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
        """Return the variance and the fourth cumulant for each token."""
        variance = np.interp(tokens, self.knots, self.variance)
        fourth_cumulant = np.interp(tokens, self.knots, self.fourth_cumulant)
        return variance, fourth_cumulant


@dataclass(frozen=True, eq=False)
class TokenValues:
    """The functions of the token that sums over reported keys are made of, and their moments."""

    values: Values  # b
    lowered: Lowered  # b - e
    bias: Floats  # of b at its knots, what is left of it, in absolute value
    of_values: Moments
    of_lowered: Moments  # of the lowest frequency that a token speaks for

    @property
    def lacking(self) -> Callable[[Floats], Floats]:
        """The function e."""
        return self.lowered.lacking


def sum_of_reported(keys: Selected, values: TokenValues, level: float) -> Reported:
    """Return the weighted sum over reported keys, with its error and its interval."""
    tokens = keys.tokens
    weights = keys.weights
    value = float(weights @ values.values(tokens))
    bias_of_token = np.interp(tokens, values.values.knots, values.bias)
    bias = float(np.abs(weights) @ bias_of_token)

    # keys may be rarer than b says: with a positive weight that lowers the lower end, with a negative one it raises the
    # upper end
    is_positive = weights >= 0
    lacking = weights * values.lacking(tokens)
    lacking_below = float(lacking[is_positive].sum())
    lacking_above = float(lacking[~is_positive].sum())
    margin_below = _margin(keys, is_positive, values, level)
    margin_above = _margin(keys, ~is_positive, values, level)
    low = value - lacking_below - margin_below - bias
    high = value - lacking_above + margin_above + bias
    if is_positive.all():
        certain = float(weights @ keys.certain)
        value = max(value, certain)
        low = max(low, certain)
        high = max(high, certain)

    variances, _ = values.of_values.at(tokens)
    standard_error = math.sqrt(float(keys.squares @ variances))
    return Reported(value, standard_error, low, high)


def _margin(keys: Selected, is_lowered: Bools, values: TokenValues, level: float) -> float:
    """Return how far an end of the interval is from the sum of the values that it is made of.

    Keys that are lowered at this end have the moments of b - e, other keys those of b.
    """
    lowered_variances, lowered_cumulants = values.of_lowered.at(keys.tokens)
    variances, cumulants = values.of_values.at(keys.tokens)
    variance_of_token = np.where(is_lowered, lowered_variances, variances)
    variance = float(keys.squares @ variance_of_token)
    if variance < _NO_VARIANCE:
        return 0.0
    cumulant_of_token = np.where(is_lowered, lowered_cumulants, cumulants)
    cumulant = float(keys.fourths @ cumulant_of_token)
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
    """Return the functions of the token for sums of a measure, up to about this largest frequency."""
    c = _lowest_told_apart(scheme)
    above = _frequencies_above(scheme, c, measure, largest)
    laws = [_Law.of(i, scheme) for i in above.tolist()]
    truths = measure(above)
    values = _unbiased(laws, measure, truths)
    means = [law.mean(values(law.tokens)) for law in laws]
    biases = np.abs(np.array(means) - truths)

    rare = _frequencies_below(scheme.sampling.least, c)
    below = [_Law.of(i, scheme) for i in rare]
    lowered = _lowered(laws[0], below, values)
    of_values = _moments(laws, values, values.knots)
    # of the frequencies that a token speaks for, the lowest has the largest moments of b - e
    large_tokens = [law.quantile(_QUANTILE) for law in laws]
    of_lowered = _moments(laws, lowered, np.maximum.accumulate(large_tokens))
    return TokenValues(values, lowered, biases, of_values, of_lowered)


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
        tokens = law.cells[order] / scheme.grid
        probabilities = np.asarray(law.probabilities)[order]
        return _Law(i, tokens, probabilities / probabilities.sum())

    def mean(self, values: Floats) -> float:
        """Return the mean of a function of the token, given its values at the tokens of this law."""
        return float(self.p @ values)

    def quantile(self, probability: float) -> float:
        """Return the lowest token up to which the law has this probability."""
        place = np.searchsorted(np.cumsum(self.p), probability)
        last = len(self.tokens) - 1
        return float(self.tokens[min(int(place), last)])

    def reaching(self) -> Floats:
        """Return the probability of a token that is as large, or larger, for each token."""
        from_the_largest = np.cumsum(self.p[::-1])
        return from_the_largest[::-1]


def _lowest_told_apart(scheme: Scheme) -> int:
    """Return c, the lowest frequency that laws tell from others: the likeliest frequency of the lowest token.

    Bounded noise is cut off, and where it is cut the mean token hardly moves with the frequency: there c is where it
    starts to.
    """
    [likeliest] = likeliest_frequencies([1], *scheme).tolist()
    c = max(int(likeliest), scheme.sampling.least)
    if not Reporting.of(scheme.sampling, scheme.per_key).bell_shaped:
        return c
    reach = int(_REACH * support_length(scheme.per_key))
    step = max(1, reach // 200)  # 200 laws at most: a trade of time against exactness
    frequencies = np.arange(c, c + reach, step)
    laws = [_Law.of(i, scheme) for i in frequencies.tolist()]
    mean_tokens = [law.mean(law.tokens) for law in laws]
    slopes = np.diff(mean_tokens) / step
    first_steep = int(np.argmax(slopes >= _LEAST_SLOPE))
    return int(frequencies[first_steep])


def _frequencies_above(scheme: Scheme, c: int, measure: Measure, largest: int) -> Ints:
    """Return the ascending frequencies from c on at which laws are taken."""
    support = support_length(scheme.per_key)
    reach = _REACH * support
    shares = np.linspace(0, 1, _DENSE)
    dense = c + reach * shares**2  # densest at c, where laws change most
    last = max(largest, c + reach + 1)
    far = np.geomspace(c + reach, last, _FAR)
    chosen = [dense, far]
    if measure.kink is not None:
        first = max(measure.kink - support, c)
        around = np.linspace(first, measure.kink + support, _DENSE)
        chosen.append(around)
    frequencies = np.unique(np.concatenate(chosen).astype(np.int64))
    is_possible = (frequencies >= c) & (frequencies <= scheme.sampling.largest)
    return frequencies[is_possible]


def _frequencies_below(least: int, c: int) -> list[int]:
    """Return frequencies below c at which laws are taken, and c."""
    some = np.geomspace(least, c, _BELOW).astype(np.int64)
    near = np.arange(max(least, c - 4), c + 1)
    return sorted({*some.tolist(), *near.tolist()})


def _unbiased(laws: list[_Law], measure: Measure, truths: Floats) -> Values:
    """Return b, given the measure of the frequency of each law.

    Knots are mean tokens. Distances are such that the frequency itself has no bias; other measures get a correction.
    """
    mean_tokens = [law.mean(law.tokens) for law in laws]
    knots = np.maximum.accumulate(mean_tokens)
    frequencies = np.array([law.frequency for law in laws])
    zeros = np.zeros(len(knots))
    distance = frequencies.astype(np.float64) - knots
    for _ in range(_ROUNDS):
        values = Values(FREQUENCY, knots, distance, zeros)
        means = [law.mean(values(law.tokens)) for law in laws]
        distance = distance - (np.array(means) - frequencies)
    values = Values(measure, knots, distance, zeros)
    return values if measure == FREQUENCY else _corrected(laws, values, truths)


def _corrected(laws: list[_Law], values: Values, targets: Floats) -> Values:
    """Return values with corrections of the bias that is left: the best values of all rounds."""
    corrected = values
    best = values
    least = math.inf
    for _ in range(_ROUNDS):
        means = [law.mean(corrected(law.tokens)) for law in laws]
        bias = np.array(means) - targets
        size = float(np.abs(bias).sum())
        if size < least:
            best = corrected
            least = size
        corrected = replace(corrected, correction=corrected.correction - bias)
    return best


def _lowered(at_c: _Law, below: list[_Law], values: Values) -> Lowered:
    """Return b - e. With the law of c and those below it, e is lambda times the squared probability of a larger token.

    lambda is the least number for which the mean of e is, at each frequency below c, the excess of the mean of b.
    """
    shape = at_c.reaching() ** _POWER
    largest_ratio = 0.0
    for law in below:
        [truth] = values.measure([law.frequency]).tolist()
        excess = law.mean(values(law.tokens)) - truth
        shape_of_token = np.interp(law.tokens, at_c.tokens, shape, right=0.0)
        mean_shape = max(law.mean(shape_of_token), _TINY)
        largest_ratio = max(largest_ratio, excess / mean_shape)
    e = _MARGIN * largest_ratio * shape  # the product with the margin is lambda
    return Lowered(values, at_c.tokens, e)


def _moments(laws: list[_Law], function: Values | Lowered, knots: Floats) -> Moments:
    """Return the moments of a function of the token, with a knot for each law."""
    variances = np.zeros(len(laws))
    cumulants = np.zeros(len(laws))
    for n, law in enumerate(laws):
        values = function(law.tokens)
        deviation = values - law.mean(values)
        variance = law.mean(deviation**2)
        fourth_moment = law.mean(deviation**4)
        variances[n] = variance
        cumulants[n] = fourth_moment - 3 * variance**2
    return Moments(knots, variances, cumulants)

"""Differentially private set union: which keys any user has, with users protected. No counts.

Each user keeps at most `cap` of their keys, chosen at random, and adds a vector of length at most 1 to the weights of
these keys. Gaussian noise of standard deviation sigma is added to the weight of each key of the data, and the keys
whose noisy weight reaches a threshold rho are found. One user more or less changes the weights by at most 1 in length.
Keys that this user alone has are t of at most `cap`, with a weight of at most 1 / sqrt(t) each. So with half of delta
for each

    delta / 2 = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu),  sigma = 1 / mu
    rho       = max over t = 1, ..., cap of 1 / sqrt(t) + sigma Phi^-1((1 - delta / 2)^(1 / t))

The first line is the analytic Gaussian mechanism (Balle and Wang, 2018). The methods differ in the vectors:

    WeightedGaussian  1 / sqrt(t) for each of t keys (Gopi et al., 2020, Differentially Private Set Union)
    DpSips            rounds of that, and the keys found in a round leave the users' lists (Swanberg, Desfontaines and
                      Haney, 2023, DP-SIPS)
    PolicyGaussian    one user after another takes a step of length 1 toward the point where all of their keys have
                      reached rho + margin sigma (Gopi et al., 2020)

PolicyGreedy is another mechanism, with Laplace noise and without a cap: weights change by at most 1 in their sum
(Carvalho, Wang, Gondara and Miao, 2022, Incorporating Item Frequency for Differentially Private Set Union).

All is in floating point, and randomness comes from the caller: not certified, for comparison only.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints

Bools: TypeAlias = NDArray[np.bool_]
Generator: TypeAlias = np.random.Generator

_MOST_EPSILON = 500  # beyond, exp(epsilon) and its counterpart leave the floats
_STEPS = 200  # of a bisection of floats: more than their bits


@dataclass(frozen=True)
class KeySet:
    """What a method found, by key code.

    found    whether the key is found
    weights  the noisy weight with which it was found; NaN for other keys, whose weights may not be published
    """

    found: Bools
    weights: Floats


@dataclass(frozen=True)
class WeightedGaussian:
    """Each user adds 1 / sqrt(t) to each of their t <= cap keys. For comparison, not certified.

    >>> from dpsample import Privacy
    >>> method = WeightedGaussian(Privacy(1, 1e-6), cap=10)
    >>> round(method.deviation, 3), round(method.threshold, 3)
    (4.365, 23.568)
    >>> users, keys = np.arange(100), np.repeat([0, 1], [99, 1])
    >>> method.draw(users, keys, 3, np.random.default_rng(1)).found
    array([ True, False, False])
    """

    privacy: Privacy
    cap: int

    def __post_init__(self) -> None:
        _check_setting(self.privacy, self.cap)

    @property
    def deviation(self) -> float:
        """sigma: the standard deviation of the noise."""
        return noise_deviation(self.privacy)

    @property
    def threshold(self) -> float:
        """rho: what a noisy weight must reach."""
        return weight_threshold(self.deviation, float(self.privacy.delta) / 2, self.cap)

    def draw(self, users: ArrayLike, keys: ArrayLike, number: int, generator: Generator) -> KeySet:
        """Draw the found keys of pairs of a user and a key; key codes are below `number`."""
        pairs = kept_pairs(*distinct_pairs(users, keys, number), self.cap, generator)
        noise = generator.normal(scale=self.deviation, size=number)
        return _noisy(pairs[1], equal_weights(*pairs, number), noise, self.threshold)


@dataclass(frozen=True)
class DpSips:
    """Rounds of `WeightedGaussian`, each with `growth` times the budget of the one before. Not certified.

    A round with the share s of the budget has noise of standard deviation sigma / sqrt(s), as mu^2 adds up over rounds,
    and s delta / 2 for its threshold. Popular keys are found in cheap first rounds. Users then spend their weight on
    other keys. By default there are three rounds, with 1, 3 and 9 parts of 13.

    >>> from dpsample import Privacy
    >>> method = DpSips(Privacy(1, 1e-6), cap=10)
    >>> [(round(share, 3), round(deviation, 2), round(rho, 2)) for share, deviation, rho in method.plan]
    [(0.077, 15.74, 91.21), (0.231, 9.09, 51.09), (0.692, 5.25, 28.61)]
    """

    privacy: Privacy
    cap: int
    rounds: int = 3
    growth: float = 3.0

    def __post_init__(self) -> None:
        _check_setting(self.privacy, self.cap)
        _check_count(self.rounds, "the number of rounds")
        _check_size(self.growth, "the growth of the budget from round to round", above=0)

    @property
    def plan(self) -> list[tuple[float, float, float]]:
        """Share of the budget, sigma and rho of each round."""
        parts = [self.growth**n for n in range(self.rounds)]
        whole, half = noise_deviation(self.privacy), float(self.privacy.delta) / 2
        rounds = [(part / sum(parts), whole * math.sqrt(sum(parts) / part)) for part in parts]
        return [(share, sigma, weight_threshold(sigma, half * share, self.cap)) for share, sigma in rounds]

    def draw(self, users: ArrayLike, keys: ArrayLike, number: int, generator: Generator) -> KeySet:
        """Draw the found keys of pairs of a user and a key; key codes are below `number`."""
        left = distinct_pairs(users, keys, number)
        result = KeySet(np.zeros(number, np.bool_), np.full(number, np.nan))
        for _, deviation, threshold in self.plan:
            pairs = kept_pairs(*left, self.cap, generator)
            noise = generator.normal(scale=deviation, size=number)
            new = _noisy(pairs[1], equal_weights(*pairs, number), noise, threshold)
            result = KeySet(result.found | new.found, np.where(new.found, new.weights, result.weights))
            others = ~new.found[left[1]]
            left = left[0][others], left[1][others]
        return result


@dataclass(frozen=True)
class PolicyGaussian:
    """One user after another moves the weights toward rho + margin sigma, in a random order. Not certified.

    Keys that have reached it get no more, so users spend their weight on others. The step toward a fixed point brings
    the weights of neighbouring datasets no further apart. The program of the authors has a margin of 5 by default.

    >>> from dpsample import Privacy
    >>> method = PolicyGaussian(Privacy(1, 1e-6), cap=10)
    >>> round(method.threshold, 3), round(method.cutoff, 3)
    (23.568, 45.394)
    """

    privacy: Privacy
    cap: int
    margin: float = 5.0

    def __post_init__(self) -> None:
        _check_setting(self.privacy, self.cap)
        _check_size(self.margin, "the margin", above=-1)

    @property
    def deviation(self) -> float:
        """sigma: the standard deviation of the noise."""
        return noise_deviation(self.privacy)

    @property
    def threshold(self) -> float:
        """rho: what a noisy weight must reach."""
        return weight_threshold(self.deviation, float(self.privacy.delta) / 2, self.cap)

    @property
    def cutoff(self) -> float:
        """The weight at which a key gets no more."""
        return self.threshold + self.margin * self.deviation

    def draw(self, users: ArrayLike, keys: ArrayLike, number: int, generator: Generator) -> KeySet:
        """Draw the found keys of pairs of a user and a key; key codes are below `number`."""
        pairs = kept_pairs(*distinct_pairs(users, keys, number), self.cap, generator)
        noise = generator.normal(scale=self.deviation, size=number)
        return _noisy(pairs[1], policy_weights(*pairs, number, self.cutoff), noise, self.threshold)


@dataclass(frozen=True)
class PolicyGreedy:
    """One user after another fills up their keys, in their own order, with a weight of 1 in all. Not certified.

    A key is full at rho + margin / epsilon, and what is left goes to the user's next key. One user more or less changes
    the weights by at most 1 in their sum, at keys of any number, so that there is no cap. Where keys count once for
    each user, as here, the order of a user's keys is random; the authors order them by the user's own counts.

    >>> from dpsample import Privacy
    >>> method = PolicyGreedy(Privacy(1, 1e-6))
    >>> round(method.threshold, 3), round(method.cutoff, 3)
    (14.122, 17.122)
    >>> users, keys = np.arange(100), np.repeat([0, 1], [99, 1])
    >>> method.draw(users, keys, 3, np.random.default_rng(1)).found
    array([ True, False, False])
    """

    privacy: Privacy
    margin: float = 3.0

    def __post_init__(self) -> None:
        _check_setting(self.privacy, cap=1)
        _check_size(self.margin, "the margin", above=-1)

    @property
    def scale(self) -> float:
        """The scale of the Laplace noise."""
        return 1 / float(self.privacy.epsilon)

    @property
    def threshold(self) -> float:
        """rho: a key that one user alone has, with a weight of at most 1, reaches it with probability delta."""
        return 1 + self.scale * max(-math.log(2 * float(self.privacy.delta)), 0.0)

    @property
    def cutoff(self) -> float:
        """The weight at which a key is full; at least 1, so that a user fills no key alone."""
        return max(self.threshold + self.margin * self.scale, 1.0)

    def draw(self, users: ArrayLike, keys: ArrayLike, number: int, generator: Generator) -> KeySet:
        """Draw the found keys of pairs of a user and a key; key codes are below `number`."""
        pairs = kept_pairs(*distinct_pairs(users, keys, number), number, generator)
        weights = greedy_weights(*pairs, number, self.cutoff)
        return _noisy(pairs[1], weights, generator.laplace(scale=self.scale, size=number), self.threshold)


def noise_deviation(privacy: Privacy) -> float:
    """sigma: of Gaussian noise with this epsilon and half of this delta, on vectors that change by 1 in length."""
    epsilon, half = float(privacy.epsilon), float(privacy.delta) / 2
    low, high = 0.0, 1.0  # of mu
    while _gaussian_delta(epsilon, high) <= half:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(epsilon, middle) <= half else (low, middle)
    return 1 / high


def weight_threshold(deviation: float, delta: float, cap: int) -> float:
    """rho: keys that one user alone has, at most `cap`, reach it with probability delta at most.

    The tail 1 - (1 - delta)^(1 / t) is computed as such: it is far below the rounding of its complement.
    """
    normal, log_none = NormalDist(), math.log1p(-delta)
    return max(1 / math.sqrt(t) - deviation * normal.inv_cdf(-math.expm1(log_none / t)) for t in range(1, cap + 1))


def distinct_pairs(users: ArrayLike, keys: ArrayLike, number: int) -> tuple[Ints, Ints]:
    """Return each pair of a user and a key once, sorted, with users numbered from 0 on."""
    user, key = (_codes(values, name) for values, name in ((users, "users"), (keys, "keys")))
    _check_count(number, "the number of keys")
    if user.shape != key.shape:
        raise InvalidValue("users and keys must be arrays of the same length", "give two columns of one table")
    if key.size and not 0 <= key.min() <= key.max() < number:
        raise InvalidValue("key codes must be from 0 to the number of keys less 1", "number the keys from 0 on")
    order = np.lexsort((key, user))
    user, key = user[order], key[order]
    other_user = np.diff(user) != 0
    new = np.ones(user.size, np.bool_)
    new[1:] = other_user | (np.diff(key) != 0)
    number_of_user = np.zeros(user.size, np.int64)
    number_of_user[1:] = np.cumsum(other_user)
    return number_of_user[new], key[new]


def kept_pairs(users: Ints, keys: Ints, cap: int, generator: Generator) -> tuple[Ints, Ints]:
    """Keep at most `cap` keys of each user at random. Users come in a random order, each with all of their pairs."""
    if not users.size:
        return users, keys
    place = generator.permutation(users.max() + 1)[users]
    order = np.lexsort((generator.random(users.size), place))
    place, keys = place[order], keys[order]
    first = np.zeros(place.size, np.int64)  # of the user's pairs
    first[1:] = np.where(np.diff(place) != 0, np.arange(1, place.size), 0)
    kept = np.arange(place.size) - np.maximum.accumulate(first) < cap
    return place[kept], keys[kept]


def equal_weights(users: Ints, keys: Ints, number: int) -> Floats:
    """Return the weights of keys if each user adds 1 / sqrt(own keys) to each."""
    own = np.bincount(users)[users] if users.size else users
    return np.bincount(keys, weights=1 / np.sqrt(own), minlength=number).astype(np.float64)


def policy_weights(users: Ints, keys: Ints, number: int, cutoff: float) -> Floats:
    """Return the weights of keys if users, in the order of the pairs, each step by 1 toward `cutoff` at their keys."""
    weights = np.zeros(number)
    for own in np.split(keys, np.flatnonzero(np.diff(users)) + 1):
        gap = cutoff - weights[own]
        length = math.sqrt(gap @ gap)
        weights[own] += gap / max(length, 1.0)
    return weights


def greedy_weights(users: Ints, keys: Ints, number: int, cutoff: float) -> Floats:
    """Return the weights of keys if users, in the order of the pairs, fill up their keys to `cutoff`, with 1 in all."""
    weights, last, left = [0.0] * number, -1, 0.0
    for user, key in zip(users.tolist(), keys.tolist(), strict=True):
        if user != last:
            last, left = user, 1.0
        given = min(left, cutoff - weights[key])
        weights[key] += given
        left -= given
    return np.array(weights)


def _noisy(keys: Ints, weights: Floats, noise: Floats, threshold: float) -> KeySet:
    """Find the keys, of those that somebody has, whose noisy weight reaches the threshold."""
    here = np.zeros(weights.size, np.bool_)
    here[keys] = True
    noisy = weights + noise
    found = here & (noisy >= threshold)
    return KeySet(found, np.where(found, noisy, np.nan))


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of Gaussian noise with a standard deviation of 1 / mu."""
    first, second = (math.erfc((epsilon / mu + side * mu / 2) / math.sqrt(2)) / 2 for side in (-1, 1))
    return first - math.exp(epsilon) * second


def _codes(values: ArrayLike, name: str) -> Ints:
    codes = np.asarray(values)
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise InvalidValue(
            f"{name} must be an array of integers with one dimension, not with {codes.ndim} of {codes.dtype}",
            "number them, for example with numpy.unique(..., return_inverse=True)",
        )
    return codes.astype(np.int64)


def _check_setting(privacy: Privacy, cap: int) -> None:
    _check_count(cap, "the cap on the keys of a user")
    if privacy.epsilon > _MOST_EPSILON:
        raise InvalidValue(
            f"epsilon must be at most {_MOST_EPSILON} in a baseline of floats, not {text(privacy.epsilon)}",
            "choose a smaller one",
        )


def _check_count(value: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValue(f"{name} must be an integer of at least 1, not {value!r}", "give a larger one")


def _check_size(value: float, name: str, above: float) -> None:
    if not above < value < math.inf:
        raise InvalidValue(f"{name} must be a finite number above {above}, not {value!r}", "give a larger one")

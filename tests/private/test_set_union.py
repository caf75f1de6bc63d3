"""Set union of users' keys: formulas in 50 digits, sensitivity by brute force, laws of what is found, slow oracles.

All randomness is that of seeded generators, so no test fails by chance.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy.stats import laplace, norm

from dpsample import Privacy
from dpsample.cli.standard_library import standard_library
from dpsample.scheme.sampling import Floats, Ints
from set_union import (
    DpSips,
    PolicyGaussian,
    PolicyGreedy,
    WeightedGaussian,
    distinct_pairs,
    equal_weights,
    greedy_weights,
    kept_pairs,
    noise_deviation,
    policy_weights,
    weight_threshold,
)
from support import refused

PRIVACIES = [
    Privacy("0.1", "1e-6"),
    Privacy(1, "1e-6"),
    Privacy(4, "1e-6"),
    Privacy("0.5", "1e-12"),
    Privacy(3, "0.01"),
]
CAPS = [1, 2, 10, 1000]
Method = WeightedGaussian | DpSips | PolicyGaussian | PolicyGreedy
METHODS: dict[str, Callable[[Privacy], Method]] = {
    "weighted Gaussian": partial(WeightedGaussian, cap=6),
    "DP-SIPS": partial(DpSips, cap=6),
    "Policy Gaussian": partial(PolicyGaussian, cap=6),
    "greedy": partial(PolicyGreedy, margin=40.0),  # so that a full key is found in every draw
}
Lists = list[list[int]]  # the keys of each user, in the order of users


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def tail(x: mpmath.mpf) -> mpmath.mpf:
    """The probability that a standard normal variable exceeds x."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def number(value: object) -> mpmath.mpf:
    return mpmath.mpf(str(value)) if isinstance(value, float) else mpmath.mpf(value.numerator) / value.denominator  # type: ignore[attr-defined]


def pairs_of(lists: Lists) -> tuple[Ints, Ints]:
    users = np.repeat(np.arange(len(lists)), [len(own) for own in lists])
    return users, np.array([key for own in lists for key in own], np.int64)


def slow_policy(lists: Lists, cutoff: float) -> dict[int, float]:
    """Policy Gaussian, one key after another."""
    weights: dict[int, float] = defaultdict(float)
    for own in lists:
        gaps = {key: cutoff - weights[key] for key in own}
        length = math.sqrt(math.fsum(gap**2 for gap in gaps.values()))
        for key, gap in gaps.items():
            weights[key] = cutoff if length <= 1 else weights[key] + gap / length
    return weights


def slow_greedy(lists: Lists, cutoff: float) -> dict[int, Fraction]:
    """The greedy policy in fractions, one key after another."""
    weights: dict[int, Fraction] = defaultdict(Fraction)
    for own in lists:
        left = Fraction(1)
        for key in own:
            cost = Fraction(cutoff) - weights[key]
            weights[key] += min(cost, left)
            left -= min(cost, left)
    return weights


# ---- formulas


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
def test_the_noise_spends_half_of_delta(privacy: Privacy) -> None:
    sigma, epsilon = mpmath.mpf(noise_deviation(privacy)), number(privacy.epsilon)
    mu = 1 / sigma
    spent = tail(epsilon / mu - mu / 2) - mpmath.exp(epsilon) * tail(epsilon / mu + mu / 2)
    assert abs(spent / (number(privacy.delta) / 2) - 1) < 1e-8


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
def test_keys_of_one_user_alone_spend_the_other_half(privacy: Privacy, cap: int) -> None:
    for method in (WeightedGaussian(privacy, cap), PolicyGaussian(privacy, cap)):
        rho, sigma, half = mpmath.mpf(method.threshold), mpmath.mpf(method.deviation), number(privacy.delta) / 2
        steps = range(1, cap + 1) if cap <= 10 else (1, 2, 3, 50, 999, 1000)
        shown = [1 - (1 - tail((rho - 1 / mpmath.sqrt(t)) / sigma)) ** t for t in steps]
        assert max(shown) / half < 1 + mpmath.mpf("1e-9")
        if cap <= 10:  # all numbers of keys were tried: one of them spends it all
            assert max(shown) / half > 1 - mpmath.mpf("1e-9")


def test_the_policy_stops_above_the_threshold_by_the_margin() -> None:
    for margin in (0.0, 2.5, 5.0):
        method = PolicyGaussian(Privacy(1, "1e-6"), 7, margin)
        assert method.cutoff == pytest.approx(method.threshold + margin * method.deviation, rel=1e-14)


@pytest.mark.parametrize("privacy", PRIVACIES, ids=str)
def test_a_key_of_one_user_alone_spends_the_delta_of_the_greedy_policy(privacy: Privacy) -> None:
    """A weight of 1, and Laplace noise: exp(-epsilon x) / 2 is the probability of more than x from 0 on."""
    method = PolicyGreedy(privacy)
    shown = mpmath.exp(-number(privacy.epsilon) * (mpmath.mpf(method.threshold) - 1)) / 2
    assert shown < number(privacy.delta) * (1 + mpmath.mpf("1e-12"))
    assert shown > number(privacy.delta) * (1 - mpmath.mpf("1e-12"))
    assert method.cutoff == pytest.approx(method.threshold + 3 / float(privacy.epsilon), rel=1e-14)


@pytest.mark.parametrize(("rounds", "growth"), [(1, 3.0), (3, 3.0), (5, 2.0), (4, 1.0)])
def test_rounds_share_the_budget(rounds: int, growth: float) -> None:
    privacy, cap = Privacy(1, "1e-6"), 20
    plan = DpSips(privacy, cap, rounds, growth).plan
    shares = [share for share, _, _ in plan]
    assert math.fsum(shares) == pytest.approx(1, rel=1e-12)
    assert np.allclose(np.diff(np.log(shares)), math.log(growth), atol=1e-12)
    # mu^2 = 1 / sigma^2 adds up to that of one round with everything, and so do the parts of delta / 2
    assert math.fsum(sigma**-2 for _, sigma, _ in plan) == pytest.approx(noise_deviation(privacy) ** -2, rel=1e-12)
    for share, sigma, rho in plan:
        shown = max(
            1 - (1 - tail((mpmath.mpf(rho) - 1 / mpmath.sqrt(t)) / mpmath.mpf(sigma))) ** t for t in range(1, cap + 1)
        )
        assert abs(shown / (mpmath.mpf(share) * number(privacy.delta) / 2) - 1) < 1e-8


def test_one_round_is_the_weighted_gaussian() -> None:
    privacy, generator = Privacy(1, "1e-3"), np.random.default_rng(5)
    users, keys = generator.integers(0, 300, 3000), generator.integers(0, 40, 3000)
    one = WeightedGaussian(privacy, 5)
    assert DpSips(privacy, 5, rounds=1).plan == [(1.0, one.deviation, one.threshold)]
    found = [m.draw(users, keys, 40, np.random.default_rng(1)).found for m in (one, DpSips(privacy, 5, rounds=1))]
    assert found[0].any()
    assert (found[0] == found[1]).all()


# ---- sensitivity


def neighbours(generator: np.random.Generator, trials: int) -> Iterator[tuple[Lists, Lists, list[int]]]:
    """Small datasets with and without one user, and that user's list."""
    for _ in range(trials):
        size = int(generator.integers(1, 8))
        lists = [
            generator.permutation(size)[: generator.integers(1, size + 1)].tolist()
            for _ in range(int(generator.integers(1, 10)))
        ]
        gone = int(generator.integers(len(lists)))
        yield lists, lists[:gone] + lists[gone + 1 :], lists[gone]


def check_neighbours(more: Floats, less: Floats, lists: Lists, without: Lists, own: list[int]) -> float:
    """One user more moves the weights by at most 1, and keys of that user alone have at most 1 / sqrt(their number)."""
    distance = float(np.linalg.norm(more - less))
    assert distance <= 1 + 1e-12
    alone = sorted(set(own) - {key for other in without for key in other})
    if alone:
        assert (more[alone] <= 1 / math.sqrt(len(alone)) + 1e-12).all()
    return distance


def test_one_user_changes_equal_weights_by_one() -> None:
    largest = 0.0
    for lists, without, own in neighbours(np.random.default_rng(1), 3000):
        more, less = (equal_weights(*pairs_of(each), 8) for each in (lists, without))
        largest = max(largest, check_neighbours(more, less, lists, without, own))
        for key in range(8):
            expected = math.fsum(1 / math.sqrt(len(each)) for each in lists if key in each)
            assert more[key] == pytest.approx(expected, abs=1e-12)
    assert largest > 1 - 1e-12


def test_one_user_changes_policy_weights_by_one() -> None:
    """The order of the others stays. Low cutoffs, so that keys fill up, in about half of the datasets."""
    generator, largest, full = np.random.default_rng(2), 0.0, 0
    for lists, without, own in neighbours(generator, 6000):
        cutoff = float(generator.uniform(0.3, 4))
        more, less = (policy_weights(*pairs_of(each), 8, cutoff) for each in (lists, without))
        largest = max(largest, check_neighbours(more, less, lists, without, own))
        full += bool((more >= cutoff - 1e-12).any())
        assert more.max() <= cutoff + 1e-12
        slow = slow_policy(lists, cutoff)
        assert more == pytest.approx([slow.get(key, 0.0) for key in range(8)], abs=1e-12)
    assert largest > 1 - 1e-12
    assert full > 1000


def test_one_user_changes_greedy_weights_by_one_in_all() -> None:
    """The sum of all changes is at most 1, and so is the weight of keys of that user alone. Keys fill up often."""
    generator, largest, full = np.random.default_rng(3), 0.0, 0
    for lists, without, own in neighbours(generator, 6000):
        cutoff = float(generator.uniform(1, 4))
        more, less = (greedy_weights(*pairs_of(each), 8, cutoff) for each in (lists, without))
        distance = float(np.abs(more - less).sum())
        assert distance <= 1 + 1e-12
        largest = max(largest, distance)
        alone = sorted(set(own) - {key for other in without for key in other})
        assert more[alone].sum() <= 1 + 1e-12
        full += bool((more >= cutoff - 1e-12).any())
        slow = slow_greedy(lists, cutoff)
        assert more == pytest.approx([float(slow.get(key, 0)) for key in range(8)], abs=1e-12)
    assert largest > 1 - 1e-12
    assert full > 1000


# ---- pairs


def test_pairs_are_counted_once() -> None:
    users, keys = distinct_pairs([7, -2, 7, 7, -2], [0, 3, 1, 0, 3], 4)
    assert list(zip(users.tolist(), keys.tolist(), strict=True)) == [(0, 3), (1, 0), (1, 1)]


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_repeated_pairs_and_their_order_do_not_matter(
    method: Callable[[Privacy], Method],
) -> None:
    generator = np.random.default_rng(3)
    users, keys = generator.integers(0, 200, 4000), generator.integers(0, 30, 4000)
    again = np.concatenate([generator.permutation(users.size), np.arange(500)])
    made = method(Privacy(1, "1e-3"))
    first, second = (
        made.draw(u, k, 30, np.random.default_rng(9)) for u, k in ((users, keys), (users[again], keys[again]))
    )
    assert first.found.any()
    assert (first.found == second.found).all()
    assert np.array_equal(first.weights, second.weights, equal_nan=True)


def test_each_user_keeps_at_most_the_cap_at_random() -> None:
    """Each of a user's 10 keys is kept with probability 3/10: 20,000 users, 6 standard deviations."""
    users, keys = np.repeat(np.arange(20_001), [10] * 20_000 + [2]), np.r_[np.tile(np.arange(10), 20_000), 0, 1]
    place, kept = kept_pairs(users, keys, 3, np.random.default_rng(4))
    counts = np.bincount(place)
    assert sorted(np.unique(counts).tolist()) == [2, 3]
    assert (counts == 2).sum() == 1
    assert (np.diff(place) >= 0).all()
    assert np.unique(place * 10 + kept).size == kept.size
    deviation = math.sqrt(20_000 * 0.3 * 0.7)
    assert (np.abs(np.bincount(kept)[2:] - 6000) < 6 * deviation).all()


def test_users_come_in_a_random_order() -> None:
    """The first of 3 users is each of them 1,000 times in 3,000, within 6 standard deviations."""
    firsts = [int(kept_pairs(np.arange(3), np.arange(3), 1, np.random.default_rng(seed))[1][0]) for seed in range(3000)]
    assert (np.abs(np.bincount(firsts) - 1000) < 6 * math.sqrt(3000 * 2 / 9)).all()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_only_keys_of_the_data_are_found(
    method: Callable[[Privacy], Method],
) -> None:
    made = method(Privacy(1, "0.01"))
    nothing = made.draw([], [], 3, np.random.default_rng(1))
    assert not nothing.found.any()
    for seed in range(200):
        result = made.draw(np.arange(200), np.zeros(200, np.int64), 500, np.random.default_rng(seed))
        assert result.found.nonzero()[0].tolist() == [0]
        assert np.isnan(result.weights[1:]).all()
        assert result.weights[0] > 0


# ---- what is found


def test_the_weighted_gaussian_finds_by_its_law() -> None:
    """3,000 keys of 12 users each, who have no other key: binomial, 6 standard deviations."""
    method = WeightedGaussian(Privacy(1, "1e-3"), 4)
    keys = np.repeat(np.arange(3000), 12)
    found = method.draw(np.arange(keys.size), keys, 3000, np.random.default_rng(1)).found.sum()
    p = norm.sf((method.threshold - 12) / method.deviation)
    assert 0.1 < p < 0.999
    assert abs(found - 3000 * p) < 6 * math.sqrt(3000 * p * (1 - p))


def test_found_keys_leave_the_lists() -> None:
    """Users have key 0 and one of 2,000 others, which n users have: n / sqrt(2) until key 0 is found, then n."""
    method, n, others = DpSips(Privacy(1, "1e-3"), 4), 15, 2000
    keys = 1 + np.repeat(np.arange(others), n)
    users = np.arange(keys.size)
    result = method.draw(np.r_[users, users], np.r_[keys, np.zeros_like(keys)], others + 1, np.random.default_rng(1))
    assert result.found[0]
    missed = 1.0
    for (_, sigma, rho), weight in zip(method.plan, (n / math.sqrt(2), n, n), strict=True):
        missed *= norm.cdf((rho - weight) / sigma)
    assert 0.05 < missed < 0.95
    assert abs(result.found[1:].sum() - others * (1 - missed)) < 6 * math.sqrt(others * missed * (1 - missed))


def test_the_greedy_policy_finds_by_its_law() -> None:
    """3,000 keys of 9 users each, who have no other key: binomial, 6 standard deviations."""
    method = PolicyGreedy(Privacy(1, "1e-4"))
    keys = np.repeat(np.arange(3000), 9)
    found = method.draw(np.arange(keys.size), keys, 3000, np.random.default_rng(1)).found.sum()
    p = laplace.sf((method.threshold - 9) / method.scale)
    assert 0.1 < p < 0.9
    assert abs(found - 3000 * p) < 6 * math.sqrt(3000 * p * (1 - p))


@pytest.fixture(scope="module")
def library() -> tuple[Ints, Ints, int]:
    """The files of the standard library as users, their words as keys."""
    pairs = standard_library().group_by(["file", "word"]).aggregate([])
    users, keys = (
        pairs[name].cast("string").combine_chunks().dictionary_encode().indices.to_numpy() for name in ("file", "word")
    )
    return users, keys, int(keys.max()) + 1


@pytest.mark.parametrize(("epsilon", "about"), [(1, 107), (4, 544)])
def test_the_weighted_gaussian_on_the_standard_library(
    library: tuple[Ints, Ints, int], epsilon: int, about: int
) -> None:
    """What another program found, within a quarter: Python's own files change from version to version."""
    found = WeightedGaussian(Privacy(epsilon, "1e-6"), 1000).draw(*library, np.random.default_rng(1)).found.sum()
    assert 0.75 * about < found < 1.25 * about


@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_policy_on_the_standard_library(library: tuple[Ints, Ints, int], epsilon: int) -> None:
    """Against the expected number of keys by the slow oracle, in another order of users; 6 standard deviations."""
    users, keys, number_of_keys = library
    method, generator = PolicyGaussian(Privacy(epsilon, "1e-6"), 1000), np.random.default_rng(7)
    own: dict[int, list[int]] = defaultdict(list)
    for user, key in zip(users.tolist(), keys.tolist(), strict=True):
        own[user].append(key)
    lists = [generator.permutation(own[user])[:1000].tolist() for user in generator.permutation(len(own)).tolist()]
    weights = np.array(list(slow_policy(lists, method.cutoff).values()))
    p = norm.sf((method.threshold - weights) / method.deviation)
    found = method.draw(users, keys, number_of_keys, np.random.default_rng(1)).found.sum()
    assert abs(found - p.sum()) < 6 * math.sqrt((p * (1 - p)).sum())


# ---- refusals


def test_bad_input_is_refused() -> None:
    privacy, generator = Privacy(1, "1e-6"), np.random.default_rng(1)
    for cap in (0, -1, True, 2.0):
        with refused("the cap"):
            WeightedGaussian(privacy, cap)  # type: ignore[arg-type]
    with refused("the number of rounds"):
        DpSips(privacy, 1, rounds=0)
    for growth in (0.0, -1.0, math.inf, math.nan):
        with refused("the growth"):
            DpSips(privacy, 1, growth=growth)
    for margin in (-1.0, math.inf, math.nan):
        with refused("the margin"):
            PolicyGaussian(privacy, 1, margin)
        with refused("the margin"):
            PolicyGreedy(privacy, margin)
    with pytest.warns(UserWarning, match="above 20"):
        strong = Privacy(501, "1e-6")
    with refused("epsilon must be at most 500"):
        WeightedGaussian(strong, 1)
    method = WeightedGaussian(privacy, 1)
    with refused("users must be"):
        method.draw([0.5], [0], 1, generator)
    with refused("keys must be"):
        method.draw([0], [[0]], 1, generator)
    with refused("users and keys must be arrays of the same length"):
        method.draw([0, 1], [0], 1, generator)
    for keys in ([-1], [9]):
        with refused("key codes", hidden=keys):
            method.draw([0], keys, 9, generator)
    with refused("the number of keys"):
        method.draw([0], [0], 0, generator)


def test_a_threshold_rises_with_the_cap() -> None:
    rhos = [weight_threshold(4.0, 5e-7, cap) for cap in CAPS]
    assert rhos == sorted(rhos)

"""Filled capacity, by which one key of each user or many are chosen: what it is, its noise, its proof, the choice."""

import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import KeepAll, Privacy, PrivacyViolation, Source
from dpsample.accounting.choice import capacity_cap, fuller, promising_keys
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.filled import FILLED_PARTS, FILLED_SHARE, Filled
from dpsample.accounting.look import Look
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.planning.setting import Setting
from dpsample.planning.users import forecast_users
from dpsample.private.assignment import Assignment
from dpsample.private.count import CountedUsers
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.pairs import kept_rows
from dpsample.private.users import choose
from dpsample.release.explain import explain_choice
from dpsample.release.proof import prove_release
from dpsample.release.terms import Terms
from dpsample.scheme.per_key import PerKey
from given_coins import GivenCoins
from stated_terms import stated_terms
from support import refused

PRIVACY = Privacy(1, "1e-6")
LISTS = [keys for size in range(4) for keys in combinations(range(3), size)]  # of three keys, in their order


def rows_of(users: tuple[tuple[int, ...], ...]) -> tuple[Any, Any]:
    """Sorted pairs, as engines have them: whether a row begins a user, and its key."""
    begins = [n == 0 for keys in users for n in range(len(keys))]
    return np.array(begins, bool), np.array([key for keys in users for key in keys], np.int64)


def table_of(*users: list[Any]) -> pa.Table:
    """Each user's keys."""
    rows = [(f"u{n}", str(key)) for n, keys in enumerate(users) for key in keys]
    return pa.table({"user": [user for user, _ in rows], "key": [key for _, key in rows]})


# ---- how much one user changes


@pytest.mark.parametrize("full", [1, 2])
def test_one_user_changes_the_units_of_one_key_each_by_one(full: int) -> None:
    """All neighbours among four users of three keys; units of all keys together are users who gave one."""

    def units(users: tuple[tuple[int, ...], ...]) -> int:
        room = np.full(3, full)
        begins, codes = rows_of(users)
        if len(codes):
            Assignment().place(begins, codes, room)
        return int(3 * full - room.sum())

    changes = {
        units(users) - units(users[:n] + users[n + 1 :])
        for users in product(LISTS, repeat=4)
        for n in range(len(users))
    }
    assert changes == {0, 1}


@pytest.mark.parametrize(("most", "full"), [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2)])
def test_one_user_changes_what_many_keys_fill_by_as_many(most: int, full: int) -> None:
    """All neighbours among three users of three keys, whatever they keep; a user's coins go with the user."""

    def filled(users: tuple[tuple[tuple[int, ...], int], ...]) -> int:
        begins, codes = rows_of(tuple(keys for keys, _ in users))
        words = np.array([word for keys, word in users if keys], np.uint64)
        users_of = Counter(codes[kept_rows(begins, most, words)].tolist() if len(codes) else [])
        return sum(min(number, full) for number in users_of.values())

    # every row that a user may begin with
    options = [(keys, (2 * n + 1 << 63) // max(len(keys), 1)) for keys in LISTS for n in range(max(len(keys), 1))]
    changes = {
        filled(users) - filled(users[:n] + users[n + 1 :]) for users in product(options, repeat=3) for n in range(3)
    }
    assert changes == set(range(most + 1))  # a user only adds, and the bound is attained


def test_each_key_of_a_user_is_kept_with_the_same_probability() -> None:
    """Over all rows that a user may begin with, each row is kept equally often."""
    for keys in range(1, 8):
        starts = [(2 * n + 1 << 63) // keys for n in range(keys)]
        begins = np.arange(keys) == 0
        for most in range(1, 10):
            kept = Counter(
                row for start in starts for row in kept_rows(begins, most, np.array([start], np.uint64)).tolist()
            )
            assert kept == Counter(dict.fromkeys(range(keys), min(most, keys)))


# ---- what an engine measures


def measured(table: pa.Table, most: int, full: int, first: int = 0) -> tuple[int, int]:
    """The units of one key each, and what `most` keys of each user fill."""
    source = Source(table, "key", user="user")
    words = np.random.default_rng(first).integers(0, 1 << 64, 1000, np.uint64, endpoint=False)
    coins = GivenCoins(words)
    with DuckDB(threads=1) as engine:
        given = engine.assigned(source, full, coins, keep_pairs=True)
        return given.units, engine.filled(given, most, full, coins)


@pytest.mark.parametrize("full", [1, 3, 10])
def test_keys_are_filled_up_to_full_ones(full: int) -> None:
    """Users who keep all of their keys: the sum over keys of min(users, full), whatever the coins."""
    users = [["a"]] * 5 + [["a", "b"]] * 4 + [["a", "b", "c"]] * 2 + [["d"]]
    number = Counter(key for keys in users for key in keys)
    for first in range(5):
        units, filled = measured(table_of(*users), 4, full, first)
        assert filled == sum(min(n, full) for n in number.values())
        assert units <= filled
    assert measured(table_of(*users), 4, 100)[0] == len(users)  # all users give where no key is full


def test_users_keep_no_more_keys_than_they_may() -> None:
    """Where no key is full, what is filled is the number of kept pairs."""
    users = [[f"k{n}" for n in range(size)] for size in (1, 2, 3, 7, 20, 20)]
    for most in (1, 2, 4, 8, 16, 32):
        for first in range(3):
            assert measured(table_of(*users), most, 1000, first)[1] == sum(min(most, len(keys)) for keys in users)


def test_repeated_rows_fill_nothing() -> None:
    table = table_of(["a", "b"], ["a"], ["b", "c"])
    assert measured(pa.concat_tables([table, table]), 4, 10) == measured(table, 4, 10) == (3, 5)


# ---- noise, and what it cost


def test_each_number_has_noise_for_what_a_user_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One key: scale 1 / epsilon; m keys: scale m / epsilon. Both are drawn, each once, and added."""
    scales = list[Fraction]()

    def noise(scale: Fraction, coins: Any) -> int:
        scales.append(scale)
        return 1000 * len(scales)

    monkeypatch.setattr(choose, "discrete_laplace", noise)
    budget = Setting(PRIVACY, discover="ask").users
    users = [["a", "b"], ["a"], ["b", "c"]]
    with DuckDB(threads=1) as engine:
        coins = GivenCoins(np.arange(100, dtype=np.uint64))
        given = engine.assigned(Source(table_of(*users), "key", user="user"), 10, coins, keep_pairs=True)
        one, many = choose.buy_filled(engine, given, 8, budget, KeepAll(), coins)
    shares = [FILLED_SHARE * part for part in FILLED_PARTS]
    assert [way.epsilon for way in (one, many)] == shares  # of epsilon 1
    assert scales == [1 / shares[0], 8 / shares[1]] == [one.scale, many.scale]
    assert (one.units, many.units) == (3 + 1000, 5 + 2000)
    assert one.full == capacity_cap(budget.one_key())
    steps = budget.many_keys(8)
    assert steps is not None
    assert many.full == capacity_cap(steps)


def test_what_is_compared_is_paid_for() -> None:
    """The look and both numbers together cost 2 % of epsilon, as a look alone does."""
    budgets = {discover: Setting(PRIVACY, discover=discover).users for discover in ("ask", "many-keys", "one-key")}
    assert [float(budget.left.epsilon) for budget in budgets.values()] == [0.98, 0.98, 1]
    asked = budgets["ask"]
    assert asked.look + asked.filled == LOOK_SHARE
    assert sum(asked.filled_epsilons) == Fraction(1, 100)
    assert budgets["many-keys"].filled_epsilons == budgets["one-key"].filled_epsilons == ()


def asked(units: tuple[int, int], method: Any = "one-key", **changes: Any) -> Terms:
    """Terms of a release of keys only that compared one key of each user with four."""
    budget = Setting(PRIVACY, discover="ask", keys_only=True).users
    look = Look((500, 300, *[0] * (len(Look.EDGES) - 2)), PRIVACY.share(budget.look))
    steps = budget.many_keys(4)
    assert steps is not None
    each: dict[str, PerKey] = {"one-key": budget.one_key(), "many-keys": steps}
    ways = zip((1, 4), each.values(), units, budget.filled_epsilons, strict=True)
    filled = tuple(Filled(keys, capacity_cap(own), n, epsilon) for keys, own, n, epsilon in ways)
    full = capacity_cap(budget.one_key()) if method == "one-key" else None
    discovery = Discovery(method, 1 if method == "one-key" else 4, full, look, filled=filled)
    discovery = replace(discovery, **changes)
    return stated_terms(PRIVACY, KeepAll(), ("key",), keys_only=True, per_key=each[method], discovery=discovery)


def test_the_choice_follows_from_the_record_and_is_proved() -> None:
    for units, method in (((2100, 640), "one-key"), ((210, 6400), "many-keys"), ((-300, -10), "one-key")):
        terms = asked(units, method)
        proof = prove_release(terms)
        assert proof.complete
        assert "filled by one key of each user: epsilon 0.002, delta 0" in str(proof)
        assert "filled by 4 keys of each user: epsilon 0.008, delta 0" in str(proof)
        assert "filled by 4 keys of each user: discrete Laplace noise of scale 500" in str(proof)
        assert Terms.from_json(terms.to_json(rows=0)) == terms
        other = "many-keys" if method == "one-key" else "one-key"
        with pytest.raises(PrivacyViolation, match="found in the way that fills more"):
            prove_release(asked(units, other))


def test_more_than_what_is_left_for_keys_is_refused() -> None:
    """Numbers that cost more leave less to the keys, which then spend too much."""
    one, many = asked((2100, 640)).discovery.filled  # type: ignore[union-attr]
    for filled in ((one, replace(many, epsilon=many.epsilon * 2)), (replace(one, epsilon=one.epsilon * 2), many)):
        with pytest.raises(dpsample.DpsampleError):
            prove_release(asked((2100, 640), filled=filled))


def test_records_that_are_impossible_are_refused() -> None:
    one, many = asked((2100, 640)).discovery.filled  # type: ignore[union-attr]
    for filled in ((one,), (many, one), (one, one), (one, many, many)):
        with refused("a comparison must be of one key of each user with many keys"):
            asked((2100, 640), filled=filled)
    with refused("a comparison must be"):
        asked((2100, 640), look=None)
    for wrong in ((0, 21, 5, 1), (1, 0, 5, 1), (1, 21, 5, 0), (1, 21, 5, -1)):
        with refused("a comparison of ways of discovery must state whole numbers"):
            Filled(*wrong[:3], Fraction(wrong[3]))


def test_the_fuller_way_is_found_in_integers() -> None:
    full = 3**30  # capacities that differ by less than a float can tell
    one, many = Filled(1, full, 10**30, Fraction(1)), Filled(8, full, 10**30 + 1, Fraction(1))
    assert one.capacity == many.capacity
    assert fuller([one, many]) is many
    assert fuller([one, replace(many, units=10**30)]) is one
    assert fuller([replace(one, units=-5), replace(many, units=-4)]).keys == 1  # both are noise alone


# ---- which way is chosen


def shape(users: int, mean: int, exponent: float, keys: int = 2000) -> pa.Table:
    """Users with geometric numbers of keys, which are drawn by a power law."""
    draw = np.random.default_rng(users + mean)
    each = draw.geometric(1 / mean, users)
    weights = np.arange(1, keys + 1) ** -exponent
    drawn = draw.choice(keys, each.sum(), p=weights / weights.sum())
    return pa.table({"user": np.repeat(np.arange(users), each), "key": drawn})


@pytest.mark.chance("certain: found by far more keys than orders and kept keys can change; ten deviations and more")
@pytest.mark.parametrize(
    ("users", "mean", "exponent", "epsilon", "method"),
    [
        (500, 30, 1.1, "1", "many-keys"),  # four times as many keys, where raw capacities are 2.7 to 1
        (5000, 30, 1.1, "0.3", "many-keys"),
        (20_000, 2, 1.1, "1", "one-key"),
        (5000, 1, 1.1, "4", "one-key"),
    ],
)
def test_a_plan_chooses_what_finds_more(users: int, mean: int, exponent: float, epsilon: str, method: str) -> None:
    """The oracle is the expected number of keys, by exact reporting probabilities."""
    with DuckDB(threads=1) as engine:
        numbers = CountedUsers(Source(shape(users, mean, exponent), "key", user="user"), engine)
        made = forecast_users(numbers, Setting(Privacy(epsilon, "1e-6"), discover="ask"))
    ways: dict[float, Any] = {each.keys: each.way for each in made.methods if each.way and not each.way.counted}
    assert ways[max(ways)].discovery == method
    assert [way.discovery for way in ways.values() if way.chosen] == [method]


@pytest.mark.usefixtures("fixed_coins")
def test_releases_of_the_same_data_choose_alike() -> None:
    """Filled capacities of some 100 and 250 keys: by raw capacities, of 2.7 to 1 and a factor of 3, it was a toss."""
    table = shape(3000, 30, 1.1)
    methods, found = Counter[str](), list[int]()
    for _ in range(6):
        release = dpsample.release(table, "key", user="user", privacy=PRIVACY, keys_only=True)
        assert release.terms.discovery is not None
        methods[release.terms.discovery.method] += 1
        found.append(len(release))
    assert methods == {"many-keys": 6}
    assert min(found) > 0.8 * max(found)


def test_what_is_large_by_noise_alone_is_seldom_promising() -> None:
    budget = UserBudget(PRIVACY, LOOK_SHARE)
    calm = Look((0, 0, 0, 20_000, 0, 0, 0), Fraction(1, 50))  # 17 to 64 keys
    assert promising_keys(budget, calm) in (32, 64)
    loud = replace(calm, users=(*calm.users[:-1], 70))  # a deviation of noise
    assert promising_keys(budget, loud) == promising_keys(budget, calm)
    assert promising_keys(budget, Look((200_000, *[0] * 6), Fraction(1, 50))) == 2


def test_steps_that_were_compared_can_be_sent_to_workers() -> None:
    steps = Setting(PRIVACY, discover="ask").users.many_keys(8)
    assert steps is not None
    assert capacity_cap(steps) > 0  # it has computed with balls by now
    sent = pickle.loads(pickle.dumps(steps))
    assert (sent, capacity_cap(sent)) == (steps, capacity_cap(steps))


def test_the_choice_in_words() -> None:
    """What the other way would find is in proportion to filled capacities, and is not told if noise may decide."""
    one, many = Filled(1, 20, 4000, Fraction(1, 500)), Filled(8, 80, 4000, Fraction(1, 125))  # 200 and 50 keys
    words = explain_choice([one, many], keys=80)
    assert words.startswith("one key of each user could fill about 200 keys (with noise of 35), up to 8 keys of each")
    assert "about 50 (with noise of 18), measured for epsilon 0.01; the first was chosen" in words
    assert "the other would have found about 20 keys, not 80" in words
    assert words.endswith('--discover one-key (discover="one-key") keeps to this way')
    assert "would have found" not in explain_choice([one, many])
    for near in (replace(many, units=12_000), replace(many, units=20_000)):  # 150 and 250 keys
        words = explain_choice([one, near], keys=80)
        assert "another run may choose the other way" in words
        assert "would have found" not in words
    assert "the second was chosen" in words
    nothing = explain_choice([replace(one, units=-5), replace(many, units=-5)], keys=0)
    assert "could fill about 0 keys" in nothing
    assert "another run may choose the other way" in nothing

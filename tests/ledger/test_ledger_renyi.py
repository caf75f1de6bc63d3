"""Ledgers that count Rényi divergences: budgets at each order, and what may be chosen after looking."""

import json
import math
import multiprocessing
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest
from flint import arb

import dpsample
from dpsample import Privacy, new_ledger, read_ledger
from dpsample.accounting.composition import composed_delta, largest_count
from dpsample.accounting.renyi import ORDERS, RenyiCurve
from dpsample.balls import precision
from dpsample.ledger.charges import Charge
from dpsample.ledger.filters import RenyiBudget
from dpsample.ledger.ledger import check_ledger, reserve_budget
from support import refused

BUDGET = Privacy(2, "1e-6")
DAILY = Charge(Privacy("0.05", "1e-10"), "element", "daily.parquet")


def converted(order: Fraction, delta: Fraction) -> float:
    """What the conversion adds, in floats (Canonne, Kamath and Steinke, 2020)."""
    a = float(order)
    return math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)


def divergence(epsilon: float, order: Fraction) -> float:
    """The Rényi divergence of randomized response, in floats."""
    a, p = float(order), 1 / (1 + math.exp(-epsilon))
    return epsilon + math.log(p + (1 - p) * math.exp(-2 * (a - 1) * epsilon)) / (a - 1)


# ---- the budget of each order


@pytest.mark.parametrize("budget", [BUDGET, Privacy("0.5", "1e-9"), Privacy(10, "1e-6"), Privacy("0.01", "1e-3")])
@pytest.mark.parametrize("share", ["0.1", "0", "0.5"])
def test_delta_is_divided_over_the_orders(budget: Privacy, share: str) -> None:
    made = RenyiBudget.of(budget, share)
    assert made.aside == budget.delta * Fraction(share)
    assert made.aside + sum(limit.delta for limit in made.limits) <= budget.delta
    for limit in made.limits:
        proved = float(limit.divergence) + converted(limit.order, limit.delta)
        assert 0 <= float(budget.epsilon) - proved < 1e-6 * float(budget.epsilon) + 1e-9
    assert RenyiBudget.from_json(json.loads(json.dumps(made.to_json(), sort_keys=True)), budget) == made


@pytest.mark.parametrize("swapped", [False, True])
def test_a_curve_is_that_of_the_worse_direction(swapped: bool) -> None:
    """Two coins, of 0.3 and 0.01: at high orders one direction has ten times the divergence of the other."""
    coins = [(0.3, 0.01), (0.7, 0.99)]
    pairs = [(q, p) for p, q in coins] if swapped else coins
    with precision():
        curve = RenyiCurve.of_atoms([(arb(p), arb(q)) for p, q in pairs])
    for order, found in zip(ORDERS, curve.divergences, strict=True):
        alpha = mpmath.mpf(order.numerator) / order.denominator
        there = sum(mpmath.mpf(p) ** alpha * mpmath.mpf(q) ** (1 - alpha) for p, q in coins)
        back = sum(mpmath.mpf(q) ** alpha * mpmath.mpf(p) ** (1 - alpha) for p, q in coins)
        exact = mpmath.log(max(there, back)) / (alpha - 1)
        assert exact <= mpmath.mpf(found.numerator) / found.denominator <= exact * (1 + mpmath.mpf("1e-8"))


def test_little_is_lost_against_the_best_order() -> None:
    """The order is not known in advance. Small releases lose less than 1 % of their number, or one release.

    Against all of delta at one order, the best for this release in hindsight.
    """
    for epsilon, delta in ((1, "1e-6"), (2, "1e-6"), (3, "1e-8"), (10, "1e-6")):
        made = RenyiBudget.of(Privacy(epsilon, delta))
        left = Fraction(delta) - made.aside
        for each in ("0.001", "0.01", "0.05", "0.1", "0.2", "0.5"):
            curve = RenyiCurve.of_privacy(Privacy(each, "1e-30"))
            best = max((epsilon - converted(order, left)) / divergence(float(each), order) for order in ORDERS)
            more = made.more(RenyiCurve.none(), curve)
            assert more is not None
            assert more <= best
            assert more >= min(0.99 * best, best - 2) - 1


def test_one_hundred_releases_cost_half_of_their_sum(tmp_path: Path) -> None:
    """At (0.1, 1e-9) and delta 1e-6: 5.12, between the exact value, 4.79, and the sum, 10.

    The optimal composition theorem is exact for randomized response, so that nothing that is true is below it.
    """
    path, each = tmp_path / "a.ledger", Privacy("0.1", "1e-9")
    new_ledger(path, "events", Privacy("5.2", "1e-6"), account="renyi")
    reserve_budget(path, Charge(each, "element", "first"))
    ledger = read_ledger(path)
    assert ledger.more == 99
    hundred = replace(ledger, entries=ledger.entries * 100)
    epsilon, delta, rule = hundred.spent
    assert (round(float(epsilon), 2), delta, rule) == (5.12, Fraction(1, 10**6), "Rényi composition")
    assert composed_delta(each, 100, epsilon) <= delta < composed_delta(each, 100, Fraction("4.78"))
    assert composed_delta(each, 100, Fraction("4.79")) <= delta
    assert hundred.basic[0] == 10
    assert hundred.more == 0
    with refused("the deltas of the releases of 'events' may add up to 1e-07, which is set aside"):
        hundred.require(Charge(each, "element", "x"))


@pytest.mark.parametrize("epsilon", ["0.02", "0.1", "0.4", "1.5"])
def test_no_more_than_the_exact_number(epsilon: str) -> None:
    """Randomized response, of which the optimal composition theorem says exactly how many fit."""
    for budget in (BUDGET, Privacy(6, "1e-6"), Privacy("1.6", "1e-3")):
        made = RenyiBudget.of(budget)
        curve = RenyiCurve.of_privacy(Privacy(epsilon, "1e-12"))
        more = made.more(RenyiCurve.none(), curve)
        assert more is not None
        assert more <= largest_count(Privacy(epsilon, "1e-12"), budget)
        assert made.allows(curve * more)
        assert not made.allows(curve * (more + 1))


# ---- sequences


def random_charge(rng: random.Random) -> Charge:
    privacy = Privacy(Fraction(rng.randint(1, 60), 100), Fraction(1, 10 ** rng.randint(8, 12)))
    if rng.random() < 0.3:
        return Charge(privacy, "element", "x", curve=RenyiCurve.of_gaussian(Fraction(rng.randint(1, 40), 1000)))
    return Charge(privacy, "element", "x")


def test_a_budget_is_never_exceeded_and_never_held_back(tmp_path: Path) -> None:
    """Random releases, some with curves of their own: an oracle in floats decides which ones fit."""
    for seed in range(8):
        rng = random.Random(seed)
        path = tmp_path / f"{seed}.ledger"
        limits = new_ledger(path, "events", BUDGET, account="renyi", aside="0.2").account
        assert limits is not None
        spent, aside, accepted = dict.fromkeys(ORDERS, 0.0), Fraction(0), 0
        for _ in range(25):
            charge = random_charge(rng)
            if charge.curve is None:
                own = {order: divergence(float(charge.privacy.epsilon), order) for order in ORDERS}
                delta = charge.privacy.delta
            else:
                own, delta = {o: float(d) for o, d in zip(ORDERS, charge.curve.divergences, strict=True)}, Fraction(0)
            room = [float(limit.divergence) - spent[limit.order] - own[limit.order] for limit in limits.limits]
            if abs(max(room)) < 1e-6:
                continue  # floats do not decide
            if max(room) > 0 and aside + delta <= Fraction(2, 10**7):
                reserve_budget(path, charge)
                accepted += 1
                spent, aside = {order: spent[order] + own[order] for order in ORDERS}, aside + delta
            else:
                with refused("the releases of 'events' may" if max(room) <= 0 else "the deltas of the releases"):
                    check_ledger(path, charge)
        assert accepted > 3
        assert len(read_ledger(path).entries) == accepted


Adversary = Callable[[list[int], Fraction], str | None]
CHOICES = ("0.15", "0.3", "0.6", "1.2")


def worst(budget: RenyiBudget, privacy: Privacy, choose: Adversary) -> tuple[float, int]:
    """The exact delta, at epsilon, of all that an adversary sees who chooses each release by the outcomes before it.

    Each release is randomized response that leaks the truth with probability 1e-4: outcomes 0, 1 and 2, a leak.
    """
    leak = 1e-4
    curves = {each: RenyiCurve.of_privacy(Privacy(each, Fraction(1, 10**4))) for each in CHOICES}
    leaves = 0

    def follow(p: float, q: float, seen: list[int], total: RenyiCurve) -> float:
        nonlocal leaves
        for each in dict.fromkeys([choose(seen, total.delta), *reversed(CHOICES)]):
            if each is not None and len(seen) < 12 and budget.allows(total + curves[each]):
                break
        else:
            leaves += 1
            return max(0.0, p - math.exp(privacy.epsilon) * q)
        likely = 1 / (1 + math.exp(-float(each)))
        after = total + curves[each]
        return (
            follow(p * (1 - leak) * likely, q * (1 - leak) * (1 - likely), [*seen, 0], after)
            + follow(p * (1 - leak) * (1 - likely), q * (1 - leak) * likely, [*seen, 1], after)
            + p * leak
        )

    return follow(1.0, 1.0, [], RenyiCurve.none()), leaves


@pytest.mark.parametrize("seed", range(12))
def test_releases_that_are_chosen_after_looking_keep_the_budget(seed: int) -> None:
    """Adversaries who go for other orders on other paths: large steps after some outcomes, small ones after others."""
    rng = random.Random(seed)
    table = {length: (rng.choice(CHOICES), rng.choice(CHOICES)) for length in range(20)}

    def choose(seen: list[int], _: Fraction) -> str:
        lost = seen.count(0) - seen.count(1)
        return table[len(seen)][0 if lost > 0 else 1] if seed else ("0.15" if lost > 0 else "1.2")

    privacy = Privacy(Fraction(5, 2), Fraction(1, 100))
    delta, leaves = worst(RenyiBudget.of(privacy), privacy, choose)
    assert leaves > 1
    assert 0 < delta <= privacy.delta


# ---- what a release enters


def test_a_certified_curve_counts_instead_of_the_worst_case(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = new_ledger(path, "events", BUDGET, account="renyi")
    tight = replace(DAILY, curve=RenyiCurve.of_gaussian(Fraction(1, 10**4)))
    reserve_budget(path, tight)
    reserve_budget(path, DAILY)
    first, second = (entry.charge.curve for entry in read_ledger(path).entries)
    assert first == tight.curve
    assert second == RenyiCurve.of_privacy(DAILY.privacy)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert lines[0]["account"] == json.loads(json.dumps(ledger.account and ledger.account.to_json()))
    assert {name: Fraction(d) for name, d in lines[1]["curve"]["orders"].items()}["4"] == Fraction(4, 2 * 10**4)


def test_a_ledger_of_epsilon_ignores_curves(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    reserve_budget(path, replace(DAILY, curve=RenyiCurve.none()))
    ledger = read_ledger(path)
    assert ledger.basic == (Fraction("0.05"), Fraction("1e-10"))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert set(lines[0]) == {"format", "version", "time", "dpsample", "dataset", "budget", "unit", "each"}
    assert "curve" not in lines[1]
    assert ledger.more is None


def test_what_is_left_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy("0.5", "1e-6"), account="renyi")
    assert "left: all" in str(read_ledger(path))
    large = Charge(Privacy("0.13", "1e-9"), "element", "x")
    reserve_budget(path, large)
    ledger = read_ledger(path)
    assert ledger.more is not None
    assert f"left: about {ledger.more} more releases like the last" in str(ledger)
    assert ledger.to_json()["more_like_the_last"] == ledger.more
    for _ in range(ledger.more):
        reserve_budget(path, large)
    assert "left: none like the last" in str(read_ledger(path))
    with refused("the releases of 'events' may spend epsilon 0.5, delta 1e-06 together, by Rényi divergences") as info:
        reserve_budget(path, large)
    assert "no order has room for epsilon 0.13, delta 1e-09 more" in str(info.value)
    reserve_budget(path, replace(large, curve=RenyiCurve.none()))
    assert "left: any number of releases like the last" in str(read_ledger(path))


def test_a_cancelled_reservation_is_not_spent(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy("0.2", "1e-6"), account="renyi")
    whole = Charge(Privacy("0.15", "1e-9"), "element", "x")
    for _ in range(3):
        reserve_budget(path, whole).cancel()
    assert read_ledger(path).spent == (Fraction(0), Fraction(0), "Rényi composition")
    reserve_budget(path, whole).confirm()
    with refused("the releases of 'events' may spend"):
        reserve_budget(path, whole)


@pytest.mark.chance("odds 1e-9: a key of one element shows, at delta 1e-9; nothing else depends on coins")
def test_a_release_is_entered_with_its_curve(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"), account="renyi")
    made = dpsample.release({"a": 500, "b": 1}, privacy=Privacy("0.5", "1e-9"), ledger=path)
    entry = read_ledger(path).entries[0]
    assert made.terms.ledger == entry.hash
    assert entry.charge.curve == RenyiCurve.of_privacy(Privacy("0.5", "1e-9"))
    with refused("the releases of 'events' may spend"):
        dpsample.release(dpsample.Source(tmp_path / "none.parquet", "k"), privacy=Privacy(1, "1e-9"), ledger=path)


# ---- refusals


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"account": "zcdp"}, "account must be epsilon or renyi"),
        (
            {"account": "renyi", "each": Privacy("0.1", "1e-9")},
            "a Rényi ledger cannot limit what each release may spend",
        ),
        ({"account": "renyi", "aside": "1"}, "the share of delta that is set aside must be at least 0 and below 1"),
        ({"account": "renyi", "aside": "-0.1"}, "the share of delta that is set aside must be at least 0 and below 1"),
    ],
    ids=str,
)
def test_bad_ledgers_are_not_begun(options: dict[str, Any], rule: str, tmp_path: Path) -> None:
    with refused(rule):
        new_ledger(tmp_path / "a.ledger", "events", BUDGET, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_budget_that_no_order_can_hold_is_refused(tmp_path: Path) -> None:
    with refused("could allow no release at all"):
        new_ledger(tmp_path / "a.ledger", "events", Privacy("1e-6", "1e-9"), account="renyi")


def test_a_first_line_that_proves_too_little_is_refused(tmp_path: Path) -> None:
    """More budget at an order, more delta, the same order twice, or an order that no curve has."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, account="renyi")
    line = json.loads(path.read_bytes())

    def changed(**account: Any) -> bytes:
        return json.dumps({**line, "account": {**line["account"], **account}}).encode() + b"\n"

    orders = line["account"]["orders"]
    name, at = next(iter(orders.items()))
    larger = {**at, "divergence": str(float(at["divergence"]) * 1.001)}
    for bad in (
        changed(aside="2e-7"),
        changed(aside="-1e-7"),
        changed(orders={}),
        changed(orders={**orders, name: larger}),
        changed(orders={**orders, name: {**at, "delta": "1e-6"}}),
        changed(orders={**orders, f"{name}.0": at}),
        changed(orders={"3.33": at}),
        changed(kind="zcdp"),
        changed(orders=[]),
    ):
        path.write_bytes(bad)
        with refused("is not a ledger as dpsample wrote it"):
            read_ledger(path)
    path.write_bytes(changed())
    assert read_ledger(path).account == RenyiBudget.of(BUDGET)


def _spend_all(path: str, results: Any) -> None:
    won = 0
    while True:
        try:
            reserve_budget(path, Charge(Privacy("0.05", "1e-9"), "element", "x")).confirm()
        except dpsample.InvalidValue:
            results.put(won)
            return
        won += 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking a process with threads
def test_two_processes_share_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    made = new_ledger(path, "events", Privacy("0.5", "1e-6"), account="renyi").account
    assert made is not None
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    processes = [context.Process(target=_spend_all, args=(str(path), results)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    total = results.get() + results.get()
    assert total == made.more(RenyiCurve.none(), RenyiCurve.of_privacy(Privacy("0.05", "1e-9")))
    assert len(read_ledger(path).entries) == total

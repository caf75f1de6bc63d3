"""What parts that do not overlap cost in a ledger."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from days import PRIVACY, charge, day
from dpsample import Ledger, Privacy, new_ledger, read_ledger
from dpsample.accounting.parts import Part
from dpsample.accounting.renyi import RenyiCurve
from dpsample.ledger.charges import Charge, Entry, Status
from dpsample.ledger.ledger import reserve_budget
from support import refused


def test_parts_cost_the_maximum(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"), parts="day")
    reserve_budget(path, charge("0.5", day("13")))
    reserve_budget(path, charge("0.75", day("14")))
    reserve_budget(path, charge("0.25", day("13", vouched=True)))  # the same part, whoever says so
    ledger = read_ledger(path)
    assert ledger.spent == (Fraction(3, 4), Fraction(2, 10**9), "basic composition")
    assert ledger.largest_part == "13"  # two spent 0.75: the first of them
    assert "of day = 13, the part that spent most; left: epsilon 0.25" in str(ledger)
    reserve_budget(path, charge("0.25"))  # of no part: it counts for all
    reserve_budget(path, charge("0.75", day("15")))
    for more in (charge("0.001", day("13")), charge("0.001", day("14")), charge("0.001", day("15")), charge("0.001")):
        with refused("the releases of 'events', day = 1" if more.part else "the releases of 'events'"):
            reserve_budget(path, more)
    with refused("the releases of 'events', day = 16, may spend"):
        reserve_budget(path, charge("0.8", day("16")))
    reserve_budget(path, charge("0.75", day("16")))


def test_a_part_of_another_name_counts_for_all(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"), parts="day")
    reserve_budget(path, charge("0.6", Part("country", "13")))
    with refused("the releases of 'events'"):
        reserve_budget(path, charge("0.6", day("13")))
    with refused("the releases of 'events'"):
        reserve_budget(path, charge("0.6", Part("country", "14")))


def test_a_part_in_a_ledger_without_parts_costs_the_sum(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, "1e-6"))
    for value in ("13", "14"):
        reserve_budget(path, charge("0.5", day(value)))
    assert read_ledger(path).basic[0] == 1
    with refused("the releases of 'events' may spend"):
        reserve_budget(path, charge("0.5", day("15")))


def test_users_are_protected_within_one_part(tmp_path: Path) -> None:
    """A release of several parts is refused: without a user's rows of one day, keys of other days take their place."""
    path = tmp_path / "a.ledger"
    ledger = new_ledger(path, "clicks", Privacy(1, "1e-6"), "user", parts="day")
    assert ledger.protects == "user, in one day"
    assert str(ledger).startswith("Ledger of 'clicks': epsilon 1, delta 1e-06 for each user, in one day\n")
    for other in (charge(unit="user"), charge(unit="user", part=Part("country", "FR"))):
        with refused("the ledger of 'clicks' counts privacy of one user, in one day") as info:
            reserve_budget(path, other)
        assert "name it with part=('day', VALUE)" in str(info.value)
    reserve_budget(path, charge(unit="user", part=day("14")))


def oracle(entries: Iterable[tuple[Charge, bool]], new: Charge, cost: Callable[[list[Charge]], bool]) -> bool:
    """Whether a release is allowed: for each value of the column there might be, by all that its elements are in."""
    live = [charge for charge, cancelled in entries if not cancelled] + [new]
    values = {c.part.value for c in live if c.part is not None} | {"of which nothing was released"}
    for value in values:
        touching = [c for c in live if c.part is None or c.part.name != "day" or c.part.value == value]
        if new in touching and not cost(touching):
            return False
    return True


@pytest.mark.parametrize("account", ["epsilon", "each", "renyi"])
def test_the_accounts_of_parts_against_an_oracle(account: str, tmp_path: Path) -> None:
    budget = Privacy(2, "1e-6")
    each = Privacy("0.25", "1e-9") if account == "each" else None
    empty = new_ledger(
        tmp_path / "a", "events", budget, each=each, parts="day", account="renyi" if account == "renyi" else "epsilon"
    )

    def within(charges: list[Charge]) -> bool:
        if account == "renyi":
            assert empty.account is not None
            total = RenyiCurve.none()
            for c in charges:
                total = total + RenyiCurve.of_privacy(c.privacy)
            return empty.account.allows(total)
        if empty.releases is not None:
            return len(charges) <= empty.releases
        return sum(c.privacy.epsilon for c in charges) <= 2 and sum(c.privacy.delta for c in charges) <= budget.delta

    for seed in range(20):
        rng = random.Random(seed)
        known: list[tuple[Charge, bool]] = []
        ledger: Ledger = empty
        outcomes = Counter[bool]()
        for n in range(60):
            part = rng.choice([None, Part("country", "FR"), *(day(value) for value in "1234")])
            spent = charge(rng.choice(["0.05", "0.1", "0.25"]), part if rng.random() < 0.9 else None)
            spent = replace(spent, release=str(n))
            allowed = oracle(known, spent, within)
            outcomes[allowed] += 1
            if not allowed:
                with refused("the releases of 'events'"):
                    ledger.require(spent)
                continue
            ledger.require(spent)
            cancelled = rng.random() < 0.2
            known.append((spent, cancelled))
            status: Status = "cancelled" if cancelled else "reserved"
            ledger = replace(ledger, entries=(*ledger.entries, Entry(spent, "then", str(n), status)))
            live = [c for c, gone in known if not gone]
            most = max(
                sum(c.privacy.epsilon for c in live if c.part is None or c.part.name != "day" or c.part.value == value)
                for value in "1234"
            )
            if account == "epsilon":
                assert ledger.spent[0] == most
        if account == "epsilon":
            assert min(outcomes[True], outcomes[False]) > 1


@pytest.mark.parametrize("parts", ["", 5, "a\nb"])
def test_parts_have_a_name(parts: Any, tmp_path: Path) -> None:
    with refused("parts must be a name of printable characters"):
        new_ledger(tmp_path / "a", "events", PRIVACY, parts=parts)

"""Several releases of counted users and of other measured kinds: values add up, and so do variances of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counted import made
from dpsample import Release, changes, combine
from dpsample.answers.several import Combined
from kinds import KEY, NAMES, kinds
from support import refused

SINGLE = {name: kind for name, kind in kinds().items() if isinstance(kind, Release)}


def week(*days: list[float], error: float = 5.0, **options: Any) -> Combined:
    return Combined([made(values, [error] * len(values), **options) for values in days])


def test_values_and_variances_of_counted_users_add_up() -> None:
    together = week([100.0, 200.0, 50.0], [110.0, 190.0])
    assert [row["estimate"] for row in together.table.to_pylist()] == [210, 390, 50]
    total = together.sum()
    assert total.value == pytest.approx(650)
    assert total.standard_error == pytest.approx(5 * np.sqrt(5))
    assert any("not distinct users" in note for note in total.notes)


def test_a_release_that_does_not_report_a_key_lengthens_its_interval_upwards() -> None:
    both, one = week([100.0, 50.0], [101.0, 50.0]), week([100.0, 50.0], [101.0])
    gap = one["k00001"].high - 50 - (both["k00001"].high - 100)
    assert one["k00001"].low <= 50 - 1.9 * 5
    assert gap > 0
    assert one.unreported().high >= 1


def test_what_clipping_took_may_be_alike_on_all_days() -> None:
    """The parts of errors that keys have in common add up over days, not their variances."""
    together = week([1000.0], [1000.5], error=20.0, groups=((0.0, 0.015),))
    assert together.each_key()["k00000"].standard_error == pytest.approx(np.sqrt(2 * (400 - 225) + 30**2), rel=1e-3)


@pytest.mark.parametrize("name", [name for name in SINGLE if name != "keys only"])
def test_two_releases_of_each_kind_and_what_changed_between_them(name: str) -> None:
    """A release and one that does not report its first keys: the frequent keys have about twice their frequency."""
    release = SINGLE[name]
    together = kinds()[f"several, {name}"]
    one, two = release[KEY], together[KEY]
    assert two.low <= 2 * one.value + 5 * one.standard_error + 5
    assert two.high >= 2 * one.value - 5 * one.standard_error - 5
    assert two.high - two.low < 2 * (one.high - one.low) + 3
    assert isinstance(together, Combined)
    found = changes(together.releases[0], together.releases[1])
    assert KEY not in found.table["key"].to_pylist()  # it changed by less than the noise


def test_keys_only_are_counted_by_the_releases_that_report_them() -> None:
    together = kinds()["several, keys only"]
    assert together.each_key()[NAMES[0]].value == 1
    assert together.each_key()[KEY].value == 2
    assert together.count_keys().keys == len(NAMES)
    with refused("no numbers"):
        combine(SINGLE["keys only"], SINGLE["tokens"])
    with refused("keys only"):
        changes(SINGLE["keys only"], Release(SINGLE["keys only"].table.slice(2), SINGLE["keys only"].terms))


def test_sides_of_different_lengths_are_compared_by_their_means() -> None:
    """A key of 100 users a day does not change from two days to one; one that doubles does."""
    before, after = week([100.0, 299.0], [101.0, 301.0]), made([100.0, 600.0], [5.0] * 2)
    [row] = changes(before, after).table.to_pylist()
    assert (row["key"], row["before"], row["after"]) == ("k00001", 300, 600)
    assert row["low"] <= 300 <= row["high"]
    [row] = changes(made([200.0, 600.0], [5.0] * 2), after, lengths=(2, 1)).table.to_pylist()
    assert row["change"] == pytest.approx(300)

"""Changes as counted, beyond chance, and of shares: what is listed where nothing changed, and that both ways are alike.

Coins are seeded, so that no test fails by chance.
"""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsample import Privacy, Release
from dpsample.accounting.totals import Total
from dpsample.answers.changes import changes
from dpsample.answers.hypotheses import Hypothesis
from several import release_of
from stated_terms import restated
from support import refused, run

MEANS = np.maximum(4000.0 / np.arange(1, 401), 5.0)
SWAPPED = {"rose": "fell", "fell": "rose", "new": "vanished", "vanished": "new"}


def day(means: Any, seed: int) -> Release:
    """One day: counts are Poisson, and released with other coins."""
    return release_of(np.random.default_rng(1000 + seed).poisson(means), seed)


def with_total(means: Any, seed: int) -> Release:
    """The same, with a private total."""
    counts, share, each = np.random.default_rng(1000 + seed).poisson(means), Fraction(1, 20), Privacy("0.95", "1e-6")
    made = release_of(counts, seed, privacy=each)
    total = Total(int(counts.sum()) + 5, share, Fraction(1))
    terms = restated(made.terms, privacy=Privacy(1, "1e-6"), per_key=each, total=total)
    return Release(made.table.select(["key", "token"]), terms)


def test_days_that_are_samples_of_the_same_rows_have_changes_as_counted_and_none_beyond_chance() -> None:
    """Each row is in a day with probability 1/4: the counts of two days are independent, of one mean.

    Nothing changed, so that at a rate of 5 % no more than one run in twenty lists anything; here, of four, none does.
    Of the changes as counted, about a third of the keys, nearly all directions are those of the counts.
    """
    rows = np.rint(4 * MEANS).astype(int)
    listed = []
    for seed in range(4):
        counts = [np.random.default_rng(70 + 2 * seed + n).binomial(rows, 0.25) for n in (0, 1)]
        days = [release_of(of_day, 30 + 2 * seed + n) for n, of_day in enumerate(counts)]
        counted = changes(*days)
        assert 0.1 < len(counted) / counted.tested < 0.6
        difference = dict(zip((f"k{n:05d}" for n in range(len(rows))), counts[1] - counts[0], strict=True))
        signs = {"rose": 1, "new": 1, "fell": -1, "vanished": -1}
        right = [signs[row["direction"]] * difference[row["key"]] > 0 for row in counted.table.to_pylist()]
        assert np.mean(right) >= 0.95
        listed.append(len(changes(*days, beyond_chance=True)))
    assert sum(count > 0 for count in listed) == 0


def test_p_values_beyond_chance_are_not_smaller_than_chance_makes_them() -> None:
    """Of 2,000 keys that did not change, at most about a share p has a p-value of p or less: 1.3 p and 5 deviations."""
    days = [day(np.geomspace(30, 3000, 2000), seed) for seed in (11, 12)]
    answer = changes(*days, fdr=0.999999, beyond_chance=True)
    p = np.ones(answer.tested)
    found = answer.table["p"].to_numpy()
    p[: len(found)] = found
    for level in (0.001, 0.01, 0.05, 0.2):
        allowed = 1.3 * level * len(p) + 5 * np.sqrt(level * len(p))
        assert (p <= level).sum() <= allowed
    assert (p <= 0.2).sum() >= 0.05 * len(p)  # nor is the test empty


@pytest.mark.parametrize("of", ["frequency", "share"])
@pytest.mark.parametrize("beyond_chance", [False, True])
def test_both_directions_are_alike(of: str, beyond_chance: bool) -> None:
    """If before and after change places, each key keeps its p-value, and rises become falls of the same size.

    But for rounding: where a release misses a key, p-values are rounded up, in steps of 1.6 for shares.
    """
    moved = MEANS.copy()
    moved[::7] *= 3
    moved[3::7] /= 3
    make = with_total if of == "share" else day
    first, second = make(MEANS, 1), make(moved, 2)
    there, back = (
        changes(*pair, fdr=0.5, of=of, beyond_chance=beyond_chance) for pair in ((first, second), (second, first))
    )
    assert there.tested == back.tested
    rows, turned = ({row["key"]: row for row in answer.table.to_pylist()} for answer in (there, back))
    common = rows.keys() & turned.keys()
    assert len(common) > 0.95 * max(len(rows), len(turned))
    for key in common:
        assert turned[key]["direction"] == SWAPPED[rows[key]["direction"]]
        assert np.log(turned[key]["p"]) == pytest.approx(np.log(rows[key]["p"]), abs=0.55 if of == "share" else 0.05)
        if of != "share" and rows[key]["change"] is not None:
            assert turned[key]["change"] == -rows[key]["change"]


def test_clear_changes_are_found_beyond_chance() -> None:
    moved = MEANS.copy()
    moved[2], moved[10], moved[30] = 4000, 100, 400
    answer = changes(day(MEANS, 21), day(moved, 22), fdr=0.001, beyond_chance=True)
    rows = {row["key"]: row for row in answer.table.to_pylist()}
    assert {key: rows[key]["direction"] for key in rows} == {"k00002": "rose", "k00010": "fell", "k00030": "rose"}
    for n in (2, 10, 30):  # intervals are of the change of the means
        row = rows[f"k{n:05d}"]
        assert row["low"] <= moved[n] - MEANS[n] <= row["high"]


def test_a_day_that_is_larger_has_the_same_shares() -> None:
    """All frequencies doubled, and one more than doubled."""
    moved = 2 * MEANS
    moved[20] *= 3
    days = with_total(MEANS, 31), with_total(moved, 32)
    as_frequencies = changes(*days, beyond_chance=True)
    assert len(as_frequencies) > 50
    [row] = changes(*days, fdr=0.001, of="share", beyond_chance=True).table.to_pylist()
    assert (row["key"], row["direction"]) == ("k00020", "rose")
    shares = MEANS[20] / MEANS.sum(), moved[20] / moved.sum()
    assert row["low"] <= shares[1] - shares[0] <= row["high"]
    assert row["before"] == pytest.approx(shares[0], rel=0.3)


def test_what_cannot_be_asked_is_refused() -> None:
    days = day(MEANS, 41), day(MEANS, 42)
    with refused("shares are of private totals") as refusal:
        changes(*days, of="share")
    assert "total=True" in str(refusal.value)
    with refused("of the frequency or of the share"):
        changes(*days, of="rank")
    with refused("beyond_chance is True or False"):
        changes(*days, beyond_chance="yes")  # type: ignore[arg-type]


def test_the_first_line_says_what_is_compared(tmp_path: Path) -> None:
    days = day(MEANS, 51), day(MEANS, 52)
    for name, release in zip(("a.parquet", "b.parquet"), days, strict=True):
        release.write(tmp_path / name)
    counted, beyond = changes(*days), changes(*days, beyond_chance=True)
    assert repr(counted).splitlines()[0] == counted.about == Hypothesis().about
    assert "what was counted" in counted.about
    assert "ordinary variation from day to day counts as a change" in counted.about
    assert "beyond chance" in repr(beyond).splitlines()[0]
    assert "ordinary variation" in counted._repr_html_()
    shown = run("changes", "a.parquet", "b.parquet", cwd=tmp_path).stdout
    assert shown.splitlines()[0] == counted.about
    found = json.loads(
        run("changes", "a.parquet", "b.parquet", "--beyond-chance", "--format", "json", cwd=tmp_path).stdout
    )
    assert (found["about"], found["rows"]) == (beyond.about, [])
    text = run("changes", "a.parquet", "b.parquet", "--format", "csv", cwd=tmp_path).stdout
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(counted)
    failed = run("changes", "a.parquet", "b.parquet", "--of", "share", cwd=tmp_path)
    assert failed.returncode == 2
    assert "--with-total" in failed.stderr

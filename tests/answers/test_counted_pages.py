"""What pages, explanations and commands show of counted users."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from browser import opened
from counted import BUDGET, LOOK, made, terms_of
from dpsample import KeepAll, Privacy, Release, read_release
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.totals import Total
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.presentation.report import PageSetting, display, make_report
from reports import blocks, data, seen
from stated_terms import stated_terms
from support import refused, run


@pytest.fixture
def clipped() -> Release:
    """A release with the words of all parts."""
    generator = np.random.default_rng(3)
    users = np.floor(5000 / np.arange(1, 61))
    values = users + np.sqrt(users) * generator.standard_normal(60)
    return made(values, np.sqrt(users), clipped=0.125)


def found_keys(**terms: Any) -> Release:
    """A release of keys only, that were discovered."""
    budget = UserBudget(BUDGET.privacy, look=LOOK_SHARE)
    each = budget.one_key()
    discovery = Discovery("one-key", 1, capacity_cap(each), LOOK)
    given = {"per_key": each, "discovery": discovery, "counts": None, "keys_only": True, **terms}
    return Release(pa.table({"key": ["a", "b"]}), terms_of(**given))


def many_keys() -> Release:
    """A release of keys only, of which each user gave many."""
    budget = UserBudget(BUDGET.privacy, look=LOOK_SHARE)
    return found_keys(per_key=budget.many_keys(16), discovery=Discovery("many-keys", 16, None, LOOK))


def test_a_release_says_how_its_keys_were_found_and_counted(clipped: Release) -> None:
    full = clipped.terms.discovery
    assert full is not None
    text = repr(clipped)
    assert "60 keys, with numbers of users" in text
    assert f"found     one key of each user, up to {full.full} users for a key" in text
    assert "about all users who have a key" in text
    assert "12.5 % of them, averaged over keys, were clipped and put back" in text
    assert "None" not in text
    assert "token" not in text
    shown = display(clipped)
    assert "each user gave one of their keys" in shown
    assert "12.5 % of them" in shown
    assert "number of users who gave this key" in shown
    assert "measured" not in shown
    assert "up to 16 keys of each user" in repr(many_keys())
    assert "keys only" in repr(many_keys())


def test_nothing_is_clipped_if_nothing_was() -> None:
    assert "none were clipped" in repr(made([5.0], [1.0]))
    assert "about 0 % of them" in repr(made([5.0], [1.0], clipped=-0.01))


def test_numbers_of_kept_keys_say_so() -> None:
    terms = stated_terms(Privacy(1, "1e-6"), KeepAll(), ("key",), max_keys=2, per_key=Privacy("0.5", "5e-7"))
    release = Release(pa.table({"key": ["a"], "token": [31.5]}), terms)
    assert "of the keys that users kept: too low where users have more keys" in repr(release)
    assert "numbers are of the keys that users kept, up to 2 each" in display(release)
    page = seen(make_report(release).html)
    assert (
        "Numbers are of the keys that users kept, up to 2 each: where users have more keys, they are too low." in page
    )
    assert "number of users who kept this key" in page
    assert "No private scheme" not in page


def test_the_page_of_counted_users(clipped: Release) -> None:
    page = make_report(clipped, PageSetting(top=10)).html
    text = seen(page)
    for words in (
        "one user is in the data",
        "keys and their numbers of users",
        "a look at how many keys users have",
        "proved",
        "in exact arithmetic, on the integers of the noise",
        "detection threshold (number of users who gave this key)",
        "one of the top 10 of the reported keys",
        "Number of reported keys of this number of users or more",
        "keys that were not reported are not in this number",
        "A key of many users may have been given by few of them",
        "about all users who have a key",
        "12.5 % of them, averaged over keys, were clipped and put back",
        "about reported keys alone",
        "Each user gave one of their keys",
    ):
        assert words in text, words
    for words in ("token", "No private scheme", "nan", "None", "element"):
        assert not re.search(rf"\b{words}\b", text.replace("Unit of privacy", "")), words
    found, each = data(page, "keys"), dict(clipped.each_key())
    assert found["runs"] == [1] * 60
    for n, key in enumerate(found["keys"][0]):
        for name in ("value", "low", "high"):
            assert int(found[name][n].replace(",", "")) == pytest.approx(getattr(each[key], name), abs=1)
    values = [each[key].value for key in found["keys"][0]]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("release", [found_keys, many_keys], ids=["one key", "many keys"])
def test_the_page_of_keys_that_were_found(release: Any) -> None:
    page = make_report(release()).html
    text = seen(page)
    assert "keys without frequencies" in text
    assert "A key of many users may have been given by few of them" in text
    assert "number of users who gave this key" in text
    assert "proved" in text
    assert "clipped" not in text
    assert 'id="chart-top"' not in page
    assert "keys" in display(release())
    assert release().count_keys().value == 2
    with refused("a number that depends on frequencies needs tokens"):
        release().sum()


def test_a_total_and_the_remainder_are_on_the_page() -> None:
    release = made([100.0, 200.0], [3.0, 4.0], total=Total(1000, Fraction(1, 4), Fraction(16)))
    text = seen(make_report(release, PageSetting(prove=False)).html)
    assert "keys of users, each user once in a key, with up to 16 keys" in text
    assert "700" in text
    assert "the total counts each user with at most 16 keys" in text


def test_commands(clipped: Release, tmp_path: Path) -> None:
    clipped.write(tmp_path / "a.parquet")
    assert read_release(tmp_path / "a.parquet") == clipped
    assert "with numbers of users" in run("info", "a.parquet", cwd=tmp_path).stdout
    answer = json.loads(run("query", "a.parquet", "--format", "json", cwd=tmp_path).stdout)
    assert answer["value"] == pytest.approx(clipped.sum().value)
    assert answer["guaranteed"] is True
    assert len(run("top", "a.parquet", "-k", "3", "--format", "csv", cwd=tmp_path).stdout.splitlines()) == 4
    assert "conservative" in run("quantiles", "a.parquet", "0.5", cwd=tmp_path).stdout
    refusal = run("query", "a.parquet", "--of", "log1p", cwd=tmp_path)
    assert refusal.returncode == 2
    assert "counted users" in refusal.stderr
    assert run("report", "a.parquet", "-o", "a.html", cwd=tmp_path).returncode == 0


def test_what_the_page_tells_to_run_runs(clipped: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clipped.write("release.private.parquet")
    page = clipped.report().html
    assert blocks(page, "again python")
    for code in blocks(page, "again python"):
        exec(compile(code, "page", "exec"), {})


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("kind", ["counted", "keys only"])
def test_the_page_opens_without_a_complaint(kind: str, clipped: Release, browser: Any, tmp_path: Path) -> None:
    release = clipped if kind == "counted" else found_keys()
    release.report(tmp_path / "page.html")
    with opened(browser, (tmp_path / "page.html").as_uri()) as tab:
        rows = tab.page.eval_on_selector_all("#matches tr", "rows => rows.map(row => row.cells.length)")
        assert rows == ([3] * 10 if kind == "counted" else [1] * 2)


@pytest.mark.chance("certain: whatever is reported, the release answers and has a page")
def test_a_release_of_data_answers() -> None:
    users = np.repeat(np.arange(3000), 3)
    rows = pa.table({"user": users, "key": [f"k{n % 7}" for n in range(len(users))]})
    release = dpsample.release(rows, "key", user="user", privacy=Privacy(5, "1e-5"))
    assert release.sum().keys == len(release)
    assert len(release.each_key()) == len(release)
    assert "Number" in seen(make_report(release).html) or not len(release)

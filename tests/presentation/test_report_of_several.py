"""A report over several releases of every kind: each number is the library's, and what changed is shown."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from browser import PHONE, accessibility_problems, opened, scrolls_sideways
from dpsample import InvalidValue, Release, changes, combine
from dpsample.accounting.parts import Part
from dpsample.answers.several import Combined
from dpsample.cli import cli
from dpsample.presentation.report import Statement
from kinds import kinds
from reports import seen
from several import release_of
from support import refused

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WEEKS: dict[str, Any] = {name: release for name, release in kinds().items() if name.startswith("several")}
FREQUENCIES = np.array([900, 500, 300, 200, 100, 60, 40, 5])


def day(number: int) -> Release:
    """The release of a day: the first key rises, and the last is hardly ever reported."""
    frequencies = FREQUENCIES + np.array([100 * number, *(0 for _ in FREQUENCIES[1:])])
    return release_of(frequencies, number, part=Part("day", f"2026-11-0{number}"))


def week() -> Combined:
    combined = combine(*(day(number) for number in (1, 2, 3)))
    assert isinstance(combined, Combined)
    return combined


def cells(page: str, section: str) -> list[list[str]]:
    """The rows of the first table body in a section."""
    inside = page[page.index(f'id="{section}"') :]
    bodies = "".join(re.findall(r"<tbody.*?</tbody>", inside.split("</section>")[0], re.DOTALL))
    made = []
    for row in re.findall(r"<tr>(.*?)</tr>", bodies, re.DOTALL):
        texts = re.findall(r"<t[hd].*?</t[hd]>", row)
        made.append([html.unescape(re.sub("<[^>]*>", "", text)) for text in texts])
    return made


@pytest.mark.parametrize("name", WEEKS)
def test_every_kind_has_a_page(name: str) -> None:
    combined = WEEKS[name]
    page = combined.report().html
    text = seen(page)
    assert f"{len(combined):,} keys are in at least one of the 2 releases" in text
    assert "How people are protected" in text
    for value in ("nan", "None", "inf", "object at"):
        assert not re.search(rf"\b{value}\b", text.replace("None of", "")), value
    for caution in combined.cautions:
        assert caution[1:] in text
    assert ('id="chart-each"' in page) == (name != "several, keys only")


def test_every_number_is_the_librarys() -> None:
    combined = week()
    page = combined.report(top=5).html
    top = list(combined.top(5))
    by_day = [dict(release.each_key()) for release in combined.releases]
    rows = cells(page, "releases")
    assert len(rows) == 5
    for row, (key, e) in zip(rows, top, strict=True):
        assert row[0] == key
        assert row[1] == f"{e.value:,.0f} ({math.floor(e.low):,} to {math.ceil(e.high):,})"
        assert row[2:] == [f"{one[key].value:,.0f}" for one in by_day]
    (first, e), *_ = top
    text = " ".join(seen(page).split())
    assert f"{first} occurs about {e.value:,.0f} times over 3 releases" in text
    assert f"{first} was highest in 2026-11-03" in seen(page)


def test_a_key_that_was_not_reported_has_a_dash_and_no_point() -> None:
    combined = combine(day(1), Release(day(2).table.slice(1), day(2).terms))
    page = combined.report(top=3).html
    (row,) = (row for row in cells(page, "releases") if row[0] == "k00000")
    assert row[-1] == "-"
    picture = page[page.index('id="chart-each"') :].split("</svg>")[0]
    assert picture.count("<circle") == 2 * 3 - 1


def test_keys_only_are_listed_by_how_many_releases_report_them() -> None:
    combined = WEEKS["several, keys only"]
    rows = cells(combined.report().html, "releases")
    reported = combined.table.to_pydict()
    assert dict(rows) == {k: str(n) for k, n in zip(reported["key"], reported["releases"], strict=True)}
    assert [n for _, n in rows] == sorted((n for _, n in rows), reverse=True)


def test_what_changed_is_from_the_first_to_the_last() -> None:
    combined = week()
    page = combined.report().html
    found = changes(combined.releases[0], combined.releases[-1])
    assert len(found) == 1
    assert f"1 of {found.tested} reported keys changed, k00000 most." in seen(page)
    assert "From 2026-11-01 to 2026-11-03." in seen(page)
    (row,) = found.table.to_pylist()
    assert [f"{row['low']:+,.0f} to {row['high']:+,.0f}", "rose"] == cells(page, "changes")[0][-2:]


def test_the_command_shows_several_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [f"day{number}.parquet" for number in (1, 2, 3)]
    for number, name in enumerate(files, 1):
        day(number).write(name)
    done = CliRunner().invoke(cli, ["report", *files, "-o", "week.html", "--title", "A <week>"])
    assert done.exit_code == 0, done.output
    page = Path("week.html").read_text()
    assert page == week().report(statement=Statement("A <week>"), files=files).html
    for command in re.findall(r"<pre[^>]*>(dpsample .*?)</pre>", page):
        words = html.unescape(command).split()
        assert CliRunner().invoke(cli, words[1:]).exit_code == 0, command
    for arguments, rule in (
        ([*files, "--before", files[0], "-o", "a.html"], "goes with one release"),
        ([files[0], files[0], "-o", "a.html"], "there twice"),
        ([*files, "-o", files[0]], "must end with .html"),
        ([], "Missing argument"),
    ):
        done = CliRunner().invoke(cli, ["report", *arguments])
        assert done.exit_code != 0
        assert rule in f"{done.exception}{done.output}"
    assert not Path("a.html").exists()
    with refused("must end with .html"):
        week().report("week.parquet")
    with pytest.raises(InvalidValue, match="exists already"):
        week().report("week.html")


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
def test_everybody_can_read_it(size: tuple[int, int], dark: bool, browser: Browser, tmp_path: Path) -> None:
    week().report(tmp_path / "week.html")
    with opened(browser, (tmp_path / "week.html").as_uri(), size=size, dark=dark) as tab:
        assert tab.page.locator("figure svg").filter(visible=True).count() == 3
        tab.page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        assert accessibility_problems(tab) == []
        assert not scrolls_sideways(tab)

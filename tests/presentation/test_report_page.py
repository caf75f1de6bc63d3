"""The report in a real browser: it works, reaches nothing, runs nothing of a key, and shows the library's numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import PHONE, Tab, accessibility_problems, opened, scrolls_sideways
from dpsample import KeepAll, Release
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.exact import text
from dpsample.presentation.report.content import SHARES
from dpsample.presentation.tables import printable
from dpsample.scheme import frequency_reaching, reporting_probabilities
from reports import HOSTILE, PRIVACY, RELEASES, words

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.xdist_group("browser")
Open = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture(scope="module")
def open_report(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Open the report of a release, by its name; each is made once."""
    folder = tmp_path_factory.mktemp("reports")
    releases: dict[str, Any] = {**RELEASES, "words": words}

    def opening(name: str, **options: Any) -> AbstractContextManager[Tab]:
        path: Path = folder / f"{list(releases).index(name)}.html"
        if not path.exists():
            releases[name]().report(path)
        return opened(browser, path.as_uri(), **options)

    return opening


def found(tab: Tab, query: str) -> list[list[str]]:
    """Type into the search box, and return the rows that it finds."""
    tab.page.fill("#query", query)
    tab.page.wait_for_function("q => document.getElementById('matches').dataset.query === q", arg=query)
    return rows(tab, "#matches tr")


def rows(tab: Tab, selector: str) -> list[list[str]]:
    """The texts of the cells of some rows, seen or folded."""
    read = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    cells: list[list[str]] = tab.page.eval_on_selector_all(selector, read)
    return cells


def whole(number: float) -> str:
    """The nearest whole number, a half to an even one."""
    return f"{Decimal(number).quantize(Decimal(1), ROUND_HALF_EVEN):,}"


def interval(low: float, high: float) -> str:
    """Whole numbers that enclose the interval."""
    return (
        f"{Decimal(low).quantize(Decimal(1), ROUND_FLOOR):,} to {Decimal(high).quantize(Decimal(1), ROUND_CEILING):,}"
    )


def test_every_number_is_the_librarys(open_report: Open) -> None:
    release = words()
    with open_report("words") as tab:
        facts = tab.page.eval_on_selector_all(
            ".facts div", "all => all.map(d => [d.querySelector('dt').textContent, d.querySelector('dd').textContent])"
        )
        assert [value for _, value in facts] == [
            f"{len(release):,}",
            text(PRIVACY.epsilon),
            text(PRIVACY.delta),
            "element",
            f"{frequency_reaching(0.5, KeepAll(), PRIVACY):,}",
        ]
        top = release.top(100)
        lead = str(tab.page.text_content(".lead"))
        (first, e), *_ = top
        assert lead.startswith(f"{first} occurs about {whole(e.value)} times ({interval(e.low, e.high)}). 400 values")
        assert [row[:4] for row in rows(tab, "#finding tbody tr")] == [
            [str(n), key, whole(e.value), interval(e.low, e.high)] for n, (key, e) in enumerate(top, 1)
        ]
        shares = top.numbers["probability"].to_pylist()
        for row, share in zip(rows(tab, "#finding tbody tr"), shares, strict=True):
            assert float(row[4].strip("> %")) == pytest.approx(100 * share, rel=0.006)
        for row in (counted := rows(tab, "#frequencies figure tbody tr")):
            e = release.count_keys(at_least=int(row[0].replace(",", "")))
            assert row[1:3] == [whole(e.value), interval(e.low, e.high)]
            assert (row[3:] == ["not guaranteed"]) == (not e.guaranteed)
        assert len(counted) > 5
        quantiles = [e for _, e in release.quantiles(SHARES)]
        for row, share, e in zip(rows(tab, "#frequencies > .scroll tbody tr"), SHARES, quantiles, strict=True):
            assert row[:3] == [f"{100 * share:g} %", whole(e.value), interval(e.low, e.high)]
            assert (row[3:] == ["not guaranteed"]) == (not e.guaranteed)
        reported = rows(tab, "#chart-compared tbody tr")
        assert len(reported) > 5
        for at, *shown in reported:
            i = [int(at.replace(",", ""))]
            known = [
                reporting_probabilities(i, KeepAll(), PRIVACY),
                StabilityHistogram(PRIVACY).reported(i),
                StabilityHistogram(PRIVACY, tight=True).reported(i),
            ]
            assert shown == [f"{p[0]:.3g}" for p in known]
        every = dict(release.each_key())
        for n in (0, 7, 40, 399):
            key = f"w{n:04d}"
            e = every[key]
            assert found(tab, key) == [[key, whole(e.value), interval(e.low, e.high)]]


def test_the_search_finds_what_it_should(open_report: Open) -> None:
    with open_report("words") as tab:
        assert len(rows(tab, "#matches tr")) == 10
        keys = [f"w{n:04d}" for n in range(400)]
        for query in ("w01", "W039", "9", "nothing", "w0123", ""):
            matches = [key for key in keys if query.lower() in key]
            listed = found(tab, query)
            assert len(listed) == min(len(matches), 100 if query else 10)
            assert {row[0] for row in listed} <= {*matches}
            assert f"{len(matches):,}" in str(tab.page.text_content("#found"))
        found(tab, "w0")
        assert len(rows(tab, "#matches tr")) == 100
        while tab.page.is_visible("#more"):
            tab.page.click("#more")
        assert {row[0] for row in rows(tab, "#matches tr")} == {*keys}


def test_the_keyboard_is_enough(open_report: Open) -> None:
    with open_report("words") as tab:
        for _ in range(40):
            tab.page.keyboard.press("Tab")
            if tab.page.evaluate("document.activeElement.id") == "query":
                break
        assert tab.page.evaluate("document.activeElement.id") == "query"
        outline = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        tab.page.keyboard.type("w0399")
        tab.page.wait_for_function("() => document.getElementById('matches').rows.length === 1")
        assert tab.page.text_content("#matches th") == "w0399"


def test_long_lists_unfold(open_report: Open) -> None:
    with open_report("words") as tab:
        tab.page.click("text=The same 100 keys as a table")
        assert tab.page.locator("#finding tbody tr").filter(visible=True).count() == 15
        tab.page.click("text=Show all 100 rows")
        assert tab.page.locator("#finding tbody tr").filter(visible=True).count() == 100


def test_hostile_keys_do_nothing_and_are_shown(open_report: Open) -> None:
    with open_report("hostile") as tab:
        assert sorted(row[1] for row in rows(tab, "#finding tbody tr")) == sorted(map(printable, HOSTILE))
        for key in HOSTILE:
            query = printable(key)[:150]
            assert printable(key) in [row[0] for row in found(tab, query)]
        assert tab.page.evaluate("window.ran === undefined")
        assert tab.page.evaluate("document.querySelectorAll('img, iframe, object, embed, main script').length") == 0
        assert not scrolls_sideways(tab)


@pytest.mark.parametrize("name", ["empty", "keys only", "empty, keys only", "several columns", "bytes", "sampled"])
def test_other_releases_open_without_a_complaint(name: str, open_report: Open) -> None:
    release: Release = RELEASES[name]()
    with open_report(name) as tab:
        if len(release):
            assert len(rows(tab, "#matches tr")) == len(release)
        else:
            assert "No key was reported" in str(tab.page.text_content("main"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
def test_everybody_can_read_it(size: tuple[int, int], dark: bool, open_report: Open) -> None:
    with open_report("words", size=size, dark=dark) as tab:
        assert accessibility_problems(tab) == []
        assert not scrolls_sideways(tab)
        tab.page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        assert accessibility_problems(tab) == []
        assert not scrolls_sideways(tab)
        levels = tab.page.eval_on_selector_all("h1, h2, h3", "all => all.map(h => +h.tagName[1])")
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))


def test_colours_follow_the_reader_and_paper_is_light(open_report: Open) -> None:
    line = "getComputedStyle(document.querySelector('#chart-reported polyline')).stroke"
    ground = "getComputedStyle(document.body).backgroundColor"
    with open_report("words") as tab:
        light = tab.page.evaluate(line), tab.page.evaluate(ground)
        tab.page.emulate_media(color_scheme="dark")
        dark = tab.page.evaluate(line), tab.page.evaluate(ground)
        assert light[0] != dark[0]
        assert (light[1], dark[1]) == ("rgb(255, 255, 255)", "rgb(20, 23, 26)")
        tab.page.emulate_media(color_scheme="dark", media="print")
        assert (tab.page.evaluate(line), tab.page.evaluate(ground)) == light
        assert not tab.page.is_visible("#query")
        assert tab.page.locator("#finding tbody tr").filter(visible=True).count() == 100
        assert tab.page.pdf().startswith(b"%PDF")


def test_it_is_readable_without_scripts(open_report: Open) -> None:
    with open_report("words", java_script_enabled=False) as tab:
        assert tab.page.locator("#finding tbody tr").count() == 100
        assert tab.page.locator("figure svg").filter(visible=True).count() == 3
        assert "The search needs JavaScript" in tab.page.inner_text("main")
        assert not tab.page.is_visible("#query")


def test_a_notebooks_frame_runs_the_page_and_is_shut_in(browser: Browser, tmp_path: Path) -> None:
    frame = words(30).report()._repr_html_()
    (tmp_path / "book.html").write_text(f"<!DOCTYPE html><title>Notebook</title>{frame}", encoding="utf-8")
    with opened(browser, (tmp_path / "book.html").as_uri()) as tab:
        inside = tab.page.frame_locator("iframe")
        inside.locator("#query").fill("w0007")
        inside.locator("#found", has_text="1 of 30").wait_for()
        reached = "try { parent.document.title } catch (error) { error.name }"
        assert tab.page.frames[1].evaluate(reached) == "SecurityError"


def test_the_policy_stops_what_would_get_in(open_report: Open) -> None:
    """Were a script to get into the page after all, it would neither run nor reach anything."""
    with open_report("words") as tab:
        assert tab.errors == []
        tab.page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = 1";
                document.body.append(script);
                const image = document.createElement("img");
                image.src = "https://example.org/x.png";
                document.body.append(image);
            }"""
        )
        assert tab.page.evaluate("fetch('https://example.org/').then(() => 'reached', () => 'stopped')") == "stopped"
        assert tab.page.evaluate("window.ran === undefined")
        assert tab.left == []
        assert any("Content Security Policy" in error for error in tab.errors)
        tab.errors.clear()

"""The page of a plan in a real browser: it follows its sliders, reaches nothing, and everybody can read it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser import PHONE, Tab, accessibility_problems, opened, scrolls_sideways
from dpsample import Ppswor, Privacy, Source
from dpsample.planning import Forecast, Frequencies, Grid, Plan, Setting, explore
from dpsample.planning.forecast import Expected, Way, most_possible
from explorers import forecasts

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.chance("certain: forecasts are made up, or of made-up frequencies"),
]
GRID = Grid(["0.5", "1", "2"], ["1e-6", "1e-8"], [Ppswor("0.01"), Ppswor("0.1")])


def made_up(epsilon: str) -> Forecast:
    """A forecast of 100 epsilon keys with counts; two ways for each stage."""
    users, found = Frequencies.of({50: 2000}), 100 * float(epsilon)
    setting = Setting(Privacy(epsilon, "1e-6"), discover="ask")

    def method(name: str, keys: float, way: Way) -> Expected:
        return Expected(name, keys, keys / 2000, keys / 2000, 20, way=way)

    methods = (
        method("keys only, one key each", 2 * found, Way("one-key", False, 1, True, 9.0, (None, None))),
        method("counted, one key each", found, Way("one-key", True, 1, True, 9.0, (0.2, None), 0.25)),
        method("counted, up to k keys each", found / 4, Way("many-keys", True, 8, False, 5.0, (0.1, None), 0.125)),
    )
    return Forecast(setting, setting.sampling, users, methods, possible=most_possible(users, setting.privacy))


Open = Callable[..., AbstractContextManager[Tab]]


@pytest.fixture(scope="module")
def open_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """Open the page of a plan of elements or of users."""
    folder: Path = tmp_path_factory.mktemp("pages")
    source = Source("the clicks.parquet", "page", user="who")
    plans = {
        "elements": Plan(forecasts(GRID), described="Made up"),
        "users": Plan([made_up(epsilon) for epsilon in ("0.1", "1", "10")], source=source),
    }
    for name, plan in plans.items():
        explore(plan).write(folder / f"{name}.not-private.html")

    def opening(name: str, address: str = "", **options: Any) -> AbstractContextManager[Tab]:
        return opened(browser, (folder / f"{name}.not-private.html").as_uri() + address, **options)

    return opening


def settled(tab: Tab) -> None:
    """Wait until everything is shown for the position of the sliders."""
    tab.page.wait_for_function("() => document.body.dataset.shown !== undefined")


def put(tab: Tab, name: str, position: int) -> None:
    """Set a slider, as a drag does."""
    tab.page.evaluate("() => { delete document.body.dataset.shown; }")
    move = "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }"
    tab.page.eval_on_selector(f"#{name}", move, str(position))
    settled(tab)


def facts(tab: Tab) -> list[str]:
    texts: list[str] = tab.page.eval_on_selector_all("[data-fact]", "all => all.map(e => e.textContent)")
    return texts


def test_numbers_follow_the_sliders(open_page: Open) -> None:
    by_position = {}
    with open_page("elements") as tab:
        settled(tab)
        for epsilon in range(3):
            for delta in range(2):
                for sampling in range(2):
                    put(tab, "epsilon", epsilon)
                    put(tab, "delta", delta)
                    put(tab, "sampling", sampling)
                    by_position[epsilon, delta, sampling] = facts(tab)
                    rows = tab.page.locator("#methods tbody tr")
                    assert rows.count() == 4
        assert "--epsilon 2 --delta 1e-06" in str(tab.page.text_content("#command"))
        assert str(tab.page.text_content("#value-epsilon")) == "2"
        assert tab.page.get_attribute("#epsilon", "aria-valuetext") == "2"
        tab.page.wait_for_function("() => document.getElementById('summary').textContent.includes('epsilon 2')")
    expected = {
        (e, d, s): f"{made.pws.keys:,.0f}" if made.pws.keys >= 10 else f"{made.pws.keys:.2g}"
        for made in forecasts(GRID)
        for e in [["0.5", "1", "2"].index(f"{float(made.setting.privacy.epsilon):g}")]
        for d in [int(made.setting.privacy.delta > 1e-7)]
        for s in [int(made.setting.sampling == Ppswor("0.1"))]
    }
    assert {position: shown[0] for position, shown in by_position.items()} == expected


def test_the_charts_of_a_position_are_shown(open_page: Open) -> None:
    with open_page("elements") as tab:
        settled(tab)
        assert tab.page.locator("figure svg").filter(visible=True).count() == 3
        line = (
            "() => document.querySelector('[data-at]:not([hidden]) [id^=chart-curve] polyline').getAttribute('points')"
        )
        seen = set()
        for epsilon in range(3):
            put(tab, "epsilon", epsilon)
            seen.add(tab.page.evaluate(line))
            shown = tab.page.locator("figure").filter(visible=True)
            assert shown.count() == 3
            rows = [shown.nth(n).locator("tbody tr").count() for n in range(3)]
            assert rows[:2] == [3, 3]
            assert rows[2] >= 20
        assert len(seen) == 3


def test_the_address_keeps_the_position(open_page: Open) -> None:
    with open_page("elements", "#epsilon=2&delta=1e-08") as tab:
        settled(tab)
        assert "--epsilon 2 --delta 1e-08" in str(tab.page.text_content("#command"))
    with open_page("elements", "#epsilon=7") as tab:  # which was not planned: it starts at what is recommended
        settled(tab)
        put(tab, "delta", 1)
        tab.page.reload()
        settled(tab)
        assert "--delta 1e-06" in str(tab.page.text_content("#command"))


def test_users_have_the_same_page(open_page: Open) -> None:
    with open_page("users") as tab:
        for position, keys in ((2, "1,000"), (0, "10"), (1, "100")):
            put(tab, "epsilon", position)
            assert facts(tab)[0] == keys
        assert tab.page.title().startswith("NOT PRIVATE")
        assert tab.page.locator(".warning").count() == 2
        assert tab.page.locator("figure svg").filter(visible=True).count() == 2
        assert "Source('the clicks.parquet', key='page', user='who')" in str(tab.page.text_content("#python"))


def test_what_is_copied_is_what_is_shown(open_page: Open) -> None:
    with open_page("elements") as tab:
        settled(tab)
        tab.page.evaluate(
            "() => Object.defineProperty(navigator, 'clipboard', "
            "{ value: { writeText: async (t) => { window.copied = t; } } })"
        )
        tab.page.click("[data-copies=command]")
        tab.page.wait_for_selector("text=Copied.")
        assert tab.page.evaluate("window.copied") == tab.page.text_content("#command")
        tab.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
        tab.page.click("[data-copies=python]")
        tab.page.wait_for_selector("text=Selected")
        assert tab.page.evaluate("getSelection().toString()").strip() == tab.page.text_content("#python")


@pytest.mark.parametrize("name", ["elements", "users"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
def test_everybody_can_read_it(name: str, size: tuple[int, int], dark: bool, open_page: Open) -> None:
    with open_page(name, size=size, dark=dark) as tab:
        settled(tab)
        tab.page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        assert accessibility_problems(tab) == []
        assert not scrolls_sideways(tab)
        tab.page.evaluate("() => window.scrollTo(0, document.getElementById('methods').offsetTop)")
        box = tab.page.locator("#epsilon").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < size[1] / 4  # the sliders stay in sight

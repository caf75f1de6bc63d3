"""The explorer in a real browser: numbers follow the sliders, are the library's, and what is copied runs."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from browser import PHONE, Tab, accessibility_problems, drawn, opened, scrolls_sideways
from dpsample import Ppswor, Privacy, Source
from dpsample.exact import text
from dpsample.planning.explore import Choices, Explorer, Place, Server
from dpsample.planning.forecast import forecast
from dpsample.planning.setting import Setting
from dpsample.planning.text import PRIVATE
from dpsample.private.count import count_frequencies
from explorers import ZIPF, explorer, number, placed, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.chance("certain: a plan and a release's terms do not depend on what is drawn"),
]
SETTLED = (
    "() => ['seen', 'errors', 'others', 'curve'].every(p => document.body.dataset[p] === document.body.dataset.asked)"
)
FACTS = ("keys", "elements", "seen", "total", "selection")


@pytest.fixture(scope="module")
def server(browser: Browser) -> Iterator[Server]:
    with serving(explorer()) as made:
        yield made


def opening(browser: Browser, server: Server, **options: Any) -> Any:
    return opened(browser, server.address, server=f"http://127.0.0.1:{server.server_port}/", **options)


def settled(tab: Tab) -> None:
    """Wait until everything that was asked for is shown."""
    tab.page.wait_for_function(SETTLED)


def put(tab: Tab, **values: int) -> None:
    """Set sliders, as a drag does."""
    move = "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }"
    for name, value in values.items():
        tab.page.eval_on_selector(f"#{name}", move, str(value))


def facts(tab: Tab) -> dict[str, str]:
    return {name: str(tab.page.text_content(f"#fact-{name}")) for name in FACTS}


def expect(tab: Tab, setting: Setting) -> None:
    """What is shown is what the library says of a setting."""
    settled(tab)
    found, shown = forecast(ZIPF, setting, 0.1, quick=True), facts(tab)
    pws = found.pws
    assert number(shown["keys"]) == pytest.approx(pws.keys, abs=0.5)
    assert number(shown["elements"]) == pytest.approx(pws.share_of_elements, rel=0.0051)
    assert number(shown["seen"]) == pws.detection_threshold
    assert number(shown["total"]) == pytest.approx(pws.nrmse, rel=0.0051)
    assert number(shown["selection"]) == pytest.approx(pws.selection_nrmse, rel=0.0051)
    rows = tab.page.eval_on_selector_all(
        "#others tbody tr", "all => all.map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[0] for row in rows] == [method.method for method in found.methods]
    for row, method in zip(rows, found.methods, strict=True):
        assert number(row[3]) == pytest.approx(method.share_of_elements, rel=0.0051)
        assert number(row[5]) == pytest.approx(method.nrmse, rel=0.0051)
    assert tab.page.locator(".waiting").count() == 0
    assert str(pws.detection_threshold) in str(tab.page.get_attribute("[data-chart]", "aria-label"))


def test_numbers_follow_the_sliders_and_are_the_librarys(browser: Browser, server: Server) -> None:
    choices = server.explorer.choices
    start = choices.start
    with opening(browser, server) as tab:
        expect(tab, choices.setting(start))
        tab.page.focus("#epsilon")
        for _ in range(3):
            tab.page.keyboard.press("ArrowRight")
        third = choices.epsilon[choices.epsilon.index(start.epsilon) + 3]
        expect(tab, choices.setting(start._replace(epsilon=third)))
        label = text(third)
        assert tab.page.input_value("#value-epsilon") == label
        assert tab.page.get_attribute("#epsilon", "aria-valuetext") == label
        assert not tab.page.is_visible("#tau")
        tab.page.select_option("#how", label="ppswor, by tau")
        assert tab.page.is_visible("#tau")
        put(tab, tau=8, delta=12, epsilon=9)
        setting = Setting(Privacy(choices.epsilon[9], choices.delta[12]), Ppswor(choices.tau[8]))
        expect(tab, setting)
        assert "sampled with probability" in str(tab.page.text_content("#say-sampling"))
        tab.page.select_option("#how", label="priority, by sample size")
        put(tab, size=7, users=1)
        expect(tab, choices.setting(placed(choices, 9, 12, 4, 0, 7, 1)))
        assert "one user" in str(tab.page.text_content("#say-epsilon"))
        assert tab.page.is_visible("#size")
        assert not tab.page.is_visible("#tau")
        tab.page.wait_for_function("() => document.getElementById('summary').textContent.includes('Epsilon')")


def test_the_curve_is_drawn_anew(browser: Browser, server: Server) -> None:
    """Also where only its rows change, and where its axis does."""
    line = "document.querySelector('.mark-line path').getAttribute('d')"
    with opening(browser, server) as tab:
        settled(tab)
        drawn(tab)
        seen = {tab.page.evaluate(line)}
        for epsilon in (14, 20, 3):
            put(tab, epsilon=epsilon)
            settled(tab)
            seen.add(tab.page.evaluate(line))
        assert len(seen) == 4
        assert tab.page.locator("[data-chart] svg").count() == 1
        assert tab.page.locator("#points tbody tr").count() > 3


def test_an_older_answer_never_replaces_a_newer_one(
    browser: Browser, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, reached, answer = threading.Event(), threading.Event(), server.explorer.answer

    def slow(part: str, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = answer(part, place)
        if part == "errors" and place.epsilon == server.explorer.choices.epsilon[5]:
            reached.set()
            wait.wait(600)
        return found

    monkeypatch.setattr(server.explorer, "answer", slow)
    with opening(browser, server) as tab:
        settled(tab)
        put(tab, epsilon=5)
        tab.page.wait_for_function("() => document.body.dataset.seen === document.body.dataset.asked")
        assert reached.wait(600)
        assert "waiting" in str(tab.page.get_attribute("#fact-total", "class"))
        put(tab, epsilon=16)
        tab.page.wait_for_function("() => document.body.dataset.seen === document.body.dataset.asked")
        wait.set()
        choices = server.explorer.choices
        expect(tab, choices.setting(choices.start._replace(epsilon=choices.epsilon[16])))


def test_a_number_can_be_typed_and_the_address_restores_it(browser: Browser, server: Server) -> None:
    choices = server.explorer.choices
    typed = choices.start._replace(epsilon=Fraction("0.7"), how="ppswor tau", tau=Fraction("0.03"))
    with opening(browser, server) as tab:
        tab.page.select_option("#how", label="ppswor, by tau")
        tab.page.fill("#value-tau", "0.03")
        tab.page.fill("#value-epsilon", " 0.7")
        tab.page.keyboard.press("Enter")
        expect(tab, choices.setting(typed))
        assert "--epsilon 0.7" in str(tab.page.text_content("#command"))
        assert choices.epsilon[int(tab.page.input_value("#epsilon"))] == Fraction("0.6")  # the one below
        tab.page.wait_for_function("() => location.hash.includes('epsilon=0.7')")
        assert "size=" not in tab.page.url  # it has no effect, and its default follows from the data
        tab.page.reload()
        expect(tab, choices.setting(typed))
        assert (tab.page.input_value("#value-epsilon"), tab.page.input_value("#value-tau")) == ("0.7", "0.03")
        tab.page.focus(".skip")
        tab.page.keyboard.press("Enter")  # a link within the page is no other setting
        tab.page.wait_for_function("() => location.hash.includes('epsilon=0.7')")
        expect(tab, choices.setting(typed))
        tab.page.evaluate("() => { location.hash = 'epsilon=2'; }")
        tab.page.wait_for_function("() => document.getElementById('value-epsilon').value === '2'")
        expect(tab, choices.setting(choices.start._replace(epsilon=Fraction(2))))
        tab.page.fill("#value-epsilon", "77")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_function("() => document.getElementById('trouble').textContent.includes('from 0.05 to 10')")
        assert tab.page.text_content("#command") == ""


@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
def test_sliders_stay_in_sight(size: tuple[int, int], browser: Browser, server: Server) -> None:
    with opening(browser, server, size=size) as tab:
        settled(tab)
        tab.page.evaluate("() => window.scrollTo(0, document.getElementById('others').offsetTop)")
        box = tab.page.locator("#epsilon").bounding_box()
        assert box is not None
        assert 0 <= box["y"] < size[1] / 4
        form = tab.page.locator("#setting form").bounding_box()
        assert form is not None
        assert size == (1280, 900) or form["height"] < size[1] / 3  # the numbers are in sight as well


def test_what_is_copied_runs(browser: Browser, tmp_path: Path) -> None:
    """On private data, which the page says loudly; the release has the privacy that the sliders say."""
    table = pa.table({"page": [f"page {n % 20}" for n in range(2000)]})
    pq.write_table(table, tmp_path / "the clicks.parquet")
    source = Source(str(tmp_path / "the clicks.parquet"), "page")
    choices = Choices.of(ZIPF, epsilon=1, delta="1e-6")
    made = Explorer({None: count_frequencies(source)}, choices, 0.1, source)
    with (
        serving(made, PRIVATE) as server,
        opening(browser, server, permissions=["clipboard-read", "clipboard-write"]) as tab,
    ):
        settled(tab)
        assert tab.page.title().startswith("NOT PRIVATE")
        assert tab.page.locator(".warning").count() == 2
        assert "NOT PRIVATE" in tab.page.locator(".warning").first.inner_text()
        put(tab, epsilon=17, delta=19)
        settled(tab)
        tab.page.click("text=Copy the command")
        tab.page.wait_for_selector("text=Copied.")
        command = tab.page.evaluate("navigator.clipboard.readText()")
        assert command == tab.page.text_content("#command")
        tab.page.click("text=Copy the Python")
        tab.page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('import')")
        code = tab.page.evaluate("navigator.clipboard.readText()")
        assert code == tab.page.text_content("#python")
    name, *words = shlex.split(command)
    assert name == "dpsample"
    for run in (["-m", "dpsample", *words], ["-c", code]):
        done = subprocess.run([sys.executable, *run], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        release = dpsample.read_release(tmp_path / "OUTPUT.private.parquet")
        assert release.privacy == Privacy(choices.epsilon[17], choices.delta[19])
        (tmp_path / "OUTPUT.private.parquet").unlink()


def test_without_a_clipboard_the_text_is_selected(browser: Browser, server: Server) -> None:
    with opening(browser, server) as tab:
        settled(tab)
        tab.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
        tab.page.click("text=Copy the command")
        tab.page.wait_for_selector("text=Selected")
        selected = tab.page.evaluate("getSelection().toString()")
        assert selected.strip() == tab.page.text_content("#command")
        assert "EVENTS" in selected


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desktop", "phone"])
def test_everybody_can_read_it(size: tuple[int, int], dark: bool, browser: Browser, server: Server) -> None:
    with opening(browser, server, size=size, dark=dark) as tab:
        tab.page.select_option("#how", label="priority, by sample size")
        settled(tab)
        tab.page.eval_on_selector_all("details", "all => all.forEach(d => d.open = true)")
        assert accessibility_problems(tab) == []
        assert not scrolls_sideways(tab)


def test_a_server_that_has_stopped_is_told(browser: Browser, server: Server) -> None:
    with opening(browser, server) as tab:
        settled(tab)
        tab.page.route("**/seen?*", lambda route: route.abort("connectionrefused"))
        put(tab, epsilon=3)
        tab.page.wait_for_function("() => document.getElementById('trouble').textContent.includes('has stopped')")
        assert tab.page.locator("#numbers dd.waiting").count() == len(FACTS)
        assert (tab.page.text_content("#command"), tab.page.text_content("#python")) == ("", "")
        assert all("ERR_CONNECTION_REFUSED" in error for error in tab.errors)
        tab.errors.clear()
        tab.page.unroute("**/seen?*")
        put(tab, epsilon=4)
        settled(tab)
        assert tab.page.text_content("#trouble") == ""
        assert "dpsample release" in str(tab.page.text_content("#command"))

"""The explorer of users without a bound: a few epsilons, computed while the page is open; no number is its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from browser import PHONE, accessibility_problems, opened, scrolls_sideways
from dpsample import InvalidValue, Privacy, Source
from dpsample.cli import cli
from dpsample.planning.explore import Server, UsersExplorer, users
from dpsample.planning.explore.users_page import users_page
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.planning.text import PRIVATE
from dpsample.planning.users import UserNumbers, UsersForecast, Way
from explorers import one_key_each, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.chance("certain: forecasts are made up, or of users with one key, who give it in any order"),
]
pytest.importorskip("vl_convert")


def made_up(numbers: Any, setting: Setting) -> UsersForecast:
    """A forecast of 100 epsilon keys with counts, of 1,000 that are possible; two ways for each stage."""
    numbers.progress("counting keys")
    found = 100 * float(setting.privacy.epsilon)
    ways = (
        Way("one-key", False, 1, 2 * found, 17, True),
        Way("many-keys", False, 8, found / 2, 58),
        Way("one-key", True, 1, found, 23, True, (0.2, None), 0.25),
        Way("many-keys", True, 8, found / 4, 65, errors=(0.1, None), error=0.125),
    )
    return UsersForecast(setting, numbers.users, 1000.0, ways)


class Numbers:
    """Stands for what users would give."""

    progress: Any = None
    users = Frequencies.of({50: 2000})


def explorer(start: str = "1") -> UsersExplorer:
    source, numbers = Source("the clicks.parquet", "page", user="who"), cast(UserNumbers, Numbers())
    return UsersExplorer(numbers, lambda epsilon: Setting(Privacy(epsilon, "1e-6"), discover="ask"), start, source)


@contextmanager
def computed(made: UsersExplorer) -> Iterator[UsersExplorer]:
    """All epsilons are computed."""
    with made.ahead():
        while made.answer("users", made.start).get("more"):
            time.sleep(0.01)
        yield made


def test_what_is_computed_is_shown_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    first, go_on = threading.Event(), threading.Event()

    def waits(numbers: Any, setting: Setting) -> UsersForecast:
        if setting.privacy.epsilon != Fraction("0.7"):
            first.set()
            assert go_on.wait(600)
        return made_up(numbers, setting)

    monkeypatch.setattr(users, "forecast_users", waits)
    made = explorer("0.7")
    assert [float(epsilon) for epsilon in made.epsilons] == [0.1, 0.3, 0.7, 1, 3, 10]
    with made.ahead():
        assert first.wait(600)
        answer = made.answer("users", Fraction("0.7"))  # the first that is computed
        assert (answer["more"], answer["progress"]) == (True, "1 of 6 epsilons are computed; the others follow.")
        assert answer["values"] == {"keys": "70", "possible": "7.00 %", "error": "25.0 %", "only": "140"}
        assert answer["charts"]["keys"]["points"] == [["0.7", "1,000", "140", "35", "70", "18"]]
        later = made.answer("users", Fraction(10))
        assert set(later["values"].values()) == {"…"}
        assert "rows" not in later
        assert "--epsilon 10 " in later["command"]
        go_on.set()
        while made.answer("users", Fraction(10))["more"]:
            time.sleep(0.01)
    answer = made.answer("users", Fraction(10))
    assert (answer["values"]["keys"], answer["progress"]) == ("1,000", "")
    assert [row[0] for row in answer["rows"]][-1] == "counted, up to 8 keys each"
    assert [row[0] for row in answer["charts"]["errors"]["points"]] == ["0.1", "0.3", "0.7", "1", "3", "10"]
    assert "Source('the clicks.parquet', key='page', user='who')" in answer["python"]


@pytest.mark.parametrize("error", [RuntimeError("frequency 31337"), InvalidValue("a rule", "less", "do it")], ids=str)
def test_what_goes_wrong_shows_nothing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(numbers: Any, setting: Setting) -> UsersForecast:
        raise error

    monkeypatch.setattr(users, "forecast_users", fails)
    with computed(explorer()) as made:
        told = "a rule; found less; do it" if isinstance(error, InvalidValue) else "this could not be computed"
        assert made.answer("users", Fraction(1)) == {"refused": told}


def test_a_closed_page_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work goes on until it next says how far it is."""
    done: list[Fraction] = []
    begun, ended = threading.Event(), threading.Event()

    def waits(numbers: Any, setting: Setting) -> UsersForecast:
        begun.set()
        ended.wait(600)
        made = made_up(numbers, setting)
        done.append(setting.privacy.epsilon)
        return made

    monkeypatch.setattr(users, "forecast_users", waits)
    made = explorer()
    with made.ahead():
        assert begun.wait(600)
        made._ended = True
        ended.set()
    assert done == []


def test_an_epsilon_between_is_refused() -> None:
    with pytest.raises(InvalidValue, match="epsilon is one of the slider's"):
        explorer().place({"epsilon": "0.5"})
    with pytest.raises(InvalidValue, match="epsilon"):
        explorer("0")


def test_the_command_reads_users_without_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users with one key each, so that numbers are those of a plan, which has an oracle of its own."""
    pq.write_table(one_key_each(), tmp_path / "clicks.parquet")
    monkeypatch.setattr(users, "EPSILONS", (Fraction(1),))
    answers: list[dict[str, Any]] = []

    def serve(server: Server) -> None:
        assert server.page.decode().count("NOT PRIVATE: this is computed") == 2
        while not answers or answers[-1]["more"]:
            answers.append(server.explorer.answer("users", Fraction(1)))
            time.sleep(0.01)

    monkeypatch.setattr(Server, "serve", serve)
    arguments = [str(tmp_path / "clicks.parquet"), "-k", "k", "--user", "u", "--threads", "1"]
    done = CliRunner().invoke(cli, ["explore", "--no-browser", *arguments])
    assert (done.exit_code, done.output.splitlines()[0]) == (0, PRIVATE)
    planned = CliRunner().invoke(cli, ["plan", "-e", "1", *arguments]).output.splitlines()
    for row in answers[-1]["rows"]:
        assert any(all(cell in line for cell in row) for line in planned), row
    assert f"Next: {answers[-1]['command']}" in planned
    done = CliRunner().invoke(cli, ["explore", "--no-browser", *arguments, "--scheme", "ppswor"])
    assert (done.exit_code, "found none; add --max-keys-per-user" in done.output) == (2, True)


@pytest.mark.parametrize(("size", "dark"), [((1280, 900), False), (PHONE, True)], ids=["wide", "phone"])
def test_the_page_follows_its_slider(
    size: tuple[int, int], dark: bool, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "forecast_users", made_up)
    with computed(explorer()) as made, serving(made, document=users_page(made, "Made up", PRIVATE)) as server:
        host = f"http://127.0.0.1:{server.server_port}/"
        with opened(browser, server.address, server=host, size=size, dark=dark) as tab:
            for position, keys in ((2, "100"), (4, "1,000"), (0, "10")):
                tab.page.eval_on_selector(
                    "#epsilon", "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", str(position)
                )
                tab.page.wait_for_function(
                    "text => document.getElementById('fact-keys').textContent === text", arg=keys
                )
            tab.page.wait_for_function("document.body.dataset.shown === '0.1'")
            assert tab.page.locator("[data-drawn]").count() == 2
            assert "--epsilon 0.1 " in str(tab.page.text_content("#command"))
            assert tab.page.url.endswith("#epsilon=0.1")
            assert tab.page.locator("#others tbody tr").count() == 5
            assert not accessibility_problems(tab)
            assert not scrolls_sideways(tab)

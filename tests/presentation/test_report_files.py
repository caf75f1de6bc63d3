"""Reports as files, in notebooks, and as charts; and the commands that write them."""

from __future__ import annotations

import html
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import dpsample.presentation.pages.front_end as front_end
from dpsample import InvalidValue, Release, read_release
from dpsample.cli import cli
from dpsample.presentation.report import Statement, make_report
from reports import RELEASES, blocks, words
from reports import users as users
from support import refused


@pytest.mark.chance(
    "odds 1e-9: five keys of 1,200 users are reported, and noise beyond 20 scales leaves too few to ask about"
)
def test_what_the_page_tells_to_run_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: Release) -> None:
    monkeypatch.chdir(tmp_path)
    for n, release in enumerate((words(), users)):
        name = f"it's {n}.private.parquet"
        Path("report.html").unlink(missing_ok=True)
        release.write(name)
        done = CliRunner().invoke(cli, ["report", name, "-o", f"page{n}.html"])
        assert done.exit_code == 0, done.output
        page = (tmp_path / f"page{n}.html").read_text()
        code, commands = blocks(page, "again python"), blocks(page, "again command") + blocks(page, "again")
        assert len(code) >= 5
        assert len(commands) >= 6
        for text in code:
            exec(text, {})
        for text in commands:
            for line in text.splitlines():
                words_ = shlex.split(line)
                assert words_[0] == "dpsample"
                done = CliRunner().invoke(cli, words_[1:])
                assert done.exit_code == 0, (line, done.output)


# Files, notebooks, the command.


def test_a_report_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    report = words(30).report(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == report.html
    with refused("exists already"):
        report.write(tmp_path / "a.html")
    report.write(tmp_path / "a.html", force=True)
    with refused("for the output"):
        report.write(tmp_path / "none" / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.parametrize("name", ["a.parquet", "a.html.parquet", "a", "html"])
def test_a_report_is_called_html(name: str, tmp_path: Path) -> None:
    with refused("must end with .html"):
        words(30).report(tmp_path / name, force=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
def test_a_report_never_replaces_its_release(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words(30).write("r.parquet")
    written = Path("r.parquet").read_bytes()
    for name in ("r.parquet", "r.html"):
        if name == "r.html" and link:
            (os.symlink if link == "symbolic" else os.link)("r.parquet", name)
        done = CliRunner().invoke(cli, ["report", "r.parquet", "-o", name, "--force"])
        assert isinstance(done.exception, InvalidValue) or (name == "r.html" and not link)
    assert Path("r.parquet").read_bytes() == written


def test_a_notebook_shows_a_report_in_a_frame_that_cannot_reach_it() -> None:
    report = words(30).report()
    frame = report._repr_html_()
    found = re.fullmatch(r'<iframe title="[^"]*" sandbox="allow-scripts" [^<>]*srcdoc="([^"]*)"></iframe>', frame)
    assert found is not None
    assert html.unescape(found[1]) == report.html
    assert len(repr(report)) < 100


def test_a_notebook_shows_a_release_without_the_chart_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, module, None)
    release = words()
    view = release._repr_html_()
    assert "<script" not in view
    top = sorted(zip(release.table["token"].to_pylist(), release.table["word"].to_pylist(), strict=True))[-10:]
    rows = re.findall(r'<tr><td style="text-align:left">(w\d+)</td>', view)
    assert sorted(rows) == sorted(word for _, word in top)
    assert "epsilon 1, delta 1e-06" in view
    assert "<polyline" in view
    assert re.findall(r"<text [^>]*>([^<]*)</text>", view)[:3] == ["0 %", "50 %", "100 %"]
    assert ">14</text>" in view  # the detection threshold, on the axis of the frequencies
    assert "token" not in view
    answer = release.top(3)._repr_html_()
    assert "'w" not in html.unescape(answer)
    assert answer.count('<td style="text-align:left">w0') == 3
    with refused("charts need Altair") as found:
        release.report()
    assert "pip install 'altair>=" in str(found.value)


def test_a_chart_has_the_top_keys_with_their_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    release = words()
    drawn = release.plot(5, title="Mine", level=0.9).to_dict()
    bars, intervals = drawn["layer"]
    (rows,) = drawn["datasets"].values()
    assert rows == [
        {"key": f"{n}. {key}", "value": e.value, "low": e.low, "high": e.high}
        for n, (key, e) in enumerate(release.top(5, level=0.9), 1)
    ]
    assert (intervals["encoding"]["x"]["field"], intervals["encoding"]["x2"]["field"]) == ("low", "high")
    assert "90 % intervals" in bars["encoding"]["x"]["title"]
    assert len(RELEASES["hostile"]().plot(50).to_json()) < 20_000  # a key of 10,000 characters is cut
    release.write("w.parquet")
    for name, head in (("a.svg", b"<svg"), ("a.png", b"\x89PNG")):
        done = CliRunner().invoke(cli, ["plot", "w.parquet", "-k", "3", "-o", name, "--where", "word < 'w0300'"])
        assert done.exit_code == 0, done.output
        assert Path(name).read_bytes().startswith(head)
    for arguments, rule in ((["-o", "a.pdf"], "must end with .svg"), (["-o", "a.svg"], "exists already")):
        done = CliRunner().invoke(cli, ["plot", "w.parquet", *arguments])
        assert rule in str(done.exception)
    with refused("keys"):
        RELEASES["keys only"]().plot()
    monkeypatch.setitem(sys.modules, "altair", None)
    with refused("charts need Altair"):
        release.plot()
    assert "chart-reported" in release.report(prove=False).html  # the browser draws it


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["missing.parquet", "-o", "page.html"], "there is no "),
        (["words.parquet", "-o", "taken.html"], "exists already"),
        (["words.parquet", "-o", "none/page.html"], "for the output"),
        (["words.parquet", "-o", "page.html", "--top", "0"], "from 1 on"),
        (["words.parquet", "-o", "page.html", "--date", "today"], "YYYY-MM-DD"),
    ],
)
def test_the_command_refuses_what_cannot_be(
    arguments: list[str], rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words(5).write("words.parquet")
    Path("taken.html").write_text("mine")
    done = CliRunner().invoke(cli, ["report", *arguments])
    assert isinstance(done.exception, InvalidValue)
    assert rule in str(done.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.html", "words.parquet"]
    assert Path("taken.html").read_text() == "mine"


def test_the_command_writes_the_page_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words(30).write("words.csv")
    done = CliRunner().invoke(cli, ["report", "words.csv", "-o", "page.html", "--title", "My <words>", "--top", "3"])
    assert done.exit_code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>My &lt;words&gt;</title>" in page
    assert page == make_report(read_release("words.csv"), Statement("My <words>"), name="words.csv", top=3).html
    assert str(tmp_path) not in page


# The chart library's code.


def test_kept_code_is_used_only_if_nobody_else_can_have_written_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Library:
        def __init__(self) -> None:
            self.calls = 0

        def javascript_bundle(self) -> str:
            self.calls += 1
            return "code('</script><!--')"

    library = Library()
    monkeypatch.setattr(front_end, "converter", lambda: library)
    monkeypatch.setenv("DPSAMPLE_CACHE", str(tmp_path / "cache"))

    def asked() -> int:
        front_end.chart_library.cache_clear()
        before = library.calls
        assert front_end.chart_library() == r"code('<\/script><\!--')"
        return library.calls - before

    try:
        assert (asked(), asked()) == (1, 0)
        (kept,) = (tmp_path / "cache").iterdir()
        content = kept.read_bytes()
        kept.write_bytes(content + b"alert(1)")  # damaged
        assert (asked(), asked()) == (1, 0)
        kept.chmod(0o666)
        assert (asked(), asked()) == (1, 0)
        kept.parent.chmod(0o777)
        assert (asked(), asked()) == (1, 1)
        kept.parent.chmod(0o700)
        kept.unlink()
        kept.symlink_to(tmp_path / "elsewhere")
        assert asked() == 1
    finally:
        front_end.chart_library.cache_clear()

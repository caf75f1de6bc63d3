"""Two kinds of intervals of single keys, each under its own name: of the key by itself, and of a top list together."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dpsample.presentation.report import PageSetting, content_of
from dpsample.presentation.report.finding import finding_section
from dpsample.presentation.report.search import search_section
from kinds import KEY, KINDS_WITH_NUMBERS, kinds
from support import run

KINDS = kinds()
BY_ITSELF = {"tokens", "sampled", "bounded"}  # exact laws of one key: also of several independent releases
TOGETHER = {"counted", "known", "known and others"}


@pytest.mark.parametrize("kind", KINDS_WITH_NUMBERS)
def test_each_answer_says_whose_interval_it_has(kind: str) -> None:
    release = KINDS[kind]
    top, each = release.top(3), release.each_key()
    days = kind.removeprefix("several, ")
    together = kind in TOGETHER or (days != kind and days not in BY_ITSELF)
    assert each.intervals == "of this key"
    assert top.intervals == ("of the top 3 together" if together else "of this key")
    for answer in (top, each):
        head, *lines = answer.lines()
        assert f"low {answer.intervals}" in head
        assert f"high {answer.intervals}" in head
        assert any(line.startswith(f"95 % intervals {answer.intervals}") for line in lines)
        assert f"low {answer.intervals}" in answer._repr_html_()
    if kind not in TOGETHER:  # one name, one interval
        for key, one in top:
            assert (one.low, one.high) == (each[key].low, each[key].high)


def test_intervals_of_a_list_are_longer_where_keys_compete() -> None:
    release = KINDS["counted"]
    top, each = release.top(1, ["b09", "b10"]), release.each_key()
    assert top["b10"].high - top["b10"].low >= each["b10"].high - each["b10"].low


def test_the_command_and_the_pages_say_it_too(tmp_path: Path) -> None:
    release = KINDS["counted"]
    release.write(tmp_path / "r.parquet")  # type: ignore[union-attr]
    for command, named in (("top", "of the top 10 together"), ("each-key", "of this key")):
        found = json.loads(run(command, "r.parquet", "--format", "json", cwd=tmp_path).stdout)
        assert found["intervals"] == named
        rows = list(csv.DictReader(io.StringIO(run(command, "r.parquet", "--format", "csv", cwd=tmp_path).stdout)))
        assert {row["intervals"] for row in rows} == {named}
        assert f"low {named}" in run(command, "r.parquet", cwd=tmp_path).stdout
    content = content_of(release, PageSetting(prove=False, top=5))  # type: ignore[arg-type]
    assert "95 % interval of the top 5 together" in str(finding_section(content))
    assert "95 % interval of this key" in str(search_section(content))
    assert "with 95 % intervals of the top 4 together" in release.plot(4).svg  # type: ignore[union-attr]
    assert "with 95 % intervals of this key" in KINDS["tokens"].plot(4).svg  # type: ignore[union-attr]
    assert KEY in release

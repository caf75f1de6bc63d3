"""The commands that ask a release, as a user would run them."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import dpsample
from dpsample import KeepAll, Privacy, Release
from dpsample.cli import cli
from stated_terms import stated_terms
from support import run

pytestmark = pytest.mark.chance("certain: questions are refused before anything is drawn")
WORDS = {"\x1b[31mred": 200, "=1+1": 240, "cat": 400, "cow": 808, "dog": 160, 'q"x': 168}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tokens = [cell / 8 for cell in WORDS.values()]
    table = pa.table({"word": list(WORDS), "token": tokens})
    Release(table, stated_terms(Privacy(1, "1e-6"), KeepAll(), ("word",), 8)).write("words.parquet")
    keys = pa.table({"word": list(WORDS)})
    Release(keys, stated_terms(Privacy(1, "1e-6"), KeepAll(), ("word",), keys_only=True)).write("keys.parquet")
    (tmp_path / "prices.csv").write_text("word,price,kind\ncat,2.5,pet\ncow,1,farm\ndog,3,pet\n")
    return tmp_path


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments])


def test_query_says_what_the_library_says(folder: Path) -> None:
    release = dpsample.read_release("words.parquet")
    shown = ask("query", "words.parquet", "--where", "word LIKE 'c%'")
    assert shown.output.strip() == repr(release.sum("word LIKE 'c%'"))
    found = json.loads(ask("query", "words.parquet", "--of", "keys", "--level", "0.5", "--format", "json").output)
    wanted = release.count_keys(level=0.5)
    assert (found["value"], found["low"], found["level"]) == (wanted.value, wanted.low, 0.5)
    assert found["detection_threshold"] == 14


def test_groups_weights_and_attributes(folder: Path) -> None:
    arguments = ["--attributes", "prices.csv", "--weight", "price", "--by", "kind", "--by", "length(word)"]
    found = ask("query", "words.parquet", *arguments, "--estimator", "mle", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(found.output)))
    assert [(row["kind"], row["length(word)"], row["keys"]) for row in rows] == [("farm", "3", "1"), ("pet", "3", "2")]
    release = dpsample.read_release("words.parquet")
    wanted = release.sum(weight={"cat": 2.5, "dog": 3.0}, estimator="mle")
    assert float(rows[1]["value"]) == pytest.approx(wanted.value)


def test_top_in_each_format(folder: Path) -> None:
    text = ask("top", "words.parquet", "-k", "9").output
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["'cow'", "'cat'", "'=1+1'"]
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "fewer than k" in text
    rows = json.loads(ask("top", "words.parquet", "-k", "2", "--format", "json").output)["rows"]
    assert [(row["word"], row["probability"]) for row in rows] == [("cow", 1), ("cat", 1)]
    table = list(csv.DictReader(io.StringIO(ask("top", "words.parquet", "--format", "csv").output)))
    assert [row["word"] for row in table][:3] == ["cow", "cat", "'=1+1"]  # no spreadsheet runs it


def test_quantiles(folder: Path) -> None:
    rows = json.loads(ask("quantiles", "words.parquet", "0", "0.5", "1", "--format", "json").output)["rows"]
    assert [row["quantile"] for row in rows] == [0, 0.5, 1]
    values = [row["value"] for row in rows]
    assert values == sorted(values)
    assert "frequency 20 or more" in ask("quantiles", "words.parquet", "0.5", "--at-least", "20").output


def test_twins_of_the_library(folder: Path) -> None:
    release = dpsample.read_release("words.parquet")
    assert ask("mean", "words.parquet", "--at-least", "30").output.strip() == repr(release.mean(at_least=30))
    assert ask("query", "words.parquet", "--at-least", "30").output.strip() == repr(release.sum(at_least=30))
    assert ask("rank", "words.parquet", "cat").output.strip() == repr(release.rank("cat"))
    assert "not reported: probably below" in ask("rank", "words.parquet", "unicorn").output
    assert float(ask("compare", "words.parquet", "cow", "cat").output) == pytest.approx(release.compare("cow", "cat"))
    assert ask("each-key", "words.parquet").output.splitlines() == release.each_key().lines(None)
    assert ask("quantiles", "words.parquet").output.splitlines() == release.quantiles().lines(None)
    [row] = csv.DictReader(io.StringIO(ask("query", "words.parquet", "--extrapolate", "--format", "csv").output))
    assert (row["below"], row["at_least"]) == ("extrapolated", str(release.sum().at_least))
    [row] = csv.DictReader(io.StringIO(ask("query", "words.parquet", "--format", "csv").output))
    assert (row["below"], row["below_value"]) == ("unknown", "")


def test_numbers_that_are_not_finite(folder: Path) -> None:
    arguments = ["query", "keys.parquet", "--of", "keys", "--format"]
    found = json.loads(ask(*arguments, "json").output)
    assert (found["value"], found["high"], found["guaranteed"]) == (6, None, False)
    [row] = csv.DictReader(io.StringIO(ask(*arguments, "csv").output))
    assert (row["value"], row["high"], row["standard_error"]) == ("6", "", "")


def test_empty_answers(folder: Path) -> None:
    assert json.loads(ask("top", "words.parquet", "--where", "false", "--format", "json").output)["rows"] == []
    assert ask("query", "words.parquet", "--where", "false", "--by", "word", "--format", "csv").output.count("\n") == 1
    assert ask("query", "words.parquet", "--where", "false").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "missing.parquet"],
        ["query", "prices.csv"],
        ["query", "words.parquet", "--where", "price > 1"],
        ["query", "words.parquet", "--where", "1); COPY (SELECT 1) TO 'stolen.csv'"],
        ["query", "words.parquet", "--where", "(SELECT 1)"],
        ["query", "words.parquet", "--weight", "read_text('prices.csv')"],
        ["query", "words.parquet", "--weight", "word"],
        ["query", "words.parquet", "--by", "random()"],
        ["query", "words.parquet", "--by", "word::INTEGER"],
        ["query", "words.parquet", "--attributes", "missing.csv"],
        ["query", "words.parquet", "--attributes", "words.parquet"],
        ["query", "words.parquet", "--of", "nothing"],
        ["query", "words.parquet", "--estimator", "guess"],
        ["query", "words.parquet", "--level", "1"],
        ["query", "words.parquet", "--level", "nan"],
        ["query", "keys.parquet"],
        ["top", "words.parquet", "-k", "0"],
        ["top", "words.parquet", "-k", "many"],
        ["top", "keys.parquet"],
        ["rank", "words.parquet", "cat", "dog"],
        ["compare", "words.parquet", "cat"],
        ["other", "words.parquet"],
        ["mean", "keys.parquet"],
        ["quantiles", "words.parquet", "2"],
        ["quantiles", "words.parquet", "0.5", "--at-least", "0"],
        ["quantiles", "keys.parquet", "0.5"],
    ],
    ids=" ".join,
)
def test_bad_questions_are_one_clear_line_and_exit_code_2(arguments: list[str], folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = run(*arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.strip()
    assert sorted(folder.iterdir()) == before

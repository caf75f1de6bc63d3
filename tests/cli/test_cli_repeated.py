"""Commands that are repeated: exit codes, what is printed where, JSON errors, the log, and `--if-missing`."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click
import pytest

import dpsample
from dpsample.cli import cli
from dpsample.cli.exits import Exit, exit_of
from dpsample.errors import BudgetSpent, InvalidValue, OutputExists, PrivacyViolation, SystemFailure
from places import ROOT
from support import Completed, run

pytestmark = pytest.mark.chance("certain: files, entries and messages do not depend on the coins")

SETTINGS = """
source = "days/day={part}.csv"
key = "query"
epsilon = 1
delta = 1e-8
ledger = "data.ledger"
output = "{part}.parquet"
with_total = true
"""
DAY = ("--part-vouched", "day=mon")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with settings, two days, and a ledger that allows one release of each."""
    (tmp_path / "days").mkdir()
    for day in ("mon", "tue"):
        (tmp_path / "days" / f"day={day}.csv").write_text("query\n" + "weather\n" * 600 + f"only {day}\n")
    (tmp_path / "release.toml").write_text(SETTINGS)
    dpsample.new_ledger(tmp_path / "data.ledger", "events", (1, "1e-6"), parts="day")
    return tmp_path


def night(folder: Path, *words: str) -> Completed:
    return run("run", "release.toml", *words, cwd=folder)


def statuses(folder: Path) -> list[str]:
    return [entry.status for entry in dpsample.read_ledger(folder / "data.ledger").entries]


# ---- exit codes


def test_the_table_of_the_docs_is_that_of_the_code() -> None:
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    section = page.split("## Exit codes\n")[1].split("\n## ")[0]
    rows = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE)}
    assert rows == {int(code): code.meaning for code in Exit}


def test_each_error_has_its_code() -> None:
    errors = {
        OutputExists("a"): 4,
        BudgetSpent("a"): 5,
        InvalidValue("a"): 2,
        click.UsageError("a"): 2,
        SystemFailure("a"): 1,
        PrivacyViolation("a"): 1,
        OSError(): 1,
    }
    assert {error: int(exit_of(error)) for error in errors} == errors
    assert (Exit.INTERRUPTED, Exit.TERMINATED) == (128 + signal.SIGINT, 128 + signal.SIGTERM)


def test_the_codes_of_a_night(folder: Path) -> None:
    assert night(folder, *DAY, "--grid", "3").returncode == Exit.BAD_INPUT
    assert night(folder, *DAY).returncode == Exit.DONE
    assert night(folder, *DAY).returncode == Exit.EXISTS
    assert night(folder, *DAY, "-o", "other.parquet").returncode == Exit.BUDGET_SPENT
    with mock.patch("dpsample.private.run.check_release_to", side_effect=KeyboardInterrupt):
        assert night(folder, "--part-vouched", "day=tue").returncode == Exit.INTERRUPTED
    assert statuses(folder) == ["confirmed"]


# ---- the command line takes the place of the file


def test_the_part_is_in_source_and_output(folder: Path) -> None:
    assert night(folder, "--part-vouched", "day=tue").returncode == 0
    made = dpsample.read_release(folder / "tue.parquet")
    assert str(made.terms.part).startswith("day = tue")
    assert made.terms.bought.total is not None
    [entry] = dpsample.read_ledger(folder / "data.ledger").entries
    assert "days/day=tue.csv" in str(entry.charge.source)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "none is stated"),
        (("--part-vouched", "day=../mon"), "letters, digits"),
        (("--part-vouched", "day=*"), "letters, digits"),
        (("--part-vouched", "day=..mon"), "begins with a dot"),
        (("--part-vouched", "day="), "letters, digits"),
    ],
)
def test_a_part_leads_nowhere_else(folder: Path, words: tuple[str, ...], reason: str) -> None:
    done = night(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr


def test_options_of_the_command_line_come_first(folder: Path) -> None:
    (folder / "more.csv").write_text("word,n\nweather,900\n")
    words = ("more.csv", "--key", "word", "--frequency", "n", "--zcdp", "0.01", "--delta", "1e-7", "--no-with-total")
    done = night(folder, *words, *DAY, "--ledger", "other.ledger", "--dry-run")
    assert "no ledger" in done.stderr or "other.ledger" in done.stderr
    dpsample.new_ledger(folder / "other.ledger", "events", (1, "1e-6"), parts="day")
    done = night(folder, *words, *DAY, "--ledger", "other.ledger", "--at-least", "50", "-o", "o.parquet")
    assert done.returncode == 0, done.stderr
    made = dpsample.read_release(folder / "o.parquet").terms
    assert made.privacy.definition is not None
    assert (made.keys, made.bought.total, made.sampling.least) == (("word",), None, 50)
    assert statuses(folder) == []


def test_paths_of_the_command_line_are_of_the_folder_where_it_runs(folder: Path) -> None:
    (folder / "here").mkdir()
    (folder / "here" / "x.csv").write_text("query\n" + "weather\n" * 600)
    done = run("run", "../release.toml", "x.csv", *DAY, "-o", "o.parquet", cwd=folder / "here")
    assert done.returncode == 0, done.stderr
    assert (folder / "here" / "o.parquet").exists()
    assert statuses(folder) == ["confirmed"]


# ---- what goes where


def test_results_and_the_rest_go_apart(folder: Path) -> None:
    done = night(folder, *DAY)
    assert done.stdout == ""
    assert done.stderr.startswith("Wrote")
    done = night(folder, "--part-vouched", "day=tue", "--quiet", "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["output"] == "tue.parquet"
    done = night(folder, *DAY, "--if-missing", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = run("query", "mon.parquet", "--json", cwd=folder)
    assert (done.stderr, json.loads(done.stdout)["level"]) == ("", 0.95)
    done = run("compare", "mon.parquet", "weather", "rain", "--json", cwd=folder)
    assert 0 <= json.loads(done.stdout)["probability"] <= 1


def test_every_command_prints_json() -> None:
    def leaves(command: click.Command) -> Iterator[click.Command]:
        if isinstance(command, click.Group):
            for inner in command.commands.values():
                yield from leaves(inner)
        else:
            yield command

    without = [each.name for each in leaves(cli) if not any("--json" in option.opts for option in each.params)]
    assert sorted(map(str, without)) == ["completion", "demo"]


@pytest.mark.parametrize(
    ("words", "option", "code"),
    [
        (("--grid", "x"), "--grid", 2),
        (("--seed", "s"), "--seed", 2),
        (("--nothing", "s"), "--nothing", 2),
        (("-o", "data.csv"), None, 4),
        (("--epsilon", "2"), None, 5),
    ],
)
def test_errors_are_json_too(folder: Path, words: tuple[str, ...], option: str | None, code: int) -> None:
    (folder / "data.csv").touch()
    done = night(folder, *DAY, *words, "--json")
    assert (done.returncode, done.stdout) == (code, "")
    [line] = done.stderr.splitlines()
    error = json.loads(line)["error"]
    assert error["rule"]
    assert error["exit"] == code
    assert "`" not in error["rule"] + error["remedy"]
    if option is not None:
        assert option in error["option"]


def test_the_log_has_nothing_private(folder: Path) -> None:
    logs = []
    for day in ("mon", "tue"):
        assert night(folder, "--part-vouched", f"day={day}", "--log", f"{day}.jsonl").returncode == 0
        logs.append([json.loads(line) for line in (folder / f"{day}.jsonl").read_text().splitlines()])
    for number, events in enumerate(logs, 1):
        assert events[0].pop("time")
        assert events[0] == {"event": "start", "command": "run", "dpsample": dpsample.__version__}
        assert events[-2] == {"event": "entry", "ledger": "data.ledger", "entry": number, "status": "confirmed"}
        assert events[-1] == {"event": "end", "exit": 0, "meaning": Exit.DONE.meaning}
        assert all(event.keys() == {"event", "stage"} for event in events[1:-2])
    assert night(folder, *DAY, "--log", "mon.jsonl").returncode == 4
    last = json.loads((folder / "mon.jsonl").read_text().splitlines()[-1])
    assert last == {"event": "end", "exit": 4, "meaning": Exit.EXISTS.meaning}


# ---- a release that is there already


def test_a_confirmed_release_is_not_made_again(folder: Path) -> None:
    assert night(folder, *DAY, "--if-missing").returncode == 0
    before = (folder / "mon.parquet").read_bytes()
    (folder / "days" / "day=mon.csv").write_text("query\n" + "rain\n" * 900)  # rows are not looked at
    done = night(folder, *DAY, "--if-missing", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entry"] == 1
    assert (folder / "mon.parquet").read_bytes() == before
    assert statuses(folder) == ["confirmed"]
    (folder / "days" / "day=mon.csv").unlink()
    done = night(folder, *DAY, "--if-missing")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "There   mon.parquet: entry 1 of its ledger, confirmed. Nothing was done or spent.\n"


def test_a_release_that_was_not_confirmed_is_confirmed(folder: Path) -> None:
    with mock.patch("dpsample.ledger.ledger.Reservation.confirm", side_effect=KeyboardInterrupt):
        assert night(folder, *DAY).returncode == Exit.INTERRUPTED
    assert statuses(folder) == ["reserved"]
    done = night(folder, *DAY, "--if-missing")
    assert done.returncode == 0
    assert "It is confirmed now; nothing was spent" in done.stderr
    assert "stays spent" not in done.stderr
    [entry] = dpsample.read_ledger(folder / "data.ledger").entries
    assert (entry.status, entry.sha256 is not None) == ("confirmed", True)
    assert run("ledger", "verify", "data.ledger", "mon.parquet", cwd=folder).returncode == 0


def test_a_run_that_was_lost_stays_spent(folder: Path) -> None:
    with mock.patch("dpsample.private.drawing.write_release", side_effect=SystemFailure("the disk is full")):
        assert night(folder, *DAY, "--epsilon", "0.5").returncode == Exit.FAILED
    done = night(folder, *DAY, "--epsilon", "0.5", "--if-missing")
    assert done.returncode == 0
    assert "Entry 1 of data.ledger is reserved and was not confirmed" in done.stderr
    assert statuses(folder) == ["reserved", "confirmed"]


@pytest.mark.parametrize(
    ("words", "difference"),
    [
        (("--epsilon", "0.5"), "privacy"),
        (("--keys-only",), "choice of keys only"),
        (("--no-with-total",), "total"),
        (("--at-least", "20"), "scheme"),
        (("--part-vouched", "day=tue", "-o", "mon.parquet"), "part"),
    ],
)
def test_another_release_is_not_taken_for_it(folder: Path, words: tuple[str, ...], difference: str) -> None:
    assert night(folder, *DAY).returncode == 0
    done = night(folder, *DAY, "--if-missing", *words)
    assert done.returncode == Exit.EXISTS
    assert f"another {difference}" in done.stderr


def test_a_file_that_the_ledger_does_not_have_is_not_taken_for_it(folder: Path) -> None:
    with_ledger = ["--ledger", "data.ledger", "--part-vouched", "day=mon", "--if-missing"]
    words = ["release", "days/day=mon.csv", "-k", "query", "-e", "1", "-d", "1e-8", "--with-total"]
    assert run(*words, "-o", "mon.parquet", cwd=folder).returncode == 0
    done = run(*words, *with_ledger, "-o", "mon.parquet", cwd=folder)
    assert done.returncode == Exit.EXISTS
    assert "the ledger does not have its entry" in done.stderr


@pytest.mark.parametrize("words", [(), ("--ledger", "data.ledger", "--force")])
def test_it_needs_a_ledger_and_replaces_nothing(folder: Path, words: tuple[str, ...]) -> None:
    common = ["release", "days/day=mon.csv", "-k", "query", "-e", "1", "-d", "1e-8", "-o", "o.parquet"]
    done = run(*common, "--if-missing", *words, cwd=folder)
    assert done.returncode == 2
    assert "--if-missing" in done.stderr

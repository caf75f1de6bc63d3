"""dpsample run: a release whose options are in a file is the release of the same command."""

import hashlib
import json
import shlex
import sys
from pathlib import Path

import pytest

import dpsample
import support
from dpsample.cli.release import release

SETTINGS = """
source = ["events.csv"]
key = "query"
epsilon = 0.1
delta = 1e-8
ledger = "data.ledger"
output = "queries.private.parquet"
at-least = 200
with-total = true
header = true
"""
checked = pytest.mark.chance("certain: nothing is drawn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a settings file, beside the one where commands run."""
    job = tmp_path / "a job"
    job.mkdir()
    (job / "events.csv").write_text("query,day\n" + "weather,mon\n" * 600 + "secret,tue\n")
    (job / "release.toml").write_text(SETTINGS)
    dpsample.new_ledger(job / "data.ledger", "events", (1, "1e-6"), parts="day")
    (tmp_path / "elsewhere").mkdir()
    return job


def run(folder: Path, *arguments: str) -> support.Completed:
    return support.run("run", "../a job/release.toml", *arguments, cwd=folder.parent / "elsewhere")


@pytest.mark.chance("certain: terms, and lines of a ledger, do not depend on the coins")
def test_it_is_the_release_of_the_same_command(folder: Path) -> None:
    done = run(folder)
    assert (done.returncode, done.stdout) == (0, "")
    made = dpsample.read_release(folder / "queries.private.parquet")
    words = ["events.csv", "--key", "query", "-e", "0.1", "-d", "1e-8", "--at-least", "200", "--with-total"]
    other = support.run("release", *words, "--ledger", "data.ledger", "-o", "other.parquet", cwd=folder)
    assert other.returncode == 0, other.stderr
    by_command = dpsample.read_release(folder / "other.parquet")
    assert made.privacy.epsilon * 10 == 1  # 0.1 is one tenth, not the float
    for name in ("privacy", "unit", "keys", "sampling", "per_key", "grid"):
        assert getattr(made.terms, name) == getattr(by_command.terms, name)
    sha256 = hashlib.sha256((folder / "release.toml").read_bytes()).hexdigest()
    lines = [json.loads(line) for line in (folder / "data.ledger").read_text().splitlines()]
    reserved = [line for line in lines if line.get("kind") == "reserve"]
    assert [line.get("settings") for line in reserved] == [sha256, None]
    assert reserved[0].keys() - reserved[1].keys() == {"settings"}
    assert reserved[0]["version"] == reserved[1]["version"]
    assert sha256 not in json.dumps(made.metadata) + done.stderr
    assert sha256.encode() not in (folder / "queries.private.parquet").read_bytes()
    assert f"settings {sha256}" in str(dpsample.read_ledger(folder / "data.ledger").entries[0].charge)
    again = run(folder)
    assert again.returncode == 4  # the output exists
    assert "--force" in again.stderr


@pytest.mark.chance("certain: what is written where does not depend on the coins")
def test_a_part_and_an_output_of_their_own(folder: Path) -> None:
    done = run(folder, "--part", "day=tue", "-o", "tuesday.parquet")
    assert done.returncode == 0, done.stderr
    made = dpsample.read_release(folder.parent / "elsewhere" / "tuesday.parquet")
    assert str(made.terms.part) == str(dpsample.read_ledger(folder / "data.ledger").entries[0].charge.part)
    assert not (folder / "queries.private.parquet").exists()


@checked
def test_a_dry_run_prints_the_command_and_changes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = run(folder, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    said, command = done.stdout.splitlines()
    assert said == "Checked ../a job/release.toml: nothing was read or spent."
    where, command = command.split(" && ")
    assert shlex.split(where) == ["cd", "../a job"]
    words = shlex.split(command)
    assert words[:2] == ["dpsample", "release"]
    parsed = release.make_context("release", words[2:]).params
    expected = {"source": ("events.csv",), "key": ("query",), "epsilon": "0.1", "delta": "1e-8", "at_least": 200}
    assert {name: parsed[name] for name in expected} == expected
    assert (parsed["with_total"], parsed["header"], parsed["force"]) == (True, True, False)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("epsilom = 1", "write epsilon"),
        ("max_keys_per_usr = 5", "write max-keys-per-user"),
        ("at_least = 5", "states at-least twice"),
        ("wealth = 1", "see dpsample release --help"),
        ("[release]", "not an option of dpsample release"),
        ("force = 1", "true or false"),
        ("grid = true", "a text or a number"),
        ("tau = [1]", "a text or a number"),
        ("null = [1]", "a list of texts"),
        ("null = []", "a list of texts"),
        ("cap = 2026-11-14", "a text or a number"),
        ('cap = "secret"', "not a valid integer"),
        ('scheme = "secrets"', "not one of"),
        ("tau = 0.1", "--tau cannot be combined with --scheme all"),
        ('table = "t"', "--table and --query can only be used with a database"),
        ('user = "nobody"\nmax-keys-per-user = 3', "use another ledger"),
        ("epsilon = 1", "TOML"),
        ("= secret", "TOML, in UTF-8: an error at line"),
        ("\udcff", "TOML"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "bytes",
)
@pytest.mark.parametrize("dry", [True, False])
@checked
def test_bad_settings_are_refused_before_any_cost(folder: Path, line: str, reason: str, dry: bool) -> None:
    text = SETTINGS + line + "\n"
    (folder / "release.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    before = (folder / "data.ledger").read_bytes()
    done = run(folder, *(["--dry-run"] if dry else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "data.ledger").read_bytes() == before
    assert not (folder / "queries.private.parquet").exists()


@checked
def test_what_is_missing_is_named(folder: Path) -> None:
    (folder / "release.toml").write_text(SETTINGS.replace('key = "query"', ""))
    assert "--key" in run(folder, "--dry-run").stderr
    (folder / "release.toml").unlink()
    assert "no settings file at" in run(folder).stderr


@checked
def test_a_password_is_not_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = '"postgresql://me:hidden@localhost/shop"\ntable = "orders"'
    (folder / "release.toml").write_text(SETTINGS.replace('["events.csv"]', source).replace("header = true", ""))
    monkeypatch.setattr(sys.modules["dpsample.cli.release"], "check_release_to", lambda *arguments: None)
    done = run(folder, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "postgresql://" in done.stdout
    assert "hidden" not in done.stdout

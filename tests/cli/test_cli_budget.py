"""Users, sizes, totals and ledgers on the command line."""

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dpsample
from dpsample.cli import cli
from dpsample.cli.ledger import ledger_commands
from dpsample.files.metadata import release_sha256
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget
from dpsample.release.proof import Proof
from places import ROOT
from stated_terms import stated_terms
from support import run

pytestmark = pytest.mark.chance("odds 1e-11: one of the few keys that a single user keeps shows, at delta 1e-12")
RELEASE = ["release", "clicks.parquet", "-k", "page", "-e", "1", "-d", "1e-12"]
USERS = ["--user", "who", "--max-keys-per-user", "3"]


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """4,000 users, each twice on each of three pages; one user on 5,000 pages of their own, which may not show."""
    many = "SELECT 'user ' || (i % 4000) AS who, 'page ' || (i % 3) AS page FROM range(24000) t(i)"
    one = "SELECT 'user secret', 'page secret ' || i FROM range(5000) t(i)"
    duckdb.sql(f"COPY ({many} UNION ALL {one}) TO '{tmp_path / 'clicks.parquet'}'")
    return tmp_path


def test_a_release_that_protects_users(clicks: Path) -> None:
    done = run(
        "ledger", "new", "clicks.ledger", "--dataset", "clicks", "-e", "2", "-d", "1e-6", "--unit", "user", cwd=clicks
    )
    assert (done.returncode, done.stderr) == (0, "")
    arguments = [*RELEASE, *USERS, "--with-total", "--ledger", "clicks.ledger"]
    done = run(*arguments, "-o", "a.parquet", cwd=clicks)
    assert (done.returncode, done.stdout) == (0, "")
    assert "for each user (all rows of one user identifier), who counts in up to 3 keys, once in each" in done.stderr
    assert "Total " in done.stderr
    assert "secret" not in done.stderr
    made = dpsample.read_release(clicks / "a.parquet")
    assert made.table["page"].to_pylist() == ["page 0", "page 1", "page 2"]
    assert "for each user with up to 3 keys" in run("info", "a.parquet", cwd=clicks).stdout
    verified = run("verify", "a.parquet", cwd=clicks)
    assert "holds for up to 3 keys together" in verified.stdout
    assert "total: epsilon 0.025, delta 0\n" in verified.stdout
    assert "total: discrete Laplace noise of scale 120" in verified.stdout
    found = json.loads(run("verify", "a.parquet", "--format", "json", cwd=clicks).stdout)
    assert (found["privacy"], found["unit"], found["complete"]) == ({"epsilon": "1", "delta": "1e-12"}, "user", True)
    # once more, as JSON and of a chosen size, and then the budget is spent
    sized = [*arguments, "--scheme", "ppswor", "--sample-size", "50000", "--format", "json"]
    told = json.loads(run(*sized, "-o", "b.parquet", cwd=clicks).stdout)
    assert (told["unit"], told["max_keys_per_user"], told["size"]["wanted"]) == ("user", 3, 50_000)
    done = run(*arguments, "-o", "c.parquet", cwd=clicks)
    assert done.returncode == 5
    assert "may spend epsilon 2, delta 1e-06 together; epsilon 2" in done.stderr
    assert not (clicks / "c.parquet").exists()
    shown = run("ledger", "show", "clicks.ledger", cwd=clicks).stdout
    assert "a.parquet" in shown
    assert "spent: epsilon 2, delta 2e-12 (basic composition); left: epsilon 0" in shown
    done = run("ledger", "verify", "clicks.ledger", "a.parquet", "b.parquet", cwd=clicks)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"  a.parquet is entry 1: epsilon 1, delta 1e-12  a.parquet  \S+  confirmed", done.stdout)
    assert re.search(r"  b.parquet is entry 2: epsilon 1, delta 1e-12  b.parquet  \S+  confirmed", done.stdout)
    # without its last lines, the ledger is still a chain; the release and a noted head tell
    head = re.findall("head ([0-9a-f]{64})", done.stdout)[0]
    lines = (clicks / "clicks.ledger").read_bytes().splitlines(keepends=True)
    (clicks / "cut.ledger").write_bytes(b"".join(lines[:-2]))
    assert run("ledger", "verify", "cut.ledger", "a.parquet", cwd=clicks).returncode == 0
    assert run("ledger", "verify", "cut.ledger", "b.parquet", cwd=clicks).returncode == 2
    assert run("ledger", "verify", "cut.ledger", "--head", head, cwd=clicks).returncode == 2
    assert run("ledger", "verify", "clicks.ledger", "--head", head, cwd=clicks).returncode == 0


def test_a_page_to_sign_names_what_is_signed(tmp_path: Path) -> None:
    """In words, with the hash of the file, the version and the date, which may change while the command runs."""
    (tmp_path / "words.csv").write_text("word,n\ncommon,9000\n")
    days = {datetime.now(UTC).date().isoformat()}
    for name, hashed in (("r.parquet", "r.parquet"), ("r.csv", "r.csv.json")):
        release = ["release", "words.csv", "-k", "word", "--frequency", "n", "-e", "1", "-d", "1e-9"]
        assert run(*release, "-o", name, cwd=tmp_path).returncode == 0
        sha256 = hashlib.sha256((tmp_path / hashed).read_bytes()).hexdigest()
        page = run("verify", name, cwd=tmp_path).stdout
        found = json.loads(run("verify", name, "--format", "json", cwd=tmp_path).stdout)
        days.add(datetime.now(UTC).date().isoformat())
        assert page.startswith("PROVED: (1, 1e-09) for each element, every frequency.")
        assert f"\nRelease:   {name}: 1 keys; key: word\nSHA-256:   {sha256} of {hashed}\n" in page
        assert any(f"Verified:  {day}, by dpsample {dpsample.__version__}" in page for day in days)
        assert f"Made by:   dpsample {dpsample.__version__}" in page
        assert "epsilon 1, delta 1e-09 holds" in page
        assert (found["sha256"], found["sha256_of"], found["key_columns"]) == (sha256, hashed, ["word"])
        assert found["verified"]["dpsample"] == found["dpsample"] == dpsample.__version__
        assert found["verified"]["date"] in days
    plan = ["certify", "-e", "1", "-d", "1e-9", "--max-keys-per-user", "3", "--scheme", "ppswor", "--tau", "0.5"]
    certified = run(*plan, "--dataset", "words of 2026", cwd=tmp_path).stdout
    days.add(datetime.now(UTC).date().isoformat())
    assert certified.startswith("PROVED: (1, 1e-09) for each user, every frequency.")
    assert "\nPlan for:  words of 2026\n" in certified
    assert any(f"Certified: {day}, by dpsample {dpsample.__version__}" in certified for day in days)
    assert "a key of frequency i is sampled with probability 1 - exp(-0.5 i)" in certified
    for shown in (page, certified):
        assert not re.search(r"\w+\(\w*=|'", shown)  # such as Privacy(epsilon='1', or KeepAll(
        assert "KeepAll" not in shown


def test_the_unit_of_aggregated_data_is_not_a_row(tmp_path: Path) -> None:
    """One row more, of 5,000 elements, is reported with certainty: no page may call it one unit of privacy."""
    for name, rows in (("d", "common,9000\n"), ("more", "common,9000\nalice,5000\n")):
        (tmp_path / f"{name}.csv").write_text("word,n\n" + rows)
    release = ["-k", "word", "--frequency", "n", "-e", "0.1", "-d", "1e-9", "-o"]
    printed = [run("release", f"{name}.csv", *release, f"{name}.parquet", cwd=tmp_path) for name in ("d", "more")]
    keys = [dpsample.read_release(tmp_path / f"{name}.parquet").table["word"].to_pylist() for name in ("d", "more")]
    assert keys == [["common"], ["alice", "common"]]  # both are far above the detection threshold
    verified = run("verify", "more.parquet", cwd=tmp_path)
    for done in (*printed, verified, run("certify", "-e", "1", "-d", "1e-9", cwd=tmp_path)):
        printed_text = done.stdout + done.stderr
        assert "each element: one counted occurrence of a key" in printed_text
        assert "one unit of frequency, not one row" in printed_text
        assert "one row of the data" not in printed_text


def test_an_incomplete_proof_can_be_required_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dpsample.release({"a": 500}, privacy=dpsample.Privacy(1, 1e-9)).write(tmp_path / "r.parquet")
    for complete, flags, code in (
        (True, ["--require-complete"], 0),
        (False, [], 0),
        (False, ["--require-complete"], 3),
    ):
        monkeypatch.setattr(Proof, "complete", complete)
        done = CliRunner().invoke(cli, ["verify", str(tmp_path / "r.parquet"), *flags])
        assert done.exit_code == code
        assert "Reviewed:" in done.stdout
        assert ("does not cover every frequency" in done.stderr) == (code == 3)


def test_a_ledger_says_what_became_of_each_release(tmp_path: Path) -> None:
    path = tmp_path / "l"
    dpsample.new_ledger(path, "words", dpsample.Privacy(2, 1e-6))
    charge = Charge(dpsample.Privacy("0.5", "1e-9"), "element", "lost.parquet", "words.csv", ("word",))
    reserve_budget(path, charge)
    reserve_budget(path, replace(charge, release="refused.parquet")).cancel()
    with reserve_budget(path, replace(charge, release="r.parquet")) as reservation:
        terms = replace(stated_terms(charge.privacy, dpsample.KeepAll(), ("word",)), ledger=reservation.hash)
        table = pa.table({"word": ["the"], "token": [40.0]})
        dpsample.Release(table, terms).write(tmp_path / "r.parquet")
        reservation.confirm(release_sha256(tmp_path / "r.parquet")[1])
    shown = run("ledger", "show", "l", cwd=tmp_path).stdout
    assert re.findall(r"(\w+).parquet  \S+  (.*)", shown) == [
        ("lost", "reserved, not confirmed"),
        ("refused", "cancelled, not spent"),
        ("r", "confirmed"),
    ]
    assert shown.count("of words.csv; key: word") == 3
    assert "spent: epsilon 1, delta 2e-09" in shown
    done = run("ledger", "verify", "l", "r.parquet", cwd=tmp_path)
    assert re.search(r"r.parquet is entry 3: .* confirmed; the very file that was confirmed\n", done.stdout)
    assert re.search(r"no release was named for entry 1: .* lost.parquet .* reserved, not confirmed", done.stdout)
    found = json.loads(run("ledger", "verify", "l", "r.parquet", "--format", "json", cwd=tmp_path).stdout)
    assert [(match["file"], match["entry"], match["status"]) for match in found["matched"]] == [
        ("r.parquet", 3, "confirmed")
    ]
    assert [(entry["entry"], entry["status"]) for entry in found["not_named"]] == [(1, "reserved"), (2, "cancelled")]
    changed = dpsample.read_release(tmp_path / "r.parquet")
    dpsample.Release(changed.table.slice(0, 0), changed.terms).write(tmp_path / "r.parquet", force=True)
    done = run("ledger", "verify", "l", "r.parquet", cwd=tmp_path)
    assert done.returncode == 2
    assert "has another SHA-256 than the file" in done.stderr


def test_a_sample_of_users(clicks: Path) -> None:
    done = run(
        "sample",
        "clicks.parquet",
        "-k",
        "page",
        *USERS,
        "--scheme",
        "ppswor",
        "--tau",
        "1",
        "-o",
        "s.parquet",
        cwd=clicks,
    )
    assert done.returncode == 0
    run("ledger", "new", "l", "--dataset", "clicks", "-e", "1", "-d", "1e-6", "--unit", "user", cwd=clicks)
    done = run("sanitize", "s.parquet", "-e", "1", "-d", "1e-12", "--ledger", "l", "-o", "r.parquet", cwd=clicks)
    assert (done.returncode, done.stdout) == (0, "")
    assert dpsample.read_release(clicks / "r.parquet").unit == "user"
    assert [e.release for e in dpsample.read_ledger(clicks / "l").entries] == ["r.parquet"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*RELEASE, "--user", "who", "--scheme", "ppswor", "--tau", "1", "-o", "o.parquet"],
        [*RELEASE, "--max-keys-per-user", "3", "-o", "o.parquet"],
        [*RELEASE, "--user", "nobody", "--max-keys-per-user", "3", "-o", "o.parquet"],
        [*RELEASE, "--user", "page", "--max-keys-per-user", "3", "-o", "o.parquet"],
        [*RELEASE, "--user", "who", "--max-keys-per-user", "0", "-o", "o.parquet"],
        [*RELEASE, "--sample-size", "100", "-o", "o.parquet"],
        [*RELEASE, "--scheme", "ppswor", "--tau", "1", "--sample-size", "100", "-o", "o.parquet"],
        [*RELEASE, "--scheme", "ppswor", "--power", "2", "--sample-size", "100", "-o", "o.parquet"],
        [*RELEASE, "--scheme", "ppswor", "--sample-size", "100", "--size-share", "1", "-o", "o.parquet"],
        [*RELEASE, "--with-total", "--total-share", "0", "-o", "o.parquet"],
        [*RELEASE, "--ledger", "none.ledger", "-o", "o.parquet"],
        [*RELEASE, "--ledger", "clicks.parquet", "-o", "o.parquet"],
        ["ledger", "new", "x.ledger", "--dataset", "x", "-e", "1", "-d", "0"],
        ["ledger", "new", "x.ledger", "--dataset", "x", "-e", "1", "-d", "1e-6", "--each-epsilon", "0.1"],
        ["ledger", "show", "clicks.parquet"],
        ["certify", "-e", "1", "-d", "1e-6", "--max-keys-per-user", "-3"],
    ],
    ids=lambda a: " ".join(a[-6:]),
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(arguments: list[str], clicks: Path) -> None:
    before = {path: path.read_bytes() for path in clicks.iterdir()}
    done = run(*arguments, cwd=clicks)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert done.stderr.strip()
    assert {path: path.read_bytes() for path in clicks.iterdir()} == before


def test_certify_is_one_page(tmp_path: Path) -> None:
    done = run("certify", "-e", "1", "-d", "1e-6", "--max-keys-per-user", "50", "--with-total", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) < 40
    assert "Reviewed:" in done.stdout
    sized = ["--scheme", "ppswor", "--sample-size", "1000"]
    done = run("certify", "-e", "1", "-d", "1e-6", *sized, cwd=tmp_path)
    assert "sample size: epsilon 0.05, delta 0" in done.stdout
    assert "`dpsample verify` then proves its scheme" in done.stdout


def test_every_ledger_command_has_help_with_an_example_and_is_documented() -> None:
    documented = (ROOT / "docs" / "command-line.md").read_text()
    for name, command in ledger_commands.commands.items():
        done = CliRunner().invoke(cli, ["ledger", name, "--help"])
        assert done.exit_code == 0
        assert f"dpsample ledger {name}" in done.output
        assert f"dpsample ledger {name}" in documented
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_a_failure_after_spending_says_so(clicks: Path) -> None:
    """The disk is full once the release is drawn; here, the function that writes says so."""
    run("ledger", "new", "l", "--dataset", "clicks", "-e", "1", "-d", "1e-6", cwd=clicks)
    full = dpsample.SystemFailure("the disk is full", "free some")
    with mock.patch("dpsample.private.drawing.write_release", side_effect=full):
        done = run(*RELEASE, "--ledger", "l", "-o", "o.parquet", cwd=clicks)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("free some; its privacy is spent: it stays in the ledger")
    assert len(dpsample.read_ledger(clicks / "l").entries) == 1


@pytest.mark.parametrize("dies_in", ["drawing.write_release", "run.drawn_release"])
def test_what_a_killed_run_had_reserved_stays_spent(clicks: Path, dies_in: str) -> None:
    """The cost is entered before anything is drawn: a run that dies at any moment after that has paid."""
    run("ledger", "new", "l", "--dataset", "clicks", "-e", "1", "-d", "1e-6", cwd=clicks)
    program = (
        "import os\n"
        "import dpsample.private.run, dpsample.private.drawing, dpsample.cli\n"
        f"dpsample.private.{dies_in} = lambda *a, **k: os._exit(9)\n"
        "dpsample.cli.main()\n"
    )
    command = [sys.executable, "-c", program, *RELEASE, "--ledger", "l", "-o", "o.parquet"]
    assert subprocess.run(command, cwd=clicks, check=False).returncode == 9
    [entry] = dpsample.read_ledger(clicks / "l").charged
    assert (entry.status, entry.release) == ("reserved", "o.parquet")
    assert not (clicks / "o.parquet").exists()

"""Users, sizes, totals and ledgers on the command line, started as a user would."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

import dpsample
from dpsample.cli import cli, main
from dpsample.cli.ledger import ledger_commands

pytestmark = pytest.mark.chance("odds 1e-11: one of the few keys that a single user keeps shows, at delta 1e-12")
PROGRAM = [sys.executable, "-m", "dpsample"]
RELEASE = ["release", "clicks.parquet", "-k", "page", "-e", "1", "-d", "1e-12"]
USERS = ["--user", "who", "--max-keys-per-user", "3"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ}
    )


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
    assert (done.returncode, done.stderr) == (0, "")
    assert "for each user (all rows of one person), who counts in up to 3 keys, once in each" in done.stdout
    assert "Total " in done.stdout
    assert "secret" not in done.stdout
    made = dpsample.read_release(clicks / "a.parquet")
    assert made.table["page"].to_pylist() == ["page 0", "page 1", "page 2"]
    assert "for each user with up to 3 keys" in run("info", "a.parquet", cwd=clicks).stdout
    verified = run("verify", "a.parquet", cwd=clicks)
    assert "holds for up to 3 keys together" in verified.stdout
    assert "total: epsilon 0.05, delta 0, by discrete Laplace noise of scale 60" in verified.stdout
    found = json.loads(run("verify", "a.parquet", "--format", "json", cwd=clicks).stdout)
    assert (found["privacy"], found["unit"], found["complete"]) == ({"epsilon": "1", "delta": "1e-12"}, "user", True)
    # once more, as JSON and of a chosen size, and then the budget is spent
    sized = [*arguments, "--scheme", "ppswor", "--sample-size", "50000", "--format", "json"]
    told = json.loads(run(*sized, "-o", "b.parquet", cwd=clicks).stdout)
    assert (told["unit"], told["max_keys_per_user"], told["size"]["wanted"]) == ("user", 3, 50_000)
    done = run(*arguments, "-o", "c.parquet", cwd=clicks)
    assert done.returncode == 2
    assert "may spend epsilon 2, delta 1e-06 together; found epsilon 2" in done.stderr
    assert not (clicks / "c.parquet").exists()
    shown = run("ledger", "show", "clicks.ledger", cwd=clicks).stdout
    assert "a.parquet" in shown
    assert "spent: epsilon 2, delta 2e-12 (basic composition); left: epsilon 0" in shown
    done = run("ledger", "verify", "clicks.ledger", "a.parquet", "b.parquet", cwd=clicks)
    assert (done.returncode, done.stderr) == (0, "")
    # without its last line, the ledger is still a chain; the release and a noted head tell
    head = re.findall("head ([0-9a-f]{64})", done.stdout)[0]
    lines = (clicks / "clicks.ledger").read_bytes().splitlines(keepends=True)
    (clicks / "cut.ledger").write_bytes(b"".join(lines[:-1]))
    assert run("ledger", "verify", "cut.ledger", "a.parquet", cwd=clicks).returncode == 0
    assert run("ledger", "verify", "cut.ledger", "b.parquet", cwd=clicks).returncode == 2
    assert run("ledger", "verify", "cut.ledger", "--head", head, cwd=clicks).returncode == 2
    assert run("ledger", "verify", "clicks.ledger", "--head", head, cwd=clicks).returncode == 0


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
    assert (done.returncode, done.stderr) == (0, "")
    assert dpsample.read_release(clicks / "r.parquet").unit == "user"
    assert [e.release for e in dpsample.read_ledger(clicks / "l").entries] == ["r.parquet"]


@pytest.mark.parametrize(
    "arguments",
    [
        [*RELEASE, "--user", "who", "-o", "o.parquet"],
        [*RELEASE, "--max-keys-per-user", "3", "-o", "o.parquet"],
        [*RELEASE, *USERS, "--max-elements-per-key", "5", "-o", "o.parquet"],
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
        ["ledger", "new", "clicks.parquet", "--dataset", "x", "-e", "1", "-d", "1e-6"],
        ["ledger", "show", "clicks.parquet"],
        ["certify", "-e", "1", "-d", "1e-6", "--max-keys-per-user", "-3"],
    ],
    ids=lambda a: " ".join(a[-6:]),
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(
    arguments: list[str], clicks: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in clicks.iterdir()}
    monkeypatch.chdir(clicks)
    monkeypatch.setattr(sys, "argv", ["dpsample", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the handlers are the test runner's
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert "secret" not in shown.err
    assert shown.err.strip()
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
    documented = (Path(__file__).parent.parent / "docs" / "command-line.md").read_text()
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
    program = (
        "import dpsample.private.run, dpsample.cli\n"
        "from dpsample import SystemFailure\n"
        "def full(*a, **k): raise SystemFailure('the disk must have room', 'none left', 'free some')\n"
        "dpsample.private.run.write_release = full\n"
        "dpsample.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *RELEASE, "--ledger", "l", "-o", "o.parquet"],
        cwd=clicks,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("free some; its privacy is spent: it stays in the ledger")
    assert len(dpsample.read_ledger(clicks / "l").entries) == 1

"""The command line: exit codes, help, one-line errors, nothing private anywhere."""

import contextlib
import json
import random
import re
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsample
from dpsample.cli import cli
from dpsample.cli.commands import HOMES
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.engine.duckdb.temporary import TemporaryFolder
from places import ROOT
from support import PROGRAM, run, start

pytestmark = pytest.mark.chance(
    "odds 2e-10: one of 200 keys of one element shows, at delta 1e-12; keys of 1,000 elements are always reported"
)
PRIVACY = ["--epsilon", "1", "--delta", "1e-12"]  # odds that one of 200 single elements shows: 2e-10


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """1,000 elements of each of five keys, and 200 keys with a single element, which may not show."""
    common = "SELECT 'common-' || (i % 5) AS query FROM range(5000) t(i)"
    rare = "SELECT 'rare-secret-' || i AS query FROM range(200) t(i)"
    duckdb.sql(f"COPY ({common} UNION ALL {rare}) TO '{tmp_path / 'events.parquet'}'")
    return tmp_path


def test_release_info_verify(events: Path) -> None:
    done = start("release", "events.parquet", "--key", "query", *PRIVACY, "-o", "out.parquet", cwd=events)
    assert (done.returncode, done.stdout) == (0, "")
    assert "5 keys" in done.stderr
    made = dpsample.read_release(events / "out.parquet")
    assert made.table["query"].to_pylist() == [f"common-{i}" for i in range(5)]
    assert "Release: 5 keys" in run("info", "out.parquet", cwd=events).stdout
    verified = run("verify", "out.parquet", "--format", "json", cwd=events)
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["complete"] is True


def test_what_is_said_of_an_output_is_true(events: Path) -> None:
    """Also if the summary cannot be printed, once the release exists."""
    arguments = ["release", "events.parquet", "--key", "query", *PRIVACY, "-o"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments, "out.parquet", "--json"],
            cwd=events,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(dpsample.read_release(events / "out.parquet")) == 5
    [line] = done.stderr.splitlines()
    assert "an output was written: " in line
    assert "out.parquet'" in line
    assert "no output was written" not in line


def test_a_warning_is_one_plain_line(events: Path) -> None:
    done = start("certify", "--epsilon", "1", "--delta", "0.5", cwd=events)
    assert done.returncode == 0
    assert done.stderr.startswith("dpsample: warning: delta = 0.5 is above 0.01")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1"), ("1", "1e-300"), ("1e-300", "1e-6")])
def test_what_is_no_privacy_or_no_scheme_is_refused(events: Path, epsilon: str, delta: str) -> None:
    for command in (["certify"], ["release", "events.parquet", "-k", "query", "-o", "out.parquet"]):
        done = run(*command, "--epsilon", epsilon, "--delta", delta, cwd=events)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.match(r"dpsample: (delta|epsilon) must be ", done.stderr)
        assert done.stderr.count("\n") == 1


@pytest.mark.chance("odds 1.1e-8: one of five keys of 1,000 elements is not sampled, exp(-20) each")
def test_sample_then_sanitize(events: Path) -> None:
    scheme = ["--scheme", "ppswor", "--tau", "0.02"]  # a key of 1,000 elements is missed with odds of 2e-9
    done = run("sample", "events.parquet", "-k", "query", *scheme, "-o", "sample.parquet", cwd=events)
    assert (done.returncode, done.stdout) == (0, "")
    assert "NOT private" in done.stderr
    assert "NOT private" in run("info", "sample.parquet", cwd=events).stdout
    done = run("sanitize", "sample.parquet", *PRIVACY, "-o", "out.csv", "--format", "json", cwd=events)
    assert done.returncode == 0
    assert json.loads(done.stdout)["sampling"] == {"scheme": "ppswor", "tau": "0.02", "power": "1"}
    assert len(dpsample.read_release(events / "out.csv")) == 5
    # a sample is not a release, and the other way round
    assert run("verify", "sample.parquet", cwd=events).returncode == 2
    assert run("sanitize", "out.csv", *PRIVACY, "-o", "again.parquet", cwd=events).returncode == 2


def test_a_sample_of_another_system(tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT * FROM (VALUES ('a', 900), ('b', 800)) t(k, n)) TO '{tmp_path / 'theirs.parquet'}'")
    stated = ["-k", "k", "--frequency", "n", "--scheme", "priority", "--tau", "1e-2"]
    done = run("sanitize", "theirs.parquet", *stated, *PRIVACY, "-o", "ours.parquet", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert dpsample.read_release(tmp_path / "ours.parquet").table["k"].to_pylist() == ["a", "b"]
    duckdb.sql(f"COPY (SELECT * FROM (VALUES ('a', 9), ('a', 8)) t(k, n)) TO '{tmp_path / 'twice.parquet'}'")
    done = run("sanitize", "twice.parquet", *stated, *PRIVACY, "-o", "no.parquet", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "no.parquet").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["release", "missing.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet"],
        ["release", "events.parquet", "-k", "nothing", *PRIVACY, "-o", "o.parquet"],
        ["release", "events.parquet", "-k", "query", "-e", "1", "-d", "0", "-o", "o.parquet"],
        ["release", "events.parquet", "-k", "query", "-e", "nan", "-d", "1e-6", "-o", "o.parquet"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "no/such/folder/o.parquet"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.unknown"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "events.parquet"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet", "--tau", "1"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet", "--scheme", "ppswor"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet", "--grid", "3"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet", "--memory-limit", "lots"],
        ["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "o.parquet", "--frequency", "query"],
        ["sanitize", "events.parquet", *PRIVACY, "-o", "o.parquet"],
        ["info", "events.parquet"],
        ["verify", "missing.parquet"],
        ["no-such-command"],
    ],
    ids=lambda a: " ".join(a[-4:]),
)
def test_bad_usage_is_one_clear_line_and_exit_code_2(arguments: list[str], events: Path) -> None:
    before = sorted(events.iterdir())
    done = run(*arguments, cwd=events)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
    assert "secret" not in done.stderr
    assert sorted(events.iterdir()) == before


def test_no_private_key_leaves_the_run(events: Path) -> None:
    """All output, all files and the environment of temporary files, with every switch that shows more."""
    temp = events / "temp"
    temp.mkdir()
    done = start(
        *["release", "events.parquet", "-k", "query", *PRIVACY, "-o", "out.parquet", "--show-private"],
        *["--temp-dir", "temp", "--format", "json"],
        cwd=events,
        TMPDIR=str(temp),
    )
    assert done.returncode == 0
    text = done.stdout + done.stderr
    text += (events / "out.parquet").read_bytes().decode("latin-1")
    assert "rare-secret" not in text
    assert list(temp.iterdir()) == []
    assert sorted(p.name for p in events.iterdir()) == ["events.parquet", "out.parquet", "temp"]


def test_nothing_on_the_side_depends_on_private_data(tmp_path: Path) -> None:
    """Two datasets with the same release give the same explanation, to the letter."""
    shown = []
    for n in (1, 400):
        folder = tmp_path / str(n)
        folder.mkdir()
        duckdb.sql(f"COPY (SELECT 'r' || i AS query FROM range({n}) t(i)) TO '{folder / 'events.parquet'}'")
        # nothing can be reported: every key has one element, and delta is 1e-15 (odds 4e-13)
        done = run(
            "release", "events.parquet", "-k", "query", "-e", "1", "-d", "1e-15", "-o", "out.parquet", cwd=folder
        )
        shown.append((done.stdout, done.stderr, (folder / "out.parquet").read_bytes()))
    assert shown[0] == shown[1]


def test_every_command_has_help_with_an_example() -> None:
    for name, command in cli.commands.items():
        done = CliRunner().invoke(cli, [name, "--help"])
        assert done.exit_code == 0
        assert command.help
        assert f"dpsample {name}" in done.output
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_the_list_of_commands_has_the_first_sentence_of_each_help() -> None:
    for name, home in HOMES.items():
        assert cli.commands[name].name == name
        assert cli.commands[name].get_short_help_str(1000) == home.summary


def test_help_loads_no_command() -> None:
    script = "import sys; from dpsample.cli import main; sys.argv = ['dpsample', '--help']; main()"
    check = f"import atexit, sys; atexit.register(lambda: sys.stderr.write(str('numpy' in sys.modules))); {script}"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stderr == "False"
    assert "List the most frequent keys." in done.stdout


def test_every_command_is_documented() -> None:
    documented = (ROOT / "docs" / "command-line.md").read_text()
    for name in cli.commands:
        assert f"dpsample {name}" in documented


def test_completion_script(tmp_path: Path) -> None:
    done = run("completion", "bash", cwd=tmp_path)
    assert done.returncode == 0
    assert "_DPSAMPLE_COMPLETE" in done.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_output(sent: signal.Signals, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT i % 3000017 AS query FROM range(12000000) t(i)) TO '{tmp_path / 'events.parquet'}'")
    (tmp_path / "temp").mkdir()
    rng = random.Random(sent)
    for _ in range(3):
        process = subprocess.Popen(
            [*PROGRAM, "release", "events.parquet", "-k", "query", *PRIVACY, "-o", "out.parquet", "--temp-dir", "temp"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while process.poll() is None and not any((tmp_path / "temp").iterdir()):
            time.sleep(0.01)  # until it has begun
        time.sleep(rng.uniform(0, 1.2))
        process.send_signal(sent)
        _, stderr = process.communicate()
        out = tmp_path / "out.parquet"
        if out.exists():  # it was done before the signal came, and may have been ending
            dpsample.read_release(out)
            out.unlink()
        elif sent != signal.SIGKILL:
            assert (process.returncode, "Traceback" in stderr) == (128 + sent, False)
            assert list((tmp_path / "temp").iterdir()) == []
        TemporaryFolder(tmp_path / "temp").remove()  # as the next run does: it removes what dead processes left
        assert list((tmp_path / "temp").iterdir()) == []
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith(".")} == {"events.parquet", "temp"}


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fuzzed_parameters_never_show_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("query,n\na,5\nb,7\n")
    texts = st.one_of(
        st.sampled_from(
            [
                "1",
                "0",
                "-1",
                "1e-6",
                "1e400",
                "nan",
                "inf",
                "1/3",
                "1/0",
                "",
                " ",
                "0x10",
                "１",
                "1e-400",
                "99999999999999999999",
            ]
        ),
        st.text(string.printable, max_size=8),
    )
    arguments = ["release", str(tmp_path / "events.csv"), "-k", data.draw(st.sampled_from(["query", "n", "x", ""]))]
    for option in ("--epsilon", "--delta", "--tau", "--power", "--cap", "--grid", "--memory-limit", "--threads"):
        if option in ("--epsilon", "--delta") or data.draw(st.booleans()):
            arguments += [option, data.draw(texts)]
    for option in ("--user", "--max-keys-per-user", "--sample-size", "--size-share", "--total-share", "--ledger"):
        if data.draw(st.integers(0, 4)) == 0:
            arguments += [option, data.draw(texts)]
    arguments += ["--with-total"] * data.draw(st.integers(0, 1))
    if data.draw(st.booleans()):
        arguments += ["--scheme", data.draw(st.sampled_from(["all", "ppswor", "priority"]))]
    out = tmp_path / "o.parquet"
    done = CliRunner().invoke(cli, [*arguments, "-o", str(out), "--force"])
    assert done.exception is None or isinstance(done.exception, SystemExit | dpsample.DpsampleError), done.exception
    if done.exit_code == 0:
        dpsample.read_release(out)


class SharedEngine:
    """One engine for many commands. After an error inside DuckDB, which ends it, there is a new one."""

    def __init__(self) -> None:
        self._engine = DuckDB()

    def of(self, given: dict[str, Any]) -> contextlib.AbstractContextManager[DuckDB]:
        try:
            self._engine.run("SELECT 1")
        except duckdb.FatalException:
            self.close()
            self._engine = DuckDB()
        return contextlib.nullcontext(self._engine)

    def close(self) -> None:
        self._engine.close()
        del self._engine


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedEngine]:
    with contextlib.closing(SharedEngine()) as engine:
        yield engine


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fuzzed_files_never_show_a_traceback_nor_their_content(
    data: st.DataObject, tmp_path: Path, shared: SharedEngine
) -> None:
    kind = data.draw(st.sampled_from(["csv", "jsonl", "parquet", "arrow", "tsv"]))
    path = tmp_path / f"events.{kind}"
    good = {
        "csv": b"query,n\ncanaryA,5\ncanaryB,7\n",
        "tsv": b"query\tn\ncanaryA\t5\n",
        "jsonl": b'{"query": "canaryA", "n": 5}\n{"query": "canaryB", "n": 7}\n',
        "parquet": _parquet(tmp_path),
        "arrow": _arrow(tmp_path),
    }[kind]
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content)))
        what = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if what == "flip" and at < len(content):
            content[at] ^= data.draw(st.integers(1, 255))
        elif what == "cut":
            del content[at : at + data.draw(st.integers(1, 20))]
        else:
            content[at:at] = data.draw(st.binary(max_size=6))
    path.write_bytes(bytes(content))
    arguments = ["release", str(path), "-k", "query", *PRIVACY, "-o", str(tmp_path / "o.parquet"), "--force"]
    if data.draw(st.booleans()):
        arguments += ["--frequency", "n"]
    with mock.patch("dpsample.cli.options.engine_of", shared.of):
        done = CliRunner().invoke(cli, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit | dpsample.DpsampleError), done.exception
    assert "canary" not in f"{done.output}{done.exception}"


def _parquet(folder: Path) -> bytes:
    path = folder / "good.parquet"
    if not path.exists():
        duckdb.sql(f"COPY (SELECT * FROM (VALUES ('canaryA', 5), ('canaryB', 7)) t(query, n)) TO '{path}'")
    return path.read_bytes()


def _arrow(folder: Path) -> bytes:
    import pyarrow as pa

    path = folder / "good.arrow"
    if not path.exists():
        table = pa.table({"query": ["canaryA", "canaryB"], "n": [5, 7]})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path.read_bytes()


def test_the_version(tmp_path: Path) -> None:
    assert re.search(r"\d+\.\d+\.\d+", start("--version", cwd=tmp_path).stdout)

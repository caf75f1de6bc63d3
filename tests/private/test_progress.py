"""Progress tells neighbouring datasets alike: it names stages, which follow from the request alone, and shows a clock.

Coins are drawn anew for each release: what is told may depend on them as little as on the rows.
"""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import Ppswor, Priority, Privacy, SampleSize
from dpsample.private.count import count_frequencies

pytestmark = pytest.mark.chance("certain: stages are told in the same order, whatever is drawn")

PRIVACY = Privacy(1, "1e-6")
Rows = list[tuple[int, str]]  # a user and a key each

FEW_KEYS = [(user, f"key{user % 5}") for user in range(600)]
MANY_KEYS = [(user, f"key{n}") for user in range(30) for n in range(user, user + 40)]
ONE_MORE = (10_000, "a key that nobody else has")

DATASETS = {
    "one row more": (FEW_KEYS, [*FEW_KEYS, ONE_MORE]),
    "the first row": ([], [ONE_MORE]),
    "users with few keys, or many": (FEW_KEYS, MANY_KEYS),  # by which a method is chosen
}

OPTIONS: dict[str, dict[str, Any]] = {
    "elements": {},
    "known keys": {"keys": ["key1", "nowhere"]},
    "only known keys": {"keys": ["key1"], "only_known": True},
    "aggregated sample": {"sampling": Priority("0.01")},
    "two passes": {"sampling": Ppswor("0.1"), "strategy": "two-pass"},
    "a size": {"size": SampleSize(100, "ppswor")},
    "a size by weights": {"size": SampleSize(100, "ppswor", power="0.5")},
    "a total": {"total": True},
    "users": {"user": "user"},
    "users, keys only": {"user": "user", "keys_only": True},
    "users, one key": {"user": "user", "discover": "one-key"},
    "users, many keys": {"user": "user", "discover": "many-keys"},
    "users of known keys": {"user": "user", "keys": ["key1"], "only_known": True},
    "users, with rows": {"user": "user", "rows": 3},
    "bounded users": {"user": "user", "max_keys_per_user": 2, "total": True},
}


def table(rows: Rows) -> pa.Table:
    users, keys = [user for user, _ in rows], [key for _, key in rows]
    return pa.table({"user": pa.array(users, pa.int64()), "key": pa.array(keys, pa.string())})


def told_by(work: Callable[[Callable[..., None]], Any]) -> list[tuple[Any, ...]]:
    """All that a listener is told, in order."""
    told: list[tuple[Any, ...]] = []
    work(lambda *report: told.append(report))
    return told


@pytest.mark.parametrize("datasets", DATASETS)
@pytest.mark.parametrize("options", OPTIONS)
def test_a_listener_is_told_the_same_of_all_data(options: str, datasets: str, tmp_path: Path) -> None:
    both = []
    for rows in DATASETS[datasets]:
        data = tmp_path / "data.parquet"
        pq.write_table(table(rows), data)
        both.append(
            told_by(
                lambda progress, data=data: dpsample.release(  # type: ignore[misc]
                    data, "key", privacy=PRIVACY, progress=progress, **OPTIONS[options]
                )
            )
        )
    assert both[0] == both[1]
    assert both[0]
    assert all(isinstance(report, tuple) and [*map(type, report)] == [str] for report in both[0])


@pytest.mark.parametrize("how", [{}, {"user": "user", "max_keys_per_user": 2}, {"strategy": "two-pass"}], ids=str)
def test_a_sample_and_a_file_tell_as_a_release_does(how: dict[str, Any], tmp_path: Path) -> None:
    scheme = Ppswor("0.1")
    both = [
        told_by(lambda heard, rows=rows: dpsample.sample(table(rows), "key", sampling=scheme, progress=heard, **how))  # type: ignore[misc]
        for rows in DATASETS["one row more"]
    ]
    assert both[0] == both[1] != []
    in_file = told_by(
        lambda heard: dpsample.release_to_file(
            tmp_path / "out.parquet", table(FEW_KEYS), "key", privacy=PRIVACY, sampling=scheme, progress=heard, **how
        )
    )
    assert in_file == both[0]


def test_counting_for_a_plan_tells_no_number() -> None:
    told = told_by(lambda heard: count_frequencies(table(FEW_KEYS), "key", progress=heard))
    assert set(told) == {("counting keys",)}


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """What a command shows on standard error, if that is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dpsample", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=cwd)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:  # how Linux tells that nobody writes any more
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


# how lines begin that say what a release did
REPORTED = {"Wrote", "Read", "Found", "Chosen", "Counted", "Sampled", "Privacy", "Seen"}


def words_of(shown: str) -> set[str]:
    """The lines on a terminal, without control sequences, the spinner and the clock."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    plain = re.sub(r"\b\d:\d\d:\d\d\b|[\u2800-\u28ff]", "", plain)
    return {line.strip() for line in re.split(r"[\r\n]+", plain)} - {""}


@pytest.mark.parametrize("options", [[], ["--user", "user"], ["--scheme", "ppswor", "--tau", "0.1"]], ids=str)
def test_a_terminal_shows_stages_and_a_clock(options: list[str], tmp_path: Path) -> None:
    stages = {"assigning users", "counting keys", "counting users", "picking elements", "counting picked keys"}
    pq.write_table(table([*FEW_KEYS, ONE_MORE]), tmp_path / "data.parquet")
    stated = ["data.parquet", "-k", "key", "-e", "1", "-d", "1e-6", "-o", "out.parquet"]
    shown = words_of(on_a_terminal("release", *stated, *options, cwd=tmp_path))
    # what was done is printed afterwards; nothing of it is progress
    progress = {line for line in shown if line.split()[0] not in REPORTED}
    assert progress <= stages
    assert any(line.startswith("Wrote ") for line in shown)


def test_a_plan_on_a_terminal_shows_no_number_of_the_data(tmp_path: Path) -> None:
    pq.write_table(table([*FEW_KEYS, ONE_MORE]), tmp_path / "data.parquet")
    shown = words_of(on_a_terminal("plan", "data.parquet", "-k", "key", "-e", "1", "-d", "1e-6", cwd=tmp_path))
    assert {re.sub(r"planning 1 of 1", "planning", line) for line in shown} <= {"counting keys", "planning"}

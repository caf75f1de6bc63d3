"""The guide's nightly job, as it stands there: it is killed in each step, repeated, and ends with one release."""

from pathlib import Path

import pytest

from nights import DEATHS, checked, days, night, prepare

pytestmark = pytest.mark.chance("certain: which files and entries there are does not depend on the coins")
[DAY] = days(1)


def test_a_night_is_killed_in_each_step_and_repeated(tmp_path: Path) -> None:
    prepare(tmp_path, [DAY])
    written = []
    for function in DEATHS.values():
        assert night(tmp_path, DAY, DIES_IN=function).returncode != 0
        written.append((tmp_path / f"day-{DAY}.private.parquet").exists())
    assert written == [False, False, True, True, True, True]
    content = (tmp_path / f"day-{DAY}.private.parquet").read_bytes()

    for _ in range(2):
        done = night(tmp_path, DAY)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / f"day-{DAY}.private.parquet").read_bytes() == content
    assert checked(tmp_path, [DAY]).lost == 1, "the run that was killed once its budget was reserved"
    assert "<svg" in (tmp_path / f"day-{DAY}.html").read_text(encoding="utf-8")
    assert (tmp_path / f"day-{DAY}.proof.txt").read_text().startswith("PROVED")

"""Warnings point at the line of the caller: the first one outside the package, however deep inside it they arise."""

import inspect
from pathlib import Path

import pytest

import dpsample
from dpsample import KeepAll, Privacy, PrivacyWarning, privacy
from dpsample.errors import DpsampleWarning
from dpsample.estimators import unbiased
from places import VECTORS
from support import run

WEAK = (25, "1e-8")


@pytest.fixture(autouse=True)
def not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each warning is given once in a process."""
    monkeypatch.setattr(privacy, "_warned", set())


def test_a_privacy_that_is_made_here() -> None:
    with pytest.warns(PrivacyWarning) as caught:
        Privacy(*WEAK)
    assert (caught[0].filename, caught[0].lineno) == here(-1)


def test_a_privacy_that_is_read_inside(tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning) as caught:
        dpsample.new_ledger(tmp_path / "a.ledger", "events", WEAK)
    assert (caught[0].filename, caught[0].lineno) == here(-1)


@pytest.mark.chance("certain: nothing is said of what is drawn")
def test_a_release() -> None:
    with pytest.warns(PrivacyWarning) as caught:
        dpsample.release({"a": 50}, privacy=WEAK)
    assert (caught[0].filename, caught[0].lineno) == here(-1)


def test_a_budget_of_another_definition() -> None:
    with pytest.warns(PrivacyWarning) as caught:
        Privacy.zcdp(rho=30, delta="1e-8")
    assert (caught[0].filename, caught[0].lineno) == here(-1)


def test_an_estimator_for_study() -> None:
    with pytest.warns(DpsampleWarning) as caught:
        unbiased([1, 2], KeepAll(), Privacy(1, 1e-6))
    assert (caught[0].filename, caught[0].lineno) == here(-1)


def here(offset: int) -> tuple[str, int]:
    """Return the file and line of the caller, moved by a number of lines."""
    frame = inspect.stack()[1]
    return frame.filename, frame.lineno + offset


def test_at_the_command_line_there_is_no_place() -> None:
    """One line each: the place would be a line of click."""
    done = run("certify", "--epsilon", "25", "--delta", "1e-8", cwd=VECTORS)
    said = [line for line in done.stderr.splitlines() if "above 20" in line]
    assert len(said) == 1
    assert said[0].startswith("dpsample: warning: epsilon = 25 is above 20")
    assert ".py" not in done.stderr


def test_an_estimator_for_study_at_the_command_line() -> None:
    done = run("query", "release-1-all.parquet", "--estimator", "unbiased", cwd=VECTORS)
    assert done.returncode == 0, done.stderr
    assert "dpsample: warning: unbiased estimates may be negative" in done.stderr
    assert ".py" not in done.stderr

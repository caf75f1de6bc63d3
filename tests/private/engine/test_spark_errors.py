"""Spark jobs that fail with data in their message: the error that leaves dpsample, and all that it carries, shows none.

A job fails on a worker, in a user's function or in an expression of Spark's. Its message reaches the driver with the
rows in it. Of the error that is raised instead, every cause, context, argument, note and attribute is searched.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dpsample.spark
import faults
from dpsample import CustomSampling, DpsampleError, InvalidValue, Ppswor, Privacy, SystemFailure
from dpsample.private.engine.errors import MARK
from dpsample.private.engine.spark.errors import refusal

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.chance("certain: the jobs fail, whatever is drawn"),
]

PRIVACY = Privacy(1, "1e-6")
KEY, USER, FREQUENCY = "heron-7391", "ibis-2846", 739_173
PRIVATE = ("heron", "7391", "ibis", "2846", str(FREQUENCY), f"{FREQUENCY:,}")
END = "the Spark job failed"


def rows(spark: Any, key: str = KEY) -> Any:
    return spark.createDataFrame([(key, USER, FREQUENCY)] * 3, "k string, u string, n bigint")


def errors_of(error: BaseException) -> Iterator[BaseException]:
    """An error, and all that it carries: both branches of its chain, and the members of groups."""
    reached: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or any(one is other for other in reached):
            continue
        reached.append(one)
        yield one
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def said_by(error: BaseException) -> str:
    """All text of an error: its message, arguments, notes, attributes, and what a traceback prints."""
    shown = [str(error), repr(error), repr(error.args), repr(getattr(error, "__notes__", [])), repr(vars(error))]
    return "\n".join([*shown, *traceback.format_exception(error)])


def refused(work: Callable[[], Any], kind: type[DpsampleError], rule: str) -> None:
    """Work ends with this error, and no private value is anywhere in it."""
    with pytest.raises(kind) as caught:
        work()
    assert str(caught.value).startswith(rule)
    for error in errors_of(caught.value):
        assert isinstance(error, DpsampleError)  # none of another library
        assert [value for value in PRIVATE if value in said_by(error)] == []


def test_the_search_finds_what_is_hidden() -> None:
    """An error that hides a value in one place each."""

    def hiding(place: str) -> BaseException:
        error, other = SystemFailure("a", "b"), ValueError(KEY)
        if place == "note":
            error.add_note(KEY)
        elif place == "attribute":
            error.row = KEY  # type: ignore[attr-defined]
        elif place == "argument":
            error.args = (*error.args, [KEY])
        elif place == "group":
            error.__context__ = ExceptionGroup("two", [other, KeyError(1)])
        else:
            setattr(error, place, other)
        if place == "__context__":
            error.__cause__ = KeyError(1)  # a chain that is followed by its causes alone misses the context
        return error

    for place in ("note", "attribute", "argument", "group", "__cause__", "__context__"):
        assert any(KEY in said_by(error) for error in errors_of(hiding(place))), place
    assert not any(KEY in said_by(error) for error in errors_of(SystemFailure("a", "b")))


@pytest.mark.parametrize(
    ("to", "options"),
    [
        ("driver", {"frequency": "n"}),
        ("folder", {}),
        ("driver", {"sampling": Ppswor("0.01"), "strategy": "two-pass"}),
        ("folder", {"user": "u", "max_keys_per_user": 2}),
        ("driver", {"frequency": "n", "total": True}),
        ("folder", {"frequency": "n", "size": 10}),
    ],
    ids=str,
)
def test_a_release(to: str, options: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    frame = faults.rows_of(rows(spark), faults.failing)
    folder = tmp_path / "out"

    def work() -> Any:
        if to == "folder":
            return dpsample.spark.release_to_folder(folder, frame, "k", privacy=PRIVACY, **options)
        return dpsample.spark.release(frame, "k", privacy=PRIVACY, **options)

    refused(work, SystemFailure, END)
    assert list(tmp_path.iterdir()) == []


def test_a_sample_and_its_release(spark: Any) -> None:
    frame, sampling = faults.rows_of(rows(spark), faults.failing), Ppswor("0.5")
    refused(lambda: dpsample.spark.sample(frame, "k", "n", sampling=sampling), SystemFailure, END)
    refused(lambda: dpsample.spark.sanitize(frame, "k", "n", privacy=PRIVACY, sampling=sampling), SystemFailure, END)


def test_parts_that_are_not_written(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsample.private.engine.spark.jobs._PART", 1)
    monkeypatch.setattr("dpsample.private.engine.spark.jobs._write", lambda *_: faults.failing)
    frame = rows(spark).union(rows(spark, f"another {KEY}"))

    def work() -> int:
        return dpsample.spark.release_to_folder(tmp_path / "out", frame, "k", "n", privacy=PRIVACY)

    refused(work, SystemFailure, END)


def test_an_expression_of_spark_that_quotes_its_value(spark: Any) -> None:
    frame = rows(spark).selectExpr(f"if(k = '{KEY}', raise_error(concat('no such thing: ', k)), k) AS k")
    refused(lambda: dpsample.spark.release(frame, "k", privacy=PRIVACY), SystemFailure, END)


def test_a_scheme_that_quotes_the_frequency(spark: Any) -> None:
    def q(i: int) -> float:
        if i > 1000:
            raise ValueError(f"no probability is known for {i}")
        return 1.0

    def work() -> Any:
        return dpsample.spark.release(rows(spark), "k", "n", privacy=PRIVACY, sampling=CustomSampling(q))

    refused(work, InvalidValue, "the scheme must state a probability for every frequency")


IMITATIONS = [
    f"dpsample-refused:null:0 {KEY}",
    f"dpsample-refused:{KEY}:0",
    f"[USER_RAISED_EXCEPTION] dpsample-refused:null:0 {KEY}",
    f"InvalidValue: q must {KEY}; found {KEY}",
    f"x\ndpsample.errors.InvalidValue: q must {KEY}; found {KEY}",
    f"x\nTraceback (most recent call last):\n  File 'x'\ndpsample.errors.InvalidValue: q must {KEY}",
    f"{KEY} must be accessible; found {KEY}",
    f"x\ndpsample.errors.SystemFailure: {KEY} must be accessible; found {KEY}",
    f"x\nModuleNotFoundError: No module named 'dpsample' {KEY}",
    f"No module named 'numpy {KEY}",
    f"maxResultSize {KEY}",
    f"Total size of serialized results of {KEY}",
    f"[PATH_NOT_FOUND] {KEY}",
    f"Path does not exist {KEY}",
    f"{KEY} is not a Parquet file",
    f"[JAVA_GATEWAY_EXITED] {KEY}",
]


def test_data_that_look_like_an_error_of_ours(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They select no sentence, and no word of theirs is passed on.

    One job fails with one of them, and another in an expression of Spark's that quotes it. The others are put into
    their messages, where that one was.
    """
    messages: list[str] = []

    def heard(error: BaseException, columns: Sequence[str]) -> DpsampleError:
        messages.append(str(error))
        return refusal(error, columns)

    monkeypatch.setattr("dpsample.private.engine.spark.errors.refusal", heard)
    first = IMITATIONS[0]
    in_python = faults.rows_of(rows(spark, first), faults.failing)
    in_spark = rows(spark, first).selectExpr("CAST(CAST(k AS int) AS string) AS k")
    for frame in (in_python, in_spark):
        refused(partial(dpsample.spark.release, frame, "k", privacy=PRIVACY), SystemFailure, END)
    assert len(messages) == 2
    for message in messages:
        assert first in message
        for key in IMITATIONS:
            error = refusal(RuntimeError(message.replace(first, key)), ["k"])
            assert isinstance(error, SystemFailure)
            assert str(error).startswith(END)
            assert [value for value in PRIVATE if value in said_by(error)] == []


TASK = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
TASK += "stage 1.0 (TID 7) (10.0.0.1 executor 2): "
CALL = "An error occurred while calling o175.collectToPython.\n: org.apache.spark.SparkException: "
WORKER = (
    'An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File "a.py", line 1, in b\n'
)
REAL = [
    (f"[USER_RAISED_EXCEPTION] {MARK}:null:0 SQLSTATE: P0001", "the key column 'k' must have no NULL"),
    (
        f"{CALL}{TASK}org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {MARK}:null:0",
        "the key column 'k'",
    ),
    ("[PATH_NOT_FOUND] Path does not exist: file:/a. SQLSTATE: 42K03", "some files are missing"),
    (f"{CALL}[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading", "some files are missing"),
    (
        f"{CALL}Job aborted due to stage failure: Total size of serialized results of 1 tasks",
        "the release does not fit",
    ),
    (f"{WORKER}dpsample.errors.InvalidValue: q must x; found y; z", "the scheme must state a probability"),
    (
        f"{TASK}org.apache.spark.api.python.PythonException: {WORKER}ModuleNotFoundError: No module named 'dpsample'",
        "a worker lacks dpsample",
    ),
    (f"{WORKER}dpsample.errors.SystemFailure: '/a' must be accessible, but", "a worker could not write"),
    ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "Spark did not start"),
]


@pytest.mark.parametrize(("message", "rule"), REAL, ids=[f"message {n}" for n in range(len(REAL))])
def test_real_messages_are_recognised(message: str, rule: str) -> None:
    """As Spark 4.3 writes them, collected from jobs that failed."""
    assert str(refusal(RuntimeError(message), ["k"])).startswith(rule)

"""No test fails by chance: a test that draws secret coins states its odds of a false alarm, and they are below 1e-7.

A pytest plugin. It counts how often the library asks the operating system for a secret key: in this process and in
those that are forked from it, for they share the counter. A Python process that a test starts cannot be watched: to
start one counts as a draw. A test that draws, or uses a fixture that does, fails unless it, its class or its module is
marked:

    @pytest.mark.chance("certain: ...")      no assertion depends on the coins, and why
    @pytest.mark.chance("odds 3e-9: ...")    an assertion is false with at most these odds, and why

Other tests inject coins: as data, or, where a door takes none, with the fixture `fixed_coins`. Doctests carry no marks:
those that draw are in `DOCTESTS`, with the odds that they fail for a reader. Here their coins are fixed.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from dpsample.private import randomness
from dpsample.private.engine.duckdb import DuckDB

HIGHEST = 1e-7

DOCTESTS = {  # examples that draw: a docstring by its name, a page by its file's
    "README.md": "odds 1e-8: the key of one element shows, at delta 1e-8; from frequency 38 on all are reported",
    "accuracy.md": "odds 1e-9: the mean error of 1,000 bounded tokens exceeds 5 %; by Hoeffding far less",
    "attacks.md": "odds 1e-8: a key of one element shows, at delta 1e-8; all else has a fixed seed",
    "budget.md": "odds 3e-9: a user shows, at delta 1e-10, in four releases; 45 scales; three full keys hide",
    "over-time.md": "certain: tokens are within 50 of their frequencies, and keys of 3,000 are always reported",
    "coordinated.md": "odds 1e-9: a change off by more than 12 deviations; errors are a tenth of others",
    "python.md": "odds 4e-10: keys of one element show, at delta 1e-10; exp(-40) of 4,000; a count off by 20 errors",
    "report.md": "certain: all 199 keys are reported, and tokens change the page by less than a percent",
    "stream.md": "odds 1e-8: a key of one element shows, at delta 1e-8; 2,500 elements before a pick have exp(-25)",
    "tutorial.md": "certain: its coins are fixed here; it tells readers that their numbers differ",
    "choose-the-unit.md": "odds 1e-10: a key of one user shows, at delta 1e-10; one of 60 elements always does",
    "few-or-many-keys.md": "odds 1e-11: an interval of level 1 - 1e-12; columns and methods are not drawn",
    "daily-pipeline.md": "certain: only the ledger is looked at",
    "reading-a-release.md": "odds 2e-9: a key of 3 elements shows, at delta 1e-10; 300 tokens off by 8 deviations",
    "coming-from.md": "certain: columns, and keys of a list, which are all reported",
    "dpsample.planning.earlier.estimated_frequencies": "certain: both keys are reported",
    "dpsample.private.bounding.choose": "certain: the number of kept keys does not depend on which",
    "dpsample.private.count.count_frequencies": "certain: nothing is drawn about elements",
    "dpsample.private.derived_coins.Secret": "certain: coins are compared with themselves",
    "dpsample.private.noise.discrete_laplace": "odds 9e-18: noise beyond 40 scales",
    "dpsample.private.run.release": "odds 1e-10: a key of one element shows, at delta 1e-10",
    "dpsample.private.run.sample": "odds 1e-100: a key of 400 is not sampled, exp(-400)",
    "dpsample.answers.coordinated.difference": "odds 1e-20: 200 elements are ten deviations of the tokens",
    "dpsample.private.stream.stream.Stream": "odds 1e-10: a key of one element shows, at delta 1e-10; exp(-70)",
    "dpsample.private.run.sanitize": "odds 1e-10: a key of one element shows, at delta 1e-10",
}

_counter = mmap.mmap(-1, 8)  # shared with forked processes
_drew = pytest.StashKey[int]()


def draws() -> int:
    """How often secrets were drawn so far."""
    return int.from_bytes(_counter, "little")


def note_draw() -> None:
    _counter[:] = (draws() + 1).to_bytes(8, "little")


def _urandom(size: int) -> bytes:
    note_draw()
    return os.urandom(size)


def _is_python(command: Any) -> bool:
    program = os.fspath(command if isinstance(command, str | bytes | os.PathLike) else next(iter(command), ""))
    return os.path.basename(os.fsdecode(program).split(" ")[0]).startswith(("python", "dpsample")) or (
        program == sys.executable
    )


def odds(statement: str) -> float:
    """The odds that a statement names; 0 if it says that the outcome is certain.

    >>> odds("odds 3e-9: thirty scales of noise"), odds("certain: only the columns are looked at")
    (3e-09, 0.0)
    """
    found = re.fullmatch(r"(?:(certain)|odds (\d\S*)): \S.*", statement, re.DOTALL)
    if found is None:
        raise ValueError(f"write 'certain: why' or 'odds 1e-9: why'; found {statement!r}")
    stated = 0.0 if found[1] else float(found[2])
    if not stated < HIGHEST:
        raise ValueError(f"the odds of a false alarm are below {HIGHEST:g}; found {stated:g}")
    return stated


def statement_of(item: pytest.Item) -> str | None:
    """What a test says about chance: the nearest of its own mark, its class's and its module's."""
    if isinstance(item, pytest.DoctestItem):
        return DOCTESTS.get(item.name)
    mark = item.get_closest_marker("chance")
    return None if mark is None else str(mark.args[0])


@pytest.fixture
def fixed_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secret keys are the hashes of 0, 1, 2, ...: coins are the same in every run.

    So is what they decide: DuckDB has one thread, and rows come in one order.
    """
    _fix_coins(monkeypatch)


@pytest.fixture(autouse=True)
def _surroundings_of_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctests have a folder of their own, and fixed coins; that they draw is noted all the same."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
        _fix_coins(monkeypatch, note_draw)


def _fix_coins(monkeypatch: pytest.MonkeyPatch, note: Callable[[], None] = lambda: None) -> None:
    keys, begin = iter(range(10**9)), DuckDB.__init__

    def urandom(size: int) -> bytes:
        note()
        return hashlib.shake_256(str(next(keys)).encode()).digest(size)

    def with_one_thread(
        self: DuckDB, memory: Any = None, threads: int | None = None, *rest: Any, **options: Any
    ) -> None:
        begin(self, options.pop("memory_limit", memory), threads or 1, *rest, **options)

    monkeypatch.setattr(randomness, "os", SimpleNamespace(urandom=urandom, getpid=os.getpid))
    monkeypatch.setattr(DuckDB, "__init__", with_one_thread)


# ---- hooks


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "chance(statement): the odds that a test which draws secret coins fails by chance"
    )
    setattr(randomness, "os", SimpleNamespace(urandom=_urandom, getpid=os.getpid))  # noqa: B010
    start = subprocess.Popen.__init__

    def started(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        if _is_python(args):
            note_draw()
        start(self, args, *rest, **options)

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        statement = statement_of(item)
        if statement is not None:
            try:
                odds(statement)
            except ValueError as error:
                raise pytest.UsageError(f"{item.nodeid}: {error}") from None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    before = draws()
    try:
        return (yield)
    finally:
        fixturedef.draws = draws() > before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[_drew] = draws()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "call" and report.passed and statement_of(item) is None and _draws(item):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} draws secret coins and does not state its odds of a false alarm: {__doc__}"
    return report


def _draws(item: pytest.Item) -> bool:
    fixtures: dict[str, Any] = getattr(getattr(item, "_request", None), "_fixture_defs", {})
    return draws() > item.stash[_drew] or any(getattr(f, "draws", False) for f in fixtures.values())

"""Pairs of users and keys that every engine assigns and sorts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample.private.assignment import Assigned
from dpsample.private.derived_coins import Secret
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.pairs import Kernel
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Ints
from given_coins import GivenCoins

CLASSES = 40  # a vector of a kernel has a number for each number of keys below


def users_of_keys(keys: int) -> Kernel:
    """How many users each key has."""

    def kernel(batches: Iterator[tuple[Ints, Ints]]) -> Ints:
        total = np.zeros(keys, np.int64)
        for _, positions in batches:
            total += np.bincount(positions, minlength=keys)
        return total

    return kernel


def keys_of_users(batches: Iterator[tuple[Ints, Ints]]) -> Ints:
    """How many users have n keys; who is cut by a batch, or comes twice, would be two users."""
    total = np.zeros(CLASSES, np.int64)
    for starts, positions in batches:
        assert starts[0] == 0
        numbers = np.diff([*starts, len(positions)])
        total += np.bincount(np.minimum(numbers, CLASSES - 1), minlength=CLASSES)
    return total


def largest_positions(batches: Iterator[tuple[Ints, Ints]]) -> Ints:
    """The sum over users of the sum of their keys' weights, squared: it depends on who has which keys together."""
    total = 0
    for starts, positions in batches:
        total += int((np.add.reduceat(positions + 1, starts) ** 2).sum())
    return np.array([total])


# ---- through the engines


class Pairing:
    """An engine, and sources that it can read; with `assigns`, pairs are found after an assignment that kept them."""

    def __init__(self, engine: Engine, folder: Path | None, assigns: bool = False) -> None:
        self.engine, self._folder, self._assigns = engine, folder, assigns

    def source(self, table: pa.Table, key: Any = "k", **options: Any) -> Source:
        if self._folder is None:
            return Source(table, key, user="u", **options)
        path = self._folder / f"{len(list(self._folder.iterdir()))}.parquet"
        pq.write_table(table, path)
        return Source(path, key, user="u", **options)

    def sums(
        self, source: Source, keys: pa.Table, prior: pa.Table | None = None
    ) -> tuple[list[int], list[int], list[int]]:
        """What the three kernels return; nothing is left afterwards."""
        before = self.held()
        after = assigned(self.engine, source, prior) if self._assigns else None
        pairs = self.engine.pairs_of(source, keys, after)
        assert repr(pairs) == "Pairs()"
        if after is not None:
            assert repr(after) == "Assigned()"
            self.engine.forget(after.source)  # the pairs stay
        users, numbers, weights = (
            self.engine.summed(pairs, kernel).tolist()
            for kernel in (users_of_keys(keys.num_rows), keys_of_users, largest_positions)
        )
        self.engine.forget_pairs(pairs)
        assert self.held() == before
        return users, numbers, weights

    def held(self) -> Any:
        return held(self.engine) if isinstance(self.engine, DuckDB) else len(self.engine._kept)  # type: ignore[attr-defined]


def assigned(engine: Engine, source: Source, prior: pa.Table | None = None) -> Assigned:
    coins = GivenCoins(np.array([3**40, 5**27], np.uint64)) if isinstance(engine, DuckDB) else Secret(bytes(32))
    return engine.assigned(source, 3, coins, prior, keep_pairs=True)


def held(engine: DuckDB) -> tuple[set[str], set[str]]:
    """The files and the tables of an engine."""
    files = {path.name for path in Path(engine._temp.path).iterdir()}
    return files, {name for (name,) in engine.run("SELECT table_name FROM duckdb_tables()")}


@pytest.fixture
def sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that were kept are not sorted again."""
    monkeypatch.setattr("dpsample.private.engine.duckdb.pairs._sort_pairs", sorted_again)


def sorted_again(*_: Any) -> None:
    raise AssertionError("sorted again")


@pytest.fixture(
    params=[
        "duckdb",
        "duckdb after assigned",
        *(pytest.param(name, marks=pytest.mark.xdist_group("spark")) for name in ("spark", "spark after assigned")),
    ]
)
def pairing(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pairing]:
    if request.param.startswith("duckdb"):
        if request.param != "duckdb":
            request.getfixturevalue("sorted_once")
        with DuckDB(threads=2, temp_dir=tmp_path) as engine:
            yield Pairing(engine, None, assigns=request.param != "duckdb")
    else:
        from dpsample.private.engine.spark import Spark

        with Spark(request.getfixturevalue("spark")) as started:
            if request.param != "spark":
                monkeypatch.setattr("dpsample.private.engine.spark.engine.pairs_of", sorted_again)
            yield Pairing(started, tmp_path, assigns=request.param != "spark")

"""Every engine assigns users to keys as the oracle does."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assigning import Small, deferred, placed, sizes_of
from dpsample import InvalidValue
from dpsample.private import assignment
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.duckdb import DuckDB, numbering
from dpsample.private.engine.duckdb.numbering import HashedCodes
from dpsample.private.sources.source import Source
from given_coins import GivenCoins
from support import refused

SALTS = GivenCoins(np.array([3**40, 5**27], np.uint64))
KEY = bytes(range(32))


# ---- through the engines


def _spark(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.xdist_group("spark"))


class Assigning:
    """An engine, its coins, the names of users and keys in its order, and sources that it can read."""

    def __init__(self, engine: Any, session: Any, folder: Path) -> None:
        self.engine, self.session, self._folder = engine, session, folder

    def source(self, table: pa.Table, key: Any = "k", **options: Any) -> Source:
        if self.session is None:
            return Source(table, key, user="u", **options)
        path = self._folder / f"{len(list(self._folder.iterdir()))}.parquet"
        pq.write_table(table, path)
        return Source(path, key, user="u", **options)

    def assigned(self, source: Source, cap: int, **options: Any) -> tuple[dict[Any, int], list[int]]:
        """The units of each key, and the sizes; nothing is left afterwards."""
        coins = Secret(KEY) if self.session is not None else GivenCoins(SALTS._words)
        made = self.engine.assigned(source, cap, coins, **options)
        rows = [row for batch in self.engine.aggregated(made.source) for row in batch.to_pylist()]
        assert self.engine.total(made.source) == sum(row["frequency"] for row in rows)
        units = {tuple(row.values())[:-1]: row["frequency"] for row in rows}
        assert len(units) == len(rows)
        before = self.held()
        self.engine.forget(made.source)
        codes = made.pairs is not None  # beside the units
        assert self.held() == before - 1 - codes
        assert repr(made) == "Assigned()"
        return {key[0] if len(key) == 1 else key: n for key, n in units.items()}, made.sizes.tolist()

    def held(self) -> int:
        """How much the engine holds: tables, or what workers keep."""
        return len(self.engine.run("FROM duckdb_tables()") if self.session is None else self.engine._kept)

    def ordered(self, values: Iterable[Any], place: int) -> list[Any]:
        """Users (place 0) or keys (place 1) in the order of the engine."""
        rows = [value if isinstance(value, tuple) else (value,) for value in set(values)]
        names = [f"c{i}" for i in range(len(rows[0]))]
        table = pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
        if self.session is None:
            from dpsample.private.engine.duckdb.orders import mixed, order_sql

            if place == 0 and isinstance(rows[0][0], int):
                return sorted((u for (u,) in rows), key=lambda u: int(mixed(np.array([u]), int(SALTS._words[0]))[0]))
            order = order_sql(names, int(SALTS._words[place]))
            ordered = duckdb.from_arrow(table).order(f"{order}, {', '.join(names)}").fetchall()
        else:
            from pyspark.sql import functions as F  # noqa: N812

            from dpsample.private.engine.spark.sorting import order_column

            salt = assignment.salts(Secret(KEY))[place]
            frame = self.session.createDataFrame(rows, names)
            frame = frame.select(*[F.col(n).cast("int") if isinstance(rows[0][0], int) else F.col(n) for n in names])
            ordered = frame.orderBy(order_column([F.col(n) for n in names], salt), *names).collect()
        return [row[0] if len(names) == 1 else tuple(row) for row in ordered]


@pytest.fixture(params=["duckdb", _spark("spark")])
def assigning(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Assigning]:
    if request.param == "duckdb":
        with DuckDB(threads=2) as engine:
            yield Assigning(engine, None, tmp_path)
    else:
        from dpsample.private.engine.spark import Spark

        session = request.getfixturevalue("spark")
        with Spark(session) as started:
            yield Assigning(started, session, tmp_path)


@pytest.fixture
def tied(monkeypatch: pytest.MonkeyPatch) -> None:
    """All hashes are equal: users and keys themselves decide."""
    import dpsample.private.engine.duckdb.numbering
    import dpsample.private.engine.duckdb.sorting

    for module in (dpsample.private.engine.duckdb.numbering, dpsample.private.engine.duckdb.sorting):
        monkeypatch.setattr(module, "order_sql", lambda columns, salt: "7::UBIGINT")
    monkeypatch.setattr(dpsample.private.engine.duckdb.sorting, "mixed", lambda users, salt: users.view(np.uint64))
    from pyspark.sql import functions as F  # noqa: N812

    import dpsample.private.engine.spark.sorting

    monkeypatch.setattr(
        dpsample.private.engine.spark.sorting, "order_column", lambda columns, salt: F.lit(7).cast("bigint")
    )


def zipf(rows: int, users: int, seed: int, largest: int = 60) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.random(rows) ** -1.2, largest).astype(int)
    return list(zip(rng.integers(0, users, rows).tolist(), keys.tolist(), strict=True))


def text_table(pairs: list[tuple[int, int]]) -> tuple[pa.Table, list[tuple[str, str]]]:
    named = [(f"user {u}", f"key {k}") for u, k in pairs]
    return pa.table({"u": [u for u, _ in named], "k": [k for _, k in named]}), named


def test_the_engine_does_what_the_oracle_does(assigning: Assigning) -> None:
    """With repeated rows, one user with all keys, and one key of all users."""
    pairs = zipf(4000, 900, seed=3)
    pairs += [(5000, k) for k in range(61)] + [(u, 1) for u in range(900)] + pairs[:500]
    table, named = text_table(pairs)
    users = assigning.ordered((u for u, _ in named), 0)
    keys = assigning.ordered((k for _, k in named), 1)
    source = assigning.source(table)
    for cap in (1, 18):
        units, sizes = assigning.assigned(source, cap)
        assert units == placed(named, cap, users, keys) == deferred(named, cap, users, keys)
        assert sizes == sizes_of(named)
        assert max(units.values()) == cap


def test_integers(assigning: Assigning) -> None:
    pairs = zipf(3000, 700, seed=4)
    table = pa.table(
        {"u": pa.array([u for u, _ in pairs], pa.int32()), "k": pa.array([k for _, k in pairs], pa.int32())}
    )
    if assigning.session is None:
        users, keys = ordered_integers(pairs)
    else:
        users, keys = assigning.ordered((u for u, _ in pairs), 0), assigning.ordered((k for _, k in pairs), 1)
    units, sizes = assigning.assigned(assigning.source(table), 4)
    assert units == placed(pairs, 4, users, keys)
    assert sizes == sizes_of(pairs)


def ordered_integers(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The orders of 32-bit integers in DuckDB. The hash of a key may depend on the width of its type."""
    from dpsample.private.engine.duckdb.orders import mixed, order_sql

    users = np.array(sorted({u for u, _ in pairs}))
    values = pa.table({"x": pa.array(sorted({k for _, k in pairs}), pa.int32())})
    found = duckdb.from_arrow(values).order(f"{order_sql(['x'], int(SALTS._words[1]))}, x")
    return users[np.argsort(mixed(users, int(SALTS._words[0])))].tolist(), [x for (x,) in found.fetchall()]


@pytest.mark.usefixtures("tied")
def test_users_and_keys_with_equal_hashes_stay_apart(assigning: Assigning) -> None:
    table, named = text_table(zipf(3000, 400, seed=5))
    users, keys = sorted({u for u, _ in named}), sorted({k for _, k in named})
    units, sizes = assigning.assigned(assigning.source(table), 3)
    assert units == placed(named, 3, users, keys)
    assert sizes == sizes_of(named)


@pytest.mark.usefixtures("tied")
def test_a_user_more_changes_one_key_by_one_unit_in_one_job(assigning: Assigning) -> None:
    """300 datasets without each of their users, each with users and keys of its own, in the same order."""
    small = Small(300, 5, 4, seed=11)
    dataset, removed, user, key = np.nonzero(small.has)
    few = small.cap[dataset, 0, 0] == 2
    cells = [row for row, chosen in zip(zip(dataset, removed, user, key, strict=True), few, strict=True) if chosen]
    table = pa.table(
        {"u": [f"{d:03} {r} {u}" for d, r, u, _ in cells], "k": [f"{d:03} {r} {k}" for d, r, _, k in cells]}
    )
    units, _ = assigning.assigned(assigning.source(table), 2)
    oracle = {
        f"{d:03} {r} {k}": int(n) for (d, r, k), n in np.ndenumerate(small.oracle()) if n and small.cap[d, 0, 0] == 2
    }
    assert units == oracle
    for d in range(300):
        for r in range(1, 6):
            change = [units.get(f"{d:03} 0 {k}", 0) - units.get(f"{d:03} {r} {k}", 0) for k in range(4)]
            assert sorted(change) in ([0, 0, 0, 0], [0, 0, 0, 1])


def test_a_prior_order(assigning: Assigning) -> None:
    """Its keys come first, in its order; those that are not in the source, or there twice, change nothing."""
    table, named = text_table(zipf(3000, 500, seed=6))
    first = ["key 7", "key 60", "no such key", "key 1", "key 7"]
    users = assigning.ordered((u for u, _ in named), 0)
    others = [key for key in assigning.ordered((k for _, k in named), 1) if key not in first]
    source = assigning.source(table)
    units, _ = assigning.assigned(source, 5, prior=pa.table({"more": range(5), "k": first}))
    assert units == placed(named, 5, users, ["key 7", "key 60", "key 1", *others])
    with refused("the table of keys has no column"):
        assigning.assigned(source, 5, prior=pa.table({"j": first}))
    with refused("the table of keys has other types than the source"):
        assigning.assigned(source, 5, prior=pa.table({"k": [[1]]}))


@pytest.mark.usefixtures("tied")
def test_several_key_columns_of_many_types(assigning: Assigning) -> None:
    day, moment = datetime.date(2026, 11, 14), datetime.datetime(2026, 11, 14, 12, tzinfo=datetime.UTC)
    rng = np.random.default_rng(7)
    pairs = [
        (
            day + datetime.timedelta(int(u)),
            (f"{a}", int(b), b"\0" * int(c), bool(a % 2), moment + datetime.timedelta(hours=int(c))),
        )
        for u, a, b, c in rng.integers(0, (80, 3, 4, 3), (600, 4))
    ]
    columns = [pa.array(list(column)) for column in zip(*(key for _, key in pairs), strict=True)]
    table = pa.table([pa.array([u for u, _ in pairs], pa.date32()), *columns], ["u", *"abcde"])
    table = table.set_column(5, "e", table["e"].cast(pa.timestamp("us", "UTC")))
    units, sizes = assigning.assigned(assigning.source(table, ["a", "b", "c", "d", "e"]), 2)
    assert units == placed(pairs, 2, sorted({u for u, _ in pairs}), sorted({k for _, k in pairs}))
    assert sizes == sizes_of(pairs)


def test_rows_without_a_user_or_a_key(assigning: Assigning) -> None:
    table = pa.table({"u": ["a", None, "b", "c"], "k": ["x", "secret", "x", None]})
    with refused("the key column 'k' must have no NULL", hidden=["secret"]):
        assigning.assigned(assigning.source(table.filter(table["u"].is_valid())), 2)
    with refused("the user column 'u' must have no NULL", hidden=["secret"]):
        assigning.assigned(assigning.source(table.filter(table["k"].is_valid())), 2)
    units, sizes = assigning.assigned(assigning.source(table, drop_null=True), 2)
    assert (units, sizes[:3], sum(sizes)) == ({"x": 2}, [2, 0, 0], 2)


def test_nobody(assigning: Assigning) -> None:
    nobody = pa.table({"u": pa.array([], pa.string()), "k": pa.array([], pa.string())})
    assert assigning.assigned(assigning.source(nobody), 2) == ({}, [0] * 64)


def test_what_is_refused(assigning: Assigning) -> None:
    table = pa.table({"u": ["a"], "k": ["x"], "f": [0.5]})
    source = assigning.source(table)
    for cap in (0, -1, True, 1.5, 2**62):
        with refused("a key must be full with a whole number of units"):
            assigning.assigned(source, cap)  # type: ignore[arg-type]
    with refused("the column 'w' must be in"):
        assigning.assigned(Source(source.data, "k", user="w"), 2)
    with refused("the source has no user column"):
        assigning.assigned(Source(source.data, "k"), 2)
    with pytest.raises(InvalidValue, match=r"the user column 'f' must be of .* floats"):
        assigning.assigned(Source(source.data, "k", user="f"), 2)


def test_a_user_more_in_any_place_of_the_order() -> None:
    """DuckDB's own orders, 20 datasets, three of their users removed one at a time."""
    rng = np.random.default_rng(8)
    with DuckDB(threads=1) as engine:
        assigning = Assigning(engine, None, Path())
        for n in range(0, 60, 3):
            table, named = text_table(zipf(30 + 5 * n, 10 + n, seed=100 + n, largest=12))
            cap = 1 + n // 3 % 3
            units, _ = assigning.assigned(assigning.source(table), cap)
            for user in rng.choice(sorted({u for u, _ in named}), 3, replace=False).tolist():
                fewer = table.filter(pa.array([u != user for u, _ in named]))
                other, _ = assigning.assigned(assigning.source(fewer), cap)
                change = Counter(units)
                change.subtract(other)
                assert sorted(n for n in change.values() if n) in ([], [1])


@pytest.mark.parametrize("parts", [3, 8])
def test_however_keys_are_numbered(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = text_table(zipf(3000, 500, seed=6))
    prior = pa.table({"k": ["key 7", "key 60", "key 11"]})
    with DuckDB(threads=1) as engine:
        assigning = Assigning(engine, None, Path())
        found = assigning.assigned(assigning.source(table), 5, prior=prior)
        monkeypatch.setattr("dpsample.private.engine.duckdb.numbering.in_parts", lambda work: work(parts))
        assert assigning.assigned(assigning.source(table), 5, prior=prior) == found


@pytest.mark.parametrize("names", [("k",), ("n",), ("n", "k")])
def test_codes_of_hashes_are_those_of_a_join(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are text, integers, or both: units and kept pairs are the same, whichever way codes are found."""
    pairs = zipf(3000, 500, seed=7, largest=900)
    table = pa.table({"u": [u for u, _ in pairs], "n": [k for _, k in pairs], "k": [f"key {k % 99}" for _, k in pairs]})
    wanted, found = table.select(names).group_by(names).aggregate([]).slice(3, 90), []
    for held in (numbering._HELD, 0):
        monkeypatch.setattr(numbering, "_HELD", held)
        with DuckDB(threads=1) as engine:
            source = Source(table, names, user="u")
            after = engine.assigned(source, 4, GivenCoins(SALTS._words), keep_pairs=True)
            assert isinstance(after.pairs.codes, numbering.HashedCodes) == (held > 0)
            units = pa.Table.from_batches(engine.aggregated(after.source)).sort_by([(n, "ascending") for n in names])
            kept = engine.pairs_of(source, wanted, after)
            keys = engine.summed(kept, lambda batches: np.concatenate([keys for _, keys in batches]))
            found.append((units.to_pydict(), np.bincount(keys).tolist()))
    assert found[0] == found[1]
    assert sum(found[0][1]) > 500


@pytest.mark.parametrize("keys", [1, 2, 1000])
def test_codes_of_hashes_are_their_ranks(keys: int) -> None:
    """Hashes that are spread, that differ in their last bits, or that are at either end."""
    rng = np.random.default_rng(keys)
    spread = rng.integers(0, 2**64, keys, np.uint64)
    ends = np.arange(keys, dtype=np.uint64)
    for own in (spread, spread >> np.uint64(40) << np.uint64(20), ends, ~ends):
        hashes = rng.permutation(np.unique(own)).astype(np.uint64)
        codes = HashedCodes.by_hash("keys", "pairs", hashes)
        assert codes is not None
        assert codes.of(hashes).tolist() == [sorted(hashes.tolist()).index(h) for h in hashes.tolist()]
        assert codes.names(codes.of(hashes)).tolist() == hashes.tolist()
        assert repr(codes) == "Codes()"
        for absent in {0, 2**64 - 1, *(h ^ 1 for h in hashes.tolist()[:9])} - {*hashes.tolist()}:
            with refused("the source changed while it was read"):
                codes.of(np.array([hashes[0], absent, hashes[-1]], np.uint64))
    assert HashedCodes.by_hash("keys", "pairs", np.array([5, 9, 5], np.uint64)) is None


def test_the_salts_decide() -> None:
    table, _ = text_table(zipf(3000, 500, seed=6))
    outcomes = []
    with DuckDB(threads=1) as engine:
        for words in ([1, 2], [1, 2], [1, 3], [4, 2]):
            made = engine.assigned(Source(table, "k", user="u"), 3, GivenCoins(np.array(words, np.uint64)))
            rows = pa.Table.from_batches(engine.aggregated(made.source)).sort_by("k").to_pydict()
            outcomes.append(rows)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != outcomes[2]
    assert outcomes[0] != outcomes[3]


def test_every_kind_of_source(tmp_path: Path) -> None:
    """What can be read only once is put into a table first."""
    table, named = text_table(zipf(2000, 300, seed=12))
    duckdb.from_arrow(table).write_csv(str(tmp_path / "t.csv"))
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    found = []
    with DuckDB(threads=1) as engine:
        assigning = Assigning(engine, None, Path())
        for data in (table, tmp_path / "t.csv", reader, duckdb.from_arrow(table)):
            found.append(assigning.assigned(Source(data, "k", user="u"), 3))
        assert assigning.held() == 2  # the stream and the relation
    assert found == 4 * found[:1]
    assert found[0][1] == sizes_of(named)


def test_little_memory(tmp_path: Path) -> None:
    """Pairs that do not fit into memory are divided; the outcome is the same, and nothing is left in the folder."""
    path = tmp_path / "many.parquet"
    duckdb.sql(
        f"COPY (SELECT 'user ' || hash(i) % 200000 AS u, 'a rather long key ' || hash(i + 1) % 50000 AS k "
        f"FROM range(3000000) t(i)) TO '{path}'"
    )
    found = []
    for limit in (None, "300MB"):
        with DuckDB(memory_limit=limit, temp_dir=tmp_path) as engine:
            assigning = Assigning(engine, None, tmp_path)
            found.append(assigning.assigned(Source(path, "k", user="u"), 18, keep_pairs=limit is not None))
    assert found[0] == found[1]
    assert list(tmp_path.iterdir()) == [path]

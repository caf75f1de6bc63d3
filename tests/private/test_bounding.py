"""Users keep so many keys: at most k each, chosen uniformly, whatever the users do."""

import json
import sqlite3
from collections import Counter, defaultdict
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsample import InvalidValue
from dpsample.private.bounding import choose
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.randomness import SecretCoins
from dpsample.private.sources.source import Source
from given_coins import GivenCoins
from support import refused

pytestmark = pytest.mark.chance("certain: how many keys users keep does not depend on which")


def kept(source: Source, limit: int, **options: Any) -> Counter[Any]:
    """The frequencies of what users keep."""
    with DuckDB(**options) as engine:
        bounded = engine.bounded(source, limit, SecretCoins())
        counted: Counter[Any] = Counter()
        for batch in engine.aggregated(bounded):
            *keys, frequency = (column.to_pylist() for column in batch.columns)
            for *key, n in zip(*keys, frequency, strict=True):
                assert key[0] not in counted or len(key) > 1
                counted[key[0] if len(key) == 1 else tuple(key)] = n
        assert engine.total(bounded) == sum(counted.values())
        before = len(engine.run("FROM duckdb_tables()"))
        engine.forget(bounded)
        assert len(engine.run("FROM duckdb_tables()")) == before - 1
        return counted


def seen_by(limit: int, batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in choose(batches, limit, SecretCoins()) for row in batch.to_pylist()]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=12),
    st.integers(1, 6),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_each_user_keeps_the_limit_wherever_batches_end(sizes: list[int], limit: int, ends: list[int]) -> None:
    rows = [(user, user * 100 + n) for user, size in enumerate(sizes) for n in range(size)]
    table = pa.table({"user": [u for u, _ in rows], "key": [k for _, k in rows]})
    cuts = sorted({0, len(rows), *(end for end in ends if end < len(rows))})
    batches = [table.slice(a, b - a).to_batches()[0] for a, b in pairwise(cuts)]
    found = [key for (key,) in seen_by(limit, batches)]
    assert len(set(found)) == len(found)
    assert Counter(key // 100 for key in found) == Counter({u: min(s, limit) for u, s in enumerate(sizes)})
    assert set(found) <= {key for _, key in rows}


@pytest.mark.chance("odds 1e-9: a chi-square of ten pairs")
def test_the_choice_is_uniform() -> None:
    # 60,000 users with the same five keys keep 2: each of ten pairs is multinomial; chi-square, odds 1e-9
    users = 60_000
    table = pa.table({"user": np.repeat(np.arange(users), 5), "key": np.tile(np.arange(5), users)})
    found = seen_by(2, table.to_batches(max_chunksize=70_001))
    pairs = Counter(tuple(sorted((found[i][0], found[i + 1][0]))) for i in range(0, len(found), 2))
    assert len(found) == 2 * users
    counts = [pairs[pair] for pair in combinations(range(5), 2)]
    assert sum(counts) == users
    assert stats.chisquare(counts).pvalue > 1e-9


def test_the_coins_decide() -> None:
    words = np.array([3, 1, 2, 9, 8], np.uint64) << np.uint64(56)
    batch = pa.record_batch({"user": [0, 0, 0, 1, 1], "key": ["a", "b", "c", "a", "b"]})
    found = [row["key"] for out in choose([batch], 1, GivenCoins(words)) for row in out.to_pylist()]
    assert found == ["b", "b"]


def test_ties_are_broken_by_the_key_whatever_the_order_of_rows() -> None:
    """All numbers are equal, as in one pair of 10**14: position depends on other users, and must not decide."""
    rng = np.random.default_rng(4)
    keys = [f"key {n}" for n in range(20)]
    for _ in range(50):
        shuffled = rng.permutation(keys).tolist()
        users = [0] * 3 + [1] * len(keys) + [2] * 2
        batch = pa.record_batch({"user": users, "key": ["x", "y", "z", *shuffled, "x", "y"]})
        coins = GivenCoins(np.zeros(2 * len(users), np.uint64))
        cut = int(rng.integers(1, len(users)))
        kept_keys = [row["key"] for out in choose([batch[:cut], batch[cut:]], 2, coins) for row in out.to_pylist()]
        assert kept_keys == ["x", "y", "key 0", "key 1", "x", "y"]


def test_against_a_slow_count(tmp_path: Path) -> None:
    """With a limit that nobody reaches it is count(DISTINCT user); with a smaller one, no user is in more keys."""
    rng = np.random.default_rng(1)
    users, keys = rng.integers(0, 400, 20_000), (rng.pareto(1, 20_000) * 3).astype(int)
    table = pa.table({"u": [f"user {u}" for u in users], "k": keys})
    pairs = set(zip(users.tolist(), keys.tolist(), strict=True))
    oracle = Counter(k for _, k in pairs)
    duckdb.from_arrow(table).write_parquet(str(tmp_path / "t.parquet"))
    for data in (table, tmp_path / "t.parquet", table.to_pandas()):
        assert kept(Source(data, "k", user="u"), 10_000) == oracle
    of_user = Counter(u for u, _ in pairs)
    for limit in (1, 3, 20):
        found = kept(Source(table, "k", user="u"), limit)
        assert sum(found.values()) == sum(min(n, limit) for n in of_user.values())
        assert all(found[k] <= oracle[k] for k in found)


def test_adversarial_users(tmp_path: Path) -> None:
    """One with two million rows of few keys, one in all of 300,000 keys, one who repeats a row a million times."""
    path = tmp_path / "adversaries.parquet"
    duckdb.sql(
        f"""COPY (
            SELECT 1 AS u, i % 7 AS k FROM range(2000000) t(i)
            UNION ALL SELECT 2, i FROM range(300000) t(i)
            UNION ALL SELECT 3, 5 FROM range(1000000)
            UNION ALL SELECT 10 + i, 5 FROM range(1000) t(i)
        ) TO '{path}'"""
    )
    found = kept(Source(path, "k", user="u"), 10, memory_limit="300MB", temp_dir=tmp_path)
    assert found[5] in (1002, 1003)  # users 1 and 3 and the thousand; user 2 if that key was chosen
    assert sum(found.values()) == 7 + 10 + 1 + 1000
    assert sum(n for k, n in found.items() if k != 5) + found[5] - 1002 == 6 + 10
    assert list(tmp_path.iterdir()) == [path]


def test_one_user_is_in_one_part(tmp_path: Path) -> None:
    """In parts, under a small memory limit, the same as at once."""
    path = tmp_path / "many.parquet"
    duckdb.sql(
        f"COPY (SELECT hash(i) % 100000 AS u, 'key ' || hash(i + 1) % 5000 AS k FROM range(1000000) t(i)) TO '{path}'"
    )
    distinct = f"SELECT count(DISTINCT k) n FROM '{path}' GROUP BY u"
    [(pairs,)] = duckdb.execute(f"SELECT sum(least(n, 4))::BIGINT FROM ({distinct})").fetchall()
    assert sum(kept(Source(path, "k", user="u"), 4, memory_limit="300MB", temp_dir=tmp_path).values()) == pairs


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "sqlite", "stream", "relation"])
def test_every_kind_of_source(form: str, tmp_path: Path) -> None:
    rows = [(u, k) for u in ("ann", "bob", "A'b", "a'b") for k in ("x", "X", "y") for _ in range(2)]
    table = pa.table({"who": [u for u, _ in rows], "what": [k for _, k in rows], "day": ["mon"] * len(rows)})
    options: dict[str, Any] = {}
    data: Any = tmp_path / f"t.{form}"
    if form == "csv":
        duckdb.from_arrow(table).write_csv(str(data))
    elif form == "jsonl":
        data.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif form == "arrow":
        with pa.ipc.new_file(data, table.schema) as writer:
            writer.write_table(table)
    elif form == "stream":
        data = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    elif form == "relation":
        data = duckdb.from_arrow(table)
    else:
        with sqlite3.connect(data) as lite:
            lite.execute("CREATE TABLE t (who TEXT COLLATE NOCASE, what TEXT COLLATE NOCASE, day TEXT)")
            lite.executemany("INSERT INTO t VALUES (?, ?, 'mon')", rows)
        lite.close()
        data, options = f"sqlite:///{data}", {"table": "t"}
    found = kept(Source(data, ["what", "day"], user="who", **options), 3)
    assert found == {("x", "mon"): 4, ("X", "mon"): 4, ("y", "mon"): 4}


def test_rows_without_a_user(tmp_path: Path) -> None:
    table = pa.table({"u": ["a", None, "b"], "k": ["x", "secret", "x"]})
    with refused("the user column 'u' must have no NULL", hidden=["secret"]):
        kept(Source(table, "k", user="u"), 2)
    assert kept(Source(table, "k", user="u", drop_null=True), 2) == {"x": 2}
    nobody = pa.table({"u": pa.array([], pa.string()), "k": pa.array([], pa.string())})
    assert kept(Source(nobody, "k", user="u"), 2) == {}


def test_what_a_user_cannot_be() -> None:
    table = pa.table({"u": [0.5], "k": ["x"], "n": [1]})
    with pytest.raises(InvalidValue, match=r"the user column 'u' must be of .* floats"):
        kept(Source(table, "k", user="u"), 2)
    with refused("the column 'w' must be in"):
        kept(Source(table, "k", user="w"), 2)
    with refused("is both key and user"):
        Source(table, ["k", "U"], user="u")
    with refused("privacy of users needs rows"):
        Source(table, "k", "n", user="u")
    with refused("privacy of users needs rows"):
        Source({"x": 1}, user="u")
    with refused("privacy of users needs a user column"):
        Source(["x"], user="u")
    with refused("user must be the name of a column"):
        Source(table, "k", user=3)  # type: ignore[arg-type]
    with refused("the source has no user column"):
        kept(Source(table, "k"), 2)


def test_neighbours_differ_in_at_most_k_keys_by_one() -> None:
    """With the same coins for all others: a user more adds one to at most k frequencies."""
    rng = np.random.default_rng(2)
    rows: dict[int, set[int]] = defaultdict(set)
    for u, k in zip(rng.integers(0, 50, 2000).tolist(), rng.integers(0, 60, 2000).tolist(), strict=True):
        rows[u].add(k)
    words = rng.integers(0, 2**64, 5000, dtype=np.uint64)

    def count(users: list[int]) -> Counter[int]:
        batches = [pa.record_batch({"user": [u] * len(rows[u]), "key": sorted(rows[u])}) for u in users]
        found = choose(batches, 5, GivenCoins(words))
        return Counter(key for batch in found for key in batch.column("key").to_pylist())

    fewer, all_users = count(list(range(49))), count(list(range(50)))  # the last one's coins come last
    difference = all_users - fewer
    assert not fewer - all_users
    assert sum(difference.values()) == 5
    assert set(difference.values()) == {1}


@pytest.mark.chance("certain: how many keys users keep, and that a key counts once, does not depend on which are kept")
def test_rows_that_repeat_are_one_pair() -> None:
    """A user with the same key in many rows has it once: it counts once, and takes the place of one key."""
    table = pa.table({"user": np.repeat([1, 2], [50, 40]), "key": np.repeat([7, 8, 9], [50, 30, 10])})
    with DuckDB() as engine:
        for limit in (1, 2):
            kept = engine.bounded(Source(table, "key", user="user"), limit, engine.new_coins())
            counted = pa.Table.from_batches(engine.aggregated(kept))
            found = dict(zip(*(counted[name].to_pylist() for name in ("key", "frequency")), strict=True))
            assert set(found.values()) == {1}
            assert len(found) == 1 + limit
            assert 7 in found

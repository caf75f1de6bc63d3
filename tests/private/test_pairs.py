"""Users of wanted keys: each pair once, the rows of a user together, for any kernel and in every engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import InvalidValue, Privacy
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from given_coins import GivenCoins
from pairings import CLASSES, Pairing, assigned, held, keys_of_users, users_of_keys
from pairings import pairing as pairing
from pairings import sorted_once as sorted_once
from support import refused


def oracle(pairs: Iterable[tuple[Any, Any]], wanted: list[Any]) -> tuple[list[int], list[int], list[int]]:
    """What the three kernels return, from sets."""
    position = {key: n for n, key in enumerate(wanted)}
    distinct = {(user, position[key]) for user, key in pairs if key in position}
    users = Counter(n for _, n in distinct)
    numbers = Counter(user for user, _ in distinct)
    weights: Counter[Any] = Counter()
    for user, n in distinct:
        weights[user] += n + 1
    classes = Counter(min(n, CLASSES - 1) for n in numbers.values())
    return (
        [users[n] for n in range(len(wanted))],
        [classes[n] for n in range(CLASSES)],
        [sum(weight**2 for weight in weights.values())],
    )


NOTHING = {"dpsample.lock"}, set[str]()


@contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, place: str) -> Iterator[None]:
    """Within this block a call of a function is interrupted, and so is the block."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            yield


def some_pairs(rows: int, users: int, seed: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.random(rows) ** -1.2, 60).astype(int)
    return [
        (f"user {u}", f"key {k}") for u, k in zip(rng.integers(0, users, rows).tolist(), keys.tolist(), strict=True)
    ]


def as_table(pairs: list[tuple[Any, Any]]) -> pa.Table:
    return pa.table({"u": [u for u, _ in pairs], "k": [k for _, k in pairs]})


def test_the_users_of_wanted_keys(pairing: Pairing) -> None:
    """With repeated rows, a user with all keys, a key of all users, and keys that nobody has."""
    pairs = some_pairs(5000, 800, seed=1)
    pairs += [("all", f"key {k}") for k in range(1, 61)] + [(f"user {u}", "key 2") for u in range(800)] + pairs[:900]
    wanted = ["key 60", "nobody's", "key 2", *(f"key {k}" for k in range(5, 50)), "nobody's either"]
    keys = pa.table({"more": range(len(wanted)), "k": wanted})
    assert pairing.sums(pairing.source(as_table(pairs)), keys) == oracle(pairs, wanted)


def test_integers_and_several_columns(pairing: Pairing) -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, (300, 7, 5), (4000, 3)).tolist()
    table = pa.table({"u": [u for u, _, _ in rows], "a": [a for _, a, _ in rows], "b": [f"b{b}" for _, _, b in rows]})
    wanted = [(a, f"b{b}") for a in (3, 1, 9) for b in (4, 0, 2)]
    # of another type of integers, and in another order of columns
    keys = pa.table({"b": [b for _, b in wanted], "a": pa.array([a for a, _ in wanted], pa.int16())})
    pairs = [(u, (a, f"b{b}")) for u, a, b in rows]
    assert pairing.sums(pairing.source(table, ["a", "b"]), keys) == oracle(pairs, wanted)


def test_no_keys_and_no_users(pairing: Pairing) -> None:
    """The kernel is called all the same, and says how many zeros there are."""
    pairs, empty = some_pairs(50, 9, seed=3), pa.table({"k": pa.array([], pa.string())})
    source = pairing.source(as_table(pairs))
    assert pairing.sums(source, empty) == ([], [0] * CLASSES, [0])
    assert pairing.sums(source, pa.table({"k": ["a", "b", "c"]})) == ([0, 0, 0], [0] * CLASSES, [0])
    nobody = pa.table({"u": pa.array([], pa.string()), "k": pa.array([], pa.string())})
    assert pairing.sums(pairing.source(nobody), pa.table({"k": ["a", "b"]})) == ([0, 0], [0] * CLASSES, [0])


def test_rows_without_a_user_or_a_key(pairing: Pairing) -> None:
    table = pa.table({"u": ["a", None, "b", "c"], "k": ["x", "secret", "x", None]})
    keys = pa.table({"k": ["x", "secret"]})
    with refused("the user column 'u' must have no NULL", hidden=["secret"]):
        pairing.sums(pairing.source(table.filter(table["k"].is_valid())), keys)
    assert pairing.sums(pairing.source(table, drop_null=True), keys)[0] == [2, 0]


def test_what_is_refused(pairing: Pairing) -> None:
    table, keys = pa.table({"u": ["a"], "k": ["x"]}), pa.table({"k": ["x"]})
    source = pairing.source(table)
    with refused("the source has no user column"):
        pairing.sums(Source(source.data, "k"), keys)
    with refused("the table of keys has no column"):
        pairing.sums(source, pa.table({"j": ["x"]}))
    with pytest.raises(InvalidValue, match="the column 'w' must be in"):
        pairing.sums(Source(source.data, "k", user="w"), keys)


@pytest.mark.usefixtures("sorted_once")
@pytest.mark.parametrize("bytes_held", [1 << 24, 1000])
def test_kept_pairs_of_users_and_keys_with_equal_hashes(bytes_held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, and divided until they cannot be."""
    pairs = some_pairs(3000, 400, seed=4)
    keys = [f"key {k}" for k in range(1, 40)]
    monkeypatch.setattr("dpsample.private.engine.duckdb.sorting._HELD", bytes_held)
    for module in ("numbering", "sorting"):
        monkeypatch.setattr(f"dpsample.private.engine.duckdb.{module}.order_sql", lambda *_: "7::UBIGINT")
    with DuckDB(threads=1) as engine:
        pairing = Pairing(engine, None, assigns=True)
        assert pairing.sums(Source(as_table(pairs), "k", user="u"), pa.table({"k": keys})) == oracle(pairs, keys)
        assert held(engine) == NOTHING


@pytest.mark.usefixtures("sorted_once")
@pytest.mark.parametrize("rows", [1, 7, 1 << 17])
def test_users_whose_first_keys_are_not_wanted(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the prior order come first in the file; some users have no others, some have none of them."""
    monkeypatch.setattr("dpsample.private.engine.duckdb.pairs._ROWS", rows)
    pairs = some_pairs(1500, 500, seed=6) + [(f"long {u}", f"key {k}") for u in range(5) for k in range(1, 61)]
    unwanted = [f"key {k}" for k in range(1, 5)]
    keys = [f"key {k}" for k in range(60, 4, -1)]
    has = {user: {key in unwanted for owner, key in pairs if owner == user} for user, _ in pairs}
    assert {frozenset(kinds) for kinds in has.values()} == {frozenset(s) for s in ((True,), (False,), (True, False))}
    with DuckDB(threads=1) as engine:
        pairing, source = Pairing(engine, None, assigns=True), Source(as_table(pairs), "k", user="u")
        assert pairing.sums(source, pa.table({"k": keys}), pa.table({"k": unwanted})) == oracle(pairs, keys)
        assert pairing.sums(source, pa.table({"k": unwanted}), pa.table({"k": keys})) == oracle(pairs, unwanted)


def test_pairs_of_another_source_are_not_used() -> None:
    """Nor those that were forgotten, or that were not kept."""
    some, others = some_pairs(800, 90, seed=8), some_pairs(700, 80, seed=9)
    keys = [f"key {k}" for k in range(1, 9)]
    wanted = pa.table({"k": keys})
    with DuckDB(threads=1) as engine:
        source, other = (Source(as_table(pairs), "k", user="u") for pairs in (some, others))
        kept, forgotten = assigned(engine, source), assigned(engine, other)
        engine.forget(forgotten.source)
        not_kept = engine.assigned(other, 3, GivenCoins(np.array([1, 2], np.uint64)))
        assert not_kept.pairs is None
        for after in (kept, forgotten, not_kept, None):
            pairs = engine.pairs_of(other, wanted, after)
            assert engine.summed(pairs, users_of_keys(8)).tolist() == oracle(others, keys)[0]
            engine.forget_pairs(pairs)
        for made in (kept, not_kept):
            engine.forget(made.source)
        assert held(engine) == NOTHING


def test_nothing_is_left_of_kept_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgotten, closed, or an error: while keys or pairs are sorted, units put aside, wanted pairs written."""
    module = "dpsample.private.engine.duckdb"
    source = Source(as_table(some_pairs(5000, 900, seed=10)), "k", user="u")

    with DuckDB(threads=1, temp_dir=tmp_path) as engine:
        places = ("assignment.Assignment.place", "assignment._source_of", "assignment.number_keys")
        for place in (*places, "numbering.HashedCodes.by_hash", "sorting._distinct_pairs"):
            with interrupted(monkeypatch, f"{module}.{place}"):
                assigned(engine, source)
            assert held(engine) == NOTHING
        after = assigned(engine, source)
        assert tuple(map(len, held(engine))) == (2, 2)  # and the lock; the codes, and the units
        before = held(engine)
        with interrupted(monkeypatch, f"{module}.pairs._cuts"):
            engine.pairs_of(source, pa.table({"k": ["key 1"]}), after)
        assert held(engine) == before
        engine.forget(after.source)
        assert held(engine) == NOTHING
        last = assigned(engine, source)
    assert not list(tmp_path.iterdir())
    engine.forget(last.source)  # which is no error


@pytest.mark.usefixtures("fixed_coins", "sorted_once")
@pytest.mark.parametrize(
    ("discover", "planned"), [("one-key", "users.walk.Terms"), ("many-keys", "engine.duckdb.engine.bounded")]
)
def test_a_release_sorts_pairs_once(discover: Any, planned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nothing with the engine, also when it ends while it is planned or users are counted."""
    popular = [(user, f"key {n}") for user in range(2000) for n in range(3)]
    options = {"user": "u", "privacy": Privacy(1, 1e-6), "discover": discover}

    with DuckDB(threads=1) as engine:
        release = dpsample.release(as_table(popular), "k", engine=engine, **options)
        assert release.table["k"].to_pylist() == ["key 0", "key 1", "key 2"]
        assert held(engine) == NOTHING
        for place in (planned, "users.walk.count_users", "users.counts.Stage"):
            with interrupted(monkeypatch, f"dpsample.private.{place}"):
                dpsample.release(as_table(popular), "k", engine=engine, **options)
            assert held(engine) == NOTHING


def test_equal_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = some_pairs(3000, 400, seed=4)
    keys = [f"key {k}" for k in range(1, 40)]
    monkeypatch.setattr("dpsample.private.engine.duckdb.sorting.order_sql", lambda *_: "7::UBIGINT")
    with DuckDB(threads=1) as engine:
        pairing, source = Pairing(engine, None), Source(as_table(pairs), "k", user="u")
        assert pairing.sums(source, pa.table({"k": keys})) == oracle(pairs, keys)


def test_users_who_are_longer_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsample.private.engine.duckdb.pairs._ROWS", 7)
    pairs = [(f"user {u}", f"key {k}") for u in range(40) for k in range(1 + u)]
    keys = [f"key {k}" for k in range(38)]
    with DuckDB(threads=1) as engine:
        assert Pairing(engine, None).sums(Source(as_table(pairs), "k", user="u"), pa.table({"k": keys})) == oracle(
            pairs, keys
        )


def test_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    """Little memory, a file that is forgotten or not, and an error while pairs are sorted."""
    path = tmp_path / "many.parquet"
    duckdb.sql(f"COPY (SELECT hash(i) % 100000 AS u, hash(i + 1) % 500 AS k FROM range(1000000) t(i)) TO '{path}'")
    keys = pa.table({"k": pa.array(range(250), pa.uint64())})
    counted = f"SELECT k, count(DISTINCT u) FROM '{path}' WHERE k < 250 GROUP BY k ORDER BY k"
    expected = duckdb.execute(counted).fetchall()
    with DuckDB(memory_limit="300MB", temp_dir=tmp_path) as engine:
        pairs = engine.pairs_of(Source(path, "k", user="u"), keys)
        assert engine.summed(pairs, users_of_keys(250)).tolist() == [n for _, n in expected]
        [folder] = [entry for entry in tmp_path.iterdir() if entry.is_dir()]
        assert pairs.data.path.parent == folder
        engine.forget_pairs(pairs)
        assert not pairs.data.path.exists()
        gap = pa.table({"u": ["a", None], "k": pa.array([1, 2], pa.uint64())})
        before = set(folder.iterdir())
        with refused("the user column 'u' must have no NULL"):
            engine.pairs_of(Source(gap, "k", user="u"), keys)
        assert set(folder.iterdir()) == before
        engine.pairs_of(Source(path, "k", user="u"), keys)
    assert list(tmp_path.iterdir()) == [path]
    with refused("the engine is closed"):
        engine.summed(pairs, keys_of_users)

"""Pairs in the order of users and keys: against sorted sets, however they are divided and whatever hashes are equal."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsample.private.engine.duckdb import DuckDB, sorting

# SQL of a hash -> the hash of a user as an integer
HASHES: dict[str, Any] = {
    "u * 9223372036854775837 % 18446744073709551557": lambda u: u * 9223372036854775837 % 18446744073709551557,
    "u % 5": lambda u: u % 5,  # users with equal hashes
    "u % 3 << 61": lambda u: u % 3 << 61,
    "7": lambda u: 7,
    "u": lambda u: u,  # hashes that differ in their last bits only, of which few are left when rows are sorted
}
CODES = 40


def users_and_codes(rows: int) -> list[tuple[int, int]]:
    """Users have many keys or few, and one has half of all rows."""
    rng = np.random.default_rng(rows)
    users = np.where(rng.random(rows) < 0.5, 17, (rng.random(rows) ** -1.5).astype(np.int64) % 300)
    return list(zip(users.tolist(), rng.integers(0, CODES, rows).tolist(), strict=True))


def sorted_by(engine: DuckDB, pairs: list[tuple[int, int]], text: bool) -> list[tuple[bool, int]]:
    table = pa.table({"n": [u for u, _ in pairs], "code": pa.array([c for _, c in pairs], pa.int32())})
    user = "'user ' || printf('%05d', n)" if text else "n"
    rows = f"SELECT {user} AS u, code FROM pairs"
    batches = sorting.sorted_pairs(engine, rows, {"pairs": lambda: table}, 0, CODES)
    return [row for begins, codes in batches for row in zip(begins.tolist(), codes.tolist(), strict=True)]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("hashed", HASHES)
@pytest.mark.parametrize("held", [1 << 24, 10_000, 100])
def test_pairs_are_sorted_once_each(held: int, hashed: str, text: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held in memory, divided, divided twice; with 100 bytes even one user is too long, and repeated pairs go first."""
    number = "u::HUGEINT" if not text else "replace(u, 'user ', '')::HUGEINT"
    monkeypatch.setattr(sorting, "order_sql", lambda *_: f"({hashed.replace('u', number)})::UBIGINT")
    monkeypatch.setattr(sorting, "_HELD", held)
    monkeypatch.setattr(sorting, "_ROWS", 500)
    with DuckDB(threads=1) as engine:
        for rows in (0, 1, 2, 3000):
            pairs = users_and_codes(rows)
            users = sorted({u for u, _ in pairs}, key=lambda u: (HASHES[hashed](u), u))
            keys = {u: sorted({c for v, c in pairs if v == u}) for u in users}
            oracle = [(n == 0, code) for u in users for n, code in enumerate(keys[u])]
            assert sorted_by(engine, pairs, text) == oracle


def test_work_that_needs_more_parts() -> None:
    tried = list[int]()

    def scarce(parts: int) -> str:
        tried.append(parts)
        if parts < 16:
            raise duckdb.OutOfMemoryException("Out of Memory Error: made up")
        return "done"

    def too_large(parts: int) -> None:
        raise duckdb.OutOfMemoryException("Out of Memory Error: made up")

    assert sorting.in_parts(scarce) == "done"
    assert tried == [1, 4, 16]
    with pytest.raises(duckdb.OutOfMemoryException):
        sorting.in_parts(too_large)

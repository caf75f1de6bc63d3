"""Pairs in the order of users and keys: against sorted sets, however they are divided and whatever hashes are equal."""

import tracemalloc
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dpsample.private.engine.duckdb import DuckDB, orders, sorting

# numbers of users that are integers, one to one
MIXED: dict[str, Any] = {
    "mixed": lambda u, salt: u * 0x9E3779B97F4A7C15 % 2**64,
    "u": lambda u, salt: u,  # numbers that differ in their last bits only, of which few are left when rows are sorted
}
# SQL of a hash -> the hash of a user
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


@pytest.mark.parametrize("hashed", HASHES)
@pytest.mark.parametrize("held", [1 << 24, 10_000, 100])
def test_pairs_are_sorted_once_each(held: int, hashed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held in memory, divided, divided twice; with 100 bytes even one user is too long, and repeated pairs go first."""
    number = "replace(u, 'user ', '')::HUGEINT"
    monkeypatch.setattr(sorting, "order_sql", lambda *_: f"({hashed.replace('u', number)})::UBIGINT")
    check_order(held, lambda u: (HASHES[hashed](u), u), monkeypatch, text=True)


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("held", [1 << 24, 10_000, 100])
def test_pairs_of_integers_are_sorted_once_each(held: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of users that are integers, which have no hashes."""

    def numbers(users: Any, salt: int) -> Any:
        return np.array([MIXED[name](int(u), salt) for u in users], np.uint64)

    monkeypatch.setattr(sorting, "mixed", numbers)
    check_order(held, lambda u: MIXED[name](u, 0), monkeypatch, text=False)


def check_order(held: int, order: Any, monkeypatch: pytest.MonkeyPatch, text: bool) -> None:
    monkeypatch.setattr(sorting, "_HELD", held)
    monkeypatch.setattr(sorting, "_ROWS", 500)
    with DuckDB(threads=1) as engine:
        for rows in (0, 1, 2, 3000):
            pairs = users_and_codes(rows)
            users = sorted({u for u, _ in pairs}, key=order)
            keys = {u: sorted({c for v, c in pairs if v == u}) for u in users}
            oracle = [(n == 0, code) for u in users for n, code in enumerate(keys[u])]
            assert sorted_by(engine, pairs, text) == oracle


def test_divided_pairs_in_a_file_leave_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,600,000 pairs, 9 bytes each, 40,000 are held at once; what is in the file is not in memory too."""
    monkeypatch.setattr(sorting, "_ROWS", 40_000)
    rows = "SELECT i // 8 AS u, i % 8 AS code FROM range(1600000) t(i)"
    peaks = []
    with DuckDB(threads=1) as engine:
        for held in (360_000, 360_000, 1 << 24):  # the first time modules are imported
            monkeypatch.setattr(sorting, "_HELD", held)
            peaks.append(peak_of(engine, rows))
    assert peaks[1] < 7_000_000 < 14_400_000 < peaks[2]  # all pairs are 14.4 MB


def peak_of(engine: DuckDB, rows: str) -> int:
    """Sort 1,600,000 pairs; return the most bytes that NumPy and Arrow held, one after the other."""
    before, arrow = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        pairs = 0
        for _, codes in sorting.sorted_pairs(engine, rows, {}, 5, CODES):
            pairs += len(codes)
            arrow = max(arrow, pa.total_allocated_bytes() - before)
        assert pairs == 1_600_000
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


def unmixed(number: int, salt: int) -> int:
    """The steps of `mixed` undone, in integers of any size."""

    def unshifted(x: int, shift: int) -> int:
        whole, part = x, x >> shift
        while part:
            whole ^= part
            part >>= shift
        return whole

    number = unshifted(number, 31)
    for shift, factor in ((27, 0x94D049BB133111EB), (30, 0xBF58476D1CE4E5B9)):
        number = unshifted(number * pow(factor, -1, 2**64) % 2**64, shift)
    return number ^ salt


@pytest.mark.parametrize("salt", [0, 1, 2**63 + 12345, 2**64 - 1])
def test_mixed_numbers_can_be_undone(salt: int) -> None:
    """So no two users have the same, however they are numbered."""
    rng = np.random.default_rng(4)
    users = np.append(rng.integers(-(2**63), 2**63 - 1, 1000), [0, 1, -1, 2**63 - 1, -(2**63)])
    numbers = orders.mixed(users, salt)
    assert [unmixed(int(n), salt) for n in numbers] == [int(u) % 2**64 for u in users]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_of_every_type_are_told_apart(kind: pa.DataType) -> None:
    """The least and the largest number of a type, and those around zero."""
    bits = kind.bit_width
    ends = [0, 2**bits - 1] if pa.types.is_unsigned_integer(kind) else [-(2 ** (bits - 1)), -1, 2 ** (bits - 1) - 1]
    users = sorted({*ends, 0, 1, 2})
    table = pa.table(
        {"u": pa.array(users * 2, kind), "code": pa.array([5] * len(users) + [3] * len(users), pa.int32())}
    )
    with DuckDB(threads=1) as engine:
        batches = list(sorting.sorted_pairs(engine, "SELECT u, code FROM pairs", {"pairs": lambda: table}, 9, CODES))
    found = [row for begins, codes in batches for row in zip(begins.tolist(), codes.tolist(), strict=True)]
    assert found == [(True, 3), (False, 5)] * len(users)


def test_work_that_needs_more_parts() -> None:
    tried = list[int]()

    def scarce(parts: int) -> str:
        tried.append(parts)
        if parts < 16:
            raise duckdb.OutOfMemoryException("Out of Memory Error: made up")
        return "done"

    def too_large(parts: int) -> None:
        raise duckdb.OutOfMemoryException("Out of Memory Error: made up")

    assert orders.in_parts(scarce) == "done"
    assert tried == [1, 4, 16]
    with pytest.raises(duckdb.OutOfMemoryException):
        orders.in_parts(too_large)

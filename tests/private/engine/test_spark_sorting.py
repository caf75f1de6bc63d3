"""Packed batches of users and keys, and wanted keys in them: what workers of Spark do, here without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsample.accounting.amounts import amounts_of
from dpsample.private.engine.spark import sorting
from dpsample.private.engine.spark.pairs import Positions, _read, _selecting
from dpsample.private.engine.spark.sorting import packing, unpacked

AMOUNTS = amounts_of(3, {"price": (0, 50)})  # no amount below 0 is looked at
Row = tuple[int, str, int, str, int, int, int, int]  # h, u, kh, k0, k1, mark, a0, a1


def rows(n: int, users: int, seed: int) -> list[Row]:
    """Rows in the order of the hashes of their users, of which some are equal; one user has a third of all rows."""
    rng = np.random.default_rng(seed)
    hashes = rng.integers(-(2**63), 2**63 - 1, users // 2).tolist()
    made: list[Row] = []
    for _ in range(n):
        user = int(rng.integers(0, users)) if rng.random() < 2 / 3 else 0
        a, b = f"a{rng.integers(0, 6)}", int(rng.integers(0, 5))
        h, kh = hashes[user % len(hashes)], (len(a) * 7 + b) % 3  # few, so that keys decide too
        made.append((h, f"user {user}", kh, a, b, user * 2**33 - 5, 1, int(rng.integers(-90, 91))))
    return sorted(made, key=lambda row: row[0])


def batches(made: list[Row], size: int, amounts: bool) -> list[pa.RecordBatch]:
    names = ["h", "u", "kh", "k0", "k1", *(["mark", "a0", "a1"] if amounts else [])]
    columns = dict(zip(names, zip(*made, strict=True), strict=False))
    table = pa.table({name: list(column) for name, column in columns.items()})
    return [pa.record_batch(table.slice(0, 0).to_pydict(), schema=table.schema), *table.to_batches(max_chunksize=size)]


@pytest.mark.parametrize("amounts", [False, True], ids=["pairs", "amounts"])
@pytest.mark.parametrize(("size", "held"), [(1, 1 << 18), (7, 20), (1000, 1 << 18), (1000, 20)])
def test_each_pair_once_in_the_order_of_users_and_keys(
    size: int, held: int, amounts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever batches Spark makes of rows, and however few rows of a user are held; against sorted Python tuples."""
    monkeypatch.setattr(sorting, "_HELD", held)
    made, kinds = rows(1000, 120, seed=size), AMOUNTS if amounts else ()
    packed = list(packing(2, kinds)(iter(batches(made, size, amounts))))
    assert all(one.num_rows == 1 for one in packed)
    packed.sort(key=lambda one: (one.column("bucket")[0].as_py(), one.column("number")[0].as_py()))
    found = list[tuple[Any, ...]]()
    for keys, (begins, codes, *more) in unpacked(iter(packed), 3 * amounts):
        assert begins[0]  # no batch cuts a user
        names = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        assert len(set(names)) == len(names)
        columns = (column.tolist() for column in more)
        found += zip(begins.tolist(), (names[code] for code in codes), *columns, strict=True)
    expected, last = list[tuple[Any, ...]](), ""
    for (_, user, _, a, b), same in groupby(sorted(made), key=lambda row: row[:5]):
        each = list(same)
        sums = [each[0][5] % 2**32, sum(row[6] for row in each), sum(row[7] for row in each)] if amounts else []
        limits = [(0, 2**32), *(amount.looked_at for amount in kinds)]
        clipped = (max(least, min(most, value)) for value, (least, most) in zip(sums, limits, strict=False))
        expected.append((user != last, (a, b), *clipped))
        last = user
    assert found == expected


def test_wanted_keys_of_each_user() -> None:
    """A user begins at the first wanted key; those who have none are not there. Against sets."""
    made = rows(1000, 120, seed=3)
    wanted = [("a4", 2), ("a0", 0), ("a5", 9), ("none", 1), ("a1", 4)]
    table = pa.table({"k0": [a for a, _ in wanted], "k1": [b for _, b in wanted], "position": range(5)})
    packed = packing(2, ())(iter(batches(made, 100, False)))
    selected = _selecting(table, 0)(packed)
    has = [own.tolist() for starts, positions in _read(selected, 5, 0) for own in np.split(positions, starts[1:])]
    truth = dict[str, set[int]]()
    for _, user, _, a, b, *_ in made:
        if (a, b) in wanted:
            truth.setdefault(user, set()).add(wanted.index((a, b)))
    assert sorted(map(sorted, has)) == sorted(map(sorted, truth.values()))


def test_keys_of_every_type_are_found() -> None:
    """Also in columns of other widths and time zones than the wanted ones, as Spark sends them."""
    moments = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]
    values: dict[str, tuple[list[Any], pa.DataType, pa.DataType]] = {
        "text": (["x", "y", ""], pa.string(), pa.large_string()),
        "bytes": ([b"\0", b"", b"\0\0"], pa.binary(), pa.binary()),
        "moment": (moments, pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Athens")),
        "decimal": ([Decimal("1.5"), Decimal("2.5"), Decimal("-1.5")], pa.decimal128(9, 1), pa.decimal128(9, 1)),
        "boolean": ([True, False, True], pa.bool_(), pa.bool_()),
        "number": ([7, 8, 9], pa.int64(), pa.int32()),
    }
    wanted = {f"k{i}": pa.array(column, kind) for i, (column, kind, _) in enumerate(values.values())}
    index = Positions(pa.table({**wanted, "position": [12, 10, 11]}))
    places = [2, 0, 1, 0]
    keys = {name: pa.array([column[place] for place in places], kind) for name, (column, _, kind) in values.items()}
    assert index.of(pa.record_batch(keys)).tolist() == [11, 12, 10, 12]
    for name, (column, _, kind) in values.items():  # one column differs: another wanted key's value
        if name != "boolean":
            other = pa.record_batch({**keys, name: pa.array([column[(place + 1) % 3] for place in places], kind)})
            assert index.of(other).tolist() == [-1] * 4
    nothing = Positions(pa.table({"k0": pa.array([], pa.string()), "position": pa.array([], pa.int64())}))
    assert nothing.of(pa.record_batch({"k0": ["x", "y"]})).tolist() == [-1, -1]

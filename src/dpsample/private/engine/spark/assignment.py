"""Serial assignment: Spark brings all pairs to one task and sorts them; one pass over them places the units."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from dpsample.private.assignment import SIZES, Assignment, Sizes, salts
from dpsample.private.derived_coins import Secret, encoded
from dpsample.private.engine.spark.frames import Frame, small
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]


def assigned(made: Frame, cap: int, secret: Secret, prior: Any | None, prior_keys: int) -> Any:
    """Let each user give one unit to one of their keys: a DataFrame of k0, k1, ..., frequency and sizes.

    u, k0, k1, ... -> one task, sorted by the order of users, then by that of keys -> k0, k1, ..., frequency, and one
    more row: sizes

    Rows are sorted by all that tells them apart, and the salts follow from the secret: a task that is run again places
    the same units. The salts are in Spark's plan, since the orders need not be secret.
    """
    user_salt, key_salt = salts(secret)
    rows, places = made.all_pairs(), []
    if prior is not None:  # a key that has no position there comes after all that have one
        rows = rows.join(small(prior, prior_keys), on=made.names, how="left")
        places = [F.coalesce("position", F.lit(prior_keys)).alias("place")]
    user_order = order_column([F.col("u")], user_salt).alias("h")
    key_order = order_column([F.col(name) for name in made.names], key_salt).alias("kh")
    pairs = rows.select(user_order, "u", *places, key_order, *made.names)
    ordered = pairs.repartition(1).sortWithinPartitions(*pairs.columns).select("u", *made.names)
    return ordered.mapInArrow(_place(cap), made.fields(frequency="long", sizes="binary"))


def order_column(columns: list[Any], salt: int) -> Any:
    """Return the salted hash by which users or keys are ordered; what has equal hashes is ordered by itself."""
    return F.xxhash64(F.lit(salt - (1 << 63)), *columns)


def units_of(made: Frame, kept: Any) -> Frame:
    """Return the units of keys as a source with frequencies: all rows but that of the sizes, which has no key."""
    data, keys = kept.select(*made.names, "frequency"), [F.col(name) for name in made.names]
    return replace(made, data=data, keys=keys, frequency=F.col("frequency"), user=None, drop_null=True, part=None)


def sizes_of(kept: Any) -> Ints:
    """Return the numbers of users by their number of keys, and of their keys."""
    rows = kept.filter(F.col("sizes").isNotNull()).select("sizes").collect()
    found = sum((np.frombuffer(bytes(row[0]), "<i8") for row in rows), start=np.zeros(2 * SIZES, np.int64))
    return found.reshape(2, SIZES)


def _place(cap: int) -> Callable[[Batches], Batches]:
    def place_units(batches: Batches) -> Batches:
        units, sizes = Units(cap), Sizes()
        held: pa.RecordBatch | None = None  # the last row
        names: list[str] = []
        for piece in batches:
            if not piece.num_rows:
                continue
            if held is not None:
                [piece] = pa.Table.from_batches([held, piece]).combine_chunks().to_batches()
            names = piece.schema.names[1:]
            users, keys = piece.column(0), piece.select(names)
            codes, firsts = coded(keys)
            begins = np.append(held is None, pc.not_equal(users[1:], users[:-1]).to_numpy(zero_copy_only=False))
            kept = begins | np.append(held is None, codes[1:] != codes[:-1])
            sizes.add(begins[kept])
            units.place(begins[kept], codes[kept], keys.take(pa.array(firsts)))
            held = piece.slice(piece.num_rows - 1)
        for keys in units.batches():
            yield keys.append_column("sizes", pa.nulls(keys.num_rows, pa.binary()))
        if held is not None:
            nothing = [pa.nulls(1, column.type) for column in held.columns[1:]]
            counts = pa.array([sizes.counts().astype("<i8").tobytes()], pa.binary())
            yield pa.RecordBatch.from_arrays(
                [*nothing, pa.nulls(1, pa.int64()), counts], [*names, "frequency", "sizes"]
            )

    return place_units


class Units:
    """The keys that took units so far, and how many. Keys are told apart by all their bytes, never by a hash alone."""

    def __init__(self, cap: int) -> None:
        self._cap, self._assignment = cap, Assignment()
        self._units: dict[bytes, int] = {}
        self._keys: list[pa.RecordBatch] = []  # in the order of `_units`

    def place(self, begins: Any, codes: Ints, keys: pa.RecordBatch) -> None:
        """Place the units of some users; codes are positions in these keys."""
        names = encoded(keys)
        room = np.array([self._cap - self._units.get(name, 0) for name in names], np.int64)
        before = room.copy()
        self._assignment.place(begins, codes, room)
        changed = np.flatnonzero(room != before)
        new = [place for place in changed.tolist() if names[place] not in self._units]
        for place in changed.tolist():
            self._units[names[place]] = self._cap - int(room[place])
        if new:
            self._keys.append(keys.take(pa.array(new)))

    def batches(self) -> Batches:
        """Yield the keys, and the units of each as its frequency."""
        units = np.array(list(self._units.values()), np.int64)
        start = 0
        for keys in self._keys:
            yield keys.append_column("frequency", pa.array(units[start : start + keys.num_rows]))
            start += keys.num_rows


def coded(keys: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Number the distinct rows of a batch: the number of each row, and the first row of each number."""
    codes = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        values = pc.dictionary_encode(column)
        mixed = codes * len(values.dictionary) + values.indices.to_numpy()
        _, firsts, codes = np.unique(mixed, return_index=True, return_inverse=True)
    return codes, firsts

"""Serial assignment: many tasks sort the pairs (`sorting`); one task passes over them and places the units."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from dpsample.private.assignment import SIZES, Assignment, Flags, Sizes
from dpsample.private.derived_coins import encoded
from dpsample.private.engine.spark.frames import Frame, small
from dpsample.private.engine.spark.sorting import PACKED, packing, sorted_rows, unpacked
from dpsample.scheme.sampling import Ints

Batches = Iterator[pa.RecordBatch]


def all_pairs(made: Frame, salts: tuple[int, int], prior: Any | None, prior_keys: int) -> Any:
    """Sort all pairs by the order of users, then by that of keys: a DataFrame of packed batches.

    The salts are those of the two orders. `prior` is a DataFrame of keys that come first, with their positions, and
    `prior_keys` their number.

    Rows are sorted by all that tells them apart, and the salts follow from the secret: a task that is run again sorts
    the same. The salts are in Spark's plan, since the orders need not be secret.
    """
    rows = made.all_pairs()
    if prior is not None:
        # a key that has no position there comes after all that have one
        placed = rows.join(small(prior, prior_keys), on=made.names, how="left")
        place = F.coalesce("position", F.lit(prior_keys)).alias("place")
        rows = placed.select(*rows.columns, place)
    pack = packing(len(made.names), made.amounts)
    return sorted_rows(made, rows, salts).mapInArrow(pack, PACKED)


def assigned(made: Frame, pairs: Any, cap: int) -> Any:
    """Let each user give one unit to one of their keys: a DataFrame of k0, k1, ..., frequency and sizes.

    packed batches -> one task, in order -> k0, k1, ..., frequency, and one more row: sizes
    """
    ordered = pairs.repartition(1).sortWithinPartitions("bucket", "number")
    return ordered.mapInArrow(_place(cap, made.more), made.fields(frequency="long", sizes="binary"))


def units_of(made: Frame, kept: Any) -> Frame:
    """Return the units of keys as a source with frequencies: all rows but that of the sizes, which has no key."""
    return replace(
        made,
        data=kept.select(*made.names, "frequency"),
        keys=[F.col(name) for name in made.names],
        frequency=F.col("frequency"),
        user=None,
        drop_null=True,
        part=None,
    )


def sizes_of(kept: Any) -> tuple[Ints, int]:
    """Return the numbers of users by their number of keys, and of their keys; and how many users gave a unit."""
    packed_sizes = F.first("sizes", ignorenulls=True)
    [(packed, units)] = kept.agg(packed_sizes, F.sum("frequency")).collect()
    sizes = np.zeros(2 * SIZES, np.int64)
    if packed is not None:
        sizes = np.frombuffer(bytes(packed), "<i8")
    return sizes.reshape(2, SIZES), int(units or 0)


def _place(cap: int, more: int) -> Callable[[Batches], Batches]:
    """Return what places the units of users in packed batches, with `more` columns beside the pairs."""

    def place_units(batches: Batches) -> Batches:
        units = Units(cap)
        sizes = Sizes()
        schema: pa.Schema | None = None
        for keys, (begins, codes, *_) in unpacked(batches, more):
            schema = keys.schema
            sizes.add(begins)
            units.place(begins, codes, keys)
        for keys in units.batches():
            yield keys.append_column("sizes", pa.nulls(keys.num_rows, pa.binary()))
        if schema is not None:
            no_key = [pa.nulls(1, kind) for kind in schema.types]
            packed = sizes.counts().astype("<i8").tobytes()
            columns = [*no_key, pa.nulls(1, pa.int64()), pa.array([packed], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, [*schema.names, "frequency", "sizes"])

    return place_units


class Units:
    """The keys that took units so far, and how many. Keys are told apart by all their bytes, never by a hash alone."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._assignment = Assignment()
        self._units: dict[bytes, int] = {}
        self._keys: list[pa.RecordBatch] = []  # in the order of `_units`

    def place(self, begins: Flags, codes: Ints, keys: pa.RecordBatch) -> None:
        """Place the units of some users; codes are positions in these keys."""
        names = encoded(keys)
        units = [self._units.get(name, 0) for name in names]
        before = self._cap - np.array(units, np.int64)
        room = before.copy()
        self._assignment.place(begins, codes, room)
        changed = np.flatnonzero(room != before).tolist()
        new = [place for place in changed if names[place] not in self._units]
        for place in changed:
            self._units[names[place]] = self._cap - int(room[place])
        if new:
            self._keys.append(keys.take(pa.array(new)))

    def batches(self) -> Batches:
        """Yield the keys, and the units of each as its frequency."""
        units = np.array(list(self._units.values()), np.int64)
        start = 0
        for keys in self._keys:
            end = start + keys.num_rows
            yield keys.append_column("frequency", pa.array(units[start:end]))
            start = end

"""How sources look from inside Spark: a DataFrame of checked rows, with the columns k0, k1, ... and f."""

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from dpsample.accounting.amounts import Amount
from dpsample.exact import MAX_FREQUENCY
from dpsample.private.engine.spark.columns import (
    in_part,
    key_column,
    raised,
    units_of_amount,
    whole_frequency,
)
from dpsample.private.engine.spark.reading import read_files
from dpsample.private.sources.rules import refusal_on_spark
from dpsample.private.sources.source import Source

# The most keys that are sent to every worker; more are joined by a shuffle.
_BROADCAST = 5 * 10**6


@dataclass(frozen=True)
class Frame:
    """A source as Spark has it: a DataFrame, and columns of it that are read.

    data       a DataFrame of c0, c1, ...: the columns to read, in order
    schema     the key columns, under their own names
    types      their types, as Spark calls them
    keys       the key columns
    frequency  a column of whole numbers, which refuses other values when it is computed
    user       a column, and its type
    part       a column: whether a row is in the part that is read; other rows are not in `data`
    units      columns of a row's amounts as whole numbers
    """

    data: Any
    schema: pa.Schema
    types: list[T.DataType]
    keys: list[Any]
    frequency: Any | None
    drop_null: bool
    user: tuple[Any, T.DataType] | None = None
    part: Any | None = None
    amounts: tuple[Amount, ...] = ()
    units: tuple[Any, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the key columns in `rows`."""
        return [f"k{i}" for i in range(len(self.keys))]

    @property
    def repeatable(self) -> bool:
        """Whether Spark takes the rows to be the same each time; over Spark Connect it does not tell."""
        rows = getattr(self.data, "_jdf", None)
        if rows is None:
            return True
        plan = rows.queryExecution().analyzed()
        return bool(plan.deterministic())

    @property
    def amount_names(self) -> list[str]:
        """The names of the units in `all_pairs`."""
        return [f"a{i}" for i in range(len(self.amounts))]

    @property
    def more(self) -> int:
        """The number of columns that pairs have beside user and key: marks and amounts."""
        return 1 + len(self.amounts) if self.amounts else 0

    def fields(self, **more: str) -> T.StructType:
        """The key columns and some more, as Spark describes them; `more` has types by name."""
        fields = T.StructType()
        for name, kind in zip(self.names, self.types, strict=True):
            fields = fields.add(name, kind)
        for name, named in more.items():
            fields = fields.add(name, named)
        return fields

    def rows(self, drop_null: bool | None = None) -> Any:
        """The checked rows: k0, k1, ... and, unless they are raw, f.

        `drop_null` says whether rows with a NULL are left out, if it is not what the source says.
        """
        checked = self._checked(self.drop_null if drop_null is None else drop_null)
        columns = self._named
        if self.frequency is not None:
            columns = [*columns, self.frequency.alias("f")]
        return checked.select(*columns)

    def pairs(self) -> Any:
        """Each pair of a user and a key once: u, k0, k1, ..."""
        return self.all_pairs().select("u", *self.names).distinct()

    def all_pairs(self) -> Any:
        """The pairs of users and keys, with repetitions, and the units of amounts: u, k0, k1, ..., a0, a1, ..."""
        assert self.user is not None
        user, _ = self.user
        # a frame whose amounts are left out has units still
        named = zip(self.units, self.amount_names, strict=False)
        units = [column.alias(name) for column, name in named]
        return self._checked(self.drop_null).select(user.alias("u"), *self._named, *units)

    def total(self) -> Any:
        """The number of elements, as the only row."""
        if self.frequency is None:
            return self.rows().agg(F.count(F.lit(1)))
        frequency = F.col("f").cast("decimal(28,0)")
        return self.rows().agg(F.sum(frequency))

    @property
    def _named(self) -> list[Any]:
        """The key columns, called k0, k1, ..."""
        return [key.alias(name) for key, name in zip(self.keys, self.names, strict=True)]

    def _checked(self, drop: bool) -> Any:
        """The rows without NULL, by a condition for each column; others are left out if `drop`, and else refused.

        One condition on n columns, which get other names later, can be written in 2**n ways, and Spark's optimizer
        writes them all.
        """
        needed = [(key, f"null:{place}") for place, key in enumerate(self.keys)]
        if self.user is not None:
            user, _ = self.user
            needed.append((user, f"nobody:{len(self.keys)}"))
        rows = self.data
        for column, code in needed:
            if drop:
                rows = rows.filter(column.isNotNull())
                continue
            fault = column.isNull()
            if self.part is not None:
                fault = self.part & fault  # Spark may apply this filter before that of the part
            rows = rows.filter(F.when(fault, raised(code)).otherwise(True))
        return rows

    def grouped(self, rows: Any, once: bool = False) -> Any:
        """Each key of some rows once, with its frequency; with `once`, a key in several rows is refused."""
        groups = rows.groupBy(*self.names)
        number = F.count(F.lit(1))
        if self.frequency is None:
            return groups.agg(number.alias("frequency"))
        exact = F.sum(F.col("f").cast("decimal(19,0)"))
        counted = groups.agg(exact.alias("total"), number.alias("n"))
        total = F.col("total")
        is_too_large = total > F.lit(MAX_FREQUENCY)
        is_kept = F.when(is_too_large, raised("sum")).otherwise(total > 0)
        if once:
            is_kept = F.when(F.col("n") > 1, raised("twice")).otherwise(is_kept)
        frequency = total.cast("bigint").alias("frequency")
        return counted.filter(is_kept).select(*self.names, frequency)

    def with_known(self, counted: Any, known: Any, size: int, only: bool) -> Any:
        """Counted keys, and those of the DataFrame `known` that were not counted, with frequency 0.

        With `only`, others than known keys are left out. `size` is the number of known keys.
        """
        listed = known.withColumn("listed", F.lit(True))
        if only:
            counted = counted.join(small(known, size), on=self.names, how="left_semi")
        joined = counted.join(listed, on=self.names, how="full")
        frequency = F.coalesce("frequency", F.lit(0).cast("bigint"))
        is_known = F.coalesce("listed", F.lit(False))
        return joined.select(*self.names, frequency.alias("frequency"), is_known.alias("known"))

    def restricted(self, keys: Any, size: int, outside: bool) -> "Frame":
        """The rows of the keys of a DataFrame of k0, k1, ..., or of all others; rows with a NULL key stay.

        `size` is the number of keys.
        """
        is_key = [key == F.col(name) for key, name in zip(self.keys, self.names, strict=True)]
        given = small(keys, size)
        if outside:
            others = self.data.join(given, on=is_key, how="left_anti")
            return replace(self, data=others)
        rows = self.data.join(given, on=is_key, how="left_semi")
        has_null = F.lit(False)
        for key in self.keys:
            has_null = has_null | key.isNull()
        with_null = self.data.filter(has_null)
        return replace(self, data=rows.unionAll(with_null))

    def wanted(self, keys: Any, size: int) -> Any:
        """The rows of the distinct keys of a DataFrame of k0, k1, ...; what is refused is passed over."""
        rows = self.rows(drop_null=True)
        return rows.join(small(keys, size), on=self.names, how="left_semi")


def small(keys: Any, size: int) -> Any:
    """A DataFrame of some keys, which every worker gets if they are few enough."""
    return F.broadcast(keys) if size <= _BROADCAST else keys


def frame(source: Source, session: Any) -> Frame:
    """Look at a source: its columns are there once, and of types that can be compared and counted."""
    if source.computes:
        raise refusal_on_spark()
    data = source.data if source.kind == "frame" else read_files(source, session)
    names = list(data.columns)
    source.require(names)
    kinds = [field.dataType for field in data.schema.fields]
    type_of = dict(zip(names, kinds, strict=True))
    column_of = {name: F.col(f"c{place}") for place, name in enumerate(source.columns)}
    data = _chosen(data, [names.index(name) for name in source.columns])

    columns = list[Any]()
    types = list[T.DataType]()
    arrow_types = list[pa.DataType]()
    for name in source.key_columns:
        key = key_column(name, column_of[name], type_of[name])
        columns.append(key.column)
        types.append(key.kind)
        arrow_types.append(key.arrow)

    frequency = user = part = None
    if source.frequency is not None:
        name = source.frequency
        place = source.columns.index(name)
        frequency = whole_frequency(name, f"c{place}", type_of[name])
    if source.user is not None:
        name = source.user
        own = key_column(name, column_of[name], type_of[name], "user")
        user = (own.column, own.kind)
    if source.part is not None:
        name = source.part.name
        part = in_part(source.part, column_of[name], type_of[name])
        data = data.filter(part)
    units = list[Any]()
    for amount in source.amounts:
        if amount.column is None:
            units.append(F.lit(1).cast("bigint"))
        else:
            name = amount.column
            units.append(units_of_amount(amount, column_of[name], type_of[name]))
    schema = pa.schema(list(zip(source.key, arrow_types, strict=True)))
    return Frame(
        data=data,
        schema=schema,
        types=types,
        keys=columns,
        frequency=frequency,
        drop_null=source.drop_null,
        user=user,
        part=part,
        amounts=source.amounts,
        units=tuple(units),
    )


def _chosen(data: Any, places: list[int]) -> Any:
    """Return columns of a DataFrame by their places, as c0, c1, ...: Spark does not tell upper from lower case."""
    by_place = data.toDF(*[f"x{place}" for place in range(len(data.columns))])
    chosen = [F.col(f"x{place}").alias(f"c{i}") for i, place in enumerate(places)]
    return by_place.select(*chosen)

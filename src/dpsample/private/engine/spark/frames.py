"""How sources look from inside Spark: a DataFrame of checked rows, with the columns k0, k1, ... and f."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from dpsample.accounting.amounts import Amount
from dpsample.accounting.parts import Part
from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.private.engine.columns import part_family, require_plain
from dpsample.private.engine.errors import MARK, amount_refusal, frequency_refusal, type_refusal
from dpsample.private.engine.spark.errors import translated
from dpsample.private.sources.inputs import identity_of_uri, require_distinct
from dpsample.private.sources.kinds import refusal_on_spark
from dpsample.private.sources.source import Source

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_BROADCAST = 5 * 10**6  # keys that every worker may hold


@dataclass(frozen=True)
class Frame:
    """A source as Spark has it."""

    data: Any  # a DataFrame of c0, c1, ...: the columns to read, in order
    schema: pa.Schema  # of the key, under its own names
    types: list[T.DataType]  # of the key, as Spark calls them
    keys: list[Any]  # columns
    frequency: Any | None  # a column: a whole number, or else it is refused
    drop_null: bool
    user: tuple[Any, T.DataType] | None = None  # a column, and its type
    part: Any | None = (
        None  # a column: whether a row is in the part that is read; other rows are not in `data`
    )
    amounts: tuple[Amount, ...] = ()
    units: tuple[Any, ...] = ()  # of a row's amounts: columns of whole numbers

    @property
    def names(self) -> list[str]:
        """The names of the key columns in `rows`."""
        return [f"k{i}" for i in range(len(self.keys))]

    @property
    def repeatable(self) -> bool:
        """Whether Spark takes the rows to be the same each time; over Spark Connect it does not tell."""
        plan = getattr(self.data, "_jdf", None)
        return plan is None or bool(plan.queryExecution().analyzed().deterministic())

    @property
    def amount_names(self) -> list[str]:
        """The names of the units in `all_pairs`."""
        return [f"a{i}" for i in range(len(self.amounts))]

    @property
    def more(self) -> int:
        """The number of columns that pairs have beside user and key: marks and amounts."""
        return len(self.amounts) and 1 + len(self.amounts)

    def fields(self, **more: str) -> T.StructType:
        """The key columns and some more, as Spark describes them."""
        struct = T.StructType(
            [T.StructField(name, kind) for name, kind in zip(self.names, self.types, strict=True)]
        )
        for name, kind in more.items():
            struct = struct.add(name, kind)
        return struct

    def rows(self, drop_null: bool | None = None) -> Any:
        """The checked rows: k0, k1, ... and, unless they are raw, f."""
        frequency = [] if self.frequency is None else [self.frequency.alias("f")]
        return self._checked(self.drop_null if drop_null is None else drop_null).select(
            *self._named, *frequency
        )

    def pairs(self) -> Any:
        """Each pair of a user and a key once: u, k0, k1, ..."""
        return self.all_pairs().select("u", *self.names).distinct()

    def all_pairs(self) -> Any:
        """The pairs of users and keys, with repetitions, and the units of amounts: u, k0, k1, ..., a0, a1, ..."""
        assert self.user is not None
        units = [
            column.alias(name) for column, name in zip(self.units, self.amount_names, strict=False)
        ]
        return self._checked(self.drop_null).select(self.user[0].alias("u"), *self._named, *units)

    def total(self) -> Any:
        """The number of elements, as the only row."""
        number = (
            F.count(F.lit(1)) if self.frequency is None else F.sum(F.col("f").cast("decimal(28,0)"))
        )
        return self.rows().agg(number)

    @property
    def _named(self) -> list[Any]:
        return [key.alias(name) for key, name in zip(self.keys, self.names, strict=True)]

    def _checked(self, drop: bool) -> Any:
        """The rows without NULL, by a condition for each column.

        One condition on n columns, which get other names later, can be written in 2**n ways, and Spark's optimizer
        writes them all.
        """
        needed = [(key, f"null:{i}") for i, key in enumerate(self.keys)]
        if self.user is not None:
            needed.append((self.user[0], f"nobody:{len(self.keys)}"))
        rows = self.data
        for column, code in needed:
            fault = column.isNull()
            if self.part is not None:
                fault = self.part & fault  # Spark may apply this filter before that of the part
            refused = F.when(fault, _refuse(code)).otherwise(True)
            rows = rows.filter(column.isNotNull() if drop else refused)
        return rows

    def grouped(self, rows: Any, once: bool = False) -> Any:
        """Each key of some rows once, with its frequency; with `once`, a key in several rows is refused."""
        groups, number = rows.groupBy(*self.names), F.count(F.lit(1))
        if self.frequency is None:
            return groups.agg(number.alias("frequency"))
        exact = F.sum(F.col("f").cast("decimal(19,0)"))
        counted = groups.agg(exact.alias("total"), number.alias("n"))
        total = F.col("total")
        good = F.when(total > F.lit(MAX_FREQUENCY), _refuse("sum")).otherwise(total > 0)
        if once:
            good = F.when(F.col("n") > 1, _refuse("twice")).otherwise(good)
        return counted.filter(good).select(*self.names, total.cast("bigint").alias("frequency"))

    def with_known(self, counted: Any, known: Any, size: int, only: bool) -> Any:
        """All counted keys, or only those of a DataFrame of k0, k1, ..., which come with frequency 0 as well."""
        listed = known.withColumn("listed", F.lit(True))
        if only:
            counted = counted.join(small(known, size), on=self.names, how="left_semi")
        joined = counted.join(listed, on=self.names, how="full")
        frequency = F.coalesce("frequency", F.lit(0).cast("bigint"))
        is_known = F.coalesce("listed", F.lit(False))
        return joined.select(*self.names, frequency.alias("frequency"), is_known.alias("known"))

    def restricted(self, keys: Any, size: int, outside: bool) -> "Frame":
        """The rows of the keys of a DataFrame of k0, k1, ..., or of all others; rows with a NULL key stay."""
        match = [key == F.col(name) for key, name in zip(self.keys, self.names, strict=True)]
        rows = self.data.join(
            small(keys, size), on=match, how="left_anti" if outside else "left_semi"
        )
        if not outside:
            missing = F.lit(False)
            for key in self.keys:
                missing = missing | key.isNull()
            rows = rows.unionAll(self.data.filter(missing))
        return replace(self, data=rows)

    def wanted(self, keys: Any, size: int) -> Any:
        """The rows of the distinct keys of a DataFrame of k0, k1, ...; what is refused is passed over."""
        return self.rows(drop_null=True).join(small(keys, size), on=self.names, how="left_semi")


def small(keys: Any, size: int) -> Any:
    """A DataFrame of some keys, which every worker gets if they are few enough."""
    return F.broadcast(keys) if size <= _BROADCAST else keys


def frame(source: Source, session: Any) -> Frame:
    """Look at a source: its columns are there once, and of types that can be compared and counted."""
    if source.computes:
        raise refusal_on_spark()
    data = source.data if source.kind == "frame" else _files(source, session)
    names = list(data.columns)
    source.require(names)
    fields = {name: field.dataType for name, field in zip(names, data.schema.fields, strict=True)}
    places = [names.index(name) for name in source.columns]
    # by position: Spark does not tell upper from lower case
    data = data.toDF(*[f"x{i}" for i in range(len(names))])
    data = data.select(*[F.col(f"x{place}").alias(f"c{i}") for i, place in enumerate(places)])
    place = {name: f"c{i}" for i, name in enumerate(source.columns)}
    keys = [_key(name, F.col(place[name]), fields[name]) for name in source.key_columns]
    frequency = user = part = None
    if source.frequency is not None:
        frequency = _frequency(source.frequency, place[source.frequency], fields[source.frequency])
    if source.user is not None:
        user = _key(source.user, F.col(place[source.user]), fields[source.user], "user")[:2]
    if source.part is not None:
        part = _in_part(source.part, place[source.part.name], fields[source.part.name])
        data = data.filter(part)
    units = list[Any]()
    for amount in source.amounts:
        name = amount.column
        units.append(
            F.lit(1).cast("bigint") if name is None else _units(amount, place[name], fields[name])
        )
    columns, types, kinds = zip(*keys, strict=True)
    return Frame(
        data=data,
        schema=pa.schema(list(zip(source.key, kinds, strict=True))),
        types=list(types),
        keys=list(columns),
        frequency=frequency,
        drop_null=source.drop_null,
        user=user,
        part=part,
        amounts=source.amounts,
        units=tuple(units),
    )


def read_parquet(session: Any, paths: list[str], format: str | None) -> Any:
    """Read Parquet files, wherever Spark finds them: hdfs, s3a, or a path of its default file system.

    Each file is read once. Columns that folders are named by (k=007) are text: Spark would infer a type from all of
    their values.
    """
    _require_parquet(paths, format)
    return translated(lambda: _read_once(session, paths), ())


def _require_parquet(paths: list[str], format: str | None) -> None:
    endings = {path.rpartition(".")[2].lower() for path in paths if "." in path.rpartition("/")[2]}
    if (format or "parquet") != "parquet" or endings & {
        "csv",
        "tsv",
        "json",
        "jsonl",
        "ndjson",
        "gz",
        "arrow",
        "orc",
    }:
        raise InvalidValue(
            "the Spark engine itself reads only Parquet",
            "read it into a DataFrame, with the types that you want, and call dpsample.spark.release",
        )


def _read_once(session: Any, paths: list[str]) -> Any:
    data = _read(session, paths)
    # Spark lists what all paths name together without repetition: so one path at a time
    uris = [
        uri for path in paths for uri in session.read.schema(data.schema).parquet(path).inputFiles()
    ]
    require_distinct(map(identity_of_uri, uris))
    return data


def _read(session: Any, paths: list[str]) -> Any:
    # with the schema, since Spark Connect would infer it again later
    return session.read.schema(_schema(session, paths)).parquet(*paths)


def _schema(session: Any, paths: list[str]) -> T.StructType:
    """Return the columns of some files, where those that folders are named by are text."""
    before = session.conf.get(_INFERENCE)
    session.conf.set(_INFERENCE, "false")
    try:
        schema: T.StructType = session.read.parquet(*paths).schema
        return schema
    finally:
        session.conf.set(_INFERENCE, before)


def _files(source: Source, session: Any) -> Any:
    if source.kind != "files":
        raise InvalidValue(
            f"the Spark engine reads only DataFrames of Spark and Parquet files that all workers see, not {source}",
            "use dpsample.release, which reads it on this machine",
        )
    format, paths = source.listing()
    _require_parquet(paths, format)
    # Spark takes a path for a pattern
    return _read(session, ["file:" + re.sub(r"([\\\[\]{}*?])", r"\\\1", path) for path in paths])


def _refuse(code: str, kind: str = "boolean") -> Any:
    return F.raise_error(F.lit(f"{MARK}:{code}")).cast(kind)


def _key(
    name: str, column: Any, kind: T.DataType, role: str = "key"
) -> tuple[Any, T.DataType, pa.DataType]:
    """Return a column of the key, or the user's, its type, and the same in Arrow."""
    if isinstance(
        kind, T.StringType | T.NullType
    ):  # a collation would take different keys for equal
        return column.cast(T.StringType()), T.StringType(), pa.string()
    if isinstance(kind, T.DecimalType):
        return column, kind, pa.decimal128(kind.precision, kind.scale)
    named = kind.simpleString()
    if named in _PLAIN:
        require_plain(name, _PLAIN[named], role)
        return column, kind, _PLAIN[named]
    what = ""
    if isinstance(kind, T.FloatType | T.DoubleType):
        what = "floats"
    if isinstance(kind, T.ArrayType | T.StructType | T.MapType) or named == "variant":
        what = "nested values"
    raise type_refusal(name, _type_name(kind), what, role)


def _type_name(kind: T.DataType) -> str:
    return f"type {kind.simpleString().partition('<')[0]}"


def _in_part(part: Part, place: str, kind: T.DataType) -> Any:
    """Return whether a row is in a part, as a column."""
    if isinstance(
        kind, T.StringType | T.NullType
    ):  # a collation would take different values for equal
        return F.col(place).cast(T.StringType()) == F.lit(part.value)
    plain = _PLAIN.get(kind.simpleString())
    if plain is None:
        raise type_refusal(part.name, _type_name(kind), "", "part")
    types = {"integer": "bigint", "date": "date", "boolean": "boolean"}
    value = F.lit(part.value).cast(types[part_family(part, plain)])
    return F.col(place) == value


def _units(amount: Amount, place: str, kind: T.DataType) -> Any:
    """Return a row's amount in whole units, as a column; NULL, NaN and infinite values count 0."""
    if not isinstance(kind, T.NumericType | T.BooleanType):
        raise amount_refusal(str(amount.column), _type_name(kind))
    number = F.col(place).cast("double")
    scaled = number * F.lit(amount.scale) + F.lit(0.5)
    most = float(amount.most_of_row)
    within = F.least(F.greatest(scaled, F.lit(-most)), F.lit(most))
    is_finite = F.abs(number) < F.lit(math.inf)
    units = F.when(is_finite, F.floor(within)).otherwise(F.lit(0))
    return units.cast("bigint")


def _frequency(name: str, place: str, kind: T.DataType) -> Any:
    """Return a frequency column, which refuses what is no frequency; it is computed for rows that are not dropped."""
    column, number = F.col(place), F.expr(f"try_cast({place} AS BIGINT)")
    missing, negative, fractional = column.isNull(), column < 0, column != number
    if isinstance(kind, T.IntegralType):
        large = F.lit(False)
    elif isinstance(kind, T.DecimalType):
        large = column > F.lit(MAX_FREQUENCY)
    elif isinstance(kind, T.FloatType | T.DoubleType):
        large = column > F.lit(2.0**53)  # NaN is above every number
    else:
        raise frequency_refusal(name, _type_name(kind))
    return (
        F.when(missing, _refuse("missing", "bigint"))
        .when(negative, _refuse("negative", "bigint"))
        .when(large, _refuse("large", "bigint"))
        .when(fractional, _refuse("fractional", "bigint"))
        .otherwise(number)
    )

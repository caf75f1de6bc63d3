"""Tables: how a source looks from inside DuckDB, and the SQL of its rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.private.engine.duckdb.errors import raise_sql
from dpsample.private.sources.scans import Objects

# Arrow's type of a key column -> DuckDB's function of the length of its values, in bytes.
_LENGTHS = {pa.string(): "strlen", pa.binary(): "octet_length"}


@dataclass
class Table:
    """How a source looks from inside DuckDB: a FROM item, and SQL of its key, frequency and user.

    schema       the key columns, under their own names
    keys         SQL of the key columns
    frequency    SQL of a whole number, or NULL where a fault is; None where each row is an element
    user         SQL of the user
    faults       conditions on a row, each with the code of why it is refused
    objects      what `origin` names
    pending      the schema and the batches of rows that are still to be put into `origin`
    unseen       checks to be made before the first row is read
    elements     another way to the keys of single rows, if the table has keys that were counted
    size         returns the number of rows, if it is known
    text         the bytes of text files, whose number of rows is not known
    part         a condition: the row is in the part that is read, and passes the filter
    chosen       a condition: the row is one of those that are read, in a part or not
    forget_more  lets go of what was put aside with the table
    units        SQL of a row's amounts as whole numbers
    computed     returns the FROM item whose columns are computed from those of `origin`
    """

    origin: str
    schema: pa.Schema
    keys: list[str]
    frequency: str | None = None
    user: str | None = None
    faults: list[tuple[str, str]] = field(default_factory=list)
    drop_null: bool = False
    objects: Objects = field(default_factory=dict)
    pending: tuple[pa.Schema, Iterator[pa.RecordBatch]] | None = None
    unseen: list[Callable[[], None]] = field(default_factory=list)
    elements: Callable[[], Iterator[pa.RecordBatch]] | None = None
    size: Callable[[], int | None] = lambda: None
    text: int | None = None
    part: str | None = None
    chosen: str | None = None
    forget_more: Callable[[], None] = lambda: None
    amounts: tuple[Amount, ...] = ()
    units: list[str] = field(default_factory=list)
    computed: Callable[[str], str] = lambda origin: origin

    @property
    def item(self) -> str:
        """The rows as a FROM item: all of `origin`, or those of the part."""
        conditions = [f"({each})" for each in (self.part, self.chosen) if each is not None]
        rows = self.computed(self.origin)
        if not conditions:
            return rows
        return f"(SELECT * FROM {rows} WHERE {' AND '.join(conditions)})"

    @property
    def names(self) -> str:
        """The names of the key columns in `rows`."""
        return ", ".join(f"k{i}" for i in range(len(self.keys)))

    @property
    def named_keys(self) -> str:
        """SQL of the key columns, with their names in `rows`."""
        return aliased(self.keys, "k")

    @property
    def lengths(self) -> list[str]:
        """SQL of the lengths of the key columns that have any, in bytes."""
        kinds = zip(self.keys, self.schema.types, strict=True)
        return [f"{_LENGTHS[kind]}({key})" for key, kind in kinds if kind in _LENGTHS]

    @property
    def rows(self) -> str:
        """The checked rows: k0, k1, ... and, unless they are raw, f."""
        if self.frequency is None:
            return self._checked(self.named_keys)
        return self._checked(f"{self.named_keys}, {self.frequency} AS f")

    @property
    def pairs(self) -> str:
        """The distinct pairs of checked rows: u, then k0, k1, ..."""
        return self._checked(f"DISTINCT {self.user} AS u, {self.named_keys}")

    @property
    def all_pairs(self) -> str:
        """The pairs of checked rows, with repetitions: u, then k0, k1, ..., and the units of amounts, a0, a1, ..."""
        units = f", {aliased(self.units, 'a')}" if self.units else ""
        return self._checked(f"{self.user} AS u, {self.named_keys}{units}")

    @property
    def amount_names(self) -> list[str]:
        """The names of the units in `all_pairs`."""
        return [f"a{i}" for i in range(len(self.units))]

    def _checked(self, chosen: str) -> str:
        """SQL of the rows without NULL and faults; others are refused, or left out."""
        cases = list[str]()
        if self.part is not None:
            # once more: DuckDB may check rows before it leaves other parts out
            cases.append(f"WHEN ({self.part}) IS NOT TRUE THEN false")
        for place, key in enumerate(self.keys):
            cases.append(self._case_of_null(key, f"null:{place}"))
        if self.user is not None:
            cases.append(self._case_of_null(self.user, f"nobody:{len(self.keys)}"))
        for condition, code in self.faults:
            cases.append(f"WHEN {condition} THEN {raise_sql(code)}")
        is_read = f"CASE {' '.join(cases)} ELSE true END"
        return f"SELECT {chosen} FROM {self.item} WHERE {is_read}"

    def _case_of_null(self, column: str, code: str) -> str:
        """SQL of what happens to a row where a column is NULL."""
        outcome = "false" if self.drop_null else raise_sql(code)
        return f"WHEN {column} IS NULL THEN {outcome}"

    def with_known(self, counted: str, only: bool, condition: str = "true") -> str:
        """SQL of counted keys, and of the `listed` keys that were not counted, with frequency 0.

        With `only`, others than listed keys are left out. The condition chooses among the listed keys.
        """
        listed = f"SELECT {self.names}, true AS listed FROM listed WHERE {condition}"
        numbers = "coalesce(frequency, 0) AS frequency, coalesce(listed, false) AS known"
        join = "RIGHT" if only else "FULL"
        joined = f"({counted}) {join} JOIN ({listed}) USING ({self.names})"
        return f"SELECT {self.names}, {numbers} FROM {joined}"

    def grouped(self, rows: str) -> str:
        """SQL of each key of some rows once, with its frequency; keys of frequency 0 are left out."""
        groups = f"FROM ({rows}) GROUP BY {self.names}"
        if self.frequency is None:
            return f"SELECT {self.names}, count(*) AS frequency {groups}"
        total = "CAST(sum(f) AS BIGINT) AS frequency"
        return f"SELECT {self.names}, {total} {groups} HAVING sum(f) > 0"


def aliased(columns: list[str], name: str) -> str:
    """SQL of columns that are called by a name and their number."""
    return ", ".join(f"{sql} AS {name}{i}" for i, sql in enumerate(columns))

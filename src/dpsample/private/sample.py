"""Sample: keys and their frequencies, with the scheme by which they were sampled. NOT private.

A sample can be sanitized without access to the data that it was drawn from, once: two releases of one sample share its
sampling coins, and spend more than their sum. Its file is readable by its owner only.
"""

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.parts import Part
from dpsample.accounting.reading import Reading
from dpsample.errors import InvalidValue, attempt
from dpsample.files import (
    PathLike,
    Rows,
    kind_of,
    plain_schema,
    read_foreign,
    read_table,
    rebatch,
    without_view,
    write_table,
)
from dpsample.files.atomic_file import locked
from dpsample.files.metadata import canonical, format_of, resolved
from dpsample.lazy import pc
from dpsample.private.engine.errors import refusal_of_code
from dpsample.private.sources.frames import frame_table, is_pandas
from dpsample.release.rows import ascends, check_key_types
from dpsample.release.terms import check_keys
from dpsample.scheme.sampling import Sampling

WARNING: Final = (
    "NOT private: this file holds keys and frequencies of the data as they are. "
    "Do not publish it; sanitize it."
)
VERSION: Final = 1  # of sample files
MODE: Final = 0o600  # of sample files: only their owner reads them
# names in the metadata of a file that do not belong to the sample: the state of a stream, and the file it replaced
_NOT_SAMPLE: Final = ("stream", "before")


class Sample:
    """A weighted sample of keys: key column(s), `frequency`, and the scheme by which it was drawn. NOT private.

    What it holds is shown only to those who ask for its `table`.

    >>> from dpsample import Ppswor
    >>> Sample(pa.table({"query": ["cat", "dog"], "frequency": [31, 12]}), Ppswor(tau=0.1), "query")
    Sample (NOT private): 2 keys, Ppswor(tau='0.1')
    """

    def __init__(
        self,
        table: pa.Table,
        sampling: Sampling,
        keys: str | Iterable[str],
        max_keys: int | None = None,
        *,
        identity: str | None = None,
        part: Part | None = None,
        reading: Reading | None = None,
    ) -> None:
        names = check_keys(keys, ("frequency",))
        if not isinstance(sampling, Sampling):
            raise InvalidValue(
                f"a sample has the scheme by which it was drawn, not an object of type {type(sampling).__name__}",
                "give one, for example Ppswor(tau='1e-4'), or KeepAll() if nothing was left out",
            )
        self._table = _checked_columns(table, names)
        self._sampling = sampling
        self._keys = names
        self._part = part
        self._reading = reading
        self._max_keys = None if max_keys is None else check_keys_per_user(max_keys)
        self._identity = identity or uuid4().hex
        self._used = False
        self._path: PathLike | None = None  # the file that it was read from
        self._format: str | None = None  # of that file, if it is one of dpsample's
        self._check_frequencies()
        self._check_distinct()

    @classmethod
    def from_table(
        cls,
        source: Any,
        *,
        key: str | Sequence[str],
        frequency: str,
        sampling: Sampling,
        part_vouched: tuple[str, str] | None = None,
    ) -> "Sample":
        """Take a sample that another system drew: an Arrow table, anything that exports one, or a file.

        Keys without a declared type are text: of a CSV file, and of pandas columns of objects. With `part_vouched`, the
        caller states that the sample was drawn from rows of this part alone.

        >>> from dpsample import Priority
        >>> drawn = pa.table({"word": ["cat", "dog"], "n": [31, 12], "day": [1, 1]})
        >>> Sample.from_table(drawn, key="word", frequency="n", sampling=Priority(tau="1e-2"))
        Sample (NOT private): 2 keys, Priority(tau='0.01')
        """
        if key == frequency:
            raise InvalidValue(
                "`key` and `frequency` must be different columns", "name another one"
            )
        names = check_keys(key, ("frequency",))
        path = source if isinstance(source, str | os.PathLike) else None
        if path is None:
            table = _table_of_object(source, names, frequency)
        else:
            table = _table_of_file(path, names, frequency)
        _require_columns(table, [*names, frequency])
        columns = {name: _plain(table.column(name)) for name in names}
        columns["frequency"] = _integers(table.column(frequency))
        identity = None if path is None else _identity({}, path)
        part = None if part_vouched is None else Part.of(part_vouched, vouched=True)
        sample = cls(pa.table(columns), sampling, names, identity=identity, part=part)
        sample._path = path
        return sample

    @property
    def table(self) -> pa.Table:
        """Key column(s) and `frequency`, as an Arrow table. NOT private."""
        return self._table

    @property
    def sampling(self) -> Sampling:
        """The scheme by which the sample was drawn."""
        return self._sampling

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._keys

    @property
    def max_keys(self) -> int | None:
        """The contribution bound, if frequencies are numbers of users; None if they are numbers of elements."""
        return self._max_keys

    @property
    def part(self) -> Part | None:
        """The part of the dataset that it was drawn from; None if it was drawn from all of it."""
        return self._part

    @property
    def reading(self) -> Reading | None:
        """The expressions of its keys and the filter of its rows; None if there were none."""
        return self._reading

    @property
    def identity(self) -> str:
        """The name by which ledgers know the sample: a random number, or the file that another system wrote."""
        return self._identity

    @property
    def used(self) -> bool:
        """Whether it was sanitized already."""
        return self._used

    def inputs(self) -> list[PathLike]:
        """List the file that it was read from, if any: it cannot be the output of a release."""
        return [] if self._path is None else [self._path]

    def require_unused(self) -> None:
        """Refuse a sample that was sanitized already."""
        if self._used:
            raise used_refusal()

    def mark_used(self) -> None:
        """Note that it is being sanitized: from now on it is refused, and so is the file that it was read from.

        The file may have been sanitized since it was read, by another process. So it is read again and marked under its
        lock.
        """
        self.require_unused()
        if self._path is not None and self._format is not None:
            with locked(resolved(self._path)):
                self._mark_file(self._path, self._format)
        self._used = True

    def _mark_file(self, path: PathLike, format: str) -> None:
        """Write the sample over its file, marked as used, unless the file has another sample or a used one."""
        _, metadata = read_table(path, "sample", VERSION, format=format)
        if _identity(metadata, path) != self._identity:
            raise InvalidValue(
                "the file that the sample was read from has another sample now",
                "read it again",
            )
        if metadata.get("used"):
            raise used_refusal()
        self._used = True
        self.write(path, force=True, format=format)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the sample, as they are written to a file: its scheme, and whether it was used."""
        metadata: dict[str, Any] = {
            "format": "dpsample sample",
            "version": VERSION,
            "private": False,
            "warning": WARNING,
            "sampling": self._sampling.to_json(),
            "keys": list(self._keys),
            "identity": self._identity,
            "used": self._used,
        }
        if self._max_keys is not None:
            metadata["max_keys_per_user"] = self._max_keys
        if self._part is not None:
            metadata["part"] = self._part.to_json()
        if self._reading is not None:
            metadata["reading"] = self._reading.to_json()
        return metadata

    def write(self, path: PathLike, force: bool = False, format: str | None = None) -> None:
        """Write the sample to an atomic file that only its owner can read."""
        rows = Rows(self._table.to_batches(), self._table.schema)
        write_table(path, rows, self.metadata, force=force, format=format, mode=MODE)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        keys = "1 key" if len(self) == 1 else f"{len(self):,} keys"
        shown = [keys]
        if self._max_keys is not None:
            shown.append(f"up to {self._max_keys:,} for each user")
        if self._part is not None:
            shown.append(str(self._part))
        if self._reading is not None:
            shown.append(str(self._reading))
        shown.append(repr(self._sampling))
        if self._used:
            shown.append("sanitized already")
        listed = ", ".join(shown)
        return f"Sample (NOT private): {listed}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"

    def _check_frequencies(self) -> None:
        """Refuse frequencies below 1, or above the last one of the scheme."""
        ends = pc.min_max(self._table.column("frequency")).as_py()
        if ends["min"] is None:
            return  # there are no keys
        if ends["min"] < 1:
            raise InvalidValue(
                "frequencies in a sample must be positive", "leave out keys that do not occur"
            )
        if ends["max"] > self._sampling.largest:
            raise InvalidValue(
                f"frequencies must be at most {self._sampling.largest}, the last for which the scheme states q",
                "state the q of all frequencies that may occur",
            )

    def _check_distinct(self) -> None:
        """Refuse keys that are there twice."""
        columns = [self._table.column(name) for name in self._keys]
        rows = [column[:-1] for column in columns]
        next_rows = [column[1:] for column in columns]
        if pc.all(ascends(rows, next_rows), min_count=0).as_py():
            return  # keys that ascend are distinct: as in a sample that dpsample drew
        if self._table.group_by(list(self._keys)).aggregate([]).num_rows < len(self):
            raise refusal_of_code("twice")


def read_sample(path: PathLike, *, format: str | None = None) -> Sample:
    """Read a sample file that dpsample wrote, and check all of it."""
    table, metadata = read_table(path, "sample", VERSION, format=format)
    refusal = InvalidValue(
        "the metadata of a sample must state its scheme and its keys", "draw the sample again"
    )
    stated = attempt(lambda: _stated(metadata), refusal, LookupError, TypeError, AttributeError)
    identity = _identity(metadata, path)
    max_keys = metadata.get("max_keys_per_user")
    sample = Sample(table, max_keys=max_keys, identity=identity, **stated)
    sample._used = metadata.get("used", False)
    _remember_file(sample, path, format_of(path, format))
    # whatever else the metadata state, or state in another way, was not written by dpsample
    of_sample = {name: value for name, value in metadata.items() if name not in _NOT_SAMPLE}
    of_sample.setdefault("identity", identity)
    if type(sample.used) is not bool or canonical(sample.metadata) != canonical(of_sample):
        raise refusal
    return sample


def _stated(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a `Sample` that its metadata state."""
    return {
        "sampling": Sampling.from_json(metadata["sampling"]),
        "keys": tuple(metadata["keys"]),
        "part": Part.from_json(metadata["part"]) if "part" in metadata else None,
        "reading": Reading.from_json(metadata["reading"]) if "reading" in metadata else None,
    }


def drawn_of_part(sample: Sample, part: Part | None) -> Sample:
    """Return the sample with the part that it was drawn from; for a sample that nobody has seen yet."""
    sample._part = part
    return sample


def mark_file_with(sample: Sample, path: PathLike) -> None:
    """State that this file has the sample: it is marked as used together with the sample."""
    _remember_file(sample, path, format_of(path, None))


def _remember_file(sample: Sample, path: PathLike, format: str) -> None:
    """Note the file that has this sample, and its format."""
    sample._path = path
    sample._format = format


def _identity(metadata: Mapping[str, Any], path: PathLike) -> str:
    """Return the identity of the sample in a file; a file that states none, of another system, is named instead."""
    return str(metadata.get("identity") or f"file {os.path.realpath(path)}")


def used_refusal() -> InvalidValue:
    """Return the refusal of a sample that was sanitized already."""
    return InvalidValue(
        "a sample is sanitized once, since two releases of one sample spend more than their sum",
        "use its release, or draw another sample",
    )


def _checked_columns(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return the columns of a sample in order; other columns, or other types, are refused."""
    names = [*keys, "frequency"]
    if sorted(table.schema.names) != sorted(names):
        found = ", ".join(map(repr, table.schema.names)) or "none"
        raise InvalidValue(
            f"a sample has its key columns and 'frequency', and no others, but this table has {found}",
            "select these columns, or use Sample.from_table",
        )
    table = table.select(names)
    schema = plain_schema(table.schema)
    check_key_types(schema, keys)
    frequencies = schema.field("frequency").type
    if frequencies != pa.int64():
        raise InvalidValue(
            f"frequencies must be int64, not {frequencies}", "cast them, or use Sample.from_table"
        )
    return pa.Table.from_batches(rebatch(table.to_batches(), schema), schema)


def _require_columns(table: pa.Table, names: Sequence[str]) -> None:
    """Refuse a table that does not have each of these columns once."""
    missing = [name for name in names if table.column_names.count(name) != 1]
    if missing:
        names_missing = ", ".join(map(repr, missing))
        columns = ", ".join(map(repr, dict.fromkeys(table.column_names)))
        raise InvalidValue(
            f"the table must have each named column once, but {names_missing} is missing or repeated",
            f"name some of {columns}",
        )


def _table_of_file(path: PathLike, keys: tuple[str, ...], frequency: str) -> pa.Table:
    """Read a file that another system wrote; keys of text files are text."""
    kind = kind_of(path)
    if kind:
        remedy = "leave it as it is: it is private already"
        if kind == "sample":
            remedy = "use dpsample.read_sample: it carries its scheme"
        raise InvalidValue(f"a sample that another system drew cannot be a dpsample {kind}", remedy)
    suffix = Path(path).suffix.lower()
    refusal = InvalidValue(
        f"{str(path)!r} must be a readable {suffix} file with whole frequencies",
        "check the path, and read it with another tool",
    )
    types = {**dict.fromkeys(keys, pa.string()), frequency: pa.int64()}
    table = attempt(lambda: read_foreign(path, types), refusal, Exception)
    if table is None:
        raise InvalidValue(
            f"a sample is a .parquet, .arrow or .csv file, not {suffix!r}", "convert it to Parquet"
        )
    return table


def _table_of_object(source: Any, keys: tuple[str, ...], frequency: str) -> pa.Table:
    """Return the Arrow table of an object; pandas columns of objects become text."""
    columns = [*keys, frequency]
    if is_pandas(source):
        labels = [str(label) for label in source.columns]
        if all(labels.count(name) == 1 for name in columns):
            return frame_table(source, columns, {}, (frequency,))
    if isinstance(source, pa.Table):
        return source
    refusal = InvalidValue(
        f"a sample is a file or a table that exports Arrow, not an object of type {type(source).__name__}",
        "convert it to an Arrow table",
    )
    return attempt(lambda: pa.table(source), refusal, Exception)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionaries and views, by which systems save space."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _plain(column.cast(type_.value_type))
    return column.cast(without_view(type_))


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return frequencies as int64; columns of other than whole numbers are refused."""
    type_ = column.type
    whole_decimals = pa.types.is_decimal(type_) and type_.scale == 0
    if not (pa.types.is_integer(type_) or whole_decimals):
        raise InvalidValue(
            f"frequencies must be integers, not {type_}",
            "count the elements of each key, or cast to int64",
        )
    refusal = InvalidValue("frequencies must be at most 2**63 - 1", "check how they were summed")
    return attempt(lambda: column.cast(pa.int64()), refusal, pa.ArrowInvalid)

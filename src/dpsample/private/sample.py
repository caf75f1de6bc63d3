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
from dpsample.errors import InvalidValue, attempt
from dpsample.files import (
    PathLike,
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
from dpsample.private.sources.python_objects import frame_table, is_pandas
from dpsample.release.rows import ascends, check_key_types
from dpsample.release.terms import check_keys
from dpsample.scheme.sampling import Sampling

WARNING: Final = (
    "NOT private: this file holds keys and frequencies of the data as they are. "
    "Do not publish it; sanitize it."
)
VERSION: Final = 1  # of sample files
MODE: Final = 0o600
_NOT_SAMPLE: Final = ("stream", "before")  # what metadata state of a stream, or of another file


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
    ) -> None:
        names = check_keys(keys, ("frequency",))
        if not isinstance(sampling, Sampling):
            raise InvalidValue(
                f"a sample has the scheme by which it was drawn, not an object of type {type(sampling).__name__}",
                "give one, for example Ppswor(tau='1e-4'), or KeepAll() if nothing was left out",
            )
        self._table = _checked_columns(table, names)
        self._sampling, self._keys, self._part = sampling, names, part
        self._max_keys = None if max_keys is None else check_keys_per_user(max_keys)
        self._identity, self._used = identity or uuid4().hex, False
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
        names = check_keys(key, ("frequency",)) if key != frequency else ()
        if not names:
            raise InvalidValue("key and frequency are different columns", "name another one")
        is_file = isinstance(source, str | os.PathLike)
        table = (_foreign if is_file else _arrow)(source, names, frequency)
        missing = [name for name in (*names, frequency) if table.column_names.count(name) != 1]
        if missing:
            names_missing = ", ".join(map(repr, missing))
            raise InvalidValue(
                f"the table must have each named column once, but {names_missing} is missing or repeated",
                f"name some of {', '.join(map(repr, dict.fromkeys(table.column_names)))}",
            )
        columns = {name: _plain(table.column(name)) for name in names}
        columns["frequency"] = _integers(table.column(frequency))
        identity = _identity({}, source) if is_file else None
        part = None if part_vouched is None else Part.of(part_vouched, vouched=True)
        sample = cls(pa.table(columns), sampling, names, identity=identity, part=part)
        sample._path = source if is_file else None
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
        """How many keys each user has at most, if frequencies are numbers of users; None if they are of elements."""
        return self._max_keys

    @property
    def part(self) -> Part | None:
        """The part of the dataset that it was drawn from; None if it was drawn from all of it."""
        return self._part

    @property
    def identity(self) -> str:
        """What ledgers call the sample: a random number, drawn with it, or the file that another system wrote."""
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

        The file may have been sanitized since it was read, by another process: it is looked at again, and marked, under
        its lock.
        """
        self.require_unused()
        if self._path is not None and self._format is not None:
            with locked(resolved(self._path)):
                _, metadata = read_table(self._path, "sample", VERSION, format=self._format)
                if _identity(metadata, self._path) != self._identity:
                    raise InvalidValue(
                        "the file that the sample was read from has another sample now",
                        "read it again",
                    )
                if metadata.get("used"):
                    raise used_refusal()
                self._used = True
                self.write(self._path, force=True, format=self._format)
        self._used = True

    @property
    def metadata(self) -> dict[str, Any]:
        """The scheme and the marks, as they are written to a file."""
        optional = {
            "max_keys_per_user": self._max_keys,
            "part": self._part and self._part.to_json(),
        }
        return {
            "format": "dpsample sample",
            "version": VERSION,
            "private": False,
            "warning": WARNING,
            "sampling": self._sampling.to_json(),
            "keys": list(self._keys),
            "identity": self._identity,
            "used": self._used,
            **{name: value for name, value in optional.items() if value is not None},
        }

    def write(self, path: PathLike, force: bool = False, format: str | None = None) -> None:
        """Write the sample to an atomic file that only its owner can read."""
        schema = self._table.schema
        write_table(
            path,
            self._table.to_batches(),
            schema,
            self.metadata,
            force=force,
            format=format,
            mode=MODE,
        )

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        users = "" if self._max_keys is None else f", up to {self._max_keys:,} for each user"
        users += "" if self._part is None else f", {self._part}"
        used = ", sanitized already" if self._used else ""
        keys = f"{len(self):,} key{'' if len(self) == 1 else 's'}"
        return f"Sample (NOT private): {keys}{users}, {self._sampling!r}{used}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"

    def _check_frequencies(self) -> None:
        ends = pc.min_max(self._table.column("frequency")).as_py()
        if ends["min"] is not None and ends["min"] < 1:
            raise InvalidValue(
                "frequencies in a sample must be positive", "leave out keys that do not occur"
            )
        if ends["max"] is not None and ends["max"] > self._sampling.largest:
            raise InvalidValue(
                f"frequencies must be at most {self._sampling.largest}, the last for which the scheme states q",
                "state the q of all frequencies that may occur",
            )

    def _check_distinct(self) -> None:
        keys = [self._table.column(name) for name in self._keys]
        if pc.all(ascends([k[:-1] for k in keys], [k[1:] for k in keys]), min_count=0).as_py():
            return  # as a sample that dpsample drew does
        if self._table.group_by(list(self._keys)).aggregate([]).num_rows < len(self):
            raise refusal_of_code("twice")


def read_sample(path: PathLike, *, format: str | None = None) -> Sample:
    """Read a sample file that dpsample wrote, and check all of it."""
    table, metadata = read_table(path, "sample", VERSION, format=format)
    refusal = InvalidValue(
        "the metadata of a sample must state its scheme and its keys", "draw the sample again"
    )
    sampling, keys, part = attempt(
        lambda: _stated(metadata), refusal, LookupError, TypeError, AttributeError
    )
    identity = _identity(metadata, path)
    sample = Sample(
        table, sampling, keys, metadata.get("max_keys_per_user"), identity=identity, part=part
    )
    sample._used = metadata.get("used", False)
    sample._path, sample._format = path, format_of(path, format)
    of_sample = {name: value for name, value in metadata.items() if name not in _NOT_SAMPLE}
    of_sample.setdefault("identity", identity)
    if type(sample.used) is not bool or canonical(sample.metadata) != canonical(of_sample):
        raise refusal
    return sample


def _stated(metadata: Mapping[str, Any]) -> tuple[Sampling, tuple[str, ...], Part | None]:
    part = Part.from_json(metadata["part"]) if "part" in metadata else None
    return Sampling.from_json(metadata["sampling"]), tuple(metadata["keys"]), part


def drawn_of_part(sample: Sample, part: Part | None) -> Sample:
    """State the part that a sample was drawn from, before anybody has it."""
    sample._part = part
    return sample


def sample_of_file(sample: Sample, path: PathLike) -> Sample:
    """State the file that has this sample, of the same identity: it is marked as used with it."""
    sample._path, sample._format = path, format_of(path, None)
    return sample


def _identity(metadata: Mapping[str, Any], path: PathLike) -> str:
    return str(
        metadata.get("identity") or f"file {os.path.realpath(path)}"
    )  # before samples had one


def used_refusal() -> InvalidValue:
    """Return the refusal of a sample that was sanitized already."""
    return InvalidValue(
        "a sample is sanitized once, since two releases of one sample spend more than their sum",
        "use its release, or draw another sample",
    )


def _checked_columns(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return the columns of a sample in order; others, or other types, are refused."""
    names = [*keys, "frequency"]
    if sorted(table.schema.names) != sorted(names):
        raise InvalidValue(
            f"a sample has its key columns and 'frequency', and no others, but this table has "
            f"{', '.join(map(repr, table.schema.names)) or 'none'}",
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


def _foreign(source: PathLike, keys: tuple[str, ...], frequency: str) -> pa.Table:
    kind = kind_of(source)
    if kind:
        read_it = "use dpsample.read_sample: it carries its scheme"
        raise InvalidValue(
            f"a sample that another system drew cannot be a dpsample {kind}",
            read_it if kind == "sample" else "leave it as it is: it is private already",
        )
    suffix = Path(source).suffix.lower()
    refusal = InvalidValue(
        f"{str(source)!r} must be a readable {suffix} file with whole frequencies",
        "check the path, and read it with another tool",
    )
    types = {**dict.fromkeys(keys, pa.string()), frequency: pa.int64()}
    table = attempt(lambda: read_foreign(source, types), refusal, Exception)
    if table is None:
        raise InvalidValue(
            f"a sample is a .parquet, .arrow or .csv file, not {suffix!r}", "convert it to Parquet"
        )
    return table


def _arrow(source: Any, keys: tuple[str, ...], frequency: str) -> pa.Table:
    columns = [*keys, frequency]
    if is_pandas(source):
        labels = [str(label) for label in source.columns]
        if all(labels.count(name) == 1 for name in columns):
            return frame_table(source, columns, {}, (frequency,))
    refusal = InvalidValue(
        f"a sample is a file or a table that exports Arrow, not an object of type {type(source).__name__}",
        "convert it to an Arrow table",
    )
    return (
        source
        if isinstance(source, pa.Table)
        else attempt(lambda: pa.table(source), refusal, Exception)
    )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Undo what a system may do to strings to save space: dictionaries and views."""
    t = column.type
    if pa.types.is_dictionary(t):
        return _plain(column.cast(t.value_type))
    return column.cast(without_view(t))


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    t = column.type
    if not (pa.types.is_integer(t) or (pa.types.is_decimal(t) and t.scale == 0)):
        raise InvalidValue(
            f"frequencies must be integers, not {t}",
            "count the elements of each key, or cast to int64",
        )
    refusal = InvalidValue("frequencies must be at most 2**63 - 1", "check how they were summed")
    return attempt(lambda: column.cast(pa.int64()), refusal, pa.ArrowInvalid)

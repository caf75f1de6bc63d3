"""Release: the only publishable object, and its file.

A release is a table of keys, each with its token and an estimate of its frequency, sorted by key, together with the
terms under which it was made. This module imports nothing that can see private data: what follows a release is
post-processing.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample import shown
from dpsample.budget import Total
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.files import PathLike, plain_schema, read_table, rebatch, write_table
from dpsample.privacy import Privacy
from dpsample.remainder import Remainder, remainder
from dpsample.scheme.sampling import Sampling
from dpsample.terms import Terms

if TYPE_CHECKING:
    from dpsample.answers import Estimates
    from dpsample.estimators.estimate import Estimate
    from dpsample.report import Report


class Release:
    """Keys that may be published, with tokens and estimates, and the terms under which they were made.

    Rows ascend strictly by key: strings by their UTF-8 bytes, several keys column by column. So their order tells
    nothing, and no key occurs twice. Tokens are positive multiples of 1/grid.

    >>> from dpsample import KeepAll, Privacy
    >>> table = pa.table({"query": ["cat", "dog"], "token": [31.5, 12.125], "estimate": [32.0, 13.0]})
    >>> Release(table, Terms(Privacy(1, 1e-6), KeepAll(), ("query",)))
    Release: 2 keys, with tokens and estimates
      privacy   epsilon 1, delta 1e-06, for each element
      sampling  KeepAll()
      tokens    in steps of 1/8; estimates by mle
    query  token   estimate
    'cat'  31.5    32.0
    'dog'  12.125  13.0
    """

    def __init__(self, table: pa.Table, terms: Terms) -> None:
        schema = release_schema(table.schema, terms)
        batches = checked_rows(rebatch(table.select(schema.names).to_batches(), schema), terms)
        self._table, self._terms = pa.Table.from_batches(batches, schema), terms

    @property
    def table(self) -> pa.Table:
        """The rows, as an Arrow table: key column(s), token, estimate."""
        return self._table

    @property
    def terms(self) -> Terms:
        """All that the release was made with."""
        return self._terms

    @property
    def privacy(self) -> Privacy:
        """The epsilon and delta that were spent on it."""
        return self._terms.privacy

    @property
    def unit(self) -> str:
        """Whom the privacy protects: each element, or each user."""
        return self._terms.unit

    @property
    def per_key(self) -> Privacy:
        """The privacy of the scheme that each key's token was drawn from; estimates need this one."""
        return self._terms.per_key

    @property
    def total(self) -> Total | None:
        """The private total of elements, if it was asked for; at user level, of the keys that users kept."""
        return self._terms.total

    def other(self, level: float = 0.95) -> Remainder:
        """Estimate how many elements have keys that are not reported; for releases with a total, and with tokens."""
        if self.total is None or self.grid is None:
            raise InvalidValue(
                "the remainder follows from a total and from tokens",
                "a release without " + ("a total" if self.total is None else "tokens"),
                "make one with total=True (--with-total)" + ("" if self.grid else ", and not keys only"),
            )
        cells = np.rint(self._table.column("token").to_numpy() * self.grid).astype(np.int64)
        return remainder(cells, self.sampling, self.per_key, self.grid, self.total, level)

    @property
    def sampling(self) -> Sampling:
        """The scheme with which keys were sampled."""
        return self._terms.sampling

    @property
    def grid(self) -> int | None:
        """Tokens are multiples of 1/grid; None for keys only."""
        return self._terms.grid

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._terms.keys

    @property
    def estimator(self) -> str | None:
        """The name of what made the estimates; None for keys only."""
        return self._terms.estimator

    @property
    def keys_only(self) -> bool:
        """Whether there are neither tokens nor estimates."""
        return self._terms.keys_only

    @property
    def metadata(self) -> dict[str, Any]:
        """The terms and the number of rows, as they are written to a file."""
        return self._terms.to_json(len(self))

    def write(self, path: PathLike, force: bool = False, format: str | None = None) -> None:
        """Write the release, whole or not at all: Parquet, or CSV or Arrow with a JSON file beside it."""
        write_table(path, self._table.to_batches(), self._table.schema, self.metadata, force=force, format=format)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            return self._table.to_pandas()
        except ImportError:
            raise _missing("pandas") from None

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise _missing("polars") from None
        return polars.from_arrow(self._table)

    def sum(self, where: Any = None, weight: Any = None, of: Any = "frequency", **options: Any) -> Any:
        """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys x, with its error.

        `where` selects keys, `weight` is L, `of` is g, `by` makes groups, `attributes` joins a table: see
        `dpsample.selection.Selection` and `dpsample.statistics.total`. Also `estimator` and `level`.
        """
        from dpsample import statistics

        return statistics.total(self, where, weight, of, **options)

    def count_keys(self, where: Any = None, at_least: int | None = None, **options: Any) -> Any:
        """Estimate how many keys are selected, reported or not, or how many of these are `at_least` so frequent."""
        from dpsample import statistics

        return statistics.count_keys(self, at_least, where=where, **options)

    def mean(self, where: Any = None, weight: Any = None, of: Any = "frequency", **options: Any) -> Any:
        """Estimate the mean of g(frequency) over the selected keys that can be seen; see `dpsample.statistics.mean`."""
        from dpsample import statistics

        return statistics.mean(self, where, weight, of, **options)

    def quantiles(self, shares: Any, where: Any = None, **options: Any) -> "Estimates":
        """Estimate quantiles of the frequencies of keys that can be seen; see `dpsample.statistics.quantiles`."""
        from dpsample import statistics

        return statistics.quantiles(self, shares, where, **options)

    def top(self, k: int, where: Any = None, **options: Any) -> "Estimates":
        """List the k most frequent keys, each with the probability that it is one; see `dpsample.ranking.top`."""
        from dpsample import ranking

        return ranking.top(self, k, where, **options)

    def each_key(self, where: Any = None, **options: Any) -> "Estimates":
        """Estimate the frequency of each reported key, with an interval; see `dpsample.ranking.each_key`."""
        from dpsample import ranking

        return ranking.each_key(self, where, **options)

    def rank(self, key: Any, where: Any = None, **options: Any) -> "Estimate":
        """Estimate the rank of a key (a tuple, if there are several key columns); see `dpsample.ranking.rank`."""
        from dpsample import ranking

        return ranking.rank(self, key, where, **options)

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b; see `dpsample.ranking.compare`."""
        from dpsample import ranking

        return ranking.compare(self, a, b)

    def report(self, path: PathLike | None = None, *, force: bool = False, **options: Any) -> "Report":
        """Return all of this as a page, and write it if a path is given; see `dpsample.report.make_report`."""
        from dpsample.report import make_report

        made = make_report(self, **options)
        if path is not None:
            made.write(path, force=force)
        return made

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        return self._terms == other._terms and bool(self._table.equals(other._table))

    __hash__ = None  # type: ignore[assignment] # as for other containers

    def __repr__(self) -> str:
        head, *lines = self._summary()
        return "\n".join([f"Release: {head}", *(f"  {line}" for line in lines), *shown.lines(self._table)])

    def _repr_html_(self) -> str:
        from dpsample.report import display

        return display(self)

    def _summary(self) -> list[str]:
        n = f"{len(self):,} key{'' if len(self) == 1 else 's'}"
        what = "keys only" if self.keys_only else "with tokens and estimates"
        lines = [
            f"{n}, {what}",
            f"privacy   epsilon {text(self.privacy.epsilon)}, delta {text(self.privacy.delta)}, for each "
            + self._terms.protects,
            f"sampling  {self.sampling!r}",
        ]
        if not self.keys_only:
            lines.append(f"tokens    in steps of 1/{self.grid}; estimates by {self.estimator}")
        if self.total is not None:
            low, high = self.total.interval()
            lines.append(f"total     {self.total.value:,} (95 %: {low:,} to {high:,})")
        return lines


def read_release(path: PathLike, *, format: str | None = None) -> Release:
    """Read a release file, or a folder of parts, and check all of it; a sample is refused, since it is not private."""
    table, metadata = read_table(path, "release", format=format)
    terms = Terms.from_json(metadata)
    if table.num_rows != metadata.get("rows"):
        raise InvalidValue(
            "a release has the number of rows that its metadata say",
            "another",
            "get it again from where it was written",
        )
    return Release(table, terms)


def write_release(
    path: PathLike,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    terms: Terms,
    *,
    force: bool = False,
    format: str | None = None,
) -> int:
    """Write a release from a stream of batches in key order, without holding it; return its number of rows.

    Batches have the columns `terms.columns`, in this order; `schema` tells their types even if there are none.
    """
    rows = 0
    schema = release_schema(schema, terms)
    terms.to_json(0)  # refuses a scheme that cannot be written before any work is done

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in checked_rows(rebatch(batches, schema), terms):
            rows += batch.num_rows
            yield batch

    write_table(path, counted(), schema, lambda: terms.to_json(rows), force=force, format=format)
    return rows


def check_key_types(schema: pa.Schema, keys: Iterable[str]) -> None:
    """Check that key columns can be compared exactly: no floats."""
    for name in keys:
        if pa.types.is_floating(schema.field(name).type):
            raise InvalidValue(
                "a key column holds strings, binary, integers, bools, dates, timestamps or decimals",
                f"{schema.field(name).type} in column {name!r}",
                "cast it to string or decimal",
            )


def release_schema(schema: pa.Schema, terms: Terms) -> pa.Schema:
    """Check the columns of a release, and put them in order."""
    if sorted(schema.names) != sorted(terms.columns):
        raise InvalidValue(
            f"a release has the columns {', '.join(map(repr, terms.columns))}",
            ", ".join(map(repr, schema.names)) or "none",
            "select these columns",
        )
    ordered = plain_schema(pa.schema([schema.field(name) for name in terms.columns]))
    check_key_types(ordered, terms.keys)
    for name in terms.columns[len(terms.keys) :]:
        if ordered.field(name).type != pa.float64():
            raise InvalidValue(f"the column {name!r} is float64", f"{ordered.field(name).type}", "cast it")
    return ordered


def ascends(before: list[Any], after: list[Any]) -> Any:
    """Whether each row of `after` is above that of `before`, column by column; for arrays, chunked or not.

    >>> ascends([pa.array([1, 1]), pa.array(["b", "b"])], [pa.array([1, 2]), pa.array(["a", "a"])]).to_pylist()
    [False, True]
    """
    above = pc.less(before[-1], after[-1])
    for a, b in zip(before[-2::-1], after[-2::-1], strict=True):
        above = pc.or_(pc.less(a, b), pc.and_(pc.equal(a, b), above))
    return above


def checked_rows(batches: Iterable[pa.RecordBatch], terms: Terms) -> Iterator[pa.RecordBatch]:
    """Pass on batches whose keys ascend, also from one to the next, and whose tokens and estimates can be."""
    rows = 0
    last: list[pa.Array] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [batch.column(name) for name in terms.keys]
        if last and not ascends(last, [key[:1] for key in keys])[0].as_py():
            raise _unsorted(rows + 1)
        within = ascends([key[:-1] for key in keys], [key[1:] for key in keys])
        if not pc.all(within, min_count=0).as_py():
            raise _unsorted(rows + 2 + pc.index(within, False).as_py())
        if terms.grid is not None:
            _check_numbers(batch, terms.grid, rows)
        last = [key[-1:] for key in keys]
        rows += batch.num_rows
        yield batch


def _check_numbers(batch: pa.RecordBatch, grid: int, rows: int) -> None:
    with np.errstate(over="ignore"):
        cells = batch.column("token").to_numpy(zero_copy_only=False) * grid
    good = (cells > 0) & (cells == np.floor(cells)) & np.isfinite(cells)
    if not good.all():
        raise InvalidValue(
            f"tokens are positive multiples of 1/{grid}",
            f"another one in row {rows + 1 + int(np.argmin(good)):,}",
            "state the grid that the sanitizer used",
        )
    finite = np.isfinite(batch.column("estimate").to_numpy(zero_copy_only=False))
    if not finite.all():
        raise InvalidValue(
            "estimates are finite numbers",
            f"another one in row {rows + 1 + int(np.argmin(finite)):,}",
            "check the estimator",
        )


def _unsorted(row: int) -> InvalidValue:
    return InvalidValue(
        "the rows of a release ascend by key, and no key occurs twice",
        f"row {row:,} not above the one before it",
        "sort them by key: strings by their UTF-8 bytes, several keys column by column",
    )


def _missing(package: str) -> InvalidValue:
    return InvalidValue(f"this needs {package}", "that it is not installed", f"run: pip install {package}")

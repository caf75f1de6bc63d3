"""Release: the only publishable object, and its file.

A release is a table of keys, each with its token and an estimate of its frequency, sorted by key, together with the
terms under which it was made. This module imports nothing that can see private data: what follows a release is
post-processing.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.totals import Total
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.files import PathLike, read_table, rebatch, write_table
from dpsample.presentation import tables as shown
from dpsample.privacy import Privacy
from dpsample.questions.remainder import Remainder, remainder
from dpsample.release.rows import checked_rows, release_schema
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Sampling

if TYPE_CHECKING:
    from dpsample.estimators.estimate import Estimate
    from dpsample.presentation.report import Report
    from dpsample.questions.result import Estimates


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
        `dpsample.questions.selection.Selection` and `dpsample.questions.sums.total`. Also `estimator` and `level`.
        """
        from dpsample.questions import sums

        return sums.total(self, where, weight, of, **options)

    def count_keys(self, where: Any = None, at_least: int | None = None, **options: Any) -> Any:
        """Estimate how many keys are selected, reported or not, or how many of these are `at_least` so frequent."""
        from dpsample.questions import sums

        return sums.count_keys(self, at_least, where=where, **options)

    def mean(self, where: Any = None, weight: Any = None, of: Any = "frequency", **options: Any) -> Any:
        """Estimate the mean of g(frequency) over the selected keys that can be seen."""
        from dpsample.questions import sums

        return sums.mean(self, where, weight, of, **options)

    def quantiles(self, shares: Any, where: Any = None, **options: Any) -> "Estimates":
        """Estimate quantiles of the frequencies of keys that can be seen."""
        from dpsample.questions import quantiles

        return quantiles.quantiles(self, shares, where, **options)

    def top(self, k: int, where: Any = None, **options: Any) -> "Estimates":
        """List the k most frequent keys, each with the probability that it is one."""
        from dpsample.questions import ranking

        return ranking.top(self, k, where, **options)

    def each_key(self, where: Any = None, **options: Any) -> "Estimates":
        """Estimate the frequency of each reported key, with an interval."""
        from dpsample.questions import ranking

        return ranking.each_key(self, where, **options)

    def rank(self, key: Any, where: Any = None, **options: Any) -> "Estimate":
        """Estimate the rank of a key (a tuple, if there are several key columns)."""
        from dpsample.questions import ranking

        return ranking.rank(self, key, where, **options)

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b."""
        from dpsample.questions import ranking

        return ranking.compare(self, a, b)

    def report(self, path: PathLike | None = None, *, force: bool = False, **options: Any) -> "Report":
        """Return all of this as a page, and write it if a path is given."""
        from dpsample.presentation.report import make_report

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
        from dpsample.presentation.report import display

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


def _missing(package: str) -> InvalidValue:
    return InvalidValue(f"this needs {package}", "that it is not installed", f"run: pip install {package}")

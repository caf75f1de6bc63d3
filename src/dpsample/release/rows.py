"""Rows of a release: their schema, their order, and the values of tokens and estimates."""

from collections.abc import Iterable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.estimators.mle import mle
from dpsample.files import plain_schema
from dpsample.release.terms import COUNT_COLUMNS, Terms
from dpsample.scheme.sampling import Floats, Ints


def ascends(before: list[Any], after: list[Any]) -> Any:
    """Whether each row of `after` is above that of `before`, column by column; for arrays, chunked or not.

    >>> ascends([pa.array([1, 1]), pa.array(["b", "b"])], [pa.array([1, 2]), pa.array(["a", "a"])]).to_pylist()
    [False, True]
    """
    above = pc.less(before[-1], after[-1])
    for a, b in zip(before[-2::-1], after[-2::-1], strict=True):
        above = pc.or_(pc.less(a, b), pc.and_(pc.equal(a, b), above))
    return above


def token_cells(tokens: Any, grid: int) -> Ints:
    """Return tokens, an Arrow column, in units of 1/grid: the cells of the grid.

    >>> token_cells(pa.array([31.5, 12.125]), 8)
    array([252,  97])
    """
    cells: Ints = np.rint(np.asarray(tokens) * grid).astype(np.int64)
    return cells


def release_schema(schema: pa.Schema, terms: Terms) -> pa.Schema:
    """Check the columns of a release, and return them in order."""
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


def checked_rows(batches: Iterable[pa.RecordBatch], terms: Terms) -> Iterator[pa.RecordBatch]:
    """Yield the batches; refuse keys that do not ascend, within a batch or across two, and impossible numbers."""
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
        if terms.counts is not None:
            _check_counts(batch, terms.sampling.least, rows)
        last = [key[-1:] for key in keys]
        rows += batch.num_rows
        yield batch


def check_key_types(schema: pa.Schema, keys: Iterable[str]) -> None:
    """Refuse floats as keys: keys are compared exactly."""
    for name in keys:
        if pa.types.is_floating(schema.field(name).type):
            raise InvalidValue(
                "a key column holds strings, binary, integers, bools, dates, timestamps or decimals",
                f"{schema.field(name).type} in column {name!r}",
                "cast it to string or decimal",
            )


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


def _check_counts(batch: pa.RecordBatch, least: int, rows: int) -> None:
    estimate, low, high, measured, error = (batch.column(name).to_numpy(zero_copy_only=False) for name in COUNT_COLUMNS)
    good = np.isfinite(measured) & (error > 0) & np.isfinite(error) & (low >= least) & (low <= estimate)
    good &= (estimate <= high) & np.isfinite(high)
    if not good.all():
        raise InvalidValue(
            "counts are finite, with a positive error, and lie between their bounds",
            f"another one in row {rows + 1 + int(np.argmin(good)):,}",
            "get the release again from where it was written",
        )


def counted(keys: pa.Table, values: Floats, errors: Floats, least: int = 1) -> pa.Table:
    """Append numbers of users to keys: what was measured, its error, and whole numbers to read, with 95 % intervals.

    A key that was reported has a user, or as many as are asked for: estimates and bounds are at least so many, while
    `measured` may be lower.
    """
    margin = NormalDist().inv_cdf(0.975) * errors
    columns = (
        np.maximum(np.rint(values), least),
        np.maximum(np.floor(values - margin), least),
        np.maximum(np.ceil(values + margin), least),
        np.round(values, 3),
        np.maximum(np.round(errors, 3), 0.001),
    )
    for name, column in zip(COUNT_COLUMNS, columns, strict=True):
        keys = keys.append_column(pa.field(name, pa.float64()), pa.array(column))
    return keys


def _unsorted(row: int) -> InvalidValue:
    return InvalidValue(
        "the rows of a release ascend by key, and no key occurs twice",
        f"row {row:,} not above the row before it",
        "sort them by key: strings by their UTF-8 bytes, several keys column by column",
    )


def columns_of(keys: pa.Schema, terms: Terms) -> pa.Schema:
    """Return the columns of a release, from those of its keys."""
    return pa.schema([*keys, *(pa.field(name, pa.float64()) for name in terms.numbers)])


def append_estimates(batches: Iterable[pa.RecordBatch], terms: Terms) -> Iterator[pa.RecordBatch]:
    """Append the estimates, unless there are keys only."""
    estimates = TokenEstimates(terms)
    for batch in batches:
        yield batch if terms.keys_only else batch.append_column("estimate", pa.array(estimates(batch.column("token"))))


class TokenEstimates:
    """Estimates by token, each computed once."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._grid = terms, terms.grid or 1
        self._cells, self._values = np.zeros(0, np.int64), np.zeros(0)

    def __call__(self, tokens: pa.Array) -> Floats:
        """Return the estimate of each token."""
        cells = token_cells(tokens, self._grid)
        new = np.setdiff1d(cells, self._cells)
        if len(new):
            values = np.append(self._values, mle(new, self._terms.sampling, self._terms.per_key, self._grid))
            known = np.append(self._cells, new)
            order = np.argsort(known)
            self._cells, self._values = known[order], values[order]
        estimates: Floats = self._values[np.searchsorted(self._cells, cells)]
        return estimates

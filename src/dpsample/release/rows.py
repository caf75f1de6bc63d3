"""Rows of a release: their schema, their order, and the values of tokens and estimates.

What is drawn of a key is its token. Its estimate and its interval follow from that, so rows may come without them; rows
that come with others are refused.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import TABLE_MARGIN
from dpsample.errors import InvalidValue
from dpsample.files import plain_schema
from dpsample.lazy import arrow_function, arrow_numbers, pc
from dpsample.release.key_hash import first_frequencies
from dpsample.release.kinds.counted import COUNT_COLUMNS
from dpsample.release.kinds.kind import AGAIN
from dpsample.release.kinds.tokens import TOKEN_COLUMNS
from dpsample.release.terms import Terms
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints

Bools: TypeAlias = npt.NDArray[np.bool_]


def ascends(before: list[Any], after: list[Any]) -> Any:
    """Whether each row of `after` is above that of `before`, column by column; for arrays, chunked or not.

    >>> ascends([pa.array([1, 1]), pa.array(["b", "b"])], [pa.array([1, 2]), pa.array(["a", "a"])]).to_pylist()
    [False, True]
    """
    *columns, last = zip(before, after, strict=True)
    above = arrow_function("less", *last)
    for earlier, later in reversed(columns):
        tied = pc.equal(earlier, later)
        above = pc.or_(pc.less(earlier, later), pc.and_(tied, above))
    return above


def token_cells(tokens: Any, grid: int) -> Ints:
    """Return tokens, an Arrow column, in units of 1/grid: the cells of the grid.

    >>> token_cells(pa.array([31.5, 12.125]), 8)
    array([252,  97])
    """
    cells: Ints = np.rint(np.asarray(tokens) * grid).astype(np.int64)
    return cells


def drawn_columns(keys: pa.Schema, terms: Terms) -> pa.Schema:
    """Return the columns of reported keys as they are drawn, from those of the keys: with tokens, unless keys only."""
    return pa.schema(
        [
            *keys,
            *([] if terms.keys_only else [pa.field("token", pa.float64())]),
            *_known_columns(terms),
        ]
    )


def _known_columns(terms: Terms) -> list[pa.Field]:
    return [] if terms.known is None else [pa.field("known", pa.bool_())]


def release_schema(schema: pa.Schema, terms: Terms) -> tuple[pa.Schema, pa.Schema]:
    """Check columns that are given for a release; return them in order, and all of its columns."""
    _check_columns(schema.names, terms)
    names = [name for name in terms.columns if name in schema.names]
    given = plain_schema(pa.schema([schema.field(name) for name in names]))
    check_key_types(given, terms.keys)
    numbers = [pa.field(name, pa.float64()) for name in terms.numbers] + _known_columns(terms)
    for column in numbers:
        if column.name in names:
            _check_type(given.field(column.name), column.type)
    keys = [given.field(name) for name in terms.keys]
    return given, pa.schema(keys + numbers)


def _check_type(column: pa.Field, wanted: pa.DataType) -> None:
    if column.type != wanted:
        name = "float64" if wanted == pa.float64() else wanted
        raise InvalidValue(
            f"the column {column.name!r} must be {name}, not {column.type}", "cast it"
        )


def _check_columns(names: list[str], terms: Terms) -> None:
    """Refuse other columns than those of the release; columns that follow from tokens may be missing."""
    drawn = [*terms.keys, "token", *(field.name for field in _known_columns(terms))]
    complete = sorted(names) == sorted(terms.columns)
    as_drawn = terms.grid is not None and sorted(names) == sorted(drawn)
    if not complete and not as_drawn:
        raise InvalidValue(
            f"a release has the columns {', '.join(map(repr, terms.columns))}, not "
            f"{', '.join(map(repr, names)) or 'none'}",
            "select these columns",
        )


def checked_rows(batches: Iterable[pa.RecordBatch], terms: Terms) -> Iterator[pa.RecordBatch]:
    """Yield the batches, with all columns; refuse keys that do not ascend, within a batch or across two, impossible
    numbers, and estimates and intervals that do not follow from the tokens.
    """
    estimates = TokenEstimates(terms)
    rows = 0
    last: list[pa.Array] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [batch.column(name) for name in terms.keys]
        if last and not ascends(last, [key[:1] for key in keys])[0].as_py():
            raise _unsorted(rows + 1)
        within = ascends([key[:-1] for key in keys], [key[1:] for key in keys])
        if within.false_count:
            raise _unsorted(rows + 2 + pc.index(within, False).as_py())
        if terms.grid is not None:
            _check_tokens(batch, terms, rows)
            batch = estimates.completed(batch, rows)
        if terms.counts is not None:
            _check_counts(batch, terms, rows)
            for amount in terms.amounts:
                _check_amounts(batch, amount, rows)
        last = [key[-1:] for key in keys]
        rows += batch.num_rows
        yield batch


def check_key_types(schema: pa.Schema, keys: Iterable[str]) -> None:
    """Refuse floats as keys: keys are compared exactly."""
    for name in keys:
        if pa.types.is_floating(schema.field(name).type):
            raise InvalidValue(
                f"the key column {name!r} cannot hold {schema.field(name).type}, since keys are compared exactly",
                "cast it to string or decimal",
            )


def added_elements(batch: pa.RecordBatch, terms: Terms) -> Ints:
    """Return how many elements were added to the frequency of each key before its token was drawn.

    Of a coordinated sample these are 1 - h, with h the first frequency at which the key is kept.
    """
    if terms.sampling.seed is not None:
        return 1 - first_frequencies(batch.select(list(terms.keys)), terms.sampling)
    if terms.known is None:
        return np.zeros(batch.num_rows, np.int64)
    known: Ints = batch.column("known").to_numpy(zero_copy_only=False).astype(np.int64)
    return known * (terms.known.added or 0)


def _check_tokens(batch: pa.RecordBatch, terms: Terms, rows: int) -> None:
    grid = terms.grid or 1
    with np.errstate(over="ignore"):
        cells = (
            batch.column("token").to_numpy(zero_copy_only=False) + added_elements(batch, terms)
        ) * grid
    good = (cells > 0) & (cells == np.floor(cells)) & np.isfinite(cells)
    if not good.all():
        raise InvalidValue(
            f"the token in row {_first_bad(good, rows)} is no positive multiple of 1/{grid}",
            "state the grid that the sanitizer used",
        )


def _check_counts(batch: pa.RecordBatch, terms: Terms, rows: int) -> None:
    least = np.full(batch.num_rows, terms.sampling.least)
    if terms.known is not None:
        least[batch.column("known").to_numpy(zero_copy_only=False)] = 0
    estimate, low, high, measured, error = (
        batch.column(name).to_numpy(zero_copy_only=False) for name in COUNT_COLUMNS
    )
    good = (
        np.isfinite(measured)
        & (error > 0)
        & np.isfinite(error)
        & (low >= least)
        & (low <= estimate)
    )
    good &= (estimate <= high) & np.isfinite(high)
    if not good.all():
        raise InvalidValue(
            f"the count in row {_first_bad(good, rows)} is not finite, has no positive error, or is not between its "
            "bounds",
            AGAIN,
        )


def _check_amounts(batch: pa.RecordBatch, amount: Amount, rows: int) -> None:
    columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in amount.columns}
    value, clipped_low, clipped_high, low, high = list(columns.values())[:5]
    good = np.isfinite(list(columns.values())).all(axis=0) & (columns[amount.error] > 0)
    good &= (
        (low <= clipped_low)
        & (clipped_low <= value)
        & (value <= clipped_high)
        & (clipped_high <= high)
    )
    if not good.all():
        raise InvalidValue(
            f"{amount.name} in row {_first_bad(good, rows)} is not finite, has no positive error, or is not between "
            "its bounds",
            AGAIN,
        )


def _first_bad(good: Bools, rows: int) -> str:
    """The number of the first row that is not good, in a batch that comes after `rows` others."""
    return f"{rows + 1 + int(np.argmin(good)):,}"


def summed(
    keys: pa.Table,
    record: Clipped,
    values: Floats,
    errors: Floats,
    users: Floats,
    least: Ints | int = 1,
) -> pa.Table:
    """Append the clipped sums of an amount to keys, with their errors and 95 % intervals, and what amounts beyond the
    clip may add to these; in no more figures than mean much.

    A key that was discovered has a row, so its rows and their bounds are at least 1; all are whole.
    """
    amount = record.amount
    step = np.full(len(values), 1e-3)
    outward = np.ones(len(values))  # the step of estimates and bounds
    if amount.column is not None:
        step = outward = 10.0 ** np.floor(
            np.log10(np.maximum(errors, 1e-300)) - 3
        )  # four figures of the error
    lowest = least if amount.column is None else -np.inf
    low, high, wide_low, wide_high = record.intervals(users, values, errors)
    measured = np.rint(values / step) * step
    columns = [
        np.rint(record.possible(values) / outward) * outward,
        np.floor(low / outward) * outward,
        np.ceil(high / outward) * outward,
        np.floor(wide_low / outward) * outward,
        np.ceil(wide_high / outward) * outward,
    ]
    columns = [np.maximum(column, lowest) for column in columns]
    columns += [measured] if amount.one_sided else []
    columns.append(np.maximum(np.rint(errors / step), 1) * step)
    for name, column in zip(amount.columns, columns, strict=True):
        keys = keys.append_column(pa.field(name, pa.float64()), pa.array(_short(column)))
    return keys


def _short(numbers: Floats) -> Floats:
    """The same numbers with 12 figures: what multiplication by a step leaves behind is cut off."""
    return np.array([float(f"{number:.12g}") for number in numbers.tolist()])


def counted(keys: pa.Table, values: Floats, errors: Floats, least: Ints | int = 1) -> pa.Table:
    """Append numbers of users to keys: what was measured, its error, and whole numbers to read, with 95 % intervals.

    A key that was discovered has a user, or as many as are asked for: estimates and bounds are at least so many, while
    `measured` may be lower.
    """
    margin = TABLE_MARGIN * errors
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
        f"the rows of a release must ascend by key, but row {row:,} is not above the row before it",
        "sort them by key: strings by their UTF-8 bytes, several keys column by column",
    )


class TokenEstimates:
    """Estimates and intervals by token, each computed once."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._grid = terms.grid or 1
        self._cells = np.zeros(0, np.int64)  # of the tokens so far, ascending
        self._values = np.zeros((3, 0), np.int64)  # [estimate, low or high; token]

    def __call__(self, tokens: Any) -> Floats:
        """Return the likeliest frequency of each token, and the ends of its 95 % interval: [3, token]."""
        cells = token_cells(tokens, self._grid)
        new = np.setdiff1d(cells, self._cells)
        if len(new):
            computed = likely_frequencies(
                new, self._terms.sampling.sanitized_as, self._terms.per_key, self._grid
            )
            cells_so_far = np.append(self._cells, new)
            order = np.argsort(cells_so_far)
            self._cells = cells_so_far[order]
            self._values = np.concatenate([self._values, computed], axis=1)[:, order]
        return self._values[:, np.searchsorted(self._cells, cells)].astype(np.float64)

    def completed(self, batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        """Return the batch, which comes after so many rows, with all columns; those that it has must agree."""
        names = TOKEN_COLUMNS[:-1]
        added = added_elements(batch, self._terms)
        values = self(batch.column("token").to_numpy(zero_copy_only=False) + added)
        values = np.where(added == 0, values, np.maximum(values - added, 0))
        for name, column in zip(names, values, strict=True):
            if name in batch.schema.names:
                agrees = batch.column(name).to_numpy(zero_copy_only=False) == column
                if not agrees.all():
                    raise InvalidValue(
                        f"the {name} in row {_first_bad(agrees, rows)} does not follow from its token",
                        f"{AGAIN}, or leave out the columns {', '.join(names)}",
                    )
        columns = {name: batch.column(name) for name in self._terms.keys}
        columns |= {name: arrow_numbers(column) for name, column in zip(names, values, strict=True)}
        last = [name for name in ("token", "known") if name in batch.schema.names]
        return pa.record_batch({**columns, **{name: batch.column(name) for name in last}})

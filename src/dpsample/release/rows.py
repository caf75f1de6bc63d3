"""Rows of a release: their schema, their order, and the values of tokens and estimates.

What is drawn of a key is its token. Its estimate and its interval follow from the token, so rows may come without them;
rows that state other ones are refused.
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
from dpsample.lazy import arrow_function, pc
from dpsample.release.key_hash import first_frequencies
from dpsample.release.kinds.counted import COUNT_COLUMNS
from dpsample.release.kinds.kind import AGAIN
from dpsample.release.kinds.tokens import TOKEN_COLUMNS
from dpsample.release.terms import Terms
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints

Bools: TypeAlias = npt.NDArray[np.bool_]

_ESTIMATED = TOKEN_COLUMNS[:-1]  # the columns that follow from the token, which is the last one
# A measured sum is rounded to a thousandth of the power of ten below its error: its further figures are noise. Fewer
# figures would add a rounding error that is not small against the noise.
_FIGURES_BELOW_ERROR = 3
_LEAST_ERROR = 1e-300  # stands for an error of 0, which has no logarithm


# ---- columns


def drawn_columns(keys: pa.Schema, terms: Terms) -> pa.Schema:
    """Return the columns of reported keys as they are drawn: those of the keys, the token, and whether a key is known.

    A release of keys only has no token.
    """
    columns = [*keys]
    if not terms.keys_only:
        columns.append(pa.field("token", pa.float64()))
    columns += _known_columns(terms)
    return pa.schema(columns)


def release_schema(schema: pa.Schema, terms: Terms) -> tuple[pa.Schema, pa.Schema]:
    """Check the columns that are given for a release; return these in order, and all columns of the release."""
    _check_columns(schema.names, terms)
    names = [name for name in terms.columns if name in schema.names]
    given = plain_schema(pa.schema([schema.field(name) for name in names]))
    check_key_types(given, terms.keys)
    keys = [given.field(name) for name in terms.keys]
    numbers = [pa.field(name, pa.float64()) for name in terms.numbers]
    numbers += _known_columns(terms)
    for column in numbers:
        if column.name in names:
            _check_type(given.field(column.name), column.type)
    return given, pa.schema(keys + numbers)


def check_key_types(schema: pa.Schema, keys: Iterable[str]) -> None:
    """Refuse floats as keys: keys are compared exactly."""
    for name in keys:
        if pa.types.is_floating(schema.field(name).type):
            raise InvalidValue(
                f"the key column {name!r} cannot hold {schema.field(name).type}, since keys are compared exactly",
                "cast it to string or decimal",
            )


def _known_columns(terms: Terms) -> list[pa.Field]:
    """Return the column that states which keys are known, if the release has known keys."""
    return [] if terms.known is None else [pa.field("known", pa.bool_())]


def _check_type(column: pa.Field, wanted: pa.DataType) -> None:
    """Refuse a column of another type."""
    if column.type != wanted:
        name = "float64" if wanted == pa.float64() else wanted
        raise InvalidValue(
            f"the column {column.name!r} must be {name}, not {column.type}", "cast it"
        )


def _check_columns(names: list[str], terms: Terms) -> None:
    """Refuse other columns than those of the release; columns that follow from tokens may be missing."""
    drawn = [*terms.keys, "token"]
    drawn += [field.name for field in _known_columns(terms)]
    complete = sorted(names) == sorted(terms.columns)
    as_drawn = terms.grid is not None and sorted(names) == sorted(drawn)
    if complete or as_drawn:
        return
    wanted = ", ".join(map(repr, terms.columns))
    found = ", ".join(map(repr, names)) or "none"
    raise InvalidValue(
        f"a release has the columns {wanted}, not {found}",
        "select these columns",
    )


# ---- checks of rows on their way


def checked_rows(batches: Iterable[pa.RecordBatch], terms: Terms) -> Iterator[pa.RecordBatch]:
    """Yield the batches with all columns of the release.

    Refuse keys that do not ascend, within a batch or from one to the next; impossible numbers; and estimates and
    intervals that do not follow from the tokens.
    """
    estimates = TokenEstimates(terms)
    rows_before = 0
    last_key: list[pa.Array] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        keys = [batch.column(name) for name in terms.keys]
        _check_order(keys, last_key, rows_before)
        complete = batch
        if terms.grid is not None:
            _check_tokens(batch, terms, rows_before)
            complete = estimates.completed(batch, rows_before)
        if terms.counts is not None:
            _check_counts(batch, terms, rows_before)
            for amount in terms.amounts:
                _check_amounts(batch, amount, rows_before)
        last_key = [key[-1:] for key in keys]
        rows_before += batch.num_rows
        yield complete


def ascends(before: list[Any], after: list[Any]) -> Any:
    """Return whether each row of `after` is above that of `before`, compared column by column.

    The columns are Arrow arrays, chunked or not.

    >>> ascends([pa.array([1, 1]), pa.array(["b", "b"])], [pa.array([1, 2]), pa.array(["a", "a"])]).to_pylist()
    [False, True]
    """
    *columns, last = zip(before, after, strict=True)
    above = arrow_function("less", *last)
    for earlier, later in reversed(columns):
        tied = pc.equal(earlier, later)
        above = pc.or_(pc.less(earlier, later), pc.and_(tied, above))
    return above


def _check_order(keys: list[pa.Array], last_key: list[pa.Array], rows_before: int) -> None:
    """Refuse keys that do not ascend within a batch, or from the `last_key` before it, which is empty at first."""
    if last_key:
        first_key = [column[:1] for column in keys]
        if not ascends(last_key, first_key)[0].as_py():
            raise _unsorted(rows_before + 1)
    all_but_last = [column[:-1] for column in keys]
    all_but_first = [column[1:] for column in keys]
    ascending = ascends(all_but_last, all_but_first)
    if ascending.false_count:
        last_in_order = pc.index(ascending, False).as_py()
        raise _unsorted(rows_before + last_in_order + 2)  # the row after it, counted from 1


def _unsorted(row: int) -> InvalidValue:
    """Return the refusal of a row that is not above the row before it."""
    return InvalidValue(
        f"the rows of a release must ascend by key, but row {row:,} is not above the row before it",
        "sort them by key: strings by their UTF-8 bytes, several keys column by column",
    )


def _check_tokens(batch: pa.RecordBatch, terms: Terms, rows_before: int) -> None:
    """Refuse tokens that are no positive multiple of 1/grid, once added elements are counted."""
    grid = terms.grid or 1
    frequencies = _numbers(batch, "token") + added_elements(batch, terms)
    with np.errstate(over="ignore"):
        cells = frequencies * grid
    good = (cells > 0) & (cells == np.floor(cells)) & np.isfinite(cells)
    if not good.all():
        raise InvalidValue(
            f"the token in row {_first_bad(good, rows_before)} is no positive multiple of 1/{grid}",
            "state the grid that the sanitizer used",
        )


def _check_counts(batch: pa.RecordBatch, terms: Terms, rows_before: int) -> None:
    """Refuse numbers of users that are not finite, have no positive error, or are not between their bounds."""
    least = np.full(batch.num_rows, terms.sampling.least)
    if terms.known is not None:
        least[_numbers(batch, "known")] = 0
    estimate, low, high, measured, error = (_numbers(batch, name) for name in COUNT_COLUMNS)
    good = np.isfinite(measured) & np.isfinite(error) & (error > 0)
    good &= (least <= low) & (low <= estimate)
    good &= (estimate <= high) & np.isfinite(high)
    if not good.all():
        raise InvalidValue(
            f"the count in row {_first_bad(good, rows_before)} is not finite, has no positive error, or is not "
            "between its bounds",
            AGAIN,
        )


def _check_amounts(batch: pa.RecordBatch, amount: Amount, rows_before: int) -> None:
    """Refuse sums that are not finite, have no positive error, or are not between their bounds."""
    columns = {name: _numbers(batch, name) for name in amount.columns}
    value, clipped_low, clipped_high, low, high = list(columns.values())[:5]
    good = np.isfinite(list(columns.values())).all(axis=0)
    good &= columns[amount.error] > 0
    good &= (low <= clipped_low) & (clipped_low <= value)
    good &= (value <= clipped_high) & (clipped_high <= high)
    if not good.all():
        raise InvalidValue(
            f"{amount.name} in row {_first_bad(good, rows_before)} is not finite, has no positive error, or is not "
            "between its bounds",
            AGAIN,
        )


def _numbers(batch: pa.RecordBatch, name: str) -> Any:
    """Return a column as a NumPy array."""
    return batch.column(name).to_numpy(zero_copy_only=False)


def _first_bad(good: Bools, rows_before: int) -> str:
    """Return the number of the first row that is not good, in a batch that comes after `rows_before` others."""
    return f"{rows_before + 1 + int(np.argmin(good)):,}"


# ---- estimates, which follow from tokens


def added_elements(batch: pa.RecordBatch, terms: Terms) -> Ints:
    """Return how many elements were added to the frequency of each key before its token was drawn.

    Of a coordinated sample these are 1 - h, with h the first frequency at which the key is kept.
    """
    if terms.sampling.seed is not None:
        keys = batch.select(list(terms.keys))
        return 1 - first_frequencies(keys, terms.sampling)
    if terms.known is None:
        return np.zeros(batch.num_rows, np.int64)
    known: Ints = _numbers(batch, "known").astype(np.int64)
    return known * (terms.known.added or 0)


def token_cells(tokens: Any, grid: int) -> Ints:
    """Return tokens, an Arrow column, in units of 1/grid: the cells of the grid.

    >>> token_cells(pa.array([31.5, 12.125]), 8)
    array([252,  97])
    """
    cells: Ints = np.rint(np.asarray(tokens) * grid).astype(np.int64)
    return cells


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
        self._compute(np.setdiff1d(cells, self._cells))
        places = np.searchsorted(self._cells, cells)
        return self._values[:, places].astype(np.float64)

    def _compute(self, new: Ints) -> None:
        """Add the estimates of cells that were not seen before."""
        if not len(new):
            return
        sampling = self._terms.sampling.sanitized_as
        computed = likely_frequencies(new, sampling, self._terms.per_key, self._grid)
        cells = np.append(self._cells, new)
        values = np.concatenate([self._values, computed], axis=1)
        order = np.argsort(cells)
        self._cells = cells[order]
        self._values = values[:, order]

    def completed(self, batch: pa.RecordBatch, rows_before: int) -> pa.RecordBatch:
        """Return the batch with all columns; those that it has must agree. It comes after `rows_before` other rows."""
        added = added_elements(batch, self._terms)
        with_added = self(_numbers(batch, "token") + added)
        values = np.where(added == 0, with_added, np.maximum(with_added - added, 0))
        columns = {name: batch.column(name) for name in self._terms.keys}
        for name, column in zip(_ESTIMATED, values, strict=True):
            if name in batch.schema.names:
                _check_agrees(batch, name, column, rows_before)
            columns[name] = pa.array(column)
        for name in ("token", "known"):
            if name in batch.schema.names:
                columns[name] = batch.column(name)
        return pa.record_batch(columns)


def _check_agrees(batch: pa.RecordBatch, name: str, computed: Floats, rows_before: int) -> None:
    """Refuse a column with other values than those that were computed from the tokens."""
    agrees = _numbers(batch, name) == computed
    if not agrees.all():
        raise InvalidValue(
            f"the {name} in row {_first_bad(agrees, rows_before)} does not follow from its token",
            f"{AGAIN}, or leave out the columns {', '.join(_ESTIMATED)}",
        )


# ---- columns of counted users


def counted(keys: pa.Table, values: Floats, errors: Floats, least: Ints | int = 1) -> pa.Table:
    """Append numbers of users to keys: the measured number, its error, and whole numbers to read, with 95 % intervals.

    A key that was discovered has at least one user, or as many as are asked for: estimates and bounds are at least
    `least`, while `measured` may be lower.
    """
    margin = TABLE_MARGIN * errors
    estimate = np.maximum(np.rint(values), least)
    low = np.maximum(np.floor(values - margin), least)
    high = np.maximum(np.ceil(values + margin), least)
    measured = np.round(values, 3)
    standard_error = np.maximum(np.round(errors, 3), 0.001)
    columns = (estimate, low, high, measured, standard_error)
    return _with_columns(keys, COUNT_COLUMNS, columns)


def _with_columns(keys: pa.Table, names: Iterable[str], columns: Iterable[Floats]) -> pa.Table:
    """Append columns of numbers to keys."""
    table = keys
    for name, column in zip(names, columns, strict=True):
        table = table.append_column(pa.field(name, pa.float64()), pa.array(column))
    return table


def summed(
    keys: pa.Table,
    record: Clipped,
    values: Floats,
    errors: Floats,
    users: Floats,
    least: Ints | int = 1,
) -> pa.Table:
    """Append the clipped sums of an amount to keys, with their errors and 95 % intervals.

    A second, wider interval allows for amounts beyond the clip. Figures that are noise alone are rounded away. A key
    that was discovered has at least `least` rows; these and their bounds are whole.

    record  the amount, and how much lies beyond its clip
    values, errors, users  of each key: its noisy sum, the standard deviation of the noise, its number of users
    """
    amount = record.amount
    low, high, wide_low, wide_high = record.intervals(users, values, errors)
    if amount.column is None:  # rows
        step = np.full(len(values), 1e-3)
        outward = np.ones(len(values))
        lowest: Any = least
    else:
        magnitude = np.log10(np.maximum(errors, _LEAST_ERROR))
        step = 10.0 ** np.floor(magnitude - _FIGURES_BELOW_ERROR)
        outward = step
        lowest = -np.inf

    def down(bounds: Floats) -> Floats:
        return np.floor(bounds / outward) * outward

    def up(bounds: Floats) -> Floats:
        return np.ceil(bounds / outward) * outward

    estimates = np.rint(record.possible(values) / outward) * outward
    columns = [estimates, down(low), up(high), down(wide_low), up(wide_high)]
    columns = [np.maximum(column, lowest) for column in columns]
    if amount.one_sided:
        columns.append(np.rint(values / step) * step)
    columns.append(np.maximum(np.rint(errors / step), 1) * step)
    return _with_columns(keys, amount.columns, map(_twelve_figures, columns))


def _twelve_figures(numbers: Floats) -> Floats:
    """Round numbers to 12 figures, which cuts off the error of a multiplication by a step such as 0.001."""
    return np.array([float(f"{number:.12g}") for number in numbers.tolist()])

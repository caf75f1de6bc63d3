"""Amounts of counted users: sums of rows and of columns, and ratios of two sums.

An amount has two names. `rows_clipped`, or `sum_COLUMN_clipped`, is the sum of clipped amounts: its interval has the
noise of its keys. `rows`, or `sum_COLUMN`, has the same estimate, but its interval includes what is beyond the clip, as
far as it was looked at. A ratio has the interval of Fieller: of all ratios r, those for which `a - r b` is not further
from 0 than its error allows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.answers.counted_keys import CountedKeys
from dpsample.answers.counted_sums import Bounded
from dpsample.errors import InvalidValue
from dpsample.release.explain import explain_beyond

_NOTHING_BEYOND = ((0.0, 0.0), (0.0, 0.0))
USERS = "users"


@dataclass(frozen=True)
class Sum:
    """A weighted sum over keys: its value and error, and by how much it may be lower and higher, beyond a clip.

    It is known to lie between `least` and `most`.
    """

    value: float
    error: float
    beyond: tuple[tuple[float, float], tuple[float, float]] = (
        _NOTHING_BEYOND  # below and above, with errors
    )
    least: float = -math.inf
    most: float = math.inf

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of this level."""
        low, high = self.ends()
        reach = margin(level)
        return self.possible(low.value - reach * low.error), self.possible(
            high.value + reach * high.error
        )

    @staticmethod
    def added(sums: Sequence["Sum"]) -> "Sum":
        """Return the sum of sums of several releases: their errors are independent."""
        if len(sums) == 1:
            return sums[0]
        below, above = zip(*(one.beyond for one in sums), strict=True)
        return Sum(
            value=math.fsum(one.value for one in sums),
            error=math.hypot(*(one.error for one in sums)),
            beyond=(_added_beyond(below), _added_beyond(above)),
            least=sum(one.least for one in sums),
            most=sum(one.most for one in sums),
        )

    def possible(self, number: float) -> float:
        """Move a number to where the sum can be."""
        return min(max(number, self.least), self.most)

    def ends(self) -> list["Sum"]:
        """Return the sums without what is beyond, and with all of it, on either side."""
        (down, error_down), (up, error_up) = self.beyond
        low = Sum(self.value - down, math.hypot(self.error, error_down))
        return [low, Sum(self.value + up, math.hypot(self.error, error_up))]


def _added_beyond(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the sum of numbers beyond one end of a clip, with its error."""
    numbers, errors = zip(*parts, strict=True)
    return math.fsum(numbers), math.hypot(*errors)


@dataclass(frozen=True)
class Summed:
    """An amount that is summed: of clipped amounts alone, or with what is beyond the clip in the interval."""

    record: Clipped
    only_clipped: bool

    @property
    def name(self) -> str:
        """The name by which it is asked for."""
        return self.record.amount.clipped if self.only_clipped else self.record.amount.name

    @property
    def note(self) -> str:
        """State what the sum is about."""
        amount = self.record.amount
        if self.only_clipped:
            return f"{amount}, and nothing beyond; the interval of {amount.name} includes more"
        what = "rows" if amount.column is None else "values"
        return (
            f"the estimate is of {amount}; the interval includes {explain_beyond(self.record)}; {what} beyond this "
            "range are in neither"
        )

    def over(self, keys: CountedKeys, table: pa.Table) -> Sum:
        """Return the sum over some keys of a release's table; what is beyond the clip is divided among all keys."""
        own = keys.of_amount(table, self.record)
        least, most = self._possible(keys)
        beyond = _NOTHING_BEYOND if self.only_clipped else self._beyond(keys, table)
        return Sum(float(keys.weights @ own.values), own.error_of_sum(), beyond, least, most)

    def _possible(self, keys: CountedKeys) -> tuple[float, float]:
        """Where the sum can be: on one side of 0, if its clip and the weights of keys are."""
        if (keys.weights < 0).any():
            return -math.inf, math.inf
        amount = self.record.amount
        return 0.0 if amount.low == 0 else -math.inf, 0.0 if amount.high == 0 else math.inf

    def _beyond(
        self, keys: CountedKeys, table: pa.Table
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """By how much a weighted sum may be lower and higher, with the errors of both.

        A key of negative weight makes a sum lower by what it has above the clip.
        """
        users = table["measured"].to_numpy()
        values = table[self.record.amount.measured].to_numpy()
        below, above = self.record.beyond_keys(users, values)
        rows = keys.rows
        positive = np.maximum(keys.weights, 0)
        negative = np.maximum(-keys.weights, 0)

        down = below.of(rows, positive).with_other_end(above.of(rows, negative))
        up = above.of(rows, positive).with_other_end(below.of(rows, negative))
        return down.longer_sum(), up.longer_sum()


def amount_of(amounts: Sequence[Clipped], name: Any) -> Summed | None:
    """Return the amount that has this name, if there is one."""
    for record in amounts:
        if isinstance(name, str) and name in (record.amount.name, record.amount.clipped):
            return Summed(record, only_clipped=name == record.amount.clipped)
    return None


def bounded_sum(total: Sum, level: float) -> Bounded:
    """Return a sum with its interval."""
    return Bounded(total.possible(total.value), total.error, *total.interval(level))


@dataclass(frozen=True)
class Ratio:
    """The ratio of two sums, each of users or of an amount."""

    above: Summed | None  # None is users
    below: Summed | None
    per: str

    @staticmethod
    def of(amounts: Sequence[Clipped], of: Any, per: Any) -> "Ratio":
        """Return the ratio of two sums of a release by their names."""
        above, below = (None if name == USERS else amount_of(amounts, name) for name in (of, per))
        names = [
            USERS,
            *(name for record in amounts for name in (record.amount.name, record.amount.clipped)),
        ]
        same = above.record == below.record if above and below else of == per
        if same or of not in names or per not in names:
            raise InvalidValue(
                f"{of!r} per {per!r} is not a ratio of two sums of this release, which are {', '.join(names)}",
                "rows and sums are counted with `rows=...` and `sums=...`",
            )
        return Ratio(above, below, per)

    def over(
        self, sum_of: Callable[[Summed | None], Sum], level: float
    ) -> tuple[Bounded, list[str]]:
        """Return the ratio of two sums over some keys, and notes. `sum_of` sums an amount, or None: users."""
        a, b = sum_of(self.above), sum_of(self.below)
        corners = [fieller(x, y, level) for x, y in product(a.ends(), b.ends())]
        low = min(low for low, _ in corners)
        high = max(high for _, high in corners)
        value = error = math.nan
        if b.value:
            value = a.value / b.value
            error = math.hypot(a.error, value * b.error) / abs(b.value)
        amounts = [summed for summed in (self.above, self.below) if summed is not None]
        notes = list(dict.fromkeys(amount.note for amount in amounts))
        if not math.isfinite(high - low):
            notes.append(
                f"{self.per} cannot be distinguished from 0: nothing is known of the ratio"
            )
        elif (
            b.least >= 0
        ):  # the ratio has the sign of the first sum, whose possible range ends at 0, or nowhere
            value, low, high = (a.possible(number) for number in (value, low, high))
        return Bounded(value, error, low, high), notes


def fieller(a: Sum, b: Sum, level: float) -> tuple[float, float]:
    """Return the interval of a / b, of independent normal errors; all numbers if b cannot be told from 0.

    >>> fieller(Sum(100.0, 0.0), Sum(10.0, 1.0), 0.95)
    (8.3..., 12.4...)
    """
    square = margin(level) ** 2
    steep = b.value**2 - square * b.error**2
    if steep <= 0:
        return -math.inf, math.inf
    middle = a.value * b.value
    at_zero = a.value**2 - square * a.error**2
    root = math.sqrt(max(middle**2 - steep * at_zero, 0.0))
    return (middle - root) / steep, (middle + root) / steep


def sum_over(summed: Summed | None, keys: CountedKeys, table: pa.Table) -> Sum:
    """The sum of an amount, or of users, over some keys."""
    if summed is not None:
        return summed.over(keys, table)
    least = 0.0 if (keys.weights >= 0).all() else -math.inf
    return Sum(float(keys.weights @ keys.values), keys.error_of_sum(), least=least)

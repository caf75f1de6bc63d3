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
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.answers.counted_keys import CountedKeys
from dpsample.answers.counted_sums import Bounded
from dpsample.errors import InvalidValue
from dpsample.release.explain import explain_beyond

USERS = "users"


class Extension(NamedTuple):
    """By how much an interval extends at one end for what is beyond a clip, and the error of that."""

    amount: float = 0.0
    error: float = 0.0

    @staticmethod
    def added(parts: Sequence["Extension"]) -> "Extension":
        """Return the sum of several releases: their errors are independent."""
        amount = math.fsum(part.amount for part in parts)
        errors = [part.error for part in parts]
        return Extension(amount, math.hypot(*errors))


NOTHING_BEYOND = Extension()


@dataclass(frozen=True)
class Sum:
    """A weighted sum over keys: its value and error, and by how much it may be lower and higher, beyond a clip.

    It is known to lie between `least` and `most`.
    """

    value: float
    error: float
    below: Extension = NOTHING_BEYOND
    above: Extension = NOTHING_BEYOND
    least: float = -math.inf
    most: float = math.inf

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of this level."""
        lowest, highest = self.ends()
        reach = margin(level)
        low = lowest.value - reach * lowest.error
        high = highest.value + reach * highest.error
        return self.possible(low), self.possible(high)

    @staticmethod
    def added(sums: Sequence["Sum"]) -> "Sum":
        """Return the sum of sums of several releases: their errors are independent."""
        if len(sums) == 1:
            return sums[0]
        value = math.fsum(one.value for one in sums)
        errors = [one.error for one in sums]
        below = Extension.added([one.below for one in sums])
        above = Extension.added([one.above for one in sums])
        least = sum(one.least for one in sums)
        most = sum(one.most for one in sums)
        return Sum(value, math.hypot(*errors), below, above, least, most)

    def possible(self, number: float) -> float:
        """Move a number to where the sum can be."""
        return min(max(number, self.least), self.most)

    def ends(self) -> tuple["Sum", "Sum"]:
        """Return the sum with all that may be beyond the lower end of the clip, and with all beyond the upper end."""
        error_of_lowest = math.hypot(self.error, self.below.error)
        error_of_highest = math.hypot(self.error, self.above.error)
        lowest = Sum(self.value - self.below.amount, error_of_lowest)
        highest = Sum(self.value + self.above.amount, error_of_highest)
        return lowest, highest


@dataclass(frozen=True)
class Summed:
    """An amount that is summed: of clipped amounts alone, or with what is beyond the clip in the interval."""

    record: Clipped
    only_clipped: bool

    @property
    def name(self) -> str:
        """The name by which it is asked for."""
        amount = self.record.amount
        return amount.clipped if self.only_clipped else amount.name

    @property
    def note(self) -> str:
        """State what the sum is about."""
        amount = self.record.amount
        if self.only_clipped:
            return f"{amount}, and nothing beyond; the interval of {amount.name} includes more"
        what = "rows" if amount.column is None else "values"
        beyond = explain_beyond(self.record)
        return f"the estimate is of {amount}; the interval includes {beyond}; {what} beyond this range are in neither"

    def over(self, keys: CountedKeys, table: pa.Table) -> Sum:
        """Return the sum over some keys of a release's table; what is beyond the clip is divided among all keys."""
        own = keys.of_amount(table, self.record)
        value = float(keys.weights @ own.values)
        least, most = self._possible(keys)
        if self.only_clipped:
            return Sum(value, own.error_of_sum(), least=least, most=most)
        below, above = self._beyond(keys, table)
        return Sum(value, own.error_of_sum(), below, above, least, most)

    def _possible(self, keys: CountedKeys) -> tuple[float, float]:
        """Where the sum can be: on one side of 0, if its clip and the weights of keys are."""
        if (keys.weights < 0).any():
            return -math.inf, math.inf
        amount = self.record.amount
        least = 0.0 if amount.low == 0 else -math.inf
        most = 0.0 if amount.high == 0 else math.inf
        return least, most

    def _beyond(self, keys: CountedKeys, table: pa.Table) -> tuple[Extension, Extension]:
        """By how much a weighted sum may be lower and higher, with the errors of both.

        A key of negative weight makes a sum lower by what it has above the clip.
        """
        users = table["measured"].to_numpy()
        values = table[self.record.amount.measured].to_numpy()
        below, above = self.record.beyond_keys(users, values)
        positive = np.maximum(keys.weights, 0)
        negative = np.maximum(-keys.weights, 0)

        lower = below.of(keys.rows, positive)
        lower = lower.with_other_end(above.of(keys.rows, negative))
        higher = above.of(keys.rows, positive)
        higher = higher.with_other_end(below.of(keys.rows, negative))
        return Extension(*lower.longer_sum()), Extension(*higher.longer_sum())


def amount_of(amounts: Sequence[Clipped], name: Any) -> Summed | None:
    """Return the amount that has this name, if it is a name and there is one."""
    if not isinstance(name, str):
        return None
    for record in amounts:
        for only_clipped in (False, True):
            summed = Summed(record, only_clipped)
            if name == summed.name:
                return summed
    return None


def bounded_sum(total: Sum, level: float) -> Bounded:
    """Return a sum with its interval."""
    low, high = total.interval(level)
    return Bounded(total.possible(total.value), total.error, low, high)


@dataclass(frozen=True)
class Ratio:
    """The ratio of two sums, each of users or of an amount."""

    above: Summed | None  # None is users
    below: Summed | None
    per: str

    @staticmethod
    def of(amounts: Sequence[Clipped], of: Any, per: Any) -> "Ratio":
        """Return the ratio of two sums of a release by their names."""
        names = [USERS]
        for record in amounts:
            names += [record.amount.name, record.amount.clipped]
        above = amount_of(amounts, of)
        below = amount_of(amounts, per)
        is_same = of == per
        if above is not None and below is not None:
            is_same = above.record == below.record
        if is_same or of not in names or per not in names:
            raise InvalidValue(
                f"{of!r} per {per!r} is not a ratio of two sums of this release, which are {', '.join(names)}",
                "rows and sums are counted with `rows=...` and `sums=...`",
            )
        return Ratio(above, below, per)

    def over(
        self, sum_of: Callable[[Summed | None], Sum], level: float
    ) -> tuple[Bounded, list[str]]:
        """Return the ratio of two sums over some keys, and notes. `sum_of` sums an amount, or None: users."""
        a = sum_of(self.above)
        b = sum_of(self.below)
        low = math.inf
        high = -math.inf
        # both sums without, and with, what is beyond their clips
        for end_of_a, end_of_b in product(a.ends(), b.ends()):
            lowest, highest = fieller(end_of_a, end_of_b, level)
            low = min(low, lowest)
            high = max(high, highest)
        value = math.nan
        error = math.nan
        if b.value:
            value = a.value / b.value
            error_of_a_less_ratio_b = math.hypot(a.error, value * b.error)
            error = error_of_a_less_ratio_b / abs(b.value)

        notes = []
        for summed in (self.above, self.below):
            if summed is not None and summed.note not in notes:
                notes.append(summed.note)
        if not math.isfinite(high - low):
            unknown = f"{self.per} cannot be distinguished from 0: nothing is known of the ratio"
            return Bounded(value, error, low, high), [*notes, unknown]
        if b.least >= 0:
            # the ratio has the sign of the first sum, whose possible range ends at 0, or nowhere
            value = a.possible(value)
            low = a.possible(low)
            high = a.possible(high)
        return Bounded(value, error, low, high), notes


def fieller(a: Sum, b: Sum, level: float) -> tuple[float, float]:
    """Return the interval of a / b, of independent normal errors; all numbers if b cannot be told from 0 (Fieller).

    Its ends are the roots of ``(a - r b)**2 = z**2 (error_a**2 + r**2 error_b**2)``, a quadratic equation in r.

    >>> fieller(Sum(100.0, 0.0), Sum(10.0, 1.0), 0.95)
    (8.3..., 12.4...)
    """
    square = margin(level) ** 2
    quadratic = b.value**2 - square * b.error**2
    if quadratic <= 0:
        return -math.inf, math.inf
    half_linear = a.value * b.value
    constant = a.value**2 - square * a.error**2
    discriminant = half_linear**2 - quadratic * constant
    root = math.sqrt(max(discriminant, 0.0))
    low = (half_linear - root) / quadratic
    high = (half_linear + root) / quadratic
    return low, high


def sum_over(summed: Summed | None, keys: CountedKeys, table: pa.Table) -> Sum:
    """Return the sum of an amount over some keys, or of their users if the amount is None."""
    if summed is not None:
        return summed.over(keys, table)
    value = float(keys.weights @ keys.values)
    least = 0.0 if (keys.weights >= 0).all() else -math.inf
    return Sum(value, keys.error_of_sum(), least=least)

"""Questions about amounts of counted users: sums of rows and of columns, and ratios of two sums.

An amount has two names. `rows_clipped`, or `sum_COLUMN_clipped`, is the sum of clipped amounts: its interval has the
noise of its keys. `rows`, or `sum_COLUMN`, has the same estimate, but its interval includes what is beyond the clip, as
far as it was looked at. A ratio has the interval of Fieller: of all ratios r, those for which `a - r b` is not further
from 0 than its error allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.explain import explain_beyond
from dpsample.questions.counted_keys import CountedKeys, detection_threshold, error_of_sum

if TYPE_CHECKING:
    from dpsample.release.release import Release


@dataclass(frozen=True)
class Summed:
    """An amount that is summed: of clipped amounts alone, or with what is beyond the clip in the interval."""

    record: Clipped
    only_clipped: bool

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


@dataclass(frozen=True)
class Sum:
    """A weighted sum over keys: its value and error, and by how much it may be lower and higher, beyond a clip.

    It is known to lie between `least` and `most`.
    """

    value: float
    error: float
    beyond: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (0.0, 0.0))  # below and above, with errors
    least: float = -math.inf
    most: float = math.inf

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of this level."""
        (down, its_error), (up, error_up) = self.beyond
        reach = margin(level)
        low = self.value - down - reach * math.hypot(self.error, its_error)
        high = self.value + up + reach * math.hypot(self.error, error_up)
        return self.possible(low), self.possible(high)

    def possible(self, number: float) -> float:
        """Move a number to where the sum can be."""
        return min(max(number, self.least), self.most)

    def ends(self) -> list["Sum"]:
        """Return the sums without what is beyond, and with all of it, on either side."""
        (down, its_error), (up, error_up) = self.beyond
        low = Sum(self.value - down, math.hypot(self.error, its_error))
        return [low, Sum(self.value + up, math.hypot(self.error, error_up))]


def amount_of(release: "Release", name: Any) -> Summed | None:
    """Return the amount of a release that has this name, if there is one."""
    counts = release.terms.counts
    for record in counts.amounts if counts else ():
        if isinstance(name, str) and name in (record.amount.name, record.amount.clipped):
            return Summed(record, only_clipped=name == record.amount.clipped)
    return None


def sum_of_amount(release: "Release", summed: Summed, keys: CountedKeys, level: float) -> Estimate:
    """Estimate the sum of an amount over keys."""
    if not len(keys):
        return _nothing(release, level)
    total = _summed(release, summed, keys)
    notes = (summed.note, unreported_note(release, "this sum"))
    possible = replace(total, value=total.possible(total.value))
    return _estimate(release, keys, possible, total.interval(level), level, notes)


def ratio_of(release: "Release", of: str, per: str) -> Callable[[CountedKeys, float], Estimate]:
    """Return what estimates the ratio of two sums; each is of users or of an amount."""
    above, below = (None if name == "users" else amount_of(release, name) for name in (of, per))
    names = ["users", *(name for amount in release.terms.amounts for name in (amount.name, amount.clipped))]
    same = above.record == below.record if above and below else of == per
    if same or of not in names or per not in names:
        raise InvalidValue(
            f"a ratio is of two sums of this release: {', '.join(names)}",
            f"{of!r} per {per!r}",
            "name two of them; rows and sums are counted with rows=... and sums=... (--rows, --sum)",
        )

    def answered(keys: CountedKeys, level: float) -> Estimate:
        if not len(keys):
            return _nothing(release, level, math.nan)
        a, b = (_summed(release, summed, keys) for summed in (above, below))
        corners = [fieller(x, y, level) for x, y in product(a.ends(), b.ends())]
        low, high = min(low for low, _ in corners), max(high for _, high in corners)
        value = a.value / b.value if b.value else math.nan
        error = math.hypot(a.error, value * b.error) / abs(b.value) if b.value else math.nan
        limits = dict.fromkeys(summed.note for summed in (above, below) if summed is not None)
        notes = [*limits, unreported_note(release, "either sum")]
        if not math.isfinite(high - low):
            notes.append(f"{per} cannot be told from 0: nothing is known of the ratio")
        elif b.least >= 0:  # the ratio has the sign of the first sum, whose possible range ends at 0, or nowhere
            value, low, high = (a.possible(number) for number in (value, low, high))
        return _estimate(release, keys, Sum(value, error), (low, high), level, tuple(notes))

    return answered


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
    root = math.sqrt(max(middle**2 - steep * (a.value**2 - square * a.error**2), 0.0))
    return (middle - root) / steep, (middle + root) / steep


def unreported_note(release: "Release", what: str) -> str:
    """Say that other keys are left out."""
    known = "; other() estimates them" if release.total is not None else ""
    return f"keys that were not reported are not in {what}{known}"


def _summed(release: "Release", summed: Summed | None, keys: CountedKeys) -> Sum:
    """The sum of an amount, or of users, over some keys; what is beyond the clip is divided among all keys."""
    if summed is None:
        least = 0.0 if (keys.weights >= 0).all() else -math.inf
        return Sum(float(keys.weights @ keys.values), error_of_sum(keys), least=least)
    own = keys.of_amount(release, summed.record)
    least, most = _possible(summed.record, keys)
    beyond = ((0.0, 0.0), (0.0, 0.0)) if summed.only_clipped else _beyond(release, summed.record, keys)
    return Sum(float(keys.weights @ own.values), error_of_sum(own), beyond, least, most)


def _possible(record: Clipped, keys: CountedKeys) -> tuple[float, float]:
    """Where the sum of an amount can be: on one side of 0, if its clip and the weights of keys are."""
    if (keys.weights < 0).any():
        return -math.inf, math.inf
    return 0.0 if record.amount.low == 0 else -math.inf, 0.0 if record.amount.high == 0 else math.inf


def _beyond(release: "Release", record: Clipped, keys: CountedKeys) -> tuple[tuple[float, float], tuple[float, float]]:
    """By how much a weighted sum may be lower and higher, with the errors of both.

    A key of negative weight makes a sum lower by what it has above the clip.
    """
    table = release.table
    users, values = (table[name].to_numpy() for name in ("measured", record.amount.measured))
    below, above = record.beyond_keys(users, values)
    positive = np.maximum(keys.weights, 0)
    negative = np.maximum(-keys.weights, 0)

    down = below.of(keys.rows, positive).with_other_end(above.of(keys.rows, negative))
    up = above.of(keys.rows, positive).with_other_end(below.of(keys.rows, negative))
    return down.longer_sum(), up.longer_sum()


def _estimate(
    release: "Release",
    keys: CountedKeys,
    total: Sum,
    interval: tuple[float, float],
    level: float,
    notes: tuple[str, ...],
) -> Estimate:
    """Return the answer; it is guaranteed if it has an interval."""
    low, high = interval
    threshold = detection_threshold(release)
    guaranteed = math.isfinite(high - low)
    return Estimate(total.value, total.error, low, high, level, 0.0, len(keys), threshold, guaranteed, notes)


def _nothing(release: "Release", level: float, value: float = 0.0) -> Estimate:
    """The answer if no reported key is selected."""
    note = "no reported key is selected; nothing is known of other keys"
    unknown = math.nan, -math.inf, math.inf, level, math.nan
    return Estimate(value, *unknown, 0, detection_threshold(release), False, (note,))

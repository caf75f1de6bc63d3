"""Amounts: what users add to the keys that were discovered, beside themselves: rows, or sums of a column.

The amount of a user and a key is the number of the user's rows of this key, or the sum of a column over them. It is
clipped, so that one user changes a sum by a bounded vector (docs/theory.md, section 10).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.scheme.sampling import Floats

LOOKED_AT: Final = 8  # times the clip: how far beyond it amounts are looked at
MOST_AMOUNTS: Final = 8
_MOST_ROWS = 10**6
_CLIPS = Fraction(1, 10**12), Fraction(10**15)
_FRACTION_BITS = 26  # the clip of a sum is 2**26 units: eight times it is a 32-bit integer
# by how much what a key has beyond a clip may differ from what it is given, relative to it; chosen on generated data:
# with 0.5, intervals were too short where clips took a quarter or more of a sum (docs/theory.md, section 10)
_APART = 1.25
_ROW_BITS = 20  # one row counts with up to 2**20 times the clip


@dataclass(frozen=True)
class Amount:
    """What is summed over users: rows, or a column; the amount of a user and a key is clipped to [-clip, clip].

    >>> Amount("price", Fraction(100)).columns
    ('sum_price', 'sum_price_low', 'sum_price_high', 'sum_price_error')
    >>> Amount(None, Fraction(5)).columns
    ('rows', 'rows_low', 'rows_high', 'rows_measured', 'rows_error')
    """

    column: str | None  # None for rows
    clip: Fraction

    @property
    def name(self) -> str:
        """The name of its column in a release."""
        return "rows" if self.column is None else f"sum_{self.column}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a release has of it."""
        measured = [] if self.measured == self.name else [self.measured]
        return (self.name, f"{self.name}_low", f"{self.name}_high", *measured, self.error)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The names of its parts of the counts: its sums, what scaling down took, and what is beyond the clip."""
        return self.name, f"{self.name} clipped", f"{self.name} beyond"

    @property
    def measured(self) -> str:
        """The column of what was measured: a number of rows is at least 1, but what was measured may be lower."""
        return "rows_measured" if self.column is None else self.name

    @property
    def error(self) -> str:
        """The column of the standard error."""
        return f"{self.name}_error"

    @property
    def whole(self) -> int:
        """The number of units in which the clip is reached: rows are whole, sums are in fixed point."""
        return int(self.clip) if self.column is None else 1 << _FRACTION_BITS

    @property
    def scale(self) -> float:
        """The number of units of 1, by which values of the column are multiplied."""
        return float(self.whole / self.clip)

    @property
    def most_of_row(self) -> int:
        """The most units that one row counts with: a sum of 2**17 such rows is still exact."""
        return self.whole << _ROW_BITS

    @property
    def most(self) -> int:
        """The most units of a user and a key that are looked at."""
        return LOOKED_AT * self.whole

    def __str__(self) -> str:
        if self.column is None:
            return f"rows, up to {int(self.clip):,} of each user and key"
        return f"sums of {self.column!r}, from -{text(self.clip)} to {text(self.clip)} for each user and key"


def amounts_of(rows: int | None, sums: Mapping[str, Number] | None) -> tuple[Amount, ...]:
    """Read what is summed: the clip of rows, if they are counted, and the clips of columns.

    >>> [str(amount) for amount in amounts_of(5, {"price": "12.5"})]
    ['rows, up to 5 of each user and key', "sums of 'price', from -12.5 to 12.5 for each user and key"]
    """
    amounts = []
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
            raise InvalidValue(
                f"rows of a user and a key are clipped at a whole number from 1 to {_MOST_ROWS:,}",
                f"{rows!r}",
                "write one, such as rows=5 (--rows 5)",
            )
        amounts.append(Amount(None, Fraction(rows)))
    if sums is not None and not isinstance(sums, Mapping):
        raise InvalidValue(
            "sums are columns with their clips",
            type(sums).__name__,
            "write a mapping such as {'price': 100} (--sum price:100)",
        )
    for column, clip in (sums or {}).items():
        if not isinstance(column, str) or not column:
            raise InvalidValue(
                "a sum is of a column", type(column).__name__, "name one, as in {'price': 100} (--sum price:100)"
            )
        amounts.append(Amount(column, exact(clip, "the clip of a sum")))
    return check_amounts(amounts)


def check_amounts(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Refuse clips out of range, too many amounts, and names that differ by upper and lower case alone."""
    checked = tuple(amounts)
    for amount in checked:
        _check_kind(amount)
        if not _CLIPS[0] <= amount.clip <= _CLIPS[1]:
            raise InvalidValue(
                "the clip of a sum is a number from 1e-12 to 1e15", text(amount.clip), "choose another, or other units"
            )
    names = [name.lower() for amount in checked for name in {*amount.columns, *amount.parts}]
    if len({*names}) < len(names) or len(checked) > MOST_AMOUNTS:
        raise InvalidValue(
            f"a release has up to {MOST_AMOUNTS} amounts, whose columns differ in more than upper and lower case",
            "more, or columns of one name",
            "leave some out, or rename a column",
        )
    return checked


def _check_kind(amount: Amount) -> None:
    """Refuse what is neither rows, of which there is a whole number, nor a column with a name."""
    rows = amount.column is None and amount.clip.denominator == 1 and amount.clip <= _MOST_ROWS
    if not rows and not (isinstance(amount.column, str) and amount.column):
        raise InvalidValue(
            f"an amount is of rows, with a clip from 1 to {_MOST_ROWS:,}, or of a column", "another", "name a column"
        )


def exponential_tail(means: Floats) -> Floats:
    """Return the mean beyond a clip of 1 of exponential numbers, from the mean of the numbers when they are clipped.

    Of mean m, clipped ones have the mean ``m (1 - exp(-1 / m))``, and ``m exp(-1 / m)`` is beyond, up to 7 here.

    >>> exponential_tail(np.array([-1.0, 0.1, 0.5, 2.0])).round(4)
    array([0.    , 0.    , 0.1275, 7.    ])
    """
    m = np.geomspace(0.02, 64, 400)
    tails = np.minimum(m * np.exp(-1 / m), LOOKED_AT - 1)
    return np.interp(means, m * -np.expm1(-1 / m), tails, left=0.0, right=LOOKED_AT - 1)


def check_measured(what: str, values: Iterable[float], errors: Iterable[float]) -> None:
    """Refuse what was measured if it is no number, or has a negative error."""
    if not all(map(math.isfinite, values)) or not all(0 <= error < math.inf for error in errors):
        raise InvalidValue(
            f"{what} is stated in finite numbers, with errors of at least 0",
            "others",
            "get the release again from where it was written",
        )


@dataclass(frozen=True)
class Clipped:
    """What clipping did to an amount, as it was measured: the public record.

    `share` is what the clipping of users' lengths took away, averaged over keys, and was put back; `groups` has the
    relative error of that for the groups of the counts. `beyond` is what amounts have beyond -clip and beyond clip, up
    to eight times as much, on average for each user of a key, with the errors of both; intervals are longer by it.
    """

    amount: Amount
    share: float = 0.0
    groups: tuple[float, ...] = ()
    beyond: tuple[float, float] = (0.0, 0.0)
    beyond_errors: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        check_measured(
            "what clipping did to an amount", (self.share, *self.beyond), (*self.groups, *self.beyond_errors)
        )

    def beyond_keys(self, users: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Divide what is beyond -clip, and what is beyond clip, among all keys: arrays of 3 x 3 x keys.

        Each has what is beyond, its error, which all keys have in common, and that of each key by itself. Which keys it
        belongs to is not known. So it is divided in three ways, and an interval is longer by the largest part: in
        proportion to users; to what is beyond the clip of exponential amounts that have the mean of the key's clipped
        ones; and to the sums of keys, with a tenth of the clip for each user, since sums of both signs may be near 0.
        """
        users, ends = np.maximum(users, 1.0), []
        for sign, each, error in zip((-1, 1), self.beyond, self.beyond_errors, strict=True):
            means = sign * values / users / float(self.amount.clip)
            laws = np.ones(len(users)), exponential_tail(means), np.clip(means, 0.0, 1.0) + 0.1
            # if no key has sums of this sign, a law is 0 for all of them, and says nothing
            kept = [law if law.any() else laws[0] for law in laws]
            ways = np.array([users * law * (users.sum() / float(users @ law)) for law in kept])
            parts = ways * max(each, 0.0)
            ends.append(np.array([parts, ways * error, _APART * parts]))
        return ends[0], ends[1]

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form; rows have no column."""
        column = {} if self.amount.column is None else {"column": self.amount.column}
        return {
            **column,
            "clip": text(self.amount.clip),
            "clipped": self.share,
            "groups": list(self.groups),
            "beyond": list(self.beyond),
            "beyond_errors": list(self.beyond_errors),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Clipped":
        """Read the JSON form back."""
        below, above = map(float, form["beyond"])
        below_error, above_error = map(float, form["beyond_errors"])
        return cls(
            Amount(form.get("column"), exact(form["clip"], "clip")),
            float(form["clipped"]),
            tuple(map(float, form["groups"])),
            (below, above),
            (below_error, above_error),
        )

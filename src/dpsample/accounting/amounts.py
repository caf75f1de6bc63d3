"""Amounts: what users add to the keys that were discovered, beside themselves: rows, or sums of a column.

The amount of a user and a key is the number of the user's rows of this key, or the sum of a column over them. It is
clipped to a range, so that one user changes a sum by a bounded vector (docs/theory.md, section 10).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text

# one number, its two ends as a pair, or both as a text such as "0:100"
Clip: TypeAlias = Number | tuple[Number, Number] | list[Number]

LOOKED_AT: Final = 8  # times the clip: how far beyond it amounts are looked at
MOST_AMOUNTS: Final = 8
_MOST_ROWS = 10**6
_SMALLEST, _LARGEST = Fraction(1, 10**12), Fraction(10**15)
_UNEQUAL = (
    10**6
)  # one end of a clip is at most this many times the other one, so that both are many units
_FRACTION_BITS = 26  # the clip of a sum is 2**26 units: eight times it is a 32-bit integer
_ROW_BITS = 20  # one row counts with up to 2**20 times the clip
_CLIP_RULE = (
    "the clip of a sum is a number, such as 100, or two ends with 0 between them, such as 0:100, each 0 or from 1e-12 "
    "to 1e15 in size, and within a factor of a million"
)


@dataclass(frozen=True)
class Amount:
    """What is summed over users: rows, or a column. The amount of a user and a key is clipped to [low, high].

    A release has the sums of clipped amounts, with an interval (NAME_clipped, and with _low and _high); and an interval
    of the sums of amounts that are looked at, which is up to eight times as far (NAME_low and NAME_high).

    >>> Amount("price", Fraction(-100), Fraction(100)).columns[:3]
    ('sum_price_clipped', 'sum_price_clipped_low', 'sum_price_clipped_high')
    >>> Amount(None, Fraction(0), Fraction(5)).columns[3:]
    ('rows_low', 'rows_high', 'rows_measured', 'rows_error')
    """

    column: str | None  # None for rows
    low: Fraction
    high: Fraction

    @property
    def name(self) -> str:
        """The name of the sum of all that is looked at."""
        return "rows" if self.column is None else f"sum_{self.column}"

    @property
    def clipped(self) -> str:
        """The name of the sum of clipped amounts."""
        return f"{self.name}_clipped"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a release has of it."""
        clipped = (self.clipped, f"{self.clipped}_low", f"{self.clipped}_high")
        looked_at = (f"{self.name}_low", f"{self.name}_high")
        measured = (self.measured,) if self.one_sided else ()
        return (*clipped, *looked_at, *measured, self.error)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The names of its parts of the counts: its sums, what scaling down took, and what is beyond the clip."""
        return self.name, f"{self.name} clipped", f"{self.name} beyond"

    @property
    def measured(self) -> str:
        """The column of what was measured: noise may give it a sign that no amount has, unlike the estimate."""
        return f"{self.name}_measured" if self.one_sided else self.clipped

    @property
    def error(self) -> str:
        """The column of the standard error."""
        return f"{self.name}_error"

    @property
    def one_sided(self) -> bool:
        """Whether no clipped amount is negative, or none is positive."""
        return not (self.low and self.high)

    @property
    def reach(self) -> Fraction:
        """The largest size of a clipped amount."""
        return max(-self.low, self.high)

    @property
    def whole(self) -> int:
        """The number of units of the reach: rows are whole, sums are in fixed point."""
        return int(self.reach) if self.column is None else 1 << _FRACTION_BITS

    @property
    def scale(self) -> float:
        """The number of units of 1, by which values of the column are multiplied."""
        return float(self.whole / self.reach)

    @property
    def ends(self) -> tuple[int, int]:
        """Both ends of the clip in units, rounded toward 0."""
        scale = self.whole / self.reach
        return int(self.low * scale), int(self.high * scale)

    @property
    def looked_at(self) -> tuple[int, int]:
        """The range of amounts that are looked at, in units."""
        low, high = self.ends
        return LOOKED_AT * low, LOOKED_AT * high

    @property
    def most_of_row(self) -> int:
        """The most units that one row counts with: a sum of 2**17 such rows is still exact."""
        return self.whole << _ROW_BITS

    @property
    def range(self) -> str:
        """The clip in words.

        >>> Amount(None, Fraction(0), Fraction(5)).range, Amount("x", Fraction(-2), Fraction(0)).range
        ('up to 5', 'from -2 to 0')
        """
        return (
            f"up to {int(self.high):,}"
            if self.column is None
            else f"from {text(self.low)} to {text(self.high)}"
        )

    @property
    def wide_range(self) -> str:
        """What is looked at, in words."""
        return Amount(self.column, LOOKED_AT * self.low, LOOKED_AT * self.high).range

    @property
    def written(self) -> str:
        """The clip as it is written after `--rows` or `--sum COLUMN:`.

        >>> Amount("x", Fraction(-5), Fraction(100)).written, Amount("x", Fraction(-5), Fraction(5)).written
        ('-5:100', '5')
        """
        single = self.column is None or self.low == -self.high
        return text(self.high) if single else f"{text(self.low)}:{text(self.high)}"

    def __str__(self) -> str:
        if self.column is None:
            return f"rows, {self.range} of each user and key"
        return f"sums of {self.column!r}, {self.range} for each user and key"


def amounts_of(rows: int | None, sums: Mapping[str, Clip] | None) -> tuple[Amount, ...]:
    """Read what is summed: the clip of rows, if they are counted, and the clips of columns.

    >>> for amount in amounts_of(5, {"price": "12.5", "tip": (0, 20)}):
    ...     print(amount)
    rows, up to 5 of each user and key
    sums of 'price', from -12.5 to 12.5 for each user and key
    sums of 'tip', from 0 to 20 for each user and key
    """
    amounts = []
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
            raise InvalidValue(
                f"rows of a user and a key are clipped at a whole number from 1 to {_MOST_ROWS:,}",
                f"{rows!r}",
                "write one, such as `rows=5`",
            )
        amounts.append(Amount(None, Fraction(0), Fraction(rows)))
    if sums is not None and not isinstance(sums, Mapping):
        raise InvalidValue(
            "sums are columns with their clips",
            type(sums).__name__,
            "write a mapping such as {'price': (0, 100)}, or `sums=price:0:100`",
        )
    for column, clip in (sums or {}).items():
        if not isinstance(column, str) or not column:
            raise InvalidValue(
                "a sum is of a column",
                type(column).__name__,
                "name one, as in {'price': 100}, or `sums=price:100`",
            )
        amounts.append(Amount(column, *clip_ends(clip)))
    return check_amounts(amounts)


def clip_ends(clip: Clip) -> tuple[Fraction, Fraction]:
    """Read both ends of a clip: one number is the size of both.

    >>> [tuple(map(text, clip_ends(clip))) for clip in (100, (0, 100), "-5:100", ["-2.5", 0])]
    [('-100', '100'), ('0', '100'), ('-5', '100'), ('-2.5', '0')]
    """
    ends: Any = clip.split(":") if isinstance(clip, str) else clip
    if not isinstance(ends, tuple | list):
        ends = [ends]
    if len(ends) == 1:
        size = exact(ends[0], "the clip of a sum")
        return -size, size
    if len(ends) == 2:
        return exact(ends[0], "the low end of a clip"), exact(ends[1], "the high end of a clip")
    raise InvalidValue(_CLIP_RULE, f"{len(ends)} numbers", "write one or two")


def check_amounts(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Refuse clips out of range, too many amounts, and names that differ by upper and lower case alone."""
    checked = tuple(amounts)
    for amount in checked:
        _check_kind(amount)
        if not _is_clip(amount.low, amount.high):
            found = f"the range from {text(amount.low)} to {text(amount.high)}"
            raise InvalidValue(_CLIP_RULE, found, "choose another, or other units")
    names = [name.lower() for amount in checked for name in {*amount.columns, *amount.parts}]
    if len({*names}) < len(names) or len(checked) > MOST_AMOUNTS:
        raise InvalidValue(
            f"a release has up to {MOST_AMOUNTS} amounts, whose columns differ in more than upper and lower case",
            "more, or columns of one name",
            "leave some out, or rename a column",
        )
    return checked


def _is_clip(low: Fraction, high: Fraction) -> bool:
    """Whether this is a range around 0, or that begins or ends there, whose ends can both be told in units."""
    sizes = sorted(size for size in (-low, high) if size)
    if low > 0 or high < 0 or not sizes:
        return False
    return sizes[0] >= _SMALLEST and sizes[-1] <= _LARGEST and sizes[-1] <= _UNEQUAL * sizes[0]


def _check_kind(amount: Amount) -> None:
    """Refuse what is neither rows, of which there is a whole number, nor a column with a name."""
    rows = (
        amount.column is None
        and amount.low == 0
        and amount.high.denominator == 1
        and amount.high <= _MOST_ROWS
    )
    if not rows and not (isinstance(amount.column, str) and amount.column):
        raise InvalidValue(
            f"an amount is of rows, with a clip from 1 to {_MOST_ROWS:,}, or of a column",
            "another",
            "name a column",
        )


def check_measured(what: str, values: Iterable[float], errors: Iterable[float]) -> None:
    """Refuse what was measured if it is no number, or has a negative error."""
    if not all(map(math.isfinite, values)) or not all(0 <= error < math.inf for error in errors):
        raise InvalidValue(
            f"{what} is stated in finite numbers, with errors of at least 0",
            "others",
            "get the release again from where it was written",
        )

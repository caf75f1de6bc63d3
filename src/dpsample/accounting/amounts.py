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

# A clip as users write it: one number, its two ends as a pair, or both as a text such as "0:100".
Clip: TypeAlias = Number | tuple[Number, Number] | list[Number]

# Amounts are looked at up to this many times the clip. More would measure what is beyond the clip with more noise.
LOOKED_AT: Final = 8
# A release has at most this many amounts, since each has a part of the noise budget of all.
MOST_AMOUNTS: Final = 8
# The largest clip of rows: no user has more rows of a key that should count.
_MOST_ROWS = 10**6
# The sizes that an end of a clip may have: floats of values and of units keep all their digits.
_SMALLEST = Fraction(1, 10**12)
_LARGEST = Fraction(10**15)
# One end of a clip is at most this many times the other one, so that both are many units.
_UNEQUAL = 10**6
# The clip of a sum is 2**26 units: eight times it fits into a 32-bit integer.
_FRACTION_BITS = 26
# One row counts with up to 2**20 times the clip, so that sums of many rows fit into a 64-bit integer.
_ROW_BITS = 20
_CLIP_RULE = (
    "the clip of a sum must be a number, such as 100, or two ends with 0 between them, such as 0:100, each 0 or from "
    "1e-12 to 1e15 in size, and within a factor of a million"
)


@dataclass(frozen=True)
class Amount:
    """A number that is summed over users: rows, or a column. The amount of a user and a key is clipped to [low, high].

    `column` is None for rows. A release has the sums of clipped amounts with their intervals (the columns NAME_clipped,
    NAME_clipped_low and NAME_clipped_high). It also has intervals of the sums of amounts that are clipped at eight
    times the range, which are looked at to measure the effect of the clip (NAME_low and NAME_high).

    >>> Amount("price", Fraction(-100), Fraction(100)).columns[:3]
    ('sum_price_clipped', 'sum_price_clipped_low', 'sum_price_clipped_high')
    >>> Amount(None, Fraction(0), Fraction(5)).columns[3:]
    ('rows_low', 'rows_high', 'rows_measured', 'rows_error')
    """

    column: str | None
    low: Fraction
    high: Fraction

    @property
    def name(self) -> str:
        """The name of the sum of amounts that are clipped at eight times the range."""
        return "rows" if self.column is None else f"sum_{self.column}"

    @property
    def clipped(self) -> str:
        """The name of the sum of clipped amounts."""
        return f"{self.name}_clipped"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a release about this amount."""
        clipped = (self.clipped, f"{self.clipped}_low", f"{self.clipped}_high")
        looked_at = (f"{self.name}_low", f"{self.name}_high")
        measured = (self.measured,) if self.one_sided else ()
        return (*clipped, *looked_at, *measured, self.error)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The names of its parts of the counts: its sums, what scaling down took away, and sums beyond the clip."""
        return self.name, f"{self.name} clipped", f"{self.name} beyond"

    @property
    def measured(self) -> str:
        """The column of the noisy sum itself. Noise may give it a sign that no amount has, unlike the estimate."""
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
        """The reach in units: a row is one unit, and sums are in fixed point."""
        if self.column is None:
            return int(self.reach)
        return 1 << _FRACTION_BITS

    @property
    def scale(self) -> float:
        """The number of units that make 1: values of the column are multiplied by it."""
        return float(self.whole / self.reach)

    @property
    def ends(self) -> tuple[int, int]:
        """Both ends of the clip in units, rounded toward 0."""
        scale = self.whole / self.reach
        return int(self.low * scale), int(self.high * scale)

    @property
    def looked_at(self) -> tuple[int, int]:
        """Both ends of the range of amounts that are looked at, in units: eight times the clip."""
        low, high = self.ends
        return LOOKED_AT * low, LOOKED_AT * high

    @property
    def most_of_row(self) -> int:
        """The most units with which one row counts. A sum of 2**17 such rows still fits into 64 bits."""
        return self.whole << _ROW_BITS

    @property
    def range(self) -> str:
        """The range of the clip, in words.

        >>> Amount(None, Fraction(0), Fraction(5)).range, Amount("x", Fraction(-2), Fraction(0)).range
        ('up to 5', 'from -2 to 0')
        """
        if self.column is None:
            return f"up to {int(self.high):,}"
        return f"from {text(self.low)} to {text(self.high)}"

    @property
    def wide_range(self) -> str:
        """The range of amounts that are looked at, in words."""
        wide = Amount(self.column, LOOKED_AT * self.low, LOOKED_AT * self.high)
        return wide.range

    @property
    def written(self) -> str:
        """The clip as users write it after `--rows` or `--sum COLUMN:`.

        >>> Amount("x", Fraction(-5), Fraction(100)).written, Amount("x", Fraction(-5), Fraction(5)).written
        ('-5:100', '5')
        """
        is_one_number = self.column is None or self.low == -self.high
        if is_one_number:
            return text(self.high)
        return f"{text(self.low)}:{text(self.high)}"

    def __str__(self) -> str:
        if self.column is None:
            return f"rows, {self.range} of each user and key"
        return f"sums of {self.column!r}, {self.range} for each user and key"


def amounts_of(rows: int | None, sums: Mapping[str, Clip] | None) -> tuple[Amount, ...]:
    """Return the amounts that a user asks for: `rows` is the clip of rows, and `sums` has the clips of columns.

    >>> for amount in amounts_of(5, {"price": "12.5", "tip": (0, 20)}):
    ...     print(amount)
    rows, up to 5 of each user and key
    sums of 'price', from -12.5 to 12.5 for each user and key
    sums of 'tip', from 0 to 20 for each user and key
    """
    amounts = []
    if rows is not None:
        amounts.append(_rows(rows))
    if sums is not None and not isinstance(sums, Mapping):
        raise InvalidValue(
            f"`sums` must name columns with their clips, not be of type {type(sums).__name__}",
            "write a mapping such as {'price': (0, 100)}, or `sums=price:0:100`",
        )
    for column, clip in (sums or {}).items():
        if not isinstance(column, str) or not column:
            raise InvalidValue(
                f"a column of `sums` must be named by a text, not by a value of type {type(column).__name__}",
                "name one, as in {'price': 100}, or `sums=price:100`",
            )
        low, high = clip_ends(clip)
        amounts.append(Amount(column, low, high))
    return check_amounts(amounts)


def _rows(clip: int) -> Amount:
    """Return rows as an amount, after checking their clip."""
    is_whole = isinstance(clip, int) and not isinstance(clip, bool)
    if not is_whole or not 1 <= clip <= _MOST_ROWS:
        raise InvalidValue(
            f"`rows` must be a whole number from 1 to {_MOST_ROWS:,}, not {clip!r}: the most rows of a user and a key "
            "that count",
            "write one, such as `rows=5`",
        )
    return Amount(None, Fraction(0), Fraction(clip))


def clip_ends(clip: Clip) -> tuple[Fraction, Fraction]:
    """Return both ends of a clip; a single number is the size of both.

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
        low = exact(ends[0], "the low end of a clip")
        high = exact(ends[1], "the high end of a clip")
        return low, high
    raise InvalidValue(f"{_CLIP_RULE}, not {len(ends)} numbers", "write one or two")


def check_amounts(amounts: Iterable[Amount]) -> tuple[Amount, ...]:
    """Return amounts, after checking their clips, their number, and that no two columns have the same name.

    Names that differ by upper and lower case alone are the same name: not every program tells them apart.
    """
    checked = tuple(amounts)
    names: list[str] = []
    for amount in checked:
        _check_kind(amount)
        if not _is_clip(amount.low, amount.high):
            clip = f"from {text(amount.low)} to {text(amount.high)}"
            raise InvalidValue(f"{_CLIP_RULE}, not {clip}", "choose another clip, or other units")
        own_names = {*amount.columns, *amount.parts}
        names += [name.lower() for name in own_names]
    if len(checked) > MOST_AMOUNTS:
        raise InvalidValue(
            f"a release can have at most {MOST_AMOUNTS} sums of rows and columns, not {len(checked)}",
            "leave some out",
        )
    if len(set(names)) < len(names):
        raise InvalidValue(
            "two columns of sums would have the same name, but for upper and lower case",
            "leave one out, or rename a column",
        )
    return checked


def _is_clip(low: Fraction, high: Fraction) -> bool:
    """Whether a range may be a clip: it contains 0, and its ends are in range and not too unequal."""
    if low > 0 or high < 0 or low == high:
        return False
    sizes = [size for size in (-low, high) if size]
    smaller = min(sizes)
    larger = max(sizes)
    in_range = smaller >= _SMALLEST and larger <= _LARGEST
    return in_range and larger <= _UNEQUAL * smaller


def _check_kind(amount: Amount) -> None:
    """Refuse an amount that is neither of rows, with a whole number as its clip, nor of a column with a name."""
    if amount.column is None:
        is_whole = amount.low == 0 and amount.high.denominator == 1
        is_possible = is_whole and amount.high <= _MOST_ROWS
    else:
        is_possible = isinstance(amount.column, str) and amount.column != ""
    if not is_possible:
        raise InvalidValue(
            f"an amount must be of rows, with a clip from 1 to {_MOST_ROWS:,}, or of a column",
            "name a column",
        )


def check_measured(name: str, values: Iterable[float], errors: Iterable[float]) -> None:
    """Refuse measured values that are not finite, or errors that are negative; `name` says what they are."""
    finite = all(map(math.isfinite, values))
    possible_errors = all(0 <= error < math.inf for error in errors)
    if not finite or not possible_errors:
        raise InvalidValue(
            f"{name} must be stated in finite numbers, with errors of at least 0",
            "get the release again from where it was written",
        )

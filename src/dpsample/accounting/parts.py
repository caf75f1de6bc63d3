"""Parts of a dataset that do not overlap: a column and one of its values, such as the rows of one day.

One element is in one part at most, so what is released of the others does not depend on it. Releases of different parts
cost the maximum, not the sum (parallel composition). The name and the value of a part are public.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue


@dataclass(frozen=True)
class Part:
    """A part of a dataset: the rows whose column `name` has this `value`, as text.

    The column is read, and no other row is, unless the part is `vouched`: then the caller states that the source has
    rows of this part alone, and nothing is checked.

    >>> print(Part("day", "2026-11-14"))
    day = 2026-11-14
    >>> print(Part("day", "2026-11-14", vouched=True))
    day = 2026-11-14 (vouched for by the caller, not checked)
    """

    name: str
    value: str
    vouched: bool = False

    def __post_init__(self) -> None:
        has_name = isinstance(self.name, str) and self.name and self.name.isprintable()
        if not has_name or not isinstance(self.value, str):
            raise InvalidValue(
                "a part must be the name of a column and a value, both as text",
                "write `part=('day', '2026-11-14')`",
            )

    @classmethod
    def of(cls, pair: Any, vouched: bool = False) -> "Part":
        """Return the part of a pair of a name and a value; anything else is refused."""
        name: Any = None
        value: Any = None
        if isinstance(pair, tuple | list) and len(pair) == 2:
            name, value = pair
        return cls(name, value, vouched)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "value": self.value, "vouched": self.vouched}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Part":
        """Read the JSON form back."""
        if set(form) != {"name", "value", "vouched"} or not isinstance(form["vouched"], bool):
            raise InvalidValue(
                "the JSON form of a part must have a name, a value, and whether it was vouched for",
                "get it again from where it was written",
            )
        return cls(form["name"], form["value"], form["vouched"])

    def __str__(self) -> str:
        text = f"{self.name} = {self.value}"
        if not text.isprintable():  # control characters could command a terminal
            text = ascii(text)
        if self.vouched:
            text += " (vouched for by the caller, not checked)"
        return text


def protected_unit(unit: str, parts: str | None) -> str:
    """Return the unit of privacy, in words, if `parts` are accounted for one by one; None if there are no parts.

    An element is in one part anyway. A user may be in several parts, and is protected in each of them.

    >>> protected_unit("user", "day"), protected_unit("element", "day"), protected_unit("user", None)
    ('user, in one day', 'element', 'user')
    """
    if parts is None or unit == "element":
        return unit
    return f"{unit}, in one {parts}"

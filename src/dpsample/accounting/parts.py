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
        named = isinstance(self.name, str) and self.name and self.name.isprintable()
        if not named or not isinstance(self.value, str):
            raise InvalidValue(
                "a part is the name of a column and a value, both as text",
                "something else",
                "write `part=('day', '2026-11-14')`",
            )

    @classmethod
    def of(cls, pair: Any, vouched: bool = False) -> "Part":
        """Read a pair of a name and a value."""
        name, value = pair if isinstance(pair, tuple | list) and len(pair) == 2 else (None, None)
        return cls(name, value, vouched)  # type: ignore[arg-type] # refused when it is made

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "value": self.value, "vouched": self.vouched}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Part":
        """Read the JSON form back."""
        if set(form) != {"name", "value", "vouched"} or not isinstance(form["vouched"], bool):
            raise InvalidValue(
                "a part has a name and a value, and says whether it was vouched for",
                "another form",
                "get it again from where it was written",
            )
        return cls(form["name"], form["value"], form["vouched"])

    def __str__(self) -> str:
        text = f"{self.name} = {self.value}"
        text = text if text.isprintable() else ascii(text)  # it could command a terminal
        return text + (" (vouched for by the caller, not checked)" if self.vouched else "")


def protected_unit(unit: str, parts: str | None) -> str:
    """Return the unit of privacy where parts are accounted for one by one, in words.

    An element is in one part anyway. A user may be in all of them, and is protected in each.

    >>> protected_unit("user", "day"), protected_unit("element", "day"), protected_unit("user", None)
    ('user, in one day', 'element', 'user')
    """
    return unit if parts is None or unit == "element" else f"{unit}, in one {parts}"

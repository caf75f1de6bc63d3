"""Bought: the noisy totals that a release pays for beside its keys, each with an epsilon of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsample.accounting.dropped import Kept
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.errors import InvalidValue


@dataclass(frozen=True)
class Bought:
    """The private totals of a release, each of which is None if it was not bought.

    size     the total of weights that gave tau, for a sample of a chosen size
    total    of elements; of users, the total of the keys that they kept
    dropped  the total of the keys of users beyond their contribution bound

    >>> from fractions import Fraction
    >>> Bought(total=Total(9000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))).kept is None
    True
    """

    size: RealizedSize | None = None
    total: Total | None = None
    dropped: Total | None = None

    def __post_init__(self) -> None:
        for total in (self.total, self.dropped):
            if total is not None and total.unit != 1:
                raise InvalidValue(
                    "a total of elements or keys must be a whole number", "state it in ones"
                )
        if self.dropped is not None and self.total is None:
            raise InvalidValue(
                "a total of dropped keys needs a total of the keys that users kept", "state both"
            )

    @property
    def kept(self) -> Kept | None:
        """How much of their keys users kept, if that was measured."""
        if self.total is None or self.dropped is None:
            return None
        return Kept(self.total, self.dropped)

    def to_json(self) -> dict[str, Any]:
        """Return the part of the metadata that states these totals."""
        form: dict[str, Any] = {}
        if self.size is not None:
            form["size"] = self.size.to_json()
        if self.total is not None:
            form["total"] = self.total.to_json()
        if self.dropped is not None:
            form["dropped"] = self.dropped.to_json()
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Bought":
        """Read the totals back from the metadata of a release."""
        size = RealizedSize.from_json(form["size"]) if "size" in form else None
        total = Total.from_json(form["total"]) if "total" in form else None
        dropped = Total.from_json(form["dropped"]) if "dropped" in form else None
        return cls(size, total, dropped)


NOTHING = Bought()

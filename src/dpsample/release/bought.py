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

    >>> from fractions import Fraction
    >>> Bought(total=Total(9000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))).kept is None
    True
    """

    size: RealizedSize | None = (
        None  # the total of weights that gave tau, for a sample of a chosen size
    )
    total: Total | None = None  # of elements; of users, of the keys that they kept
    dropped: Total | None = None  # of the keys of users beyond their contribution bound

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
        return (
            None if self.total is None or self.dropped is None else Kept(self.total, self.dropped)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the part of the metadata that states these totals."""
        totals = {"size": self.size, "total": self.total, "dropped": self.dropped}
        return {name: total.to_json() for name, total in totals.items() if total is not None}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Bought":
        """Read the totals back from the metadata of a release."""
        return cls(
            RealizedSize.from_json(form["size"]) if "size" in form else None,
            Total.from_json(form["total"]) if "total" in form else None,
            Total.from_json(form["dropped"]) if "dropped" in form else None,
        )


NOTHING = Bought()

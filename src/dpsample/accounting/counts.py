"""Counts: the public record of how the users of keys were counted, and their amounts summed, with Gaussian noise.

The counts have parts, each with noise of its own. Together they cost one mu**2, which is divided among them.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.accounting.amounts import Amount, check_amounts, check_measured
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.lengths import MOST_GROUPS
from dpsample.accounting.vectors import GaussianStage, VectorNoise, certify_vector_noise
from dpsample.errors import InvalidValue

# The default share of mu**2 for counting users; discovery has the rest.
COUNT_SHARE = Fraction(1, 4)

# The parts of the counts, and the share of their mu**2 that each part has. The other parts only decide how users are
# counted and correct for it, so that most is for the counts themselves.
COUNT_PARTS = {
    "keys per user": Fraction(1, 20),
    "first counts": Fraction(3, 20),
    "lengths": Fraction(1, 20),
    "clipped": Fraction(1, 20),
    "counts": Fraction(7, 10),
}
# The three parts of an amount (sums, clipped, beyond), on the same scale: its sums have as much as the counts of users.
AMOUNT_PARTS = Fraction(7, 10), Fraction(1, 20), Fraction(1, 10)


def count_share(amounts: int) -> Fraction:
    """Return the default share of mu**2 for users and this number of amounts: each has a third of what discovery has.

    >>> [str(count_share(n)) for n in range(3)]
    ['1/4', '2/5', '1/2']
    """
    counted = 1 + amounts
    return COUNT_SHARE * counted / (1 + COUNT_SHARE * amounts)


def count_parts(amounts: tuple[Amount, ...] = ()) -> dict[str, Fraction]:
    """Return the parts of the counts, those of amounts included, and the share of mu**2 of each: they add up to 1."""
    parts = dict(COUNT_PARTS)
    for amount in amounts:
        parts |= zip(amount.parts, AMOUNT_PARTS, strict=True)
    everything = sum(parts.values())
    return {name: share / everything for name, share in parts.items()}


@dataclass(frozen=True)
class Counts:
    """The noise of each part of the counts, and the measured effect of clipping.

    noise    the Gaussian noise of each part, in the order of `parts`
    clipped  the share of users, averaged over keys, that clipping took away and that was put back afterwards
    groups   groups of keys for which clipping was measured, in ascending order of their users: about the least number
             of users of a key, and the relative error that the keys of the group have in common. The last group has
             the keys that were not clipped, without such an error
    amounts  the amounts that were summed beside users, and the effect of clipping on each
    """

    noise: tuple[VectorNoise, ...]
    clipped: float
    groups: tuple[tuple[float, float], ...] = ()
    amounts: tuple[Clipped, ...] = ()

    def __post_init__(self) -> None:
        check_amounts(clipped.amount for clipped in self.amounts)
        self._check_groups()

    def _check_groups(self) -> None:
        """Refuse groups out of order, too many of them, or amounts that were measured for other groups."""
        least_users = [least for least, _ in self.groups]
        errors = [error for _, error in self.groups]
        check_measured("the effect of clipping on counts", (self.clipped, *least_users), errors)
        same_groups = all(len(clipped.groups) == len(self.groups) for clipped in self.amounts)
        in_order = least_users == sorted(least_users)
        if len(self.groups) > MOST_GROUPS + 1 or not in_order or not same_groups:
            raise InvalidValue(
                f"clipping must be measured for at most {MOST_GROUPS} groups of keys, in the order of their users",
                "get the release again from where it was written",
            )

    @property
    def parts(self) -> list[str]:
        """The names of the parts, in the order of `noise`."""
        amounts = tuple(clipped.amount for clipped in self.amounts)
        return list(count_parts(amounts))

    def stages(self) -> list[GaussianStage]:
        """Return the cost of each part, proved from the integers of its table."""
        return [certify_vector_noise(noise) for noise in self.noise]

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        noise = [part.to_json() for part in self.noise]
        form: dict[str, Any] = {"noise": dict(zip(self.parts, noise, strict=True))}
        form["clipped"] = self.clipped
        form["groups"] = [list(group) for group in self.groups]
        if self.amounts:
            form["amounts"] = [clipped.to_json() for clipped in self.amounts]
        return form

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Counts":
        """Read the JSON form back."""
        amounts = tuple(map(Clipped.from_json, form.get("amounts", ())))
        parts = count_parts(check_amounts(clipped.amount for clipped in amounts))
        if set(form["noise"]) != set(parts):
            raise InvalidValue(
                f"the counts of this release must state the noise of {', '.join(parts)}",
                "upgrade dpsample",
            )
        noise_forms = [form["noise"][name] for name in parts]
        noise = tuple(map(VectorNoise.from_json, noise_forms))
        groups = tuple((float(least), float(error)) for least, error in form["groups"])
        return cls(noise, float(form["clipped"]), groups, amounts)

"""Discovery: the public record of how keys of users were found without a contribution bound.

A release of this kind has stages, and its budget is divided among them before anything is read (docs/theory.md,
section 10). Each stage has a module:

look         how many users have how many keys: discrete Laplace noise, at a share of epsilon
filled       how many keys one key of each user could fill, and many: the same
choice       one key of each user, or many: by the look and by what is filled
discovery    which keys are reported
counts       how many users have each of these keys, and the sums of their amounts: Gaussian noise, a share of mu**2
user_budget  what each stage may spend
user_proof   that all of them together spend no more than the release states
"""

from dataclasses import dataclass
from typing import Any, Literal

from dpsample.accounting.choice import fuller
from dpsample.accounting.composition import MOST_KEYS
from dpsample.accounting.filled import Filled
from dpsample.accounting.look import Look
from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY

# With "none", known keys are counted, and no others are looked for.
Method = Literal["one-key", "many-keys", "none"]
METHODS: tuple[Method, ...] = ("one-key", "many-keys", "none")

# the smallest and the largest number of keys that each user gives, by method
_KEYS_OF = {"one-key": (1, 1), "many-keys": (1, MOST_KEYS), "none": (0, 0)}
_REREAD = "get the release again from where it was written"


@dataclass(frozen=True)
class Discovery:
    """How the keys of a release were found.

    method  one key of each user, many keys of each, or none
    keys    the number of keys that each user gives, at most: 0 with the method "none"
    full    the number of users at which a key takes no more, if each user gave one key
    look    the noisy histogram of users by their number of keys, if it was bought
    prior   whether the keys of an earlier release came first
    filled  what one key of each user fills, and what many keys fill, if they were compared to choose the method
    """

    method: Method
    keys: int
    full: int | None = None
    look: Look | None = None
    prior: bool = False
    filled: tuple[Filled, ...] = ()

    def __post_init__(self) -> None:
        if not self._is_possible():
            raise InvalidValue(
                "the keys of a release must be found by one key of each user, up to a full key, or by many keys",
                _REREAD,
            )
        if self.filled and not self._compares_both():
            raise InvalidValue(
                "a comparison must be of one key of each user with many keys, after a look", _REREAD
            )

    def _is_possible(self) -> bool:
        """Whether the method is known, and the numbers of keys and users are some that it may have."""
        if self.method not in METHODS or type(self.prior) is not bool:
            return False
        least, most = _KEYS_OF[self.method]
        possible_keys = type(self.keys) is int and least <= self.keys <= most
        return possible_keys and self._possible_full()

    def _compares_both(self) -> bool:
        """Whether one key of each user was compared with many keys, in this order, after a look."""
        of_many_keys = [way.keys > 1 for way in self.filled]
        return self.look is not None and of_many_keys == [False, True]

    def _possible_full(self) -> bool:
        if self.method != "one-key":
            return self.full is None
        return type(self.full) is int and 1 <= self.full <= MAX_FREQUENCY

    @property
    def bought(self) -> tuple[Look | Filled, ...]:
        """The noisy numbers that were bought before keys were discovered, each with an epsilon of its own."""
        look = () if self.look is None else (self.look,)
        return (*look, *self.filled)

    @property
    def follows(self) -> bool:
        """Whether the method is the one that fills more keys; True also if the methods were not compared."""
        return not self.filled or fuller(self.filled).keys == self.keys

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        form: dict[str, Any] = {"method": self.method, "keys": self.keys}
        if self.full is not None:
            form["full"] = self.full
        if self.look is not None:
            form["look"] = self.look.to_json()
        if self.filled:
            form["filled"] = [way.to_json() for way in self.filled]
        if self.prior:
            form["prior"] = True
        return form

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Discovery":
        """Read the JSON form back."""
        look = Look.from_json(form["look"]) if "look" in form else None
        filled = tuple(map(Filled.from_json, form.get("filled", ())))
        return cls(
            form["method"],
            form["keys"],
            form.get("full"),
            look=look,
            prior=form.get("prior", False),
            filled=filled,
        )

    def __str__(self) -> str:
        if self.method == "none":
            return "nothing: known keys alone"
        how = f"up to {self.keys:,} keys of each user"
        if self.full:
            how = f"one key of each user, up to {self.full:,} users for a key"
        if self.prior:
            how += ", those of an earlier release first"
        return how

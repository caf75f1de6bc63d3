"""Releases with tokens: of elements, or of users with a contribution bound."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dpsample.accounting.known import Known
from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.explain import explain_kept
from dpsample.release.facts import Fact, Topic, fact
from dpsample.release.keys_proof import KeysProof, prove_keys
from dpsample.release.kinds.kind import (
    AGAIN,
    KEPT_FREQUENCY,
    Drawn,
    check_adds_up,
    check_bound,
    check_not_sampled,
    drawn_from_json,
    sampled_fact,
    tokens_fact,
)
from dpsample.release.stated import check_totals
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.tokens import check_grid

TOKEN_COLUMNS: Final = ("estimate", "low", "high", "token")  # the first three follow from the token


@dataclass(frozen=True)
class Tokens(Drawn):
    """Each key has a token: a random multiple of 1/grid near its frequency, from which its estimate follows.

    The frequency of a key is its number of elements, or with a contribution bound of `max_keys` its number of users.
    """

    grid: int = 8
    max_keys: int | None = None
    discovery: ClassVar[None] = None
    counts: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.sampling, SampleAndHold):
            raise InvalidValue(
                "tokens of a sample along a stream are a kind of their own", "state Held"
            )
        object.__setattr__(self, "grid", check_grid(self.grid))
        object.__setattr__(self, "max_keys", check_bound(self.max_keys))

    @property
    def numbers(self) -> tuple[str, ...]:  # noqa: D102
        return TOKEN_COLUMNS

    @property
    def unit(self) -> str:  # noqa: D102
        return "element" if self.max_keys is None else "user"

    def check(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_adds_up(self.per_key, self.max_keys, left, keys_only=False)
        check_dropped(bought, self.max_keys)

    def check_stated(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_totals(bought, self.max_keys, self.unit)

    def prove(self, left: Privacy) -> KeysProof:  # noqa: D102
        return prove_keys(self.per_key, self.max_keys, left)

    def check_known(self, known: Known) -> None:  # noqa: D102
        check_not_sampled(self.sampling)
        if known.added is None:
            raise InvalidValue(
                "known keys with tokens state how many elements were added to their frequencies",
                AGAIN,
            )

    @property
    def frequency(self) -> str:  # noqa: D102
        return "frequency" if self.max_keys is None else KEPT_FREQUENCY

    @property
    def estimated(self) -> str:  # noqa: D102
        return "frequency" if self.max_keys is None else "number of users who kept it"

    @property
    def contents(self) -> str:  # noqa: D102
        return "with estimates of their frequencies"

    def facts(self, bought: Bought, keys: int | None) -> Iterator[Fact]:  # noqa: D102
        yield sampled_fact(self.sampling)
        yield tokens_fact(self.grid)
        if self.max_keys is not None:
            share = bought.kept or "too low where users have more keys"
            brief = f"numbers are of the keys that users kept: {share}"
            yield fact(Topic.KEPT, explain_kept(self.max_keys, bought.kept), brief)

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {
            **self._drawn_to_json(self.grid, keys_only=False),
            "max_keys_per_user": self.max_keys,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Tokens":
        """Read the kind back from the metadata of a release."""
        sampling, per_key = drawn_from_json(form)
        return cls(sampling, per_key, form["grid"], form.get("max_keys_per_user"))


def check_dropped(bought: Bought, max_keys: int | None) -> None:
    """Refuse a total of dropped keys if there is no contribution bound."""
    if bought.dropped is not None and max_keys is None:
        raise InvalidValue("a total of dropped keys needs a contribution bound", AGAIN)

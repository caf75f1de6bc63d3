"""Releases of streams: keys that were sampled, held and counted in one pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.facts import Fact
from dpsample.release.keys_proof import KeysProof, prove_keys
from dpsample.release.kinds.kind import (
    AGAIN,
    Drawn,
    check_adds_up,
    drawn_from_json,
    sampled_fact,
    tokens_fact,
)
from dpsample.release.kinds.tokens import TOKEN_COLUMNS, check_dropped
from dpsample.release.stated import check_totals
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.per_key import PerKey


@dataclass(frozen=True)
class Held(Drawn):
    """Each key has a whole token near the number of its elements that were counted once the stream held the key."""

    grid: ClassVar[int] = 1
    max_keys: ClassVar[None] = None
    discovery: ClassVar[None] = None
    counts: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sampling, SampleAndHold):
            raise InvalidValue(
                f"a stream is sampled by SampleAndHold, not by {self.sampling!r}", AGAIN
            )
        check_held(self.per_key)

    @property
    def numbers(self) -> tuple[str, ...]:  # noqa: D102
        return TOKEN_COLUMNS

    @property
    def unit(self) -> str:  # noqa: D102
        return "element"

    def check(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_adds_up(self.per_key, None, left, keys_only=False)
        check_dropped(bought, None)

    def check_stated(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_totals(bought, None, self.unit)

    def prove(self, left: Privacy) -> KeysProof:  # noqa: D102
        return prove_keys(self.per_key, None, left)

    @property
    def contents(self) -> str:  # noqa: D102
        return "with estimates of their frequencies"

    def facts(self, bought: Bought, keys: int | None) -> Iterator[Fact]:  # noqa: D102
        yield sampled_fact(self.sampling)
        yield tokens_fact(self.grid)

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return self._drawn_to_json(self.grid, keys_only=False)

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Held":
        """Read the kind back from the metadata of a release."""
        return cls(*drawn_from_json(form))


def check_held(per_key: PerKey) -> None:
    """Refuse a mechanism that a stream cannot report keys by."""
    if not isinstance(per_key, Privacy):
        raise InvalidValue(
            "each key of a stream is protected by an epsilon and a delta, nothing else", AGAIN
        )

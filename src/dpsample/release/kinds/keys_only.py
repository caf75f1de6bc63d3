"""Releases of keys only: of elements, of users with a contribution bound, or of users without one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.facts import Fact
from dpsample.release.keys_proof import KeysProof, prove_keys, prove_users
from dpsample.release.kinds.counted import Counted, check_discovery
from dpsample.release.kinds.held import check_held
from dpsample.release.kinds.kind import (
    AGAIN,
    GIVEN_FREQUENCY,
    KEPT_FREQUENCY,
    Drawn,
    check_adds_up,
    check_bound,
    drawn_from_json,
    found_facts,
    sampled_fact,
)
from dpsample.release.kinds.tokens import check_dropped
from dpsample.release.stated import check_discovered, check_totals
from dpsample.scheme.holding import SampleAndHold


@dataclass(frozen=True)
class KeysOnly(Drawn):
    """Each key is reported without numbers.

    It protects users if there is a contribution bound, `max_keys`, or a `discovery` of keys without a bound.
    """

    max_keys: int | None = None
    discovery: Discovery | None = None
    grid: ClassVar[None] = None
    counts: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_keys", check_bound(self.max_keys))
        if self.max_keys is not None and self.discovery is not None:
            raise InvalidValue(
                "a release has a contribution bound or states its discovery, not both", AGAIN
            )
        if isinstance(self.sampling, SampleAndHold):
            check_held(self.per_key)
            if self.unit != "element":
                raise InvalidValue("a sample along a stream protects elements, not users", AGAIN)
        if self.discovery is not None:
            check_discovery(self.sampling, self.per_key)

    @property
    def numbers(self) -> tuple[str, ...]:  # noqa: D102
        return ()

    @property
    def unit(self) -> str:  # noqa: D102
        return "element" if self.max_keys is None and self.discovery is None else "user"

    def check(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_dropped(bought, self.max_keys)
        if self.discovery is None:
            check_adds_up(self.per_key, self.max_keys, left, keys_only=True)
        elif bought.size is not None:
            raise InvalidValue(
                "discovered keys are not sampled, so they have no sample size", AGAIN
            )

    def check_stated(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        if self.discovery is None:
            check_totals(bought, self.max_keys, self.unit)
        else:
            check_discovered(self.discovery, None, self.per_key, left, bought)

    def prove(self, left: Privacy) -> KeysProof:  # noqa: D102
        if self.discovery is None:
            return prove_keys(self.per_key, self.max_keys, left)
        return prove_users(self.discovery, self.per_key, None, left)

    @property
    def frequency(self) -> str:  # noqa: D102
        if self.discovery is not None:
            return GIVEN_FREQUENCY
        return "frequency" if self.max_keys is None else KEPT_FREQUENCY

    @property
    def contents(self) -> str:  # noqa: D102
        return "keys only"

    def facts(self, bought: Bought, keys: int | None) -> Iterator[Fact]:  # noqa: D102
        if self.discovery is None:
            yield sampled_fact(self.sampling)
        else:
            yield from found_facts(self.discovery, keys)

    def counted(self, counts: Counts) -> Counted:
        """Return the kind of the release once the users of its discovered keys are counted."""
        assert self.discovery is not None
        return Counted(self.sampling, self.per_key, self.discovery, counts)

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        form = self._drawn_to_json(None, keys_only=True)
        form["max_keys_per_user"] = self.max_keys
        form["discovery"] = self.discovery and self.discovery.to_json()
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "KeysOnly":
        """Read the kind back from the metadata of a release."""
        discovery = Discovery.from_json(form["discovery"]) if "discovery" in form else None
        sampling, per_key = drawn_from_json(form)
        return cls(sampling, per_key, form.get("max_keys_per_user"), discovery)

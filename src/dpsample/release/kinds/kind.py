"""What all kinds of a release have: a sampling scheme and the privacy of each key. Checks that several kinds share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.gaussian import delta_within, may_be_gaussian, variance_of
from dpsample.accounting.known import Known
from dpsample.accounting.many_keys import may_hold
from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.explain import (
    explain_choice,
    explain_discovery,
    explain_sampling,
    explain_tokens,
)
from dpsample.release.facts import Fact, Topic, fact
from dpsample.release.keys_proof import KeysProof
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey, per_key_from_json
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.sampling import KeepAll, Sampling

AGAIN: Final = "get the release again from where it was written"
KEPT_FREQUENCY: Final = "number of users who kept this key"
GIVEN_FREQUENCY: Final = "number of users who gave this key"


@dataclass(frozen=True)
class Drawn(ABC):
    """Base of the kinds: keys that were sampled by `sampling` and reported by a mechanism of privacy `per_key`.

    `per_key` is the part of the release's privacy that a single key has; estimates and reporting probabilities follow
    from it.
    """

    sampling: Sampling
    per_key: PerKey

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, Sampling):
            raise InvalidValue(
                f"sampling must be a sampling scheme, not a {type(self.sampling).__name__}",
                "make it first, for example KeepAll()",
            )

    @property
    @abstractmethod
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, in order."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """The unit of privacy: element or user."""

    @abstractmethod
    def check(self, left: Privacy, bought: Bought) -> None:
        """Refuse a kind that does not fit the totals that were bought, or the privacy `left` to the keys.

        That the terms are private takes longer to prove, and is proved in `release.proof`.
        """

    @abstractmethod
    def check_stated(self, left: Privacy, bought: Bought) -> None:
        """Refuse totals and noise other than would be drawn for this kind, whose keys have the privacy `left`.

        It raises `PrivacyViolation`, is quick, and is a part of the proof.
        """

    @abstractmethod
    def prove(self, left: Privacy) -> KeysProof:
        """Prove that all keys of one element or user together spend no more than `left`, or raise PrivacyViolation."""

    def check_known(self, known: Known) -> None:
        """Refuse known keys if this kind cannot have them."""
        raise InvalidValue(
            "known keys must have tokens or counts, and this release has neither", AGAIN
        )

    @property
    def frequency(self) -> str:
        """What the frequency of a key is, on which its reporting probability depends, in words."""
        return "frequency"

    @property
    def estimated(self) -> str:
        """What is estimated of a key, in words."""
        return "frequency"

    @property
    @abstractmethod
    def contents(self) -> str:
        """What a release of this kind has, in words."""

    @abstractmethod
    def facts(self, bought: Bought, keys: int | None) -> Iterator[Fact]:
        """Yield the facts that people are told about this kind; some depend on the number of reported `keys`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the part of the metadata that depends on the kind."""

    def _drawn_to_json(self, grid: int | None, keys_only: bool) -> dict[str, Any]:
        """Return the part of the metadata that all kinds have."""
        return {
            "sampling": self.sampling.to_json(),
            "per_key": self.per_key.to_json(),
            "grid": grid,
            "keys_only": keys_only,
        }


def sampled_fact(sampling: Sampling) -> Fact:
    """Return how keys were sampled."""
    return fact(Topic.SAMPLED, explain_sampling(sampling), repr(sampling))


def tokens_fact(grid: int) -> Fact:
    """Return which numbers tokens are."""
    return fact(Topic.TOKENS, f"tokens are {explain_tokens(grid)}", explain_tokens(grid))


def found_facts(discovery: Discovery, keys: int | None) -> Iterator[Fact]:
    """Yield how keys of users without a contribution bound were found, and why so."""
    yield fact(Topic.FOUND, explain_discovery(discovery), str(discovery))
    if discovery.filled:
        yield fact(Topic.CHOSEN, explain_choice(discovery.filled, keys))


def drawn_from_json(form: Mapping[str, Any]) -> tuple[Sampling, PerKey]:
    """Read the sampling scheme and the privacy of each key, which is all of the privacy unless it is stated."""
    sampling = Sampling.from_json(form["sampling"])
    per_key = per_key_from_json(form.get("per_key", form["privacy"]))
    return sampling, per_key


def check_bound(max_keys: int | None) -> int | None:
    """Check a contribution bound, if there is one."""
    return None if max_keys is None else check_keys_per_user(max_keys)


def check_not_sampled(sampling: Sampling) -> None:
    """Refuse a sample of known keys: each of them is reported."""
    if sampling != KeepAll():
        raise InvalidValue(
            "known keys are not sampled, but this release states a sampling scheme", AGAIN
        )


def check_adds_up(per_key: PerKey, max_keys: int | None, left: Privacy, keys_only: bool) -> None:
    """Refuse a privacy of each key that cannot follow from the privacy `left` to all keys of one user or element.

    This is quick, and finds most errors; `release.proof` proves that it adds up.
    """
    if not _adds_up(per_key, max_keys, left, keys_only):
        raise InvalidValue(
            "what keys and totals spent does not add up to the privacy of the release", AGAIN
        )


def _adds_up(per_key: PerKey, max_keys: int | None, left: Privacy, keys_only: bool) -> bool:
    """Whether a key of privacy `per_key`, or up to `max_keys` of them, may have the privacy `left`, at first sight."""
    if left.definition is not None:
        return _within_definition(per_key, max_keys or 1, left)
    match per_key:
        case ComposedSteps():  # for users without a contribution bound alone
            return False
        case KeyNoise():
            return max_keys is not None and may_hold(per_key, max_keys, left)
        case RenyiSteps():
            return max_keys is not None and keys_only
        case Privacy() if max_keys is None:
            return per_key == left
        case Privacy():
            smaller = per_key.epsilon <= left.epsilon and per_key.delta <= left.delta
            return per_key.definition is None and smaller


def _within_definition(per_key: PerKey, keys: int, left: Privacy) -> bool:
    """Whether this number of keys may have zCDP or GDP together."""
    if isinstance(per_key, Privacy):
        return delta_within(per_key, keys, left) <= left.delta
    return isinstance(per_key, KeyNoise) and may_be_gaussian(per_key, variance_of(left, keys))

"""Releases of counted users: keys of users without a contribution bound, and how many users each has."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dpsample.accounting.amounts import Amount
from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.known import Known
from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.release.explain import explain_amount, explain_counts
from dpsample.release.facts import Fact, Topic, fact
from dpsample.release.keys_proof import KeysProof, prove_users
from dpsample.release.kinds.kind import (
    AGAIN,
    GIVEN_FREQUENCY,
    Drawn,
    check_not_sampled,
    drawn_from_json,
    found_facts,
)
from dpsample.release.stated import check_discovered
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import KeepAll, Sampling

COUNT_COLUMNS: Final = ("estimate", "low", "high", "measured", "standard_error")


@dataclass(frozen=True)
class Counted(Drawn):
    """Each key has a noisy number of users and noisy sums of amounts, all with Gaussian noise of the stage `counts`.

    Which keys are reported was found before, by `discovery`; users have no contribution bound.
    """

    discovery: Discovery
    counts: Counts
    grid: ClassVar[None] = None
    max_keys: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_discovery(self.sampling, self.per_key)

    @property
    def numbers(self) -> tuple[str, ...]:  # noqa: D102
        return count_columns(self.amounts)

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """What was summed for each key, beside users."""
        return tuple(clipped.amount for clipped in self.counts.amounts)

    @property
    def unit(self) -> str:  # noqa: D102
        return "user"

    def check(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        if bought.size is not None or bought.dropped is not None:
            raise InvalidValue(
                "counted users are not sampled and have no contribution bound", AGAIN
            )

    def check_stated(self, left: Privacy, bought: Bought) -> None:  # noqa: D102
        check_discovered(self.discovery, self.counts, self.per_key, left, bought)

    def prove(self, left: Privacy) -> KeysProof:  # noqa: D102
        return prove_users(self.discovery, self.per_key, self.counts, left)

    def check_known(self, known: Known) -> None:  # noqa: D102
        check_not_sampled(self.sampling)
        if known.added is not None:
            raise InvalidValue(
                "known keys are counted as they are: nothing is added to their frequencies", AGAIN
            )

    @property
    def frequency(self) -> str:  # noqa: D102
        return GIVEN_FREQUENCY

    @property
    def estimated(self) -> str:  # noqa: D102
        return "number of users"

    @property
    def contents(self) -> str:  # noqa: D102
        return "with numbers of users"

    def facts(self, bought: Bought, keys: int | None) -> Iterator[Fact]:  # noqa: D102
        yield from found_facts(self.discovery, keys)
        yield fact(Topic.COUNTED, explain_counts(self.counts))
        for clipped in self.counts.amounts:
            yield fact(Topic.SUMMED, explain_amount(clipped))

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        form = self._drawn_to_json(None, keys_only=False)
        form["discovery"] = self.discovery.to_json()
        form["counts"] = self.counts.to_json()
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Counted":
        """Read the kind back from the metadata of a release."""
        sampling, per_key = drawn_from_json(form)
        discovery = Discovery.from_json(form["discovery"])
        counts = Counts.from_json(form["counts"])
        return cls(sampling, per_key, discovery, counts)


def count_columns(amounts: Iterable[Amount] = ()) -> tuple[str, ...]:
    """Return the columns of numbers of a release of counted users, with the columns of these amounts."""
    columns = [*COUNT_COLUMNS]
    for amount in amounts:
        columns += amount.columns
    return tuple(columns)


def check_discovery(sampling: Sampling, per_key: PerKey) -> None:
    """Refuse a sampling scheme, or a mechanism, that no discovery of users' keys has."""
    if not isinstance(sampling, KeepAll):
        raise InvalidValue(
            "discovered keys are not sampled, but this release states a sampling scheme", AGAIN
        )
    if isinstance(per_key, KeyNoise):
        raise InvalidValue("discovered keys are not reported by a table of noise", AGAIN)

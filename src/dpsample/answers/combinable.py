"""Which releases may be combined, and what they cost together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.explain import explain_spent
from dpsample.release.kinds import Tokens

if TYPE_CHECKING:
    from dpsample.answers.release import Release


def check_combination(releases: "Sequence[Release]") -> None:
    """Refuse releases that do not add up: of another kind, of other keys, twice the same, or of the same elements."""
    check_comparable(releases)
    _check_parts(releases)


def check_comparable(releases: "Sequence[Release]") -> None:
    """Refuse releases that count different things or have different keys, and one that is there twice."""
    from dpsample.answers.release import Release

    if not releases or not all(isinstance(release, Release) for release in releases):
        raise InvalidValue(
            "one or more releases can be combined or compared",
            "read them with dpsample.read_release",
        )
    _check_numbers(releases)
    first = releases[0]
    for release in releases[1:]:
        _check_alike(first, release)
    for n, release in enumerate(releases):
        if any(_same(release, other) for other in releases[:n]):
            raise InvalidValue("one of the releases is there twice", "leave it out")


def _check_numbers(releases: "Sequence[Release]") -> None:
    """Keys without numbers add nothing to numbers."""
    if any(release.keys_only for release in releases) and not all(
        release.keys_only for release in releases
    ):
        raise InvalidValue(
            "a release of keys only has no numbers that add up with those of other releases",
            "combine it with releases of keys only, or leave it out",
        )


def have_exact_laws(releases: "Sequence[Release]") -> bool:
    """Whether all releases have tokens alone, of independent samples, so that exact laws of tokens add up."""
    plain = all(
        type(release.terms.kind) is Tokens and release.terms.known is None for release in releases
    )
    return plain and not one_seed(releases)


def one_seed(releases: "Sequence[Release]") -> bool:
    """Whether some of the samples were chosen by one public seed: they have the same keys."""
    seeds = [release.sampling.seed for release in releases if release.sampling.seed is not None]
    return len({*seeds}) < len(seeds)


def _check_alike(first: "Release", other: "Release") -> None:
    """Keys, and what is counted of them, are the same."""
    keys = [
        [release.table.schema.field(name) for name in release.keys] for release in (first, other)
    ]
    named = [", ".join(f"{field.name} ({field.type})" for field in fields) for fields in keys]
    if named[0] != named[1]:
        raise InvalidValue(
            f"the releases have different key columns, {' and '.join(named)}",
            "rename or cast the keys",
        )
    counted = [(release.unit, release.terms.max_keys) for release in (first, other)]
    if counted[0] != counted[1]:
        found = [
            f"{unit}s" if most is None else f"{unit}s with up to {most:,} keys"
            for unit, most in counted
        ]
        raise InvalidValue(
            f"{' and '.join(found)} do not add up: they are different numbers of the same key",
            "combine releases that count the same",
        )


def _same(a: "Release", b: "Release") -> bool:
    """Whether two releases are one. Two of which nothing was reported may be different ones."""
    entered = a.terms.ledger is not None and a.terms.ledger == b.terms.ledger
    return a is b or entered or (len(a) > 0 and a == b)


def _check_parts(releases: "Sequence[Release]") -> None:
    parts = [release.terms.part for release in releases]
    if not any(parts):
        return
    if len({part and part.name for part in parts}) > 1:
        raise InvalidValue(
            "parts of different columns, or releases without a part, may overlap",
            "combine parts of one column",
        )
    if len({part and part.value for part in parts}) < len(parts):
        raise InvalidValue("two of the releases are of the same part", "leave one out")


def stated_cost(releases: "Sequence[Release]") -> list[str]:
    """Return what releases cost together, in words: parts in parallel, others one after the other.

    An element is in one part. A user may be in all of them.
    """
    spent, terms = [release.privacy for release in releases], releases[0].terms
    together = Privacy(
        sum(privacy.epsilon for privacy in spent), min(sum(privacy.delta for privacy in spent), 1)
    )
    part = terms.part
    if part is None:
        protected = f"for each {terms.protects}, if their data overlap; whether they do, their terms do not say"
        return [f"{explain_spent(together)}, {protected}"]
    each = Privacy(
        max(privacy.epsilon for privacy in spent), max(privacy.delta for privacy in spent)
    )
    lines = [f"{explain_spent(each)}, for each {terms.protects}: parts do not overlap"]
    if terms.unit == "user":
        lines.append(f"{explain_spent(together)}, for each user, in all parts")
    return lines

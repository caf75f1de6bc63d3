"""Which releases may be combined, and what they cost together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.release.explain import explain_spent
from dpsample.scheme.holding import SampleAndHold

if TYPE_CHECKING:
    from dpsample.answers.release import Release


def check_combination(releases: "Sequence[Release]") -> None:
    """Refuse releases that do not add up: of another kind, of other keys, twice the same, or of the same elements."""
    check_comparable(releases)
    _check_parts(releases)


def check_comparable(releases: "Sequence[Release]") -> None:
    """Refuse releases of different kinds or keys, samples that depend on each other, and one that is there twice."""
    from dpsample.answers.release import Release

    if not releases or not all(isinstance(release, Release) for release in releases):
        raise InvalidValue(
            "releases are combined and compared, one or more", "something else", "read them with dpsample.read_release"
        )
    for release in releases:
        _check_tokens(release)
    first = releases[0]
    for release in releases[1:]:
        _check_alike(first, release)
    seeds = [release.sampling.seed for release in releases if release.sampling.seed is not None]
    if len({*seeds}) < len(seeds):
        raise InvalidValue(
            "samples of releases that are combined or compared are independent",
            "two with one public seed, which have the same keys",
            "compare two of them with dpsample.answers.coordinated.difference, or ask each",
        )
    for n, release in enumerate(releases):
        if any(_same(release, other) for other in releases[:n]):
            raise InvalidValue("each release is there once", "one that is there twice", "leave it out")


def _check_tokens(release: "Release") -> None:
    """Frequencies of different releases add up by their tokens."""
    found = None
    if release.keys_only:
        found = "a release of keys only"
    elif release.terms.counts is not None:
        found = "a release of counted users: how many users it has in common with the others is unknown"
    elif release.terms.known is not None:
        found = "a release with known keys"
    elif isinstance(release.sampling, SampleAndHold):
        found = "a release of a stream, which does not tell what it did not count"
    if found is not None:
        raise InvalidValue("releases with tokens, and without known keys, are combined", found, "ask it by itself")


def _check_alike(first: "Release", other: "Release") -> None:
    """Keys, and what is counted of them, are the same."""
    keys = [[release.table.schema.field(name) for name in release.keys] for release in (first, other)]
    named = [", ".join(f"{field.name} ({field.type})" for field in fields) for fields in keys]
    if named[0] != named[1]:
        raise InvalidValue(
            "releases that are combined have the same key columns", " and ".join(named), "rename or cast the keys"
        )
    counted = [(release.unit, release.terms.max_keys) for release in (first, other)]
    if counted[0] != counted[1]:
        raise InvalidValue(
            "releases that are combined count the same: elements, or users with the same bound on their keys",
            " and ".join(unit if most is None else f"{unit}s with up to {most:,} keys" for unit, most in counted),
            "combine those that do",
        )


def _same(a: "Release", b: "Release") -> bool:
    """Whether two releases are one. Two of which nothing was reported may be different ones."""
    entered = a.terms.ledger is not None and a.terms.ledger == b.terms.ledger
    return a is b or entered or (len(a) > 0 and a == b)


def _check_parts(releases: "Sequence[Release]") -> None:
    parts = [release.terms.part for release in releases]
    if not any(parts):
        return
    rule = "parts that are combined do not overlap: they have different values of one column"
    if len({part and part.name for part in parts}) > 1:
        raise InvalidValue(rule, "releases of parts of different columns, or without one", "combine parts of one")
    if len({part and part.value for part in parts}) < len(parts):
        raise InvalidValue(rule, "two releases of the same part", "leave one out")


def stated_cost(releases: "Sequence[Release]") -> list[str]:
    """Return what releases cost together, in words: parts in parallel, others one after the other.

    An element is in one part. A user may be in all of them.
    """
    spent, terms = [release.privacy for release in releases], releases[0].terms
    together = Privacy(sum(privacy.epsilon for privacy in spent), min(sum(privacy.delta for privacy in spent), 1))
    part = terms.part
    if part is None:
        protected = f"for each {terms.protects}, if their data overlap; whether they do, their terms do not say"
        return [f"{explain_spent(together)}, {protected}"]
    each = Privacy(max(privacy.epsilon for privacy in spent), max(privacy.delta for privacy in spent))
    lines = [f"{explain_spent(each)}, for each {terms.protects}: parts do not overlap"]
    if terms.unit == "user":
        lines.append(f"{explain_spent(together)}, for each user, in all parts")
    return lines

"""Which releases may be combined, and what they cost together."""

import itertools
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
    _check_all_have_numbers_or_none(releases)
    first, *others = releases
    for release in others:
        _check_same_keys(first, release)
        _check_same_unit(first, release)
    for one, other in itertools.combinations(releases, 2):
        if _is_same(one, other):
            raise InvalidValue("one of the releases is there twice", "leave it out")


def _check_all_have_numbers_or_none(releases: "Sequence[Release]") -> None:
    """Keys without numbers add nothing to numbers."""
    if len({release.keys_only for release in releases}) > 1:
        raise InvalidValue(
            "a release of keys only has no numbers that add up with those of other releases",
            "combine it with releases of keys only, or leave it out",
        )


def have_exact_laws(releases: "Sequence[Release]") -> bool:
    """Whether all releases have tokens alone, of independent samples, so that exact laws of tokens add up."""
    return are_plain_samples(releases) and not share_a_seed(releases)


def are_plain_samples(releases: "Sequence[Release]") -> bool:
    """Whether all releases have tokens alone: no counts, streams or lists of known keys."""
    kinds = {type(release.terms.kind) for release in releases}
    no_lists = all(release.terms.known is None for release in releases)
    return kinds == {Tokens} and no_lists


def share_a_seed(releases: "Sequence[Release]") -> bool:
    """Whether some of the samples were chosen by one public seed: they have the same keys."""
    seeds = [release.sampling.seed for release in releases if release.sampling.seed is not None]
    return len(set(seeds)) < len(seeds)


def _check_same_keys(first: "Release", other: "Release") -> None:
    """Key columns have the same names and types."""
    one, two = _key_columns(first), _key_columns(other)
    if one != two:
        raise InvalidValue(
            f"the releases have different key columns, {one} and {two}", "rename or cast the keys"
        )


def _key_columns(release: "Release") -> str:
    """The key columns with their types, in words."""
    fields = [release.table.schema.field(name) for name in release.keys]
    return ", ".join(f"{field.name} ({field.type})" for field in fields)


def _check_same_unit(first: "Release", other: "Release") -> None:
    """What is counted of keys is the same."""
    one, two = _unit(first), _unit(other)
    if one != two:
        raise InvalidValue(
            f"{one} and {two} do not add up: they are different numbers of the same key",
            "combine releases that count the same",
        )


def _unit(release: "Release") -> str:
    """What a release counts, in words."""
    most = release.terms.max_keys
    bound = "" if most is None else f" with up to {most:,} keys"
    return f"{release.unit}s{bound}"


def _is_same(a: "Release", b: "Release") -> bool:
    """Whether two releases are one. Two that report nothing may be different ones."""
    if a is b:
        return True
    if a.terms.ledger is not None and a.terms.ledger == b.terms.ledger:
        return True
    return len(a) > 0 and a == b


def _check_parts(releases: "Sequence[Release]") -> None:
    """Refuse parts that may overlap: either no release states a part, or all state different ones of one column."""
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
    epsilons = [release.privacy.epsilon for release in releases]
    deltas = [release.privacy.delta for release in releases]
    one_after_the_other = explain_spent(Privacy(sum(epsilons), min(sum(deltas), 1)))
    terms = releases[0].terms
    if terms.part is None:
        protected = f"for each {terms.protects}, if their data overlap; whether they do, their terms do not say"
        return [f"{one_after_the_other}, {protected}"]
    in_parallel = explain_spent(Privacy(max(epsilons), max(deltas)))
    lines = [f"{in_parallel}, for each {terms.protects}: parts do not overlap"]
    if terms.unit == "user":
        lines.append(f"{one_after_the_other}, for each user, in all parts")
    return lines

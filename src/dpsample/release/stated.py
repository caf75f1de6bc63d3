"""Stated: each part of a release, as its terms state it, compared with what would be drawn for these terms.

A file may state anything. That its parts add up says nothing if the noise of a part is for less than one unit of
privacy changes, or is drawn in steps that are too long to be noise. So what follows from the rest of the terms is made
anew, and must be the same: the sensitivity, the step and the scale of each noise; the tau that a noisy total gives; the
shares, lengths and tables of Gaussian noise; the privacy that each stage leaves to the next. Free choices, such as the
share of a total, are stated by their cost, which is added up elsewhere (`proof`). All of this is quick: no table is
made.
"""

from collections.abc import Mapping
from fractions import Fraction

from dpsample.accounting.counts import Counts, count_parts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.dropped import TIMES
from dpsample.accounting.known import Known, added_to_known
from dpsample.accounting.lengths import MOST_GROUPS, first_lengths, lost_length, vector_length
from dpsample.accounting.totals import RealizedSize, SampleSize, Total
from dpsample.accounting.user_budget import aside_for
from dpsample.accounting.vectors import planned_noise
from dpsample.errors import PrivacyViolation
from dpsample.privacy import Privacy
from dpsample.release.bought import Bought
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Ppswor, Priority, Sampling

_HISTOGRAMS = ("keys per user", "lengths")  # parts of the counts in which a user is in one row
_ONE = Fraction(1)


def not_private(problem: str) -> PrivacyViolation:
    """Return the refusal of a release whose terms are not what would be drawn."""
    return PrivacyViolation(f"{problem}; do not trust this release")


# ---- totals


def check_size(stated: RealizedSize, sampling: Sampling, max_keys: int | None, unit: str) -> None:
    """Check that the weights' noise is for the scheme of the sample, and that tau follows from the noisy weights."""
    if not isinstance(sampling, Ppswor | Priority):
        raise not_private("a sample of a chosen size has a tau, and this one has none")
    size = SampleSize(stated.wanted, sampling.name, sampling.power, sampling.cap)
    sensitivity = size.sensitivity * (max_keys or 1)
    _check_noise("sample size", stated.weights, sensitivity, size.unit, unit)
    if size.sampling(stated.weights) != sampling:
        raise not_private(
            "tau must follow from the noisy total that was paid for, and this release states another tau"
        )


def check_totals(bought: Bought, max_keys: int | None, unit: str) -> None:
    """Check the totals of elements, or of the keys that users kept and dropped.

    One element changes the total by one; one user changes it by up to `max_keys` keys that are kept, and the total of
    dropped keys by up to TIMES as many. Both totals of users cost the same.
    """
    changed = Fraction(max_keys or 1)
    total = bought.total
    dropped = bought.dropped
    if total is not None:
        _check_noise("total", total, changed, _ONE, unit)
    if dropped is not None:
        _check_noise("dropped keys", dropped, TIMES * changed, _ONE, unit)
    if max_keys is None:
        return
    cost_of_total = None if total is None else total.epsilon
    cost_of_dropped = None if dropped is None else dropped.epsilon
    if cost_of_total != cost_of_dropped:
        raise not_private("the totals of kept and of dropped keys must cost the same, and do not")


def _check_total_of_keys(total: Total | None, discovery: Discovery) -> None:
    """Check the total of users' keys: each user counts with as many keys as the look allows."""
    if total is None:
        return
    if discovery.look is None:
        raise not_private(
            "a total of users' keys follows a look at how many they have, and there was none"
        )
    _check_noise("total", total, Fraction(discovery.look.most), _ONE, "user")


def _check_noise(what: str, total: Total, changed: Fraction, step: Fraction, unit: str) -> None:
    """Refuse noise for another change than that of one unit of privacy, or in other steps."""
    if total.sensitivity != changed:
        raise not_private(
            f"the noise of a total must be for all that one {unit} changes, no less and no more; this release states "
            f"noise for another change of the {what}"
        )
    if total.unit != step:
        raise not_private(
            "the noise of a total must be in steps of the counted unit; this release states other steps for the "
            f"{what}"
        )


# ---- known keys


def check_known(known: Known, per_key: PerKey, counts: Counts | None) -> None:
    """Check that known keys are counted, or that enough is added to their frequencies to report them with certainty."""
    if known.added is None:
        reported = counts is not None
    else:
        reported = known.added >= added_to_known(per_key)
    if not reported:
        raise not_private(
            "known keys are reported with certainty, and the terms of this release do not allow that"
        )


# ---- users without a contribution bound


def check_discovered(
    discovery: Discovery, counts: Counts | None, per_key: PerKey, left: Privacy, bought: Bought
) -> None:
    """Check the stages of users without a contribution bound.

    Discovery and counts have the privacy that the look and the total leave, and the Gaussian noise that would be drawn
    for it.
    """
    _check_total_of_keys(bought.total, discovery)
    if discovery.method == "many-keys" and discovery.look is None:
        raise not_private("many keys are looked for after a look, and there was none")
    if discovery.method == "none" and discovery.look is not None:
        raise not_private("known keys alone need no look, and there was one")
    if not discovery.follows:
        raise not_private(
            "keys are found in the way that fills more, by the noisy numbers that were paid for; this release states "
            "another way"
        )
    if counts is not None:
        _check_count_noise(counts, left)
    if discovery.method == "many-keys":
        return
    if per_key != _left_to_keys(discovery, counts, left):
        raise not_private(
            "discovery must have all that the other stages leave, and no more; this release states another privacy of "
            "each key"
        )


def _left_to_keys(discovery: Discovery, counts: Counts | None, left: Privacy) -> PerKey:
    """Return the mechanism of each key, beside these counts, if each user gives one key, or none."""
    if counts is None or discovery.method == "none":
        return left
    parts = len(counts.noise)
    delta = left.delta - parts * aside_for(left.delta, parts)
    return ComposedSteps(left.epsilon, delta, _whole_square(counts))


def _whole_square(counts: Counts) -> Fraction:
    """Return mu**2 of all counts together."""
    return sum((noise.square for noise in counts.noise), Fraction(0))


def _check_count_noise(counts: Counts, left: Privacy) -> None:
    """Check that each part has its share of mu**2, a length that could be chosen, and the table for both."""
    amounts = tuple(clipped.amount for clipped in counts.amounts)
    shares = count_parts(amounts)
    whole = _whole_square(counts)
    squares = {name: whole * share for name, share in shares.items()}
    aside = aside_for(left.delta, len(shares))
    noise = dict(zip(shares, counts.noise, strict=True))
    for name, square in squares.items():
        if noise[name].square != square:
            raise _wrong_noise(f"another share of mu**2 for {name!r}")
    lengths = {name: part.length for name, part in noise.items()}
    nothing_found = set(lengths.values()) == {1}  # then all noise is in units of one
    if not nothing_found:
        _check_lengths(lengths, squares, len(counts.groups))
    for name, square in squares.items():
        if noise[name] != planned_noise(square, aside, lengths[name]):
            raise _wrong_noise(f"another table for {name!r}")


def _check_lengths(
    lengths: Mapping[str, int], squares: Mapping[str, Fraction], groups: int
) -> None:
    """Refuse lengths that follow from no choice of the number of keys that users count in, and of groups of keys.

    The terms state this number of `groups`. One of them may be the keys that are never clipped, and groups without keys
    are not stated: so there may have been one group fewer, or more.
    """
    possible_groups = range(max(groups - 1, 1), MOST_GROUPS + 1)
    possible_clipped = {lost_length(squares["clipped"], count) for count in possible_groups}
    whole = vector_length(squares["counts"])
    clipped = lengths["clipped"]
    for name, length in lengths.items():
        is_clipped = name == "clipped" or name.endswith((" clipped", " beyond"))
        if name in _HISTOGRAMS:
            possible = length == 1
        elif name == "first counts":
            possible = length in first_lengths(squares[name])
        elif is_clipped:
            possible = length == clipped and length in possible_clipped
        else:
            possible = length == whole
        if not possible:
            raise _wrong_noise(f"another length for {name!r}")


def _wrong_noise(stated: str) -> PrivacyViolation:
    return not_private(
        f"the noise of counts must be what is drawn for these terms; this release states {stated}"
    )

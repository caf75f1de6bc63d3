"""Stated: each part of a release, as its terms state it, compared with what would be drawn for these terms.

A file may state anything. That its parts add up says nothing if the noise of a part is for less than one unit of
privacy changes, or is drawn in steps that are too long to be noise. So what follows from the rest of the terms is made
anew, and must be the same: the sensitivity, the step and the scale of each noise; the tau that a noisy total gives; the
shares, lengths and tables of Gaussian noise; what each stage leaves to the next. What may be chosen freely, such as the
share of a total, is stated by its cost, which is added up elsewhere (`proof`). All of this is quick: no table is made.
"""

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
from dpsample.release.terms import Terms
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Ppswor, Priority, Sampling

_HISTOGRAMS = ("keys per user", "lengths")  # parts of the counts in which a user is in one row


def check_stated(terms: Terms) -> None:
    """Refuse terms that state other noise, or other parts, than would be drawn for them."""
    if terms.size is not None:
        _check_size(terms.size, terms.sampling, terms.max_keys or 1, terms.unit)
    if terms.discovery is None:
        _check_totals(terms.total, terms.dropped, terms.max_keys, terms.unit)
    else:
        _check_total_of_keys(terms.total, terms.discovery)
        _check_stages(terms.discovery, terms.counts, terms.per_key, terms.keys_privacy)
    if terms.known is not None:
        _check_known(terms.known, terms.per_key, terms.counts)
    if (
        terms.discovery is not None
        and terms.discovery.method == "none"
        and not (terms.known and terms.known.only)
    ):
        raise PrivacyViolation(
            "keys are known or discovered; found neither; do not trust this release"
        )


# ---- totals


def _check_size(stated: RealizedSize, sampling: Sampling, changes: int, unit: str) -> None:
    """The weights' noise is for the scheme of the sample, and tau follows from what it gave."""
    if not isinstance(sampling, Ppswor | Priority):
        raise PrivacyViolation(
            "a sample of a chosen size has a tau; found none; do not trust this release"
        )
    size = SampleSize(stated.wanted, sampling.name, sampling.power, sampling.cap)
    _check_noise("sample size", stated.weights, size.sensitivity * changes, size.unit, unit)
    if size.sampling(stated.weights) != sampling:
        raise PrivacyViolation(
            "tau must follow from the noisy total that was paid for; found another; do not trust this release"
        )


def _check_totals(
    total: Total | None, dropped: Total | None, max_keys: int | None, unit: str
) -> None:
    """The total of elements, or of the keys that users kept and dropped: each has half of what both cost."""
    if total is not None:
        _check_noise("total", total, Fraction(max_keys or 1), Fraction(1), unit)
    if dropped is not None:
        _check_noise("dropped keys", dropped, Fraction(TIMES * (max_keys or 1)), Fraction(1), unit)
    if max_keys is not None and (total and total.epsilon) != (dropped and dropped.epsilon):
        raise PrivacyViolation(
            "the totals of kept and of dropped keys must cost the same; found that they do not; do not trust this "
            "release"
        )


def _check_total_of_keys(total: Total | None, discovery: Discovery) -> None:
    """The total of users' keys: each user counts with as many as the look says."""
    if total is None:
        return
    if discovery.look is None:
        raise PrivacyViolation(
            "a total of users' keys follows a look at how many they have; found none; do not trust this release"
        )
    _check_noise("total", total, Fraction(discovery.look.most), Fraction(1), "user")


def _check_noise(what: str, total: Total, changed: Fraction, step: Fraction, unit: str) -> None:
    """Refuse noise that is not for what one unit of privacy changes, or in other steps."""
    if total.sensitivity != changed:
        raise PrivacyViolation(
            f"the noise of a total must be for all that one {unit} changes, no less and no more; found noise for "
            f"another change of the {what}; do not trust this release"
        )
    if total.unit != step:
        raise PrivacyViolation(
            f"the noise of a total must be in steps of what is counted; found other steps for the {what}; do not trust "
            "this release"
        )


# ---- known keys


def _check_known(known: Known, each: PerKey, counts: Counts | None) -> None:
    """Known keys are counted, or so much is added to their frequencies that they are reported with certainty."""
    reported = counts is not None if known.added is None else known.added >= added_to_known(each)
    if not reported:
        raise PrivacyViolation(
            "known keys are reported with certainty; found other terms; do not trust this release"
        )


# ---- users without a contribution bound


def _check_stages(discovery: Discovery, counts: Counts | None, each: PerKey, left: Privacy) -> None:
    """Discovery and counts have what the look and the total leave; their Gaussian noise is what would be drawn."""
    if discovery.method == "many-keys" and discovery.look is None:
        raise PrivacyViolation(
            "many keys are looked for after a look; found none; do not trust this release"
        )
    if discovery.method == "none" and discovery.look is not None:
        raise PrivacyViolation(
            "known keys alone need no look; found one; do not trust this release"
        )
    if not discovery.follows:
        raise PrivacyViolation(
            "keys are found in the way that fills more, by the noisy numbers that were paid for; found another way; do "
            "not trust this release"
        )
    if counts is not None:
        _check_count_noise(counts, left)
    if discovery.method != "many-keys" and each != _left_to_keys(discovery, counts, left):
        raise PrivacyViolation(
            "discovery must have all that the other stages leave, and no more; found another privacy of each key; do "
            "not trust this release"
        )


def _left_to_keys(discovery: Discovery, counts: Counts | None, left: Privacy) -> PerKey:
    """Return by what keys are reported, beside these counts, if each user gives one key, or none."""
    if counts is None or discovery.method == "none":
        return left
    parts = len(counts.noise)
    delta = left.delta - parts * aside_for(left.delta, parts)
    return ComposedSteps(left.epsilon, delta, _whole_square(counts))


def _whole_square(counts: Counts) -> Fraction:
    return sum((noise.square for noise in counts.noise), Fraction(0))


def _check_count_noise(counts: Counts, left: Privacy) -> None:
    """Each part has its share of mu**2, a length that could be chosen, and the table for both."""
    shares = count_parts(tuple(clipped.amount for clipped in counts.amounts))
    square, aside = _whole_square(counts), aside_for(left.delta, len(shares))
    noise = dict(zip(shares, counts.noise, strict=True))
    for name, share in shares.items():
        if noise[name].square != square * share:
            raise _wrong_noise(f"another share of mu**2 for {name!r}")
    lengths = {name: part.length for name, part in noise.items()}
    nothing_found = set(lengths.values()) == {1}  # then all noise is in units of one
    if not nothing_found:
        _check_lengths(
            lengths, {name: square * share for name, share in shares.items()}, len(counts.groups)
        )
    for name, share in shares.items():
        if noise[name] != planned_noise(square * share, aside, lengths[name]):
            raise _wrong_noise(f"another table for {name!r}")


def _check_lengths(lengths: dict[str, int], squares: dict[str, Fraction], groups: int) -> None:
    """Refuse lengths that follow from no choice: of the number of keys that users count in, and of groups of keys.

    `groups` is the number of those that are stated: one of them may be the keys that are never clipped, and groups
    without keys are not among them.
    """
    lost = {lost_length(squares["clipped"], n) for n in range(max(groups - 1, 1), MOST_GROUPS + 1)}
    whole = vector_length(squares["counts"])
    clipped = lengths["clipped"]
    for name, length in lengths.items():
        if name in _HISTOGRAMS:
            possible = length == 1
        elif name == "first counts":
            possible = length in first_lengths(squares[name])
        elif name.endswith((" clipped", " beyond")) or name == "clipped":
            possible = length == clipped and length in lost
        else:
            possible = length == whole
        if not possible:
            raise _wrong_noise(f"another length for {name!r}")


def _wrong_noise(found: str) -> PrivacyViolation:
    return PrivacyViolation(
        f"the noise of counts must be what is drawn for these terms; found {found}; do not trust this release"
    )

"""What clipping took away from users, by groups of keys, and how it is put back (docs/theory.md, section 10)."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpsample.private.users.parts import Measured
from dpsample.private.users.weighing import Flags, Weighing
from dpsample.scheme.sampling import Floats

Shares = TypeVar("Shares", float, Floats)

# the deviation of the shares that keys of a group lose, as a part of what it would be if each key had one user; a large
# part, since so few noisy numbers do not show how alike the users of a key are (benchmarks/user_coverage.py)
UNEVEN = 0.3
# the largest ratio of lost to kept users of a group, and the divisor of the most negative one: only noise goes further
_MOST_LOST = 9
_LEAST_LOST_DIVISOR = 3
_TINY = 1e-9  # in place of a group that kept nothing, to divide by
_FIGURES = 6  # decimal places of errors in a release: more would be below their noise


@dataclass(frozen=True, eq=False)
class Lost:
    """What was lost, by groups of keys or ends of a clip, and the deviation of its noise."""

    values: Floats
    noise: float


@dataclass(frozen=True, eq=False)
class ShareLost:
    """The shares of users that clipping took away, by group of keys, and their errors.

    `unseen` is what users lost who are too long to be measured, over what was kept: an estimate, with its error.
    """

    values: Floats
    errors: Floats
    unseen: Floats
    unseen_errors: Floats


def unevenness(share: Shares) -> Shares:
    """Return the standard deviation of the share that a key loses around the share of its group.

    It is due to the users who happen to have the key. If a key had one user, who loses all or nothing, it would be
    ``sqrt(share * (1 - share))``; if it had very many users, drawn at random, it would be 0. It is taken for `UNEVEN`
    times the former.
    """
    variance_of_one = np.clip(share * (1 - share), 0.0, None)
    deviation: Shares = UNEVEN * np.sqrt(variance_of_one)
    return deviation


def share_lost(weighing: Weighing, lost: Lost, kept: Measured) -> ShareLost:
    """Return the share of users that clipping took away from each group: what was measured, and what was not.

    The share is t / (t + k), with t what was taken and k what was kept. Its slopes are k / (t + k)**2 and
    -t / (t + k)**2, by which the errors of t and k become its own.
    """
    clip = weighing.clip
    counted = weighing.by_group(kept)
    left = np.maximum(counted.values, _TINY)
    seen = np.clip(lost.values, -left / _LEAST_LOST_DIVISOR, _MOST_LOST * left)
    # users who are too long lose more than was measured: in all groups alike, for all that is known
    before = seen + left
    part_of_group = before / float(before.sum())
    unseen = clip.unseen * part_of_group
    unseen_error = clip.unseen_error * part_of_group

    taken = seen + unseen
    taken_error = np.hypot(lost.noise, unseen_error)
    whole = taken + left
    error = np.hypot(taken_error * left, counted.errors * taken) / whole**2
    return ShareLost(taken / whole, error, unseen / left, unseen_error / left)


def put_back(weighing: Weighing, share: ShareLost, kept: Measured) -> Measured:
    """Return the numbers of all users of each key; their errors are of the noise, of the share, and of its unevenness.

    The number k of users who are left of n is n (1 - s), so n = k / (1 - s), and an error of s counts n times.
    """
    share_of_key = weighing.each_key(share.values)
    share_error = np.hypot(weighing.each_key(share.errors), unevenness(share_of_key))
    left = 1 - share_of_key
    values = kept.values / left
    users = np.maximum(values, weighing.popularity / 2)
    errors = np.hypot(kept.errors, users * share_error) / left
    return Measured(values, errors)


def errors_in_common(weighing: Weighing, share: ShareLost) -> tuple[tuple[float, float], ...]:
    """Return about the least number of users in each group, ascending, and the relative error that its keys share.

    Popular keys may all lose less than their group, so unevenness does not cancel out in a sum either. The head, which
    is not clipped, comes last.
    """
    share_error = np.hypot(share.errors, unevenness(share.values))
    common = share_error / (1 - share.values)
    groups = []
    for group in weighing.present:
        least = _least_popularity(weighing, weighing.in_group(group))
        groups.append((least, round(float(common[group]), _FIGURES)))
    if weighing.head.any():
        groups.append((_least_popularity(weighing, weighing.head), 0.0))
    return tuple(groups)


def _least_popularity(weighing: Weighing, keys: Flags) -> float:
    """Return about the least number of users of these keys."""
    least = weighing.popularity[keys].min()
    return round(float(least), 1)

"""What clipping took away from users, by groups of keys, and how it is put back (docs/theory.md, section 10)."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dpsample.private.users.parts import Measured
from dpsample.private.users.weighing import Weighing
from dpsample.scheme.sampling import Floats

Shares = TypeVar("Shares", float, Floats)

# how far the shares that keys lose lie apart within a group, as a part of how far they would if each key had one user;
# a large one, since so few noisy numbers do not tell how alike the users of a key are (benchmarks/user_coverage.py)
UNEVEN = 0.3


@dataclass(frozen=True, eq=False)
class Lost:
    """What was lost, by groups of keys or ends of a clip, and the deviation of its noise."""

    values: Floats
    noise: float


@dataclass(frozen=True, eq=False)
class ShareLost:
    """The shares of users that clipping took away from groups of keys, and their errors.

    `unseen` is the part that was not measured but estimated, over what was kept, with its error.
    """

    values: Floats
    errors: Floats
    unseen: Floats
    unseen_errors: Floats


def unevenness(share: Shares) -> Shares:
    """Return the deviation of the share that a key loses from that of its group, by which users happen to have it.

    If a key had one user, who loses all or nothing, it would be ``sqrt(share (1 - share))``; if it had very many who
    are drawn at random, it would be 0. It is taken for `UNEVEN` times the former.
    """
    deviation: Shares = UNEVEN * np.sqrt(np.clip(share * (1 - share), 0.0, None))
    return deviation


def share_lost(weighing: Weighing, lost: Lost, kept: Measured) -> ShareLost:
    """Return the share of users that clipping took away from each group: what was measured, and what was not.

    The share is t / (t + k), with t what was taken and k what was kept. Its slopes are k / (t + k)**2 and
    -t / (t + k)**2, by which the errors of t and k become its own.
    """
    clip = weighing.clip
    counted = weighing.by_group(kept)
    left = np.maximum(counted.values, 1e-9)
    seen = np.clip(lost.values, -left / 3, 9 * left)  # noise alone may be negative
    # users who are too long lose more than was measured: in all groups alike, for all that is known
    before = seen + left
    part = before / float(before.sum())
    unseen = clip.unseen * part
    unseen_error = clip.unseen_error * part

    taken = seen + unseen
    taken_error = np.hypot(lost.noise, unseen_error)
    whole = taken + left
    error = np.hypot(taken_error * left, counted.errors * taken) / whole**2
    return ShareLost(taken / whole, error, unseen / left, unseen_error / left)


def put_back(weighing: Weighing, share: ShareLost, kept: Measured) -> Measured:
    """Return the numbers of all users of each key, with errors: of the noise, of the share, and of its unevenness."""
    of_key = weighing.each_key(share.values)
    of_share = np.hypot(weighing.each_key(share.errors), unevenness(of_key))
    values = kept.values / (1 - of_key)
    users = np.maximum(values, weighing.popularity / 2)
    return Measured(values, np.hypot(kept.errors, users * of_share) / (1 - of_key))


def errors_in_common(weighing: Weighing, share: ShareLost) -> tuple[tuple[float, float], ...]:
    """Return about the least number of users in each group, ascending, and the relative error that its keys share.

    Popular keys may all lose less than their group. So what is uneven does not cancel out in a sum either. The last
    group is the head, which is not clipped.
    """
    common = np.hypot(share.errors, unevenness(share.values)) / (1 - share.values)
    groups = []
    for group in weighing.present:
        least = float(weighing.popularity[weighing.in_group(group)].min())
        groups.append((round(least, 1), round(float(common[group]), 6)))
    if weighing.head.any():
        least = float(weighing.popularity[weighing.head].min())
        groups.append((round(least, 1), 0.0))
    return tuple(groups)

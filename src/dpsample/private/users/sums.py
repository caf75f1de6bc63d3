"""Sums of amounts, rows or columns, for each key that was discovered, beside the numbers of users.

The weights of keys and the factors by which users are scaled down are those of the counts. An amount is at most 1 in
units of the larger end of its clip, so it makes no vector longer. Each amount has three parts, each with noise of its
own:

    sums     amounts, clipped, weighted and scaled down as users are       -> the estimates
    clipped  what scaling down takes away, by groups of keys               -> the share that is put back
    beyond   what amounts have beyond the ends of the clip, by end         -> by how much wide intervals are longer
"""

from dataclasses import dataclass

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount
from dpsample.accounting.clipped import Clipped
from dpsample.private.users.parts import Measured
from dpsample.private.users.put_back import Lost, ShareLost, unevenness
from dpsample.private.users.weighing import Weighing
from dpsample.scheme.sampling import Floats

# the deviation of what an amount lost over what was kept, before it is measured, as a part of that of users
# (docs/theory.md, section 10, Estimates): with less, too little is put back where long users have larger amounts
_APART = 0.5
_LEAST_RATIO, _MOST_RATIO = (
    -0.25,
    9.0,
)  # of what was lost over what was kept: noise alone goes further
_EXPLAINED = 2.0  # deviations of a measurement that its noise explains: what is beyond is added to the errors
_TINY = 1e-300  # in place of 0, where nothing was lost and nothing is noisy


@dataclass(frozen=True, eq=False)
class Parts:
    """The noisy parts of an amount, in units of the larger end of its clip: sums by key, what was lost, and beyond."""

    kept: Measured
    lost: Lost
    beyond: Lost


@dataclass(frozen=True)
class MeasuredAmount:
    """Clipped sums of an amount for each key, with errors, and the public record of its clipping."""

    values: Floats
    errors: Floats
    record: Clipped


@dataclass(frozen=True, eq=False)
class RatioLost:
    """What was lost over what was kept, by group, with its error; and what that leaves unexplained for each key."""

    values: Floats
    errors: Floats
    unexplained: Floats


def estimated_amount(
    amount: Amount, weighing: Weighing, parts: Parts, share: ShareLost, users: Floats
) -> MeasuredAmount:
    """Put back what scaling down took away, and state what is beyond the ends of the clip.

    `share` is that of users, by group. All is in units of the clip, until the end.
    """
    kept = parts.kept
    lost = ratio_lost(weighing, parts, share)
    ratio = weighing.each_key(lost.values)
    of_ratio = np.hypot(weighing.each_key(lost.errors), _uneven_ratio(ratio))
    unexplained = weighing.popularity * weighing.each_key(lost.unexplained)

    values = kept.values * (1 + ratio)
    noise = kept.errors * (1 + ratio)
    uncertain = kept.values * of_ratio
    errors = np.sqrt(noise**2 + uncertain**2 + unexplained**2)

    share_lost = round(float(np.mean(ratio / (1 + ratio))), 6)
    groups = _errors_in_common(weighing, lost)
    each = _beyond_each(amount, weighing, users)
    beyond = _figures(each * parts.beyond.values)
    beyond_errors = _figures(each * parts.beyond.noise)
    record = Clipped(amount, share_lost, groups, beyond, beyond_errors)
    unit = float(amount.reach)
    return MeasuredAmount(unit * values, unit * errors, record)


def _beyond_each(amount: Amount, weighing: Weighing, users: Floats) -> Floats:
    """Return what a unit beyond the low end, and one beyond the high end, are on average for each user of a key.

    What users with many keys count too little is put back.
    """
    pairs = float(np.maximum(users, 1.0).sum())
    each = (LOOKED_AT - 1) / (1 - weighing.few.uncounted(pairs)) / pairs
    return np.array([float(-amount.low), float(amount.high)]) * each


def ratio_lost(weighing: Weighing, parts: Parts, share: ShareLost) -> RatioLost:
    """Estimate what was lost over what was kept, by group, from the ratio of users and what was measured.

    Before measuring, the ratio has a normal law around that of users, from which it may differ by half. Measuring what
    was lost then moves it by Kalman's gain: this tells much of amounts of one sign, and nothing of amounts that cancel
    out. Users who are too long to be measured lose the same part of their amounts as of themselves.
    """
    kept = weighing.by_group(parts.kept)
    total = kept.values
    of_users = share.values / (1 - share.values)
    of_users_error = share.errors / (1 - share.values) ** 2
    prior = np.hypot(of_users_error, _APART * of_users)  # its deviation; its mean is `of_users`

    taken = parts.lost.values + share.unseen * total
    counted_noise = of_users * kept.errors
    unseen_noise = share.unseen_errors * total
    variance = parts.lost.noise**2 + counted_noise**2 + unseen_noise**2

    expected_variance = prior**2 * total**2 + variance
    gain = prior**2 * total / np.maximum(expected_variance, _TINY)
    surprise = taken - of_users * total
    ratio = np.clip(of_users + gain * surprise, _LEAST_RATIO, _MOST_RATIO)
    error = prior * np.sqrt(np.clip(1 - gain * total, 0, 1))

    residual = (taken - ratio * total) ** 2
    unexplained = np.maximum(residual - _EXPLAINED**2 * variance, 0.0)
    return RatioLost(ratio, error, np.sqrt(unexplained) / np.maximum(weighing.keys_of_groups(), 1))


def _errors_in_common(weighing: Weighing, lost: RatioLost) -> tuple[float, ...]:
    """Return the relative error that the keys of each group have in common; those of the head, the last, have none."""
    common = np.hypot(lost.errors, _uneven_ratio(lost.values)) / (1 + lost.values)
    errors = [round(float(common[group]), 6) for group in weighing.present]
    return (*errors, 0.0) if weighing.head.any() else tuple(errors)


def _uneven_ratio(ratio: Floats) -> Floats:
    """Return how far the ratios of keys lie apart within a group: of s / (1 - s) the slope is (1 + r)**2."""
    shares = np.maximum(ratio, 0.0) / (1 + ratio)
    return unevenness(shares) * (1 + ratio) ** 2


def _figures(both_ends: Floats) -> tuple[float, float]:
    """Return four figures of each number: more would say nothing."""
    below, above = (float(f"{value:.4g}") for value in both_ends.tolist())
    return below, above

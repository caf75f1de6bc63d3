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

# the deviation of the ratio of lost to kept amounts before it is measured, as a part of that ratio of users
# (docs/theory.md, section 10, Estimates): with less, too little is put back where long users have larger amounts
_APART = 0.5
# the range of the ratio of lost to kept amounts: only noise goes further, since -1/3 to 9 is the range of users' shares
_RATIOS = -0.25, 9.0
# deviations of a measurement that its noise explains: what is beyond is added to the errors
_EXPLAINED = 2.0
_TINY = 1e-300  # in place of 0, where nothing was lost and nothing is noisy
_FIGURES = 6  # decimal places of shares and errors in a release: more would be below their noise


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
    """The ratio r of lost to kept amounts, by group, with its error.

    `unexplained` is what the measurement has beyond its noise, for each key of the group: it is added to the errors.
    """

    values: Floats
    errors: Floats
    unexplained: Floats


def estimated_amount(
    amount: Amount, weighing: Weighing, parts: Parts, share: ShareLost, users: Floats
) -> MeasuredAmount:
    """Put back what scaling down took away, and state what is beyond the ends of the clip.

    `share` has the share of users that scaling down took away, by group; `users` the number of users of each key. All
    amounts are in units of the larger end of the clip, until the end.
    """
    kept = parts.kept
    lost = ratio_lost(weighing, parts, share)
    ratio = weighing.each_key(lost.values)
    ratio_error = np.hypot(weighing.each_key(lost.errors), _uneven_ratio(ratio))
    unexplained = weighing.popularity * weighing.each_key(lost.unexplained)

    values = kept.values * (1 + ratio)
    noise = kept.errors * (1 + ratio)
    uncertain = kept.values * ratio_error
    errors = np.sqrt(noise**2 + uncertain**2 + unexplained**2)

    share_lost = float(np.mean(ratio / (1 + ratio)))
    groups = _errors_in_common(weighing, lost)
    each = _beyond_each(amount, weighing, users)
    beyond = _figures(each * parts.beyond.values)
    beyond_errors = _figures(each * parts.beyond.noise)
    record = Clipped(amount, round(share_lost, _FIGURES), groups, beyond, beyond_errors)
    unit = float(amount.reach)
    return MeasuredAmount(unit * values, unit * errors, record)


def _beyond_each(amount: Amount, weighing: Weighing, users: Floats) -> Floats:
    """Return the average for each user of a key of one unit that was measured beyond the low end, and the high end.

    A unit is the part of an amount that is looked at beyond an end, `LOOKED_AT` - 1 times that end. What users with
    many keys count too little is put back.
    """
    pairs = float(np.maximum(users, 1.0).sum())
    counted = 1 - weighing.few.uncounted(pairs)
    each = (LOOKED_AT - 1) / counted / pairs
    ends = np.array([float(-amount.low), float(amount.high)])
    return ends * each


def ratio_lost(weighing: Weighing, parts: Parts, share: ShareLost) -> RatioLost:
    """Estimate the ratio r of lost to kept amounts, by group, from the ratio of users and from what was measured.

    The prior of r is normal around the ratio of users, from which it may differ by half. With the total T of what was
    kept, what was lost is r T plus noise. Measuring it moves r by the gain of Kalman's filter: by much for amounts of
    one sign, and by nothing for amounts that cancel out, where T is small. Users who are too long to be measured lose
    the same part of their amounts as of themselves.
    """
    kept = weighing.by_group(parts.kept)
    total = kept.values
    of_users = share.values / (1 - share.values)
    of_users_error = share.errors / (1 - share.values) ** 2
    prior_deviation = np.hypot(of_users_error, _APART * of_users)

    taken = parts.lost.values + share.unseen * total
    counted_noise = of_users * kept.errors
    unseen_noise = share.unseen_errors * total
    noise_variance = parts.lost.noise**2 + counted_noise**2 + unseen_noise**2

    taken_variance = prior_deviation**2 * total**2 + noise_variance
    gain = prior_deviation**2 * total / np.maximum(taken_variance, _TINY)
    surprise = taken - of_users * total
    ratio = np.clip(of_users + gain * surprise, *_RATIOS)
    error = prior_deviation * np.sqrt(np.clip(1 - gain * total, 0, 1))

    residual = (taken - ratio * total) ** 2
    unexplained = np.sqrt(np.maximum(residual - _EXPLAINED**2 * noise_variance, 0.0))
    keys = np.maximum(weighing.keys_of_groups(), 1)
    return RatioLost(ratio, error, unexplained / keys)


def _errors_in_common(weighing: Weighing, lost: RatioLost) -> tuple[float, ...]:
    """Return the relative error that the keys of each group have in common; the head, which comes last, has none."""
    ratio_error = np.hypot(lost.errors, _uneven_ratio(lost.values))
    common = ratio_error / (1 + lost.values)
    errors = [round(float(common[group]), _FIGURES) for group in weighing.present]
    if weighing.head.any():
        errors.append(0.0)
    return tuple(errors)


def _uneven_ratio(ratio: Floats) -> Floats:
    """Return the deviation of the ratios r of keys within a group, from that of their shares s.

    Since r = s / (1 - s), its slope in s is 1 / (1 - s)**2 = (1 + r)**2.
    """
    shares = np.maximum(ratio, 0.0) / (1 + ratio)
    return unevenness(shares) * (1 + ratio) ** 2


def _figures(both_ends: Floats) -> tuple[float, float]:
    """Return both numbers with four significant figures: more would be below their noise."""
    below, above = both_ends.tolist()
    return float(f"{below:.4g}"), float(f"{above:.4g}")

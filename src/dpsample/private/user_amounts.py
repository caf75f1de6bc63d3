"""Amounts of users: sums of rows or of columns for each key that was discovered, beside the numbers of users.

The weights of keys and the factors by which users are scaled down are those of the counts. An amount is at most 1 in
units of its clip, so it makes no vector longer. For each amount there are three parts, each with its own noise:

    sums     amounts, clipped, weighted and scaled down as users are       -> the estimates
    clipped  what scaling down takes away, by groups of keys               -> the share that is put back
    beyond   what amounts have beyond the clip, by sign                    -> by how much intervals are longer

Sums are rounded to whole numbers by a threshold that follows from user and key alone, so that roundings cancel out; a
user whose rounded vector would be too long is rounded toward zero (docs/theory.md, section 10).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount, Clipped
from dpsample.private.pairs import Kernel
from dpsample.private.user_vectors import (
    FINE,
    SCALE_BITS,
    Batches,
    Clip,
    Lost,
    ShareLost,
    Weighing,
    rows_of,
    scaled_down,
    sizes_of,
    unevenness,
)
from dpsample.scheme.sampling import Floats, Ints

_APART = 0.5  # by how much the share of an amount may differ from that of users, relative to it
_MARGIN = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class MeasuredAmount:
    """Sums of an amount for each key, with errors and 95 % intervals, and the public record of its clipping."""

    values: Floats
    errors: Floats
    lows: Floats
    highs: Floats
    record: Clipped


def all_sums(weighing: Weighing, amounts: Sequence[Amount] = ()) -> Kernel:
    """Sum users, and what was clipped of them, by groups; then each amount, its clipped, and what is beyond, by sign.

    Whole numbers. The squares of what a user adds to the users sum to at most `length**2`, and so for each amount. What
    one user has clipped, and beyond, sums to at most `FINE` in units of what one user may lose.
    """
    head, weights, groups, clip = weighing.head, weighing.weights, weighing.groups, weighing.clip
    squares, tail, keys = np.where(head, 0, weights**2), weighing.tail, len(weighing.head)
    edge = keys + clip.groups

    def kernel(batches: Batches) -> Ints:
        counts, totals = np.zeros(edge, np.int64), np.zeros((len(amounts), edge + 2), np.int64)
        for starts, places, *more in batches:
            sizes, own = sizes_of(starts, places), weights[places] << SCALE_BITS
            long, factors = scaled_down(np.add.reduceat(squares[places], starts), starts, sizes, weighing.most)
            own[long] = np.where(head[places[long]], own[long], (own[long] >> SCALE_BITS) * factors)
            np.add.at(counts, places, own >> SCALE_BITS)
            cut, lost = _lost_rows(tail[places], starts, sizes, clip)
            cut_groups = keys + groups[places[cut]]
            np.add.at(counts, cut_groups, np.floor(lost).astype(np.int64))
            if not amounts:
                continue
            thresholds = thresholds_of(more[0], places)
            for total, amount, value in zip(totals, amounts, more[1:], strict=True):
                one = amount.whole
                clipped = np.clip(value, -one, one)
                np.add.at(total, places, rounded(own, clipped, one, thresholds, starts, sizes, weighing.length))
                np.add.at(total, cut_groups, np.trunc(lost * (clipped[cut] / one)).astype(np.int64))
                over = np.flatnonzero(value != clipped)
                each = sizes[np.searchsorted(starts, over, side="right") - 1]
                within = np.minimum(1 / weighing.keys_each, 1 / each)  # those of a user sum to at most 1
                excess = np.minimum((np.abs(value[over]) / one - 1) / (LOOKED_AT - 1), 1.0)
                units = np.floor(within * excess * (FINE - 1)).astype(np.int64)
                np.add.at(total, edge + (value[over] > 0), units)
        return np.append(counts, totals)

    return kernel


def _lost_rows(tail: Floats, starts: Ints, sizes: Ints, clip: Clip) -> tuple[Ints, Floats]:
    """The rows of users who are clipped, and what each loses, in fine units of what one user may lose."""
    lengths = np.add.reduceat(tail, starts)
    long = np.flatnonzero(lengths > clip.square)
    shares = np.minimum(1 - np.sqrt(clip.square / lengths[long]), clip.lost / lengths[long])
    rows = rows_of(starts[long], sizes[long])
    return rows, np.repeat(shares, sizes[long]) * tail[rows] / max(clip.lost, 1e-300) * (FINE - 1)


def thresholds_of(marks: Ints, places: Ints) -> Ints:
    """Return a number below 2**16 for each user and key, which follows from the user's mark and the key's position.

    A user's threshold must not depend on other users: numbers of users in a batch would.
    """
    mixed = (marks.astype(np.uint64) << np.uint64(32) | places.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(48)).astype(np.int64)


def rounded(scaled: Ints, clipped: Ints, one: int, thresholds: Ints, starts: Ints, sizes: Ints, length: int) -> Ints:
    """Return ``scaled / 2**16 * clipped / one``, rounded: squares of a user sum to at most length**2.

    They are rounded down after a threshold below 1 is added; toward zero for users for whom that is too long.
    """
    whole = one << SCALE_BITS
    product = scaled * clipped
    added: Ints = (product + thresholds * one) // whole
    long = np.flatnonzero(np.add.reduceat(added**2, starts) > length**2)
    rows = rows_of(starts[long], sizes[long])
    added[rows] = np.sign(product[rows]) * (np.abs(product[rows]) // whole)
    return added


def estimated_amount(
    amount: Amount,
    weighing: Weighing,
    kept: Floats,
    errors: Floats,
    lost: Lost,
    beyond: Lost,
    share: ShareLost,
    users: Floats,
) -> MeasuredAmount:
    """Put back what scaling down took away, and make the intervals longer by what is beyond the clip.

    `share` is that of users, by group. All is in units of the clip, until the end.
    """
    ratio, ratio_error, unexplained = _lost_ratio(weighing, kept, errors, lost, share)
    groups, head = weighing.groups, weighing.head
    of_key, its_error, apart = (np.where(head, 0.0, values[groups]) for values in (ratio, ratio_error, unexplained))
    values = kept * (1 + of_key)
    common = np.hypot(its_error, _uneven_ratio(of_key))
    errors = np.sqrt((errors * (1 + of_key)) ** 2 + (kept * common) ** 2 + (weighing.popularity * apart) ** 2)
    unit = float(amount.clip)
    # users with many keys are put back; no user has a negative number of rows
    each = unit * (LOOKED_AT - 1) / (1 - weighing.over) / float(np.maximum(users, 1.0).sum())
    below, above = (0.0 if amount.column is None else each), each
    shared = np.hypot(ratio_error, _uneven_ratio(ratio)) / (1 + ratio)
    relative = [float(shared[n]) for n in weighing.present] + [0.0] * bool(head.any())
    record = Clipped(
        amount,
        round(float(np.mean(of_key / (1 + of_key))), 6),
        tuple(round(error, 6) for error in relative),
        (_figures(below * beyond.values[0]), _figures(above * beyond.values[1])),
        (_figures(below * beyond.noise), _figures(above * beyond.noise)),
    )
    values, errors = unit * values, unit * errors
    down, up = (side.max(axis=1) for side in record.beyond_keys(users, values))
    lows = values - down[0] - _MARGIN * np.sqrt(errors**2 + down[1] ** 2 + down[2] ** 2)
    highs = values + up[0] + _MARGIN * np.sqrt(errors**2 + up[1] ** 2 + up[2] ** 2)
    return MeasuredAmount(values, errors, lows, highs, record)


def _lost_ratio(
    weighing: Weighing, kept: Floats, errors: Floats, lost: Lost, share: ShareLost
) -> tuple[Floats, Floats, Floats]:
    """What was lost over what was kept, by group, with its error, and what that does not explain for each user.

    The ratio of users is the prior, from which that of an amount may differ by half. What was measured is combined with
    it by precision: it tells much of amounts of one sign, and nothing of amounts that cancel out. Users who are too
    long to be measured lose the same part of their amounts as of themselves.
    """
    total, total_error = weighing.by_group(kept, errors)
    before = share.values / (1 - share.values)
    spread = np.hypot(share.errors / (1 - share.values) ** 2, _APART * before)
    taken = lost.values + share.unseen * total
    noise = lost.noise**2 + (before * total_error) ** 2 + (share.unseen_errors * total) ** 2
    gain = spread**2 * total / np.maximum(spread**2 * total**2 + noise, 1e-300)
    ratio = np.clip(before + gain * (taken - before * total), -0.25, 9.0)
    left = np.maximum((taken - ratio * total) ** 2 - 4 * noise, 0.0)  # beyond two deviations
    keys = np.bincount(weighing.groups[~weighing.head], minlength=weighing.clip.groups)
    error = spread * np.sqrt(np.clip(1 - gain * total, 0, 1))
    return ratio, error, np.sqrt(left) / np.maximum(keys, 1)


def _uneven_ratio(ratio: Floats) -> Floats:
    """How far the ratios of keys lie apart within a group, as shares do: what was lost is so much of what was kept."""
    shares = np.maximum(ratio, 0.0) / (1 + ratio)
    return unevenness(shares) * (1 + ratio) ** 2


def _figures(value: float) -> float:
    """Four figures: more would say nothing."""
    return float(f"{value:.4g}")

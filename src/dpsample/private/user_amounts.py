"""Amounts of users: sums of rows or of columns for each key that was discovered, beside the numbers of users.

The weights of keys and the factors by which users are scaled down are those of the counts. An amount is at most 1 in
units of the larger end of its clip, so it makes no vector longer. For each amount there are three parts, each with its
own noise:

    sums     amounts, clipped, weighted and scaled down as users are       -> the estimates
    clipped  what scaling down takes away, by groups of keys               -> the share that is put back
    beyond   what amounts have beyond the ends of the clip, by end         -> by how much wide intervals are longer

Sums are rounded to whole numbers by a threshold that follows from user and key alone, so that roundings cancel out; a
user whose rounded vector would be too long is rounded toward zero (docs/theory.md, section 10).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount
from dpsample.accounting.clipped import Clipped
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


@dataclass(frozen=True, eq=False)
class Parts:
    """The noisy parts of an amount, in units of the larger end of its clip: sums with errors, what was lost, beyond."""

    kept: Floats
    errors: Floats
    lost: Lost
    beyond: Lost


@dataclass(frozen=True)
class MeasuredAmount:
    """Clipped sums of an amount for each key, with errors, and the public record of its clipping."""

    values: Floats
    errors: Floats
    record: Clipped


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a batch: where users begin, the keys' positions, and how many rows each user has.

    `scaled` is what each row adds to the counts, times 2**16. The rows `cut` lost something to the clipping of lengths:
    `lost`, in fine units, in totals at `cut_groups`.
    """

    starts: Ints
    places: Ints
    sizes: Ints
    scaled: Ints
    cut: Ints
    cut_groups: Ints
    lost: Floats


def all_sums(weighing: Weighing, amounts: Sequence[Amount] = ()) -> Kernel:
    """Sum users, and what was clipped of them, by groups; then each amount, its clipped, and what is beyond, by end.

    Whole numbers. The squares of what a user adds to the users sum to at most `length**2`, and so for each amount. What
    one user has clipped, and beyond, sums to at most `FINE` in units of what one user may lose.
    """
    edge = len(weighing.head) + weighing.clip.groups
    squares = np.where(weighing.head, 0, weighing.weights**2)
    tail = weighing.tail

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(edge, np.int64)
        totals = np.zeros((len(amounts), edge + 2), np.int64)
        for starts, places, *more in batches:
            rows = _rows(weighing, squares, tail, starts, places)
            np.add.at(counts, places, rows.scaled >> SCALE_BITS)
            np.add.at(counts, rows.cut_groups, np.floor(rows.lost).astype(np.int64))
            if amounts:
                marks, *values = more
                thresholds = thresholds_of(marks, places)
                for total, amount, value in zip(totals, amounts, values, strict=True):
                    _add_amount(total, weighing, rows, thresholds, amount, value)
        return np.append(counts, totals)

    return kernel


def _rows(weighing: Weighing, squares: Ints, tail: Floats, starts: Ints, places: Ints) -> _Rows:
    """Scale users down as the counts do, and find what the clipping of lengths takes from them."""
    sizes = sizes_of(starts, places)
    scaled = weighing.weights[places] << SCALE_BITS
    long, factors = scaled_down(np.add.reduceat(squares[places], starts), starts, sizes, weighing.most)
    in_head = weighing.head[places[long]]
    scaled[long] = np.where(in_head, scaled[long], (scaled[long] >> SCALE_BITS) * factors)
    cut, lost = _lost_rows(tail[places], starts, sizes, weighing.clip)
    cut_groups = len(weighing.head) + weighing.groups[places[cut]]
    return _Rows(starts, places, sizes, scaled, cut, cut_groups, lost)


def _add_amount(total: Ints, weighing: Weighing, rows: _Rows, thresholds: Ints, amount: Amount, value: Ints) -> None:
    """Add the amounts of a batch to the sums of keys, to what was clipped of them by groups, and to what is beyond."""
    value = np.clip(value, *amount.looked_at)
    clipped = np.clip(value, *amount.ends)
    product = rows.scaled * clipped
    added = rounded(product, amount.whole, thresholds, rows.starts, rows.sizes, weighing.length)
    np.add.at(total, rows.places, added)

    lost = rows.lost * (clipped[rows.cut] / amount.whole)
    np.add.at(total, rows.cut_groups, np.trunc(lost).astype(np.int64))

    over = np.flatnonzero(value != clipped)
    keys = rows.sizes[np.searchsorted(rows.starts, over, side="right") - 1]
    excess = excess_of(amount, value[over], clipped[over])
    units = np.floor(_within(weighing, keys) * excess * (FINE - 1)).astype(np.int64)
    above = (value[over] > 0).astype(np.int64)
    np.add.at(total, len(total) - 2 + above, units)


def excess_of(amount: Amount, value: Ints, clipped: Ints) -> Floats:
    """Return what amounts have beyond an end of the clip, as a share of the most that is looked at: at most 1.

    Amounts beyond the clip have the sign of the end that they exceed, and this end is not 0.
    """
    end = np.abs(clipped)
    share: Floats = np.abs(value - clipped) / (end * (LOOKED_AT - 1))
    return np.minimum(share, 1.0)


def _within(weighing: Weighing, keys: Ints) -> Floats:
    """The factors of users with these numbers of keys in what is beyond, in units: those of a user sum to at most 1."""
    return np.minimum(1 / weighing.few.most, 1 / keys)


def _lost_rows(tail: Floats, starts: Ints, sizes: Ints, clip: Clip) -> tuple[Ints, Floats]:
    """The rows of users who are clipped, and what each loses, in fine units of what one user may lose."""
    lengths = np.add.reduceat(tail, starts)
    long = np.flatnonzero(lengths > clip.square)
    clipped = 1 - np.sqrt(clip.square / lengths[long])
    counted = clip.lost / lengths[long]  # of longer users no more is counted
    shares = np.minimum(clipped, counted)

    rows = rows_of(starts[long], sizes[long])
    lost = np.repeat(shares, sizes[long]) * tail[rows]
    return rows, lost / max(clip.lost, 1e-300) * (FINE - 1)


def thresholds_of(marks: Ints, places: Ints) -> Ints:
    """Return a number below 2**16 for each user and key, which follows from the user's mark and the key's position.

    A user's threshold must not depend on other users: numbers of users in a batch would.
    """
    mixed = (marks.astype(np.uint64) << np.uint64(32) | places.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(48)).astype(np.int64)


def rounded(product: Ints, one: int, thresholds: Ints, starts: Ints, sizes: Ints, length: int) -> Ints:
    """Return ``product / (2**16 one)``, rounded: squares of a user sum to at most length**2.

    They are rounded down after a threshold below 1 is added; toward zero for users for whom that is too long.
    """
    whole = one << SCALE_BITS
    added: Ints = (product + thresholds * one) // whole
    long = np.flatnonzero(np.add.reduceat(added**2, starts) > length**2)
    rows = rows_of(starts[long], sizes[long])
    added[rows] = np.sign(product[rows]) * (np.abs(product[rows]) // whole)
    return added


def estimated_amount(
    amount: Amount, weighing: Weighing, parts: Parts, share: ShareLost, users: Floats
) -> MeasuredAmount:
    """Put back what scaling down took away, and state what is beyond the ends of the clip.

    `share` is that of users, by group. All is in units of the clip, until the end.
    """
    ratio, ratio_error, unexplained = _lost_ratio(weighing, parts, share)
    groups, head = weighing.groups, weighing.head
    of_key, its_error, apart = (np.where(head, 0.0, values[groups]) for values in (ratio, ratio_error, unexplained))

    values = parts.kept * (1 + of_key)
    noise = parts.errors * (1 + of_key)
    common = np.hypot(its_error, _uneven_ratio(of_key))
    errors = np.sqrt(noise**2 + (parts.kept * common) ** 2 + (weighing.popularity * apart) ** 2)

    shared = np.hypot(ratio_error, _uneven_ratio(ratio)) / (1 + ratio)
    relative = [float(shared[n]) for n in weighing.present] + [0.0] * bool(head.any())
    below, above = _beyond_each(amount, weighing, users)
    record = Clipped(
        amount,
        round(float(np.mean(of_key / (1 + of_key))), 6),
        tuple(round(error, 6) for error in relative),
        (_figures(below * parts.beyond.values[0]), _figures(above * parts.beyond.values[1])),
        (_figures(below * parts.beyond.noise), _figures(above * parts.beyond.noise)),
    )
    unit = float(amount.reach)
    return MeasuredAmount(unit * values, unit * errors, record)


def _beyond_each(amount: Amount, weighing: Weighing, users: Floats) -> tuple[float, float]:
    """What one unit beyond the low end, and one beyond the high end, are on average for each user of a key.

    What users with many keys count too little is put back.
    """
    pairs = float(np.maximum(users, 1.0).sum())
    each = (LOOKED_AT - 1) / (1 - weighing.few.uncounted(pairs)) / pairs
    return float(-amount.low) * each, float(amount.high) * each


def _lost_ratio(weighing: Weighing, parts: Parts, share: ShareLost) -> tuple[Floats, Floats, Floats]:
    """What was lost over what was kept, by group, with its error, and what that does not explain for each user.

    The ratio of users is the prior, from which that of an amount may differ by half. What was measured is combined with
    it by precision: it tells much of amounts of one sign, and nothing of amounts that cancel out. Users who are too
    long to be measured lose the same part of their amounts as of themselves.
    """
    total, total_error = weighing.by_group(parts.kept, parts.errors)
    before = share.values / (1 - share.values)
    spread = np.hypot(share.errors / (1 - share.values) ** 2, _APART * before)
    taken = parts.lost.values + share.unseen * total
    noise = parts.lost.noise**2 + (before * total_error) ** 2 + (share.unseen_errors * total) ** 2
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

"""What one user adds to the last parts of the counts, in one pass over all pairs: counts and sums of amounts.

For the counts:

    users      the weights of keys, scaled down as users are
    clipped    what the clipping of lengths takes away, by groups of keys

and for each amount, in units of the larger end of its clip:

    sums       amounts, clipped, times what the user adds to the users
    clipped    what the clipping of lengths takes away from them, by groups of keys
    beyond     what amounts have beyond the low and the high end of the clip

Sums are rounded to whole numbers by a threshold that follows from user and key alone, so that roundings cancel out. A
user whose rounded vector would be too long is rounded toward zero (docs/theory.md, section 10, Rows and sums).

Arrays have an element for each row of a batch, which is a pair of a user and a key, unless stated otherwise. Vectors of
sums have an element for each key, and after these one for each group of keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsample.accounting.amounts import LOOKED_AT, Amount
from dpsample.private.pairs import Kernel
from dpsample.private.users.vectors import SCALE_BITS, Batches, UserRows, scaled_down
from dpsample.private.users.weighing import Weighing
from dpsample.scheme.sampling import Floats, Ints

# steps in which losses are added up, of what one user may lose: 2**33 users fit into 64 bits
FINE = 1 << 30
_LEAST_LOSS = 1e-300  # in place of 0, where nothing is clipped
# odd constants of SplitMix64, a public mixing function: thresholds need no secret, only to spread
_MIX_FIRST = np.uint64(0x9E3779B97F4A7C15)
_MIX_SECOND = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, eq=False)
class Clipped:
    """The rows that lose something to the clipping of lengths.

    rows    their numbers in the batch
    groups  the position of each row's group of keys in a vector of sums
    lost    the loss of each row, in steps of which one user may lose `FINE`
    """

    rows: Ints
    groups: Ints
    lost: Floats


@dataclass(frozen=True, eq=False)
class Totals:
    """What was summed over users: two vectors of the counts, and three of each amount."""

    users: Ints
    clipped: Ints
    amounts: "tuple[AmountTotals, ...]"

    @classmethod
    def of(cls, totals: Ints, weighing: Weighing, amounts: int) -> "Totals":
        """Divide the vector that a kernel of `all_sums` returned: counts first, then each amount."""
        keys = len(weighing.head)
        edge = keys + weighing.clip.groups
        of_amounts = []
        for row in totals[edge:].reshape(amounts, edge + 2):
            sums, clipped, beyond = np.split(row, [keys, edge])
            of_amounts.append(AmountTotals(sums, clipped, beyond))
        return cls(totals[:keys], totals[keys:edge], tuple(of_amounts))


@dataclass(frozen=True, eq=False)
class AmountTotals:
    """What was summed of an amount: by key; what was clipped, by group; what is beyond the low and the high end."""

    sums: Ints
    clipped: Ints
    beyond: Ints


def all_sums(weighing: Weighing, amounts: Sequence[Amount] = ()) -> Kernel:
    """Return the kernel of counts and amounts; `Totals.of` divides what it returns.

    Whole numbers. The squares of what a user adds to the users sum to at most ``length**2``, and so for each amount.
    What one user has clipped, and beyond, sums to at most `FINE` in units of what one user may lose.
    """
    edge = len(weighing.head) + weighing.clip.groups
    tail_squares = np.where(weighing.head, 0, weighing.weights**2)
    tail = weighing.tail

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(edge, np.int64)
        totals = np.zeros((len(amounts), edge + 2), np.int64)
        for starts, places, *more in batches:
            users = UserRows.of(starts, places)
            scaled = _scaled(weighing, tail_squares, users)
            clipped = _clipped(weighing, tail, users)
            lost = np.floor(clipped.lost).astype(np.int64)
            np.add.at(counts, places, scaled >> SCALE_BITS)
            np.add.at(counts, clipped.groups, lost)
            if not amounts:
                continue
            marks, *values = more
            thresholds = thresholds_of(marks, places)
            batch = _AmountBatch(weighing, users, scaled, clipped, thresholds)
            for total, amount, value in zip(totals, amounts, values, strict=True):
                batch.add(total, amount, value)
        return np.append(counts, totals)

    return kernel


def _scaled(weighing: Weighing, tail_squares: Ints, users: UserRows) -> Ints:
    """Return what each row adds to the users, times 2**16: keys outside of the head are scaled down."""
    weights = weighing.weights[users.places]
    scaled = weights << SCALE_BITS
    long, factors = scaled_down(users, tail_squares[users.places], weighing.most)
    in_head = weighing.head[users.places[long]]
    scaled[long] = np.where(in_head, scaled[long], weights[long] * factors)
    return scaled


def _clipped(weighing: Weighing, tail: Floats, users: UserRows) -> Clipped:
    """Return the rows of users who are clipped, and what each row loses."""
    clip = weighing.clip
    lengths = np.add.reduceat(tail[users.places], users.starts)  # squared, of each user
    long = np.flatnonzero(lengths > clip.square)
    squares = lengths[long]
    taken = 1 - np.sqrt(clip.square / squares)
    counted = clip.lost / squares  # of longer users no more is counted
    shares = np.minimum(taken, counted)

    rows = users.rows(long)
    places = users.places[rows]
    lost = np.repeat(shares, users.sizes[long]) * tail[places]
    groups = len(weighing.head) + weighing.groups[places]
    # one step less than FINE, so that floats cannot exceed what one user may lose
    steps = lost / max(clip.lost, _LEAST_LOSS) * (FINE - 1)
    return Clipped(rows, groups, steps)


@dataclass(frozen=True, eq=False)
class _AmountBatch:
    """What all amounts of a batch have in common.

    scaled      what each row adds to the users, times 2**16
    clipped     the rows that lose something to the clipping of lengths
    thresholds  by which the sums of rows are rounded
    """

    weighing: Weighing
    users: UserRows
    scaled: Ints
    clipped: Clipped
    thresholds: Ints

    def add(self, total: Ints, amount: Amount, value: Ints) -> None:
        """Add the amounts of a batch to a vector of sums: by key, what was clipped by group, what is beyond either end.

        `value` is the amount of each row, in whole units.
        """
        value = np.clip(value, *amount.looked_at)
        clipped = np.clip(value, *amount.ends)
        product = self.scaled * clipped
        length = self.weighing.length
        added = rounded(product, amount.whole, self.thresholds, self.users, length)
        np.add.at(total, self.users.places, added)
        self._add_lost(total, amount, clipped)
        self._add_beyond(total[-2:], amount, value, clipped)

    def _add_lost(self, total: Ints, amount: Amount, clipped: Ints) -> None:
        """Add what the clipping of lengths takes away from amounts, with its sign, by groups."""
        share = clipped[self.clipped.rows] / amount.whole
        lost = np.trunc(self.clipped.lost * share)
        np.add.at(total, self.clipped.groups, lost.astype(np.int64))

    def _add_beyond(self, total: Ints, amount: Amount, value: Ints, clipped: Ints) -> None:
        """Add what amounts have below the clip to the first of two numbers, and above it to the second."""
        over = np.flatnonzero(value != clipped)
        beyond = value[over]
        factors = self._factors_beyond(over)
        excess = factors * excess_of(amount, beyond, clipped[over])
        steps = np.floor(excess * (FINE - 1)).astype(np.int64)
        above = (beyond > 0).astype(np.int64)
        np.add.at(total, above, steps)

    def _factors_beyond(self, rows: Ints) -> Floats:
        """Return the factors of these rows in what is beyond the clip: those of a user sum to at most 1.

        They are in units of `few.most`: a user with m keys counts with the factor min(1, few.most / m) at each.
        """
        owners = np.searchsorted(self.users.starts, rows, side="right") - 1
        keys = self.users.sizes[owners]
        return np.minimum(1 / self.weighing.few.most, 1 / keys)


def excess_of(amount: Amount, value: Ints, clipped: Ints) -> Floats:
    """Return what amounts have beyond an end of the clip, as a share of the most that is looked at: at most 1.

    Amounts beyond the clip have the sign of the end that they exceed, and this end is not 0.
    """
    end = np.abs(clipped)
    share: Floats = np.abs(value - clipped) / (end * (LOOKED_AT - 1))
    return np.minimum(share, 1.0)


def thresholds_of(marks: Ints, places: Ints) -> Ints:
    """Return a number below 2**16 for each user and key, which follows from the user's mark and the key's position.

    A user's threshold must not depend on other users: numbers of users in a batch would.
    """
    user = marks.astype(np.uint64) << np.uint64(32)
    user_and_key = user | places.astype(np.uint64)
    # two multiplications and a shift, as in SplitMix64: every bit of user and key moves the 16 highest bits
    mixed = user_and_key * _MIX_FIRST
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX_SECOND
    return (mixed >> np.uint64(48)).astype(np.int64)


def rounded(product: Ints, one: int, thresholds: Ints, users: UserRows, length: int) -> Ints:
    """Return ``product / (2**16 * one)`` as whole numbers, whose squares sum to at most length**2 for each user.

    Numbers are rounded down after a threshold below 1 is added; toward zero for users whose vector would be too long.
    """
    divisor = one << SCALE_BITS
    added: Ints = (product + thresholds * one) // divisor
    long = np.flatnonzero(users.summed(added**2) > length**2)
    rows = users.rows(long)
    of_long = product[rows]
    added[rows] = np.sign(of_long) * (np.abs(of_long) // divisor)
    return added

"""Counts: how many users have each key that was discovered, with noise in proportion to the root of that number.

    keys per user  users by their number of these keys              -> K, so that few users have more keys
    first counts   numbers of users, of up to K keys each           -> n, a first estimate for each key
    lengths        users by the length of their weighted vector     -> C, at which lengths are clipped
    clipped        what clipping takes away, by groups of keys      -> the share that is put back
    counts         numbers of users, weighted by 1 / sqrt(n)        -> the estimates

Each is a sum over users of a vector of bounded length, plus Gaussian noise; each depends on what the ones before it
published, and on nothing else (docs/theory.md, section 10). A user who has many of these keys is scaled down; the most
popular keys, which add little to a length, are counted as they are.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.accounting.discovery import COUNT_PARTS, Counts, UserBudget, cleaned
from dpsample.accounting.vectors import VectorNoise
from dpsample.private.assignment import Assigned
from dpsample.private.engine import Engine
from dpsample.private.noise import from_table
from dpsample.private.pairs import Pairs
from dpsample.private.randomness import CoinSource
from dpsample.private.source import Source
from dpsample.scheme.sampling import Floats, Ints

Batches = Iterator[tuple[Ints, Ints]]
Flags = NDArray[np.bool_]

_FIRST_UNIT = 16  # of a key in the first counts, at most
_LENGTH = 192  # of a user's vector, in units, at most
_SPREAD = 12_000  # units of a deviation, at most: longer tables take seconds to make
_LOST_UNITS = 48  # of what one user may lose, at most
_FINE = 1 << 30  # in which that is added up
_SCALE_BITS = 16  # of the factor by which a vector is scaled down
_GROUPS = 6  # of keys, at most, for which the share that was clipped is measured
_SHARE_ERROR = 0.02  # of these shares: with less noise, there are more groups
_UNEVEN = 0.3  # by how much the share of a key may differ from that of its group, relative to it


@dataclass(frozen=True)
class Measured:
    """Numbers of users of each key, with their errors, and the public record of how they were counted."""

    values: Floats
    errors: Floats
    counts: Counts


def count_users(
    engine: Engine,
    source: Source,
    keys: pa.Table,
    least: int,
    budget: UserBudget,
    coins: CoinSource,
    after: Assigned | None = None,
) -> Measured:
    """Count the users of each of these keys; `least` is the number of users from which on keys are discovered.

    Pairs that were put aside with `after` are not read again.
    """
    if not keys.num_rows:
        noise = (VectorNoise.of(budget.square * share, budget.aside, 1) for share in COUNT_PARTS.values())
        return Measured(np.zeros(0), np.zeros(0), Counts(tuple(noise), 0.0))
    pairs = engine.pairs_of(source, keys, after)
    try:
        return _Stage(engine, pairs, keys.num_rows, float(least), budget, coins).measured()
    finally:
        engine.forget_pairs(pairs)


def expected_errors(
    engine: Engine, source: Source, keys: pa.Table, least: int, budget: UserBudget, after: Assigned | None = None
) -> tuple[Floats, Floats]:
    """Return what counts of users would be if their noise happened to be 0, and their errors; for a plan. NOT private.

    All parts are as in a release, but nothing is drawn, and no noise is certified. Pairs that were put aside with
    `after` are not read again.
    """
    if not keys.num_rows:
        return np.zeros(0), np.zeros(0)
    pairs = engine.pairs_of(source, keys, after)
    try:
        values, errors, *_ = _Stage(engine, pairs, keys.num_rows, float(least), budget, None).estimates()
        return values, errors
    finally:
        engine.forget_pairs(pairs)


class _Stage:
    """One run of all parts; without coins, one that has no noise."""

    def __init__(
        self, engine: Engine, pairs: Pairs, keys: int, least: float, budget: UserBudget, coins: CoinSource | None
    ) -> None:
        self._engine, self._pairs, self._keys, self._least = engine, pairs, keys, least
        self._budget, self._coins = budget, coins
        self._noise: dict[str, VectorNoise] = {}

    def measured(self) -> Measured:
        values, errors, clipped, groups = self.estimates()
        noise = tuple(self._noise[name] for name in COUNT_PARTS)  # fails without coins: nothing can be released
        return Measured(values, errors, Counts(noise, round(clipped, 6), groups))

    def estimates(self) -> tuple[Floats, Floats, float, tuple[tuple[float, float], ...]]:
        """The numbers of users and their errors, the mean share that was clipped and put back, and errors of groups."""
        keys_each = self._keys_per_user()
        popularity = self._first_counts(keys_each)
        head = head_of(popularity, keys_each)
        clip = self._clip(popularity, head)
        return self._counts(popularity, head, clip)

    def _noisy(self, part: str, kernel: Callable[[Batches], Ints], length: int, step: int = 1) -> Ints:
        """Sum a vector of which a user changes at most `length`, rounded to steps, and add noise."""
        total = self._engine.summed(self._pairs, kernel) // step
        if self._coins is None:
            return total
        noise = VectorNoise.of(self._square(part), self._budget.aside, length)
        self._noise[part] = noise
        return total + from_table(noise.noise, len(total), self._coins.fresh())

    def _square(self, part: str) -> Any:
        return self._budget.square * COUNT_PARTS[part]

    def _length(self, part: str) -> int:
        """The length of a vector in units: many, so that rounding matters little, but for the length of the table."""
        return max(1, min(_LENGTH, int(_SPREAD / self._deviation(part))))

    def _deviation(self, part: str) -> float:
        """Of the noise, for a length of one."""
        return 1 / math.sqrt(self._square(part))

    def _keys_per_user(self) -> float:
        """A number of keys that is worth its noise: what clipping takes away and the noise are small together."""
        rows = max(self._keys - 1, 1).bit_length() + 1
        deviation = self._deviation("keys per user")
        users = np.array(cleaned(self._noisy("keys per user", users_by_keys(rows), 1).tolist(), deviation))
        sizes = np.maximum(0.75 * 2.0 ** np.arange(len(users)), 1)
        given = max(float(users @ sizes), 1.0)
        typical = max(given / self._keys, self._least)
        noise = self._deviation("first counts")
        options = 2 ** np.arange(0, len(users) - 0.5, 0.5)

        def error(most: float) -> float:
            taken = float(users @ (sizes * np.maximum(0, 1 - np.sqrt(most / sizes)))) / given
            return most * noise**2 + (taken * typical) ** 2

        return float(min(options.tolist(), key=error))

    def _first_counts(self, keys_each: float) -> Floats:
        """A first estimate of each number of users, not below what its noise can tell."""
        unit = max(1, min(_FIRST_UNIT, int(self._length("first counts") / math.sqrt(keys_each))))
        length = math.isqrt(int(unit**2 * keys_each))
        weights = np.full(self._keys, unit, np.int64)
        kernel = weighted_counts(weights, np.zeros(self._keys, bool), length**2)
        deviation = length / unit * self._deviation("first counts")
        noisy = self._noisy("first counts", kernel, length) / unit
        return np.maximum(noisy, max(deviation, self._least))

    def _clip(self, popularity: Floats, head: Flags) -> "_Clip":
        """Choose the square of the length at which users are clipped, and the longest that is looked at beyond it."""
        weights = np.where(head, 0.0, 1 / popularity)
        base = float(weights[~head].min())
        rows = max(math.ceil(math.log2(float(weights.sum()) / base)), 0) + 1
        deviation = self._deviation("lengths")
        noisy = self._noisy("lengths", users_by_length(weights, base, rows), 1)
        users, shortest = np.array(cleaned(noisy.tolist(), deviation)), 0.0
        if self._least <= 1:  # known keys may have few users, too few to be seen here: one key alone is never clipped
            shortest = float(weights.max())
            users = np.pad(users, (0, max(math.ceil(math.log2(shortest / base)) + 2 - len(users), 0)))
        middles = np.maximum(0.75 * base * 2.0 ** np.arange(len(users)), base)
        total = max(float(users @ middles), base)
        longest = base * 2.0 ** (len(users) - 1)
        typical, tail = float(np.median(popularity[~head])), int((~head).sum())
        own = float((1 / popularity[head]).sum())

        def error(square: float) -> float:
            lost = float(users @ (middles * np.maximum(0, 1 - np.sqrt(square / middles)))) / total
            noise = (square + own) * self._deviation("counts") ** 2 / typical
            return (noise + (_UNEVEN * lost) ** 2 + self._share_error(square, longest, tail) ** 2) / (1 - lost) ** 2

        options = (base * 2 ** np.arange(0, len(users) - 0.9, 0.25)).tolist()
        square = max(min(options, key=error), shortest)
        share_error = self._share_error(square, longest, tail)
        groups = int(np.clip(_SHARE_ERROR / max(share_error, 1e-9), 1, _GROUPS))
        return _Clip(square, longest, most_lost(square, longest), groups)

    def _share_error(self, square: float, longest: float, keys: int) -> float:
        """The error of the share that was clipped, if it is measured for all keys together."""
        return most_lost(square, longest) * self._deviation("clipped") / keys

    def _counts(
        self, popularity: Floats, head: Flags, clip: "_Clip"
    ) -> tuple[Floats, Floats, float, tuple[tuple[float, float], ...]]:
        """The numbers of users, their errors, the mean share that was clipped and put back, and errors of groups."""
        length = self._length("counts")
        scale = length / math.sqrt(clip.square + float((1 / popularity[head]).sum()))
        weights = np.maximum(np.round(scale / np.sqrt(popularity)), 1).astype(np.int64)
        while (own := int((weights[head] ** 2).sum())) > length**2 * 3 // 4:  # rounded up too often
            head[np.flatnonzero(head)[np.argmin(popularity[head])]] = False
        kept = self._noisy("counts", weighted_counts(weights, head, length**2 - own), length) / weights
        errors = length * self._deviation("counts") / weights
        groups = groups_of(popularity, head, clip.groups)
        share, share_error = self._lost(popularity, head, clip, groups, kept, errors)
        of_key, its_error = (np.where(head, 0.0, values[groups]) for values in (share, share_error))
        values = kept / (1 - of_key)
        errors = np.hypot(errors, np.maximum(values, popularity / 2) * np.hypot(its_error, _UNEVEN * of_key))
        common = share_error / (1 - share)
        present = [n for n in range(clip.groups) if (~head & (groups == n)).any()]
        least = [(float(popularity[~head & (groups == n)].min()), float(common[n])) for n in present]
        least += [(float(popularity[head].min()), 0.0)] if head.any() else []
        rounded = tuple((round(users, 1), round(error, 6)) for users, error in least)
        return values, errors / (1 - of_key), float(of_key.mean()), rounded

    def _lost(
        self, popularity: Floats, head: Flags, clip: "_Clip", groups: Ints, kept: Floats, errors: Floats
    ) -> tuple[Floats, Floats]:
        """The share of users that clipping took away in each group of keys, and its error."""
        weights = np.where(head, 0.0, 1 / popularity)
        # totals are rounded, which moves each by less than one unit
        units = min(_LOST_UNITS, self._length("clipped"))
        length = units + math.isqrt(clip.groups) + 1
        kernel = lost_by_groups(weights, clip, np.where(head, 0, groups))
        noisy = self._noisy("clipped", kernel, length, step=-(-_FINE // units))
        unit = clip.lost / units
        noise = length * self._deviation("clipped") * unit
        lost = (noisy + 0.5) * unit
        tail = np.flatnonzero(~head)
        measured = np.bincount(groups[tail], kept[tail] * weights[tail], clip.groups)
        its_error = np.sqrt(np.bincount(groups[tail], (errors[tail] * weights[tail]) ** 2, clip.groups))
        measured = np.maximum(measured, 1e-9)
        lost = np.clip(lost, -measured / 3, 9 * measured)  # noise alone may be negative
        whole = lost + measured
        return lost / whole, np.hypot(noise * measured, its_error * lost) / whole**2


@dataclass(frozen=True)
class _Clip:
    """Where vectors are clipped: squares of lengths in units of 1 / n, what one user may lose, numbers of groups."""

    square: float
    longest: float
    lost: float
    groups: int


def most_lost(square: float, longest: float) -> float:
    """What clipping takes from the square of a user's length, at most, up to the longest."""
    return (1 - math.sqrt(min(square / longest, 1.0))) * longest


def head_of(popularity: Floats, keys_each: float) -> Flags:
    """The most popular keys, as many as add up to a quarter of a typical user's length: these are never clipped."""
    weights = 1 / popularity
    order = np.argsort(weights, kind="stable")
    within = np.cumsum(weights[order]) <= keys_each * float(np.median(weights)) / 4
    within[-1] = False  # so that there are others
    head = np.zeros(len(popularity), bool)
    head[order[within]] = True
    return head


def groups_of(popularity: Floats, head: Flags, groups: int) -> Ints:
    """The group of each key that is not in the head, by the logarithm of its popularity; 0 for those in the head."""
    logs = np.log(popularity)
    low, high = float(logs[~head].min()), float(logs[~head].max())
    place = (logs - low) / max(high - low, 1e-9) * groups
    return np.where(head, 0, np.clip(place, 0, groups - 1)).astype(np.int64)


# ---- what is summed over users; sent to where the pairs are


def users_by_keys(rows: int) -> Callable[[Batches], Ints]:
    """Count users by their number m of keys: row ``(m - 1).bit_length()``. A user changes one number, by one."""

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for users, _ in batches:
            _, sizes = _starts(users)
            row = np.frexp((sizes - 1).astype(np.float64))[1]
            counts += np.bincount(np.minimum(row, rows - 1), minlength=rows)
        return counts

    return kernel


def users_by_length(weights: Floats, base: float, rows: int) -> Callable[[Batches], Ints]:
    """Count users by the sum of the weights of their keys: row b has those up to ``base 2**b``; 0 is not counted."""
    edges = base * 2.0 ** np.arange(rows - 1) * (1 + 1e-9)

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(rows, np.int64)
        for users, keys in batches:
            starts, _ = _starts(users)
            squares = np.add.reduceat(weights[keys], starts)
            counts += np.bincount(np.searchsorted(edges, squares[squares > 0]), minlength=rows)
        return counts

    return kernel


def weighted_counts(weights: Ints, head: Flags, most: int) -> Callable[[Batches], Ints]:
    """Sum the weights of users' keys; those outside of the head are scaled down where their squares exceed `most`.

    Whole numbers, rounded down: what one user adds has squares that sum to at most `most`, and those of the head.
    """
    squares = np.where(head, 0, weights**2)

    def kernel(batches: Batches) -> Ints:
        counts = np.zeros(len(weights), np.int64)
        for users, keys in batches:
            starts, sizes = _starts(users)
            factors = np.repeat(_factors(np.add.reduceat(squares[keys], starts), most), sizes)
            added = np.where(head[keys], weights[keys], weights[keys] * factors >> _SCALE_BITS)
            np.add.at(counts, keys, added)
        return counts

    return kernel


def lost_by_groups(weights: Floats, clip: _Clip, groups: Ints) -> Callable[[Batches], Ints]:
    """Sum what clipping takes away of users' squares, by groups of keys, in fine units of what one user may lose.

    The numbers of one user are not negative, and sum to at most `_FINE`.
    """
    count, most = clip.groups, max(clip.lost, 1e-300)

    def kernel(batches: Batches) -> Ints:
        lost = np.zeros(count, np.int64)
        for users, keys in batches:
            starts, sizes = _starts(users)
            squares = np.add.reduceat(weights[keys], starts)
            with np.errstate(divide="ignore", invalid="ignore"):
                taken = np.minimum((1 - np.sqrt(np.minimum(clip.square / squares, 1))) * squares, clip.lost)
                shares = np.where(squares > 0, taken / squares, 0.0)
            units = np.floor(weights[keys] * np.repeat(shares, sizes) / most * (_FINE - 1))
            np.add.at(lost, groups[keys], units.astype(np.int64))
        return lost

    return kernel


def _starts(users: Ints) -> tuple[NDArray[np.intp], Ints]:
    """Where each user begins, and with how many rows."""
    starts = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    return starts, np.diff(np.append(starts, len(users)))


def _factors(squares: Ints, most: int) -> Ints:
    """The largest whole numbers f, up to 2**16, with ``f**2 squares <= most 2**32``."""
    limit, one = most << 2 * _SCALE_BITS, 1 << _SCALE_BITS
    factors = np.full(len(squares), one, np.int64)
    long = np.flatnonzero(squares > most)
    found = np.sqrt(limit / squares[long]).astype(np.int64)
    found -= found * found * squares[long] > limit
    factors[long] = found
    return factors

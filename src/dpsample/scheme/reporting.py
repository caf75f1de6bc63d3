"""Reporting probabilities: the largest probability pi_i with which a key of frequency i may be reported.

This is Algorithm 3 of the paper, and the recurrence (2) of docs/theory.md, section 2. With E = exp(epsilon), pi_0 = 0
and

    grow   = E * pi_{i-1} + delta                    no output may become much more likely,
    shrink = 1 - (1 - pi_{i-1} - delta) / E          nor "not reported" much less likely,
    pi_i   = min(q_i, grow, shrink)                  and nobody reports what was not sampled.

Almost everywhere pi = q. Privacy binds where `grow` or `shrink` is below q: at about 2 L frequencies at most (Lemma
3.3), however large frequencies become. These are found by bisection and walked in integers over 2**bits, rounded toward
privacy. Everything else in `scheme` reads pi from here.
"""

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, exponential_floor, text
from dpsample.privacy import Privacy
from dpsample.scheme import invert, tail_map
from dpsample.scheme.bisection import first_integer
from dpsample.scheme.law import Law
from dpsample.scheme.law import steps_to_one as steps_to_one
from dpsample.scheme.sampling import (
    MAX_WIDTH,
    Flags,
    Floats,
    Ints,
    KeepAll,
    Sampling,
    as_frequencies,
)
from dpsample.scheme.tail_map import Slacks

if TYPE_CHECKING:
    from dpsample.scheme.per_key import PerKey

_TABLE = 1 << 14  # pi of the smallest frequencies is looked up; a larger table takes longer to make
_LARGEST_TABLE = 1 << 20  # if privacy binds beyond the table, it is extended up to here: 16 MB
_CHUNK = 1 << 16  # frequencies at once, so that intermediate arrays stay in the cache
_LONGEST_WALK = 5_000_000  # twice as many steps lead from 0 to 1: some ten seconds
_MOST_CACHED = 1 << 20  # exact q that are kept
_LARGEST_EPSILON = 64  # more counts as this: floats of exp(epsilon) are then far from overflow
_MARGIN = Fraction(1, 1 << 50)  # of delta, for the rounding of token probabilities


class IntegerSteps:
    """What privacy allows from one frequency to the next, in integers over ``2**bits``; docs/theory.md, section 5.

    `E` is a lower bound of exp(epsilon) over ``2**ratio_bits``, and `inverse` an upper bound of 1/E. `delta` is smaller
    than asked by a margin of 2**-50 of it, which pays for the rounding of token probabilities.
    """

    def __init__(self, privacy: Privacy) -> None:
        if not steps_to_one(privacy) < _LONGEST_WALK:
            raise InvalidValue(
                "epsilon and delta must lead from 0 to certainty in less than ten million frequencies, unlike epsilon "
                f"{text(privacy.epsilon)} and delta {text(privacy.delta)}",
                "choose a larger epsilon",
            )
        self.privacy = privacy
        # one unit, times E, times all tokens of a row, must be far below the margin, 2**-50 of delta
        epsilon = min(float(privacy.epsilon), _LARGEST_EPSILON)
        bits_of_E = epsilon / math.log(2)
        needed = math.ceil(75 - math.log2(privacy.delta) + bits_of_E)
        self.bits = -(-needed // 64) * 64  # a multiple of the words that are drawn
        self.one = 1 << self.bits
        self.ratio_bits = self.bits + 64
        ratio_one = 1 << self.ratio_bits
        self.E = exponential_floor(
            min(privacy.epsilon, Fraction(_LARGEST_EPSILON)), self.ratio_bits
        )
        self.inverse = ratio_one * ratio_one // self.E + 1
        self.delta = int(privacy.delta * (1 - _MARGIN) * self.one)

    def advance(self, pi: int) -> int:
        """Return the largest pi that privacy allows for the next frequency, rounded down."""
        grow = (self.E * pi >> self.ratio_bits) + self.delta
        absent = self.one - pi - self.delta
        if absent <= 0:
            return min(grow, self.one)
        shrink = self.one - (absent * self.inverse >> self.ratio_bits) - 1
        return min(grow, shrink)


class Points(NamedTuple):
    """Frequencies with their sampling probabilities: arrays of one length."""

    i: Ints
    q: Floats
    absent: Floats  # 1 - q

    @staticmethod
    def of(sampling: Sampling, i: Ints) -> "Points":
        """Return the points at these frequencies."""
        return Points(i, sampling.q(i), sampling.complement(i))

    def at(self, selected: Flags | slice) -> "Points":
        """Return some of the points, by a mask or a slice."""
        return Points(self.i[selected], self.q[selected], self.absent[selected])

    def and_then(self, others: "Points") -> "Points":
        """Return these points, followed by others."""
        i = np.append(self.i, others.i)
        q = np.append(self.q, others.q)
        absent = np.append(self.absent, others.absent)
        return Points(i, q, absent)


class Reporting(IntegerSteps, Law):
    """pi for one sampling scheme and privacy: integers over ``2**bits`` where privacy binds, q elsewhere."""

    def __init__(self, sampling: Sampling, privacy: Privacy) -> None:
        super().__init__(privacy)
        self.sampling = sampling
        self.per_key = privacy
        epsilon = min(float(privacy.epsilon), _LARGEST_EPSILON)
        self.growth = math.expm1(epsilon)  # E - 1
        self.shrinkage = -math.expm1(-epsilon)  # 1 - 1/E
        # x / E is computed as stay * x - rate * x. For a small epsilon this is x - (1 - 1/E) x: the rounding of 1/E
        # would add up over many rows
        is_small = self.growth < 1
        self.stay = 1.0 if is_small else 0.0
        self.rate = self.shrinkage if is_small else -math.exp(-epsilon)
        self._find_binding()

    def _find_binding(self) -> None:
        """Find the frequencies at which privacy binds, and walk along them."""
        self._q: dict[int, int] = {0: 0}  # exact q by frequency: those that were asked for
        self._bound: dict[int, int] = {}  # pi by frequency, where privacy binds: pi < q
        candidates = self._candidates()
        for i in candidates:
            self._walk(i)
        self.binding: Ints = np.array(sorted(self._bound), np.int64)
        # rows whose slack a float cannot hold: near a binding one, and the step out of each stretch
        largest = self.sampling.largest
        after_binding = [i + 1 for i in self._bound if i < largest]
        delicate = {*candidates, *self._bound, *after_binding}
        self.delicate: Ints = np.array(sorted(delicate), np.int64)
        self._tabulate()

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, sampling: Sampling, privacy: "PerKey") -> Law:
        """Return the (cached) law of a scheme."""
        if sampling.seed is not None:
            from dpsample.scheme.coordinated import MixedReporting

            return MixedReporting(sampling, privacy)
        if not isinstance(privacy, Privacy):
            return privacy.reporting(sampling)
        return sampling.reporting(privacy) or cls(sampling, privacy)

    def _candidates(self) -> list[int]:
        """Return every frequency i at which the step from q_{i-1} to q_i is not comfortably private, ascending.

        q does not decrease, so an interval whose ends are one comfortable step apart contains no other
        frequency of interest. All other intervals are halved. Of disjoint intervals that are not comfortable, there are
        only about as many as steps from 0 to 1.
        """
        if isinstance(self.sampling, KeepAll):
            return [self.sampling.least]  # q goes from 0 to 1 at once
        ends = Points.of(self.sampling, np.array([0, self.sampling.largest], np.int64))
        low = ends.at(slice(0, 1))
        high = ends.at(slice(1, 2))
        candidates: list[int] = []
        while len(low.i):
            is_wide = self._is_wide(low, high)
            length = high.i - low.i
            candidates.extend(high.i[is_wide & (length == 1)].tolist())
            to_halve = is_wide & (length > 1)
            low = low.at(to_halve)
            high = high.at(to_halve)
            middle = Points.of(self.sampling, low.i + (high.i - low.i) // 2)
            low, high = low.and_then(middle), middle.and_then(high)
        return sorted(candidates)

    def _is_wide(self, low: Points, high: Points) -> Flags:
        """Return where the step from one q to another is not comfortably private: less than half of what is allowed.

        It is half, so that errors of floats do not matter.
        """
        half_growth = 1 + self.growth / 2
        little = 1e-4 * float(self.privacy.delta)
        grows = high.q > half_growth * low.q + little
        shrinks = low.absent > half_growth * high.absent + little
        return grows | shrinks

    def _walk(self, i: int) -> None:
        """Follow the privacy terms from frequency i until q is reached again, or a stretch that is known."""
        largest = self.sampling.largest
        size = 8
        while i not in self._bound and i <= largest:
            last = min(i + size, largest)
            ahead = np.arange(i, last + 1, dtype=np.int64)
            q_below = self.sampling.q(ahead, toward_privacy=True).tolist()
            allowed = self.pi(i - 1)
            for q_at_least in q_below:
                allowed = self.advance(allowed)
                if i in self._bound or self._reaches_q(i, allowed, q_at_least):
                    return
                self._bound[i] = allowed
                i += 1
            size = min(2 * size, _CHUNK)

    def _reaches_q(self, i: int, allowed: int, q_at_least: float) -> bool:
        """Whether privacy allows pi_i = q_i; the float is at most q_i."""
        if allowed < int(math.ldexp(q_at_least, self.bits)) - MAX_WIDTH:
            return False  # clearly below q: no need of the exact one, which takes long
        return self.q(i) <= allowed

    def q(self, i: int) -> int:
        """q_i over 2**bits, rounded down."""
        if i not in self._q:
            if len(self._q) > _MOST_CACHED:
                self._q = {0: 0}
            low, _ = self.sampling.bounds(i, self.bits)
            self._q[i] = low
        return self._q[i]

    def pi(self, i: int) -> int:
        """pi_i over 2**bits, rounded down."""
        bound = self._bound.get(i)
        return self.q(i) if bound is None else bound

    def _tabulate(self) -> None:
        """Make the tables from which `probabilities` reads: all small frequencies, and those at which privacy binds."""
        bound = [self._bound[i] for i in self.binding.tolist()]
        self._bound_pi = np.array([_float_below(pi, self.bits) for pi in bound])
        self._bound_absent = np.array([_float_above(self.one - pi, self.bits) for pi in bound])

        low = self._tabulated_frequencies()
        q = self.sampling.q(low, toward_privacy=True)
        absent = self.sampling.complement(low, toward_privacy=True)
        self._low_pi = self._where_bound(low, self._bound_pi, q)
        self._low_absent = self._where_bound(low, self._bound_absent, absent)

        last = len(low) - 1
        nothing_after = self.sampling.largest == last
        same_q = self.q(last) == self.q(self.sampling.largest)
        binds_after = (self.binding >= last).any()
        self._is_flat_after_table = nothing_after or (same_q and not binds_after)

    def _tabulated_frequencies(self) -> Ints:
        """Return the frequencies from 0 on that are looked up: with nearly all of the binding ones among them."""
        size = _TABLE
        low_binding = self.binding[self.binding < _LARGEST_TABLE]
        if len(low_binding):
            size = max(size, int(low_binding[-1]) + 2)
        return np.arange(min(size, self.sampling.largest + 1), dtype=np.int64)

    def _where_bound(self, i: Ints, bound: Floats, otherwise: Floats) -> Floats:
        """Return for each frequency the value of `bound` where privacy binds there, and of `otherwise` elsewhere."""
        if not len(self.binding):
            return otherwise
        is_near = (i >= self.binding[0]) & (i <= self.binding[-1])
        near = np.flatnonzero(is_near)
        at = np.searchsorted(self.binding, i[near])
        binds = self.binding[at] == i[near]
        return _replaced(otherwise, near[binds], bound[at[binds]])

    @cached_property
    def constant_from(self) -> int:
        """The smallest frequency after which pi stays the same number, in integers over 2**bits.

        One above the largest frequency, if a sequence ends before that.
        """
        bounds = self.sampling.bounds
        largest = self.sampling.largest
        last = bounds(largest, self.bits)
        q_constant_from = first_integer(lambda i: bounds(i, self.bits) == last, 0, largest)
        after_binding = int(self.binding[-1]) + 1 if len(self.binding) else 0
        return max(q_constant_from, after_binding)

    @cached_property
    def _delicate_slacks(self) -> Slacks:
        """The slacks of the delicate rows, rounded only once: floats of exact quotients."""
        # pi is an integer over one, E is over ratio_one, and delta = n / m. So a is an integer over m ratio_one one,
        # and c and d are over m E one. Fractions would take nine times as long.
        n, m = self.privacy.delta.as_integer_ratio()
        one = self.one
        E = self.E
        ratio_one = 1 << self.ratio_bits
        delta = n * one * ratio_one
        a_unit = m * ratio_one * one
        c_unit = m * E * one
        rows = []
        for i in self.delicate.tolist():
            before = self.pi(i - 1)
            now = self.pi(i)
            absent_before = one - before
            absent_now = one - now
            a = m * (E * before - ratio_one * now) + delta
            c_by_absent = m * (E * absent_now - ratio_one * absent_before) + delta
            c = min(delta, c_by_absent)
            d = m * (E * now - ratio_one * before) + c
            rows.append([now / one, a / a_unit, c / c_unit, d / c_unit])
        return Slacks(*np.array(rows).reshape(-1, 4).T)

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return pi of consecutive rows but the first, and what its growth from the row before leaves unused."""
        slacks = self.slacks(rows)
        return slacks.pi[1:], slacks.a

    def slacks(self, rows: Ints) -> Slacks:
        """Return pi of consecutive rows (first axis), and a, c, d of all but the first: the terms of `tail_map`."""
        delta = float(self.privacy.delta)
        E = self.growth + 1
        pi = self.sampling.q(rows)
        absent = self.sampling.complement(rows)
        before = pi[:-1]
        rise = np.diff(pi, axis=0)
        a = self.growth * before + delta - rise
        c_by_absent = absent[1:] - absent[:-1] / E + delta / E
        c = np.minimum(delta / E, c_by_absent)
        d = rise + self.shrinkage * before + c
        by_floats = Slacks(pi, a, c, d)
        if not len(self.delicate) or not rows.size or (rows > self.delicate[-1]).all():
            return by_floats
        return self._with_delicate(rows, by_floats)

    def _with_delicate(self, rows: Ints, by_floats: Slacks) -> Slacks:
        """Return slacks of rows by floats, with those of the delicate rows in their places."""
        last = len(self.delicate) - 1
        at = np.searchsorted(self.delicate, rows).clip(max=last)
        is_delicate = self.delicate[at] == rows
        exact = self._delicate_slacks
        pi = _replaced(by_floats.pi, is_delicate, exact.pi[at[is_delicate]])
        # the first row has no slacks
        is_delicate = is_delicate[1:]
        place = at[1:][is_delicate]
        a = _replaced(by_floats.a, is_delicate, exact.a[place])
        c = _replaced(by_floats.c, is_delicate, exact.c[place])
        d = _replaced(by_floats.d, is_delicate, exact.d[place])
        return Slacks(pi, a, c, d)

    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:  # noqa: D102
        return tail_map.rows(frequencies, self, grid)

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:  # noqa: D102
        return tail_map.columns(cells, self, grid, window)

    def locate(self, frequencies: Ints, v: Floats, grid: int) -> tuple[Ints, Floats, Floats]:  # noqa: D102
        return invert.locate_by_tail_map(frequencies, v, self, grid)

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:
        """Return pi (or 1 - pi) as floats: never above the optimum (below, for 1 - pi)."""
        i = as_frequencies(frequencies)
        if self.sampling.largest < MAX_FREQUENCY and i.size:
            self.sampling.q(i.max())  # refuses frequencies beyond the end of a sequence
        table = self._low_absent if complement else self._low_pi
        if self._is_flat_after_table:
            return np.take(table, i, mode="clip")
        flat = i.reshape(-1)
        result = np.empty(flat.shape, np.float64)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            out = result[start : start + _CHUNK]
            np.take(table, part, out=out, mode="clip")
            is_beyond = part >= len(table)
            if is_beyond.any():
                beyond = part if is_beyond.all() else part[is_beyond]
                out[is_beyond] = self._probabilities_beyond_table(beyond, complement)
        return result.reshape(i.shape)

    def _probabilities_beyond_table(self, i: Ints, complement: bool) -> Floats:
        """Return pi (or 1 - pi) as `probabilities` does, without its table of small frequencies."""
        if complement:
            absent = self.sampling.complement(i, toward_privacy=True)
            return self._where_bound(i, self._bound_absent, absent)
        q = self.sampling.q(i, toward_privacy=True)
        return self._where_bound(i, self._bound_pi, q)


def reporting_probabilities(
    frequencies: ArrayLike, sampling: Sampling, privacy: "PerKey", *, complement: bool = False
) -> Floats:
    """Return pi, the largest probability with which a key of each frequency may be reported, end to end.

    Frequencies are integers from 0 to 2**63 - 1 in any order, shape and integer type. The relative error
    is below 1e-12, and the result never exceeds the true optimum. With `complement`, returns 1 - pi, as
    accurate where pi is close to 1, and never below the true one.

    >>> from dpsample import KeepAll, Ppswor, Privacy
    >>> reporting_probabilities([1, 10, 100, 10**12], KeepAll(), Privacy(0.1, 1e-3)).round(4)
    array([0.001 , 0.0163, 1.    , 1.    ])
    >>> reporting_probabilities([1, 10, 100, 10**12], Ppswor(tau=0.001), Privacy(0.1, 1e-3)).round(4)
    array([0.001 , 0.01  , 0.0952, 1.    ])
    """
    return Reporting.of(sampling, privacy).probabilities(frequencies, complement)


def frequency_reaching(level: float, sampling: Sampling, privacy: "PerKey") -> int | None:
    """Return the smallest frequency whose keys are reported with at least this probability; None if there is none.

    >>> from dpsample import KeepAll, Privacy
    >>> [frequency_reaching(level, KeepAll(), Privacy(1, 1e-6)) for level in (0.1, 0.5, 0.99)]
    [13, 14, 18]
    """
    reporting = Reporting.of(sampling, privacy)

    def is_reached(frequency: int) -> bool:
        return bool(reporting.probabilities([frequency])[0] >= level)

    if not is_reached(sampling.largest):
        return None
    return first_integer(is_reached, 0, sampling.largest)  # pi does not decrease


def closed_form(frequencies: ArrayLike, privacy: Privacy, *, complement: bool = False) -> Floats:
    """Return pi without sampling (`KeepAll`) by a formula: Lemma 3.2 of the paper, corrected (docs/errata.md).

    The last frequency that grows is l = floor(L) + 1. With n = i - l steps beyond it,

        pi_i = delta (E**i - 1) / (E - 1)                              for i <= l,
        1 - pi_i = (1 - pi_l) E**-n - delta (1 - E**-n) / (E - 1)      after that, until it reaches 0.

    For integral L the second line is ``1 - pi_i = delta (E**(2 L + 1 - i) - 1) / (E - 1)``: the printed
    exponent, 2 L + 2 - i, is one too large. The formula holds for any L; it is a plain float evaluation
    and, unlike `reporting_probabilities`, does not round toward privacy.

    >>> closed_form([1, 10, 100], Privacy(0.1, 1e-3)).round(4)
    array([0.001 , 0.0163, 1.    ])
    """
    i = as_frequencies(frequencies)
    epsilon = float(privacy.epsilon)
    delta = float(privacy.delta)
    growth = math.expm1(epsilon)  # E - 1
    last_growing = math.floor(steps_to_one(privacy)) + 1
    with np.errstate(over="ignore"):
        pi = delta * np.expm1(epsilon * np.minimum(i, last_growing)) / growth
        pi_of_last = delta * math.expm1(epsilon * last_growing) / growth
        n = np.maximum(i - last_growing, 0).astype(np.float64)
        by_last = (1 - pi_of_last) * np.exp(-epsilon * n)
        by_delta = delta * np.expm1(-epsilon * n) / growth
    grows = i <= last_growing
    absent = np.clip(np.where(grows, 1 - pi, by_last + by_delta), 0, 1)
    if complement:
        return absent
    return np.where(grows, np.minimum(pi, 1), 1 - absent)


def _replaced(values: Floats, where: Flags | Ints, by: Floats) -> Floats:
    """Return the values with others in some places, given by a mask or by their numbers."""
    result = values.copy()
    result[where] = by
    return result


def _float_below(value: int, bits: int) -> float:
    """Return ``value / 2**bits``, rounded down to a float of 53 bits."""
    shift = max(value.bit_length() - 53, 0)
    return math.ldexp(value >> shift, shift - bits)


def _float_above(value: int, bits: int) -> float:
    """Return ``value / 2**bits``, rounded up to a float of 53 bits."""
    shift = max(value.bit_length() - 53, 0)
    return math.ldexp(-(-value >> shift), shift - bits)

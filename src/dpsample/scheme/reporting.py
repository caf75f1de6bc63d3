"""Reporting probabilities: the largest probability pi_i with which a key of frequency i may be reported.

With E = exp(epsilon), pi_0 = 0 and

    grow   = E * pi_{i-1} + delta                    no output may become much more likely,
    shrink = 1 - (1 - pi_{i-1} - delta) / E          nor "not reported" much less likely,
    pi_i   = min(q_i, grow, shrink)                  and nobody reports what was not sampled.

Almost everywhere pi = q. The few frequencies at which a privacy term binds, at most about 2 L of them
however large frequencies become, are found by bisection and walked in integers over 2**bits, rounded
toward privacy. Everything else in `scheme` reads pi from here.
"""

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, exponential_floor, text
from dpsample.privacy import Privacy
from dpsample.scheme import invert, tail_map
from dpsample.scheme.bisection import first_integer
from dpsample.scheme.law import Law
from dpsample.scheme.law import steps_to_one as steps_to_one
from dpsample.scheme.sampling import MAX_WIDTH, Floats, Ints, Sampling, as_frequencies

if TYPE_CHECKING:
    from dpsample.scheme.per_key import PerKey

_TABLE = 1 << 14  # pi of the smallest frequencies is looked up
_CHUNK = 1 << 16  # frequencies per step, so that intermediate arrays stay in the cache
_LONGEST_WALK = 5_000_000


class IntegerSteps:
    """What privacy allows from one frequency to the next, in integers over ``2**bits``.

    `E` is a lower bound of exp(epsilon) over ``2**ratio_bits``, and `inverse` an upper bound of 1/E. `delta` is smaller
    than asked by a margin of 2**-50, which pays for the rounding of token probabilities.
    """

    def __init__(self, privacy: Privacy) -> None:
        if not steps_to_one(privacy) < _LONGEST_WALK:
            raise InvalidValue(
                "epsilon and delta must lead from 0 to certainty in less than ten million frequencies, unlike epsilon "
                f"{text(privacy.epsilon)} and delta {text(privacy.delta)}",
                "choose a larger epsilon",
            )
        self.privacy = privacy
        epsilon = min(float(privacy.epsilon), 64.0)
        # one unit, times E, times all tokens of a row, must be far below the margin, 2**-50 of delta
        needed = math.ceil(75 - math.log2(privacy.delta) + epsilon / math.log(2))
        self.bits = -(-needed // 64) * 64
        self.one = 1 << self.bits
        self.ratio_bits = self.bits + 64
        self.E = exponential_floor(min(privacy.epsilon, Fraction(64)), self.ratio_bits)
        self.inverse = (1 << 2 * self.ratio_bits) // self.E + 1
        self.delta = int(privacy.delta * (1 - Fraction(1, 1 << 50)) * self.one)

    def advance(self, pi: int) -> int:
        """Return the largest pi that privacy allows for the next frequency, rounded down."""
        grow = (self.E * pi >> self.ratio_bits) + self.delta
        absent = self.one - pi - self.delta
        if absent <= 0:
            return min(grow, self.one)
        shrink = self.one - (absent * self.inverse >> self.ratio_bits) - 1
        return min(grow, shrink)


class Reporting(IntegerSteps, Law):
    """pi for one sampling scheme and privacy: integers over ``2**bits`` where privacy binds, q elsewhere."""

    def __init__(self, sampling: Sampling, privacy: Privacy) -> None:
        super().__init__(privacy)
        self.sampling, self.per_key = sampling, privacy
        epsilon = min(float(privacy.epsilon), 64.0)
        self.growth = math.expm1(epsilon)  # E - 1
        self.shrinkage = -math.expm1(-epsilon)  # 1 - 1/E
        # x / E is computed as stay * x - rate * x: the rounding of 1/E would add up where there are many rows
        self.stay, self.rate = (
            (1.0, self.shrinkage) if self.growth < 1 else (0.0, -math.exp(-epsilon))
        )
        self._find_binding()

    def _find_binding(self) -> None:
        """Find the frequencies at which privacy binds, and walk along them."""
        self._q: dict[int, int] = {0: 0}
        self._bound: dict[int, int] = {}  # frequency -> pi, where pi < q
        candidates = self._candidates()
        for i in candidates:
            self._walk(i)
        # rows whose slack a float cannot hold: near a binding one, and the step out of each stretch
        binding = set(self._bound)
        self.binding: Ints = np.array(sorted(binding), np.int64)
        end = self.sampling.largest
        self.delicate: Ints = np.array(
            sorted({*candidates, *binding, *(i + 1 for i in binding if i < end)}), np.int64
        )
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
        """Every frequency i at which the step from q_{i-1} to q_i is not comfortably private.

        q does not decrease, so an interval whose ends are one comfortable step apart contains no other
        frequency of interest. Of disjoint intervals that are not, there are only about as many as steps
        from 0 to 1. "Comfortable" is half of what privacy allows, so float errors do not matter.
        """
        q, absent = self.sampling.q, self.sampling.complement
        ends = np.array([0, self.sampling.largest], np.int64)
        ends_q, ends_absent = q(ends), absent(ends)
        low, low_q, low_absent = ends[:1], ends_q[:1], ends_absent[:1]
        high, high_q, high_absent = ends[1:], ends_q[1:], ends_absent[1:]
        candidates: list[int] = []
        while len(low):
            wide = self._wide(low_q, high_q, low_absent, high_absent)
            candidates.extend(high[wide & (high - low == 1)].tolist())
            wide &= high - low > 1
            low, low_q, low_absent = low[wide], low_q[wide], low_absent[wide]
            high, high_q, high_absent = high[wide], high_q[wide], high_absent[wide]
            middle = low + (high - low) // 2
            middle_q, middle_absent = q(middle), absent(middle)
            low, high = np.append(low, middle), np.append(middle, high)
            low_q, high_q = np.append(low_q, middle_q), np.append(middle_q, high_q)
            low_absent, high_absent = (
                np.append(low_absent, middle_absent),
                np.append(middle_absent, high_absent),
            )
        return sorted(candidates)

    def _wide(self, low: Floats, high: Floats, low_absent: Floats, high_absent: Floats) -> Any:
        """Whether a step from one q to another is not comfortably private."""
        half, little = 1 + self.growth / 2, 1e-4 * float(self.privacy.delta)
        return (high > half * low + little) | (low_absent > half * high_absent + little)

    def _walk(self, i: int) -> None:
        """Follow the privacy terms from frequency i until q is reached again."""
        size = 8
        while i not in self._bound and i <= self.sampling.largest:
            ahead = np.arange(i, min(i + size, self.sampling.largest) + 1, dtype=np.int64)
            allowed, size = self.pi(i - 1), min(2 * size, _CHUNK)
            for low in self.sampling.q(ahead, toward_privacy=True).tolist():
                allowed = self.advance(allowed)
                # what is clearly below q needs no exact one, which takes long
                clearly = allowed < int(math.ldexp(low, self.bits)) - MAX_WIDTH
                if i in self._bound or (not clearly and self.q(i) <= allowed):
                    return
                self._bound[i] = allowed
                i += 1

    def q(self, i: int) -> int:
        """q_i over 2**bits, rounded down."""
        if i not in self._q:
            if len(self._q) > 1 << 20:
                self._q = {0: 0}
            self._q[i] = self.sampling.bounds(i, self.bits)[0]
        return self._q[i]

    def pi(self, i: int) -> int:
        """pi_i over 2**bits, rounded down."""
        bound = self._bound.get(i)
        return self.q(i) if bound is None else bound

    def _tabulate(self) -> None:
        bound = [self._bound[i] for i in self.binding.tolist()]
        self._pi_bound = np.array([_float_below(v, self.bits) for v in bound])
        self._absent_bound = np.array([_float_above(self.one - v, self.bits) for v in bound])

        low = self._tabulated_frequencies()
        q = self.sampling.q(low, toward_privacy=True)
        absent = self.sampling.complement(low, toward_privacy=True)
        self._low_pi = self._with_bound(low, q, self._pi_bound)
        self._low_absent = self._with_bound(low, absent, self._absent_bound)

        # whether everything after the table is as at its end
        last = len(low) - 1
        nothing_after = self.sampling.largest == last
        same_q = self.q(last) == self.q(self.sampling.largest)
        self._flat = bool(nothing_after or (same_q and not (self.binding >= last).any()))

    def _tabulated_frequencies(self) -> Ints:
        """The frequencies from 0 on that are looked up: with nearly all of the binding ones among them."""
        size = _TABLE
        low_binding = self.binding[self.binding < 1 << 20]
        if len(low_binding):
            size = max(size, int(low_binding[-1]) + 2)
        return np.arange(min(size, self.sampling.largest + 1), dtype=np.int64)

    def _with_bound(self, i: Ints, values: Floats, bound: Floats) -> Floats:
        """Put the binding frequencies' values in their places."""
        if len(self.binding):
            near = (i >= self.binding[0]) & (i <= self.binding[-1])
            at = np.searchsorted(self.binding, i[near])
            exact = self.binding[at] == i[near]
            places = np.flatnonzero(near)[exact]
            values[places] = bound[at[exact]]
        return values

    @cached_property
    def constant_from(self) -> int:
        """The smallest frequency from which on pi is the same number, in integers over 2**bits.

        One above the largest frequency, if a sequence ends before that.
        """
        bounds, largest = self.sampling.bounds, self.sampling.largest
        last = bounds(largest, self.bits)
        q_constant_from = first_integer(lambda i: bounds(i, self.bits) == last, 0, largest)
        after_binding = int(self.binding[-1]) + 1 if len(self.binding) else 0
        return max(q_constant_from, after_binding)

    @cached_property
    def _delicate_slacks(self) -> Floats:
        """pi, a, c, d of the delicate rows, rounded only once: shape (4, rows)."""
        # a over m r one, and c and d over m E one, in integers: Fractions would take nine times as long
        n, m = self.privacy.delta.as_integer_ratio()
        one = self.one
        E = self.E
        r = 1 << self.ratio_bits
        delta = n * one * r
        a_unit = m * r * one
        c_unit = m * E * one
        rows = []
        for i in self.delicate.tolist():
            before, now = self.pi(i - 1), self.pi(i)
            absent_before, absent_now = one - before, one - now
            a = m * (E * before - r * now) + delta
            c = min(delta, m * (E * absent_now - r * absent_before) + delta)
            d = m * (E * now - r * before) + c
            rows.append([now / one, a / a_unit, c / c_unit, d / c_unit])
        return np.array(rows).reshape(-1, 4).T

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Pi of consecutive rows but the first, and what its growth from the one before leaves unused."""
        pi, a, _, _ = self.slacks(rows)
        return pi[1:], a

    def slacks(self, rows: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        """Pi of consecutive rows (first axis), and a, c, d of all but the first; see `tokens`."""
        delta = float(self.privacy.delta)
        E = self.growth + 1
        pi = self.sampling.q(rows)
        absent = self.sampling.complement(rows)
        before = pi[:-1]
        rise = np.diff(pi, axis=0)
        a = self.growth * before + delta - rise
        c = np.minimum(delta / E, absent[1:] - absent[:-1] / E + delta / E)
        d = rise + self.shrinkage * before + c
        if len(self.delicate) and rows.size and (rows <= self.delicate[-1]).any():
            last = len(self.delicate) - 1
            at = np.searchsorted(self.delicate, rows).clip(max=last)
            delicate = self.delicate[at] == rows
            of_pi, of_a, of_c, of_d = self._delicate_slacks
            pi[delicate] = of_pi[at[delicate]]
            # slacks have no first row
            at = at[1:]
            delicate = delicate[1:]
            a[delicate] = of_a[at[delicate]]
            c[delicate] = of_c[at[delicate]]
            d[delicate] = of_d[at[delicate]]
        return pi, a, c, d

    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:  # noqa: D102
        return tail_map.rows(frequencies, self, grid)

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:  # noqa: D102
        return tail_map.columns(cells, self, grid, window)

    def locate(self, frequencies: Ints, v: Floats, grid: int) -> tuple[Ints, Floats, Floats]:  # noqa: D102
        return invert.locate_by_tail_map(frequencies, v, self, grid)

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:
        """Pi (or 1 - pi) as floats: never above the optimum (below, for 1 - pi)."""
        i = as_frequencies(frequencies)
        table = self._low_absent if complement else self._low_pi
        if self.sampling.largest < MAX_FREQUENCY and i.size:
            self.sampling.q(i.max())  # refuses what is beyond a sequence's end
        if self._flat:
            return np.take(table, i, mode="clip")
        flat = i.reshape(-1)
        result = np.empty(flat.shape, np.float64)
        bound = self._absent_bound if complement else self._pi_bound
        of = self.sampling.complement if complement else self.sampling.q
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            out = result[start : start + _CHUNK]
            np.take(table, part, out=out, mode="clip")
            high = part >= len(table)
            if high.any():
                far = part if high.all() else part[high]
                out[high] = self._with_bound(far, of(far, toward_privacy=True), bound)
        return result.reshape(i.shape)


def reporting_probabilities(
    frequencies: ArrayLike, sampling: Sampling, privacy: "PerKey", *, complement: bool = False
) -> Floats:
    """pi: the largest probability with which a key of each frequency may be reported, end to end.

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
    """Pi without sampling (`KeepAll`), as a formula: Lemma 3.2 of the paper, corrected.

    With l = floor(L) and n = i - l - 1 steps beyond the last one that grows,

        pi_i = delta (E**i - 1) / (E - 1)                            for i <= l + 1,
        1 - pi_i = (1 - pi_{l+1}) E**-n - delta (1 - E**-n) / (E - 1)     after that, until it reaches 0.

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
    growing = i <= last_growing
    with np.errstate(over="ignore"):
        pi = delta * np.expm1(epsilon * np.minimum(i, last_growing)) / growth
        top = delta * math.expm1(epsilon * last_growing) / growth
        n = np.maximum(i - last_growing, 0).astype(np.float64)
        shrunk = (1 - top) * np.exp(-epsilon * n) + delta * np.expm1(-epsilon * n) / growth
    absent = np.clip(np.where(growing, 1 - pi, shrunk), 0, 1)
    if complement:
        return absent
    return np.where(growing, np.minimum(pi, 1), 1 - absent)


def _float_below(value: int, bits: int) -> float:
    """``value / 2**bits`` rounded down to a float."""
    shift = max(value.bit_length() - 53, 0)
    return math.ldexp(value >> shift, shift - bits)


def _float_above(value: int, bits: int) -> float:
    """``value / 2**bits`` rounded up to a float."""
    shift = max(value.bit_length() - 53, 0)
    return math.ldexp(-(-value >> shift), shift - bits)

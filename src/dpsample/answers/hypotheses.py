"""The keys that are tested for a change, and the evidence against each hypothesis: p-values, and intervals of changes.

The difference of a key's frequencies has a confidence distribution, as their sum has (`several_totals`); of measured
numbers, it is normal. Releases that do not report the key are allowed what `several_unreported` allows. A p-value is
the least level at which the interval of the difference excludes 0. It is the same if before and after change places.

**Beyond chance.** Let the two counts be independent Poisson numbers of one mean. Given their sum N, their difference is
``2 B - N``, with B binomial: its variance is N, and its tails are lighter than normal ones. So the p-value is that of
the confidence distribution, averaged over normal differences of variance N. N has room for its own noise.

**Shares and rates.** With T the totals, a key has the same share if ``after = r before``, for ``r = T_after /
T_before``; with T the lengths of the two periods, it has the same rate. Then given N, the variance of ``after - r
before`` is ``after + r**2 before``. The noise of totals moves r, for all keys alike: it is a normal error of
``r before``, beside the others. Lengths have no noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpsample.answers.compared import Compared, DifferenceLaw, OneSide, Sides
from dpsample.answers.release import Release
from dpsample.answers.several_unreported import SMALLEST
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.scheme.sampling import Floats, Ints

# Where releases miss a key, p-values are rounded up to 4 times one of these: neighbours differ by 18 %.
_TAILS = np.geomspace(SMALLEST, 0.25, 160)
# The same where each takes many steps: neighbours differ by 64 %.
_FEW_TAILS = np.geomspace(1e-9, 0.25, 40)
# A normal law, as 65 values that are a quarter of a deviation apart: what is beyond 8 deviations does not matter.
_NODES = np.linspace(-8.0, 8.0, 65)
_DENSITY = np.exp(-(_NODES**2) / 2)
_WEIGHTS = _DENSITY / _DENSITY.sum()
# Errors by which N is larger than its estimate: it is larger than that with a probability of 2.3 %.
_ROOM = 2.0
# The probability that a release missed more of a key than N has for it.
_RARE = 1e-6
_AS_COUNTED = (
    "ordinary variation from day to day counts as a change, unless beyond_chance=True (--beyond-chance) leaves it "
    "out"
)
_BEYOND_CHANCE = (
    "beyond the noise of privacy, and beyond the variation of independent events that are as likely before and after "
    "(Poisson)"
)


class Sizes(NamedTuple):
    """What numbers before and after are divided by: totals, or lengths."""

    before: float
    after: float
    relative_error: float = 0.0  # of their ratio

    @property
    def ratio(self) -> float:
        """What the frequency before is multiplied by."""
        return self.after / self.before


def totals_of(sides: Sides) -> Sizes:
    """Return the private totals of both sides, which each release must have."""
    before, error_before = _total_of(sides.before)
    after, error_after = _total_of(sides.after)
    relative_error = math.hypot(error_before / before, error_after / after)
    return Sizes(before, after, relative_error)


def _total_of(releases: Sequence[Release]) -> tuple[float, float]:
    """The sum of the totals of releases, and its error."""
    totals = [release.total for release in releases if release.total is not None]
    estimates = [total.estimate() for total in totals if total.value > 0]
    if len(estimates) < len(releases):
        raise InvalidValue(
            "a release without a private total has no shares",
            "release with `total=True`, or compare frequencies",
        )
    value = math.fsum(one.value for one in estimates)
    error = math.hypot(*(one.standard_error for one in estimates))
    return value, error


def lengths_of(sides: Sides, stated: Any) -> Sizes | None:
    """Return the stated lengths of both sides, or their numbers of releases; None if they are equal."""
    lengths = [len(side) for side in sides] if stated is None else stated
    is_pair = isinstance(lengths, list | tuple) and len(lengths) == 2
    if not is_pair or not all(map(_is_length, lengths)):
        raise InvalidValue(
            f"lengths must be two positive numbers, not {stated!r}",
            "state how long before and after are, such as (7, 30)",
        )
    before, after = map(float, lengths)
    return None if before == after else Sizes(before, after)


def _is_length(length: Any) -> bool:
    is_number = isinstance(length, int | float) and not isinstance(length, bool)
    return is_number and 0 < length < math.inf


@dataclass(frozen=True)
class Hypothesis:
    """What has not changed: the frequency, the rate, or the share of all elements; as counted, or beyond chance."""

    beyond_chance: bool = False
    sizes: Sizes | None = None
    of: str = "what was counted"

    @staticmethod
    def to_test(sides: Sides, of: Any, beyond_chance: Any, lengths: Any) -> "Hypothesis":
        """Check what is asked, and look up the totals of shares, or the lengths of periods."""
        if not isinstance(beyond_chance, bool):
            raise InvalidValue(f"`beyond_chance` must be True or False, not {beyond_chance!r}")
        if of not in ("frequency", "share"):
            raise InvalidValue(f"changes are of the frequency or of the share, not of {of!r}")
        rates = lengths_of(sides, lengths)
        if of == "share":
            return Hypothesis(beyond_chance, totals_of(sides), "the share of all elements")
        if rates is None:
            return Hypothesis(beyond_chance)
        unit = "release" if lengths is None else "unit of length"
        what = f"the mean per {unit} ({rates.before:g} before, {rates.after:g} after)"
        return Hypothesis(beyond_chance, rates, what)

    @property
    def ratio(self) -> float:
        """What the frequency before is multiplied by."""
        return 1.0 if self.sizes is None else self.sizes.ratio

    @property
    def relative_error(self) -> float:
        """The relative error of the ratio."""
        return 0.0 if self.sizes is None else self.sizes.relative_error

    @property
    def plain(self) -> bool:
        """Whether the only noise is that of privacy, in the frequencies of keys."""
        return not self.beyond_chance and self.relative_error == 0

    @property
    def about(self) -> str:
        """What a change is, in words."""
        if self.beyond_chance:
            return f"changes of {self.of} beyond chance: {_BEYOND_CHANCE}"
        return f"changes of {self.of}: {_AS_COUNTED}"


class PValues(NamedTuple):
    """The p-value of each key, of two sides, and whether the evidence is rather for a rise than for a fall."""

    p: Floats
    rises: Bools


class Interval(NamedTuple):
    """Differences of some keys, with the ends of their intervals."""

    value: Floats
    low: Floats
    high: Floats


class Tested:
    """The keys that are tested, and what is known of each on both sides.

    `before` and `after` are their estimates; not a number if no release of the side reported the key.
    """

    def __init__(self, compared: Compared, hypothesis: Hypothesis) -> None:
        self._compared, self._hypothesis = compared, hypothesis
        self._sides = compared.sides
        self.before = _reported_values(self._sides.before)
        self.after = _reported_values(self._sides.after)
        self._keys = np.arange(len(self.before))
        self._variation = np.zeros(len(self._keys))
        if not hypothesis.plain:
            self._variation = self._deviations()

    def _deviations(self) -> Floats:
        """The deviation of what adds to the noise of keys: chance, and the noise of totals."""
        sides, ratio = self._sides, self._hypothesis.ratio
        before = self._at_most(sides.before, sides.after)
        after = self._at_most(sides.after, sides.before)
        of_totals = self._hypothesis.relative_error * ratio * before
        variance = of_totals**2
        if self._hypothesis.beyond_chance:
            variance = variance + after + ratio**2 * before
        return np.sqrt(variance)

    def _at_most(self, side: OneSide, other: OneSide) -> Floats:
        """What each key has on a side, with room for noise and for what releases miss.

        Where nothing is known of what they miss, it is taken to be what the key has on the other side.
        """
        [most] = side.missed(self._keys, np.array([_RARE])).T
        is_known = np.isfinite(most)
        missed = np.where(is_known, most, other.values)
        reported = np.where(side.reported, side.values, 0.0)
        return reported + _ROOM * side.deviations + missed

    def _law(self, keys: Ints, upper: bool) -> DifferenceLaw:
        """The confidence distributions of after less before (times the ratio), of the reported frequencies."""
        law: DifferenceLaw
        if self._hypothesis.sizes is None:
            law = self._compared.difference(keys, upper)
        else:
            law = self._compared.scaled_difference(keys, upper, self._hypothesis.ratio)
        if self._hypothesis.plain:
            return law
        return _Varied(law, self._variation[keys])

    def p_values(self) -> PValues:
        """Return the p-value of each key: twice the smaller of those against a rise and against a fall."""
        rises = np.ones(len(self._keys))
        falls = np.ones(len(self._keys))
        for keys in self._compared.blocks(self._keys):
            rises[keys] = self._against_a_rise(keys)
            falls[keys] = self._against_a_fall(keys)
        one_sided = np.minimum(rises, falls)
        p = np.minimum(2 * one_sided, 1.0)
        return PValues(np.maximum(p, SMALLEST), rises < falls)

    def _against_a_rise(self, keys: Ints) -> Floats:
        law = self._law(keys, upper=False)
        ratio = self._hypothesis.ratio

        def p_value(missed: Floats) -> Floats:
            return law.below(ratio * missed)

        return self._one_sided(keys, self._sides.before, p_value)

    def _against_a_fall(self, keys: Ints) -> Floats:
        """A difference of just 0 is no rise and no fall: it counts against both, so that both are alike."""
        law = self._law(keys, upper=True)
        step = self._compared.step

        def p_value(missed: Floats) -> Floats:
            return 1 - law.below(-missed - step)

        return self._one_sided(keys, self._sides.after, p_value)

    def _one_sided(self, keys: Ints, side: OneSide, p_value: Callable[[Floats], Floats]) -> Floats:
        """The p-value against a change that the releases of one side may hide.

        `p_value` follows from what these releases miss: [key, missed]. If they miss a key, half of the p-value is the
        probability that they miss more of it.
        """
        nothing_missed = np.zeros((len(keys), 1))
        without_misses = p_value(nothing_missed)[:, 0]
        misses = side.misses[keys]
        if not misses.any():
            return np.asarray(without_misses)
        tails = _TAILS if self._hypothesis.plain else _FEW_TAILS
        enough = p_value(side.missed(keys, tails)) <= tails
        least = tails[np.argmax(enough, axis=1)]
        with_misses = np.where(enough.any(1), 2 * least, 1.0)
        return np.where(misses, with_misses, without_misses)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of the differences of some keys."""
        if not len(keys):
            return np.zeros(0), np.zeros(0)
        if self._hypothesis.sizes is None:
            of_keys = self._differences(keys, level)
        else:
            of_keys = self._scaled_differences(keys, level)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        reach = z * self._variation[keys]
        down = np.hypot(of_keys.value - of_keys.low, reach)
        up = np.hypot(of_keys.high - of_keys.value, reach)
        return of_keys.value - down, of_keys.value + up

    def _differences(self, keys: Ints, level: float) -> Interval:
        """The difference of what was counted, and its interval."""
        low = np.zeros(len(keys))
        high = np.zeros(len(keys))
        for at in self._compared.blocks(np.arange(len(keys))):
            low[at] = self._lowest(keys[at], level)
            high[at] = self._highest(keys[at], level)
        before = np.nan_to_num(self.before[keys])
        after = np.nan_to_num(self.after[keys])
        difference = np.clip(after - before, low, high)
        return Interval(difference, low, high)

    def _lowest(self, keys: Ints, level: float) -> Floats:
        """The lower ends of differences: the releases before may have missed elements of the key."""
        before = self._sides.before
        [missed] = before.missed(keys, _half_tail(level)).T
        law = self._compared.difference(keys, upper=False)
        tails = _tails(before.misses[keys], level)
        return np.asarray(law.lowest(tails) - missed)

    def _highest(self, keys: Ints, level: float) -> Floats:
        """The upper ends of differences: the releases after may have missed elements of the key."""
        after = self._sides.after
        [missed] = after.missed(keys, _half_tail(level)).T
        law = self._compared.difference(keys, upper=True)
        tails = _tails(after.misses[keys], level)
        return np.asarray(law.highest(tails) + missed)

    def _scaled_differences(self, keys: Ints, level: float) -> Interval:
        """The difference after - r before, and its interval: the errors of both sides add up by their squares."""
        ratio = self._hypothesis.ratio
        before = self._sides.before.values[keys]
        after = self._sides.after.values[keys]
        low_before, high_before = self._sides.before.intervals(keys, level)
        low_after, high_after = self._sides.after.intervals(keys, level)
        value = after - ratio * before
        down = np.hypot(after - low_after, ratio * (high_before - before))
        up = np.hypot(high_after - after, ratio * (before - low_before))
        return Interval(value, value - down, value + up)


def _reported_values(side: OneSide) -> Floats:
    return np.where(side.reported, side.values, np.nan)


def _half_tail(level: float) -> Floats:
    """The probability that is left for what releases miss: half of that of one end."""
    return np.array([(1 - level) / 4])


def _tails(misses: Bools, level: float) -> Floats:
    """The probability that an end misses by the noise of reported numbers, by whether a release misses the key."""
    tail = (1 - level) / 2
    return np.where(misses, tail / 2, tail)


@dataclass(frozen=True, eq=False)
class _Varied:
    """A law to which a normal number of each key's own deviation is added."""

    law: DifferenceLaw
    deviations: Floats

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the difference is at most each bound: [key, bound]."""
        confidence = np.zeros(np.shape(bounds))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            moved = bounds + node * self.deviations[:, None]
            confidence += weight * self.law.below(moved)
        return confidence

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
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpsample.answers.compared import Compared, Law, Sides
from dpsample.answers.several_unreported import SMALLEST
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.scheme.sampling import Floats, Ints

_TAILS = np.geomspace(
    SMALLEST, 0.25, 160
)  # where releases miss a key, p-values are rounded up to 4 times one of these
_FEW_TAILS = np.geomspace(1e-9, 0.25, 40)  # the same where each takes many steps
_NODES = np.linspace(-8.0, 8.0, 65)  # of a normal law
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
_ROOM = 2.0  # errors by which N is larger than its estimate
_RARE = 1e-6  # probability of what a release misses, in N
_AS_COUNTED = (
    "ordinary variation from day to day counts as a change "
    "(beyond_chance=True, --beyond-chance, leaves it out)"
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
    values, relative = [], []
    for side in sides:
        totals = [release.total for release in side]
        estimates = [total.estimate() for total in totals if total is not None and total.value > 0]
        if len(estimates) < len(side):
            raise InvalidValue(
                "a release without a private total has no shares",
                "release with `total=True`, or compare frequencies",
            )
        value = math.fsum(one.value for one in estimates)
        error = math.hypot(*(one.standard_error for one in estimates))
        values.append(value)
        relative.append(error / value)
    return Sizes(values[0], values[1], math.hypot(*relative))


def lengths_of(sides: Sides, stated: Any) -> Sizes | None:
    """Return the stated lengths of both sides, or their numbers of releases; None if they are equal."""
    lengths = [len(side) for side in sides] if stated is None else stated
    if (
        not isinstance(lengths, list | tuple)
        or len(lengths) != 2
        or not all(map(_is_length, lengths))
    ):
        raise InvalidValue(
            f"lengths must be two positive numbers, not {stated!r}",
            "state how long before and after are, such as (7, 30)",
        )
    before, after = map(float, lengths)
    return None if before == after else Sizes(before, after)


def _is_length(length: Any) -> bool:
    return (
        isinstance(length, int | float) and not isinstance(length, bool) and 0 < length < math.inf
    )


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
        what = f"the mean of a {unit} ({rates.before:g} before, {rates.after:g} after)"
        return Hypothesis(beyond_chance, rates, what)

    @property
    def ratio(self) -> float:
        """What the frequency before is multiplied by."""
        return 1.0 if self.sizes is None else self.sizes.ratio

    @property
    def plain(self) -> bool:
        """Whether the only noise is that of privacy."""
        return not self.beyond_chance and (self.sizes is None or self.sizes.relative_error == 0)

    @property
    def about(self) -> str:
        """What a change is, in words."""
        if self.beyond_chance:
            return f"changes of {self.of} beyond chance: {_BEYOND_CHANCE}"
        return f"changes of {self.of}: {_AS_COUNTED}"


class Tested:
    """The keys that are tested, and what is known of each on both sides."""

    def __init__(self, compared: Compared, hypothesis: Hypothesis) -> None:
        self.compared, self.hypothesis = compared, hypothesis
        # before and after; not a number if no release reported the key
        self.values = [np.where(side.reported, side.values, np.nan) for side in compared.sides]
        self._keys = np.arange(len(self.values[0]))
        self._variation = np.zeros(len(self._keys)) if hypothesis.plain else self._deviations()

    def _deviations(self) -> Floats:
        """The deviation of what adds to the noise of keys: chance, and the noise of totals."""
        before, after = self._at_most(0), self._at_most(1)
        ratio, sizes = self.hypothesis.ratio, self.hypothesis.sizes
        relative_error = 0.0 if sizes is None else sizes.relative_error
        variance = (relative_error * ratio * before) ** 2
        if self.hypothesis.beyond_chance:
            variance = variance + after + ratio**2 * before
        return np.sqrt(variance)

    def _at_most(self, n: int) -> Floats:
        """What each key has on a side, with room for noise and for what releases miss."""
        side, other = self.compared.sides[n], self.compared.sides[1 - n]
        missed = side.missed(self._keys, np.array([_RARE]))[:, 0]
        missed = np.where(np.isfinite(missed), missed, other.values)
        return np.where(side.reported, side.values, 0.0) + _ROOM * side.deviations + missed

    def _law(self, keys: Ints, upper: bool) -> Law:
        """The confidence distributions of after less before (times the ratio), of the reported frequencies."""
        law: Law
        if self.hypothesis.sizes is None:
            law = self.compared.difference(keys, upper)
        else:
            law = self.compared.scaled_difference(keys, upper, self.hypothesis.ratio)
        return law if self.hypothesis.plain else _Varied(law, self._variation[keys])

    def p_values(self) -> tuple[Floats, Floats]:
        """Return the p-value of each key: twice the smaller of those against a rise and a fall; and which it is."""
        rises, falls = np.ones((2, len(self._keys)))
        for keys in self.compared.blocks(self._keys):
            rises[keys] = self._against_a_rise(keys)
            falls[keys] = self._against_a_fall(keys)
        p = np.minimum(2 * np.minimum(rises, falls), 1.0)
        return np.maximum(p, SMALLEST), np.where(rises < falls, 1.0, -1.0)

    def _against_a_rise(self, keys: Ints) -> Floats:
        law = self._law(keys, upper=False)
        return self._one_sided(keys, 0, lambda missed: law.below(self.hypothesis.ratio * missed))

    def _against_a_fall(self, keys: Ints) -> Floats:
        """A difference of just 0 is no rise and no fall: it counts against both, so that both are alike."""
        law = self._law(keys, upper=True)
        return self._one_sided(keys, 1, lambda missed: 1 - law.below(-missed - self.compared.step))

    def _one_sided(self, keys: Ints, n: int, confidence: Callable[[Floats], Floats]) -> Floats:
        """The p-value against a change that the releases of one side may hide. Half of it goes to what they miss."""
        side = self.compared.sides[n]
        sure = confidence(np.zeros((len(keys), 1)))[:, 0]
        missing = side.misses[keys]
        if not missing.any():
            return np.asarray(sure)
        tails = _TAILS if self.hypothesis.plain else _FEW_TAILS
        enough = confidence(side.missed(keys, tails)) <= tails
        least = tails[np.argmax(enough, axis=1)]
        return np.where(missing, np.where(enough.any(1), 2 * least, 1.0), sure)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of the differences of some keys."""
        if not len(keys):
            return np.zeros(0), np.zeros(0)
        if self.hypothesis.sizes is None:
            centre, low, high = self._of_differences(keys, level)
        else:
            centre, low, high = self._scaled(keys, level)
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self._variation[keys]
        return centre - np.hypot(centre - low, reach), centre + np.hypot(high - centre, reach)

    def _of_differences(self, keys: Ints, level: float) -> tuple[Floats, Floats, Floats]:
        """The difference of what was counted, and its interval."""
        before, after = self.compared.sides
        low, high = np.zeros((2, len(keys)))
        places = np.arange(len(keys))
        for at in self.compared.blocks(places):
            part = keys[at]
            tails, missed = (
                _tails(before.misses[part], level),
                before.missed(part, _half_tail(level)),
            )
            low[at] = self.compared.difference(part, upper=False).lowest(tails) - missed[:, 0]
            tails, missed = _tails(after.misses[part], level), after.missed(part, _half_tail(level))
            high[at] = self.compared.difference(part, upper=True).highest(tails) + missed[:, 0]
        values = [np.nan_to_num(own[keys]) for own in self.values]
        return np.clip(values[1] - values[0], low, high), low, high

    def _scaled(self, keys: Ints, level: float) -> tuple[Floats, Floats, Floats]:
        """The difference after - r before, and its interval: the errors of both sides add up by their squares."""
        ratio = self.hypothesis.ratio
        before, after = (side.values[keys] for side in self.compared.sides)
        (low_before, high_before), (low_after, high_after) = (
            side.intervals(keys, level) for side in self.compared.sides
        )
        centre = after - ratio * before
        down = np.hypot(after - low_after, ratio * (high_before - before))
        up = np.hypot(high_after - after, ratio * (before - low_before))
        return centre, centre - down, centre + up


def _half_tail(level: float) -> Floats:
    """The probability that is left for what releases miss: half of that of one end."""
    return np.array([(1 - level) / 4])


def _tails(missing: Bools, level: float) -> Floats:
    """The probability that an end misses by the noise of reported numbers."""
    return np.where(missing, (1 - level) / 4, (1 - level) / 2)


@dataclass(frozen=True, eq=False)
class _Varied:
    """A law to which a normal number of each key's own deviation is added."""

    law: Law
    deviations: Floats

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the difference is at most each bound."""
        confidence = np.zeros(np.shape(bounds))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            confidence += weight * self.law.below(bounds + node * self.deviations[:, None])
        return confidence

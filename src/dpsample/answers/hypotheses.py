"""The keys that are tested for a change, and the evidence against each hypothesis: p-values, and intervals of changes.

The difference of a key's frequencies has a confidence distribution, as their sum has (`totals`). Releases that do not
report the key are allowed what `unreported` allows. A p-value is the least level at which the interval of the
difference excludes 0. It is the same if before and after change places.

**Beyond chance.** Let the two counts be independent Poisson numbers of one mean. Given their sum N, their difference is
``2 B - N``, with B binomial: its variance is N, and its tails are lighter than normal ones. So the p-value is that of
the confidence distribution, averaged over normal differences of variance N. N has room for its own noise.

**Shares.** With T the totals, a key has the same share if ``after = r before``, for ``r = T_after / T_before``. Then
given N, the variance of ``after - r before`` is ``after + r**2 before``. The noise of totals moves r, for all keys
alike: it is a normal error of ``r before``, beside the others.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from dpsample.answers.release import Release
from dpsample.answers.several_keys import cells_of
from dpsample.answers.several_totals import Confidence, KeyTotals, Side, blocks, most_unreported
from dpsample.answers.several_unreported import SMALLEST
from dpsample.errors import InvalidValue
from dpsample.scheme.sampling import Floats, Ints

_TAILS = np.geomspace(SMALLEST, 0.25, 160)  # where releases miss a key, p-values are rounded up to 4 times one of these
_FEW_TAILS = np.geomspace(1e-9, 0.25, 40)  # the same where each takes many steps
_NODES = np.linspace(-8.0, 8.0, 65)  # of a normal law
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()
_POINTS = 96  # of a confidence distribution that is multiplied by a ratio
_ROOM = 2.0  # errors by which N is larger than its estimate
_RARE = 1e-6  # probability of what a release misses, in N
Sides = tuple[tuple[Release, ...], tuple[Release, ...]]


@dataclass(frozen=True)
class Hypothesis:
    """What has not changed: the frequency, or the share of all elements; as counted, or beyond chance."""

    beyond_chance: bool = False
    totals: tuple[float, float] | None = None  # before and after, for shares
    relative_error: float = 0.0  # of their ratio

    @staticmethod
    def of(sides: Sides, of: Any, beyond_chance: Any) -> "Hypothesis":
        """Check what is asked, and look up the totals of shares."""
        if not isinstance(beyond_chance, bool):
            raise InvalidValue("`beyond_chance` is True or False", repr(beyond_chance), "leave it out")
        if of not in ("frequency", "share"):
            raise InvalidValue("changes are of the frequency or of the share", repr(of), "choose one of them")
        if of == "frequency":
            return Hypothesis(beyond_chance)
        found = [[release.total for release in side] for side in sides]
        if any(total is None or total.value <= 0 for side in found for total in side):
            raise InvalidValue(
                "shares are of private totals, which each release has",
                "a release without one",
                "release with `total=True`, or compare frequencies",
            )
        estimates = [[total.estimate() for total in side if total is not None] for side in found]
        values = [math.fsum(one.value for one in side) for side in estimates]
        errors = [math.hypot(*(one.standard_error for one in side)) for side in estimates]
        relative = math.hypot(*(error / value for error, value in zip(errors, values, strict=True)))
        return Hypothesis(beyond_chance, (values[0], values[1]), relative)

    @property
    def ratio(self) -> float:
        """What the frequency before is multiplied by."""
        return 1.0 if self.totals is None else self.totals[1] / self.totals[0]

    @property
    def plain(self) -> bool:
        """Whether the only noise is that of privacy."""
        return not self.beyond_chance and self.totals is None

    @property
    def about(self) -> str:
        """What a change is, in words."""
        of = "what was counted" if self.totals is None else "the share of all elements"
        if self.beyond_chance:
            return (
                f"changes of {of} beyond chance: beyond the noise of privacy, and beyond the variation of independent "
                "events that are as likely before and after (Poisson)"
            )
        return (
            f"changes of {of}: ordinary variation from day to day counts as a change "
            "(beyond_chance=True, --beyond-chance, leaves it out)"
        )


class Law(Protocol):
    """A confidence distribution of differences: of each key, the confidence that it is at most each bound."""

    def below(self, bounds: Floats) -> Floats: ...


class Tested:
    """The keys that are tested, and their tokens on both sides."""

    def __init__(self, sides: Sides, rows: Ints, hypothesis: Hypothesis) -> None:
        self.releases, self.hypothesis, n = sides, hypothesis, len(sides[0])
        parts = [rows[:, :n], rows[:, n:]]
        self.cells = [cells_of(own, part) for own, part in zip(sides, parts, strict=True)]
        self._totals = [KeyTotals(*own) for own in zip(sides, parts, self.cells, strict=True)]
        reported = [cells.any(1) for cells in self.cells]
        # before and after; not a number if no release reported the key
        pairs = zip(reported, self._totals, strict=True)
        self.values = [np.where(seen, totals.values, np.nan) for seen, totals in pairs]
        self._variation = np.zeros(len(rows)) if hypothesis.plain else self._deviations()

    def _deviations(self) -> Floats:
        """The deviation of what adds to the noise of keys: chance, and the noise of totals."""
        everywhere = np.arange(len(self.cells[0]))
        most = []
        for side, (values, totals) in enumerate(zip(self.values, self._totals, strict=True)):
            missed, _ = self._missed(side, everywhere, np.array([_RARE]))
            missed = np.where(np.isfinite(missed[:, 0]), missed[:, 0], np.nan_to_num(self.values[1 - side]))
            most.append(np.nan_to_num(values) + _ROOM * totals.deviations + missed)
        before, after = most
        ratio = self.hypothesis.ratio
        variance = (self.hypothesis.relative_error * ratio * before) ** 2
        if self.hypothesis.beyond_chance:
            variance = variance + after + ratio**2 * before
        return np.sqrt(variance)

    def _law(self, keys: Ints, upper: bool) -> Law:
        """The confidence distributions of after minus before, of the reported frequencies."""
        before, after = (cells[keys] for cells in self.cells)
        ratio = self.hypothesis.ratio
        if self.hypothesis.totals is None:
            law: Law = Confidence([Side(self.releases[1], after), Side(self.releases[0], before, -1)], upper)
        else:
            own = Confidence([Side(self.releases[1], after)], upper)
            law = _Scaled(own, Confidence([Side(self.releases[0], before)], not upper), ratio)
        return law if self.hypothesis.plain else _Varied(law, self._variation[keys])

    def _missed(self, side: int, keys: Ints, probabilities: Floats) -> tuple[Floats, Any]:
        """The most elements in releases of a side that miss a key, [key, probability], and whether there are any."""
        missed = self.cells[side][keys] == 0
        return most_unreported(self.releases[side], missed, probabilities), missed.any(1)

    def _blocks(self, keys: Ints) -> Any:
        return (keys[part] for part in blocks(len(keys), self.releases))

    def p_values(self) -> tuple[Floats, Floats]:
        """Return the p-value of each key: twice the smaller of those against a rise and a fall; and which it is."""
        rises, falls = np.ones((2, len(self.cells[0])))
        ratio = self.hypothesis.ratio
        grid = max(release.grid or 1 for side in self.releases for release in side)
        for keys in self._blocks(np.arange(len(rises))):
            lower, upper = self._law(keys, upper=False), self._law(keys, upper=True)
            rises[keys] = self._one_sided(keys, 0, lambda bound, law=lower: law.below(ratio * bound))
            # a difference of just 0 is no rise and no fall: it counts against both, so that both are alike
            falls[keys] = self._one_sided(keys, 1, lambda bound, law=upper: 1 - law.below(-bound - 1 / grid))
        p = np.minimum(2 * np.minimum(rises, falls), 1.0)
        return np.maximum(p, SMALLEST), np.where(rises < falls, 1.0, -1.0)

    def _one_sided(self, keys: Ints, side: int, confidence: Any) -> Floats:
        """The p-value against a change that the releases of one side may hide. Half of it goes to what they miss."""
        sure = confidence(np.zeros((len(keys), 1)))[:, 0]
        tails = _TAILS if self.hypothesis.plain else _FEW_TAILS
        bounds, missing = self._missed(side, keys, tails)
        if not missing.any():
            return np.asarray(sure)
        enough = confidence(bounds) <= tails
        split = np.where(enough.any(1), 2 * tails[np.argmax(enough, axis=1)], 1.0)
        return np.where(missing, split, sure)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of the differences of some keys."""
        if not len(keys):
            return np.zeros(0), np.zeros(0)
        if self.hypothesis.totals is None:
            low, high = self._of_differences(keys, level)
            before, after = (np.nan_to_num(values[keys]) for values in self.values)
            centre = np.clip(after - before, low, high)
        else:
            centre, low, high = self._of_shares(keys, level)
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self._variation[keys]
        return centre - np.hypot(centre - low, reach), centre + np.hypot(high - centre, reach)

    def _of_differences(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """The interval of the difference of what was counted."""
        tail = (1 - level) / 2
        low, high = np.zeros((2, len(keys)))
        before, after = self.cells
        for at in self._blocks(np.arange(len(keys))):
            part = keys[at]
            own = [Side(self.releases[1], after[part]), Side(self.releases[0], before[part], -1)]
            for side, upper in ((0, False), (1, True)):
                bounds, missing = self._missed(side, part, np.array([tail / 2]))
                tails, law = np.where(missing, tail / 2, tail), Confidence(own, upper)
                if upper:
                    high[at] = law.highest(tails) + bounds[:, 0]
                else:
                    low[at] = law.lowest(tails) - bounds[:, 0]
        return low, high

    def _of_shares(self, keys: Ints, level: float) -> tuple[Floats, Floats, Floats]:
        """The difference after - r before, and its interval: the errors of both sides add up by their squares."""
        ratio = self.hypothesis.ratio
        ends = [totals.intervals(keys, level) for totals in self._totals]
        before, after = (totals.values[keys] for totals in self._totals)
        (low_before, high_before), (low_after, high_after) = ends
        centre = after - ratio * before
        down = np.hypot(after - low_after, ratio * (high_before - before))
        up = np.hypot(high_after - after, ratio * (before - low_before))
        return centre, centre - down, centre + up


@dataclass(frozen=True, eq=False)
class _Varied:
    """A law to which a normal number of each key's own deviation is added."""

    law: Law
    deviations: Floats

    def below(self, bounds: Floats) -> Floats:
        confidence = np.zeros(np.shape(bounds))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            confidence += weight * self.law.below(bounds + node * self.deviations[:, None])
        return confidence


class _Scaled:
    """The law of after - r before, from those of both, which are independent."""

    def __init__(self, after: Confidence, before: Confidence, ratio: float) -> None:
        self.after, self.ratio = after, ratio
        mass = np.diff(before.upto, axis=1, prepend=0.0).clip(0)
        size = -(-mass.shape[1] // _POINTS)
        padded = np.pad(mass, ((0, 0), (0, size * _POINTS - mass.shape[1])))
        at = (before.start[:, None] + np.arange(padded.shape[1])) / before.grid
        grouped = padded.reshape(len(mass), _POINTS, size)
        self.mass = grouped.sum(2)
        means = (grouped * at.reshape(grouped.shape)).sum(2) / np.maximum(self.mass, 1e-300)
        self.frequencies = np.where(self.mass > 1e-290, means, 0.0)

    def below(self, bounds: Floats) -> Floats:
        confidence = np.zeros(np.shape(bounds))
        for point in range(_POINTS):
            mass = self.mass[:, point, None]
            if mass.max() > 0:
                confidence += mass * self.after.below(bounds + self.ratio * self.frequencies[:, point, None])
        return confidence

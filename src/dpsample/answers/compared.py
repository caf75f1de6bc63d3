"""Two sides of releases, before and after: what each says of keys, and the laws of their differences.

Releases with tokens have exact laws (`several_totals`); all others are measured, with normal errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from statistics import NormalDist
from typing import Protocol

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import have_exact_laws
from dpsample.answers.normal_order import normal_probability
from dpsample.answers.release import Release
from dpsample.answers.several_keys import cells_of
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_totals import Confidence, KeyTotals, Side, blocks, most_unreported
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.scheme.sampling import Floats, Ints

_POINTS = 96  # of a confidence distribution that is multiplied by a ratio
Sides = tuple[tuple[Release, ...], tuple[Release, ...]]


class Law(Protocol):
    """A confidence distribution of differences: of each key, the confidence that it is at most each bound."""

    def below(self, bounds: Floats) -> Floats: ...


class Difference(Law, Protocol):
    """The same, with the ends of intervals."""

    def lowest(self, probabilities: Floats) -> Floats | Ints: ...

    def highest(self, probabilities: Floats) -> Floats | Ints: ...


class OneSide(ABC):
    """What the releases before, or those after, say of the keys that are compared."""

    values: Floats
    deviations: Floats
    reported: Bools  # whether any release reports the key
    misses: Bools  # whether any release misses it

    @abstractmethod
    def missed(self, keys: Ints, probabilities: Floats) -> Floats:
        """Return the most that keys have in releases that miss them, for each probability: [key, probability]."""

    @abstractmethod
    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of some keys."""


class TokenSide(OneSide):
    """Releases with tokens."""

    def __init__(self, releases: tuple[Release, ...], rows: Ints) -> None:
        self.releases, self.cells = releases, cells_of(releases, rows)
        self._totals = KeyTotals(releases, rows, self.cells)
        self.values, self.deviations = self._totals.values, self._totals.deviations
        seen = self.cells > 0
        self.reported = np.asarray(seen.any(1))
        self.misses = ~np.asarray(seen.all(1))

    def missed(self, keys: Ints, probabilities: Floats) -> Floats:
        return most_unreported(self.releases, self.cells[keys] == 0, probabilities)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        return self._totals.intervals(keys, level)

    def signed(self, keys: Ints, sign: int = 1) -> Side:
        """Return the tokens of some keys, to be added or taken away."""
        return Side(self.releases, self.cells[keys], sign)


class MeasuredSide(OneSide):
    """Releases whose keys were measured."""

    def __init__(self, releases: tuple[Release, ...], keys: pa.Table, rows: Ints) -> None:
        several = SeveralMeasured(releases, (keys, rows))
        count = len(rows)
        self._keys = several.measured(np.arange(count), np.ones(count))
        self.values = self._keys.possible
        self.deviations = self._keys.errors
        seen = rows >= 0
        self.reported = np.asarray(seen.any(1))
        self.misses = ~np.asarray(seen.all(1))

    def missed(self, keys: Ints, probabilities: Floats) -> Floats:
        gaps = self._keys.gaps
        return (
            np.zeros((len(keys), len(probabilities)))
            if gaps is None
            else gaps.bounds(probabilities)[keys]
        )

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        low, high = self._keys.intervals(level)
        return low[keys], high[keys]


class Compared(ABC):
    """Both sides of a comparison, and the laws of their differences."""

    sides: tuple[OneSide, OneSide]
    step: float  # between frequencies that are told apart

    @abstractmethod
    def difference(self, keys: Ints, upper: bool) -> Difference:
        """Return the law of after less before, of the reported frequencies, for a lower or an upper end."""

    @abstractmethod
    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> Law:
        """Return the law of after less `ratio` times before."""

    def blocks(self, keys: Ints) -> Iterator[Ints]:
        """Yield parts of some keys whose laws fit into memory."""
        yield keys


def compared(sides: Sides, keys: pa.Table, rows: Ints) -> Compared:
    """Return the two sides of a comparison; `rows` are the places of keys in each release, before and after."""
    before, after = sides
    if any(release.keys_only for release in (*before, *after)):
        raise InvalidValue(
            "releases of keys only have no numbers that could have changed", "compare their keys"
        )
    rows_before, rows_after = np.split(rows, [len(before)], axis=1)
    if have_exact_laws(before) and have_exact_laws(after):
        return ComparedTokens(TokenSide(before, rows_before), TokenSide(after, rows_after))
    measured_before = MeasuredSide(before, keys, rows_before)
    return ComparedMeasured(measured_before, MeasuredSide(after, keys, rows_after))


class ComparedTokens(Compared):
    """Releases with tokens, by their exact laws."""

    def __init__(self, before: TokenSide, after: TokenSide) -> None:
        self.before, self.after = before, after
        self.sides = before, after
        self.step = 1 / max(
            release.grid or 1 for side in (before, after) for release in side.releases
        )

    def blocks(self, keys: Ints) -> Iterator[Ints]:
        for part in blocks(len(keys), [self.before.releases, self.after.releases]):
            yield keys[part]

    def difference(self, keys: Ints, upper: bool) -> Confidence:
        return Confidence([self.after.signed(keys), self.before.signed(keys, -1)], upper)

    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> Law:
        after = Confidence([self.after.signed(keys)], upper)
        before = Confidence([self.before.signed(keys)], not upper)
        return _Scaled(after, before, ratio)


class ComparedMeasured(Compared):
    """Releases whose keys were measured: differences have normal errors."""

    step = 0.0

    def __init__(self, before: MeasuredSide, after: MeasuredSide) -> None:
        self.sides = before, after

    def difference(self, keys: Ints, upper: bool) -> "NormalDifference":
        return self.scaled_difference(keys, upper, 1.0)

    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> "NormalDifference":
        before, after = self.sides
        values = after.values[keys] - ratio * before.values[keys]
        errors = np.hypot(after.deviations[keys], ratio * before.deviations[keys])
        return NormalDifference(values, errors)


class NormalDifference:
    """Differences with normal errors."""

    def __init__(self, values: Floats, errors: Floats) -> None:
        self.values, self.errors = values, np.maximum(errors, 1e-9)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that each difference is at most each bound: [key, bound]."""
        return normal_probability((bounds - self.values[:, None]) / self.errors[:, None])

    def lowest(self, probabilities: Floats) -> Floats:
        """Return the lower end that misses with these probabilities."""
        return self.values - self._reaches(probabilities)

    def highest(self, probabilities: Floats) -> Floats:
        """Return the upper end that misses with these probabilities."""
        return self.values + self._reaches(probabilities)

    def _reaches(self, probabilities: Floats) -> Floats:
        distinct, back = np.unique(probabilities, return_inverse=True)
        quantiles = np.array([NormalDist().inv_cdf(1 - p) for p in distinct.tolist()])
        return np.asarray(quantiles[back] * self.errors)


class _Scaled:
    """The law of after - r before, from those of both, which are independent."""

    def __init__(self, after: Confidence, before: Confidence, ratio: float) -> None:
        self.after, self.ratio = after, ratio
        mass = np.diff(before.upto, axis=1, prepend=0.0).clip(0)
        size = -(-mass.shape[1] // _POINTS)  # of the steps that one point stands for
        padding = size * _POINTS - mass.shape[1]
        padded = np.pad(mass, ((0, 0), (0, padding)))
        steps = before.start[:, None] + np.arange(padded.shape[1])
        grouped = padded.reshape(len(mass), _POINTS, size)
        frequencies = (steps / before.grid).reshape(grouped.shape)
        self.mass = grouped.sum(2)
        means = (grouped * frequencies).sum(2) / np.maximum(self.mass, 1e-300)
        self.frequencies = np.where(self.mass > 1e-290, means, 0.0)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the difference is at most each bound."""
        confidence = np.zeros(np.shape(bounds))
        for point in range(_POINTS):
            mass = self.mass[:, point, None]
            if mass.max() > 0:
                before = self.ratio * self.frequencies[:, point, None]
                confidence += mass * self.after.below(bounds + before)
        return confidence

"""Two sides of releases, before and after: what each says of keys, and the laws of their differences.

Releases with tokens have exact laws (`several_totals`); all others are measured, with normal errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import have_exact_laws
from dpsample.answers.normal_order import normal_probability
from dpsample.answers.release import Release
from dpsample.answers.several_keys import cells_of, reported_frequencies
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_totals import (
    Confidence,
    KeyTotals,
    Side,
    blocks,
    finest_grid,
    most_unreported,
)
from dpsample.errors import InvalidValue
from dpsample.estimators.reported import Bools
from dpsample.scheme.sampling import Floats, Ints

# Points that stand for a confidence distribution that is multiplied by a ratio: time grows with their number.
_POINTS = 96
_TINY = 1e-300  # keeps means of no mass defined
_NO_MASS = (
    1e-290  # what has less counts as nothing: it is far below every p-value that is told apart
)
_LEAST_ERROR = 1e-9  # keeps the law of a difference defined if it has no noise


class Sides(NamedTuple):
    """The releases before, and those after."""

    before: tuple[Release, ...]
    after: tuple[Release, ...]

    @property
    def all(self) -> tuple[Release, ...]:
        """The releases before, and then those after."""
        return (*self.before, *self.after)


class DifferenceLaw(Protocol):
    """A confidence distribution of differences: of each key, the confidence that it is at most each bound."""

    def below(self, bounds: Floats) -> Floats: ...


class Difference(DifferenceLaw, Protocol):
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
    """Releases with tokens. `places` has the row of each key in each release, or -1: [key, release]."""

    def __init__(self, releases: tuple[Release, ...], places: Ints) -> None:
        self.releases = releases
        self.cells = cells_of(releases, places)
        reported = reported_frequencies(releases, places)
        self._totals = KeyTotals(releases, reported, self.cells)
        self.values = self._totals.values
        self.deviations = self._totals.deviations
        seen = self.cells > 0
        self.reported = np.asarray(seen.any(1))
        self.misses = ~np.asarray(seen.all(1))

    def missed(self, keys: Ints, probabilities: Floats) -> Floats:
        return most_unreported(self.releases, self.cells[keys] == 0, probabilities)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        return self._totals.intervals(keys, level)

    def signed(self, keys: Ints, sign: int = 1) -> Side:
        """Return the tokens of some keys, to be added (sign 1) or taken away (sign -1)."""
        return Side(self.releases, self.cells[keys], sign)


class MeasuredSide(OneSide):
    """Releases whose keys were measured. `places` has the row of each key in each release, or -1: [key, release]."""

    def __init__(self, releases: tuple[Release, ...], keys: pa.Table, places: Ints) -> None:
        several = SeveralMeasured(releases, (keys, places))
        rows = np.arange(len(places))
        self._keys = several.measured(rows, np.ones(len(rows)))
        self.values = self._keys.possible
        self.deviations = self._keys.errors
        seen = places >= 0
        self.reported = np.asarray(seen.any(1))
        self.misses = ~np.asarray(seen.all(1))

    def missed(self, keys: Ints, probabilities: Floats) -> Floats:
        gaps = self._keys.gaps
        if gaps is None:
            return np.zeros((len(keys), len(probabilities)))
        return gaps.bounds(probabilities)[keys]

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        low, high = self._keys.intervals(level)
        return low[keys], high[keys]


class BothSides(NamedTuple):
    """What the releases before say of keys, and those after."""

    before: OneSide
    after: OneSide


class Compared(ABC):
    """Both sides of a comparison, and the laws of their differences."""

    sides: BothSides
    step: float  # between frequencies that are told apart

    @abstractmethod
    def difference(self, keys: Ints, upper: bool) -> Difference:
        """Return the law of after less before, of the reported frequencies, for a lower or an upper end."""

    @abstractmethod
    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> DifferenceLaw:
        """Return the law of after less `ratio` times before."""

    def blocks(self, keys: Ints) -> Iterator[Ints]:
        """Yield parts of some keys whose laws fit into memory."""
        yield keys


def compared(sides: Sides, keys: pa.Table, places: Ints) -> Compared:
    """Return both sides of a comparison; `places` has the row of each key in each release, or -1: [key, release]."""
    if any(release.keys_only for release in sides.all):
        raise InvalidValue(
            "releases of keys only have no numbers that could have changed", "compare their keys"
        )
    first_after = len(sides.before)
    places_before = places[:, :first_after]
    places_after = places[:, first_after:]
    if have_exact_laws(sides.before) and have_exact_laws(sides.after):
        tokens_before = TokenSide(sides.before, places_before)
        return ComparedTokens(tokens_before, TokenSide(sides.after, places_after))
    measured_before = MeasuredSide(sides.before, keys, places_before)
    return ComparedMeasured(measured_before, MeasuredSide(sides.after, keys, places_after))


class ComparedTokens(Compared):
    """Releases with tokens, by their exact laws."""

    def __init__(self, before: TokenSide, after: TokenSide) -> None:
        self._before, self._after = before, after
        self.sides = BothSides(before, after)
        self._releases = [*before.releases, *after.releases]
        self.step = 1 / finest_grid(self._releases)

    def blocks(self, keys: Ints) -> Iterator[Ints]:
        for part in blocks(len(keys), self._releases):
            yield keys[part]

    def difference(self, keys: Ints, upper: bool) -> Confidence:
        added = self._after.signed(keys)
        taken_away = self._before.signed(keys, -1)
        return Confidence([added, taken_away], upper)

    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> DifferenceLaw:
        after = Confidence([self._after.signed(keys)], upper)
        before = Confidence([self._before.signed(keys)], not upper)
        return _Scaled(after, before, ratio)


class ComparedMeasured(Compared):
    """Releases whose keys were measured: differences have normal errors."""

    step = 0.0

    def __init__(self, before: MeasuredSide, after: MeasuredSide) -> None:
        self.sides = BothSides(before, after)

    def difference(self, keys: Ints, upper: bool) -> "NormalDifference":
        return self.scaled_difference(keys, upper, 1.0)

    def scaled_difference(self, keys: Ints, upper: bool, ratio: float) -> "NormalDifference":
        before, after = self.sides
        values = after.values - ratio * before.values
        errors = np.hypot(after.deviations, ratio * before.deviations)
        return NormalDifference(values[keys], errors[keys])


class NormalDifference:
    """Differences with normal errors."""

    def __init__(self, values: Floats, errors: Floats) -> None:
        self.values = values
        self.errors = np.maximum(errors, _LEAST_ERROR)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that each difference is at most each bound: [key, bound]."""
        differences = bounds - self.values[:, None]
        return normal_probability(differences / self.errors[:, None])

    def lowest(self, probabilities: Floats) -> Floats:
        """Return the lower end that misses with these probabilities."""
        return self.values - self._reaches(probabilities)

    def highest(self, probabilities: Floats) -> Floats:
        """Return the upper end that misses with these probabilities."""
        return self.values + self._reaches(probabilities)

    def _reaches(self, probabilities: Floats) -> Floats:
        distinct, back = np.unique(probabilities, return_inverse=True)
        normal = NormalDist()
        quantiles = np.array([normal.inv_cdf(1 - p) for p in distinct.tolist()])
        return np.asarray(quantiles[back] * self.errors)


class _Scaled:
    """The law of after - r before, from those of both, which are independent.

    The law of before is replaced by points, each of which stands for some successive steps, with their mean.
    """

    def __init__(self, after: Confidence, before: Confidence, ratio: float) -> None:
        self.after, self.ratio = after, ratio
        mass = np.diff(before.upto, axis=1, prepend=0.0).clip(0)
        keys, steps = mass.shape
        steps_of_point = -(-steps // _POINTS)
        padding = steps_of_point * _POINTS - steps
        padded = np.pad(mass, ((0, 0), (0, padding)))
        by_point = padded.reshape(keys, _POINTS, steps_of_point)
        step = before.start[:, None] + np.arange(padded.shape[1])
        frequencies = (step / before.grid).reshape(by_point.shape)
        self.mass = by_point.sum(2)
        sums = (by_point * frequencies).sum(2)
        means = sums / np.maximum(self.mass, _TINY)
        self.frequencies = np.where(self.mass > _NO_MASS, means, 0.0)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the difference is at most each bound: [key, bound]."""
        confidence = np.zeros(np.shape(bounds))
        for mass, frequencies in zip(self.mass.T, self.frequencies.T, strict=True):
            if mass.max() > 0:
                before = self.ratio * frequencies[:, None]
                of_point = self.after.below(bounds + before)
                confidence += mass[:, None] * of_point
        return confidence

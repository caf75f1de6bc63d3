"""The frequency of a key over all releases: the sum of its frequencies, with its confidence interval.

Given that a key is reported, P_i(token >= t) grows with its frequency i from 0 to 1. As a function of i it is the
*confidence distribution* of the frequency: its quantiles are the ends of the intervals of one release. Where token
laws are shifts of one another, t - i has one law, so that the confidence distribution of a sum of frequencies is the
convolution of those of its terms: exactly, but for the grid of tokens. Releases that do not report the key add
nothing to the lower end, and what `unreported` allows to the upper one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpsample.answers.several_unreported import Drawn, expected_unreported, largest_unreported
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.token_columns import exceedances
from dpsample.scheme.tokens import support_length

if TYPE_CHECKING:
    from dpsample.answers.release import Release

_BLOCK = 1 << 21  # points of confidence distributions at once
_TIE = 1e-9  # relative: as for one release


@dataclass(frozen=True)
class Side:
    """Releases whose frequencies are added, or taken away, and the tokens of keys in them: [key, release]."""

    releases: Sequence[Drawn]
    cells: Ints  # in units of 1/grid; 0 is not reported
    sign: int = 1

    def at(self, keys: Ints) -> "Side":
        """Return the same of some of the keys."""
        return Side(self.releases, self.cells[keys], self.sign)


class Confidence:
    """Confidence distributions of the sums of the reported frequencies of keys, for a lower or an upper end."""

    def __init__(self, sides: Sequence[Side], upper: bool) -> None:
        self.grid = max(release.grid or 1 for side in sides for release in side.releases)
        parts = [
            (release, side.cells[:, n], side.sign, upper == (side.sign > 0))
            for side in sides
            for n, release in enumerate(side.releases)
        ]
        laws = [Law(release, cells, sign, up, self.grid) for release, cells, sign, up in parts]
        size = sum(law.mass.shape[1] for law in laws) + 1
        size = 1 << (size - 1).bit_length()
        transform = np.ones((len(sides[0].cells), size // 2 + 1), np.complex128)
        self.start = np.zeros(len(transform), np.int64)
        for law in laws:
            transform[law.keys] *= np.fft.rfft(law.mass, size)[law.place]
            self.start[law.keys] += law.start[law.place] + law.shift
        self.upto = np.cumsum(np.fft.irfft(transform, size), axis=1)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the sum of each key is at most each bound: [key, bound]."""
        with np.errstate(invalid="ignore"):
            place = np.clip(bounds * self.grid - self.start[:, None], -1, self.upto.shape[1] - 1)
        place = np.nan_to_num(place, posinf=self.upto.shape[1] - 1).astype(np.int64)
        found = np.take_along_axis(self.upto, np.maximum(place, 0), 1)
        return np.where(place < 0, 0.0, found).clip(0.0, 1.0)

    def lowest(self, probabilities: Floats) -> Ints:
        """Return the lowest sum that has this confidence or more: the lower end of an interval."""
        reached = np.argmax(self.upto >= (1 - _TIE) * probabilities[:, None], axis=1)
        return np.asarray(-(-(self.start + reached) // self.grid))

    def highest(self, probabilities: Floats) -> Ints:
        """Return the highest sum that has all but this confidence, or less: the upper end of an interval."""
        passed = self.upto > 1 - (1 - _TIE) * probabilities[:, None]
        at = np.where(passed.any(1), np.argmax(passed, axis=1), self.upto.shape[1])
        return np.asarray(-(-(self.start + at) // self.grid) - 1)


class Law:
    """The confidence distributions of the frequencies that one release reports, in steps of 1/grid.

    Those of equal tokens, up to shifts, are computed once. At whole frequencies they are exact, and linear in between.
    The probability of a larger token is that of the next one or a larger one.
    """

    def __init__(self, release: Drawn, cells: Ints, sign: int, upper: bool, grid: int) -> None:
        own = release.grid or 1
        self.keys = np.flatnonzero(cells)
        tokens = cells[self.keys] + upper
        reporting = Reporting.of(release.sampling, release.per_key)
        # new where pi is constant: a shift of the first such row
        shift = np.maximum(-(-tokens // own) - reporting.constant_from, 0)
        distinct, self.place = np.unique(tokens - shift * own, return_inverse=True)
        if not len(distinct):
            self.mass, self.start, self.shift = np.zeros((0, 1)), np.zeros(0, np.int64), shift
            return
        frequencies, _, _, reached = exceedances(distinct, reporting, own)
        # of the frequency after the last one, no test rejects such a token: what is left of the confidence is there
        reached = np.append(reached, np.ones((len(reached), 1)), axis=1)
        mass = np.repeat(np.diff(reached, axis=1, prepend=0.0) / grid, grid, axis=1)
        first = (frequencies[:, 0] - 1) * grid + 1
        self.mass = mass if sign > 0 else mass[:, ::-1]
        self.start = first if sign > 0 else -(first + mass.shape[1] - 1)
        self.shift = sign * shift * grid

    @property
    def _mass_and_mean(self) -> tuple[Floats, Floats]:
        """The mass of each distinct law, and its mean from its start on."""
        total = np.maximum(self.mass.sum(1), 1e-300)
        return total, self.mass @ np.arange(self.mass.shape[1]) / total

    @property
    def means(self) -> Floats:
        """The mean of each key's frequency, in units of 1/grid."""
        _, mean = self._mass_and_mean
        return np.asarray((self.start + mean)[self.place] + self.shift)

    @property
    def variances(self) -> Floats:
        """The variance of each key's frequency, in units of 1/grid."""
        total, mean = self._mass_and_mean
        squares = np.arange(self.mass.shape[1], dtype=np.float64) ** 2
        return np.asarray((self.mass @ squares / total - mean**2)[self.place])


class KeyTotals:
    """The frequencies of keys over all releases: estimates, deviations and intervals."""

    def __init__(self, releases: "Sequence[Release]", rows: Ints, cells: Ints) -> None:
        self.releases, self.cells, self._rows = releases, cells, rows

    @cached_property
    def reported(self) -> Floats:
        """The sum of each key's estimates in the releases that report it."""
        total = np.zeros(len(self.cells))
        for n, release in enumerate(self.releases):
            here = self._rows[:, n] >= 0
            total[here] += release.table["estimate"].to_numpy()[self._rows[here, n]]
        return total

    @cached_property
    def _unreported(self) -> tuple[Floats, Floats]:
        return expected_unreported(self.releases, self.reported, self.cells)

    @cached_property
    def values(self) -> Floats:
        """The estimate of each key: of the releases that report it, and of those that do not."""
        return np.asarray(np.rint(self.reported + self._unreported[0]))

    @cached_property
    def deviations(self) -> Floats:
        """The standard deviation of each key's law."""
        variance = self._unreported[1].copy()
        for n, release in enumerate(self.releases):
            law = Law(release, self.cells[:, n], 1, False, 1)
            variance[law.keys] += law.variances
        return np.sqrt(variance)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of some keys. Where a release does not report a key, half of the probability
        that the truth is above goes to that.
        """
        tail = (1 - level) / 2
        missed = self.cells[keys] == 0
        above = np.where(missed.any(1), tail / 2, tail)
        low, high = np.zeros((2, len(keys)))
        for part in blocks(len(keys), [self.releases]):
            side = [Side(self.releases, self.cells[keys[part]])]
            low[part] = Confidence(side, upper=False).lowest(np.full(len(side[0].cells), tail))
            high[part] = Confidence(side, upper=True).highest(above[part])
        high += most_unreported(self.releases, missed, np.array([tail / 2]))[:, 0]
        values = self.values[keys]
        return np.minimum(low, values), np.maximum(high, values)


def most_unreported(
    releases: Sequence[Drawn], missed: NDArray[np.bool_], probabilities: Floats
) -> Floats:
    """Return the most elements of each key in the releases that miss it, for each probability: [key, probability]."""
    distinct, place = np.unique(missed, axis=0, return_inverse=True)
    bounds = np.zeros((len(distinct), len(probabilities)))
    for n, pattern in enumerate(distinct.tolist()):
        if any(pattern):
            absent = [release for release, out in zip(releases, pattern, strict=True) if out]
            bounds[n] = largest_unreported(absent, probabilities)
    return bounds[place.reshape(-1)]


def blocks(keys: int, sides: Sequence[Sequence[Drawn]]) -> Iterator[slice]:
    """Yield slices of this number of keys, whose confidence distributions fit into memory."""
    grid = max(release.grid or 1 for releases in sides for release in releases)
    points = (
        sum(support_length(release.per_key) for releases in sides for release in releases) * grid
    )
    size = max(1, _BLOCK // points)
    for start in range(0, keys, size):
        yield slice(start, start + size)

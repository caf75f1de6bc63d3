"""The frequency of a key over all releases: the sum of its frequencies, with its confidence interval.

Given that a key is reported, P_i(token >= t) grows with its frequency i from 0 to 1. As a function of i it is the
*confidence distribution* of the frequency: its quantiles are the ends of the intervals of one release. Where token
laws are shifts of one another, t - i has one law, so that the confidence distribution of a sum of frequencies is the
convolution of those of its terms: exactly, but for the grid of tokens. Releases that do not report the key add
nothing to the lower end, and what `several_unreported` allows to the upper one.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsample.answers.several_unreported import Drawn, expected_unreported, largest_unreported
from dpsample.estimators.reported import Bools
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.token_columns import exceedances
from dpsample.scheme.tokens import support_length

# Points of confidence distributions in memory at once: 2**21 take about 100 MB. The answers do not depend on it.
_BLOCK = 1 << 21
# Relative: a probability that misses a tail by less is taken to reach it, as in the intervals of one release.
_TIE = 1e-9
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True)
class Side:
    """Releases whose frequencies are added (sign 1) or taken away (sign -1), and the tokens of keys in them.

    `cells` are in units of 1/grid of each release; 0 is not reported: [key, release].
    """

    releases: Sequence[Drawn]
    cells: Ints
    sign: int = 1


def finest_grid(releases: Sequence[Drawn]) -> int:
    """Return the largest grid of the releases: their frequencies are added in units of 1/grid."""
    return max(release.grid or 1 for release in releases)


class Confidence:
    """Confidence distributions of the sums of the reported frequencies of keys, for a lower or an upper end.

    start   the least sum of each key, in units of 1/grid
    upto    the confidence that the sum is at most `start`, at most the next multiple of 1/grid, ...: [key, sum]
    """

    def __init__(self, sides: Sequence[Side], upper: bool) -> None:
        self.grid = max(finest_grid(side.releases) for side in sides)
        laws = []
        for side in sides:
            # a difference is largest where what is taken away is smallest
            upper_of_side = upper == (side.sign > 0)
            for release, cells in zip(side.releases, side.cells.T, strict=True):
                laws.append(FrequencyLaws(release, cells, side.sign, upper_of_side, self.grid))

        steps = sum(law.steps for law in laws)
        size = 1 << steps.bit_length()  # a power of two, for the Fourier transform
        keys = len(sides[0].cells)
        coefficients = size // 2 + 1
        transform = np.ones((keys, coefficients), np.complex128)
        self.start = np.zeros(keys, np.int64)
        for law in laws:
            own_transform = np.fft.rfft(law.mass, size)
            transform[law.keys] *= own_transform[law.place]
            self.start[law.keys] += law.starts
        mass = np.fft.irfft(transform, size)
        self.upto = np.cumsum(mass, axis=1)

    def below(self, bounds: Floats) -> Floats:
        """Return the confidence that the sum of each key is at most each bound, which may be infinite: [key, bound]."""
        last = self.upto.shape[1] - 1
        with np.errstate(invalid="ignore"):
            steps = bounds * self.grid - self.start[:, None]
            steps = np.nan_to_num(steps.clip(-1, last), posinf=last)
        place = steps.astype(np.int64)
        inside = np.maximum(place, 0)
        confidence = np.take_along_axis(self.upto, inside, axis=1)
        return np.where(place < 0, 0.0, confidence).clip(0.0, 1.0)

    def lowest(self, probabilities: Floats) -> Ints:
        """Return the lowest sum that has this confidence or more: the lower end of an interval."""
        least = (1 - _TIE) * probabilities
        reaches = self.upto >= least[:, None]
        first = self.start + np.argmax(reaches, axis=1)
        return np.asarray(-(-first // self.grid))

    def highest(self, probabilities: Floats) -> Ints:
        """Return the highest sum that has all but this confidence, or less: the upper end of an interval."""
        most = 1 - (1 - _TIE) * probabilities
        passes = self.upto > most[:, None]
        end = self.upto.shape[1]
        first_step = np.where(passes.any(1), np.argmax(passes, axis=1), end)
        first = self.start + first_step
        return np.asarray(-(-first // self.grid) - 1)


class FrequencyLaws:
    """The confidence distributions of the frequencies that one release reports, in steps of 1/grid.

    Those of equal tokens, up to shifts, are computed once. At whole frequencies they are exact, and linear in between.
    The probability of a larger token, which upper ends need, is that of the next token or a larger one.

    keys    the keys that the release reports, by their places among all
    mass    of each distinct law, the mass of each step: [law, step]
    start   of each distinct law, its first step, in units of 1/grid
    place   the law of each reported key
    shift   what is added to the start of the law of each reported key
    """

    def __init__(self, release: Drawn, cells: Ints, sign: int, upper: bool, grid: int) -> None:
        own_grid = release.grid or 1
        self.keys = np.flatnonzero(cells)
        tokens = cells[self.keys] + upper
        reporting = Reporting.of(release.sampling, release.per_key)
        # tokens that are new where pi is constant have the law of the first such token, shifted
        first_frequency = -(-tokens // own_grid)
        whole_shift = np.maximum(first_frequency - reporting.constant_from, 0)
        unshifted = tokens - whole_shift * own_grid
        distinct, self.place = np.unique(unshifted, return_inverse=True)
        self.shift = sign * whole_shift * grid
        if not len(distinct):
            self.mass = np.zeros((0, 1))
            self.start = np.zeros(0, np.int64)
            return

        frequencies, _, _, confidence = exceedances(distinct, reporting, own_grid)
        # no test rejects such a token at the frequency after the last one: the rest of the confidence is there
        certainty = np.ones((len(confidence), 1))
        confidence = np.append(confidence, certainty, axis=1)
        mass_of_frequency = np.diff(confidence, axis=1, prepend=0.0)
        mass = np.repeat(mass_of_frequency / grid, grid, axis=1)
        first = (frequencies[:, 0] - 1) * grid + 1
        self.mass = mass
        self.start = first
        if sign < 0:
            last = first + mass.shape[1] - 1
            self.mass = mass[:, ::-1]
            self.start = -last

    @property
    def steps(self) -> int:
        """The number of steps of a law."""
        return int(self.mass.shape[1])

    @property
    def starts(self) -> Ints:
        """The first step of the law of each reported key, in units of 1/grid."""
        return np.asarray(self.start[self.place] + self.shift)

    def _moment(self, power: int) -> Floats:
        """The mean of a power of the step of each distinct law, counted from its start."""
        total = np.maximum(self.mass.sum(1), _TINY)
        powers = np.arange(self.steps, dtype=np.float64) ** power
        return np.asarray(self.mass @ powers / total)

    @property
    def means(self) -> Floats:
        """The mean of each reported key's frequency, in units of 1/grid."""
        mean = self.start + self._moment(1)
        return np.asarray(mean[self.place] + self.shift)

    @property
    def variances(self) -> Floats:
        """The variance of each reported key's frequency, in units of 1/grid."""
        variance = self._moment(2) - self._moment(1) ** 2
        return np.asarray(variance[self.place])


class KeyTotals:
    """The frequencies of keys over all releases: estimates, deviations and intervals.

    releases    how each release drew keys
    reported    the sum of each key's estimates in the releases that report it
    cells       the token of each key in each release, in units of 1/grid; 0 is not reported: [key, release]
    """

    def __init__(self, releases: Sequence[Drawn], reported: Floats, cells: Ints) -> None:
        self.releases = releases
        self.reported = reported
        self.cells = cells

    @cached_property
    def _unreported(self) -> tuple[Floats, Floats]:
        """What is expected of each key in the releases that do not report it, and its variance."""
        return expected_unreported(self.releases, self.reported, self.cells)

    @cached_property
    def values(self) -> Floats:
        """The estimate of each key: of the releases that report it, and of those that do not."""
        expected, _ = self._unreported
        return np.asarray(np.rint(self.reported + expected))

    @cached_property
    def deviations(self) -> Floats:
        """The standard deviation of each key's law."""
        _, unreported = self._unreported
        variance = unreported.copy()
        for release, cells in zip(self.releases, self.cells.T, strict=True):
            law = FrequencyLaws(release, cells, 1, upper=False, grid=1)
            variance[law.keys] += law.variances
        return np.sqrt(variance)

    def intervals(self, keys: Ints, level: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of some keys.

        Where a release does not report a key, half of the probability that the truth is above goes to that.
        """
        tail = (1 - level) / 2
        missed = self.cells[keys] == 0
        some_miss = missed.any(1)
        upper_tails = np.where(some_miss, tail / 2, tail)
        low = np.zeros(len(keys))
        high = np.zeros(len(keys))
        for part in blocks(len(keys), self.releases):
            cells = self.cells[keys[part]]
            side = Side(self.releases, cells)
            lower_tails = np.full(len(cells), tail)
            low[part] = Confidence([side], upper=False).lowest(lower_tails)
            law = Confidence([side], upper=True)
            high[part] = law.highest(upper_tails[part])
        half_tail = np.array([tail / 2])
        high += most_unreported(self.releases, missed, half_tail)[:, 0]
        values = self.values[keys]
        return np.minimum(low, values), np.maximum(high, values)


def most_unreported(releases: Sequence[Drawn], missed: Bools, probabilities: Floats) -> Floats:
    """Return the most elements of each key in the releases that miss it, for each probability: [key, probability].

    `missed` says which releases miss which keys: [key, release].
    """
    patterns, pattern_of_key = np.unique(missed, axis=0, return_inverse=True)
    bounds = np.zeros((len(patterns), len(probabilities)))
    for n, pattern in enumerate(patterns):
        missing = list(itertools.compress(releases, pattern))
        if missing:
            bounds[n] = largest_unreported(missing, probabilities)
    return bounds[pattern_of_key.reshape(-1)]


def blocks(keys: int, releases: Sequence[Drawn]) -> Iterator[slice]:
    """Yield slices of this number of keys, whose confidence distributions over releases fit into memory."""
    steps = sum(support_length(release.per_key) for release in releases)
    points = steps * finest_grid(releases)
    size = max(1, _BLOCK // points)
    for start in range(0, keys, size):
        yield slice(start, start + size)

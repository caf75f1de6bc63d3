"""How long users' vectors are, and where to clip them: all of it follows from one noisy histogram.

Row b of the histogram has the users whose squared length is up to ``base 2**b``, and above that of the row before. Rows
of many users stand out from their noise; the few longest users do not, although they may have a large part of all
pairs. So the histogram is not cut off where noise begins. What lies beyond is estimated, with an error, and where to
clip, and up to which length losses are measured, is chosen so that all errors together are small (docs/theory.md,
section 10, Where to clip). The constants were chosen on the data of `benchmarks/user_coverage.py`.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from dpsample.accounting.lengths import MOST_GROUPS
from dpsample.accounting.look import cleaned
from dpsample.private.users.parts import Measured
from dpsample.private.users.put_back import Shares, unevenness
from dpsample.private.users.weighing import Clip
from dpsample.scheme.sampling import Floats, Ints

_SHARE_ERROR = 0.02  # wanted error of the share that was clipped, in each group: with less noise there are more groups
_MIDDLE = 0.75  # of the largest squared length of a row: about the mean of the row
_FIRST = (
    2.0  # deviations of noise: as many users may well be in the first row that does not stand out
)
_DECLINE = 0.6  # of users from one row to the next, where fewer than three rows stand out
_DECLINES = 0.25, 0.6  # the range of the decline, where it is taken from the rows
_FAR = 20.0  # deviations from which on a normal tail is computed by its expansion: exp(-x**2 / 2) would underflow later
_STEPS = 4  # lengths at which to clip that are tried between a length and its double


@dataclass(frozen=True, eq=False)
class Lengths:
    """Estimated numbers of users by squared length, with the error of each number."""

    base: float
    users: Floats
    errors: Floats

    @classmethod
    def of(cls, base: float, noisy: Ints, deviation: float) -> "Lengths":
        """Estimate the numbers of users from a histogram with normal noise of this deviation."""
        rows = numbers_of_users(noisy, deviation)
        return cls(base, rows.values, rows.errors)

    @cached_property
    def middles(self) -> Floats:
        """The squared length of users of each row, about; those of the first row are as short as can be."""
        return np.asarray(np.maximum(_MIDDLE * self.ends, self.base), np.float64)

    @property
    def ends(self) -> Floats:
        """The largest squared length of each row."""
        return np.ldexp(self.base, np.arange(len(self.users))).astype(np.float64)

    @cached_property
    def total(self) -> float:
        """The sum of squared lengths over all users."""
        return max(float(self.users @ self.middles), self.base)

    def lost_each(self, square: float) -> Floats:
        """Return what clipping at `square` takes from a user of each row."""
        shares: Floats = np.maximum(0, 1 - np.sqrt(square / self.middles))
        return self.middles * shares

    def share_lost(self, square: float) -> float:
        """Return the share of `total` that clipping at `square` takes away."""
        return float(self.users @ self.lost_each(square)) / self.total

    def beyond(self, square: float, longest: Floats) -> Floats:
        """Return what a user of each row loses beyond `most_lost`, for each of some longest lengths: [length, row]."""
        return np.maximum(self.lost_each(square) - most_lost(square, longest)[:, None], 0.0)


def most_lost(square: float, longest: Shares) -> Shares:
    """Return what clipping takes from the square of a user's length, at most, up to the longest."""
    lost: Shares = (1 - np.sqrt(np.minimum(square / longest, 1.0))) * longest
    return lost


def numbers_of_users(noisy: Ints, deviation: float) -> Measured:
    """Estimate the rows of a histogram with noise of this deviation, with errors.

    Rows up to the last that stands out from the noise are what they are, but not negative. Numbers are thought to
    decline beyond, each row by the same factor, until the row is looked at.
    """
    seen = cleaned(noisy.tolist(), deviation)
    users = np.zeros(len(noisy))
    errors = np.full(len(noisy), deviation)
    users[: len(seen)] = seen
    decline = _decline(seen)
    mean = max(decline * seen[-1], _FIRST * deviation)
    for row in range(len(seen), len(noisy)):
        users[row], errors[row] = few_users(float(noisy[row]), deviation, mean)
        mean = decline * users[row]
    return Measured(users, errors)


def _decline(seen: list[float]) -> float:
    """Return by which factor numbers decline from row to row, at the end of the rows that stand out."""
    if len(seen) < 3:
        return _DECLINE
    of_two_rows = seen[-1] / max(seen[-3], 1.0)
    return float(np.clip(math.sqrt(of_two_rows), *_DECLINES))


def few_users(noisy: float, deviation: float, mean: float) -> tuple[float, float]:
    """Return the mean and the deviation of a number of users, given what it is with normal noise.

    Before, it is thought to be exponential with this mean. Then it is normal, around ``noisy - deviation**2 / mean``,
    and cut off at 0: a truncated normal law, whose moments follow from its hazard.

    >>> [round(value, 2) for value in few_users(50.0, 10.0, 1000.0)]  # far above the noise: as it is
    [49.9, 10.0]
    >>> [round(value, 2) for value in few_users(0.0, 10.0, 1.0)]  # below it: as was thought
    [0.98, 0.97]
    """
    below = (
        deviation**2 / mean - noisy
    ) / deviation  # by how many deviations the middle lies below 0
    if below > _FAR:  # the normal law falls like an exponential one there
        expected = 1 / below - 2 / below**3
        variance = 1 / below**2 - 6 / below**4
        return deviation * expected, deviation * math.sqrt(variance)
    density = math.exp(-(below**2) / 2) / math.sqrt(2 * math.pi)
    beyond = math.erfc(below / math.sqrt(2)) / 2
    hazard = density / beyond
    expected = hazard - below
    variance = max(1 - hazard * expected, 0.0)
    return deviation * expected, deviation * math.sqrt(variance)


@dataclass(frozen=True)
class ClipErrors:
    """What clipping costs, as relative errors of a typical key's number.

    `noise` is the variance of the count if lengths are clipped at 1, `own` the squared length of keys that are never
    clipped, and `lost` the deviation of the noise of what was lost, if one user loses up to 1.
    """

    noise: float
    own: float
    lost: float

    def variances(self, lengths: Lengths, square: float, longest: Floats) -> Floats:
        """Return the relative variance of a number that is clipped at `square` and put back, for each longest length.

        It is the sum of the variances of the noise, of what is uneven, of what was measured as lost, and of what lies
        beyond the longest length.
        """
        share = lengths.share_lost(square)
        noise = (square + self.own) * self.noise
        uneven = unevenness(share) ** 2
        measured = self.of_share(lengths, square, longest) ** 2
        beyond = lengths.errors * lengths.beyond(square, longest)
        unseen = np.linalg.norm(beyond, axis=1) / lengths.total
        variances: Floats = noise + uneven + measured + unseen**2
        return variances / (1 - share) ** 2

    def of_share(self, lengths: Lengths, square: float, longest: Floats) -> Floats:
        """Return the errors of the share that was clipped, if it is measured for all keys together."""
        return most_lost(square, longest) * self.lost / lengths.total


def best_clip(lengths: Lengths, errors: ClipErrors, shortest: float = 0.0) -> Clip:
    """Choose where to clip, not below `shortest`, and up to which length to measure what is lost.

    All pairs of both are tried; the one of least variance is taken.
    """
    steps = np.arange((len(lengths.users) - 1) * _STEPS + 1) / _STEPS
    squares = np.unique(np.maximum(lengths.base * 2**steps, shortest))
    pairs = []
    for square in squares.tolist():
        ends = np.unique(np.maximum(lengths.ends, square))
        variances = errors.variances(lengths, square, ends)
        place = int(np.argmin(variances))
        pairs.append((float(variances[place]), square, ends[[place]]))
    _, square, longest = min(pairs, key=itemgetter(0))
    return _clip_at(lengths, errors, square, longest)


def _clip_at(lengths: Lengths, errors: ClipErrors, square: float, longest: Floats) -> Clip:
    """Return the clip at this square, with what is lost there; `longest` is an array of one length."""
    [share_error] = errors.of_share(lengths, square, longest)
    [lost] = most_lost(square, longest)
    [beyond] = lengths.beyond(square, longest)
    groups = np.clip(_SHARE_ERROR / max(float(share_error), 1e-9), 1, MOST_GROUPS)
    unseen = float(lengths.users @ beyond)
    unseen_error = float(np.linalg.norm(lengths.errors * beyond))
    [end] = longest.tolist()
    return Clip(square, end, float(lost), int(groups), unseen, unseen_error)

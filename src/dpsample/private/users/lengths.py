"""How long users' vectors are, and where to clip them: all of it follows from one noisy histogram.

Row b of the histogram has the users whose squared length is up to ``base * 2**b``, and above that of the row before.
Rows of many users stand out from their noise. The few longest users do not, although they may have a large part of all
pairs. So the histogram is not cut off where noise begins: what lies beyond is estimated, with an error. The length at
which users are clipped, and the longest length up to which losses are measured, are chosen so that all errors together
are small (docs/theory.md, section 10, Where to clip). The constants were chosen on the data of
`benchmarks/user_coverage.py`.
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

# wanted error of the share that was clipped, in each group: there are as many groups as the noise allows within it
_SHARE_ERROR = 0.02
# the mean squared length in a row, as a part of the largest: rows are from one power of two to the next
_MIDDLE = 0.75
# deviations of noise: about this many users may be in the first row that does not stand out
_FIRST = 2.0
# the factor by which users decline from one row to the next, where fewer than three rows stand out
_DECLINE = 0.6
# the range of that factor where it is taken from the rows: with a larger one, noise alone would look like long users
_DECLINES = 0.25, 0.6
# deviations from which on a normal tail is computed by its expansion: exp(-x**2 / 2) would underflow later
_FAR = 20.0
# lengths at which to clip that are tried between a length and its double: more of them take time and change little
_STEPS = 4
_TINY = 1e-9  # in place of 0, where the share that was clipped has no error


@dataclass(frozen=True, eq=False)
class Lengths:
    """Estimated numbers of users by squared length, with the error of each number.

    base  the largest squared length of the first row; it doubles from row to row
    """

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
        """About the squared length of users of each row; no user is shorter than `base`."""
        middles = np.maximum(_MIDDLE * self.ends, self.base)
        return np.asarray(middles, np.float64)

    @property
    def ends(self) -> Floats:
        """The largest squared length of each row."""
        doublings = np.arange(len(self.users))
        return np.ldexp(self.base, doublings).astype(np.float64)

    @cached_property
    def total(self) -> float:
        """The sum of squared lengths over all users."""
        lengths = self.users @ self.middles
        return max(float(lengths), self.base)

    def lost_each(self, square: float) -> Floats:
        """Return what clipping at `square` takes from the squared length of a user of each row."""
        factors = np.sqrt(square / self.middles)
        shares: Floats = np.maximum(0, 1 - factors)
        return self.middles * shares

    def share_lost(self, square: float) -> float:
        """Return the share of `total` that clipping at `square` takes away."""
        lost = self.users @ self.lost_each(square)
        return float(lost) / self.total

    def beyond(self, square: float, longest: Floats) -> Floats:
        """Return what a user of each row loses beyond `most_lost`, for each of some longest lengths: [length, row]."""
        measured = most_lost(square, longest)
        unseen = self.lost_each(square) - measured[:, None]
        return np.maximum(unseen, 0.0)


def most_lost(square: float, longest: Shares) -> Shares:
    """Return what clipping at `square` takes from a user of the squared length `longest`: the most that is measured."""
    factor = np.sqrt(np.minimum(square / longest, 1.0))
    lost: Shares = (1 - factor) * longest
    return lost


def numbers_of_users(noisy: Ints, deviation: float) -> Measured:
    """Estimate the numbers of users of a histogram with normal noise of this deviation, with errors.

    Rows up to the last that stands out from the noise are taken as they are, but not as negative. Each row beyond is
    expected to have fewer users than the row before, by the same factor; its noisy number then corrects this.
    """
    seen = cleaned(noisy.tolist(), deviation)  # the rows that stand out
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
    """Return the factor by which users decline from row to row, at the end of the rows that stand out."""
    if len(seen) < 3:
        return _DECLINE
    of_two_rows = seen[-1] / max(seen[-3], 1.0)
    return float(np.clip(math.sqrt(of_two_rows), *_DECLINES))


def few_users(noisy: float, deviation: float, mean: float) -> tuple[float, float]:
    """Return the mean and the deviation of a number of users, given this number with normal noise.

    The prior is exponential with this mean. The posterior is then normal around ``noisy - deviation**2 / mean`` and cut
    off at 0, a truncated normal law. Its moments follow from its hazard h(x), the density over the tail: with the
    middle x deviations below 0, the mean is h - x and the variance 1 - h (h - x), in units of the deviation.

    >>> [round(value, 2) for value in few_users(50.0, 10.0, 1000.0)]  # far above the noise: the noisy number
    [49.9, 10.0]
    >>> [round(value, 2) for value in few_users(0.0, 10.0, 1.0)]  # below the noise: about the prior
    [0.98, 0.97]
    """
    middle = noisy - deviation**2 / mean
    below = -middle / deviation
    if below > _FAR:
        # the asymptotic expansion of the hazard: its tail is nearly exponential
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
    """What clipping costs, as relative errors of the count of a typical key.

    noise  the variance of the noise of the count if users are clipped at the squared length 1
    own    the squared length of the keys of the head, which are never clipped
    lost   the standard deviation of the noise of what was lost, if one user may lose up to 1
    """

    noise: float
    own: float
    lost: float

    def variances(self, lengths: Lengths, square: float, longest: Floats) -> Floats:
        """Return the relative variance of a count that is clipped at `square` and put back, for each longest length.

        It is the sum of the variances of the noise, of the unevenness of keys, of what was measured as lost, and of
        what lies beyond the longest length; dividing by the share that is left puts back the rest.
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
        """Return the error of the share that was clipped, if it is measured for all keys together."""
        return most_lost(square, longest) * self.lost / lengths.total


def best_clip(lengths: Lengths, errors: ClipErrors, shortest: float = 0.0) -> Clip:
    """Choose where to clip, not below `shortest`, and up to which length to measure what is lost.

    All pairs of both are tried; the pair of least variance is taken.
    """
    most_doublings = len(lengths.users) - 1
    doublings = np.arange(most_doublings * _STEPS + 1) / _STEPS
    squares = np.unique(np.maximum(lengths.base * 2**doublings, shortest))
    candidates = []
    for square in squares.tolist():
        ends = np.unique(np.maximum(lengths.ends, square))
        variances = errors.variances(lengths, square, ends)
        best = int(np.argmin(variances))
        candidates.append((float(variances[best]), square, ends[[best]]))
    _, square, longest = min(candidates, key=itemgetter(0))
    return _clip_at(lengths, errors, square, longest)


def _clip_at(lengths: Lengths, errors: ClipErrors, square: float, longest: Floats) -> Clip:
    """Return the clip at this square, with what is lost there; `longest` is an array of one length."""
    [share_error] = errors.of_share(lengths, square, longest)
    [lost] = most_lost(square, longest)
    [beyond] = lengths.beyond(square, longest)
    [end] = longest.tolist()
    groups = np.clip(_SHARE_ERROR / max(float(share_error), _TINY), 1, MOST_GROUPS)
    unseen = float(lengths.users @ beyond)
    unseen_error = float(np.linalg.norm(lengths.errors * beyond))
    return Clip(square, end, float(lost), int(groups), unseen, unseen_error)

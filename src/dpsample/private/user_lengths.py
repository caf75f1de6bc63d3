"""How long users' vectors are, and where to clip them: all of it follows from one noisy histogram.

Row b of the histogram has the users whose squared length is up to ``base 2**b``, and above that of the row before. Rows
of many users are told from their noise; the few longest users are not, although they may have a large part of all
pairs. So the histogram is not cut off where noise begins. What lies beyond is estimated, with an error, and where to
clip, and up to which length losses are measured, is chosen so that all errors together are small (docs/theory.md,
section 10).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsample.accounting.discovery import cleaned
from dpsample.private.user_vectors import Clip, most_lost, unevenness
from dpsample.scheme.sampling import Floats, Ints

GROUPS = 6  # of keys, at most, for which the share that was clipped is measured
_SHARE_ERROR = 0.02  # of these shares: with less noise, there are more groups
_MIDDLE = 0.75  # of the largest squared length of a row: about the mean of the row
_DECLINE = 0.5  # of users from one row to the next, where they cannot be told from noise
_FIRST = 2.0  # deviations of noise: as many users may well be in the first row that is not told from it
_STEPS = 4  # between a length and its double, of those at which to clip


@dataclass(frozen=True, eq=False)
class Lengths:
    """Estimated numbers of users by squared length, with the error of each number."""

    base: float
    users: Floats
    errors: Floats
    seen: int  # rows up to the last that can be told from noise

    @classmethod
    def of(cls, base: float, noisy: Ints, deviation: float) -> "Lengths":
        """Estimate the numbers of users from a histogram with normal noise of this deviation."""
        seen = cleaned(noisy.tolist(), deviation)
        users, errors = np.zeros(len(noisy)), np.full(len(noisy), deviation)
        users[: len(seen)] = seen
        mean = max(_DECLINE * users[len(seen) - 1], _FIRST * deviation)
        for row in range(len(seen), len(noisy)):
            users[row], errors[row] = few_users(float(noisy[row]), deviation, mean)
            mean = _DECLINE * users[row]
        return cls(base, users, errors, len(seen))

    @cached_property
    def middles(self) -> Floats:
        """The squared length of users of each row, about; those of the first row are as short as can be."""
        return np.maximum(_MIDDLE * self.ends, self.base)

    @property
    def ends(self) -> Floats:
        """The largest squared length of each row."""
        return self.base * 2.0 ** np.arange(len(self.users))

    @cached_property
    def total(self) -> float:
        """The sum of squared lengths over all users."""
        return max(float(self.users @ self.middles), self.base)

    def lost(self, square: float) -> float:
        """The share of `total` that clipping at `square` takes away."""
        return float(self.users @ self._lost_each(square)) / self.total

    def unseen(self, square: float, longest: float) -> tuple[float, float]:
        """What users lose beyond `most_lost`, in all, and its error: they lose as much more as they are longer."""
        beyond = np.maximum(self._lost_each(square) - most_lost(square, longest), 0.0)
        return float(self.users @ beyond), float(np.linalg.norm(self.errors * beyond))

    def _lost_each(self, square: float) -> Floats:
        """What a user of each row loses."""
        shares: Floats = np.maximum(0, 1 - np.sqrt(square / self.middles))
        return self.middles * shares


def few_users(noisy: float, deviation: float, mean: float) -> tuple[float, float]:
    """Return the mean and the deviation of a number of users, given what it is with normal noise.

    Before, it is thought to be exponential with this mean. Then it is normal, around ``noisy - deviation**2 / mean``,
    and cut off at 0.

    >>> [round(value, 2) for value in few_users(50.0, 10.0, 1000.0)]  # far above the noise: as it is
    [49.9, 10.0]
    >>> [round(value, 2) for value in few_users(0.0, 10.0, 1.0)]  # below it: as was thought
    [0.98, 0.96]
    """
    from_zero = (noisy - deviation**2 / mean) / deviation
    hazard = _hazard(-from_zero)
    expected = from_zero + hazard
    variance = max(1 - hazard * expected, 0.0)
    return deviation * expected, deviation * math.sqrt(variance)


def _hazard(x: float) -> float:
    """The density of the normal law at x over the probability of more than x."""
    if x > 30:  # both are too small for floating point
        return x + 1 / x - 2 / x**3
    return math.sqrt(2 / math.pi) * math.exp(-(x**2) / 2) / math.erfc(x / math.sqrt(2))


@dataclass(frozen=True)
class ClipErrors:
    """What clipping costs: relative errors of a typical key's number, but for the share that it loses.

    `noise` is the variance for a squared length of 1, `own` the squared length of keys that are never clipped, and
    `lost` the deviation of the noise of what was lost, if one user loses up to 1.
    """

    noise: float
    own: float
    lost: float

    def variance(self, lengths: Lengths, square: float, longest: float) -> float:
        """The relative variance of a number of users that is clipped at `square`, and put back."""
        share = lengths.lost(square)
        noise = (square + self.own) * self.noise
        measured = self.share(lengths, square, longest)
        unseen = lengths.unseen(square, longest)[1] / lengths.total
        return (noise + unevenness(share) ** 2 + measured**2 + unseen**2) / (1 - share) ** 2

    def share(self, lengths: Lengths, square: float, longest: float) -> float:
        """The error of the share that was clipped, if it is measured for all keys together."""
        return most_lost(square, longest) * self.lost / lengths.total


def best_clip(lengths: Lengths, errors: ClipErrors, shortest: float = 0.0) -> Clip:
    """Choose where to clip, not below `shortest`, and up to which length to measure what is lost."""
    rows = len(lengths.users)
    squares = lengths.base * 2 ** np.arange(0, rows - 1 + 1 / _STEPS, 1 / _STEPS)
    squares = np.unique(np.maximum(squares, shortest))
    options = [(float(square), float(end)) for square in squares for end in lengths.ends if end >= square]
    options = options or [(shortest, shortest)]
    square, longest = min(options, key=lambda option: errors.variance(lengths, *option))
    share_error = errors.share(lengths, square, longest)
    groups = int(np.clip(_SHARE_ERROR / max(share_error, 1e-9), 1, GROUPS))
    beyond, its_error = lengths.unseen(square, longest)
    return Clip(square, longest, most_lost(square, longest), groups, beyond, its_error)

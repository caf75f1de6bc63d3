"""How many of the reported keys users have, by a noisy histogram; it decides how far users count in later parts.

Nothing here is private any more: all of it follows from the histogram that was published as *keys per user*.
"""

from dataclasses import dataclass

import numpy as np

from dpsample.scheme.sampling import Floats

# the mean number of keys in a row of the histogram, as a part of its largest: row b is from 2**(b - 1) + 1 to 2**b
_MIDDLE = 0.75
# largest share of pairs that may be counted less than fully in what amounts have beyond their clip; with a smaller one
# users count fully with more keys, and the noise is larger
_LESS_THAN_FULLY = 0.15
# users with many keys are taken to have this many times as much beyond the clip of each key as others: with 1, wide
# intervals held 80 % where amounts grow with the root of the number of keys (benchmarks/clips.py)
_MORE = 8
_TINY = 1e-300  # in place of 0 pairs, to divide by


@dataclass(frozen=True)
class FewKeys:
    """The largest number of keys with which a user counts fully in what is beyond a clip (K' of theory, section 10).

    The other fields are numbers of pairs of a user and a key, by the noisy histogram of keys per user.

    most     the largest number of keys with which a user counts fully
    given    all pairs
    short    the pairs of users with up to `most` keys
    counted  the pairs that count, if users with more keys count with `most` keys each
    """

    most: float
    given: float
    short: float
    counted: float

    @classmethod
    def of(cls, users: Floats, sizes: Floats, most: float) -> "FewKeys":
        """Return the pairs of a histogram: `users[row]` users have `sizes[row]` keys each."""
        pairs = users * sizes
        short = pairs[sizes <= most]
        counted = users * np.minimum(sizes, most)
        return cls(most, float(pairs.sum()), float(short.sum()), float(counted.sum()))

    def uncounted(self, pairs: float) -> float:
        """Return the share of what is beyond a clip that is not counted: 8 (T - T2) / (T + 7 (T - T1)) of theory.

        `pairs`, by the sum of all counts, has the pairs of users who are too few to stand out from the noise of the
        histogram. Nothing measures whether users with many keys have more beyond the clip of each key: they are taken
        to have `_MORE` times as much.
        """
        whole = max(pairs, self.given, _TINY)
        long = whole - self.short
        not_counted = whole - self.counted
        return _MORE * not_counted / (whole + (_MORE - 1) * long)


@dataclass(frozen=True, eq=False)
class KeysPerUser:
    """Estimated numbers of users by their number of keys: those in row b have about ``0.75 * 2**b`` keys each."""

    users: Floats

    @property
    def sizes(self) -> Floats:
        """The number of keys of a user in each row."""
        largest = 2.0 ** np.arange(len(self.users))
        sizes: Floats = np.maximum(_MIDDLE * largest, 1).astype(np.float64)
        return sizes

    @property
    def pairs(self) -> float:
        """The number of pairs of a user and a key, at least 1."""
        return max(float(self.users @ self.sizes), 1.0)

    @property
    def _choices(self) -> list[float]:
        """Numbers of keys to choose from: powers of the root of 2, up to the last row."""
        exponents = np.arange(0, len(self.users) - 0.5, 0.5)
        choices: list[float] = (2**exponents).tolist()
        return choices

    def share_taken(self, most: float) -> float:
        """Return the share of all pairs that is lost if users with more than `most` keys are scaled down to it."""
        lost_share = np.maximum(0, 1 - np.sqrt(most / self.sizes))
        lost_pairs = self.users @ (self.sizes * lost_share)
        return float(lost_pairs) / self.pairs

    def clip(self, typical: float, deviation: float) -> float:
        """Choose K of docs/theory.md, section 10: with how many keys a user counts fully in the first counts.

        `typical` is the number of users of a typical key, and `deviation` that of the noise for a user with one key. K
        is half of the number of keys at which the noise and what clipping takes are smallest together: much of what
        clipping takes is common to all keys, and does not matter for weights.
        """

        def squared_error(most: float) -> float:
            noise = most * deviation**2
            taken = self.share_taken(most) * typical
            return noise + taken**2

        best = min(self._choices, key=squared_error)
        return max(best / 2, 1.0)

    def few(self) -> FewKeys:
        """Choose the number of keys beyond which users have a small share of all pairs."""
        for most in self._choices:
            beyond = self.users @ np.maximum(self.sizes - most, 0)
            if beyond <= _LESS_THAN_FULLY * self.pairs:
                break
        return FewKeys.of(self.users, self.sizes, most)

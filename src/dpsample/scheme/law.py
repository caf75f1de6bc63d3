"""Law: what is published of one key, by its frequency. What all implementations have, and what they inherit.

A `PerKeyMethod` is what each key has of a user's privacy, if that is not an (epsilon, delta). It says with which law a
sampling scheme goes together:

    per key            law
    Privacy            reporting.Reporting         pi by growing and shrinking, tokens by the tail map
    KeyNoise           noise.NoiseReporting        tokens are frequencies less bounded noise
    RenyiSteps         renyi_steps.RenyiReporting  keys only
    ComposedSteps      composed_steps.ComposedReporting  keys only, beside Gaussian noise on other numbers
    Privacy, a stream  held.HeldReporting          tokens are counts less bounded noise
    any, with a seed   coordinated.MixedReporting  a mixture over the seed: nothing is drawn from it
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from dpsample.exact import MAX_FREQUENCY
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, Sampling

if TYPE_CHECKING:
    from dpsample.scheme.per_key import PerKey

ROWS_AT_ONCE = (
    1 << 15
)  # boundaries times frequencies that are advanced at once: what fits a core's cache
_LARGEST_EXPONENT = 64.0  # epsilon counts up to here in floats: exp of it is far from overflow, and nothing is private


class PerKeyMethod(ABC):
    """What each key of a user has, if that is no (epsilon, delta): a value that releases state."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def steps(self) -> float:
        """The number of steps that pi needs from 0 to one half."""

    @abstractmethod
    def reporting(self, sampling: Sampling) -> "Law":
        """Return the law of a key with a sampling scheme."""

    def strided(self, k: int) -> "PerKey | None":
        """Return the method as it looks at every k-th frequency, for predictions; None if that is no such method."""
        return None

    @abstractmethod
    def claim(self, sampling: Sampling) -> str:
        """Return what a certificate says of the law of one key."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""


class Law(ABC):
    """The probability pi with which a key of each frequency is reported, and the law of its token, end to end.

    A token of frequency i lies at x = i - k/grid, k = 0, 1, ...; S_i(x) is the probability of a token above x.
    """

    sampling: Sampling
    per_key: "PerKey"
    # of laws that keys are drawn from, in integers over 2**bits
    bits: int
    one: int
    delta: int  # the step from 0
    binding: Ints  # the frequencies at which privacy binds
    bell_shaped: bool = (
        False  # whether noise has another shape at each frequency, where pi is small
    )

    @abstractmethod
    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:
        """Pi (or 1 - pi) as floats: never above the optimum (below, for 1 - pi)."""

    @property
    @abstractmethod
    def constant_from(self) -> int:
        """The smallest frequency from which on pi is constant; one above the largest, if there is none."""

    def pi(self, i: int) -> int:
        """Pi_i over 2**bits, rounded down."""
        raise NotImplementedError  # of laws that have no integers of their own, for which nobody asks this

    def advance(self, pi: int) -> int:
        """Return the largest pi that privacy allows for the next frequency, rounded down."""
        raise NotImplementedError

    @abstractmethod
    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Pi of consecutive frequencies but the first, and what its growth leaves unused: 0 where tokens look alike."""

    @abstractmethod
    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:
        """S and the gap to pi at x = i - k/grid, up to where all have reached pi: arrays of shape (k, frequency)."""

    @abstractmethod
    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:
        """The probability of each token, k rows after its first, and of all above it: shape (k, tokens)."""

    def locate(self, frequencies: Ints, v: Floats, grid: int) -> tuple[Ints, Floats, Floats]:
        """Return the token of each key whose boundaries enclose v, and these; see `invert`."""
        raise NotImplementedError

    def integer_tails(self, frequency: int) -> tuple[int, ...]:
        """Return the cut points of an `IntegerLaw`, of laws that do not follow from pi."""
        raise NotImplementedError

    @property
    def support(self) -> int:
        """The number of rows after which nothing, or next to nothing, is left of a token."""
        return support_length(self.per_key)

    @property
    def steady_from(self) -> int:
        """The frequency from which on all rows are shifts of one another."""
        return min(self.constant_from + self.support, MAX_FREQUENCY)

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return pi / q, the probability that a sampled key is reported."""
        q = self.sampling.q(frequencies)
        return np.divide(self.probabilities(frequencies), q, out=np.zeros_like(q), where=q > 0)

    def boundaries(self, frequencies: Ints, grid: int) -> Iterator[tuple[int, Floats]]:
        """Yield for each of the ascending frequencies S_i at x = i, i - 1/grid, ... up to where it reaches pi_i."""
        window = support_length(self.per_key)
        size = max(1, ROWS_AT_ONCE // (window * grid))
        for start in range(0, len(frequencies), size):
            block = frequencies[start : start + size]
            above, gap = self.tails(block, grid)
            for n, i in enumerate(block.tolist()):
                reached = int(np.count_nonzero(gap[:, n]))
                yield i, above[: reached + 1, n]


def steps_to_one(privacy: "PerKey") -> float:
    """L of the paper: about half the number of steps that pi needs from 0 to 1.

    ``L = ln((E - 1 + 2 delta) / (delta (E + 1))) / epsilon``

    >>> round(steps_to_one(Privacy(0.1, 1e-6)), 2)
    108.19
    """
    if not isinstance(privacy, Privacy):
        return privacy.steps
    epsilon, delta = min(float(privacy.epsilon), _LARGEST_EXPONENT), float(privacy.delta)
    return (
        math.log1p(math.expm1(epsilon) * (1 - delta) / (delta * (math.exp(epsilon) + 1))) / epsilon
    )


def support_length(privacy: "PerKey") -> int:
    """Return how long the support of a token is at most once pi is constant, and nearly always.

    Computations check it. `lemma.support_bound` always holds.
    """
    return 2 * math.ceil(max(steps_to_one(privacy), 0)) + 4


@overload
def first_frequency(cells: int, grid: int) -> int: ...
@overload
def first_frequency(cells: Ints, grid: int) -> Ints: ...
def first_frequency(cells: int | Ints, grid: int) -> int | Ints:
    """Return the first frequency at which a token, in units of 1/grid, has positive probability: it is rounded up.

    >>> [first_frequency(cell, 4) for cell in (1, 4, 5)]
    [1, 1, 2]
    """
    return -(-cells // grid)

"""Law: what is published of one key, by its frequency; the interface of all implementations, and what they inherit.

The law follows from the sampling scheme and from what each key has of the privacy: an (epsilon, delta), or a
`PerKeyMethod` where a user has several keys. `Reporting.of` finds it:

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

# boundaries times frequencies that are advanced at once: they fit a core's cache
ROWS_AT_ONCE = 1 << 15
# more counts as this: exp of it is far from overflow, and nothing is private any more
_LARGEST_EPSILON = 64.0


class PerKeyMethod(ABC):
    """What each key of a user has of the privacy, if that is no (epsilon, delta): a value that releases state."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def steps(self) -> float:
        """The number of steps that pi needs from 0 to one half."""

    @abstractmethod
    def reporting(self, sampling: Sampling) -> "Law":
        """Return the law of a key with a sampling scheme."""

    def strided(self, k: int) -> "PerKey | None":
        """Return the method at every k-th frequency, for predictions (`coarsening`); None if there is none."""
        return None

    @abstractmethod
    def claim(self, sampling: Sampling) -> str:
        """Return the sentence in which a certificate states the law of one key."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""


class Law(ABC):
    """The probability pi with which a key of each frequency is reported, and the law of its token, end to end.

    A token of frequency i lies at x = i - k/grid, k = 0, 1, ...; S_i(x) is the probability of a token above x.
    """

    sampling: Sampling
    per_key: "PerKey"
    # a law that keys are drawn from has pi in integers over one = 2**bits; a mixture has none
    bits: int
    one: int
    delta: int  # pi of frequency 1 where q is 1: the step from 0
    binding: Ints  # the frequencies at which privacy binds
    # true of bounded noise: each frequency has another token law, also where pi is small, and no values of tokens tell
    # such keys from those at the threshold
    bell_shaped: bool = False

    @abstractmethod
    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:
        """Return pi (or 1 - pi) as floats: never above the optimum (below, for 1 - pi)."""

    @property
    @abstractmethod
    def constant_from(self) -> int:
        """The smallest frequency after which pi stays the same; one above the largest, if there is none."""

    def pi(self, i: int) -> int:
        """pi_i over 2**bits, rounded down."""
        raise NotImplementedError  # a mixture has no integers

    def advance(self, pi: int) -> int:
        """Return the largest pi that privacy allows for the next frequency, rounded down."""
        raise NotImplementedError

    @abstractmethod
    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return pi of consecutive frequencies but the first, and how much more `grow` of `reporting` would allow.

        Where nothing is unused, tokens do not tell neighbouring frequencies apart.
        """

    @abstractmethod
    def tails(self, frequencies: Ints, grid: int) -> tuple[Floats, Floats]:
        """Return S and the gap to pi at x = i - k/grid, k up to where all have reached pi: shape (k, frequency)."""

    @abstractmethod
    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:
        """Return the probability of each token, k rows after its first, and of all above it: shape (k, tokens).

        `cells` are ascending tokens in units of 1/grid, and k goes from 0 to `window` or beyond.
        """

    def locate(self, frequencies: Ints, v: Floats, grid: int) -> tuple[Ints, Floats, Floats]:
        """Return for each key the token, in units of 1/grid, whose boundaries enclose v, and these boundaries.

        The boundaries are S above the token, and S above the next lower one. v is uniform in [0, q_i), end to end, and
        below pi_i. A v that does not lie between the boundaries that are returned was too close to one of them for
        float arithmetic; the caller decides it exactly.
        """
        raise NotImplementedError  # nothing is drawn from a mixture

    def integer_tails(self, frequency: int) -> tuple[int, ...]:
        """Return the cut points of an `IntegerLaw`."""
        raise NotImplementedError  # those of `Reporting` follow from pi: `integer.advance`

    @property
    def support(self) -> int:
        """The number of rows after which nothing, or next to nothing, is left of a token."""
        return support_length(self.per_key)

    @property
    def steady_from(self) -> int:
        """The frequency after which all rows are shifts of this one's."""
        return min(self.constant_from + self.support, MAX_FREQUENCY)

    def reported_share(self, frequencies: Ints) -> Floats:
        """Return pi / q, the probability that a sampled key is reported; 0 where none is sampled."""
        pi = self.probabilities(frequencies)
        q = self.sampling.q(frequencies)
        return np.divide(pi, q, out=np.zeros_like(q), where=q > 0)

    def boundaries(self, frequencies: Ints, grid: int) -> Iterator[tuple[int, Floats]]:
        """Yield each of the ascending frequencies with S_i at x = i, i - 1/grid, ..., up to where it reaches pi_i."""
        window = support_length(self.per_key)
        at_once = max(1, ROWS_AT_ONCE // (window * grid))
        for start in range(0, len(frequencies), at_once):
            block = frequencies[start : start + at_once]
            above, gap = self.tails(block, grid)
            not_reached = np.count_nonzero(gap, axis=0).tolist()
            for n, i in enumerate(block.tolist()):
                yield i, above[: not_reached[n] + 1, n]


def steps_to_one(privacy: "PerKey") -> float:
    """Return L of the paper, section 3.1: about half the number of steps that pi needs from 0 to 1.

    ``L = ln((E - 1 + 2 delta) / (delta (E + 1))) / epsilon``

    >>> round(steps_to_one(Privacy(0.1, 1e-6)), 2)
    108.19
    """
    if not isinstance(privacy, Privacy):
        return privacy.steps
    epsilon = min(float(privacy.epsilon), _LARGEST_EPSILON)
    delta = float(privacy.delta)
    E = math.exp(epsilon)
    # the quotient less 1, which may be close to 0
    excess = math.expm1(epsilon) * (1 - delta) / (delta * (E + 1))
    return math.log1p(excess) / epsilon


def support_length(privacy: "PerKey") -> int:
    """Return a number of rows that the support of a token does not exceed once pi is constant, and rarely before.

    It is twice L, rounded up, and 4 more (docs/theory.md, section 4). Computations check it, and go on where it is too
    short; `lemma.support_bound` is one that always holds.
    """
    L = max(steps_to_one(privacy), 0)
    return 2 * math.ceil(L) + 4


@overload
def first_frequency(cells: int, grid: int) -> int: ...
@overload
def first_frequency(cells: Ints, grid: int) -> Ints: ...
def first_frequency(cells: int | Ints, grid: int) -> int | Ints:
    """Return the first frequency at which a token has positive probability: the token, in units of 1/grid, rounded up.

    >>> [first_frequency(cell, 4) for cell in (1, 4, 5)]
    [1, 1, 2]
    """
    return -(-cells // grid)

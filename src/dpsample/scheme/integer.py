"""The integer form of the token laws, which a sanitizer draws from and a certificate checks.

Row i is a list of cut points over ``2**bits``. Given that a key of frequency i was sampled, draw an integer
v uniformly below 2**bits: the key gets the highest token whose cut lies above v, and is not reported if
none does. Drawing is integer comparison, and every probability an exact rational number.

The rows follow the tail map (`tail_map`) in integers, end to end, rounded toward privacy: "The integers" of
docs/theory.md, section 5. A cut is then divided by an upper bound of q_i. It depends on the first frequency of its
token and on pi alone, so it is the same number wherever a computation starts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Sampling
from dpsample.scheme.tokens import check_grid, chosen_grid, support_length


@dataclass(frozen=True)
class IntegerLaw:
    """The token of a *sampled* key of one frequency, in integers; along a stream, of a held key of one count.

    ``cuts[k] / 2**bits`` is the probability of one of the k + 1 highest tokens, which are, in units of 1/grid,
    ``frequency * grid``, ``frequency * grid - 1`` and so on.
    """

    frequency: int
    grid: int
    bits: int
    cuts: tuple[int, ...]

    def token(self, v: int) -> Fraction | None:
        """Return the token drawn by the integer v, 0 <= v < 2**bits; None if the key is not reported.

        >>> from dpsample import KeepAll, Privacy
        >>> law = integer_law(3, KeepAll(), Privacy(1, 0.01), grid=1)
        >>> law.token(0), law.token(2**law.bits // 20), law.token(2**law.bits // 2)
        (Fraction(3, 1), Fraction(1, 1), None)
        """
        k = bisect_right(self.cuts, v)
        if k == len(self.cuts):
            return None
        return Fraction(self.frequency * self.grid - k, self.grid)

    @property
    def probabilities(self) -> list[Fraction]:
        """The exact probability of each token given that the key was sampled, highest token first."""
        one = 1 << self.bits
        from_zero = (0, *self.cuts)
        return [Fraction(cut - before, one) for before, cut in pairwise(from_zero)]

    @property
    def reported(self) -> Fraction:
        """The exact probability of being reported, given that the key was sampled."""
        return Fraction(self.cuts[-1], 1 << self.bits)


def integer_law(
    frequency: int, sampling: Sampling, privacy: PerKey, grid: int | None = None
) -> IntegerLaw:
    """Return the integer law of one frequency; it costs the same at any frequency.

    >>> from dpsample import KeepAll, Privacy
    >>> law = integer_law(3, KeepAll(), Privacy(1, 0.01), grid=1)
    >>> [round(float(p), 4) for p in law.probabilities]
    [0.01, 0.0272, 0.0739]
    """
    return next(integer_laws(frequency, sampling, privacy, grid))


def integer_laws(
    first: int, sampling: Sampling, privacy: PerKey, grid: int | None = None
) -> Iterator[IntegerLaw]:
    """Yield the integer laws of consecutive frequencies from `first` on; each costs only one step."""
    is_integer = isinstance(first, int | np.integer) and not isinstance(first, bool)
    if not is_integer or first < 1:
        raise InvalidValue(
            "the frequency of a sampled key must be an integer of at least 1", "count its elements"
        )
    i = int(first)
    grid = chosen_grid(grid, privacy, i, sampling)
    reporting = Reporting.of(sampling, privacy)
    if not isinstance(reporting, Reporting):
        for frequency in count(i):
            yield IntegerLaw(frequency, 1, reporting.bits, reporting.integer_tails(frequency))
        return
    tails = _row(i, reporting, grid)
    while True:
        _, q_above = sampling.bounds(i, reporting.bits)
        cuts = tuple((tail << reporting.bits) // max(q_above, 1) for tail in tails[1:])
        yield IntegerLaw(i, grid, reporting.bits, cuts)
        i += 1
        check_grid(grid, i)
        tails = advance(tails, i, reporting, grid)


def _row(i: int, reporting: Reporting, grid: int) -> list[int]:
    """Return row i, as `advance` does, from as many rows before it as it depends on."""
    window = support_length(reporting.per_key)
    while True:
        first = max(i - window, 0)
        tails = [0]
        for row in range(first + 1, i + 1):
            tails = advance(tails, row, reporting, grid)
        if tails[-1] == reporting.pi(i):  # the support of everything older has ended
            return tails
        window *= 2


def advance(tails: list[int], i: int, reporting: Reporting, grid: int) -> list[int]:
    """Return row i from row i - 1: S at x = i, i - 1/grid, ..., ascending, up to the first that has reached pi_i.

    These are grow(t), shrink(t) and M(t) of docs/theory.md, section 5, cut off at pi_i.
    """
    before = reporting.pi(i - 1)
    pi = reporting.pi(i)
    one = reporting.one
    delta = reporting.delta
    E = reporting.E
    shift = reporting.ratio_bits

    def divided(n: int) -> int:
        """Return n / E, rounded down."""
        return n * reporting.inverse >> shift

    # `shrink` divides the gap to `top`, less delta, by E. The gap is measured from 1 (case A) or from pi (case B)
    is_case_A = one - pi < divided(one - before - delta) + divided(delta)
    start = one - delta if is_case_A else before - delta
    top = one - 1 if is_case_A else pi - 1

    # up to the tail s, growing is the smaller term
    s = ((top - delta - divided(start)) << shift) // (E - reporting.inverse)
    growing = bisect_right(tails, s)
    grown = [(E * t >> shift) + delta for t in tails[:growing]]
    shrunk = [top - divided(start - t) for t in tails[growing:]]
    advanced = grown + shrunk

    below_pi = bisect_left(advanced, pi)
    if below_pi < len(advanced):
        advanced = [*advanced[:below_pi], pi]
    new_mass = min(delta, pi)
    new = [k * new_mass // grid for k in range(grid)]
    return new + advanced

"""Token laws: with what a key of frequency i is reported. One local map, the tail map.

Let ``S_i(x)`` be the probability that a key of frequency i is reported with a token above x, and
``gap_i(x) = pi_i - S_i(x)`` that it is reported with one of at most x. Tokens in (i-1, i] are new
in row i, with mass min(delta, pi_i) spread evenly; for older ones, x <= i-1,

    S_i   = min(pi_i, E S_{i-1} + delta, S_{i-1} / E + d_i)
    gap_i = max(0,    E gap_{i-1} - a_i, gap_{i-1} / E - c_i)

    a_i = E pi_{i-1} + delta - pi_i                              what `grow` leaves unused at i
    c_i = min(delta / E, 1 - pi_i - (1 - pi_{i-1} - delta) / E)  the same for `shrink`
    d_i = pi_i - pi_{i-1} / E + c_i

Both lines are the same map. S always keeps its relative precision. The gap does where it shrinks, which begins at
E gap = S; before that it is pi_i - S_i. At integers x this is Algorithm 4 of the paper, at all real x Algorithm 5, the
optimum (corrected); a grid of 1/grid steps is a coarsening of the latter. The support of a token is
about 2 L rows long, so a row needs only that many rows before it, wherever it is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.privacy import Privacy
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.noise import NoiseReporting
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import OwnLaws, Reporting, steps_to_one
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies

MAX_GRID = 1024  # loses less than 1e-7 of concordance; tokens of a finer one are too many for the integers' margin
_BLOCK = 1 << 15  # boundaries times frequencies that are advanced at once: what fits a core's cache


@dataclass(frozen=True, eq=False)
class TokenLaw:
    """What a key of one frequency is reported with, end to end (sampling included).

    `cells` are the tokens in units of 1/grid, ascending; `probabilities` go with them, and
    `not_reported` is the rest.
    """

    frequency: int
    grid: int
    cells: Ints
    probabilities: Floats
    not_reported: float

    @property
    def tokens(self) -> NDArray[np.int64] | Floats:
        """The tokens: integers for grid 1, else multiples of 1/grid as floats."""
        return self.cells if self.grid == 1 else self.cells / self.grid

    @cached_property
    def reported(self) -> float:
        """pi, the probability of being reported with any token."""
        return float(self.probabilities.sum())


def default_grid(privacy: PerKey) -> int:
    """Return the grid that loses less than 1e-3 of concordance against the optimum: the power of two from 16 epsilon.

    Tokens are spread over about 1 / epsilon, so the step follows epsilon, and a row costs about the same for each.

    >>> [default_grid(Privacy(epsilon, 1e-6)) for epsilon in (0.01, 0.1, 0.5, 1, 2)]
    [1, 2, 8, 16, 32]
    """
    return min(1 << (math.ceil(16 * privacy.epsilon) - 1).bit_length(), 64) if isinstance(privacy, Privacy) else 1


def check_grid(grid: int, largest: int = 1) -> int:
    """Check that a grid is a power of two up to 1024, and that tokens up to `largest` fit an int64 in its units.

    Rounding costs each token a few units of the margin of 2**-50 delta, which pays for millions of tokens of a row.
    """
    whole = isinstance(grid, int | np.integer) and not isinstance(grid, bool)
    if not whole or not 1 <= grid <= MAX_GRID or grid & (grid - 1):
        raise InvalidValue(
            f"grid must be a power of two from 1 to {MAX_GRID}: a row of more tokens would cost more than the margin",
            repr(grid),
            "leave it out for one that fits epsilon",
        )
    if largest > MAX_FREQUENCY // int(grid):
        raise InvalidValue(
            f"with grid {grid} frequencies must be at most {MAX_FREQUENCY // int(grid)}",
            "a larger one",
            "use grid=1",
        )
    return int(grid)


def chosen_grid(grid: int | None, privacy: PerKey, largest: int = 1, sampling: Sampling | None = None) -> int:
    """Return the grid, checked; the default one if there is none. Bounded noise has whole tokens."""
    whole = isinstance(sampling, SampleAndHold) or not isinstance(privacy, Privacy)
    if grid not in (None, 1) and whole:
        raise InvalidValue("bounded noise has whole tokens", f"grid {grid!r}", "leave the grid out")
    if grid is None:
        grid = 1 if whole else default_grid(privacy)
    return check_grid(grid, largest)


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


def support_length(privacy: PerKey) -> int:
    """Return how long the support of a token is at most once pi is constant, and nearly always.

    Computations check it. `lemma.support_bound` always holds.
    """
    return 2 * math.ceil(max(steps_to_one(privacy), 0)) + 4


def steady_from(reporting: Reporting) -> int:
    """Return the frequency from which on all rows are shifts of one another."""
    return min(reporting.constant_from + _support(reporting), MAX_FREQUENCY)


def _support(reporting: Reporting) -> int:
    return reporting.support if isinstance(reporting, HeldReporting) else support_length(reporting.per_key)


def token_law(frequency: int, sampling: Sampling, privacy: PerKey, grid: int = 1) -> TokenLaw:
    """Return the law of the token of one frequency; it costs the same at any frequency.

    >>> from dpsample import KeepAll, Privacy
    >>> law = token_law(3, KeepAll(), Privacy(1, 0.01))
    >>> law.tokens, law.probabilities.round(4), round(law.not_reported, 4)
    (array([1, 2, 3]), array([0.0739, 0.0272, 0.01  ]), 0.8889)
    """
    if np.ndim(frequency):
        raise InvalidValue("token_law takes one frequency", "several", "use token_laws")
    return next(token_laws([frequency], sampling, privacy, grid))


def token_laws(frequencies: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1) -> Iterator[TokenLaw]:
    """Yield the laws of many frequencies, in the order given; best if they are distinct.

    They are computed a block at a time, without the rows in between, so memory depends neither on how many
    there are nor on how large they are.

    >>> from dpsample import Ppswor, Privacy
    >>> laws = token_laws([10**12, 5], Ppswor(tau=1e-3), Privacy(0.1, 1e-6))
    >>> [(law.frequency, len(law.tokens)) for law in laws]
    [(1000000000000, 218), (5, 5)]
    """
    flat = as_frequencies(frequencies).reshape(-1)
    grid = check_grid(grid, int(flat.max(initial=0)))
    reporting = Reporting.of(sampling, privacy)
    window = _support(reporting)
    steady = steady_from(reporting)
    template: TokenLaw | None = None
    start = 0
    while start < flat.size:
        block = flat[start : start + max(1, _BLOCK // (window * grid))]
        start += block.size
        walked, place = np.unique(np.minimum(block, steady), return_inverse=True)
        if walked[-1] == steady and template is not None:
            walked = walked[:-1]
        laws = list(_laws(walked, reporting, grid)) if walked.size else []
        if laws and laws[-1].frequency == steady:
            template = laws[-1]
        for i, at in zip(block.tolist(), place.tolist(), strict=True):
            law = laws[at] if at < len(laws) else template
            assert law is not None
            yield law if law.frequency == i else _shifted(law, i)


def _shifted(law: TokenLaw, frequency: int) -> TokenLaw:
    by = (frequency - law.frequency) * law.grid
    return TokenLaw(frequency, law.grid, law.cells + by, law.probabilities, law.not_reported)


def tails(frequencies: Ints, reporting: Reporting, grid: int) -> Iterator[tuple[int, Floats]]:
    """Yield for each of the ascending frequencies S_i at x = i, i - 1/grid, ... up to where it reaches pi_i."""
    if isinstance(reporting, NoiseReporting):
        yield from ((i, reporting.boundaries(i)) for i in frequencies.tolist())
        return
    window = support_length(reporting.per_key)
    size = max(1, _BLOCK // (window * grid))
    for start in range(0, len(frequencies), size):
        block = frequencies[start : start + size]
        above, gap = whole_tails(block, reporting, grid)
        for n, i in enumerate(block.tolist()):
            yield i, above[: int(np.count_nonzero(gap[:, n])) + 1, n]


def whole_tails(frequencies: Ints, reporting: Reporting, grid: int) -> tuple[Floats, Floats]:
    """Return S and the gap to pi at x = i - k/grid, up to where all have reached pi: arrays of shape (k, frequency)."""
    if isinstance(reporting, OwnLaws):
        return reporting.tails(frequencies, grid)
    window = support_length(reporting.per_key)
    while True:
        above, gap = _tails(frequencies, reporting, grid, window)
        if not gap[-1].any():  # the oldest boundary has reached pi everywhere, so all older ones have
            return above, gap
        window *= 2


def cell_masses(above: Floats, gap: Floats) -> Floats:
    """Return the probabilities of cells from S and the gap at their boundaries: shape (k, frequency).

    Boundary k is at x = frequency - k / grid; between k and k + 1 lies the cell frequency * grid - k.
    """
    return np.where(above[1:] <= gap[:-1], above[1:] - above[:-1], gap[:-1] - gap[1:])


def _laws(frequencies: Ints, reporting: Reporting, grid: int) -> Iterator[TokenLaw]:
    above, gap = whole_tails(frequencies, reporting, grid)
    masses = cell_masses(above, gap)
    absent = reporting.probabilities(frequencies, complement=True).tolist()
    for n, i in enumerate(frequencies.tolist()):
        highest = i * grid
        lowest = max(highest - len(masses), 0) + 1
        cells = np.arange(lowest, highest + 1, dtype=np.int64)
        mass = masses[: len(cells), n][::-1]
        positive = mass > 0
        yield TokenLaw(i, grid, cells[positive], mass[positive], absent[n])


def advance(S: Floats, reporting: Reporting, pi: Floats, d: Floats) -> Floats:
    """S one row later: ``min(pi, E S + delta, S / E + d)``.

    E S is computed as S + (E - 1) S, so that the rounding of E does not add up over the rows.
    """
    grown = S + (S * reporting.growth + float(reporting.privacy.delta))
    shrunk = reporting.stay * S - (S * reporting.rate - d)
    return np.minimum(np.minimum(grown, shrunk), pi)


def _tails(frequencies: Ints, reporting: Reporting, grid: int, window: int) -> tuple[Floats, Floats]:
    """S and gap at the boundaries x = frequency - k/grid: arrays of shape (k, frequency)."""
    delta, E = float(reporting.privacy.delta), reporting.growth + 1
    grow, rate = reporting.growth, reporting.rate
    above = np.zeros((window * grid + 1, frequencies.size))
    gap = np.zeros_like(above)
    spare, other = np.empty_like(above), np.empty_like(above)
    share = (np.arange(grid) / grid)[:, None]
    span = frequencies - np.arange(window, -1, -1, dtype=np.int64)[:, None]  # rows i - window .. i
    pi, a, c, d = reporting.slacks(np.maximum(span, 0))
    for step in range(window):
        back = window - 1 - step  # this row is i - back
        p = pi[step + 1]
        old = slice((back + 1) * grid, None)
        S, g, t, u = above[old], gap[old], spare[old], other[old]
        # as in `advance`, in place: S = min(p, E S + delta, S / E + d)
        np.multiply(S, rate, out=t)
        t -= d[step]
        np.subtract(S if reporting.stay else 0.0, t, out=t)
        np.multiply(S, grow, out=u)
        u += delta
        S += u
        np.minimum(S, t, out=S)
        np.minimum(S, p, out=S)
        # gap = max(0, E gap - a, gap / E - c)
        np.multiply(g, rate, out=t)
        t += c[step]
        np.subtract(g if reporting.stay else 0.0, t, out=t)
        np.multiply(g, grow, out=u)
        u -= a[step]
        g += u
        np.maximum(g, t, out=g)
        np.maximum(g, 0, out=g)
        np.subtract(p, S, out=t)
        np.multiply(t, E, out=u)
        np.copyto(g, t, where=u > S)
        new = slice(back * grid, (back + 1) * grid)
        above[new] = share * np.minimum(p, delta)
        gap[new] = p - above[new]
    return above, gap

"""Token laws: the token that a key of frequency i is reported with, in floats, for many frequencies.

With grid 1 they are pi_ij of Algorithm 4 of the paper, and with a finer grid Algorithm 5, discretized; `tail_map` has
the arithmetic. Rows from `Law.steady_from` on are shifts of one another, so one of them stands for all.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.privacy import Privacy
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.law import ROWS_AT_ONCE, Law
from dpsample.scheme.law import first_frequency as first_frequency
from dpsample.scheme.law import support_length as support_length
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tail_map import cell_masses

MAX_GRID = 1024  # loses less than 1e-7 of concordance; a finer one has too many tokens for the integers' margin
# of the grid, for each 1/epsilon of frequency: less than 1e-3 of concordance is lost
_DEFAULT_STEPS = 16
_LARGEST_DEFAULT_GRID = 64  # a finer one makes a release slower, and gains little


@dataclass(frozen=True, eq=False)
class TokenLaw:
    """The law of the token of a key of one frequency, end to end (sampling included).

    `cells` are the tokens in units of 1/grid, ascending, with their `probabilities`; `not_reported` is the probability
    of no token.
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
    Bounded noise and steps have whole tokens.

    >>> [default_grid(Privacy(epsilon, 1e-6)) for epsilon in (0.01, 0.1, 0.5, 1, 2)]
    [1, 2, 8, 16, 32]
    """
    if not isinstance(privacy, Privacy):
        return 1
    wanted = math.ceil(_DEFAULT_STEPS * privacy.epsilon)
    power_of_two = 1 << (wanted - 1).bit_length()
    return min(power_of_two, _LARGEST_DEFAULT_GRID)


def check_grid(grid: int, largest: int = 1) -> int:
    """Return the grid if it is a power of two up to 1024, and tokens up to `largest` fit an int64 in its units.

    Rounding costs each token a few units of the margin of 2**-50 delta, which pays for millions of tokens of a row.
    """
    is_integer = isinstance(grid, int | np.integer) and not isinstance(grid, bool)
    is_power_of_two = is_integer and 1 <= grid <= MAX_GRID and grid & (grid - 1) == 0
    if not is_power_of_two:
        raise InvalidValue(
            f"grid must be a power of two from 1 to {MAX_GRID}, not {grid!r}: more tokens cost more than the margin",
            "leave it out for one that fits epsilon",
        )
    largest_frequency = MAX_FREQUENCY // int(grid)
    if largest > largest_frequency:
        raise InvalidValue(
            f"with grid {grid} frequencies must be at most {largest_frequency}", "use `grid=1`"
        )
    return int(grid)


def chosen_grid(
    grid: int | None, privacy: PerKey, largest: int = 1, sampling: Sampling | None = None
) -> int:
    """Return the grid, checked for tokens up to `largest`; the default grid for None."""
    has_whole_tokens = isinstance(sampling, SampleAndHold) or not isinstance(privacy, Privacy)
    if grid not in (None, 1) and has_whole_tokens:
        raise InvalidValue(
            f"bounded noise has whole tokens, not those of grid {grid!r}", "leave the grid out"
        )
    if grid is None:
        grid = 1 if has_whole_tokens else default_grid(privacy)
    return check_grid(grid, largest)


def token_law(frequency: int, sampling: Sampling, privacy: PerKey, grid: int = 1) -> TokenLaw:
    """Return the law of the token of one frequency; it costs the same at any frequency.

    >>> from dpsample import KeepAll, Privacy
    >>> law = token_law(3, KeepAll(), Privacy(1, 0.01))
    >>> law.tokens, law.probabilities.round(4), round(law.not_reported, 4)
    (array([1, 2, 3]), array([0.0739, 0.0272, 0.01  ]), 0.8889)
    """
    if np.ndim(frequency):
        raise InvalidValue("token_law takes one frequency, not several", "use token_laws")
    return next(token_laws([frequency], sampling, privacy, grid))


def token_laws(
    frequencies: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1
) -> Iterator[TokenLaw]:
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
    steady = reporting.steady_from
    at_once = max(1, ROWS_AT_ONCE // (reporting.support * grid))
    steady_law: TokenLaw | None = None
    for start in range(0, flat.size, at_once):
        block = flat[start : start + at_once]
        # all frequencies after `steady` have its law, shifted
        distinct, place = np.unique(np.minimum(block, steady), return_inverse=True)
        if steady_law is not None:
            distinct = distinct[distinct < steady]
        laws = list(_laws(distinct, reporting, grid))
        if laws and laws[-1].frequency == steady:
            steady_law = laws[-1]
        for i, at in zip(block.tolist(), place.tolist(), strict=True):
            law = laws[at] if at < len(laws) else steady_law
            assert law is not None
            yield law if law.frequency == i else _shifted(law, i)


def _shifted(law: TokenLaw, frequency: int) -> TokenLaw:
    """Return the law of another frequency whose row is a shift of this one."""
    shift = (frequency - law.frequency) * law.grid
    return TokenLaw(frequency, law.grid, law.cells + shift, law.probabilities, law.not_reported)


def _laws(frequencies: Ints, reporting: Law, grid: int) -> Iterator[TokenLaw]:
    """Yield the laws of ascending frequencies, which are computed together."""
    if not frequencies.size:
        return
    above, gap = reporting.tails(frequencies, grid)
    masses = cell_masses(above, gap)
    absent = reporting.probabilities(frequencies, complement=True).tolist()
    for n, i in enumerate(frequencies.tolist()):
        highest = i * grid
        lowest = max(highest - len(masses), 0) + 1
        cells = np.arange(lowest, highest + 1, dtype=np.int64)
        mass = masses[: len(cells), n][::-1]  # masses go down from the highest cell
        positive = mass > 0
        yield TokenLaw(i, grid, cells[positive], mass[positive], absent[n])

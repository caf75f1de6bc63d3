"""Token laws: with what a key of frequency i is reported, in floats, for many frequencies."""

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

MAX_GRID = 1024  # loses less than 1e-7 of concordance; tokens of a finer one are too many for the integers' margin


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
    return (
        min(1 << (math.ceil(16 * privacy.epsilon) - 1).bit_length(), 64)
        if isinstance(privacy, Privacy)
        else 1
    )


def check_grid(grid: int, largest: int = 1) -> int:
    """Check that a grid is a power of two up to 1024, and that tokens up to `largest` fit an int64 in its units.

    Rounding costs each token a few units of the margin of 2**-50 delta, which pays for millions of tokens of a row.
    """
    whole = isinstance(grid, int | np.integer) and not isinstance(grid, bool)
    if not whole or not 1 <= grid <= MAX_GRID or grid & (grid - 1):
        raise InvalidValue(
            f"grid must be a power of two from 1 to {MAX_GRID}, not {grid!r}: more tokens cost more than the margin",
            "leave it out for one that fits epsilon",
        )
    if largest > MAX_FREQUENCY // int(grid):
        raise InvalidValue(
            f"with grid {grid} frequencies must be at most {MAX_FREQUENCY // int(grid)}",
            "use `grid=1`",
        )
    return int(grid)


def chosen_grid(
    grid: int | None, privacy: PerKey, largest: int = 1, sampling: Sampling | None = None
) -> int:
    """Return the grid, checked; the default one if there is none. Bounded noise has whole tokens."""
    whole = isinstance(sampling, SampleAndHold) or not isinstance(privacy, Privacy)
    if grid not in (None, 1) and whole:
        raise InvalidValue(
            f"bounded noise has whole tokens, not those of grid {grid!r}", "leave the grid out"
        )
    if grid is None:
        grid = 1 if whole else default_grid(privacy)
    return check_grid(grid, largest)


def steady_from(reporting: Law) -> int:
    """Return the frequency from which on all rows are shifts of one another."""
    return reporting.steady_from


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
    window = reporting.support
    steady = reporting.steady_from
    template: TokenLaw | None = None
    start = 0
    while start < flat.size:
        block = flat[start : start + max(1, ROWS_AT_ONCE // (window * grid))]
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


def _laws(frequencies: Ints, reporting: Law, grid: int) -> Iterator[TokenLaw]:
    above, gap = reporting.tails(frequencies, grid)
    masses = cell_masses(above, gap)
    absent = reporting.probabilities(frequencies, complement=True).tolist()
    for n, i in enumerate(frequencies.tolist()):
        highest = i * grid
        lowest = max(highest - len(masses), 0) + 1
        cells = np.arange(lowest, highest + 1, dtype=np.int64)
        mass = masses[: len(cells), n][::-1]
        positive = mass > 0
        yield TokenLaw(i, grid, cells[positive], mass[positive], absent[n])

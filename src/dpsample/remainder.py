"""The remainder: how many elements the reported keys do not cover, from a release and its private total."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpsample.budget import Total, check_level
from dpsample.privacy import Privacy
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.sampling import Ints, Sampling
from dpsample.scheme.tokens import token_law

_LAWS = 64  # token laws that are computed; those between are interpolated


@dataclass(frozen=True)
class Remainder:
    """An estimate of the elements whose keys are not reported, with an approximate interval."""

    value: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.value:,.0f} ({self.low:,.0f} to {self.high:,.0f}, {100 * self.level:g} %)"


def remainder(
    cells: Ints, sampling: Sampling, privacy: Privacy, grid: int, total: Total, level: float = 0.95
) -> Remainder:
    """Return the total less the frequencies of the reported keys; tokens are in units of 1/grid.

    A reported key of frequency i has a token whose mean and variance, given that it is reported, are known; the
    frequency is estimated by the token plus its mean distance from the frequency, at the likeliest one. Half of what
    the level leaves goes to the total's noise, half to the tokens'; the latter sum to nearly a normal distribution.
    """
    level = check_level(level)
    low, high = total.interval((1 + level) / 2)
    covered = spread = 0.0
    if len(cells):
        likeliest = likeliest_frequencies(cells, sampling, privacy, grid)
        distinct = np.unique(likeliest)
        at = distinct[np.unique(np.linspace(0, len(distinct) - 1, _LAWS).round().astype(int))]
        distance, variance = np.empty(len(at)), np.empty(len(at))
        for n, i in enumerate(at.tolist()):
            law = token_law(i, sampling, privacy, grid)
            below = i - law.cells / grid
            weights = law.probabilities / law.reported
            distance[n] = weights @ below
            variance[n] = weights @ (below - distance[n]) ** 2
        covered = float((cells / grid + np.interp(likeliest, at, distance)).sum())
        spread = NormalDist().inv_cdf((3 + level) / 4) * float(np.interp(likeliest, at, variance).sum()) ** 0.5
    return Remainder(
        value=max(float(total.value) - covered, 0.0),
        low=max(float(low) - covered - spread, 0.0),
        high=max(float(high) - covered + spread, 0.0),
        level=level,
    )

"""The remainder: how many elements the reported keys do not cover, from a release and its private total."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpsample.accounting.totals import Total
from dpsample.exact import check_level
from dpsample.privacy import Privacy
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.tokens import token_law

_LAWS = 64  # token laws that are computed; those between are interpolated
_ROUNDS = 20


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

    The frequency of a reported key is estimated by its token plus a distance that depends on the token's likeliest
    frequency, such that keys of each frequency that is seen, if they are reported, are estimated right on average. What
    is left of their bias widens the interval. Of the rest, half of what the level leaves goes to the total's noise, and
    half to the tokens', whose sum is nearly normal. Keys that are far too rare to be reported, but were, are taken for
    more frequent ones: if there are very many rare keys, the remainder is too low by that.
    """
    level = check_level(level)
    low, high = total.interval((1 + level) / 2)
    covered = spread = 0.0
    if len(cells):
        likeliest = likeliest_frequencies(cells, sampling, privacy, grid)
        at, distance, bias, variance = _distances(np.unique(likeliest), sampling, privacy, grid)
        covered = float((cells / grid + np.interp(likeliest, at, distance)).sum())
        spread = NormalDist().inv_cdf((3 + level) / 4) * float(np.interp(likeliest, at, variance).sum()) ** 0.5
        spread += float(np.abs(np.interp(likeliest, at, bias)).sum())
    return Remainder(
        value=max(float(total.value) - covered, 0.0),
        low=max(float(low) - covered - spread, 0.0),
        high=max(float(high) - covered + spread, 0.0),
        level=level,
    )


def _distances(likeliest: Ints, sampling: Sampling, privacy: Privacy, grid: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Frequencies, and for each: a token's distance, and the bias and variance of the estimate of a reported key."""
    at = likeliest[np.unique(np.linspace(0, len(likeliest) - 1, _LAWS).round().astype(int))]
    laws = [token_law(i, sampling, privacy, grid) for i in at.tolist()]
    tokens = np.unique(np.concatenate([law.cells for law in laws]))
    most = likeliest_frequencies(tokens, sampling, privacy, grid)
    places = [np.searchsorted(tokens, law.cells) for law in laws]
    shares = [law.probabilities / law.reported for law in laws]
    distance = np.zeros(len(at))
    for _ in range(_ROUNDS):  # each round takes away most of the bias that is left
        estimates = tokens / grid + np.interp(most, at, distance)
        bias = np.array([p @ estimates[n] - i for i, n, p in zip(at.tolist(), places, shares, strict=True)])
        distance -= bias
    estimates = tokens / grid + np.interp(most, at, distance)
    bias = np.array([p @ estimates[n] - i for i, n, p in zip(at.tolist(), places, shares, strict=True)])
    second = np.array([p @ (estimates[n] - i) ** 2 for i, n, p in zip(at.tolist(), places, shares, strict=True)])
    return at, distance, bias, second - bias**2

"""The remainder: the number of elements whose keys were not reported, from a release and its private total."""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dpsample.accounting.totals import Total
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.exact import check_level
from dpsample.release.rows import token_cells
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.tokens import token_law

if TYPE_CHECKING:
    from dpsample.answers.release import Release

_LAWS = 64  # token laws that are computed; between them, numbers are interpolated
_ROUNDS = 20  # each takes away most of the bias that is left
_NOTE = (
    "the interval is approximate: if very many reported keys are below the detection threshold, the value is too low"
)


def other(release: "Release", level: float = 0.95) -> Estimate:
    """Estimate the number of elements whose keys were not reported."""
    if release.total is None or release.grid is None:
        raise needs_total(release.total, tokens=release.grid is not None)
    cells = token_cells(release.table["token"], release.grid)
    return remainder(cells, release.sampling, release.per_key, release.grid, release.total, level)


def needs_total(total: Total | None, tokens: bool = False) -> InvalidValue:
    """Refuse to estimate a remainder."""
    return InvalidValue(
        "the remainder follows from a total and from tokens",
        "a release without " + ("a total" if total is None else "tokens"),
        "make one with total=True (--with-total)" + ("" if tokens else ", and not keys only"),
    )


def remainder(
    cells: Ints, sampling: Sampling, privacy: PerKey, grid: int, total: Total, level: float = 0.95
) -> Estimate:
    """Estimate the total less the frequencies of the reported keys, whose tokens are in units of 1/grid.

    The frequency of a reported key is estimated by its token plus a distance, which depends on the likeliest frequency
    of the token. Distances are such that reported keys of each such frequency are estimated without bias. What is left
    of the bias widens the interval. Of the probability that the interval misses, half goes to the noise of the total
    and half to the noise of the tokens, whose sum is nearly normal. Keys far below the detection threshold that were
    reported all the same count as more frequent ones: where they are very many, the remainder is too low.
    """
    level = check_level(level)
    elements = total.estimate((1 + level) / 2)
    covered = bias = error = margin = 0.0
    if len(cells):
        likeliest = likeliest_frequencies(cells, sampling, privacy, grid)
        at, distances, biases, variances = _distances(np.unique(likeliest), sampling, privacy, grid)
        covered = float((cells / grid + np.interp(likeliest, at, distances)).sum())
        left = np.interp(likeliest, at, biases)
        bias, error = -float(left.sum()), float(np.interp(likeliest, at, variances).sum()) ** 0.5
        margin = NormalDist().inv_cdf((3 + level) / 4) * error + float(np.abs(left).sum())
    value = max(elements.value - covered, 0.0)
    return Estimate(
        value,
        math.hypot(error, elements.standard_error),
        low=max(elements.low - covered - margin, 0.0),
        high=max(elements.high - covered + margin, 0.0),
        level=level,
        bias=bias,
        keys=len(cells),
        detection_threshold=frequency_reaching(0.5, sampling, privacy),
        guaranteed=not len(cells),
        notes=(_NOTE,) if len(cells) else (),
        share=value / elements.value if elements.value > 0 else None,
    )


def _distances(likeliest: Ints, sampling: Sampling, privacy: PerKey, grid: int) -> tuple[Ints, Floats, Floats, Floats]:
    """Return frequencies, and for each the distance of a token, and the bias and variance of an estimate."""
    at = likeliest[np.unique(np.linspace(0, len(likeliest) - 1, _LAWS).round().astype(int))]
    laws = [token_law(i, sampling, privacy, grid) for i in at.tolist()]
    tokens = np.unique(np.concatenate([law.cells for law in laws]))
    most = likeliest_frequencies(tokens, sampling, privacy, grid)
    places = [np.searchsorted(tokens, law.cells) for law in laws]
    shares = [law.probabilities / law.reported for law in laws]
    distance = np.zeros(len(at))
    for _ in range(_ROUNDS):
        estimates = tokens / grid + np.interp(most, at, distance)
        bias = np.array([p @ estimates[n] - i for i, n, p in zip(at.tolist(), places, shares, strict=True)])
        distance -= bias
    estimates = tokens / grid + np.interp(most, at, distance)
    bias = np.array([p @ estimates[n] - i for i, n, p in zip(at.tolist(), places, shares, strict=True)])
    second = np.array([p @ (estimates[n] - i) ** 2 for i, n, p in zip(at.tolist(), places, shares, strict=True)])
    return at, distance, bias, second - bias**2

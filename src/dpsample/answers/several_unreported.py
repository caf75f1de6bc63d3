"""What a key has in the releases that do not report it: a bound, and an estimate."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling

# The least probability of not being reported that a bound may ask for: intervals ask for far larger ones.
SMALLEST = 1e-12
# Frequencies at which reporting probabilities are computed, in equal ratios: with fewer, bounds are larger.
_POINTS = 4096
# Of the logarithm of a probability. Bounds are larger by about that over epsilon, for each release. A smaller one costs
# time, which grows with its inverse square.
_STEP = 0.02
# Steps beyond those of SMALLEST, for what is added to round up: one for each release.
_ROOM = 64
# The prior of the share of the releases in which a key occurs: this probability that it is 1, and otherwise uniform.
# It was chosen by the error of estimates on simulated weeks (benchmarks/weeks.py).
_OCCURS_IN_ALL = 0.5
_SHARES = np.append((np.arange(32) + 0.5) / 32, 1.0)
_PRIOR = np.append(np.full(32, (1 - _OCCURS_IN_ALL) / 32), _OCCURS_IN_ALL)
# Gauss-Hermite quadrature of the normal law that stands for a Poisson law: exact for polynomials of degree 17.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_ROUNDING = 1e-9  # of steps: keeps a whole number of them whole
_TINY = 1e-300  # keeps ratios and logarithms of zero defined


class Drawn(Protocol):
    """How keys were drawn: a release, or a scheme."""

    @property
    def sampling(self) -> Sampling: ...

    @property
    def per_key(self) -> PerKey: ...

    @property
    def grid(self) -> int | None: ...


def largest_unreported(releases: Sequence[Drawn], probabilities: Floats) -> Floats:
    """Return the most elements that a key can have in releases none of which reports it, with each of these
    probabilities or more.

    With l(i) = -ln(1 - pi_i), this is the largest sum of frequencies whose l add up to at most the logarithm of one
    over the probability. Logarithms are in steps, rounded so that the bound is no lower. Of one release it is exact.

    >>> from dpsample.answers.example import release
    >>> largest_unreported([release] * 2, np.array([0.05, 0.01]))
    array([30., 31.])
    """
    if len(releases) == 1:
        return _largest_unreported_by_one(releases[0], probabilities)
    schemes = [(release.sampling, release.per_key) for release in releases]
    most = _largest_by_steps(tuple(sorted(schemes, key=repr)))
    # each release may take up to one step less than it is counted for
    steps = np.floor(-np.log(probabilities) / _STEP + _ROUNDING)
    allowed = steps.astype(np.int64) + len(releases)
    last = len(most) - 1
    return np.asarray(most[np.minimum(allowed, last)])


def _largest_unreported_by_one(release: Drawn, probabilities: Floats) -> Floats:
    """The frequency before the first one that is reported with more than the rest of each probability."""
    most = []
    for p in probabilities.tolist():
        reached = frequency_reaching(1 - p, release.sampling, release.per_key)
        largest = math.inf if reached is None else reached - 1.0
        most.append(largest)
    return np.array(most)


@lru_cache(maxsize=64)
def _largest_by_steps(schemes: tuple[tuple[Sampling, PerKey], ...]) -> Floats:
    """The largest sum of frequencies, one for each scheme, whose l take at most n steps, for each n from 0 on.

    Some of the steps are the last scheme's, and the others those of the schemes before it: the best division counts.
    """
    of_last = _largest_of_one_by_steps(*schemes[-1])
    if len(schemes) == 1:
        return of_last
    of_others = _largest_by_steps(schemes[:-1])
    largest = []
    for n in range(len(of_last)):
        divisions = of_others[: n + 1] + of_last[n::-1]
        largest.append(divisions.max())
    return np.array(largest)


@lru_cache(maxsize=64)
def _largest_of_one_by_steps(sampling: Sampling, per_key: PerKey) -> Floats:
    """The largest frequency whose l takes at most n steps, for each n from 0 on."""
    last = frequency_reaching(1 - SMALLEST, sampling, per_key)
    end = last or min(sampling.largest, 1 << 60)
    points = np.geomspace(1, end, _POINTS)
    i = np.unique(points.astype(np.int64))
    unreported = reporting_probabilities(i, sampling, per_key, complement=True)
    logarithms = -np.log(np.maximum(unreported, _TINY))
    # each point stands for the frequencies from it up to the next one
    beyond = math.inf if last is None else end
    before_each_point = np.append(i - 1.0, beyond)
    steps = int(-math.log(SMALLEST) / _STEP) + _ROOM
    allowed = _STEP * np.arange(steps)
    first_beyond = np.searchsorted(logarithms, allowed, side="right")
    return np.asarray(before_each_point[first_beyond])


class _Missed(NamedTuple):
    """What a release does not report of keys that occur in it, in the mean: [key].

    With 1 (not reported) the indicator that the release misses the key, and i the frequency of the key.
    """

    probability: Floats  # the mean of 1 (not reported)
    first_moment: Floats  # of i (not reported)
    second_moment: Floats  # of i**2 (not reported)

    def by(self, shares: Floats) -> Floats:
        """Return the probability that a release does not report the key, for each share of releases: [key, share]."""
        reported = 1 - self.probability
        return 1 - shares * reported[:, None]


def expected_unreported(
    releases: Sequence[Drawn], reported: Floats, cells: Ints
) -> tuple[Floats, Floats]:
    """Return what each key has, in the mean, in the releases that do not report it, and the variance of that.

    `reported` is the sum of its estimates in those that do. The key is taken to occur in a share of the releases, which
    is unknown (`_PRIOR`), each time with a Poisson number of elements of the same mean: that of the releases that
    report it. So a release that does not report a key has few elements of it, or none: the less likely it is to miss
    the key, the more likely none.
    """
    times = (cells > 0).sum(1)
    mean = reported / np.maximum(times, 1)
    deviation = np.sqrt(mean)
    drawn = np.rint(mean[:, None] + deviation[:, None] * _NODES)
    frequencies = np.maximum(drawn, 0.0).astype(np.int64)  # [key, node]

    missed_by = [_missed(release, frequencies) for release in releases]
    posterior = _PRIOR * _SHARES ** times[:, None]  # [key, share]
    for missed, of_release in zip(missed_by, cells.T, strict=True):
        is_reported = of_release[:, None] > 0
        posterior *= np.where(is_reported, 1.0, missed.by(_SHARES))
    posterior /= posterior.sum(1, keepdims=True)

    value = np.zeros(len(cells))
    variance = np.zeros(len(cells))
    for missed, of_release in zip(missed_by, cells.T, strict=True):
        unreported = np.maximum(missed.by(_SHARES), _TINY)
        # the probability that the key occurs, given that it is not reported, over that of missing it if it occurs
        occurs = (posterior * (_SHARES / unreported)).sum(1)
        not_here = of_release == 0
        expected = np.where(not_here, occurs * missed.first_moment, 0.0)
        expected_square = np.where(not_here, occurs * missed.second_moment, 0.0)
        value += expected
        variance += expected_square - expected**2
    return value, np.maximum(variance, 0.0)


def _missed(release: Drawn, frequencies: Ints) -> _Missed:
    """What a release misses of keys that have these frequencies with the weights of the nodes: [key, node]."""
    positive = np.maximum(frequencies, 1)
    sampling, per_key = release.sampling, release.per_key
    unreported = reporting_probabilities(positive, sampling, per_key, complement=True)
    node_weights = _WEIGHTS / _WEIGHTS.sum()
    weights = np.where(frequencies > 0, unreported, 1.0) * node_weights
    i = frequencies.astype(np.float64)
    of_first = weights * i
    of_second = weights * i**2
    return _Missed(weights.sum(1), of_first.sum(1), of_second.sum(1))

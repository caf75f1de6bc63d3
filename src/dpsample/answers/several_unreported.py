"""What a key has in the releases that do not report it: a bound, and an estimate."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling

SMALLEST = 1e-12  # probability of not being reported that a bound may ask for
_POINTS = 4096  # frequencies at which the probability is computed
_STEP = 0.02  # of the logarithm of a probability; bounds are larger by about that over epsilon, for each release
_CONSTANT = 0.5  # probability, before, that a key occurs in all releases; chosen by the error on simulated weeks
_SHARES = np.append((np.arange(32) + 0.5) / 32, 1.0)  # of the releases in which a key occurs
_BEFORE = np.append(np.full(32, (1 - _CONSTANT) / 32), _CONSTANT)  # their probabilities before
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # of a normal law


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
        release = releases[0]
        reached = [
            frequency_reaching(1 - p, release.sampling, release.per_key)
            for p in probabilities.tolist()
        ]
        return np.array([math.inf if i is None else i - 1.0 for i in reached])
    schemes = [(release.sampling, release.per_key) for release in releases]
    most = _most(tuple(sorted(schemes, key=repr)))
    # each release may spend up to one step less than it is counted for
    spent = np.floor(-np.log(probabilities) / _STEP + 1e-9).astype(np.int64) + len(releases)
    return np.asarray(most[np.minimum(spent, len(most) - 1)])


@lru_cache(maxsize=64)
def _most(schemes: tuple[tuple[Sampling, PerKey], ...]) -> Floats:
    """The largest sum of frequencies whose logarithms take each number of steps: of all but one, and of that one."""
    own = _most_of_one(*schemes[-1])
    if len(schemes) == 1:
        return own
    rest = _most(schemes[:-1])
    return np.array([(rest[: n + 1] + own[n::-1]).max() for n in range(len(own))])


@lru_cache(maxsize=64)
def _most_of_one(sampling: Sampling, privacy: PerKey) -> Floats:
    """The largest frequency whose logarithm takes at most each number of steps."""
    last = frequency_reaching(1 - SMALLEST, sampling, privacy)
    end = min(sampling.largest, 1 << 60) if last is None else last
    i = np.unique(np.geomspace(1, end, _POINTS).astype(np.int64))
    absent = reporting_probabilities(i, sampling, privacy, complement=True)
    upto = np.append(
        i - 1.0, math.inf if last is None else end
    )  # each point stands for those up to the next one
    taken = -np.log(np.maximum(absent, 1e-300))
    steps = _STEP * np.arange(int(-math.log(SMALLEST) / _STEP) + 64)
    return np.asarray(upto[np.searchsorted(taken, steps, side="right")])


def expected_unreported(
    releases: Sequence[Drawn], reported: Floats, cells: Ints
) -> tuple[Floats, Floats]:
    """Return what each key has, in the mean, in the releases that do not report it, and the variance of that.

    `reported` is the sum of its estimates in those that do. The key is taken to occur in a share of the releases,
    unknown and uniform before, each time with a Poisson number of elements of the same mean: that of the releases that
    report it. So a release that does not report a key has few elements of it, or none: the less likely it is to miss
    the key, the more likely none.
    """
    times = (cells > 0).sum(1)
    mean = reported / np.maximum(times, 1)
    drawn = np.maximum(np.rint(mean[:, None] + np.sqrt(mean)[:, None] * _NODES), 0.0).astype(
        np.int64
    )  # [key, node]
    weights = _WEIGHTS / _WEIGHTS.sum()
    missed, first, second = np.zeros((3, *cells.shape))
    likelihood = _BEFORE * _SHARES ** times[:, None]  # [key, share]
    for n, release in enumerate(releases):
        at = np.maximum(drawn, 1)
        absent = reporting_probabilities(at, release.sampling, release.per_key, complement=True)
        absent = np.where(drawn > 0, absent, 1.0) * weights
        missed[:, n] = absent.sum(1)
        first[:, n], second[:, n] = (
            (absent * drawn.astype(np.float64) ** power).sum(1) for power in (1, 2)
        )
        unseen = 1 - _SHARES * (1 - missed[:, n, None])
        likelihood *= np.where(cells[:, n, None] > 0, 1.0, unseen)
    likelihood /= likelihood.sum(1, keepdims=True)
    value, variance = np.zeros((2, len(cells)))
    for n in range(len(releases)):
        unseen = np.maximum(1 - _SHARES * (1 - missed[:, n, None]), 1e-300)
        occurs = (likelihood * (_SHARES / unseen)).sum(1)  # times `missed`
        absent_here = cells[:, n] == 0
        expected = np.where(absent_here, occurs * first[:, n], 0.0)
        value += expected
        variance += np.where(absent_here, occurs * second[:, n], 0.0) - expected**2
    return value, np.maximum(variance, 0.0)

"""How many of the selected keys have each frequency, and what a key's token tells of its own.

A token's law of the frequency is that of Bayes when all visible frequencies are equally likely. It assumes nothing that
the release does not show, and its intervals hold at each frequency.
"""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.calibration import Calibration, calibration
from dpsample.estimators.tally import Tally
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import reporting, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.token_columns import beyond, life

_POINTS = 33  # of the law of a frequency far beyond the edge
_MANY = 1 << 22  # points at most, for all of these
_FINE = 2048  # steps of the noise of tokens, at most


@dataclass(frozen=True, eq=False)
class Spectrum:
    """How many selected keys of the data have each visible frequency, as far as the release can tell."""

    scheme: Calibration
    frequencies: Ints  # ascending
    keys: Floats  # expected number of selected keys with each, unreported ones included
    spread: Floats  # variance of the number of reported keys up to each

    def posterior(self, cells: ArrayLike) -> tuple[Ints, Floats]:
        """Return, for n tokens, frequencies [n, m] and probabilities [n, m]: the law of the key's frequency."""
        return _posterior(self.scheme, as_frequencies(cells).reshape(-1))

    def interval(self, cells: ArrayLike, level: float) -> tuple[Ints, Ints]:
        """Return the frequencies at which no token of a reported key is so unlikely to be as large, or as small."""
        rows = reporting(self.scheme.sampling, self.scheme.privacy)
        frequencies, above, at_least = beyond(as_frequencies(cells).reshape(-1), rows, self.scheme.grid)
        n, tail = np.arange(len(frequencies)), (1 - level) / 2
        low, high = (at_least < tail).sum(1), (above <= 1 - tail).sum(1) - 1
        end = frequencies.shape[1] - 1
        return frequencies[n, low.clip(0, end)], frequencies[n, high.clip(0, end)]

    def quantiles(
        self, shares: Floats, least: int, level: float, number: tuple[float, float, float] | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return quantiles of the frequencies of all keys from the least one on, and their intervals.

        A quantile is at most x if the number of keys up to x is at least its share of all keys. Of the difference,
        both the mean and the variance are known: reported keys may lie on either side of x, and others were missed.
        Beyond that, what is seen of the frequencies is spread by the noise of the tokens. How much of the spread is
        theirs is not known, so that intervals reach from where a quantile is if none is to where it is if all is. It
        also makes keys below the least frequency look like some above: how many are above, and bounds of their
        `number`, are known better if they are given.
        """
        seen = self.frequencies >= least
        i, keys = self.frequencies[seen], self.keys[seen]
        pi = reporting_probabilities(i, self.scheme.sampling, self.scheme.privacy)
        missed = np.cumsum(keys * (1 - pi) / pi)  # the variance of their number: misses until so many were reported
        start = float(self.spread[~seen][-1]) if not seen.all() else 0.0
        z = NormalDist().inv_cdf(0.5 + level / 2)
        upto = np.cumsum(keys)
        total = float(upto[-1])
        true, fewest, most = number or (total, total, total)
        found = np.empty((3, len(shares)))
        for n, p in enumerate(shares):
            above = upto - max(np.ceil(p * total - 1e-6), 1.0) + 0.5  # numbers of keys are whole
            above -= (1 - p) * (total - true)
            variance = self.spread[seen] + p**2 * start + (1 - 2 * p) * missed + p**2 * missed[-1]
            error = z * np.sqrt(np.maximum(variance, 0.0)) + 0.2  # a normal law is too sure of a single key
            up, down = (np.hypot(error, (1 - p) * (true - bound)) for bound in (most, fewest))
            for row, reached in enumerate((above >= 0, above + up >= 0, above - down >= 0)):
                found[row, n] = i[np.argmax(reached)] if reached.any() else i[-1]
        half, one = self._noise(np.array([NormalDist().cdf(0.5), NormalDist().cdf(1)]))
        noise = self._noise(shares.clip(1 / (total + 1), total / (total + 1)))
        # half of its deviation in any case: equally likely frequencies, as assumed, are not what most data have
        low, high = found[1] - np.maximum(noise, half), found[2] - np.minimum(noise, -half)
        low = np.where(low <= self.scheme.edge + one, least, low)  # at the edge, where one frequency looks like another
        return found[0], np.minimum(low, found[0]).clip(min=least), np.maximum(high, found[0])

    def _noise(self, shares: Floats) -> Ints:
        """Quantiles of how far the frequency that a token suggests is above that of its key."""
        law = _posterior(self.scheme, np.array([self.scheme.table_tokens]))[1][0]
        step = -(-len(law) // _FINE)
        law = np.add.reduceat(law, np.arange(0, len(law), step))
        upto = np.cumsum(np.convolve(law, law[::-1]))
        found: Ints = (np.searchsorted(upto, shares * upto[-1]) - len(law) + 1) * step
        return found


@lru_cache(maxsize=32)
def spectrum(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int) -> Spectrum:
    """Estimate how many keys have each frequency; weights do not matter.

    >>> from dpsample import KeepAll, Privacy
    >>> found = spectrum(Tally.of([16 * 1000, 16 * 1000]), KeepAll(), Privacy(1, 1e-6), 16)
    >>> f"{found.keys.sum():.1f} keys of {found.frequencies @ found.keys / found.keys.sum():.1f}"
    '2.0 keys of 1013.7'
    """
    scheme = calibration(sampling, privacy, grid)
    near = tally.cells <= scheme.table_tokens
    rows = [(*_posterior(scheme, tally.cells[near]), tally.keys[near])]
    if not near.all():
        rows.append((*_far(scheme, tally.cells[~near]), tally.keys[~near]))
    support, place = np.unique(np.concatenate([i.ravel() for i, _, _ in rows]), return_inverse=True)
    reported, steps = (
        np.bincount(place, np.concatenate([(column(p) * keys[:, None]).ravel() for _, p, keys in rows]), len(support))
        for column in (lambda p: p, _steps)
    )
    pi = reporting_probabilities(support, sampling, privacy)
    expected = np.divide(reported, pi, out=np.zeros(len(pi)), where=reported > 1e-9)
    return Spectrum(scheme, support, expected, np.maximum(np.cumsum(steps), 0.0))


def _steps(probabilities: Floats) -> Floats:
    """By how much the variance of being at most each frequency is more than at the one before."""
    upto = np.cumsum(probabilities, axis=1).clip(0, 1)
    return np.diff(upto * (1 - upto), prepend=0.0, axis=1)


def _far(scheme: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    """The laws of tokens beyond the table, which are alike, at some points each."""
    frequencies, probabilities = _posterior(scheme, np.array([scheme.table_tokens]))
    upto = np.cumsum(probabilities[0])
    points = min(_POINTS, max(1, _MANY // len(cells)))
    at = np.unique(np.searchsorted(upto, (np.arange(points) + 0.5) / points * upto[-1]))
    mass = np.diff((upto[at[1:] - 1] + upto[at[:-1]]) / 2, prepend=0.0, append=upto[-1])
    offsets = frequencies[0, at] - int(frequencies[0, 0])
    births = -(-cells // scheme.grid)
    return births[:, None] + offsets, np.broadcast_to(mass, (len(cells), len(at)))


def _posterior(scheme: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    if not len(cells):
        return np.zeros((0, 1), np.int64), np.zeros((0, 1))
    frequencies, mass = life(cells, reporting(scheme.sampling, scheme.privacy), scheme.grid)
    seen = np.where(frequencies >= scheme.edge, mass, 0.0)
    mass = np.where(seen.any(1, keepdims=True), seen, mass)
    return frequencies, mass / mass.sum(1, keepdims=True)

"""A prior of the frequencies, learned from the tokens of the keys that a question selects."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.tally import Tally
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import Reporting, reporting, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tokens import lifetime, moved

_NEAR = 4096  # tokens of keys up to this frequency shape the prior; beyond it, it is flat
_ROUNDS = 30  # of expectation, maximization and smoothing
_LEAST = 0.05  # of pi: rarer keys cannot be made up for


@dataclass(frozen=True, eq=False)
class Prior:
    """How many selected keys of the data have each frequency, as far as the release can tell."""

    frequencies: Ints  # ascending
    keys: Floats  # expected number of selected keys with each, unreported ones included
    shares: Floats  # of the reported keys, by frequency from 0 to _NEAR; flat beyond
    rows: Reporting
    grid: int

    def posterior(self, cells: ArrayLike) -> tuple[Ints, Floats]:
        """Return, for n tokens, frequencies [n, m] and probabilities [n, m]: the law of the key's frequency."""
        frequencies, likelihood = _likelihood(as_frequencies(cells).reshape(-1), self.rows, self.grid)
        return frequencies, _posterior(frequencies, likelihood, self.shares)

    def draws(self, n: int) -> Floats:
        """Return n draws of `keys`; the same at each call."""
        generator = np.random.default_rng(0)
        pi = reporting_probabilities(self.frequencies, self.rows.sampling, self.rows.privacy)
        reported = generator.poisson(self.keys * pi, (n, len(pi)))
        missed = generator.poisson(self.keys * (1 - pi), (n, len(pi)))
        drawn: Floats = (reported + missed).astype(np.float64)
        return drawn


def learn(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int) -> Prior:
    """Learn the prior of a tally's keys; weights do not matter."""
    return _learn(tally.unweighted, sampling, privacy, grid)


@lru_cache(maxsize=32)
def _learn(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int) -> Prior:
    rows = reporting(sampling, privacy)
    shares = np.ones(_NEAR + 1)
    near = tally.cells <= (_NEAR - 2 * lifetime(privacy)) * grid
    frequencies, likelihood = _likelihood(tally.cells[near], rows, grid)
    inside = np.minimum(frequencies, _NEAR)
    box = np.ones(2 * round(2 / min(float(privacy.epsilon), 2.0)) + 1)  # about as wide as tokens are spread
    for _ in range(_ROUNDS if near.any() else 0):
        posterior = _posterior(frequencies, likelihood, shares)
        found = np.bincount(inside.ravel(), (posterior * tally.keys[near][:, None]).ravel(), _NEAR + 1)
        smooth = np.convolve(found, box, "same")
        shares = np.maximum(smooth / smooth.sum(), 1e-12)
    frequencies, likelihood = _likelihood(tally.cells, rows, grid)
    posterior = _posterior(frequencies, likelihood, shares)
    support, place = np.unique(frequencies, return_inverse=True)
    reported = np.bincount(place.ravel(), (posterior * tally.keys[:, None]).ravel(), len(support))
    support, reported = support[reported > 1e-9], reported[reported > 1e-9]
    pi = np.maximum(reporting_probabilities(support, sampling, privacy), _LEAST)
    return Prior(support, reported / pi, shares, rows, grid)


def _posterior(frequencies: Ints, likelihood: Floats, shares: Floats) -> Floats:
    joint = likelihood * shares[np.minimum(frequencies, _NEAR)]
    posterior: Floats = joint / joint.sum(1, keepdims=True)
    return posterior


def _likelihood(cells: Ints, rows: Reporting, grid: int) -> tuple[Ints, Floats]:
    """Frequencies [n, m], and the probability of each token under them, given that the key was reported."""
    window = lifetime(rows.privacy) + 32
    birth = -(-cells // grid)
    span = birth + np.arange(window + 1, dtype=np.int64)[:, None]
    defined = span <= rows.sampling.largest
    span = np.minimum(span, rows.sampling.largest)
    pi, _, _, d = rows.slacks(span)
    share = (birth * grid - cells) / grid
    above, upto = ((share + more) * np.minimum(float(rows.privacy.delta), pi[0]) for more in (0.0, 1 / grid))
    masses = [upto - above]
    for step in range(1, window + 1):
        above, upto = (moved(S, rows, pi[step], d[step - 1]) for S in (above, upto))
        masses.append(np.maximum(upto - above, 0))
    likelihood = np.where(defined, masses, 0.0) / np.maximum(pi, 1e-300)
    return span.T, likelihood.T

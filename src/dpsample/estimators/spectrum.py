"""How many of the selected keys have each frequency, and what a key's token tells of its own.

A token's law of the frequency is that of Bayes when all visible frequencies are equally likely. It assumes nothing that
the release does not show, and its intervals hold at each frequency.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.calibrated import Calibration, calibration
from dpsample.estimators.tally import Tally
from dpsample.privacy import Privacy
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.lives import life
from dpsample.scheme.reporting import reporting, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies


@dataclass(frozen=True, eq=False)
class Spectrum:
    """How many selected keys of the data have each visible frequency, as far as the release can tell."""

    scheme: Calibration
    frequencies: Ints  # ascending
    keys: Floats  # expected number of selected keys with each, unreported ones included

    def posterior(self, cells: ArrayLike) -> tuple[Ints, Floats]:
        """Return, for n tokens, frequencies [n, m] and probabilities [n, m]: the law of the key's frequency."""
        return _posterior(self.scheme, as_frequencies(cells).reshape(-1))

    def draws(self, n: int) -> Floats:
        """Return n draws of `keys`; the same at each call."""
        generator = np.random.default_rng(0)
        pi = reporting_probabilities(self.frequencies, self.scheme.sampling, self.scheme.privacy)
        reported = generator.poisson(self.keys * pi, (n, len(pi)))
        missed = generator.poisson(self.keys * (1 - pi), (n, len(pi)))
        drawn: Floats = (reported + missed).astype(np.float64)
        return drawn


@lru_cache(maxsize=32)
def spectrum(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int) -> Spectrum:
    """Estimate how many keys have each frequency; weights do not matter.

    >>> from dpsample import KeepAll, Privacy
    >>> found = spectrum(Tally.of([16 * 1000, 16 * 1000]), KeepAll(), Privacy(1, 1e-6), 16)
    >>> found.frequencies, found.keys
    (array([1014]), array([2.]))
    """
    scheme = calibration(sampling, privacy, grid)
    near = tally.cells <= scheme.table_tokens
    frequencies, probabilities = _posterior(scheme, tally.cells[near])
    # beyond, a token's spread is small against the frequency, and all of it is put at the likeliest one
    far = likeliest_frequencies(tally.cells[~near], sampling, privacy, grid)
    support, place = np.unique(np.append(frequencies.ravel(), far), return_inverse=True)
    keys = np.append((probabilities * tally.keys[near][:, None]).ravel(), tally.keys[~near])
    reported = np.bincount(place, keys, len(support))
    held = reported > 1e-9
    pi = reporting_probabilities(support[held], sampling, privacy)
    return Spectrum(scheme, support[held], reported[held] / pi)


def _posterior(scheme: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    if not len(cells):
        return np.zeros((0, 1), np.int64), np.zeros((0, 1))
    frequencies, mass = life(cells, reporting(scheme.sampling, scheme.privacy), scheme.grid)
    seen = np.where(frequencies >= scheme.edge, mass, 0.0)
    mass = np.where(seen.any(1, keepdims=True), seen, mass)
    return frequencies, mass / mass.sum(1, keepdims=True)

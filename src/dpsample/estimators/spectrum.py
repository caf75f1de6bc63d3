"""Spectrum: how many of the selected keys have each frequency, and the posterior of a key's frequency given its token.

The posterior is that of a uniform prior on the frequencies from the calibration threshold on. The interval of one key
does not depend on it: it has its nominal coverage at each frequency.
"""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from dpsample.estimators.calibration import Calibration
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints, as_frequencies
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import first_frequency


@dataclass(frozen=True, eq=False)
class Spectrum:
    """How many selected keys of the data have each frequency, as far as the release can tell."""

    calibration: Calibration
    frequencies: Ints  # ascending
    keys: Floats  # expected number of selected keys with each, unreported ones included
    variance: Floats  # of the number of reported keys up to each

    def posterior(self, cells: ArrayLike) -> tuple[Ints, Floats]:
        """Return, for n tokens, frequencies [n, m] and probabilities [n, m]: the posterior of the key's frequency."""
        return _posterior(self.calibration, as_frequencies(cells).reshape(-1))

    def interval(self, cells: ArrayLike, level: float) -> tuple[Ints, Ints]:
        """Return the confidence interval of the frequency of a reported key, for each token: `likely_frequencies`."""
        _, low, high = likely_frequencies(cells, *self.calibration.scheme, level)
        return low, high

    def quantiles(
        self,
        shares: Floats,
        least: int,
        level: float,
        number: tuple[float, float, float] | None = None,
    ) -> tuple[Floats, Floats, Floats]:
        """Return quantiles of the frequencies of all keys from the least one on, and their intervals.

        A quantile is at most x if the number of keys up to x is at least its share of all keys. The mean and the
        variance of the difference are known: reported keys may lie on either side of x, and others were not reported.
        Beyond that, the noise of the tokens spreads the estimated frequencies. How much of their spread is noise is not
        known, so that intervals reach from where a quantile is if none is to where it is if all is. Noise also lifts
        keys over the least frequency. `number`, the number of keys from it on with its bounds, corrects for that.
        """
        tuning = self.calibration.tuning
        selected = self.frequencies >= least
        total = float(self.keys[selected].cumsum()[-1])
        number = number or (total, total, total)
        value, low, high = self._quantiles_before_noise(shares, least, level, number)

        normal = NormalDist()
        of_least_noise = normal.cdf(tuning.least_noise_deviations)
        of_threshold = normal.cdf(tuning.threshold_noise_deviations)
        least_noise, near = self._noise(np.array([of_least_noise, of_threshold]))
        noise = self._noise(shares.clip(1 / (total + 1), total / (total + 1)))
        low = low - np.maximum(noise, least_noise)
        high = high - np.minimum(noise, -least_noise)
        # near the threshold, frequencies cannot be told apart
        low = np.where(low <= self.calibration.calibration_threshold + near, least, low)
        return value, np.minimum(low, value).clip(min=least), np.maximum(high, value)

    def _quantiles_before_noise(
        self, shares: Floats, least: int, level: float, number: tuple[float, float, float]
    ) -> tuple[Floats, Floats, Floats]:
        """The quantiles, and their bounds if tokens had no noise, of all keys from the least frequency on."""
        tuning = self.calibration.tuning
        selected = self.frequencies >= least
        i, keys = self.frequencies[selected], self.keys[selected]
        pi = self.calibration.reporting.probabilities(i)
        unreported = np.cumsum(
            keys * (1 - pi) / pi
        )  # variance of the number of unreported keys: negative binomial
        variance_below = float(self.variance[~selected][-1]) if not selected.all() else 0.0
        z = NormalDist().inv_cdf(0.5 + level / 2)
        upto = np.cumsum(keys)
        total = float(upto[-1])
        estimated, fewest, most = number

        def first_at_least_0(excess: Floats) -> float:
            reached = excess >= 0
            return float(i[np.argmax(reached)] if reached.any() else i[-1])

        quantiles = np.empty((3, len(shares)))
        for n, p in enumerate(shares):
            # numbers of keys are integers: the half is a continuity correction
            place = max(np.ceil(p * total - tuning.rounding_keys), 1.0)
            excess = upto - place + 0.5
            excess -= (1 - p) * (total - estimated)
            of_reported = self.variance[selected] + p**2 * variance_below
            of_unreported = (1 - 2 * p) * unreported
            variance = of_reported + of_unreported + p**2 * unreported[-1]
            error = z * np.sqrt(np.maximum(variance, 0.0)) + tuning.single_key_allowance
            up = np.hypot(error, (1 - p) * (estimated - most))
            down = np.hypot(error, (1 - p) * (estimated - fewest))
            quantiles[0, n] = first_at_least_0(excess)
            quantiles[1, n] = first_at_least_0(excess + up)
            quantiles[2, n] = first_at_least_0(excess - down)
        value, low, high = quantiles
        return value, low, high

    def _noise(self, shares: Floats) -> Ints:
        """Quantiles of the difference between a frequency drawn from the posterior of a key's token and the key's."""
        last_token = np.array([self.calibration.last_token])
        _, probabilities = _posterior(self.calibration, last_token)
        law = probabilities[0]
        step = -(-len(law) // self.calibration.tuning.noise_points)
        law = np.add.reduceat(law, np.arange(0, len(law), step))
        difference = np.convolve(law, law[::-1])
        upto = np.cumsum(difference)
        place = np.searchsorted(upto, shares * upto[-1])
        return np.asarray((place - len(law) + 1) * step)


def spectrum(tally: Tally, scheme: Scheme, tuning: Tuning = TUNING) -> Spectrum:
    """Estimate how many keys have each frequency; weights do not matter.

    >>> from dpsample import KeepAll, Privacy
    >>> estimated = spectrum(Tally.of([16 * 1000, 16 * 1000]), Scheme(KeepAll(), Privacy(1, 1e-6), 16))
    >>> f"{estimated.keys.sum():.1f} keys of {estimated.frequencies @ estimated.keys / estimated.keys.sum():.1f}"
    '2.0 keys of 1013.7'
    """
    return _spectrum(tally, Calibration.of(scheme, tuning))


@lru_cache(maxsize=32)
def _spectrum(tally: Tally, calibration: Calibration) -> Spectrum:
    inside = tally.cells <= calibration.last_token
    parts = [(_posterior(calibration, tally.cells[inside]), tally.keys[inside])]
    if not inside.all():
        parts.append(
            (_posterior_beyond_table(calibration, tally.cells[~inside]), tally.keys[~inside])
        )
    frequencies, keys, variances = [], [], []
    for (i, probabilities), reported_keys in parts:
        each = reported_keys[:, None]
        frequencies.append(i.ravel())
        keys.append((probabilities * each).ravel())
        variances.append((_variance_increments(probabilities) * each).ravel())
    support, place = np.unique(np.concatenate(frequencies), return_inverse=True)
    reported = np.bincount(place, np.concatenate(keys), len(support))
    variance = np.bincount(place, np.concatenate(variances), len(support))
    pi = calibration.reporting.probabilities(support)
    expected = np.divide(reported, pi, out=np.zeros(len(pi)), where=reported > 1e-9)
    return Spectrum(calibration, support, expected, np.maximum(np.cumsum(variance), 0.0))


def _variance_increments(probabilities: Floats) -> Floats:
    """The increments, from frequency to frequency, of the variance of being at most that frequency."""
    upto = np.cumsum(probabilities, axis=1).clip(0, 1)
    return np.diff(upto * (1 - upto), prepend=0.0, axis=1)


def _posterior_beyond_table(calibration: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    """The posteriors of tokens beyond the table: shifts of those of its last tokens with the same fraction.

    Long ones are taken at some points each, all of which have the same probability.
    """
    last_tokens = calibration.last_token - np.arange(calibration.scheme.grid)
    frequencies, probabilities = _posterior(calibration, last_tokens)
    points_for_each = calibration.tuning.posterior_limit // len(cells)
    points = min(calibration.tuning.posterior_points, max(1, points_for_each))
    last = probabilities.shape[1] - 1
    if last >= 2 * points:
        wanted = (np.arange(points) + 0.5) / points
        at = np.array([np.searchsorted(np.cumsum(law), wanted) for law in probabilities])
        frequencies = np.take_along_axis(frequencies, np.minimum(at, last), 1)
        probabilities = np.full(at.shape, 1 / points)
    offsets = frequencies - first_frequency(calibration.last_token, calibration.scheme.grid)
    fraction = (calibration.last_token - cells) % calibration.scheme.grid
    first = first_frequency(cells, calibration.scheme.grid)[:, None]
    return first + offsets[fraction], probabilities[fraction]


def _posterior(calibration: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    """The posterior of each token; one that comes only from below the threshold has a uniform prior there."""
    if not len(cells):
        return np.zeros((0, 1), np.int64), np.zeros((0, 1))
    frequencies, mass = supports(cells, calibration.reporting, calibration.scheme.grid)
    above = np.where(frequencies >= calibration.calibration_threshold, mass, 0.0)
    some_above = above.any(1, keepdims=True)
    prior_mass = np.where(some_above, above, mass)
    return frequencies, prior_mass / prior_mass.sum(1, keepdims=True)

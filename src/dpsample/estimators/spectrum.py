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

_LEAST_REPORTED = 1e-9  # expected reported keys of a frequency: fewer are rounding, and are not divided by a small pi


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
        """Return quantiles of the frequencies of all keys from the least one on, and the ends of their intervals.

        A quantile is at most x if the number of keys up to x is at least its share of all keys. The mean and the
        variance of the difference are known: reported keys may lie on either side of x, and others were not reported.
        Beyond that, the noise of the tokens spreads the estimated frequencies. How much of their spread is noise is not
        known, so that intervals reach from where a quantile is if none is to where it is if all is. Noise also lifts
        keys over the least frequency. `number`, the number of keys from it on with its bounds, corrects for that
        (docs/theory.md, section 7, Quantiles).
        """
        tuning = self.calibration.tuning
        selected = self.frequencies >= least
        total = float(self.keys[selected].cumsum()[-1])
        number = number or (total, total, total)
        value, low, high = self._quantiles_before_noise(shares, least, level, number)

        # no quantile of the noise is further out than that of one key among those that there are
        lowest_share = 1 / (total + 1)
        highest_share = total / (total + 1)
        noise = self._noise(shares.clip(lowest_share, highest_share))
        normal = NormalDist()
        share_of_least_noise = normal.cdf(tuning.least_noise_deviations)
        share_near_threshold = normal.cdf(tuning.threshold_noise_deviations)
        tuned_shares = np.array([share_of_least_noise, share_near_threshold])
        least_noise, near = self._noise(tuned_shares)

        low = low - np.maximum(noise, least_noise)
        high = high - np.minimum(noise, -least_noise)
        # near the threshold, frequencies cannot be told apart
        is_near = low <= self.calibration.calibration_threshold + near
        low = np.where(is_near, least, low)
        low = np.minimum(low, value).clip(min=least)
        return value, low, np.maximum(high, value)

    def _quantiles_before_noise(
        self, shares: Floats, least: int, level: float, number: tuple[float, float, float]
    ) -> tuple[Floats, Floats, Floats]:
        """Return the quantiles, and their bounds if tokens had no noise, of all keys from the least frequency on.

        With N(x) keys up to x, of N, the variance of the estimate of N(x) - p N is that of the reported keys, plus that
        of the unreported ones. Of these U(x) are up to x, and the two parts of U(x) - p U, (1 - p) U(x) and
        -p (U - U(x)), are independent: their variances add up to ``(1 - 2 p) Var U(x) + p**2 Var U``.
        """
        tuning = self.calibration.tuning
        selected = self.frequencies >= least
        i = self.frequencies[selected]
        keys = self.keys[selected]
        pi = self.calibration.reporting.probabilities(i)
        # n reported keys leave a number unreported that is negative binomial: its variance is n (1 - pi) / pi**2
        unreported_variance = np.cumsum(keys * (1 - pi) / pi)
        reported_variance = self.variance[selected]
        variance_below = 0.0
        if not selected.all():
            variance_below = float(self.variance[~selected][-1])
        upto = np.cumsum(keys)
        total = float(upto[-1])
        estimated, fewest, most = number
        z = NormalDist().inv_cdf(0.5 + level / 2)

        def first_at_least_0(excess: Floats) -> float:
            is_reached = excess >= 0
            place = np.argmax(is_reached) if is_reached.any() else -1
            return float(i[place])

        quantiles = np.empty((3, len(shares)))
        for n, p in enumerate(shares):
            above = 1 - p
            # numbers of keys are integers: the half is a continuity correction
            place = max(np.ceil(p * total - tuning.rounding_keys), 1.0)
            excess = upto - place + 0.5
            excess -= above * (total - estimated)
            of_reported = reported_variance + p**2 * variance_below
            of_unreported = (1 - 2 * p) * unreported_variance
            variance = of_reported + of_unreported + p**2 * unreported_variance[-1]
            standard_error = np.sqrt(np.maximum(variance, 0.0))
            error = z * standard_error + tuning.single_key_allowance
            up = np.hypot(error, above * (estimated - most))
            down = np.hypot(error, above * (estimated - fewest))
            quantiles[0, n] = first_at_least_0(excess)
            quantiles[1, n] = first_at_least_0(excess + up)
            quantiles[2, n] = first_at_least_0(excess - down)
        value, low, high = quantiles
        return value, low, high

    def _noise(self, shares: Floats) -> Ints:
        """Return quantiles of the noise: a frequency drawn from the posterior of a key's token, less the key's own.

        Far above the threshold the token's law and the posterior have one shape, so it is that of two draws.
        """
        last_token = np.array([self.calibration.last_token])
        _, probabilities = _posterior(self.calibration, last_token)
        law = probabilities[0]
        step = -(
            -len(law) // self.calibration.tuning.noise_points
        )  # frequencies at a point, rounded up
        starts = np.arange(0, len(law), step)
        law = np.add.reduceat(law, starts)
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
    """Return the spectrum of a tally: posteriors of all tokens, added up by frequency."""
    inside = tally.cells <= calibration.last_token
    posteriors = [_posterior(calibration, tally.cells[inside])]
    keys_by_token = [tally.keys[inside]]
    if not inside.all():
        posteriors.append(_posterior_beyond_table(calibration, tally.cells[~inside]))
        keys_by_token.append(tally.keys[~inside])
    frequencies = []
    keys = []
    variances = []
    for (i, probabilities), reported_keys in zip(posteriors, keys_by_token, strict=True):
        each = reported_keys[:, None]
        increments = _variance_increments(probabilities)
        frequencies.append(i.ravel())
        keys.append((probabilities * each).ravel())
        variances.append((increments * each).ravel())

    support, place = np.unique(np.concatenate(frequencies), return_inverse=True)
    reported = np.bincount(place, np.concatenate(keys), len(support))
    variance_increments = np.bincount(place, np.concatenate(variances), len(support))
    variance = np.maximum(np.cumsum(variance_increments), 0.0)
    pi = calibration.reporting.probabilities(support)
    is_any = reported > _LEAST_REPORTED
    expected = np.divide(reported, pi, out=np.zeros(len(pi)), where=is_any)
    return Spectrum(calibration, support, expected, variance)


def _variance_increments(probabilities: Floats) -> Floats:
    """Return the increments, from frequency to frequency, of the variance of the number of keys up to it: P (1 - P)."""
    upto = np.cumsum(probabilities, axis=1).clip(0, 1)
    return np.diff(upto * (1 - upto), prepend=0.0, axis=1)


def _posterior_beyond_table(calibration: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    """Return the posteriors of tokens beyond the table, as `_posterior`.

    They are shifts of those of the table's last tokens, each of the one with the same fraction of a frequency. Long
    posteriors are replaced by their quantiles at some points, all of which have the same probability.
    """
    grid = calibration.scheme.grid
    last_token = calibration.last_token
    last_tokens = last_token - np.arange(grid)
    frequencies, probabilities = _posterior(calibration, last_tokens)
    points_for_each = calibration.tuning.posterior_limit // len(cells)
    points = min(calibration.tuning.posterior_points, max(1, points_for_each))
    last_place = probabilities.shape[1] - 1
    if last_place >= 2 * points:
        shares = (np.arange(points) + 0.5) / points
        distributions = np.cumsum(probabilities, axis=1)
        quantiles = [np.searchsorted(distribution, shares) for distribution in distributions]
        places = np.minimum(np.array(quantiles), last_place)
        frequencies = np.take_along_axis(frequencies, places, 1)
        probabilities = np.full(places.shape, 1 / points)

    offsets = frequencies - first_frequency(last_token, grid)
    same_fraction = (last_token - cells) % grid
    first = first_frequency(cells, grid)[:, None]
    return first + offsets[same_fraction], probabilities[same_fraction]


def _posterior(calibration: Calibration, cells: Ints) -> tuple[Ints, Floats]:
    """Return, for each token, the frequencies of its support, and their posterior: [token, frequency] both.

    The prior is uniform from the threshold on; for a token that comes only from below it, it is uniform there.
    """
    if not len(cells):
        no_frequencies = np.zeros((0, 1), np.int64)
        return no_frequencies, np.zeros((0, 1))
    frequencies, mass = supports(cells, calibration.reporting, calibration.scheme.grid)
    is_above = frequencies >= calibration.calibration_threshold
    above = np.where(is_above, mass, 0.0)
    some_above = above.any(1, keepdims=True)
    likelihood = np.where(some_above, above, mass)
    return frequencies, likelihood / likelihood.sum(1, keepdims=True)

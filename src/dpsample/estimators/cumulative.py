"""Cumulative counts: numbers of keys up to each frequency, nearly unbiased, for quantiles of many keys.

A cumulative count is a sum of token values that average to 1 for keys up to some frequency, and to 0 for those above.
The smaller epsilon is, the larger its values are, and the more keys it takes until it locates a quantile better than
the tokens themselves do (docs/theory.md, section 7, Quantiles).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.estimators.intervals import student_quantile
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import round_up_key_count
from dpsample.estimators.tally import Tally
from dpsample.scheme.sampling import Floats, Ints

Bools = NDArray[np.bool_]
_TINY = 1e-300  # keeps ratios of zeros defined


@dataclass(frozen=True, eq=False)
class CumulativeCounts:
    """Token values that count the keys from a least frequency up to each of some frequencies, nearly without bias."""

    frequencies: Ints  # ascending
    values: Floats  # of tokens, by bin: [frequency, bin]
    bias: Floats  # of one key's value, at most: [frequency]
    number_of_all: Functional  # counts all keys from the least frequency on


@lru_cache(maxsize=8)
def cumulative_counts(calibration: Calibration, least: int, keys: int) -> CumulativeCounts:
    """Return the values that count keys from the least frequency on, made for this number of reported keys."""
    i = calibration.frequencies[~calibration.below]
    from_least = i >= least
    has_bin = calibration.places(i * calibration.scheme.grid) < len(calibration.bins)
    upto = i[from_least & has_bin]
    is_counted = from_least & (i <= upto[:, None])
    targets = is_counted.astype(np.float64)
    # the correction of a bias of -1 at the counted frequencies alone, on values of 0
    penalty = calibration.tuning.bias_penalty * keys
    values = calibration.bias_correction(-targets, penalty)
    means = values @ calibration.binned_laws.T
    bias = np.abs(means - targets).max(1)
    number_of_all = Functional(calibration, Measure.at_least(least), keys)
    return CumulativeCounts(upto, values, bias, number_of_all)


def narrow_quantile_intervals(
    tally: Tally,
    calibration: Calibration,
    shares: Floats,
    least: int,
    level: float,
    overcount: float,
    intervals: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """Return intervals of quantiles of the keys from the least frequency on: those passed, or shorter ones inside.

    A quantile is the frequency up to which there is a share of the keys. `overcount` of the keys that look like such
    ones may be below the least frequency (`_CountedTokens.rejected` has the test).
    """
    tuning = calibration.tuning
    counts = cumulative_counts(calibration, least, round_up_key_count(tally.total, tuning))
    counted = _CountedTokens.of(tally, calibration, counts)
    upto = counts.frequencies
    lows = intervals[0].copy()
    highs = intervals[1].copy()
    for n, share in enumerate(shares):
        old_low = lows[n]
        old_high = highs[n]
        is_inside = (upto >= old_low - calibration.spacing) & (upto <= old_high)
        picks = np.flatnonzero(is_inside)
        if not len(picks) or old_high > upto[-1]:
            continue
        too_low, too_high = counted.rejected(picks, share, level, overcount)
        low = upto[picks][~too_low]
        high = upto[picks][~too_high] + calibration.spacing
        if picks[0] == 0:  # no key is below the first
            high = np.append(upto[0], high)
        if not len(low) or not len(high):
            continue
        width = high[-1] - low[0]
        if 0 <= width < old_high - old_low:
            lows[n] = low[0]
            highs[n] = high[-1]
    return lows, highs


@dataclass(frozen=True, eq=False)
class _CountedTokens:
    """The tokens of reported keys: those that have a bin, and those far beyond, which only the number of all counts."""

    calibration: Calibration
    counts: CumulativeCounts
    keys: Ints  # the number of keys with each token that has a bin
    bins: Ints  # of these tokens
    number_values: Floats  # their values in the number of all keys
    far_keys: Ints  # the same of the tokens far beyond
    far_number_values: Floats

    @staticmethod
    def of(tally: Tally, calibration: Calibration, counts: CumulativeCounts) -> "_CountedTokens":
        places = calibration.places(tally.cells)
        has_bin = places < len(calibration.bins)
        number = counts.number_of_all
        near_places = places[has_bin]
        far_cells = tally.cells[~has_bin]
        return _CountedTokens(
            calibration,
            counts,
            keys=tally.keys[has_bin],
            bins=calibration.bins[near_places],
            number_values=number.table_values[near_places],
            far_keys=tally.keys[~has_bin],
            far_number_values=number.values(far_cells),
        )

    def rejected(
        self, picks: Ints, share: float, level: float, overcount: float
    ) -> tuple[Bools, Bools]:
        """Return which of the picked frequencies are rejected as too low for a quantile, and which as too high.

        With N(x) the number of keys up to x, of N, a frequency x is too low if N(x) - share N is significantly
        negative. It is too high if this is significantly non-negative at the frequency before x, even if `overcount`
        of the keys are below the least frequency. The variance of a value is its mean square less the square of its
        mean, which is known here: 1 - share for keys up to x, and -share for those above.
        """
        tuning = self.calibration.tuning
        keys = self.keys
        far_keys = self.far_keys
        values = self.counts.values[picks][:, self.bins]
        upto = values @ keys
        near_number = self.number_values @ keys
        far_number = self.far_number_values @ far_keys
        total = float(near_number + far_number)
        excess = upto - share * total  # the estimate of N(x) - share N, for each x

        values -= share * self.number_values
        far_values = share * self.far_number_values
        square = values**2 @ keys + float(far_values**2 @ far_keys)
        fourth = values**4 @ keys + float(far_values**4 @ far_keys)
        above = total - upto
        squared_means = (1 - share) ** 2 * upto + share**2 * above
        least_variance = tuning.cumulative_variance_floor * square
        variance = np.maximum(square - squared_means, least_variance)
        effective_keys = square**2 / (fourth + _TINY)

        quantile = student_quantile(0.5 + level / 2, 2 * effective_keys)
        margin = np.sqrt(variance) * quantile
        margin += self.counts.bias[picks] * self._reported
        rests_on_enough = effective_keys >= tuning.least_cumulative_keys
        too_low = rests_on_enough & (excess + margin < 0)
        from_below = (1 - share) * overcount
        too_high = rests_on_enough & (excess - margin >= from_below)
        return too_low, too_high

    @property
    def _reported(self) -> int:
        """The number of reported keys."""
        return int(self.keys.sum() + self.far_keys.sum())

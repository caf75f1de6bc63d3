"""Cumulative counts: numbers of keys up to each frequency, nearly unbiased, for quantiles of many keys.

A cumulative count is a sum of token values that average to 1 for keys up to some frequency, and to 0 for those above.
The smaller epsilon is, the larger its values are, and the more keys it takes until it locates a quantile better than
the tokens themselves do.
"""

from functools import lru_cache

import numpy as np

from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.estimators.intervals import student_quantile
from dpsample.estimators.measures import Measure
from dpsample.estimators.sum_functionals import round_up_key_count
from dpsample.estimators.tally import Tally
from dpsample.scheme.sampling import Floats, Ints

_TINY = 1e-300  # keeps ratios of zeros defined


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

    With N(x) keys up to x, of N, a frequency x is rejected as too low if N(x) - share N is significantly negative, and
    as too high if it is significantly non-negative at the frequency before x, even if `overcount` of the keys are below
    the least frequency. The mean square of a value is its variance plus the square of its mean, which is known here.
    """
    tuning = calibration.tuning
    at, values_upto, bias, number = cumulative_counts(
        calibration, least, round_up_key_count(tally.total, tuning)
    )
    places = calibration.places(tally.cells)
    inside = places < len(calibration.bins)
    bins = calibration.bins[places[inside]]
    # values that count all keys from the least frequency on, of the tokens that have bins and of those far beyond
    one = number.table_values[places[inside]]
    far = number.values(tally.cells[~inside])
    keys, far_keys = tally.keys[inside], tally.keys[~inside]
    total = float(one @ keys + far @ far_keys)

    lows, highs = (ends.copy() for ends in intervals)
    for n, share in enumerate(shares):
        picks = np.flatnonzero((at >= lows[n] - calibration.spacing) & (at <= highs[n]))
        if not len(picks) or highs[n] > at[-1]:
            continue
        # values whose sum is N(x) - share N, for each x that is picked
        values = values_upto[picks][:, bins]
        upto = values @ keys
        values -= share * one
        far_values = share * far
        excess = upto - share * total

        square = values**2 @ keys + float(far_values**2 @ far_keys)
        fourth = values**4 @ keys + float(far_values**4 @ far_keys)
        squared_means = (1 - share) ** 2 * upto + share**2 * (total - upto)
        variance = np.maximum(square - squared_means, tuning.cumulative_variance_floor * square)
        effective_keys = square**2 / (fourth + _TINY)
        margin = np.sqrt(variance) * student_quantile(0.5 + level / 2, 2 * effective_keys)
        margin += bias[picks] * tally.total

        rests_on_enough = effective_keys >= tuning.least_cumulative_keys
        too_low = rests_on_enough & (excess + margin < 0)
        too_high = rests_on_enough & (excess - margin >= (1 - share) * overcount)
        low = at[picks][~too_low]
        high = at[picks][~too_high] + calibration.spacing
        if picks[0] == 0:  # no key is below the first
            high = np.append(at[0], high)
        is_shorter = len(low) and len(high) and 0 <= high[-1] - low[0] < highs[n] - lows[n]
        if is_shorter:
            lows[n], highs[n] = low[0], high[-1]
    return lows, highs


@lru_cache(maxsize=8)
def cumulative_counts(
    calibration: Calibration, least: int, keys: int
) -> tuple[Ints, Floats, Floats, Functional]:
    """Frequencies; values of bins that count the keys from the least up to each; their bias; and the number of all."""
    i = calibration.frequencies[~calibration.below]
    from_least = i >= least
    has_bin = calibration.places(i * calibration.scheme.grid) < len(calibration.bins)
    at = i[from_least & has_bin]
    counted = from_least & (i <= at[:, None])
    targets = counted.astype(np.float64)
    values = calibration.bias_correction(-targets, calibration.tuning.bias_penalty * keys)
    means = values @ calibration.binned_laws.T
    bias = np.abs(means - targets).max(1)
    number_of_all = Functional(calibration, Measure.at_least(least), keys)
    return at, values, bias, number_of_all

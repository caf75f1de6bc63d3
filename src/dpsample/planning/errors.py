"""The predicted error of the default estimator on known frequencies, without simulation.

predicted          frequencies and a setting -> the accuracy of a sum
prediction_table   the table of the estimator that it is computed from

`moments` predicts the errors of `calibrated`, and `errors_of_mle` those of `mle`.
"""

import math
from dataclasses import replace
from functools import lru_cache

from dpsample.comparison.accuracy import Accuracy, covered
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.sum_functionals import round_up_key_count
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.planning.errors_of_mle import predicted_by_mle
from dpsample.planning.moments import SelectedKeys, value_moments
from dpsample.scheme.coarsening import strided
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import default_grid, support_length


def predicted(
    frequencies: Ints,
    keys: Floats,
    sampling: Sampling,
    privacy: PerKey,
    share: float = 1.0,
    quick: bool = False,
    tuning: Tuning = TUNING,
) -> tuple[Accuracy, str]:
    """Return the accuracy of a sum over a selection of the keys, and the estimator that a release would use for it.

    `frequencies` are distinct and ascending; `keys` is the number of keys of each, of which each is selected with
    probability `share`; `privacy` is that of one key. With an epsilon that is too small for `calibrated`, answers are
    by `mle`, and so is this. `quick`, for searches, takes a coarser table, which is about as
    large for each epsilon; an epsilon that is far too small takes it anyway. Over 2,816 settings (epsilon from 0.03 to
    10, delta from 1e-12 to 1e-3, 4 samplings, 8 kinds of data, totals and selections of 1 %), quick NRMSEs of 0.02 or
    more were within 3 % of the others in 99.2 % of the settings, and within 15 % in all; smaller ones were within 3 %
    in 97 % of them, and at most twice as large. By `mle`, over 40 settings, they were within 1.5 %, or within 35 %
    where they were below 0.002.

    >>> import numpy as np
    >>> from dpsample import KeepAll, Privacy
    >>> accuracy, estimator = predicted(np.arange(1, 201), np.full(200, 1000.0), KeepAll(), Privacy("0.5", 1e-6))
    >>> estimator, round(accuracy.nrmse, 4)
    ('calibrated', 0.0002)
    """
    quick = quick or support_length(privacy) > tuning.longest_exact_support
    pi = reporting_probabilities(frequencies, sampling, privacy)
    selection = SelectedKeys(frequencies.astype(float), keys, pi, share)
    table, stride = prediction_table(sampling, privacy, quick, tuning)
    if not table.fits(default_grid(privacy) * stride**2):
        by_mle = predicted_by_mle(frequencies, selection, sampling, privacy, quick, tuning)
        return by_mle, "mle"

    coverage = covered(frequencies, keys, pi).of_share(share)
    moments = value_moments(table, round_up_key_count(coverage.reported_keys, tuning))
    in_strides = replace(selection, frequencies=frequencies / stride)
    bias, variance = moments.error(in_strides)
    truth = share * float(keys @ frequencies)
    accuracy = Accuracy(coverage, truth, stride * bias, stride**2 * variance)
    return accuracy, "calibrated"


# one table: with a small epsilon it takes hundreds of megabytes, and a grid of settings never comes back to it
@lru_cache(maxsize=1)
def prediction_table(
    sampling: Sampling, privacy: PerKey, quick: bool, tuning: Tuning
) -> tuple[Calibration, int]:
    """Return the table of a prediction, and its stride: the true frequencies that one frequency of the table holds."""
    if not quick:
        scheme = Scheme(sampling, privacy, default_grid(privacy))
        return Calibration(scheme, tuning), 1
    rows = tuning.quick_table_rows
    table, stride = _quick_table(sampling, privacy, rows, tuning)
    bins = int(table.bins[-1]) + 1
    if bins <= tuning.quick_table_bins:
        return table, stride
    fewer_rows = rows * tuning.quick_table_bins // bins
    return _quick_table(sampling, privacy, fewer_rows, tuning)


def _quick_table(
    sampling: Sampling, privacy: PerKey, rows: int, tuning: Tuning
) -> tuple[Calibration, int]:
    """Return a table of a coarser scheme with about this number of rows, and its stride.

    A scheme of stride s has every s-th frequency, and s times the epsilon (`strided`). `spacing` is the distance of
    tokens as a frequency times epsilon; tuning limits it on both sides.
    """
    support = support_length(privacy) * float(privacy.epsilon)
    spacing = max(support / rows, tuning.table_spacing)
    spacing = min(spacing, tuning.quick_table_spacing)
    coarser, per_key, stride = strided(sampling, privacy, rows)
    log_grid = math.floor(math.log2(float(per_key.epsilon) / spacing))
    coarse_grid = 1 << max(0, log_grid)
    grid = min(coarse_grid, default_grid(per_key))
    scheme = Scheme(coarser, per_key, grid)
    table = Calibration(scheme, replace(tuning, table_spacing=spacing))
    return table, stride

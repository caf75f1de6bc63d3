"""The predicted error of `mle`, the estimator of answers if epsilon is too small for `calibrated`.

Its exact error takes long to compute: so `mle` is evaluated at some tokens, and its error at some frequencies.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Accuracy, Errors, Pws, selected
from dpsample.estimators.measures import Measure
from dpsample.estimators.mle import mle
from dpsample.estimators.tuning import Tuning
from dpsample.planning.moments import SelectedKeys
from dpsample.scheme.coarsening import strided
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.tokens import support_length


def predicted_by_mle(
    frequencies: Ints,
    keys: SelectedKeys,
    sampling: Sampling,
    privacy: PerKey,
    quick: bool,
    tuning: Tuning,
) -> Accuracy:
    """Return the accuracy of a sum by `mle`; with `quick`, that of a coarser scheme with the same shape.

    `frequencies` are those of `keys` as integers, which floats would round. A coarser scheme has every s-th frequency
    and s times the epsilon (`strided`). The errors of frequency / s there are taken to have the same ratio to it.
    """
    stride = 1
    if quick:
        # half of the rows that other estimators have
        sampling, privacy, stride = strided(sampling, privacy, tuning.quick_table_rows // 2)
    truth = keys.frequencies
    coarse = truth / stride
    first = max(coarse[0], 1.0)
    last = max(coarse[-1], 1.0)
    knots = _knots(privacy, first, last, tuning)
    method = Pws(sampling, privacy, _InterpolatedMle(tuning.mle_token_spacing))
    if stride == 1 and len(frequencies) <= len(knots):
        return selected(method.errors(frequencies), keys.counts, keys.share)

    errors = _errors_at(method, tuple(knots.tolist()))
    relative_bias = np.interp(coarse, knots, errors.bias / errors.truth)
    # the variance grows as 1 / pi; without this factor it is smooth, and can be interpolated
    smooth = errors.variance * errors.reported / errors.truth**2
    relative_variance = np.interp(coarse, knots, smooth) / keys.reported
    bias = truth * relative_bias
    variance = truth**2 * relative_variance
    interpolated = Errors(frequencies, truth, keys.reported, bias, variance)
    return selected(interpolated, keys.counts, keys.share)


def _knots(privacy: PerKey, first: float, last: float, tuning: Tuning) -> Ints:
    """Return the frequencies, from `first` to `last`, at which errors are computed and not interpolated.

    They are dense around the detection threshold, which is about the middle of a token's support.
    """
    support = support_length(privacy)
    outer = tuning.mle_outer_knots
    spacing = tuning.mle_knot_spacing / float(privacy.epsilon)
    middle = np.arange(support / 4, support, spacing)
    before = np.geomspace(first, max(first, middle[0]), outer)
    after = np.geomspace(min(last, middle[-1]), last, outer)
    knots = np.concatenate([before, middle, after])
    inside = knots.clip(first, last)
    return np.unique(inside.astype(np.int64))


@dataclass(frozen=True)
class _InterpolatedMle:
    """The estimator `mle`, evaluated at some tokens and interpolated between them."""

    spacing: float  # distance between these tokens, in units of 1/epsilon

    def __call__(
        self, cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int, of: Measure | str
    ) -> Floats:
        """Return the estimates of some tokens, which are given as multiples (`cells`) of 1/grid."""
        cells = np.asarray(cells, np.int64)
        distinct = np.unique(cells)
        length = max(1, round(self.spacing * grid / float(privacy.epsilon)))
        # tokens fall into stretches of this length; `mle` is evaluated at both ends of each
        stretch = distinct // length
        is_first = np.diff(stretch, prepend=-1) != 0
        is_last = np.diff(stretch, append=-1) != 0
        evaluated = distinct[is_first | is_last]
        estimates = mle(evaluated, sampling, privacy, grid, of)
        return np.asarray(np.interp(cells, evaluated, estimates))


@lru_cache(maxsize=1)  # a plan asks for the total and for a selection at the same frequencies
def _errors_at(method: Pws, knots: tuple[int, ...]) -> Errors:
    return method.errors(knots)

"""Quantiles of the frequencies of keys, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.cumulative import narrow_quantile_intervals
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import FEW, HIDDEN, Note, blurred_note
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.exact import check_level
from dpsample.questions.arguments import check_shares
from dpsample.questions.result import Estimates
from dpsample.questions.selection import Selection, Where
from dpsample.questions.sums import kept_notes, least_of_keys, needs_tokens
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

if TYPE_CHECKING:
    from dpsample.release.release import Release


def quantiles(
    release: "Release",
    shares: Sequence[float],
    where: Where = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
) -> Estimates:
    """Estimate quantiles of the frequencies of the selected keys that have frequency `at_least` or more.

    The quantile of share p is the smallest frequency that a share p or more of these keys do not exceed. `at_least` is
    as for `mean`.
    """
    level = check_level(level)
    p = check_shares(shares)
    if release.keys_only:
        raise needs_tokens("a quantile of frequencies")
    assert release.grid is not None
    least, detectable = least_of_keys(release, at_least)
    _, [tally] = Selection(release, where, attributes=attributes).tallies()
    scheme = Scheme(release.sampling, release.per_key, release.grid)
    estimates = estimate_quantiles(tally, scheme, p, least, level, detectable)
    notes = (estimates.note(least) if detectable else HIDDEN, *kept_notes(release))
    error = (estimates.high - estimates.low) / (2 * NormalDist().inv_cdf(0.5 + level / 2))
    columns = {
        "value": estimates.values,
        "standard_error": np.where(np.isnan(estimates.values), math.nan, error),
        "low": estimates.low,
        "high": estimates.high,
    }
    numbers = {name: column.astype(np.float64) for name, column in columns.items()}
    guaranteed = np.full(len(p), detectable and estimates.guaranteed)
    table = pa.table({**numbers, "keys": np.full(len(p), tally.total), "guaranteed": guaranteed})
    threshold = frequency_reaching(0.5, release.sampling, release.per_key)
    return Estimates(pa.table({"quantile": p}), table, level, threshold, notes, least)


@dataclass(frozen=True, eq=False)
class QuantileEstimates:
    """Quantiles with their intervals, and what determines whether they are guaranteed."""

    values: Floats
    low: Floats
    high: Floats
    keys: float  # estimated number of keys from the least frequency on
    blurred: bool  # whether keys below the least frequency cannot be distinguished from those at it
    few: bool  # whether the keys are too few for a guarantee

    @property
    def guaranteed(self) -> bool:
        """Whether the intervals have nominal coverage, provided that keys from the least frequency on are detected."""
        return self.keys > 0 and not self.blurred

    def note(self, least: int) -> str:
        """Return why the intervals are, or are not, guaranteed."""
        if self.keys <= 0:
            return Note("no selected key is that frequent", advice="at_least (--at-least) takes in rarer ones")
        if self.blurred:
            return blurred_note(least)
        if self.few:
            return FEW
        return "these intervals are conservative: how much of the spread is noise of tokens is not known"


def estimate_quantiles(
    tally: Tally,
    scheme: Scheme,
    shares: Floats,
    least: int,
    level: float,
    detectable: bool = True,
    tuning: Tuning = TUNING,
) -> QuantileEstimates:
    """Estimate quantiles of the keys from the least frequency on: by their spectrum, narrowed by cumulative counts.

    `detectable` says whether the least frequency is above the detection threshold; only there are keys counted.
    """
    estimated = spectrum(tally, scheme, tuning)
    keys = float(estimated.keys[estimated.frequencies >= least].sum())
    if keys <= 0:
        unknown, low, high = (np.full(len(shares), value) for value in (math.nan, 0.0, math.inf))
        return QuantileEstimates(unknown, low, high, keys, blurred=False, few=True)
    few = keys < tuning.least_quantile_keys
    if not (detectable and estimated.calibration.feasible):
        values, low, high = estimated.quantiles(shares, least, level)
        return QuantileEstimates(values.clip(low, high), low, high, keys, blurred=False, few=few)
    number = estimate_sum(tally, scheme, Measure.at_least(least), tuning)
    values, low, high = estimated.quantiles(shares, least, level, (number.value, *number.interval(level)))
    overcount = number.overcount(level)[1]
    low, high = narrow_quantile_intervals(tally, estimated.calibration, shares, least, level, overcount, (low, high))
    blurred = not number.extrapolation_is_negligible
    return QuantileEstimates(values.clip(low, high), low, high, keys, blurred, few)

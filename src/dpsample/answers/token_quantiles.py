"""Quantiles of the frequencies of keys, from their tokens, with intervals."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Quantiles
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.cumulative import narrow_quantile_intervals
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import FEW, HIDDEN, Note, blurred_note
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

_SPREAD = "how much of the spread is noise of tokens is not known"
CONSERVATIVE = f"these intervals are conservative: {_SPREAD}"
_RARER = "at_least (--at-least) takes in rarer ones"
NO_KEY = Note("no selected key is that frequent", advice=_RARER)


def quantiles(
    tally: Tally, scheme: Scheme, shares: Floats, least: int, level: float, detectable: bool
) -> Quantiles:
    """Return the quantiles of the keys from the least frequency on: an answer with errors and notes.

    `detectable` says whether most keys at the least frequency are reported. The error is that of a normal law with this
    interval.
    """
    found = estimate_quantiles(tally, scheme, shares, least, level, detectable)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    error_of_interval = (found.high - found.low) / (2 * z)
    error = np.where(np.isnan(found.values), math.nan, error_of_interval)
    estimates = KeyEstimates(found.values, error, found.low, found.high)
    note = found.note(least) if detectable else HIDDEN
    guaranteed = detectable and found.guaranteed
    return Quantiles(estimates, tally.total, guaranteed, notes=(note,), at_least=least)


@dataclass(frozen=True, eq=False)
class QuantileEstimates:
    """Quantiles with their intervals, and the facts that decide whether these are guaranteed."""

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
            return NO_KEY
        if self.blurred:
            return blurred_note(least)
        return FEW if self.few else CONSERVATIVE


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
    is_counted = estimated.frequencies >= least
    keys = float(estimated.keys[is_counted].sum())
    if keys <= 0:
        unknown = np.full(len(shares), math.nan)
        low = np.zeros(len(shares))
        high = np.full(len(shares), math.inf)
        return QuantileEstimates(unknown, low, high, keys, blurred=False, few=True)

    few = keys < tuning.least_quantile_keys
    if not (detectable and estimated.calibration.feasible):
        values, low, high = estimated.quantiles(shares, least, level)
        return QuantileEstimates(values.clip(low, high), low, high, keys, blurred=False, few=few)

    number = estimate_sum(tally, scheme, Measure.at_least(least), tuning)
    number_with_bounds = (number.value, *number.interval(level))
    values, low, high = estimated.quantiles(shares, least, level, number_with_bounds)
    _, overcount = number.overcount(level)
    low, high = narrow_quantile_intervals(
        tally, estimated.calibration, shares, least, level, overcount, (low, high)
    )
    blurred = not number.extrapolation_is_negligible
    return QuantileEstimates(values.clip(low, high), low, high, keys, blurred, few)

"""Estimate: a number with its error, and how it is computed from a tally."""

import html
import math
from dataclasses import dataclass

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.biased_down import biased_down
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import calibration
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.mle import mle
from dpsample.estimators.tally import Tally
from dpsample.estimators.unbiased import unbiased
from dpsample.exact import shown_number
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Sampling

ESTIMATORS = ("calibrated", "mle", "biased_down", "unbiased")
_BY_TOKEN = {"mle": mle, "biased_down": biased_down, "unbiased": unbiased}


@dataclass(frozen=True)
class Estimate:
    """A number that a release tells, with its error.

    value, standard_error   the estimate, and its standard error
    low, high, level        a confidence interval of this level
    bias                    the estimated bias of `value`: 0 for the default estimator
    keys                    the number of reported keys that it rests on; None if it rests on none
    detection_threshold     keys of a lower frequency are reported with a probability below 1/2; None if all are, and 0
                            if all keys are known
    guaranteed, notes       whether the interval is guaranteed, and remarks
    share                   of all elements, if the release has a private total and these are elements

    **Guaranteed** means nominal coverage: over repeated releases of the same data, sampling and tokens drawn anew,
    `low` to `high` holds the truth in a share `level` of the releases. It is claimed under two assumptions. Few keys
    lie below the calibration threshold (`dpsample.estimators.calibration`) beyond those that the tokens suggest:
    nothing in a release can confirm this. And the error is nearly normal, which is measured: at 95 %, intervals held
    in 94.7 % or more of the releases in all settings of docs/tuning.md. The guarantee is withheld if the extrapolation
    below that threshold matters, or if few keys determine the error.

    >>> Estimate(1234.5, 10.25, 1214.4, 1254.6, 0.95, keys=7, detection_threshold=14)
    1,234.5 +- 10.25 (95 %: 1,214.4 to 1,254.6), from 7 keys; below frequency 14 keys are unlikely to be reported
    """

    value: float
    standard_error: float
    low: float
    high: float
    level: float
    bias: float = 0.0
    keys: int | None = None
    detection_threshold: int | None = None
    guaranteed: bool = True
    notes: tuple[str, ...] = ()
    share: float | None = None

    def __repr__(self) -> str:
        interval = f"{100 * self.level:g} %: {shown_number(self.low)} to {shown_number(self.high)}"
        shown = f"{shown_number(self.value)} +- {shown_number(self.standard_error)} ({interval}"
        shown += ")" if self.guaranteed else ", not guaranteed)"
        if self.keys is not None:
            shown += f", from {self.keys:,} key{'' if self.keys == 1 else 's'}"
        if self.share is not None:
            shown += f", {self.share:.1%} of all elements"
        if self.detection_threshold == 0:
            shown += "; all of these keys are known, and reported"
        elif self.detection_threshold is not None:
            shown += f"; below frequency {self.detection_threshold:,} keys are unlikely to be reported"
        elif self.keys is not None:
            shown += "; no key is likely to be reported"
        return "\n".join([shown, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head, *notes = repr(self).split("\n")
        return f"<p>{html.escape(head)}</p>" + "".join(f"<p><i>{html.escape(note.strip())}</i></p>" for note in notes)


def check_estimator(estimator: str | None) -> str:
    """Check the name of an estimator; None is the default one."""
    if estimator is None:
        return ESTIMATORS[0]
    if estimator not in ESTIMATORS:
        raise InvalidValue(f"an estimator is one of {', '.join(ESTIMATORS)}", repr(estimator), "leave it out")
    return estimator


def estimate(
    tally: Tally, sampling: Sampling, privacy: PerKey, grid: int, of: Measure, estimator: str, level: float
) -> Estimate:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys, reported or not.

    The interval is that of `calibrated` whatever the estimator: it is about the sum, not about how it was estimated.
    """
    detection_threshold = frequency_reaching(0.5, sampling, privacy)
    if not len(tally.cells):
        high = _largest_unreported_sum(sampling, privacy, of, level)
        note = "no reported key is selected; more than this in keys that can be seen would have shown"
        return Estimate(0.0, math.nan, 0.0, high, level, math.nan, 0, detection_threshold, False, (note,))
    scheme = calibration(sampling, privacy, grid)
    if not scheme.feasible:
        by_token = _BY_TOKEN.get(estimator, mle)
        value = float(tally.weights @ by_token(tally.cells, sampling, privacy, grid, of))
        note = f"epsilon is too small for calibrated estimates and errors: this is by {by_token.__name__}"
        unknown = math.nan, -math.inf, math.inf, level, math.nan
        return Estimate(value, *unknown, tally.total, detection_threshold, False, (note,))
    calibrated = estimate_sum(tally, sampling, privacy, grid, of)
    low, high = calibrated.interval(level)
    value, bias = calibrated.value, 0.0
    if estimator != ESTIMATORS[0]:
        value = float(tally.weights @ _BY_TOKEN[estimator](tally.cells, sampling, privacy, grid, of))
        bias = value - calibrated.value
    notes = []
    if not calibrated.extrapolation_is_negligible:
        notes.append(_extrapolation_note(calibrated, scheme.calibration_threshold))
    if not calibrated.rests_on_enough_keys:
        notes.append("the error rests on few keys: the interval is not guaranteed")
    guaranteed = not notes
    if sampling.least > 1:
        notes.append(f"over keys of frequency {sampling.least:,} or more: the release leaves all others out")
    if (tally.weights == tally.keys).all():
        low = max(low, 0.0)
    low, high = min(low, value), max(high, value)
    error = calibrated.standard_error
    return Estimate(value, error, low, high, level, bias, tally.total, detection_threshold, guaranteed, tuple(notes))


def _extrapolation_note(estimate: SumEstimate, threshold: int) -> str:
    if estimate.extrapolated > 0:
        return (
            f"keys below frequency {threshold:,} are rarely reported: {shown_number(estimate.extrapolated)} is added "
            "for them, extrapolated from the keys just above; the interval does not cover what else they hold"
        )
    return (
        f"keys below frequency {threshold:,} cannot be distinguished from those at it: "
        f"{shown_number(-estimate.extrapolated)} is subtracted for them, extrapolated from the keys just above"
    )


def _largest_unreported_sum(sampling: Sampling, privacy: PerKey, of: Measure, level: float) -> float:
    """The largest sum over keys of one frequency that are all unreported with probability 1 - level."""
    start = calibration(sampling, privacy, 1).calibration_threshold
    largest = min(sampling.largest, max(1 << 40, 2 * start))
    i = np.unique(np.geomspace(start, largest, 512).astype(np.int64))
    unreported = reporting_probabilities(i, sampling, privacy, complement=True)
    possible = unreported > 1 - level  # of one key, at least
    if not possible.any():
        return 0.0
    keys = np.floor(math.log(1 - level) / np.log(unreported[possible]))
    return float((keys * of(i[possible])).max())

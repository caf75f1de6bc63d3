"""Estimate: a number with its error, and how it is computed from a tally."""

import html
import math
from dataclasses import dataclass

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.biased_down import biased_down
from dpsample.estimators.calibrated import parts
from dpsample.estimators.calibration import calibration
from dpsample.estimators.measures import Measure
from dpsample.estimators.mle import mle
from dpsample.estimators.tally import Tally
from dpsample.estimators.unbiased import unbiased
from dpsample.exact import shown_number
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Sampling

ESTIMATORS = ("calibrated", "mle", "biased_down", "unbiased")
_BY_TOKEN = {"mle": mle, "biased_down": biased_down, "unbiased": unbiased}


@dataclass(frozen=True)
class Estimate:
    """A number that a release tells, with its error.

    value, standard_error   the estimate, and its standard error
    low, high, level        an interval that holds the truth with probability `level`, if it is `guaranteed`
    bias                    the bias that is estimated to be left in `value`
    keys                    how many reported keys it rests on; None if it rests on none
    detection_threshold     keys of a lower frequency are unlikely to be reported (pi < 0.5); None if all are
    guaranteed, notes       whether the interval can be guaranteed, and what else there is to say
    share                   of all elements, if the release has a private total and these are elements

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
        if self.detection_threshold is not None:
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
    tally: Tally, sampling: Sampling, privacy: Privacy, grid: int, of: Measure, estimator: str, level: float
) -> Estimate:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys, reported or not.

    The interval is that of `calibrated` whatever the estimator: it is about the sum, not about how it was estimated.
    """
    visible = frequency_reaching(0.5, sampling, privacy)
    if not len(tally.cells):
        high = _unreported(sampling, privacy, of, level)
        note = "no reported key is selected; more than this in keys that can be seen would have shown"
        return Estimate(0.0, math.nan, 0.0, high, level, math.nan, 0, visible, False, (note,))
    if not calibration(sampling, privacy, grid).feasible:
        by_token = _BY_TOKEN.get(estimator, mle)
        value = float(tally.weights @ by_token(tally.cells, sampling, privacy, grid, of))
        note = f"epsilon is too small for calibrated estimates and errors: this is by {by_token.__name__}"
        return Estimate(value, math.nan, -math.inf, math.inf, level, math.nan, tally.total, visible, False, (note,))
    found = parts(tally, sampling, privacy, grid, of)
    low, high = found.bounds(level)
    value, bias = found.value, 0.0
    if estimator != ESTIMATORS[0]:
        value = float(tally.weights @ _BY_TOKEN[estimator](tally.cells, sampling, privacy, grid, of))
        bias = value - found.value
    notes = []
    guaranteed = found.clear
    if not guaranteed:
        edge = calibration(sampling, privacy, grid).edge
        notes.append(
            f"keys below frequency {edge:,} can hardly be seen: {shown_number(found.dark)} is added for them, as if "
            "there were as many for each frequency as just above; the interval does not cover what else they hold"
            if found.dark > 0
            else f"keys below frequency {edge:,} can hardly be told from those at it: {shown_number(-found.dark)} is "
            "taken off for them, as if there were as many for each frequency as just above"
        )
    if not found.sure:
        guaranteed = False
        notes.append("the error rests on few keys: the interval is not guaranteed")
    if (tally.weights == tally.keys).all():
        low = max(low, 0.0)
    low, high = min(low, value), max(high, value)
    return Estimate(value, found.error, low, high, level, bias, tally.total, visible, guaranteed, tuple(notes))


def _unreported(sampling: Sampling, privacy: Privacy, of: Measure, level: float) -> float:
    """The largest sum over visible keys of one frequency, none of which is reported with probability 1 - level."""
    edge = calibration(sampling, privacy, 1).edge
    largest = min(sampling.largest, max(1 << 40, 2 * edge))
    i = np.unique(np.geomspace(edge, largest, 512).astype(np.int64))
    absent = reporting_probabilities(i, sampling, privacy, complement=True)
    possible = absent > 1 - level  # of one key, at least
    if not possible.any():
        return 0.0
    keys = np.floor(math.log(1 - level) / np.log(absent[possible]))
    return float((keys * of(i[possible])).max())

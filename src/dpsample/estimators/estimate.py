"""Estimate: a number with its error, and how it is computed from tallies."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.biased_down import biased_down
from dpsample.estimators.calibrated import estimate_sums, extrapolated_sums
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.mle import mle
from dpsample.estimators.notes import FEW, NONE_SELECTED, blurred_note
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.estimators.unbiased import unbiased
from dpsample.exact import shown_number
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

ESTIMATORS = ("calibrated", "mle", "biased_down", "unbiased")
_BY_TOKEN = {"mle": mle, "biased_down": biased_down, "unbiased": unbiased}
Estimator = str | Callable[[Floats], Any]
# Where `largest_unreported_sum` looks for the best frequency: up to a frequency that no data reach, at points that are
# 5 % apart, so that it is missed by little. More points cost time alone; fewer make the bound too low.
_FARTHEST = 1 << 40
_POINTS = 512


@dataclass(frozen=True)
class Below:
    """What keys below the least frequency of an answer hold.

    kind        "unknown"; "extrapolated": the value if the density of keys continues below, an assumption; or "known":
                the private total minus what is above
    value       the number, if it is not unknown
    low, high   its interval, if it is known
    remedy      how to know it, if it is unknown: a part of the text that is printed

    >>> Below(), Below("extrapolated", 163000.0), Below("known", 323300.0, 322900.0, 323700.0)
    (unknown, about 163,000 if the density ... (not guaranteed), 322,900 to 323,700 (private total minus the above))
    """

    kind: str = "unknown"
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    remedy: str = ""

    def __repr__(self) -> str:
        if self.kind == "known":
            low = shown_number(self.low)
            high = shown_number(self.high)
            return f"{low} to {high} (private total minus the above)"
        if self.kind == "extrapolated":
            return f"about {shown_number(self.value)} if the density of keys continues (not guaranteed)"
        return f"unknown{self.remedy}"


@dataclass(frozen=True)
class Estimate:
    """An answer: a number with its error.

    value, standard_error   the estimate, and its standard error
    low, high, level        a confidence interval of this level
    bias                    the estimated bias of `value`: 0 for the default estimator
    keys                    the number of reported keys that it rests on; None if it rests on none
    detection_threshold     keys of a lower frequency are reported with a probability below 1/2; None if all are, and 0
                            if all keys are known
    guaranteed, notes       whether the interval is guaranteed, and remarks (`notes.Note`)
    share                   of all elements, if the release has a private total and these are elements
    at_least                all of the above is about keys of this frequency or more; None if it is about others too
    below                   what keys of a lower frequency hold; None if that is not asked
    reported                of a total: the same sum over the reported keys alone, with its interval of this level

    **Guaranteed** means nominal coverage: over repeated releases of the same data, sampling and tokens drawn anew,
    `low` to `high` holds the truth in a share `level` of the releases, however many keys lie below `at_least`. This is
    measured, not proved: docs/tuning.md has the numbers.

    >>> Estimate(1234.5, 10.25, 1214, 1255, 0.95, keys=7, at_least=16, below=Below())
    in keys of frequency 16 or more: 1,234 (95 %: 1,214 to 1,255), from 7 reported keys
      below frequency 16: unknown
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
    at_least: int | None = None
    below: Below | None = None
    reported: Reported | None = None

    def __repr__(self) -> str:
        lines = [self._alone()] if self.reported is None else self._of_a_total(self.reported)
        if self.below is not None:
            lines.append(f"  below frequency {self.at_least:,}: {self.below}")
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def _alone(self) -> str:
        """Return the line of an answer that is not a total."""
        line = f"{self._number()}{self._rests_on()}{self._of_all()}"
        if self.at_least is not None:
            line = f"in keys of frequency {self.at_least:,} or more: {line}"
        if self.detection_threshold == 0:
            line += "; all of these keys are known, and reported"
        return line

    def _of_a_total(self, reported: Reported) -> list[str]:
        """Return the line of the reported keys, and then that of all keys: each says which it is."""
        ends = self._ends(reported.low, reported.high)
        value = shown_number(reported.value)
        in_reported = f"in reported keys: {value} ({ends}){self._rests_on()}"
        if reported.others:
            return [in_reported + self._of_all(), f"  in all keys: {reported.others}"]
        keys = in_all_keys(self.at_least)
        return [in_reported, f"  {keys}: {self._number()}{self._of_all()}"]

    def _ends(self, low: float, high: float) -> str:
        """Return an interval in words."""
        percent = 100 * self.level
        return f"{percent:g} %: {shown_number(low)} to {shown_number(high)}"

    def _number(self) -> str:
        """Return the value and its interval in words."""
        ends = self._ends(self.low, self.high)
        if self.low == -math.inf and self.high == math.inf:
            ends = "no interval"
        elif not self.guaranteed:
            ends += ", not guaranteed"
        return f"{shown_number(self.value)} ({ends})"

    def _rests_on(self) -> str:
        if self.keys is None:
            return ""
        return f", from {self.keys:,} reported key{'' if self.keys == 1 else 's'}"

    def _of_all(self) -> str:
        return "" if self.share is None else f", {self.share:.1%} of all elements"

    def _repr_html_(self) -> str:
        head, *notes = repr(self).split("\n")
        page = f"<p>{html.escape(head)}</p>"
        for note in notes:
            page += f"<p><i>{html.escape(note.strip())}</i></p>"
        return page


def in_all_keys(at_least: int | None) -> str:
    """Return in words which keys the estimate of a total covers.

    >>> in_all_keys(16)
    'in all keys of frequency 16 or more'
    """
    return "in all keys" if at_least is None else f"in all keys of frequency {at_least:,} or more"


def check_estimator(estimator: Estimator | None) -> Estimator:
    """Return an estimator that is the name of one, or a function from tokens to estimates; None is the default one."""
    if estimator is None:
        return ESTIMATORS[0]
    if callable(estimator) or estimator in ESTIMATORS:
        return estimator
    names = ", ".join(ESTIMATORS)
    raise InvalidValue(
        f"estimator must be one of {names}, or a function of an array of tokens, not {estimator!r}"
    )


def least_frequency(scheme: Scheme, each_key_alike: bool = False, tuning: Tuning = TUNING) -> int:
    """Return the least frequency of the keys that answers are about by default: a little above a threshold.

    Keys below the calibration threshold have the tokens of keys at it. A sum over keys a little above it counts none of
    them, however many there are, so its interval is guaranteed. Where each key counts alike, as in a number of keys,
    the threshold is that of detection: with sampling, it is higher.

    >>> from dpsample import KeepAll, Ppswor, Privacy
    >>> [least_frequency(Scheme(KeepAll(), Privacy(epsilon, 1e-6))) for epsilon in (1, "0.1")]
    [16, 114]
    >>> [least_frequency(Scheme(Ppswor("0.01"), Privacy(1, 1e-6)), alike) for alike in (False, True)]
    [15, 72]
    """
    calibration = Calibration.of(scheme)
    threshold = calibration.calibration_threshold
    if each_key_alike:
        detection_threshold = frequency_reaching(0.5, scheme.sampling, scheme.per_key) or 0
        threshold = max(threshold, detection_threshold)
    scale = tuning.least_margin_scale
    if calibration.reporting.bell_shaped:
        scale = tuning.least_margin_of_noise
    margin = max(tuning.least_margin, math.ceil(scale / calibration.epsilon))
    return min(threshold + margin, scheme.sampling.largest)


def estimate(
    tally: Tally,
    scheme: Scheme,
    of: Measure,
    estimator: Estimator = ESTIMATORS[0],
    level: float = 0.95,
    least: int = 1,
) -> Estimate:
    """Estimate a sum over the selected keys: `estimates` of one group, which may be empty."""
    return estimates([tally], scheme, of, estimator, level, least)[0]


def estimates(
    tallies: Sequence[Tally],
    scheme: Scheme,
    of: Measure,
    estimator: Estimator = ESTIMATORS[0],
    level: float = 0.95,
    least: int = 1,
    keys: int | None = None,
) -> list[Estimate]:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the keys x of each group from a least frequency on.

    Keys count whether they were reported or not. The sums of groups add up, since they are estimated by the same token
    values. Other estimators than the default one sum over all keys; they have no interval. `keys` is as for
    `estimate_sums`.
    """
    is_calibrated = estimator == ESTIMATORS[0]
    if not is_calibrated or not Calibration.of(scheme).feasible:
        return [_by_token(tally, scheme, of, estimator, level) for tally in tallies]
    if not any(len(tally.cells) for tally in tallies):
        return [_nothing_reported(scheme, of, level, least)] * len(tallies)
    sums = estimate_sums(tallies, scheme, of.from_frequency(least), keys=keys)
    threshold = frequency_reaching(0.5, scheme.sampling, scheme.per_key)
    answers = []
    for tally, total in zip(tallies, sums, strict=True):
        unweighted = bool((tally.weights == tally.keys).all())
        answers.append(answer(total, of, level, least, threshold, tally.total, unweighted))
    rarer_keys_count = of([least - 1])[0] > 0
    if not rarer_keys_count or scheme.sampling.least > 1:
        return answers

    in_all_frequencies = extrapolated_sums(tallies, scheme, of, keys).tolist()
    with_rarer_keys = []
    for one, from_least, in_all in zip(answers, sums, in_all_frequencies, strict=True):
        below = Below("extrapolated", max(in_all - from_least.above, 0.0))
        with_rarer_keys.append(replace(one, below=below))
    return with_rarer_keys


def answer(
    total: SumEstimate,
    of: Measure,
    level: float,
    least: int,
    threshold: int | None,
    keys: int,
    unweighted: bool,
) -> Estimate:
    """Return the answer that follows from the estimate of a sum over keys from a least frequency on.

    `threshold` is that of detection, `keys` the number of reported keys, and `unweighted` whether each has weight 1.
    """
    low, high = total.interval(level)
    negligible = total.extrapolation_is_negligible
    value = total.above if negligible else total.value  # without the extrapolation, groups add up
    if unweighted:
        low = max(low, 0.0)
        if of.whole:
            low = math.floor(low)
            high = math.ceil(high)
    notes: list[str] = []
    if not negligible:
        notes.append(blurred_note(least))
    elif not total.rests_on_enough_keys:
        notes.append(FEW)
    low = float(min(low, value))
    high = float(max(high, value))
    return Estimate(
        value,
        total.standard_error,
        low=low,
        high=high,
        level=level,
        keys=keys,
        detection_threshold=threshold,
        guaranteed=negligible,
        notes=tuple(notes),
        at_least=least,
    )


def _nothing_reported(scheme: Scheme, of: Measure, level: float, least: int) -> Estimate:
    """Return the answer for groups of which no key was reported."""
    threshold = frequency_reaching(0.5, scheme.sampling, scheme.per_key)
    is_guaranteed = least >= least_frequency(scheme)
    return Estimate(
        0.0,
        standard_error=math.nan,
        low=0.0,
        high=largest_unreported_sum(scheme, of, level, least),
        level=level,
        keys=0,
        detection_threshold=threshold,
        guaranteed=is_guaranteed,
        notes=(NONE_SELECTED,),
        at_least=least,
        below=Below(),
    )


def _by_token(
    tally: Tally, scheme: Scheme, of: Measure, estimator: Estimator, level: float
) -> Estimate:
    """Return the sum of an estimate for each token, without an interval."""
    if callable(estimator):
        values = np.asarray(estimator(tally.cells / scheme.grid), np.float64)
        if values.shape != tally.cells.shape or not np.isfinite(values).all():
            raise InvalidValue(
                "an estimator must return a finite number for each token of an array",
                "write it with numpy",
            )
        note = "by a given function of the token, over all keys"
    else:
        by_token = _BY_TOKEN.get(estimator, mle)
        values = by_token(tally.cells, *scheme, of)
        note = f"by {by_token.__name__}, over all keys"
        if estimator == ESTIMATORS[0]:
            note = f"epsilon is too small for calibrated estimates and errors: this is {note}"
    total = float(tally.weights @ values)
    threshold = frequency_reaching(0.5, scheme.sampling, scheme.per_key)
    return Estimate(
        total,
        standard_error=math.nan,
        low=-math.inf,
        high=math.inf,
        level=level,
        bias=math.nan,
        keys=tally.total,
        detection_threshold=threshold,
        guaranteed=False,
        notes=(note,),
    )


def largest_unreported_sum(scheme: Scheme, of: Measure, level: float, least: int) -> float:
    """Return the largest sum over keys from a frequency on that are all unreported with probability 1 - level.

    n keys of frequency i are all unreported with probability ``(1 - pi_i)**n``, so n is at most
    ``log(1 - level) / log(1 - pi_i)``. Keys of several frequencies add up to no more than the most that those of one
    frequency do: the logarithms of their probabilities add up.
    """
    start = max(Calibration.of(scheme).calibration_threshold, least)
    largest = min(scheme.sampling.largest, max(_FARTHEST, 2 * start))
    points = np.geomspace(start, largest, _POINTS)
    i = np.unique(points.astype(np.int64))
    unreported = reporting_probabilities(i, scheme.sampling, scheme.per_key, complement=True)
    is_possible = unreported > 1 - level  # of one key, at least
    if not is_possible.any():
        return 0.0
    most_keys = math.log(1 - level) / np.log(unreported[is_possible])
    sums = of(i[is_possible]) * most_keys
    return float(sums.max())

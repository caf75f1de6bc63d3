"""The evidence of tokens: sums over the selected keys, numbers of keys and means, each with its error.

All of it is post-processing: it sees the release alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.dropped import Kept
from dpsample.accounting.totals import Total
from dpsample.answers.evidence import Evidence, Groups, Keys, Quantiles
from dpsample.answers.question import Question
from dpsample.answers.remainder import needs_total, remainder
from dpsample.answers.reported import ONE_KEY, ReportedSums
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.token_order import TokenKeys, probability_larger
from dpsample.answers.token_quantiles import quantiles
from dpsample.answers.tokens import TokenView, key_batch
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.calibrated import estimate_sums
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import Below, Estimate, estimate, estimates, least_frequency
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import FREQUENCY, KEYS
from dpsample.estimators.notes import FEW, HIDDEN, blurred_note
from dpsample.estimators.tally import Tally
from dpsample.release.explain import explain_kept
from dpsample.release.key_hash import first_frequencies
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats
from dpsample.scheme.scheme import Scheme

_NEEDS_A_TOTAL = "; a private total would tell: release with total=True (--with-total)"


class TokenEvidence(Evidence):
    """What a release says whose keys have tokens."""

    def __init__(
        self,
        view: TokenView,
        silence: Silence,
        total: Total | None = None,
        bound: "Bound | None" = None,
    ):
        self.view, self.silence, self.total, self.bound = view, silence, total, bound
        self.rows: Rows = view.rows

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "TokenEvidence":
        """Return the evidence of a release."""
        bound = None if terms.max_keys is None else Bound(terms.max_keys, terms.bought.kept)
        return TokenEvidence(
            TokenView.of(table, terms), Silence.of(terms), terms.bought.total, bound
        )

    @property
    def detection_threshold(self) -> int | None:
        return self.view.detection_threshold

    @property
    def remarks(self) -> tuple[str, ...]:
        return () if self.bound is None else (self.bound.note(),)

    # ---- sums

    def sums(self, question: Question) -> Groups:
        measure = question.measure
        selection = Selection.of(self.rows, question)
        groups, tallies = selection.tallies()
        in_reported_keys = ReportedSums(self.view, measure, question.level).of_groups(
            selection, tallies
        )
        if names_reported_keys(question, selection, tallies):
            in_all_keys = self._of_named_keys(question, selection)
            in_reported_keys = [replace(own, others=ONE_KEY) for own in in_reported_keys]
        else:
            in_all_keys = self._sums(question, tallies)
        found = [
            replace(one, reported=own)
            for one, own in zip(in_all_keys, in_reported_keys, strict=True)
        ]
        if question.is_plain_sum:
            found = [self._with_total(question, selection, one) for one in found]
        everything = question.is_plain_sum and question.where is None
        return Groups(groups, found, () if self.bound is None else (self.bound.note(everything),))

    def _sums(self, question: Question, tallies: Sequence[Tally]) -> list[Estimate]:
        """The sums over the keys from the least frequency on, reported or not."""
        measure = question.measure
        least = least_summed(self.view.scheme, question)
        found = estimates(
            tallies, self.view.scheme, measure, question.chosen_estimator, question.level, least
        )
        if question.extrapolate:
            return found
        may_need_total = self.total is None and question.is_plain_sum and question.where is None
        return [without_extrapolation(one, may_need_total) for one in found]

    def _of_named_keys(
        self, question: Question, selection: Selection, weighted: bool = True
    ) -> list[Estimate]:
        """The frequency of each named key, as in the release's table, or what a measure makes of it."""
        groups = selection.weighted_rows()[1]
        rows = np.concatenate([places for places, _ in groups])
        weights = np.ones(len(rows))
        if weighted:
            weights = np.concatenate([of_group for _, of_group in groups])
        measure, level = question.measure, question.level
        frequencies = self.view.frequencies(rows, level)
        ends = [weights * measure(frequency) for frequency in frequencies]
        return estimates_of_named_keys(ends, level, self.detection_threshold)

    def _with_total(self, question: Question, selection: Selection, found: Estimate) -> Estimate:
        """The same number of elements as a share of the private total, and what the total says of rarer keys."""
        if self.total is None or self.total.value <= 0:
            return found
        found = replace(found, share=found.value / float(self.total.value))
        if question.where is not None or not found.guaranteed or found.below is None:
            return found
        return replace(
            found,
            below=self.known_below(
                selection, least_summed(self.view.scheme, question), found.level
            ),
        )

    def known_below(self, selection: Selection, least: int, level: float) -> Below:
        """Return what keys below the least frequency hold: the private total minus the sum over the others.

        Of the probability that the interval misses, half goes to each of the two.
        """
        assert self.total is not None
        half = (1 + level) / 2
        elements = self.total.estimate(half)
        [tally] = selection.tallies()[1]
        above = estimate(tally, self.view.scheme, FREQUENCY, level=half, least=least)
        ends = (elements.value - above.value, elements.low - above.high, elements.high - above.low)
        value, low, high = (max(end, 0.0) for end in ends)
        return Below("known", value, low, high)

    # ---- means

    def means(self, question: Question) -> Groups:
        selection = Selection.of(self.rows, question)
        groups, tallies = selection.tallies()
        if names_reported_keys(question, selection, tallies):
            found = self._of_named_keys(question, selection, weighted=False)
        else:
            found = self._means(question, tallies)
        return Groups(groups, found, self.remarks)

    def _means(self, question: Question, tallies: Sequence[Tally]) -> list[Estimate]:
        """The means over the keys from the least frequency on, reported or not."""
        if not tallies:
            return []
        scheme, level = self.view.scheme, question.level
        least, detectable = least_of_keys(self.view, question.at_least)
        summed, counted = question.measure.from_frequency(least), KEYS.from_frequency(least)
        options = (question.chosen_estimator, level, least)
        sums = estimates(tallies, scheme, summed, *options)
        numbers = estimates(tallies, scheme, counted, *options)
        values = [
            s.value / n.value if n.value > 0 else math.nan
            for s, n in zip(sums, numbers, strict=True)
        ]
        if any(math.isnan(n.standard_error) for n in numbers):
            return [unknown_mean(value, n, least) for value, n in zip(values, numbers, strict=True)]

        deviations = Deviations(tallies, scheme, summed, counted)
        centres = np.nan_to_num(values)
        keys = np.array([max(n.value, 1e-9) for n in numbers])
        lows, highs = deviations.intervals(centres, keys, level)
        overcounts = [number.overcount(level) for number in estimate_sums(tallies, scheme, counted)]
        lowest = float(question.measure.from_frequency(least)([least])[0])
        found = []
        for n, (value, error) in enumerate(zip(values, deviations.at(centres), strict=True)):
            if math.isnan(value):
                found.append(unknown_mean(value, numbers[n], least))
                continue
            rise = max(value - lowest, 0.0)
            parts = MeanParts(sums[n], numbers[n], error, overcounts[n], rise, detectable)
            found.append(parts.mean(value, float(lows[n]), float(highs[n])))
        return found

    # ---- single keys

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        least, detectable = least_of_keys(self.view, question.at_least)
        _, [tally] = Selection.of(self.rows, question).tallies()
        return quantiles(tally, self.view.scheme, shares, least, question.level, detectable)

    def keys(self, question: Question) -> Keys:
        return self.token_keys(question)

    def token_keys(self, question: Question) -> TokenKeys:
        """Return the selected keys."""
        rows, _ = Selection.of(self.rows, question).rows()
        return TokenKeys(self.view, rows)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self._silence_of(key).unreported(level)

    def probability_above(self, a: Any, b: Any) -> float:
        keys = self.token_keys(Question())
        laws = []
        for key in (a, b):
            place = self.place_of(key, keys)
            laws.append(self._silence_of(key).law() if place is None else keys.law(place))
        return probability_larger(*laws)

    def _silence_of(self, key: Any) -> Silence:
        """What silence says of a key; in a coordinated sample, its hash is known, and with it its first frequency."""
        if key is None or not self.view.is_coordinated:
            return self.silence
        chosen = key_batch(Selection(self.rows, [key]).chosen_keys)
        [first] = first_frequencies(chosen, self.view.scheme.sampling)
        return self.silence.from_frequency(int(first))

    def remainder(self, level: float) -> Estimate:
        if self.total is None:
            raise needs_total(self.total, tokens=True)
        return remainder(self.view.cells, self.view.scheme, self.total, level)


@dataclass(frozen=True)
class Bound:
    """The contribution bound of a release: numbers are those of the keys that users kept."""

    max_keys: int
    kept: Kept | None

    def note(self, everything: bool = False) -> str:
        """Return the note that says so; for a sum over everything, with how much was kept."""
        return explain_kept(self.max_keys, self.kept if everything else None)


@dataclass(frozen=True)
class MeanParts:
    """What the mean of a group follows from."""

    sums: Estimate
    keys: Estimate  # their number
    deviations: SumEstimate  # the sum of the keys' deviations from the mean
    overcount: tuple[
        float, float
    ]  # how many keys from below the least frequency were counted, and an upper bound
    rise: float  # by how much the mean is above keys at the least frequency
    detectable: bool  # whether most keys at the least frequency are reported

    def mean(self, value: float, low: float, high: float) -> Estimate:
        """Return the mean, from the interval by its deviations.

        If the number of rare keys is uncertain, the mean is as far above theirs as the interval of that number allows,
        which is in whole keys. The law of the deviations is then far from normal, and its interval alone too short.
        Keys that were counted though they are below the least frequency lower the mean.
        """
        keys, deviations, rise = self.keys, self.deviations, self.rise
        assert keys.at_least is not None
        if keys.high > 0:
            low = min(low, value - rise * (1 - keys.value / keys.high))
        if keys.low > 0:
            high = max(high, value + rise * (keys.value / keys.low - 1))
        counted, counted_at_most = self.overcount
        high = max(high + counted_at_most * rise / keys.value, value)
        low = max(min(low, value), min(value, 0.0))

        negligible = deviations.tuning.negligible_extrapolation * deviations.standard_error
        guaranteed = (
            self.detectable
            and self.sums.guaranteed
            and keys.guaranteed
            and counted * rise <= negligible
        )
        notes: tuple[str, ...] = ()
        if not guaranteed:
            notes = (blurred_note(keys.at_least) if self.detectable else HIDDEN,)
        elif not deviations.rests_on_enough_keys:
            notes = (FEW,)
        error = deviations.standard_error / keys.value
        mean = replace(keys, value=value, standard_error=error, low=low, high=high)
        return replace(mean, guaranteed=guaranteed, notes=notes, below=None)


def unknown_mean(value: float, keys: Estimate, least: int) -> Estimate:
    """Return a mean without an interval."""
    unknown = replace(
        keys, value=value, standard_error=math.nan, low=-math.inf, high=math.inf, guaranteed=False
    )
    return replace(unknown, at_least=least, below=None)


def without_extrapolation(found: Estimate, may_need_total: bool) -> Estimate:
    """Return an answer that says of rarer keys what the release knows: nothing; perhaps a total would."""
    if found.below is None:
        return found
    return replace(found, below=Below(remedy=_NEEDS_A_TOTAL if may_need_total else ""))


def names_reported_keys(question: Question, selection: Selection, tallies: Sequence[Tally]) -> bool:
    """Whether each group is one key that the question names, and that was reported."""
    plain = question.at_least is None and question.is_default_estimator and bool(tallies)
    return plain and selection.names_keys and all(tally.total == 1 for tally in tallies)


def estimates_of_named_keys(
    ends: Sequence[Floats], level: float, threshold: int | None
) -> list[Estimate]:
    """Return the estimates of single keys: from values, and the ends of intervals in any order."""
    estimates = []
    for value, *interval in np.transpose(ends).tolist():
        low, high = min(interval), max(interval)
        estimates.append(
            Estimate(value, math.nan, low, high, level, keys=1, detection_threshold=threshold)
        )
    return estimates


def least_summed(scheme: Scheme, question: Question) -> int:
    """Return the least frequency of the keys that are summed; rarer ones may count 0."""
    measure = question.measure
    least = question.at_least or least_frequency(scheme, each_key_alike=measure == KEYS)
    if measure.kink is not None and not measure([measure.kink - 1]).any():
        least = max(least, measure.kink)
    return least


def least_of_keys(view: TokenView, at_least: int | None) -> tuple[int, bool]:
    """Return the least frequency of the keys that are averaged, and whether most of these are reported."""
    threshold = view.detection_threshold
    if at_least is not None:
        return at_least, threshold is not None and at_least >= threshold
    if threshold is None:
        raise InvalidValue(
            "no frequency in this release is reported with probability 0.5",
            "give `at_least`; the interval is then not guaranteed",
        )
    return least_frequency(view.scheme, each_key_alike=True), True

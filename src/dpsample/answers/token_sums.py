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
from dpsample.answers.token_order import Law, TokenKeys, probability_larger
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

_LEAST_KEYS = (
    1e-9  # a number of keys that divides, where the estimate is 0 or below; such a mean is unknown
)
_NEEDS_A_TOTAL = "; a private total would tell: release with total=True (--with-total)"


class TokenEvidence(Evidence):
    """The evidence of a release whose keys have tokens."""

    def __init__(
        self,
        view: TokenView,
        silence: Silence,
        total: Total | None = None,
        bound: "Bound | None" = None,
    ):
        self.view = view
        self.silence = silence
        self.total = total
        self.bound = bound
        self.rows: Rows = view.rows

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "TokenEvidence":
        """Return the evidence of a release."""
        view = TokenView.of(table, terms)
        bound = None if terms.max_keys is None else Bound(terms.max_keys, terms.bought.kept)
        return TokenEvidence(view, Silence.of(terms), terms.bought.total, bound)

    @property
    def detection_threshold(self) -> int | None:
        return self.view.detection_threshold

    @property
    def remarks(self) -> tuple[str, ...]:
        return () if self.bound is None else (self.bound.note(),)

    # ---- sums

    def sums(self, question: Question) -> Groups:
        selection = Selection.of(self.rows, question)
        groups, tallies = selection.tallies()
        sums = ReportedSums(self.view, question.measure, question.level)
        in_reported_keys = sums.of_groups(selection, tallies)
        if names_reported_keys(question, selection, tallies):
            in_all_keys = self._of_named_keys(question, selection)
            in_reported_keys = [replace(one, others=ONE_KEY) for one in in_reported_keys]
        else:
            in_all_keys = self._sums(question, tallies)

        totals = []
        for in_all, in_reported in zip(in_all_keys, in_reported_keys, strict=True):
            total = replace(in_all, reported=in_reported)
            if question.is_plain_sum:
                total = self._with_total(question, selection, total)
            totals.append(total)
        is_everything = question.is_plain_sum and question.where is None
        remarks = () if self.bound is None else (self.bound.note(is_everything),)
        return Groups(groups, totals, remarks)

    def _sums(self, question: Question, tallies: Sequence[Tally]) -> list[Estimate]:
        """Return the sums over the keys from the least frequency on, reported or not."""
        scheme = self.view.scheme
        least = least_summed(scheme, question)
        estimator = question.chosen_estimator
        sums = estimates(tallies, scheme, question.measure, estimator, question.level, least)
        if question.extrapolate:
            return sums
        may_need_total = self.total is None and question.is_plain_sum and question.where is None
        return [without_extrapolation(one, may_need_total) for one in sums]

    def _of_named_keys(
        self, question: Question, selection: Selection, weighted: bool = True
    ) -> list[Estimate]:
        """Return the measure of the frequency of each named key, as the release's table states the frequency."""
        _, groups = selection.weighted_rows()
        rows = np.concatenate([rows_of_group for rows_of_group, _ in groups])
        weights = np.ones(len(rows))
        if weighted:
            weights = np.concatenate([weights_of_group for _, weights_of_group in groups])
        level = question.level
        measure = question.measure
        frequencies = self.view.frequencies(rows, level)
        ends = [weights * measure(frequency) for frequency in frequencies]
        return estimates_of_named_keys(ends, level, self.detection_threshold)

    def _with_total(self, question: Question, selection: Selection, estimate: Estimate) -> Estimate:
        """Return a number of elements as a share of the private total, and what the total says of rarer keys."""
        if self.total is None or self.total.value <= 0:
            return estimate
        shared = replace(estimate, share=estimate.value / float(self.total.value))
        if question.where is not None or not estimate.guaranteed or estimate.below is None:
            return shared
        least = least_summed(self.view.scheme, question)
        below = self.known_below(selection, least, estimate.level)
        return replace(shared, below=below)

    def known_below(self, selection: Selection, least: int, level: float) -> Below:
        """Return what keys below the least frequency hold: the private total minus the sum over the others.

        Of the probability that the interval misses, half goes to each of the two.
        """
        assert self.total is not None
        level_of_half = (1 + level) / 2
        elements = self.total.estimate(level_of_half)
        _, [tally] = selection.tallies()
        above = estimate(tally, self.view.scheme, FREQUENCY, level=level_of_half, least=least)
        value = max(elements.value - above.value, 0.0)
        low = max(elements.low - above.high, 0.0)
        high = max(elements.high - above.low, 0.0)
        return Below("known", value, low, high)

    # ---- means

    def means(self, question: Question) -> Groups:
        selection = Selection.of(self.rows, question)
        groups, tallies = selection.tallies()
        if names_reported_keys(question, selection, tallies):
            means = self._of_named_keys(question, selection, weighted=False)
        else:
            means = self._means(question, tallies)
        return Groups(groups, means, self.remarks)

    def _means(self, question: Question, tallies: Sequence[Tally]) -> list[Estimate]:
        """Return the means over the keys from the least frequency on, reported or not."""
        if not tallies:
            return []
        scheme = self.view.scheme
        level = question.level
        estimator = question.chosen_estimator
        least, detectable = least_of_keys(self.view, question.at_least)
        summed = question.measure.from_frequency(least)
        counted = KEYS.from_frequency(least)
        sums = estimates(tallies, scheme, summed, estimator, level, least)
        numbers = estimates(tallies, scheme, counted, estimator, level, least)
        values = []
        for total, number in zip(sums, numbers, strict=True):
            values.append(total.value / number.value if number.value > 0 else math.nan)
        if any(math.isnan(number.standard_error) for number in numbers):  # the estimator has none
            pairs = zip(values, numbers, strict=True)
            return [unknown_mean(value, number, least) for value, number in pairs]

        deviations = Deviations(tallies, scheme, summed, counted)
        centres = np.nan_to_num(values)
        keys = np.array([max(number.value, _LEAST_KEYS) for number in numbers])
        lows, highs = deviations.intervals(centres, keys, level)
        deviations_from_means = deviations.at(centres)
        sums_of_keys = estimate_sums(tallies, scheme, counted)
        lowest = float(summed([least])[0])
        means = []
        for n, value in enumerate(values):
            if math.isnan(value):
                means.append(unknown_mean(value, numbers[n], least))
                continue
            overcount = sums_of_keys[n].overcount(level)
            rise = max(value - lowest, 0.0)
            parts = MeanParts(
                sums[n], numbers[n], deviations_from_means[n], overcount, rise, detectable
            )
            means.append(parts.mean(value, float(lows[n]), float(highs[n])))
        return means

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
        return probability_larger(self._law_of(a, keys), self._law_of(b, keys))

    def _law_of(self, key: Any, keys: TokenKeys) -> Law:
        """Return the law of the frequency of a key, which need not be reported."""
        place = self.place_of(key, keys)
        if place is None:
            return self._silence_of(key).law()
        return keys.law(place)

    def _silence_of(self, key: Any) -> Silence:
        """Return what silence says of a key. A coordinated sample tells its first frequency, by the key's hash."""
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
    """The estimates that the mean of a group follows from."""

    sums: Estimate
    keys: Estimate  # their number
    deviations: SumEstimate  # the sum of the keys' deviations from the mean
    # how many keys from below the least frequency were counted: an estimate, and an upper bound
    overcount: tuple[float, float]
    rise: float  # by how much the mean is above keys at the least frequency
    detectable: bool  # whether most keys at the least frequency are reported

    def mean(self, value: float, low: float, high: float) -> Estimate:
        """Return the mean, given its interval by the deviations.

        If the number of rare keys is uncertain, the mean is as far above theirs as the interval of that number allows,
        which is in whole keys. The law of the deviations is then far from normal, and its interval alone too short.
        Keys that were counted though they are below the least frequency lower the mean.
        """
        keys = self.keys
        deviations = self.deviations
        rise = self.rise
        assert keys.at_least is not None
        if keys.high > 0:
            low = min(low, value - rise * (1 - keys.value / keys.high))
        if keys.low > 0:
            high = max(high, value + rise * (keys.value / keys.low - 1))
        counted, counted_at_most = self.overcount
        high = max(high + counted_at_most * rise / keys.value, value)
        low = max(min(low, value), min(value, 0.0))

        negligible = deviations.tuning.negligible_extrapolation * deviations.standard_error
        has_no_bias = counted * rise <= negligible
        are_guaranteed = self.sums.guaranteed and keys.guaranteed
        guaranteed = self.detectable and are_guaranteed and has_no_bias
        notes: tuple[str, ...] = ()
        if not self.detectable:
            notes = (HIDDEN,)
        elif not guaranteed:
            notes = (blurred_note(keys.at_least),)
        elif not deviations.rests_on_enough_keys:
            notes = (FEW,)
        return replace(
            keys,
            value=value,
            standard_error=deviations.standard_error / keys.value,
            low=low,
            high=high,
            guaranteed=guaranteed,
            notes=notes,
            below=None,
        )


def unknown_mean(value: float, keys: Estimate, least: int) -> Estimate:
    """Return a mean without an interval."""
    return replace(
        keys,
        value=value,
        standard_error=math.nan,
        low=-math.inf,
        high=math.inf,
        guaranteed=False,
        at_least=least,
        below=None,
    )


def without_extrapolation(found: Estimate, may_need_total: bool) -> Estimate:
    """Return an answer that states rarer keys as unknown; with a remedy if a private total would tell."""
    if found.below is None:
        return found
    remedy = _NEEDS_A_TOTAL if may_need_total else ""
    return replace(found, below=Below(remedy=remedy))


def names_reported_keys(question: Question, selection: Selection, tallies: Sequence[Tally]) -> bool:
    """Whether each group is one key that the question names, and that was reported."""
    if question.at_least is not None or not question.is_default_estimator or not tallies:
        return False
    return selection.names_keys and all(tally.total == 1 for tally in tallies)


def estimates_of_named_keys(
    ends: Sequence[Floats], level: float, threshold: int | None
) -> list[Estimate]:
    """Return the estimates of single keys: from values, and the ends of intervals in any order."""
    estimates = []
    for value, *interval in np.transpose(ends).tolist():
        low = min(interval)
        high = max(interval)
        one = Estimate(value, math.nan, low, high, level, keys=1, detection_threshold=threshold)
        estimates.append(one)
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

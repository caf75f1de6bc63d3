"""The evidence of a release of counted users.

What was measured is the true number of users of each reported key, plus normal noise. So answers are about the reported
keys alone: nothing is known of others.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.clipped import Clipped
from dpsample.accounting.normal import margin
from dpsample.accounting.totals import Total
from dpsample.answers.amounts import Ratio, Sum, Summed, amount_of, bounded_sum, sum_over
from dpsample.answers.counted_keys import CountedKeys, Reached
from dpsample.answers.counted_sums import (
    Bounded,
    mean_from,
    mean_of_keys,
    number_reaching,
    sum_from,
    sum_of_keys,
)
from dpsample.answers.evidence import Evidence, Groups, KeyEstimates, Quantiles, answered
from dpsample.answers.keys_only import reported_keys
from dpsample.answers.normal_order import NormalLaw, probability_above
from dpsample.answers.question import Question
from dpsample.answers.remainder import needs_total, total_less
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.measures import FREQUENCY, KEYS
from dpsample.estimators.reported import Reported
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints

_OTHERS = "unknown: a key of many users may have been missed, so how many users other keys have is not estimated"
_NONE_SELECTED = "no reported key is selected; nothing is known of other keys"
_CONSERVATIVE = "these intervals are conservative: how much of the spread is noise is not known"
# answers where no key is selected: nothing is known
_NO_USERS = Bounded(0.0, math.nan, 0.0, math.inf)
_NO_MEAN = Bounded(math.nan, math.nan, 0.0, math.inf)
_NO_SUM = Bounded(0.0, math.nan, -math.inf, math.inf)
_NO_RATIO = Bounded(math.nan, math.nan, -math.inf, math.inf)
ALL_IN = "all of these keys are known, and in it"
_ROUNDING = (
    1 - 1e-12
)  # of a share times a number of keys, which may be a whole number but for rounding
OfKeys = Callable[[CountedKeys], Estimate]


class MeasuredEvidence(Evidence):
    """The evidence of keys whose numbers were measured with normal errors: in one release, or in several together."""

    rows: Rows
    amounts: tuple[Clipped, ...] = ()  # what can be summed, beside frequencies
    counted = "users"  # what a frequency is a number of
    kind = "counted users"
    in_others = _OTHERS

    @property
    @abstractmethod
    def counts_all(self) -> bool:
        """Whether a number of keys is that of all reported keys, since each of them occurs."""

    @abstractmethod
    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        """Return what was measured of some keys."""

    @abstractmethod
    def sum_of(self, amount: Summed | None, keys: CountedKeys) -> Sum:
        """Return the sum of an amount over some keys, or of their users."""

    @abstractmethod
    def law_of_unreported(self, key: Any) -> NormalLaw | None:
        """Return the law of a key that was not reported; None if `silence` has it."""

    @property
    @abstractmethod
    def totals(self) -> tuple[Total | None, ...]:
        """The private total of each release."""

    @property
    @abstractmethod
    def silence(self) -> Silence:
        """What it says of a key that a release does not report it."""

    # ---- sums

    def sums(self, question: Question) -> Groups:
        question.require_default_estimator(self.kind)
        question = question.as_number()
        if question.extrapolate:
            raise InvalidValue(
                f"{self.kind} cannot be extrapolated to keys that were not reported (extrapolate, --extrapolate)",
                "a release with `total=True` estimates what these have: other()",
            )
        of_keys = self._sum_of(question)

        def total(keys: CountedKeys) -> Estimate:
            """Return a sum as that of the reported keys, which is all that is known."""
            estimate = of_keys(keys)
            reported = estimate.reported
            if reported is None:
                ends = (estimate.low, estimate.high) if len(keys) else (0.0, 0.0)
                reported = Reported(estimate.value, estimate.standard_error, *ends)
            return replace(estimate, reported=replace(reported, others=self.in_others))

        return self._answer(question, total)

    def _sum_of(self, question: Question) -> OfKeys:
        """Return the function that computes the sum of a question over keys."""
        level = question.level
        amount = amount_of(self.amounts, question.of)
        if amount is not None:  # before the measure: the name of an amount is not that of a measure
            return lambda keys: self._sum_of_amount(amount, keys, level)
        measure = question.measure
        least = question.at_least
        counted_from = question.counts_keys_from
        counts_all = measure == KEYS and self.counts_all
        if measure != FREQUENCY and counted_from is None:
            raise InvalidValue(
                f"a release of {self.kind} cannot sum {measure}",
                "ask frequency, keys, at-least:T or an amount by its name, "
                "or compute it from the columns of the release",
            )

        def sum_over(keys: CountedKeys) -> Estimate:
            if counts_all:
                weight = float(keys.weights.sum())
                return reported_keys(len(keys), weight, level, self.detection_threshold)
            if counted_from is not None:
                number = number_reaching(keys, counted_from, level)
                return self._estimate(keys, number, level, self._others("this number"))
            if least is not None:
                total = sum_from(keys, least, level)
                return self._estimate(keys, total, level, self._over_frequent(least))
            total = sum_of_keys(keys, level)
            return self._estimate(keys, total, level, self._others("this sum"))

        return sum_over

    def _sum_of_amount(self, amount: Summed, keys: CountedKeys, level: float) -> Estimate:
        total = None
        if len(keys):
            total = bounded_sum(self.sum_of(amount, keys), level)
        others = self._others("this sum")
        return self._estimate(keys, total, level, amount.note, others, empty=_NO_SUM)

    def means(self, question: Question) -> Groups:
        question.require_default_estimator(self.kind)
        if question.measure != FREQUENCY:
            raise InvalidValue(
                f"a mean over {self.kind} cannot be of {question.measure}", "leave `of` out"
            )
        level = question.level
        least = question.at_least or 1

        def mean(keys: CountedKeys) -> Estimate:
            if least > 1:
                over = self._over_frequent(least)
                number = mean_from(keys, least, level)
            else:
                over = f"over all reported keys; {self._others('it')}"
                number = mean_of_keys(keys, level)
            return self._estimate(keys, number, level, over, empty=_NO_MEAN)

        return self._answer(question, mean)

    def ratios(self, question: Question, per: str) -> Groups:
        ratio = Ratio.of(self.amounts, question.of, per)
        level = question.level

        def ratio_over(keys: CountedKeys) -> Estimate:
            others = self._others("either sum")
            if not len(keys):
                return self._estimate(keys, None, level, others, empty=_NO_RATIO)
            number, notes = ratio.over(partial(self.sum_of, keys=keys), level)
            return self._estimate(keys, number, level, *notes, others, empty=_NO_RATIO)

        return self._answer(question, ratio_over)

    def _answer(self, question: Question, of_keys: OfKeys) -> Groups:
        """Return the answer for the keys of each group."""

        def of_group(rows: Ints, weights: Floats) -> Estimate:
            return of_keys(self.measured(rows, weights))

        groups = answered(Selection.of(self.rows, question), of_group)
        return groups._replace(remarks=self.remarks)

    def _estimate(
        self,
        keys: CountedKeys,
        number: Bounded | None,
        level: float,
        *notes: str,
        empty: Bounded = _NO_USERS,
    ) -> Estimate:
        """Return the answer, which is guaranteed if it has an interval; or `empty`, if there is nothing to add up."""
        threshold = self.detection_threshold
        if number is None:
            return Estimate(
                *empty,
                level,
                bias=math.nan,
                keys=0,
                detection_threshold=threshold,
                guaranteed=False,
                notes=(_NONE_SELECTED,),
            )
        has_interval = math.isfinite(number.high - number.low)
        return Estimate(
            *number,
            level,
            keys=len(keys),
            detection_threshold=threshold,
            guaranteed=has_interval,
            notes=notes,
        )

    def _over_frequent(self, least: int) -> str:
        """Return the note that an answer covers keys of this number of users or more."""
        return f"over reported keys of {least:,} {self.counted} or more; {self._others('it')}"

    def _others(self, answer: str) -> str:
        """Return the note that other keys are not in the answer, which it names, if there may be others."""
        if self.detection_threshold == 0:
            return ALL_IN
        note = f"keys that were not reported are not in {answer}"
        has_totals = None not in self.totals
        return f"{note}; other() estimates them" if has_totals else note

    # ---- single keys

    def keys(self, question: Question) -> CountedKeys:
        _, [(rows, weights)] = Selection.of(self.rows, question).weighted_rows()
        return self.measured(rows, weights)

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        """Estimate quantiles of the numbers of users of the selected keys that were reported.

        `at_least` leaves out keys of fewer users. Then half of the probability that an interval misses goes to the
        number of keys that are left.
        """
        keys = self.keys(question)
        level = question.level
        least = question.at_least or 1
        about = "over all reported keys"
        reached = Reached(keys, level)
        fewest = len(keys)
        most = len(keys)
        if least > 1:
            about = f"over reported keys of {least:,} {self.counted} or more"
            reached = Reached(keys, (1 + level) / 2)
            fewest = reached.fewest(least)
            most = reached.most(least)
        about += "; keys that were not reported are not in it"
        if not most:
            none = "no reported key is selected"
            if len(keys):
                none = f"no reported key has {least:,} {self.counted} or more"
            unknown = np.full(len(shares), math.nan)
            low = np.zeros(len(shares))
            high = np.full(len(shares), math.inf)
            nothing = KeyEstimates(unknown, unknown, low, high)
            return Quantiles(nothing, len(keys), False, (about, none))

        # the more keys there are, the more of them are above a quantile
        lows = [reached.low(place) for place in _from_the_top(shares, most)]
        highs = [reached.high(place) for place in _from_the_top(shares, fewest)]
        # bounds that miss may cross
        low = np.maximum(np.minimum(lows, highs), least)
        high = np.maximum(np.maximum(lows, highs), least)
        descending = np.sort(keys.possible)[::-1]
        likely = int((descending >= least).sum())
        value = descending[_from_the_top(shares, likely)].clip(low, high)
        error = (high - low) / (2 * margin(level))
        estimates = KeyEstimates(value, error, low, high)
        return Quantiles(estimates, len(keys), True, (about, _CONSERVATIVE))

    def probability_above(self, a: Any, b: Any) -> float:
        keys = self.keys(Question())
        return probability_above(self.silence, self._law_of(a, keys), self._law_of(b, keys))

    def _law_of(self, key: Any, keys: CountedKeys) -> NormalLaw | None:
        """Return the law of a key among the reported ones, or of one that was not reported."""
        reported = keys.law(self.place_of(key, keys))
        return reported or self.law_of_unreported(key)


@dataclass(frozen=True, eq=False)
class CountedEvidence(MeasuredEvidence):
    """The evidence of a release of counted users."""

    table: pa.Table
    terms: Terms
    rows: Rows

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "CountedEvidence":
        """Return the evidence of a release."""
        return CountedEvidence(table, terms, Rows.of(table, terms))

    @property
    def amounts(self) -> tuple[Clipped, ...]:  # type: ignore[override] # a field of others
        return () if self.terms.counts is None else self.terms.counts.amounts

    @property
    def detection_threshold(self) -> int | None:
        """The least number of users with which a key is reported with probability 1/2, if all of them give this key."""
        return self.terms.detection_threshold

    @property
    def counts_all(self) -> bool:
        return self.terms.known is None

    @property
    def silence(self) -> Silence:
        return Silence.of(self.terms)

    @property
    def totals(self) -> tuple[Total | None, ...]:
        return (self.terms.bought.total,)

    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        return CountedKeys.of(self.table, self.terms, rows, weights)

    def sum_of(self, amount: Summed | None, keys: CountedKeys) -> Sum:
        return sum_over(amount, keys, self.table)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self.silence.unreported(level)

    def law_of_unreported(self, key: Any) -> None:
        return None

    def remainder(self, level: float) -> Estimate:
        """Estimate how many keys of users were not reported: the total less the users of all reported keys.

        Of the probability that the interval misses, half goes to the noise of the total and half to that of counts.
        """
        total = self.terms.bought.total
        if total is None:
            raise needs_total(total, tokens=True)
        keys = self.keys(Question())
        users = float(keys.values.sum())
        error = keys.error_of_sum()
        reach = margin((1 + level) / 2) * error
        remainder = total_less(total, users, error, reach, level)
        most = f"{float(total.sensitivity):,.0f}"
        note = f"the total counts each user with at most {most} keys: if some have more, the remainder is too low"
        return replace(
            remainder,
            keys=len(keys),
            detection_threshold=self.detection_threshold,
            guaranteed=False,
            notes=(note,),
        )


def _from_the_top(shares: Floats, keys: int) -> Ints:
    """Return the place of each quantile among this number of keys, in descending order from 0 on."""
    last = max(keys, 1)
    from_the_bottom = np.ceil(shares * keys * _ROUNDING).clip(1, last)
    return (last - from_the_bottom).astype(np.int64)

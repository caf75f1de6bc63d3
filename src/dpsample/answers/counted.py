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
_NO_USERS, _NO_MEAN = (
    Bounded(0.0, math.nan, 0.0, math.inf),
    Bounded(math.nan, math.nan, 0.0, math.inf),
)
_NO_SUM, _NO_RATIO = (
    Bounded(0.0, math.nan, -math.inf, math.inf),
    Bounded(math.nan, math.nan, -math.inf, math.inf),
)
ALL_IN = "all of these keys are known, and in it"
OfKeys = Callable[[CountedKeys], Estimate]


class MeasuredEvidence(Evidence):
    """What is said of keys whose numbers were measured with normal errors: of one release, or of several together."""

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
            """What is in the reported keys is all that is known."""
            found = of_keys(keys)
            low, high = (found.low, found.high) if len(keys) else (0.0, 0.0)
            own = found.reported or Reported(found.value, found.standard_error, low, high)
            return replace(found, reported=replace(own, others=self.in_others))

        return self._answer(question, total)

    def _sum_of(self, question: Question) -> OfKeys:
        """How the sum of a question is computed over keys."""
        level, least = question.level, question.at_least
        amount = amount_of(self.amounts, question.of)
        if amount is not None:
            return lambda keys: self._sum_of_amount(amount, keys, level)
        if question.measure == FREQUENCY and least is not None:
            over = f"over reported keys of {least:,} {self.counted} or more; {self._others('it')}"
            return lambda keys: self._estimate(keys, sum_from(keys, least, level), level, over)
        if question.measure == FREQUENCY:
            return lambda keys: self._estimate(
                keys, sum_of_keys(keys, level), level, self._others("this sum")
            )
        if question.measure == KEYS and self.counts_all:
            return lambda keys: reported_keys(
                len(keys), float(keys.weights.sum()), level, self.detection_threshold
            )
        counted_from = question.counts_keys_from
        if counted_from is not None:
            number = self._others("this number")
            return lambda keys: self._estimate(
                keys, number_reaching(keys, counted_from, level), level, number
            )
        raise InvalidValue(
            f"a release of {self.kind} cannot sum {question.measure}",
            "ask frequency, keys, at-least:T or an amount by its name, or compute it from the columns of the release",
        )

    def _sum_of_amount(self, amount: Summed, keys: CountedKeys, level: float) -> Estimate:
        found = bounded_sum(self.sum_of(amount, keys), level) if len(keys) else None
        return self._estimate(
            keys, found, level, amount.note, self._others("this sum"), empty=_NO_SUM
        )

    def means(self, question: Question) -> Groups:
        question.require_default_estimator(self.kind)
        if question.measure != FREQUENCY:
            raise InvalidValue(
                f"a mean over {self.kind} cannot be of {question.measure}", "leave `of` out"
            )
        level, least = question.level, question.at_least or 1

        def mean(keys: CountedKeys) -> Estimate:
            if least > 1:
                over = (
                    f"over reported keys of {least:,} {self.counted} or more; {self._others('it')}"
                )
                return self._estimate(
                    keys, mean_from(keys, least, level), level, over, empty=_NO_MEAN
                )
            over = f"over all reported keys; {self._others('it')}"
            return self._estimate(keys, mean_of_keys(keys, level), level, over, empty=_NO_MEAN)

        return self._answer(question, mean)

    def ratios(self, question: Question, per: str) -> Groups:
        ratio = Ratio.of(self.amounts, question.of, per)

        def of_keys(keys: CountedKeys) -> Estimate:
            found, notes = None, list[str]()
            if len(keys):
                found, notes = ratio.over(partial(self.sum_of, keys=keys), question.level)
            return self._estimate(
                keys, found, question.level, *notes, self._others("either sum"), empty=_NO_RATIO
            )

        return self._answer(question, of_keys)

    def _answer(self, question: Question, of_keys: OfKeys) -> Groups:
        selection = Selection.of(self.rows, question)
        found = answered(selection, lambda rows, weights: of_keys(self.measured(rows, weights)))
        return found._replace(remarks=self.remarks)

    def _estimate(
        self,
        keys: CountedKeys,
        found: Bounded | None,
        level: float,
        *notes: str,
        empty: Bounded = _NO_USERS,
    ) -> Estimate:
        """Return the answer, which is guaranteed if it has an interval; or `empty`, if there is nothing to add up."""
        estimate = Estimate(
            *(found or empty), level, keys=len(keys), detection_threshold=self.detection_threshold
        )
        if found is None:
            return replace(
                estimate, bias=math.nan, keys=0, guaranteed=False, notes=(_NONE_SELECTED,)
            )
        return replace(estimate, guaranteed=math.isfinite(found.high - found.low), notes=notes)

    def _others(self, what: str) -> str:
        """Say that other keys are left out, if there may be others."""
        if self.detection_threshold == 0:
            return ALL_IN
        known = "; other() estimates them" if None not in self.totals else ""
        return f"keys that were not reported are not in {what}{known}"

    # ---- single keys

    def keys(self, question: Question) -> CountedKeys:
        _, [(rows, weights)] = Selection.of(self.rows, question).weighted_rows()
        return self.measured(rows, weights)

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        """Estimate quantiles of the numbers of users of the selected keys that were reported.

        `at_least` leaves out keys of fewer users. Then half of the probability that an interval misses goes to the
        number of keys that are left.
        """
        keys, least, level = self.keys(question), question.at_least or 1, question.level
        about = "over all reported keys"
        reached = Reached(keys, level)
        fewest = most = len(keys)
        if least > 1:
            about = f"over reported keys of {least:,} {self.counted} or more"
            reached = Reached(keys, (1 + level) / 2)
            fewest, most = reached.fewest(least), reached.most(least)
        about += "; keys that were not reported are not in it"
        if not most:
            note = "no reported key is selected"
            if len(keys):
                note = f"no reported key has {least:,} {self.counted} or more"
            unknown, zero, infinity = (
                np.full(len(shares), number) for number in (math.nan, 0.0, math.inf)
            )
            return Quantiles(
                KeyEstimates(unknown, unknown, zero, infinity), len(keys), False, (about, note)
            )
        # the more keys there are, the more of them are above a quantile
        lows = np.maximum([reached.low(place) for place in _from_the_top(shares, most)], least)
        highs = np.maximum([reached.high(place) for place in _from_the_top(shares, fewest)], least)
        low, high = np.minimum(lows, highs), np.maximum(lows, highs)  # bounds that miss may cross
        descending = np.sort(keys.possible)[::-1]
        likely = int((descending >= least).sum())
        value = descending[_from_the_top(shares, likely)].clip(low, high)
        error = (high - low) / (2 * margin(level))
        return Quantiles(
            KeyEstimates(value, error, low, high), len(keys), True, (about, _CONSERVATIVE)
        )

    def probability_above(self, a: Any, b: Any) -> float:
        keys = self.keys(Question())
        laws = [keys.law(self.place_of(key, keys)) or self.law_of_unreported(key) for key in (a, b)]
        return probability_above(self.silence, *laws)


@dataclass(frozen=True, eq=False)
class CountedEvidence(MeasuredEvidence):
    """What a release of counted users says of its keys."""

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
        """The least number of users with which a key is reported with probability 1/2, if they all give this key."""
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
        bought = self.terms.bought.total
        if bought is None:
            raise needs_total(bought, tokens=True)
        keys = self.keys(Question())
        covered, error = float(keys.values.sum()), keys.error_of_sum()
        estimate = total_less(bought, covered, error, margin((1 + level) / 2) * error, level)
        most = f"{float(bought.sensitivity):,.0f}"
        note = f"the total counts each user with at most {most} keys: if some have more, the remainder is too low"
        stated = replace(estimate, keys=len(keys), detection_threshold=self.detection_threshold)
        return replace(stated, guaranteed=False, notes=(note,))


def _from_the_top(shares: Floats, keys: int) -> Ints:
    """The place of each quantile among this number of keys, from the largest on, which is 0."""
    place = np.ceil(shares * keys * (1 - 1e-12)).clip(1, max(keys, 1))
    return (max(keys, 1) - place).astype(np.int64)

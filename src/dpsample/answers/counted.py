"""The evidence of a release of counted users.

What was measured is the true number of users of each reported key, plus normal noise. So answers are about the reported
keys alone: nothing is known of others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.normal import margin
from dpsample.answers.amounts import Ratio, amount_of, sum_of_amount
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
from dpsample.answers.normal_order import probability_above
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
_NO_USERS, _NO_MEAN = Bounded(0.0, math.nan, 0.0, math.inf), Bounded(math.nan, math.nan, 0.0, math.inf)
_NO_SUM, _NO_RATIO = Bounded(0.0, math.nan, -math.inf, math.inf), Bounded(math.nan, math.nan, -math.inf, math.inf)
OfKeys = Callable[[CountedKeys], Estimate]


@dataclass(frozen=True, eq=False)
class CountedEvidence(Evidence):
    """What a release of counted users says of its keys."""

    table: pa.Table
    terms: Terms
    rows: Rows

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "CountedEvidence":
        """Return the evidence of a release."""
        return CountedEvidence(table, terms, Rows.of(table, terms))

    @property
    def detection_threshold(self) -> int | None:
        """The number of users from which on a key is reported with probability 1/2, if they all give this key."""
        return self.terms.detection_threshold

    # ---- sums

    def sums(self, question: Question) -> Groups:
        question.require_default_estimator("counted users")
        question = question.as_number()
        if question.extrapolate:
            raise InvalidValue(
                "counted users cannot be extrapolated to keys that were not reported (extrapolate, --extrapolate)",
                "a release with `total=True` estimates what these have: other()",
            )
        of_keys = self._sum_of(question)

        def total(keys: CountedKeys) -> Estimate:
            """What is in the reported keys is all that is known."""
            found = of_keys(keys)
            low, high = (found.low, found.high) if len(keys) else (0.0, 0.0)
            own = found.reported or Reported(found.value, found.standard_error, low, high)
            return replace(found, reported=replace(own, others=_OTHERS))

        return self._answer(question, total)

    def _sum_of(self, question: Question) -> OfKeys:
        """How the sum of a question is computed over keys."""
        level, least = question.level, question.at_least
        assert self.terms.counts is not None
        amount = amount_of(self.terms.counts.amounts, question.of)
        if amount is not None:
            note = amount.note
            return lambda keys: self._estimate(
                keys,
                sum_of_amount(amount, keys, self.table, level),
                level,
                note,
                self._others("this sum"),
                empty=_NO_SUM,
            )
        if question.measure == FREQUENCY and least is not None:
            over = f"over reported keys of {least:,} users or more; {self._others('it')}"
            return lambda keys: self._estimate(keys, sum_from(keys, least, level), level, over)
        if question.measure == FREQUENCY:
            return lambda keys: self._estimate(keys, sum_of_keys(keys, level), level, self._others("this sum"))
        if question.measure == KEYS and self.terms.known is None:
            return lambda keys: reported_keys(len(keys), float(keys.weights.sum()), level, self.detection_threshold)
        counted_from = question.counts_keys_from
        if counted_from is not None:
            number = self._others("this number")
            return lambda keys: self._estimate(keys, number_reaching(keys, counted_from, level), level, number)
        raise InvalidValue(
            f"a release of counted users cannot sum {question.measure}",
            "ask frequency, keys, at-least:T or an amount by its name, or compute it from the columns of the release",
        )

    def means(self, question: Question) -> Groups:
        question.require_default_estimator("counted users")
        if question.measure != FREQUENCY:
            raise InvalidValue(f"a mean over counted users cannot be of {question.measure}", "leave `of` out")
        level, least = question.level, question.at_least or 1

        def mean(keys: CountedKeys) -> Estimate:
            if least > 1:
                over = f"over reported keys of {least:,} users or more; {self._others('it')}"
                return self._estimate(keys, mean_from(keys, least, level), level, over, empty=_NO_MEAN)
            over = f"over all reported keys; {self._others('it')}"
            return self._estimate(keys, mean_of_keys(keys, level), level, over, empty=_NO_MEAN)

        return self._answer(question, mean)

    def ratios(self, question: Question, per: str) -> Groups:
        assert self.terms.counts is not None
        ratio = Ratio.of(self.terms.counts.amounts, question.of, per)

        def of_keys(keys: CountedKeys) -> Estimate:
            found, notes = ratio.over(keys, self.table, question.level) if len(keys) else (None, [])
            return self._estimate(keys, found, question.level, *notes, self._others("either sum"), empty=_NO_RATIO)

        return self._answer(question, of_keys)

    def _answer(self, question: Question, of_keys: OfKeys) -> Groups:
        selection = Selection.of(self.rows, question)
        return answered(selection, lambda rows, weights: of_keys(self._keys(rows, weights)))

    def _keys(self, rows: Ints, weights: Floats) -> CountedKeys:
        return CountedKeys.of(self.table, self.terms, rows, weights)

    def _estimate(
        self, keys: CountedKeys, found: Bounded | None, level: float, *notes: str, empty: Bounded = _NO_USERS
    ) -> Estimate:
        """Return the answer, which is guaranteed if it has an interval; or `empty`, if there is nothing to add up."""
        estimate = Estimate(*(found or empty), level, keys=len(keys), detection_threshold=self.detection_threshold)
        if found is None:
            return replace(estimate, bias=math.nan, keys=0, guaranteed=False, notes=(_NONE_SELECTED,))
        return replace(estimate, guaranteed=math.isfinite(found.high - found.low), notes=notes)

    def _others(self, what: str) -> str:
        """Say that other keys are left out."""
        known = "; other() estimates them" if self.terms.total is not None else ""
        return f"keys that were not reported are not in {what}{known}"

    # ---- single keys

    def keys(self, question: Question) -> CountedKeys:
        _, [(rows, weights)] = Selection.of(self.rows, question).weighted_rows()
        return self._keys(rows, weights)

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
            about = f"over reported keys of {least:,} users or more"
            reached = Reached(keys, (1 + level) / 2)
            fewest, most = reached.fewest(least), reached.most(least)
        about += "; keys that were not reported are not in it"
        if not most:
            note = f"no reported key has {least:,} users or more" if len(keys) else "no reported key is selected"
            unknown, zero, infinity = (np.full(len(shares), number) for number in (math.nan, 0.0, math.inf))
            return Quantiles(KeyEstimates(unknown, unknown, zero, infinity), len(keys), False, (about, note))
        # the more keys there are, the more of them are above a quantile
        lows = np.maximum([reached.low(place) for place in _from_the_top(shares, most)], least)
        highs = np.maximum([reached.high(place) for place in _from_the_top(shares, fewest)], least)
        low, high = np.minimum(lows, highs), np.maximum(lows, highs)  # bounds that miss may cross
        descending = np.sort(keys.possible)[::-1]
        likely = int((descending >= least).sum())
        value = descending[_from_the_top(shares, likely)].clip(low, high)
        error = (high - low) / (2 * margin(level))
        return Quantiles(KeyEstimates(value, error, low, high), len(keys), True, (about, _CONSERVATIVE))

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return Silence.of(self.terms).unreported(level)

    def probability_above(self, a: Any, b: Any) -> float:
        keys = self.keys(Question())
        return probability_above(Silence.of(self.terms), *(keys.law(self.place_of(key, keys)) for key in (a, b)))

    def remainder(self, level: float) -> Estimate:
        """Estimate how many keys of users were not reported: the total less the users of all reported keys.

        Of the probability that the interval misses, half goes to the noise of the total and half to that of counts.
        """
        bought = self.terms.total
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

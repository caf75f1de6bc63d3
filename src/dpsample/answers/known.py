"""The evidence of a release with known keys, which were all reported, and perhaps others, which were discovered.

Each kind of key is evidence of its own. The others are as in a release without a list. The known keys are as in a
release in which every frequency has the elements that were added to it (`accounting.known`). A sum is that of both
kinds: their errors are independent. Orders compare the reported keys of both.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from dpsample.accounting.totals import Total
from dpsample.answers.evidence import Evidence, Groups, KeyEstimates
from dpsample.answers.normal_order import NormalKeys, probability_above
from dpsample.answers.question import Question
from dpsample.answers.reported import added_reported
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.token_order import TokenKeys
from dpsample.answers.token_sums import TokenEvidence
from dpsample.answers.tokens import TokenView
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate, estimate
from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.lazy import pc
from dpsample.release.terms import Terms
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import token_law

ALL_KNOWN = "the same: all of these keys are known, and reported"
_NO_OTHER = "of the selected keys, none that is not known is reported"


class Noise(NamedTuple):
    """What the token of a known key lacks to its frequency: the mean, the variance, and the excess kurtosis."""

    mean: float
    variance: float
    kurtosis: float


@dataclass(frozen=True, eq=False)
class KnownKeys:
    """The known keys of a release, and sums over them.

    view    the keys, with the elements that were added to their tokens
    places  of these keys among all keys of the release
    """

    view: TokenView
    places: Ints
    added: int

    @cached_property
    def noise(self) -> Noise:
        """The law of what a token lacks."""
        scheme = self.view.scheme
        law = token_law(self.added, *scheme)
        lack, p = self.added - law.cells / scheme.grid, law.probabilities / law.reported
        mean = float(p @ lack)
        variance, fourth = (float(p @ (lack - mean) ** power) for power in (2, 4))
        return Noise(mean, variance, fourth / variance**2 - 3)

    def sum(self, question: Question, tally: Tally) -> Estimate:
        """Estimate what a question sums over the keys of a tally: frequencies, or a number of keys."""
        level, counted_from = question.level, question.counts_keys_from
        if counted_from is not None:
            return self._with_all_reported(self.number(tally, counted_from, level))
        together = (
            self.sum_of_one(tally, level)
            if tally.total == 1
            else self.sum_of_frequencies(tally, level)
        )
        if question.at_least is None:
            return self._with_all_reported(together)
        reported = Reported(together.value, together.standard_error, together.low, together.high)
        frequent = self.sum_from(tally, question.at_least, level)
        return replace(frequent, reported=reported, at_least=question.at_least)

    def sum_of_frequencies(self, tally: Tally, level: float) -> Estimate:
        """Estimate the sum of frequencies: without bias, and with an error that is known.

        The noise of a single key is not normal. The quantile of its sum is that of Cornish and Fisher.
        """
        if not tally.total:
            return _nothing(level)
        noise = self.noise
        frequencies = tally.cells / self.view.scheme.grid - self.added + noise.mean
        value = float(tally.weights @ frequencies)
        squares = float(tally.squares.sum())
        error = math.sqrt(noise.variance * squares)
        fourths = float((tally.squares**2 / np.maximum(tally.keys, 1)).sum())
        kurtosis = noise.kurtosis * fourths / max(squares, 1e-300) ** 2  # of the sum
        z = NormalDist().inv_cdf(0.5 + level / 2)
        reach = (z + (z**3 - 3 * z) * kurtosis / 24) * error
        low, high = value - reach, value + reach
        if (tally.weights >= 0).all():
            value, low, high = (max(number, 0.0) for number in (value, low, high))
        return Estimate(value, error, low, high, level, keys=tally.total, detection_threshold=0)

    def sum_of_one(self, tally: Tally, level: float) -> Estimate:
        """Estimate the frequency of one key, with its own interval, as `each_key` has it."""
        weight = float(tally.weights[0])
        raised = np.ravel(likely_frequencies(tally.cells, *self.view.scheme, level))
        frequencies = np.maximum(raised - self.added, 0.0)
        value, *ends = (weight * frequencies).tolist()
        low, high = min(ends), max(ends)
        error = abs(weight) * math.sqrt(self.noise.variance)
        return Estimate(value, error, low, high, level, keys=1, detection_threshold=0)

    def sum_from(self, tally: Tally, least: int, level: float) -> Estimate:
        """Estimate the sum of the frequencies of the keys of a frequency or more."""
        if not tally.total:
            return _nothing(level)
        measure = FREQUENCY.beyond(self.added).from_frequency(self.added + least)
        found = estimate(tally, self.view.scheme, measure, level=level)
        return replace(found, detection_threshold=0, at_least=None, below=None)

    def number(self, tally: Tally, least: int, level: float) -> Estimate:
        """Estimate the number of keys of a frequency or more, or the sum of their weights."""
        if not tally.total:
            return _nothing(level)
        found = estimate(tally, self.view.scheme, Measure.at_least(self.added + least), level=level)
        if not (tally.weights == tally.keys).all():
            return found
        value, low, high = (
            min(max(n, 0.0), float(tally.total)) for n in (found.value, found.low, found.high)
        )
        return replace(found, value=value, low=low, high=high, detection_threshold=0)

    @staticmethod
    def _with_all_reported(found: Estimate) -> Estimate:
        """The same number, stated to be that of the reported keys and of all."""
        ends = found.value, found.standard_error, found.low, found.high
        return replace(found, reported=Reported(*ends, others=ALL_KNOWN))


@dataclass(frozen=True, eq=False)
class KnownEvidence(Evidence):
    """What a release says whose keys are known ones, and others, unless there are known ones only."""

    rows: Rows
    known: KnownKeys
    others: TokenEvidence
    silence: Silence
    total: Total | None

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "KnownEvidence":
        """Return the evidence of a release."""
        assert terms.known is not None
        assert terms.known.added is not None
        every, silence, added = TokenView.of(table, terms), Silence.of(terms), terms.known.added
        listed = table["known"].to_numpy()
        places = np.flatnonzero(listed)
        known = KnownKeys(every.take(places, added), places, added)
        others = TokenEvidence(every.take(np.flatnonzero(~listed)), silence)
        return KnownEvidence(every.rows, known, others, silence, terms.total)

    @property
    def detection_threshold(self) -> int | None:
        return self.silence.detection_threshold

    def sums(self, question: Question) -> Groups:
        """Estimate sums over known keys and others; others count from a little above the threshold on."""
        question.require_default_estimator("known keys")
        question = question.as_number()
        if question.measure != FREQUENCY and question.counts_keys_from is None:
            raise InvalidValue(
                f"a release with known keys cannot sum {question.measure}",
                "ask frequency, keys or at-least:T",
            )
        known = self._of_known(question)
        found = known if self.silence.only_listed else _merged(self.others.sums(question), known)
        if question.by:
            return found
        bought, [estimate] = self.total, found.estimates
        share = None
        if bought is not None and question.is_plain_sum and bought.value > 0:
            share = estimate.value / float(bought.value)
        return found._replace(estimates=[replace(estimate, share=share)])

    def _of_known(self, question: Question) -> Groups:
        groups, tallies = Selection.of(self.known.view.rows, question).tallies()
        return Groups(groups, [self.known.sum(question, tally) for tally in tallies])

    def means(self, question: Question) -> Groups:
        """Estimate the mean frequency of the selected keys of the list, also of those of frequency 0."""
        question.require_default_estimator("known keys")
        if (
            not self.silence.only_listed
            or question.at_least is not None
            or question.measure != FREQUENCY
        ):
            raise _refused(
                "a mean of other keys, or of anything but the frequency,", "sum and count_keys"
            )
        groups, tallies = Selection.of(self.known.view.rows, question).tallies()
        return Groups(groups, [self._mean(tally, question.level) for tally in tallies])

    def _mean(self, tally: Tally, level: float) -> Estimate:
        summed, weight = self.known.sum_of_frequencies(tally, level), float(tally.weights.sum())
        if weight <= 0:
            raise InvalidValue(
                "the weights of the keys of a mean must sum to more than 0",
                "change where or weight",
            )
        ends = {name: getattr(summed, name) / weight for name in KeyEstimates._fields}
        return replace(summed, **ends)

    def quantiles(self, question: Question, shares: Floats) -> NoReturn:
        raise _refused("a quantile", "each_key, or count_keys with `at_least`")

    def remainder(self, level: float) -> NoReturn:
        raise _refused("the remainder", "total and sum")

    def keys(self, question: Question) -> "ListedKeys":
        _, [(rows, _)] = Selection.of(self.rows, question).weighted_rows()
        return ListedKeys(self, rows, question.level)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self.silence.unreported(level)

    def probability_above(self, a: Any, b: Any) -> float:
        keys = self.keys(Question())
        return probability_above(
            self.silence, *(keys.law(self.place_of(key, keys)) for key in (a, b))
        )


class ListedKeys(NormalKeys):
    """Selected keys, known ones and others, in the order of the release."""

    def __init__(self, evidence: KnownEvidence, rows: Ints, level: float) -> None:
        known, self._added = evidence.known, evidence.known.added
        is_known = np.isin(rows, known.places)
        self.rows, self._is_known = rows, is_known
        self.detection_threshold = evidence.detection_threshold
        listed_before = np.searchsorted(known.places, rows)
        self._known = TokenKeys(known.view, listed_before[is_known])
        self._others = TokenKeys(evidence.others.view, (rows - listed_before)[~is_known])
        each = self._each(level)
        self.values, self.errors = each.value, each.standard_error

    def _each(self, level: float) -> KeyEstimates:
        """The estimates of all keys: those of known ones without the elements that were added."""
        known = self._known.estimates(np.arange(len(self._known)), level)
        others = self._others.estimates(np.arange(len(self._others)), level)
        columns = np.zeros((4, len(self)))
        columns[:, ~self._is_known] = others
        columns[:, self._is_known] = known
        error = np.maximum(columns[1], 1e-9)
        lowered = np.maximum(columns - self._added, 0)
        value, _, low, high = np.where(self._is_known, lowered, columns)
        return KeyEstimates(value, error, low, high)

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        return KeyEstimates(*(column[places] for column in self._each(level)))

    def _all_at_once(self, level: float) -> KeyEstimates:
        """The estimates of all keys, with intervals that hold together (Bonferroni)."""
        return self._each(1 - (1 - level) / max(len(self), 1))

    def larger(self, place: int, level: float) -> tuple[int, int]:
        each = self._all_at_once(level)
        others = np.arange(len(self)) != place
        surely = each.low[others] > each.high[place]
        possibly = each.high[others] > each.low[place]
        return int(surely.sum()), int(possibly.sum())

    def fewest(self, frequency: int, level: float) -> float:
        return float((self._all_at_once(level).low >= frequency).sum())


def _merged(others: Groups, known: Groups) -> Groups:
    """Return the sums of both kinds of keys, in each group that either has."""
    of_others = dict(zip(_rows(others.groups), others.estimates, strict=True))
    of_known = dict(zip(_rows(known.groups), known.estimates, strict=True))
    groups = pa.concat_tables([known.groups, others.groups])
    if groups.num_columns:
        groups = groups.group_by(groups.column_names).aggregate([])
        ascending = [(name, "ascending") for name in groups.column_names]
        groups = groups.take(pc.sort_indices(groups, ascending))
    added = [_added(of_others.get(group), of_known.get(group)) for group in _rows(groups)]
    return Groups(groups, added, others.remarks)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the values of each group; without columns there is one."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) or [()] * (
        not table.num_columns
    )


def _added(others: Estimate | None, known: Estimate | None) -> Estimate:
    """The sum of two independent estimates, if there are two."""
    if others is None or known is None:
        [one] = [estimate for estimate in (others, known) if estimate is not None]
        return one
    notes = [*others.notes, *known.notes] if others.keys else [_NO_OTHER, *known.notes]
    if others.at_least is not None:
        notes.insert(
            0,
            f"keys that are not known count from frequency {others.at_least:,} on; rarer ones do not",
        )
    value = others.value + known.value
    down = math.hypot(others.value - others.low, known.value - known.low)
    up = math.hypot(others.high - others.value, known.high - known.value)
    together = replace(
        others,
        value=value,
        standard_error=math.hypot(_number(others.standard_error), _number(known.standard_error)),
        low=value - down,
        high=value + up,
        bias=_number(others.bias) + _number(known.bias),
        keys=(others.keys or 0) + (known.keys or 0),
    )
    guaranteed, reported = others.guaranteed and known.guaranteed, _reported(others, known)
    stated = replace(
        together, guaranteed=guaranteed, notes=tuple(dict.fromkeys(notes)), reported=reported
    )
    return replace(stated, at_least=None, below=None, share=None)


def _reported(others: Estimate, known: Estimate) -> Reported:
    """What the reported keys of both kinds have."""
    assert others.reported is not None
    assert known.reported is not None
    if not known.keys:
        return others.reported
    if not others.keys:
        return replace(known.reported, others="")
    return added_reported([others.reported, known.reported])


def _number(value: float) -> float:
    """Return a number, or 0 if it is unknown."""
    return 0.0 if math.isnan(value) else value


def _nothing(level: float) -> Estimate:
    """The sum over no known key."""
    return Estimate(0.0, 0.0, 0.0, 0.0, level, keys=0, detection_threshold=0)


def _refused(what: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"{what} is not available for a release with known keys", f"ask {remedy}")

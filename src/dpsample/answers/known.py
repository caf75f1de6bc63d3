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
_TINY = 1e-300  # keeps ratios of zeros defined
_LEAST_ERROR = 1e-9  # of a key whose law has one frequency, so that it has a normal law; smaller changes nothing


class Noise(NamedTuple):
    """Moments of the frequency of a known key less its token; the kurtosis is that in excess of a normal law's."""

    mean: float
    variance: float
    kurtosis: float


@dataclass(frozen=True, eq=False)
class KnownKeys:
    """The known keys of a release, and sums over them.

    view    the keys, with the elements that were added to their tokens
    places  the places of these keys among all keys of the release
    added   the number of elements that were added to each frequency before its token was drawn
    """

    view: TokenView
    places: Ints
    added: int

    @cached_property
    def noise(self) -> Noise:
        """The moments of a frequency less its token, the same at all frequencies from the added one on."""
        scheme = self.view.scheme
        law = token_law(self.added, *scheme)
        lacking = self.added - law.cells / scheme.grid
        p = law.probabilities / law.reported
        mean = float(p @ lacking)
        variance = float(p @ (lacking - mean) ** 2)
        fourth_moment = float(p @ (lacking - mean) ** 4)
        return Noise(mean, variance, fourth_moment / variance**2 - 3)

    def sum(self, question: Question, tally: Tally) -> Estimate:
        """Estimate what a question sums over the keys of a tally: frequencies, or a number of keys."""
        level = question.level
        counted_from = question.counts_keys_from
        if counted_from is not None:
            return _with_all_reported(self.number(tally, counted_from, level))
        if tally.total == 1:
            of_all = self.sum_of_one(tally, level)
        else:
            of_all = self.sum_of_frequencies(tally, level)
        if question.at_least is None:
            return _with_all_reported(of_all)
        reported = _as_reported(of_all)
        frequent = self.sum_from(tally, question.at_least, level)
        return replace(frequent, reported=reported, at_least=question.at_least)

    def sum_of_frequencies(self, tally: Tally, level: float) -> Estimate:
        """Estimate the sum of frequencies: without bias, and with an error that is known.

        The noise of a single key is not normal. The quantile of the sum is that of Cornish and Fisher, whose term of
        the excess kurtosis k is ``(z**3 - 3 z) k / 24``. Weights raised to 4 add up to those of the fourth cumulant.
        """
        if not tally.total:
            return _nothing(level)
        noise = self.noise
        frequencies = tally.cells / self.view.scheme.grid - self.added + noise.mean
        value = float(tally.weights @ frequencies)
        squared_weights = float(tally.squares.sum())
        error = math.sqrt(noise.variance * squared_weights)

        # as if all keys of one token had the same weight
        fourth_powers = tally.squares**2 / np.maximum(tally.keys, 1)
        kurtosis_of_sum = (
            noise.kurtosis * float(fourth_powers.sum()) / max(squared_weights, _TINY) ** 2
        )
        z = NormalDist().inv_cdf(0.5 + level / 2)
        quantile = z + (z**3 - 3 * z) * kurtosis_of_sum / 24
        low = value - quantile * error
        high = value + quantile * error
        if (tally.weights >= 0).all():
            value = max(value, 0.0)
            low = max(low, 0.0)
            high = max(high, 0.0)
        return Estimate(value, error, low, high, level, keys=tally.total, detection_threshold=0)

    def sum_of_one(self, tally: Tally, level: float) -> Estimate:
        """Estimate the frequency of one key, with its own interval, as `each_key` has it."""
        weight = float(tally.weights[0])
        raised = np.ravel(likely_frequencies(tally.cells, *self.view.scheme, level))
        frequencies = np.maximum(raised - self.added, 0.0)
        value, *ends = (weight * frequencies).tolist()
        low = min(ends)  # a negative weight changes the ends
        high = max(ends)
        error = abs(weight) * math.sqrt(self.noise.variance)
        return Estimate(value, error, low, high, level, keys=1, detection_threshold=0)

    def sum_from(self, tally: Tally, least: int, level: float) -> Estimate:
        """Estimate the sum of the frequencies of the keys of frequency `least` or more."""
        if not tally.total:
            return _nothing(level)
        measure = FREQUENCY.beyond(self.added).from_frequency(self.added + least)
        total = estimate(tally, self.view.scheme, measure, level=level)
        return replace(total, detection_threshold=0, at_least=None, below=None)

    def number(self, tally: Tally, least: int, level: float) -> Estimate:
        """Estimate the number of keys of frequency `least` or more, or the sum of their weights."""
        if not tally.total:
            return _nothing(level)
        measure = Measure.at_least(self.added + least)
        number = estimate(tally, self.view.scheme, measure, level=level)
        if not (tally.weights == tally.keys).all():
            return number
        keys = float(tally.total)
        return replace(
            number,
            value=min(max(number.value, 0.0), keys),
            low=min(max(number.low, 0.0), keys),
            high=min(max(number.high, 0.0), keys),
            detection_threshold=0,
        )


@dataclass(frozen=True, eq=False)
class KnownEvidence(Evidence):
    """The evidence of a release with known keys, and with others unless it has known keys only."""

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
        added = terms.known.added
        view = TokenView.of(table, terms)
        silence = Silence.of(terms)
        is_known = table["known"].to_numpy()
        places = np.flatnonzero(is_known)
        known = KnownKeys(view.take(places, added), places, added)
        others = TokenEvidence(view.take(np.flatnonzero(~is_known)), silence)
        return KnownEvidence(view.rows, known, others, silence, terms.bought.total)

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
        groups = self._sums_of_known(question)
        if not self.silence.only_listed:
            groups = _merged(self.others.sums(question), groups)
        if question.by:
            return groups
        [estimate] = groups.estimates
        share = None
        total = self.total
        if total is not None and total.value > 0 and question.is_plain_sum:
            share = estimate.value / float(total.value)
        return groups._replace(estimates=[replace(estimate, share=share)])

    def _sums_of_known(self, question: Question) -> Groups:
        """Return the sums over known keys alone."""
        groups, tallies = Selection.of(self.known.view.rows, question).tallies()
        return Groups(groups, [self.known.sum(question, tally) for tally in tallies])

    def means(self, question: Question) -> Groups:
        """Estimate the mean frequency of the selected keys of the list, also of those of frequency 0."""
        question.require_default_estimator("known keys")
        is_of_frequencies = question.measure == FREQUENCY and question.at_least is None
        if not self.silence.only_listed or not is_of_frequencies:
            raise _refused(
                "a mean of other keys, or of anything but the frequency,", "sum and count_keys"
            )
        groups, tallies = Selection.of(self.known.view.rows, question).tallies()
        return Groups(groups, [self._mean(tally, question.level) for tally in tallies])

    def _mean(self, tally: Tally, level: float) -> Estimate:
        """Return the mean over the keys of a tally: their sum over the sum of their weights, which is known."""
        weight = float(tally.weights.sum())
        if weight <= 0:
            raise InvalidValue(
                "the weights of the keys of a mean must sum to more than 0",
                "change where or weight",
            )
        total = self.known.sum_of_frequencies(tally, level)
        return replace(
            total,
            value=total.value / weight,
            standard_error=total.standard_error / weight,
            low=total.low / weight,
            high=total.high / weight,
        )

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
        law_of_a = keys.law(self.place_of(a, keys))
        law_of_b = keys.law(self.place_of(b, keys))
        return probability_above(self.silence, law_of_a, law_of_b)


class ListedKeys(NormalKeys):
    """Selected keys, known ones and others, in the order of the release."""

    def __init__(self, evidence: KnownEvidence, rows: Ints, level: float) -> None:
        known = evidence.known
        self.rows = rows
        self.detection_threshold = evidence.detection_threshold
        self._added = known.added
        self._is_known = np.isin(rows, known.places)
        # a row is at the place among the keys of its kind that the number of rows before it says
        known_before = np.searchsorted(known.places, rows)
        others_before = rows - known_before
        self._known = TokenKeys(known.view, known_before[self._is_known])
        self._others = TokenKeys(evidence.others.view, others_before[~self._is_known])
        each = self._each(level)
        self.values = each.value
        self.errors = each.standard_error

    def _each(self, level: float) -> KeyEstimates:
        """Return the estimates of all keys: those of known ones without the elements that were added."""
        known = self._known.estimates(np.arange(len(self._known)), level)
        others = self._others.estimates(np.arange(len(self._others)), level)

        def of_all(name: str) -> Floats:
            column = np.zeros(len(self))
            column[~self._is_known] = getattr(others, name)
            column[self._is_known] = getattr(known, name)
            return column

        def without_added(name: str) -> Floats:
            column = of_all(name)
            lowered = np.maximum(column - self._added, 0)
            return np.where(self._is_known, lowered, column)

        error = np.maximum(of_all("standard_error"), _LEAST_ERROR)
        return KeyEstimates(
            without_added("value"), error, without_added("low"), without_added("high")
        )

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        each = self._each(level)
        return KeyEstimates(*[column[places] for column in each])

    def _all_at_once(self, level: float) -> KeyEstimates:
        """Return the estimates of all keys, with intervals that hold together (Bonferroni)."""
        level_of_each = 1 - (1 - level) / max(len(self), 1)
        return self._each(level_of_each)

    def larger(self, place: int, level: float) -> tuple[int, int]:
        each = self._all_at_once(level)
        others = np.arange(len(self)) != place
        surely_larger = each.low[others] > each.high[place]
        possibly_larger = each.high[others] > each.low[place]
        return int(surely_larger.sum()), int(possibly_larger.sum())

    def fewest(self, frequency: int, level: float) -> float:
        each = self._all_at_once(level)
        return float((each.low >= frequency).sum())


def _merged(others: Groups, known: Groups) -> Groups:
    """Return the sums of both kinds of keys, in each group that either has."""
    of_others = dict(zip(_values_of_groups(others.groups), others.estimates, strict=True))
    of_known = dict(zip(_values_of_groups(known.groups), known.estimates, strict=True))
    groups = pa.concat_tables([known.groups, others.groups])
    if groups.num_columns:
        groups = groups.group_by(groups.column_names).aggregate([])
        ascending = [(name, "ascending") for name in groups.column_names]
        groups = groups.take(pc.sort_indices(groups, ascending))
    added = []
    for group in _values_of_groups(groups):
        added.append(_added(of_others.get(group), of_known.get(group)))
    return Groups(groups, added, others.remarks)


def _values_of_groups(groups: pa.Table) -> list[tuple[Any, ...]]:
    """Return the values of each group; without columns there is one group, which has none."""
    if not groups.num_columns:
        return [()]
    columns = [column.to_pylist() for column in groups.columns]
    return list(zip(*columns, strict=True))


def _added(others: Estimate | None, known: Estimate | None) -> Estimate:
    """Return the sum of two independent estimates, or the only one that there is."""
    if others is None or known is None:
        [one] = [estimate for estimate in (others, known) if estimate is not None]
        return one
    notes = [*others.notes, *known.notes] if others.keys else [_NO_OTHER, *known.notes]
    if others.at_least is not None:
        least = f"{others.at_least:,}"
        notes = [
            f"keys that are not known count from frequency {least} on; rarer ones do not",
            *notes,
        ]
    value = others.value + known.value
    below = math.hypot(others.value - others.low, known.value - known.low)
    above = math.hypot(others.high - others.value, known.high - known.value)
    error = math.hypot(_number(others.standard_error), _number(known.standard_error))
    return replace(
        others,
        value=value,
        standard_error=error,
        low=value - below,
        high=value + above,
        bias=_number(others.bias) + _number(known.bias),
        keys=(others.keys or 0) + (known.keys or 0),
        guaranteed=others.guaranteed and known.guaranteed,
        notes=tuple(dict.fromkeys(notes)),
        reported=_reported(others, known),
        at_least=None,
        below=None,
        share=None,
    )


def _with_all_reported(estimate: Estimate) -> Estimate:
    """Return the same number, stated to be that of the reported keys and of all."""
    reported = replace(_as_reported(estimate), others=ALL_KNOWN)
    return replace(estimate, reported=reported)


def _as_reported(estimate: Estimate) -> Reported:
    """Return an estimate as that of the reported keys."""
    return Reported(estimate.value, estimate.standard_error, estimate.low, estimate.high)


def _reported(others: Estimate, known: Estimate) -> Reported:
    """Return the sum over the reported keys of both kinds."""
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
    """Return the sum over no known key."""
    return Estimate(0.0, 0.0, 0.0, 0.0, level, keys=0, detection_threshold=0)


def _refused(what: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"{what} is not available for a release with known keys", f"ask {remedy}")

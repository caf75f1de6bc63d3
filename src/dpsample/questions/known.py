"""Questions to a release with known keys, which were all reported, and with others, which were discovered.

Each kind is a release of its own. The others are one as without a list. The known keys are one in which every frequency
has the elements that were added to it (`accounting.known`). A sum is that of both kinds: their errors are independent.
Orders compare the reported keys of both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate, Estimator, estimate
from dpsample.estimators.measures import FREQUENCY, KEYS, Measure
from dpsample.estimators.notes import NONE_SELECTED
from dpsample.estimators.reported import Reported
from dpsample.estimators.tally import Tally
from dpsample.exact import check_level
from dpsample.questions import tokens
from dpsample.questions.arguments import check_default_estimator, check_frequency, check_k
from dpsample.questions.counted_order import in_the_top, rank_law
from dpsample.questions.reported import added_reported
from dpsample.questions.result import OF_EACH, Estimates, about_each, of_the_top
from dpsample.questions.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.questions.sums import grouped
from dpsample.questions.unreported import probability_above, rank_unreported, unreported_key
from dpsample.release.bought import NOTHING
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import token_law

if TYPE_CHECKING:
    from dpsample.release.release import Release

__all__ = ["compare", "count_keys", "each_key", "mean", "other", "quantiles", "rank", "top", "total", "unreported_key"]

_ALL_KNOWN = "the same: all of these keys are known, and reported"
_NO_OTHER = "of the selected keys, none that is not known is reported"


class _Kinds:
    """Both kinds of a release, and the law of the noise of its known keys."""

    def __init__(self, release: "Release") -> None:
        from dpsample.release.release import Release

        terms, table = release.terms, release.table
        assert terms.known is not None
        assert terms.known.added is not None
        assert terms.grid is not None
        listed = table["known"].to_numpy()
        self.release, self.only, self.added, self.grid = release, terms.known.only, terms.known.added, terms.grid
        self.places = np.flatnonzero(~listed), np.flatnonzero(listed)
        drawn = table.select([*terms.keys, "token"])
        others, known = (drawn.take(pa.array(places)) for places in self.places)
        raised = pa.array(known["token"].to_numpy() + self.added)
        known = known.set_column(len(terms.keys), "token", raised)
        # each part by itself is as private as its keys are: the total was paid for beside them
        own = replace(terms, privacy=terms.keys_privacy, known=None, bought=NOTHING)
        self.others, self.known = Release(others, own), Release(known, own)

    @property
    def scheme(self) -> Scheme:
        """How the tokens of known keys were drawn."""
        return Scheme(self.known.sampling, self.known.per_key, self.grid)

    @cached_property
    def noise(self) -> tuple[float, float, float]:
        """The mean of what a token lacks to the frequency, its variance, and its excess kurtosis."""
        law = token_law(self.added, *self.scheme)
        lack, p = self.added - law.cells / self.grid, law.probabilities / law.reported
        mean = float(p @ lack)
        variance, fourth = (float(p @ (lack - mean) ** power) for power in (2, 4))
        return mean, variance, fourth / variance**2 - 3

    def sum_of_known(self, tally: Tally, level: float) -> Estimate:
        """The sum of the frequencies of known keys: without bias, and with an error that is known.

        The noise of a single key is not normal. The quantile of its sum is that of Cornish and Fisher.
        """
        if not tally.total:
            return Estimate(0.0, 0.0, 0.0, 0.0, level, 0.0, 0, 0)
        lack, variance, kurtosis = self.noise
        squares = float(tally.squares.sum())
        value = float(tally.weights @ (tally.cells / self.grid - self.added + lack))
        error = math.sqrt(variance * squares)
        tails = kurtosis * float((tally.squares**2 / np.maximum(tally.keys, 1)).sum()) / max(squares, 1e-300) ** 2
        z = NormalDist().inv_cdf(0.5 + level / 2)
        reach = (z + (z**3 - 3 * z) * tails / 24) * error
        low, high = value - reach, value + reach
        if (tally.weights >= 0).all():
            value, low, high = (max(number, 0.0) for number in (value, low, high))
        return Estimate(value, error, low, high, level, 0.0, tally.total, 0)

    def one_known(self, tally: Tally, level: float) -> Estimate:
        """The frequency of one known key, with its own interval, as `each_key` has it."""
        weight = float(tally.weights[0])
        raised = [float(ends[0]) for ends in likely_frequencies(tally.cells, *self.scheme, level)]
        value, low, high = (weight * max(end - self.added, 0.0) for end in raised)
        error = abs(weight) * math.sqrt(self.noise[1])
        return Estimate(value, error, min(low, high), max(low, high), level, 0.0, 1, 0)

    def sum_of_known_from(self, tally: Tally, least: int, level: float) -> Estimate:
        """The sum of the frequencies of known keys of a frequency or more."""
        if not tally.total:
            return Estimate(0.0, 0.0, 0.0, 0.0, level, 0.0, 0, 0)
        kink = self.added + least
        measure = FREQUENCY.beyond(self.added).from_frequency(kink)
        found = estimate(tally, self.scheme, measure, "calibrated", level)
        return replace(found, detection_threshold=0, at_least=None, below=None)

    def number_of_known(self, tally: Tally, least: int, level: float) -> Estimate:
        """The number of known keys of a frequency or more, or the sum of their weights."""
        if not tally.total:
            return Estimate(0.0, 0.0, 0.0, 0.0, level, 0.0, 0, 0)
        measure = Measure.at_least(self.added + least)
        found = estimate(tally, self.scheme, measure, "calibrated", level)
        if not (tally.weights == tally.keys).all():
            return found
        ends = (min(max(n, 0.0), float(tally.total)) for n in (found.value, found.low, found.high))
        value, low, high = ends
        return replace(found, value=value, low=low, high=high, detection_threshold=0)


def total(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
    extrapolate: bool = False,
) -> Estimate | Estimates:
    """Estimate the sum of ``L(x) g(frequency of x)`` over the selected keys x, known ones and others.

    Others count from a little above the threshold on.
    """
    if at_least is not None:
        at_least = check_frequency(at_least)
        if of not in ("frequency", "keys"):
            raise InvalidValue("at_least is for sums of frequency and keys", "another sum", "leave it out")
        of, at_least = (Measure.at_least(at_least), None) if of == "keys" else (of, at_least)
    kinds, level, measure = _Kinds(release), check_level(level), Measure.of(of)
    check_default_estimator(estimator, "known keys")
    if measure != FREQUENCY and not measure.counts_keys:
        raise InvalidValue(
            "a release with known keys has sums of frequency, keys and at-least:T", measure.name, "ask one of these"
        )
    least = 1 if measure == KEYS else measure.kink or 1

    def of_all(tally: Tally) -> Estimate:
        if measure == FREQUENCY:
            return kinds.one_known(tally, level) if tally.total == 1 else kinds.sum_of_known(tally, level)
        return kinds.number_of_known(tally, least, level)

    def answered(tally: Tally) -> Estimate:
        everything = of_all(tally)
        ends = everything.value, everything.standard_error, everything.low, everything.high
        if at_least is None or measure != FREQUENCY:
            return replace(everything, reported=Reported(*ends, others=_ALL_KNOWN))
        frequent = kinds.sum_of_known_from(tally, at_least, level)
        return replace(frequent, reported=Reported(*ends), at_least=at_least)

    groups, tallies = Selection(kinds.known, where, weight, by, attributes).tallies()
    known = dict(zip(_rows(groups), map(answered, tallies), strict=True)) if by else {(): answered(tallies[0])}
    others: dict[Any, Estimate] = {}
    if not kinds.only:
        found = tokens.total(kinds.others, where, weight, of, by, estimator, level, attributes, at_least, extrapolate)
        others = dict(zip(_rows(found.groups), (e for _, e in found), strict=True)) if by else {(): found}
        groups = pa.concat_tables([groups, found.groups]) if by else groups
    together = {group: _added(others.get(group), known.get(group)) for group in {**others, **known}}
    if not by:
        answer = together[()]
        bought = release.total
        if bought is None or weight is not None or measure != FREQUENCY or bought.value <= 0:
            return replace(answer, share=None)
        return replace(answer, share=answer.value / float(bought.value))
    distinct = groups.group_by(groups.column_names).aggregate([])
    distinct = distinct.take(pc.sort_indices(distinct, [(name, "ascending") for name in distinct.column_names]))
    return grouped(release, distinct, [together[group] for group in _rows(distinct)], level)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _added(others: Estimate | None, known: Estimate | None) -> Estimate:
    """The sum of two independent estimates."""
    if others is None or known is None:
        [one] = [e for e in (others, known) if e is not None]
        return one
    parts = (others, known)
    value = others.value + known.value
    assert others.reported is not None
    assert known.reported is not None
    if not known.keys:
        together = others.reported
    elif not others.keys:
        together = replace(known.reported, others="")
    else:
        together = added_reported([others.reported, known.reported])
    notes = [_NO_OTHER if note == NONE_SELECTED else note for note in others.notes] + [*known.notes]
    if others.at_least is not None:
        notes.insert(0, f"keys that are not known count from frequency {others.at_least:,} on; rarer ones do not")
    return Estimate(
        value,
        math.hypot(*(0.0 if math.isnan(e.standard_error) else e.standard_error for e in parts)),
        value - math.hypot(*(e.value - e.low for e in parts)),
        value + math.hypot(*(e.high - e.value for e in parts)),
        others.level,
        sum(0.0 if math.isnan(e.bias) else e.bias for e in parts),
        (others.keys or 0) + (known.keys or 0),
        others.detection_threshold,
        others.guaranteed and known.guaranteed,
        tuple(dict.fromkeys(notes)),
        reported=together,
    )


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Estimate | Estimates:
    """Estimate the number of selected keys that have an element, or as many as `at_least`."""
    return total(release, of=KEYS if at_least is None else Measure.at_least(check_frequency(at_least)), **options)


def mean(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: str | None = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimate | Estimates:
    """Estimate the mean frequency of the selected keys of the list, also of those of frequency 0."""
    kinds, level = _Kinds(release), check_level(level)
    check_default_estimator(estimator, "known keys")
    if not kinds.only or at_least is not None or Measure.of(of) != FREQUENCY:
        raise _refused("a mean is that of the frequencies of known keys alone", "sum and count_keys")
    groups, tallies = Selection(kinds.known, where, weight, by, attributes).tallies()
    answers = []
    for tally in tallies:
        found, number = kinds.sum_of_known(tally, level), float(tally.weights.sum())
        if number <= 0:
            raise InvalidValue("a mean has keys whose weights sum to more than 0", "none", "change where or weight")
        ends = {name: getattr(found, name) / number for name in ("value", "standard_error", "low", "high")}
        answers.append(replace(found, **ends))
    return grouped(release, groups, answers, level) if by else answers[0]


def quantiles(release: "Release", shares: Sequence[float], *_: Any, **__: Any) -> Estimates:
    """Refuse: no quantile over both kinds has an interval here."""
    raise _refused("quantiles are of keys without a list", "each_key, or count_keys with at_least")


def other(release: "Release", level: float = 0.95) -> Estimate:
    """Refuse: the remainder is not estimated here."""
    raise _refused("the remainder is of a release without a list", "total and sum")


def _refused(rule: str, remedy: str) -> InvalidValue:
    return InvalidValue(rule, "a release with known keys", f"ask {remedy}")


# ---- single keys


@dataclass(frozen=True, eq=False)
class _Each:
    """The selected keys, in the order of the release: their rows, and numbers of each."""

    rows: Ints
    values: Floats
    errors: Floats
    low: Floats
    high: Floats


def _each(kinds: _Kinds, where: Where, level: float, attributes: Attributes) -> _Each:
    parts: list[list[Any]] = []
    added = (0, kinds.added)
    for part, places, more in zip((kinds.others, kinds.known), kinds.places, added, strict=True):
        numbers = tokens.each_key(part, where, level, attributes).numbers
        rows, _ = Selection(part, where, attributes=attributes).rows()
        value, error, low, high = (numbers[name].to_numpy() for name in ("value", "standard_error", "low", "high"))
        parts.append([places[rows], *(np.maximum(n - more, 0) if more else n for n in (value, low, high)), error])
    rows, values, low, high, errors = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(rows)
    return _Each(rows[order], values[order], np.maximum(errors, 1e-9)[order], low[order], high[order])


def _listing(
    release: "Release", rows: Ints, columns: Sequence[Floats], level: float, note: str, intervals: str = OF_EACH
) -> Estimates:
    names = ("value", "standard_error", "low", "high", "probability")
    numbers = {name: column.astype(np.float64) for name, column in zip(names, columns, strict=False)}
    keys = release.table.select(list(release.keys)).take(pa.array(rows, pa.int64()))
    threshold = release.terms.detection_threshold
    return Estimates(keys, pa.table(numbers), level, threshold, (note,), intervals=intervals)


def each_key(release: "Release", where: Where = None, level: float = 0.95, attributes: Attributes = None) -> Estimates:
    """Estimate the frequency of each selected key that was reported, in the order of the release."""
    level = check_level(level)
    each = _each(_Kinds(release), where, level, attributes)
    columns = each.values, each.errors, each.low, each.high
    return _listing(release, each.rows, columns, level, about_each(len(each.rows)))


def top(
    release: "Release", k: int, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimates:
    """List the k keys with the largest estimates, and for each the probability that it is one of the top k reported.

    Intervals have a higher level, at which the listed keys have the nominal coverage on average, as those of `ranking`.
    """
    level, k, kinds = check_level(level), check_k(k), _Kinds(release)
    each = _each(kinds, where, level, attributes)
    if not len(each.rows):
        return _listing(release, each.rows, [np.zeros(0)] * 5, level, "no reported key is selected")
    order = np.lexsort((each.rows, -each.values))[:k]
    rivals, before = len(order), 0
    while rivals > before:
        wider = _each(kinds, where, 1 - (1 - level) * len(order) / rivals, attributes)
        before, rivals = rivals, max(int((wider.high >= wider.low[order].min()).sum()), rivals)
    columns = each.values[order], each.errors[order], wider.low[order], wider.high[order]
    probability = in_the_top(each.values, each.errors, order, k)
    note = f"top {k:,} among {len(each.rows):,} reported keys; keys that were not reported are not compared"
    return _listing(release, each.rows[order], (*columns, probability), level, note, of_the_top(k))


def rank(
    release: "Release", key: Any, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimate:
    """Estimate a key's rank: one more than the number of selected keys that were reported and are more frequent.

    The interval has the keys that are more frequent with certainty, and those that possibly are, by intervals of all
    keys at once.
    """
    level, kinds = check_level(level), _Kinds(release)
    each = _each(kinds, where, level, attributes)
    wider = _each(kinds, where, 1 - (1 - level) / max(len(each.rows), 1), attributes)
    at = _place(release, each.rows, key)
    if at is None:
        return rank_unreported(release, level, len(each.rows), lambda reached: float((wider.low >= reached).sum()))
    others = np.arange(len(each.rows)) != at
    low = 1 + int((wider.low[others] > wider.high[at]).sum())
    high = 1 + int((wider.high[others] > wider.low[at]).sum())
    law = rank_law(each.values[others], each.errors[others], float(each.values[at]), float(each.errors[at]))
    value, note = min(max(law[0], float(low)), float(high)), "among the reported keys; no others are compared"
    threshold = release.terms.detection_threshold
    return Estimate(value, law[1], float(low), float(high), level, 0.0, len(each.rows), threshold, True, (note,))


def compare(release: "Release", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; either may be unreported."""
    if a == b:
        return 0.0
    each = _each(_Kinds(release), None, 0.95, None)
    places = (_place(release, each.rows, key) for key in (a, b))
    laws = (None if n is None else (float(each.values[n]), float(each.errors[n])) for n in places)
    return probability_above(release, *laws)


def _place(release: "Release", rows: Ints, key: Any) -> int | None:
    """Find a key among some rows of a release; None if it was not reported."""
    found, _ = Selection(release, [key]).rows()
    if not len(found):
        return None
    place = np.flatnonzero(rows == found[0])
    if not len(place):
        raise InvalidValue("the key is among the selected ones", "one that is not", "change where")
    return int(place[0])

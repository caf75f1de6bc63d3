"""Answers: what can be asked of a release, or of several together. Each question is written once, over `Evidence`."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np
import pyarrow as pa

from dpsample.answers.estimates import OF_EACH, Estimates, about_each, of_the_top
from dpsample.answers.evidence import (
    Evidence,
    Groups,
    KeyEstimates,
    Keys,
    level_among,
    rank_of_unreported,
    together,
)
from dpsample.answers.question import (
    Attributes,
    By,
    MeanOptions,
    Of,
    Question,
    SumOptions,
    Weight,
    Where,
    check_k,
    check_options,
    check_shares,
)
from dpsample.answers.selection import Selection
from dpsample.estimators.estimate import Estimate, Estimator
from dpsample.estimators.notes import Note
from dpsample.scheme.sampling import Floats, Ints


class Answers:
    """The questions that can be asked, each with its arguments and an example."""

    @property
    @abstractmethod
    def evidence(self) -> Evidence:
        """The statements that the answers follow from."""

    @overload
    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        **options: Unpack[SumOptions],
    ) -> Estimate: ...

    @overload
    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: str | Sequence[str],
        **options: Unpack[SumOptions],
    ) -> Estimates: ...

    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: By = None,
        **options: Unpack[SumOptions],
    ) -> Estimate | Estimates:
        """Estimate the sum of ``weight(key) g(frequency of key)`` over the selected keys: a total, which has two lines.

        *In reported keys* (`Estimate.reported`): what the selected keys of the release have together. *In all keys of
        frequency `at_least` or more*, reported or not (`value`, `low`, `high`). What rarer keys hold is stated apart,
        in `below`: it is a number if a private total determines it, or if `extrapolate` asks for a guess.

        where       the keys that count: an SQL expression on the key columns and attributes, a collection of keys
                    (tuples, if there are several key columns), or a function from the Arrow table of these columns to
                    a boolean for each row. None selects all
        weight      the weight of each key: a column, an SQL expression, a function as for `where`, or a mapping from
                    key to number. Keys without a weight are left out. None is 1
        of          g, a function of the frequency: "frequency", "keys" (1 for each key), "log1p", "power:2",
                    "capped:100", "at-least:100"; or a function of an array that never decreases and is 0 at 0
        by          a column or SQL expression, or several, whose values make groups: the answer has a row for each
        estimator   "calibrated" (the default), which has an interval; "mle", "biased_down", "unbiased", or a function
                    from an array of tokens to one estimate for each, which have none and are about all keys
        level       the nominal coverage of the interval
        attributes  a table of key attributes: an Arrow table, a data frame, or a Parquet, CSV or Arrow file. It has
                    the key columns, each key once, and further columns for `where`, `weight` and `by`
        at_least    the least frequency of the keys that count; by default a little above the calibration threshold
                    (docs/answers.md). A question that names one key is about this key, whatever its frequency
        extrapolate guess what rarer keys hold from the number of keys just above; on real data it is often far off

        A release of counted users answers about its reported keys alone, for "frequency", "keys" and "at-least:100",
        and for its amounts: "rows_clipped" or "sum_price_clipped", of clipped amounts; or "rows" or "sum_price", whose
        interval includes amounts up to eight times the clip.

        Over several releases, each counts the keys that it reports, and in all keys those that have frequency
        `at_least` or more in it; `of` is then "frequency", "keys" or "at-least:100".

        >>> from dpsample.answers.example import release
        >>> cats = release.sum("word LIKE 'cat%'")
        >>> cats.keys, cats.reported
        (2, 5,329 (5,325 to 5,333))
        >>> [(letter, estimate.keys) for letter, estimate in release.sum(by="left(word, 1)")]
        [('c', 3), ('d', 2), ('e', 1)]
        """
        check_options(options, SumOptions)
        question = Question(where=where, weight=weight, of=of, by=by, **options)
        sums = self.evidence.sums(question)
        return self._answer(question, sums)

    @overload
    def ratio(
        self,
        of: str,
        per: str = "users",
        where: Where = None,
        *,
        weight: Weight = None,
        by: None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimate: ...

    @overload
    def ratio(
        self,
        of: str,
        per: str = "users",
        where: Where = None,
        *,
        weight: Weight = None,
        by: str | Sequence[str],
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimates: ...

    def ratio(
        self,
        of: str,
        per: str = "users",
        where: Where = None,
        *,
        weight: Weight = None,
        by: By = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimate | Estimates:
        """Estimate a mean: the sum of an amount over the number of users, or over another amount.

        Of a release of counted users with amounts: `of` and `per` are "users", or the name of an amount, such as "rows"
        or "sum_price". Users count once for each of their keys. The interval is that of Fieller, of both sums' errors,
        and includes amounts up to eight times the clip; with "rows_clipped" and "sum_price_clipped", it is about
        clipped amounts. The other arguments are those of `sum`.
        """
        question = Question(
            where=where, weight=weight, of=of, by=by, level=level, attributes=attributes
        )
        ratios = self.evidence.ratios(question, per)
        return self._answer(question, ratios)

    @overload
    def count_keys(
        self,
        where: Where = None,
        at_least: int | None = None,
        *,
        weight: Weight = None,
        by: None = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimate: ...

    @overload
    def count_keys(
        self,
        where: Where = None,
        at_least: int | None = None,
        *,
        weight: Weight = None,
        by: str | Sequence[str],
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimates: ...

    def count_keys(
        self,
        where: Where = None,
        at_least: int | None = None,
        *,
        weight: Weight = None,
        by: By = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Estimate | Estimates:
        """Estimate the number of selected keys of frequency `at_least` or more, reported or not.

        `at_least` is a little above the detection threshold by default. With a `weight`, the answer is the sum of the
        weights of these keys. Over several releases, a key counts once if it has this frequency in one of them. The
        other arguments are those of `sum`.

        >>> from dpsample.answers.example import release
        >>> round(release.count_keys("length(word) = 3", at_least=100).value)
        3
        """
        question = Question(
            where=where,
            weight=weight,
            of="keys",
            by=by,
            level=level,
            at_least=at_least,
            estimator=estimator,
            attributes=attributes,
        )
        numbers = self.evidence.sums(question)
        return self._answer(question, numbers)

    @overload
    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        **options: Unpack[MeanOptions],
    ) -> Estimate: ...

    @overload
    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: str | Sequence[str],
        **options: Unpack[MeanOptions],
    ) -> Estimates: ...

    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: By = None,
        **options: Unpack[MeanOptions],
    ) -> Estimate | Estimates:
        """Estimate the mean of g(frequency) over the selected keys of frequency `at_least` or more.

        `at_least` is as for `count_keys`: the number of rarer keys is unknown. With a `weight`, the
        mean is weighted. The other arguments are those of `sum`.

        >>> from dpsample.answers.example import release
        >>> 2600 < release.mean(["cat", "cow", "dog"]).value < 2680
        True
        """
        check_options(options, MeanOptions)
        question = Question(where=where, weight=weight, of=of, by=by, **options)
        means = self.evidence.means(question)
        return self._answer(question, means)

    def quantiles(
        self,
        shares: float | Sequence[float] = (0.5, 0.9, 0.99),
        where: Where = None,
        *,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
    ) -> Estimates:
        """Estimate quantiles of the frequencies of the selected keys of frequency `at_least` or more.

        The quantile of a share p is the smallest frequency that at least a share p of these keys do not exceed.
        `at_least` is as for `count_keys`; `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.answers.example import release
        >>> 790 < release.quantiles([0.6, 0.9])[0.6].value < 815
        True
        """
        p = check_shares(shares)
        question = Question(where=where, level=level, attributes=attributes, at_least=at_least)
        evidence = self.evidence
        quantiles = evidence.quantiles(question, p)
        columns = _columns(quantiles.estimates)
        columns["keys"] = np.full(len(p), quantiles.keys)
        columns["guaranteed"] = np.full(len(p), quantiles.guaranteed)
        return Estimates(
            pa.table({"quantile": p}),
            pa.table(columns),
            question.level,
            evidence.detection_threshold,
            notes=(*quantiles.notes, *evidence.remarks),
            at_least=quantiles.at_least,
        )

    def top(
        self, k: int, where: Where = None, *, level: float = 0.95, attributes: Attributes = None
    ) -> Estimates:
        """List the k keys with the largest estimates, each with the probability that it is one of the top k.

        A key is in the top k if fewer than k of the selected keys, reported or not, are more frequent. Among many keys
        of about the same frequency, those with the largest estimates are listed, and their estimates are too high.
        Each interval is that of the key by itself, and a note states the higher level at which the listed keys have
        the nominal coverage on average; of counted users and known keys, intervals have that level. `where`, `level`
        and `attributes` are as for `sum`.

        >>> from dpsample.answers.example import release
        >>> release.top(2).groups["word"].to_pylist()
        ['cat', 'dog']
        """
        k = check_k(k)
        question = Question(where=where, level=level, attributes=attributes)
        level = question.level
        keys = self.evidence.keys(question)
        listed = keys.ordered()[:k]
        if not len(listed):
            nothing = KeyEstimates(*np.zeros((4, 0)))
            note = "no reported key is selected"
            return self._listing(keys.rows, nothing, level, note, probability=np.zeros(0))
        rivals = keys.rivals(listed, level)
        higher_level = level_among(level, len(listed), rivals)
        note = _note_of_top(k, keys, len(listed), rivals, higher_level)
        rows = keys.rows[listed]
        probability = keys.in_the_top(k, listed)
        if keys.widens_top:
            estimates = keys.estimates(listed, higher_level)
            return self._listing(rows, estimates, level, note, of_the_top(k), probability)
        estimates = keys.estimates(listed, level)
        return self._listing(rows, estimates, level, note, OF_EACH, probability)

    def each_key(
        self, where: Where = None, *, level: float = 0.95, attributes: Attributes = None
    ) -> Estimates:
        """Estimate the frequency of each selected key that was reported, in the order of the release.

        `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.answers.example import release
        >>> cat = release.each_key()["cat"]
        >>> cat.low < 5005 < cat.high
        True
        """
        question = Question(where=where, level=level, attributes=attributes)
        keys = self.evidence.keys(question)
        everything = np.arange(len(keys))
        estimates = keys.estimates(everything, question.level)
        note = about_each(len(keys), keys.called)
        return self._listing(keys.rows, estimates, question.level, note)

    def rank(
        self, key: Any, where: Where = None, *, level: float = 0.95, attributes: Attributes = None
    ) -> Estimate:
        """Estimate the rank of a key: 1 plus the number of selected keys, reported or not, that are more frequent.

        `key` is a tuple if there are several key columns. If it was not reported, the answer is a lower bound.
        `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.answers.example import release
        >>> release.rank("cow").value
        3.0
        """
        question = Question(where=where, level=level, attributes=attributes)
        evidence = self.evidence
        keys = evidence.keys(question)
        place = evidence.place_of(key, keys)
        if place is None:
            return rank_of_unreported(evidence.unreported(question.level, key), keys)
        return keys.rank(place, question.level)

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b; either may be unreported.

        Of counted users, all users of an unreported key count as having given it.

        >>> from dpsample.answers.example import release
        >>> 0.5 < release.compare("dogma", "eel") < 1
        True
        """
        Selection(self.evidence.rows, [a, b])  # refuses what cannot be a key
        if a == b:
            return 0.0
        probability = float(self.evidence.probability_above(a, b))
        # sums of many terms may exceed 1, by rounding
        return min(max(probability, 0.0), 1.0)

    def other(self, level: float = 0.95) -> Estimate:
        """Estimate the number of elements whose keys were not reported; for releases with a total and with numbers.

        `level` is the nominal coverage of the interval.

        >>> from dpsample.answers.example import release
        >>> other = release.other()
        >>> 500 < other.low < other.value < other.high < 700
        True
        """
        return self.evidence.remainder(Question(level=level).level)

    def __len__(self) -> int:
        return len(self.evidence.rows.keys)

    def __iter__(self) -> Iterator[Any]:
        """Yield each reported key, a tuple if there are several key columns."""
        columns = [column.to_pylist() for column in self.evidence.rows.keys.columns]
        if len(columns) == 1:
            return iter(columns[0])
        return zip(*columns, strict=True)

    def __contains__(self, key: Any) -> bool:
        """Whether a key was reported; a tuple if there are several key columns."""
        return self.evidence.row_of(key) is not None

    def __getitem__(self, key: Any) -> Estimate:
        """Estimate the frequency of a key, which need not be reported; a tuple if there are several key columns.

        >>> from dpsample.answers.example import release
        >>> release["cat"].low < 5005 < release["cat"].high, "unicorn" in release
        (True, False)
        """
        for _, estimate in self.each_key([key]):
            return estimate
        return self.evidence.unreported(0.95, key)

    def _answer(self, question: Question, groups: Groups) -> Estimate | Estimates:
        """Return the answer for all groups, or without `by` for the only one."""
        if question.by:
            return together(groups, self.evidence.detection_threshold, question.level)
        [estimate] = groups.estimates
        return replace(estimate, notes=(*estimate.notes, *groups.remarks))

    def _listing(
        self,
        rows: Ints,
        estimates: KeyEstimates,
        level: float,
        note: str,
        intervals: str = OF_EACH,
        probability: Floats | None = None,
    ) -> Estimates:
        """Return the estimates of single keys as a table, in this order.

        `rows` are those of the keys among the reported ones, `intervals` says which intervals they have, and
        `probability` is that of being in the top k.
        """
        numbers = _columns(estimates)
        if probability is not None:
            numbers["probability"] = probability
        evidence = self.evidence
        keys = evidence.rows.keys.take(pa.array(rows, pa.int64()))
        return Estimates(
            keys,
            pa.table(numbers),
            level,
            evidence.detection_threshold,
            notes=(note, *evidence.remarks),
            intervals=intervals,
        )


def _columns(estimates: KeyEstimates) -> dict[str, Any]:
    """Return the columns of single estimates, as floats, by their names."""
    columns = estimates._asdict().items()
    return {name: np.asarray(column, np.float64) for name, column in columns}


def _note_of_top(k: int, keys: Keys, listed: int, rivals: int, level: float) -> Note:
    """Return the note of a top list: the keys it chose among, and whether many compete for its places.

    `listed` is the number of its keys, and `level` the one at which their intervals hold on average.
    """
    fewer = " (fewer than k)" if listed < k else ""
    claim = f"top {k:,} among {len(keys):,} {keys.called}{fewer}{keys.others}"
    if rivals <= listed:
        return Note(claim)
    claim += f"; {rivals:,} compete for the list, and those on it may be estimated too high"
    if keys.widens_top:
        return Note(f"{claim}: intervals allow for it")
    return Note(claim, f"to allow for it, ask for the level {level:.6g}")

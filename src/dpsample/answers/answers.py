"""Answers: what can be asked of a release. `questions` has how each is answered."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, overload

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate, Estimator
from dpsample.answers import counted, held, known, tokens
from dpsample.answers.arguments import as_probability, check_arguments, check_keys
from dpsample.answers.estimates import Estimates
from dpsample.answers.selection import Attributes, By, Of, Rows, Weight, Where
from dpsample.release.terms import Terms
from dpsample.scheme.holding import SampleAndHold


class Answers:
    """The questions of a `Release`, each with its arguments, and an example."""

    @property
    def terms(self) -> Terms:
        """The public parameters of the release."""
        raise NotImplementedError

    @property
    def _rows(self) -> Rows:
        """The release, as questions select its keys."""
        raise NotImplementedError

    @property
    def _questions(self) -> ModuleType:
        """Where questions are answered: `tokens`, `held`, `counted` and `known` have the same names."""
        if self.terms.counts is not None:
            return counted
        if isinstance(self.terms.sampling, SampleAndHold):
            return held
        return tokens if self.terms.known is None else known

    @overload
    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
        extrapolate: bool = False,
    ) -> Estimate: ...

    @overload
    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: str | Sequence[str],
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
        extrapolate: bool = False,
    ) -> Estimates: ...

    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: By = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
        extrapolate: bool = False,
    ) -> Estimate | Estimates:
        """Estimate the sum of ``weight(key) g(frequency of key)`` over the selected keys: a total, which has two lines.

        *In reported keys* (`Estimate.reported`): what the selected keys of the release have together. *In all keys of
        frequency `at_least` or more*, reported or not (`value`, `low`, `high`). What rarer keys hold is stated apart,
        in `below`: it is a number if a private total tells it, or if `extrapolate` asks for a guess.

        where       the keys that count: an SQL expression on the key columns and attributes, a collection of keys
                    (tuples, if there are several key columns), or a function from the Arrow table of these columns to
                    a boolean for each row. None selects all
        weight      the weight of each key: a column, an SQL expression, a function as for `where`, or a mapping from
                    key to number. Keys without a weight are left out. None is 1
        of          g, a function of the frequency: "frequency", "keys" (1 for each key), "log1p", "power:2",
                    "capped:100", "at-least:100"; or a function of an array that never decreases and is 0 at 0
        by          a column or SQL expression, or several, whose values make groups: the answer has a row for each
        estimator   "calibrated" (the default), which has an interval; "mle", "biased_down", "unbiased", or a function
                    from an array of tokens to as many estimates, which have none and are about all keys
        level       the nominal coverage of the interval
        attributes  a table of key attributes: an Arrow table, a data frame, or a Parquet, CSV or Arrow file. It has
                    the key columns, each key once, and further columns for `where`, `weight` and `by`
        at_least    the least frequency of the keys that count; by default a little above the calibration threshold
                    (docs/answers.md). A question that names one key is about this key, whatever its frequency
        extrapolate guess what rarer keys hold from the number of keys just above; on real data it is often far off

        A release of counted users answers about its reported keys alone, for "frequency", "keys" and "at-least:100",
        and for its amounts: "rows_clipped" or "sum_price_clipped", of clipped amounts; or "rows" or "sum_price", whose
        interval includes amounts up to eight times the clip.

        >>> from dpsample.release.example import release
        >>> cats = release.sum("word LIKE 'cat%'")
        >>> cats.keys, cats.reported
        (2, 5,329 (5,325 to 5,333))
        >>> [(letter, estimate.keys) for letter, estimate in release.sum(by="left(word, 1)")]
        [('c', 3), ('d', 2), ('e', 1)]
        """
        check_arguments(level=level, estimator=estimator, at_least=at_least, extrapolate=extrapolate)
        answer: Estimate | Estimates = self._questions.total(
            self,
            where,
            weight,
            of,
            by=by,
            estimator=estimator,
            level=level,
            attributes=attributes,
            at_least=at_least,
            extrapolate=extrapolate,
        )
        return answer

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
        check_arguments(level=level)
        if self.terms.counts is None:
            raise InvalidValue(
                "a ratio is of the sums of a release of counted users",
                "another release",
                "release with user=..., rows=... and sums=..., without max_keys_per_user",
            )
        answer: Estimate | Estimates = self._questions.ratio(
            self, of, per, where, weight, by=by, level=level, attributes=attributes
        )
        return answer

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
        weights of these keys. The other arguments are those of `sum`.

        >>> from dpsample.release.example import release
        >>> round(release.count_keys("length(word) = 3", at_least=100).value)
        3
        """
        check_arguments(level=level, estimator=estimator, at_least=at_least)
        answer: Estimate | Estimates = self._questions.count_keys(
            self,
            at_least,
            where=where,
            weight=weight,
            by=by,
            estimator=estimator,
            level=level,
            attributes=attributes,
        )
        return answer

    @overload
    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
    ) -> Estimate: ...

    @overload
    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: str | Sequence[str],
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
    ) -> Estimates: ...

    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: By = None,
        estimator: Estimator | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
    ) -> Estimate | Estimates:
        """Estimate the mean of g(frequency) over the selected keys of frequency `at_least` or more.

        `at_least` is as for `count_keys`: the number of rarer keys is unknown. With a `weight`, the
        mean is weighted. The other arguments are those of `sum`.

        >>> from dpsample.release.example import release
        >>> 2600 < release.mean(["cat", "cow", "dog"]).value < 2680
        True
        """
        check_arguments(level=level, estimator=estimator, at_least=at_least)
        answer: Estimate | Estimates = self._questions.mean(
            self,
            where,
            weight,
            of,
            by=by,
            estimator=estimator,
            level=level,
            attributes=attributes,
            at_least=at_least,
        )
        return answer

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

        >>> from dpsample.release.example import release
        >>> 790 < release.quantiles([0.6, 0.9])[0.6].value < 815
        True
        """
        check_arguments(level=level, shares=shares, at_least=at_least)
        shares = [shares] if isinstance(shares, int | float) else shares
        answer: Estimates = self._questions.quantiles(
            self, shares, where, level=level, attributes=attributes, at_least=at_least
        )
        return answer

    def top(self, k: int, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimates:
        """List the k keys with the largest estimates, each with the probability that it is one of the top k.

        A key is in the top k if fewer than k of the selected keys, reported or not, are more frequent. Each
        interval is that of the key by itself. `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.release.example import release
        >>> release.top(2).groups["word"].to_pylist()
        ['cat', 'dog']
        """
        check_arguments(level=level, k=k)
        answer: Estimates = self._questions.top(self, k, where, level=level, attributes=attributes)
        return answer

    def each_key(self, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimates:
        """Estimate the frequency of each selected key that was reported, in the order of the release.

        `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.release.example import release
        >>> cat = release.each_key()["cat"]
        >>> cat.low < 5005 < cat.high
        True
        """
        check_arguments(level=level)
        answer: Estimates = self._questions.each_key(self, where, level=level, attributes=attributes)
        return answer

    def rank(self, key: Any, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimate:
        """Estimate the rank of a key: 1 plus the number of selected keys, reported or not, that are more frequent.

        `key` is a tuple if there are several key columns. If it was not reported, the answer is a lower bound.
        `where`, `level` and `attributes` are as for `sum`.

        >>> from dpsample.release.example import release
        >>> release.rank("cow").value
        3.0
        """
        check_arguments(level=level)
        answer: Estimate = self._questions.rank(self, key, where, level=level, attributes=attributes)
        return answer

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b; either may be unreported.

        Of counted users, all users of an unreported key count as having given it.

        >>> from dpsample.release.example import release
        >>> 0.5 < release.compare("dogma", "eel") < 1
        True
        """
        check_keys(self._rows, [a, b])
        return as_probability(self._questions.compare(self, a, b))

    def other(self, level: float = 0.95) -> Estimate:
        """Estimate the number of elements whose keys were not reported; for releases with a total and with numbers.

        `level` is the nominal coverage of the interval.

        >>> from dpsample.release.example import release
        >>> other = release.other()
        >>> 500 < other.low < other.value < other.high < 700
        True
        """
        check_arguments(level=level)
        answer: Estimate = self._questions.other(self, level)
        return answer

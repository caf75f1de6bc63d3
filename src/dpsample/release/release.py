"""Release: the only publishable object, and its file.

A release is a table of keys, each with an estimate of its frequency and its token, or with its number of users, sorted
by key, together with its terms. This module imports nothing that can see private data: what follows a release is
post-processing.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from dpsample.accounting.totals import Total
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate, Estimator
from dpsample.files import PathLike, read_table, rebatch, write_table
from dpsample.presentation.explain import explain_amount, explain_counts, explain_spent
from dpsample.presentation.tables import table_lines
from dpsample.privacy import Privacy
from dpsample.questions import counted, known, tokens
from dpsample.questions.result import Estimates
from dpsample.questions.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.release.rows import checked_rows, release_schema, without_weights
from dpsample.release.terms import VERSION, Terms
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling

if TYPE_CHECKING:
    from dpsample.presentation.report import Report

_WHOLE = dict.fromkeys(("estimate", "low", "high"), "{:,.0f}".format)  # columns of whole numbers


class Release:
    """Keys that may be published, with tokens and estimates, and their terms.

    Rows ascend strictly by key: strings by their UTF-8 bytes, several keys column by column. So their order reveals
    nothing, and no key occurs twice. Tokens are positive multiples of 1/grid. The other numbers follow from them, so
    that the table need not have them; if it does, they are checked.

    >>> from dpsample import KeepAll, Privacy
    >>> table = pa.table({"query": ["cat", "dog"], "token": [31.5, 12.125]})
    >>> Release(table, Terms(Privacy(1, 1e-6), KeepAll(), ("query",)))
    Release: 2 keys, with estimates of their frequencies
      privacy   epsilon 1, delta 1e-06, for each element
      sampling  KeepAll()
      tokens    in steps of 1/8
    query  estimate  low  high  token
    'cat'  45        42   48    31.5
    'dog'  26        23   28    12.125
    """

    def __init__(self, table: pa.Table, terms: Terms) -> None:
        given, schema = release_schema(table.schema, terms)
        batches = checked_rows(rebatch(table.select(given.names).to_batches(), given), terms)
        self._table, self._terms = pa.Table.from_batches(batches, schema), terms

    @property
    def table(self) -> pa.Table:
        """The rows, as an Arrow table: key column(s), estimate, low, high (95 %), token.

        Of counted users: key column(s), estimate, low, high (95 %), measured, standard_error; then each amount, rows or
        the sum of a column, with the same for it.
        """
        return self._table

    @property
    def terms(self) -> Terms:
        """The public parameters of the release."""
        return self._terms

    @property
    def privacy(self) -> Privacy:
        """The epsilon and delta that the release spent."""
        return self._terms.privacy

    @property
    def unit(self) -> str:
        """The unit of privacy: element or user."""
        return self._terms.unit

    @property
    def per_key(self) -> PerKey:
        """What each key has of the privacy: that which its token was drawn by. Estimates follow from it."""
        return self._terms.per_key

    @property
    def total(self) -> Total | None:
        """The private total of elements, if the release has one; at user level, of the keys that users kept.

        Without a contribution bound it has each user with up to so many keys as its `sensitivity`.
        """
        return self._terms.total

    @property
    def sampling(self) -> Sampling:
        """The sampling scheme of the keys."""
        return self._terms.sampling

    @property
    def grid(self) -> int | None:
        """The grid: tokens are multiples of 1/grid; None if there are no tokens."""
        return self._terms.grid

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self._terms.keys

    @property
    def keys_only(self) -> bool:
        """Whether there are keys and no numbers."""
        return self._terms.keys_only

    @property
    def metadata(self) -> dict[str, Any]:
        """The terms and the number of rows, as a file states them."""
        return self._terms.to_json(len(self))

    @property
    def _questions(self) -> ModuleType:
        """Where questions are answered: `tokens`, `counted` and `known` have the same names."""
        if self._terms.counts is not None:
            return counted
        return tokens if self._terms.known is None else known

    def write(self, path: PathLike, force: bool = False, format: str | None = None) -> None:
        """Write the release, atomically: Parquet, or CSV or Arrow with a JSON sidecar."""
        write_table(path, self._table.to_batches(), self._table.schema, self.metadata, force=force, format=format)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        try:
            return self._table.to_pandas()
        except ImportError:
            raise _missing("pandas") from None

    def to_polars(self) -> Any:
        """Return the rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise _missing("polars") from None
        return polars.from_arrow(self._table)

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
    ) -> Estimate | Estimates:
        """Estimate the sum of ``weight(key) g(frequency of key)`` over the selected keys, reported or not.

        The sum is over keys of frequency `at_least` or more. What rarer keys hold is stated apart, in `below`.

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

        A release of counted users answers about its reported keys alone, for "frequency", "keys" and "at-least:100",
        and for its amounts: "rows", or the column of a sum, such as "sum_price".

        >>> from dpsample.release.example import release
        >>> release.sum("word LIKE 'cat%'").keys
        2
        >>> [(letter, estimate.keys) for letter, estimate in release.sum(by="left(word, 1)")]
        [('c', 3), ('d', 2), ('e', 1)]
        """
        answer: Estimate | Estimates = self._questions.total(
            self, where, weight, of, by=by, estimator=estimator, level=level, attributes=attributes, at_least=at_least
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

        Of a release of counted users with amounts: `of` and `per` are "users", "rows", or the column of a sum, such as
        "sum_price". Users count once for each of their keys. The interval is that of Fieller, of both sums' errors, and
        is longer by what is beyond the clips. The other arguments are those of `sum`.
        """
        if self._questions is tokens:
            raise InvalidValue(
                "a ratio is of the sums of a release of counted users",
                "another release",
                "release with user=..., rows=... and sums=..., without max_keys_per_user",
            )
        answer: Estimate | Estimates = counted.ratio(
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
        answer: Estimate = self._questions.rank(self, key, where, level=level, attributes=attributes)
        return answer

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b. Of counted users, both were reported.

        >>> from dpsample.release.example import release
        >>> 0.5 < release.compare("dogma", "eel") < 1
        True
        """
        probability: float = self._questions.compare(self, a, b)
        return probability

    def other(self, level: float = 0.95) -> Estimate:
        """Estimate the number of elements whose keys were not reported; for releases with a total and with numbers.

        `level` is the nominal coverage of the interval.

        >>> from dpsample.release.example import release
        >>> other = release.other()
        >>> 500 < other.low < other.value < other.high < 700
        True
        """
        answer: Estimate = self._questions.other(self, level)
        return answer

    def report(
        self,
        path: PathLike | None = None,
        *,
        force: bool = False,
        title: str | None = None,
        about: str | None = None,
        contact: str | None = None,
        date: str | datetime.date | None = None,
        name: str | None = None,
        top: int = 100,
        prove: bool = True,
        before: "Release | None" = None,
    ) -> "Report":
        """Return a page that shows the release; with a `path`, which ends with .html, also write it.

        force   replace a file of this name
        title   the title of the page; by default, the key columns
        about   what the data are; an empty line begins a new paragraph
        contact whom to ask; an address of mail or of the web becomes a link
        date    the day of publication, as YYYY-MM-DD; the page has no date unless it is stated
        name    the name of the release's file, for the commands that the page shows
        top     the number of keys in the top list
        prove   run the proof of its privacy, or do not
        before  an earlier release: the page shows which keys rose or fell since

        >>> from dpsample.release.example import release
        >>> release.report(title="Words", about="Words of a story.", date="2026-11-16", top=3)
        Report: a page of ... MB; write(path) puts it into a file
        """
        from dpsample.presentation.report import Statement, check_report, make_report

        statement = Statement(title, about, contact, date)
        if path is not None:
            check_report(path, force)
        report = make_report(self, statement, name=name, top=top, prove=prove, before=before)
        if path is not None:
            report.write(path, force=force)
        return report

    def plot(
        self,
        k: int = 20,
        where: Where = None,
        *,
        title: str | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
    ) -> Any:
        """Return an Altair chart of the top k keys, with intervals. Notebooks show it; its `save` writes a file.

        `title` is the title of the chart. The other arguments are those of `top`.

        >>> from dpsample.release.example import release
        >>> type(release.plot(3)).__name__
        'LayerChart'
        """
        from dpsample.presentation.plot import plot

        return plot(self, k, where, title=title, level=level, attributes=attributes)

    def registry_entry(self) -> str:
        """Return the entry for the public registry of deployments, as YAML; TODO marks what the publisher adds.

        >>> from dpsample.release.example import release
        >>> print(release.registry_entry())
        # Entry for the registry of differential privacy deployments, https://registry.opendp.org
        ...
        """
        from dpsample.presentation.label import registry_entry

        return registry_entry(self)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Any]:
        """Yield each reported key, a tuple if there are several key columns."""
        columns = [self._table[name].to_pylist() for name in self.keys]
        return iter(columns[0] if len(columns) == 1 else zip(*columns, strict=True))

    def __contains__(self, key: Any) -> bool:
        """Whether a key was reported; a tuple if there are several key columns."""
        return len(Selection(self, [key]).weighted_rows()[1][0][0]) > 0

    def __getitem__(self, key: Any) -> Estimate:
        """Estimate the frequency of a key, which need not be reported; a tuple if there are several key columns.

        >>> from dpsample.release.example import release
        >>> release["cat"].low < 5005 < release["cat"].high, "unicorn" in release
        (True, False)
        """
        for _, answer in self.each_key([key]):
            return answer
        answer_: Estimate = self._questions.unreported_key(self)
        return answer_

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Release):
            return NotImplemented
        return self._terms == other._terms and bool(self._table.equals(other._table))

    __hash__ = None  # type: ignore[assignment] # as for other containers

    def __repr__(self) -> str:
        head, *lines = self._summary()
        return "\n".join([f"Release: {head}", *(f"  {line}" for line in lines), *table_lines(self._table, _WHOLE)])

    def _repr_html_(self) -> str:
        from dpsample.presentation.report import display

        return display(self)

    def _summary(self) -> list[str]:
        n = f"{len(self):,} key{'' if len(self) == 1 else 's'}"
        terms, what = self._terms, "with estimates of their frequencies"
        if self.keys_only:
            what = "keys only"
        elif terms.counts is not None:
            what = "with numbers of users"
        lines = [
            f"{n}, {what}",
            f"privacy   {explain_spent(self.privacy)}, for each {terms.protects}",
            f"sampling  {self.sampling!r}" if terms.discovery is None else f"found by  {terms.discovery}",
        ]
        if terms.known is not None:
            lines.append(f"known     {terms.known}")
        if terms.part is not None:
            lines.append(f"part      {terms.part}")
        if terms.grid is not None:
            lines.append(f"tokens    in steps of 1/{self.grid}")
        if terms.max_keys is not None and not self.keys_only:
            lines.append("numbers   of the keys that users kept: too low where users have more keys")
        if terms.counts is not None:
            lines.append(f"counts    {explain_counts(terms.counts)}")
            lines += [f"sums      {explain_amount(clipped)}" for clipped in terms.counts.amounts]
        if self.total is not None:
            low, high = self.total.interval()
            lines.append(f"total     {self.total.value:,} (95 %: {low:,} to {high:,})")
        return lines


def read_release(path: PathLike, *, format: str | None = None) -> Release:
    """Read a release file, or a folder of parts, and check all of it. A sample, which is not private, is refused."""
    table, metadata = read_table(path, "release", VERSION, format=format)
    terms = Terms.from_json(metadata)
    if table.num_rows != metadata.get("rows"):
        raise InvalidValue(
            "a release has the number of rows that its metadata state",
            "another number",
            "get it again from where it was written",
        )
    if metadata["version"] < 5:
        table = without_weights(table, terms)
    elif sorted(table.column_names) != sorted(terms.columns):
        raise InvalidValue(
            f"a release has the columns {', '.join(map(repr, terms.columns))}",
            ", ".join(map(repr, table.column_names)),
            "get it again from where it was written",
        )
    return Release(table, terms)


def write_release(
    path: PathLike,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    terms: Terms,
    *,
    force: bool = False,
    format: str | None = None,
) -> int:
    """Write a release from a stream of batches in key order, without holding it; return its number of rows.

    Batches have the columns `terms.columns`, or of these the keys and tokens alone; `schema` states their types, even
    if there are no batches.
    """
    given, schema = release_schema(schema, terms)
    terms.to_json(0)  # refuses a scheme that cannot be written before any work is done
    check = partial(checked_rows, terms=terms)
    return write_table(path, batches, schema, terms.to_json, given=given, check=check, force=force, format=format)


def _missing(package: str) -> InvalidValue:
    return InvalidValue(f"this needs {package}", "that it is not installed", f"run: pip install {package}")

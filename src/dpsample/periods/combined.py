"""`combine`: several releases, as of the days of a week, that answer questions together.

A combined object is not written to a file. It holds releases, and each answer follows from them alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa

from dpsample.estimators.estimate import Estimate
from dpsample.exact import check_level
from dpsample.periods import order, sums
from dpsample.periods.checks import check_combination, stated_cost
from dpsample.periods.keys import cells_of, keys_of
from dpsample.periods.totals import KeyTotals
from dpsample.periods.unreported import largest_unreported
from dpsample.presentation.tables import table_lines
from dpsample.answers.arguments import as_probability, check_arguments, check_keys
from dpsample.answers.remainder import needs_total
from dpsample.answers.estimates import Estimates
from dpsample.answers.selection import Attributes, By, Of, Selection, Weight, Where
from dpsample.answers.token_sums import kept_notes
from dpsample.answers.unreported import not_reported
from dpsample.answers.release import Release
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints

_SHOWN = 10  # keys
_WHOLE = dict.fromkeys(("estimate", "low", "high"), "{:,.0f}".format)  # columns of whole numbers


def combine(*releases: Release) -> "Release | Combined":
    """Combine releases of the same keys, as of several days, into one object that answers questions over all of them.

    Releases have tokens, the same key columns, and the same unit of privacy. No release is there twice. If they state
    parts, these do not overlap. One release is returned as it is.

    >>> from dpsample.release.example import release
    >>> from dpsample import Release
    >>> later = Release(release.table.slice(0, 4), release.terms)
    >>> week = combine(release, later)
    >>> week["cat"].low < 2 * 5005 < week["cat"].high
    True
    >>> week["eel"].high - week["eel"].low > release["eel"].high - release["eel"].low + 10  # it may be in both
    True
    >>> combine(release) is release
    True
    """
    check_combination(releases)
    return releases[0] if len(releases) == 1 else Combined(releases)


@dataclass(frozen=True)
class KeyRows:
    """The keys of all releases, as questions select them."""

    table: pa.Table
    keys: tuple[str, ...]
    terms: Terms
    grid: None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Combined:
    """Several releases that answer the questions of one: sums, numbers of keys, means, top k, ranks, quantiles, keys.

    A frequency is the sum of a key's frequencies in all releases. Answers about users count user-releases: a user who
    is in several releases counts in each, and every answer says so.
    """

    def __init__(self, releases: Sequence[Release]) -> None:
        check_combination(releases)
        self.releases = tuple(releases)
        keys, places = keys_of(self.releases)
        self.rows = KeyRows(keys, self.keys, self.releases[0].terms)
        self.cells: Ints = cells_of(self.releases, places)  # [key, release]; 0 is not reported
        self.totals = KeyTotals(self.releases, places, self.cells)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return self.releases[0].keys

    @property
    def unit(self) -> str:
        """The unit of privacy: element or user."""
        return self.releases[0].unit

    @property
    def cost(self) -> list[str]:
        """What the releases cost together, in words."""
        return stated_cost(self.releases)

    @property
    def metadata(self) -> dict[str, Any]:
        """The terms of all releases, their keys, and what they cost together."""
        return {
            "keys": len(self),
            "privacy": self.cost,
            "cautions": list(self.cautions),
            "releases": [release.metadata for release in self.releases],
        }

    @property
    def threshold(self) -> int | None:
        """The largest detection threshold of the releases; None if one has none."""
        thresholds = [release.terms.detection_threshold for release in self.releases]
        return None if None in thresholds else max(each for each in thresholds if each is not None)

    @property
    def stated(self) -> str:
        """How many releases there are, in words."""
        return f"{len(self.releases):,} releases"

    @property
    def cautions(self) -> tuple[str, ...]:
        """What every answer says."""
        if self.unit == "element":
            return ()
        note = "numbers of users add up over releases: a user counts once in each, so these are not distinct users"
        return (note, *kept_notes(self.releases[0]))

    @cached_property
    def table(self) -> pa.Table:
        """The keys that any release reports: key column(s), estimate, low, high (95 %), and how many releases do."""
        return self._listed(np.arange(len(self)))

    def _listed(self, keys: Ints) -> pa.Table:
        value, _, low, high = self.estimates_of(keys, 0.95)
        reports = (self.cells[keys] > 0).sum(1)
        table = self.rows.table.take(pa.array(keys))
        for name, column in (("estimate", value), ("low", low), ("high", high), ("releases", reports)):
            table = table.append_column(name, pa.array(column))
        return table

    def estimates_of(self, keys: Ints, level: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the estimates of keys, by their places: values, deviations, and the ends of intervals."""
        low, high = self.totals.intervals(keys, level)
        return self.totals.values[keys], self.totals.deviations[keys], low, high

    @overload
    def sum(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        estimator: str | None = None,
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
        estimator: str | None = None,
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
        estimator: str | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
        extrapolate: bool = False,
    ) -> Estimate | Estimates:
        """Estimate the sum of the frequencies of the selected keys, over keys and releases: a total, of two lines.

        *In reported keys*: each release counts the keys that it reports; one key has the interval of `combined[key]`.
        *In all keys*: each release counts the keys that have frequency `at_least` or more in it, reported or not.
        `of` is "frequency", or "keys" or "at-least:100" as for `count_keys`. The other arguments are those of
        `Release.sum`.
        """
        check_arguments(level=level, estimator=estimator, at_least=at_least, extrapolate=extrapolate)
        answer: Estimate | Estimates = sums.total(
            self, where, weight, of, by, estimator, level, attributes, at_least, extrapolate
        )
        return answer

    @overload
    def count_keys(
        self, where: Where = None, at_least: int | None = None, *, by: None = None, **options: Any
    ) -> Estimate: ...

    @overload
    def count_keys(
        self, where: Where = None, at_least: int | None = None, *, by: str | Sequence[str], **options: Any
    ) -> Estimates: ...

    def count_keys(
        self, where: Where = None, at_least: int | None = None, *, by: By = None, **options: Any
    ) -> Estimate | Estimates:
        """Estimate the number of selected keys that have frequency `at_least` or more in at least one release.

        A key counts once. The other arguments are those of `Release.count_keys`.
        """
        checked = ("level", "estimator")
        check_arguments(at_least=at_least, **{name: options[name] for name in checked if name in options})
        answer: Estimate | Estimates = sums.total(self, where, of="keys", by=by, at_least=at_least, **options)
        return answer

    @overload
    def mean(
        self,
        where: Where = None,
        weight: Weight = None,
        of: Of = "frequency",
        *,
        by: None = None,
        estimator: str | None = None,
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
        estimator: str | None = None,
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
        estimator: str | None = None,
        level: float = 0.95,
        attributes: Attributes = None,
        at_least: int | None = None,
    ) -> Estimate | Estimates:
        """Estimate the mean of the frequencies over all releases: `sum` over `count_keys`, for one `at_least`."""
        check_arguments(level=level, estimator=estimator, at_least=at_least)
        answer: Estimate | Estimates = sums.mean(self, where, weight, of, by, estimator, level, attributes, at_least)
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
        """Estimate quantiles of the frequencies over all releases, of the keys that `count_keys` counts."""
        check_arguments(level=level, shares=shares, at_least=at_least)
        return order.quantiles(self, shares, where, level, attributes, at_least)

    def top(self, k: int, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimates:
        """List the k keys with the largest estimates, each with the probability that it is one of the top k."""
        check_arguments(level=level, k=k)
        return order.top(self, k, where, level, attributes)

    def each_key(self, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimates:
        """Estimate the frequency of each selected key that some release reports, in their order."""
        check_arguments(level=level)
        return order.each_key(self, where, level, attributes)

    def rank(self, key: Any, where: Where = None, *, level: float = 0.95, attributes: Attributes = None) -> Estimate:
        """Estimate the rank of a key: 1 plus the number of selected keys, reported or not, that are more frequent."""
        check_arguments(level=level)
        return order.rank(self, key, where, level, attributes)

    def compare(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b."""
        check_keys(self.rows, [a, b])
        return as_probability(order.compare(self, a, b))

    def other(self, level: float = 0.95) -> Estimate:
        """Estimate the number of elements that are in releases that do not report their key; all have a total."""
        check_arguments(level=level)
        if any(release.total is None for release in self.releases):
            raise needs_total(None, tokens=True)
        parts = [release.other(level) for release in self.releases]
        value = math.fsum(part.value for part in parts)
        notes = dict.fromkeys((*(note for part in parts for note in part.notes), *self.cautions))
        elements = math.fsum(float(release.total.value) for release in self.releases if release.total is not None)
        return Estimate(
            value,
            math.hypot(*(part.standard_error for part in parts)),
            max(value - math.hypot(*(part.value - part.low for part in parts)), 0.0),
            value + math.hypot(*(part.high - part.value for part in parts)),
            level,
            bias=math.fsum(part.bias for part in parts),
            keys=len(self),
            detection_threshold=self.threshold,
            guaranteed=all(part.guaranteed for part in parts),
            notes=tuple(notes),
            share=value / elements if elements > 0 else None,
        )

    def unreported(self, level: float = 0.95) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        most = float(largest_unreported(self.releases, np.array([1 - check_level(level)]))[0])
        below = int(most) + 1 if math.isfinite(most) else None
        notes = (not_reported(self.releases[0], below), *self.cautions)
        unknown = math.nan, math.nan, 0.0, most, level
        return Estimate(*unknown, detection_threshold=self.threshold, guaranteed=math.isfinite(most), notes=notes)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        """Yield each key that some release reports, a tuple if there are several key columns."""
        columns = [column.to_pylist() for column in self.rows.table.columns]
        return iter(columns[0] if len(columns) == 1 else zip(*columns, strict=True))

    def __contains__(self, key: Any) -> bool:
        """Whether some release reports a key; a tuple if there are several key columns."""
        return len(Selection(self.rows, [key]).weighted_rows()[1][0][0]) > 0

    def __getitem__(self, key: Any) -> Estimate:
        """Estimate the frequency of a key over all releases, which need not be reported."""
        for (_, answer), own in zip(self.each_key([key]), order.selected(self, [key]), strict=True):
            reports = int((self.cells[own] > 0).sum())
            return replace(answer, notes=(f"reported in {reports:,} of {self.stated}", *self.cautions))
        return self.unreported()

    def __repr__(self) -> str:
        parts = [release.terms.part for release in self.releases if release.terms.part is not None]
        lines = [
            f"Combined: {self.stated}, {len(self):,} keys, with estimates of their frequencies over all of them",
            *(f"  privacy   {line}" for line in self.cost),
            *([f"  parts     {', '.join(map(str, parts))}"] if parts else []),
            *(f"  caution   {line}" for line in self.cautions),
        ]
        shown = table_lines(self._listed(np.arange(min(len(self), _SHOWN))), _WHOLE)
        more = [f"... and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([*lines, *shown, *more])

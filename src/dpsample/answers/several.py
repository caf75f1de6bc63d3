"""`combine`: several releases, as of the days of a week, that answer questions together.

A combined object is not written to a file. It holds releases, and each answer follows from them alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.answers.answers import Answers
from dpsample.answers.combinable import check_combination, have_exact_laws, stated_cost
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.several_keys_only import SeveralKeysOnly
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.tables import table_lines
from dpsample.scheme.sampling import Floats, Ints

_SHOWN = 10  # keys
_WHOLE = dict.fromkeys(("estimate", "low", "high"), "{:,.0f}".format)  # columns of whole numbers


def combine(*releases: Release) -> "Release | Combined":
    """Combine releases of the same keys, as of several days, into one object that answers questions over all of them.

    Releases have the same key columns, and count the same: elements, or users with the same bound on their keys. They
    may be of different kinds, but keys only go with keys only. No release is there twice. If they state parts, these
    do not overlap. One release is returned as it is.

    >>> from dpsample.answers.example import release
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


def evidence_of_several(
    releases: Sequence[Release],
) -> SeveralTokens | SeveralMeasured | SeveralKeysOnly:
    """Return what several releases say together: by the exact laws of tokens if all have them, or as measured."""
    if releases[0].keys_only:
        return SeveralKeysOnly(releases)
    return SeveralTokens(releases) if have_exact_laws(releases) else SeveralMeasured(releases)


class Combined(Answers):
    """Several releases that answer the questions of one: sums, numbers of keys, means, top k, ranks, quantiles, keys.

    A frequency is the sum of a key's frequencies in all releases. Answers about users count user-releases: a user who
    is in several releases counts in each, and every answer says so.
    """

    def __init__(self, releases: Sequence[Release]) -> None:
        check_combination(releases)
        self.releases = tuple(releases)

    @cached_property
    def evidence(self) -> SeveralTokens | SeveralMeasured | SeveralKeysOnly:
        return evidence_of_several(self.releases)

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
    def cautions(self) -> tuple[str, ...]:
        """What every answer says."""
        return self.evidence.remarks

    @cached_property
    def table(self) -> pa.Table:
        """The keys that any release reports: key column(s), estimate, low, high (95 %), and how many releases do."""
        return self._listed(np.arange(len(self)))

    def _listed(self, keys: Ints) -> pa.Table:
        """Some keys, by their places, with estimates, and the number of releases that report each."""
        table = self.evidence.rows.keys.take(pa.array(keys))
        columns: dict[str, Floats | Ints] = {}
        if not self.releases[0].keys_only:
            value, _, low, high = self.evidence.estimates_of(keys, 0.95)
            columns = {"estimate": value, "low": low, "high": high}
        columns["releases"] = self.evidence.reports(keys)
        for name, column in columns.items():
            table = table.append_column(name, pa.array(column))
        return table

    def unreported(self, level: float = 0.95) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        return self.evidence.unreported(Question(level=level).level)

    def __getitem__(self, key: Any) -> Estimate:
        """Estimate the frequency of a key over all releases, which need not be reported."""
        estimate = super().__getitem__(key)
        row = self.evidence.row_of(key)
        if row is None:
            return estimate
        reports = int(self.evidence.reports(np.array([row]))[0])
        return replace(
            estimate, notes=(f"reported in {reports:,} of {self.evidence.stated}", *self.cautions)
        )

    @property
    def _estimated(self) -> str:
        """What is stated of each key, in words."""
        if self.releases[0].keys_only:
            return "the number of releases that report each"
        counted = "frequencies" if self.releases[0].terms.counts is None else "numbers of users"
        return f"estimates of their {counted} over all of them"

    def __repr__(self) -> str:
        parts = [release.terms.part for release in self.releases if release.terms.part is not None]
        made_for_tests = any(release.terms.made_for_tests for release in self.releases)
        name = "Combined, made for tests (NOT private)" if made_for_tests else "Combined"
        lines = [
            f"{name}: {self.evidence.stated}, {len(self):,} keys, with {self._estimated}",
            *(f"  privacy   {line}" for line in self.cost),
            *([f"  parts     {', '.join(map(str, parts))}"] if parts else []),
            *(f"  caution   {line}" for line in self.cautions),
        ]
        shown = table_lines(self._listed(np.arange(min(len(self), _SHOWN))), _WHOLE)
        more = [f"... and {len(self) - _SHOWN:,} more"] if len(self) > _SHOWN else []
        return "\n".join([*lines, *shown, *more])

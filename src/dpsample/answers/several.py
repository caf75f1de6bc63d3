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
from dpsample.answers.combinable import (
    are_plain_samples,
    check_combination,
    have_exact_laws,
    stated_cost,
)
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.several_coordinated import SeveralCoordinated
from dpsample.answers.several_evidence import SeveralEvidence
from dpsample.answers.several_held import SeveralHeld, steps_of
from dpsample.answers.several_keys_only import SeveralKeysOnly
from dpsample.answers.several_known import SeveralKnown, keys_of_one_list
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.estimators.estimate import Estimate
from dpsample.files import PathLike
from dpsample.presentation.report import (
    Report,
    SeveralSetting,
    Statement,
    check_report,
    make_report_of_several,
)
from dpsample.presentation.tables import table_lines
from dpsample.scheme.sampling import Ints

_SHOWN_KEYS = 10  # of the table, when a combined object is printed
_WHOLE_NUMBERS = dict.fromkeys(("estimate", "low", "high"), "{:,.0f}".format)


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


def releases_of(asked: "Release | Combined") -> tuple[Release, ...]:
    """Return the releases of a combined object, or the one release."""
    return asked.releases if isinstance(asked, Combined) else (asked,)


def evidence_of_several(releases: Sequence[Release]) -> SeveralEvidence:
    """Return what several releases say together: by the exact laws of tokens if all have them, or as measured."""
    if releases[0].keys_only:
        return SeveralKeysOnly(releases)
    if have_exact_laws(releases):
        return SeveralTokens(releases)
    steps = steps_of(releases)
    if steps is not None:
        return SeveralHeld(releases, steps)
    if are_plain_samples(releases):
        return SeveralCoordinated(releases)
    is_listed = keys_of_one_list(releases)
    if is_listed is not None:
        return SeveralKnown(releases, is_listed)
    return SeveralMeasured(releases)


class Combined(Answers):
    """Several releases that answer the questions of one: sums, numbers of keys, means, top k, ranks, quantiles, keys.

    A frequency is the sum of a key's frequencies in all releases. Answers about users count user-releases: a user who
    is in several releases counts in each, and every answer says so.
    """

    def __init__(self, releases: Sequence[Release]) -> None:
        check_combination(releases)
        self.releases = tuple(releases)

    @cached_property
    def evidence(self) -> SeveralEvidence:
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
        releases = [release.metadata for release in self.releases]
        cautions = list(self.cautions)
        return {"keys": len(self), "privacy": self.cost, "cautions": cautions, "releases": releases}

    @property
    def cautions(self) -> tuple[str, ...]:
        """What every answer says."""
        return self.evidence.remarks

    @cached_property
    def table(self) -> pa.Table:
        """The keys that any release reports: key column(s), estimate, low, high (95 %), and how many releases do."""
        return self._listed(np.arange(len(self)))

    def _listed(self, keys: Ints) -> pa.Table:
        """Some keys, by their rows, with estimates, and the number of releases that report each."""
        reported = self.evidence.rows.keys
        table = reported.take(pa.array(keys))
        if not self.releases[0].keys_only:
            estimates = self.evidence.estimates_of(keys, 0.95)
            table = table.append_column("estimate", pa.array(estimates.value))
            table = table.append_column("low", pa.array(estimates.low))
            table = table.append_column("high", pa.array(estimates.high))
        reports = self.evidence.reports(keys)
        return table.append_column("releases", pa.array(reports))

    def report(
        self,
        path: PathLike | None = None,
        *,
        force: bool = False,
        statement: Statement | None = None,
        files: Sequence[str] = (),
        top: int = 100,
    ) -> Report:
        """Return a page that shows the releases together, each, and what changed; with a `path`, also write it.

        force      replace a file of this name
        statement  what the publisher states: a title, a description, a contact and a date
        files      the names of the releases' files, for the commands that the page shows
        top        the number of keys in the top list

        >>> from dpsample.answers.example import release
        >>> later = Release(release.table.slice(0, 4), release.terms)
        >>> combine(release, later).report()
        Report: a page of ... MB; write(path) puts it into a file
        """
        from dpsample.answers.changes import changes  # which imports this module

        if path is not None:
            check_report(path, force)
        first = self.releases[0]
        changed = None if first.keys_only else changes(first, self.releases[-1])
        setting = SeveralSetting(statement or Statement(), tuple(files), top)
        report = make_report_of_several(self, setting, changed)
        if path is not None:
            report.write(path, force=force)
        return report

    def unreported(self, level: float = 0.95) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        return self.evidence.unreported(Question(level=level).level)

    def __getitem__(self, key: Any) -> Estimate:
        """Estimate the frequency of a key over all releases, which need not be reported."""
        estimate = super().__getitem__(key)
        row = self.evidence.row_of(key)
        if row is None:
            return estimate
        [reports] = self.evidence.reports(np.array([row])).tolist()
        note = f"reported in {reports:,} of {self.evidence.stated}"
        return replace(estimate, notes=(note, *self.cautions))

    @property
    def _estimated(self) -> str:
        """What is stated of each key, in words."""
        if self.releases[0].keys_only:
            return "the number of releases that report each"
        if self.releases[0].terms.counts is None:
            return "estimates of their frequencies over all of them"
        return "estimates of their numbers of users over all of them"

    def __repr__(self) -> str:
        keys = len(self)
        made_for_tests = any(release.terms.made_for_tests for release in self.releases)
        name = "Combined, made for tests (NOT private)" if made_for_tests else "Combined"
        lines = [f"{name}: {self.evidence.stated}, {keys:,} keys, with {self._estimated}"]
        lines += [f"  privacy   {line}" for line in self.cost]
        parts = [str(release.terms.part) for release in self.releases if release.terms.part]
        if parts:
            lines.append(f"  parts     {', '.join(parts)}")
        lines += [f"  caution   {line}" for line in self.cautions]
        shown = min(keys, _SHOWN_KEYS)
        first_keys = self._listed(np.arange(shown))
        lines += table_lines(first_keys, _WHOLE_NUMBERS)
        if keys > shown:
            lines.append(f"... and {keys - shown:,} more")
        return "\n".join(lines)

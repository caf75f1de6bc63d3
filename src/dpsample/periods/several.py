"""The evidence of several releases with tokens: that of each, added up over independent coins."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dpsample.answers.evidence import Evidence, Groups, KeyEstimates, Quantiles
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.remainder import needs_total
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.token_sums import Bound, TokenEvidence
from dpsample.estimators.estimate import Estimate
from dpsample.periods import order, sums
from dpsample.periods.keys import cells_of, keys_of
from dpsample.periods.totals import KeyTotals
from dpsample.periods.unreported import largest_unreported
from dpsample.scheme.sampling import Floats, Ints

_USERS = "numbers of users add up over releases: a user counts once in each, so these are not distinct users"


class SeveralEvidence(Evidence):
    """What several releases with tokens say of their keys. `parts` is the evidence of each."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self.releases = tuple(releases)
        self.parts = [TokenEvidence.of(release.table, release.terms) for release in releases]
        keys, places = keys_of(self.releases)
        self.rows = Rows(keys)
        self.cells: Ints = cells_of(self.releases, places)  # [key, release]; 0 is not reported
        self.totals = KeyTotals(self.releases, places, self.cells)

    @cached_property
    def detection_threshold(self) -> int | None:
        """The largest detection threshold of the releases; None if one has none."""
        thresholds = [part.detection_threshold for part in self.parts]
        return None if None in thresholds else max(each for each in thresholds if each is not None)

    @property
    def stated(self) -> str:
        """How many releases there are, in words."""
        return f"{len(self.releases):,} releases"

    @property
    def remarks(self) -> tuple[str, ...]:
        terms = self.releases[0].terms
        if terms.unit == "element":
            return ()
        return (_USERS,) if terms.max_keys is None else (_USERS, Bound(terms.max_keys, None).note())

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        """Return the estimates of keys, by their places."""
        low, high = self.totals.intervals(keys, level)
        return KeyEstimates(self.totals.values[keys], self.totals.deviations[keys], low, high)

    def reports(self, keys: Ints) -> Ints:
        """Return how many releases report each of some keys."""
        return np.asarray((self.cells[keys] > 0).sum(1))

    def sums(self, question: Question) -> Groups:
        return sums.total(self, question)

    def means(self, question: Question) -> Groups:
        return sums.mean(self, question)

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        return order.quantiles(self, question, shares)

    def keys(self, question: Question) -> "order.SeveralKeys":
        [(keys, _)] = Selection.of(self.rows, question).weighted_rows()[1]
        return order.SeveralKeys(self, keys)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        most = float(largest_unreported(self.releases, np.array([1 - level]))[0])
        below = int(most) + 1 if math.isfinite(most) else None
        return Estimate(
            math.nan,
            math.nan,
            0.0,
            most,
            level,
            detection_threshold=self.detection_threshold,
            guaranteed=below is not None,
            notes=(self.parts[0].silence.note(below), *self.remarks),
        )

    def probability_above(self, a: Any, b: Any) -> float:
        return order.probability_above(self, a, b)

    def remainder(self, level: float) -> Estimate:
        """Estimate the number of elements that are in releases that do not report their key; all have a total."""
        totals = [part.total for part in self.parts]
        if any(total is None for total in totals):
            raise needs_total(None, tokens=True)
        parts = [part.remainder(level) for part in self.parts]
        value = math.fsum(part.value for part in parts)
        notes = dict.fromkeys((*(note for part in parts for note in part.notes), *self.remarks))
        elements = math.fsum(float(total.value) for total in totals if total is not None)
        return Estimate(
            value,
            math.hypot(*(part.standard_error for part in parts)),
            max(value - math.hypot(*(part.value - part.low for part in parts)), 0.0),
            value + math.hypot(*(part.high - part.value for part in parts)),
            level,
            bias=math.fsum(part.bias for part in parts),
            keys=len(self.rows.keys),
            detection_threshold=self.detection_threshold,
            guaranteed=all(part.guaranteed for part in parts),
            notes=tuple(notes),
            share=value / elements if elements > 0 else None,
        )

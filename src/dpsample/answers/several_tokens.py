"""The evidence of several releases with tokens: that of each, added up over independent coins."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsample.answers import several_order as order
from dpsample.answers import several_sums as sums
from dpsample.answers.evidence import Evidence, Groups, KeyEstimates, Quantiles
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several_keys import cells_of, keys_of
from dpsample.answers.several_parts import SeveralParts
from dpsample.answers.several_totals import KeyTotals
from dpsample.answers.token_sums import TokenEvidence
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.sampling import Floats, Ints


class SeveralTokens(Evidence, SeveralParts):
    """What several releases with tokens say of their keys. `parts` is the evidence of each."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self.releases = tuple(releases)
        self.parts = [TokenEvidence.of(release.table, release.terms) for release in releases]
        keys, places = keys_of(self.releases)
        self.rows = Rows(keys)
        self.cells: Ints = cells_of(self.releases, places)  # [key, release]; 0 is not reported
        self.totals = KeyTotals(self.releases, places, self.cells)

    @property
    def detection_threshold(self) -> int | None:
        return self.largest_threshold

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.about_users

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
        return self.unreported_by_all(level)

    def probability_above(self, a: Any, b: Any) -> float:
        return order.probability_above(self, a, b)

    def remainder(self, level: float) -> Estimate:
        return self.added_remainder(level)

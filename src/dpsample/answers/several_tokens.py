"""The evidence of several releases with tokens: that of each, added up over independent coins."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dpsample.answers import several_order as order
from dpsample.answers import several_sums as sums
from dpsample.answers.combinable import share_a_seed
from dpsample.answers.evidence import Groups, KeyEstimates, Quantiles
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several_evidence import SeveralEvidence
from dpsample.answers.several_keys import cells_of, keys_of, reported_frequencies
from dpsample.answers.several_totals import KeyTotals
from dpsample.answers.token_sums import TokenEvidence
from dpsample.scheme.sampling import Floats, Ints


class SeveralTokens(SeveralEvidence):
    """What several releases with tokens say of their keys.

    parts   the evidence of each release, and `schemes` those of their tokens
    cells   the token of each key in each release, in units of 1/grid; 0 is not reported: [key, release]
    totals  the frequency of each key over all releases
    step    the elements that a frequency of 1 stands for: more than 1 for streams (`held.StepView`)
    share_a_seed    whether one public seed chose some of the samples, so that their errors are not independent
    """

    def __init__(
        self,
        releases: Sequence[Release],
        parts: Sequence[TokenEvidence] | None = None,
        located: tuple[pa.Table, Ints] | None = None,
        step: int = 1,
    ) -> None:
        """Take all keys of the releases by their tokens, or other evidence of each release.

        Such evidence is of some keys, which were `located`: the keys, and their rows in each release. Or it is in steps
        of this number of elements.
        """
        self.releases = tuple(releases)
        self.parts = parts or [_of_release(release) for release in releases]
        self.schemes = [part.view.scheme for part in self.parts]
        self.step = step
        self.share_a_seed = share_a_seed(releases)
        keys, self.places = located or keys_of(self.releases)
        self.rows = Rows(keys)
        in_elements = cells_of(self.releases, self.places)
        self.cells: Ints = -(-in_elements // step)
        reported = reported_frequencies(self.releases, self.places)
        self.totals = KeyTotals(self.schemes, reported / step, self.cells)

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        low, high = self.totals.intervals(keys, level)
        values = self.totals.values[keys]
        return KeyEstimates(values, self.totals.deviations[keys], low, high)

    def sums(self, question: Question) -> Groups:
        return sums.total(self, question)

    def means(self, question: Question) -> Groups:
        return sums.mean(self, question)

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        return order.quantiles(self, question, shares)

    def keys(self, question: Question) -> "order.SeveralKeys":
        _, [(keys, _)] = Selection.of(self.rows, question).weighted_rows()
        return order.SeveralKeys(self, keys)

    def probability_above(self, a: Any, b: Any) -> float:
        return order.probability_above(self, a, b)


def _of_release(release: Release) -> TokenEvidence:
    return TokenEvidence.of(release.table, release.terms)

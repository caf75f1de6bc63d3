"""The evidence of several streams: sums, numbers of keys and means in steps, as of one stream (`held`), added up.

The streams have steps of one length. Single keys and their order are those of measured keys (`several_measured`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpsample.answers.evidence import Groups, KeyEstimates, Keys, Quantiles
from dpsample.answers.held import StepEvidence, StepView, evidence_in_steps
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.several_evidence import SeveralEvidence, with_own_estimates
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.answers.tokens import TokenView
from dpsample.estimators.estimate import Estimate
from dpsample.release.kinds import Held
from dpsample.scheme.sampling import Floats, Ints


def steps_of(releases: Sequence[Release]) -> list[StepView] | None:
    """Return the tokens of streams in steps of one length; None if these are no streams, or have different steps."""
    if not all(type(release.terms.kind) is Held for release in releases):
        return None
    if any(release.terms.known is not None for release in releases):
        return None
    views = []
    for release in releases:
        elements = TokenView.of(release.table, release.terms)
        views.append(StepView.in_steps(elements))
    lengths = {view.step for view in views}
    return views if len(lengths) == 1 else None


class SeveralHeld(SeveralEvidence, StepEvidence):
    """What several streams say of their keys."""

    def __init__(self, releases: Sequence[Release], views: Sequence[StepView]) -> None:
        self.releases = tuple(releases)
        self._step = views[0].step
        parts = [evidence_in_steps(view) for view in views]
        self._steps = SeveralTokens(releases, parts, step=self._step)
        self._keys = SeveralMeasured(releases)
        self._elements = self._keys
        self.rows = self._keys.rows
        self.places = self._keys.places

    def sums(self, question: Question) -> Groups:
        """Estimate sums in all keys; where a single key is selected, what is reported is that key's own estimate."""
        found = super().sums(question)
        of_reported = self._keys.sums(replace(question, at_least=None))
        return with_own_estimates(found, of_reported)

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        return self._keys.estimates_of(keys, level)

    def keys(self, question: Question) -> Keys:
        return self._keys.keys(question)

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        return self._keys.quantiles(question, shares)

    def probability_above(self, a: Any, b: Any) -> float:
        return self._keys.probability_above(a, b)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self._keys.unreported(level)

    def remainder(self, level: float) -> Estimate:
        return self._keys.remainder(level)

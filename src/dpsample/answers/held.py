"""The evidence of a stream's release.

What a stream did not count of a key is about 1/s elements, so that nothing is lost if frequencies are looked at in
steps of 1/64 of that: tokens, rounded up to such steps, have laws of the same kind (`scheme.held.HeldLaw`), and the
estimators of tokens answer from these. Frequencies of single keys are those of the release's table.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsample.answers.evidence import Evidence, Groups, KeyEstimates, Keys, Quantiles
from dpsample.answers.question import Question
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.token_order import RARE, TokenKeys
from dpsample.answers.token_sums import TokenEvidence, names_reported_keys
from dpsample.answers.tokens import Ends, TokenView
from dpsample.answers.unreported import Silence
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import blurred_note
from dpsample.privacy import Privacy
from dpsample.release.terms import Terms
from dpsample.scheme.held import HeldLaw
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.scheme import Scheme

SPREAD = "a stream spreads frequencies by what it did not count: these intervals are not guaranteed"


@dataclass(frozen=True, eq=False)
class StepView(TokenView):
    """The tokens of a stream, in steps: their frequencies are numbers of steps."""

    elements: TokenView  # the tokens themselves
    step: int  # elements in a step

    @staticmethod
    def in_steps(elements: TokenView) -> "StepView":
        """Return tokens in the steps that their law allows."""
        sampling, per_key, _ = elements.scheme
        assert isinstance(sampling, SampleAndHold)
        assert isinstance(per_key, Privacy)
        law = HeldLaw.of(sampling, per_key)
        tokens_in_steps = -(-elements.cells // law.every)
        rows = Rows(elements.rows.keys, tokens_in_steps, elements.rows.taken)
        scheme = Scheme(KeepAll(), law, 1)  # type: ignore[arg-type] # it has what estimators ask of a per-key law
        return StepView(rows, scheme, elements, law.every)

    def frequencies(self, rows: Ints, level: float) -> Ends:
        """Return the frequencies of the release's table, and their intervals, in steps that need not be whole."""
        in_elements = self.elements.frequencies(rows, level)
        return [number / self.step for number in in_elements]


class StepEvidence(Evidence):
    """Evidence of frequencies in elements, whose sums and means follow from evidence of frequencies in steps.

    It is that of one stream, or of several streams together (`several_held`).
    """

    _elements: Evidence
    _steps: Evidence
    _step: int  # elements in a step

    @property
    def detection_threshold(self) -> int | None:
        return self._elements.detection_threshold

    def sums(self, question: Question) -> Groups:
        by_token = question.estimator == "mle" or callable(question.estimator)
        if by_token or self._names_reported_keys(question):
            return self._elements.sums(question)
        in_steps = self._steps.sums(self._in_steps(question))
        return self._in_elements(in_steps)

    def means(self, question: Question) -> Groups:
        if self._names_reported_keys(question):
            return self._elements.means(question)
        in_steps = self._steps.means(self._in_steps(question))
        return self._in_elements(in_steps)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self._elements.unreported(level)

    def remainder(self, level: float) -> Estimate:
        return self._elements.remainder(level)

    def _names_reported_keys(self, question: Question) -> bool:
        """Whether a question names keys, each of which was reported: the answer is about these keys alone."""
        selection = Selection.of(self.rows, question)
        return names_reported_keys(question, selection, selection.tallies()[1])

    def _in_steps(self, question: Question) -> Question:
        """The same question about numbers of steps."""
        least = None if question.at_least is None else -(-question.at_least // self._step)
        return replace(question, of=question.measure.at_every(self._step), at_least=least)

    def _in_elements(self, found: Groups) -> Groups:
        """The same estimates with thresholds in elements; values are in elements by their measure."""
        in_elements = [self._estimate_in_elements(estimate) for estimate in found.estimates]
        return found._replace(estimates=in_elements)

    def _estimate_in_elements(self, estimate: Estimate) -> Estimate:
        estimate = replace(estimate, detection_threshold=self.detection_threshold)
        steps = estimate.at_least
        if steps is None:
            return estimate
        least = steps * self._step
        # the note that the least frequency is blurred names it
        notes = []
        for note in estimate.notes:
            notes.append(blurred_note(least) if note == blurred_note(steps) else note)
        return replace(estimate, at_least=least, notes=tuple(notes))


class HeldEvidence(StepEvidence):
    """What a stream's release says of its keys."""

    def __init__(self, elements: TokenEvidence) -> None:
        self.rows = elements.rows
        self._elements = elements
        self._view = StepView.in_steps(elements.view)
        self._steps = evidence_in_steps(self._view)
        self._step = self._view.step

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "HeldEvidence":
        """Return the evidence of a release."""
        return HeldEvidence(TokenEvidence.of(table, terms))

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        """Estimate quantiles of the frequencies; their intervals are not guaranteed.

        What a stream did not count spreads frequencies by about 1/s, and medians of data that are denser than that at
        the least frequency were missed in half of the measured cases.
        """
        found = self._steps.quantiles(self._in_steps(question), shares)
        value, error, low, high = found.estimates
        step = self._step
        first_of_step = np.maximum(low - 1, 0) * step + 1
        estimates = KeyEstimates(value * step, error * step, first_of_step, high * step)
        at_least = None if found.at_least is None else found.at_least * step
        return Quantiles(estimates, found.keys, False, (SPREAD,), at_least)

    def keys(self, question: Question) -> Keys:
        rows, _ = Selection.of(self.rows, question).rows()
        return HeldKeys(self._view, rows)

    def probability_above(self, a: Any, b: Any) -> float:
        return self._steps.probability_above(a, b)


def evidence_in_steps(view: StepView) -> TokenEvidence:
    """Return what the tokens of a stream say, in steps."""
    silence = Silence(view.scheme.sampling, view.scheme.per_key, view.detection_threshold)
    return TokenEvidence(view, silence)


class HeldKeys(TokenKeys):
    """Selected keys of a stream: their order is that of tokens in steps, their estimates are those of tokens."""

    view: StepView

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        in_steps = super().estimates(places, level)
        error = in_steps.standard_error * self.view.step
        elements = self.view.elements
        value, low, high = elements.frequencies(self.rows[places], level)
        return KeyEstimates(value, error, low, high)

    def ordered(self) -> Ints:
        tokens = self.view.elements.cells[self.rows]
        return np.lexsort((self.rows, -tokens))

    def fewest(self, frequency: int, level: float) -> float:
        steps = -(-frequency // self.view.step)
        return super().fewest(steps, level)

    def rank(self, place: int, level: float) -> Estimate:
        """Estimate a key's rank; it is guaranteed if the key is surely above the detection threshold."""
        threshold = self.view.elements.detection_threshold
        found = replace(super().rank(place, level), detection_threshold=threshold)
        [lowest] = self.estimates(np.array([place]), level).low
        is_above_threshold = threshold is not None and lowest >= threshold
        if not found.guaranteed or is_above_threshold:
            return found
        return replace(found, guaranteed=False, notes=(*found.notes, RARE))

"""The evidence of several samples that one public seed chose: their keys are the same, and so are their errors in part.

Sums in all keys are those of the releases, added; their standard errors add up themselves, which is never too little,
however much the errors have in common. All else is about the reported keys, as measured (`several_measured`).
"""

from collections.abc import Sequence
from dataclasses import replace

from dpsample.answers.evidence import Groups
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_sums import in_all_keys
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.measures import FREQUENCY

_IN_COMMON = (
    "samples of one seed have errors in common, and the interval in all keys allows for that"
)


class SeveralCoordinated(SeveralMeasured):
    """What several samples of one seed say of their keys."""

    def __init__(self, releases: Sequence[Release]) -> None:
        super().__init__(releases)
        self._tokens = SeveralTokens(releases)

    def sums(self, question: Question) -> Groups:
        """Estimate sums of frequencies in reported keys and in all keys, and other sums in reported keys."""
        of_frequencies = question.measure == FREQUENCY and question.at_least is None
        if not of_frequencies or question.extrapolate or self._names_reported_keys(question):
            return super().sums(question)
        in_reported = super().sums(question).estimates
        found = in_all_keys(self._tokens, question)
        answers = [
            _with_reported(one, own) for one, own in zip(found.estimates, in_reported, strict=True)
        ]
        return found._replace(estimates=answers, remarks=(*found.remarks, _IN_COMMON))


def _with_reported(in_all: Estimate, in_reported: Estimate) -> Estimate:
    """The estimate in all keys, with what the reported keys have together."""
    assert in_reported.reported is not None
    return replace(in_all, reported=replace(in_reported.reported, others=""))

"""The evidence of a release of keys only: which keys there are, and nothing of their frequencies."""

import math
from typing import Any, NoReturn

import pyarrow as pa

from dpsample.accounting.totals import Total
from dpsample.answers.evidence import Evidence, Groups, answered
from dpsample.answers.question import Question
from dpsample.answers.remainder import needs_total
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.reported import Reported
from dpsample.exact import MAX_FREQUENCY
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints

_NOTE = "this counts the reported keys; how many others there are is unknown"


class KeysOnlyEvidence(Evidence):
    """The evidence of a release that has keys and no numbers."""

    def __init__(self, rows: Rows, silence: Silence, total: Total | None) -> None:
        self.rows = rows
        self.silence = silence
        self.total = total

    @staticmethod
    def of(table: pa.Table, terms: Terms) -> "KeysOnlyEvidence":
        """Return the evidence of a release."""
        return KeysOnlyEvidence(Rows.of(table, terms), Silence.of(terms), terms.bought.total)

    @property
    def detection_threshold(self) -> int | None:
        return self.silence.detection_threshold

    def sums(self, question: Question) -> Groups:
        at_both_ends = question.measure([1, MAX_FREQUENCY])
        counts_each_key = bool((at_both_ends == 1).all())
        if question.at_least is not None or not counts_each_key:
            self._refuse("a number that depends on frequencies")
        level = question.level
        threshold = self.detection_threshold

        def of_group(rows: Ints, weights: Floats) -> Estimate:
            weight = float(weights.sum())
            return reported_keys(len(rows), weight, level, threshold, "a release of keys only: ")

        return answered(Selection.of(self.rows, question), of_group)

    def means(self, question: Question) -> NoReturn:
        self._refuse("a mean over keys")

    def quantiles(self, question: Question, shares: Floats) -> NoReturn:
        self._refuse("a quantile of frequencies")

    def keys(self, question: Question) -> NoReturn:
        self._refuse("an order of keys")

    def probability_above(self, a: Any, b: Any) -> NoReturn:
        self._refuse("an order of keys")

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self.silence.unreported(level)

    def remainder(self, level: float) -> NoReturn:
        raise needs_total(self.total)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidValue(
            f"{what} needs tokens, and this release has keys only",
            "ask count_keys, or release with tokens",
        )


def reported_keys(
    keys: int, weight: float, level: float, threshold: int | None, about: str = ""
) -> Estimate:
    """Return the number of reported keys, or the sum of their weights: a lower bound, if each has weight 1.

    `threshold` is the detection threshold, and `about` begins the note.
    """
    reported = Reported(weight, 0.0, weight, weight)
    return Estimate(
        weight,
        math.nan,
        low=weight if keys == weight else -math.inf,
        high=math.inf,
        level=level,
        bias=math.nan,
        keys=keys,
        detection_threshold=threshold,
        guaranteed=False,
        notes=(about + _NOTE,),
        reported=reported,
    )

"""Several releases of keys only: which keys there are, and how many of the releases report each."""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Keys
from dpsample.answers.keys_only import KeysOnlyEvidence
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several_evidence import SeveralEvidence
from dpsample.answers.several_keys import keys_of
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.sampling import Floats, Ints


class SeveralKeysOnly(SeveralEvidence, KeysOnlyEvidence):  # type: ignore[misc] # a remainder is refused when it is asked
    """What several releases of keys only say: the keys that any of them reports, and how many report each."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self.releases = tuple(releases)
        keys, self.places = keys_of(self.releases)
        KeysOnlyEvidence.__init__(self, Rows(keys), self.silences[0], total=None)

    def keys(self, question: Question) -> Keys:  # type: ignore[override] # a single release has no number of its keys
        _, [(rows, _)] = Selection.of(self.rows, question).weighted_rows()
        return TimesReported(self, rows)

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        """Return the number of releases that report each key. A release may have missed a key that it has."""
        times = self.reports(keys).astype(np.float64)
        no_error = np.zeros(len(keys))
        all_releases = no_error + len(self.releases)
        return KeyEstimates(times, no_error, times, all_releases)

    def refuse_order(self) -> NoReturn:
        """Refuse what depends on frequencies."""
        self._refuse("an order of keys")


class TimesReported(Keys):
    """Selected keys, each with the number of releases that report it."""

    def __init__(self, evidence: SeveralKeysOnly, rows: Ints) -> None:
        self._evidence, self.rows = evidence, rows
        self.called = f"keys: the number of {evidence.stated} that report each"

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        return self._evidence.estimates_of(self.rows[places], level)

    def ordered(self) -> Ints:
        return self._evidence.refuse_order()

    def competing(self, listed: Ints, level: float) -> int:
        return self._evidence.refuse_order()

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        return self._evidence.refuse_order()

    def rank(self, place: int, level: float) -> Estimate:
        return self._evidence.refuse_order()

    def fewest(self, frequency: int, level: float) -> float:
        return self._evidence.refuse_order()

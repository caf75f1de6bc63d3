"""Several releases of keys only: which keys there are, and how many of the releases report each."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Keys
from dpsample.answers.keys_only import KeysOnlyEvidence
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_parts import SeveralParts
from dpsample.answers.unreported import Silence
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.sampling import Floats, Ints


class SeveralKeysOnly(KeysOnlyEvidence, SeveralParts):
    """What several releases of keys only say: the keys that any of them reports."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self.releases = tuple(releases)
        keys, places = keys_of(self.releases)
        self.times = (places >= 0).sum(1)
        super().__init__(Rows(keys), Silence.of(releases[0].terms), None)

    @property
    def detection_threshold(self) -> int | None:
        return self.largest_threshold

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.about_users

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self.unreported_by_all(level)

    def remainder(self, level: float) -> Estimate:  # type: ignore[override] # it is refused
        return self.added_remainder(level)

    def keys(self, question: Question) -> Keys:  # type: ignore[override] # a single release has no number of its keys
        [(rows, _)] = Selection.of(self.rows, question).weighted_rows()[1]
        return TimesReported(self, rows)

    def reports(self, keys: Ints) -> Ints:
        """Return how many releases report each of some keys."""
        return np.asarray(self.times[keys])

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        """Return the number of releases that report each key. A release may have missed a key that it has."""
        times = self.times[keys].astype(np.float64)
        none = np.zeros(len(keys))
        return KeyEstimates(times, none, times, none + len(self.releases))

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

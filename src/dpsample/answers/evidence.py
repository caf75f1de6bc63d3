"""Evidence: the statements of a release that its answers follow from, whatever its kind.

A kind of release has one class of `Evidence`. It states the sums over the reported keys, what is known of each key, and
what it means that a key was not reported. `answers` makes all answers of these parts, so that a question exists once.

**Several releases add up to evidence again.** Their coins are independent. So the estimates of a key, or of the keys
that a question selects, add up over releases, and so do the variances of their errors; where tokens have exact laws,
these are convolved. What silence says adds up, too: a key that no release reports is missed by all of them, with the
product of their probabilities. An `Evidence` of several releases is made of one `Evidence` for each of them in this
way, and answers the same questions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpsample.answers.estimates import Estimates
from dpsample.answers.question import Question
from dpsample.answers.selection import Rows, Selection
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Below, Estimate
from dpsample.scheme.sampling import Floats, Ints


class Groups(NamedTuple):
    """The estimates of the groups of a question: one, without `by`."""

    groups: pa.Table  # a row for each, of the values that make the group
    estimates: list[Estimate]
    remarks: tuple[str, ...] = ()  # notes on all of them


class KeyEstimates(NamedTuple):
    """The estimates of single keys, with the errors and the intervals of each."""

    value: Floats
    standard_error: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of the selected keys, with their errors and intervals."""

    estimates: KeyEstimates
    keys: int  # reported and selected
    guaranteed: bool
    notes: tuple[str, ...]
    at_least: int | None = None


class Keys(ABC):
    """The reported keys that a question selects, and what is known of each and of their order.

    Methods take and return *places* among these keys.
    """

    rows: Ints  # the place of each among the reported keys
    called = "reported keys"  # the name of these keys in notes
    others = (
        "; keys that were not reported are not compared"  # the note of a top list on other keys
    )
    # whether the intervals of a top list have the higher level at which they hold on average
    widens_top = False

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        """Return the estimates of some keys, each by itself."""

    @abstractmethod
    def ordered(self) -> Ints:
        """Return the places of all keys, the largest estimate first."""

    @abstractmethod
    def competing(self, listed: Ints, level: float) -> int:
        """Return how many keys have an interval that reaches the lowest one of the listed keys."""

    @abstractmethod
    def in_the_top(self, k: int, listed: Ints) -> Floats:
        """Return the probability of each listed key that fewer than k selected keys are more frequent."""

    @abstractmethod
    def rank(self, place: int, level: float) -> Estimate:
        """Estimate one more than the number of selected keys that are more frequent than this one."""

    @abstractmethod
    def fewest(self, frequency: int, level: float) -> float:
        """Return a lower bound of the number of selected keys of this frequency or more."""

    def rivals(self, listed: Ints, level: float) -> int:
        """Return how many keys compete for a list: those whose interval reaches into it.

        The more keys compete, the higher is the level, and the longer intervals are: so they are counted until no more
        do.
        """
        rivals = len(listed)
        while True:
            competing = self.competing(listed, level_among(level, len(listed), rivals))
            if competing <= rivals:
                return rivals
            rivals = competing


def level_among(level: float, listed: int, rivals: int) -> float:
    """Return the level at which intervals of listed keys hold on average, though the list chose them among rivals.

    It is that of Benjamini and Yekutieli (2005), whatever the selection.

    >>> round(level_among(0.95, listed=10, rivals=50), 6)
    0.99
    """
    return 1 - (1 - level) * listed / rivals


class Evidence(ABC):
    """The statements of a release, or of several together, about their keys."""

    rows: Rows  # the reported keys

    @property
    @abstractmethod
    def detection_threshold(self) -> int | None:
        """Keys of a lower frequency are reported with a probability below 1/2; None if all are, 0 if all are known."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes of every answer."""
        return ()

    @abstractmethod
    def sums(self, question: Question) -> Groups:
        """Estimate the sum of weights times a function of the frequency, over the selected keys."""

    @abstractmethod
    def means(self, question: Question) -> Groups:
        """Estimate the mean of a function of the frequency over the selected keys."""

    def ratios(self, question: Question, per: str) -> Groups:
        """Estimate the sum of one amount over that of another."""
        raise InvalidValue(
            "only a release of counted users has sums to divide",
            "release with `user=...`, `rows=...` and `sums=...`, without `max_keys_per_user`",
        )

    @abstractmethod
    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        """Estimate quantiles of the frequencies of the selected keys."""

    @abstractmethod
    def keys(self, question: Question) -> Keys:
        """Return the selected keys that were reported, and what is known of each."""

    @abstractmethod
    def unreported(self, level: float, key: Any = None) -> Estimate:
        """Bound the frequency of a key that was not reported: of this one, or of any."""

    @abstractmethod
    def probability_above(self, a: Any, b: Any) -> float:
        """Return the probability that key a is more frequent than key b; either may be unreported."""

    @abstractmethod
    def remainder(self, level: float) -> Estimate:
        """Estimate the number of elements whose keys were not reported."""

    def row_of(self, key: Any) -> int | None:
        """Return the row of a key among the reported ones; None if it was not reported."""
        _, [(rows, _)] = Selection(self.rows, [key]).weighted_rows()
        return int(rows[0]) if len(rows) else None

    def place_of(self, key: Any, keys: Keys) -> int | None:
        """Return the place of a key among selected ones; None if it was not reported."""
        row = self.row_of(key)
        if row is None:
            return None
        places = np.flatnonzero(keys.rows == row)
        if not len(places):
            raise InvalidValue("the key is not among the selected ones", "change where")
        return int(places[0])


def rank_of_unreported(unreported: Estimate, keys: Keys) -> Estimate:
    """Return the rank of a key that was not reported, given the bounds of its frequency.

    It comes after the keys that are more frequent than it may be.
    """
    before = 0.0
    if math.isfinite(unreported.high):
        more_frequent = int(unreported.high) + 1
        before = keys.fewest(more_frequent, unreported.level)
    return replace(unreported, low=1.0 + before, high=math.inf, keys=len(keys))


def answered(selection: Selection, of_group: Callable[[Ints, Floats], Estimate]) -> Groups:
    """Return the answer of a function for each group, given the rows of its keys and their weights."""
    groups, selected = selection.weighted_rows()
    return Groups(groups, [of_group(rows, weights) for rows, weights in selected])


def together(found: Groups, threshold: int | None, level: float) -> Estimates:
    """Return the estimates of groups as one answer."""
    estimates = found.estimates
    columns = _reported_columns(estimates)
    for name in ("value", "standard_error", "low", "high"):
        numbers = [getattr(estimate, name) for estimate in estimates]
        columns[name] = pa.array(numbers, pa.float64())
    keys = [estimate.keys for estimate in estimates]
    columns["keys"] = pa.array(keys, pa.int64())
    below = [estimate.below or Below(value=0.0) for estimate in estimates]
    if any(part.kind == "extrapolated" for part in below):
        columns["below"] = pa.array([part.value for part in below], pa.float64())
    guaranteed = [estimate.guaranteed for estimate in estimates]
    columns["guaranteed"] = pa.array(guaranteed, pa.bool_())

    notes = dict.fromkeys(note for estimate in estimates for note in estimate.notes)
    least = estimates[0].at_least if estimates else None
    others = {one.reported.others for one in estimates if one.reported is not None}
    return Estimates(
        found.groups,
        pa.table(columns),
        level,
        threshold,
        (*notes, *found.remarks),
        at_least=least,
        others=others.pop() if len(others) == 1 else "",
    )


def _reported_columns(estimates: Sequence[Estimate]) -> dict[str, pa.Array]:
    """Return the columns of the sums over reported keys, if the estimates are totals."""
    parts = [estimate.reported for estimate in estimates if estimate.reported is not None]
    if not parts or len(parts) < len(estimates):
        return {}
    values = [part.value for part in parts]
    lows = [part.low for part in parts]
    highs = [part.high for part in parts]
    return {
        "reported": pa.array(values, pa.float64()),
        "reported_low": pa.array(lows, pa.float64()),
        "reported_high": pa.array(highs, pa.float64()),
    }

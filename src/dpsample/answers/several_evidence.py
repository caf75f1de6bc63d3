"""What the evidence of several releases has in common, whatever their kinds: thresholds, silence, remainders, words."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dpsample.answers.evidence import Evidence, Groups, KeyEstimates
from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.release import Release
from dpsample.answers.remainder import needs_total
from dpsample.answers.several_unreported import largest_unreported
from dpsample.answers.token_sums import Bound
from dpsample.answers.unreported import Silence
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.sampling import Ints

USER_DAYS = "numbers of users add up over releases: a user counts once in each, so these are not distinct users"
_LEAST_DEVIATION = 1e-9  # keeps normal laws defined if it is certain that a key does not occur


class SeveralEvidence(Evidence):
    """What several releases of one unit say together.

    `places` has the row of each key in each release, or -1 if the release does not report it: [key, release].
    """

    releases: Sequence[Release]
    places: Ints

    @abstractmethod
    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        """Return the estimates of some keys, which are named by their rows in `rows`."""

    def reports(self, keys: Ints) -> Ints:
        """Return how many releases report each of some keys."""
        is_reported = self.places[keys] >= 0
        return np.asarray(is_reported.sum(1))

    @property
    def stated(self) -> str:
        """How many releases there are, in words."""
        return f"{len(self.releases):,} releases"

    @property
    def remarks(self) -> tuple[str, ...]:
        terms = self.releases[0].terms
        if terms.unit == "element":
            return ()
        if terms.max_keys is None:
            return (USER_DAYS,)
        return (USER_DAYS, Bound(terms.max_keys, None).note())

    @cached_property
    def silences(self) -> list[Silence]:
        """What it says of a key that each of the releases does not report it."""
        return [Silence.of(release.terms) for release in self.releases]

    @cached_property
    def detection_threshold(self) -> int | None:
        """The largest detection threshold of the releases; None if one of them has none."""
        largest = 0
        for release in self.releases:
            threshold = release.terms.detection_threshold
            if threshold is None:
                return None
            largest = max(largest, threshold)
        return largest

    def unreported(self, level: float, key: Any = None) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        if any(silence.only_listed for silence in self.silences):
            most = math.inf
        else:
            missed = np.array([1 - level])
            [most] = largest_unreported(self.releases, missed).tolist()
        probably_below = int(most) + 1 if math.isfinite(most) else None
        restricted = [one for one in self.silences if one.discovered or one.only_listed]
        [silence, *_] = restricted or self.silences
        note = silence.note(probably_below)
        found = Estimate(math.nan, math.nan, 0.0, most, level, notes=(note, *self.remarks))
        guaranteed = probably_below is not None and not restricted
        return replace(found, detection_threshold=self.detection_threshold, guaranteed=guaranteed)

    def law_of_missed(self) -> NormalLaw:
        """Return the law of the frequency of a key that no release reports: means and variances add up."""
        mean = 0.0
        variance = 0.0
        for silence in self.silences:
            frequencies, p = silence.law()
            own_mean = float(p @ frequencies)
            mean += own_mean
            variance += float(p @ (frequencies - own_mean) ** 2)
        return NormalLaw(mean, max(math.sqrt(variance), _LEAST_DEVIATION))

    def remainder(self, level: float) -> Estimate:
        """Estimate the number of elements that are in releases that do not report their key; all have a total.

        The remainders of the releases are independent: the distances of ends from values add up by their squares.
        """
        totals = [release.total for release in self.releases if release.total is not None]
        if len(totals) < len(self.releases):
            raise needs_total(None, tokens=True)
        parts = [release.other(level) for release in self.releases]
        value = math.fsum(part.value for part in parts)
        errors = [part.standard_error for part in parts]
        below = [part.value - part.low for part in parts]
        above = [part.high - part.value for part in parts]
        low = max(value - math.hypot(*below), 0.0)
        high = value + math.hypot(*above)
        elements = math.fsum(float(total.value) for total in totals)
        notes: list[str] = []
        for part in parts:
            notes.extend(part.notes)
        notes.extend(self.remarks)
        added = Estimate(value, math.hypot(*errors), low, high, level)
        return replace(
            added,
            bias=math.fsum(part.bias for part in parts),
            keys=len(self.rows.keys),
            detection_threshold=self.detection_threshold,
            guaranteed=all(part.guaranteed for part in parts),
            notes=tuple(dict.fromkeys(notes)),
            share=value / elements if elements > 0 else None,
        )


def with_own_estimates(found: Groups, of_measured: Groups) -> Groups:
    """Return the same estimates; where one key alone is reported, it has the estimate and the interval of that key.

    `of_measured` are answers to the same question by measured keys. Their groups may stand in another order.
    """
    own_estimates = dict(zip(_names_of(of_measured), of_measured.estimates, strict=True))
    estimates = []
    for name, estimate in zip(_names_of(found), found.estimates, strict=True):
        own = own_estimates.get(name)
        if estimate.keys == 1 and own is not None:
            estimate = replace(estimate, reported=own.reported)
        estimates.append(estimate)
    return found._replace(estimates=estimates)


def _names_of(answers: Groups) -> list[tuple[Any, ...]]:
    """Return the values that make each group; without groups, one name for all keys."""
    if not answers.groups.num_columns:
        return [()]
    return [tuple(row.values()) for row in answers.groups.to_pylist()]

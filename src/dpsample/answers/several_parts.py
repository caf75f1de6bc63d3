"""What the evidence of several releases has in common, whatever their kinds: thresholds, silence, remainders, words."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.release import Release
from dpsample.answers.remainder import needs_total
from dpsample.answers.selection import Rows
from dpsample.answers.several_unreported import largest_unreported
from dpsample.answers.token_sums import Bound
from dpsample.answers.unreported import Silence
from dpsample.estimators.estimate import Estimate

USER_DAYS = "numbers of users add up over releases: a user counts once in each, so these are not distinct users"


class SeveralParts:
    """Several releases of one unit."""

    releases: Sequence[Release]
    rows: Rows  # the keys that any of them reports

    @property
    def stated(self) -> str:
        """How many releases there are, in words."""
        return f"{len(self.releases):,} releases"

    @cached_property
    def silences(self) -> list[Silence]:
        """What it says of a key that each of the releases does not report it."""
        return [Silence.of(release.terms) for release in self.releases]

    @cached_property
    def largest_threshold(self) -> int | None:
        """The largest detection threshold of the releases; None if one has none."""
        thresholds = [release.terms.detection_threshold for release in self.releases]
        return None if None in thresholds else max(each for each in thresholds if each is not None)

    @property
    def about_users(self) -> tuple[str, ...]:
        """What every answer about users says."""
        terms = self.releases[0].terms
        if terms.unit == "element":
            return ()
        return (
            (USER_DAYS,)
            if terms.max_keys is None
            else (USER_DAYS, Bound(terms.max_keys, None).note())
        )

    def unreported_by_all(self, level: float) -> Estimate:
        """Bound the frequency over all releases of a key that none of them reports."""
        closed = any(silence.only_listed for silence in self.silences)
        most = (
            math.inf
            if closed
            else float(largest_unreported(self.releases, np.array([1 - level]))[0])
        )
        below = int(most) + 1 if math.isfinite(most) else None
        discovered = [
            silence for silence in self.silences if silence.discovered or silence.only_listed
        ]
        stated = (discovered or self.silences)[0]
        return Estimate(
            math.nan,
            math.nan,
            0.0,
            most,
            level,
            detection_threshold=self.largest_threshold,
            guaranteed=below is not None and not discovered,
            notes=(stated.note(below), *self.about_users),
        )

    def law_of_missed(self) -> NormalLaw:
        """Return the mean and the deviation of the frequency of a key that no release reports."""
        mean = variance = 0.0
        for silence in self.silences:
            frequencies, p = silence.law()
            here = float(p @ frequencies)
            mean += here
            variance += float(p @ (frequencies - here) ** 2)
        return NormalLaw(mean, max(math.sqrt(variance), 1e-9))

    def added_remainder(self, level: float) -> Estimate:
        """Estimate the number of elements that are in releases that do not report their key; all have a total."""
        totals = [release.total for release in self.releases if release.total is not None]
        if len(totals) < len(self.releases):
            raise needs_total(None, tokens=True)
        parts = [release.other(level) for release in self.releases]
        value = math.fsum(part.value for part in parts)
        down = math.hypot(*(part.value - part.low for part in parts))
        up = math.hypot(*(part.high - part.value for part in parts))
        notes = [note for part in parts for note in part.notes]
        elements = math.fsum(float(total.value) for total in totals)
        return Estimate(
            value,
            math.hypot(*(part.standard_error for part in parts)),
            max(value - down, 0.0),
            value + up,
            level,
            bias=math.fsum(part.bias for part in parts),
            keys=len(self.rows.keys),
            detection_threshold=self.largest_threshold,
            guaranteed=all(part.guaranteed for part in parts),
            notes=tuple(dict.fromkeys((*notes, *self.about_users))),
            share=value / elements if elements > 0 else None,
        )

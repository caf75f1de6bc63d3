"""Several releases whose numbers add up as measured ones: counted users, known keys, streams, or kinds that are mixed.

The coins of releases are independent. So what was measured of a key adds up over the releases that report it, and so
do the variances of the errors. What keys of a group have in common is mostly what clipping took from them: it may be
alike from day to day, so that these parts of the errors add up themselves, not their variances. A token
counts as a measurement, too: of the mean of its confidence distribution (`several_totals`), with its deviation.

What a key has in releases that do not report it is in no estimate. The upper ends of its intervals allow for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsample.accounting.amounts import Amount
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.totals import Total
from dpsample.answers.amounts import Sum, Summed, amount_of
from dpsample.answers.counted import CountedEvidence, MeasuredEvidence
from dpsample.answers.counted_keys import CountedKeys, Shared
from dpsample.answers.evidence import KeyEstimates
from dpsample.answers.held import StepView
from dpsample.answers.known import ALL_KNOWN, KnownEvidence
from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.release import Release
from dpsample.answers.selection import Rows
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_parts import SeveralParts
from dpsample.answers.several_totals import Law, most_unreported
from dpsample.answers.several_unreported import Drawn
from dpsample.answers.tokens import TokenView, key_batch
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.release.key_hash import first_frequencies
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.scheme import Scheme

_OTHERS = "unknown: what other keys have, and what keys have in releases that do not report them, is not estimated"


class Measured(Protocol):
    """A release whose keys were measured."""

    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        """Return what was measured of some of its keys."""


@dataclass(frozen=True, eq=False)
class MeasuredTokens:
    """The keys of a release with tokens, each with an estimate, its error, and the least frequency it can have."""

    values: Floats
    errors: Floats
    least: Ints

    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        """Return what was measured of some keys."""
        return CountedKeys(
            rows, weights, self.values[rows], self.errors[rows], (), self.least[rows]
        )

    @staticmethod
    def of(release: Release) -> "MeasuredTokens":
        """Return the keys of a release: of a stream in steps, of known keys by their own noise."""
        view = TokenView.of(release.table, release.terms)
        least = np.ones(len(view.cells), np.int64)
        if isinstance(release.sampling, SampleAndHold):
            steps = StepView.in_steps(view)
            values, errors = centres(steps.cells, steps.scheme)
            # a number of steps is that of the step in the middle of which the frequency is expected
            return MeasuredTokens((values - 0.5) * steps.step + 0.5, errors * steps.step, least)
        raised = view.cells + view.added * view.scheme.grid
        values, errors = centres(raised, view.sanitized_as)
        values = values - view.added
        if release.terms.known is not None:
            known = KnownEvidence.of(release.table, release.terms).known
            values[known.places] = (
                known.view.cells / view.scheme.grid - known.added + known.noise.mean
            )
            errors[known.places] = math.sqrt(known.noise.variance)
            least[known.places] = 0
        return MeasuredTokens(values, errors, least)


def centres(cells: Ints, scheme: Scheme) -> tuple[Floats, Floats]:
    """Return the mean and the deviation of the confidence distribution of the frequency of each token."""
    lower, upper = (
        Law(scheme, cells, 1, upper=False, grid=1),
        Law(scheme, cells, 1, upper=True, grid=1),
    )
    values = (
        lower.means + upper.means - 1
    ) / 2  # an upper end is one less than the frequency that is rejected
    return values, np.sqrt((lower.variances + upper.variances) / 2)


@dataclass(frozen=True, eq=False)
class MissedKeys:
    """Which of some keys are not in which releases: [key, release], and what these allow.

    `before` are the elements that a key may have before a public hash lets it into the sample of a release.
    """

    releases: Sequence[Drawn]
    missed: NDArray[np.bool_]
    unbounded: NDArray[
        np.bool_
    ]  # of releases with a list of keys and no others: nothing is known of a missed key
    before: Floats

    def most(self, probability: float) -> Floats:
        """Return what each key has at most in releases that miss it, but for this probability."""
        return self.bounds(np.array([probability]))[:, 0]

    def bounds(self, probabilities: Floats) -> Floats:
        """Return the same for several probabilities: [key, probability]."""
        elements = most_unreported(self.releases, self.missed, probabilities)
        before = (self.missed * self.before).sum(1)
        unknown = np.asarray((self.missed & self.unbounded).any(1))
        return np.where(unknown[:, None], math.inf, elements + before[:, None])


class SeveralMeasured(MeasuredEvidence, SeveralParts):
    """What several releases say of their keys, as measured."""

    def __init__(
        self, releases: Sequence[Release], located: tuple[pa.Table, Ints] | None = None
    ) -> None:
        """Take the keys of all releases, or those that were `located`: with the place of each in each release."""
        self.releases = tuple(releases)
        keys, self.places = located or keys_of(self.releases)  # [key, release]; -1 is not reported
        self.rows = Rows(keys)
        self.counted = f"{releases[0].unit}s"
        self.kind = "counted users" if releases[0].terms.counts is not None else "several releases"
        self.parts: list[Measured] = [_part(release) for release in releases]
        self.in_others = ALL_KNOWN if self._lists_all else _OTHERS

    @property
    def _lists_all(self) -> bool:
        """Whether all releases have the same list of known keys, and no others."""
        only = all(
            release.terms.known is not None and release.terms.known.only
            for release in self.releases
        )
        return only and bool((self.places >= 0).all())

    @property
    def amounts(self) -> tuple[Clipped, ...]:  # type: ignore[override] # a field of others
        """The amounts that all releases have, clipped alike."""
        counts = self.releases[0].terms.counts
        if counts is None:
            return ()
        in_all = set[Amount].intersection(
            *(set(release.terms.amounts) for release in self.releases)
        )
        return tuple(record for record in counts.amounts if record.amount in in_all)

    @property
    def counts_all(self) -> bool:
        return all(release.terms.known is None for release in self.releases)

    @property
    def totals(self) -> tuple[Total | None, ...]:
        return tuple(release.total for release in self.releases)

    @property
    def silence(self) -> Silence:
        return self.silences[0]

    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        return self.at(self.places[rows], rows, weights)

    def at(self, places: Ints, rows: Ints, weights: Floats) -> CountedKeys:
        """Return what was measured of keys at some places in each release: [key, release]."""
        values, variances, in_common = np.zeros((3, len(places)))
        least = np.zeros(len(places), np.int64)
        shared: list[Shared] = []
        for part, place in zip(self.parts, places.T, strict=True):
            here = np.flatnonzero(place >= 0)
            own = part.measured(place[here], weights[here])
            values[here] += own.values
            least[here] += own.least
            variance = own.errors**2
            for one in own.shared:
                variance = np.maximum(variance - one.errors**2, 0.0)
                in_common[here] += one.errors
                shared.append(_spread(one, here, len(places)))
            variances[here] += variance
        return CountedKeys(
            rows,
            weights,
            values,
            np.sqrt(variances + in_common**2),
            tuple(shared),
            least,
            self.detection_threshold,
            self._gaps(places, rows),
            f"keys that one of {self.stated} reports",
            self.remarks,
        )

    def _gaps(self, places: Ints, rows: Ints) -> MissedKeys | None:
        """What releases that do not report keys allow; None if all releases report all of these keys."""
        missed = places < 0
        if not missed.any():
            return None
        unbounded = np.array([silence.only_listed for silence in self.silences])
        return MissedKeys(
            self._drawn,
            missed,
            unbounded,
            self._before[rows] if len(rows) else np.zeros(missed.shape),
        )

    @cached_property
    def _drawn(self) -> list[Drawn]:
        """The laws by which releases miss keys; of a coordinated sample, from the first frequency of each key on."""
        schemes = [
            Scheme(release.sampling, release.per_key, release.grid or 1)
            for release in self.releases
        ]
        return [
            one._replace(sampling=KeepAll()) if one.sampling.seed is not None else one
            for one in schemes
        ]

    @cached_property
    def _before(self) -> Floats:
        """The elements that each key may have in each release before the public hash lets it into the sample."""
        before = np.zeros(self.places.shape)
        for n, release in enumerate(self.releases):
            if release.sampling.seed is not None:
                before[:, n] = first_frequencies(key_batch(self.rows.keys), release.sampling) - 1
        return before

    def sum_of(self, amount: Summed | None, keys: CountedKeys) -> Sum:
        """Return the sum of an amount over some keys, in the releases that report them."""
        sums = []
        for part, place in zip(self.parts, self.places[keys.rows].T, strict=True):
            here = np.flatnonzero(place >= 0)
            if len(here) and isinstance(part, CountedEvidence):
                own = part.measured(place[here], keys.weights[here])
                sums.append(part.sum_of(amount and amount_of(part.amounts, amount.name), own))
        return Sum.added(sums) if sums else Sum(0.0, 0.0)

    def unreported(self, level: float, key: Any = None) -> Estimate:
        return self.unreported_by_all(level)

    def law_of_unreported(self, key: Any) -> NormalLaw:
        """Return the law of a key that no release reports: means and variances add up."""
        if any(silence.only_listed for silence in self.silences):
            raise InvalidValue("a key is not in the list of known keys", "compare keys of the list")
        return self.law_of_missed()

    def remainder(self, level: float) -> Estimate:
        return self.added_remainder(level)

    @property
    def detection_threshold(self) -> int | None:
        return self.largest_threshold

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.about_users

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        """Return the estimates of keys, by their places."""
        return self.measured(keys, np.ones(len(keys))).estimates(np.arange(len(keys)), level)

    def reports(self, keys: Ints) -> Ints:
        """Return how many releases report each of some keys."""
        return np.asarray((self.places[keys] >= 0).sum(1))


def _part(release: Release) -> Measured:
    if release.terms.counts is not None:
        return CountedEvidence.of(release.table, release.terms)
    return MeasuredTokens.of(release)


def _spread(shared: Shared, here: Ints, keys: int) -> Shared:
    """Return the errors that keys of one release have in common, for all keys; others have none of it."""
    groups, errors = np.zeros(keys, np.int64), np.zeros(keys)
    groups[here], errors[here] = shared.groups, shared.errors
    return Shared(groups, errors)

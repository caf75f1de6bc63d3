"""Several releases whose numbers add up as measured ones: counted users, known keys, streams, or kinds that are mixed.

The coins of releases are independent. So what was measured of a key adds up over the releases that report it, and so
do the variances of the errors. What keys of a group have in common is mostly what clipping took from them: it may be
alike from day to day, so that these parts of the errors add up themselves, not their variances. A token
counts as a measurement, too: of the mean of its confidence distribution (`several_totals`), with its deviation.

What a key has in releases that do not report it is in no estimate. The upper ends of its intervals allow for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dpsample.accounting.amounts import Amount
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.totals import Total
from dpsample.answers.amounts import Sum, Summed, amount_of
from dpsample.answers.counted import ALL_IN, CountedEvidence, MeasuredEvidence
from dpsample.answers.counted_keys import CountedKeys, Shared
from dpsample.answers.evidence import Groups, KeyEstimates, Quantiles
from dpsample.answers.held import StepView
from dpsample.answers.known import ALL_KNOWN, KnownEvidence
from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.reported import ONE_KEY
from dpsample.answers.selection import Rows, Selection
from dpsample.answers.several_evidence import SeveralEvidence
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_totals import FrequencyLaws, most_unreported
from dpsample.answers.several_unreported import Drawn
from dpsample.answers.token_sums import names_reported_keys
from dpsample.answers.tokens import TokenView, key_batch
from dpsample.answers.unreported import Silence
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.reported import Bools
from dpsample.release.key_hash import first_frequencies
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.scheme import Scheme

_NOT_IN_IT = "; keys that were not reported are not in it"
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
        values = self.values[rows]
        errors = self.errors[rows]
        return CountedKeys(rows, weights, values, errors, shared=(), least=self.least[rows])

    @staticmethod
    def of(release: Release) -> "MeasuredTokens":
        """Return the keys of a release."""
        if isinstance(release.sampling, SampleAndHold):
            return MeasuredTokens._of_stream(release)
        view = TokenView.of(release.table, release.terms)
        keys = len(view.cells)
        values = np.zeros(keys)
        errors = np.zeros(keys)
        least = np.ones(keys, np.int64)
        has_token_law = np.ones(keys, bool)
        if release.terms.known is not None:
            # the noise of a known key may be anything, so that its token may be negative
            known = KnownEvidence.of(release.table, release.terms).known
            tokens = known.view.cells / known.view.scheme.grid
            frequencies = tokens - known.added + known.noise.mean
            values[known.places] = frequencies
            errors[known.places] = math.sqrt(known.noise.variance)
            least[known.places] = 0
            has_token_law[known.places] = False
        raised = view.cells + view.added * view.scheme.grid
        centre, error = centres(raised[has_token_law], view.sanitized_as)
        values[has_token_law] = centre - view.added[has_token_law]
        errors[has_token_law] = error
        return MeasuredTokens(values, errors, least)

    @staticmethod
    def _of_stream(release: Release) -> "MeasuredTokens":
        """The keys of a stream, whose frequencies are numbers of steps.

        A frequency is expected in the middle of its step.
        """
        elements = TokenView.of(release.table, release.terms)
        steps = StepView.in_steps(elements)
        values, errors = centres(steps.cells, steps.scheme)
        in_elements = (values - 0.5) * steps.step + 0.5
        least = np.ones(len(values), np.int64)
        return MeasuredTokens(in_elements, errors * steps.step, least)


def centres(cells: Ints, scheme: Scheme) -> tuple[Floats, Floats]:
    """Return the mean and the deviation of the confidence distribution of the frequency of each token.

    They are halfway between those of the distributions for lower and for upper ends. An upper end is one less than the
    frequency that is rejected.
    """
    lower = FrequencyLaws(scheme, cells, 1, upper=False, grid=1)
    upper = FrequencyLaws(scheme, cells, 1, upper=True, grid=1)
    values = (lower.means + upper.means - 1) / 2
    variances = (lower.variances + upper.variances) / 2
    return values, np.sqrt(variances)


@dataclass(frozen=True, eq=False)
class MissedKeys:
    """Which keys are missed by which releases, and what this allows the keys to have there: `counted_keys.Gaps`.

    releases    the laws by which they miss keys
    missed      whether a release misses a key: [key, release]
    unbounded   whether a release has a list of keys and no others, so that nothing is known of a key that it misses
    before      the elements that a key may have before a public hash lets it into the sample: [key, release]
    """

    releases: Sequence[Drawn]
    missed: Bools
    unbounded: Bools
    before: Floats

    def most(self, probability: float) -> Floats:
        """Return what each key has at most in releases that miss it, but for this probability."""
        [most] = self.bounds(np.array([probability])).T
        return np.asarray(most)

    def bounds(self, probabilities: Floats) -> Floats:
        """Return the same for several probabilities: [key, probability]."""
        elements = most_unreported(self.releases, self.missed, probabilities)
        before = (self.missed * self.before).sum(1)
        missed_by_lists = self.missed & self.unbounded
        unknown = np.asarray(missed_by_lists.any(1))
        most = elements + before[:, None]
        return np.where(unknown[:, None], math.inf, most)


class SeveralMeasured(SeveralEvidence, MeasuredEvidence):
    """What several releases say of their keys, as measured."""

    def __init__(
        self, releases: Sequence[Release], located: tuple[pa.Table, Ints] | None = None
    ) -> None:
        """Take the keys of all releases, or those that were `located`: keys, and their rows in each release."""
        self.releases = tuple(releases)
        keys, self.places = located or keys_of(self.releases)
        self.rows = Rows(keys)
        self.counted = f"{releases[0].unit}s in total"
        self.kind = "counted users" if releases[0].terms.counts is not None else "several releases"
        self.parts = [_measured_keys(release) for release in releases]
        self.in_others = ALL_KNOWN if self._lists_all else _OTHERS

    @cached_property
    def _lists_all(self) -> bool:
        """Whether all releases have the same list of known keys, and no others."""
        only_lists = all(silence.only_listed for silence in self.silences)
        return only_lists and bool((self.places >= 0).all())

    @property
    def _reported_keys(self) -> str:
        return f"keys that at least one of {self.stated} reports"

    @property
    def amounts(self) -> tuple[Clipped, ...]:  # type: ignore[override] # a field of others
        """The amounts that all releases have, clipped alike."""
        counts = self.releases[0].terms.counts
        if counts is None:
            return ()
        amounts_of_each = [set(release.terms.amounts) for release in self.releases]
        in_all = set[Amount].intersection(*amounts_of_each)
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

    def sums(self, question: Question) -> Groups:
        found = super().sums(question)
        estimates = found.estimates
        if self._names_reported_keys(question):
            estimates = [_of_named_key(one) for one in estimates]
        elif self._lists_all:
            # the line on all keys says so
            estimates = [_without(ALL_IN, one) for one in estimates]
        return found._replace(estimates=estimates)

    def means(self, question: Question) -> Groups:
        found = super().means(question)
        if not self._names_reported_keys(question):
            return found
        return found._replace(estimates=[replace(one, notes=()) for one in found.estimates])

    def quantiles(self, question: Question, shares: Floats) -> Quantiles:
        found = super().quantiles(question, shares)
        if not self._lists_all:
            return found
        notes = tuple(note.removesuffix(_NOT_IN_IT) for note in found.notes)
        return replace(found, notes=notes)

    def _names_reported_keys(self, question: Question) -> bool:
        """Whether a question names keys, each of which is reported: the interval allows for releases that miss it."""
        selection = Selection.of(self.rows, question)
        return names_reported_keys(question, selection, selection.tallies()[1])

    def measured(self, rows: Ints, weights: Floats) -> CountedKeys:
        places = self.places[rows]
        values = np.zeros(len(rows))
        variances = np.zeros(len(rows))
        in_common = np.zeros(len(rows))
        least = np.zeros(len(rows), np.int64)
        shared: list[Shared] = []
        for part, place in zip(self.parts, places.T, strict=True):
            here = np.flatnonzero(place >= 0)
            own = part.measured(place[here], weights[here])
            values[here] += own.values
            least[here] += own.least
            own_variance = own.errors**2
            for one in own.shared:
                own_variance = np.maximum(own_variance - one.errors**2, 0.0)
                in_common[here] += one.errors
                shared.append(_spread(one, here, len(rows)))
            variances[here] += own_variance
        errors = np.sqrt(variances + in_common**2)
        kind = _ListedKeys if self._lists_all else CountedKeys
        keys = kind(rows, weights, values, errors, tuple(shared), least)
        return replace(
            keys,
            detection_threshold=self.detection_threshold,
            gaps=self._gaps(rows),
            called="known keys" if self._lists_all else self._reported_keys,
            remarks=self.remarks,
        )

    def _gaps(self, rows: Ints) -> MissedKeys | None:
        """What releases that do not report keys allow; None if all releases report all of these keys."""
        missed = self.places[rows] < 0
        if not missed.any():
            return None
        unbounded = np.array([silence.only_listed for silence in self.silences])
        return MissedKeys(self._drawn, missed, unbounded, self._before[rows])

    @cached_property
    def _drawn(self) -> list[Drawn]:
        """The laws by which releases miss keys; of a coordinated sample, from the first frequency of each key on."""
        drawn: list[Drawn] = []
        for release in self.releases:
            sampling = release.sampling if release.sampling.seed is None else KeepAll()
            drawn.append(Scheme(sampling, release.per_key, release.grid or 1))
        return drawn

    @cached_property
    def _before(self) -> Floats:
        """The elements that each key may have in each release before the public hash lets it into the sample."""
        before = np.zeros(self.places.shape)
        for n, release in enumerate(self.releases):
            if release.sampling.seed is not None:
                first = first_frequencies(key_batch(self.rows.keys), release.sampling)
                before[:, n] = first - 1
        return before

    def sum_of(self, amount: Summed | None, keys: CountedKeys) -> Sum:
        """Return the sum of an amount over some keys, in the releases that report them."""
        sums = []
        places = self.places[keys.rows]
        for part, place in zip(self.parts, places.T, strict=True):
            here = np.flatnonzero(place >= 0)
            if not len(here) or not isinstance(part, CountedEvidence):
                continue
            own_amount = None if amount is None else amount_of(part.amounts, amount.name)
            own_keys = part.measured(place[here], keys.weights[here])
            sums.append(part.sum_of(own_amount, own_keys))
        return Sum.added(sums) if sums else Sum(0.0, 0.0)

    def law_of_unreported(self, key: Any) -> NormalLaw:
        """Return the law of a key that no release reports: means and variances add up."""
        if any(silence.only_listed for silence in self.silences):
            raise InvalidValue("a key is not in the list of known keys", "compare keys of the list")
        return self.law_of_missed()

    def estimates_of(self, keys: Ints, level: float) -> KeyEstimates:
        measured = self.measured(keys, np.ones(len(keys)))
        return measured.estimates(np.arange(len(keys)), level)


class _ListedKeys(CountedKeys):
    """Keys of a list that has all keys."""

    others = ""


def _without(note: str, estimate: Estimate) -> Estimate:
    """The same estimate without a note."""
    return replace(estimate, notes=tuple(own for own in estimate.notes if own != note))


def _of_named_key(estimate: Estimate) -> Estimate:
    """The sum over a key that the question names, which is that over all keys, too."""
    assert estimate.reported is not None
    reported = replace(estimate.reported, others=ONE_KEY)
    return replace(estimate, reported=reported, notes=())


def _measured_keys(release: Release) -> Measured:
    """The keys of a release, and what was measured of each."""
    if release.terms.counts is not None:
        return CountedEvidence.of(release.table, release.terms)
    return MeasuredTokens.of(release)


def _spread(shared: Shared, here: Ints, keys: int) -> Shared:
    """Return the errors that keys of one release have in common, for all keys; others have none of it."""
    groups = np.zeros(keys, np.int64)
    errors = np.zeros(keys)
    groups[here] = shared.groups
    errors[here] = shared.errors
    return Shared(groups, errors)

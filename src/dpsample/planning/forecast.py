"""Forecasts: what to expect of a release, before any budget is spent. A forecast is as private as its frequencies.

Expected        what one method is expected to report, and the errors of its sums
Way             how the keys of users without a contribution bound are found and counted
Forecast        what to expect of one setting: of the release, and of other methods
forecast        frequencies and a setting -> the forecast of a release of elements, or of users with a bound
most_possible   the most that any method of the same privacy could report

`users.forecast_users` makes the forecast of users without a contribution bound.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.accounting.discovery import Method as Discovery
from dpsample.comparison.accuracy import Accuracy, Coverage, Method, Pws, covered, selected
from dpsample.comparison.baselines import NonPrivate, SampleAndThreshold
from dpsample.comparison.reporting_curve import (
    LIKELY,
    OPEN,
    PWS,
    SAMPLED,
    SBH,
    detection_threshold_of,
    histograms,
)
from dpsample.errors import InvalidValue
from dpsample.planning.errors import predicted
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting, planned_sampling
from dpsample.privacy import Privacy
from dpsample.release.explain import explain_per_key
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, steps_to_one
from dpsample.scheme.sampling import Floats, KeepAll, Sampling

AT_MOST = "any method, at most"
_NO_ERROR_BARS = (
    "epsilon is too small for calibrated estimates: answers are by mle, and have no error bars"
)
# Sample-and-threshold is left out where its parameters take seconds to find: where a key is reported with certainty
# only beyond this frequency, or where epsilon is outside this range. A larger limit makes plans slower.
_MOST_STEPS = 3000
_LEAST_EPSILON = Fraction(1, 200)
_MOST_EPSILON = Fraction(20)


@dataclass(frozen=True)
class Way:
    """How the keys of users without a contribution bound are found, and counted."""

    discovery: Discovery
    counted: bool  # or keys only
    keys_each: int  # the largest number of keys that a user gives
    chosen: bool  # by `discover="ask"`, if its numbers have no noise
    filled: float  # the filled capacity, by which `discover="ask"` chooses
    # relative errors of counts at `users.SIZES`; None where no key has about that size
    count_errors: tuple[float | None, ...] = ()
    median_error: float | None = None  # of the counts of all keys that are found, relative to them


@dataclass(frozen=True)
class Expected:
    """What one method is expected to report, relative to `Frequencies.base`. An error not computed is None."""

    method: str
    keys: float
    share_of_keys: float
    share_of_elements: float
    # the lowest frequency that is reported with probability 1/2 or more; None if there is none
    detection_threshold: int | None
    nrmse: float | None = None  # of the total: root mean square error, as a share of the truth
    selection_nrmse: float | None = None  # of a random selection of `share` of the keys
    estimator: str | None = None
    way: Way | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        form = asdict(self)
        if self.way is None:
            del form["way"]
        return form


@dataclass(frozen=True, repr=False)
class Forecast:
    """What to expect of one setting: of the release, and of other methods. As private as the frequencies."""

    setting: Setting
    sampling: Sampling  # with its tau
    frequencies: Frequencies
    methods: tuple[Expected, ...]
    notes: tuple[str, ...] = ()
    possible: Expected | None = None  # at most, by any method; known if the users of each key are
    share: float = 0.01  # of the keys that a question selects

    @property
    def pws(self) -> Expected:
        """The release. For users without a bound: with counts, its keys found as "ask" would choose."""
        for method in self.methods:
            if method.way and method.way.counted and method.way.chosen:
                return method
        return self.methods[0]

    @property
    def every_method(self) -> list[Expected]:
        """The methods, and at the end the bound that no method exceeds, if it is known."""
        if self.possible is None:
            return [*self.methods]
        return [*self.methods, self.possible]

    @property
    def covered(self) -> float:
        """The expected share of all elements whose key is reported."""
        return self.pws.share_of_elements

    @property
    def private(self) -> bool:
        """Whether it was computed from private data."""
        return self.frequencies.private

    def __repr__(self) -> str:
        reported = "NOT private"
        if not self.private:
            reported = f"{self.pws.keys:,.0f} of {self.frequencies.total:,} keys"
        return f"Forecast({self.setting.privacy}, {self.sampling}: {reported})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        form = {"private_input": self.private, **self._setting_to_json(), **self._data_to_json()}
        if self.possible is not None:
            form["possible_keys"] = self.possible.keys
        form["share"] = self.share
        form["methods"] = [method.to_json() for method in self.methods]
        form["notes"] = list(self.notes)
        return form

    def _setting_to_json(self) -> dict[str, Any]:
        setting = self.setting
        form = {
            **setting.privacy.to_json(),
            "max_keys_per_user": setting.max_keys_per_user,
            "sampling": self.sampling.to_json(),
            "sample_size": setting.size.size if setting.size else None,
        }
        if setting.discover is None:
            form["per_key"] = setting.per_key.to_json()
        return form

    def _data_to_json(self) -> dict[str, int]:
        data = self.frequencies
        uncut = data.uncut
        form = {"keys": data.total, "elements": data.elements}
        if uncut is not None:
            form |= {"uncut_keys": uncut.total, "uncut_elements": uncut.elements}
        return form


def forecast(
    frequencies: "Frequencies | ArrayLike",
    setting: Setting,
    share: float = 0.01,
    *,
    errors: bool = True,
    baselines: bool = True,
    quick: bool = False,
) -> Forecast:
    """Return what to expect of a release of elements, or of users with a contribution bound.

    A question selects `share` of the keys at random. Without `errors` no NRMSE is computed, which is fast. With `quick`
    the NRMSE of PWS is computed on a coarser table, and if users have many keys, the noise of a key is found quickly
    (`Budget.predicted_per_key`): both are approximate. With the baselines, each key has the epsilon and delta that
    composition gives to any method (`Budget.composed_per_key`).

    With frequencies that were cut (`Frequencies.uncut`), shares and errors are relative to the data before the cut.
    The error of a total is then exact as before; that of a selection is computed as if each key lost the same share.

    >>> result = forecast(Frequencies.zipf(1, 10**5), Setting(Privacy(1, 1e-8)), errors=False)
    >>> for method in result.methods:
    ...     print(f"{method.method:20} {method.keys:6,.0f} {method.share_of_elements:.1%} {method.detection_threshold}")
    PWS                   5,512 76.2% 19
    SbH                   5,177 75.7% 20
    SbH, tight cutoff     5,374 76.0% 19
    sample and threshold  1,325 64.3% 78
    """
    known = Frequencies.of(frequencies)
    question = _Question(known, check_selection(share))
    sampling = planned_sampling(setting, known)
    per_key = setting.budget.predicted_per_key if quick else setting.per_key

    notes = _notes_on_input(setting, known)
    ours = question.ours(sampling, per_key)
    if errors:
        ours = question.with_predicted_errors(ours, sampling, per_key, quick)
        if ours.estimator == "mle":
            notes.append(_NO_ERROR_BARS)
    methods = [ours]
    if baselines:
        composed = setting.budget.composed_per_key
        peers = dict(_peers(sampling, composed))
        for name, method in peers.items():
            methods.append(question.peer(name, method, sampling.largest, errors))
        notes += _notes_on_peers(peers, sampling)
        if per_key != composed:
            each = explain_per_key(composed)
            notes.append(f"with the other methods, each key has {each}, by composition")

    possible = None
    if known.uncut is not None:
        possible = most_possible(known.uncut, setting.privacy)
    share = question.share
    return Forecast(setting, sampling, known, tuple(methods), tuple(notes), possible, share)


def most_possible(users: Frequencies, privacy: Privacy) -> Expected:
    """Return the most that any method could report with this epsilon and delta.

    `users` are the true numbers of users of each key. Take the users of a key away, one by one: from one to the next,
    the probability that the key is reported falls as privacy allows, down to 0. So no method reports a key more often
    than one that spends all of the privacy on it.

    >>> round(most_possible(Frequencies.of({10: 5, 1000: 2}), Privacy(1, 1e-6)).keys, 3)
    2.064
    """
    on_one_key = Privacy(privacy.epsilon, privacy.delta)
    reported = Pws(KeepAll(), on_one_key).reported(users.values)
    most = _Question(users, share=1).covered_by(AT_MOST, reported)
    return replace(most, detection_threshold=frequency_reaching(LIKELY, KeepAll(), on_one_key))


def check_selection(share: float) -> float:
    """Check the share of keys that a question selects."""
    is_number = isinstance(share, int | float) and not isinstance(share, bool)
    if not is_number or not 0 < share <= 1:
        raise InvalidValue(
            f"a share of the keys must be above 0 and at most 1, not {share!r}",
            "choose one such as 0.01",
        )
    return float(share)


@dataclass(frozen=True)
class _Question:
    """The sums whose errors are forecast: over all keys, and over a random selection of a share of them."""

    frequencies: Frequencies
    share: float

    def covered_by(self, name: str, reported: Floats) -> Expected:
        """Return what a method reports, given its reporting probability at each frequency."""
        expected = covered(self.frequencies.values, self.frequencies.counts, reported)
        keys = expected.reported_keys
        base = self.frequencies.base
        of_base = Coverage(base.total, base.elements, keys, expected.reported_elements)
        return Expected(name, keys, of_base.share_of_keys, of_base.share_of_elements, None)

    def ours(self, sampling: Sampling, per_key: PerKey) -> Expected:
        """Return what a release is expected to report, without errors."""
        reported = Pws(sampling, per_key).reported(self.frequencies.values)
        threshold = frequency_reaching(LIKELY, sampling, per_key)
        return replace(self.covered_by(PWS, reported), detection_threshold=threshold)

    def with_predicted_errors(
        self, expected: Expected, sampling: Sampling, per_key: PerKey, quick: bool
    ) -> Expected:
        """Add the errors of a release, and the estimator that they are about."""
        values = self.frequencies.values
        keys = self.frequencies.counts
        total, estimator = predicted(values, keys, sampling, per_key, 1.0, quick)
        selection, _ = predicted(values, keys, sampling, per_key, self.share, quick)
        return replace(self.with_errors(expected, total, selection), estimator=estimator)

    def peer(self, name: str, method: Method, largest: int, errors: bool) -> Expected:
        """Return what to expect of a baseline, whose frequencies go up to the `largest`."""
        values = self.frequencies.values
        threshold = detection_threshold_of(method, largest)
        if not errors:
            expected = self.covered_by(name, method.reported(values))
            return replace(expected, detection_threshold=threshold)
        by_frequency = method.errors(values)
        expected = self.covered_by(name, by_frequency.reported)
        expected = replace(expected, detection_threshold=threshold)
        keys = self.frequencies.counts
        total = selected(by_frequency, keys, 1.0)
        selection = selected(by_frequency, keys, self.share)
        return self.with_errors(expected, total, selection)

    def with_errors(self, expected: Expected, total: Accuracy, selection: Accuracy) -> Expected:
        """Add the errors of the total and of a selection, relative to the data before a cut."""
        of_total = self._before_cut(total, 1.0).nrmse
        of_selection = self._before_cut(selection, self.share).nrmse
        return replace(expected, nrmse=of_total, selection_nrmse=of_selection)

    def _before_cut(self, accuracy: Accuracy, share: float) -> Accuracy:
        """Return the accuracy of the same estimate for the data before the cut, if each key lost the same share.

        The lost elements of the selected keys are a further error: a bias, and, as the selection is random, a variance.
        """
        if self.frequencies.uncut is None:
            return accuracy
        kept = self.frequencies.elements
        lost = self.frequencies.uncut.elements - kept
        values = self.frequencies.values.astype(np.float64)
        sum_of_squares = float(self.frequencies.counts @ values**2)
        which_are_selected = share * (1 - share) * (lost / kept) ** 2 * sum_of_squares
        truth = accuracy.truth + share * lost
        bias = accuracy.bias - share * lost
        variance = accuracy.variance + which_are_selected
        return replace(accuracy, truth=truth, bias=bias, variance=variance)


def _notes_on_input(setting: Setting, frequencies: Frequencies) -> list[str]:
    """Return notes on a budget that is not stated by epsilon, and on keys that are unknown."""
    notes = []
    if setting.privacy.definition is not None:
        notes.append(str(setting.privacy))
    first = frequencies.known_from
    if first > 1:
        notes.append(f"keys below frequency {first:,} are unknown: all numbers leave them out")
    return notes


def _notes_on_peers(peers: Mapping[str, Method], sampling: Sampling) -> list[str]:
    """Return notes on where the baselines differ from the release, or are not known."""
    notes = []
    least = sampling.least
    if least > 1:
        notes.append(f"the other methods also report keys of a lower frequency than {least:,}")
    if SBH not in peers:
        notes.append("the stability-based histogram is not stated for this sampling")
    return notes


def _peers(sampling: Sampling, privacy: Privacy) -> Iterator[tuple[str, Method]]:
    """Yield the baselines: the histograms; also sample-and-threshold, or with sampling the sample without privacy."""
    yield from histograms(sampling, privacy)
    if not isinstance(sampling, KeepAll):
        yield OPEN, NonPrivate(sampling)
        return
    method = _sample_and_threshold(privacy)
    if method is not None:
        yield SAMPLED, method


@lru_cache(maxsize=64)  # the settings of a grid share a few privacies
def _sample_and_threshold(privacy: Privacy) -> SampleAndThreshold | None:
    """Return the method of this privacy; None if its parameters take seconds to find, or are beyond floats."""
    if not _LEAST_EPSILON <= privacy.epsilon <= _MOST_EPSILON:
        return None
    if steps_to_one(privacy) > _MOST_STEPS:
        return None
    with suppress(InvalidValue):
        return SampleAndThreshold.for_privacy(privacy)
    return None

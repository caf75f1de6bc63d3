"""Forecast: what is to be expected of a release, before any budget is spent. Mathematics; sees no data.

Expected   what one method reports, and how far its sums are off
Forecast   the expectations of one setting, for PWS and for the baselines
forecast   frequencies, a setting -> its forecast
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Accuracy, Coverage, Method, Pws, covered, selected
from dpsample.comparison.baselines import NonPrivate, SampleAndThreshold
from dpsample.comparison.reporting_curve import LIKELY, OPEN, PWS, SAMPLED, SBH, detection_threshold_of, histograms
from dpsample.errors import InvalidValue
from dpsample.planning.errors import predicted
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting, planned_sampling
from dpsample.planning.users import possible_keys
from dpsample.presentation.explain import explain_per_key
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching, steps_to_one
from dpsample.scheme.sampling import KeepAll, Sampling

# Sample-and-threshold is left out where its parameters take long to find: if certainty needs more frequencies than
# this, or if epsilon is outside this range.
_MOST_STEPS = 3000
_EPSILONS = Fraction(1, 200), Fraction(20)


@dataclass(frozen=True)
class Expected:
    """What is to be expected of one method, relative to `Frequencies.base`; an NRMSE not computed is None."""

    method: str
    keys: float  # that are reported
    share_of_keys: float
    share_of_elements: float
    detection_threshold: int | None  # the lowest frequency that is reported with probability 1/2 or more
    nrmse: float | None = None  # of the total: root mean square error, as a share of the truth
    selection_nrmse: float | None = None  # of a random selection of `share` of the keys
    estimator: str | None = None


@dataclass(frozen=True, repr=False)
class Forecast:
    """What is to be expected of one setting, for PWS and for the baselines; as private as the frequencies."""

    setting: Setting
    sampling: Sampling  # with its tau
    frequencies: Frequencies
    share: float
    methods: tuple[Expected, ...]
    notes: tuple[str, ...] = ()
    possible: float | None = None  # keys that any method could report, if the users of each key are known

    @property
    def pws(self) -> Expected:
        """What dpsample releases."""
        return self.methods[0]

    @property
    def covered(self) -> float:
        """The expected share of all elements whose key is reported."""
        return self.pws.share_of_elements

    @property
    def private(self) -> bool:
        """Whether it was computed from private data."""
        return self.frequencies.private

    def __repr__(self) -> str:
        reported = "NOT private" if self.private else f"{self.pws.keys:,.0f} of {self.frequencies.total:,} keys"
        return f"Forecast({self.setting.privacy}, {self.sampling}: {reported})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        setting = self.setting
        return {
            "private_input": self.private,
            **setting.privacy.to_json(),
            "max_keys_per_user": setting.max_keys_per_user,
            "per_key": setting.per_key.to_json(),
            "sampling": self.sampling.to_json(),
            "sample_size": setting.size.size if setting.size else None,
            "keys": self.frequencies.total,
            "elements": self.frequencies.elements,
            **(
                {}
                if (uncut := self.frequencies.uncut) is None
                else {"uncut_keys": uncut.total, "uncut_elements": uncut.elements, "possible_keys": self.possible}
            ),
            "share": self.share,
            "methods": [asdict(method) for method in self.methods],
            "notes": list(self.notes),
        }


def forecast(
    frequencies: "Frequencies | ArrayLike",
    setting: Setting,
    share: float = 0.01,
    *,
    errors: bool = True,
    baselines: bool = True,
    quick: bool = False,
) -> Forecast:
    """Return what is to be expected of a release.

    A question selects `share` of the keys at random. Without `errors` no NRMSE is computed, which is fast. With `quick`
    the NRMSE of PWS is computed on a coarser table, and errors and baselines use a subset of the frequencies if there
    are many (`Frequencies.thinned`); what PWS reports is exact, unless users have many keys: then the noise is found
    quickly (`Budget.predicted_per_key`). With the baselines, each key has the epsilon and delta that composition gives
    to any method (`Budget.composed_per_key`).

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
    checked, share = Frequencies.of(frequencies), check_selection(share)
    sampling = planned_sampling(setting, checked)
    privacy = setting.budget.predicted_per_key if quick else setting.per_key
    i, keys = checked.thinned if quick else (checked.values, checked.counts)
    notes = [] if setting.privacy.definition is None else [str(setting.privacy)]
    if checked.known_from > 1:
        notes.append(f"keys below frequency {checked.known_from:,} are unknown: all numbers leave them out")

    reported = covered(checked.values, checked.counts, Pws(sampling, privacy).reported(checked.values))
    pws = _expected(PWS, reported, frequency_reaching(LIKELY, sampling, privacy), checked)
    if errors:
        (total, estimator), (selection, _) = (predicted(i, keys, sampling, privacy, s, quick) for s in (1.0, share))
        pws = replace(_with_errors(pws, total, selection, share, checked), estimator=estimator)
        if estimator == "mle":
            notes.append("epsilon is too small for calibrated estimates: answers are by mle, and have no error bars")
    methods = [pws]
    if baselines:
        peers = dict(_peers(sampling, setting.budget.composed_per_key))
        for name, method in peers.items():
            threshold = detection_threshold_of(method, sampling.largest)
            if not errors:
                methods.append(_expected(name, covered(i, keys, method.reported(i)), threshold, checked))
                continue
            by_frequency = method.errors(i)
            total, selection = (selected(by_frequency, keys, s) for s in (1.0, share))
            expected = _expected(name, total.coverage, threshold, checked)
            methods.append(_with_errors(expected, total, selection, share, checked))
        if sampling.least > 1:
            notes.append(f"the other methods also report keys of a lower frequency than {sampling.least:,}")
        if SBH not in peers:
            notes.append("the stability-based histogram is not stated for this sampling")
        if privacy != (composed := setting.budget.composed_per_key):
            notes.append(f"with the other methods, each key has {explain_per_key(composed)}, by composition")
    possible = None if checked.uncut is None else possible_keys(checked.uncut, setting.privacy)
    return Forecast(setting, sampling, checked, share, tuple(methods), tuple(notes), possible)


def _expected(name: str, coverage: Coverage, threshold: int | None, frequencies: Frequencies) -> Expected:
    if (uncut := frequencies.uncut) is not None:
        coverage = replace(coverage, keys=uncut.total, elements=uncut.elements)
    return Expected(name, coverage.reported_keys, coverage.share_of_keys, coverage.share_of_elements, threshold)


def _with_errors(
    expected: Expected, total: Accuracy, selection: Accuracy, share: float, frequencies: Frequencies
) -> Expected:
    """Add the errors of a total, and of a selection of a share of the keys, relative to the data before a cut."""
    of_total, of_selection = (_before_cut(*of, frequencies).nrmse for of in ((total, 1.0), (selection, share)))
    return replace(expected, nrmse=of_total, selection_nrmse=of_selection)


def _before_cut(accuracy: Accuracy, share: float, frequencies: Frequencies) -> Accuracy:
    """The accuracy of the same estimate for what the data had before the cut, of which each key lost the same share."""
    if frequencies.uncut is None:
        return accuracy
    lost = frequencies.uncut.elements - frequencies.elements
    squares = float(frequencies.counts @ frequencies.values.astype(np.float64) ** 2)
    return replace(
        accuracy,
        truth=accuracy.truth + share * lost,
        bias=accuracy.bias - share * lost,
        variance=accuracy.variance + share * (1 - share) * (lost / frequencies.elements) ** 2 * squares,
    )


def _peers(sampling: Sampling, privacy: Privacy) -> Iterator[tuple[str, Method]]:
    """The baselines: the histograms; also sample-and-threshold, or with sampling the sample without privacy."""
    yield from histograms(sampling, privacy)
    if not isinstance(sampling, KeepAll):
        yield OPEN, NonPrivate(sampling)
    elif (method := _sample_and_threshold(privacy)) is not None:
        yield SAMPLED, method


@lru_cache(maxsize=64)
def _sample_and_threshold(privacy: Privacy) -> SampleAndThreshold | None:
    """The method that has this privacy; None if it takes long to find, or is beyond floats."""
    if steps_to_one(privacy) > _MOST_STEPS or not _EPSILONS[0] <= privacy.epsilon <= _EPSILONS[1]:
        return None
    with suppress(InvalidValue):
        return SampleAndThreshold.for_privacy(privacy)
    return None


def check_selection(share: float) -> float:
    """Check the share of keys that a question selects."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InvalidValue("a share of the keys is above 0 and at most 1", repr(share), "choose one such as 0.01")
    return float(share)

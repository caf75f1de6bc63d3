"""Outlook: what is to be expected of a release, before any budget is spent. Mathematics; sees no data.

Setting   what the release is to be: privacy, sampling or a sample size, keys per user, a total
outlook   frequencies, a setting -> how much is reported, from which frequency on, and how far sums are off
curve     how likely a key of each frequency is to be reported, next to the stability-based histogram
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Coverage, Method, Pws, covered, selected
from dpsample.comparison.baselines import NonPrivate, SampleAndThreshold
from dpsample.comparison.reporting_curve import LIKELY, OPEN, PWS, SAMPLED, SBH, detection_threshold_of, histograms
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.planning.errors import predicted
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching, steps_to_one
from dpsample.scheme.sampling import KeepAll, Sampling

_FAR = 3000  # frequencies up to certainty, beyond which sample-and-threshold is left out
_SMALL, _LARGE = Fraction(1, 200), 20  # epsilons, for the same reason


@dataclass(frozen=True)
class Expected:
    """What is to be expected of one method; NRMSEs are None where they are not computed."""

    method: str
    keys: float  # reported
    share_of_keys: float
    share_of_elements: float
    detection_threshold: int | None  # the lowest frequency that is reported with probability 1/2 or more
    nrmse: float | None = None  # of the total: root mean square error, as a share of the truth
    selection_nrmse: float | None = None  # of a random selection of `share` of the keys
    estimator: str | None = None


@dataclass(frozen=True, repr=False)
class Outlook:
    """What is to be expected of one setting, by PWS and by the baselines; as private as the frequencies."""

    setting: Setting
    sampling: Sampling  # with its tau
    frequencies: Frequencies
    share: float
    methods: tuple[Expected, ...]
    notes: tuple[str, ...] = ()

    @property
    def pws(self) -> Expected:
        """What dpsample releases."""
        return self.methods[0]

    @property
    def private(self) -> bool:
        """Whether it tells of private data."""
        return self.frequencies.private

    def __repr__(self) -> str:
        told = "NOT private" if self.private else f"{self.pws.keys:,.0f} of {self.frequencies.total:,} keys"
        return f"Outlook({self.setting.privacy}, {self.sampling}: {told})"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        setting = self.setting
        return {
            "private_input": self.private,
            "epsilon": text(setting.privacy.epsilon),
            "delta": text(setting.privacy.delta),
            "max_keys_per_user": setting.max_keys_per_user,
            "per_key": setting.per_key.to_json(),
            "sampling": self.sampling.to_json(),
            "sample_size": setting.size.size if setting.size else None,
            "keys": self.frequencies.total,
            "elements": self.frequencies.elements,
            "share": self.share,
            "methods": [asdict(method) for method in self.methods],
            "notes": list(self.notes),
        }


def outlook(
    frequencies: "Frequencies | ArrayLike",
    setting: Setting,
    share: float = 0.01,
    *,
    errors: bool = True,
    baselines: bool = True,
    quick: bool = False,
) -> Outlook:
    """Say what is to be expected of a release.

    `share` is that of the keys which a question selects at random. Without `errors` there is no NRMSE, which makes it
    fast; `quick` computes that of PWS on a coarser table, and looks at some of many frequencies
    (`Frequencies.thinned`), except for what is reported by PWS. The baselines have the same privacy for each key.

    >>> found = outlook(Frequencies.zipf(1, 10**5), Setting(Privacy(1, 1e-8)), errors=False)
    >>> for method in found.methods:
    ...     print(f"{method.method:20} {method.keys:6,.0f} {method.share_of_elements:.1%} {method.detection_threshold}")
    PWS                   5,512 76.2% 19
    SbH                   5,177 75.7% 20
    SbH, tight cutoff     5,374 76.0% 19
    sample and threshold  1,325 64.3% 78
    """
    made, share = Frequencies.of(frequencies), check_selection(share)
    notes: list[str] = []
    sampling, privacy = setting.scheme(made), setting.per_key
    i, keys = made.thinned if quick else (made.values, made.counts)

    def expected(name: str, found: Coverage, visible: int | None) -> Expected:
        return Expected(name, found.reported_keys, found.share_of_keys, found.share_of_elements, visible)

    def peer(name: str, method: Method) -> Expected:
        visible = detection_threshold_of(method, sampling.largest)
        if not errors:
            return expected(name, covered(i, keys, method.reported(i)), visible)
        each = method.errors(i)
        whole, part = (selected(each, keys, s) for s in (1.0, share))
        return replace(expected(name, whole.coverage, visible), nrmse=whole.nrmse, selection_nrmse=part.nrmse)

    reported = covered(made.values, made.counts, Pws(sampling, privacy).reported(made.values))
    ours = expected(PWS, reported, frequency_reaching(LIKELY, sampling, privacy))
    if errors:
        (whole, estimator), (part, _) = (predicted(i, keys, sampling, privacy, s, quick) for s in (1.0, share))
        ours = replace(ours, nrmse=whole.nrmse, selection_nrmse=part.nrmse, estimator=estimator)
        if estimator == "mle":
            notes.append("epsilon is too small for calibrated estimates: answers are by mle, and have no error bars")
    methods = [ours]
    if baselines:
        peers = dict(_peers(sampling, privacy))
        methods += [peer(name, method) for name, method in peers.items()]
        if SBH not in peers:
            notes.append("the stability-based histogram is not stated for this sampling")
    return Outlook(setting, sampling, made, share, tuple(methods), tuple(notes))


def _peers(sampling: Sampling, privacy: Privacy) -> Iterator[tuple[str, Method]]:
    """The baselines: without sampling also sample-and-threshold, with it the sample as it is."""
    yield from histograms(sampling, privacy)
    if not isinstance(sampling, KeepAll):
        yield OPEN, NonPrivate(sampling)
    elif (method := _sample_and_threshold(privacy)) is not None:
        yield SAMPLED, method


@lru_cache(maxsize=64)
def _sample_and_threshold(privacy: Privacy) -> SampleAndThreshold | None:
    """The method that goes with a privacy; none where it would take long to find, or beyond floats."""
    if steps_to_one(privacy) > _FAR or not _SMALL <= privacy.epsilon <= _LARGE:
        return None
    with suppress(InvalidValue):
        return SampleAndThreshold.for_privacy(privacy)
    return None


def check_selection(share: float) -> float:
    """Check the share of keys that a question selects."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InvalidValue("a share of the keys is above 0 and at most 1", repr(share), "choose one such as 0.01")
    return float(share)

"""Outlook: what is to be expected of a release, before any budget is spent. Mathematics; sees no data.

    Setting   what the release is to be: privacy, sampling or a sample size, keys per user, a total
    outlook   frequencies, a setting -> how much is reported, from which frequency on, and how far sums are off
    curve     how likely a key of each frequency is to be reported, next to the stability-based histogram
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.accuracy import Method, Pws, covered, selected
from dpsample.baselines import NonPrivate, SampleAndThreshold, StabilityHistogram
from dpsample.budget import Budget, Total, check_share
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.exact import Number, text
from dpsample.frequencies import Frequencies
from dpsample.predicted import predicted
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Sampling
from dpsample.sizes import SampleSize

PWS, SBH, TIGHT, SAMPLED, OPEN = "PWS", "SbH", "SbH, tight cutoff", "sample and threshold", "not private"
LIKELY = 0.5  # from this reporting probability on a key is likely to be seen


@dataclass(frozen=True)
class Setting:
    """What a release is to be, with the arguments of `dpsample.release`.

    >>> Setting(Privacy(1, 1e-6), max_keys_per_user=50).per_key
    Privacy(epsilon='0.0335281', delta='1e-08')
    """

    privacy: Privacy
    sampling: Sampling = field(default_factory=KeepAll)
    size: SampleSize | None = None
    max_keys_per_user: int | None = None
    total: bool | Number = False

    def __post_init__(self) -> None:
        if self.size is not None and not isinstance(self.sampling, KeepAll):
            raise InvalidValue("either a scheme with its tau or a sample size is given", "both", "leave one out")
        _ = self.budget  # checks the rest

    @cached_property
    def budget(self) -> Budget:
        """What the privacy is spent on."""
        return Budget(
            self.privacy,
            self.max_keys_per_user,
            self.size.share if self.size is not None else Fraction(0),
            check_share(self.total, "the total"),
        )

    @cached_property
    def per_key(self) -> Privacy:
        """What each key has, as in the release."""
        return self.budget.per_key

    def scheme(self, frequencies: Frequencies) -> Sampling:
        """Return the sampling; for a sample size, with the tau that follows from the true total of the weights.

        A release adds noise to that total, which hardly changes tau.
        """
        if self.size is None:
            return self.sampling
        size = self.size
        units = size.total(frequencies.values, frequencies.keys)
        return size.sampling(Total(units * size.unit, self.privacy.epsilon * size.share, size.sensitivity, size.unit))


@dataclass(frozen=True)
class Expected:
    """What is to be expected of one method; NRMSEs are None where they are not computed."""

    method: str
    keys: float  # reported
    share_of_keys: float
    share_of_elements: float
    visible_from: int | None  # the lowest frequency that is reported with probability 1/2 or more
    nrmse: float | None = None  # of the total: root mean square error, as a share of the truth
    selection_nrmse: float | None = None  # of a random selection of `share` of the keys
    estimator: str | None = None


@dataclass(frozen=True)
class Outlook:
    """What is to be expected of one setting, by PWS and by the baselines."""

    setting: Setting
    sampling: Sampling  # with its tau
    share: float
    private: bool  # whether it tells of private data
    methods: tuple[Expected, ...]
    notes: tuple[str, ...] = ()

    @property
    def pws(self) -> Expected:
        """What dpsample releases."""
        return self.methods[0]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        setting = self.setting
        return {
            "epsilon": text(setting.privacy.epsilon),
            "delta": text(setting.privacy.delta),
            "max_keys_per_user": setting.max_keys_per_user,
            "per_key": setting.per_key.to_json(),
            "sampling": self.sampling.to_json(),
            "sample_size": setting.size.size if setting.size else None,
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
    fast; `quick` computes that of PWS on a coarser table. The baselines have the same privacy for each key.

    >>> found = outlook(Frequencies.zipf(1, 10**5), Setting(Privacy(1, 1e-8)), errors=False)
    >>> for method in found.methods:
    ...     print(f"{method.method:20} {method.keys:6,.0f} {method.share_of_elements:.1%} {method.visible_from}")
    PWS                   5,512 76.2% 19
    SbH                   5,177 75.7% 20
    SbH, tight cutoff     5,374 76.0% 19
    sample and threshold  1,325 64.3% 78
    """
    made, share, notes = Frequencies.of(frequencies), check_selection(share), []
    sampling, privacy = setting.scheme(made), setting.per_key
    i, keys = made.values, made.counts

    def expected(name: str, method: Method) -> Expected:
        if not errors:
            found = covered(i, keys, method.reported(i))
            return Expected(
                name, found.reported_keys, found.share_of_keys, found.share_of_elements, lowest_visible(method)
            )
        each = method.errors(i)
        whole = selected(each, keys, 1.0)
        found = whole.coverage
        return Expected(
            name,
            found.reported_keys,
            found.share_of_keys,
            found.share_of_elements,
            lowest_visible(method),
            whole.nrmse,
            selected(each, keys, share).nrmse,
        )

    ours = covered(i, keys, Pws(sampling, privacy).reported(i))
    numbers, estimator = [None, None], None
    if errors:
        for n, part in enumerate((1.0, share)):
            found, estimator = predicted(i, keys, sampling, privacy, part, quick)
            numbers[n] = None if found is None else found.nrmse
        if estimator == "mle":
            notes.append(
                "epsilon is too small for calibrated estimates: answers are by mle, and have no error bars"
                + ("; how far they are off takes too long to compute" if numbers[0] is None else "")
            )
    visible = frequency_reaching(LIKELY, sampling, privacy)
    methods = [
        Expected(
            PWS, ours.reported_keys, ours.share_of_keys, ours.share_of_elements, visible, *numbers, estimator=estimator
        )
    ]
    if baselines:
        peers = dict(_peers(sampling, privacy))
        methods += [expected(name, method) for name, method in peers.items()]
        if SBH not in peers:
            notes.append("the stability-based histogram is not stated for this sampling")
    return Outlook(setting, sampling, share, made.private, tuple(methods), tuple(notes))


def _peers(sampling: Sampling, privacy: Privacy) -> Iterator[tuple[str, Method]]:
    """The baselines that go with a sampling: without any, sample-and-threshold; else the sample, not private."""
    try:
        yield SBH, StabilityHistogram(privacy, sampling)
        yield TIGHT, StabilityHistogram(privacy, sampling, tight=True)
    except InvalidValue:
        pass
    if not isinstance(sampling, KeepAll):
        yield OPEN, NonPrivate(sampling)
        return
    method = _sample_and_threshold(privacy)
    if method is not None:
        yield SAMPLED, method


@lru_cache(maxsize=64)
def _sample_and_threshold(privacy: Privacy) -> SampleAndThreshold | None:
    try:
        return SampleAndThreshold.for_privacy(privacy)
    except DpsampleError:  # delta is below what floats hold
        return None


def lowest_visible(method: Method, level: float = LIKELY) -> int | None:
    """Return the lowest frequency that a method reports with at least this probability; None if there is none.

    >>> lowest_visible(StabilityHistogram(Privacy(1, 1e-6)))
    15
    """
    high = 1
    while float(method.reported([high])[0]) < level:
        high *= 2
        if high >= 1 << 62:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(method.reported([middle])[0]) < level else (low, middle)
    return high


@dataclass(frozen=True, eq=False)
class Curve:
    """How likely a key of each frequency is to be reported; arrays of one length."""

    frequencies: Ints
    pws: Floats
    sbh: Floats | None  # None where the stability-based histogram is not stated for the sampling
    tight: Floats | None
    sampled: Floats  # q, the most that any method could


def curve(sampling: Sampling, privacy: Privacy, points: int = 200) -> Curve:
    """Return the reporting probabilities at frequencies in equal ratios, up to where hardly more is reported.

    `privacy` is that of one key, as a release's `per_key`.

    >>> drawn = curve(KeepAll(), Privacy(1, 1e-6), points=5)
    >>> drawn.frequencies, drawn.pws.round(3), drawn.sbh.round(3)
    (array([  1,   3,  12,  41, 140]), array([0.   , 0.   , 0.095, 1.   , 1.   ]), array([0.  , 0.  , 0.03, 1.  , 1.  ]))
    """
    pws = Pws(sampling, privacy)
    most = float(pws.reported([sampling.largest])[0])
    half = frequency_reaching(most / 2, sampling, privacy) or 1
    i = np.unique(np.rint(np.geomspace(1, min(10 * half, sampling.largest), points)).astype(np.int64))
    peers = dict(_peers(sampling, privacy)) if not isinstance(sampling, KeepAll) else {
        SBH: StabilityHistogram(privacy), TIGHT: StabilityHistogram(privacy, tight=True)
    }
    sbh, tight = (peers[name].reported(i) if name in peers else None for name in (SBH, TIGHT))
    return Curve(i, pws.reported(i), sbh, tight, sampling.q(i))


def check_selection(share: float) -> float:
    """Check the share of keys that a question selects."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InvalidValue("a share of the keys is above 0 and at most 1", repr(share), "choose one such as 0.01")
    return float(share)

"""The reporting curve: the reporting probability by frequency, ours and that of the stability-based histogram."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dpsample.comparison.accuracy import Method, Pws
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.privacy import Privacy
from dpsample.scheme.bisection import first_integer
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints, Sampling

# names of the methods, in tables, charts and figures
PWS = "PWS"
SBH = "SbH"
TIGHT = "SbH, tight cutoff"
SAMPLED = "sample and threshold"
OPEN = "not private"

LIKELY = 0.5  # the reporting probability at the detection threshold


def histograms(sampling: Sampling, privacy: Privacy | None) -> Iterator[tuple[str, Method]]:
    """Yield the stability-based histograms of this privacy for each key, if they are defined for the sampling."""
    if privacy is None:
        return
    with suppress(InvalidValue):
        yield SBH, StabilityHistogram(privacy, sampling)
        yield TIGHT, StabilityHistogram(privacy, sampling, tight=True)


def detection_threshold_of(method: Method, largest: int = MAX_FREQUENCY) -> int | None:
    """Return the detection threshold of a method, up to the largest frequency; None if it has none.

    >>> detection_threshold_of(StabilityHistogram(Privacy(1, 1e-6)))
    15
    """

    def is_likely(frequency: int) -> bool:
        [probability] = method.reported([frequency])
        return bool(probability >= LIKELY)

    low = 0
    high = 1
    while not is_likely(high):
        if high == largest:
            return None
        low = high
        high = min(2 * high, largest)
    return first_integer(is_likely, low, high)  # the reporting probability does not decrease


@dataclass(frozen=True, eq=False)
class Curve:
    """Reporting probabilities by frequency; arrays of one length."""

    frequencies: Ints
    pws: Floats
    # None if the stability-based histogram is not defined for the sampling, or its privacy unknown
    sbh: Floats | None
    tight: Floats | None
    sampled: Floats  # q, the largest that any method can have


def curve(
    sampling: Sampling, privacy: PerKey, points: int = 200, peers: Privacy | None = None
) -> Curve:
    """Return the reporting probabilities at frequencies in equal ratios, up to ten times the middle of the rise.

    `privacy` is that of one key, as `per_key` of a release. `peers` is that of one key with the stability-based
    histogram (`Budget.composed_per_key`), if it is another: of bounded noise, only this says what it is.

    >>> from dpsample import KeepAll
    >>> line = curve(KeepAll(), Privacy(1, 1e-6), points=4)
    >>> line.frequencies, line.pws.round(3), line.sbh.round(3)
    (array([  1,   5,  27, 140]), array([0., 0., 1., 1.]), array([0., 0., 1., 1.]))
    """
    never_reported = sampling.least - 1  # no key up to here is reported
    length = end_of_rise(sampling, privacy) - never_reported
    in_equal_ratios = np.geomspace(1, length, points)
    distinct = np.unique(np.rint(in_equal_ratios).astype(np.int64))
    return curve_at(never_reported + distinct, sampling, privacy, peers)


def curve_at(
    frequencies: Ints, sampling: Sampling, privacy: PerKey, peers: Privacy | None = None
) -> Curve:
    """Return the reporting probabilities at these frequencies; `privacy` and `peers` are those of `curve`."""
    if peers is None and isinstance(privacy, Privacy):
        peers = privacy
    reported = {}
    for name, method in histograms(sampling, peers):
        reported[name] = method.reported(frequencies)
    return Curve(
        frequencies=frequencies,
        pws=Pws(sampling, privacy).reported(frequencies),
        sbh=reported.get(SBH),
        tight=reported.get(TIGHT),
        sampled=sampling.q(frequencies),
    )


def end_of_rise(sampling: Sampling, privacy: PerKey) -> int:
    """Return the frequency at which a curve ends: ten times as far as where half of the keys are reported that can be.

    Frequencies are counted from the least that is reported.
    """
    [most] = Pws(sampling, privacy).reported([sampling.largest]).tolist()
    half_of_keys = frequency_reaching(most / 2, sampling, privacy) or 1
    never_reported = sampling.least - 1
    length = 10 * (half_of_keys - never_reported)
    return never_reported + min(length, sampling.largest)

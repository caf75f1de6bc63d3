"""The reporting curve: how likely a key of each frequency is to be reported, next to the stability-based histogram."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dpsample.comparison.accuracy import Method, Pws
from dpsample.comparison.baselines import StabilityHistogram
from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.privacy import Privacy
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints, Sampling

PWS, SBH, TIGHT, SAMPLED, OPEN = "PWS", "SbH", "SbH, tight cutoff", "sample and threshold", "not private"


LIKELY = 0.5  # from this reporting probability on a key is likely to be seen


def histograms(sampling: Sampling, privacy: Privacy) -> Iterator[tuple[str, Method]]:
    """The stability-based histograms, where they are stated for the sampling."""
    with suppress(InvalidValue):
        yield SBH, StabilityHistogram(privacy, sampling)
        yield TIGHT, StabilityHistogram(privacy, sampling, tight=True)


def detection_threshold_of(method: Method, largest: int = MAX_FREQUENCY) -> int | None:
    """Return the lowest frequency, up to the largest, that a method is likely to report; None if there is none.

    >>> detection_threshold_of(StabilityHistogram(Privacy(1, 1e-6)))
    15
    """
    low, high = 0, 1
    while float(method.reported([high])[0]) < LIKELY:
        if high == largest:
            return None
        low, high = high, min(2 * high, largest)
    while high - low > 1:  # it does not decrease
        middle = (low + high) // 2
        low, high = (middle, high) if float(method.reported([middle])[0]) < LIKELY else (low, middle)
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

    >>> from dpsample import KeepAll
    >>> drawn = curve(KeepAll(), Privacy(1, 1e-6), points=4)
    >>> drawn.frequencies, drawn.pws.round(3), drawn.sbh.round(3)
    (array([  1,   5,  27, 140]), array([0., 0., 1., 1.]), array([0., 0., 1., 1.]))
    """
    pws = Pws(sampling, privacy)
    most = float(pws.reported([sampling.largest])[0])
    half = frequency_reaching(most / 2, sampling, privacy) or 1
    i = np.unique(np.rint(np.geomspace(1, min(10 * half, sampling.largest), points)).astype(np.int64))
    peers = {name: peer.reported(i) for name, peer in histograms(sampling, privacy)}
    return Curve(i, pws.reported(i), peers.get(SBH), peers.get(TIGHT), sampling.q(i))

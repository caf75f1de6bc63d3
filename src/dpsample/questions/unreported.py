"""What a release tells of a key that it does not report: the key is rare, or absent."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpsample.estimators.estimate import Estimate
from dpsample.exact import check_level
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.release.release import Release

_POINTS = 4096  # frequencies at which the law is computed


def unreported_key(release: "Release", level: float = 0.95) -> Estimate:
    """Bound the frequency of a key that was not reported: one of a larger frequency is reported with this probability.

    >>> from dpsample.release.example import release
    >>> release["unicorn"]
    unknown (95 %: 0 to 16)
      not reported: probably below 17
    """
    reached = frequency_reaching(check_level(level), release.sampling, release.per_key)
    threshold = frequency_reaching(0.5, release.sampling, release.per_key)
    most, note = (math.inf, "not reported") if reached is None else (reached - 1.0, not_reported(reached))
    unknown = Estimate(math.nan, math.nan, 0.0, most, level, detection_threshold=threshold, notes=(note,))
    return replace(unknown, guaranteed=reached is not None)


def not_reported(reached: int) -> str:
    """Return the note about a key that was not reported."""
    return f"not reported: probably below {reached:,}"


def unreported_law(release: "Release") -> tuple[Ints, Floats]:
    """Return frequencies from 0 on, and their probabilities for a key that was not reported, all equally likely before.

    There are so many frequencies that each stands for those up to the next one.
    """
    sampling, privacy = release.sampling, release.per_key
    last = frequency_reaching(1 - 1e-9, sampling, privacy) or min(sampling.largest, 1 << 50)
    i = np.append(0, np.unique(np.geomspace(1, last, _POINTS).astype(np.int64)))
    pi = np.append(0.0, reporting_probabilities(i[1:], sampling, privacy))
    mass = (1 - pi) * np.diff(i, append=last + 1)
    return i, mass / mass.sum()

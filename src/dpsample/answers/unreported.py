"""What a release tells of a key that it does not report: the key is rare, or absent.

Where keys are discovered before their users are counted, that is so if all users of the key gave it. A key of many
users who gave others may be missing, too. So these answers are not guaranteed.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.exact import check_level
from dpsample.answers.counted_keys import normal_probability
from dpsample.answers.single_keys import scheme_of_key
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.answers.release import Release

Normal = tuple[float, float]  # the mean and the deviation of a key's law
_POINTS = 4096  # frequencies at which the law is computed


def unreported_key(release: "Release", level: float = 0.95, key: Any = None) -> Estimate:
    """Bound the frequency of a key that was not reported: one of a larger frequency is reported with this probability.

    Of a coordinated sample, the bound is that of this `key`, from its hash; if it is None, that of a random seed.

    >>> from dpsample.release.example import release
    >>> release["unicorn"]
    unknown (95 %: 0 to 16)
      not reported: probably below 17
    """
    reached = probably_below(release, check_level(level), key)
    most = math.inf if reached is None else reached - 1.0
    threshold = release.terms.detection_threshold
    notes = (not_reported(release, reached),)
    unknown = Estimate(math.nan, math.nan, 0.0, most, level, detection_threshold=threshold, notes=notes)
    return replace(unknown, guaranteed=reached is not None and release.terms.discovery is None)


def probably_below(release: "Release", level: float, key: Any = None) -> int | None:
    """Return the frequency from which on a key is reported with this probability, if there is one.

    Where users give keys that are discovered, it is that of users who gave the key: it may have more. Of a coordinated
    sample it is that of this `key`, by its hash, or over random seeds if it is None.
    """
    known, sampling = release.terms.known, release.sampling if key is None else scheme_of_key(release, key)
    return None if known and known.only else frequency_reaching(level, sampling, release.per_key)


def not_reported(release: "Release", reached: int | None) -> str:
    """Return the note about a key that was not reported."""
    if release.terms.known and release.terms.known.only:
        return "not in the list of known keys: nothing is known of it"
    if reached is None:
        return "not reported"
    gave = "" if release.terms.discovery is None else ", if all of its users gave it"
    return f"not reported: probably below {reached:,}{gave}"


def rank_unreported(
    release: "Release", level: float, keys: int, fewest: Callable[[int], float], key: Any = None
) -> Estimate:
    """Return the rank of a key that was not reported: it comes after the keys that are more frequent than it may be.

    `fewest` bounds from below how many of the selected `keys` have a frequency or more.
    """
    reached = probably_below(release, level, key)
    after = 0.0 if reached is None else fewest(reached)
    return replace(unreported_key(release, level, key), low=1 + after, high=math.inf, keys=keys)


def probability_above(release: "Release", a: Normal | None, b: Normal | None) -> float:
    """Return the probability that key a is more frequent than key b: of normal laws, or of keys that were not reported.

    Where keys are discovered, all users of a key that was not reported count as having given it.
    """
    if a and b:
        return float(normal_probability(np.array([(a[0] - b[0]) / math.hypot(a[1], b[1])]))[0])
    if release.terms.known and release.terms.known.only:
        raise InvalidValue("both keys are known ones", "one that is not in the list", "compare keys of the list")
    i, p = unreported_law(release)
    if a:
        return float(p @ normal_probability(np.asarray((a[0] - i) / a[1], np.float64)))
    if b:
        return float(p @ normal_probability(np.asarray((i - b[0]) / b[1], np.float64)))
    return float(p @ (np.cumsum(p) - p))


def unreported_law(release: "Release", key: Any = None) -> tuple[Ints, Floats]:
    """Return frequencies from 0 on, and their probabilities for a key that was not reported, all equally likely before.

    There are so many frequencies that each stands for those up to the next one.
    """
    sampling = release.sampling if key is None else scheme_of_key(release, key)
    privacy = release.per_key
    last = frequency_reaching(1 - 1e-9, sampling, privacy) or min(sampling.largest, 1 << 50)
    i = np.append(0, np.unique(np.geomspace(1, last, _POINTS).astype(np.int64)))
    pi = np.append(0.0, reporting_probabilities(i[1:], sampling, privacy))
    mass = (1 - pi) * np.diff(i, append=last + 1)
    return i, mass / mass.sum()

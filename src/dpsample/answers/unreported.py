"""What it says of a key that a release does not report it: the key is rare, or absent.

Where keys are discovered before their users are counted, that is so if all users of the key gave it. A key of many
users who gave others may be missing, too. So these answers are not guaranteed.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpsample.estimators.estimate import Estimate
from dpsample.release.terms import Terms
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Sampling

# Frequencies at which the law is computed, in equal ratios; each stands for those up to the next one.
_POINTS = 4096
# The largest frequency of the law, if no frequency is reported with certainty: no data reach it.
_LARGEST = 1 << 50
# Keys that are reported with this probability are taken to be reported.
_CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Silence:
    """What it says of a key that a release does not report it.

    >>> from dpsample.answers.example import release
    >>> Silence.of(release.terms).unreported(0.95)
    unknown (95 %: 0 to 16)
      not reported: probably below 17
    """

    sampling: Sampling
    per_key: PerKey
    detection_threshold: int | None
    discovered: bool = False  # keys were found among those that users gave
    only_listed: bool = False  # only the keys of a public list could be reported

    @staticmethod
    def of(terms: Terms) -> "Silence":
        """Return what silence says in a release of these terms; for a coordinated sample, over random seeds."""
        only_listed = terms.known is not None and terms.known.only
        discovered = terms.discovery is not None
        return Silence(
            terms.sampling, terms.per_key, terms.detection_threshold, discovered, only_listed
        )

    def from_frequency(self, first: int) -> "Silence":
        """Return the same for a key that a coordinated sample has from this frequency on."""
        return replace(self, sampling=KeepAll(at_least=first))

    def probably_below(self, level: float) -> int | None:
        """Return the least frequency at which a key is reported with this probability, if there is one.

        Where users give keys that are discovered, it is that of users who gave the key: it may have more.
        """
        if self.only_listed:
            return None
        return frequency_reaching(level, self.sampling, self.per_key)

    def unreported(self, level: float) -> Estimate:
        """Bound the frequency of a key: one of a larger frequency is reported with this probability."""
        reached = self.probably_below(level)
        most = math.inf if reached is None else reached - 1.0
        found = Estimate(math.nan, math.nan, 0.0, most, level, notes=(self.note(reached),))
        guaranteed = reached is not None and not self.discovered
        return replace(found, detection_threshold=self.detection_threshold, guaranteed=guaranteed)

    def note(self, reached: int | None) -> str:
        """Return the note about a key that was not reported, and is probably below a frequency."""
        if self.only_listed:
            return "not in the list of known keys: nothing is known of it"
        if reached is None:
            return "not reported"
        gave = ", if all of its users gave it" if self.discovered else ""
        return f"not reported: probably below {reached:,}{gave}"

    def law(self) -> tuple[Ints, Floats]:
        """Return frequencies from 0 on, and their probabilities for the key, all equally likely before."""
        certain = frequency_reaching(_CERTAIN, self.sampling, self.per_key)
        last = certain or min(self.sampling.largest, _LARGEST)
        points = np.geomspace(1, last, _POINTS)
        positive = np.unique(points.astype(np.int64))
        reported = reporting_probabilities(positive, self.sampling, self.per_key)
        frequencies = np.append(0, positive)
        missed = 1 - np.append(0.0, reported)
        stands_for = np.diff(frequencies, append=last + 1)
        mass = missed * stands_for
        return frequencies, mass / mass.sum()

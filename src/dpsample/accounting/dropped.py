"""Dropped keys: how many keys users have beyond their contribution bound, measured privately.

With a bound of k keys, a user of m keys keeps min(m, k) of them and drops the others. The total of kept keys has noise
for k keys of each user. The number of dropped keys has no bound, so each user counts there with up to 9 k keys: the
total is the sum of min(max(m - k, 0), 9 k) over users, which one user changes by at most 9 k. Both totals together
count all keys of users, where each user counts with up to 10 k.
"""

import math
from dataclasses import dataclass

from dpsample.accounting.totals import Total
from dpsample.estimators.estimate import Estimate

# Dropped keys of a user count up to this many times the bound. A user of more than 10 k keys keeps less than a tenth of
# them: the bound is then far too small anyway. A larger multiple has proportionally more noise, in vain if few users
# have as many keys.
TIMES = 9


def most_dropped(max_keys: int) -> int:
    """Return the largest number of dropped keys with which a user counts, for a contribution bound."""
    return TIMES * max_keys


@dataclass(frozen=True)
class Kept:
    """The part of their keys that users kept, from private totals of the keys that users kept and dropped.

    `in_all` is the number of pairs of a user and a key before users were bounded, where each user counts with up to
    `most` keys; `share` is the part of them that was kept. Their intervals have at least their nominal coverage: half
    of the probability of a miss goes to the noise of each total. They are about all keys together. A single key may
    have lost more or less, depending on how many other keys its users have.

    >>> from fractions import Fraction
    >>> kept = Kept(Total(410_000, Fraction(1), Fraction(20)), Total(590_000, Fraction(1), Fraction(180)))
    >>> kept.share(), kept.in_all(), kept.most
    (0.41 (95 %: 0.4097 to 0.4103), 1,000,000 (95 %: 999,262 to 1,000,738), 200)
    >>> print(kept)
    users kept about 41 % of their keys (95 %: 41 to 41 %), of about 1,000,000 in all (95 %: 999,262 to 1,000,738),
    where each user counts with up to 200
    """

    total: Total
    dropped: Total

    @property
    def most(self) -> int:
        """The largest number of keys with which a user counts, kept and dropped together."""
        return int(self.total.sensitivity + self.dropped.sensitivity)

    def in_all(self, level: float = 0.95) -> Estimate:
        """Estimate the number of all keys of users, kept or dropped."""
        kept, dropped = self._estimates(level)
        number = max(kept.value, 0.0) + max(dropped.value, 0.0)
        error = math.hypot(kept.standard_error, dropped.standard_error)
        low = kept.low + dropped.low
        high = kept.high + dropped.high
        return Estimate(number, error, low, high, level)

    def share(self, level: float = 0.95) -> Estimate:
        """Estimate the part of their keys that users kept, k / (k + d) for k kept and d dropped keys.

        Its error follows from the errors of both totals by propagation: the derivatives are d / (k + d)**2 and
        -k / (k + d)**2.
        """
        kept, dropped = self._estimates(level)
        k = max(kept.value, 0.0)
        d = max(dropped.value, 0.0)
        error = math.nan
        if k + d:
            by_kept = d * kept.standard_error
            by_dropped = k * dropped.standard_error
            error = math.hypot(by_kept, by_dropped) / (k + d) ** 2
        low = kept.low / (kept.low + dropped.high) if kept.low else 0.0
        high = kept.high / (kept.high + dropped.low) if kept.high else 1.0
        share = k / (k + d) if k else high
        return Estimate(share, error, low, high, level)

    def _estimates(self, level: float) -> tuple[Estimate, Estimate]:
        """Return estimates of both totals whose intervals hold together with this level."""
        level_of_each = (1 + level) / 2
        return self.total.estimate(level_of_each), self.dropped.estimate(level_of_each)

    def __str__(self) -> str:
        share = self.share()
        in_all = self.in_all()
        share_interval = f"95 %: {100 * share.low:.3g} to {100 * share.high:.3g} %"
        number_interval = f"95 %: {in_all.low:,.0f} to {in_all.high:,.0f}"
        return (
            f"users kept about {100 * share.value:.3g} % of their keys ({share_interval}), of about "
            f"{in_all.value:,.0f} in all ({number_interval}), where each user counts with up to {self.most:,}"
        )

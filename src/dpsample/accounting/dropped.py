"""Dropped keys: how many keys users have beyond their contribution bound, measured privately.

With a bound of k keys, a user of m keys keeps min(m, k) of them and drops the others. The total of what is kept has
noise for k keys of each user. What is dropped has no bound, so each user counts there with up to 9 k keys: the total of
min(max(m - k, 0), 9 k) over users, which one user changes by at most 9 k. Both totals together are all keys of users,
where each user counts with up to 10 k.
"""

import math
from dataclasses import dataclass

from dpsample.accounting.totals import Total
from dpsample.estimators.estimate import Estimate

# A user of more than 10 k keys keeps less than a tenth of them: the bound is then far too small anyway. A larger
# multiple has proportionally more noise, which is for nothing if few users have as many keys.
TIMES = 9


def most_dropped(max_keys: int) -> int:
    """Return up to how many dropped keys of a user count, with a contribution bound."""
    return TIMES * max_keys


@dataclass(frozen=True)
class Kept:
    """How much of their keys users kept: private totals of keys that users kept and dropped.

    `in_all` is the number of pairs of a user and a key before users were bounded, where each user counts with up to
    `most` keys; `share` is the part of them that was kept. Their intervals hold with at least their level: half of the
    probability of a miss goes to the noise of each total. They are about all keys together. A single key may have lost
    more or less: it depends on how many other keys its users have.

    >>> from fractions import Fraction
    >>> kept = Kept(Total(410_000, Fraction(1), Fraction(20)), Total(590_000, Fraction(1), Fraction(180)))
    >>> kept.share(), kept.in_all(), kept.most
    (0.41 (95 %: 0.4097 to 0.4103), 1,000,000 (95 %: 999,262 to 1,000,738), 200)
    >>> print(kept)
    users kept about 41 % of their keys (95 %: 41 to 41 %), of about 1,000,000 in all (95 %: 999,262 to 1,000,738),
    where each user counts with up to 200
    """

    total: Total  # of keys that users kept
    dropped: Total

    @property
    def most(self) -> int:
        """Up to how many keys of each user count."""
        return int(self.total.sensitivity + self.dropped.sensitivity)

    def in_all(self, level: float = 0.95) -> Estimate:
        """Estimate the number of all keys of users, kept or dropped."""
        kept, dropped = self._estimates(level)
        error = math.hypot(kept.standard_error, dropped.standard_error)
        ends = kept.low + dropped.low, kept.high + dropped.high
        return Estimate(max(kept.value, 0.0) + max(dropped.value, 0.0), error, *ends, level)

    def share(self, level: float = 0.95) -> Estimate:
        """Estimate the part of their keys that users kept."""
        kept, dropped = self._estimates(level)
        k, d = max(kept.value, 0.0), max(dropped.value, 0.0)
        error = (
            math.hypot(d * kept.standard_error, k * dropped.standard_error) / (k + d) ** 2
            if k + d
            else math.nan
        )
        low = kept.low / (kept.low + dropped.high) if kept.low else 0.0
        high = kept.high / (kept.high + dropped.low) if kept.high else 1.0
        return Estimate(k / (k + d) if k else high, error, low, high, level)

    def _estimates(self, level: float) -> tuple[Estimate, Estimate]:
        half = (1 + level) / 2
        return self.total.estimate(half), self.dropped.estimate(half)

    def __str__(self) -> str:
        share, in_all = self.share(), self.in_all()
        ends = f"95 %: {100 * share.low:.3g} to {100 * share.high:.3g} %"
        return (
            f"users kept about {100 * share.value:.3g} % of their keys ({ends}), of about {in_all.value:,.0f} in all "
            f"(95 %: {in_all.low:,.0f} to {in_all.high:,.0f}), where each user counts with up to {self.most:,}"
        )

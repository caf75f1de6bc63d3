"""Several releases of one kind, as of the days of a week: what they say together, and what changed between them.

checks       which releases may be combined, and what they cost together
keys         the keys of all releases, each with its token in each of them
unreported   what a key has in the releases that do not report it: a bound, and an estimate
totals       the frequency of a key over all releases, with its interval
numbers      numbers of keys that are frequent in some release
sums         sums, numbers of keys and means over all releases
order        quantiles, top k, ranks and comparisons over all releases
several      the evidence of several releases: that of each, added up
combined     `combine`: the object that answers these questions
hypotheses   what has not changed, and the evidence against it: as counted, beyond chance, of shares
changes      `changes`: keys that rose or fell, at a rate of false discoveries

All of it is post-processing: it sees releases alone.
"""

from dpsample.periods.changes import Changes, changes
from dpsample.periods.combined import Combined, combine

__all__ = ["Changes", "Combined", "changes", "combine"]

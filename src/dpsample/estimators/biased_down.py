"""The estimator of the paper's Appendix D: on average never above the truth."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.estimators.measures import Measure
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.token_columns import consecutive_supports
from dpsample.scheme.tokens import check_grid

# The largest token, in units of 1/grid. They are reached one after the other: a larger limit takes minutes.
LIMIT = 1 << 22
# The number of rows by which a table grows: many, so that it is copied seldom.
_MORE_ROWS = 1 << 16


def biased_down(
    cells: ArrayLike,
    sampling: Sampling,
    privacy: PerKey,
    grid: int = 1,
    of: Measure | str = "frequency",
) -> Floats:
    """Estimate so that the expected estimate is at most the truth, at every frequency: a lower bound, on average.

    `cells` are tokens in units of 1/grid, and `of` is g. Row i is the token law of frequency i. Let ``r_ij`` be the
    value that token j and all above it would need for the expectation of row i to be g(i):

        r_ij = (g(i) - sum of a_h pi_ih over h < j) / (sum of pi_ih over h >= j)
        a_j  = min of r_ij over i with pi_ij > 0

    For the frequency itself, without sampling, estimates do not decrease with the token, in any case tried. Elsewhere
    they may, although the paper says that they do not: a row that comes in with a token can need less than the others.

    One token after the other, from the first: about 20 seconds for a million at epsilon = 0.1. Tokens above 2**22 are
    refused.

    >>> from dpsample import KeepAll, Privacy
    >>> biased_down([1, 10, 1000], KeepAll(), Privacy(1, 1e-6)).round(2)
    array([  16.68,   16.68, 1008.65])
    """
    wanted = as_frequencies(cells)
    grid = check_grid(grid)
    last = int(wanted.max(initial=1))
    check_within(last, min(LIMIT, sampling.largest * grid), "biased_down")
    table = _table(sampling, privacy, grid, Measure.of(of), table_size(last, LIMIT))
    return table[wanted]


def check_within(last: int, limit: int, name: str) -> None:
    """Refuse tokens that are too far out to be reached one after the other."""
    if last > limit:
        raise InvalidValue(
            f"{name} takes tokens up to {limit} units of 1/grid, not larger ones", "use mle"
        )


def table_size(last: int, limit: int) -> int:
    """Return the last token of a table that holds this one: a power of two, so that there are few tables."""
    return min(1 << max((last - 1).bit_length(), 10), limit)


def grown(table: Floats, size: int, more: Callable[[Ints], Floats], largest: int) -> Floats:
    """Return a table of the rows from 1 on that is extended to this size, if it is shorter.

    `more` returns the values of new rows, of which there are none beyond `largest`.
    """
    if size <= len(table):
        return table
    last = min(size + _MORE_ROWS, largest)
    new_rows = np.arange(len(table) + 1, last + 1)
    return np.append(table, more(new_rows))


@lru_cache(maxsize=16)
def _table(sampling: Sampling, privacy: PerKey, grid: int, measure: Measure, last: int) -> Floats:
    """Return a_j of tokens j = 0 .. last; token 0, which there is not, gets 0.

    When a_j is fixed, r of each row grows by ``(r - a_j) odds``, the odds being pi_ij over the sum of pi_ih over h > j.
    """
    reporting = Reporting.of(sampling, privacy)
    end = sampling.largest

    def need_before_all_tokens(i: Ints) -> Floats:
        pi = reporting.probabilities(i)
        ratio = np.full(i.shape, np.inf)
        np.divide(measure(i), pi, out=ratio, where=pi > 0)
        return ratio

    estimates = np.zeros(min(last, end * grid) + 1)
    need = np.empty(0)  # r of the rows from 1 on
    supports = consecutive_supports(reporting, grid, len(estimates) - 1)
    for j, (first, mass, odds) in enumerate(supports, start=1):
        last_row = first - 1 + len(mass)
        need = grown(need, last_row, need_before_all_tokens, end)
        r = need[first - 1 : last_row]
        if not len(r):
            continue
        estimates[j] = r.min()
        growth = (r - estimates[j]) * odds  # never negative, so nothing cancels
        need[first - 1 : last_row] = r + growth
    estimates.setflags(write=False)
    return estimates

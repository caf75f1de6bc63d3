"""The unbiased estimator: right on average, and useless for nearly everything else."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import DpsampleWarning, InvalidValue, warn
from dpsample.estimators.biased_down import check_within, grown, table_size
from dpsample.estimators.measures import Measure
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies
from dpsample.scheme.token_columns import consecutive_supports
from dpsample.scheme.tokens import check_grid, first_frequency

LIMIT = (
    1 << 22
)  # the largest frequency. They are reached one after the other: a larger limit takes minutes
_LARGEST = 1e150  # of an estimate, so that its square is finite


def unbiased(
    cells: ArrayLike,
    sampling: Sampling,
    privacy: PerKey,
    grid: int = 1,
    of: Measure | str = "frequency",
) -> Floats:
    """Estimate without bias: the solution of ``sum over j of pi_ij a_j = g(i)`` for all i. For study, not for use.

    `cells` are tokens in units of 1/grid, and `of` is g. The system is triangular, so integer tokens have exactly one
    solution; a finer token gets that of the integer from which it comes. Without sampling, with E = exp(epsilon), the
    estimate of token h is (h - E (h - 1)) / delta up to L + 1 (`steps_to_one`): it starts at 1/delta, falls along a
    line, and is negative from where h exceeds 1/(1 - 1/E). From there on signs come in runs of about L tokens, and
    sizes grow by about 1/delta from run to run. So the variance, which `dpsample.comparison.accuracy` states, is
    enormous. Hence the warning. If delta is so large that no h up to L + 1 exceeds 1/(1 - 1/E), all estimates may be
    positive (docs/theory.md, section 6).

    One token after the other, about 20 seconds for a million. Frequencies above 2**22 are refused, and so are tokens
    whose estimates are above 1e150: from about 340 / epsilon on, unless q is at most delta throughout.

    >>> from dpsample import KeepAll, Privacy
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     unbiased([1, 2, 10, 20], KeepAll(), Privacy(1, 1e-6)).round()
    array([ 1.00000000e+06, -7.18282000e+05, -1.44645360e+07,  -1.11444578e+13])
    """
    wanted = as_frequencies(cells)
    grid = check_grid(grid)
    first = first_frequency(wanted, grid)
    last = int(first.max(initial=1))
    check_within(last, min(LIMIT, sampling.largest), "unbiased")
    table = _table(sampling, privacy, Measure.of(of), table_size(last, LIMIT))
    estimate = table[first]
    if not np.isfinite(estimate).all():
        raise InvalidValue(
            "a token has no unbiased estimate, or one above 1e150: these grow without bound where privacy binds, and "
            "need q above 0 everywhere",
            "use mle",
        )
    warn(
        "unbiased estimates may be negative, and their variance is enormous: for study only; use mle",
        DpsampleWarning,
    )
    return estimate


@lru_cache(maxsize=16)
def _table(sampling: Sampling, privacy: PerKey, measure: Measure, last: int) -> Floats:
    """Return a_j of integer tokens j = 0 .. last; token 0 gets 0.

    They are infinite from the first token on that has no estimate, or too large a one.
    """
    reporting = Reporting.of(sampling, privacy)
    end = sampling.largest
    estimates = np.full(min(last, end) + 1, np.inf)
    estimates[0] = 0
    # g(i) less the expectation of the values of the tokens before j, for the rows i from 1 on
    missing = np.empty(0)
    supports = consecutive_supports(reporting, 1, len(estimates) - 1)
    for j, (_, mass, _) in enumerate(supports, start=1):
        rows = slice(j - 1, j - 1 + len(mass))
        missing = grown(missing, max(rows.stop, j), measure, end)
        # row j has no token above j, so a_j alone must bring what is missing there
        wanted = missing[j - 1]
        if wanted and (not len(mass) or abs(wanted) > mass[0] * _LARGEST):
            break
        estimates[j] = wanted / mass[0] if wanted else 0.0
        missing[rows] -= estimates[j] * mass
    estimates.setflags(write=False)
    return estimates

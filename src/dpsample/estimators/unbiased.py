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

LIMIT = 1 << 22  # rows
_MOST = 1e150  # so that squares are finite


def unbiased(
    cells: ArrayLike,
    sampling: Sampling,
    privacy: PerKey,
    grid: int = 1,
    of: Measure | str = "frequency",
) -> Floats:
    """Estimate without bias: the solution of ``sum over j of pi_ij a_j = g(i)`` for all i. For study, not for use.

    The system is triangular, so integer tokens have exactly one solution; a finer token gets that of the integer from
    which it comes. Without sampling, with E = exp(epsilon), the estimate of token h is (h - E (h - 1)) / delta up to
    L + 1 (`steps_to_one`): it starts at 1/delta, falls along a line, and is negative from where h exceeds 1/(1 - 1/E).
    From there on signs come in runs of about L tokens, and sizes grow by about 1/delta from run to run. So the
    variance, which `dpsample.comparison.accuracy` states, is enormous. Hence the warning. If delta is so large that no
    h up to L + 1 exceeds 1/(1 - 1/E), all estimates may be positive (docs/theory.md, section 6).

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
    estimate = _table(sampling, privacy, Measure.of(of), table_size(last, LIMIT))[first]
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
    """a_j of integer tokens 0 .. last, infinite from where there is none or it is too large; token 0 gets 0."""
    reporting, end = Reporting.of(sampling, privacy), sampling.largest
    estimates = np.full(min(last, end) + 1, np.inf)
    estimates[0] = 0
    left = np.empty(0)  # g(i) less what the tokens so far bring, for the rows from 1 on
    supports = consecutive_supports(reporting, 1, len(estimates) - 1)
    for j, (_, mass, _) in enumerate(supports, start=1):
        left = grown(left, max(j - 1 + len(mass), j), measure, end)
        wanted = left[j - 1]
        if wanted and (not len(mass) or abs(wanted) > mass[0] * _MOST):
            break
        estimates[j] = wanted / mass[0] if wanted else 0.0
        left[j - 1 : j - 1 + len(mass)] -= estimates[j] * mass
    estimates.setflags(write=False)
    return estimates

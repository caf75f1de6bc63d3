"""The laws of a whole release, end to end."""

from collections import Counter

import numpy as np
import pyarrow as pa
from scipy import stats

from dpsample import Privacy, Release
from dpsample.scheme import reporting_probabilities, token_law

PRIVACY = Privacy(0.5, 1e-3)
FREQUENCIES = (1, 4, 9, 15, 30, 80)


def _tail(count: int, n: int, p: float) -> float:
    """The smaller of the two tails of a binomial at a count."""
    return float(min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)))


def elements(keys: int) -> pa.Table:
    """`keys` keys of each frequency, as raw elements; the key is frequency * 10**6 + number."""
    frequency = np.repeat(np.array(FREQUENCIES), keys)
    number = np.tile(np.arange(keys), len(FREQUENCIES))
    return pa.table({"key": np.repeat(frequency * 10**6 + number, frequency)})


def assert_law(made: Release, n: int) -> None:
    """The reports and tokens of `elements(n)` are as likely as not; the odds are those of the test above."""
    sampling = made.sampling
    frequency = made.table["key"].to_numpy() // 10**6
    cells = np.rint(made.table["token"].to_numpy() * made.grid).astype(int)
    assert set(frequency.tolist()) <= set(FREQUENCIES)
    for i in FREQUENCIES:
        drawn = cells[frequency == i]
        pi = float(reporting_probabilities([i], sampling, PRIVACY)[0])
        assert _tail(len(drawn), n, pi) > 1e-12
        law = token_law(i, sampling, PRIVACY, made.grid or 1)
        seen = Counter(drawn.tolist())
        assert set(seen) <= set(law.cells.tolist())
        for cell, p in zip(law.cells.tolist(), law.probabilities.tolist(), strict=True):
            assert _tail(seen[cell], n, p) > 1e-12

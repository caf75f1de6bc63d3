"""Earlier: the frequencies that an earlier release lets estimate, to plan the next one. It is post-processing."""

import numpy as np

from dpsample.answers.release import Release
from dpsample.comparison.reporting_curve import LIKELY
from dpsample.errors import InvalidValue
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tally import Tally
from dpsample.planning.frequencies import Frequencies
from dpsample.release.rows import token_cells
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme


def estimated_frequencies(release: Release) -> Frequencies:
    """Return how many keys have each frequency, from the release's detection threshold on (`known_from`).

    A reported key stands for 1/pi keys, and its token for the frequencies that it may come from. With a contribution
    bound, frequencies are those of users who kept a key. Rarer keys are unknown, and left out.

    >>> import dpsample
    >>> release = dpsample.release({"weather": 5000, "news": 3000}, privacy=(1, 1e-8))
    >>> estimated_frequencies(release).total
    2
    """
    if release.grid is None:
        raise InvalidValue(
            "the earlier release has no tokens to plan from", "name another, or a --histogram"
        )
    threshold = frequency_reaching(LIKELY, release.sampling, release.per_key)
    if threshold is None:
        raise _nothing_known()

    tally = Tally.of(token_cells(release.table["token"], release.grid))
    scheme = Scheme(release.sampling, release.per_key, release.grid)
    estimated = spectrum(tally, scheme)
    known = estimated.frequencies >= threshold
    values = estimated.frequencies[known]
    keys = _whole_numbers(estimated.keys[known])
    present = keys > 0
    if not present.any():
        raise _nothing_known()
    return Frequencies(values[present], keys[present], private=False, known_from=threshold)


def _whole_numbers(keys: Floats) -> Ints:
    """Round estimated numbers of keys, so that their sum is rounded once: fractions of keys are not lost."""
    keys_up_to = np.rint(np.cumsum(keys))
    rounded: Ints = np.diff(keys_up_to, prepend=0.0).astype(np.int64)
    return rounded


def _nothing_known() -> InvalidValue:
    return InvalidValue(
        "the earlier release has no keys at or above its detection threshold",
        "name another, or use --zipf",
    )

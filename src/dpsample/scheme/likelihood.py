"""From a token to the frequencies that it tells of: the likeliest one, and those that no test rejects.

Each frequency multiplies the probabilities of tokens by a factor that does not decrease with the token (`tokens`: the
tail map is concave). So what is here does not decrease with the token either: it orders keys as tokens do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.law import Law
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.token_columns import exceedances, supports
from dpsample.scheme.tokens import check_grid, first_frequency, support_length

# rows times tokens at once: large, since each block walks through the supports anew
_BLOCK = 1 << 20
_LEAST = 128  # tokens at once, likewise
# relative: what is closer is equal, so that no result depends on one machine's rounding
_TIE = 1e-9


def likeliest_frequencies(
    cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1
) -> Ints:
    """Return the frequency i at which each token, in units of 1/grid, has its largest probability; of equal ones, the
    lowest.

    A token's two boundaries are followed over its support. Tokens may be as large as frequencies.

    >>> from dpsample import KeepAll, Privacy
    >>> likeliest_frequencies([1, 10**9], KeepAll(), Privacy(1, 1e-6))
    array([        14, 1000000013])
    """
    reporting = Reporting.of(sampling, privacy)
    if (
        isinstance(reporting, HeldReporting) and reporting.every == 1
    ):  # one law, shifted, that falls beyond the noise
        mass = np.diff(reporting.phi(np.arange(reporting.cells + 2)))
        gaps = np.arange(len(mass))
        shift = int(_likeliest(gaps[None], mass[None])[0])
        return np.minimum(as_frequencies(cells), MAX_FREQUENCY - shift) + shift

    def of(walked: Ints, reporting: Law) -> Ints:
        return _likeliest(*supports(walked, reporting, grid))[None]

    likeliest: Ints = _by_token(cells, sampling, privacy, grid, of, 1)[0]
    return likeliest


def likely_frequencies(
    cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1, level: float = 0.95
) -> tuple[Ints, Ints, Ints]:
    """Return the likeliest frequency of each token's key, and the ends of the confidence interval of its frequency.

    Along a stream, where what was not counted is geometric, the likeliest frequency says little. There, the value is
    the median: the frequency under which larger and smaller tokens are as likely.

    The interval has the frequencies that neither one-sided test of level (1 - level) / 2 rejects: tokens as large, and
    tokens as small, have at least that probability for a reported key. So it covers each frequency with at least the
    probability `level`, whatever other keys there are. It is extended to the likeliest frequency where that lies
    outside, at tokens that nearly no key has.

    >>> from dpsample import KeepAll, Privacy
    >>> [ends.tolist() for ends in likely_frequencies([1, 30, 10**9], KeepAll(), Privacy(1, 1e-6))]
    [[14, 43, 1000000013], [1, 40, 1000000010], [17, 46, 1000000016]]
    """
    tail = (1 - level) / 2
    if isinstance(sampling, SampleAndHold):
        return _held(as_frequencies(cells), Reporting.of(sampling, privacy), tail)

    def of(walked: Ints, reporting: Law) -> Ints:
        frequencies, mass, above, at_least = exceedances(walked, reporting, grid)
        likeliest = _likeliest(frequencies, mass)
        nearly_tail = (1 - _TIE) * tail
        rejected_as_too_low = (at_least < nearly_tail).sum(1)
        not_rejected_as_too_high = (above <= 1 - nearly_tail).sum(1)
        token = np.arange(len(mass))
        last = mass.shape[1] - 1
        lowest = rejected_as_too_low.clip(max=last)
        highest = (not_rejected_as_too_high - 1).clip(min=0)
        low = np.minimum(frequencies[token, lowest], likeliest)
        high = np.maximum(frequencies[token, highest], likeliest)
        return np.stack([likeliest, low, high])

    likeliest, low, high = _by_token(cells, sampling, privacy, grid, of, 3)
    return likeliest, low, high


def _held(tokens: Ints, reporting: Law, tail: float) -> tuple[Ints, Ints, Ints]:
    """The median frequency of the key of each token, and the ends of its interval, along a stream.

    They are sought in steps of about 1/1000 of the error, the ends outward, so that no result depends on one machine's
    rounding.
    """
    assert isinstance(reporting, HeldReporting)
    step = _search_steps(tokens, reporting)
    farthest = np.minimum(reporting.cells + int(64 / reporting.hold.s), MAX_FREQUENCY - tokens)
    last = farthest // step

    def token_at_most(k: Ints) -> Floats:
        """The probability that a reported key of frequency token + k has a token of at most token."""
        frequency = tokens + k
        gap = reporting.phi(k, True) - reporting.phi(frequency, True)
        return np.asarray(gap / reporting.phi(frequency))

    def token_at_least(k: Ints) -> Floats:
        """The same for a token of at least token."""
        return np.asarray(reporting.phi(k + 1) / reporting.phi(tokens + k))

    def first(reached: Callable[[Ints], Any]) -> Ints:
        """The first number of steps from the token at which the condition holds."""
        return _first_reached(lambda steps: reached(steps * step), last)

    nearly_tail = (1 - _TIE) * tail
    median = first(lambda k: token_at_least(k) + 1 - token_at_most(k) >= 1)
    not_too_low = first(lambda k: token_at_least(k) >= nearly_tail)
    too_high = first(lambda k: token_at_most(k) < nearly_tail)
    value = tokens + median * step
    last_too_low = (not_too_low - 1) * step
    low = tokens + np.maximum(last_too_low + 1, 0)
    high = tokens + too_high * step - 1
    return value, np.minimum(low, value), np.maximum(high, value)


def _search_steps(tokens: Ints, reporting: HeldReporting) -> Ints:
    """The power of two next to a thousandth of each token's error, which is 1/s or the token itself; at least 1."""
    error = np.minimum(tokens, int(1 / reporting.hold.s)).astype(np.float64)
    exponent = np.frexp(error)[1].astype(np.int64)
    steps: Ints = 1 << np.maximum(exponent - 11, 0)
    return steps


def _first_reached(reached: Callable[[Ints], Any], last: Ints) -> Ints:
    """The first number, from 0 to `last`, at which a condition holds that holds from there on; by bisection."""
    low, high = np.full_like(last, -1), last.copy()
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 0)
        at_middle = reached(middle)
        low = np.where(at_middle, low, middle)
        high = np.where(at_middle, middle, high)
    return np.asarray(high)


def _by_token(
    cells: ArrayLike,
    sampling: Sampling,
    privacy: PerKey,
    grid: int,
    of: Callable[[Ints, Law], Ints],
    k: int,
) -> Ints:
    """Return the k frequencies [k, ...] that follow from each token; tokens that are shifts are computed once."""
    distinct, back = np.unique(as_frequencies(cells), return_inverse=True)
    grid = check_grid(grid)
    reporting = Reporting.of(sampling, privacy)
    # a token that is new where pi is constant has the column of the first such token, shifted
    shift = np.maximum(first_frequency(distinct, grid) - reporting.constant_from, 0)
    walked, place = np.unique(distinct - shift * grid, return_inverse=True)
    results = np.empty((k, len(walked)), np.int64)
    at_once = max(_LEAST, _BLOCK // support_length(privacy))
    for start in range(0, len(walked), at_once):
        part = slice(start, start + at_once)
        results[:, part] = of(walked[part], reporting)
    # probabilities rise up to the likeliest frequency; where a sequence of q ends before it, its last one is that
    by_token = np.minimum(results[:, place] + shift, sampling.largest)
    return by_token[:, back].reshape(k, *np.shape(cells))


def _likeliest(frequencies: Ints, mass: Floats) -> Ints:
    """The first frequency of each token at which its probability is the largest, but for rounding."""
    largest = mass.max(1, keepdims=True)
    first = np.argmax(mass >= (1 - _TIE) * largest, axis=1)
    likeliest: Ints = frequencies[np.arange(len(mass)), first]
    return likeliest

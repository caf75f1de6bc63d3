"""From a token to frequencies: the likeliest one, and those that no test rejects.

Each frequency multiplies the probabilities of tokens by a factor that does not decrease with the token, since the map
of `tail_map` is concave. So the likeliest frequency and both ends of an interval do not decrease with the token either:
they order keys as tokens do.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.law import Law
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Flags, Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.token_columns import exceedances, supports
from dpsample.scheme.tokens import check_grid, first_frequency, support_length

_BLOCK = (
    1 << 20
)  # rows times tokens at once: large, since each block walks through the supports anew
_LEAST = 128  # tokens at once, likewise
# relative: probabilities that are closer are equal, so that no result depends on one machine's rounding
_TIE = 1e-9
_LONGEST_STAY = (
    64  # times 1/s: a key that was not picked in so many elements has a probability below exp(-64)
)
_STEP_BITS = 11  # intervals of a stream are sought in steps of 2**-11 to 2**-10 of the error


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
    if isinstance(reporting, HeldReporting) and reporting.every == 1:
        shift = _likeliest_noise(reporting)
        return np.minimum(as_frequencies(cells), MAX_FREQUENCY - shift) + shift

    def likeliest_of(tokens: Ints, reporting: Law) -> Ints:
        frequencies, mass = supports(tokens, reporting, grid)
        return _likeliest(frequencies, mass)[None]

    likeliest: Ints = _by_token(cells, sampling, privacy, grid, likeliest_of, 1)[0]
    return likeliest


def _likeliest_noise(reporting: HeldReporting) -> int:
    """Return how far the likeliest frequency of a stream's token lies above it: laws are one law, shifted."""
    mass = np.diff(reporting.phi(np.arange(reporting.cells + 2)))  # beyond the noise it falls
    noise = np.arange(len(mass))
    [likeliest] = _likeliest(noise[None], mass[None]).tolist()
    return int(likeliest)


def likely_frequencies(
    cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int = 1, level: float = 0.95
) -> tuple[Ints, Ints, Ints]:
    """Return the likeliest frequency of each token's key, and the ends of the confidence interval of its frequency.

    Along a stream, where a geometric number of elements was not counted, the likeliest frequency says little. There,
    the value is the median: the frequency under which larger and smaller tokens are as likely.

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
        reporting = Reporting.of(sampling, privacy)
        assert isinstance(reporting, HeldReporting)
        return _of_held_keys(as_frequencies(cells), reporting, tail)

    def likely_of(tokens: Ints, reporting: Law) -> Ints:
        frequencies, mass, above, at_least = exceedances(tokens, reporting, grid)
        likeliest = _likeliest(frequencies, mass)
        # both probabilities grow with the frequency, so that counts are places in a row
        nearly_tail = (1 - _TIE) * tail
        rejected_as_too_low = (at_least < nearly_tail).sum(1)
        not_rejected_as_too_high = (above <= 1 - nearly_tail).sum(1)
        last = mass.shape[1] - 1
        lowest = rejected_as_too_low.clip(max=last)
        highest = (not_rejected_as_too_high - 1).clip(min=0)
        token = np.arange(len(mass))
        low = np.minimum(frequencies[token, lowest], likeliest)
        high = np.maximum(frequencies[token, highest], likeliest)
        return np.stack([likeliest, low, high])

    likeliest, low, high = _by_token(cells, sampling, privacy, grid, likely_of, 3)
    return likeliest, low, high


def _of_held_keys(tokens: Ints, reporting: HeldReporting, tail: float) -> tuple[Ints, Ints, Ints]:
    """Return the median frequency of the key of each token of a stream, and the ends of its interval.

    They are sought in steps of about 1/1000 of the error, the ends outward, so that no result depends on one machine's
    rounding.
    """
    step = _search_steps(tokens, reporting)
    longest = reporting.cells + int(_LONGEST_STAY / reporting.hold.s)
    last = np.minimum(longest, MAX_FREQUENCY - tokens) // step

    def token_at_most(k: Ints) -> Floats:
        """Return the probability that a reported key of frequency token + k has a token of at most token."""
        frequency = tokens + k
        gap = reporting.phi(k, True) - reporting.phi(frequency, True)
        return np.asarray(gap / reporting.phi(frequency))

    def token_at_least(k: Ints) -> Floats:
        """Return the probability that it has a token of at least token."""
        return np.asarray(reporting.phi(k + 1) / reporting.phi(tokens + k))

    def first(is_reached: Callable[[Ints], Flags]) -> Ints:
        """Return the first number of steps from the token at which the condition holds."""
        return _first_reached(lambda steps: is_reached(steps * step), last)

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
    """Return the power of two next to a thousandth of each token's error, 1/s or the token itself; at least 1."""
    error = np.minimum(tokens, int(1 / reporting.hold.s)).astype(np.float64)
    _, exponent = np.frexp(error)
    steps: Ints = 1 << np.maximum(exponent.astype(np.int64) - _STEP_BITS, 0)
    return steps


def _first_reached(is_reached: Callable[[Ints], Flags], last: Ints) -> Ints:
    """Return the first numbers, from 0 to `last`, at which a condition holds that stays true; by bisection."""
    low = np.full_like(last, -1)
    high = last.copy()
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 0)
        at_middle = is_reached(middle)
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
    """Return the k frequencies [k, ...] that follow from each token by `of`.

    `of` is asked once for tokens whose columns are shifts of one another: a token that is new where pi is constant has
    the column of the first such token.
    """
    tokens, back = np.unique(as_frequencies(cells), return_inverse=True)
    grid = check_grid(grid)
    reporting = Reporting.of(sampling, privacy)
    shift = np.maximum(first_frequency(tokens, grid) - reporting.constant_from, 0)
    distinct, place = np.unique(tokens - shift * grid, return_inverse=True)
    results = np.empty((k, len(distinct)), np.int64)
    at_once = max(_LEAST, _BLOCK // support_length(privacy))
    for start in range(0, len(distinct), at_once):
        part = slice(start, start + at_once)
        results[:, part] = of(distinct[part], reporting)
    # probabilities rise up to the likeliest frequency; where a sequence of q ends before it, its last one is that
    by_token = np.minimum(results[:, place] + shift, sampling.largest)
    return by_token[:, back].reshape(k, *np.shape(cells))


def _likeliest(frequencies: Ints, mass: Floats) -> Ints:
    """Return the first frequency of each token at which its probability is the largest, but for rounding."""
    largest = mass.max(1, keepdims=True)
    is_largest = mass >= (1 - _TIE) * largest
    first = np.argmax(is_largest, axis=1)
    token = np.arange(len(mass))
    likeliest: Ints = frequencies[token, first]
    return likeliest

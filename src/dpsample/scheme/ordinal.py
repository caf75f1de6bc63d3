"""How well tokens keep the order of the frequencies: concordance of pairs, of a key with others, and Kendall's tau.

Two keys of different frequency are concordant if the more frequent one has the larger token, where "not reported" is
below every token; equal tokens, or neither reported, count one half. Corollary 5.1 of the paper, corrected: no
private scheme with the same reporting probabilities makes any pair concordant with a larger probability than Algorithm
5, which a fine grid comes close to.
"""

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tokens import TokenLaw, chosen_grid, token_laws


def concordance(
    i: ArrayLike, j: ArrayLike, sampling: Sampling, privacy: Privacy, grid: int | None = None
) -> Floats:
    """Return the probability that keys of frequencies i and j are ordered as their frequencies are.

    ``sum over x of P_i(x) (P_j(below x) + P_j(x) / 2)`` for i > j; one half for i = j.

    >>> from dpsample import KeepAll, Privacy
    >>> concordance([20, 30], 10, KeepAll(), Privacy(1, 1e-6)).round(4)
    array([0.9995, 1.    ])
    """
    a, b = np.broadcast_arrays(as_frequencies(i), as_frequencies(j))
    high = np.maximum(a, b)
    low = np.minimum(a, b)
    distinct = np.unique([high, low])
    grid = chosen_grid(grid, privacy, sampling=sampling)
    laws = dict(zip(distinct.tolist(), token_laws(distinct, sampling, privacy, grid), strict=True))

    concordances = []
    for higher, lower in zip(high.flat, low.flat, strict=True):
        concordances.append(_concordance(laws[int(higher)], laws[int(lower)]))
    return np.array(concordances).reshape(high.shape)


def concordance_with_all(
    frequency: int, others: ArrayLike, sampling: Sampling, privacy: Privacy, grid: int | None = None
) -> float:
    """Return the probability that a key is in order with each of several other keys.

    Given the key's token, each other key is independently on its side: for a more frequent one with the probability of
    a larger token, for a less frequent one with that of a smaller one, each with half of that of a tie. "Not reported"
    is below every token, and two keys that are not reported tie.

    >>> from dpsample import KeepAll, Privacy
    >>> round(concordance_with_all(20, [10, 30], KeepAll(), Privacy(1, 1e-6)), 4)
    0.9994
    """
    [key] = as_frequencies([frequency]).tolist()
    rest = as_frequencies(others).ravel()
    distinct, back = np.unique(np.append(rest, key), return_inverse=True)
    grid = chosen_grid(grid, privacy, sampling=sampling)
    laws = list(token_laws(distinct, sampling, privacy, grid))
    own = laws[int(back[-1])]

    in_order = own.probabilities.copy()  # by token of the key
    unreported = own.not_reported  # the key is not reported, and is in order with the others
    for other in back[:-1].tolist():
        law = laws[other]
        if law.frequency == key:
            in_order /= 2
            unreported /= 2
            continue
        lower = _below(law, own.cells)
        more_frequent = law.frequency > key
        in_order *= 1 - lower if more_frequent else lower
        tie = law.not_reported / 2
        unreported *= 1 - tie if more_frequent else tie
    return float(in_order.sum() + unreported)


def _below(law: TokenLaw, cells: Ints) -> Floats:
    """Return the probability that a key is not reported, or has a token below each of some, with half of a tie."""
    reported_up_to = np.append(0.0, np.cumsum(law.probabilities))
    up_to = law.not_reported + reported_up_to
    before = np.searchsorted(law.cells, cells, side="left")
    through = np.searchsorted(law.cells, cells, side="right")
    return np.asarray((up_to[before] + up_to[through]) / 2)


def _concordance(high: TokenLaw, low: TokenLaw) -> float:
    """Return the probability that the first token is the larger one, plus half of that of a tie."""
    if_reported = high.probabilities @ _below(low, high.cells)
    neither_reported = high.not_reported * low.not_reported / 2
    return float(if_reported + neither_reported)


def kendall_tau(
    frequencies: ArrayLike, sampling: Sampling, privacy: Privacy, grid: int | None = None
) -> float:
    """Return the expected Kendall rank correlation between keys' frequencies and their tokens.

    ``2 C - 1`` with C the mean concordance over all pairs of keys of different frequency. It costs one token law for
    each distinct frequency, whatever the number of pairs.

    >>> from dpsample import KeepAll, Privacy
    >>> round(kendall_tau(range(1, 1001), KeepAll(), Privacy(1, 1e-6)), 4)
    0.9978
    """
    distinct, keys = np.unique(as_frequencies(frequencies), return_counts=True)
    if len(distinct) < 2:
        raise InvalidValue("a rank correlation needs two different frequencies", "add keys")
    grid = chosen_grid(grid, privacy, sampling=sampling)
    concordant = pairs = 0.0
    seen = absent = below = (
        0.0  # keys so far; of these, expected: not reported, with a token under the window's base
    )
    base, window = (
        0,
        np.zeros(0),
    )  # expected number of keys so far with each token base, base + 1, ...
    for law, n in zip(token_laws(distinct, sampling, privacy, grid), keys.tolist(), strict=True):
        if law.cells.size:
            # no key of a larger frequency has a token under this one's lowest: the window moves up to it
            start, stop = int(law.cells[0]), int(law.cells[-1]) + 1
            below += float(window[: start - base].sum())
            window = window[start - base :]
            window = np.append(window, np.zeros(max(0, stop - start - len(window))))
            base = start
            at = law.cells - base
            less = absent + below + np.cumsum(window) - window / 2
            concordant += n * float(law.probabilities @ less[at])
            window[at] += n * law.probabilities
        concordant += n * law.not_reported * absent / 2
        pairs += n * seen
        absent += n * law.not_reported
        seen += n
    return 2 * concordant / pairs - 1

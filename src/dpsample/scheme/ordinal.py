"""How well tokens keep the order of the frequencies: concordance of pairs, of a key with others, and Kendall's tau.

Two keys of different frequency are concordant if the more frequent one has the larger token, where "not reported" is
below every token; equal tokens, or neither reported, count one half. Corollary 5.1 of the paper, corrected
(docs/errata.md): no private scheme with the same reporting probabilities makes any pair concordant with a larger
probability than Algorithm 5, which a fine grid comes close to.
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
    laws = {law.frequency: law for law in token_laws(distinct, sampling, privacy, grid)}

    concordances = []
    for higher, lower in zip(high.flat, low.flat, strict=True):
        concordances.append(_concordance(laws[int(higher)], laws[int(lower)]))
    return np.array(concordances).reshape(high.shape)


def concordance_with_all(
    frequency: int, others: ArrayLike, sampling: Sampling, privacy: Privacy, grid: int | None = None
) -> float:
    """Return the probability that a key is in order with each of several other keys.

    Given the key's token, the other keys are independent. A more frequent one is in order if its token is larger, a
    less frequent one if its token is smaller, and each with probability one half in a tie. "Not reported" is below
    every token, and two keys that are not reported tie. The printed proof of Corollary 5.1 leaves ties out
    (docs/theory.md, section 6).

    >>> from dpsample import KeepAll, Privacy
    >>> round(concordance_with_all(20, [10, 30], KeepAll(), Privacy(1, 1e-6)), 4)
    0.9994
    """
    [key] = as_frequencies([frequency]).tolist()
    rest = as_frequencies(others).ravel()
    distinct, back = np.unique(np.append(rest, key), return_inverse=True)
    grid = chosen_grid(grid, privacy, sampling=sampling)
    laws = list(token_laws(distinct, sampling, privacy, grid))
    *places_of_others, own_place = back.tolist()
    own = laws[own_place]

    in_order = own.probabilities.copy()  # by the key's token: with the others so far
    in_order_unreported = own.not_reported
    for place in places_of_others:
        other = laws[place]
        other_is_below = _below(other, own.cells)
        half_tie = other.not_reported / 2
        if other.frequency == key:
            in_order /= 2
            in_order_unreported /= 2
        elif other.frequency > key:
            in_order *= 1 - other_is_below
            in_order_unreported *= 1 - half_tie
        else:
            in_order *= other_is_below
            in_order_unreported *= half_tie
    return float(in_order.sum() + in_order_unreported)


def _below(law: TokenLaw, cells: Ints) -> Floats:
    """Return the probability that a key with this law is below each of some tokens: a tie counts one half."""
    reported_up_to = np.append(0.0, np.cumsum(law.probabilities))
    up_to = law.not_reported + reported_up_to
    before = np.searchsorted(law.cells, cells, side="left")
    through = np.searchsorted(law.cells, cells, side="right")
    return np.asarray((up_to[before] + up_to[through]) / 2)


def _concordance(high: TokenLaw, low: TokenLaw) -> float:
    """Return the probability that the first key is above the second one; a tie counts one half."""
    if_reported = high.probabilities @ _below(low, high.cells)
    half_tie = high.not_reported * low.not_reported / 2
    return float(if_reported + half_tie)


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
    laws = token_laws(distinct, sampling, privacy, grid)
    rarer = _ExpectedTokens()
    concordant = 0.0
    pairs = 0.0
    for law, n in zip(laws, keys.tolist(), strict=True):
        concordant += n * rarer.concordance_if_reported(law)
        concordant += n * law.not_reported * rarer.absent / 2
        pairs += n * rarer.keys
        rarer.add(law, n)
    return 2 * concordant / pairs - 1


class _ExpectedTokens:
    """The tokens that the keys of the frequencies so far are expected to have: a histogram, in a window that moves up.

    Frequencies come in ascending order, and no key of a larger frequency has a token under the lowest one of a smaller
    frequency. So tokens under the window need not be told apart any more.
    """

    def __init__(self) -> None:
        self.keys = 0
        self.absent = 0.0  # expected keys that are not reported
        self._under_window = 0.0  # expected keys with a token under the window
        self._window = np.zeros(0)  # expected keys with the token _base, _base + 1, ...
        self._base = 0

    def concordance_if_reported(self, law: TokenLaw) -> float:
        """Return the expected number of these keys that are below a more frequent key, which is reported."""
        if not law.cells.size:
            return 0.0
        self._move_up(int(law.cells[0]), int(law.cells[-1]) + 1)
        below_each = self.absent + self._under_window + np.cumsum(self._window) - self._window / 2
        return float(law.probabilities @ below_each[law.cells - self._base])

    def add(self, law: TokenLaw, keys: int) -> None:
        """Count a number of keys with this law, the last that was asked for."""
        if law.cells.size:
            self._window[law.cells - self._base] += keys * law.probabilities
        self.absent += keys * law.not_reported
        self.keys += keys

    def _move_up(self, start: int, stop: int) -> None:
        """Let the window begin at a token, and reach up to another."""
        self._under_window += float(self._window[: start - self._base].sum())
        kept = self._window[start - self._base :]
        more = max(0, stop - start - len(kept))
        self._window = np.append(kept, np.zeros(more))
        self._base = start

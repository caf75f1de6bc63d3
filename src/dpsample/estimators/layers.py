"""Layers: the values of tokens of coordinated samples that make differences of sums precise.

A function of the frequency is a sum of layers: f(i) = sum of f(m) - f(m-1) over all m up to i. A layer m is visible in
a coordinated sample if the key's hash samples it early enough, ``m >= h + c - 1``: from there on the key is reported,
and its token tells whether the frequency reaches m. Over a random seed this has the probability ``q_{m-c+1}``. So with

    G(i) = sum over m from the least frequency to i of (f(m) - f(m-1)) / q_{m-c+1},

the sum of ``G(i) - G(H - 1)`` over keys with i >= H estimates the sum of f without bias, H being the first visible
layer. In two samples of one seed the same layers are visible, and the difference has only those in between.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.calibration import calibration
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import first_frequency, support_length

_EXACT = 1 << 16  # layers that are added one by one; beyond, functions are smooth, and knots are this far apart:
_SPACING = 1e-3  # relative

Function = Callable[[Ints], Floats]


class TokenWeights:
    """How token values follow from a function of the frequency of all keys: b(token) = sum over k of V(k) g(k).

    V is a posterior mean of g / pi under a uniform prior, and a correction by the bias that this has, once over.
    `spread` is the variance that a token has around its frequency.
    """

    def __init__(self, privacy: PerKey, grid: int) -> None:
        scheme, support = calibration(KeepAll(), privacy, grid), support_length(privacy)
        reporting = Reporting.of(KeepAll(), privacy)
        self.grid, self._last = grid, reporting.constant_from + 2 * support  # later tokens are shifts of its own
        rows = self._last + 3 * support
        if rows * rows * grid > TUNING.table_limit:
            raise InvalidValue(
                "epsilon must leave few enough tokens to compare", "too many", "compare the sums of each release"
            )
        cells = np.arange(1, (self._last + 2 * support) * grid + 1, dtype=np.int64)
        frequencies, mass = supports(cells, reporting, grid)
        law = np.zeros((len(cells), rows + 1))  # [token, frequency]
        inside = frequencies <= rows
        at = np.broadcast_to(np.arange(len(cells))[:, None], frequencies.shape)
        law[at[inside], frequencies[inside]] = mass[inside]
        pi = reporting.probabilities(np.arange(rows + 1))
        prior = np.where(np.arange(rows + 1) >= scheme.calibration_threshold, law, 0.0)
        total = prior.sum(1, keepdims=True)
        posterior = np.divide(prior, total * np.where(pi > 0, pi, 1.0), out=np.zeros_like(prior), where=total > 0)
        inner = self._last * grid
        weights = 2 * posterior[:inner] - (posterior[:inner] @ law.T) @ posterior
        # from the first frequency of each token on, less what is before, to where all is 0
        self._before, width = 2 * support, 5 * support
        columns = first_frequency(cells[:inner], grid)[:, None] + np.arange(-self._before, width - self._before)
        picked = np.take_along_axis(weights, columns.clip(0, rows), axis=1)
        self._table = np.where((columns >= 1) & (columns <= rows), picked, 0.0)
        steady = law[:, self._last]
        mean = steady @ cells / grid
        self.spread = float(steady @ (cells / grid - mean) ** 2)

    def values(self, cells: Ints, function: Callable[[Ints], Floats]) -> Floats:
        """Return b of tokens; `function` has the frequencies of all keys for each token: [token, k] -> g."""
        first = first_frequency(cells, self.grid)
        walked = cells - np.maximum(first - self._last, 0) * self.grid
        k = first[:, None] + np.arange(-self._before, self._table.shape[1] - self._before)
        return np.asarray((self._table[walked - 1] * function(np.maximum(k, 0))).sum(1))


@lru_cache(maxsize=8)
def token_weights(privacy: PerKey, grid: int) -> TokenWeights:
    """Return the weights of a scheme, which are costly."""
    return TokenWeights(privacy, grid)


class Layers:
    """The layers of a function from a least frequency on, each with the probability of being visible.

    `visible` are functions of the layer, one for each sample; a layer counts if it is visible in all of them, which one
    hash decides: its probability is the smallest of theirs.
    """

    def __init__(self, of: Function, visible: Sequence[Function], least: int, largest: int) -> None:
        self._of, self._visible, self._least, self._largest = of, visible, least, max(largest, least + 1)

    def probability(self, layers: Ints) -> Floats:
        """Return the probability that a layer is visible in all samples."""
        smallest: Floats = np.min([visible(layers) for visible in self._visible], axis=0)
        return smallest

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Layers, from the one before the least on; G, and two sums of which the variance is made, at each."""
        end = min(self._least + _EXACT, self._largest)
        i = np.arange(self._least - 1, end + 1, dtype=np.int64)
        if self._largest > end:
            far = np.geomspace(end, self._largest, 2 + int(np.log(self._largest / end) / _SPACING))
            i = np.unique(np.append(i, far.astype(np.int64)))
        rise, q = np.diff(self._of(i)), self.probability(i[1:])
        each = rise / q
        G = np.append(0.0, np.cumsum(each))
        K0 = np.append(0.0, np.cumsum(each * (1 - q)))
        K1 = np.append(0.0, np.cumsum(each * (1 - q) * (G[1:] + G[:-1]) / 2))
        return i.astype(np.float64), G, K0, K1

    def value(self, frequencies: Ints, first: Ints) -> Floats:
        """Return G(i) - G(first - 1), 0 below."""
        i, G, _, _ = self._sums
        at, start = (np.interp(x, i, G) for x in (frequencies, first - 1))
        return np.maximum(at - start, 0.0)

    def variance(self, one: Ints, two: Ints, first: Ints) -> Floats:
        """Return what a key with these two frequencies stands for, of the variance of the difference over seeds.

        The sum over layers m, n between the frequencies, both visible, of ``(1 / q_max - 1) / q_min`` times their
        rises: each pair is visible with the probability of the lower one.
        """
        i, G, K0, K1 = self._sums
        low, high = np.maximum(np.minimum(one, two), first - 1), np.maximum(np.maximum(one, two), first - 1)
        (g, a0, a1), (_, b0, b1) = ([np.interp(x, i, y) for y in (G, K0, K1)] for x in (low, high))
        return np.maximum(2 * ((b1 - a1) - g * (b0 - a0)), 0.0)

    def slope(self, frequencies: Ints, first: Ints) -> Floats:
        """Return how fast the value grows with the frequency."""
        at = np.maximum(frequencies, first)
        return np.where(frequencies >= first, (self._of(at) - self._of(at - 1)) / self.probability(at), 0.0)

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
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.law import Law
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints, KeepAll
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import first_frequency, support_length

# Layers up to here are added one by one. Beyond, functions are smooth: sums are taken at knots with this relative
# distance, and interpolated.
_EXACT = 1 << 16
_SPACING = 1e-3

Function = Callable[[Ints], Floats]


class TokenWeights:
    """How token values follow from a function of the frequency of all keys: b(token) = sum over k of V(k) g(k).

    With M the posterior mean of g / pi under a uniform prior, M g has a bias: its mean at frequency i is (P M g)(i),
    with P the token laws. Values are M g, corrected by the posterior mean of this bias, M (g - P M g): so V is
    2 M - M P M. `spread` is the variance that a token has around its frequency.
    """

    def __init__(self, per_key: PerKey, grid: int) -> None:
        support = support_length(per_key)
        reporting = Reporting.of(KeepAll(), per_key)
        self.grid = grid
        self._last = (
            reporting.constant_from + 2 * support
        )  # later tokens are shifts of those of this frequency
        rows = self._last + 3 * support
        if rows * rows * grid > TUNING.table_limit:
            raise InvalidValue(
                "epsilon is too small: its tokens are too many to compare",
                "compare the sums of each release",
            )
        tokens_of_table = self._last * grid
        cells = np.arange(1, tokens_of_table + 2 * support * grid + 1, dtype=np.int64)
        laws = _law_table(cells, reporting, grid, rows)  # [token, frequency], as all tables here
        threshold = Calibration.of(Scheme(KeepAll(), per_key, grid)).calibration_threshold
        posterior = _posterior(laws, reporting, threshold)

        of_table = posterior[:tokens_of_table]
        mean_of_mean = (of_table @ laws.T) @ posterior  # M P M
        weights = 2 * of_table - mean_of_mean
        # all that is not 0 lies in a window around the first frequency of each token
        self._window = np.arange(-2 * support, 3 * support)
        columns = first_frequency(cells[:tokens_of_table], grid)[:, None] + self._window
        inside = (columns >= 1) & (columns <= rows)
        in_window = np.take_along_axis(weights, columns.clip(0, rows), axis=1)
        self._table = np.where(inside, in_window, 0.0)

        tokens = cells / grid
        law_of_last = laws[:, self._last]
        mean_token = law_of_last @ cells / grid
        self.spread = float(law_of_last @ (tokens - mean_token) ** 2)

    def values(self, cells: Ints, function: Callable[[Ints], Floats]) -> Floats:
        """Return b of tokens; `function` has the frequencies of all keys for each token: [token, k] -> g."""
        first = first_frequency(cells, self.grid)
        # tokens of frequencies beyond the table are shifts of its last ones
        shift = np.maximum(first - self._last, 0)
        row = cells - shift * self.grid - 1
        frequencies = np.maximum(first[:, None] + self._window, 0)
        products = self._table[row] * function(frequencies)
        return np.asarray(products.sum(1))


def _law_table(cells: Ints, reporting: Law, grid: int, rows: int) -> Floats:
    """The probability of each token at each frequency from 0 to `rows`: [token, frequency]."""
    frequencies, mass = supports(cells, reporting, grid)
    law = np.zeros((len(cells), rows + 1))
    inside = frequencies <= rows
    token = np.broadcast_to(np.arange(len(cells))[:, None], frequencies.shape)
    law[token[inside], frequencies[inside]] = mass[inside]
    return law


def _posterior(law: Floats, reporting: Law, threshold: int) -> Floats:
    """The posterior of each token under a uniform prior from the threshold on, over pi: [token, frequency]."""
    frequencies = np.arange(law.shape[1])
    pi = reporting.probabilities(frequencies)
    prior = np.where(frequencies >= threshold, law, 0.0)
    total = prior.sum(1, keepdims=True)
    divisor = total * np.where(pi > 0, pi, 1.0)
    posterior: Floats = np.divide(prior, divisor, out=np.zeros_like(prior), where=total > 0)
    return posterior


@lru_cache(maxsize=8)
def token_weights(per_key: PerKey, grid: int) -> TokenWeights:
    """Return the weights of a scheme, which are costly."""
    return TokenWeights(per_key, grid)


class Layers:
    """The layers of a function from a least frequency on, each with the probability of being visible.

    `visible` are functions of the layer, one for each sample; a layer counts if it is visible in all of them, which one
    hash decides: its probability is the smallest of theirs.
    """

    def __init__(self, of: Function, visible: Sequence[Function], least: int, largest: int) -> None:
        self._of, self._visible, self._least, self._largest = (
            of,
            visible,
            least,
            max(largest, least + 1),
        )

    def probability(self, layers: Ints) -> Floats:
        """Return the probability that a layer is visible in all samples."""
        smallest: Floats = np.min([visible(layers) for visible in self._visible], axis=0)
        return smallest

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Layers, from the one before the least on; G, and two sums of which the variance is made, at each."""
        i = self._knots()
        q = self.probability(i[1:])
        rise = np.diff(self._of(i)) / q
        hidden_rise = rise * (1 - q)

        def from_zero(steps: Floats) -> Floats:
            return np.append(0.0, np.cumsum(steps))

        G = from_zero(rise)
        K0 = from_zero(hidden_rise)
        K1 = from_zero(hidden_rise * (G[1:] + G[:-1]) / 2)
        return i.astype(np.float64), G, K0, K1

    def _knots(self) -> Ints:
        """The layers that are added up: all low ones, and then some in equal ratios."""
        end = min(self._least + _EXACT, self._largest)
        i = np.arange(self._least - 1, end + 1, dtype=np.int64)
        if self._largest == end:
            return i
        number = 2 + int(np.log(self._largest / end) / _SPACING)
        far = np.geomspace(end, self._largest, number).astype(np.int64)
        return np.unique(np.append(i, far))

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
        last_invisible = first - 1
        low = np.maximum(np.minimum(one, two), last_invisible)
        high = np.maximum(np.maximum(one, two), last_invisible)

        def between(sums: Floats) -> Floats:
            return np.asarray(np.interp(high, i, sums) - np.interp(low, i, sums))

        G_below = np.interp(low, i, G)
        return np.maximum(2 * (between(K1) - G_below * between(K0)), 0.0)

    def slope(self, frequencies: Ints, first: Ints) -> Floats:
        """Return how fast the value grows with the frequency."""
        at = np.maximum(frequencies, first)
        rise = (self._of(at) - self._of(at - 1)) / self.probability(at)
        return np.where(frequencies >= first, rise, 0.0)

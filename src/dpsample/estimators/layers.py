"""Layers: the values of tokens of coordinated samples that make differences of sums precise.

A function of the frequency is a sum of layers: f(i) = sum of f(m) - f(m-1) over all m up to i. A layer m is visible in
a coordinated sample if the key's hash samples it early enough, ``m >= h + c - 1``: from there on the key is reported,
and its token tells whether the frequency reaches m. Over a random seed this has the probability ``q_{m-c+1}``. So with

    G(i) = sum over m from the least frequency to i of (f(m) - f(m-1)) / q_{m-c+1},

the sum of ``G(i) - G(H - 1)`` over keys with i >= H estimates the sum of f without bias, H being the first visible
layer. In two samples of one seed the same layers are visible, and the difference has only those in between.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """How token values follow from a function g of the frequency: b(token) = sum over frequencies k of V(k) g(k).

    Let P be the token laws, [frequency, token], and M the matrix that makes posterior means, [token, frequency]: M g is
    the posterior mean of g / pi under a uniform prior. These values have a bias: their mean at frequency i is
    (P M g)(i), not g(i). Their correction is the posterior mean of what is missing there, M (g - P M g). So the values
    are ``M g + M (g - P M g) = (2 M - M P M) g``, and V is ``2 M - M P M``.

    `spread` is the variance that a token has around its frequency.
    """

    def __init__(self, per_key: PerKey, grid: int) -> None:
        support = support_length(per_key)
        reporting = Reporting.of(KeepAll(), per_key)
        self.grid = grid
        self._last = (
            reporting.constant_from + 2 * support
        )  # tokens of later frequencies are shifts of its own
        rows = self._last + 3 * support
        if rows * rows * grid > TUNING.table_limit:
            raise InvalidValue(
                "epsilon is too small: its tokens are too many to compare",
                "compare the sums of each release",
            )
        last_token = self._last * grid
        # P M of the table's tokens needs the tokens of frequencies up to two supports further
        cells = np.arange(1, last_token + 2 * support * grid + 1, dtype=np.int64)
        laws = _law_table(cells, reporting, grid, rows)  # the transpose of P: [token, frequency]
        threshold = Calibration.of(Scheme(KeepAll(), per_key, grid)).calibration_threshold
        posterior = _posterior_means(laws, reporting, threshold)  # M

        posterior_of_table = posterior[:last_token]
        bias_operator = (posterior_of_table @ laws.T) @ posterior  # M P M
        weights = 2 * posterior_of_table - bias_operator  # V
        # all that is not 0 lies in a window around the first frequency of each token
        self._window = np.arange(-2 * support, 3 * support)
        first = first_frequency(cells[:last_token], grid)
        columns = first[:, None] + self._window
        is_frequency = (columns >= 1) & (columns <= rows)
        in_window = np.take_along_axis(weights, columns.clip(0, rows), axis=1)
        self._table = np.where(is_frequency, in_window, 0.0)

        tokens = cells / grid
        law_of_last = laws[:, self._last]
        mean_token = law_of_last @ cells / grid
        self.spread = float(law_of_last @ (tokens - mean_token) ** 2)

    def values(self, cells: Ints, function: Callable[[Ints], Floats]) -> Floats:
        """Return b of tokens. `function` is g, of the frequencies k around each token: [token, k] -> [token, k]."""
        first = first_frequency(cells, self.grid)
        # tokens of frequencies beyond the table are shifts of its last ones
        shift = np.maximum(first - self._last, 0)
        row = cells - shift * self.grid - 1
        frequencies = np.maximum(first[:, None] + self._window, 0)
        products = self._table[row] * function(frequencies)
        return np.asarray(products.sum(1))


def _law_table(cells: Ints, reporting: Law, grid: int, rows: int) -> Floats:
    """Return the probability of each token at each frequency from 0 to `rows`: [token, frequency]."""
    frequencies, mass = supports(cells, reporting, grid)
    law = np.zeros((len(cells), rows + 1))
    is_inside = frequencies <= rows
    token = np.arange(len(cells))[:, None]
    tokens = np.broadcast_to(token, frequencies.shape)
    law[tokens[is_inside], frequencies[is_inside]] = mass[is_inside]
    return law


def _posterior_means(law: Floats, reporting: Law, threshold: int) -> Floats:
    """Return the posterior of each token under a uniform prior from the threshold on, over pi: [token, frequency]."""
    frequencies = np.arange(law.shape[1])
    pi = reporting.probabilities(frequencies)
    likelihood = np.where(frequencies >= threshold, law, 0.0)
    total = likelihood.sum(1, keepdims=True)
    divisor = total * np.where(pi > 0, pi, 1.0)
    posterior = np.zeros_like(likelihood)
    np.divide(likelihood, divisor, out=posterior, where=total > 0)
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
        self._of = of
        self._visible = visible
        self._least = least
        self._largest = max(largest, least + 1)

    def probability(self, layers: Ints) -> Floats:
        """Return the probability that a layer is visible in all samples."""
        probabilities = [visible(layers) for visible in self._visible]
        smallest: Floats = np.min(probabilities, axis=0)
        return smallest

    @cached_property
    def _sums(self) -> "_Sums":
        """The sums over layers up to each knot, which values and variances are made of."""
        i = self._knots()
        q = self.probability(i[1:])
        rise = np.diff(self._of(i)) / q
        hidden_rise = rise * (1 - q)
        G = _summed_from_zero(rise)
        hidden_times_sum = hidden_rise * (G[1:] + G[:-1]) / 2
        return _Sums(
            layers=i.astype(np.float64),
            G=G,
            hidden=_summed_from_zero(hidden_rise),
            hidden_times_sum=_summed_from_zero(hidden_times_sum),
        )

    def _knots(self) -> Ints:
        """Return the layers that are added up: all low ones, and then some in equal ratios."""
        end = min(self._least + _EXACT, self._largest)
        i = np.arange(self._least - 1, end + 1, dtype=np.int64)
        if self._largest == end:
            return i
        number = 2 + int(np.log(self._largest / end) / _SPACING)
        far = np.geomspace(end, self._largest, number).astype(np.int64)
        return np.unique(np.append(i, far))

    def value(self, frequencies: Ints, first: Ints) -> Floats:
        """Return G(i) - G(first - 1) for keys whose first visible layer is `first`; 0 if i is lower."""
        sums = self._sums
        G_of_frequency = sums.at(frequencies, sums.G)
        G_before_first = sums.at(first - 1, sums.G)
        return np.maximum(G_of_frequency - G_before_first, 0.0)

    def variance(self, one: Ints, two: Ints, first: Ints) -> Floats:
        """Return an estimate of what a key with these frequencies adds to the variance of the difference over seeds.

        The difference of the key's values is the sum, over the layers between its frequencies, of ``r_m / q_m`` times
        whether m is visible, r_m being the rise of f. A layer is visible wherever a lower one is, so two of them have
        the covariance ``q_low (1 - q_high)``. Divided by ``q_low``, the probability that both are visible, it is
        estimated without bias by the sum over pairs of visible layers of ``(r / q)_low (1 - q_high) (r / q)_high``.
        The ``(r / q)`` of the lower layers add up to G. So that sum is 2 times the sum over n of
        ``hidden_n (G - G(low))``, with G in the middle of n: a pair of two layers counts twice, and that of a layer
        with itself once.
        """
        sums = self._sums
        last_invisible = first - 1
        low = np.maximum(np.minimum(one, two), last_invisible)
        high = np.maximum(np.maximum(one, two), last_invisible)
        hidden = sums.at(high, sums.hidden) - sums.at(low, sums.hidden)
        hidden_times_sum = sums.at(high, sums.hidden_times_sum) - sums.at(
            low, sums.hidden_times_sum
        )
        G_below = sums.at(low, sums.G)
        return np.maximum(2 * (hidden_times_sum - G_below * hidden), 0.0)

    def slope(self, frequencies: Ints, first: Ints) -> Floats:
        """Return by how much the value grows from the frequency below to each of these."""
        visible = np.maximum(frequencies, first)
        rise = self._of(visible) - self._of(visible - 1)
        rise_of_value = rise / self.probability(visible)
        return np.where(frequencies >= first, rise_of_value, 0.0)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over layers, from the least one up to each knot; between knots they are interpolated.

    A layer m adds its rise ``(f(m) - f(m - 1)) / q`` to G. It adds this rise times 1 - q, the probability that it is
    not visible, to `hidden`, and that times G in its middle to `hidden_times_sum`.
    """

    layers: Floats  # the knots, from the layer before the least one on
    G: Floats
    hidden: Floats
    hidden_times_sum: Floats

    def at(self, layers: Ints, sums: Floats) -> Floats:
        """Return one of the sums up to some layers."""
        return np.asarray(np.interp(layers, self.layers, sums))


def _summed_from_zero(steps: Floats) -> Floats:
    """Return the cumulative sums of steps, with 0 before the first."""
    return np.append(0.0, np.cumsum(steps))

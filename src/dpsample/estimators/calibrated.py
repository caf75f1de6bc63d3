"""Calibrated estimates: unbiased wherever keys can be seen, cautious where they cannot. The default.

Seen from the tokens, frequencies are of two kinds. As long as pi grows as fast as privacy allows, by a factor of
exp(epsilon) from one frequency to the next, so does the probability of each token: all these frequencies give a
reported key nearly the same law of its token. They lie in the dark: nobody can tell them apart, and few of their keys
are reported at all. From the edge on, where pi has reached q, or one half, a key's token tells its frequency, and
there are values ``a(token)`` with ``E[a] = h(i)`` at every such frequency i, whatever the distribution of the
frequencies: nothing has to be assumed about them.

So a sum is estimated in two parts. `Functional` is linear in the tokens, has nearly no bias at all visible
frequencies, and its variance is known; it never counts more of the dark than is there. To it is added a continuation
into the dark: as many keys for each frequency as are surely there, by the same functionals, just above it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from dpsample.estimators.tally import Tally
from dpsample.measures import Measure
from dpsample.privacy import Privacy
from dpsample.scheme.lives import life
from dpsample.scheme.reporting import reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.tokens import lifetime, token_laws

_GROWING = 1e-6  # of pi: less than this below what privacy allows is no slower growth
_SETTLED = 0.999  # of q: from here on the flat estimates need no correction, once a token's lifetime has passed
STEP = 0.1  # of 1/epsilon: the table's frequencies, and bins of tokens, which are spread over 1.4 of it
_LARGEST = 20_000_000  # numbers in the table
_KNOTS, _PICKS = 12, 512  # frequencies beyond the table, and tokens of each, by which variances are computed
_BLOCK = 1 << 18  # tokens times rows at once
_WINDOWS = ((1.1, 1.0), (1.45, 2.0), (1.9, 4.0))  # where, in multiples of the edge; how much denser the edge may be
# than it is here: as a power law is with exponent 3, no more; and so that a spike at the edge is not continued
_WIDTH = 0.4  # of a window, to either side, in the logarithm of the frequency: smooth ones have little variance
_CAUTION = 0.7  # standard errors by which the continuation stays below what is seen
_LEAST = 0.4  # of the flat estimate of the variance, below which an estimate of it is not believed
_STEEPEST = 4.0  # power with which a density may fall toward 0
_SHARPEST = 2.0  # change of that power from window to window; more than that is an upper end, not a trend
_UNSURE = 1.2  # how far an error may be wrong, of itself, by the square root of the keys that it rests on
_ROUGH = 0.02  # of that, for densities, whose variance matters more than their bias
_TRUST = 50.0  # how much a bias weighs against a variance, when as many keys as are reported had it

Function = Callable[[Ints], Floats]


@dataclass(frozen=True)
class Calibration:
    """What estimates need to know of a scheme: laws at frequencies up to where everything has settled."""

    sampling: Sampling
    privacy: Privacy
    grid: int
    spacing: float = STEP  # of the table, in 1/epsilon

    @cached_property
    def _rows(self) -> Any:
        return reporting(self.sampling, self.privacy)

    @property
    def _width(self) -> float:
        # a token's life is much longer than this, unless delta is about as large as epsilon
        return min(self.spacing / float(self.privacy.epsilon), lifetime(self.privacy) / 16)

    @cached_property
    def step(self) -> int:
        """The distance of the table's frequencies."""
        return max(1, round(self._width))

    @cached_property
    def _reach(self) -> tuple[int, int, int]:
        """The edge; the last token that is corrected, and the last frequency of the table."""
        window, end = lifetime(self.privacy), self.sampling.largest
        upto = 4 * window
        while True:
            i = np.arange(1, min(upto, end) + 1, dtype=np.int64)
            share = self.share(i)
            if share[-1] >= _SETTLED or upto >= min(end, 64 * window):
                break
            upto *= 4
        pi, unused, _, _ = self._rows.slacks(np.append(0, i))
        seen = (unused > _GROWING * pi[1:]) | (pi[1:] >= 0.5)
        edge = int(i[np.argmax(seen)]) if seen.any() else len(i)
        # binding stretches that come later than this, where q reaches 1 for a small tau, hardly bind
        unsettled = np.flatnonzero(share[: edge + 4 * window] < _SETTLED)
        settled = int(unsettled[-1]) + 2 if len(unsettled) else 1
        last = min(max(settled, edge) + window, end)
        return edge, last, min(last + window, end)

    def share(self, frequencies: Ints) -> Floats:
        """Return pi / q, how likely a sampled key is to be reported."""
        q = self.sampling.q(frequencies)
        pi = self._rows.probabilities(frequencies)
        found: Floats = np.divide(pi, q, out=np.zeros_like(q), where=q > 0)
        return found

    @property
    def edge(self) -> int:
        """The lowest visible frequency."""
        return self._reach[0]

    @cached_property
    def frequencies(self) -> Ints:
        """The table's frequencies; each stands for `step` of them."""
        return np.arange((self.step + 1) // 2, self._reach[2] + 1, self.step, dtype=np.int64)

    @cached_property
    def dark(self) -> Any:
        """Which of them cannot be told apart."""
        return self.frequencies < self.edge

    @property
    def table_tokens(self) -> int:
        """The number of tokens, in units of 1/grid, that the table has."""
        return int(self.frequencies[-1]) * self.grid

    @property
    def feasible(self) -> bool:
        """Whether the table fits into memory, which a very small epsilon makes large."""
        return self.fits(self.grid)

    def fits(self, grid: int) -> bool:
        """Whether it does with this grid."""
        return int(self.frequencies[-1]) * grid * lifetime(self.privacy) <= _LARGEST

    @cached_property
    def _lives(self) -> tuple[Floats, Floats]:
        """Of the table's tokens, in each row from its birth on: its probability, and this over pi from the edge on."""
        cells = np.arange(1, self.table_tokens + 1, dtype=np.int64)
        frequencies, mass = life(cells, self._rows, self.grid)
        pi = self._rows.probabilities(frequencies)
        return mass, np.divide(mass, pi, out=np.zeros_like(mass), where=(mass > 0) & (frequencies >= self.edge))

    @cached_property
    def laws(self) -> Floats:
        """The probability of each token, in columns, at each of the table's frequencies."""
        table = np.zeros((len(self.frequencies), self.table_tokens))
        mass, _ = self._lives
        for birth in range(1, int(self.frequencies[-1]) + 1):
            first = -(-(birth - int(self.frequencies[0])) // self.step) if birth > self.frequencies[0] else 0
            age = int(self.frequencies[first]) - birth if first < len(self.frequencies) else mass.shape[1]
            rows = mass[(birth - 1) * self.grid : birth * self.grid, age :: self.step].T
            table[first : first + len(rows), (birth - 1) * self.grid : birth * self.grid] = rows[
                : len(self.frequencies) - first
            ]
        return table

    @cached_property
    def bins(self) -> Ints:
        """The bin of each token that has a correction."""
        width = max(1, round(self._width * self.grid))
        return np.arange(self._reach[1] * self.grid, dtype=np.int64) // width

    @cached_property
    def binned(self) -> Floats:
        """The laws of the visible frequencies, by bin."""
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        return np.add.reduceat(self.laws[~self.dark, : len(self.bins)], starts, axis=1)

    def flat_table(self, function: Function) -> Floats:
        """E[h / pi] given each of the table's tokens, as `flat`."""
        mass, weight = self._lives
        births = np.arange(1, int(self.frequencies[-1]) + 1, dtype=np.int64)
        reach = np.arange(1, int(self.frequencies[-1]) + mass.shape[1], dtype=np.int64)
        values = function(np.minimum(reach, self.sampling.largest))
        seen = np.where(weight > 0, mass, 0.0).sum(1)
        found = np.zeros(self.table_tokens)
        for birth in births.tolist():
            part = slice((birth - 1) * self.grid, birth * self.grid)
            found[part] = weight[part] @ values[birth - 1 : birth - 1 + mass.shape[1]]
        np.divide(found, seen, out=found, where=seen > 0)
        return found

    def flat(self, cells: Ints, functions: Sequence[Function]) -> Floats:
        """E[h / pi] given each token, when all visible frequencies are equally likely: one column for each h."""
        found = np.zeros((len(cells), len(functions)))
        size = max(1, _BLOCK // lifetime(self.privacy))
        for start in range(0, len(cells), size):
            part = slice(start, start + size)
            frequencies, mass = life(cells[part], self._rows, self.grid)
            mass = np.where(frequencies >= self.edge, mass, 0.0)
            total = mass.sum(1)
            pi = self._rows.probabilities(frequencies)
            weight = np.divide(mass, pi, out=np.zeros_like(mass), where=mass > 0)
            for n, function in enumerate(functions):
                sums = (weight * function(frequencies)).sum(1)
                np.divide(sums, total, out=found[part, n], where=total > 0)
        return found

    def correction(self, targets: Floats, base: Floats, trust: float) -> Floats:
        """What to add to `base` in each bin, so that its bias goes.

        Minimises ``sum over visible i of w_i (trust * bias_i**2 + E_i[correction**2])``, with weights that make all
        frequencies matter alike.
        """
        seen = ~self.dark
        i = self.frequencies[seen]
        pi = self._rows.probabilities(i)
        spread = (i.astype(np.float64) ** 2 * (1 - pi) + (1.4 / float(self.privacy.epsilon)) ** 2) / pi
        weight = 1 / (spread * i)
        P = self.binned
        bias = self.laws[seen] @ base - targets[seen]
        square = weight @ P
        empty = square <= 1e-14 * square.max()
        A = (P.T * (weight * trust)) @ P
        A[np.diag_indices_from(A)] += np.where(empty, square.max(), square)
        scale = 1 / np.sqrt(np.diag(A))
        A = A * scale * scale[:, None]
        A[np.diag_indices_from(A)] += 1e-12
        found: Floats = -scale * np.linalg.solve(A, scale * (P.T @ (weight * trust * bias)))
        found[empty] = 0
        return found


@lru_cache(maxsize=16)
def calibration(sampling: Sampling, privacy: Privacy, grid: int) -> Calibration:
    """Return the calibration of a scheme, which is costly the first time that it is used."""
    return Calibration(sampling, privacy, grid)


class Functional:
    """Values of tokens whose sum over the reported keys estimates the sum of h(frequency) over all visible keys.

    >>> from dpsample import KeepAll, Privacy
    >>> scheme = calibration(KeepAll(), Privacy(1, 1e-6), 16)
    >>> scheme.edge
    14
    >>> total = Functional(scheme, lambda i: i.astype(float), keys=1000)
    >>> seen = scheme.frequencies >= 14
    >>> bool(abs(total.bias[seen]).max() < 0.1), bool(total.bias[~seen].max() <= 0)
    (True, True)
    """

    def __init__(self, scheme: Calibration, function: Function, keys: float) -> None:
        self.scheme, self.function = scheme, function
        targets = function(scheme.frequencies)
        self.flat = scheme.flat_table(function)  # of the table's tokens
        self.near = self.flat.copy()
        self.near[: len(scheme.bins)] += scheme.correction(targets, self.flat, _TRUST * keys)[scheme.bins]
        self.mean = scheme.laws @ self.near  # at the table's frequencies, as all that follows
        self.bias = self.mean - targets
        self.variances = scheme.laws @ self.near**2 - self.mean**2

    def values(self, cells: Ints) -> Floats:
        """Return the value of each token; of those beyond the table, the flat one."""
        found = np.empty(len(cells))
        near = cells <= len(self.near)
        found[near] = self.near[cells[near] - 1]
        found[~near] = self.scheme.flat(cells[~near], [self.function])[:, 0]
        return found

    def variance(self, largest: int) -> Function:
        """Return the variance of one key's value as a function of its frequency, up to about the largest one."""
        scheme = self.scheme
        i, variances = scheme.frequencies, self.variances
        if largest > i[-1]:
            far = np.unique(np.geomspace(i[-1] + 1, min(largest, scheme.sampling.largest), _KNOTS).astype(np.int64))
            laws = list(token_laws(far, scheme.sampling, scheme.privacy, scheme.grid))
            # in a law of many tokens, with a small epsilon, values hardly bend between some of them
            picks = [
                law.cells[np.linspace(0, law.cells.size - 1, min(law.cells.size, _PICKS)).astype(np.int64)]
                for law in laws
            ]
            ends = np.cumsum([len(pick) for pick in picks])[:-1]
            found = np.split(self.values(np.concatenate(picks)), ends)
            values = [np.interp(law.cells, at, a) for law, at, a in zip(laws, picks, found, strict=True)]
            means = [law.probabilities @ a for law, a in zip(laws, values, strict=True)]
            beyond = [
                law.probabilities @ (a - m) ** 2 + law.not_reported * m**2
                for law, a, m in zip(laws, values, means, strict=True)
            ]
            i, variances = np.append(i, far), np.append(variances, beyond)
        return lambda frequencies: np.interp(frequencies, i, np.maximum(variances, 0.0))


@dataclass(frozen=True)
class Parts:
    """A sum over the selected keys, in two parts: what is seen, and the continuation into the dark."""

    seen: float  # the part that has no bias at visible frequencies
    error: float  # its standard error
    slack: float  # the bias that it may have left at visible frequencies
    freedom: float  # the number of keys that the error effectively rests on
    dark: float  # the other part
    dark_error: float  # its standard error, if the density goes on as it was

    @property
    def value(self) -> float:
        """The estimate."""
        return self.seen + self.dark

    def interval(self, level: float) -> tuple[float, float]:
        """Return bounds of the sum over the visible keys: `seen`, give or take its slack and quantiles of its error.

        An error that rests on few keys is itself unsure, and small when too few of them were reported: it is widened.
        """
        widened = self.error * (1 + _UNSURE / math.sqrt(max(self.freedom, 1.0)))
        half = self.slack + NormalDist().inv_cdf(0.5 + level / 2) * widened
        return self.seen - half, self.seen + half


def parts(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int, of: Measure) -> Parts:
    """Estimate the sum of ``L(x) g(frequency of x)`` over all keys from a tally of the reported ones.

    >>> from dpsample import KeepAll, Privacy
    >>> keys = Tally.of([16 * 1000, 16 * 2000])
    >>> found = parts(keys, KeepAll(), Privacy(1, 1e-6), 16, Measure.of("frequency"))
    >>> round(found.value, 2), round(found.error, 2)
    (3027.32, 1.93)
    """
    if not len(tally.cells):
        return Parts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    scheme = calibration(sampling, privacy, grid)
    keys = rough(tally.total)
    largest = 1 << (int(tally.cells[-1]) // grid + 2 * lifetime(privacy)).bit_length()
    total, spread, left, windows = _functionals(scheme, of, keys, largest)
    near = tally.cells <= len(total.near)
    at = tally.cells[near] - 1
    far = scheme.flat(tally.cells[~near], [of, spread.function])
    seen = float(tally.weights[near] @ total.near[at] + tally.weights[~near] @ far[:, 0])
    guess, better = (np.append(values[at], far[:, 1]) for values in (spread.flat, spread.near))
    variance = max(float(tally.squares @ better), _LEAST * float(tally.squares @ guess))
    each = guess * tally.squares / tally.keys
    freedom = float(tally.keys @ each) ** 2 / max(float(tally.keys @ each**2), 1e-300)
    dark, dark_error = _continued(total, windows, tally.weights[near], tally.squares[near], at)
    slack = float(np.abs(tally.weights[near]) @ left[at])
    return Parts(seen, math.sqrt(variance), slack, freedom, dark, dark_error)


def rough(keys: float) -> int:
    """Round a number of reported keys up, so that few functionals serve all of them."""
    return int(10 ** (np.ceil(2 * np.log10(max(keys, 100))) / 2))


Window = tuple[Functional, float, float, float]


@lru_cache(maxsize=64)
def _functionals(
    scheme: Calibration, of: Measure, keys: int, largest: int
) -> tuple[Functional, Functional, Floats, list[Window]]:
    """For the sum, for its variance; what bias is left for each token; for the number of keys just above the edge."""
    total = Functional(scheme, of, keys)
    spread = Functional(scheme, total.variance(largest), 10 * keys)
    bias = np.where(scheme.dark, 0.0, np.abs(total.bias))
    left = scheme.flat_table(lambda i: np.interp(i, scheme.frequencies, bias, right=0.0))
    return total, spread, left, windows_of(total, keys)


def windows_of(total: Functional, keys: float) -> list[Window]:
    """Return what estimates the number of keys for each frequency just above the edge: all windows, or none."""
    scheme = total.scheme
    windows: list[Window] = []
    if (total.bias[scheme.dark] < 0).any():
        # wide enough to tell frequencies apart
        widen = max(1.0, 2.5 / (float(scheme.privacy.epsilon) * _WIDTH * scheme.edge))
        for place, more in _WINDOWS:
            centre = math.log(scheme.edge) + math.log(place) * widen
            window = Functional(scheme, _around(centre, _WIDTH * widen), _ROUGH * keys)
            inside = window.function(scheme.frequencies[~scheme.dark])
            # keys of the dark that are reported look like keys at the edge
            width = (float(inside.sum()) + float(window.mean[scheme.dark].sum())) * scheme.step
            if inside.any() and width > 0:
                windows.append((window, width, more, centre))
    return windows if len(windows) == len(_WINDOWS) else []


def _continued(
    total: Functional, windows: list[Window], weights: Floats, squares: Floats, at: Ints
) -> tuple[float, float]:
    """What the dark adds to the sum if the density goes on below the edge as it is above, and its standard error."""
    if not windows:
        return 0.0, 0.0
    density, error = np.zeros((2, len(windows)))
    for n, (window, width, _, _) in enumerate(windows):
        b = window.near[at]
        density[n], error[n] = float(weights @ b) / width, math.sqrt(float(squares @ b**2)) / width
    return continued(total, windows, density, error)


def continued(total: Functional, windows: list[Window], density: Floats, error: Floats) -> tuple[float, float]:
    """Continue these densities, of all windows, into the dark: what is surely to be added to the sum, and its error."""
    more, place = (np.array([window[n] for window in windows]) for n in (2, 3))
    n = int(np.argmin(more * (density - _CAUTION * error)))
    if density.min() <= 0:
        return 0.0, float(more[n] * error[n] * _missed(total, 0.0))
    # a density that surely falls toward the edge, or bends to, goes on doing so; one that rises stays what it was
    apart = np.diff(place)
    slopes = np.diff(np.log(density)) / apart
    spread = (error / density) ** 2
    unsure = math.sqrt(4 * (spread[0] + spread[1]) / apart[0] ** 2 + (spread[1] + spread[2]) / apart[1] ** 2)
    bend = float(slopes[0] - slopes[1])
    slope = float(slopes[0]) + (bend if bend <= _SHARPEST else 0.0) - _CAUTION * unsure
    missed = _missed(total, min(max(slope, 0.0), _STEEPEST))
    added, unsure = float(more[n] * density[n] * missed), float(more[n] * error[n] * missed)
    return max(added - _CAUTION * unsure, 0.0), unsure


def _missed(total: Functional, slope: float) -> float:
    """What the sum misses if there is one key for each frequency at the edge, and ever fewer below."""
    scheme = total.scheme
    falling = (scheme.frequencies[scheme.dark] / scheme.edge) ** slope
    return float(np.maximum(-total.bias[scheme.dark], 0.0) @ falling) * scheme.step


def _around(centre: float, width: float) -> Function:
    """A smooth window: 1 at the centre, 0 from so far away on, in the logarithm of the frequency."""
    return lambda i: (1 + np.cos(np.pi * np.clip((np.log(np.maximum(i, 1)) - centre) / width, -1, 1))) / 2

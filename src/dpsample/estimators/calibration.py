"""Calibration: what the tokens of a scheme tell, and values of tokens that have no bias at visible frequencies.

Seen from the tokens, frequencies are of two kinds. As long as pi grows as fast as privacy allows, by a factor of
exp(epsilon) from one frequency to the next, so does the probability of each token: all these frequencies give a
reported key nearly the same law of its token. They lie in the dark: nobody can tell them apart, and few of their keys
are reported at all. From the edge on, where pi has reached q, or one half, a key's token tells its frequency, and
there are values ``a(token)`` with ``E[a] = h(i)`` at every such frequency i, whatever the distribution of the
frequencies: nothing has to be assumed about them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpsample.privacy import Privacy
from dpsample.scheme.reporting import reporting
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.token_columns import life
from dpsample.scheme.tokens import TokenLaw, lifetime, steady_from, token_law, token_laws

_GROWING = 1e-6  # of pi: less than this below what privacy allows is no slower growth
_SETTLED = 0.999  # of q: from here on the flat estimates need no correction, once a token's lifetime has passed
STEP = 0.1  # of 1/epsilon: the table's frequencies, and bins of tokens, which are spread over 1.4 of it
_LARGEST = 20_000_000  # numbers in the table
_KNOTS, _PICKS = 12, 512  # frequencies beyond the table, and tokens of each, by which variances are computed
_BLOCK = 1 << 21  # tokens times rows at once: many, since each time a token's life is walked through anew
TRUST = 50.0  # how much a bias weighs against a variance, when as many keys as are reported had it

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

    def absent(self, frequencies: Ints) -> Floats:
        """Return 1 - pi."""
        found: Floats = self._rows.probabilities(frequencies, complement=True)
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
    def _lives(self) -> tuple[Floats, Floats, Floats]:
        """Of the table's tokens, in each row from its birth on: its probability, and this over pi from the edge on;
        and the sum of its probabilities from there on.
        """
        cells = np.arange(1, self.table_tokens + 1, dtype=np.int64)
        frequencies, mass = life(cells, self._rows, self.grid)
        pi = self._rows.probabilities(frequencies)
        seen = (mass > 0) & (frequencies >= self.edge)
        return mass, np.divide(mass, pi, out=np.zeros_like(mass), where=seen), mass.sum(1, where=seen)

    @cached_property
    def laws(self) -> Floats:
        """The probability of each token, in columns, at each of the table's frequencies."""
        table = np.zeros((len(self.frequencies), self.table_tokens))
        mass, _, _ = self._lives
        for birth in range(1, int(self.frequencies[-1]) + 1):
            first = -(-(birth - int(self.frequencies[0])) // self.step) if birth > self.frequencies[0] else 0
            age = int(self.frequencies[first]) - birth if first < len(self.frequencies) else mass.shape[1]
            rows = mass[(birth - 1) * self.grid : birth * self.grid, age :: self.step].T
            table[first : first + len(rows), (birth - 1) * self.grid : birth * self.grid] = rows[
                : len(self.frequencies) - first
            ]
        return table

    def laws_beyond(self, frequencies: Ints) -> list[TokenLaw]:
        """Return laws at ascending frequencies; where all are shifts of one another, one is computed."""
        steady = steady_from(self._rows)
        near = frequencies[frequencies < steady]
        laws = list(token_laws(near, self.sampling, self.privacy, self.grid))
        if len(near) == len(frequencies):
            return laws
        law = self._steady_law
        moved = (frequencies[len(near) :] - steady).tolist()
        return laws + [replace(law, frequency=steady + by, cells=law.cells + by * self.grid) for by in moved]

    @cached_property
    def _steady_law(self) -> TokenLaw:
        return token_law(steady_from(self._rows), self.sampling, self.privacy, self.grid)

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

    @cached_property
    def gram(self) -> Floats:
        """Of each two bins, the sum over the visible frequencies of `matter` times both probabilities."""
        found: Floats = (self.binned.T * self.matter) @ self.binned
        return found

    def flat_table(self, function: Function) -> Floats:
        """E[h / pi] given each of the table's tokens, as `flat`."""
        _, weight, seen = self._lives
        last, length = int(self.frequencies[-1]), weight.shape[1]
        values = function(np.minimum(np.arange(1, last + length, dtype=np.int64), self.sampling.largest))
        # those of one birth see the same values
        sums = weight.reshape(last, self.grid, length) @ sliding_window_view(values, length)[:, :, None]
        return np.divide(sums.reshape(-1), seen, out=np.zeros(self.table_tokens), where=seen > 0)

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

    def correction(self, bias: Floats, trust: float) -> Floats:
        """What to add in each bin to values that have this bias at the visible frequencies, so that it goes.

        Minimises ``sum over visible i of w_i (trust * bias_i**2 + E_i[correction**2])``, with the weights `matter`. For
        several biases, in rows, there are as many rows.
        """
        weight, A, inverse, scale, empty = _normal(self, trust)
        wanted = scale * ((weight * trust * bias) @ self.binned)
        found: Floats = wanted @ inverse
        found += (wanted - found @ A) @ inverse  # an inverse is less exact than a solution: what it missed is added
        found *= -scale
        found[..., empty] = 0
        return found

    @cached_property
    def matter(self) -> Floats:
        """Weights of the visible frequencies that make all of them matter alike."""
        i = self.frequencies[~self.dark]
        pi = self._rows.probabilities(i)
        spread = (i.astype(np.float64) ** 2 * (1 - pi) + (1.4 / float(self.privacy.epsilon)) ** 2) / pi
        found: Floats = 1 / (spread * i)
        return found


@lru_cache(maxsize=3)  # a sum has three degrees of trust; each may take many megabytes
def _normal(scheme: Calibration, trust: float) -> tuple[Floats, Floats, Floats, Floats, Any]:
    """The normal equations of `correction`, which are the same for every function: costly, so kept."""
    weight = scheme.matter
    square = weight @ scheme.binned
    empty = square <= 1e-14 * square.max()
    A = trust * scheme.gram
    A[np.diag_indices_from(A)] += np.where(empty, square.max(), square)
    scale = 1 / np.sqrt(np.diag(A))
    A = A * scale * scale[:, None]
    A[np.diag_indices_from(A)] += 1e-12
    return weight, A, np.linalg.inv(A).astype(np.float64, copy=False), scale, empty


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
        left = (scheme.laws @ self.flat - targets)[~scheme.dark]
        self.near[: len(scheme.bins)] += scheme.correction(left, TRUST * keys)[scheme.bins]
        self.mean = scheme.laws @ self.near  # at the table's frequencies, as all that follows
        self.bias = self.mean - targets

    @cached_property
    def variances(self) -> Floats:
        """The variance of one key's value at the table's frequencies."""
        return self.scheme.laws @ self.near**2 - self.mean**2

    def values(self, cells: Ints) -> Floats:
        """Return the value of each token; of those beyond the table, the flat one."""
        found = np.empty(len(cells))
        near = cells <= len(self.near)
        found[near] = self.near[cells[near] - 1]
        found[~near] = self.scheme.flat(cells[~near], [self.function])[:, 0]
        return found

    def covariance(self, other: "Functional", largest: int) -> Function:
        """Return the covariance of one key's two values as a function of its frequency, up to about the largest one."""
        scheme = self.scheme
        i, found = scheme.frequencies, scheme.laws @ (self.near * other.near) - self.mean * other.mean
        far, laws = self._beyond(largest)
        if laws:
            ours, others = self._between(laws), other._between(laws)
            i, found = np.append(i, far), np.append(found, [_covariance(law, ours, others) for law in laws])
        return lambda frequencies: np.interp(frequencies, i, found)

    def left(self, largest: int) -> Function:
        """Return the bias that one key's value may have as a function of its frequency, from the edge on."""
        i, found = self.scheme.frequencies, np.where(self.scheme.dark, 0.0, np.abs(self.bias))
        far, laws = self._beyond(largest)
        if laws:
            known = self._between(laws)
            means = np.array([law.probabilities @ known(law.cells) for law in laws])
            # elsewhere the flat values have no bias to speak of
            bias = np.where(np.isin(far, self._bend), np.abs(means - self.function(far)), 0.0)
            i, found = np.append(i, far), np.append(found, bias)
        return lambda frequencies: np.interp(frequencies, i, found, right=0.0)

    def _beyond(self, largest: int) -> tuple[Ints, list[TokenLaw]]:
        """Some frequencies beyond the table, up to about the largest one, and their laws."""
        start, last = int(self.scheme.frequencies[-1]) + 1, min(largest, self.scheme.sampling.largest)
        if last < start:
            return np.empty(0, np.int64), []
        bend = self._bend[(self._bend >= start) & (self._bend <= last)]
        far = np.unique(np.append(np.geomspace(start, last, _KNOTS).astype(np.int64), bend))
        return far, self.scheme.laws_beyond(far)

    @cached_property
    def _bend(self) -> Ints:
        """Frequencies around which the function jumps or bends, so that its values cannot follow."""
        kink = getattr(self.function, "kink", None)
        if kink is None:
            return np.empty(0, np.int64)
        around = np.rint(np.linspace(-8, 8, 33) / float(self.scheme.privacy.epsilon)).astype(np.int64)
        found: Ints = kink + np.append(around, -1)
        return found

    def _between(self, laws: list[TokenLaw]) -> Function:
        """Return the values of tokens, by those of some: in a law of many, with a small epsilon, they hardly bend."""
        picks, end = [], 0
        for law in laws:  # ascending, so that of what several have only the first is looked at
            cells = law.cells[law.cells > end]
            size = min(cells.size, max(_PICKS * cells.size // law.cells.size, 2))
            picks.append(cells[np.linspace(0, cells.size - 1, size).astype(np.int64)])
            end = max(end, int(law.cells[-1]))
        at = np.concatenate(picks)
        known = self.values(at)
        return lambda cells: np.interp(cells, at, known)


def _covariance(law: TokenLaw, ours: Function, others: Function) -> float:
    """The covariance of two values of a key's token; both are 0 if it is not reported."""
    a, b = ours(law.cells), others(law.cells)
    m, n = law.probabilities @ a, law.probabilities @ b
    return float(law.probabilities @ ((a - m) * (b - n)) + law.not_reported * m * n)

"""Tally: what a question sees of the keys that it selects."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsample.scheme.sampling import Floats, Ints


@dataclass(frozen=True, eq=False)
class Tally:
    """The selected keys of a release, by token. Tallies of equal numbers are equal, and hash alike.

    >>> tally = Tally.of([16, 40, 16], weights=[1.0, 0.5, 3.0])
    >>> tally.cells, tally.keys, tally.weights, tally.squares
    (array([16, 40]), array([2, 1]), array([4. , 0.5]), array([10.  ,  0.25]))
    >>> tally == Tally.of([40, 16, 16], weights=[0.5, 3.0, 1.0])
    True
    """

    cells: Ints  # distinct tokens in units of 1/grid, ascending
    keys: Ints  # number of selected keys with each
    weights: Floats  # sum of L(x) over them; their number if there is no weight
    squares: Floats  # sum of L(x)**2

    @staticmethod
    def of(cells: "Ints | list[int]", weights: "Floats | list[float] | None" = None) -> "Tally":
        """Tally keys one by one: their tokens in units of 1/grid, and weights if there are any."""
        all_cells = np.asarray(cells, np.int64)
        distinct, back = np.unique(all_cells, return_inverse=True)
        weight_of_key = np.ones(len(back))
        if weights is not None:
            weight_of_key = np.asarray(weights, np.float64)
        n = len(distinct)
        keys = np.bincount(back, minlength=n)
        # added to zeros, since bincount returns integers where there are no keys
        sums = np.zeros(n) + np.bincount(back, weight_of_key, n)
        squares = np.zeros(n) + np.bincount(back, weight_of_key * weight_of_key, n)
        return Tally(distinct, keys, sums, squares)

    @property
    def unweighted(self) -> "Tally":
        """The same keys, each with weight 1."""
        ones = self.keys.astype(np.float64)
        return Tally(self.cells, self.keys, ones, ones)

    @property
    def total(self) -> int:
        """The number of keys."""
        return int(self.keys.sum())

    def _bytes(self) -> tuple[bytes, ...]:
        """Return the numbers of all columns, by which tallies are compared."""
        columns = (self.cells, self.keys, self.weights, self.squares)
        return tuple(column.tobytes() for column in columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())


@dataclass(frozen=True, eq=False)
class Tallies:
    """The tallies of several groups, none of them empty, one after the other.

    >>> Tallies.of([Tally.of([16, 40]), Tally.of([16])]).sums(np.array([1.0, 2.0, 4.0]))
    array([3., 4.])
    """

    cells: Ints  # as in `Tally`, of each group
    keys: Ints
    weights: Floats
    squares: Floats
    starts: Ints  # where each group starts

    @staticmethod
    def of(tallies: Sequence[Tally]) -> "Tallies":
        """Return the tallies of groups, one after the other."""
        lengths = np.array([len(tally.cells) for tally in tallies])
        starts = np.cumsum(lengths) - lengths
        cells = np.concatenate([tally.cells for tally in tallies])
        keys = np.concatenate([tally.keys for tally in tallies])
        weights = np.concatenate([tally.weights for tally in tallies])
        squares = np.concatenate([tally.squares for tally in tallies])
        return Tallies(cells, keys, weights, squares, starts)

    def sums(self, values: Floats | Ints) -> Floats:
        """Return the sum of values, one for each token of each group, by group."""
        return np.add.reduceat(values, self.starts)

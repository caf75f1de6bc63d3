"""Bounded noise: the law of a token for many keys of one user, without sampling; docs/theory.md, section 9.

A key of frequency i gets the token i - z, with z from 0 to n - 1 drawn from one table, and is reported if its token is
at least 1. So rows are shifts of one another, cut off at 1, and adding or removing a user shifts by one the law of each
of the user's keys. What k such shifts cost together follows from the table alone (`accounting.many_keys`), whatever the
frequencies. The table is symmetric, and made of integers: a token is drawn by comparing integers.

With an offset m, a key is reported if i - z is at least 1 - m, and its token is the larger of i - z and 1. A token
never exceeds the frequency. A key that only this user has is reported with the probability of m + 1 cells, and the end
of the table, which costs delta for all other keys, is smaller.

If no key below a frequency of n is kept, all of this holds of i - n + 1, and n - 1 is added to the tokens.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.scheme.law import Law, PerKeyMethod
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Sampling, as_frequencies

BITS = 128  # of the integers of a table, which sum to 2**128
_ONE = 1 << BITS
MOST_CELLS = 1 << 20  # a table that a file states is read in a second


@dataclass(frozen=True)
class KeyNoise(PerKeyMethod):
    """Noise from 0 to `cells` - 1 whose law is symmetric, in integers over 2**128: the first half of them.

    Keys are reported down to a difference of 1 - `offset` between their frequency and the noise.

    >>> noise = KeyNoise.of([1, 2, 4, 2, 1])
    >>> noise.cells, [round(p * 10) for p in noise.probabilities]
    (5, [1, 2, 4, 2, 1])
    >>> [round(float(KeyNoise.of([1, 2, 4, 2, 1], offset).new_key), 1) for offset in (0, 1)]
    [0.1, 0.3]
    """

    cells: int
    half: tuple[int, ...]
    offset: int = 0
    name: ClassVar[str] = "bounded noise"

    def __post_init__(self) -> None:
        if not self._is_table():
            raise InvalidValue(
                "a table of noise must be symmetric, of positive integers that sum to 2**128",
                "get the release again from where it was written",
            )
        if type(self.offset) is not int or not 0 <= 2 * self.offset <= self.cells - 3:
            raise InvalidValue(
                f"the offset of noise must be a whole number before the middle of its table, not {self.offset!r}",
                "get the release again from where it was written",
            )

    def _is_table(self) -> bool:
        """Whether the integers are a law of this number of cells."""
        if not isinstance(self.cells, int) or not 3 <= self.cells <= MOST_CELLS:
            return False
        if len(self.half) != (self.cells + 1) // 2:
            return False
        return min(self.half) >= 1 and sum(self.table) == _ONE

    @classmethod
    def of(cls, weights: ArrayLike, offset: int = 0) -> "KeyNoise":
        """Return the table that is closest to symmetric weights, each rounded down; the middle has the rest."""
        values = np.asarray(weights, np.float64)
        cells = len(values)
        shares = values[: (cells + 1) // 2] / math.fsum(values)
        half = [max(int(math.ldexp(share, BITS)), 1) for share in shares.tolist()]
        rest = _ONE - 2 * sum(half)
        if cells % 2:  # the middle cell was subtracted twice
            half[-1] += rest + half[-1]
        else:
            half[-1] += rest // 2
        return cls(cells, tuple(half), offset)

    @cached_property
    def table(self) -> tuple[int, ...]:
        """The integers of all cells."""
        mirrored = self.half[::-1]
        return self.half + (mirrored[1:] if self.cells % 2 else mirrored)

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The sums of the first 0, 1, ..., n integers."""
        return (0, *accumulate(self.table))

    @cached_property
    def probabilities(self) -> Floats:
        """The probability of each cell."""
        return np.array([n / _ONE for n in self.table])

    @cached_property
    def below(self) -> Floats:
        """The probabilities of the first 0, 1, ..., n cells."""
        return np.array([n / _ONE for n in self.cuts])

    @cached_property
    def epsilon(self) -> float:
        """The epsilon of discrete Laplace noise of the same standard deviation, to which estimators scale theirs."""
        middle = (self.cells - 1) / 2
        z = np.arange(self.cells) - middle
        variance = float(self.probabilities @ z**2)
        return math.sqrt(2 / variance)

    @property
    def delta(self) -> Fraction:
        """The probability of each end, where one of two shifted laws has no counterpart."""
        return Fraction(self.half[0], _ONE)

    @property
    def new_key(self) -> Fraction:
        """The probability with which a key of frequency 1 is reported: that of the first `offset` + 1 cells."""
        reported = self.half[: self.offset + 1]
        return Fraction(sum(reported), _ONE)

    @property
    def steps(self) -> float:
        """Half of the steps that pi needs from 0 to 1."""
        return self.cells / 2

    def reporting(self, sampling: Sampling) -> "NoiseReporting":
        """Return the reporting probabilities and token laws, which are for `KeepAll`."""
        return NoiseReporting(sampling, self)

    def strided(self, k: int) -> "KeyNoise":
        """Return the noise at every k-th frequency, for predictions: cells of k cells each, around the same middle."""
        cells = -(-self.cells // k)
        padded = np.zeros(cells * k)
        start = (cells * k - self.cells) // 2
        padded[start : start + self.cells] = self.probabilities
        weights = padded.reshape(cells, k).sum(1)
        symmetric = (weights + weights[::-1]) / 2
        offset = min(round(self.offset / k), (cells - 3) // 2)
        return KeyNoise.of(symmetric, offset)

    def claim(self, sampling: Sampling) -> str:  # noqa: D102
        lowest = f", with a token of at least {sampling.least}" if self.offset else ""
        cut_off = f"cut off below {sampling.least - self.offset}{lowest}"
        return f"{self}: at every frequency the same symmetric table, shifted, and {cut_off}"

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form: hexadecimal integers, and the offset if there is one."""
        form: dict[str, Any] = {
            "method": self.name,
            "cells": self.cells,
            "half": [f"{n:x}" for n in self.half],
        }
        if self.offset:
            form["offset"] = self.offset
        return form

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "KeyNoise":
        """Read the JSON form back."""
        half = tuple(int(n, 16) for n in form["half"])
        return cls(form["cells"], half, form.get("offset", 0))

    def __hash__(self) -> int:
        return hash(
            (self.cells, self.half[0], self.half[-1], self.offset)
        )  # of a long table, this is enough

    def __str__(self) -> str:
        offset = f" with offset {self.offset}" if self.offset else ""
        return f"bounded noise of {self.cells:,} cells{offset}"


class NoiseReporting(Law):
    """Pi and tokens of bounded noise, for `KeepAll`."""

    bell_shaped = True

    def __init__(self, sampling: Sampling, noise: KeyNoise) -> None:
        if not isinstance(sampling, KeepAll):
            raise InvalidValue(
                f"bounded noise is for all keys, not for {sampling}",
                "choose another method for samples",
            )
        self.sampling = sampling
        self.per_key = noise
        self.noise = noise
        self.bits = BITS
        self.one = _ONE
        self.delta = noise.half[0]
        self._shift = sampling.at_least - 1  # frequencies and tokens count from here
        self.binding: Ints = np.arange(1, noise.cells, dtype=np.int64) + self._shift
        self.delicate = self.binding

    @property
    def constant_from(self) -> int:  # noqa: D102
        return self.noise.cells + self._shift

    def pi(self, i: int) -> int:  # noqa: D102
        shifted = i - self._shift
        if shifted <= 0:
            return 0
        reported_cells = min(shifted + self.noise.offset, self.noise.cells)
        return self.noise.cuts[reported_cells]

    def _reported_cells(self, frequencies: Ints) -> Ints:
        """Return the number of first cells of the table with which a key is reported; 0 for a key that is not kept."""
        shifted = frequencies - self._shift
        # the smaller one first: a frequency may be the largest int64
        cells = np.minimum(shifted, self.noise.cells - self.noise.offset) + self.noise.offset
        return np.where(shifted > 0, cells, 0)

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:  # noqa: D102
        cells = self._reported_cells(as_frequencies(frequencies))
        if complement:  # the law is symmetric
            cells = self.noise.cells - cells
        pi: Floats = self.noise.below[cells]
        return pi

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return pi, and 1 from where it is one half on: there, tokens tell neighbouring frequencies apart."""
        pi = self.probabilities(rows[1:])
        return pi, np.where(pi >= 0.5, 1.0, 0.0)

    def integer_tails(self, frequency: int) -> tuple[int, ...]:
        """S at x = i - 1, i - 2, ... down to 0, or to where it is 1, in integers: the last token has all that is left.

        >>> reporting = KeyNoise.of([1, 2, 4, 2, 1], offset=1).reporting(KeepAll())
        >>> [[round(10 * cut / reporting.one) for cut in reporting.integer_tails(i)] for i in (1, 2, 3, 9)]
        [[3], [1, 7], [1, 3, 9], [1, 3, 7, 9, 10]]
        """
        cuts = self.noise.cuts
        shifted = max(frequency - self._shift, 0)
        if shifted >= self.noise.cells:
            return cuts[1:]
        return (*cuts[1:shifted], self.pi(frequency))

    def boundaries(self, frequencies: Ints, grid: int) -> Iterator[tuple[int, Floats]]:  # noqa: D102
        for i in frequencies.tolist():
            yield i, self._boundaries(i)

    def _boundaries(self, frequency: int) -> Floats:
        """Return S at x = i, i - 1, ... down to 0, or to where it is 1."""
        below = self.noise.below
        cells = self.noise.cells
        shifted = max(frequency - self._shift, 0)
        if shifted >= cells or not self.noise.offset:
            return below[: min(shifted, cells) + 1]
        reported_cells = min(shifted + self.noise.offset, cells)
        return np.append(below[:shifted], below[reported_cells])

    def tails(self, frequencies: Ints, grid: int = 1) -> tuple[Floats, Floats]:  # noqa: D102
        below = self.noise.below
        cells = self.noise.cells
        k = np.arange(cells + 1)[:, None]
        reported = self._reported_cells(frequencies)
        is_above_lowest = k < frequencies - self._shift
        # from the lowest token on, all cells with which the key is reported
        cells_above = np.where(is_above_lowest, k, reported)
        not_above = below[cells - cells_above]  # the law is symmetric
        not_reported = below[cells - reported]
        return below[cells_above], not_above - not_reported

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:  # noqa: D102
        support = self.noise.cells
        rows = max(window, support) + 1
        mass = np.zeros((rows, 1))
        mass[:support, 0] = self.noise.probabilities
        above = np.ones((rows, 1))
        above[:support, 0] = self.noise.below[:-1]
        mass_of_tokens = np.repeat(mass, cells.size, axis=1)
        # the lowest token stands for all differences from it down to it - offset
        is_lowest = cells == 1 + self._shift
        for more in range(1, self.noise.offset + 1):
            mass_of_tokens[:-more, is_lowest] += mass[more:]
        return mass_of_tokens, np.repeat(above, cells.size, axis=1)

    def locate(self, frequencies: Ints, v: Floats, grid: int) -> tuple[Ints, Floats, Floats]:  # noqa: D102
        below = self.noise.below
        noise_of_lowest = frequencies - self._shift - 1
        most_noise = np.minimum(self.noise.cells - 1, noise_of_lowest)
        cell = np.searchsorted(below, v, side="right") - 1
        noise = np.minimum(cell, most_noise)
        reported = self._reported_cells(frequencies)
        cells_from_token = np.where(noise == noise_of_lowest, reported, noise + 1)
        return frequencies - noise, below[noise], below[cells_from_token]

"""Coins that a test chooses: the library has no such door."""

from __future__ import annotations

import numpy as np

from dpsample.private.randomness import Coins, Words


class GivenCoins(Coins):
    """Bits handed in as data: `words` in order, then the bits of `rest` for what they leave undecided."""

    def __init__(self, words: Words, rest: int = 0) -> None:
        self._words, self._at, self._rest = np.asarray(words, np.uint64), 0, rest

    def first(self, n: int) -> Words:
        taken = self._words[self._at : self._at + n]
        if len(taken) < n:
            raise IndexError("the given words are used up")
        self._at += n
        return taken

    def more(self, row: int, bits: int) -> int:
        return self._rest & ((1 << bits) - 1)

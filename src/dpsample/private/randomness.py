"""The only door to randomness.

Each decision compares a uniform number, written in binary, with a cut point. The first 64 bits settle nearly every
decision; `Coins.more` gives as many further bits of the same number as an undecided comparison needs, so that
probabilities are exact. There is no seed: the bits are the key stream of a cipher under a secret key, which the
operating system draws for each run and which dies with it. Where work may be done twice, as on a cluster, the bits are
those of `derived_coins.Secret`, which decides the same about a key each time.

A release draws all of its coins from one `CoinSource`.
"""

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Words = NDArray[np.uint64]
_PIECE = 1 << 20  # words encrypted at once: more would take memory for zeros, and no less time


def secret_key() -> bytes:
    """Draw a key that nobody knows."""
    return os.urandom(32)


class CoinSource(Protocol):
    """Where one release gets its coins from: `SecretCoins` on one machine, `Secret` where work may be done twice."""

    def for_keys(self, keys: "pa.RecordBatch", purpose: str) -> "Coins":
        """Return the coins for decisions about these keys, one number for each row."""

    def for_elements(self, elements: "pa.RecordBatch", place: tuple[int, int]) -> "Coins":
        """Return the coins for decisions about these elements, batch `place[1]` of partition `place[0]`."""

    def fresh(self) -> "Coins":
        """Return coins for what is drawn once: noise, and on one machine which keys users keep."""


class Coins(ABC):
    """Uniform numbers in [0, 1), one for each decision; each is used for that decision only."""

    @abstractmethod
    def first(self, n: int) -> Words:
        """Return the first 64 bits of n fresh numbers."""

    @abstractmethod
    def more(self, row: int, bits: int) -> int:
        """Return the next `bits` bits of number `row` of the last call of `first`; asked at most once for each."""

    # any coins are a `CoinSource` for work that is done once: each number is fresh, whatever it decides

    def for_keys(self, keys: "pa.RecordBatch", purpose: str) -> Self:  # noqa: D102
        return self

    def for_elements(self, elements: "pa.RecordBatch", place: tuple[int, int]) -> Self:  # noqa: D102
        return self

    def fresh(self) -> Self:  # noqa: D102
        return self


class StreamCoins(Coins):
    """The key stream of AES-256 in counter mode, under a key of 32 bytes that is used for nothing else.

    The first `start` words are passed over, without computing them.
    """

    def __init__(self, key: bytes, start: int = 0) -> None:
        first_block = (start // 2).to_bytes(16, "big")  # a block of the cipher has two words
        self._stream = Cipher(AES256(key), CTR(first_block)).encryptor()
        StreamCoins.first(self, start % 2)

    def first(self, n: int) -> Words:  # noqa: D102
        words = np.empty(n + 2, np.uint64)  # the cipher asks for room for one block more
        target = words.view(np.uint8).data
        for start in range(0, n, _PIECE):
            zeros = bytes(8 * min(_PIECE, n - start))  # encrypting zeros gives the key stream
            self._stream.update_into(zeros, target[8 * start :])
        return words[:n]

    def more(self, row: int, bits: int) -> int:  # noqa: D102
        return int.from_bytes(self.first(-(-bits // 64)).tobytes(), "little") >> (-bits % 64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SecretCoins(StreamCoins):
    """A key stream under a key from the operating system."""

    def __init__(self) -> None:
        super().__init__(secret_key())
        self._process = os.getpid()

    def first(self, n: int) -> Words:  # noqa: D102
        if os.getpid() != self._process:  # a forked process must not repeat its parent's bits
            self.__init__()  # type: ignore[misc]
        return super().first(n)

    def __reduce__(self) -> tuple[type["SecretCoins"], tuple[()]]:
        return SecretCoins, ()  # a copy elsewhere has a secret of its own

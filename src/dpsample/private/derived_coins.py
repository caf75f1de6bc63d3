"""Coins for work that may be done twice: the same key gets the same coins, however often and wherever it is asked.

A cluster re-runs tasks: failures, speculation, a lost partition, a table that is evaluated twice. Coins drawn anew each
time would be a second draw, and parts of both could meet in one release. So all coins of a release are a keyed function
of a secret that is drawn for this release alone, of the purpose, and of what is decided about:

    about a key         BLAKE2b, keyed with the secret, of the key. Independent between keys and purposes; nothing else
                        goes in, so neither the order of rows nor their partition matter. For which keys a user keeps,
                        it is of the user and the key.
    along elements      An element has no name of its own. A batch of elements gets the key stream of AES under
                        BLAKE2b(secret; place of the batch, all that is in it), element by element.

Why elements go by the batch. Were the coins those of a position alone, then a task that is run again and meets its rows
in another order would toss the first run's coins for other keys. If some readers have the first run's output and some
the second's, then one coin decides about two keys, which are no longer sampled independently. With the content in the
key, a batch that is the same is decided the same, and a batch that differs in anything, if only in its order, has coins
that are independent of all others. Whichever run's output of a task is read for a key, coins of their own have decided
about its elements, once: the law of the picked keys is right whatever is re-run. If the rows come in the same order, as
they do from files, the same keys are picked.
"""

from functools import cached_property
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa

from dpsample.files import ContentHash, is_text
from dpsample.lazy import pc
from dpsample.private.randomness import Coins, SecretCoins, StreamCoins, Words, secret_key

# what coins of keys decide: which keys users keep, which keys are sampled, which are reported, and how rows are divided
PURPOSES: Final = ("keep", "sample", "sanitize", "part")
_BLOCK = 64  # bytes of one BLAKE2b digest


class Secret:
    """The secret of one release: 32 bytes, drawn for it, never shown, and never used for a second one.

    >>> Secret()
    Secret()
    >>> keys = pa.record_batch({"key": ["a", "b"]})
    >>> secret = Secret()
    >>> bool((secret.for_keys(keys, "sample").first(2) == secret.for_keys(keys, "sample").first(2)).all())
    True
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secret_key() if key is None else key

    def for_keys(self, keys: pa.RecordBatch, purpose: str) -> "KeyedCoins":
        """Return the coins for decisions about keys, one row each."""
        return KeyedCoins(self._key, keys, purpose)

    def for_elements(self, elements: pa.RecordBatch, place: tuple[int, int]) -> StreamCoins:
        """Return the coins for decisions about elements, batch `place[1]` of partition `place[0]`."""
        content = ContentHash(elements.schema)
        content.update(elements)
        batch = f"{place[0]} {place[1]} {content.hexdigest()}".encode()
        key = blake2b(batch, digest_size=32, key=self._key, person=b"pick").digest()
        return StreamCoins(key)

    def fresh(self) -> Coins:
        """Return coins for what is drawn once, on the driver: they do not follow from the secret."""
        return SecretCoins()

    def __repr__(self) -> str:
        return "Secret()"


class KeyedCoins(Coins):
    """Bits of a keyed function of each row's key, for one purpose.

    The number of a row is BLAKE2b(key = secret, person = purpose, salt = n) of the row, for n = 0, 1, 2, ...
    """

    def __init__(self, secret: bytes, keys: pa.RecordBatch, purpose: str) -> None:
        if purpose not in PURPOSES:
            raise ValueError(f"unknown purpose {purpose!r}")
        self._secret = secret
        self._person = purpose.encode()
        self._keys = keys

    @cached_property
    def _rows(self) -> list[bytes]:
        return encoded(self._keys)

    def first(self, n: int) -> Words:  # noqa: D102
        if n != self._keys.num_rows:
            raise ValueError("there is one number for each key")
        return self._hashed(8)

    def wide(self) -> Words:
        """Return 128 bits for each key: rows of two words."""
        words_of_keys = self._hashed(16)
        return words_of_keys.reshape(-1, 2)

    def _hashed(self, size: int) -> Words:
        """Return this number of bytes for each key, as words of 8 bytes."""
        start = blake2b(digest_size=size, key=self._secret, person=self._person)
        words = []
        for row in self._rows:
            hashed = start.copy()
            hashed.update(row)
            words.append(hashed.digest())
        return np.frombuffer(b"".join(words), "<u8")

    def more(self, row: int, bits: int) -> int:  # noqa: D102
        blocks = -(-bits // (8 * _BLOCK))
        drawn = b"".join(self._block(row, number) for number in range(1, blocks + 1))
        spare_bits = 8 * len(drawn) - bits
        return int.from_bytes(drawn, "big") >> spare_bits

    def _block(self, row: int, number: int) -> bytes:
        """Return a further digest of a row: each number salts it differently."""
        salt = number.to_bytes(16, "big")
        hashed = blake2b(self._rows[row], key=self._secret, person=self._person, salt=salt)
        return hashed.digest()

    def __repr__(self) -> str:
        return "KeyedCoins()"


def encoded(keys: pa.RecordBatch) -> list[bytes]:
    """Return the bytes of each row: different for different keys, and the same for equal keys in any width of a type.

    A single column is its own bytes. Of several columns, each but the last has its length before it.

    >>> [row[:1] + row[8:] for row in encoded(pa.record_batch({"a": ["x", "xy"], "b": ["yz", "z"]}))]
    [b'\\x01xyz', b'\\x02xyz']
    """
    *before, rows = [_values(column) for column in keys.columns]
    for values in reversed(before):
        rows = [_with_length(value) + rest for value, rest in zip(values, rows, strict=True)]
    return rows


def _with_length(value: bytes) -> bytes:
    return len(value).to_bytes(8, "little") + value


def _values(column: pa.Array) -> list[bytes]:
    """Return the bytes of each value of a column: of text its UTF-8; 8 of whole numbers and times; 16 of decimals."""
    kind = column.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    if is_bytes or is_text(kind):
        texts: list[bytes] = column.cast(pa.large_binary()).to_pylist()
        return texts
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    is_unsigned = pa.types.is_unsigned_integer(column.type)
    wide = column.cast(pa.uint64() if is_unsigned else pa.int64())
    numbers = pc.fill_null(wide, 0).to_numpy(zero_copy_only=False)
    values: list[bytes] = numbers.view("V8").tolist()
    return values


def _decimals(column: pa.Array) -> list[bytes]:
    """Return the 16 bytes of each value of a column of decimals, in its scale."""
    wide = column.cast(pa.decimal128(38, column.type.scale))
    _, data = wide.buffers()
    size = 16  # bytes of a value
    first = size * wide.offset
    end = first + size * len(wide)
    values = memoryview(data)
    return [bytes(values[start : start + size]) for start in range(first, end, size)]

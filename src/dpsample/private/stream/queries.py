"""Streams that a streaming query counts: the state of one, as the query finds and leaves it. NOT private."""

from hashlib import blake2b

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.files import PathLike
from dpsample.private.derived_coins import Secret
from dpsample.private.stream.stream import read_stream


class QueryStream:
    """The state of a stream whose batches a streaming query counts: each batch once, in their order.

    The query may hand over its last batch again. It is recognized by the number that it has in the query.
    """

    def __init__(self, path: PathLike, query: str, batch: int) -> None:
        self._path, self._stream, self._batch = path, read_stream(path), (query, batch)
        follows, last = self._stream._query or (query, -1)
        if follows != query or batch > last + 1:
            raise InvalidValue(
                "the state has batches of another streaming query"
                if follows != query
                else "the state lacks batches of this streaming query before this one",
                "keep a state and its checkpoint together, or start both anew",
            )
        self.counted = batch <= last

    @property
    def held(self) -> pa.Table:
        """Held keys, and `frequency`. NOT private."""
        return self._stream.table

    @property
    def coins(self) -> Secret:
        """The coins of this batch: a batch that is counted again has the same."""
        number = self._batch[1].to_bytes(8, "little")
        return Secret(
            blake2b(number, digest_size=32, key=self._stream._secret, person=b"batch").digest()
        )

    def add(self, counted: pa.Table, elements: int) -> None:
        """Add what the batch has of held keys, those that it came to hold among them, and write the state."""
        stream = self._stream
        stream._require_types(counted.schema.remove(counted.schema.get_field_index("frequency")))
        stream._current().add(counted)
        stream._elements += elements
        stream._query = self._batch
        stream.write(self._path)

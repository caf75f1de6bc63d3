"""The stream of a streaming query, whose batches are counted where their rows are. NOT private."""

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.files import PathLike
from dpsample.private.derived_coins import Secret
from dpsample.private.stream.stream import read_stream


class QueryStream:
    """The state of a stream in a file, as a batch of a streaming query finds and leaves it.

    Each batch is counted once, in the order of batches. The query may hand over its last batch again: it is recognized
    by its number in the query, and then `counted` is true.
    """

    def __init__(self, path: PathLike, query: str, batch: int) -> None:
        self._path = path
        self._query = query
        self._batch = batch
        self._stream = read_stream(path)
        followed, last = self._stream._query or (query, -1)
        if followed != query:
            raise _wrong_state("the state has batches of another streaming query")
        if batch > last + 1:
            raise _wrong_state("the state lacks batches of this streaming query before this one")
        self.counted = batch <= last

    @property
    def held(self) -> pa.Table:
        """Held keys, and `frequency`. NOT private."""
        return self._stream.table

    @property
    def coins(self) -> Secret:
        """The coins of this batch: a batch that is counted again has the same."""
        return self._stream._coins_of_batch(self._batch)

    def add(self, counted: pa.Table, elements: int) -> None:
        """Add the keys of the batch that are held from now on, with their frequencies, and write the state."""
        self._stream._add_counted(counted, elements, (self._query, self._batch))
        self._stream.write(self._path)


def _wrong_state(problem: str) -> InvalidValue:
    return InvalidValue(problem, "keep a state and its checkpoint together, or start both anew")

"""Progress of long work: which stage a run has reached, and nothing that depends on the data.

People who may see only the release may see the terminal. So a listener is called with the name of each stage when it
begins, and hears nothing else. The stages follow from the request alone. They do not follow from rows, nor from noise
that was drawn: a run that is interrupted early costs nothing, so nobody would have paid for what they show.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

Listener = Callable[[str], None]


def no_listener(stage: str) -> None:
    """Do nothing: the listener of a run that nobody watches."""


class Progress:
    """The progress of one run.

    listener  a function that is called with the name of each stage when it begins; the calls are the same for all data
    rows      the number of rows of each stage so far. NOT private: for `--show-private`, never passed to the listener

    >>> heard = []
    >>> progress = Progress(heard.append)
    >>> batches = progress.through("counting keys", [pa.record_batch({"key": ["a", "b"]})])
    >>> sum(batch.num_rows for batch in batches), heard
    (2, ['counting keys'])
    """

    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener or no_listener
        self.rows: dict[str, int] = {}

    def __repr__(self) -> str:
        return "Progress()"

    def begin(self, stage: str) -> None:
        """Tell the listener which stage begins."""
        self._listener(stage)

    def through(self, stage: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a stage, which begins when the first batch is asked for."""
        self.begin(stage)
        self.rows[stage] = 0
        for batch in batches:
            self.rows[stage] += batch.num_rows
            yield batch

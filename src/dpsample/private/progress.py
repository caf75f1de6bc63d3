"""Progress of long work: which stage a run has reached, and nothing that depends on the data.

A terminal may be seen by people who may only see the release, and a run that is interrupted early costs nothing. So a
listener is called with the name of each stage when it begins. Which stages there are follows from the request alone:
neither from rows nor from noise that was drawn, since the release that would pay for it may never appear.
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

Listener = Callable[[str], None]


def no_listener(stage: str) -> None:
    """Hear nothing."""


class Progress:
    """How a run goes on.

    listener  is called with the name of each stage when it begins; any two datasets call it alike
    rows      how many rows each stage had. NOT private: for `--show-private`, and never passed to the listener

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
        """Name the stage that begins."""
        self._listener(stage)

    def through(self, stage: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the batches of a stage on, which begins with the first one that is asked for."""
        self.begin(stage)
        self.rows[stage] = 0
        for batch in batches:
            self.rows[stage] += batch.num_rows
            yield batch

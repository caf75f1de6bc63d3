"""Progress of long work: a callback `progress(stage, done, total)`. Its numbers are private; `done` counts rows."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

Progress = Callable[[str, int, int | None], None]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


def with_progress(
    batches: Iterable[pa.RecordBatch], stage: str, total: int | None, progress: Progress
) -> Iterator[pa.RecordBatch]:
    """Pass batches on, and report how many rows went by."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        progress(stage, done, total)

"""What goes wrong on a worker, on purpose. Workers import this module."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]


def halting(kernel: Kernel, folder: str, phase: str, partition: int) -> Kernel:
    """Do what a kernel does; in one partition, in one phase, stop half-way, once, and say where that is."""

    def halt(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for n, batch in enumerate(kernel(batches)):
            yield batch
            if n == 0 and context.partitionId() == partition and Path(folder, "phase").read_text() == phase:
                wait_here(Path(folder, "here"))

    return halt


def wait_here(marker: Path) -> None:
    """The first one to come writes where it is, and stays until it is killed."""
    try:
        opened = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.close(opened)
    marker.with_suffix(".new").write_text(os.getcwd())
    marker.with_suffix(".new").rename(marker.with_suffix(".written"))
    time.sleep(600)
    raise TimeoutError("nobody killed this task")


def lagging(folder: str, partition: int) -> Kernel:
    """Pass rows on; the first attempt at one partition takes very long, and every attempt leaves its name."""

    def lag(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == partition:
            Path(folder, f"attempt-{context.stageId()}-{context.attemptNumber()}").touch()
            if context.attemptNumber() == 0:
                time.sleep(300)
        yield from batches

    return lag


def failing(batches: Batches) -> Batches:
    """Show a value of the data in an error, as other people's code does."""
    for batch in batches:
        raise ValueError(f"cannot do anything with {batch.to_pydict()}")
    yield from ()


def elsewhere(batches: Batches, folder: str, columns: pa.Schema) -> Batches:
    """Tell of a file that others do not see."""
    yield pa.record_batch({"name": ["mine.arrow"], "rows": [sum(batch.num_rows for batch in batches)]})


def same(batches: Batches) -> Batches:
    """Pass rows on."""
    yield from batches


def rows_of(frame: Any, kernel: Kernel) -> Any:
    """Put a kernel before a DataFrame's readers."""
    return frame.mapInArrow(kernel, frame.schema)

"""A stream on a cluster: Spark counts the keys of each micro-batch, and the state on the driver has the held keys.

    elements -> n elements of each key in the batch -> of held keys n, of others those from the picked one on -> state

Spark's shuffle divides the keys, so that each decision about a key has all of its elements in the batch. The coins are
those of the batch and the key: a task that is run again, and a batch that is counted again, make the same decisions.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.files import PathLike, rebatch
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.columns import counted_schema, shaped
from dpsample.private.engine.spark.engine import MESSAGES, Spark, messages, received
from dpsample.private.engine.spark.errors import translated
from dpsample.private.engine.spark.frames import Frame, small
from dpsample.private.engine.spark.inline import sent_inline
from dpsample.private.sources.source import Source
from dpsample.private.stream.batches import held_counts
from dpsample.private.stream.queries import QueryStream
from dpsample.private.stream.stream import Stream, read_stream
from dpsample.scheme.holding import SampleAndHold

Batches = Iterator[pa.RecordBatch]

_AS_AT_FIRST = "state those of the first time, or name another state"
# The property of a job that names its query, which stays the same as long as its checkpoint.
_QUERY = "sql.streaming.queryId"


def start_query(
    source: Source,
    tau: Number,
    state: PathLike,
    checkpoint: PathLike,
    trigger: dict[str, Any] | None,
    partitions: int | None,
) -> Any:
    """Start the query that counts a stream; its state is made if it is not there."""
    _require_elements(source)
    with Spark(partitions=partitions) as engine:
        frame = engine.frame(source)
    if not frame.repeatable:
        raise InvalidValue(
            "the rows of a DataFrame with random columns or filters may be others when a batch is counted again",
            "write it to files first",
        )
    if Path(state).exists():
        _require_same(read_stream(state), SampleAndHold(tau), source.key)
    else:
        Stream(tau, source.key).write(state)

    def count_batch(rows: Any, batch: int) -> None:
        source_of_batch = Source(
            rows, source.key_columns, drop_null=source.drop_null, key_as=source.key
        )
        query = str(rows.sparkSession.sparkContext.getLocalProperty(_QUERY))
        stream = QueryStream(state, query, batch)
        if (
            stream.counted
        ):  # the query ended after the state was written, and before it took note of that
            return
        with Spark(partitions=partitions) as engine:
            sampling = SampleAndHold(tau)
            held, elements = _counted(engine, source_of_batch, stream.held, sampling, stream.coins)
            stream.add(held, elements)

    # only rows that are added once are elements
    writer = source.data.writeStream.foreachBatch(count_batch).outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint))
    return translated((writer.trigger(**trigger) if trigger else writer).start, source.columns)


def _counted(
    engine: Spark, source: Source, held: pa.Table, sampling: SampleAndHold, coins: Secret
) -> tuple[pa.Table, int]:
    """Return how many elements of a batch count, for each key that is held after it; and the number of elements."""
    frame = engine.frame(source)
    names = frame.schema.names
    schema = counted_schema(frame.schema)
    with_held = schema.append(pa.field("held", pa.bool_()))

    def hold_keys(batches: Batches) -> Batches:
        elements = 0
        shaped_batches = (shaped(batch, with_held) for batch in batches)
        for batch in rebatch(shaped_batches, with_held):
            counts = batch["frequency"].to_numpy().copy()
            elements += int(counts.sum())
            is_held = batch["held"].to_numpy(zero_copy_only=False)
            others = np.flatnonzero(~is_held)
            keys = batch.select(names)
            drawn = coins.for_keys(keys.take(pa.array(others)), "sample")
            counts[others] = held_counts(counts[others], sampling, drawn)
            rows = keys.append_column("frequency", pa.array(counts))
            yield from messages([rows.filter(pa.array(counts > 0))])
        # the last row has no keys, and the number of elements
        yield pa.record_batch({"message": [b""], "rows": [elements]})

    counted = _marked(engine, frame, held).mapInArrow(sent_inline(hold_keys), MESSAGES)
    rows = engine.job("counting a batch", source.columns, counted.collect)
    elements = sum(number for message, number in rows if not message)
    with_keys = [row for row in rows if row[0]]
    return pa.Table.from_batches(received(with_keys), schema), elements


def _marked(engine: Spark, frame: Frame, held: pa.Table) -> Any:
    """The keys of a batch with their frequencies, and whether they are held: k0, k1, ..., frequency, held."""
    counted = frame.grouped(frame.rows())
    if not held.num_rows:
        return counted.withColumn("held", F.lit(False))
    keys = engine.sent_keys(held.select(frame.schema.names), frame)
    marked = small(keys.withColumn("held", F.lit(True)), held.num_rows)
    joined = counted.join(marked, on=frame.names, how="left")
    is_held = F.coalesce("held", F.lit(False))
    return joined.select(*frame.names, "frequency", is_held.alias("held"))


def _require_elements(source: Source) -> None:
    """Refuse what is no streaming DataFrame, or has more than the key of each element."""
    if source.kind != "frame" or not source.data.isStreaming:
        raise InvalidValue(
            "these data are no streaming DataFrame, such as spark.readStream returns",
            "release data that are stored with dpsample.spark.release, or add them to a dpsample.Stream",
        )
    if getattr(source.data, "_jdf", None) is None:
        raise InvalidValue(
            "a stream cannot be counted over Spark Connect, since its state is on the driver",
            "run the driver in the same process",
        )
    if source.aggregated or source.user is not None or source.part is not None:
        raise InvalidValue(
            "a stream has one row for each element, and its key alone is read", "name the key alone"
        )


def _require_same(stream: Stream, sampling: SampleAndHold, keys: tuple[str, ...]) -> None:
    """Refuse a state that was started with another scheme, or for other keys."""
    if stream.sampling != sampling:
        raise InvalidValue("the state was started with another tau", _AS_AT_FIRST)
    if stream.keys != keys:
        raise InvalidValue("the state was started with other key columns", _AS_AT_FIRST)

"""Each user keeps the keys with the smallest numbers, which depend on a secret, the user and the key alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from dpsample.errors import InvalidValue
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.errors import nobody_refusal
from dpsample.private.engine.spark.frames import Frame
from dpsample.private.engine.spark.inline import sent_inline


def bounded(made: Frame, limit: int, secret: Secret) -> Frame:
    """Let each user keep at most `limit` distinct keys; what is kept has a row for each user and key.

    u, k0, k1, ... once each -> with a number each, r0 and r1 -> the `limit` smallest of each user -> k0, k1, ...

    The numbers put a user's keys into a secret random order, which is the same whenever and wherever it is computed.
    They have 128 bits, so that two of a user's n keys have the same with odds below n**2 / 2**129; the keys themselves
    then decide, and even that in the same way each time. Spark sorts, and spills what does not fit; up to a limit of a
    thousand it leaves all but the smallest out before users are brought together.
    """
    require_users(made)

    def order_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = secret.for_keys(batch, "keep").wide().view("<i8")
            columns = [*batch.columns, *(pa.array(number) for number in numbers.T)]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "r0", "r1"])

    assert made.user is not None
    fields = T.StructType([T.StructField("u", made.user[1]), *made.fields(r0="long", r1="long").fields])
    order = ", ".join(["r0", "r1", *made.names])
    place = F.expr(f"row_number() OVER (PARTITION BY u ORDER BY {order})")
    placed = made.pairs().mapInArrow(sent_inline(order_keys), fields).withColumn("place", place)
    kept = placed.filter(F.col("place") <= limit).select(*made.names)
    return replace(made, data=kept, keys=[F.col(name) for name in made.names], user=None, drop_null=False, part=None)


def dropped(made: Frame, limit: int, most: int) -> Any:
    """Count the distinct keys of users beyond `limit`, of each user up to `most`: the only row."""
    require_users(made)
    beyond = made.pairs().groupBy("u").count().select((F.col("count") - limit).alias("n")).filter("n > 0")
    return beyond.agg(F.sum(F.least("n", F.lit(most)).cast("decimal(28,0)")))


def require_users(made: Frame) -> None:
    """Refuse rows that do not say whose they are, or that may be others when they are read again."""
    if made.user is None:
        raise nobody_refusal()
    if not made.repeatable:
        raise InvalidValue(
            "what users keep is chosen from rows that are the same each time",
            "a DataFrame with random columns or filters",
            "write it to files first",
        )

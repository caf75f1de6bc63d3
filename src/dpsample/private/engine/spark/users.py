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

    def number_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wide = secret.for_keys(batch, "keep").wide()  # 128 bits for each row
            first, second = wide.view("<i8").T
            with_first = batch.append_column("r0", pa.array(first))
            yield with_first.append_column("r1", pa.array(second))

    assert made.user is not None
    _, user_type = made.user
    key_fields = made.fields(r0="long", r1="long").fields
    fields = T.StructType([T.StructField("u", user_type), *key_fields])
    numbered = made.pairs().mapInArrow(sent_inline(number_keys), fields)
    order = ", ".join(["r0", "r1", *made.names])
    place = F.expr(f"row_number() OVER (PARTITION BY u ORDER BY {order})")
    kept = numbered.withColumn("place", place).filter(F.col("place") <= limit)
    keys = [F.col(name) for name in made.names]
    return replace(made, data=kept.select(*keys), keys=keys, user=None, drop_null=False, part=None)


def dropped(made: Frame, limit: int, most: int) -> Any:
    """Count the distinct keys of users beyond `limit`, of each user up to `most`: the only row."""
    require_users(made)
    sizes = made.pairs().groupBy("u").count()
    number = (F.col("count") - limit).alias("n")
    beyond = sizes.select(number).filter("n > 0")
    clipped = F.least("n", F.lit(most)).cast("decimal(28,0)")
    return beyond.agg(F.sum(clipped))


def require_users(made: Frame) -> None:
    """Refuse rows that do not say whose they are, or that may be others when they are read again."""
    if made.user is None:
        raise nobody_refusal()
    if not made.repeatable:
        raise InvalidValue(
            "the rows of a DataFrame with random columns or filters may be others when they are read again",
            "write it to files first",
        )

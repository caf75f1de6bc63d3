"""A release over Spark Connect, in a process of its own: one process has either kind of session.

python connected.py PARQUET OUTPUT EVENTS KEY
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from dpsample import Ppswor, Privacy, Source
from dpsample.accounting.budget import Budget
from dpsample.private.bounded import draw_bounded_users
from dpsample.private.charge import NoLedger
from dpsample.private.derived_coins import Secret
from dpsample.private.drawing import Counting, Drawing
from dpsample.private.engine.spark import Spark
from dpsample.private.engine.spark.jobs import DrawnByWorkers, Job, draw_keys
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.private.tokens import terms_of


def drawn_for_users(engine: Spark, frame: Any, key: bytes) -> DrawnByWorkers:
    """A release that protects users, who keep one of three keys each."""
    made = frame.selectExpr("k AS u", "explode(array(left(k, 5), right(k, 1), cast(length(k) AS string))) AS k")
    request = Request.of(Source(made, "k", user="u"), privacy=Privacy(0.5, 1e-3), max_keys_per_user=1)
    drawing = Drawing(engine, request, engine.check(request.source), Secret(key), Progress(), draw_keys)
    drawn = draw_bounded_users(drawing, 1)
    assert isinstance(drawn, DrawnByWorkers)
    return drawn


def main(source: str, output: str, events: str, key: str) -> None:
    """Write releases with a given secret in both ways and for users, and leave the log of events."""
    Path(events).mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{events}",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.remote("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert "connect" in type(session).__module__
    read = Source(session.read.parquet(f"file:{source}"), "k")
    terms, secret = terms_of(Budget(Privacy(0.5, 1e-3)), Ppswor(0.01), ("k",)), Secret(bytes.fromhex(key))
    with Spark(partitions=3) as engine:
        keys = engine.check(read)
        Job(engine, Counting(read, keys, Ppswor(0.01), "aggregate"), secret).release_to_folder(
            output, terms, NoLedger()
        )
        Job(engine, Counting(read, keys, Ppswor(0.01), "two-pass"), secret).release(terms, NoLedger())
        drawn = drawn_for_users(engine, read.data, bytes.fromhex(key))
        drawn.job.release_to_folder(f"{output}.users", drawn.terms, NoLedger())
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

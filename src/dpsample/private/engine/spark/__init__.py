"""The distributed engine: Spark reads and aggregates where the data are, through its DataFrame interface alone.

It works with Spark 3.5 and 4, in the same process or over Spark Connect. Python functions are sent to the rows
(`mapInArrow`); what they carry along travels in the function, never as a literal, a setting or a column, all of which
Spark writes into plans, logs and its pages. Rows come back as Arrow messages in a binary column, so that no type is
converted on the way.

    engine      Spark: its methods, then its jobs
    frames      how sources look from inside Spark
    columns     which types keys can have, and columns that refuse values
    reading     files that Spark reads
    session     the active session, or one for the time of a block
    users       each user keeps a bounded number of keys
    sorting     pairs of users and keys in their orders, in packed batches
    assignment  each user gives one unit to one key, in one task
    pairs       users and their wanted keys, kept on the workers
    jobs        what is done where the rows are: a release or a sample, drawn on the workers
    streams     a streaming query counts keys and holds some
    inline      what carries the secret is sent inline
    errors      what is refused, and in which words
"""

from dpsample.private.engine.spark.engine import Spark

__all__ = ["Spark"]

"""The bare aggregation by Polars: NOT private, for scale."""

import polars as pl

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    count = {"aggregated": pl.col("frequency").sum(), "raw": pl.len(), "users": pl.col("user").n_unique()}[task.kind]
    pl.scan_parquet(task.path).group_by("key").agg(count.alias("estimate")).collect().write_parquet(task.out)
    return {}


run(release, "polars")

"""The bare aggregation by DuckDB: NOT private, for scale."""

import duckdb

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    count = {"aggregated": "sum(frequency)", "raw": "count(*)", "users": "count(DISTINCT user)"}[task.kind]
    query = f"SELECT key, {count} AS estimate FROM '{task.path}' GROUP BY key"
    duckdb.sql(f"COPY ({query}) TO '{task.out}' (FORMAT parquet)")
    return {}


run(release, "duckdb")

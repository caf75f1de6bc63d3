"""dpsample, users' keys without counts: to compare with methods of set union."""

import dpsample
from contract import Task, run


def release(task: Task) -> dict[str, object]:
    privacy = dpsample.Privacy(str(task.epsilon), str(task.delta))
    found = dpsample.release(task.path, "key", user="user", privacy=privacy, keys_only=True)
    import duckdb

    keys = found.table.select(["key"])
    duckdb.sql(f"COPY (SELECT key, NULL::DOUBLE AS estimate FROM keys) TO '{task.out}' (FORMAT parquet)")
    return {"epsilon": task.epsilon, "delta": task.delta, "keys": len(keys)}


run(release, "dpsample", "duckdb")

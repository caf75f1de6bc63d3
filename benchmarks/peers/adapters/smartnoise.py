"""SmartNoise SQL: a query with COUNT(DISTINCT user), of a data frame of pandas."""

import warnings

import pandas as pd

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    import snsql

    warnings.simplefilter("ignore")
    columns = {"user": {"type": "int", "private_id": True}, "key": {"type": "int"}}
    metadata = {"": {"d": {"t": {"max_ids": task.keys_per_user, "censor_dims": True, **columns}}}}
    privacy = snsql.Privacy(epsilon=task.epsilon, delta=task.delta)
    reader = snsql.from_df(pd.read_parquet(task.path), privacy=privacy, metadata=metadata)
    query = "SELECT key, COUNT(DISTINCT user) AS estimate FROM d.t GROUP BY key"
    _, *rows = reader.execute(query)
    table = pd.DataFrame(rows, columns=["key", "estimate"]).astype({"key": "int64", "estimate": "float64"})
    table.to_parquet(task.out)
    epsilon, delta = reader.get_privacy_cost(query)
    mechanism = next(one for one in reader._get_mechanisms(reader._rewrite(query)[0]) if one is not None)
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "scale": float(mechanism.scale),
        "threshold": float(reader.tau),
    }


run(release, "smartnoise-sql", "opendp")

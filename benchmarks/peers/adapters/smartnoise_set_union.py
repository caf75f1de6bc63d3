"""SmartNoise SQL's set union, Policy Laplace, by the authors of the method: keys without counts."""

import warnings

import pandas as pd

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    from snsql.sql.dpsu import policy_laplace

    warnings.simplefilter("ignore")
    pairs = pd.read_parquet(task.path).rename(columns={"key": "group_cols"})[["user", "group_cols"]]
    found = policy_laplace(pairs, task.epsilon, task.delta, task.keys_per_user)
    keys = sorted(set(found["group_cols"]))
    pd.DataFrame({"key": pd.array(keys, "int64"), "estimate": [float("nan")] * len(keys)}).to_parquet(task.out)
    return {"epsilon": task.epsilon, "delta": task.delta}


run(release, "smartnoise-sql", "opendp")

"""OpenDP with Polars: a query of grouped counts. It chooses scale and threshold itself.

`keep="first"` decides which keys a user keeps: `keep="sample"`, the default, ends with an error in this version.
"""

import warnings

import polars as pl

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    import opendp.prelude as dp

    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    users = task.kind == "users"
    unit = dp.unit_of(contributions=1, identifier="user") if users else dp.unit_of(contributions=1)
    data = pl.scan_parquet(task.path)
    context = dp.Context.compositor(
        data=data if users else data.select("key"),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=task.epsilon, delta=task.delta),
        split_evenly_over=1,
    )
    query = context.query()
    if users:
        query = query.truncate_num_groups(task.keys_per_user, by=["key"], keep="first").truncate_per_group(
            1, by=["key"]
        )
    query = query.group_by("key").agg(dp.len())
    summary = query.summarize()
    query.release().collect().rename({"len": "estimate"}).write_parquet(task.out)
    return {
        "epsilon": task.epsilon,
        "delta": task.delta,
        "scale": summary["scale"][0],
        "threshold": summary["threshold"][0],
    }


run(release, "opendp", "polars")

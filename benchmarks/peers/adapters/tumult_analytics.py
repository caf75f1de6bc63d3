"""Tumult Analytics: a session that finds groups and then counts, with half of epsilon each."""

from contract import Task, run
from spark_session import session, write


def release(task: Task) -> dict[str, object]:
    spark = session()
    import sympy as sp
    from tmlt.analytics import (
        AddOneRow,
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        QueryBuilder,
        Session,
    )
    from tmlt.core.utils.distributions import double_sided_geometric_inverse_cmf_exact

    data, half = spark.read.parquet(task.path), task.epsilon / 2
    users = task.kind == "users"
    private = Session.from_dataframe(
        ApproxDPBudget(task.epsilon, task.delta),
        "pairs",
        data if users else data.select("key"),
        protected_change=AddRowsWithID("user") if users else AddOneRow(),
    )
    query = QueryBuilder("pairs")
    if users:
        query = query.enforce(MaxGroupsPerID("key", task.keys_per_user)).enforce(MaxRowsPerGroupPerID("key", 1))
    groups = private.evaluate(query.get_groups(["key"]), ApproxDPBudget(half, task.delta)).cache()
    counts = query.groupby(KeySet.from_dataframe(groups)).count(name="estimate")
    write(private.evaluate(counts, ApproxDPBudget(half, 0)), task.out)
    stated: dict[str, object] = {"epsilon": task.epsilon, "delta": task.delta}
    if not users:
        delta = sp.Rational(f"{task.delta:.20f}")
        quantile = double_sided_geometric_inverse_cmf_exact(1 - delta, 1 / sp.Rational(str(half)))
        stated |= {"scale": 1 / half, "threshold": quantile.to_float(round_up=True) + 2}
    return stated


run(release, "tmlt.analytics", "tmlt.core", "pyspark")

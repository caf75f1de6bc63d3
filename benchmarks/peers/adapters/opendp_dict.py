"""OpenDP, its measurement of a map from keys to counts: discrete Laplace noise and a threshold.

The threshold is the smallest integer whose privacy map states the delta of the task, or less.
"""

import polars as pl

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    counts = dp.map_domain(dp.atom_domain(T=int), dp.atom_domain(T=int))
    distance = dp.l01inf_distance(dp.absolute_distance(T=int))
    scale = 1 / task.epsilon

    def measurement(threshold: int) -> dp.Measurement:
        return dp.m.make_laplace_threshold(counts, distance, scale=scale, threshold=threshold)

    threshold = dp.binary_search(lambda t: measurement(t).map((1, 1, 1))[1] <= task.delta, bounds=(1, 10**6))
    chosen = measurement(threshold)
    if task.kind == "aggregated":
        table = pl.read_parquet(task.path)
        data = dict(zip(table["key"].to_list(), table["frequency"].to_list(), strict=True))
        noisy = chosen(data)
    else:
        count = dp.t.make_count_by(dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(), TV=int)
        noisy = (count >> chosen)(pl.read_parquet(task.path, columns=["key"])["key"].to_list())
    pl.DataFrame({"key": list(noisy), "estimate": list(noisy.values())}).write_parquet(task.out)
    epsilon, delta = chosen.map((1, 1, 1))
    return {"epsilon": epsilon, "delta": delta, "scale": scale, "threshold": threshold}


run(release, "opendp", "polars")

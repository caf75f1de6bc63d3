"""PipelineDP on its local backend: the number of users of each key, with partition selection."""

import pyarrow as pa
import pyarrow.parquet as pq

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    import pipeline_dp
    from pydp.algorithms.partition_selection import create_partition_strategy

    table = pq.read_table(task.path)
    rows = list(zip(table["user"].to_pylist(), table["key"].to_pylist(), strict=True))
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=task.epsilon, total_delta=task.delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=task.keys_per_user,
        max_contributions_per_partition=1,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: 0,
    )
    lazy = engine.aggregate(rows, parameters, columns)
    accountant.compute_budgets()
    result = [(key, metrics.privacy_id_count) for key, metrics in lazy]
    keys, estimates = zip(*result, strict=True) if result else ((), ())
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64()), "estimate": pa.array(estimates)}), task.out)
    # the accountant gives half of epsilon to the selection of keys, and half to counts
    keep = create_partition_strategy("truncated_geometric", task.epsilon / 2, task.delta, task.keys_per_user)
    return {
        "epsilon": task.epsilon,
        "delta": task.delta,
        "noise": 2 * task.keys_per_user / task.epsilon,
        "keep": [keep.probability_of_keep(n) for n in range(161)],
    }


run(release, "pipeline-dp", "python-dp")

"""What PipelineDP can do, each by a snippet that runs."""

from typing import Any

import pipeline_dp

from snippets import run

ROWS = [(n // 2, n % 4, float(n % 10)) for n in range(4000)]
COLUMNS = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0],
    partition_extractor=lambda row: row[1],
    value_extractor=lambda row: row[2],
)


def aggregate(
    metric: Any, public: list[int] | None = None, accountant: Any = None, rows: Any = ROWS, **more: Any
) -> Any:
    accountant = accountant or pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[metric], max_partitions_contributed=2, max_contributions_per_partition=1, **more
    )
    result = engine.aggregate(rows, parameters, COLUMNS, public_partitions=public)
    accountant.compute_budgets()
    return dict(result)


def finds_keys() -> None:
    assert len(aggregate(pipeline_dp.Metrics.COUNT)) == 4


def known_keys() -> None:
    assert 99 in aggregate(pipeline_dp.Metrics.COUNT, public=[0, 1, 2, 3, 99])


def users() -> None:
    rows = [(user, key, 0.0) for user in range(1000) for key in range(10)]
    counts = aggregate(pipeline_dp.Metrics.PRIVACY_ID_COUNT, rows=rows)
    assert max(metrics.privacy_id_count for metrics in counts.values()) < 500  # 2 of 10 keys each


def sums() -> None:
    assert len(aggregate(pipeline_dp.Metrics.SUM, min_value=0, max_value=10)) == 4


def means() -> None:
    assert len(aggregate(pipeline_dp.Metrics.MEAN, min_value=0, max_value=10)) == 4


def quantiles() -> None:
    assert len(aggregate(pipeline_dp.Metrics.PERCENTILE(50), min_value=0, max_value=10)) == 4


def variance() -> None:
    assert len(aggregate(pipeline_dp.Metrics.VARIANCE, min_value=0, max_value=10)) == 4


def zcdp() -> None:
    accountant = pipeline_dp.PLDBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    noise = pipeline_dp.NoiseKind.GAUSSIAN
    assert len(aggregate(pipeline_dp.Metrics.COUNT, accountant=accountant, noise_kind=noise)) == 4


def ledger() -> None:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    aggregate(pipeline_dp.Metrics.COUNT, accountant=accountant)
    try:
        aggregate(pipeline_dp.Metrics.COUNT, accountant=accountant)
    except Exception:
        return
    raise AssertionError("a second release of the same budget was made")


def spark() -> None:
    import pyspark

    assert pipeline_dp.SparkRDDBackend(pyspark.SparkContext.getOrCreate())


def intervals() -> None:
    assert "low" in str(aggregate(pipeline_dp.Metrics.COUNT)), "no interval beside counts"


run(finds_keys, known_keys, users, sums, means, quantiles, variance, zcdp, ledger, spark, intervals)

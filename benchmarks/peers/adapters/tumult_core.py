"""Tumult Core: its measurement that selects keys and counts them at once, by geometric noise and a threshold."""

from contract import Task, run
from spark_session import session, write


def release(task: Task) -> dict[str, object]:
    spark = session()
    import sympy as sp
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkIntegerColumnDescriptor
    from tmlt.core.measurements.aggregations import create_partition_selection_measurement

    measurement = create_partition_selection_measurement(
        input_domain=SparkDataFrameDomain({"key": SparkIntegerColumnDescriptor()}),
        epsilon=sp.Rational(str(task.epsilon)),
        delta=sp.Rational(f"{task.delta:.20f}"),
        count_column="estimate",
    )
    write(measurement(spark.read.parquet(task.path).select("key")), task.out)
    epsilon, delta = measurement.privacy_function(1)
    return {
        "epsilon": epsilon.to_float(round_up=True),
        "delta": delta.to_float(round_up=True),
        "scale": measurement.alpha.to_float(round_up=True),
        "threshold": measurement.threshold,
    }


run(release, "tmlt.core", "pyspark")

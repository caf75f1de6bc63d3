"""PyDP: its optimal partition selection and its Laplace mechanism, half of epsilon each. Counting is by hand."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
    from pydp.algorithms.partition_selection import create_partition_strategy

    half = task.epsilon / 2
    strategy = create_partition_strategy("truncated_geometric", half, task.delta, 1)
    noise = LaplaceMechanism(epsilon=half, sensitivity=1.0)
    if task.kind == "aggregated":
        table = pq.read_table(task.path)
        counts = list(zip(table["key"].to_pylist(), table["frequency"].to_pylist(), strict=True))
    else:
        counts = list(Counter(pq.read_table(task.path, columns=["key"])["key"].to_pylist()).items())
    kept = [(key, noise.add_noise(n)) for key, n in counts if strategy.should_keep(n)]
    keys, estimates = zip(*kept, strict=True) if kept else ((), ())
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64()), "estimate": pa.array(estimates)}), task.out)
    keep = [strategy.probability_of_keep(n) for n in range(161)]
    return {"epsilon": task.epsilon, "delta": task.delta, "noise": noise.diversity, "keep": keep}


run(release, "python-dp")

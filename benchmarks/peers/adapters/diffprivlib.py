"""diffprivlib: a histogram. It has no way to find keys, so the list of all keys is taken as public: not comparable."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contract import Task, run


def release(task: Task) -> dict[str, object]:
    from diffprivlib.tools import histogram

    table = pq.read_table(task.path)
    keys = table["key"].to_numpy()
    weights = table["frequency"].to_numpy() if task.kind == "aggregated" else None
    largest = int(keys.max())
    counts, _ = histogram(keys, epsilon=task.epsilon, bins=largest + 1, range=(-0.5, largest + 0.5), weights=weights)
    pq.write_table(pa.table({"key": np.arange(largest + 1), "estimate": np.asarray(counts, np.float64)}), task.out)
    return {"epsilon": task.epsilon, "delta": 0.0}


run(release, "diffprivlib", "numpy")

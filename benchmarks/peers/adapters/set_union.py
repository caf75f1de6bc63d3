"""Methods of set union, as dpsample's baselines: they find keys, count nothing, and are not certified."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from contract import Task, run
from dpsample import Privacy
from set_union import DpSips, PolicyGaussian, PolicyGreedy, WeightedGaussian

CAPPED = {"weighted-gaussian": WeightedGaussian, "dp-sips": DpSips, "policy-gaussian": PolicyGaussian}


def release(task: Task) -> dict[str, object]:
    privacy, name = Privacy(str(task.epsilon), str(task.delta)), sys.argv[2]
    method = PolicyGreedy(privacy) if name == "greedy" else CAPPED[name](privacy, task.keys_per_user)
    table = pq.read_table(task.path)
    users, keys = table["user"].to_numpy(), table["key"].to_numpy()
    found = method.draw(users, keys, int(keys.max()) + 1, np.random.default_rng(1)).found
    keys = np.flatnonzero(found)
    pq.write_table(pa.table({"key": keys, "estimate": np.full(len(keys), np.nan)}), task.out)
    return {"epsilon": task.epsilon, "delta": task.delta}


run(release, "dpsample", "numpy")

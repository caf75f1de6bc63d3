"""dpsample on one machine."""

import dpsample
from contract import Task, run


def release(task: Task) -> dict[str, object]:
    privacy = dpsample.Privacy(str(task.epsilon), str(task.delta))
    if task.kind == "aggregated":
        dpsample.release_to_file(task.out, task.path, "key", "frequency", privacy=privacy)
    elif task.kind == "raw":
        dpsample.release_to_file(task.out, task.path, "key", privacy=privacy)
    else:
        dpsample.release_to_file(task.out, task.path, "key", user="user", privacy=privacy, max_keys_per_user=task.bound)
    return {"epsilon": task.epsilon, "delta": task.delta}


run(release, "dpsample", "duckdb")

"""The tasks, the same for all peers, and their data, which are generated with a seed.

Aggregated and raw tasks come in sizes. A peer takes the next size if it is likely to stay within the limit. The
frequencies are 1 + Poisson(C i^-1.1), ten elements for each key on average. Key codes are shuffled, so that the order
of keys says nothing of their frequencies.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SEED = 20
EXPONENT = 1.1


@dataclass(frozen=True)
class Work:
    """A task: what its data are, and the privacy of the release.

    size    the number of elements, or of users
    after   the task of a tenth of the size, which decides whether a peer takes this one
    """

    kind: str
    size: int
    title: str
    epsilon: float
    delta: float
    keys: int
    keys_per_user: int = 1
    after: str | None = None


TASKS = {
    "start": Work("raw", 10**3, "1,000 rows of 100 keys: what it takes to start", 0.5, 1e-6, 10**2),
    "aggregated-6": Work("aggregated", 10**6, "(a) aggregated, 10^5 keys, 10^6 elements", 0.5, 1e-6, 10**5),
    "aggregated-7": Work(
        "aggregated", 10**7, "(a) aggregated, 10^6 keys, 10^7 elements", 0.5, 1e-6, 10**6, after="aggregated-6"
    ),
    "raw-6": Work("raw", 10**6, "(b) raw, 10^6 rows, 10^5 keys", 0.5, 1e-6, 10**5),
    "raw-7": Work("raw", 10**7, "(b) raw, 10^7 rows, 10^6 keys", 0.5, 1e-6, 10**6, after="raw-6"),
    "raw-8": Work("raw", 10**8, "(d) raw, 10^8 rows, 10^7 keys", 0.5, 1e-6, 10**7, after="raw-7"),
    "few-keys": Work("users", 2 * 10**5, "(c) 200,000 users with 4 keys on average", 1, 1e-6, 10**5, 4),
    "many-keys": Work("users", 2 * 10**4, "(c) 20,000 users with 60 keys on average", 1, 1e-6, 10**5, 60),
}


def frequencies(work: Work) -> NDArray[np.int64]:
    """Return the true frequency of each key code: elements, or users."""
    return _pairs(work)[2] if work.kind == "users" else _element_frequencies(work)


def generate(name: str, folder: Path) -> Path:
    """Write the data of a task, unless they are there."""
    work, path = TASKS[name], folder / f"{name}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    if work.kind == "users":
        users, keys, _ = _pairs(work)
        table = pa.table({"user": users, "key": keys})
    elif work.kind == "aggregated":
        table = pa.table({"key": np.arange(work.keys), "frequency": _element_frequencies(work)})
    else:
        rows = np.repeat(np.arange(work.keys, dtype=np.int32), _element_frequencies(work))
        np.random.default_rng(SEED).shuffle(rows)
        table = pa.table({"user": np.arange(len(rows)), "key": rows.astype(np.int64)})
    half_done = path.with_suffix(".part")
    pq.write_table(table, half_done, row_group_size=10**6)
    half_done.rename(path)
    return path


def _weights(work: Work) -> NDArray[np.float64]:
    """Return the shares of keys, by rank."""
    weights = np.arange(1, work.keys + 1) ** -EXPONENT
    return np.asarray(weights / weights.sum())


def _element_frequencies(work: Work) -> NDArray[np.int64]:
    generator = np.random.default_rng(SEED)
    frequency = 1 + generator.poisson((work.size - work.keys) * _weights(work))
    return generator.permutation(frequency)


def _pairs(work: Work) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return distinct pairs of a user and a key, shuffled, and the number of users of each key."""
    generator = np.random.default_rng(SEED)
    each = 1 + generator.poisson(work.keys_per_user - 1, work.size)
    code = generator.permutation(work.keys)
    ranks = np.searchsorted(np.cumsum(_weights(work)), generator.random(each.sum()))
    keys = code[np.minimum(ranks, work.keys - 1)]
    pairs = generator.permutation(np.unique(np.repeat(np.arange(work.size), each) * work.keys + keys))
    users, keys = pairs // work.keys, pairs % work.keys
    return users, keys, np.bincount(keys, minlength=work.keys)

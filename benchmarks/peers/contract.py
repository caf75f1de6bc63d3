"""What every adapter does: it reads one task, makes one release, and writes a Parquet file of `key` and `estimate`.

It runs in the environment of its peer, so this module needs the standard library alone. An adapter is started with one
argument, the task as JSON. Its last line on standard output is JSON: `stated`, what the peer says of its privacy, and
`versions`. The estimate is null if the peer finds keys and counts nothing.
"""

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any


@dataclass(frozen=True)
class Task:
    """One release to make.

    kind    "aggregated": columns `key` and `frequency`; "raw": `user` and `key`, one row for each user;
            "users": `user` and `key`, distinct pairs, and a user has many
    bound   the number of keys that each user keeps; None if the peer needs no bound, or users have one row each
    """

    kind: str
    path: str
    out: str
    epsilon: float
    delta: float
    bound: int | None

    @property
    def keys_per_user(self) -> int:
        """The bound, or 1 where users have one row each."""
        return self.bound or 1


def run(release: Callable[[Task], dict[str, Any]], *packages: str) -> None:
    """Make the release of the task that the command line has, and print what the peer states of it."""
    stated = release(Task(**json.loads(sys.argv[1])))
    versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    print(json.dumps({"stated": stated, "versions": versions}))

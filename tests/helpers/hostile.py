"""Open files that somebody made to keep a reader busy, in a process with limits; say what became of each.

    python tests/helpers/hostile.py < LIST        lines of JSON: [kind, path]

For each file a line of JSON: what happened, the seconds of CPU that it took, and by how many MB memory grew. The limits
end the process long after a test has failed: seconds of CPU, never the clock, so a busy machine changes nothing.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpsample
from dpsample.cli.run import read_settings
from dpsample.errors import DpsampleError
from dpsample.private.stream.stream import read_stream
from dpsample.release.proof import prove_release

CPU = 120  # seconds, of all files of a list
MEMORY = 8 << 30  # of addresses, of which libraries take much and use little


def release(path: str) -> None:
    """Read it, show it, and prove it."""
    made = dpsample.read_release(path)
    repr(made)
    prove_release(made.terms)


def ledger(path: str) -> None:
    """Read it and show it."""
    read = dpsample.read_ledger(path)
    str(read)
    read.to_json()


OPEN: dict[str, Callable[[str], Any]] = {
    "release": release,
    "sample": dpsample.read_sample,
    "stream": read_stream,
    "ledger": ledger,
    "settings": lambda path: read_settings(Path(path)),
}


def opened(kind: str, path: str) -> str:
    """What became of one file: "accepted", "refused", or the name of an error that is not dpsample's."""
    try:
        OPEN[kind](path)
    except DpsampleError:
        return "refused"
    except Exception as error:
        return type(error).__name__
    return "accepted"


def main() -> None:
    """Open all files of the list."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        kind, path = json.loads(line)
        seconds, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = opened(kind, path)
        spent = time.process_time() - seconds
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
        print(json.dumps([outcome, spent, grown]), flush=True)


if __name__ == "__main__":
    main()

"""Run a command, and measure the whole tree of its processes: CPU and wall seconds, and peak memory. Linux only.

This process becomes the reaper of all that the command starts, so that the CPU seconds of processes that outlive their
parents (Spark's) are counted too. Where a parent never asks after its children, the system forgets their CPU seconds:
what each process was last seen to have used counts, if that is more. Memory is the largest sum, over the tree, of
proportional set sizes: pages that processes share count once. Both are looked at twenty times a second; a process that
ends in between counts by its own largest resident set.

    python measure.py CPU_LIMIT command ...
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

WALL_FACTOR = 12  # of the limit on CPU seconds: a command that sleeps, or a busy machine
PATIENCE = 20.0  # seconds that what a command leaves behind has to end
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    limit, command = float(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        measured = _watch(subprocess.Popen(command, stdout=out, stderr=err).pid, limit)
        for name, file in (("out", out), ("err", err)):
            file.seek(0)
            measured[name] = file.read().decode(errors="replace")[-20000:]
    print(json.dumps(measured))


def _watch(main_process: int, limit: float) -> dict[str, Any]:
    started, memory, wall, code = time.perf_counter(), 0, None, None
    seen = dict[tuple[int, str], float]()  # CPU seconds of each process, without its children
    status = "done"
    while True:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == main_process:
                    wall, code = time.perf_counter() - started, os.waitstatus_to_exitcode(ended[1])
        alive = _descendants()
        if not alive:
            break
        memory = max(memory, sum(map(_memory, alive)))
        seen |= {process: cpu for process, cpu in map(_own_cpu, alive) if cpu}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = used.ru_utime + used.ru_stime + sum(map(_cpu, alive))
        now = time.perf_counter() - started
        if wall is None and (cpu > limit or now > WALL_FACTOR * limit):
            status = "time limit"
        if status == "time limit" or (wall is not None and now > wall + PATIENCE):
            for process in alive:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status == "done" and code:
        status = "failed"
    memory = max(memory, used.ru_maxrss)  # of the largest process
    return {
        "status": status,
        "cpu": max(used.ru_utime + used.ru_stime, sum(seen.values())),
        "wall": wall,
        "memory": memory / 2**20,  # GB, from kB
    }


def _descendants() -> list[int]:
    parents = dict[int, int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(file.parent.name)] = int(file.read_text().rpartition(") ")[2].split()[1])
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {os.getpid()})


def _memory(process: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{process}/smaps_rollup").read_text().split("\nPss:")[1].split()[0])
    return 0


def _own_cpu(process: int) -> tuple[tuple[int, str], float]:
    """A process, by its number and its start, and the CPU seconds of its own."""
    fields = _stat(process)
    return ((process, fields[19]), _seconds(fields[11:13])) if fields else ((process, ""), 0.0)


def _cpu(process: int) -> float:
    return _seconds(_stat(process)[11:15])  # its own, and of children that it waited for


def _stat(process: int) -> list[str]:
    """What the system says of a process, after its name; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return []


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / _TICK


if __name__ == "__main__":
    main()

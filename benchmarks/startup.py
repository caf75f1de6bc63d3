"""What it takes to start: CPU seconds against `import duckdb, numpy, pyarrow`, which a release needs in any case.

Each command runs in a new process, and the least of several runs is printed, with its ratio. A first release is one of
1,000 rows in memory. Where pandas is installed, DuckDB imports it with the first table that it is handed: measure
in an environment with what `pip install .` brings.
"""

import argparse
import resource
import subprocess
import sys

FLOOR = "import duckdb, numpy, pyarrow"
RELEASE = """
import dpsample
rows = {f"key {n}": 1000 // (n + 1) for n in range(150)}
dpsample.release(rows, privacy=dpsample.Privacy(1, 1e-6))
"""
COMMANDS = {
    FLOOR: FLOOR,
    "import dpsample": "import dpsample",
    "a first release": RELEASE,
}


def cpu_seconds(script: str) -> float:
    """Run a script in a new process and return its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="of each command; the least is printed")
    runs = parser.parse_args().runs
    least = {name: min(cpu_seconds(script) for _ in range(runs)) for name, script in COMMANDS.items()}
    for name, seconds in least.items():
        print(f"{name:32}{seconds:8.3f} CPU s{seconds / least[FLOOR]:8.2f}")


if __name__ == "__main__":
    main()

"""What a small epsilon costs a release of users with counts, and which steps it goes to.

Each line is one release in memory, of generated data: CPU seconds in all, and those of three steps that do not depend
on the data. Tables of Gaussian noise are as long as the noise is wide, about 1/epsilon; the reporting probabilities
take about 1/epsilon steps from 0 to 1.

    python benchmarks/small_epsilon.py --users 200000,2000000 --epsilon 1,0.3,0.1
"""

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import dpsample
from dpsample import Privacy
from dpsample.accounting import vectors
from dpsample.private.users import parts
from dpsample.scheme.renyi_steps import StepReporting

STEPS = ("tables", "drawing", "steps")


class Stopwatch:
    """CPU seconds by step."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(STEPS, 0.0)

    def around(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its CPU seconds added to a step."""

        def timed(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return function(*given, **named)
            finally:
                self.spent[step] += time.process_time() - start

        return timed


def generated(users: int) -> pa.Table:
    """Users with four keys on average, whose popularity has a heavy tail."""
    generator = np.random.default_rng(0)
    keys_each = 1 + generator.poisson(3, users)
    user = np.repeat(np.arange(users), keys_each)
    key = (3 * generator.pareto(1.0, len(user))).astype(np.int64)
    return pa.table({"user": user, "key": key})


def line(users: int, epsilon: str, delta: str) -> str:
    """Make one release, and return its line."""
    warnings.simplefilter("ignore", dpsample.PrivacyWarning)
    watch = Stopwatch()
    replaced: list[tuple[Any, str, str]] = [
        (vectors, "_vector_noise", "tables"),
        (parts, "from_table", "drawing"),
        (StepReporting, "__init__", "steps"),
    ]
    for owner, name, step in replaced:
        setattr(owner, name, watch.around(step, getattr(owner, name)))

    data = generated(users)
    start = time.process_time()
    release = dpsample.release(data, "key", user="user", privacy=Privacy(epsilon, delta))
    total = time.process_time() - start
    assert release.terms.counts is not None
    longest = max(noise.noise.cells for noise in release.terms.counts.noise)
    spent = [f"{watch.spent[step]:7.2f}" for step in STEPS]
    return f"{users:>8}  {epsilon:>7}  {total:5.2f}  {'  '.join(spent)}  {longest:>13,}  {len(release):>5}"


def main() -> None:
    """Print a line for each number of users and each epsilon, each from a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", default="200000,2000000")
    parser.add_argument("--epsilon", default="1,0.3,0.1")
    parser.add_argument("--delta", default="1e-5")
    parser.add_argument("--line", action="store_true", help="One line, in this process.")
    given = parser.parse_args()
    if given.line:
        print(line(int(given.users), given.epsilon, given.delta))
        return
    print("   users  epsilon  CPU s   tables  drawing    steps  longest table   keys", flush=True)
    for users in given.users.split(","):
        for epsilon in given.epsilon.split(","):
            own = [sys.executable, __file__, "--line", "--delta", given.delta]
            subprocess.run([*own, "--users", users, "--epsilon", epsilon], check=True)


if __name__ == "__main__":
    main()

"""How well the planner predicts the errors of the default estimator, and how long it takes for it.

    python benchmarks/planner.py [--releases 40] [--quick]

For each setting: the NRMSE of a total, or of a selection of 1 % of the keys, as predicted, as predicted by the quick
table, and of simulated releases; and the time of each as a share of that of the simulation. Tables are built
anew each time, as when a slider moves. With 40 releases a simulated NRMSE is itself off by about 11 %.
"""

import argparse
import math
import time
from importlib import import_module

import numpy as np

from dpsample import KeepAll, Priority, Privacy, Sampling
from dpsample.estimators import Tally
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.measures import Measure
from dpsample.planning.errors import predicted, prediction_table
from dpsample.planning.moments import value_moments
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.scheme import default_grid
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

sibling = import_module("accuracy")  # of this folder


def simulated(frequencies: Ints, sampling: Sampling, privacy: Privacy, share: float, releases: int) -> float:
    """The root mean square error of the selection's estimated elements, as a share of their expected number."""
    generator = np.random.default_rng(11)
    grid, coins, off = default_grid(privacy), sibling.FastCoins(generator), []
    sanitizer = Sanitizer(sampling, privacy, grid)
    for _ in range(releases):
        chosen = frequencies[generator.random(len(frequencies)) < share]
        sample = chosen[sampled(chosen, sampling, coins)]
        tally = Tally.of(sanitizer(sample, coins)[1] if len(sample) else [])
        off.append(estimate_sum(tally, Scheme(sampling, privacy, grid), Measure.of("frequency")).value - chosen.sum())
    return math.sqrt(float(np.mean(np.square(off)))) / (share * float(frequencies.sum()))


def main() -> None:
    """Print a line for each setting, and a summary."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--releases", type=int, default=40)
    options.add_argument("--quick", action="store_true", help="fewer settings")
    arguments = options.parse_args()
    names = ("paper", "zipf 1", "geometric", "log-normal", *(() if arguments.quick else ("two-point", "zipf 0.5")))
    settings: list[tuple[Sampling, str]] = [(KeepAll(), "0.1"), (KeepAll(), "0.5"), (Priority("1e-3"), "1")]
    print(
        f"{'data':12} {'scheme':22} {'eps':>4} {'share':>5} {'predicted':>9} {'quick':>9} {'simulated':>9} {'time':>6}"
    )
    ratios: list[float] = []
    for name in names:
        frequencies = sibling.populations()[name]
        i, keys = np.unique(frequencies, return_counts=True)
        for sampling, epsilon in settings:
            privacy = Privacy(epsilon, "1e-7")
            predicted(i, keys.astype(np.float64), sampling, privacy)  # reporting probabilities are cached by all
            for share in (1.0, 0.01):
                errors, seconds = [], []
                for quick in (False, True):
                    prediction_table.cache_clear()
                    value_moments.cache_clear()
                    start = time.perf_counter()
                    accuracy, _ = predicted(i, keys.astype(np.float64), sampling, privacy, share, quick)
                    seconds.append(time.perf_counter() - start)
                    errors.append(math.nan if accuracy is None else accuracy.nrmse)
                start = time.perf_counter()
                true = simulated(frequencies, sampling, privacy, share, arguments.releases)
                whole = time.perf_counter() - start
                ratios.append(errors[0] / true)
                print(
                    f"{name:12} {sampling!s:22} {epsilon:>4} {share:5} {errors[0]:9.5f} {errors[1]:9.5f} {true:9.5f} "
                    f"{seconds[0] / whole:6.1%}  quick {seconds[1] / whole:6.2%}",
                    flush=True,
                )
    logs = np.log(ratios)
    print(
        f"\npredicted / simulated: geometric mean {math.exp(logs.mean()):.3f}, {min(ratios):.2f} to {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()

"""Many keys of one user: the number of users at which a key has an even chance, by method.

Ours is the method that `chosen_per_key` chooses, with values and for keys only. Beside it are the optimal composition
theorem, and Gaussian noise with a threshold, by the exact analysis of Wilkins et al. (2024), for k keys of a user, each
counted once. The last columns are ratios: below 1, ours is better. `--grid` prints one line for each of 200 settings,
and the worst ratios. `--every N` takes every Nth of them. `--quick` is for a first look.
"""

import argparse
import math
import time
from itertools import product

import numpy as np
from scipy import optimize, special, stats

from dpsample.accounting.composition import per_key
from dpsample.accounting.many_keys import certify_many_keys, chosen_per_key, even_chance
from dpsample.privacy import Privacy

KEYS = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1000)
EPSILONS = ("0.1", "0.3", "1", "3", "8")
DELTAS = ("1e-4", "1e-6", "1e-8", "1e-10")


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of the Gaussian mechanism."""
    if mu <= 0:
        return 0.0
    second = math.exp(epsilon + special.log_ndtr(-mu / 2 - epsilon / mu))
    return float(stats.norm.cdf(mu / 2 - epsilon / mu) - second)


def gaussian_threshold(privacy: Privacy, keys: int) -> float:
    """The lowest threshold of Gaussian noise with which k keys have this privacy; a key there has an even chance.

    Of the user's keys, j are new, with a frequency of 1, and the others are counted anyway.
    """
    epsilon, delta = float(privacy.epsilon), float(privacy.delta)
    new = np.unique(np.rint(np.linspace(0, keys, min(keys, 50) + 1)).astype(int))

    def threshold(log_scale: float) -> float:
        scale = math.exp(log_scale)
        if gaussian_delta(epsilon, math.sqrt(keys) / scale) > delta:
            return math.inf

        def spent(log_tail: float) -> float:
            seen = -math.exp(log_tail)  # ln of the probability that a new key stays below the threshold, about
            costs = []
            for j in new.tolist():
                none = math.exp(j * math.log1p(seen))
                rest = gaussian_delta(epsilon - j * math.log1p(seen), math.sqrt(keys - j) / scale)
                costs.append(1 - none + none * rest)
            return math.log(max(costs)) - math.log(delta)

        highest = math.log(delta / keys)
        tail = highest if spent(highest) <= 0 else optimize.brentq(spent, highest - 40, highest)
        return float(1 + scale * stats.norm.isf(math.exp(tail)))

    scale = math.log(math.sqrt(keys) / optimize.brentq(lambda m: gaussian_delta(epsilon, m) - delta, 1e-6, 60))
    return min(threshold(scale + shift) for shift in np.linspace(1e-6, 0.6, 40))


def measured(privacy: Privacy, keys: int, theorem: bool = True) -> tuple[float, float, float, float, float, str]:
    """Even chances of ours with values and keys only, of the theorem and of Gaussian noise; seconds, and the method."""
    start = time.perf_counter()
    values = chosen_per_key(privacy, keys)
    seconds = time.perf_counter() - start
    only = chosen_per_key(privacy, keys, keys_only=True)
    for each in (values, only):
        certify_many_keys(each, keys, privacy)
    before = even_chance(per_key(privacy, keys)) if theorem else math.nan
    gaussian = math.ceil(gaussian_threshold(privacy, keys))
    return even_chance(values), even_chance(only), before, gaussian, seconds, type(values).__name__


def main() -> None:
    """Print the table, or the grid."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--grid", action="store_true", help="200 settings")
    options.add_argument("--every", type=int, default=1, help="every Nth setting")
    options.add_argument("--quick", action="store_true", help="few keys only")
    arguments = options.parse_args()
    settings = product(EPSILONS, DELTAS) if arguments.grid else [("1", "1e-6")]
    keys = [k for k in KEYS if k <= 10 or not arguments.quick]
    worst = 0.0
    heads = ("epsilon", "delta", "keys", "values", "only", "theorem", "Gauss", "s")
    print(" ".join(f"{head:>{width}}" for head, width in zip(heads, (7, 6, 5, 7, 6, 8, 6, 6), strict=True)), " ratios")
    for (epsilon, delta), k in list(product(settings, keys))[:: arguments.every]:
        values, only, theorem, gaussian, seconds, method = measured(Privacy(epsilon, delta), k, k <= 100)
        best = min(x for x in (theorem, gaussian) if not math.isnan(x))
        worst = max(worst, values / best, only / best)
        print(
            f"{epsilon:>7} {delta:>6} {k:5} {values:7.0f} {only:6.0f} {theorem:8.0f} {gaussian:6.0f} {seconds:6.2f}  "
            f"{values / best:.3f} {only / best:.3f} {method}",
            flush=True,
        )
    print(f"worst ratio to the best of the others: {worst:.3f}")


if __name__ == "__main__":
    main()

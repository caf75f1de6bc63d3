"""`discover="ask"` on generated data: how often does it choose what finds the most keys, and the same again?

Users have geometric numbers of keys, drawn by a power law. For each way of discovery, one key of each user or up to k
of them, the expected number of found keys follows exactly from reporting probabilities; units are assigned once. The
choice is then drawn `--runs` times: only the noise of the look and of what is filled differs between runs.

best     the keys that the best way finds, one key or any k, by which settings are grouped
below    the share of runs that find less than 90 % of these
alike    the probability that two runs on the same data use the same method, one key or many
found    the keys that are found, relative to the best way
pairs    the share of the pairs of a user and a key whose key is found: by what was chosen, and the most by one of the
         two ways that were compared

    python benchmarks/ask.py --users 500 2000 10000 50000 --processes 2
    python benchmarks/ask.py --processes 16          up to 10**6 users; cases of more than 2 * 10**7 pairs are left out
"""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np

from dpsample import KeepAll, Privacy
from dpsample.accounting.choice import capacity_cap, fuller, promising_keys
from dpsample.accounting.filled import Filled
from dpsample.accounting.look import Look
from dpsample.accounting.user_budget import UserBudget
from dpsample.planning.setting import Setting
from dpsample.private.assignment import Assignment
from dpsample.private.pairs import kept_rows
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

ALL = KeepAll()
USERS = (500, 2000, 10_000, 50_000, 200_000, 1_000_000)
MEANS = (1, 3, 10, 30, 100, 300)  # keys of a user, before those that are drawn twice are dropped
EXPONENTS = (0.8, 1.2, 2.0)
EPSILONS = ("0.1", "0.3", "1", "4")
WAYS = tuple(1 << n for n in range(10))  # keys of each user
KEYS = 100_000
MOST_PAIRS = 20_000_000
GROUPS = (3, 10, 20, 50, 100, 300, 10**9)  # numbers of keys that the best way finds


@dataclass(frozen=True)
class Data:
    """Sorted pairs of users and keys."""

    begins: Any  # whether a row begins a user
    codes: Ints
    sizes: Ints  # of each user

    @staticmethod
    def drawn(users: int, mean: int, exponent: float) -> "Data":
        """Draw pairs; the same each time."""
        draw = np.random.default_rng([users, mean, int(10 * exponent)])
        each = draw.geometric(1 / mean, users)
        weights = np.arange(1, KEYS + 1) ** -exponent
        ranks = np.searchsorted(np.cumsum(weights / weights.sum()), draw.random(each.sum())).clip(max=KEYS - 1)
        keys = draw.permutation(KEYS)[ranks]
        pairs = np.unique(np.repeat(np.arange(users), each) * KEYS + keys)
        owners = pairs // KEYS
        begins = np.append(True, owners[1:] != owners[:-1])
        sizes = np.diff(np.append(np.flatnonzero(begins), len(owners)))
        return Data(begins, pairs % KEYS, sizes)

    @property
    def look(self) -> Ints:
        """Users by their numbers of keys, as a look has them."""
        rows = np.minimum(np.searchsorted(Look.EDGES, self.sizes), len(Look.EDGES) - 1)
        return np.bincount(rows, minlength=len(Look.EDGES))

    def loads(self, cap: int) -> Ints:
        """Units of each key, one of each user."""
        room = np.full(KEYS, cap)
        Assignment().place(self.begins, self.codes, room)
        return cap - room

    def kept(self, most: int) -> Ints:
        """Users of each key, of whom each keeps so many."""
        words = np.random.default_rng(most).integers(0, 1 << 64, len(self.sizes), np.uint64)
        return np.bincount(self.codes[kept_rows(self.begins, most, words)], minlength=KEYS)


@dataclass(frozen=True)
class Way:
    """One way of discovery on some data, without noise."""

    each: PerKey
    full: int
    units: int
    found: float  # keys
    pairs: float  # share of pairs whose key is found


@lru_cache(maxsize=1000)
def steps(epsilon: str, counted: bool, most: int) -> tuple[PerKey, int, Floats] | None:
    """That by which keys are reported, the users of a full key, and the probabilities of fewer than that and more."""
    budget = Setting(Privacy(epsilon, "1e-6"), discover="ask", keys_only=not counted).users
    each = budget.one_key() if most == 1 else budget.many_keys(most)
    if each is None:
        return None
    full = capacity_cap(each, ALL)
    return each, full, np.append(0.0, reporting_probabilities(np.arange(1, 2 * full + 50), ALL, each))


def ways_of(data: Data, kept: dict[int, Ints], truth: Ints, epsilon: str, counted: bool) -> dict[int, Way]:
    """All ways of discovery at one setting."""
    found = {}
    for most in WAYS:
        known = steps(epsilon, counted, most)
        if known is None:
            continue
        each, full, probabilities = known
        loads = data.loads(full) if most == 1 else kept[most]
        pi = probabilities[np.minimum(loads, len(probabilities) - 1)]
        units = int(np.minimum(loads, full).sum())
        found[most] = Way(each, full, units, float(pi.sum()), float(pi @ truth / truth.sum()))
    return found


@dataclass(frozen=True)
class Stated:
    """Stands for a budget whose steps are known already."""

    ways: dict[int, Way]

    def many_keys(self, keys: int) -> Any:
        """Return the steps of a number of keys."""
        return self.ways[keys].each if keys in self.ways else None


def laplace(scale: float, draw: np.random.Generator, size: int | None = None) -> Any:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    p = -np.expm1(-1 / scale)
    return draw.geometric(p, size) - draw.geometric(p, size)


def chosen(ways: dict[int, Way], look: Ints, budget: UserBudget, draw: np.random.Generator) -> tuple[int, int]:
    """The number of keys of each user that a run uses, and the one that one key is compared with."""
    cost = budget.privacy.share(budget.look)
    seen = Look(tuple((look + laplace(float(1 / cost), draw, len(look))).tolist()), cost)
    most = promising_keys(Stated(ways), seen, ALL)
    compared = []
    for keys, epsilon in zip((1, most), budget.filled_epsilons, strict=True):
        exact = Filled(keys, ways[keys].full, ways[keys].units, epsilon)
        noise = int(laplace(float(exact.scale), draw))
        compared.append(Filled(keys, exact.full, exact.units + noise, epsilon))
    return fuller(compared).keys, most


def case(users: int, mean: int, exponent: float, runs: int) -> Iterator[dict[str, Any]]:
    """All settings on one dataset."""
    data = Data.drawn(users, mean, exponent)
    truth = np.bincount(data.codes, minlength=KEYS)
    kept = {most: data.kept(most) for most in WAYS[1:]}
    for epsilon, counted in product(EPSILONS, (False, True)):
        ways = ways_of(data, kept, truth, epsilon, counted)
        budget = Setting(Privacy(epsilon, "1e-6"), discover="ask", keys_only=not counted).users
        draw = np.random.default_rng([users, mean, int(10 * exponent), int(10 * float(epsilon)), counted])
        drawn = [chosen(ways, data.look, budget, draw) for _ in range(runs)]
        best = max(way.found for way in ways.values())
        found = np.array([ways[keys].found for keys, _ in drawn])
        one = float(np.mean([keys == 1 for keys, _ in drawn]))
        yield {
            "users": users,
            "mean": mean,
            "exponent": exponent,
            "epsilon": epsilon,
            "counted": counted,
            "best": best,
            "one key": ways[1].found,
            "below": float(np.mean(found < 0.9 * best)),
            "alike": one * one + (1 - one) ** 2,
            "found": float(found.mean()) / best if best else 1.0,
            "pairs": float(np.mean([ways[keys].pairs for keys, _ in drawn])),
            "most pairs": float(np.mean([max(ways[1].pairs, ways[most].pairs) for _, most in drawn])),
        }


def computed(options: tuple[int, int, float, int]) -> list[dict[str, Any]]:
    """All settings on one dataset, in a process."""
    return list(case(*options))


def print_groups(cases: list[dict[str, Any]]) -> None:
    """Print means by the number of keys that the best way finds."""
    measures = ("below", "alike", "found", "pairs", "most pairs")
    print(f"{'best':>14} {'settings':>9} {'alike >= 95 %':>14}", *(f"{measure:>10}" for measure in measures))
    groups = list(pairwise(GROUPS))
    for low, high in [*groups, (GROUPS[0], GROUPS[-1]), (100, GROUPS[-1])]:
        own = [one for one in cases if low <= one["best"] < high]
        if not own:
            continue
        stable = float(np.mean([one["alike"] >= 0.95 for one in own]))
        means = [float(np.mean([one[measure] for one in own])) for measure in measures]
        name = f"{low:,} and more" if high == GROUPS[-1] else f"{low:,} to {high:,}"
        print(f"{name:>14} {len(own):9,} {stable:14.3f}", *(f"{mean:10.3f}" for mean in means))


def main() -> None:
    """Draw, choose, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=USERS)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--most-pairs", type=int, default=MOST_PAIRS)
    parser.add_argument("--lines", help="write each setting as a line of JSON to this file")
    options = parser.parse_args()
    wanted = [
        (users, mean, exponent, options.runs)
        for users, mean, exponent in product(options.users, MEANS, EXPONENTS)
        if users * mean <= options.most_pairs
    ]
    wanted.sort(key=lambda one: -one[0] * one[1])  # the longest first
    with ProcessPoolExecutor(options.processes) as pool:
        cases = [one for own in pool.map(computed, wanted) for one in own]
    if options.lines:
        with open(options.lines, "w") as file:
            file.writelines(json.dumps(one) + "\n" for one in cases)
    print_groups(cases)


if __name__ == "__main__":
    main()

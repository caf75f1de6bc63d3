"""Intervals of counted users on data where losses by clipping are uneven: how many hold the true number of users.

A user with many of the reported keys is scaled down, so a key loses by who has it. Data here have users whose numbers
of keys follow power laws, up to 4,000 keys; keys that long users prefer, and keys that they avoid; and clusters of keys
that come together. A line has the shape of the data, epsilon, how keys were discovered, the mean number of keys found,
and over all releases

    hold       the share of keys whose 95 % interval holds the true number of users
    reported   the same, of keys that are reported with less than twice the detection threshold
    true       the same, of keys that truly have less than twice the threshold
    error      the root of the mean square of the relative error, of keys at or above the threshold
    stated     the median of the stated error over the true number

Only the stage of counts is run, with its own code on arrays in memory; noise is normal and rounded, and seeds are
fixed, so that lines can be compared from commit to commit. `--baseline` reads the JSON lines of an earlier run
(`--json`), and prints errors as multiples of those.

    python benchmarks/user_coverage.py [--quick] [--processes 16] [--pairs PAIRS.parquet]
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpsample import KeepAll, Privacy
from dpsample.accounting.choice import capacity_cap, promising_keys
from dpsample.accounting.counts import COUNT_SHARE
from dpsample.accounting.look import Look
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.private.randomness import StreamCoins
from dpsample.private.users.counts import Stage
from dpsample.private.users.parts import Noisy, Part
from dpsample.scheme import frequency_reaching, reporting_probabilities
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Ints

Generator = np.random.Generator
MARGIN = 1.959964
LONGEST = 4000  # keys of one user
BATCH = 1 << 17  # pairs in a batch, about


# ---- data


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which users have which keys, once each, sorted by user."""

    users: Ints
    keys: Ints

    @property
    def number(self) -> int:
        """One more than the highest key."""
        return int(self.keys.max()) + 1

    @property
    def frequencies(self) -> Ints:
        """The number of users of each key."""
        return np.bincount(self.keys, minlength=self.number)


def distinct(users: Ints, keys: Ints) -> Pairs:
    """Pairs, once each."""
    number = int(keys.max()) + 1
    code = np.unique(users * number + keys)
    return Pairs(code // number, code % number)


def lengths_of(users: int, exponent: float, generator: Generator) -> Ints:
    """Numbers of keys: at least n with probability n**-exponent, up to 4,000."""
    lengths: Ints = np.floor(generator.random(users) ** (-1 / exponent)).clip(1, LONGEST).astype(np.int64)
    return lengths


def chosen(lengths: Ints, keys: int, zipf: float, taste: float, generator: Generator) -> Pairs:
    """Keys by Zipf's law times ``length**(taste * trait)``; a fifth of the keys each have the traits -1, -1/2, ..., 1.

    With a taste above 0, long users prefer keys of a positive trait, and avoid those of a negative one.
    """
    law = -zipf * np.log(np.arange(1, keys + 1))
    traits = generator.integers(-2, 3, keys) / 2
    classes = np.floor(2 * np.log2(lengths)).astype(np.int64)  # users of about the same length are drawn together
    users, drawn = list[Ints](), list[Ints]()
    for n in np.unique(classes):
        own = np.flatnonzero(classes == n)
        logs = law + taste * math.log(float(lengths[own].mean())) * traits
        u, k = _short(own, lengths, logs, generator) if n < 8 else _long(own, lengths, logs, generator)
        users.append(u)
        drawn.append(k)
    return distinct(np.concatenate(users), np.concatenate(drawn))


def _short(own: Ints, lengths: Ints, logs: Floats, generator: Generator) -> tuple[Ints, Ints]:
    """Draws with replacement: a key drawn twice counts once."""
    users = np.repeat(own, lengths[own])
    p = np.exp(logs - logs.max())
    return users, generator.choice(len(logs), users.size, p=p / p.sum())


def _long(own: Ints, lengths: Ints, logs: Floats, generator: Generator) -> tuple[Ints, Ints]:
    """Draws without replacement: the largest of the logarithms plus Gumbel noise."""
    drawn = [np.argpartition(-(logs + generator.gumbel(size=logs.size)), lengths[u] - 1)[: lengths[u]] for u in own]
    return np.repeat(own, lengths[own]), np.concatenate(drawn)


def clustered(lengths: Ints, keys: int, zipf: float, run: int, generator: Generator) -> Pairs:
    """Clusters of keys by Zipf's law; of each, about `run` keys that follow one another."""
    size = 3 * run
    clusters = keys // size
    users = np.repeat(np.arange(lengths.size), lengths)
    begins = np.append(True, users[1:] != users[:-1]) | (generator.random(users.size) < 1 / run)
    runs, place = np.cumsum(begins) - 1, np.arange(users.size)
    within = place - place[begins][runs]
    p = np.arange(1, clusters + 1) ** -zipf
    number = int(begins.sum())
    cluster, start = generator.choice(clusters, number, p=p / p.sum()), generator.integers(0, size, number)
    return distinct(users, cluster[runs] * size + (start[runs] + within) % size)


@dataclass(frozen=True)
class Shape:
    """Generated data. `taste` is that of long users; with `run`, keys come in clusters."""

    users: int
    exponent: float
    keys: int = 20_000
    zipf: float = 1.0
    taste: float = 0.0
    run: int = 0
    longest: int = LONGEST

    def drawn(self) -> Pairs:
        """The pairs of this shape: the same each time."""
        generator = np.random.default_rng(7)
        lengths = np.minimum(lengths_of(self.users, self.exponent, generator), self.longest)
        if self.run:
            return clustered(lengths, self.keys, self.zipf, self.run, generator)
        return chosen(lengths, self.keys, self.zipf, self.taste, generator)


SHAPES = {
    "few users, 0.6": Shape(2_000, 0.6),
    "few users, 0.6, taste": Shape(2_000, 0.6, taste=0.5),
    "few users, 0.6, clusters": Shape(2_000, 0.6, run=8),
    "few users, 1.1": Shape(2_000, 1.1),
    "few users, 1.1, taste": Shape(2_000, 1.1, taste=0.5),
    "few users, 1.1, clusters": Shape(2_000, 1.1, run=8),
    "few users, 1.5, taste": Shape(2_000, 1.5, taste=0.5),
    "many users, 1.1": Shape(200_000, 1.1),
    "many users, 1.1, taste": Shape(200_000, 1.1, taste=0.5),
    "many users, 1.1, distaste": Shape(200_000, 1.1, taste=-0.25),
    "many users, 1.1, clusters": Shape(200_000, 1.1, run=8),
    "many users, 1.5": Shape(200_000, 1.5),
    "many users, 1.5, taste": Shape(200_000, 1.5, taste=0.7),
    "many users, 2, taste": Shape(200_000, 2.0, taste=0.7),
    "many users, 2, clusters": Shape(200_000, 2.0, run=8),
    "many users, 1.5, up to 500": Shape(200_000, 1.5, 80_000, 0.9, taste=0.4, longest=500),
}
QUICK = ("few users, 0.6", "few users, 1.1, taste", "many users, 1.5, taste", "many users, 2, clusters")


# ---- discovery


@dataclass(frozen=True)
class Found:
    """How keys are found with one method: from how many users on, with which coins."""

    method: str
    keys_each: int
    each: PerKey
    threshold: int
    full: int

    @classmethod
    def by(cls, method: Any, pairs: Pairs, budget: UserBudget) -> "Found":
        """The method, with as many keys of each user as its rule takes from a look without noise."""
        sizes = np.unique(pairs.users, return_counts=True)[1]
        rows = np.minimum(np.ceil(np.log2(sizes) / 2).astype(np.int64), len(Look.EDGES) - 1)
        look = Look(tuple(np.bincount(rows, minlength=len(Look.EDGES)).tolist()), budget.privacy.epsilon * LOOK_SHARE)
        keys_each = promising_keys(budget, look) if method == "many-keys" else 1
        each = budget.one_key() if method == "one-key" else budget.many_keys(keys_each)
        assert each is not None
        full = capacity_cap(each) if method == "one-key" else 0
        return cls(method, keys_each, each, frequency_reaching(0.5, KeepAll(), each) or 0, full)

    def loads(self, pairs: Pairs, generator: Generator) -> Ints:
        """The units that keys get."""
        if self.method == "one-key":
            return assigned(pairs, self.full, generator)
        order = np.lexsort((generator.random(pairs.users.size), pairs.users))
        users = pairs.users[order]
        starts = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
        rank = np.arange(users.size) - np.repeat(starts, np.diff(starts, append=users.size))
        return np.bincount(pairs.keys[order][rank < self.keys_each], minlength=pairs.number)

    def drawn(self, loads: Ints, generator: Generator) -> Ints:
        """Which keys are reported."""
        pi = reporting_probabilities(np.minimum(loads, 10**6), KeepAll(), self.each)
        return np.flatnonzero(generator.random(loads.size) < pi)


def assigned(pairs: Pairs, full: int, generator: Generator) -> Ints:
    """Serial assignment in a random order of users and keys."""
    users = generator.permutation(int(pairs.users.max()) + 1)[pairs.users]
    places = generator.permutation(pairs.number)
    order = np.lexsort((places[pairs.keys], users))
    users, keys = users[order], pairs.keys[order].tolist()
    starts = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    loads = [0] * pairs.number
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(keys)], strict=True):
        for key in keys[start:end]:
            if loads[key] < full:
                loads[key] += 1
                break
    return np.array(loads)


# ---- counts


class Arrays:
    """An engine whose pairs are batches in memory."""

    def summed(self, pairs: Any, kernel: Any) -> Ints:
        """Sum a kernel over all batches."""
        total: Ints = kernel(iter(pairs))
        return total


class NormalNoise(Noisy):
    """Normal noise, whose tables need not be made."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(StreamCoins(bytes(32)))
        self._generator = generator

    def published(self, part: Part, total: Ints) -> Ints:
        """Add normal noise."""
        noise = self._generator.normal(0, part.deviation, len(total))
        return total + np.rint(noise).astype(np.int64)


def batches_of(pairs: Pairs, wanted: Ints) -> list[tuple[Ints, Ints]]:
    """The pairs of some keys, in batches that cut no user."""
    places = np.full(pairs.number, -1)
    places[wanted] = np.arange(wanted.size)
    keys = places[pairs.keys]
    users, keys = pairs.users[keys >= 0], keys[keys >= 0]
    begins = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    cuts = begins[np.searchsorted(begins, np.arange(0, users.size, BATCH))[1:].clip(max=begins.size - 1)]
    edges = [0, *np.unique(cuts[cuts > 0]).tolist(), users.size]
    return list(_cut(begins, keys, edges))


def _cut(begins: Ints, keys: Ints, edges: list[int]) -> Iterator[tuple[Ints, Ints]]:
    for low, high in pairwise(edges):
        own = begins[np.searchsorted(begins, low) : np.searchsorted(begins, high)]
        yield own - low, keys[low:high]


@dataclass
class Line:
    """What was measured of one shape, epsilon and method."""

    shape: str
    epsilon: float
    method: str
    releases: int
    keys: float
    threshold: int
    hold: float
    reported: float
    true: float
    error: float
    stated: float
    clipped: float
    bias: float
    popular: float

    def __str__(self) -> str:
        shares = f"{self.hold:6.3f} {self.reported:8.3f} {self.true:6.3f} {self.popular:7.3f}"
        errors = f"{self.error:6.3f} {self.stated:6.3f} {self.clipped:7.3f} {self.bias:6.2f}"
        return f"{self.shape:<28}{self.epsilon:>5} {self.method:<10}{self.keys:8,.1f} {shares} {errors}"


HEADER = (
    f"{'shape':<28}{'eps':>5} {'method':<10}{'keys':>8} {'hold':>6} {'reported':>8} {'true':>6} {'popular':>7} "
    f"{'error':>6} {'stated':>6} {'clipped':>7} {'mean z':>6}"
)


def measured(task: tuple[str, Pairs | None, float, str, int]) -> Line | None:
    """Run the counts of some releases; None if no keys are found."""
    shape, given, epsilon, method, releases = task
    pairs = SHAPES[shape].drawn() if given is None else given
    budget = UserBudget(Privacy(str(epsilon), "1e-6"), look=LOOK_SHARE, counts=COUNT_SHARE)
    if method == "many-keys" and budget.many_keys(2) is None:
        return None
    found, truth = Found.by(method, pairs, budget), pairs.frequencies
    rows, numbers, clipped = list[Any](), list[int](), list[float]()
    loads = np.zeros(0, np.int64)
    for n in range(releases):
        generator = np.random.default_rng([n, 11])
        if n % max(releases // 4, 1) == 0:  # orders are drawn four times, since that takes longest
            loads = found.loads(pairs, generator)
        wanted = found.drawn(loads, generator)
        numbers.append(wanted.size)
        if not wanted.size:
            continue
        least = float(found.threshold)
        noise, batches = NormalNoise(generator), batches_of(pairs, wanted)
        stage = Stage(Arrays(), batches, wanted.size, least, budget, noise)  # type: ignore[arg-type]
        counted, _ = stage.counted()
        clipped.append(counted.clipped)
        rows.append(np.array([counted.users.values, counted.users.errors, truth[wanted]]))
    if not rows:
        return None
    values, errors, true = np.concatenate(rows, axis=1)
    low, high = np.floor(values - MARGIN * errors), np.ceil(values + MARGIN * errors)
    holds = (np.maximum(low, 1) <= true) & (true <= high)
    large, small = true >= found.threshold, 2 * found.threshold
    return Line(
        shape,
        epsilon,
        method,
        releases,
        float(np.mean(numbers)),
        found.threshold,
        float(holds.mean()),
        mean_or_nan(holds[values < small]),
        mean_or_nan(holds[true < small]),
        float(np.sqrt(np.mean((values / true - 1)[large] ** 2))),
        float(np.median((errors / true)[large])),
        float(np.mean(clipped)),
        float(((values - true) / errors).mean()),
        mean_or_nan(holds[true >= 5 * found.threshold]),
    )


def mean_or_nan(values: Any) -> float:
    """The mean, also of nothing."""
    return float(np.mean(values)) if len(values) else math.nan


def read_pairs(path: Path) -> Pairs:
    """Read columns user and key."""
    import duckdb

    codes = f"SELECT dense_rank() OVER (ORDER BY user) - 1 u, dense_rank() OVER (ORDER BY key) - 1 k FROM '{path}'"
    read = duckdb.connect().execute(f"SELECT DISTINCT u, k FROM ({codes})").fetchnumpy()
    return distinct(read["u"].astype(np.int64), read["k"].astype(np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four shapes, ten releases")
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), metavar="SHAPE")
    parser.add_argument("--pairs", type=Path, nargs="+", default=[], help="pairs of your own instead: user, key")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write a JSON object for each line")
    parser.add_argument("--baseline", type=Path, help="what --json wrote on an earlier commit")
    options = parser.parse_args()
    shapes = options.shape or (QUICK if options.quick else tuple(SHAPES))
    releases = 10 if options.quick else options.releases
    data = {path.stem: read_pairs(path) for path in options.pairs} or dict.fromkeys(shapes)
    tasks = [
        (name, given, epsilon, method, releases)
        for name, given in data.items()
        for epsilon in options.epsilon
        for method in ("one-key", "many-keys")
    ]
    before = dict[tuple[Any, ...], dict[str, Any]]()
    if options.baseline:
        stored = (json.loads(line) for line in options.baseline.read_text().splitlines())
        before = {(line["shape"], line["epsilon"], line["method"]): line for line in stored}
    print(HEADER + (f" {'error x':>8} {'stated x':>8} {'held':>6}" if before else ""))
    lines = list[Line]()
    with ProcessPoolExecutor(options.processes) as pool:
        run: Callable[..., Iterator[Line | None]] = pool.map if options.processes > 1 else map
        for line in run(measured, tasks):
            if line is None:
                continue
            lines.append(line)
            was = before.get((line.shape, line.epsilon, line.method))
            ratios = (
                f" {line.error / was['error']:8.3f} {line.stated / was['stated']:8.3f} {was['hold']:6.3f}"
                if was
                else ""
            )
            print(f"{line}{ratios}", flush=True)
    if options.json:
        options.json.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))


if __name__ == "__main__":
    main()

"""Intervals of sums where a clip takes much: how many hold, for several laws of amounts and clips.

Users have a geometric number of keys, 4 on average, by Zipf's law. A line has the share of all amounts that the clip
takes; how many intervals hold the sums of amounts within eight times the clip, of all keys, and of those from 300 users
on; how many hold the true sums; and the median length of intervals over the true sums. Releases draw secret coins, so
lines differ from run to run.

    python benchmarks/clips.py [--users 200000] [--releases 4]
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import dpsample
from dpsample import Privacy
from dpsample.accounting.amounts import LOOKED_AT
from dpsample.scheme.sampling import Floats, Ints

Generator = np.random.Generator
POPULAR = 300
NUMBER = 3000  # of keys
CLIPS = (0.95, 0.8, 0.6)  # percentiles of amounts


@dataclass(frozen=True)
class Pairs:
    """Which users have which keys, once each."""

    users: Ints
    keys: Ints
    number: int = NUMBER


def generated_pairs(users: int) -> Pairs:
    generator = np.random.default_rng(3)
    user = np.repeat(np.arange(users), generator.geometric(1 / 4, users))
    law = np.arange(1, NUMBER + 1) ** -1.1
    pairs = np.unique(user * NUMBER + generator.choice(NUMBER, user.size, p=law / law.sum()))
    return Pairs(pairs // NUMBER, pairs % NUMBER)


LAWS: dict[str, Callable[[Pairs, Generator], Floats]] = {
    "exponential": lambda p, g: g.exponential(20, p.users.size),
    "exponential, levels of keys": lambda p, g: g.exponential(20, p.users.size) * levels(p, g, 0.5),
    "exponential, wide levels": lambda p, g: g.exponential(20, p.users.size) * levels(p, g, 1.0),
    "exponential, levels of users": lambda p, g: (
        g.exponential(20, p.users.size) * g.lognormal(0, 0.8, p.users.max() + 1)[p.users]
    ),
    "gamma, wide levels": lambda p, g: g.gamma(3, 7, p.users.size) * levels(p, g, 1.0),
    "log-normal, levels of keys": lambda p, g: g.lognormal(2.5, 1.2, p.users.size) * levels(p, g, 0.5),
    "Pareto, levels of keys": lambda p, g: 8 * (g.pareto(1.8, p.users.size) + 1) * levels(p, g, 0.5),
    "large amounts, more in some keys": lambda p, g: mixed(g, 300, 8, g.beta(0.6, 6, p.number)[p.keys]),
    "large amounts in a seventh of keys": lambda p, g: mixed(g, 100, 5, (p.keys % 7 == 0).astype(float)),
    "normal around 2, levels of keys": lambda p, g: g.normal(2, 20, p.users.size) * levels(p, g, 0.5),
    "a fifth of rows are negative": lambda p, g: (
        g.exponential(20, p.users.size) * levels(p, g, 0.5) * np.where(g.random(p.users.size) < 0.2, -1, 1)
    ),
    "a fifth of keys are negative": lambda p, g: (
        g.exponential(20, p.users.size) * levels(p, g, 0.5) * np.where(g.random(p.number) < 0.2, -1, 1)[p.keys]
    ),
}


def levels(pairs: Pairs, generator: Generator, spread: float) -> Floats:
    drawn: Floats = generator.lognormal(0, spread, pairs.number)[pairs.keys]
    return drawn


def mixed(generator: Generator, large: float, small: float, shares: Floats) -> Floats:
    drawn = [generator.exponential(scale, shares.size) for scale in (large, small)]
    return np.where(generator.random(shares.size) < shares, *drawn)


def print_law(pairs: Pairs, law: str, clip_at: float, epsilons: list[str], releases: int) -> None:
    amounts = LAWS[law](pairs, np.random.default_rng(11))
    clip = float(f"{np.quantile(np.abs(amounts), clip_at):.3g}")
    table = pa.table({"user": pairs.users, "key": pairs.keys, "amount": amounts})
    sums = [np.bincount(pairs.keys, np.clip(amounts, -c, c), pairs.number) for c in (np.inf, LOOKED_AT * clip)]
    users = np.bincount(pairs.keys, minlength=pairs.number)
    found = list[Floats]()  # of each key: users, holds the sum within 8 clips, holds the true sum, length
    for epsilon in epsilons * releases:
        privacy = Privacy(epsilon, "1e-6")
        release = dpsample.release(table, "key", user="user", privacy=privacy, sums={"amount": clip})
        key, low, high = (release.table[c].to_numpy() for c in ("key", "sum_amount_low", "sum_amount_high"))
        true, within = (own[key] for own in sums)
        holds = [(low <= own) & (own <= high) for own in (within, true)]
        found.append(np.array([users[key], *holds, (high - low) / np.abs(true)]))
    number, within, true, length = np.concatenate(found, axis=1)
    taken = 1 - np.clip(np.abs(amounts), 0, clip).sum() / np.abs(amounts).sum()
    print(
        f"{law:<35} clip at {100 * clip_at:.0f} % takes {taken:.2f}: "
        f"{within.mean():.3f} of {within.size:,} hold, {within[number >= POPULAR].mean():.3f} of popular keys, "
        f"{true.mean():.3f} the true sums; length {np.median(length):.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--epsilon", nargs="+", default=["1", "3"])
    parser.add_argument("--releases", type=int, default=4, help="of each epsilon")
    options = parser.parse_args()
    pairs = generated_pairs(options.users)
    for law in LAWS:
        for clip_at in CLIPS:
            print_law(pairs, law, clip_at, options.epsilon, options.releases)


if __name__ == "__main__":
    main()

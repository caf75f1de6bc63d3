"""Intervals of rows and sums on heavy-tailed data: how many hold what they are about, for several data and clips.

Each line has the shares of all amounts that the clip and eight times the clip take; how many intervals of clipped sums
hold these (`NAME_clipped`); how many wide intervals hold the sums of amounts within eight times the clip (`NAME_low` to
`NAME_high`); how many of the wide ones hold the true sums, which they do not claim; the median length of both over the
true sum; and whether what is beyond the clip was seen. The last lines sum up. Coins are secret, so lines differ from
run to run.

    python benchmarks/clips.py [--users 20000] [--releases 8] [--processes 16] [--data NAME ...] [--only TEXT]
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

import dpsample
from dpsample import Privacy
from dpsample.accounting.amounts import LOOKED_AT
from dpsample.scheme.sampling import Floats, Ints

Generator = np.random.Generator
NUMBER = 3000  # of keys
LEAST_USERS = 30  # of a key whose lengths of intervals count
CLIPS = (0.95, 0.8, 0.6)  # percentiles of amounts
ASKED = 0.94  # of intervals


@dataclass(frozen=True)
class Pairs:
    """Which users have which keys, once each, and how many keys each user has."""

    users: Ints
    keys: Ints
    number: int = NUMBER

    @property
    def of_user(self) -> Ints:
        """The number of keys of each pair's user."""
        counts: Ints = np.bincount(self.users)[self.users]
        return counts


def power_law(generator: Generator, exponent: float, most: int, number: int) -> Ints:
    """Whole numbers from 1 to `most`, of which a share of t ** -exponent is t or more."""
    drawn = np.floor(generator.random(number) ** (-1 / exponent))
    return np.minimum(drawn, most).astype(np.int64)


def pairs_of(lengths: Ints, generator: Generator) -> Pairs:
    """Draw the keys of users by Zipf's law."""
    user = np.repeat(np.arange(len(lengths)), lengths)
    law = np.arange(1, NUMBER + 1) ** -1.0
    pairs = np.unique(user * NUMBER + generator.choice(NUMBER, user.size, p=law / law.sum()))
    return Pairs(pairs // NUMBER, pairs % NUMBER)


@cache
def data_of(name: str, users: int) -> Pairs:
    generator = np.random.default_rng(3)
    return pairs_of(DATA[name](users, generator), generator)


DATA: dict[str, Callable[[int, Generator], Ints]] = {
    "four keys": lambda users, g: g.geometric(1 / 4, users),
    "power law 1.5": lambda users, g: power_law(g, 1.5, 500, users),
    # a seventh of the users, some of whom have thousands of keys
    "power law 0.7": lambda users, g: power_law(g, 0.7, 4000, users // 7),
}

Law = Callable[[Pairs, Generator], Floats]


def rows_by_power_law(exponent: float, growth: float = 0.0) -> Law:
    """Rows of each user and key by a power law; with `growth`, users with many keys have more."""

    def drawn(pairs: Pairs, generator: Generator) -> Floats:
        rows = power_law(generator, exponent, 10**6, pairs.users.size)
        return np.ceil(rows * pairs.of_user**growth)

    return drawn


def log_normal(sigma: float, negative: float = 0.0) -> Law:
    """Log-normal amounts, a share of which is negative."""

    def drawn(pairs: Pairs, generator: Generator) -> Floats:
        amounts = generator.lognormal(2, sigma, pairs.users.size)
        return amounts * np.where(generator.random(pairs.users.size) < negative, -1, 1)

    return drawn


def levels(pairs: Pairs, generator: Generator, spread: float) -> Floats:
    drawn: Floats = generator.lognormal(0, spread, pairs.number)[pairs.keys]
    return drawn


def mixed(generator: Generator, large: float, small: float, shares: Floats) -> Floats:
    drawn = [generator.exponential(scale, shares.size) for scale in (large, small)]
    return np.where(generator.random(shares.size) < shares, *drawn)


LAWS: dict[str, Law] = {
    **{f"rows, power law {a}": rows_by_power_law(a) for a in (1.1, 1.5, 2.0)},
    "rows, more of users with many keys": rows_by_power_law(1.3, 0.5),
    **{f"log-normal {s}": log_normal(s) for s in (1, 2, 3)},
    **{f"log-normal {s}, two fifths negative": log_normal(s, 0.4) for s in (1, 2, 3)},
    "exponential, wide levels of keys": lambda p, g: g.exponential(20, p.users.size) * levels(p, g, 1.0),
    "large amounts in a seventh of keys": lambda p, g: mixed(g, 100, 5, (p.keys % 7 == 0).astype(float)),
    "a fifth of keys are negative": lambda p, g: (
        g.exponential(20, p.users.size) * levels(p, g, 0.5) * np.where(g.random(p.number) < 0.2, -1, 1)[p.keys]
    ),
}


@dataclass(frozen=True)
class Case:
    """One data set, law of amounts, and clip."""

    data: str
    law: str
    clip_at: float
    users: int
    epsilons: tuple[str, ...]
    releases: int


@dataclass(frozen=True)
class Result:
    """What one case found: keys, how many intervals hold, and the text to print."""

    keys: int
    clipped: float
    wide: float
    text: str


def result_of(case: Case) -> Result:
    pairs = data_of(case.data, case.users)
    amounts = LAWS[case.law](pairs, np.random.default_rng(11))
    is_rows = case.law.startswith("rows")
    signed = bool((amounts < 0).any())
    clip = float(f"{np.quantile(np.abs(amounts), case.clip_at):.3g}")
    table = pa.table({"user": pairs.users, "key": pairs.keys, "amount": amounts})
    if is_rows:
        clip = max(round(clip), 1)
    # power laws of rows are summed as a column: a million rows of one user would take long to make
    ends = (-clip if signed else 0, clip)
    truths = [sums_of(pairs, amounts, ends, times) for times in (1, LOOKED_AT, np.inf)]
    number = np.bincount(pairs.keys, minlength=pairs.number)
    found = list[Floats]()
    seen = list[bool]()
    for epsilon in case.epsilons * case.releases:
        privacy = Privacy(epsilon, "1e-6")
        release = dpsample.release(table, "key", user="user", privacy=privacy, sums={"amount": ends})
        if not len(release) or release.terms.counts is None:
            continue
        columns = {name: release.table[name].to_numpy() for name in release.table.column_names}
        key = columns["key"]
        clipped, looked_at, true = (own[key] for own in truths)
        low, high = columns["sum_amount_clipped_low"], columns["sum_amount_clipped_high"]
        wide_low, wide_high = columns["sum_amount_low"], columns["sum_amount_high"]
        holds = (low <= clipped) & (clipped <= high)
        wide_holds = [(wide_low <= own) & (own <= wide_high) for own in (looked_at, true)]
        lengths = np.array([high - low, wide_high - wide_low]) / np.maximum(np.abs(true), 1e-9)
        lengths[:, number[key] < LEAST_USERS] = np.nan
        found.append(np.array([holds, *wide_holds, *lengths]))
        record = release.terms.counts.amounts[0]
        seen.append(record.above.seen or record.below.seen)
    if not found:
        return Result(0, np.nan, np.nan, f"{case.data:<14} {case.law:<36} no key was found")
    together = np.concatenate(found, axis=1)
    clipped_rate, wide_rate, true_rate = together[:3].mean(axis=1)
    length, wide_length = np.nanmedian(together[3:], axis=1)
    whole = np.abs(amounts).sum()
    taken = [1 - np.clip(np.abs(amounts), 0, times * clip).sum() / whole for times in (1, LOOKED_AT)]
    text = (
        f"{case.data:<14} {case.law:<36} clip at {100 * case.clip_at:.0f} % takes {taken[0]:.2f}, 8 clips "
        f"{taken[1]:.2f}; {together.shape[1]:6,} keys: {clipped_rate:.3f} clipped, {wide_rate:.3f} wide, "
        f"{true_rate:.3f} true; lengths {length:.2f} and {wide_length:.2f}; seen in {np.mean(seen):.0%}"
    )
    return Result(together.shape[1], float(clipped_rate), float(wide_rate), text)


def sums_of(pairs: Pairs, amounts: Floats, ends: tuple[float, float], times: float) -> Floats:
    """The sum of each key, of amounts within so many times the clip; an end of 0 stays."""
    low, high = (end * times if end else 0.0 for end in ends)
    return np.bincount(pairs.keys, np.clip(amounts, low, high), pairs.number).astype(np.float64)


def print_summary(results: Sequence[Result]) -> None:
    some = [result for result in results if result.keys]
    keys = np.array([float(result.keys) for result in some])
    for name in ("clipped", "wide"):
        rates = np.array([getattr(result, name) for result in some])
        held = float(rates @ keys / keys.sum())
        print(
            f"{name:<8} {held:.4f} of {keys.sum():,.0f} intervals hold; of {len(some)} cases "
            f"{np.count_nonzero(rates < ASKED)} are below {ASKED:.0%}, the lowest at {rates.min():.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--only", default="", help="laws whose name has this text")
    parser.add_argument("--epsilon", nargs="+", default=["1", "3"])
    parser.add_argument("--releases", type=int, default=8, help="of each epsilon")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    laws = [law for law in LAWS if options.only in law]
    cases = [
        Case(data, law, clip_at, options.users, tuple(options.epsilon), options.releases)
        for data, law, clip_at in itertools.product(options.data, laws, CLIPS)
    ]
    results = list[Result]()
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        for result in pool.map(result_of, cases):
            results.append(result)
            print(result.text, flush=True)
    print_summary(results)


if __name__ == "__main__":
    main()

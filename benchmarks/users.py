"""Releases that protect users: what they cost, and which keys they find.

cost   against the bare `count(DISTINCT user)` of the same engine. Every line is a process of its own, in one run on one
       machine, each the best of `--repeat`: wall and CPU seconds, peak memory, and the ratios to the bare query.
found  beside the baselines of set union, which are not certified. Each line is a mean over `--draws`. Baselines are
       seeded; releases draw secret coins, so their lines differ from run to run.
       keys     the number of found keys
       bound    their share of the sum of pi(number of users) over keys, which no method exceeds on average
       missing  the share of the pairs of a user and a key whose key is not found
       error    the median over found keys of abs(estimate - users) / users, for methods that estimate
       "counts paid" are baselines with the part of mu**2 that a release with counts leaves to discovery
counts  intervals of counted users, over `--releases`: how many hold the true number of users, and median relative
       errors of keys of 50 to 99 users and from 300 on
sums   rows and sums of a column: what they cost against the bare GROUP BY with the same clipped sums of each user and
       key; and over `--releases`, how many intervals hold the true sums, and errors over those that releases state;
       clips are at the 95th percentile of amounts

    python benchmarks/users.py --only cost --rows 10000000 --users 1000000
    python benchmarks/users.py --only found --data library --epsilon 1
"""

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dpsample
from dpsample import KeepAll, Privacy
from dpsample.accounting.counts import COUNT_SHARE
from dpsample.accounting.user_budget import whole_square
from dpsample.cli.standard_library import standard_library
from dpsample.exact import figures_below
from dpsample.private.engine.duckdb import DuckDB
from dpsample.scheme import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints
from set_union import (
    Bools,
    DpSips,
    PolicyGaussian,
    PolicyGreedy,
    WeightedGaussian,
)

PRIVACY = Privacy(1, 1e-6)
KEYS = (5, 20, 50)
# releases without a bound, beside those of KEYS
UNBOUNDED: dict[str, dict[str, Any]] = {"discovered, keys only": {"keys_only": True}, "discovered and counted": {}}
CLIP, CLIPPED_ROWS = 100, 5
SUMS: dict[str, dict[str, Any]] = {
    "counted, with a sum": {"sums": {"amount": CLIP}},
    "counted, with rows and a sum": {"rows": CLIPPED_ROWS, "sums": {"amount": CLIP}},
}


def bare(path: Path, out: Path, limit: str | None) -> None:
    connection = duckdb.connect()
    if limit:
        connection.execute(f"SET memory_limit = '{limit}'")
    query = f"SELECT key, count(DISTINCT user_id) AS n FROM '{path}' GROUP BY key"
    connection.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet)")


def bare_sums(path: Path, out: Path, limit: str | None, rows: bool = False) -> None:
    connection = duckdb.connect()
    if limit:
        connection.execute(f"SET memory_limit = '{limit}'")
    each, clipped = "sum(amount) AS s", f"sum(greatest(-{CLIP}, least({CLIP}, s))) AS s"
    if rows:
        each, clipped = f"{each}, count(*) AS r", f"{clipped}, sum(least({CLIPPED_ROWS}, r)) AS r"
    pairs = f"SELECT user_id, key, {each} FROM '{path}' GROUP BY user_id, key"
    query = f"SELECT key, count(*) AS n, {clipped} FROM ({pairs}) GROUP BY key"
    connection.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet)")


BARE: dict[str, Callable[[Path, Path, str | None], None]] = {
    "bare": bare,
    "bare sums": bare_sums,
    "bare rows and sums": partial(bare_sums, rows=True),
}


def release(path: Path, out: Path, limit: str | None, what: str) -> None:
    unbounded = UNBOUNDED | SUMS
    options = unbounded[what] if what in unbounded else {"max_keys_per_user": int(what)}
    with DuckDB(memory_limit=limit) as engine:
        dpsample.release_to_file(out, path, "key", privacy=PRIVACY, user="user_id", engine=engine, **options)


def one(what: str, path: Path, limit: str | None) -> None:
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401 - Arrow imports it at its first array, where it is installed; imports are not timed
    with tempfile.TemporaryDirectory() as folder:
        started, before = time.perf_counter(), time.process_time()
        bare_one = BARE.get(what)
        if bare_one is None:
            release(path, Path(folder) / "out.parquet", limit, what)
        else:
            bare_one(path, Path(folder) / "out.parquet", limit)
        seconds, cpu = time.perf_counter() - started, time.process_time() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": memory}))


def measured(what: str, path: Path, limit: str | None, repeat: int) -> dict[str, float] | None:
    command = [
        sys.executable,
        __file__,
        "--one",
        what,
        "--path",
        str(path),
        *(["--limit", limit] if limit else []),
    ]
    found = list[dict[str, float]]()
    for _ in range(repeat):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None
        found.append(json.loads(done.stdout))
    return min(found, key=lambda f: f["seconds"])


def line(name: str, found: dict[str, float] | None, floor: dict[str, float]) -> None:
    if found is None:
        print(f"  {name:<44} failed (out of memory)")
        return
    time, cpu, memory = (found[what] / floor[what] for what in ("seconds", "cpu", "memory"))
    measures = f"{found['seconds']:6.2f} s {found['cpu']:6.2f} CPU s {found['memory']:5.2f} GB"
    print(f"  {name:<40} {measures}  {time:5.2f} x time {cpu:5.2f} x CPU {memory:5.2f} x memory")


def print_cost(options: argparse.Namespace) -> None:
    key = f"least(pow(random(), -5.5), {options.keys})::BIGINT"  # Zipf-like: P(key >= k) = k**-0.18
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in (("integers", "{}"), ("text", "'name ' || {}")):
            path = Path(folder) / f"{kind}.parquet"
            user = text.format(f"(random() * {options.users})::BIGINT")
            chosen = f"SELECT {user} AS user_id, {text.format(key)} AS key FROM range({options.rows})"
            duckdb.sql(f"COPY ({chosen}) TO '{path}' (FORMAT parquet)")
            print(f"{kind}: {options.rows:,} rows, {options.users:,} users")
            floor = measured("bare", path, None, options.repeat)
            assert floor is not None
            line("bare count(DISTINCT user) to Parquet", floor, floor)
            for what in UNBOUNDED:
                line(what, measured(what, path, None, options.repeat), floor)
            for keys in KEYS:
                line(f"release, {keys} keys per user", measured(str(keys), path, None, options.repeat), floor)
            if options.memory_limit:
                limit = options.memory_limit
                for what in ("bare", *UNBOUNDED, str(KEYS[0])):
                    line(f"{what}, limit {limit}", measured(what, path, limit, 1), floor)
            path.unlink()


def print_sums_cost(options: argparse.Namespace) -> None:
    key = f"least(pow(random(), -5.5), {options.keys})::BIGINT"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "amounts.parquet"
        user, amount = f"(random() * {options.users})::BIGINT", "-20 * ln(1 - random())"
        chosen = f"SELECT {user} AS user_id, {key} AS key, {amount} AS amount FROM range({options.rows})"
        duckdb.sql(f"COPY ({chosen}) TO '{path}' (FORMAT parquet)")
        print(f"sums: {options.rows:,} rows, {options.users:,} users")
        for bare_name, what in zip(("bare sums", "bare rows and sums"), SUMS, strict=True):
            floor = measured(bare_name, path, None, options.repeat)
            assert floor is not None
            line(f"{bare_name}, clipped, to Parquet", floor, floor)
            line(what, measured(what, path, None, options.repeat), floor)
            if limit := options.memory_limit:
                for own in (bare_name, what):
                    line(f"{own}, limit {limit}", measured(own, path, limit, 1), floor)


# ---- which keys are found


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs of a user and a key, as codes from 0 on."""

    users: Ints
    keys: Ints

    @property
    def number(self) -> int:
        """One more than the highest key code."""
        return int(self.keys.max()) + 1

    @property
    def frequencies(self) -> Ints:
        """The number of users of each key."""
        return np.bincount(self.keys, minlength=self.number)

    @property
    def table(self) -> pa.Table:
        """The pairs as rows."""
        return pa.table({"user": self.users, "key": self.keys})


@dataclass(frozen=True)
class Outcome:
    """What a method found, by key code; estimates are NaN where there is none, or absent if it makes none."""

    found: Bools
    estimates: Floats | None = None


Method = Callable[[Pairs, Privacy, np.random.Generator], Outcome]


def library_pairs() -> Pairs:
    """The standard library: files are users, identifiers are keys."""
    pairs = standard_library().group_by(["file", "word"]).aggregate([])
    users, keys = (
        pairs[name].cast("string").combine_chunks().dictionary_encode().indices.to_numpy() for name in ("file", "word")
    )
    return Pairs(users.astype(np.int64), keys.astype(np.int64))


def generated_pairs(users: int, mean: float, power: float, keys: int = 10**5) -> Pairs:
    """Users with a geometric number of draws from keys by Zipf's law; a key drawn twice counts once."""
    generator = np.random.default_rng(3)
    user = np.repeat(np.arange(users), generator.geometric(1 / mean, users))
    law = np.arange(1, keys + 1) ** -power
    pairs = np.unique(user * keys + generator.choice(keys, user.size, p=law / law.sum()))
    return Pairs(pairs // keys, pairs % keys)


DATA: dict[str, Callable[[], Pairs]] = {
    "library": library_pairs,
    "few": partial(generated_pairs, users=200_000, mean=4, power=1.1),  # few keys for each user
    "small": partial(generated_pairs, users=20_000, mean=4, power=1.1, keys=3000),
    "many": partial(generated_pairs, users=2_000, mean=460, power=1.0),  # many: 300 on average, as keys come twice
}


def with_bound(pairs: Pairs, privacy: Privacy, generator: np.random.Generator, *, keys: int) -> Outcome:
    """A release in which each user keeps this many keys. Its coins are secret: the generator is not used."""
    table = dpsample.release(pairs.table, "key", user="user", privacy=privacy, max_keys_per_user=keys).table
    estimates = np.full(pairs.number, np.nan)
    estimates[table["key"].to_numpy()] = table["estimate"].to_numpy()
    return Outcome(~np.isnan(estimates), estimates)


def discovered(pairs: Pairs, privacy: Privacy, generator: np.random.Generator, **options: Any) -> Outcome:
    """A release without a bound. Its coins are secret: the generator is not used."""
    table = dpsample.release(pairs.table, "key", user="user", privacy=privacy, **options).table
    found = np.zeros(pairs.number, bool)
    found[table["key"].to_numpy()] = True
    if "estimate" not in table.column_names:
        return Outcome(found)
    estimates = np.full(pairs.number, np.nan)
    estimates[table["key"].to_numpy()] = table["estimate"].to_numpy()
    return Outcome(found, estimates)


def counts_paid(privacy: Privacy) -> Privacy:
    """The privacy whose Gaussian noise has the part of mu**2 that counts leave."""
    whole, low, high = whole_square(privacy), Fraction(0), privacy.epsilon
    for _ in range(40):
        middle = (low + high) / 2
        enough = whole_square(Privacy(middle, privacy.delta)) >= (1 - COUNT_SHARE) * whole
        low, high = (low, middle) if enough else (middle, high)
    return Privacy(figures_below(high, 9), privacy.delta)


def with_baseline(
    pairs: Pairs,
    privacy: Privacy,
    generator: np.random.Generator,
    *,
    kind: Callable[[Privacy], WeightedGaussian | DpSips | PolicyGaussian | PolicyGreedy],
) -> Outcome:
    return Outcome(kind(privacy).draw(pairs.users, pairs.keys, pairs.number, generator).found)


def paid_baseline(pairs: Pairs, privacy: Privacy, generator: np.random.Generator, *, cap: int) -> Outcome:
    return with_baseline(pairs, counts_paid(privacy), generator, kind=partial(WeightedGaussian, cap=cap))


RELEASES: dict[str, Method] = {
    "discovered, keys only": partial(discovered, keys_only=True),
    "discovered, one key each, keys only": partial(discovered, keys_only=True, discover="one-key"),
    "discovered, many keys each, keys only": partial(discovered, keys_only=True, discover="many-keys"),
    "discovered and counted": discovered,
    **{f"release, {k} keys per user": partial(with_bound, keys=k) for k in (1, 5, 20, 100)},
}
BASELINES: dict[str, Method] = {
    f"{name}, cap {cap}": partial(with_baseline, kind=partial(kind, cap=cap))
    for name, kind in (
        ("weighted Gaussian", WeightedGaussian),
        ("DP-SIPS", DpSips),
        ("Policy Gaussian", PolicyGaussian),
        # with many keys per user a wider margin finds more; 40 is about the best for the standard library's files
        ("Policy Gaussian, margin 40", partial(PolicyGaussian, margin=40.0)),
    )
    for cap in (20, 1000)
}
BASELINES["greedy policy"] = partial(with_baseline, kind=PolicyGreedy)
BASELINES |= {f"weighted Gaussian, cap {cap}, counts paid": partial(paid_baseline, cap=cap) for cap in (20, 1000)}
METHODS = RELEASES | BASELINES


def expected_bound(pairs: Pairs, privacy: Privacy) -> float:
    """The sum of pi over keys: no method with this privacy finds more on average, whatever users may contribute."""
    return float(reporting_probabilities(pairs.frequencies, KeepAll(), privacy).sum())


def quality(outcome: Outcome, frequencies: Ints) -> tuple[float, float, float]:
    """Found keys, missing mass, and the median relative error (NaN without estimates)."""
    found = outcome.found
    missing = 1 - frequencies[found].sum() / frequencies.sum()
    if outcome.estimates is None or not found.any():
        return float(found.sum()), float(missing), float("nan")
    error = np.abs(outcome.estimates[found] / frequencies[found] - 1)
    return float(found.sum()), float(missing), float(np.median(error))


def print_found(names: list[str], epsilons: list[str], draws: int) -> None:
    for name in names:
        pairs = DATA[name]()
        frequencies = pairs.frequencies
        print(
            f"{name}: {len(np.unique(pairs.users)):,} users, {np.count_nonzero(frequencies):,} keys, "
            f"{frequencies.sum():,} pairs"
        )
        for epsilon in epsilons:
            privacy = Privacy(epsilon, "1e-6")
            bound = expected_bound(pairs, privacy)
            head = f"epsilon {epsilon}, delta 1e-6, bound {bound:,.0f}"
            print(f"  {head:<44} {'keys':>8} {'bound':>7} {'missing':>8} {'error':>6}")
            for title, method in METHODS.items():
                start = time.perf_counter()
                drawn = [
                    quality(method(pairs, privacy, np.random.default_rng(seed)), frequencies) for seed in range(draws)
                ]
                keys, missing = (float(np.mean([measures[n] for measures in drawn])) for n in (0, 1))
                errors = [error for _, _, error in drawn if not np.isnan(error)]  # no key was found in other draws
                shown = f"{np.mean(errors):.3f}" if errors else ""
                seconds = (time.perf_counter() - start) / draws
                print(
                    f"    {title:<42} {keys:8,.1f} {keys / bound:7.3f} {missing:8.3f} {shown:>6} {seconds:6.2f} s",
                    flush=True,
                )


def print_counts(names: list[str], epsilons: list[str], releases: int) -> None:
    for name in names:
        pairs = DATA[name]()
        truth, table = pairs.frequencies, pairs.table
        for epsilon in epsilons:
            held, errors, found = [], [], []
            for _ in range(releases):
                drawn = dpsample.release(table, "key", user="user", privacy=Privacy(epsilon, "1e-6")).table
                users = truth[drawn["key"].to_numpy()]
                low, high, estimate = (drawn[column].to_numpy() for column in ("low", "high", "estimate"))
                held.append(np.mean((low <= users) & (users <= high)) if len(users) else np.nan)
                relative = np.abs(estimate / np.maximum(users, 1) - 1)
                some = [relative[(users >= 50) & (users < 100)], relative[users >= 300]]
                errors.append([float(np.median(part)) if len(part) else np.nan for part in some])
                found.append(len(users))
            rare, popular = np.nanmean(np.array(errors), axis=0) if errors else (np.nan, np.nan)
            print(
                f"{name:<8} epsilon {epsilon:>4}: {np.mean(found):8,.0f} keys; {np.nanmean(held):.4f} of intervals hold"
                f" (least in a release {np.nanmin(held):.3f}); median error {rare:.3f} and {popular:.3f}",
                flush=True,
            )


def with_amounts(pairs: Pairs) -> pa.Table:
    """Pairs with some rows each; amounts depend on the key, and users with many keys have larger ones."""
    generator = np.random.default_rng(4)
    times = generator.geometric(0.5, len(pairs.users))
    users, keys = np.repeat(pairs.users, times), np.repeat(pairs.keys, times)
    level = generator.lognormal(0, 0.5, pairs.number)[keys] * np.bincount(pairs.users)[users] ** 0.2
    amount = generator.exponential(20, len(users)) * level
    return pa.table({"user": users, "key": keys, "amount": amount, "change": generator.normal(2, 20, len(users))})


def print_sums(names: list[str], epsilons: list[str], releases: int) -> None:
    for name in names:
        pairs = DATA[name]()
        table = with_amounts(pairs)
        pair, places = np.unique(table["user"].to_numpy() * pairs.number + table["key"].to_numpy(), return_inverse=True)
        each = {"rows": np.bincount(places)}
        each |= {f"sum_{c}": np.bincount(places, table[c].to_numpy()) for c in ("amount", "change")}
        clips = {what: max(round(float(np.quantile(np.abs(own), 0.95))), 1) for what, own in each.items()}
        truth = {what: np.bincount(pair % pairs.number, own, pairs.number) for what, own in each.items()}
        clipped = {
            what: np.bincount(pair % pairs.number, np.clip(own, -clips[what], clips[what]), pairs.number)
            for what, own in each.items()
        }
        for epsilon in epsilons:
            held: dict[str, list[list[float]]] = {what: [] for what in clips}
            for _ in range(releases):
                sums = {"amount": clips["sum_amount"], "change": clips["sum_change"]}
                options: dict[str, Any] = {"rows": clips["rows"], "sums": sums}
                privacy = Privacy(epsilon, "1e-6")
                drawn = dpsample.release(table, "key", user="user", privacy=privacy, **options)
                found = drawn.table["key"].to_numpy()
                for clipped_of in drawn.terms.counts.amounts if drawn.terms.counts and len(found) else ():
                    amount = clipped_of.amount
                    what = amount.name
                    columns = {name: drawn.table[name].to_numpy() for name in amount.columns}
                    value, error = columns[amount.measured], columns[amount.error]
                    truths = {what: truth[what][found], amount.clipped: clipped[what][found]}
                    holds = [
                        float(np.mean((columns[f"{name}_low"] <= own) & (own <= columns[f"{name}_high"])))
                        for name, own in truths.items()
                    ]
                    part = truths[amount.clipped]
                    held[what].append([*holds, float(np.sqrt(np.mean(((value - part) / error) ** 2)))])
            for what, found_rates in held.items():
                whole_rate, part_rate, ratio = np.mean(found_rates, axis=0) if found_rates else (np.nan,) * 3
                print(
                    f"{name:<8} epsilon {epsilon:>4}: {what:<10} {whole_rate:.4f} of wide intervals hold true sums, "
                    f"{part_rate:.4f} of intervals the clipped ones; errors are {ratio:.3f} of those stated",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("cost", "found", "counts", "sums"), help="one of the parts; all by default")
    parser.add_argument(
        "--data", nargs="+", choices=list(DATA), default=["library", "few", "many"], help="of all but the part cost"
    )
    parser.add_argument("--epsilon", nargs="+", default=["0.1", "1", "3"], help="of the part found")
    parser.add_argument("--draws", type=int, default=3, help="of the part found")
    parser.add_argument("--releases", type=int, default=20, help="of the parts counts and sums")
    parser.add_argument("--keys", type=int, default=10**17, help="of the part cost: the highest key")
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--users", type=int, default=10**6)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory-limit", help="also run with this limit, for example 1GB")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        one(options.one, options.path, options.limit)
        return
    if options.only in (None, "cost"):
        print_cost(options)
    if options.only in (None, "found"):
        print_found(options.data, options.epsilon, options.draws)
    if options.only in (None, "counts"):
        print_counts(options.data, options.epsilon, options.releases)
    if options.only in (None, "sums"):
        print_sums_cost(options)
        print_sums(options.data, options.epsilon, options.releases)


if __name__ == "__main__":
    main()

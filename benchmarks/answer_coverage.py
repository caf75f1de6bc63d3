"""How often default answers hold the truth, where most keys are below the detection threshold.

    python benchmarks/answer_coverage.py [--releases 300] [--order | --totals] [--bounds] [--frequencies FILE]
                                         [--processes N]

Nine shapes of data, and five schemes, of which the last two are for users with a contribution bound. Questions are
those of a release with its default least frequency: the sum and the number of keys, the mean, and the sum over a
selection of one key in 26, as by a first letter. Prints for each scheme, shape and question the coverage of 95 %
intervals that were guaranteed, and the share of intervals that were. Tokens are drawn from their laws, without files.
With a bound, frequencies are larger by as much as the detection threshold is.

With `--frequencies`, the data are your own: a Parquet file with a column `frequency`, one row for each key.

With `--totals`, both lines of a total are measured, by the number of reported keys of a group: keys are put into groups
of many sizes at random, and a group counts by how many of its keys were reported: 1, 2 to 5, 6 or more. Columns are the
coverage of what is in reported keys, and of what is in all keys from the least frequency on.

With `--order`, questions are those that depend on the order of keys: quantiles, the interval of each reported key, of
the ten keys of a top list, and the rank of some keys that were reported. These take longer.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpsample import KeepAll, Ppswor, Privacy, Release, Sampling
from dpsample.accounting.budget import Budget
from dpsample.answers.token_sums import MeanParts
from dpsample.estimators import Tally
from dpsample.estimators.calibrated import estimate_sums
from dpsample.estimators.deviations import Deviations
from dpsample.estimators.estimate import Estimate, estimates, least_frequency
from dpsample.estimators.measures import Measure
from dpsample.private.tokens import terms_of
from dpsample.release.terms import Terms
from dpsample.scheme import default_grid
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

sibling = import_module("interval_coverage")  # of this folder
draw_tallies = sibling.draw_tallies

LEVEL = 0.95
LETTERS = 26
SHARES = (0.1, 0.5, 0.9)
RANKS = (3, 30, 150)
KEYS_OF_GROUPS = {"1": (1, 1), "2 to 5": (2, 5), "6 or more": (6, 1 << 40)}
LINES = {"reported": ("reported_low", "reported_high"), "all": ("low", "high")}
# sampling, epsilon, and the contribution bound if there is one
SCHEMES: list[tuple[Sampling, str, int | None]] = [
    (KeepAll(), "1", None),
    (KeepAll(), "0.2", None),
    (Ppswor("0.01"), "1", None),
    (KeepAll(), "1", 10),
    (KeepAll(), "1", 100),
]
THRESHOLD = 14  # for which shapes are made


def shapes(scale: float = 1.0) -> dict[str, Ints]:
    """Return frequencies of keys; in each shape most are below the thresholds of the schemes."""
    generator, rank = np.random.default_rng(3), np.arange(1.0, 40_001.0)
    two_points = np.where(rank % 10 > 0, 5.0, 120.0)
    numbers = {
        "Zipf 1": 14_500 / rank,
        "Zipf 1.5": 5e5 / rank**1.5,
        "Zipf 0.8": 1_500 / rank**0.8,
        "Mandelbrot": 5e5 / (rank + 50) ** 1.2,
        "Poisson of Zipf 1.1": 1.0 + generator.poisson(2.5e4 / rank**1.1),
        "lognormal": np.exp(generator.normal(1, 1.6, len(rank))),
        "geometric": generator.geometric(1 / 12, len(rank)) * 1.0,
        "Pareto 2": generator.pareto(2, len(rank)) * 6 + 1,
        "two points": two_points,
    }
    return {name: np.maximum(np.rint(scale * values), 1).astype(np.int64) for name, values in numbers.items()}


def cases(bounded: bool) -> Iterator[tuple[Terms, dict[str, Ints]]]:
    """Yield the terms of schemes with a bound, or without, each with shapes of data."""
    for sampling, epsilon, bound in SCHEMES:
        if (bound is not None) == bounded:
            terms = terms_of(Budget(Privacy(epsilon, "1e-6"), bound), sampling, ["key"])
            threshold = terms.detection_threshold
            assert threshold is not None
            yield terms, shapes(threshold / THRESHOLD if bound else 1.0)


def measure(terms: Terms, frequencies: Ints, releases: int) -> dict[str, tuple[float, float]]:
    """Return, for each question, the coverage of guaranteed intervals and their share."""
    sampling, privacy, generator = terms.sampling, terms.per_key, np.random.default_rng(5)
    tallies = list(draw_tallies(frequencies, sampling, privacy, releases, generator))
    chosen = frequencies[generator.permutation(len(frequencies))[: len(frequencies) // LETTERS]]
    few = [tally for tally in draw_tallies(chosen, sampling, privacy, releases, generator) if tally.total]
    results = {}
    for name, of, selected, truth in (
        ("sum", "frequency", tallies, frequencies),
        ("keys", "keys", tallies, frequencies),
        ("sum of a letter", "frequency", few, chosen),
        ("keys of a letter", "keys", few, chosen),
    ):
        if not selected:  # no key of the letter was reported in any release
            continue
        least = least_frequency(Scheme(sampling, privacy), each_key_alike=of == "keys")
        answers = answered(selected, sampling, privacy, Measure.of(of), least)
        sums = float(Measure.of(of).from_frequency(least)(truth).sum())
        held = np.array([answer.low <= sums <= answer.high for answer in answers])
        results[name] = covered(held, np.array([answer.guaranteed for answer in answers]))
    for name, selected, truth in (("mean", tallies, frequencies), ("mean of a letter", few, chosen)):
        if selected:
            results[name] = measure_mean(selected, sampling, privacy, truth)
    return results


def answered(tallies: Sequence[Tally], sampling: Sampling, privacy: PerKey, of: Measure, least: int) -> list[Estimate]:
    """Return the answers of releases, by token values for as many keys as one of them has."""
    grid, keys = default_grid(privacy), typical(tallies)
    return estimates(tallies, Scheme(sampling, privacy, grid), of, level=LEVEL, least=least, keys=keys)


def typical(tallies: Sequence[Tally]) -> int:
    """Return how many keys a release has, about."""
    return round(np.mean([tally.total for tally in tallies]))


def measure_mean(
    tallies: Sequence[Tally], sampling: Sampling, privacy: PerKey, frequencies: Ints
) -> tuple[float, float]:
    """The same for the mean of the frequencies."""
    least, grid = least_frequency(Scheme(sampling, privacy), each_key_alike=True), default_grid(privacy)
    summed, counted = (Measure.of(of).from_frequency(least) for of in ("frequency", "keys"))
    sums, numbers = (answered(tallies, sampling, privacy, of, least) for of in (summed, counted))
    means = np.array([s.value / n.value if n.value > 0 else 0.0 for s, n in zip(sums, numbers, strict=True)])
    keys = typical(tallies)
    deviations = Deviations(tallies, Scheme(sampling, privacy, grid), summed, counted, keys)
    ends = deviations.intervals(means, np.array([max(n.value, 1e-9) for n in numbers]), LEVEL)
    overcounts = [
        n.overcount(LEVEL) for n in estimate_sums(tallies, Scheme(sampling, privacy, grid), counted, keys=keys)
    ]
    answers = [
        MeanParts(s, n, d, overcount, max(v - least, 0.0), detectable=True).mean(v, low, high)
        for v, s, n, d, low, high, overcount in zip(
            means.tolist(), sums, numbers, deviations.at(means), *ends, overcounts, strict=True
        )
        if n.value > 0
    ]
    known = np.array([answer.guaranteed for answer in answers])
    counting = frequencies[frequencies >= least]
    truth = counting.mean() if len(counting) else math.nan
    known &= len(counting) > 0  # else there is no mean
    return covered(np.array([answer.low <= truth <= answer.high for answer in answers]), known)


def measure_order(terms: Terms, frequencies: Ints, releases: int) -> dict[str, tuple[float, float]]:
    """The same for questions about the order of keys; the share of the last ones is that of keys that were reported."""
    sampling, privacy, grid, generator = terms.sampling, terms.per_key, terms.grid, np.random.default_rng(6)
    assert grid is not None
    least = least_frequency(Scheme(sampling, privacy), each_key_alike=True)
    ranks = 1 + len(frequencies) - np.searchsorted(np.sort(frequencies), frequencies, side="right")
    ordered = np.sort(frequencies[frequencies >= least])
    truth = ordered[np.ceil(np.array(SHARES) * len(ordered)).astype(int) - 1]
    asked = [int(np.argmin(np.abs(ranks - rank))) for rank in RANKS]
    names = [*(f"quantile {share}" for share in SHARES), "each", "top 10", "rank"]
    held: dict[str, list[bool]] = {name: [] for name in names}
    known: dict[str, list[bool]] = {name: [] for name in names}
    for cells in sibling.draw_tokens(frequencies, sampling, privacy, releases, generator):
        reported = np.flatnonzero(cells)
        release = Release(pa.table({"key": reported, "token": cells[reported] / grid}), terms)
        for share, value, (_, answer) in zip(SHARES, truth, release.quantiles(SHARES), strict=True):
            held[f"quantile {share}"].append(bool(answer.low <= value <= answer.high))
            known[f"quantile {share}"].append(answer.guaranteed)
        low, high = (release.table[name].to_numpy() for name in ("low", "high"))
        held["each"] += ((low <= frequencies[reported]) & (frequencies[reported] <= high)).tolist()
        listed = release.top(10)
        true = frequencies[listed.groups["key"].to_numpy()]
        low, high = (listed.numbers[name].to_numpy() for name in ("low", "high"))
        held["top 10"] += ((low <= true) & (true <= high)).tolist()
        for key in asked:
            if cells[key]:
                answer = release.rank(key)
                held["rank"].append(bool(answer.low <= ranks[key] <= answer.high))
                known["rank"].append(answer.guaranteed)
    return {name: covered(np.array(hits), np.array(known[name] or [True] * len(hits))) for name, hits in held.items()}


def measure_totals(terms: Terms, frequencies: Ints, releases: int) -> dict[str, tuple[float, float]]:
    """The coverage of both lines of totals of groups, by the number of their reported keys."""
    sampling, privacy, grid, generator = terms.sampling, terms.per_key, terms.grid, np.random.default_rng(7)
    assert grid is not None
    sizes = generator.integers(1, 60, len(frequencies))
    group = np.repeat(np.arange(len(sizes)), sizes)[: len(frequencies)]
    group = group[generator.permutation(len(group))]
    least = least_frequency(Scheme(sampling, privacy))
    everything = np.bincount(group, frequencies * (frequencies >= least))
    held: dict[str, list[bool]] = {f"{line} of {keys}": [] for keys in KEYS_OF_GROUPS for line in LINES}
    grouped_terms = replace(terms, keys=("group", "key"))
    for cells in sibling.draw_tokens(frequencies, sampling, privacy, releases, generator):
        reported = np.flatnonzero(cells)
        reported = reported[np.lexsort((reported, group[reported]))]
        columns = {"group": group[reported], "key": reported, "token": cells[reported] / grid}
        answer = Release(pa.table(columns), grouped_terms).sum(by='"group"').to_arrow()
        groups, keys = answer.column(0).to_numpy(), answer["keys"].to_numpy()
        shown = np.bincount(group[reported], frequencies[reported], len(everything))[groups]
        truths = {"reported": shown, "all": everything[groups]}
        for line, (low, high) in LINES.items():
            inside = (answer[low].to_numpy() <= truths[line]) & (truths[line] <= answer[high].to_numpy())
            for name, (fewest, most) in KEYS_OF_GROUPS.items():
                held[f"{line} of {name}"] += inside[(fewest <= keys) & (keys <= most)].tolist()
    return {name: covered(np.array(hits, bool), np.ones(len(hits), bool)) for name, hits in held.items() if hits}


def covered(held: NDArray[np.bool_], known: NDArray[np.bool_]) -> tuple[float, float]:
    """The coverage of guaranteed intervals, and their share."""
    return float(held[known].mean()) if known.any() else float("nan"), float(known.mean())


def main() -> None:
    """Print one line for each scheme, shape and question."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--releases", type=int, default=300)
    options.add_argument("--order", action="store_true", help="questions about the order of keys")
    options.add_argument("--bounds", action="store_true", help="only schemes with a contribution bound")
    options.add_argument("--frequencies", type=Path, help="a Parquet file of frequencies, in place of the shapes")
    options.add_argument("--totals", action="store_true", help="both lines of totals of groups")
    options.add_argument("--processes", type=int, default=1, help="processes that share the work")
    arguments = options.parse_args()
    releases = arguments.releases
    measured = measure_totals if arguments.totals else measure_order if arguments.order else measure
    work: list[tuple[str, Terms, Ints]] = []
    for bounded in (True,) if arguments.bounds else (False, True):
        for terms, by_shape in cases(bounded):
            scheme = f"`{terms.sampling}`" + (f", {terms.max_keys} keys" if bounded else "")
            least = least_frequency(Scheme(terms.sampling, terms.per_key))
            if arguments.frequencies:
                column = pq.read_table(arguments.frequencies, columns=["frequency"])["frequency"]
                by_shape = {arguments.frequencies.stem: column.to_numpy().astype(np.int64)}
            for shape, frequencies in by_shape.items():
                below = 100 * (frequencies < least).mean()
                head = f"| {scheme} | {float(terms.privacy.epsilon):g} | {shape} | {below:.0f} |"
                work.append((head, terms, frequencies))
    with ProcessPoolExecutor(arguments.processes) as pool:
        futures = [(head, pool.submit(measured, terms, frequencies, releases)) for head, terms, frequencies in work]
        for head, future in futures:
            results = future.result().items()
            columns = " | ".join(f"{name}: {100 * c:.1f} of {100 * share:.0f}" for name, (c, share) in results)
            print(f"{head} {columns} |", flush=True)


if __name__ == "__main__":
    main()

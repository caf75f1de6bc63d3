"""How far estimates of a sum are off, by method and by kind of data: normalised root mean square errors.

    python benchmarks/accuracy.py [--releases 30] [--quick] [--only paper]
    python benchmarks/accuracy.py --coverage [--quick]

The default estimator is simulated by releases that the sanitizer draws for each setting. All others are computed
exactly; for the last column, mle is simulated on the same releases. `oracle` knows how many keys have each
frequency, and nothing of single keys: its values of tokens have no bias for this data. `seen` is the share of elements
whose keys have pi >= 0.5, and `seen only` the estimate without extrapolation. benchmarks/interval_coverage.py measures
the coverage of sums with more power, and stores it.
"""

import argparse
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpsample import KeepAll, Priority, Privacy, Release, Sampling
from dpsample.comparison.accuracy import Pws, accuracy
from dpsample.comparison.baselines import NonPrivate, StabilityHistogram
from dpsample.estimators import Tally, biased_down, mle
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.measures import Measure
from dpsample.private.randomness import Coins, Words
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.release.kinds import Tokens
from dpsample.release.terms import Terms
from dpsample.scheme import default_grid, reporting_probabilities, token_laws
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

EPSILONS = ("0.1", "0.25", "0.5")
TAUS = ("1", "0.1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")
QUICK = ("1", "1e-2", "1e-4")


def populations() -> dict[str, Ints]:
    """Frequencies of the keys; of selections, of the selected keys only."""
    generator = np.random.default_rng(7)
    ranks = np.arange(1, 10**5 + 1)
    paper = np.repeat(np.arange(1, 201), 1000)
    normal = np.maximum(1, np.rint(np.exp(generator.normal(math.log(100), 1, 10**5)))).astype(np.int64)
    bell = np.exp(-(np.log(normal / 150) ** 2) / (2 * 0.4**2))
    return {
        "paper": paper,
        **{f"zipf {a}": np.maximum(1, np.rint((1e5 / ranks) ** a)).astype(np.int64) for a in (0.5, 1, 2)},
        "geometric": generator.geometric(1 / 100, 10**5),
        "two-point": np.where(np.arange(10**5) % 10 > 0, 3, 120),
        "log-normal": normal,
        "paper, frequent": paper[generator.random(len(paper)) < 0.1 * (paper / 200) ** 2],
        "paper, rare": paper[generator.random(len(paper)) < 2 / paper],
        "log-normal, bell": normal[generator.random(len(normal)) < bell],
        "log-normal, band": normal[(normal >= 80) & (normal <= 300)][::5],
    }


class FastCoins(Coins):
    """Coins for simulations: numpy's, which are fast and neither secret nor secure."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def first(self, n: int) -> Words:  # noqa: D102
        return self._generator.integers(0, 2**64, n, dtype=np.uint64)

    def more(self, row: int, bits: int) -> int:  # noqa: D102
        return int.from_bytes(self._generator.bytes(-(-bits // 8)), "big") >> (-bits % 8)


def tallies(frequencies: Ints, sampling: Sampling, privacy: Privacy, releases: int) -> Iterator[Tally]:
    sanitizer = Sanitizer(sampling, privacy, default_grid(privacy))
    coins = FastCoins(np.random.default_rng(11))
    for _ in range(releases):
        sample = frequencies[sampled(frequencies, sampling, coins)]
        yield Tally.of(sanitizer(sample, coins)[1] if len(sample) else [])


def oracle(frequencies: Ints, sampling: Sampling, privacy: Privacy) -> float:
    """The NRMSE of ``E[i / pi | token]`` under the true frequencies: it has no bias."""
    i, keys = np.unique(frequencies, return_counts=True)
    laws = list(token_laws(i, sampling, privacy, default_grid(privacy)))
    cells, token = np.unique(np.concatenate([law.cells for law in laws]), return_inverse=True)
    p = np.concatenate([law.probabilities for law in laws])
    row = np.repeat(np.arange(len(i)), [law.cells.size for law in laws])
    pi = reporting_probabilities(i, sampling, privacy)
    joint = keys[row] * p
    values = np.bincount(token, joint * (i / pi)[row], len(cells)) / np.bincount(token, joint, len(cells))
    mean, square = (np.bincount(row, p * values[token] ** power, len(i)) for power in (1, 2))
    return math.sqrt(float(keys @ (square - mean**2))) / float(keys @ i)


def detectable(threshold: int, keys: int, generator: np.random.Generator) -> dict[str, Ints]:
    """Frequencies from the detection threshold on; the last ones have as many keys again below it."""
    return {
        "even": generator.integers(threshold, 3 * threshold, keys),
        "power law": np.floor(threshold / generator.random(keys)).clip(max=1000 * threshold).astype(np.int64),
        "log-normal": np.maximum(threshold, np.exp(generator.normal(np.log(4 * threshold), 0.6, keys))).astype(
            np.int64
        ),
        "one frequency": np.full(keys, round(1.3 * threshold)),
        "threshold": np.full(keys, threshold),
        "rare ones too": np.floor(threshold / 2 / generator.random(2 * keys))
        .clip(max=1000 * threshold)
        .astype(np.int64),
    }


def coverage(releases: int) -> None:
    """Print how often 95 % intervals held the truth, by the answers of a `Release`.

    Of a sum of frequencies, of a number of keys, of the number of those with pi >= 0.5 and of their mean: in all
    releases; and in those in which it was guaranteed, with their share. Of the median and the 90 % quantile, and of the
    frequencies of the top ten keys: in all. Means and top ten, which take longer, are asked of every fifth release.
    All keys have pi >= 0.5, but for the last kind of data: there, sums and numbers of all keys cannot be guaranteed.
    """
    print(f"{'scheme':20} {'eps':>4} {'keys':>6} {'frequencies':14}", end="")
    print("".join(f" | {name:>6} {'guaranteed':>14}" for name in ("sum", "number", "seen", "mean")), end=" | ")
    print(f"{'50 %':>6} {'90 %':>6} {'top 10':>6}")
    settings: list[tuple[Sampling, str]] = [(KeepAll(), "0.1"), (KeepAll(), "1"), (Priority("0.02"), "0.5")]
    for sampling, epsilon in settings:
        privacy = Privacy(epsilon, Fraction(1, 2**20))
        grid, i = default_grid(privacy), np.arange(1, 5000)
        threshold = int(i[np.argmax(reporting_probabilities(i, sampling, privacy) >= 0.5)])
        terms = Terms(privacy, ("key",), Tokens(sampling, privacy, grid))
        generator = np.random.default_rng(3)
        sanitizer, coins = Sanitizer(sampling, privacy, grid), FastCoins(generator)
        for keys in (10, 100, 1000, 10000):
            for name, frequencies in detectable(threshold, keys, generator).items():
                shares, seen = [0.5, 0.9], np.sort(frequencies[frequencies >= threshold])
                places = seen[np.ceil(np.array(shares) * len(seen)).astype(int) - 1]
                truths = {"sum": frequencies.sum(), "number": len(frequencies), "seen": len(seen), "mean": seen.mean()}
                held: dict[str, list[tuple[bool, bool]]] = {question: [] for question in truths}
                quantiles, singles = [], []
                for n in range(releases):
                    sample = frequencies[sampled(frequencies, sampling, coins)]
                    rows, cells = sanitizer(sample, coins)
                    table = {"key": np.arange(len(cells)), "token": cells / grid}
                    release = Release(pa.table(table), terms)
                    answers = {"sum": release.sum(), "number": release.count_keys()}
                    answers["seen"] = release.count_keys(at_least=threshold)
                    if n % 5 == 0 and len(cells):
                        answers["mean"] = release.mean()
                        best = release.top(10).to_arrow()
                        true = sample[rows][best["key"].to_numpy()]
                        singles.append(np.mean((best["low"].to_numpy() <= true) & (true <= best["high"].to_numpy())))
                    for question, answer in answers.items():
                        held[question].append((answer.low <= truths[question] <= answer.high, answer.guaranteed))
                    numbers = release.quantiles(shares).numbers
                    quantiles.append((numbers["low"].to_numpy() <= places) & (places <= numbers["high"].to_numpy()))
                print(f"{sampling!s:20} {epsilon:>4} {keys:6} {name:14}", end="")
                for intervals in held.values():
                    right, guaranteed = np.array(intervals).T
                    kept = (
                        f"{right[guaranteed].mean():6.1%} of {guaranteed.mean():4.0%}" if guaranteed.any() else "none"
                    )
                    print(f" | {right.mean():6.1%} {kept:>14}", end="")
                print(" |", *(f"{q:6.1%}" for q in np.mean(quantiles, axis=0)), f"{np.mean(singles):6.1%}", flush=True)


def main() -> None:
    """Print one line for each setting, and a summary."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--releases", type=int, default=30)
    options.add_argument("--quick", action="store_true", help="fewer values of tau, 6 releases")
    options.add_argument("--only", help="one population")
    options.add_argument("--coverage", action="store_true", help="how often intervals hold instead, with 300 releases")
    arguments = options.parse_args()
    if arguments.coverage:
        coverage(100 if arguments.quick else 300)
        return
    releases = 6 if arguments.quick else arguments.releases
    names = ("mle", "biased_down", "ours", "seen only", "SbH", "SbH tight", "non-private", "oracle")
    print(f"{'data':18} {'eps':>4} {'tau':>5} {'seen':>5}", *(f"{name:>11}" for name in names), f"{'ours/mle':>9}")
    ratios: dict[tuple[str, str, str], float] = {}
    for name, frequencies in populations().items():
        if arguments.only not in (None, name):
            continue
        histogram = dict(zip(*(column.tolist() for column in np.unique(frequencies, return_counts=True)), strict=True))
        truth = float(frequencies.sum())
        for epsilon in EPSILONS:
            for tau in QUICK if arguments.quick else TAUS:
                sampling, privacy = Priority(tau), Privacy(epsilon, Fraction(1, 2**20))
                grid = default_grid(privacy)
                drawn = list(tallies(frequencies, sampling, privacy, releases))
                estimates = [
                    estimate_sum(tally, Scheme(sampling, privacy, grid), Measure.of("frequency")) for tally in drawn
                ]
                peers = [float(tally.weights @ mle(tally.cells, sampling, privacy, grid)) for tally in drawn]
                ours, seen_only, peer = (
                    math.sqrt(float(np.mean((np.array(values) / truth - 1) ** 2)))
                    for values in ([e.value for e in estimates], [e.above for e in estimates], peers)
                )
                exact = {
                    "mle": accuracy(Pws(sampling, privacy, mle), histogram).nrmse,
                    "SbH": accuracy(StabilityHistogram(privacy, sampling), histogram).nrmse,
                    "SbH tight": accuracy(StabilityHistogram(privacy, sampling, tight=True), histogram).nrmse,
                    "non-private": accuracy(NonPrivate(sampling), histogram).nrmse,
                    "biased_down": math.nan,
                    "oracle": oracle(frequencies, sampling, privacy),
                    "ours": ours,
                    "seen only": seen_only,
                }
                if max(histogram) < 10**5:
                    exact["biased_down"] = accuracy(Pws(sampling, privacy, biased_down), histogram).nrmse
                pi = reporting_probabilities(frequencies, sampling, privacy)
                seen = float(frequencies[pi >= 0.5].sum()) / truth
                ratio = ours / peer
                print(
                    f"{name:18} {epsilon:>4} {tau:>5} {seen:5.0%}",
                    *(f"{exact[n]:11.4f}" for n in names),
                    f"{ratio:9.2f}",
                    flush=True,
                )
                if exact["mle"] > 0.002:
                    ratios[name, epsilon, tau] = ratio if seen >= 0.6 else -ratio
    seen_well = [r for r in ratios.values() if r > 0]
    print(f"\nours / mle, where mle's exceeds 0.002: {len(ratios)} settings")
    if seen_well:
        print(f"  geometric mean where 60 % is seen ({len(seen_well)}): {math.exp(np.mean(np.log(seen_well))):.3f}")
    print(f"  geometric mean of all: {math.exp(np.mean(np.log(np.abs(list(ratios.values()))))):.3f}")
    for setting in sorted(ratios, key=lambda s: -abs(ratios[s]))[:8]:
        print(f"  {abs(ratios[setting]):.2f}", *setting)


if __name__ == "__main__":
    main()

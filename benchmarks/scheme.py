"""What the core costs, as ratios within one run: `python benchmarks/scheme.py [--quick] [--literal 10000]`.

    laws          200 token laws against a literal Algorithm 4, which builds every row up to the largest frequency
    far laws      10,000 distinct frequencies up to 10**12: seconds and peak memory
    pi            10**7 frequencies against a bare numpy gather, table[index], of the same size
    Zipf          pi for 10**6 keys, frequencies up to 10**12
    certificates  the exact check of a scheme

Each time is the best of a few; schemes are set up anew each time, except for `pi`, where the set-up has its own line.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable, Sequence
from math import exp

import numpy as np
from numpy.typing import NDArray

from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme import certify, default_grid, reporting_probabilities, token_laws
from dpsample.scheme.reporting import reporting

PRIVACY = Privacy("0.1", "1e-6")


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The best of a few runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def literal_algorithm_4(q: Sequence[float], E: float, delta: float, wanted: set[int]) -> dict[int, list[float]]:
    """The paper's Algorithm 4 in plain Python, with running sums: row after row, each from the one before."""
    rows: dict[int, list[float]] = {}
    before, pi = [1.0], 0.0
    for i in range(1, len(q) + 1):
        pi = min(q[i - 1], E * pi + delta, 1 + (pi + delta - 1) / E)
        row = [0.0] * (i + 1)
        row[0] = 1 - pi
        loss = max(before[0] / E - row[0], 0.0)
        sum_before = sum_row = 0.0
        for j in range(1, i):
            sum_before += before[j]
            least = (sum_before - delta) / E - sum_row + loss
            if least > 0:
                row[j] = least
                sum_row += least
        remaining = pi - sum_row
        above_before = above = 0.0
        for j in range(i, 0, -1):
            if j < i:
                above_before += before[j]
            room = E * above_before + delta - above - row[j]
            if room >= remaining:
                row[j] += remaining
                break
            row[j] += room
            remaining -= room
            above += row[j]
        if i in wanted:
            rows[i] = row
        before = row
    return rows


def laws(largest: Sequence[int]) -> None:
    print("200 token laws at (0.1, 1e-6), grid 1, against a literal Algorithm 4")
    print(f"  {'largest':>10} {'sampling':<20} {'literal':>10} {'dpsample':>10} {'ratio':>8}")
    for last in largest:
        frequencies = np.unique(np.linspace(1, last, 200).astype(np.int64))
        for sampling in (KeepAll(), Ppswor("0.01")):
            q = sampling.q(np.arange(1, last + 1)).tolist()
            wanted = set(frequencies.tolist())

            def literal(q: list[float] = q, wanted: set[int] = wanted) -> object:
                return literal_algorithm_4(q, exp(0.1), 1e-6, wanted)

            def fast(frequencies: NDArray[np.int64] = frequencies, sampling: Sampling = sampling) -> object:
                reporting.cache_clear()
                return list(token_laws(frequencies, sampling, PRIVACY))

            slow, quick = seconds(literal, 1), seconds(fast, 5)
            print(f"  {last:>10,} {sampling!s:<20} {slow:>9.3f}s {quick:>9.4f}s {slow / quick:>7.0f}x")


def far_laws(n: int) -> None:
    frequencies = np.unique(np.geomspace(1, 1e12, n * 6 // 5).astype(np.int64))[-n:]
    frequencies[:100] = np.arange(1, 101)
    print(f"\n{len(np.unique(frequencies)):,} distinct frequencies up to {frequencies[-1]:,} at (0.1, 1e-6)")
    print(f"  {'sampling':<20} {'grid':>5} {'seconds':>9} {'peak memory':>12}")
    for sampling in (KeepAll(), Ppswor("1e-4"), Priority("1e-12")):
        for grid in (default_grid(PRIVACY), 8):

            def work(sampling: Sampling = sampling, grid: int = grid) -> object:
                reporting.cache_clear()
                return sum(len(law.cells) for law in token_laws(frequencies, sampling, PRIVACY, grid))

            took = seconds(work, 1)
            tracemalloc.start()
            work()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            print(f"  {sampling!s:<20} {grid:>5} {took:>8.2f}s {peak / 2**20:>9.1f} MB")


def pi(n: int) -> None:
    rng = np.random.default_rng(1)
    shapes = {
        "Zipf": np.minimum(rng.zipf(1.5, n), 10**12),
        "uniform to 10**6": rng.integers(1, 10**6 + 1, n),
    }
    print(f"\npi for {n:,} frequencies at (0.1, 1e-6), against table[index] of the same size")
    print(f"  {'frequencies':<18} {'sampling':<20} {'set-up':>9} {'gather':>9} {'dpsample':>9} {'ratio':>7}")
    for name, frequencies in shapes.items():
        index = np.minimum(frequencies, 10**6)
        table = np.linspace(0, 1, 10**6 + 1)
        gather = seconds(lambda index=index, table=table: table[index], 5)
        for sampling in (KeepAll(), Ppswor("0.01"), Ppswor("1e-5"), Priority("1e-4")):
            reporting.cache_clear()
            setup = seconds(lambda sampling=sampling: reporting(sampling, PRIVACY), 1)
            took = seconds(
                lambda frequencies=frequencies, sampling=sampling: reporting_probabilities(
                    frequencies, sampling, PRIVACY
                ),
                5,
            )
            ratio = took / gather
            print(f"  {name:<18} {sampling!s:<20} {setup:>8.3f}s {gather:>8.3f}s {took:>8.3f}s {ratio:>6.1f}x")


def zipf(n: int) -> None:
    frequencies = n**2 // np.arange(1, n + 1) ** 2
    print(f"\nZipf, alpha = 2, {n:,} keys, largest frequency {frequencies[0]:,}: pi, set-up included")
    print(f"  {'sampling':<20} {'seconds':>9} {'peak memory':>12}")
    for sampling in (KeepAll(), Ppswor("1e-8"), Priority("1e-8"), Ppswor("1e-4", "0.5")):

        def work(sampling: Sampling = sampling) -> object:
            reporting.cache_clear()
            return reporting_probabilities(frequencies, sampling, PRIVACY)

        took = seconds(work)
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {sampling!s:<20} {took:>8.3f}s {peak / 2**20:>9.1f} MB")


def certificates(settings: Sequence[tuple[str, str]]) -> None:
    print("\ncertificates, default grid")
    print(f"  {'epsilon':<8} {'delta':<8} {'sampling':<20} {'grid':>5} {'pairs':>7} {'seconds':>9} complete")
    for epsilon, delta in settings:
        privacy = Privacy(epsilon, delta)
        for sampling in (KeepAll(), Ppswor("0.01"), Priority("1e-6")):
            reporting.cache_clear()
            start = time.perf_counter()
            certificate = certify(sampling, privacy)
            took = time.perf_counter() - start
            print(
                f"  {epsilon:<8} {delta:<8} {sampling!s:<20} {certificate.grid:>5} {certificate.pairs:>7,} {took:>8.2f}s"
                f" {'yes' if certificate.complete else 'no'}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a few seconds in all")
    parser.add_argument("--literal", type=int, metavar="N", help="also run the literal algorithm up to frequency N")
    arguments = parser.parse_args()
    laws([500] if arguments.quick else [500, 1000, 2000, *([arguments.literal] if arguments.literal else [])])
    far_laws(500 if arguments.quick else 10_000)
    pi(10**6 if arguments.quick else 10**7)
    zipf(10**5 if arguments.quick else 10**6)
    certificates(
        [("1", "1e-6")] if arguments.quick else [("0.1", "1e-6"), ("0.5", "1e-9"), ("1", "1e-6"), ("2", "1e-12")]
    )


if __name__ == "__main__":
    main()

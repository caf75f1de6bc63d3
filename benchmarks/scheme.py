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
from functools import partial
from math import exp

import numpy as np
from numpy.typing import NDArray

from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.scheme import certify, concordance, default_grid, reporting_probabilities, steps_to_one, token_laws
from dpsample.scheme.reporting import Reporting

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


def printed_algorithm_4(q: Sequence[float], E: float, delta: float) -> list[list[float]]:
    """The paper's Algorithm 4 word for word: the whole table, and every sum where it is printed."""
    rows, pi = [[1.0]], 0.0
    for i in range(1, len(q) + 1):
        before = rows[-1]
        pi = min(q[i - 1], E * pi + delta, 1 + (pi + delta - 1) / E)
        row = [1 - pi] + [0.0] * i
        for j in range(1, i):
            least = (sum(before[1 : j + 1]) - delta) / E - sum(row[1:j]) + max(before[0] / E - row[0], 0.0)
            row[j] = max(least, 0.0)
        remaining = pi - sum(row[1:i])
        for j in range(i, 0, -1):
            if remaining <= 0:
                break
            most = E * sum(before[j:i]) + delta - sum(row[j + 1 : i + 1])
            given = min(most - row[j], remaining)
            row[j] += given
            remaining -= given
        rows.append(row)
    return rows


def laws(largest: Sequence[int]) -> None:
    print(
        "200 token laws, grid 1, against Algorithm 4 in plain Python: word for word (to 2,000), and with running sums"
    )
    head = f"{'printed':>9} {'running':>9} {'dpsample':>9} {'ratios':>13}"
    print(f"  {'largest':>8} {'epsilon, delta':<15} {'sampling':<22} {head}")
    for last in largest:
        frequencies = np.unique(np.linspace(1, last, 200).astype(np.int64))
        for privacy in (PRIVACY, Privacy(1, "1e-6")):
            for sampling in (KeepAll(), Ppswor("0.01")):
                q = sampling.q(np.arange(1, last + 1)).tolist()
                E, delta = exp(privacy.epsilon), float(privacy.delta)
                slow = seconds(partial(literal_algorithm_4, q, E, delta, set(frequencies.tolist())), 1)
                fast = seconds(partial(count_tokens, frequencies, sampling, privacy, 1), 5)
                word = seconds(partial(printed_algorithm_4, q, E, delta), 1) if last <= 2000 else float("nan")
                setting = f"{float(privacy.epsilon):g}, {delta:g}"
                times = f"{word:>8.2f}s {slow:>8.3f}s {fast:>8.4f}s {word / fast:>5.0f}x {slow / fast:>5.0f}x"
                print(f"  {last:>8,} {setting:<15} {sampling!s:<22} {times}")


def count_tokens(frequencies: NDArray[np.int64], sampling: Sampling, privacy: Privacy, grid: int) -> int:
    Reporting.of.cache_clear()
    return sum(len(law.cells) for law in token_laws(frequencies, sampling, privacy, grid))


def set_up_and_report(frequencies: NDArray[np.int64], sampling: Sampling) -> NDArray[np.float64]:
    Reporting.of.cache_clear()
    return reporting_probabilities(frequencies, sampling, PRIVACY)


def peak_memory(work: Callable[[], object]) -> float:
    """In MB; measured apart from the time, which it would lengthen."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def far_laws(n: int) -> None:
    spread = np.unique(np.geomspace(1, 1e12, 2 * n).astype(np.int64))
    frequencies = spread[np.linspace(0, len(spread) - 1, n).astype(np.int64)]
    print(f"\n{n:,} distinct frequencies up to {frequencies[-1]:,} at (0.1, 1e-6)")
    print(f"  {'sampling':<22} {'grid':>5} {'seconds':>8} {'peak memory':>12}")
    for sampling in (KeepAll(), Ppswor("1e-4"), Priority("1e-12")):
        for grid in sorted({1, default_grid(PRIVACY), 8}):
            work = partial(count_tokens, frequencies, sampling, PRIVACY, grid)
            print(f"  {sampling!s:<22} {grid:>5} {seconds(work, 1):>7.2f}s {peak_memory(work):>9.1f} MB")


def pi(n: int) -> None:
    rng = np.random.default_rng(1)
    shapes = {
        "Zipf": np.minimum(rng.zipf(1.5, n), 10**12),
        "uniform to 10**6": rng.integers(1, 10**6 + 1, n),
    }
    print(f"\npi for {n:,} frequencies at (0.1, 1e-6), against table[index] of the same size")
    print(f"  {'frequencies':<17} {'sampling':<22} {'set-up':>8} {'gather':>8} {'dpsample':>8} {'ratio':>6}")
    table = np.linspace(0, 1, 10**6 + 1)
    for name, frequencies in shapes.items():
        gather = seconds(partial(table.__getitem__, np.minimum(frequencies, 10**6)), 5)
        for sampling in (KeepAll(), Ppswor("0.01"), Ppswor("1e-5"), Priority("1e-4")):
            Reporting.of.cache_clear()
            start = seconds(partial(Reporting.of, sampling, PRIVACY), 1)
            took = seconds(partial(reporting_probabilities, frequencies, sampling, PRIVACY), 5)
            ratio = took / gather
            print(f"  {name:<17} {sampling!s:<22} {start:>7.3f}s {gather:>7.3f}s {took:>7.3f}s {ratio:>5.1f}x")


def zipf(n: int) -> None:
    frequencies = n**2 // np.arange(1, n + 1) ** 2
    print(f"\nZipf, alpha = 2, {n:,} keys, largest frequency {frequencies[0]:,}: pi, set-up included")
    print(f"  {'sampling':<34} {'seconds':>8} {'peak memory':>12}")
    for sampling in (KeepAll(), Ppswor("1e-8"), Priority("1e-8"), Ppswor("1e-4", "0.5")):
        work = partial(set_up_and_report, frequencies, sampling)
        print(f"  {sampling!s:<34} {seconds(work):>7.3f}s {peak_memory(work):>9.1f} MB")


def certificates(settings: Sequence[tuple[str, str]]) -> None:
    print("\ncertificates, default grid")
    print(f"  {'epsilon, delta':<15} {'sampling':<22} {'grid':>5} {'pairs':>7} {'seconds':>8}  every frequency")
    for epsilon, delta in settings:
        for sampling in (KeepAll(), Ppswor("0.01"), Priority("1e-6")):
            Reporting.of.cache_clear()
            start = time.perf_counter()
            found = certify(sampling, Privacy(epsilon, delta))
            took = time.perf_counter() - start
            covered = "covered" if found.complete else "in part"
            setting = f"{epsilon}, {delta}"
            print(f"  {setting:<15} {sampling!s:<22} {found.grid:>5} {found.pairs:>7,} {took:>7.2f}s  {covered}")


def loss(epsilons: Sequence[str]) -> None:
    print(
        "\nlargest loss of concordance against a grid 8 times as fine, delta 1e-3 to 1e-9, frequencies 1/epsilon apart"
    )
    print(f"  {'epsilon':<8} {'grid 1':>9} {'grid 4':>9} {'default':>9}")
    for epsilon in epsilons:
        worst = dict.fromkeys(("1", "4", "default"), 0.0)
        apart = max(1, int(1 / float(epsilon)))
        for delta in ("1e-3", "3e-5", "1e-6", "1e-9"):
            privacy = Privacy(epsilon, delta)
            best = default_grid(privacy)
            i = np.unique(np.linspace(1, 4 * steps_to_one(privacy) + 10, 80).astype(np.int64))
            for sampling in (KeepAll(), Ppswor("0.01")):
                fine = concordance(i + apart, i, sampling, privacy, min(8 * best, 256))
                for name, grid in (("1", 1), ("4", 4), ("default", best)):
                    found = float((fine - concordance(i + apart, i, sampling, privacy, grid)).max())
                    worst[name] = max(worst[name], found)
        print(f"  {epsilon:<8} {worst['1']:>9.1e} {worst['4']:>9.1e} {worst['default']:>9.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: a few seconds in all")
    parser.add_argument("--literal", type=int, metavar="N", help="also run the literal algorithm up to frequency N")
    parser.add_argument("--only", choices=["loss"], help="one part alone")
    arguments = parser.parse_args()
    if arguments.only:
        loss(["0.1", "0.25", "0.5", "1", "2"])
        return
    laws([500] if arguments.quick else [500, 1000, 2000, *([arguments.literal] if arguments.literal else [])])
    far_laws(500 if arguments.quick else 10_000)
    pi(10**6 if arguments.quick else 10**7)
    zipf(10**5 if arguments.quick else 10**6)
    certificates(
        [("1", "1e-6")] if arguments.quick else [("0.1", "1e-6"), ("0.5", "1e-9"), ("1", "1e-6"), ("2", "1e-12")]
    )
    loss(["1"] if arguments.quick else ["0.1", "0.25", "0.5", "1", "2"])


if __name__ == "__main__":
    main()

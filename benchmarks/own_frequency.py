"""How far the column `estimate` of a release is off, how often `low` to `high` holds, and what noisy counts achieve.

    python benchmarks/own_frequency.py [--quick]

All numbers are exact: expected values over the laws of tokens and of noise, for given frequencies. Peers publish a
frequency plus noise where that reaches a threshold, at the same epsilon and delta. Errors are mean absolute errors over
the keys that both report; `all` is over every key that a release reports. `weight` is the error of i / pi, the key's
weight in a sum.
"""

import argparse
import math
import re
import sysconfig
from collections import Counter
from pathlib import Path
from statistics import NormalDist

import numpy as np

from dpsample import KeepAll, Ppswor, Privacy, Sampling
from dpsample.estimators import mle
from dpsample.scheme import default_grid, reporting_probabilities, token_laws
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.sampling import Floats, Ints

Noise = tuple[Floats, Floats, float]  # values, their probabilities, and the threshold


def generated(keys: int = 10**6) -> Ints:
    """1 + Poisson(C i**-1.1): ten elements per key on average."""
    share = np.arange(1, keys + 1) ** -1.1
    return np.asarray(1 + np.random.default_rng(0).poisson(9 * keys * share / share.sum()), np.int64)


def identifiers() -> Ints:
    """How often each identifier of the standard library occurs."""
    found: Counter[str] = Counter()
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" not in path.parts:
            found.update(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8", errors="ignore")))
    return np.array(list(found.values()), np.int64)


def discrete_laplace(privacy: Privacy) -> Noise:
    """A key of frequency 1 reaches the threshold with probability delta at most."""
    r = math.exp(-float(privacy.epsilon))
    z = np.arange(-math.ceil(45 / float(privacy.epsilon)), math.ceil(45 / float(privacy.epsilon)) + 1)
    above = math.ceil(math.log(float(privacy.delta) * (1 + r)) / math.log(r))
    return z.astype(np.float64), (1 - r) / (1 + r) * r ** np.abs(z), 1 + above


def truncated_laplace(privacy: Privacy) -> Noise:
    """The same within a bound: the ends, which one of two neighbours lacks, have probability delta at most."""
    z, p, _ = discrete_laplace(privacy)
    for bound in range(1, len(z)):
        inside = p[np.abs(z) <= bound]
        if inside[0] <= float(privacy.delta) * inside.sum():
            break
    return z[np.abs(z) <= bound], inside / inside.sum(), 1 + bound


def gaussian(privacy: Privacy) -> Noise:
    """Half of delta for the noise, half for the threshold; rounded to integers."""
    epsilon, delta, normal = float(privacy.epsilon), float(privacy.delta) / 2, NormalDist()

    def spent(sigma: float) -> float:
        return normal.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * normal.cdf(
            -0.5 / sigma - epsilon * sigma
        )

    low, high = 1e-3, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    z = np.arange(-math.ceil(9 * high), math.ceil(9 * high) + 1)
    p = np.array([normal.cdf((x + 0.5) / high) - normal.cdf((x - 0.5) / high) for x in z.tolist()])
    return z.astype(np.float64), p, 1 + math.ceil(high * normal.inv_cdf(1 - delta) + 0.5)


PEERS = {"discrete Laplace": discrete_laplace, "truncated": truncated_laplace, "Gaussian": gaussian}


def errors(frequencies: Ints, sampling: Sampling, privacy: Privacy) -> dict[str, float]:
    """The expected errors and coverage of a release of these frequencies, and of each peer's."""
    grid = default_grid(privacy)
    i, keys = np.unique(frequencies, return_counts=True)
    pi = reporting_probabilities(i, sampling, privacy)
    i, keys = i[pi * keys > 1e-9], keys[pi * keys > 1e-9]
    laws = list(token_laws(i, sampling, privacy, grid))
    cells, at = np.unique(np.concatenate([law.cells for law in laws]), return_inverse=True)
    p, row = (
        np.concatenate([law.probabilities for law in laws]),
        np.repeat(np.arange(len(i)), [len(law.cells) for law in laws]),
    )
    estimate, low, high = likely_frequencies(cells, sampling, privacy, grid)
    weight = mle(cells, sampling, privacy, grid)
    held = (low[at] <= i[row]) & (i[row] <= high[at])
    reported, off, far, right = (
        keys * np.bincount(row, p * part)
        for part in (1.0, np.abs(estimate[at] - i[row]), np.abs(weight[at] - i[row]), held)
    )
    total = reported.sum()
    found = {"all": off.sum() / total, "weight": far.sum() / total, "held": right.sum() / total, "keys": total}
    for name, peer in PEERS.items():
        z, noise, threshold = peer(privacy)
        reaches = np.searchsorted(z, threshold - i)  # the first noise with which a key is reported
        share, theirs = (np.append(np.cumsum(part[::-1])[::-1], 0.0)[reaches] for part in (noise, noise * np.abs(z)))
        both = reported @ share
        found |= {name: reported @ theirs / both, f"ours/{name}": off @ share / both}
    return {name: float(value) for name, value in found.items()}


def main() -> None:
    """Print one line for each setting."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="epsilon 0.5 alone")
    epsilons = ("0.5",) if options.parse_args().quick else ("0.1", "0.25", "0.5", "1", "2")
    names = [name for peer in PEERS for name in (f"ours/{peer}", peer)]
    print(
        f"{'data':12} {'eps':>4} {'sampling':20} {'keys':>7} {'held':>6} {'weight':>7} {'all':>7}",
        *(f"{n:>21}" for n in names),
    )
    for data, frequencies in (("generated", generated()), ("identifiers", identifiers())):
        for epsilon in epsilons:
            for sampling in (KeepAll(), Ppswor("1e-2")):
                found = errors(frequencies, sampling, Privacy(epsilon, "1e-6"))
                head = f"{data:12} {epsilon:>4} {sampling!s:20} {found['keys']:7,.0f} {found['held']:6.1%}"
                print(
                    head,
                    f"{found['weight']:7.3f} {found['all']:7.3f}",
                    *(f"{found[n]:21.3f}" for n in names),
                    flush=True,
                )


if __name__ == "__main__":
    main()

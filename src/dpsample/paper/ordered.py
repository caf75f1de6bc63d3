"""How well the order of the frequencies is kept. Not in the paper, whose claim (Corollary 5.1) it shows.

Laws are written as a matrix over common cells, "not reported" first, so that all pairs are one product.
"""

import math

import numpy as np
import pyarrow as pa

from dpsample.baselines import StabilityHistogram
from dpsample.paper.reported import SBH, TIGHT, line, study
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Ppswor, Sampling
from dpsample.scheme.tokens import default_grid, token_laws

ALGORITHM_4, ALGORITHM_5 = "PWS, Algorithm 4", "PWS, Algorithm 5"
DEFAULT = "PWS, default steps"
DELTA = "0.000001"


def by_pairs(quick: bool) -> pa.Table:
    """Concordance of pairs, Kendall's tau as epsilon grows, and what coarse tokens lose."""
    lines, top = [], 60 if quick else 200
    for epsilon in ("0.1", "1"):
        privacy, apart = study(epsilon, DELTA), round(1 / float(epsilon))
        i = np.arange(1, int(3 * math.log(1 / privacy.delta) / float(epsilon)), 4 if quick and epsilon == "0.1" else 1)
        low, high = np.arange(len(i)), np.searchsorted(i, i + apart)
        low, high = low[high < len(i)], high[high < len(i)]
        exact = i[high] == i[low] + apart
        for name, laws in _laws(i, KeepAll(), privacy).items():
            found = _concordance(laws)[high[exact], low[exact]]
            lines.append(line(f"Pairs {apart} apart, ε = {epsilon}", name, i[low[exact]], found))
    schemes: dict[str, Sampling] = {
        "Kendall’s τ, no sampling": KeepAll(),
        "Kendall’s τ, ppswor τ = 0.01": Ppswor("0.01"),
    }
    epsilons = ("0.1", "0.3", "1", "2") if quick else ("0.1", "0.2", "0.3", "0.5", "0.7", "1", "2")
    loss: dict[str, list[float]] = {ALGORITHM_4: [], DEFAULT: []}
    i = np.arange(1, top + 1)
    for panel, sampling in schemes.items():
        taus: dict[str, list[float]] = {}
        for epsilon in epsilons:
            privacy = study(epsilon, DELTA)
            pairs = {name: _concordance(laws) for name, laws in _laws(i, sampling, privacy).items()}
            for name, found in pairs.items():
                taus.setdefault(name, []).append(2 * float(found[np.tril_indices(len(i), -1)].mean()) - 1)
            if isinstance(sampling, Ppswor):
                coarse = {ALGORITHM_4: pairs[ALGORITHM_4], DEFAULT: _concordance(_pws(i, sampling, privacy, None))}
                for name, found in coarse.items():
                    loss[name].append(float((pairs[ALGORITHM_5] - found)[np.tril_indices(len(i), -1)].max()))
        lines += [line(panel, name, epsilons, found) for name, found in taus.items()]
    lines += [line("Largest loss of a pair", name, epsilons, found) for name, found in loss.items()]
    return pa.concat_tables(lines)


def losses(frequencies: Ints, sampling: Sampling, privacy: Privacy) -> dict[str, Floats]:
    """Return how much less likely each pair is in order by other methods than by Algorithm 5."""
    pairs = {name: _concordance(laws) for name, laws in _laws(frequencies, sampling, privacy).items()}
    lower = np.tril_indices(len(frequencies), -1)
    best = pairs.pop(ALGORITHM_5)
    return {name: (best - found)[lower] for name, found in pairs.items()}


def _concordance(laws: Floats) -> Floats:
    """``C[a, b]``: the probability that row a's outcome is above row b's, ties counting one half."""
    found: Floats = laws @ (np.cumsum(laws, axis=1) - laws / 2).T
    return found


def _laws(i: Ints, sampling: Sampling, privacy: Privacy) -> dict[str, Floats]:
    fine = 4 * default_grid(privacy)  # what is left to the optimum falls with the square of the step: 16 times less
    return {
        ALGORITHM_5: _pws(i, sampling, privacy, fine),
        ALGORITHM_4: _pws(i, sampling, privacy, 1),
        SBH: _sbh(i, StabilityHistogram(privacy, sampling), fine),
        TIGHT: _sbh(i, StabilityHistogram(privacy, sampling, tight=True), fine),
    }


def _pws(i: Ints, sampling: Sampling, privacy: Privacy, grid: int | None) -> Floats:
    grid = default_grid(privacy) if grid is None else grid
    laws = np.zeros((len(i), int(i.max()) * grid + 1))
    for row, law in zip(laws, token_laws(i, sampling, privacy, grid), strict=True):
        row[0], row[law.cells] = law.not_reported, law.probabilities
    return laws


def _sbh(i: Ints, method: StabilityHistogram, grid: int) -> Floats:
    """Laplace noise in cells of 1/grid from the cutoff on, each sampled with q at its middle.

    The cells are so narrow that q and the density hardly change within one.
    """
    scale = 1 / float(method.privacy.epsilon)
    ends = method.cutoff + np.arange(int((max(i.max() - method.cutoff, 0) + 40 * scale) * grid) + 2) / grid
    ends[-1] = np.inf
    ahead = (ends - i[:, None]) / scale
    above = np.where(ahead > 0, np.exp(-np.abs(ahead)) / 2, 1 - np.exp(-np.abs(ahead)) / 2)
    middle = (ends[:-1] + 1 / grid / 2) * (
        float(method.sampling.tau) if isinstance(method.sampling, Ppswor) else np.inf
    )
    cells = (above[:, :-1] - above[:, 1:]) * -np.expm1(-middle)
    return np.hstack([1 - cells.sum(axis=1, keepdims=True), cells])

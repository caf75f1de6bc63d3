"""How well tokens keep the order of the frequencies. The paper has a claim (Corollary 5.1), and no figure.

Laws are written as a matrix over common cells, "not reported" first, so that all pairs are one product.
"""

import math

import numpy as np
import pyarrow as pa

from dpsample.comparison.baselines import StabilityHistogram
from dpsample.comparison.reporting_curve import SBH, TIGHT
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Ppswor, Sampling
from dpsample.scheme.tokens import chosen_grid, default_grid, token_laws
from paper.reported import line, study

ALGORITHM_4, ALGORITHM_5 = "PWS, Algorithm 4", "PWS, Algorithm 5"
DEFAULT = "PWS, default steps"
DELTA = "0.000001"
LOSS = "Largest loss of a pair, no sampling"
PANELS: dict[str, Sampling] = {
    "Kendall’s τ, no sampling": KeepAll(),
    "Kendall’s τ, ppswor with τ = 0.01": Ppswor("0.01"),
}


def by_pairs(quick: bool) -> pa.Table:
    """Concordance of pairs, Kendall's tau as epsilon grows, and what coarse tokens lose."""
    lines = []
    for epsilon in ("0.1", "1"):
        privacy, apart = study(epsilon, DELTA), round(1 / float(epsilon))
        low = np.arange(1, int(2.5 * math.log(1 / privacy.delta) / float(epsilon)), apart if quick else 1)
        i = np.union1d(low, low + apart)
        at, above = np.searchsorted(i, low), np.searchsorted(i, low + apart)
        for name, laws in _laws(i, KeepAll(), privacy).items():
            in_order = (laws[above] * _below(laws[at])).sum(axis=1)
            lines.append(line(f"Pairs {apart} apart, ε = {epsilon}", name, low, in_order))
    epsilons = ("0.3", "1") if quick else ("0.1", "0.15", "0.2", "0.3", "0.5", "0.7", "1", "2")
    i = np.arange(1, 61 if quick else 201)
    lost: dict[str, list[float]] = {ALGORITHM_4: [], DEFAULT: []}
    for panel, sampling in PANELS.items():
        taus: dict[str, list[float]] = {}
        for epsilon in epsilons:
            privacy = study(epsilon, DELTA)
            pairs = {name: _pairs(laws) for name, laws in _laws(i, sampling, privacy).items()}
            for name, in_order in pairs.items():
                taus.setdefault(name, []).append(2 * float(in_order.mean()) - 1)
            if sampling == KeepAll():
                coarse = {ALGORITHM_4: pairs[ALGORITHM_4], DEFAULT: _pairs(_pws(i, sampling, privacy, None))}
                for name, in_order in coarse.items():
                    lost[name].append(float((pairs[ALGORITHM_5] - in_order).max()))
        lines += [line(panel, name, epsilons, tau) for name, tau in taus.items()]
    lines += [line(LOSS, name, epsilons, loss) for name, loss in lost.items()]
    return pa.concat_tables(lines)


def losses(frequencies: Ints, sampling: Sampling, privacy: Privacy) -> dict[str, Floats]:
    """Return by how much the probability of the right order of each pair is lower than with Algorithm 5."""
    pairs = {name: _pairs(laws) for name, laws in _laws(frequencies, sampling, privacy).items()}
    best = pairs.pop(ALGORITHM_5)
    return {name: best - in_order for name, in_order in pairs.items()}


def _pairs(laws: Floats) -> Floats:
    """Concordance of all pairs of rows: the probability that the later row's outcome is above the earlier one's."""
    return (laws @ _below(laws).T)[np.tril_indices(len(laws), -1)]


def _below(laws: Floats) -> Floats:
    """Return, for each outcome, the probability of one below it; a tie counts one half."""
    below: Floats = np.cumsum(laws, axis=1) - laws / 2
    return below


def _laws(i: Ints, sampling: Sampling, privacy: Privacy) -> dict[str, Floats]:
    fine = 4 * default_grid(privacy)  # the loss against the optimum falls with the square of the step: 16 times less
    return {
        ALGORITHM_5: _pws(i, sampling, privacy, fine),
        ALGORITHM_4: _pws(i, sampling, privacy, 1),
        SBH: _sbh(i, StabilityHistogram(privacy, sampling), fine),
        TIGHT: _sbh(i, StabilityHistogram(privacy, sampling, tight=True), fine),
    }


def _pws(i: Ints, sampling: Sampling, privacy: Privacy, grid: int | None) -> Floats:
    grid = chosen_grid(grid, privacy)
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

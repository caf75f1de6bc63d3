"""How good the estimates are: the series of the paper's figures on bias, error and variance.

Bias, variance and error are exact, without simulation, except for what is in `FITTED`.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from dpsample.comparison.accuracy import Estimator, Method, Pws, accuracy
from dpsample.comparison.baselines import NonPrivate, StabilityHistogram
from dpsample.comparison.reporting_curve import OPEN
from dpsample.estimators import Tally, biased_down, mle
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.estimators.measures import Measure
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Floats, Ints, Priority, Sampling
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import default_grid, token_laws
from paper.reported import Spread, decades, line, study

DELTA = Fraction(1, 2**20)
SELECTION: Spread = dict.fromkeys(range(1, 201), 1000)  # the paper's 2 * 10**5 keys
TAUS = ("1", "0.001", "0.0001", "0.00001", "0.000001")
SAMPLED, TIGHT = "sampled SbH", "sampled SbH, tight cutoff"
Fitted = Callable[[Ints, Sampling, Privacy, int], float]


def seen_part(
    cells: ArrayLike, sampling: Sampling, privacy: PerKey, grid: int, of: Measure | str = "frequency"
) -> Floats:
    """Estimate by the part of the default estimator that is linear in the tokens, for as many keys as `SELECTION`."""
    return Functional(Calibration.of(Scheme(sampling, privacy, grid)), Measure.of(of), 10**5).values(np.asarray(cells))


def calibrated_sum(cells: Ints, sampling: Sampling, privacy: Privacy, grid: int) -> float:
    """Estimate a sum by default: that part, and its extrapolation below the threshold."""
    return estimate_sum(Tally.of(cells), Scheme(sampling, privacy, grid), Measure.of("frequency")).value


# The estimators that are compared; a further one is one more entry. `ESTIMATORS` estimate from one token at a time, and
# their errors are exact. `FITTED` ones estimate a sum from all tokens of a release. They are simulated, and stand for
# the estimator of the same name in the figures of sums.
ESTIMATORS: dict[str, Estimator] = {"PWS, MLE": mle, "PWS, calibrated": seen_part, "PWS, biased down": biased_down}
FITTED: dict[str, Fitted] = {"PWS, calibrated": calibrated_sum}


def bias(quick: bool) -> pa.Table:
    """Bias of the estimate for one key, as a share of its frequency."""
    lines = []
    for epsilon in ("0.1", "0.5"):
        privacy = study(epsilon, DELTA)
        i = _frequencies(privacy, quick)
        for name, estimator in ESTIMATORS.items():
            panel = f"{name}, ε = {epsilon}"
            for tau in TAUS[::2] if quick else TAUS:
                errors = Pws(Priority(tau), privacy, estimator, grid=1).errors(i)
                lines.append(line(panel, f"τ = {tau}", i, errors.bias / i))
            lines.append(line(panel, "sampled SbH, any τ", i, StabilityHistogram(privacy).errors(i).bias / i))
    return pa.concat_tables(lines)


def nrmse(quick: bool) -> pa.Table:
    """Error of the estimated sum over the paper's selection, as a share of the sum, as tau falls."""
    taus, lines = decades(0, -6, 1 if quick else 4), []
    for epsilon in ("0.1", "0.5") if quick else ("0.1", "0.25", "0.5"):
        privacy, panel = study(epsilon, DELTA), f"ε = {epsilon}"
        settings = [_methods(Priority(tau), privacy) for tau in taus]
        for name in dict.fromkeys([*ESTIMATORS, *FITTED, SAMPLED, TIGHT, OPEN]):
            if name in FITTED:
                at, runs = (
                    (taus[::6], 10) if quick else (taus[::2], 60)
                )  # the simulated NRMSE itself has an error of 9 %
                errors = [simulated_nrmse(FITTED[name], SELECTION, Priority(tau), privacy, runs) for tau in at]
            else:
                at, errors = taus, [accuracy(methods[name], SELECTION).nrmse for methods in settings]
            # on a logarithmic axis there is no 0: the sample that is not private, at tau = 1
            kept = [(tau, error) for tau, error in zip(at, errors, strict=True) if error > 0]
            lines.append(line(panel, name, [tau for tau, _ in kept], [error for _, error in kept]))
    return pa.concat_tables(lines)


def variance(quick: bool) -> pa.Table:
    """Variance of the estimate for one key, and as a share of its squared frequency."""
    privacy, lines = study("0.1", DELTA), []
    i = _frequencies(privacy, quick)
    for share in (True, False):
        for tau in ("1", "0.001", "0.00001"):
            panel = f"{'Normalised variance' if share else 'Variance'}, τ = {tau}"
            methods = _methods(Priority(tau), privacy)
            for name in ("PWS, MLE", SAMPLED, OPEN):
                shown = methods[name].errors(i).variance / (i.astype(np.float64) ** 2 if share else 1)
                lines.append(line(panel, name, i[shown > 0], shown[shown > 0]))
    return pa.concat_tables(lines)


def simulated_nrmse(
    estimate: Fitted, keys: Spread, sampling: Sampling, privacy: Privacy, runs: int, seed: int = 1
) -> float:
    """Return the error of an estimated sum over simulated releases, for estimators that use all tokens at once.

    Tokens are drawn from the law of the default grid, with a generator that is for study only.
    """
    grid, generator = default_grid(privacy), np.random.default_rng(seed)
    truth = sum(i * n for i, n in keys.items())
    laws = list(token_laws(list(keys), sampling, privacy, grid))
    tables = [np.append(law.probabilities, law.not_reported) for law in laws]
    squares = 0.0
    for _ in range(runs):
        drawn = [generator.multinomial(n, p / p.sum()) for n, p in zip(keys.values(), tables, strict=True)]
        cells = [np.repeat(law.cells, counts[:-1]) for law, counts in zip(laws, drawn, strict=True)]
        squares += (estimate(np.concatenate(cells), sampling, privacy, grid) - truth) ** 2
    return math.sqrt(squares / runs) / truth


def first_within(share: float, relative_bias: Floats) -> int:
    """Return the first frequency (from 1) from which on the bias stays within a share of the frequency.

    >>> first_within(0.1, np.array([-1, -0.5, 0.05, -0.2, 0.1, 0]))
    5
    """
    outside = np.flatnonzero(np.abs(relative_bias) > share)
    return int(outside[-1]) + 2 if len(outside) else 1


def _methods(sampling: Sampling, privacy: Privacy) -> dict[str, Method]:
    # the paper's estimates are of integer tokens, those of its Algorithm 4
    ours: dict[str, Method] = {name: Pws(sampling, privacy, e, grid=1) for name, e in ESTIMATORS.items()}
    sbh, tight = StabilityHistogram(privacy, sampling), StabilityHistogram(privacy, sampling, tight=True)
    return {**ours, SAMPLED: sbh, TIGHT: tight, OPEN: NonPrivate(sampling)}


def _frequencies(privacy: Privacy, quick: bool) -> Ints:
    last = int(2.2 * math.log(1 / privacy.delta) / float(privacy.epsilon))
    return np.unique(np.linspace(1, last, 40 if quick else 150).astype(np.int64))

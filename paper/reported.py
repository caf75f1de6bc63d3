"""Which keys are reported: the series of the paper's figures 1 to 6.

Each function returns a table with the columns ``panel, line, x, y``, exactly what is drawn.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dpsample.comparison.accuracy import Method, Pws, coverage
from dpsample.comparison.baselines import NonPrivate, StabilityHistogram
from dpsample.comparison.reporting_curve import OPEN, PWS, SBH, TIGHT
from dpsample.errors import PrivacyWarning
from dpsample.exact import exact, text
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Ppswor, Sampling

Spread = Mapping[int, int]  # frequency -> number of keys
SETTINGS = (("0.1", "0.01"), ("0.01", "1e-6"))
SCHEMA = pa.schema([("panel", pa.string()), ("line", pa.string()), ("x", pa.float64()), ("y", pa.float64())])


def study(epsilon: str, delta: object) -> Privacy:
    """Return the privacy of a figure, without a warning: a delta that is too large for use is fine to study.

    A delta of 1, which is no privacy, stands for one that is as close to it as no figure shows.

    >>> study("0.1", "0.5").delta, float(1 - study("0.1", "1").delta)
    (Fraction(1, 2), 1e-15)
    """
    below = min(exact(delta, "delta"), 1 - Fraction(1, 10**15))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return Privacy(epsilon, below)


def integral(epsilon: str, L: int) -> Privacy:
    """Return the privacy whose L is this integer."""
    E = math.exp(float(epsilon))
    return study(epsilon, (E - 1) / (E**L * (E + 1) - 2))


def spread(frequencies: Ints) -> dict[int, int]:
    """Return how many keys have each frequency."""
    i, keys = np.unique(frequencies, return_counts=True)
    return dict(zip(i.tolist(), keys.tolist(), strict=True))


def zipf(n: int, alpha: float) -> dict[int, int]:
    """Return the Zipf frequencies ``floor((n / rank)**alpha)`` of n keys.

    >>> zipf(6, 1)
    {1: 3, 2: 1, 3: 1, 6: 1}
    >>> max(zipf(10**6, 2))
    1000000000000
    """
    return spread(np.floor(n**alpha / np.arange(1, n + 1, dtype=np.float64) ** alpha).astype(np.int64))


def steps(low: float, high: float, n: int, whole: bool = False) -> Floats:
    """Return n numbers from low to high in equal ratios; with `whole`, rounded and without repeats."""
    numbers = np.geomspace(low, high, n)
    return np.unique(np.rint(numbers)) if whole else numbers


def decades(high: int, low: int, each: int) -> list[str]:
    """Return 10**high down to 10**low, with `each` steps for a power of ten, as exact decimals.

    >>> decades(0, -1, 3)
    ['1', '0.464', '0.215', '0.1']
    """
    return [f"{10 ** (k / each):.3g}" for k in range(high * each, low * each - 1, -1)]


def line(panel: str, name: str, x: object, y: object) -> pa.Table:
    """Return one line of one panel."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return pa.table({"panel": [panel] * len(xs), "line": [name] * len(xs), "x": xs, "y": ys}, schema=SCHEMA)


def named(privacy: Privacy) -> str:
    """Return the title of a panel with this privacy."""
    return f"ε = {text(privacy.epsilon)}, δ = {text(privacy.delta)}"


def by_frequency(quick: bool) -> pa.Table:
    """Reporting probability of each frequency, without sampling; and how much larger it is than SbH's."""
    lines = []
    for epsilon, delta in SETTINGS:
        privacy = study(epsilon, delta)
        last = 2.2 * math.log(1 / privacy.delta) / float(epsilon)
        i = np.unique(np.linspace(1, last, 60 if quick else 300).astype(np.int64))
        for name, method in _unsampled(privacy).items():
            lines.append(line(named(privacy), name, i, method.reported(i)))
    for epsilon, delta in SETTINGS:
        privacy, title = study(epsilon, delta), f"Ratio, ε = {epsilon}, δ = {text(study(epsilon, delta).delta)}"
        last = math.log(1 / privacy.delta) / float(epsilon) + 1
        i = steps(1, last, 30 if quick else 120, whole=True).astype(np.int64)
        pws, sbh, tight = (method.reported(i) for method in _unsampled(privacy).values())
        limit = 2 / -math.expm1(-float(epsilon))
        lines += [line(title, "PWS ÷ SbH", i, pws / sbh), line(title, "PWS ÷ SbH, tight cutoff", i, pws / tight)]
        near = i[2 * i <= limit]
        lines += [line(title, "2 × frequency", near, 2 * near), line(title, "2 / (1 − exp(−ε))", i, [limit] * len(i))]
    return pa.concat_tables(lines)


def by_delta(spreads: Mapping[str, Spread], quick: bool, epsilon: str = "0.1") -> pa.Table:
    """Share of keys reported as delta falls from 1 to 1e-8, without sampling; and the ratio to SbH."""
    deltas = decades(0, -8, 1 if quick else 4)
    lines, ratios = [], []
    for name, keys in spreads.items():
        shares = _shares(keys, [_unsampled(study(epsilon, delta)) for delta in deltas])
        lines += [line(name, method, deltas, share) for method, share in shares.items()]
        ratios.append(line("Ratio of PWS to SbH", name, deltas, np.divide(shares[PWS], shares[SBH])))
    return pa.concat_tables(lines + ratios)


def by_frequency_sampled(quick: bool) -> pa.Table:
    """Reporting probability of each frequency, with ppswor sampling."""
    privacy, lines = study("0.1", "0.001"), []
    i = steps(1, 10**4, 60 if quick else 300, whole=True).astype(np.int64)
    for tau in ("0.1", "0.01", "0.001"):
        for name, method in _sampled(Ppswor(tau), privacy).items():
            lines.append(line(f"τ = {tau}", name, i, method.reported(i)))
    return pa.concat_tables(lines)


def by_tau(spreads: Mapping[str, Spread], quick: bool) -> pa.Table:
    """Share of keys reported as tau falls, with ppswor sampling; and what PWS gains over the sampled SbH."""
    privacy, taus = study("0.1", "0.001"), decades(1, -5, 2 if quick else 6)
    shares = {name: _shares(keys, [_sampled(Ppswor(tau), privacy) for tau in taus]) for name, keys in spreads.items()}
    lines = [line(name, method, taus, share) for name, each in shares.items() for method, share in each.items()]
    for against in (SBH, TIGHT):
        for name, each in shares.items():
            gains = 100 * (np.divide(each[PWS], each[against]) - 1)
            some = gains > 1e-6  # on a logarithmic axis there is no 0: where both report all that is sampled
            lines.append(line(f"Gain over {against}", name, np.asarray(taus, np.float64)[some], gains[some]))
    return pa.concat_tables(lines)


def gain(keys: Spread, sampling: Sampling, privacy: Privacy, tight: bool = False) -> float:
    """Return by how many percent more keys PWS reports than the (sampled) SbH."""
    ours, theirs = Pws(sampling, privacy), StabilityHistogram(privacy, sampling, tight)
    return 100 * (coverage(ours, keys).reported_keys / coverage(theirs, keys).reported_keys - 1)


def _unsampled(privacy: Privacy) -> dict[str, Method]:
    sbh, tight = StabilityHistogram(privacy), StabilityHistogram(privacy, tight=True)
    return {PWS: Pws(KeepAll(), privacy), SBH: sbh, TIGHT: tight}


def _sampled(sampling: Sampling, privacy: Privacy) -> dict[str, Method]:
    sbh, tight = StabilityHistogram(privacy, sampling), StabilityHistogram(privacy, sampling, tight=True)
    return {PWS: Pws(sampling, privacy), SBH: sbh, TIGHT: tight, OPEN: NonPrivate(sampling)}


def _shares(keys: Spread, settings: Sequence[Mapping[str, Method]]) -> dict[str, list[float]]:
    """Return the share of keys that each method reports, over all settings."""
    names = list(settings[0])
    return {name: [coverage(methods[name], keys).share_of_keys for methods in settings] for name in names}

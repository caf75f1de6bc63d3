"""Seven daily releases, combined: how far sums over the week are off, how often intervals hold, and what changed.

    python benchmarks/weeks.py [--quick]

Data are fixed, coins are drawn anew for each week. Keys are Zipf, with Poisson days ("steady"), or each on one day
only ("single"). `error` is the root mean square error of a sum over the error that theory gives: the root of the sum
of the variances of token values, at the true frequencies. The other columns are shares of weeks, or of keys, whose
95 % interval holds the truth. `estimate` compares mean absolute errors of the weekly frequency of keys that some
day does not report: with nothing for that day, and with what is expected of it. Of changes, `false` is the share of
the listed keys that did not change, or not in this direction, and `found` that of clear changes that are listed.
"""

import argparse

import numpy as np
import pyarrow as pa

from dpsample import KeepAll, Ppswor, Privacy, Release, Sampling
from dpsample.answers.changes import changes
from dpsample.answers.several import Combined
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.estimators.calibrated import functionals_of
from dpsample.estimators.measures import Measure
from dpsample.estimators.tally import Tallies, Tally
from dpsample.estimators.tuning import TUNING
from dpsample.release.kinds import Tokens
from dpsample.release.terms import Terms
from dpsample.scheme import default_grid
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme

DAYS, TOP = 7, 50
SETTINGS: tuple[tuple[Privacy, Sampling], ...] = (
    (Privacy(1, "1e-6"), KeepAll()),
    (Privacy("0.25", "1e-6"), KeepAll()),
    (Privacy(1, "1e-6"), Ppswor("0.01")),
)


def frequencies(keys: int, single: bool, largest: float = 20_000.0) -> Ints:
    """The frequencies of keys on the days of a week: [key, day]."""
    generator = np.random.default_rng(1)
    days = generator.poisson(np.repeat(largest * np.arange(1, keys + 1)[:, None] ** -1.1, DAYS, axis=1))
    if single:
        days *= np.arange(DAYS) == generator.integers(0, DAYS, keys)[:, None]
    return np.asarray(days, np.int64)


def released(days: Ints, privacy: Privacy, sampling: Sampling, generator: np.random.Generator) -> list[Release]:
    """One release for each day, with public coins."""
    reporting, grid = Reporting.of(sampling, privacy), default_grid(privacy)
    keys = np.array([f"key{n:07d}" for n in range(len(days))])
    releases = []
    for frequency in days.T:
        drawn = generator.random(len(frequency))
        seen = (frequency > 0) & (drawn < reporting.probabilities(frequency))
        cells = reporting.locate(frequency[seen], drawn[seen], grid)[0]
        table = pa.table({"key": keys[seen], "token": cells / grid})
        releases.append(Release(table, Terms(privacy, ("key",), Tokens(sampling, privacy, grid))))
    return releases


def theoretical_error(days: Ints, week: Combined, least: int) -> float:
    """The error of the weekly sum, from the variances of token values at the true frequencies."""
    variance = 0.0
    tokens = SeveralTokens(week.releases).cells
    for day, release in enumerate(week.releases):
        cells = tokens[tokens[:, day] > 0, day]
        scheme = release.sampling, release.per_key, release.grid or 1
        measure = Measure.of("frequency").from_frequency(least)
        total = functionals_of(Tallies.of([Tally.of(cells)]), Scheme(*scheme), measure, TUNING, None).total
        variance += float(total.covariance(total, int(days.max()) * 2)(days[days[:, day] > 0, day]).sum())
    return float(np.sqrt(variance))


def holds(low: Floats, truth: Floats, high: Floats) -> list[bool]:
    """Whether intervals hold."""
    return [bool(held) for held in (low <= truth) & (truth <= high)]


def measure(privacy: Privacy, sampling: Sampling, single: bool, weeks: int, keys: int) -> None:
    """Print a line of numbers."""
    days, generator = frequencies(keys, single), np.random.default_rng(0)
    totals = days.sum(1).astype(float)
    errors: list[float] = []
    expected: list[float] = []
    held: dict[str, list[bool]] = {name: [] for name in ("sum", "keys", "mean", "median", "top", "gaps")}
    missed: list[Floats] = []
    for _ in range(weeks):
        week = Combined(released(days, privacy, sampling, generator))
        places = np.array([int(key[3:]) for key in week])
        answer, number, mean = week.sum(), week.count_keys(), week.mean()
        assert answer.at_least is not None
        assert number.at_least is not None
        expected.append(theoretical_error(days, week, answer.at_least) if not expected else expected[0])
        truth = float(days[days >= answer.at_least].sum())
        errors.append(answer.value - truth)
        held["sum"].append(answer.low <= truth <= answer.high)
        counted = (days >= number.at_least).any(1)
        held["keys"].append(number.low <= counted.sum() <= number.high)
        average = float(days[days >= number.at_least].sum()) / counted.sum()
        held["mean"].append(mean.low <= average <= mean.high)
        median = week.quantiles([0.5])[0.5]
        held["median"].append(median.low <= np.quantile(totals[counted], 0.5, method="inverted_cdf") <= median.high)
        known = SeveralTokens(week.releases)
        order = np.argsort(-known.totals.values)
        for name, some in (("top", order[:TOP]), ("gaps", np.flatnonzero((known.cells == 0).any(1))[::10])):
            held[name] += holds(*(known.estimates_of(some, 0.95)[n] if n else totals[places[some]] for n in (2, 0, 3)))
        gaps = (known.cells == 0).any(1)
        if gaps.any():
            truths = totals[places[gaps]]
            missed.append(
                np.array([np.abs(v[gaps] - truths).mean() for v in (known.totals.reported, known.totals.values)])
            )
    rms = float(np.sqrt(np.mean(np.square(errors)))) / expected[0]
    shares = "  ".join(f"{name} {np.mean(values):.3f}" for name, values in held.items())
    zero, ours = np.mean(missed, axis=0) if missed else (np.nan, np.nan)
    setting = f"epsilon {float(privacy.epsilon):g}, {sampling}, {'single' if single else 'steady'}"
    print(f"{setting:48} error {rms:.2f}  {shares}  estimate {zero:.1f} -> {ours:.1f}", flush=True)


def measure_changes(privacy: Privacy, sampling: Sampling, pairs: int, keys: int) -> None:
    """Print how many keys that changed are found, and which share of those that are listed did not."""
    before, generator = frequencies(keys, single=False)[:, :1], np.random.default_rng(0)
    factor = generator.choice([1.0, 0.3, 0.7, 1.5, 3.0], (keys, 1), p=[0.8, 0.05, 0.05, 0.05, 0.05])
    after = np.rint(before * factor).astype(np.int64)
    difference = (after - before)[:, 0]
    clear = np.flatnonzero((np.abs(difference) > 10 / float(privacy.epsilon)) & (np.maximum(before, after)[:, 0] > 50))
    false, found, held = [], [], []
    for _ in range(pairs):
        [first], [second] = (released(days, privacy, sampling, generator) for days in (before, after))
        answer = changes(first, second)
        places = np.array([int(key[3:]) for key in answer.table["key"].to_pylist()], np.int64)
        low, high = (answer.table[name].to_numpy() for name in ("low", "high"))
        truth = difference[places]
        false.append(float(np.mean(np.sign(truth) != np.where(low > 0, 1, -1))) if len(places) else 0.0)
        found.append(float(np.isin(clear, places).mean()))
        held += holds(low, truth, high)
    setting = f"epsilon {float(privacy.epsilon):g}, {sampling}, changes"
    shares = f"false {np.mean(false):.3f}  found {np.mean(found):.3f}  intervals {np.mean(held):.3f}"
    print(f"{setting:48} {shares}", flush=True)


def main() -> None:
    """Print all numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer weeks")
    quick = parser.parse_args().quick
    for privacy, sampling in SETTINGS:
        for single in (False, True):
            measure(privacy, sampling, single, weeks=20 if quick else 200, keys=3000)
        measure_changes(privacy, sampling, pairs=20 if quick else 200, keys=3000)


if __name__ == "__main__":
    main()

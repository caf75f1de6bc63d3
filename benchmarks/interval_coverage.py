"""How often the 95 % intervals of sums, numbers of keys, quantiles and top lists hold the truth, with the power to find
a small defect.

    python benchmarks/interval_coverage.py [--quick] [--only results|quantiles|top_lists] [--store]

For each scheme, population and question: the share of simulated releases in which the interval held, in all releases
and in those in which it was guaranteed. Tokens are drawn from their laws, without files. The last column is the
smallest defect that the counts rule out: if the true coverage were lower than 95 % by more than that, they would be as
large with probability 0.01 at most. `--store` writes the counts to tests/vectors/coverage.json, which
tests/estimators/test_calibrated.py pins; it must be stored anew whenever an estimate changes. `--only` measures one
part, and the others stay as stored: quantiles take about four minutes of one core, top lists one.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.stats import beta

from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.accounting.budget import Budget
from dpsample.answers.evidence import level_among
from dpsample.answers.selection import Rows
from dpsample.answers.token_order import TokenKeys
from dpsample.answers.token_quantiles import estimate_quantiles
from dpsample.answers.tokens import TokenView
from dpsample.estimators import Tally
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.cumulative import narrow_quantile_intervals
from dpsample.estimators.estimate import least_frequency
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme import default_grid, frequency_reaching, token_laws
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

SUMMARY = Path(__file__).parent.parent / "tests" / "vectors" / "coverage.json"
LEVEL = 0.95
FIRST = 20  # releases whose intervals are stored by themselves, for a test that draws them again
FIRST_LISTED = 5  # the same for quantiles and top lists, of which each release has many
QUANTILE_RELEASES = 700
TOP_RELEASES, LISTED = 120, 10
SHARES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)
Population = Callable[[int, np.random.Generator], Ints]


def even(start: int, generator: np.random.Generator) -> Ints:
    """Frequencies from the detection threshold to three times it."""
    return generator.integers(start, 3 * start, 1000)


def power_law(start: int, generator: np.random.Generator) -> Ints:
    """A power law from the detection threshold on."""
    return np.floor(start / generator.random(1000)).clip(max=50 * start).astype(np.int64)


def one_frequency(start: int, generator: np.random.Generator) -> Ints:
    """All keys a little above the detection threshold."""
    return np.full(1000, round(1.2 * start))


def at_threshold(start: int, generator: np.random.Generator) -> Ints:
    """All keys at the detection threshold."""
    return np.full(1000, start)


POPULATIONS = {"even": even, "power law": power_law, "one frequency": one_frequency, "at the threshold": at_threshold}


def around(start: int, generator: np.random.Generator) -> Ints:
    """Frequencies on both sides of 5,000, far beyond any table."""
    return generator.integers(4940, 5061, 1000)


def mostly_below(start: int, generator: np.random.Generator) -> Ints:
    """A power law with two thirds of its keys below the detection threshold."""
    return np.floor(start / 3 / generator.random(3000)).clip(1, 50 * start).astype(np.int64)


@dataclass(frozen=True)
class Setting:
    """A scheme, data, and the sums that are asked of it."""

    sampling: Sampling
    epsilon: str
    population: str
    frequencies: Population
    questions: tuple[str, ...] = ("frequency", "keys")
    releases: int = 6000
    bound: int | None = None  # the contribution bound

    @property
    def privacy(self) -> PerKey:
        """The privacy of one key."""
        return Budget(Privacy(self.epsilon, "1e-6"), self.bound).per_key

    @property
    def scheme(self) -> str:
        """The sampling, and the bound if there is one."""
        return str(self.sampling) + (f", {self.bound} keys" if self.bound else "")

    @property
    def threshold(self) -> int:
        """The detection threshold."""
        return frequency_reaching(0.5, self.sampling, self.privacy) or 0

    def simulated(self, releases: int) -> tuple[Ints, Iterator[Tally]]:
        """Return the frequencies of the keys, and tallies of simulated releases."""
        generator = np.random.default_rng(5)
        frequencies = self.frequencies(self.threshold, generator)
        return frequencies, draw_tallies(frequencies, self.sampling, self.privacy, releases, generator)


SCHEMES: list[tuple[Sampling, str]] = [(KeepAll(), "0.2"), (KeepAll(), "1"), (Priority("0.02"), "0.5")]


def settings() -> list[Setting]:
    """Return all settings."""
    plain = [Setting(*scheme, name, population) for scheme in SCHEMES for name, population in POPULATIONS.items()]
    bound = ("at-least:5000",)
    far = [Setting(s, "1", "around a far bound", around, bound, 1000) for s in (KeepAll(), Ppswor("0.001"))]
    below = []
    for sampling, epsilon in SCHEMES[1:]:
        privacy = Privacy(epsilon, "1e-6")
        least = (frequency_reaching(0.5, sampling, privacy) or 0) + round(2 / float(epsilon))
        below.append(Setting(sampling, epsilon, "mostly below", mostly_below, (f"at-least:{least}",)))
    for keys in (3, 30):
        least = least_frequency(Scheme(KeepAll(), Budget(Privacy(1, "1e-6"), keys).per_key), each_key_alike=True)
        question = (f"at-least:{least}",)
        below.append(Setting(KeepAll(), "1", "mostly below", mostly_below, question, bound=keys))
    return plain + far + below


def draw_tallies(
    frequencies: Ints, sampling: Sampling, privacy: PerKey, releases: int, generator: np.random.Generator
) -> Iterator[Tally]:
    """Yield tallies of simulated releases."""
    for cells in draw_tokens(frequencies, sampling, privacy, releases, generator):
        yield Tally.of(cells[cells > 0])


def draw_tokens(
    frequencies: Ints, sampling: Sampling, privacy: PerKey, releases: int, generator: np.random.Generator
) -> Iterator[Ints]:
    """Yield the tokens of simulated releases, in units of 1/grid, drawn from their laws by inversion; 0 is none."""
    distinct, owner = np.unique(frequencies, return_inverse=True)
    laws = list(token_laws(distinct, sampling, privacy, default_grid(privacy)))
    cells = np.concatenate([law.cells for law in laws])
    # all distribution functions in one ascending array: that of the n-th law lies between n and n + 1
    ascending = np.concatenate([n + np.minimum(np.cumsum(law.probabilities), 1.0) for n, law in enumerate(laws)])
    ends = np.cumsum([law.cells.size for law in laws])[owner]
    cells = np.append(cells, 0)
    for _ in range(releases):
        place = np.searchsorted(ascending, owner + generator.random(len(owner)), side="right")
        yield np.where(place < ends, cells[place], 0)


def is_guaranteed(estimate: SumEstimate) -> bool:
    """Whether a release would guarantee the interval."""
    return estimate.extrapolation_is_negligible and estimate.rests_on_enough_keys


def smallest_defect(covered: int, releases: int, level: float = LEVEL) -> float:
    """Return level - p for the largest p with P(Bin(releases, p) >= covered) <= 0.01 (Clopper and Pearson)."""
    return level - float(beta.ppf(0.01, covered, releases - covered + 1))


def measure(setting: Setting, releases: int, tuning: Tuning = TUNING) -> list[dict[str, Any]]:
    """Return the counts of a setting, for each question.

    `covered` counts releases whose interval of the sum above the calibration threshold held; `guaranteed` those in
    which it was guaranteed, and `guaranteed_covered` those of the latter in which it held. The last three are of the
    first releases: the means of both ends, and the number guaranteed.
    """
    frequencies, tallies = setting.simulated(releases)
    grid, questions = default_grid(setting.privacy), [Measure.of(of) for of in setting.questions]
    truths = [float(of(frequencies).sum()) for of in questions]
    held, guaranteed = np.zeros((2, len(questions), releases), bool)
    ends = np.zeros((2, len(questions), releases))
    for n, tally in enumerate(tallies):
        for k, of in enumerate(questions):
            estimate = estimate_sum(tally, Scheme(setting.sampling, setting.privacy, grid), of, tuning)
            low, high = ends[:, k, n] = estimate.interval_above(LEVEL)
            held[k, n], guaranteed[k, n] = low <= truths[k] <= high, is_guaranteed(estimate)
    return [
        {
            "scheme": setting.scheme,
            "epsilon": setting.epsilon,
            "population": setting.population,
            "question": of.name,
            "releases": releases,
            "covered": int(held[k].sum()),
            "guaranteed": int(guaranteed[k].sum()),
            "guaranteed_covered": int((held[k] & guaranteed[k]).sum()),
            "first_low": float(ends[0, k, :FIRST].mean()),
            "first_high": float(ends[1, k, :FIRST].mean()),
            "first_guaranteed": int(guaranteed[k, :FIRST].sum()),
        }
        for k, of in enumerate(questions)
    ]


def quantile_settings() -> list[Setting]:
    """Return the settings whose keys are all at the detection threshold or above it."""
    return [setting for setting in settings() if setting.population in POPULATIONS]


def measure_quantiles(setting: Setting, releases: int) -> list[dict[str, Any]]:
    """Return the counts of a setting, for each share and each interval of its quantile.

    `spectrum` and `narrowed` are the intervals if all keys are known to be at the threshold or above it; `answer` is
    that of a release, where they are not. The last two numbers are the means of both ends in the first releases.
    """
    frequencies, tallies = setting.simulated(releases)
    sampling, privacy, grid = setting.sampling, setting.privacy, default_grid(setting.privacy)
    least, shares = setting.threshold, np.array(SHARES)
    truth = np.sort(frequencies)[np.maximum(np.ceil(shares * len(frequencies)).astype(int) - 1, 0)]
    ends = np.zeros((3, releases, 2, len(shares)))
    for n, tally in enumerate(tallies):
        estimated = spectrum(tally, Scheme(sampling, privacy, grid))
        _, *wide = estimated.quantiles(shares, least, LEVEL)
        narrowed = narrow_quantile_intervals(
            tally, estimated.calibration, shares, least, LEVEL, 0.0, (wide[0], wide[1])
        )
        answer = estimate_quantiles(tally, Scheme(sampling, privacy, grid), shares, least, LEVEL)
        ends[:, n] = wide, narrowed, (answer.low, answer.high)
    held = (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])
    return [
        {
            "scheme": setting.scheme,
            "epsilon": setting.epsilon,
            "population": setting.population,
            "interval": interval,
            "share": share,
            "releases": releases,
            "covered": int(held[k, :, n].sum()),
            "first_low": float(ends[k, :FIRST_LISTED, 0, n].mean()),
            "first_high": float(ends[k, :FIRST_LISTED, 1, n].mean()),
        }
        for k, interval in enumerate(("spectrum", "narrowed", "answer"))
        for n, share in enumerate(SHARES)
    ]


def at_400(start: int, generator: np.random.Generator) -> Ints:
    """All keys far above the detection threshold."""
    return np.full(1000, 400)


def top_settings() -> list[Setting]:
    """Return settings whose keys are all as frequent, so that a top list is one by chance."""
    populations = {"at 400": at_400, "at the threshold": at_threshold}
    return [Setting(*scheme, name, population) for scheme in SCHEMES for name, population in populations.items()]


def measure_top_list(setting: Setting, releases: int) -> dict[str, Any]:
    """Return the counts of a setting: of the listed keys of all releases, those whose intervals hold their frequency.

    The last two numbers are the means of both ends in the first releases.
    """
    frequencies, tallies = setting.simulated(releases)
    truth, grid = int(frequencies[0]), default_grid(setting.privacy)
    ends = np.zeros((2, releases, LISTED))
    for n, tally in enumerate(tallies):
        rows = Rows(pa.table({"key": np.arange(tally.total)}), np.repeat(tally.cells, tally.keys))
        view = TokenView(rows, Scheme(setting.sampling, setting.privacy, grid))
        keys = TokenKeys(view, np.arange(tally.total))
        listed = keys.ordered()[:LISTED]
        rivals = keys.rivals(listed, LEVEL)
        _, *ends[:, n] = view.frequencies(listed, level_among(LEVEL, LISTED, rivals))
        assert rivals > 0.9 * tally.total
    return {
        "scheme": setting.scheme,
        "epsilon": setting.epsilon,
        "frequency": truth,
        "listed": releases * LISTED,
        "covered": int(((ends[0] <= truth) & (truth <= ends[1])).sum()),
        "first_low": float(ends[0, :FIRST_LISTED].mean()),
        "first_high": float(ends[1, :FIRST_LISTED].mean()),
    }


def main() -> None:
    """Print one line for each setting and question, or interval of quantiles; store the counts if asked to."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="200 releases")
    options.add_argument("--only", choices=PARTS, help="one part; the counts of the others stay as stored")
    options.add_argument("--store", action="store_true", help="write tests/vectors/coverage.json")
    arguments = options.parse_args()
    summary = {"tuning": json.loads(json.dumps(asdict(TUNING))), "level": LEVEL, "first": FIRST}
    stored = json.loads(SUMMARY.read_text(encoding="utf-8")) if arguments.only and arguments.store else summary
    if any(stored[name] != value for name, value in summary.items()):
        options.error("the stored counts are of another tuning; run without --only")
    for part, measured in PARTS.items():
        summary[part] = measured(arguments.quick) if arguments.only in (None, part) else stored.get(part)
    if arguments.store:
        SUMMARY.parent.mkdir(exist_ok=True)
        SUMMARY.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


def sums(quick: bool) -> list[dict[str, Any]]:
    """Measure and print sums and numbers of keys."""
    print(f"{'scheme':22} {'eps':>4} {'population':20} {'question':15} {'covered':>8} {'guaranteed':>18} {'defect':>7}")
    results = []
    every = settings()
    releases = [200 if quick else setting.releases for setting in every]
    with ProcessPoolExecutor() as pool:
        for counts in chain.from_iterable(pool.map(measure, every, releases)):
            results.append(counts)
            n, guaranteed = counts["releases"], counts["guaranteed"]
            among = f"{counts['guaranteed_covered'] / guaranteed:.2%} of {guaranteed / n:.0%}" if guaranteed else "none"
            print(
                f"{counts['scheme']:22} {counts['epsilon']:>4} {counts['population']:20} {counts['question']:15} "
                f"{counts['covered'] / n:8.2%} {among:>18} {smallest_defect(counts['covered'], n):7.2%}",
                flush=True,
            )
    return results


def quantiles(quick: bool) -> list[dict[str, Any]]:
    """Measure quantiles; print the share of each setting and interval that holds least often."""
    print(f"{'scheme':22} {'eps':>4} {'population':20} {'interval':10} {'least covered':>13} {'at':>5} {'defect':>7}")
    results = []
    every = quantile_settings()
    with ProcessPoolExecutor() as pool:
        for counts in pool.map(measure_quantiles, every, [50 if quick else QUANTILE_RELEASES] * len(every)):
            results += counts
            for first in range(0, len(counts), len(SHARES)):
                worst = min(counts[first : first + len(SHARES)], key=lambda count: count["covered"])
                covered, n = worst["covered"], worst["releases"]
                print(
                    f"{worst['scheme']:22} {worst['epsilon']:>4} {worst['population']:20} {worst['interval']:10} "
                    f"{covered / n:13.2%} {worst['share']:5} {smallest_defect(covered, n):7.2%}",
                    flush=True,
                )
    return results


def top_lists(quick: bool) -> list[dict[str, Any]]:
    """Measure and print top lists."""
    print(f"{'scheme':22} {'eps':>4} {'frequency':>9} {'covered':>8} {'defect':>7}")
    results = []
    every = top_settings()
    with ProcessPoolExecutor() as pool:
        for counts in pool.map(measure_top_list, every, [20 if quick else TOP_RELEASES] * len(every)):
            results.append(counts)
            covered, n = counts["covered"], counts["listed"]
            print(
                f"{counts['scheme']:22} {counts['epsilon']:>4} {counts['frequency']:9} {covered / n:8.2%} "
                f"{smallest_defect(covered, n):7.2%}",
                flush=True,
            )
    return results


PARTS = {"results": sums, "quantiles": quantiles, "top_lists": top_lists}


if __name__ == "__main__":
    main()

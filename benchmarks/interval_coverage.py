"""How often the 95 % intervals of sums and numbers of keys hold the truth, with the power to find a small defect.

    python benchmarks/interval_coverage.py [--quick] [--store]

For each scheme, population and question: the share of simulated releases in which the interval held, in all releases
and in those in which it was guaranteed. Tokens are drawn from their laws, without files. The last column is the
smallest defect that the counts rule out: if the true coverage were lower than 95 % by more than that, they would be as
large with probability 0.01 at most. `--store` writes the counts to tests/vectors/coverage.json, which
tests/test_calibrated.py pins; it must be stored anew whenever an estimate changes.
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
from scipy.stats import beta

from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.estimators import Tally
from dpsample.estimators.calibrated import estimate_sum
from dpsample.estimators.intervals import SumEstimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.scheme import default_grid, frequency_reaching, token_laws
from dpsample.scheme.sampling import Ints

SUMMARY = Path(__file__).parent.parent / "tests" / "vectors" / "coverage.json"
LEVEL = 0.95
FIRST = 20  # releases whose intervals are stored by themselves, for a test that draws them again
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

    @property
    def privacy(self) -> Privacy:
        """The privacy of one key."""
        return Privacy(self.epsilon, "1e-6")

    @property
    def threshold(self) -> int:
        """The detection threshold."""
        return frequency_reaching(0.5, self.sampling, self.privacy) or 0

    def simulated(self, releases: int) -> tuple[Ints, Iterator[Tally]]:
        """Return the frequencies of the keys, and tallies of simulated releases."""
        generator = np.random.default_rng(5)
        frequencies = self.frequencies(self.threshold, generator)
        return frequencies, draw_tallies(frequencies, self.sampling, self.privacy, releases, generator)


def settings() -> list[Setting]:
    """Return all settings."""
    schemes: list[tuple[Sampling, str]] = [(KeepAll(), "0.2"), (KeepAll(), "1"), (Priority("0.02"), "0.5")]
    plain = [Setting(*scheme, name, population) for scheme in schemes for name, population in POPULATIONS.items()]
    bound = ("at-least:5000",)
    far = [Setting(s, "1", "around a far bound", around, bound, 1000) for s in (KeepAll(), Ppswor("0.001"))]
    below = []
    for sampling, epsilon in schemes[1:]:
        privacy = Privacy(epsilon, "1e-6")
        least = (frequency_reaching(0.5, sampling, privacy) or 0) + round(2 / float(epsilon))
        below.append(Setting(sampling, epsilon, "mostly below", mostly_below, (f"at-least:{least}",)))
    return plain + far + below


def draw_tallies(
    frequencies: Ints, sampling: Sampling, privacy: Privacy, releases: int, generator: np.random.Generator
) -> Iterator[Tally]:
    """Yield tallies of simulated releases: the token of each key is drawn from its law, by inversion."""
    distinct, owner = np.unique(frequencies, return_inverse=True)
    laws = list(token_laws(distinct, sampling, privacy, default_grid(privacy)))
    cells = np.concatenate([law.cells for law in laws])
    # all distribution functions in one ascending array: that of the n-th law lies between n and n + 1
    ascending = np.concatenate([n + np.minimum(np.cumsum(law.probabilities), 1.0) for n, law in enumerate(laws)])
    ends = np.cumsum([law.cells.size for law in laws])[owner]
    for _ in range(releases):
        place = np.searchsorted(ascending, owner + generator.random(len(owner)), side="right")
        yield Tally.of(cells[place[place < ends]])


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
            estimate = estimate_sum(tally, setting.sampling, setting.privacy, grid, of, tuning)
            low, high = ends[:, k, n] = estimate.interval_above(LEVEL)
            held[k, n], guaranteed[k, n] = low <= truths[k] <= high, is_guaranteed(estimate)
    return [
        {
            "scheme": str(setting.sampling),
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


def main() -> None:
    """Print one line for each setting and question; store the counts if asked to."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="200 releases")
    options.add_argument("--store", action="store_true", help="write tests/vectors/coverage.json")
    arguments = options.parse_args()
    print(f"{'scheme':22} {'eps':>4} {'population':20} {'question':15} {'covered':>8} {'guaranteed':>18} {'defect':>7}")
    results = []
    every = settings()
    releases = [200 if arguments.quick else setting.releases for setting in every]
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
    if arguments.store:
        summary = {"tuning": asdict(TUNING), "level": LEVEL, "first": FIRST, "results": results}
        SUMMARY.parent.mkdir(exist_ok=True)
        SUMMARY.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What half and double each tuned number do to errors and coverage: `dpsample.estimators.tuning.Tuning`.

    python benchmarks/tuning.py [--quick] [--only NAME] [--markdown]

Every variant answers the same simulated releases (common random numbers), so that differences are hardly noise.

sums        error: NRMSE of sums and numbers of keys over that of the default, geometric mean over settings, and the
            farthest from 1 (errors below 0.001 count as 0.001); coverage: of their 95 % intervals, in percent, in all
            releases and where guaranteed, and how often they were guaranteed.
quantiles   error: mean width of the intervals of quantiles over that of the default; coverage likewise.
answers     error: mean width of the intervals of sums and numbers of keys from the least frequency on, where most keys
            are below it (shapes of `answer_coverage.py`), over that of the default; coverage likewise.
bounded     the same for users with a contribution bound.
predictions error: predicted NRMSE over that of the default, geometric mean and the farthest from 1.

Shares close to 1 and multiples of 1 are halved and doubled in their distance from 1. Standard errors of a coverage are
about 0.7 percentage points (1.3 with --quick); differences between two lines are more exact.
"""

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from dpsample import KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.answers.token_quantiles import estimate_quantiles
from dpsample.estimators.calibrated import estimate_sum, estimate_sums
from dpsample.estimators.estimate import least_frequency
from dpsample.estimators.measures import Measure
from dpsample.estimators.tuning import TUNING, Tuning
from dpsample.planning.errors import predicted, prediction_table
from dpsample.planning.moments import value_moments
from dpsample.scheme import default_grid
from dpsample.scheme.sampling import Ints
from dpsample.scheme.scheme import Scheme

sibling, shaped = import_module("interval_coverage"), import_module("answer_coverage")  # of this folder

FROM_ONE = {"settled_share", "kernel_centres", "kernel_density_ratios"}  # scaled in their distance from 1
QUANTILES = [field.name for field in fields(Tuning) if field.name.startswith(("posterior_", "noise_", "single_key"))]
QUANTILES += ["rounding_keys", "least_noise_deviations", "threshold_noise_deviations", "least_cumulative_keys"]
QUANTILES += ["cumulative_variance_floor", "least_quantile_keys"]
PREDICTIONS = [field.name for field in fields(Tuning) if field.name.startswith(("quick_", "quadrature_", "mle_"))]
PREDICTIONS += ["longest_exact_support"]
ANSWERS = ["least_margin", "least_margin_scale"]
BOUNDED = [field.name for field in fields(Tuning) if field.name.startswith(("balanced_", "unbalanced_"))]
BOUNDED += ["least_margin_of_noise"]
RANKS = ["ranking_margin"]  # questions.ranking takes it from TUNING: a larger one costs time and changes no answer
LEVEL = 0.95
LEAST_ERROR = 1e-3  # relative; where nearly all keys are reported, ratios of smaller errors mean nothing


def few(start: int, generator: np.random.Generator) -> Ints:
    """As `even`, but 12 keys."""
    return generator.integers(start, 3 * start, 12)


def far_above(start: int, generator: np.random.Generator) -> Ints:
    """50 keys well above the detection threshold, so that only their number is in the way of a guarantee."""
    return generator.integers(3 * start, 6 * start, 50)


def from_one_on(start: int, generator: np.random.Generator) -> Ints:
    """As many keys of each frequency, from 1 on, as in the paper."""
    return generator.integers(1, 4 * start, 3000)


def sum_settings() -> list[Any]:
    """Return settings for sums: the first ones have all keys above the detection threshold."""
    setting, sampled = sibling.Setting, Priority("0.02")
    return [
        setting(KeepAll(), "1", "even", sibling.even),
        setting(KeepAll(), "1", "few", few),
        setting(KeepAll(), "1", "far above", far_above),
        setting(sampled, "0.5", "power law", sibling.power_law),
        setting(sampled, "0.5", "at the threshold", sibling.at_threshold),
        setting(KeepAll(), "1", "mostly below", sibling.mostly_below, ("frequency", "keys", "at-least:14")),
        setting(sampled, "0.5", "from 1 on", from_one_on, ("frequency", "keys", "at-least:24")),
    ]


@dataclass(frozen=True)
class Outcome:
    """Errors by setting, and for each interval of which coverage is claimed: whether it held, and was guaranteed."""

    errors: tuple[float, ...]
    held: tuple[bool, ...] = ()
    guaranteed: tuple[bool, ...] = ()


def sums(tuning: Tuning, releases: int) -> Outcome:
    """Return NRMSEs of sums; and coverage where all keys are above the detection threshold, or those are counted."""
    errors: list[float] = []
    held: list[bool] = []
    guaranteed: list[bool] = []
    for setting in sum_settings():
        frequencies, tallies = setting.simulated(releases)
        grid, questions = default_grid(setting.privacy), [Measure.of(of) for of in setting.questions]
        truths = [float(of(frequencies).sum()) for of in questions]
        off: list[list[float]] = [[] for _ in questions]
        for tally in tallies:
            for k, of in enumerate(questions):
                estimate = estimate_sum(tally, Scheme(setting.sampling, setting.privacy, grid), of, tuning)
                off[k].append(estimate.value - truths[k])
                if frequencies.min() >= setting.threshold or of.kink is not None:
                    low, high = estimate.interval(LEVEL)
                    held.append(bool(low <= truths[k] <= high))
                    guaranteed.append(sibling.is_guaranteed(estimate))
        errors += [math.sqrt(float(np.mean(np.square(part)))) / truth for part, truth in zip(off, truths, strict=True)]
    return Outcome(tuple(errors), tuple(held), tuple(guaranteed))


def quantiles(tuning: Tuning, releases: int) -> Outcome:
    """Return widths of intervals of quantiles, and their coverage."""
    shares = np.array([0.1, 0.5, 0.9])
    widths: list[float] = []
    held: list[bool] = []
    guaranteed: list[bool] = []
    for setting in sum_settings()[:5]:
        frequencies, tallies = setting.simulated(max(releases // 5, 1))
        truth = np.sort(frequencies)[np.ceil(shares * len(frequencies)).astype(int) - 1]
        terms = setting.sampling, setting.privacy, default_grid(setting.privacy)
        total = np.zeros(len(shares))
        for tally in tallies:
            estimates = estimate_quantiles(tally, Scheme(*terms), shares, setting.threshold, LEVEL, tuning=tuning)
            total += estimates.high - estimates.low + 1
            held += ((estimates.low <= truth) & (truth <= estimates.high)).tolist()
            guaranteed += [estimates.guaranteed] * len(shares)
        widths += total.tolist()
    return Outcome(tuple(widths), tuple(held), tuple(guaranteed))


def answers(tuning: Tuning, releases: int, bounded: bool = False) -> Outcome:
    """Return widths of intervals of sums and numbers of keys from the least frequency on, and their coverage."""
    widths: list[float] = []
    held: list[bool] = []
    guaranteed: list[bool] = []
    for terms, shapes in shaped.cases(bounded=bounded):
        sampling, privacy = terms.sampling, terms.per_key
        for frequencies in shapes.values():
            generator = np.random.default_rng(5)
            tallies = list(sibling.draw_tallies(frequencies, sampling, privacy, releases, generator))
            for of in ("frequency", "keys"):
                least = least_frequency(Scheme(sampling, privacy), of == "keys", tuning)
                measure = Measure.of(of).from_frequency(least)
                truth = float(measure(frequencies).sum())
                found = estimate_sums(
                    tallies, Scheme(sampling, privacy, terms.grid), measure, tuning, shaped.typical(tallies)
                )
                ends = [estimate.interval(LEVEL) for estimate in found]
                widths.append(float(np.mean([high - low for low, high in ends])))
                held += [low <= truth <= high for low, high in ends]
                guaranteed += [estimate.extrapolation_is_negligible for estimate in found]
    return Outcome(tuple(widths), tuple(held), tuple(guaranteed))


def bounded(tuning: Tuning, releases: int) -> Outcome:
    """Return the same with a contribution bound."""
    return answers(tuning, releases, bounded=True)


def predictions(tuning: Tuning, releases: int) -> Outcome:
    """Return predicted NRMSEs: by quick tables, and by mle for an epsilon that is too small."""
    i, keys = np.arange(1, 401), np.full(400, 50.0)
    errors = []
    schemes: list[Sampling] = [KeepAll(), Ppswor("0.003")]
    for sampling in schemes:
        for epsilon, quick in (("0.1", True), ("1", True), ("1", False), ("0.004", True)):
            prediction_table.cache_clear()
            value_moments.cache_clear()
            accuracy, _ = predicted(i, keys, sampling, Privacy(epsilon, "1e-7"), 0.1, quick, tuning)
            errors.append(accuracy.nrmse)
    return Outcome(tuple(errors))


def scaled(name: str, factor: float) -> Tuning:
    """Return the tuning with one number halved or doubled."""
    value = getattr(TUNING, name)
    if name in FROM_ONE:
        parts = [1 + factor * (part - 1) for part in (value if isinstance(value, tuple) else (value,))]
        changed: Any = tuple(parts) if isinstance(value, tuple) else parts[0]
    else:
        parts = [factor * part for part in (value if isinstance(value, tuple) else (value,))]
        changed = tuple(parts) if isinstance(value, tuple) else parts[0]
        changed = max(1, round(changed)) if isinstance(value, int) else changed
    return replace(TUNING, **{name: changed})


def outcome(name: str, factor: float, releases: int) -> Outcome:
    """Measure a variant by what the number matters to."""
    return kind_of(name)(scaled(name, factor), releases)


def kind_of(name: str) -> Callable[[Tuning, int], Outcome]:
    """Return what a number matters to."""
    kinds = {quantiles: QUANTILES, answers: ANSWERS, bounded: BOUNDED, predictions: PREDICTIONS}
    return next((kind for kind, names in kinds.items() if name in names), sums)


def described(changed: Outcome, default: Outcome) -> tuple[str, ...]:
    """Return a variant's columns: error, farthest error, coverage, coverage where guaranteed, share guaranteed."""
    logs = np.diff([np.log(np.maximum(o.errors, LEAST_ERROR)) for o in (default, changed)], axis=0)[0]
    farthest = logs[np.argmax(np.abs(logs))]
    columns = [f"{math.exp(logs.mean()):.3f}", f"{math.exp(farthest):.2f}"]
    if not changed.held:
        return (*columns, "", "", "")
    held, guaranteed = np.array(changed.held), np.array(changed.guaranteed)
    among = f"{100 * held[guaranteed].mean():.1f}" if guaranteed.any() else "none"
    return (*columns, f"{100 * held.mean():.1f}", among, f"{100 * guaranteed.mean():.0f}")


def main() -> None:
    """Print two lines for each tuned number."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="30 releases of each setting instead of 100")
    options.add_argument("--only", nargs="+", help="some numbers")
    options.add_argument("--markdown", action="store_true", help="as the table of benchmarks/results/tuning.md")
    arguments = options.parse_args()
    releases = 30 if arguments.quick else 100
    names = [field.name for field in fields(Tuning) if field.name not in RANKS]
    names = [name for name in names if arguments.only is None or name in arguments.only]
    row = "| `{}` | {} | {} | {} | {} | {} | {} | {} |" if arguments.markdown else "{:27} {:>18} {:>6}" + " {:>9}" * 5
    heads = ("number", "value", "factor", "error", "farthest", "covered", "guar.cov.", "guar.")
    print(row.format(*heads))
    if arguments.markdown:
        print("| --- |" + " --: |" * 7)
    with ProcessPoolExecutor() as pool:
        variants = [(name, factor) for name in names for factor in (0.5, 2.0)]
        changed = pool.map(partial(outcome, releases=releases), *zip(*variants, strict=True))
        kinds = dict.fromkeys(kind_of(name) for name in names)
        defaults = {measured: measured(TUNING, releases) for measured in kinds}
        for measured, default in defaults.items():
            print(row.format(measured.__name__, "as they are", "", *described(default, default)), flush=True)
        for (name, factor), variant in zip(variants, changed, strict=True):
            columns = described(variant, defaults[kind_of(name)])
            print(
                row.format(name, str(getattr(TUNING, name)), "half" if factor < 1 else "double", *columns), flush=True
            )


if __name__ == "__main__":
    main()

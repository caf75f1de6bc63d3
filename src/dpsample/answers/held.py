"""Questions to a release of a stream. `tokens` has the same names, and answers them.

What a stream did not count of a key is about 1/s elements, so that nothing is lost if frequencies are looked at in
steps of 1/64 of that: tokens, rounded up to such steps, have laws of the same kind (`scheme.held.HeldLaw`), and the
other estimators answer from these. Frequencies of single keys are those of the release's table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.estimators.estimate import Estimate, Estimator, check_estimator
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import blurred_note
from dpsample.privacy import Privacy
from dpsample.answers import tokens
from dpsample.answers.arguments import check_frequency
from dpsample.answers.token_order import RARE
from dpsample.answers.estimates import Estimates
from dpsample.answers.selection import By, Of, Selection, Weight, Where
from dpsample.answers.token_sums import about_named_keys
from dpsample.release.rows import token_cells
from dpsample.release.terms import Terms
from dpsample.scheme.held import HeldLaw
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints, KeepAll

if TYPE_CHECKING:
    from dpsample.answers.release import Release

SPREAD = "a stream spreads frequencies by what it did not count: these intervals are not guaranteed"

other, unreported_key = tokens.other, tokens.unreported_key


class _TermsInSteps(Terms):
    """The terms of a release whose frequencies are numbers of steps."""

    @property
    def detection_threshold(self) -> int | None:
        return frequency_reaching(0.5, KeepAll(), _law(self))  # type: ignore[arg-type] # it has what is used


def _law(terms: Terms) -> HeldLaw:
    assert isinstance(terms.sampling, SampleAndHold)
    assert isinstance(terms.per_key, Privacy)
    return HeldLaw.of(terms.sampling, terms.per_key)


@dataclass(frozen=True, eq=False)
class _InSteps:
    """A release whose frequencies are numbers of steps: what questions see of it. Rows may be in another order."""

    release: "Release"
    order: Ints
    grid: int = 1
    keys_only: bool = False
    total: None = None

    @cached_property
    def per_key(self) -> HeldLaw:
        return _law(self.release.terms)

    @property
    def step(self) -> int:
        return self.per_key.every

    @property
    def sampling(self) -> KeepAll:
        return KeepAll()

    @property
    def keys(self) -> tuple[str, ...]:
        return self.release.keys

    @cached_property
    def terms(self) -> "_TermsInSteps":
        terms = self.release.terms
        return _TermsInSteps(**{field.name: getattr(terms, field.name) for field in fields(terms)})

    @cached_property
    def cells(self) -> Ints:
        """The tokens themselves."""
        return token_cells(self.release.table["token"], 1)[self.order]

    @cached_property
    def table(self) -> pa.Table:
        keys = self.release.table.select(list(self.keys)).take(pa.array(self.order))
        return keys.append_column("token", pa.array(-(-self.cells // self.step) * 1.0))

    def __len__(self) -> int:
        return len(self.order)

    def steps(self, at_least: int | None) -> int | None:
        """A least frequency in steps."""
        return None if at_least is None else -(-check_frequency(at_least) // self.step)

    def in_elements(self, answer: Any) -> Any:
        """An answer whose thresholds are numbers of elements."""
        least = answer.at_least
        notes = tuple(
            blurred_note(least * self.step) if least and n == blurred_note(least) else n for n in answer.notes
        )
        threshold = self.release.terms.detection_threshold
        at_least = None if least is None else least * self.step
        return replace(answer, detection_threshold=threshold, at_least=at_least, notes=notes)

    def frequencies(self, rows: Ints, level: float) -> tuple[Floats, Floats, Floats]:
        """The frequencies of keys, as in the release's table, and their intervals, in steps that need not be whole."""
        value, low, high = (number / self.step for number in self.in_whole_elements(rows, level))
        return value, low, high

    def in_whole_elements(self, rows: Ints, level: float) -> tuple[Ints, Ints, Ints]:
        """The same, in elements."""
        return likely_frequencies(self.cells[rows], self.release.sampling, self.release.per_key, 1, level)


def _in_steps(release: "Release", by_token: bool = False) -> Any:
    places = np.arange(len(release))
    order = np.argsort(-token_cells(release.table["token"], 1), kind="stable") if by_token else places
    return _InSteps(release, order)


def total(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
    extrapolate: bool = False,
) -> Any:
    """Estimate a sum over the selected keys: `sums.total`."""
    options = {"where": where, "weight": weight, "by": by, "estimator": estimator, "level": level}
    options |= {"attributes": attributes, "extrapolate": extrapolate}
    by_token = estimator == "mle" or callable(estimator)
    if release.keys_only or by_token or _named(release, where, weight, by, attributes, at_least, estimator):
        return tokens.total(release, of=of, at_least=at_least, **options)  # type: ignore[arg-type]
    view = _in_steps(release)
    of = Measure.of(of).at_every(view.step)
    return view.in_elements(tokens.total(view, of=of, at_least=view.steps(at_least), **options))  # type: ignore[arg-type]


def count_keys(release: "Release", at_least: int | None = None, **options: Any) -> Any:
    """Estimate a number of keys: `sums.count_keys`."""
    return total(release, of="keys", at_least=at_least, **options)


def mean(
    release: "Release",
    where: Where = None,
    weight: Weight = None,
    of: Of = "frequency",
    by: By = None,
    estimator: Estimator | None = None,
    level: float = 0.95,
    attributes: Any = None,
    at_least: int | None = None,
) -> Any:
    """Estimate a mean over the selected keys: `sums.mean`."""
    if release.keys_only or _named(release, where, weight, by, attributes, at_least, estimator):
        return tokens.mean(release, where, weight, of, by, estimator, level, attributes, at_least)
    view = _in_steps(release)
    of = Measure.of(of).at_every(view.step)
    answer = tokens.mean(view, where, weight, of, by, estimator, level, attributes, view.steps(at_least))
    return view.in_elements(answer)


def quantiles(
    release: "Release", shares: Sequence[float], where: Where = None, at_least: int | None = None, **options: Any
) -> Estimates:
    """Estimate quantiles of the frequencies: `quantiles.quantiles`.

    Their intervals are not guaranteed. What a stream did not count spreads frequencies by about 1/s, and medians of
    data that are denser than that at the least frequency were missed in half of the measured cases.
    """
    if release.keys_only:
        return tokens.quantiles(release, shares, where, **options)
    view = _in_steps(release)
    answer = view.in_elements(tokens.quantiles(view, shares, where, at_least=view.steps(at_least), **options))
    step = view.step
    columns = {name: answer.numbers[name].to_numpy() for name in ("value", "standard_error", "low", "high")}
    columns["low"] = np.maximum(columns["low"] - 1, 0) * step + 1
    scaled = {name: column if name == "low" else column * step for name, column in columns.items()}
    unsure = pa.array(np.zeros(len(answer), bool))
    numbers = answer.numbers.set_column(answer.numbers.column_names.index("guaranteed"), "guaranteed", unsure)
    return replace(_replaced(replace(answer, numbers=numbers), scaled), notes=(SPREAD,))


def each_key(release: "Release", *arguments: Any, level: float = 0.95, **options: Any) -> Estimates:
    """Estimate the frequency of each selected key that was reported: `ranking.each_key`."""
    return _listed(release, tokens.each_key, False, *arguments, level=level, **options)


def top(release: "Release", *arguments: Any, level: float = 0.95, **options: Any) -> Estimates:
    """List the k keys with the largest estimates: `ranking.top`."""
    return _listed(release, tokens.top, True, *arguments, level=level, **options)


def rank(release: "Release", key: Any, where: Where = None, level: float = 0.95, attributes: Any = None) -> Estimate:
    """Estimate a key's rank: `ranking.rank`. It is guaranteed if the key is surely above the detection threshold."""
    view: Any = release if release.keys_only else _in_steps(release)
    answer = tokens.rank(view, key, where, level, attributes)
    threshold = release.terms.detection_threshold
    below = any(threshold is None or single.low < threshold for _, single in each_key(release, [key], level=level))
    notes = (*answer.notes, RARE) if below and answer.guaranteed else answer.notes
    return replace(answer, detection_threshold=threshold, guaranteed=answer.guaranteed and not below, notes=notes)


def compare(release: "Release", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b: `ranking.compare`."""
    return tokens.compare(release if release.keys_only else _in_steps(release), a, b)


def _listed(
    release: "Release",
    question: Callable[..., Estimates],
    by_token: bool,
    *arguments: Any,
    level: float,
    **options: Any,
) -> Estimates:
    """The answer of a question that lists keys, with the frequencies of the release's table."""
    if release.keys_only:
        return question(release, *arguments, level=level, **options)
    view = _in_steps(release, by_token)
    answer: Estimates = view.in_elements(question(view, *arguments, level=level, **options))
    listed = list(zip(*(column.to_pylist() for column in answer.groups.columns), strict=True))
    rows = {key: n for n, key in enumerate(zip(*(view.table[name].to_pylist() for name in view.keys), strict=True))}
    value, low, high = view.in_whole_elements(np.array([rows[key] for key in listed], np.int64), level)
    error = answer.numbers["standard_error"].to_numpy() * view.step
    return _replaced(answer, {"value": value, "standard_error": error, "low": low, "high": high})


def _replaced(answer: Estimates, columns: dict[str, Ints | Floats]) -> Estimates:
    numbers = answer.numbers
    for name, column in columns.items():
        place = numbers.column_names.index(name)
        numbers = numbers.set_column(place, name, pa.array(column.astype(np.float64)))
    return replace(answer, numbers=numbers)


def _named(
    release: "Release",
    where: Where,
    weight: Weight,
    by: By,
    attributes: Any,
    at_least: int | None,
    estimator: Estimator | None,
) -> bool:
    """Whether a question names keys, each of which was reported: the answer is that of the release's table."""
    selection = Selection(release, where, weight, by, attributes)
    return about_named_keys(selection, selection.tallies()[1], at_least, check_estimator(estimator))

"""Several streams, and several releases with known keys: sums over all keys, and over keys that a question names.

Coverage is measured over 60 weeks whose tokens are drawn from their exact laws, with fixed seeds. With other seeds, an
interval that holds with probability 0.95 would hold in fewer than 45 of them with odds of 3e-8; one that holds with
probability 0.6 is found with probability 0.99.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from dpsample import KeepAll, Ppswor, Privacy, Release, SampleAndHold, Sampling, combine
from dpsample.accounting.known import Known, added_to_known
from dpsample.answers.several import Combined
from dpsample.answers.several_coordinated import SeveralCoordinated
from dpsample.answers.several_held import SeveralHeld
from dpsample.answers.several_known import SeveralKnown
from dpsample.release.key_hash import first_frequencies
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import token_law
from kinds import KEY, kinds
from stated_terms import stated_terms

PRIVACY = Privacy(1, "1e-6")
WEEKS, DAYS, ENOUGH = 60, 2, 45
STREAM = SampleAndHold("0.1")
NAMES = np.array([f"k{n:03d}" for n in range(120)])


@cache
def law_of(frequency: int, sampling: Sampling, grid: int) -> tuple[Ints, Floats]:
    """The tokens of a frequency, in units of 1/grid, 0 for none, and their probabilities."""
    law = token_law(frequency, sampling, PRIVACY, grid)
    probabilities = np.append(law.not_reported, law.probabilities)
    return np.append(0, law.cells), probabilities / probabilities.sum()


def drawn(frequencies: Ints, sampling: Sampling, grid: int, generator: np.random.Generator) -> Ints:
    """Draw the tokens of keys from their laws; 0 is not reported."""
    tokens = np.zeros(len(frequencies), np.int64)
    for n in np.flatnonzero(frequencies).tolist():
        cells, p = law_of(int(frequencies[n]), sampling, grid)
        tokens[n] = generator.choice(cells, p=p)
    return tokens


def days(seed: int) -> Ints:
    """The frequencies of the keys of a week: [key, day]. A third of the keys is absent on each day."""
    mean = 3000.0 * np.arange(1, len(NAMES) + 1)[:, None] ** -1.0
    generator = np.random.default_rng(seed)
    frequencies = generator.poisson(np.repeat(mean, DAYS, axis=1))
    return np.asarray(frequencies * (generator.random(frequencies.shape) < 2 / 3), np.int64)


def stream_of(frequencies: Ints, generator: np.random.Generator) -> Release:
    tokens = drawn(frequencies, STREAM, 1, generator)
    seen = tokens > 0
    table = pa.table({"key": NAMES[seen], "token": tokens[seen].astype(float)})
    return Release(table, stated_terms(PRIVACY, STREAM, ("key",), grid=1))


def with_known_keys(frequencies: Ints, listed: int, generator: np.random.Generator) -> Release:
    """A release whose first keys are listed: elements are added to their frequencies, so that all are reported."""
    grid, added = 2, added_to_known(PRIVACY)
    is_listed = np.arange(len(frequencies)) < listed
    tokens = drawn(frequencies + added * is_listed, KeepAll(), grid, generator)
    seen = tokens > 0
    values = tokens / grid - added * is_listed
    table = pa.table({"key": NAMES[seen], "token": values[seen], "known": is_listed[seen]})
    known = Known(listed, False, added)
    return Release(table, stated_terms(PRIVACY, KeepAll(), ("key",), grid=grid, known=known))


def coordinated(frequencies: Ints, sampling: Sampling, generator: np.random.Generator) -> Release:
    """A sample whose keys a public hash chooses: each has the token of what it has from its first frequency on."""
    before = first_frequencies(pa.record_batch({"key": NAMES}), sampling) - 1
    tokens = drawn(np.maximum(frequencies - before, 0), KeepAll(), 2, generator)
    seen = tokens > 0
    table = pa.table({"key": NAMES[seen], "token": (tokens / 2 + before)[seen]})
    return Release(table, stated_terms(PRIVACY, sampling, ("key",), grid=2))


def from_frequency(frequencies: Ints, least: int) -> int:
    """What the keys of this frequency or more have, on each day by itself."""
    return int(frequencies[frequencies >= least].sum())


def test_sums_numbers_and_means_of_several_streams_are_about_all_keys() -> None:
    """The tokens of streams have the laws of the theory, so intervals hold as those of one stream do."""
    generator = np.random.default_rng(1)
    frequencies = days(0)
    held = {"sum": 0, "number": 0, "at least": 0, "mean": 0}
    for _ in range(WEEKS):
        week = combine(*(stream_of(day, generator) for day in frequencies.T))
        assert isinstance(week, Combined)
        assert isinstance(week.evidence, SeveralHeld)
        total = week.sum()
        assert total.guaranteed
        assert total.at_least is not None
        held["sum"] += total.low <= from_frequency(frequencies, total.at_least) <= total.high
        number = week.count_keys()
        assert number.at_least is not None
        held["number"] += number.low <= (frequencies >= number.at_least).any(1).sum() <= number.high
        frequent = week.sum(at_least=100)
        held["at least"] += frequent.low <= from_frequency(frequencies, 100) <= frequent.high
        mean = week.mean(at_least=100)
        keys = (frequencies >= 100).any(1).sum()
        held["mean"] += mean.low <= from_frequency(frequencies, 100) / keys <= mean.high
    assert min(held.values()) >= ENOUGH, held


def test_sums_over_listed_keys_and_others_are_complete() -> None:
    """Listed keys count whatever their frequency; others from the least frequency on."""
    generator = np.random.default_rng(3)
    frequencies, listed = days(4), 40
    others = frequencies[listed:]
    held = 0
    for _ in range(WEEKS):
        week = combine(*(with_known_keys(day, listed, generator) for day in frequencies.T))
        assert isinstance(week, Combined)
        assert isinstance(week.evidence, SeveralKnown)
        total = week.sum()
        assert total.guaranteed
        assert total.reported is not None
        assert not total.reported.others
        [note] = [note for note in total.notes if note.startswith("keys that are not known count from frequency")]
        least = int(note.split("frequency ")[1].split(" ")[0])
        held += total.low <= frequencies[:listed].sum() + from_frequency(others, least) <= total.high
    assert held >= ENOUGH


def test_sums_of_samples_of_one_seed_hold_over_seeds() -> None:
    """Their errors are nearly the same, so that adding them as independent ones would give too short an interval.

    That of independent errors of two days is too short by a factor of 1.4.
    """
    generator = np.random.default_rng(5)
    frequencies = np.maximum(days(6), 1)[:, :1] + np.arange(DAYS)
    held = 0
    for n in range(WEEKS):
        sampling = Ppswor("0.02", seed=f"week {n}")
        week = combine(*(coordinated(day, sampling, generator) for day in frequencies.T))
        assert isinstance(week, Combined)
        assert isinstance(week.evidence, SeveralCoordinated)
        total = week.sum()
        assert total.at_least is not None
        held += total.low <= from_frequency(frequencies, total.at_least) <= total.high
    assert held >= ENOUGH


@pytest.mark.parametrize("only", [True, False])
def test_a_listed_key_may_have_a_token_below_0(only: bool) -> None:
    """The noise of a known key is around its frequency, which may be 0."""
    known = Known(3, only, added_to_known(PRIVACY))
    terms = stated_terms(PRIVACY, KeepAll(), ("key",), grid=2, known=known)
    table = pa.table({"key": ["a", "b", "c"], "token": [30.0, -14.5, 0.0], "known": [True] * 3})
    later = table.set_column(1, "token", pa.array([31.0, -13.0, 1.0]))
    days = [Release(table, terms), Release(later, terms)]
    week = combine(*days)
    assert week.sum().value == pytest.approx(sum(day.sum().value for day in days))
    assert week["b"].low == 0


@pytest.mark.parametrize("name", ["stream", "known", "known and others", "counted", "coordinated"])
def test_a_key_that_a_question_names_is_all_that_it_is_about(name: str) -> None:
    week = kinds()[f"several, {name}"]
    named, listed = week.sum([KEY]), week.each_key([KEY])[KEY]
    assert named.reported is not None
    assert named.reported.others == "the same: the question names this key alone"
    assert (named.value, named.low, named.high) == (listed.value, listed.low, listed.high)
    assert not any("not reported" in note for note in named.notes)


def test_streams_of_different_steps_are_added_as_measured() -> None:
    """Their steps have different lengths, so that there is no number of steps over both."""
    one = kinds()["stream"]
    assert isinstance(one, Release)
    long = Release(one.table.select(["key", "token"]), stated_terms(PRIVACY, SampleAndHold("0.0001"), ("key",), grid=1))
    together = combine(one, long)
    assert "is not estimated" in repr(together.sum())

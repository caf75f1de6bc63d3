"""Sampling by a sequence or a function of one's own."""

import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsample import CustomSampling, KeepAll, Privacy
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme import reporting_probabilities
from strategies import decimals
from support import refused

# CustomSampling.


def test_a_sequence_is_exact() -> None:
    sampling = CustomSampling(["1/3", 0.5, "0.5", 1])
    assert sampling.q([0, 1, 2, 3, 4]).tolist() == [0, 1 / 3, 0.5, 0.5, 1]
    assert sampling.complement([0, 1, 4]).tolist() == [1, 2 / 3, 0]
    assert sampling.bounds(1, 10) == (341, 342)
    assert sampling.bounds(2, 10) == (512, 512)
    assert sampling.largest == 4


@settings(max_examples=30)
@given(st.lists(decimals("1e-20", "1"), min_size=1, max_size=20))
def test_a_sequence_rounds_toward_privacy(values: list[Fraction]) -> None:
    values.sort()
    sampling, i = CustomSampling(values), range(1, len(values) + 1)
    low = sampling.q(i, toward_privacy=True).tolist()
    high = sampling.complement(i, toward_privacy=True).tolist()
    for found, absent, q in zip(low, high, values, strict=True):
        assert q * (1 - Fraction(1, 2**50)) <= Fraction(found) <= q
        assert Fraction(absent) >= 1 - q
        assert Fraction(absent) <= (1 - q) * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("use", ["q", "complement", "bounds"])
def test_beyond_the_end_of_a_sequence_nothing_is_known(use: str) -> None:
    sampling = CustomSampling(["0.1", "0.2"])
    with refused("every frequency must be within the sequence of q", hidden=[41]):
        sampling.bounds(41, 64) if use == "bounds" else getattr(sampling, use)([1, 41])


@pytest.mark.parametrize(
    ("q", "rule"),
    [
        ([], "q must have at least one value"),
        (["0.5", "0.4"], "q must not decrease"),
        (["0.5", "0.5", "0.499999999999999999999"], "q must not decrease"),
        (["-0.1"], "q must lie in [0, 1]"),
        (["0.5", "1.000000000000000000001"], "q must lie in [0, 1]"),
        ([True], "q must be an int"),
        ([None], "q must be an int"),
        ([float("nan")], "q must be a finite number"),
        (5, "q must be"),
        (None, "q must be"),
    ],
    ids=repr,
)
def test_a_bad_sequence_is_refused(q: Any, rule: str) -> None:
    with refused(rule):
        CustomSampling(q)


def test_a_function_is_asked_once_for_each_frequency() -> None:
    asked: list[int] = []

    def half(i: int) -> str:
        asked.append(i)
        return "0.5"

    sampling = CustomSampling(half)
    assert sampling.q([[3, 5], [5, 0]]).tolist() == [[0.5, 0.5], [0.5, 0.0]]
    sampling.bounds(3, 64)
    assert sorted(asked) == [3, 5]
    assert all(type(i) is int for i in asked)
    assert sampling.largest == MAX_FREQUENCY


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (lambda i: "1.1", "q must lie in [0, 1]"),
        (lambda i: -0.1, "q must lie in [0, 1]"),
        (lambda i: "x", "q must be a number at every frequency"),
        (lambda i: None, "q must be a number at every frequency"),
        (lambda i: {}[i], "q must be a number at every frequency"),
        (lambda i: Fraction(1, i), "q must not decrease"),
    ],
)
def test_a_function_is_checked_on_every_frequency_that_is_used(function: Any, rule: str) -> None:
    with refused(rule):
        CustomSampling(function).q([2, 9, 4])
    with refused(rule):
        sampling = CustomSampling(function)
        sampling.bounds(2, 64)
        sampling.bounds(9, 64)


def test_a_function_must_not_decrease_from_one_call_to_the_next() -> None:
    sampling = CustomSampling(lambda i: "0.5" if i == 10 else "0.9" if i == 7 else "0.1")
    sampling.q([10])
    sampling.q([3])
    with refused("q must not decrease"):
        sampling.q([7])


@pytest.mark.parametrize("bad", ["2", "0.1"])
def test_a_refused_function_stays_refused(bad: str) -> None:
    sampling = CustomSampling(lambda i: bad if i == 5 else "0.5")
    sampling.q([3])
    with refused("q must"):
        sampling.q([5])
    with refused("q must"):
        sampling.q([5])


@pytest.mark.parametrize(
    "function",
    [
        lambda i: Fraction(i + 41, 41),
        lambda i: -i,
        lambda i: Fraction(1, i),
        lambda i: f"{i} is wrong",
        lambda i: {}[i],
        lambda i: [i],
    ],
)
def test_what_a_function_returns_or_raises_is_not_shown(function: Any) -> None:
    """It was called with a private frequency, and what it returns may be as good as that."""
    with refused("q must", hidden=[4177, 4178, 4241]) as refusal:
        CustomSampling(function).q([4177, 4241])
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


THRESHOLD = 1  # what `from_threshold` reads; a notebook's global


def from_threshold(i: int) -> int:
    return int(i >= THRESHOLD)


def test_what_a_function_returned_before_is_not_used_for_a_new_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """pi of a scheme in which all keys are kept must not serve one that keeps them from frequency 30 on."""
    privacy = Privacy(1, "1e-6")
    kept, first = CustomSampling(from_threshold), reporting_probabilities([29, 30], KeepAll(), privacy).tolist()
    assert reporting_probabilities([29, 30], kept, privacy).tolist() == pytest.approx(first)
    monkeypatch.setitem(globals(), "THRESHOLD", 30)
    changed = CustomSampling(from_threshold)
    assert changed != kept
    assert changed == changed
    assert reporting_probabilities([29, 30], changed, privacy).tolist() == pytest.approx([0, 1e-6])
    # the first one still is what it was, or refuses: it has seen a larger q below 30
    assert reporting_probabilities([29, 30], kept, privacy).tolist() == pytest.approx(first)
    monkeypatch.setitem(globals(), "THRESHOLD", 10**6)
    with refused("q must not decrease"):
        kept.q([20_000])  # beyond what was looked up, and called now


def test_a_copy_of_a_function_s_scheme_shares_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpickled where the function is another one, as on a worker that is used again, it has a pi of its own."""
    privacy = Privacy(1, "1e-6")
    sampling = CustomSampling(from_threshold)
    reporting_probabilities([30], sampling, privacy)
    sent = pickle.dumps(sampling)
    assert pickle.loads(sent) != pickle.loads(sent)
    monkeypatch.setitem(globals(), "THRESHOLD", 30)
    copy = pickle.loads(sent)
    assert copy not in (sampling, pickle.loads(sent))
    assert reporting_probabilities([29, 30], copy, privacy).tolist() == pytest.approx([0, 1e-6])
    # nor does it take along which frequencies there were
    sampling.q([4177])
    assert 4177 not in pickle.loads(pickle.dumps(sampling))._seen
    values = CustomSampling(["0.1", "0.2"])
    assert pickle.loads(pickle.dumps(values)) == values


def test_a_function_cannot_be_written() -> None:
    with refused("a scheme of a function cannot be written beside a sample"):
        CustomSampling(lambda i: 1).to_json()


def test_custom_schemes_are_values() -> None:
    assert CustomSampling([0.1, 1]) == CustomSampling(["0.1", 1.0])
    assert hash(CustomSampling([0.1, 1])) == hash(CustomSampling(["0.1", 1.0]))
    assert CustomSampling([0.1, 1]) != CustomSampling([0.1, 1, 1])
    assert "0.1" not in repr(CustomSampling([0.1, 1]))

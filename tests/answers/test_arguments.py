"""What questions are given is checked alike, by every question of every kind of release; and what they return is right.

A question may refuse a release altogether. It never answers with an argument that it cannot use.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from itertools import product
from typing import Any, get_args, get_type_hints

import pyarrow as pa
import pytest

from dpsample import InvalidValue, KeepAll, Ppswor, Release, combine
from dpsample.answers import coordinated
from dpsample.answers.answers import Answers
from dpsample.answers.changes import changes
from dpsample.answers.several import Combined
from kinds import KEY, PRIVACY, TOKENS, kinds, of_tokens
from stated_terms import stated_terms

KINDS = kinds()
ONE_ESTIMATOR = ["known", "known and others", "counted", "several", "several, counted", "several, mixed"]
QUESTIONS: dict[str, tuple[Any, ...]] = {  # with the arguments that they need
    "sum": (),
    "count_keys": (),
    "mean": (),
    "quantiles": (),
    "top": (3,),
    "each_key": (),
    "rank": (KEY,),
    "compare": (KEY, "a00"),
    "other": (),
    "ratio": ("rows",),
    "unreported": (),
}
BAD: dict[str, list[Any]] = {
    "level": [0, 1, -0.5, 2.0, 95, math.nan, math.inf, "0.95", True, None],
    "estimator": ["nonsense", "", 3, ["mle"], True],
    "at_least": [0, -3, 2.5, "20", math.nan, True, 1 << 70],
    "shares": [-0.1, 1.5, math.nan, "half", [0.5, 2], None],
    "k": [0, -1, 2.5, "10", True, None],
    "where": ["nonsense(", "no_such_column = 1", 3, {"a00": 1}, [object()]],
    "weight": ["nonsense(", 3, [1.0], {KEY: "x"}],
    "of": ["nonsense", 3, "capped:", "power:0", "at-least:x", None],
    "by": ["nonsense(", 3, ["key", "key"]],
    "attributes": [3, "missing.parquet"],
    "key": [3, ("a", "b"), object()],
    "a": [3, ("a", "b")],
    "b": [3, ("a", "b")],
    "per": ["nonsense", 3],
}


def takes(question: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(question).parameters
    options = get_type_hints(get_args(get_type_hints(question)["options"])[0]) if "options" in parameters else {}
    return [name for name in (*parameters, *options) if name in BAD]


def test_every_public_question_is_asked_below() -> None:
    for kind in (Answers, Combined):
        for name, item in vars(kind).items():
            if inspect.isfunction(item) and not name.startswith("_") and "level" in takes(item):
                assert name in QUESTIONS, name


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", list(QUESTIONS))
def test_bad_arguments_are_refused(kind: str, name: str) -> None:
    question = getattr(KINDS[kind], name, None)
    if question is None:  # only some have it
        return
    for argument in takes(question):
        for bad in BAD[argument]:
            given = dict(zip(inspect.signature(question).parameters, QUESTIONS[name], strict=False))
            with pytest.raises(InvalidValue) as refusal:
                question(**{**given, argument: bad})
            assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", list(KINDS))
def test_unknown_estimators_are_refused_by_name(kind: str) -> None:
    """Also where a release has one estimator, and would not look at the name."""
    for name in ("sum", "count_keys", "mean"):
        with pytest.raises(InvalidValue, match="estimator must be one of calibrated, mle, biased_down, unbiased"):
            getattr(KINDS[kind], name)(estimator="nonsense")


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("name", "keyword"), [("sum", "nonsense"), ("mean", "extrapolate"), ("count_keys", "of")])
def test_keywords_that_a_question_does_not_have_are_refused(kind: str, name: str, keyword: str) -> None:
    with pytest.raises(TypeError, match=keyword):
        getattr(KINDS[kind], name)(**{keyword: True})


@pytest.mark.parametrize("kind", ONE_ESTIMATOR)
def test_other_estimators_are_refused_where_there_is_one(kind: str) -> None:
    for estimator in ("mle", lambda tokens: tokens):
        with pytest.raises(InvalidValue, match="one estimator"):
            KINDS[kind].sum(estimator=estimator)
    assert KINDS[kind].sum(estimator="calibrated").value == KINDS[kind].sum().value


@pytest.mark.parametrize("question", [coordinated.difference, coordinated.in_both, changes])
def test_questions_to_two_releases_check_theirs(question: Callable[..., Any]) -> None:
    sampling = Ppswor("0.01", seed="public")
    two = [of_tokens([t + more for t in TOKENS], sampling=sampling) for more in (2000, 2001)]
    if question is changes:
        two = [of_tokens(), of_tokens([t + 1 for t in TOKENS])]
    question(*two)
    for argument in takes(question):
        for bad in BAD[argument]:
            with pytest.raises(InvalidValue):
                question(*two, **{argument: bad})


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_probability_is_one(kind: str) -> None:
    """Of pairs of rare, frequent and unreported keys, and of each key that may be among the first."""
    release = KINDS[kind]
    if "keys only" in kind:
        return
    keys = ["a01", KEY, "b15"] if kind.endswith("known") else ["a01", "b15", "neither"]
    for a, b in product(keys, keys):
        p = release.compare(a, b)
        assert isinstance(p, float)
        assert 0 <= p <= 1
        assert a != b or p == 0
    for k in (2, 100):
        probabilities = release.top(k).numbers["probability"].to_pylist()
        assert all(0 <= p <= 1 for p in probabilities)


def test_keys_that_are_far_apart_are_compared_with_certainty_and_no_more() -> None:
    """Sums of the probabilities of a law round to more than 1 in a third of such pairs."""
    names, tokens = ["k0", "k1", "k2", "k3"], [211.0625, 1000.5, 2089.9375, 3775.25]
    release = Release(pa.table({"key": names, "token": tokens}), stated_terms(PRIVACY, KeepAll(), ("key",), grid=16))
    pairs = [(names[b], names[a]) for a in range(4) for b in range(a + 1, 4)]
    computed = [release.evidence.probability_above(a, b) for a, b in pairs]  # before each is made a probability
    assert any(p > 1 for p in computed)
    assert all(0.999999 < release.compare(a, b) <= 1 for a, b in pairs)


def test_a_combined_release_is_checked_as_a_whole() -> None:
    with pytest.raises(InvalidValue):
        combine(KINDS["keys only"], KINDS["tokens"])  # type: ignore[arg-type]

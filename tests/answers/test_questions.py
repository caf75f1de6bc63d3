"""What questions refuse, and how answers are shown."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from brute_force import CELLS, GRID, PRIVACY, laws, release_of
from dpsample import CustomSampling, KeepAll, Privacy, Release
from dpsample.accounting.totals import Total
from dpsample.estimators.estimate import Below
from dpsample.estimators.spectrum import spectrum
from dpsample.estimators.tally import Tally
from dpsample.scheme.scheme import Scheme
from stated_terms import restated, stated_terms
from support import refused


@pytest.mark.parametrize(
    ("ask", "rule"),
    [
        (lambda r: r.sum(level=0), "level must"),
        (lambda r: r.sum(level=1), "level must"),
        (lambda r: r.sum(level=math.nan), "level must"),
        (lambda r: r.sum(level="0.9"), "level must"),
        (lambda r: r.sum(level=True), "level must"),
        (lambda r: r.sum(of="nothing"), "keys can be summed by"),
        (lambda r: r.sum(of=lambda i: -i), "never decrease"),
        (lambda r: r.sum(estimator="guess"), "estimator must"),
        (lambda r: r.sum("nothing = 1"), "where must be one SQL expression"),
        (lambda r: r.count_keys(at_least=0), "at_least"),
        (lambda r: r.count_keys(at_least=1.5), "at_least"),
        (lambda r: r.mean(at_least="3"), "at_least"),
        (lambda r: r.mean(level=2), "level must"),
        (lambda r: r.top(0), "k must"),
        (lambda r: r.top(-1), "k must"),
        (lambda r: r.top(2.0), "k must"),
        (lambda r: r.top(True), "k must"),
        (lambda r: r.top(1, level=5), "level must"),
        (lambda r: r.rank(3.5j), "the values of where must be of type"),
        (lambda r: r.rank("a", "key > 'a'"), "the key is not among"),
        (lambda r: r.rank("a", level=-1), "level must"),
        (lambda r: r.quantiles([1.5]), "shares of quantiles"),
        (lambda r: r.quantiles([math.nan]), "shares of quantiles"),
        (lambda r: r.quantiles("median"), "shares of quantiles"),
        (lambda r: r.quantiles([[0.5]]), "shares of quantiles"),
        (lambda r: r.quantiles([0.5], level=0), "level must"),
        (lambda r: r.sum(by="key")["nobody"], "the answer has no group"),
    ],
)
def test_what_is_refused(ask: Any, rule: str) -> None:
    with refused(rule):
        ask(release_of(CELLS))


def test_if_no_key_is_likely_to_be_seen() -> None:
    release = release_of({"a": 9}, CustomSampling(["0.2"] * 30))
    assert release.sum().detection_threshold is None
    with refused("no frequency in this release"):
        release.quantiles([0.5])
    assert not release.quantiles([0.5], at_least=3)[0.5].guaranteed


def test_answers_are_shown_without_commanding_a_terminal() -> None:
    release = release_of({"\x1b[31mred": 30, "<b>": 29, "value": 31})
    for answer in (release.top(3), release.sum(by="key")):
        assert "\x1b" not in repr(answer)
        assert "\\x1b" in repr(answer)
        assert "<b>" not in answer._repr_html_()
        assert "&lt;b&gt;" in answer._repr_html_()
    assert "95 %" in repr(release.sum())
    assert release.sum()._repr_html_().startswith("<p>")


def test_answers_as_tables() -> None:
    table = pa.table({"value": ["a", "b"], "token": [30.0, 40.0]})
    release = Release(table, stated_terms(PRIVACY, KeepAll(), ("value",), grid=GRID))
    answer = release.top(2)
    assert answer.to_arrow().column_names == ["value", "value_", "standard_error", "low", "high", "probability"]
    assert answer.to_pandas()["value"].tolist() == ["b", "a"]
    assert [key for key, _ in answer] == ["b", "a"]


def test_the_share_of_all_elements() -> None:
    plain = release_of(dict.fromkeys(range(50), 400))
    privacy, part = plain.privacy, Fraction(1, 20)
    terms = restated(
        plain.terms,
        total=Total(20_000, part * privacy.epsilon, Fraction(1)),
        per_key=Privacy((1 - part) * privacy.epsilon, privacy.delta),
    )
    release = Release(plain.table, terms)
    answer = release.sum("key < 10")
    assert answer.share == answer.value / 20_000
    assert "% of all elements" in repr(answer)
    assert release.sum("key < 10", weight="2").share is None
    assert release.count_keys().share is None
    assert plain.sum().share is None


def test_users_are_answered_by_the_privacy_of_each_key() -> None:
    """A release for users has tokens of a smaller epsilon than it promises: estimates must follow from that one."""
    plain = release_of(dict.fromkeys(range(50), 400))
    each, drawn = Privacy("0.1", "1e-4"), plain.table.select(["key", "token"])
    users = Release(drawn, restated(plain.terms, privacy=Privacy(1, "0.01"), per_key=each, max_keys=4))
    alone = Release(drawn, restated(plain.terms, privacy=each, per_key=each))
    assert users.table == alone.table != plain.table
    assert users.sum().value == alone.sum().value
    assert users.sum().standard_error == alone.sum().standard_error
    assert users.top(3).numbers["high"].to_pylist() == alone.top(3).numbers["high"].to_pylist()
    assert users.quantiles([0.5], at_least=1)[0.5].value == alone.quantiles([0.5], at_least=1)[0.5].value


def test_a_top_list_by_chance_says_so() -> None:
    same, apart = release_of({n: 200 + n % 7 for n in range(60)}), release_of({n: 200 + 100 * n for n in range(60)})
    assert "compete" in " ".join(same.top(5).notes)
    assert "compete" not in " ".join(apart.top(5).notes)


def test_one_key_has_one_interval() -> None:
    """Whatever is asked: the interval of its row in the table."""
    release = release_of(CELLS)
    for row in release.table.to_pylist():
        key = row["key"]
        wanted = row["estimate"], row["low"], row["high"]
        answers = [release[key], release.each_key()[key], release.top(5)[key], release.sum([key]), release.mean([key])]
        answers += [release.sum(f"key = '{key}'"), release.sum(by="key")[key]]
        for answer in answers:
            assert (answer.value, answer.low, answer.high) == wanted
            assert answer.guaranteed
    twice = release.sum("key = 'a'", weight="2")
    assert (twice.low, twice.high) == (2 * release["a"].low, 2 * release["a"].high)
    assert release.sum("key = 'a' OR true").at_least == release.sum("key LIKE 'a'").at_least == release.sum().at_least


def test_keys_of_a_release_and_those_that_are_not() -> None:
    """A key is unreported with probability 1 - pi: its bound is the last frequency at which that is above 5 %."""
    release = release_of(CELLS)
    assert list(release) == sorted(CELLS)
    assert "a" in release
    assert "nobody" not in release
    unreported = [1 - sum(row.values()) for row in laws(KeepAll())]
    most = max(i for i, p in enumerate(unreported) if p > 0.05)
    answer = release["nobody"]
    assert (answer.low, answer.high, answer.guaranteed) == (0, most, True)
    assert f"probably below {most + 1}" in repr(answer)
    rank = release.rank("nobody")
    assert rank.low >= 1
    assert rank.high == math.inf
    likely = np.array(unreported) / sum(unreported)
    for name, cell in CELLS.items():
        frequencies, p = (
            part[0] for part in spectrum(Tally.of([cell]), Scheme(KeepAll(), PRIVACY, GRID)).posterior([cell])
        )
        chance = sum(q * likely[:i].sum() for i, q in zip(frequencies.tolist(), p.tolist(), strict=True))
        assert release.compare(name, "nobody") == pytest.approx(chance, abs=1e-6)
    pairs = pa.table({"a": [1, 2], "b": ["x", "y"], "token": [30.0, 40.0]})
    two = Release(pairs, stated_terms(PRIVACY, KeepAll(), ("a", "b"), grid=GRID))
    assert list(two) == [(1, "x"), (2, "y")]
    assert (2, "y") in two
    assert (2, "x") not in two
    assert two.sum("a = 2 AND b = 'y'").low == two[2, "y"].low


def test_what_lies_below_is_apart() -> None:
    """Extrapolated, known by a total, or unknown."""
    plain = release_of({n: 10 + n % 30 for n in range(3000)})
    answer = plain.sum(extrapolate=True)
    assert answer.below is not None
    assert answer.below.kind == "extrapolated"
    assert math.isnan(answer.below.low)
    assert "if the density of keys continues (not guaranteed)" in repr(answer)
    assert plain.count_keys(at_least=30).guaranteed
    assert plain.sum(of="at-least:30").below is None  # rarer keys count 0
    assert plain.sum("false").below == Below()
    part = Fraction(1, 20)
    terms = restated(
        plain.terms,
        total=Total(200_000, part * plain.privacy.epsilon, Fraction(1)),
        per_key=Privacy((1 - part) * plain.privacy.epsilon, plain.privacy.delta),
    )
    release = Release(plain.table.select(["key", "token"]), terms)
    known, half = release.sum(), release.sum(level=0.975)
    ends = release.total.interval(0.975) if release.total else (0, 0)
    assert known.below == Below("known", 200_000 - known.value, ends[0] - half.high, ends[1] - half.low)
    selected = release.sum("key > 5").below
    assert selected is not None
    assert selected.kind == "unknown"


def test_an_own_estimator() -> None:
    release = release_of(CELLS)
    answer = release.sum(estimator=lambda tokens: tokens**2)
    assert answer.value == sum((cell / GRID) ** 2 for cell in CELLS.values())
    assert not answer.guaranteed
    assert "no interval" in repr(answer)
    assert release.sum(estimator="mle").at_least is None
    for wrong in (lambda tokens: tokens[:1], lambda tokens: tokens * math.nan):
        with refused("an estimator must return"):
            release.sum(estimator=wrong)


@pytest.mark.usefixtures("fixed_coins")
@pytest.mark.parametrize("epsilon", ["0.3", "1"])
def test_keys_of_one_frequency(epsilon: str) -> None:
    """All have it as each quantile, and are the first. The spread of their tokens is noise, not an order."""
    made = dpsample.release(dict.fromkeys(map(str, range(1500)), 300), privacy=Privacy(epsilon, "1e-6"))
    shares = made.quantiles([0.1, 0.25, 0.5, 0.75, 0.9]).numbers
    assert all(
        low <= 300 <= high for low, high in zip(*(shares[end].to_pylist() for end in ("low", "high")), strict=True)
    )
    assert shares["value"].to_pylist()[2] == 300
    ranks = [made.rank(key) for key in ("0", "700", "1499")]
    assert all(rank.guaranteed and rank.low == 1 for rank in ranks)


@pytest.mark.usefixtures("fixed_coins")
def test_the_number_of_keys_far_out() -> None:
    """One key is as frequent: its variance is rounding, which must not become the slope of another."""
    words = {f"rare {i}": 2000 // (i + 1) for i in range(300)} | {"self": 63_763}
    made = dpsample.release(words, privacy=Privacy(1, "1e-8"))
    for frequency in range(20_000, 60_000, 500):
        assert made.count_keys(at_least=frequency).high <= 3

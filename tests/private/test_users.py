"""Releases that protect users, of a chosen size, with totals: laws end to end, words, files, proofs."""

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dpsample
from dpsample import KeepAll, Ppswor, Priority, Privacy, PrivacyViolation, SampleSize, Source
from dpsample.accounting.budget import Budget
from dpsample.accounting.composition import per_key
from dpsample.accounting.dropped import Kept
from dpsample.accounting.many_keys import chosen_per_key
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.answers.release import Release
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.request import Request
from dpsample.private.run import release_to_file
from dpsample.release.proof import prove, prove_release
from dpsample.release.terms import Terms
from dpsample.scheme import reporting_probabilities, token_law
from stated_terms import restated, stated_terms
from strategies import decimals
from support import refused

pytestmark = pytest.mark.chance(
    "odds 5e-9: of 30 intervals of 90 % 16 or more miss; others state theirs, and are rarer"
)
PRIVACY = Privacy(1, 1e-10)


def tail(count: int, n: int, p: float) -> float:
    return float(min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)))


def people(keys: int, frequencies: tuple[int, ...]) -> pa.Table:
    """`keys` keys of each number of users; every row twice. Users are in one key each: numbers are exact at any k."""
    frequency = np.repeat(np.repeat(np.array(frequencies), keys), np.repeat(np.array(frequencies), keys))
    key = np.repeat(np.arange(keys * len(frequencies)), np.repeat(np.array(frequencies), keys))
    twice = np.tile(np.arange(len(key)), 2)
    return pa.table({"user": twice, "key": (key + frequency * 10**6)[twice]})


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.02), Priority(0.01)], ids=str)
def test_reports_follow_the_law_of_each_keys_share(sampling: Any) -> None:
    # each of n keys of i users is reported with token j with probability P_i(j) at (epsilon', delta') of one key:
    # counts are binomial; a count whose tail is below 1e-12 is refused, and there are about 1,000
    n, frequencies, privacy = 3000, (2, 9, 20, 45), Privacy(1, "1e-2")
    each = chosen_per_key(privacy, 3, isinstance(sampling, KeepAll))
    assert isinstance(each, Privacy) == (not isinstance(sampling, KeepAll))
    table = people(n, frequencies)
    made = dpsample.release(table, "key", privacy=privacy, sampling=sampling, user="user", max_keys_per_user=3)
    assert (made.unit, made.per_key, made.privacy, made.terms.max_keys) == ("user", each, privacy, 3)
    frequency = made.table["key"].to_numpy() // 10**6
    cells = np.rint(made.table["token"].to_numpy() * made.grid).astype(int)
    for i in frequencies:
        drawn = cells[frequency == i]
        assert tail(len(drawn), n, float(reporting_probabilities([i], sampling, each)[0])) > 1e-12
        law = token_law(i, sampling, each, made.grid or 1)
        seen = Counter(drawn.tolist())
        assert set(seen) <= set(law.cells.tolist())
        for cell, p in zip(law.cells.tolist(), law.probabilities.tolist(), strict=True):
            assert tail(seen[cell], n, p) > 1e-12


def test_estimates_are_numbers_of_users() -> None:
    table = pa.table({"u": np.tile(np.arange(40_000), 3), "k": np.repeat(["a", "b", "a"], 40_000)})
    made = dpsample.release(table, "k", privacy=PRIVACY, user="u", max_keys_per_user=2)
    assert made.table["k"].to_pylist() == ["a", "b"]
    # a token's law spans less than 400 at (0.5, 5e-11), for certain
    assert np.abs(made.table["estimate"].to_numpy() - 40_000).max() < 400


def test_a_sample_of_users_is_sanitized_for_users(tmp_path: Path) -> None:
    table = pa.table({"u": np.tile(np.arange(5000), 2), "k": np.repeat(["a", "b"], 5000)})
    drawn = dpsample.sample(table, "k", sampling=Ppswor(1), user="u", max_keys_per_user=2)
    assert drawn.table["frequency"].to_pylist() == [5000, 5000]
    drawn.write(tmp_path / "sample.parquet")
    read = dpsample.read_sample(tmp_path / "sample.parquet")
    assert read.max_keys == 2
    assert "up to 2 for each user" in repr(read)
    made = dpsample.sanitize(read, privacy=PRIVACY)
    assert (made.unit, made.per_key) == ("user", per_key(PRIVACY, 2))
    assert "for each user with up to 2 keys" in repr(made)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"max_keys_per_user": 3}, "max_keys_per_user needs a column that names the user"),
        ({"user": "u", "max_keys_per_user": 0}, "max_keys_per_user must be a whole number"),
        ({"size": 10, "sampling": KeepAll()}, "sampling cannot be combined with size"),
        ({"size": 0}, "a sample size must be a whole number"),
        ({"total": 1}, "the share of epsilon for the total"),
        ({"total": "0.96", "size": 10}, "which leaves nothing for the keys"),
        ({"ledger": "no-such.ledger"}, "there is no ledger"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_before_any_work(options: dict[str, Any], rule: str, tmp_path: Path) -> None:
    def read(n: int) -> pa.RecordBatch:
        raise AssertionError(f"batch {n} was read")

    schema = pa.schema([("u", pa.int64()), ("k", pa.int64())])
    reader = pa.RecordBatchReader.from_batches(schema, map(read, range(1)))
    with refused(rule):
        release_to_file(tmp_path / "out.parquet", reader, "k", privacy=PRIVACY, **options)
    assert list(tmp_path.iterdir()) == []


# ---- sizes


def test_powers_above_1_need_a_cap() -> None:
    with refused("one element may change a weight by any amount") as info:
        SampleSize(100, power=2)
    assert "cap" in str(info.value)
    assert SampleSize(100, power=2, cap=10).sensitivity >= 100 - 81
    with refused("power must be at most 64"):
        SampleSize(100, power="1e9", cap=10)
    assert SampleSize(100, power=64, cap=15).total(np.array([10**6])) == 15**64 << 16
    with refused("one element may change a weight by more than 1e80"):
        SampleSize(100, power=64, cap=10**6)
    with refused("two passes need raw elements"):
        dpsample.release({"a": 5}, privacy=PRIVACY, size=SampleSize(5, power=0), strategy="two-pass")


@given(st.sampled_from(["0", "0.3", "1/2", "0.9999999", "1", "1.5", "2", "7/3"]), st.integers(1, 40))
def test_the_sensitivity_of_rounded_weights(power: str, cap: int) -> None:
    """Every step of every rounded weight, one by one; and each is within two units of the real weight."""
    size = SampleSize(100, power=power, cap=cap)
    values = [0, *(size.total(np.array([i])) for i in range(1, cap + 3))]
    for i, (before, now) in enumerate(pairwise(values), 1):
        assert 0 <= (now - before) * size.unit <= size.sensitivity
        weight = min(i, cap) ** float(Fraction(power))
        assert abs(float(now * size.unit) - weight) <= 2 * float(size.unit) + 1e-9 * weight


@pytest.mark.parametrize("power", ["0.5", "0.123456789"])
def test_the_total_of_weights_does_not_depend_on_batches(power: str) -> None:
    """Floats of an array may depend on a value's place in it; the total must not."""
    rng = np.random.default_rng(3)
    frequencies = np.concatenate([rng.integers(1, 10**6, 3000), np.arange(1, 200) ** 2, [2**40, 2**63 - 1]])
    size = SampleSize(100, power=power)
    single = sum(size.total(frequencies[i : i + 1]) for i in range(len(frequencies)))
    assert size.total(frequencies) == single == size.total(rng.permutation(frequencies))
    exact = sum(math.isqrt(int(i) << 32) for i in frequencies)  # floor(2**16 sqrt(i))
    if power == "0.5":
        assert abs(single - exact) <= len(frequencies)


def test_sample_sizes_over_many_runs() -> None:
    """The number of sampled keys is a sum of independent indicators, given tau; tau follows from a noisy total.

    2,000 keys of frequency 5 and size 500: tau = 500 / (10,000 + noise of scale 20), q = 1 - exp(-5 tau) about 0.2212.
    Over 40 runs the sum of sizes has a mean of 40 * 442.4; its standard deviation is 40**0.5 * (18.6**2 + 1.1**2)**0.5,
    below 119. Seven of them have odds below 1e-11 (it is nearly normal), and no single run is further off than 9.
    """
    source = Source(pa.table({"key": np.repeat(np.arange(2000), 5)}), "key")
    sizes, taus = [], []
    with DuckDB() as engine:
        for _ in range(40):
            made = dpsample.release(source, privacy=Privacy(1, "0.01"), size=500, keys_only=True, engine=engine)
            assert isinstance(made.sampling, Ppswor)
            taus.append(float(made.sampling.tau))
            sizes.append(len(dpsample.sample(source, sampling=made.sampling, engine=engine)))
    assert abs(sum(sizes) - 40 * 442.4) < 7 * 119
    assert max(abs(size - 442.4) for size in sizes) < 9 * 18.7
    assert all(abs(500 / tau - 10_000) < 20 * 30 for tau in taus)  # 40 times exp(-30)
    assert len(set(taus)) > 10  # there is noise; all the same has no measurable odds


@pytest.mark.parametrize(
    "size",
    [
        SampleSize(300),
        SampleSize(300, "priority"),
        SampleSize(300, power="1/2"),
        SampleSize(300, power=2, cap=10),
        SampleSize(300, power=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("users", [False, True], ids=["elements", "users"])
def test_sizes_by_any_weight(size: SampleSize, users: bool) -> None:
    """At most `size` keys are expected; how many, from the frequencies and tau: 9 standard deviations, odds 1e-18."""
    table = people(400, (1, 3, 10))
    privacy = Privacy(20, "0.01")  # large, so that tau is close to its mean: noise below 30 scales, odds 1e-13
    options: dict[str, Any] = {"user": "user", "max_keys_per_user": 2} if users else {}
    frequencies = np.repeat([1, 3, 10], 400) * (1 if users else 2)
    made = dpsample.release(table, "key", privacy=privacy, size=size, keys_only=True, **options)
    weights = np.minimum(frequencies, size.cap or 10**9) ** float(size.power)
    scale = float(size.sensitivity) * (2 if users else 1) / (20 * 0.05)
    assert made.terms.bought.size is not None
    assert made.terms.bought.size.weights.scale == size.sensitivity * (2 if users else 1)
    assert abs(float(made.terms.bought.size.weights.value) - weights.sum()) < 30 * scale + 2
    x = weights * float(made.sampling.tau)  # type: ignore[attr-defined]
    q = np.minimum(x, 1) if size.scheme == "priority" else -np.expm1(-x)
    assert q.sum() < 300 * (1 + 31 * scale / weights.sum())
    assert len(made) <= q.sum() + 9 * math.sqrt((q * (1 - q)).sum() + 1)
    assert made.terms.keys_privacy.epsilon + made.terms.bought.size.weights.epsilon == 20


def test_an_empty_source_has_a_size_too() -> None:
    """The interval of the remainder misses 0 from above with odds of at most 1e-9 / 4; there are two."""
    empty = pa.table({"key": pa.array([], pa.string())})
    for size in (SampleSize(10), SampleSize(10, power="0.5")):
        made = dpsample.release(empty, "key", privacy=PRIVACY, size=size, total=True)
        assert len(made) == 0
        assert made.total is not None
        assert made.other(1 - 1e-9).low == 0


# ---- totals


def test_totals_over_many_runs() -> None:
    """The noise of 120 totals: discrete Laplace with scale 1 / 0.05 = 20; five counts, odds 1e-9 each."""
    source = Source(pa.table({"key": ["a"] * 700 + ["b"] * 300}), "key")
    n, noise = 120, list[int]()
    with DuckDB() as engine:
        for _ in range(n):
            made = dpsample.release(source, privacy=PRIVACY, total=True, keys_only=True, engine=engine)
            assert made.total is not None
            assert made.total.epsilon == Fraction(1, 20)
            noise.append(int(made.total.value) - 1000)
    a = math.exp(-1 / 20)
    for cut in (0, 10, 30, 60):
        p = 2 * a ** (cut + 1) / (1 + a)  # beyond the cut
        assert tail(sum(abs(x) > cut for x in noise), n, p) > 1e-10
    assert tail(sum(x > 0 for x in noise), n, a / (1 + a)) > 1e-10


def test_a_users_total_has_noise_for_all_keys() -> None:
    """The noise is below 30 scales, odds exp(-30) = 1e-13; the total is then positive, and inside of its interval."""
    table = pa.table({"u": np.arange(10_000), "k": np.arange(10_000) % 7})
    made = dpsample.release(table, "k", privacy=PRIVACY, total="0.2", user="u", max_keys_per_user=30)
    assert made.total is not None
    assert made.total.scale == 300  # half of the share is for dropped keys
    assert abs(int(made.total.value) - 10_000) < 300 * 30
    low, high = made.total.interval(0.9)
    assert low < made.total.value < high


def test_what_users_dropped_is_measured() -> None:
    """Users of 1, 3, 8 and 100 keys, with a bound of 2: they drop 0, 1, 6 and 98, of which 18 count.

    All noise is below 30 scales, odds exp(-30) = 1e-13. The intervals at 1 - 1e-9 hold the truth.
    """
    sizes = np.tile([1, 3, 8, 100], 2000)
    table = pa.table({"u": np.repeat(np.arange(8000), sizes), "k": np.concatenate([np.arange(n) for n in sizes])})
    source = Source(table, "k", user="u")
    made = dpsample.release(source, privacy=Privacy(1, 1e-6), total=True, max_keys_per_user=2, keys_only=True)
    kept, dropped = 2000 * 7, 2000 * (1 + 6 + 18)
    assert made.terms.bought.dropped is not None
    assert (made.terms.bought.dropped.sensitivity, made.terms.bought.dropped.scale) == (Fraction(18), Fraction(720))
    assert abs(int(made.terms.bought.dropped.value) - dropped) < 30 * 720
    assert made.total is not None
    spent = made.total.epsilon + made.terms.bought.dropped.epsilon
    assert made.terms.keys_privacy.epsilon == 1 - spent
    assert made.kept is not None
    assert made.kept.most == 20
    for estimate, truth in ((made.kept.in_all, kept + dropped), (made.kept.share, kept / (kept + dropped))):
        assert estimate(1 - 1e-9).low <= truth <= estimate(1 - 1e-9).high
        assert estimate(0.5).low <= estimate().value <= estimate(0.5).high
    assert prove_release(made.terms).complete


@pytest.mark.parametrize("sizes", [(0, 0), (-5, 3), (4, -9), (0, 10)], ids=str)
def test_noise_may_leave_nothing(sizes: tuple[int, int]) -> None:
    kept = Kept(*(Total(n, Fraction(1), Fraction(1)) for n in sizes))
    for answer in (kept.share(), kept.in_all()):
        assert 0 <= answer.low <= answer.value <= answer.high
    assert kept.share().high <= 1


def test_answers_say_what_users_kept() -> None:
    users: dict[str, Any] = {"max_keys": 2, "per_key": per_key(Privacy(Fraction(19, 20), 1e-10), 2)}
    totals: dict[str, Any] = {
        "total": Total(41, Fraction(1, 40), Fraction(2)),
        "dropped": Total(59, Fraction(1, 40), Fraction(18)),
    }
    made = Release(pa.table({"k": ["a"], "token": [30.0]}), stated_terms(PRIVACY, KeepAll(), ("k",), **users, **totals))
    plain = "numbers are of the keys that users kept, up to 2 each: where users have more keys, they are too low"
    assert "users kept about 41 % of their keys" in made.sum().notes[-1]
    assert "this corrects sums over all keys, not single keys" in made.sum().notes[-1]
    assert "users kept about 41 %" in repr(made)
    for answer in (made["a"], made.sum("k = 'a'"), made.sum(by="k"), made.mean(), made.top(1), made.quantiles([0.5])):
        assert answer.notes[-1] == plain
    element = Release(made.table.select(["k", "token"]), stated_terms(PRIVACY, KeepAll(), ("k",)))
    assert not any("kept" in note for note in element.sum().notes)


@given(decimals("0.001", "2"), st.integers(1, 100), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_intervals_of_totals(epsilon: Fraction, changes: int, level: float) -> None:
    """The probability outside is at most 1 - level, and would be more if the interval were shorter by one."""
    total = Total(10**9, epsilon, Fraction(changes))
    low, high = total.interval(level)
    assert high - 10**9 == 10**9 - low
    m, a = int(high) - 10**9, math.exp(-float(epsilon) / changes)
    assert 2 * a ** (m + 1) / (1 + a) <= (1 - level) * (1 + 1e-9)
    if m:
        assert 2 * a**m / (1 + a) >= (1 - level) * (1 - 1e-9)


def test_other_is_what_is_not_covered() -> None:
    """30 keys of 4,000 and 5,000 keys of 1: 5,000 elements are not covered.

    In 30 runs at 90 %, each is missed with odds of at most 0.1; 16 misses or more have odds of 1e-8.
    """
    keys = [f"big {i}" for i in range(30)] + [f"small {i}" for i in range(5000)]
    source = Source(pa.table({"key": keys, "n": [4000] * 30 + [1] * 5000}), "key", "n")
    missed = 0
    with DuckDB() as engine:
        for _ in range(30):
            made = dpsample.release(source, privacy=Privacy("0.5", 1e-15), total=True, engine=engine)
            other = made.other(0.9)
            assert len(made) == 30  # a key of one element shows with odds 1e-15
            missed += not other.low <= 5000 <= other.high
            assert other.low <= other.value <= other.high
            assert other.high - other.low < 500
    assert missed < 16


def test_other_needs_a_total_and_tokens() -> None:
    with refused("from which the remainder follows"):
        dpsample.release({"a": 100}, privacy=PRIVACY).other()
    with refused("from which the remainder follows"):
        dpsample.release({"a": 100}, privacy=PRIVACY, total=True, keys_only=True).other()
    with refused("level must be between 0 and 1"):
        dpsample.release({"a": 100}, privacy=PRIVACY, total=True).other(95)


# ---- budgets, files, proofs


@given(decimals("0.1", "5"), decimals("1e-12", "1e-3"), decimals("0.001", "0.4"), decimals("0.001", "0.4"))
def test_the_parts_add_up_exactly(epsilon: Fraction, delta: Fraction, size: Fraction, total: Fraction) -> None:
    budget = Budget(Privacy(epsilon, delta), None, size, total)
    assert budget.keys.epsilon + epsilon * size + epsilon * total == epsilon
    assert budget.keys.delta == delta
    assert budget.per_key == budget.keys


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_file_keeps_it_all(form: str, tmp_path: Path) -> None:
    table = pa.table({"u": np.arange(9000), "k": np.arange(9000) % 3})
    path = tmp_path / f"out.{form}"
    options: dict[str, Any] = {"user": "u", "max_keys_per_user": 4, "size": 10_000, "total": True}
    release_to_file(path, table, "k", privacy=PRIVACY, **options)
    read = dpsample.read_release(path)
    assert read.kept is not None
    assert (read.unit, read.terms.max_keys) == ("user", 4)
    assert Terms.from_json(json.loads(json.dumps(read.metadata))) == read.terms
    assert read.total is not None
    assert read.terms.bought.size is not None
    proof = prove_release(read.terms)
    assert proof.composition is not None
    assert proof.composition.delta <= Fraction(1, 10**10)


def test_an_element_level_release_has_no_field_of_others(tmp_path: Path) -> None:
    made = dpsample.release({"a": 500}, privacy=PRIVACY)
    assert not {"per_key", "max_keys_per_user", "size", "total", "ledger"} & set(made.metadata)
    before = {name: value for name, value in made.metadata.items() if name != "dpsample"}
    assert Terms.from_json({**before, "dpsample": "0.1.0"}) == made.terms


def test_terms_that_do_not_add_up_are_refused() -> None:
    good = stated_terms(PRIVACY, KeepAll(), ("k",), max_keys=2, per_key=per_key(PRIVACY, 2))
    form = good.to_json(0)
    total = Total(5, Fraction(1, 20), Fraction(2)).to_json()
    for change in (
        {"unit": "element"},
        {"max_keys_per_user": None},
        {"max_keys_per_user": 0},
        {"per_key": {"epsilon": "1.1", "delta": "1e-10"}},
        {"unit": "element", "max_keys_per_user": None, "total": total},
        {"total": {**total, "epsilon": "0"}},
        {"dropped": total},
        {"size": {"wanted": 10}},
        {"total": 5},
    ):
        with pytest.raises(dpsample.InvalidValue):
            Terms.from_json({**form, **change})


def test_a_proof_finds_what_is_not_private() -> None:
    good = stated_terms(PRIVACY, KeepAll(), ("k",), max_keys=3, per_key=per_key(PRIVACY, 3))
    assert prove_release(good).complete
    with pytest.raises(PrivacyViolation, match="3 keys together"):
        prove_release(restated(good, per_key=Privacy("0.4", "1e-11")))
    total = Total(5, Fraction(1, 20), Fraction(1))
    each = per_key(Privacy(Fraction(19, 20), 1e-10), 3)
    with pytest.raises(PrivacyViolation, match="another change of the total"):
        prove_release(restated(good, per_key=each, total=total))
    both: dict[str, Any] = {
        "total": Total(5, Fraction(1, 40), Fraction(3)),
        "dropped": Total(5, Fraction(1, 40), Fraction(26)),
    }
    with pytest.raises(PrivacyViolation, match="another change of the dropped keys"):
        prove_release(restated(good, per_key=each, **both))
    sized = RealizedSize(10, Total(5, Fraction(1, 20), Fraction(3)))
    with pytest.raises(PrivacyViolation, match="another change of the sample size"):
        prove_release(restated(good, per_key=each, size=sized, sampling=Ppswor(1, 2, cap=10)))
    with pytest.raises(PrivacyViolation, match="has a tau"):
        prove_release(restated(good, per_key=each, size=sized))


def test_the_page_says_all() -> None:
    page = str(prove(Budget(Privacy(1, 1e-6), 50, Fraction(1, 20), Fraction(1, 20)), KeepAll()))
    for words in (
        "each user (all rows of one user identifier), who counts in up to 50 keys",
        "keys: epsilon 0.9, delta 1e-06",
        "sample size: epsilon 0.05",
        "total: epsilon 0.025",
        "dropped keys: epsilon 0.025",
        "add up to what was spent, exactly",
        "every frequency is covered",
        "holds for up to 50 keys together",
        "Reviewed:",
    ):
        assert words in page
    assert len(page.splitlines()) < 40


def test_a_plan_reads_nothing() -> None:
    source = Source("no-such-file.parquet", "k", user="u")
    budget = Request.of(source, privacy=PRIVACY, size=10, max_keys_per_user=3).options.budget
    assert (budget.unit, budget.changes) == ("user", 3)

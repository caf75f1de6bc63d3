"""From data to a release: the laws end to end, whatever the strategy; and nothing private on the side."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Privacy, Release, Sampling, Source
from dpsample.private.request import strategy_of
from dpsample.release.options import Strategy
from dpsample.scheme import reporting_probabilities
from release_laws import FREQUENCIES, PRIVACY, _tail, assert_law, elements

pytestmark = pytest.mark.chance(
    "odds 4e-9: some 2,000 counts, each refused if a binomial tail is below 1e-12; single elements show with 1e-10"
)


@pytest.mark.parametrize(
    ("sampling", "strategy"),
    [
        (KeepAll(), "aggregate"),
        (Ppswor(0.02), "aggregate"),
        (Ppswor(0.02), "two-pass"),
        (Priority(0.01), "aggregate"),
    ],
    ids=str,
)
def test_reports_and_tokens_follow_the_law_end_to_end(sampling: Sampling, strategy: Strategy, tmp_path: Path) -> None:
    # Each of n keys of frequency i is reported with token j on its own, with probability P_i(j): counts are binomial. A
    # count is refused if its tail is below 1e-12; about 2,000 counts, so odds of a false alarm of 4e-9.
    n = 20_000
    duckdb.from_arrow(elements(n)).write_parquet(str(tmp_path / "events.parquet"))
    made = dpsample.release(tmp_path / "events.parquet", "key", privacy=PRIVACY, sampling=sampling, strategy=strategy)
    assert_law(made, n)


@pytest.mark.parametrize("strategy", ["aggregate", "two-pass"])
def test_both_strategies_draw_threshold_ppswor(strategy: Strategy, tmp_path: Path) -> None:
    # the sampled number of n keys of frequency i is binomial(n, 1 - exp(-tau i)); odds of a false alarm 12 * 2e-11
    n, tau = 20_000, 0.015
    duckdb.from_arrow(elements(n)).write_parquet(str(tmp_path / "events.parquet"))
    drawn = dpsample.sample(tmp_path / "events.parquet", "key", sampling=Ppswor(tau), strategy=strategy)
    keys, frequency = drawn.table["key"].to_numpy(), drawn.table["frequency"].to_numpy()
    assert (keys // 10**6 == frequency).all()  # whole frequencies, not those of picked elements
    assert len(np.unique(keys)) == len(keys)
    for i in FREQUENCIES:
        assert _tail(int((frequency == i).sum()), n, float(-np.expm1(-tau * i))) > 1e-11


def test_expected_number_of_keys() -> None:
    # 10**6 keys of frequency 1 + Poisson(C i**-1.1), 10**7 elements, (0.5, 1e-6): about 17,816 are expected. The number
    # of reports is a sum of independent indicators; 7 standard deviations have odds below 1e-11.
    rng = np.random.default_rng(0)
    weight = np.arange(1, 10**6 + 1) ** -1.1
    frequency = 1 + rng.poisson(9 * 10**6 * weight / weight.sum())
    pi = reporting_probabilities(frequency, KeepAll(), Privacy(0.5, 1e-6))
    assert pi.sum() == pytest.approx(17_816, abs=150)  # other draws of the frequencies: a standard deviation of 30
    table = pa.table({"key": np.arange(10**6), "frequency": frequency})
    made = dpsample.release(table, "key", "frequency", privacy=Privacy(0.5, 1e-6))
    assert abs(len(made) - pi.sum()) < 7 * np.sqrt((pi * (1 - pi)).sum())


def test_a_sample_file_is_enough(tmp_path: Path) -> None:
    drawn = dpsample.sample(Counter(a=900, b=800, c=1), sampling=Ppswor(1))
    drawn.write(tmp_path / "sample.parquet")
    made = dpsample.sanitize(dpsample.read_sample(tmp_path / "sample.parquet"), privacy=Privacy(1, 1e-10))
    assert made.sampling == Ppswor(1)
    assert made.table["key"].to_pylist() == ["a", "b"]


def test_a_release_to_a_file_is_a_release(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    source = Source(Counter(b=900, a=800, c=1))
    assert dpsample.release_to_file(path, source, privacy=Privacy(1, 1e-10)) == 2
    made = dpsample.read_release(path)
    assert made.table["key"].to_pylist() == ["a", "b"]
    assert made.privacy == Privacy(1, 1e-10)
    with pytest.raises(InvalidValue, match="exists"):
        dpsample.release_to_file(path, source, privacy=Privacy(1, 1e-10))


def test_estimates_are_close_for_frequent_keys() -> None:
    made = dpsample.release(Counter({str(i): 10_000 + i for i in range(500)}), privacy=Privacy(1, 1e-10))
    truth = 10_000 + np.array([int(k) for k in made.table["key"].to_pylist()])
    assert len(made) == 500
    # a token's law spans less than 60 around the truth at this privacy, for certain
    assert np.abs(made.table["estimate"].to_numpy() - truth).max() < 60


def test_keys_only() -> None:
    made = dpsample.release(Counter(a=900, b=1), privacy=Privacy(1, 1e-10), keys_only=True)
    assert made.table.schema.names == ["key"]
    assert made.table["key"].to_pylist() == ["a"]


@pytest.mark.parametrize("empty", [{}, [], pa.table({"key": pa.array([], pa.string())})], ids=["dict", "list", "table"])
def test_an_empty_source_gives_an_empty_release(empty: Any) -> None:
    made = dpsample.release(empty, "key", privacy=Privacy(1, 1e-10))
    assert isinstance(made, Release)
    assert len(made) == 0
    assert made.table.schema.names == ["key", "estimate", "low", "high", "token"]


def test_composite_keys_stay_columns() -> None:
    elements = [("Rome", 1)] * 500 + [("Oslo", 2)] * 400 + [("Oslo", 1)] * 300
    source = Source(elements, ["city", "shop"], key_type={"shop": "int64"})
    made = dpsample.release(source, privacy=Privacy(1, 1e-10))
    assert made.table.select(["city", "shop"]).to_pylist() == [
        {"city": "Oslo", "shop": 1},
        {"city": "Oslo", "shop": 2},
        {"city": "Rome", "shop": 1},
    ]


def test_the_way_is_chosen_from_what_is_public() -> None:
    raw = Source("events.parquet", key="k")
    assert strategy_of(raw, Ppswor(0.001)) == "two-pass"
    for source, sampling in [
        (raw, Ppswor(0.5)),
        (raw, Ppswor(0.001, power=2)),
        (raw, Ppswor(0.001, cap=5)),
        (raw, Priority(0.001)),
        (raw, KeepAll()),
        (Source("counts.parquet", key="k", frequency="n"), Ppswor(0.001)),
        (Source(iter("abc")), Ppswor(0.001)),
    ]:
        assert strategy_of(source, sampling) == "aggregate"
        if sampling != Ppswor(0.5):
            with pytest.raises(InvalidValue, match="two passes"):
                strategy_of(source, sampling, "two-pass")


def test_bad_input_is_refused_before_any_output(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    for bad in ([None, "a"], {"a": -1}, {"a": 1.5}, {"a": 2**63}):
        with pytest.raises(InvalidValue):
            dpsample.release_to_file(path, bad, privacy=Privacy(1, 1e-10))
    assert list(tmp_path.iterdir()) == []

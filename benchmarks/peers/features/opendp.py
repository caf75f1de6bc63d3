"""What OpenDP can do, each by a snippet that runs."""

from typing import Any

import opendp.prelude as dp
import polars as pl

from snippets import run

dp.enable_features("contrib")
DATA = pl.DataFrame(
    {
        "user": [n // 2 for n in range(4000)],
        "key": [n % 4 for n in range(4000)],
        "value": [float(n % 10) for n in range(4000)],
    }
)
VALUE: Any = pl.col("value").fill_nan(0.0).fill_null(0.0)
KEYS = pl.LazyFrame({"key": [0, 1, 2, 3, 99]})


def context(users: bool = False, **loss: float) -> dp.Context:
    unit = dp.unit_of(contributions=1, identifier="user") if users else dp.unit_of(contributions=1)
    return dp.Context.compositor(
        data=DATA.lazy(),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(**(loss or {"epsilon": 1.0, "delta": 1e-6})),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=10**5)],
    )


def finds_keys() -> None:
    assert context().query().group_by("key").agg(dp.len()).release().collect().height == 4


def known_keys() -> None:
    query = context().query().group_by("key").agg(dp.len()).with_keys(KEYS)
    assert 99 in query.release().collect()["key"].to_list()


def aggregated() -> None:
    counts = dp.map_domain(dp.atom_domain(T=int), dp.atom_domain(T=int))
    distance = dp.l01inf_distance(dp.absolute_distance(T=int))
    assert set(dp.m.make_laplace_threshold(counts, distance, scale=1.0, threshold=50)({1: 1000, 2: 1})) == {1}


def users() -> None:
    query = context(users=True).query().truncate_num_groups(2, by=["key"], keep="first")
    assert query.truncate_per_group(1, by=["key"]).group_by("key").agg(dp.len()).release().collect().height


def sums() -> None:
    value = VALUE.dp.sum((0.0, 10.0))
    assert context().query().group_by("key").agg(value).with_keys(KEYS).release().collect().height == 5


def means() -> None:
    value = VALUE.dp.mean((0.0, 10.0))
    margin = dp.polars.Margin(max_length=10**5, invariant="lengths")
    private = dp.Context.compositor(
        data=DATA.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[margin],
    )
    assert private.query().select(value).release().collect().height == 1


def quantiles() -> None:
    value = VALUE.dp.quantile(0.5, [float(n) for n in range(10)])
    assert context(epsilon=1.0).query().select(value).release().collect().height == 1


def variance() -> None:
    bounds = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=4000)
    dp.enable_features("floating-point")
    noisy = dp.t.make_variance(bounds, dp.symmetric_distance()) >> dp.m.then_laplace(scale=1.0)
    assert noisy(DATA["value"].to_list()) is not None


def models() -> None:
    dp.enable_features("honest-but-curious")
    import numpy as np
    from opendp.extras.sklearn.decomposition import PCA

    data = np.random.default_rng(0).normal(size=(1000, 3))
    model = PCA(epsilon=1.0, row_norm=5.0, n_samples=1000, n_features=3, n_components=1)
    model.fit(data)
    assert model.components_.shape == (1, 3)


def intervals() -> None:
    summary = context().query().group_by("key").agg(dp.len()).summarize(alpha=0.05)
    assert "accuracy" in summary.columns


def zcdp() -> None:
    assert context(rho=0.5, delta=1e-6).query().group_by("key").agg(dp.len()).release().collect().height == 4


def ledger() -> None:
    private = context()
    private.query().group_by("key").agg(dp.len()).release()
    try:
        private.query().group_by("key").agg(dp.len()).release()
    except Exception:
        return
    raise AssertionError("a second release of the same budget was made")


def reads_files() -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        DATA.write_parquet(file.name)
        private = dp.Context.compositor(
            data=pl.scan_parquet(file.name),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
            split_evenly_over=1,
        )
        assert private.query().group_by("key").agg(dp.len()).release().collect().height == 4


run(
    finds_keys,
    known_keys,
    aggregated,
    users,
    sums,
    means,
    quantiles,
    variance,
    models,
    intervals,
    zcdp,
    ledger,
    reads_files,
)

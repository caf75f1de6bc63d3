"""Every engine makes the same release from the same coins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample import KeepAll, Ppswor, Priority, Privacy, Release, Sampling, Source
from dpsample.planning.setting import Setting
from dpsample.private.charge import NoLedger
from dpsample.private.derived_coins import Secret
from dpsample.private.draw import draw_keys, drawn_release
from dpsample.private.drawing import Drawing, DrawKeys
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.known import KnownKeys
from dpsample.private.progress import Progress
from dpsample.private.request import Request
from dpsample.release.options import Strategy
from typed_keys import KEYS, TYPES

PRIVACY = Privacy(0.5, 1e-3)
MOST = 20  # keys of a user: nobody has more, so that there is nothing to choose


Listed = tuple[list[str], bool] | None  # known keys, and whether there are no others


def request(source: Source, sampling: Sampling, strategy: Strategy, keys_only: bool, listed: Listed) -> Request:
    max_keys = MOST if source.user else None
    setting = Setting(PRIVACY, sampling, max_keys_per_user=max_keys, keys_only=keys_only, strategy=strategy)
    known = KnownKeys.of(*listed, source) if listed else None
    return Request(source, setting, known)


SECRET = Secret(bytes(range(32)))


def by_duckdb(
    source: Source,
    sampling: Sampling,
    strategy: Strategy = "aggregate",
    keys_only: bool = False,
    listed: Listed = None,
) -> Release:
    with DuckDB(threads=1) as engine:
        return drawn(engine, request(source, sampling, strategy, keys_only, listed), draw_keys)


def drawn(engine: Engine, request: Request, draw_keys: DrawKeys) -> Release:
    drawing = Drawing(engine, request, engine.check(request.source), SECRET, Progress(), draw_keys)
    with drawn_release(drawing) as release:
        return release.in_memory(NoLedger())


def by_spark(
    source: Source,
    sampling: Sampling,
    strategy: Strategy = "aggregate",
    keys_only: bool = False,
    listed: Listed = None,
) -> Release:
    from dpsample.private.engine.spark import Spark
    from dpsample.private.engine.spark.jobs import draw_keys

    with Spark() as engine:
        return drawn(engine, request(source, sampling, strategy, keys_only, listed), draw_keys)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
class TestSameCoins:
    """The same secret gives the same release, whatever the engine."""

    @pytest.mark.parametrize(
        ("sampling", "keys_only"),
        [
            (KeepAll(), False),
            (KeepAll(), True),
            (Ppswor(0.05), False),
            (Priority("0.02", power="0.5"), True),
            (Priority(1), False),
        ],
        ids=str,
    )
    def test_text(self, sampling: Sampling, keys_only: bool, tmp_path: Path) -> None:
        table = pa.table({"k": [f"{key}{j}" for key in KEYS for j in range(8) for _ in range(j * j)]})
        pq.write_table(table, tmp_path / "a.parquet")
        source = Source(tmp_path / "a.parquet", "k")
        found = by_spark(source, sampling, keys_only=keys_only)
        assert found == by_duckdb(source, sampling, keys_only=keys_only)
        assert len(found) > 5

    @pytest.mark.chance("certain: nobody has more keys than they keep, so that nothing is chosen")
    def test_numbers_of_users(self, tmp_path: Path) -> None:
        rows = [(j, key) for i, key in enumerate(KEYS) for j in range(3 * i * i)]
        pq.write_table(
            pa.table({"k": [key for _, key in rows], "u": [user for user, _ in rows]}), tmp_path / "a.parquet"
        )
        source = Source(tmp_path / "a.parquet", "k", user="u")
        found = by_spark(source, Priority("0.01"))
        assert found == by_duckdb(source, Priority("0.01"))
        assert 1 < len(found) < 16

    @pytest.mark.chance("certain: nobody has more keys than they keep, so that nothing is chosen")
    @pytest.mark.parametrize(("user", "only"), [(None, False), ("u", True)])
    def test_known_keys(self, user: str | None, only: bool, tmp_path: Path) -> None:
        rows = [(j, key) for i, key in enumerate(KEYS) for j in range(3 * i * i)]
        pq.write_table(
            pa.table({"k": [key for _, key in rows], "u": [user for user, _ in rows]}), tmp_path / "a.parquet"
        )
        source, listed = Source(tmp_path / "a.parquet", "k", user=user), [*KEYS[3:9], "nobody has it"]
        found = by_spark(source, KeepAll(), listed=(listed, only))
        assert found == by_duckdb(source, KeepAll(), listed=(listed, only))
        assert {*listed} <= {*found.table["k"].to_pylist()}
        assert (len(found) == len(listed)) == only

    def test_every_type_at_once(self, tmp_path: Path) -> None:
        columns = {name: array.take(pa.array([0, 2] * 8)) for name, array in TYPES.items()}
        numbers = pa.array([i % 16 // 2 for i in range(16)], pa.int32())
        table = pa.table({**columns, "number": numbers, "n": [100 * i for i in range(16)]})
        pq.write_table(table, tmp_path / "a.parquet")
        source = Source(tmp_path / "a.parquet", [*TYPES, "number"], "n")
        found = by_spark(source, Priority("0.01"))
        assert found == by_duckdb(source, Priority("0.01"))
        assert 2 < len(found) < 16

    def test_two_passes_over_one_batch(self, spark: Any) -> None:
        # picked elements go by their batch: one of a few rows is the same for both
        table = pa.table({"k": [f"key {i % 40}" for i in range(4000)]})
        pandas = table.to_pandas()
        frame = spark.createDataFrame(pandas).coalesce(1)
        found = by_spark(Source(frame, "k"), Ppswor(0.01), "two-pass")
        assert found == by_duckdb(Source(table, "k"), Ppswor(0.01), "two-pass")
        assert 5 < len(found) < 40

    def test_nothing(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"k": pa.array([], pa.string())}), tmp_path / "a.parquet")
        source = Source(tmp_path / "a.parquet", "k")
        for sampling, strategy in ((KeepAll(), "aggregate"), (Ppswor(0.01), "two-pass")):
            found = by_spark(source, sampling, strategy)  # type: ignore[arg-type]
            assert found == by_duckdb(source, sampling, strategy)  # type: ignore[arg-type]
            assert len(found) == 0

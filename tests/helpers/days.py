"""Parts of data by day: what they charge, and the engines that read them."""

from collections.abc import Iterator
from typing import Any

import pytest

from dpsample import Privacy
from dpsample.accounting.parts import Part
from dpsample.ledger.charges import Charge
from dpsample.private.engine import Engine
from dpsample.private.engine.duckdb import DuckDB

PRIVACY = Privacy("0.5", "1e-8")


def charge(epsilon: str = "0.5", part: Part | None = None, unit: str = "element") -> Charge:
    return Charge(Privacy(epsilon, "1e-9"), unit, "x.parquet", part=part)


def day(value: str, vouched: bool = False) -> Part:
    return Part("day", value, vouched)


def _spark(*values: str) -> Any:
    return pytest.param(*values, marks=pytest.mark.xdist_group("spark"))


@pytest.fixture(params=["duckdb", _spark("spark")])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "duckdb":
        with DuckDB() as made:
            yield made
    else:
        from dpsample.private.engine.spark import Spark

        with Spark(request.getfixturevalue("spark")) as started:
            yield started

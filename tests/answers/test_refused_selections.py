"""Selections and attributes that are refused."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpsample import InvalidValue, Release
from shops import ATTRIBUTES, selection_of
from shops import shops as shops
from support import refused


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"where": 3}, "where must be"),
        ({"where": "NULL"}, "where must be true or false"),
        ({"where": {"Oslo": 1}}, "where must be"),
        ({"where": ATTRIBUTES}, "where must be"),
        ({"where": ["Oslo"]}, "a key of where must be a tuple of 2"),
        ({"where": [("Oslo", "x")]}, "the values of where"),
        ({"where": lambda t: [True]}, "one value for each of"),
        ({"where": lambda t: t["city"]}, "the values of where"),
        ({"where": lambda t: None}, "the values of where"),
        ({"weight": 3}, "weight must be"),
        ({"weight": ["city"]}, "weight must be"),
        ({"weight": {("Oslo", 1): "much"}}, "the values of weight"),
        ({"weight": {"Oslo": 1}}, "a key of weight must be a tuple of 2"),
        ({"weight": "city"}, "weight must be a number"),
        ({"weight": lambda t: t["city"]}, "the values of weight"),
        ({"weight": "shop / 0"}, "weights must be finite"),
        ({"weight": "'nan'::DOUBLE"}, "weights must be finite"),
        ({"weight": "1e200"}, "weights must be finite"),
        ({"by": 3}, "by must be"),
        ({"by": ["city", 3]}, "by must be"),
        ({"by": ["city", "city"]}, "by must be"),
        ({"attributes": 3}, "attributes must be"),
        ({"attributes": "nowhere.csv"}, "cannot be read"),
        ({"attributes": "nowhere.txt"}, "attributes must be a"),
        ({"attributes": ATTRIBUTES.drop_columns("shop")}, "attributes must have the key column"),
        ({"attributes": ATTRIBUTES.append_column("token", ATTRIBUTES["size"])}, "the name of another column"),
        ({"attributes": ATTRIBUTES.append_column("SIZE", ATTRIBUTES["size"])}, "the name of another column"),
        ({"attributes": ATTRIBUTES.append_column("token:row", ATTRIBUTES["size"])}, "the name of another column"),
        ({"attributes": pa.concat_tables([ATTRIBUTES, ATTRIBUTES])}, "each key once"),
        ({"attributes": ATTRIBUTES.set_column(1, "shop", ATTRIBUTES["kind"])}, "must be of type"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_refused(arguments: dict[str, Any], rule: str, shops: Release) -> None:
    with refused(rule):
        selection_of(shops, **arguments).tallies()


def test_what_a_damaged_file_of_attributes_says(shops: Release, tmp_path: Path) -> None:
    for name in ("a.parquet", "a.csv", "a.arrow"):
        (tmp_path / name).write_bytes(b"\x00\x1b[31mnot a table")
        with refused("") as info:
            selection_of(shops, attributes=tmp_path / name)
        assert "\x1b" not in str(info.value)


def test_equal_tallies_are_one_key_of_a_cache(shops: Release) -> None:
    first, second = (selection_of(shops, "shop > 2", "shop * 0.1").tallies()[1][0] for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != selection_of(shops, "shop > 2").tallies()[1][0]
    assert first.unweighted == selection_of(shops, "shop > 2").tallies()[1][0]
    assert first != 3


def test_pandas_needs_no_arrow_types(shops: Release) -> None:
    frame = pd.DataFrame({"city": ["Oslo", "Rome"], "shop": [1, 2], "x": [math.nan, 2.0]})
    _, [tally] = selection_of(shops, weight="x", attributes=frame).tallies()
    assert tally.total == 1


def test_a_condition_on_the_estimate_names_the_remedy(shops: Release) -> None:
    with pytest.raises(InvalidValue, match=r"not the column 'estimate'; .* selected by at_least"):
        shops.sum("estimate > 100")

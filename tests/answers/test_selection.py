"""Selections against plain Python."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpsample import Release
from dpsample.estimators.tally import Tally
from shops import ATTRIBUTES, CELLS, SHOPS, made, selection_of
from shops import shops as shops


def expected(weights: dict[Any, float]) -> Tally:
    """Key by key, in dictionaries."""
    found: dict[int, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for key, weight in weights.items():
        for n, more in enumerate((1, weight, weight * weight)):
            found[CELLS[key]][n] += more
    cells = sorted(found)
    keys, sums, squares = ([found[cell][n] for cell in cells] for n in range(3))
    return Tally(np.array(cells, np.int64), np.array(keys, np.int64), np.array(sums), np.array(squares))


def same(found: Tally, wanted: Tally) -> None:
    assert found.cells.tolist() == wanted.cells.tolist()
    assert found.keys.tolist() == wanted.keys.tolist()
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-12)
    np.testing.assert_allclose(found.squares, wanted.squares, rtol=1e-12)


SOME = {("Rome", 1), ("Oslo", 8)}


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        (None, lambda c, s: True),
        ("city = 'Oslo' AND shop >= 3", lambda c, s: c == "Oslo" and s >= 3),
        ("CITY like '%o' or Shop in (1, 2) -- a comment", lambda c, s: c.endswith("o") or s in (1, 2)),
        ("shop % 2 = 0\n/* one\nmore */", lambda c, s: s % 2 == 0),
        ("nullif(shop, 3) > 0", lambda c, s: s != 3 and s > 0),  # NULL is not true
        ("NULL::BOOLEAN", lambda c, s: False),
        ("shop) > 3 AND (shop < 5", lambda c, s: 3 < s < 5),  # odd, but one expression
        ("case when city = 'Rome' then shop > 1 else false end", lambda c, s: c == "Rome" and s > 1),
        ("regexp_matches(city, '^[NO]') and shop between 0 and 2", lambda c, s: c[0] in "NO" and 0 <= s <= 2),
        ([("Rome", 1), ("Rome", 1), ("Oslo", 8), ("Paris", 1), ("Oslo", None)], lambda c, s: (c, s) in SOME),
        ([], lambda c, s: False),
        ({("Ürgüp", -2)}, lambda c, s: (c, s) == ("Ürgüp", -2)),
        (lambda t: pc.greater(t["shop"], 5), lambda c, s: s > 5),
        (lambda t: t["shop"].to_numpy() < 0, lambda c, s: s < 0),
        (lambda t: [None if s == 1 else s > 0 for s in t["shop"].to_pylist()], lambda c, s: s > 1),
    ],
)
def test_where(where: Any, chosen: Callable[[str, int], bool], shops: Release) -> None:
    groups, [tally] = selection_of(shops, where).tallies()
    same(tally, expected({key: 1.0 for key in SHOPS if chosen(*key)}))
    assert groups.num_columns == 0
    rows, cells = selection_of(shops, where).rows()
    assert [SHOPS[row] for row in rows] == [key for key in SHOPS if chosen(*key)]
    assert cells.tolist() == [CELLS[key] for key in SHOPS if chosen(*key)]


@pytest.mark.parametrize(
    ("weight", "of"),
    [
        ("shop", lambda c, s: s),
        ("shop / 4 - length(city)", lambda c, s: s / 4 - len(c)),
        ("nullif(shop, 3)", lambda c, s: None if s == 3 else s),
        ("shop > 2", lambda c, s: float(s > 2)),
        ({("Oslo", 1): 2.5, ("Rome", 3): -1, ("Paris", 1): 9}, lambda c, s: {"Oslo1": 2.5, "Rome3": -1}.get(f"{c}{s}")),
        (lambda t: t["shop"].to_numpy() * 0.5, lambda c, s: s * 0.5),
        (lambda t: [None if s < 0 else s for s in t["shop"].to_pylist()], lambda c, s: None if s < 0 else s),
    ],
)
def test_weight(weight: Any, of: Callable[[str, int], float | None], shops: Release) -> None:
    _, [tally] = selection_of(shops, "shop < 7", weight).tallies()
    same(tally, expected({key: w for key in SHOPS if key[1] < 7 and (w := of(*key)) is not None}))


@pytest.mark.parametrize("attributes", [None, ATTRIBUTES])
def test_a_function_sees_all_rows_also_if_keys_are_listed(attributes: Any, shops: Release) -> None:
    seen: list[int] = []

    def weight(table: pa.Table) -> Any:
        seen.append(len(table))
        return table["shop"].to_numpy() * 2.0

    _, [tally] = selection_of(shops, SOME, weight, attributes=attributes).tallies()
    same(tally, expected({key: 2.0 * key[1] for key in SOME}))
    assert seen == [len(SHOPS)]


def test_groups(shops: Release) -> None:
    groups, tallies = selection_of(shops, "shop > -2", "shop", by=["city", "nullif(shop, 1) % 2 = 0"]).tallies()
    assert groups.column_names == ["city", "nullif(shop, 1) % 2 = 0"]
    found = [tuple(row.values()) for row in groups.to_pylist()]
    wanted: dict[Any, dict[Any, float]] = defaultdict(dict)
    for c, s in SHOPS:
        if s > -2:
            wanted[c, None if s == 1 else s % 2 == 0][c, s] = s
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert [c for c, _ in found] == sorted(c for c, _ in found)
    for group, tally in zip(found, tallies, strict=True):
        same(tally, expected(wanted[group]))
    groups, tallies = selection_of(shops, "false", by="city").tallies()
    assert (groups.num_rows, tallies) == (0, [])


@pytest.mark.parametrize("form", ["arrow", "batch", "pandas", "polars", "parquet", "csv", "feather"])
def test_attributes(form: str, shops: Release, tmp_path: Path) -> None:
    path = tmp_path / f"attributes.{form}"
    if form in ("parquet", "csv", "feather"):
        writers: dict[str, Callable[[pa.Table, Path], Any]] = {
            "parquet": pa.parquet.write_table,
            "csv": pa.csv.write_csv,
            "feather": pa.feather.write_feather,
        }
        writers[form](ATTRIBUTES, path)
    given = {
        "arrow": ATTRIBUTES.set_column(1, "shop", ATTRIBUTES["shop"].cast(pa.int8())),
        "batch": ATTRIBUTES.to_batches()[0],
        "pandas": ATTRIBUTES.to_pandas(),
        "polars": pl.from_arrow(ATTRIBUTES),
    }.get(form, path)
    groups, tallies = selection_of(shops, "kind = 'a' or city = 'Nuuk'", "size", "kind", given).tallies()
    assert groups.to_pylist() == [{"kind": "a"}]  # Nuuk has no attributes, so no weight
    same(tallies[0], expected({key: key[1] / 4 for key in SHOPS if key[1] % 2 and key[0] != "Nuuk"}))
    # a function sees them, in the order of the release; the keys without them as well
    _, [tally] = selection_of(shops, lambda t: pc.is_null(t["size"]), attributes=given).tallies()
    same(tally, expected({key: 1.0 for key in SHOPS if key[0] == "Nuuk"}))


def test_a_csv_of_attributes_has_the_types_of_the_keys(tmp_path: Path) -> None:
    release = made([("007",), ("7",)], ("code",), cells={("007",): 4, ("7",): 9})
    path = tmp_path / "codes.csv"
    path.write_text("code,price\n007,2.5\n7,1\n")
    _, [tally] = selection_of(release, "price > 2", "price", attributes=str(path)).tallies()
    assert (tally.cells.tolist(), tally.weights.tolist()) == ([4], [2.5])


def test_columns_may_have_the_names_that_we_use() -> None:
    names = ("own", "rows", "cell", "keys", "weights", "chosen")
    keys = [(n, 10 * n, n % 2, n % 3, n, 5) for n in range(1, 7)]
    release = made(keys, names, cells={key: key[0] for key in keys})
    groups, tallies = selection_of(release, "rows > 10", "weights + keys", by=["cell", "keys"]).tallies()
    assert sorted(map(str, groups.to_pylist())) == sorted(
        {str({"cell": k[2], "keys": k[3]}) for k in keys if k[1] > 10}
    )
    assert sum(t.weights.sum() for t in tallies) == sum(k[4] + k[3] for k in keys if k[1] > 10)
    odd = made([("a",), ("b",)], ('the "key", 1+1',), cells={("a",): 1, ("b",): 2})
    assert selection_of(odd, by='the "key", 1+1').tallies()[0].to_pylist() == [{'the "key", 1+1': v} for v in "ab"]
    assert selection_of(odd, '"the ""key"", 1+1" = \'a\'').rows()[1].tolist() == [1]


def test_text_that_looks_like_our_sql_is_text() -> None:
    release = made([("x'",), ("{rows}",)], ("key",), cells={("{rows}",): 1, ("x'",): 2})
    groups, tallies = selection_of(release, "key = 'x'''", by=["'{rows}'", "'%s'"]).tallies()
    assert groups.to_pylist() == [{"'{rows}'": "{rows}", "'%s'": "%s"}]
    assert tallies[0].cells.tolist() == [2]


def test_keys_only() -> None:
    release = made(SHOPS, ("city", "shop"), keys_only=True)
    groups, tallies = selection_of(release, "shop > 6", by="city").tallies()
    assert [t.keys.tolist() for t in tallies] == [[2]] * groups.num_rows == [[2]] * 4

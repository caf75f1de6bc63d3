"""Selections against plain Python; and expressions that try to do more than select."""

import json
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpsample import InvalidValue, KeepAll, Privacy, Release
from dpsample.estimators.tally import Tally
from dpsample.questions import expressions
from dpsample.questions.expressions import Bytes, check_expression
from dpsample.questions.selection import Selection, connect, syntax
from dpsample.release.terms import Terms
from support import refused

GRID = 8
SHOPS = [(city, shop) for city in ("Nuuk", "Oslo", "Rome", "Ürgüp") for shop in range(-2, 9)]
CELLS = {key: 1 + (37 * n) % 19 for n, key in enumerate(SHOPS)}


def made(keys: list[Any], names: tuple[str, ...], keys_only: bool = False, cells: Any = None) -> Release:
    columns: dict[str, Any] = {name: [key[n] for key in keys] for n, name in enumerate(names)}
    terms = Terms(Privacy(1, "1e-6"), KeepAll(), names, grid=GRID, keys_only=keys_only)
    if not keys_only:
        tokens = [cells[key] / GRID for key in keys]
        columns |= {"token": tokens}
    return Release(pa.table(columns), terms)


@pytest.fixture
def shops() -> Release:
    return made(SHOPS, ("city", "shop"), cells=CELLS)


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
ATTRIBUTES = pa.table(
    {
        "city": [c for c, _ in SHOPS if c != "Nuuk"],
        "shop": [s for c, s in SHOPS if c != "Nuuk"],
        "size": [s / 4 for c, s in SHOPS if c != "Nuuk"],
        "kind": ["a" if s % 2 else "b" for c, s in SHOPS if c != "Nuuk"],
    }
)


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
    groups, [tally] = Selection(shops, where).tallies()
    same(tally, expected({key: 1.0 for key in SHOPS if chosen(*key)}))
    assert groups.num_columns == 0
    rows, cells = Selection(shops, where).rows()
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
    _, [tally] = Selection(shops, "shop < 7", weight).tallies()
    same(tally, expected({key: w for key in SHOPS if key[1] < 7 and (w := of(*key)) is not None}))


@pytest.mark.parametrize("attributes", [None, ATTRIBUTES])
def test_a_function_sees_all_rows_also_if_keys_are_listed(attributes: Any, shops: Release) -> None:
    seen: list[int] = []

    def weight(table: pa.Table) -> Any:
        seen.append(len(table))
        return table["shop"].to_numpy() * 2.0

    _, [tally] = Selection(shops, SOME, weight, attributes=attributes).tallies()
    same(tally, expected({key: 2.0 * key[1] for key in SOME}))
    assert seen == [len(SHOPS)]


def test_groups(shops: Release) -> None:
    groups, tallies = Selection(shops, "shop > -2", "shop", by=["city", "nullif(shop, 1) % 2 = 0"]).tallies()
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
    groups, tallies = Selection(shops, "false", by="city").tallies()
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
    groups, tallies = Selection(shops, "kind = 'a' or city = 'Nuuk'", "size", "kind", given).tallies()
    assert groups.to_pylist() == [{"kind": "a"}]  # Nuuk has no attributes, so no weight
    same(tallies[0], expected({key: key[1] / 4 for key in SHOPS if key[1] % 2 and key[0] != "Nuuk"}))
    # a function sees them, in the order of the release; the keys without them as well
    _, [tally] = Selection(shops, lambda t: pc.is_null(t["size"]), attributes=given).tallies()
    same(tally, expected({key: 1.0 for key in SHOPS if key[0] == "Nuuk"}))


def test_a_csv_of_attributes_has_the_types_of_the_keys(tmp_path: Path) -> None:
    release = made([("007",), ("7",)], ("code",), cells={("007",): 4, ("7",): 9})
    path = tmp_path / "codes.csv"
    path.write_text("code,price\n007,2.5\n7,1\n")
    _, [tally] = Selection(release, "price > 2", "price", attributes=str(path)).tallies()
    assert (tally.cells.tolist(), tally.weights.tolist()) == ([4], [2.5])


def test_columns_may_have_the_names_that_we_use() -> None:
    names = ("own", "rows", "cell", "keys", "weights", "chosen")
    keys = [(n, 10 * n, n % 2, n % 3, n, 5) for n in range(1, 7)]
    release = made(keys, names, cells={key: key[0] for key in keys})
    groups, tallies = Selection(release, "rows > 10", "weights + keys", by=["cell", "keys"]).tallies()
    assert sorted(map(str, groups.to_pylist())) == sorted(
        {str({"cell": k[2], "keys": k[3]}) for k in keys if k[1] > 10}
    )
    assert sum(t.weights.sum() for t in tallies) == sum(k[4] + k[3] for k in keys if k[1] > 10)
    odd = made([("a",), ("b",)], ('the "key", 1+1',), cells={("a",): 1, ("b",): 2})
    assert Selection(odd, by='the "key", 1+1').tallies()[0].to_pylist() == [{'the "key", 1+1': v} for v in "ab"]
    assert Selection(odd, '"the ""key"", 1+1" = \'a\'').rows()[1].tolist() == [1]


def test_text_that_looks_like_our_sql_is_text() -> None:
    release = made([("x'",), ("{rows}",)], ("key",), cells={("{rows}",): 1, ("x'",): 2})
    groups, tallies = Selection(release, "key = 'x'''", by=["'{rows}'", "'%s'"]).tallies()
    assert groups.to_pylist() == [{"'{rows}'": "{rows}", "'%s'": "%s"}]
    assert tallies[0].cells.tolist() == [2]


def test_keys_only() -> None:
    release = made(SHOPS, ("city", "shop"), keys_only=True)
    groups, tallies = Selection(release, "shop > 6", by="city").tallies()
    assert [t.keys.tolist() for t in tallies] == [[2]] * groups.num_rows == [[2]] * 4


HOSTILE = [
    "",
    "  ",
    "1); COPY (SELECT 1) TO 'stolen.csv'; SELECT (1",
    "1; SELECT 2",
    "1) UNION SELECT (2",
    "1) FROM duckdb_settings() WHERE (true",
    "city = 'Oslo') ORDER BY (1",
    "city = 'Oslo') LIMIT (1",
    "city = 'Oslo'), (true",
    "true) AS x, (true",
    "(SELECT true)",
    "EXISTS (SELECT 1)",
    "shop IN (SELECT 1)",
    "city = (FROM own)",
    "read_csv('/etc/passwd')",
    "read_text('/etc/passwd') = 'x'",
    "(FROM read_text('/etc/passwd')) = 'x'",
    "'/etc/passwd'.read_text() = 'x'",
    "getenv('HOME') = 'x'",
    "getvariable('x') = 'x'",
    "current_setting('threads') = '1'",
    "nextval('s') = 1",
    "pragma_version() = 'x'",
    "PRAGMA database_list",
    "SET threads = 4",
    "ATTACH 'x.db'",
    "INSTALL httpfs",
    "random() < 0.5",
    "uuid() = 'x'",
    "now() > '2020-01-01'",
    "current_timestamp > '2020-01-01'",
    "count(*) > 1",
    "sum(shop) > 1",
    "max(shop) OVER () = shop",
    "row_number() OVER (ORDER BY shop) = 1",
    "shop FILTER (WHERE true)",
    "list_transform([1], lambda x: x)[1] = 1",
    "unnest([true, false])",
    "columns(*)",
    "*",
    "?",
    "$1",
    "#1",
    "own.shop = 1",
    "rowid = 1",
    "token > 1",
    "estimate > 1",
    '"token:cell" > 1',
    "price > 1",
    "system.main.length(city) = 4",
    "error('x') = 'y'",
    "repeat(city, 1000000000) = 'x'",
    "range(1000000000) IS NULL",
    "sleep_ms(100000) IS NULL",
    "query('SELECT 1') = 1",
    "true\0",
    "/* never closed",
    "'never closed",
    "NOT " * 5000 + "true",
    "abs(" * 600 + "1" + ")" * 600 + " = 1",
    "shop = 1" + " OR shop = 1" * 50_000,
    "city",
    "shop",
    "shop + city",
    "city::INTEGER = 1",
    "unknown_function(shop)",
    "length(city, 1, 2) = 1",
    "regexp_matches(city, '(')",
    "CAST(city AS nonsense) = 1",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_an_expression_can_only_select(
    text: str, shops: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for what in ("where", "weight", "by"):
        if what == "weight" and text == "shop":
            continue
        if what == "by" and text in ("city", "shop"):
            continue
        with refused("", hidden=["Traceback"]) as info:
            Selection(shops, **{what: text}).tallies()
        assert len(str(info.value)) < 700
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "shop) FROM (own",
        "shop) LIMIT (1",
        "shop) ORDER BY (1",
        "shop) WHERE (true",
        "shop) UNION SELECT (2",
        "shop) x, (1",
    ],
)
def test_what_is_around_an_expression_is_refused_by_itself(text: str) -> None:
    with refused("where is one SQL expression"):
        check_expression("where", text, ["shop"], syntax, lambda name: Bytes(1, 1), 1)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 2",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SELECT * FROM hidden",
    ],
)
def test_where_expressions_run_nothing_else_could_be_reached(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second wall: even a statement that got through finds nothing."""
    monkeypatch.chdir(tmp_path)
    hidden = pa.table({"a": [1]})
    assert len(hidden) == 1
    with connect({}) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement).fetchall()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("deep", [10, 200, 5000, 40_000])
def test_parentheses_however_deep_are_understood_or_refused(deep: int, shops: Release) -> None:
    try:
        _, [tally] = Selection(shops, "(" * deep + "true" + ")" * deep).tallies()
    except InvalidValue:
        assert deep > 200
    else:
        assert tally.total == len(SHOPS)


def nested(function: str, depth: int) -> str:
    return f"length({(function + '(') * depth}city{')' * depth}) > 0"


GREEDY = [
    nested("hex", 28),
    nested("bin", 10),
    nested("to_base64", 60),
    nested("url_encode", 20),
    "length(" + "replace(" * 4 + "city" + f", 'o', '{'o' * 1000}')" * 4 + ") > 0",
    "length(" + "regexp_replace(" * 30 + "city" + ", '.', '\\0\\0', 'g')" * 30 + ") > 0",
    "length(" + "replace(" * 3 + nested("hex", 9)[7:-5] + f", '4', city || '{'4' * 500}')" * 3 + ") > 0",
    "damerau_levenshtein(" + "hex(" * 14 + "city" + ")" * 14 + ", " + "hex(" * 14 + "city" + ")" * 14 + ") > 0",
]


@pytest.mark.parametrize("text", GREEDY, ids=lambda text: text[:30])
@pytest.mark.parametrize("what", ["where", "weight", "by"])
def test_an_expression_that_may_take_much_memory_is_refused(what: str, text: str, shops: Release) -> None:
    """Before it runs: DuckDB's own limit of memory does not count texts."""
    with refused("take at most 256 MB"):
        Selection(shops, **{what: text if what == "where" else f"({text})::INTEGER"})


@pytest.mark.parametrize("deep", [240, 260])
def test_nesting_is_limited(deep: int, shops: Release) -> None:
    text = "abs(" * deep + "shop" + ")" * deep + " >= 0"
    if deep < 250:
        assert Selection(shops, text).tallies()[1][0].total == len(SHOPS)
    else:
        with refused("where is one SQL expression") as info:
            Selection(shops, text)
        assert "nested too deeply" in str(info.value)


@pytest.mark.parametrize(
    "text",
    [
        "city IN (" + ", ".join(f"'a city with a long name, number {n}'" for n in range(2000)) + ")",
        " OR ".join(f"city = 'a city with a long name, number {n}'" for n in range(1000)),
        "shop" + " + 1" * 200 + " > 0",
        "CASE " + " ".join(f"WHEN shop = {n} THEN 'number {n}'" for n in range(1000)) + " END = 'number 3'",
        "replace(replace(replace(lower(city), 'ä', 'ae'), 'ö', 'oe'), 'ü', 'ue') LIKE '%uerg%'",
        "concat_ws(' ', city, shop::VARCHAR, strftime(DATE '2020-01-01', '%A, %d %B %Y')) <> ''",
        "regexp_replace(regexp_replace(upper(city), '[^A-Z]', '', 'g'), '(.)', '\\1\\1') <> ''",
        "length(" + "hex(" * 8 + "city" + ")" * 8 + ") > 0",
    ],
    ids=lambda text: text[:30],
)
def test_what_people_write_is_not_refused(text: str) -> None:
    many = [(f"a city {n:06d}", 1) for n in range(10_000)]
    _, [tally] = Selection(made(many, ("city", "shop"), keys_only=True), text).tallies()
    assert tally.total <= len(many)


def test_no_key_of_a_release_of_keys_only_may_be_selected() -> None:
    groups, [tally] = Selection(made(SHOPS, ("city", "shop"), keys_only=True), "shop > 1000").tallies()
    assert (len(groups), tally.total) == (0, 0)


def test_every_function_that_returns_texts_has_a_bound_of_their_length() -> None:
    """By DuckDB's own catalogue; those that return short texts are listed here."""
    short = {"chr", "date_add", "dayname", "fdiv", "fmod", "md5", "monthname", "sha256"}
    short |= {"date_part", "datepart"}  # of a list of parts a struct, but lists are not allowed
    rows = duckdb.connect().execute("SELECT function_name, return_type FROM duckdb_functions()").fetchall()
    kinds = ["VARCHAR", "BLOB", "BIT", "ANY", "T", "BIGNUM"]
    for name, kind in rows:
        if name in expressions._ALLOWED and (kind is None or kind in kinds or kind[-1] == "]" or "STRUCT" in kind):
            assert name in expressions._GROWTH or name in expressions._ANY_LENGTH or name in short, (name, kind)


@pytest.mark.parametrize("value", ["a", "ß" * 50, "Ⱥɐ" * 40, "ﬃ" * 30, "שּׁ" * 20, "\x01\x02 %/+é", "0" * 200, "-"])
def test_texts_are_as_short_as_their_bounds(value: str) -> None:
    """The bound of each function against DuckDB itself, which never makes a longer text."""
    literal = "'" + value.replace("'", "''") + "'"
    names = ("bin", "hex", "lower", "nfc_normalize", "reverse", "strip_accents", "upper", "url_encode")
    calls = [f"{name}(city)" for name in names] + ["base64(encode(city))"]
    calls += ["encode(city)::VARCHAR", f"concat_ws({literal}, city, city, city)", "city || city"]
    calls += [f"replace(city, left(city, 1), {literal})", "translate(city, left(city, 1), '😀')"]
    calls += ["regexp_replace(city, '', '\\0\\0--', 'g')", "regexp_replace(city, '(.)(.?)', '\\1\\2\\0', 'g')"]
    calls += ["strftime(TIMESTAMP '2020-09-30 12:34:56.789', '%A %B %c %f %x %X')"]
    size = len(value.encode())
    for call in calls:
        together: list[int] = []
        tree = json.loads(syntax(f"SELECT {call}"))["statements"][0]["node"]["select_list"][0]
        bound = expressions._bytes(tree, {"city": Bytes(size, size)}, 1, together)
        with connect({"own": pa.table({"city": [value]})}) as connection:
            [(text,)] = connection.execute(f"SELECT CAST({call} AS VARCHAR) FROM own").fetchall()
        length = len(text.encode())
        assert length <= bound.longest, call
        assert sum(together) >= bound.together, call


def test_every_function_is_of_one_row_and_always_the_same() -> None:
    rows = duckdb.connect().execute("SELECT function_name, function_type, stability FROM duckdb_functions()").fetchall()
    for name in expressions._FUNCTIONS.split():
        kinds = {(kind, stability) for found, kind, stability in rows if found == name}
        assert kinds <= {("scalar", "CONSISTENT"), ("macro", None)}, name
        assert kinds or name == "if", name  # DuckDB 1.5 has it in its syntax
    for macro in ("date_add", "fdiv", "fmod", "if", "nullif", "split_part"):  # these are made of the former
        assert macro in expressions._FUNCTIONS.split()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"where": 3}, "where is"),
        ({"where": "NULL"}, "where is true or false"),
        ({"where": {"Oslo": 1}}, "where is"),
        ({"where": ATTRIBUTES}, "where is"),
        ({"where": ["Oslo"]}, "a key of where is a tuple of 2"),
        ({"where": [("Oslo", "x")]}, "where has values"),
        ({"where": lambda t: [True]}, "one value for each row"),
        ({"where": lambda t: t["city"]}, "where has values"),
        ({"where": lambda t: None}, "where has values"),
        ({"weight": 3}, "weight is"),
        ({"weight": ["city"]}, "weight is"),
        ({"weight": {("Oslo", 1): "much"}}, "weight has values"),
        ({"weight": {"Oslo": 1}}, "a key of weight is a tuple of 2"),
        ({"weight": "city"}, "a weight is a number"),
        ({"weight": lambda t: t["city"]}, "weight has values"),
        ({"weight": "shop / 0"}, "weights are finite"),
        ({"weight": "'nan'::DOUBLE"}, "weights are finite"),
        ({"weight": "1e200"}, "weights are finite"),
        ({"by": 3}, "by is"),
        ({"by": ["city", 3]}, "by is"),
        ({"by": ["city", "city"]}, "by is"),
        ({"attributes": 3}, "attributes are"),
        ({"attributes": "nowhere.csv"}, "can be read"),
        ({"attributes": "nowhere.txt"}, "attributes are in"),
        ({"attributes": ATTRIBUTES.drop_columns("shop")}, "attributes have the key columns"),
        ({"attributes": ATTRIBUTES.append_column("token", ATTRIBUTES["size"])}, "columns that differ"),
        ({"attributes": ATTRIBUTES.append_column("SIZE", ATTRIBUTES["size"])}, "columns that differ"),
        ({"attributes": ATTRIBUTES.append_column("token:row", ATTRIBUTES["size"])}, "columns that differ"),
        ({"attributes": pa.concat_tables([ATTRIBUTES, ATTRIBUTES])}, "each key once"),
        ({"attributes": ATTRIBUTES.set_column(1, "shop", ATTRIBUTES["kind"])}, "keys of type"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_refused(arguments: dict[str, Any], rule: str, shops: Release) -> None:
    with refused(rule):
        Selection(shops, **arguments).tallies()


def test_what_a_damaged_file_of_attributes_says(shops: Release, tmp_path: Path) -> None:
    for name in ("a.parquet", "a.csv", "a.arrow"):
        (tmp_path / name).write_bytes(b"\x00\x1b[31mnot a table")
        with refused("") as info:
            Selection(shops, attributes=tmp_path / name)
        assert "\x1b" not in str(info.value)


def test_equal_tallies_are_one_key_of_a_cache(shops: Release) -> None:
    first, second = (Selection(shops, "shop > 2", "shop * 0.1").tallies()[1][0] for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Selection(shops, "shop > 2").tallies()[1][0]
    assert first.unweighted == Selection(shops, "shop > 2").tallies()[1][0]
    assert first != 3


def test_pandas_needs_no_arrow_types(shops: Release) -> None:
    frame = pd.DataFrame({"city": ["Oslo", "Rome"], "shop": [1, 2], "x": [math.nan, 2.0]})
    _, [tally] = Selection(shops, weight="x", attributes=frame).tallies()
    assert tally.total == 1


def test_a_condition_on_the_estimate_names_the_remedy(shops: Release) -> None:
    with pytest.raises(InvalidValue, match=r"found the column 'estimate'; .* selected by at_least"):
        shops.sum("estimate > 100")

"""Expressions that try to do more than select."""

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from dpsample import InvalidValue, Release
from dpsample.answers import expressions
from dpsample.answers.expressions import Given
from dpsample.answers.selection import connect, syntax
from shops import SHOPS, made, selection_of
from shops import shops as shops
from support import refused

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
            selection_of(shops, **{what: text}).tallies()
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
    with refused("where must be one SQL expression"):
        Given("where", text, ("shop",)).checked(syntax)


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
        _, [tally] = selection_of(shops, "(" * deep + "true" + ")" * deep).tallies()
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
    with refused("at most 256 MB"):
        selection_of(shops, **{what: text if what == "where" else f"({text})::INTEGER"})


@pytest.mark.parametrize("deep", [240, 260])
def test_nesting_is_limited(deep: int, shops: Release) -> None:
    text = "abs(" * deep + "shop" + ")" * deep + " >= 0"
    if deep < 250:
        assert selection_of(shops, text).tallies()[1][0].total == len(SHOPS)
    else:
        with refused("where must be one SQL expression") as info:
            selection_of(shops, text)
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
    _, [tally] = selection_of(made(many, ("city", "shop"), keys_only=True), text).tallies()
    assert tally.total <= len(many)


def test_no_key_of_a_release_of_keys_only_may_be_selected() -> None:
    groups, [tally] = selection_of(made(SHOPS, ("city", "shop"), keys_only=True), "shop > 1000").tallies()
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
        tree = json.loads(syntax(f"SELECT {call}"))["statements"][0]["node"]["select_list"][0]
        texts = expressions._Texts({"city": expressions.Bytes(size, size)}, 1)
        bound = texts.bytes_of(tree)
        with connect({"own": pa.table({"city": [value]})}) as connection:
            [(text,)] = connection.execute(f"SELECT CAST({call} AS VARCHAR) FROM own").fetchall()
        length = len(text.encode())
        assert length <= bound.longest, call
        assert sum(texts.held) >= bound.together, call


@pytest.mark.parametrize("call", ["replace(shop, 'a')", "regexp_replace(shop)", "damerau_levenshtein()"])
def test_a_call_with_too_few_arguments_is_refused_by_duckdb(call: str) -> None:
    """Its memory is bounded before DuckDB counts its arguments."""
    checked = Given("by", call, ("shop",)).checked(syntax)
    expressions.check_memory("by", call, checked, lambda _: expressions.Bytes(9, 9), 1)


def test_every_function_is_of_one_row_and_always_the_same() -> None:
    rows = duckdb.connect().execute("SELECT function_name, function_type, stability FROM duckdb_functions()").fetchall()
    for name in expressions._FUNCTIONS.split():
        kinds = {(kind, stability) for found, kind, stability in rows if found == name}
        assert kinds <= {("scalar", "CONSISTENT"), ("macro", None)}, name
        assert kinds or name == "if", name  # DuckDB 1.5 has it in its syntax
    for macro in ("date_add", "fdiv", "fmod", "if", "nullif", "split_part"):  # these are made of the former
        assert macro in expressions._FUNCTIONS.split()

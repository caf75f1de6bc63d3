"""SQL expressions over public columns: checked, then run where they can touch nothing else.

An expression is one scalar expression over named columns. Its syntax tree must consist of the parts and functions
listed here, whatever else a version of DuckDB may offer; and it runs in a DuckDB of its own, in memory, without
files, network, extensions, or any way to change that.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from dpsample.errors import InvalidValue

LONGEST = 100_000  # characters
_PARTS = {
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION"),
    *("CONSTANT", "FUNCTION", "OPERATOR", "TYPE"),
}
# nothing that reads, waits, draws, fails on purpose, depends on the machine, or makes much out of little
_FUNCTIONS = """
    % & * ** + - / // << >> @ ^ ^@ | || ~ ~~ ~~* ~~~ !~~ !~~*
    abs acos add array_extract ascii asin atan atan2 base64 bin bit_count bit_length cbrt ceil ceiling century
    char_length character_length chr concat concat_ws contains cos cot damerau_levenshtein date_add date_diff
    date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade
    degrees divide editdist3 encode ends_with epoch epoch_ms epoch_ns epoch_us even exp fdiv floor fmod from_base64
    from_hex gcd greatest greatest_common_divisor hamming hash hex hour if ilike_escape instr isfinite isinf
    isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity julian last_day lcase lcm least
    least_common_multiple left len length levenshtein like_escape ln log log10 log2 lower ltrim make_date make_time
    make_timestamp md5 microsecond millennium millisecond minute mismatches mod month monthname multiply
    nfc_normalize not_ilike_escape not_like_escape nullif octet_length ord pi position pow power
    prefix quarter radians regexp_extract regexp_full_match regexp_matches regexp_replace replace reverse
    right round round_even sha256 sign sin split_part sqrt starts_with strftime strip_accents strlen strpos strptime
    substr substring subtract suffix tan time_bucket to_base64 to_days to_hours to_minutes to_months
    to_seconds to_weeks to_years translate trim rtrim trunc try_strptime ucase unhex unicode upper url_decode url_encode
    week weekday weekofyear xor year yearweek
"""
_ALLOWED = frozenset(_FUNCTIONS.split())


def connect(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB that sees these tables and nothing else; one thread, so that equal questions add up equally."""
    connection = duckdb.connect()
    connection.execute(
        "SET enable_external_access = false; SET autoload_known_extensions = false; "
        "SET autoinstall_known_extensions = false; SET python_enable_replacements = false; SET threads = 1"
    )
    for name, table in tables.items():
        connection.register(name, table)
    connection.execute("SET lock_configuration = true")
    return connection


def checked(
    connection: duckdb.DuckDBPyConnection, what: str, text: str, columns: Iterable[str]
) -> tuple[str, set[str]]:
    """Check an expression; return it as it is to be used, in parentheses, and the columns that it names.

    >>> with connect({}) as connection:
    ...     checked(connection, "where", "city = 'Oslo' -- or so", ["city", "shop"])
    ("(\\ncity = 'Oslo' -- or so\\n)", {'city'})
    """
    rule = f"{what} is one SQL expression on the columns {shown(columns)}"
    if len(text) > LONGEST or not text.strip() or "\0" in text:
        found = "an empty one" if not text.strip() else "a NUL in it" if "\0" in text else f"{len(text):,} characters"
        raise InvalidValue(rule, found, f'write one of up to {LONGEST:,} characters, such as "length(name) > 3"')
    wrapped = f"(\n{text}\n)"  # a comment at its end ends before the parenthesis
    frame, _ = _parsed(connection, rule, "(\n1\n)")
    found_frame, tree = _parsed(connection, rule, wrapped)
    if found_frame != frame or tree is None:
        raise InvalidValue(rule, quoted(text), "leave out everything that is not part of one expression")
    named = {name.lower(): name for name in columns}
    used: set[str] = set()
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, dict):
            if "class" in node:
                used |= _allowed(node, rule, text, named)
            todo += node.values()
    return wrapped, used


def _parsed(connection: duckdb.DuckDBPyConnection, rule: str, wrapped: str) -> tuple[Any, Any]:
    """Return the syntax of ``SELECT`` around the expression, and the expression's own; None if there are several."""
    statement = "SELECT " + wrapped
    try:
        [(serialized,)] = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
        parsed = json.loads(serialized)
    except (duckdb.Error, RecursionError, ValueError):
        raise InvalidValue(rule, "one that is nested too deeply, or is not text", "simplify it") from None
    if parsed["error"]:
        raise InvalidValue(rule, one_line(str(parsed["error_message"])), "check its syntax")
    if len(parsed["statements"]) != 1:
        return None, None
    node = parsed["statements"][0]["node"]
    expressions = node.pop("select_list", [])
    return _without_places(parsed), expressions[0] if len(expressions) == 1 else None


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _without_places(part) for name, part in tree.items() if not name.startswith("query_location")}
    return [_without_places(part) for part in tree] if isinstance(tree, list) else tree


def _allowed(node: dict[str, Any], rule: str, text: str, named: dict[str, str]) -> set[str]:
    """Refuse a part that is not listed; return the columns that this very part names."""
    kind = node["class"]
    if kind == "COLUMN_REF":
        path = node["column_names"]
        if len(path) != 1 or path[0].lower() not in named:
            raise InvalidValue(rule, f"the column {'.'.join(path)!r}", "name one of these, and put text in 'quotes'")
        return {named[path[0].lower()]}
    if kind == "FUNCTION":
        name = str(node["function_name"])
        plain = not (node.get("schema") or node.get("catalog") or node.get("distinct") or node.get("filter"))
        if name.lower() not in _ALLOWED or not plain or node["order_bys"]["orders"]:
            raise InvalidValue(
                f"{what_of(rule)} uses plain functions of one key's values, no aggregates, nothing random",
                f"{name!r} in {quoted(text)}",
                "see the list of functions in dpsample.expressions, or give a Python function",
            )
    elif kind not in _PARTS:
        raise InvalidValue(rule, f"{kind.lower().replace('_', ' ')} in {quoted(text)}", "write it without")
    return set()


def what_of(rule: str) -> str:
    """The argument that a rule is about."""
    return rule.split(" ", 1)[0]


def shown(columns: Iterable[str]) -> str:
    """Name columns, not too many of them."""
    names = list(columns)
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def quoted(text: str) -> str:
    """Show an expression in a message."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def one_line(message: str) -> str:
    """Keep the first line of another program's message, without anything that commands a terminal."""
    first = message.strip().split("\n", 1)[0]
    return "".join(c if c.isprintable() else "?" for c in first[:200]).replace("; ", ", ") or "an error"

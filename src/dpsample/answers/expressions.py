"""SQL expressions on public columns: which ones are allowed, and how much memory they may take.

An expression is one scalar expression on named columns. Its syntax tree must consist of the parts and functions that
are listed here, whatever else a version of DuckDB may offer. Nesting is limited, and so is the memory for texts, which
DuckDB's own limit does not cover: a bound on the bytes of every text follows from the tree and the columns. This module
only looks at the tree; `selection` has DuckDB parse and run the expression.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue

LONGEST = 100_000  # characters
DEEPEST = 250  # levels of nesting; DuckDB and Python have stacks for some 1,000
MEMORY = 256 << 20  # bytes of texts that an expression may hold at once
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
# functions that return texts, by how many bytes they return at most for each byte of their arguments
_TIMES_1 = """
    || array_extract concat concat_ws encode from_base64 from_hex greatest if least left ltrim nullif regexp_extract
    reverse right rtrim split_part strip_accents substr substring trim unhex url_decode
"""
_TIMES_2 = "hex lcase lower ucase upper"
_TIMES_4 = "base64 to_base64 translate"
_GROWTH = {
    **dict.fromkeys(_TIMES_1.split(), 1),
    **dict.fromkeys(_TIMES_2.split(), 2),
    **dict.fromkeys(_TIMES_4.split(), 4),
    **dict.fromkeys(["nfc_normalize", "url_encode"], 3),
    **dict.fromkeys(["replace", "regexp_replace"], 0),  # by the length of the replacement
    "bin": 8,
    "strftime": 32,
}
# functions of numbers, and also of bits, lists and numbers of any length, which grow as texts do
_ANY_LENGTH = frozenset(["&", "+", "-", "<<", ">>", "add", "subtract", "xor", "|", "~"])
_TABLES = frozenset(
    ["damerau_levenshtein", "editdist3"]
)  # hold a number for each pair of characters
_BOOLEANS = frozenset(["OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"])
_TEXT_TYPES = "BINARY BLOB BPCHAR BYTEA CHAR NVARCHAR STRING TEXT VARBINARY VARCHAR"
_SHORT_TYPES = """
    BIGINT BOOL BOOLEAN DATE DECIMAL DOUBLE FLOAT FLOAT4 FLOAT8 HUGEINT INT INT1 INT2 INT4 INT8 INTEGER INTERVAL LOGICAL
    NUMERIC REAL SMALLINT TIME TIMESTAMP TIMESTAMPTZ TINYINT UBIGINT UHUGEINT UINTEGER USMALLINT UTINYINT UUID
"""
_SHORT = 64  # bytes of a number, a date or a hash, as text


@dataclass(frozen=True)
class Bytes:
    """Upper bounds of the bytes of texts: of the longest one, and of all that are held at once."""

    longest: int
    together: int


def check_expression(
    what: str,
    text: str,
    columns: Iterable[str],
    parse: Callable[[str], Any],
    bytes_of: Callable[[str], Bytes],
    rows: int,
) -> tuple[str, set[str]]:
    """Check an expression; return it in parentheses, ready for use, and the columns that it names.

    `parse` returns the syntax tree of a statement, as DuckDB writes it; `bytes_of` returns the bound for the texts of a
    column; `rows` is the number of rows for which values are held at once.
    """
    wanted = f"{what} must be one SQL expression on the columns {listed(columns)}"
    if len(text) > LONGEST or not text.strip() or "\0" in text:
        given = (
            "an empty one"
            if not text.strip()
            else "one with a NUL"
            if "\0" in text
            else f"{len(text):,} characters"
        )
        raise InvalidValue(
            f"{wanted}, not {given}",
            f'write up to {LONGEST:,} characters, such as "length(name) > 3"',
        )
    wrapped = f"(\n{text}\n)"  # a comment at its end ends before the parenthesis
    frame, _ = _parsed(parse, wanted, "(\n1\n)")
    frame_here, tree = _parsed(parse, wanted, wrapped)
    if frame_here != frame or tree is None:
        raise InvalidValue(
            f"{wanted}, not {quoted(text)}",
            "leave out everything that is not part of one expression",
        )
    named = {name.lower(): name for name in columns}
    used: set[str] = set()
    todo = [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        used |= _named_columns(node, what, wanted, text, named)
        if depth > DEEPEST:
            raise InvalidValue(
                f"{wanted}, not nested too deeply", f"simplify it to {DEEPEST} levels"
            )
        todo += [(part, depth + 1) for part in _parts_of(node)]
    together: list[int] = []
    _bytes(tree, {name.lower(): bytes_of(name) for name in used}, rows, together)
    if sum(together) > MEMORY:
        raise InvalidValue(
            f"the texts that {what} computes can take at most {MEMORY >> 20} MB, and {quoted(text)} may take more",
            "nest fewer functions that make texts longer, such as hex and replace, or give a Python function",
        )
    return wrapped, used


def pinned_columns(text: str, parse: Callable[[str], Any]) -> set[str]:
    """Return the columns, in lower case, that an expression which was checked sets equal to a constant.

    >>> from dpsample.answers.selection import syntax
    >>> sorted(pinned_columns("Word = 'cat' AND 3 = size", syntax)), pinned_columns("a = 1 OR b = 2", syntax)
    (['size', 'word'], set())
    """
    _, tree = _parsed(parse, "", f"(\n{text}\n)")
    todo, pinned = [tree], set()
    while todo:
        node = todo.pop()
        parts = list(_parts_of(node))
        if node["type"] == "CONJUNCTION_AND":
            todo += parts
        elif node["type"] == "COMPARE_EQUAL" and {part["class"] for part in parts} == {
            "COLUMN_REF",
            "CONSTANT",
        }:
            pinned |= {
                part["column_names"][0].lower() for part in parts if part["class"] == "COLUMN_REF"
            }
    return pinned


def _parsed(parse: Callable[[str], Any], wanted: str, wrapped: str) -> tuple[Any, Any]:
    """Return the syntax of ``SELECT`` around the expression, and the expression's own; None if there are several."""
    try:
        parsed = json.loads(parse("SELECT " + wrapped))
    except (RecursionError, ValueError):
        parsed = None
    if parsed is None:
        raise InvalidValue(f"{wanted}, not nested too deeply and of text", "simplify it")
    if parsed["error"]:
        raise InvalidValue(
            f"{wanted}; {one_line(str(parsed['error_message']))}", "check its syntax"
        )
    if len(parsed["statements"]) != 1:
        return None, None
    node = parsed["statements"][0]["node"]
    expressions = node.pop("select_list", [])
    return _without_places(parsed), expressions[0] if len(expressions) == 1 else None


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {
            name: _without_places(part)
            for name, part in tree.items()
            if not name.startswith("query_location")
        }
    return [_without_places(part) for part in tree] if isinstance(tree, list) else tree


def _parts_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the expressions right below one, in order."""
    todo = list(node.values())[::-1]
    while todo:
        part = todo.pop()
        if isinstance(part, dict) and "class" in part:
            yield part
        elif isinstance(part, dict | list):
            todo += list(part.values() if isinstance(part, dict) else part)[::-1]


def _named_columns(
    node: dict[str, Any], what: str, wanted: str, text: str, named: dict[str, str]
) -> set[str]:
    """Refuse a part that is not listed; return the columns that this very part names."""
    kind = node["class"]
    if kind == "COLUMN_REF":
        path = node["column_names"]
        if len(path) != 1 or path[0].lower() not in named:
            remedy = "name one of these, and put text in 'quotes'"
            if path[-1].lower() in ("estimate", "low", "high", "token"):
                remedy += "; keys of a least frequency are selected by at_least=..."
            raise InvalidValue(f"{wanted}, not the column {'.'.join(path)!r}", remedy)
        return {named[path[0].lower()]}
    if kind == "FUNCTION":
        name = str(node["function_name"])
        plain = not (
            node.get("schema") or node.get("catalog") or node.get("distinct") or node.get("filter")
        )
        if name.lower() not in _ALLOWED or not plain or node["order_bys"]["orders"]:
            raise InvalidValue(
                f"{what} can use plain functions of one key's values, not {name!r} in {quoted(text)}",
                "see the list of functions in dpsample.answers.expressions, or give a Python function",
            )
    elif kind not in _PARTS:
        raise InvalidValue(
            f"{wanted}, not {kind.lower().replace('_', ' ')} in {quoted(text)}", "write it without"
        )
    return set()


def _bytes(
    node: dict[str, Any], columns: Mapping[str, Bytes], rows: int, together: list[int]
) -> Bytes:
    """Bound the texts that a part of an expression computes, and note in `together` all that are held at once."""
    kind, short = node["class"], Bytes(_SHORT, _SHORT * rows)
    if kind == "COLUMN_REF":
        return columns[node["column_names"][0].lower()]
    if kind == "CONSTANT":
        literal = node.get("literal") or node.get("value") or {}
        length = len(str(literal.get("text", literal.get("value", node))).encode(errors="replace"))
        return Bytes(length, length * rows)
    parts = [_bytes(part, columns, rows, together) for part in _parts_of(node)]
    if _is_short(node, parts):
        return short
    longest, held = sum(part.longest for part in parts), sum(part.together for part in parts)
    name = str(node.get("function_name", "")).lower()
    if kind == "CASE":
        longest = max(part.longest for part in parts)
    elif kind in ("CAST", "COLLATE"):
        growth = (
            4 if _type_of(node) in _TEXT_TYPES.split() or kind == "COLLATE" else 16
        )  # a byte as \xAB, an element of a list
        longest, held = growth * longest + _SHORT, growth * held + _SHORT * rows
    elif name in ("replace", "regexp_replace"):
        # one replacement for each byte and one more; in a pattern's replacement, \1 stands for a part of the text
        growth = max(1, parts[2].longest) if name == "replace" else 1 + 2 * parts[2].longest
        longest, held = (parts[0].longest + 1) * growth, (parts[0].together + rows) * growth
    elif name in _TABLES:
        together.append(8 * (parts[0].longest + 2) * (parts[-1].longest + 2))
        return short
    else:
        growth = len(parts) if name == "concat_ws" else _GROWTH.get(name, 1)
        longest, held = growth * longest, growth * held
    together.append(min(held, longest * rows))
    return Bytes(longest, together[-1])


def _is_short(node: dict[str, Any], parts: list[Bytes]) -> bool:
    """Whether a part of an expression is a number, a date, a boolean or a hash."""
    kind, name = node["class"], str(node.get("function_name", "")).lower()
    if kind == "FUNCTION" and name in _ANY_LENGTH:
        return all(part.longest <= _SHORT for part in parts)
    if kind == "FUNCTION":
        return name not in _GROWTH and name not in _TABLES
    if kind == "OPERATOR":
        return node["type"].startswith("COMPARE_") or node["type"] in _BOOLEANS
    return (
        _type_of(node) in _SHORT_TYPES.split()
        if kind == "CAST"
        else kind not in ("CASE", "COLLATE")
    )


def _type_of(cast: dict[str, Any]) -> str:
    """The type of a cast, as DuckDB 2 or 1 writes it."""
    return str(
        (cast.get("type_expr") or {}).get("type_name") or (cast.get("cast_type") or {}).get("id")
    ).upper()


def listed(columns: Iterable[str]) -> str:
    """Name columns for a message, at most 20."""
    names = list(columns)
    return ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")


def quoted(text: str) -> str:
    """Quote an expression for a message, shortened."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def one_line(message: str) -> str:
    """Keep the first line of another program's message, without anything that commands a terminal."""
    first = message.strip().split("\n", 1)[0]
    return (
        "".join(c if c.isprintable() else "?" for c in first[:200]).replace("; ", ", ")
        or "an error"
    )

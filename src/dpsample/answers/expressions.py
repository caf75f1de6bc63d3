"""SQL expressions on public columns: which ones are allowed, and how much memory they may take.

An expression is one scalar expression on named columns. Its syntax tree must consist of the parts and functions that
are listed here, whatever else a version of DuckDB may offer. Nesting is limited, and so is the memory for texts, which
DuckDB's own limit does not cover: a bound on the bytes of every text follows from the tree and the columns. This module
only looks at the tree; `selection` has DuckDB parse and run the expression.

A tree is the JSON of DuckDB's `json_serialize_sql`. A *node* is a part of it that is an expression: it has a class,
such as FUNCTION, and the expressions that it is made of somewhere below.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from dpsample.errors import InvalidValue

LONGEST = 100_000  # characters: far more than anybody writes, and parsed at once
DEEPEST = 250  # levels of nesting; DuckDB and Python have stacks for some 1,000
MEMORY = (
    256 << 20
)  # bytes of texts that an expression may hold at once: room for them on any machine
_NAMED_IN_MESSAGES = 20  # columns, at most
_SHOWN_OF_TEXT = 80  # characters of an expression in a message
_SHOWN_OF_ERRORS = 200  # characters of another program's message
# the classes of nodes that may occur
_CLASSES = {
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
# the columns of a release that no question can name: keys of a frequency are selected in another way
_NUMBERS = ("estimate", "low", "high", "token")
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
# functions that hold a number of 8 bytes for each pair of characters
_TABLES = frozenset(["damerau_levenshtein", "editdist3"])
_BOOLEANS = frozenset(["OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"])
# types by their names in casts: those of texts, and those whose values have at most `_SHORT` bytes as text
_TEXT_NAMES = "BINARY BLOB BPCHAR BYTEA CHAR NVARCHAR STRING TEXT VARBINARY VARCHAR"
_TEXT_TYPES = frozenset(_TEXT_NAMES.split())
_SHORT_NAMES = """
    BIGINT BOOL BOOLEAN DATE DECIMAL DOUBLE FLOAT FLOAT4 FLOAT8 HUGEINT INT INT1 INT2 INT4 INT8 INTEGER INTERVAL LOGICAL
    NUMERIC REAL SMALLINT TIME TIMESTAMP TIMESTAMPTZ TINYINT UBIGINT UHUGEINT UINTEGER USMALLINT UTINYINT UUID
"""
_SHORT_TYPES = frozenset(_SHORT_NAMES.split())
_SHORT = 64  # bytes of a number, a date or a hash, as text


@dataclass(frozen=True)
class Bytes:
    """Upper bounds of the bytes of texts: of the longest one, and of all that are held at once."""

    longest: int
    together: int

    def __add__(self, other: "Bytes") -> "Bytes":
        return Bytes(self.longest + other.longest, self.together + other.together)

    def times(self, growth: int) -> "Bytes":
        """Return the bounds of texts that are longer by this factor."""
        return Bytes(self.longest * growth, self.together * growth)


@dataclass(frozen=True)
class Checked:
    """An expression whose parts are all allowed.

    sql      the expression in parentheses, ready for use in a statement
    columns  the columns that it names
    tree     its syntax tree
    """

    sql: str
    columns: frozenset[str]
    tree: dict[str, Any]


@dataclass(frozen=True)
class Given:
    """An expression as it was given: the name of the argument, its text, and the columns that it may name.

    Without `columns`, these are not known yet: the expression may name any, which its data must have.
    """

    argument: str
    text: str
    columns: tuple[str, ...] | None

    def checked(self, parse: Callable[[str], str]) -> Checked:
        """Check each part of the expression. `parse` returns the syntax tree of a statement, as DuckDB writes it."""
        self._check_text()
        # a comment at the end of the text ends before the parenthesis
        sql = f"(\n{self.text}\n)"
        # a text that closes the parenthesis, and goes on, has another statement around it than 1 has
        statement_of_one, _ = self._parsed(parse, "(\n1\n)")
        statement, tree = self._parsed(parse, sql)
        if statement != statement_of_one or tree is None:
            self._refuse(
                quoted(self.text), "leave out everything that is not part of one expression"
            )
        columns = self._checked_nodes(tree)
        return Checked(sql, frozenset(columns), tree)

    def _check_text(self) -> None:
        remedy = f'write up to {LONGEST:,} characters, such as "length(name) > 3"'
        if not self.text.strip():
            self._refuse("an empty one", remedy)
        if "\0" in self.text:
            self._refuse("one with a NUL", remedy)
        if len(self.text) > LONGEST:
            self._refuse(f"{len(self.text):,} characters", remedy)

    def _parsed(self, parse: Callable[[str], str], sql: str) -> tuple[Any, Any]:
        """Return the syntax of ``SELECT`` around the expression, and its own tree; None if there are several."""
        try:
            parsed = json.loads(parse("SELECT " + sql))
        except (RecursionError, ValueError):
            problem = f"{self._must}, not nested too deeply and of text"
            raise InvalidValue(problem, "simplify it") from None
        if parsed["error"]:
            problem = f"{self._must}; {one_line(str(parsed['error_message']))}"
            remedy = 'check its syntax, and write a column that is a word of SQL as "at"'
            raise InvalidValue(problem, remedy)
        if len(parsed["statements"]) != 1:
            return None, None
        select = parsed["statements"][0]["node"]
        expressions = select.pop("select_list", [])
        tree = expressions[0] if len(expressions) == 1 else None
        return _without_places(parsed), tree

    def _checked_nodes(self, tree: dict[str, Any]) -> set[str]:
        """Return the columns that the nodes of a tree name; refuses nodes that are not allowed, and deep nesting."""
        columns = set()
        waiting = [(tree, 1)]
        while waiting:
            node, depth = waiting.pop()
            if depth > DEEPEST:
                self._refuse("nested too deeply", f"simplify it to {DEEPEST} levels")
            kind = node["class"]
            if kind == "COLUMN_REF":
                columns.add(self._checked_column(node))
            elif kind == "FUNCTION":
                self._check_function(node)
            elif kind not in _CLASSES:
                part = kind.lower().replace("_", " ")
                self._refuse(f"{part} in {quoted(self.text)}", "write it without")
            waiting += [(part, depth + 1) for part in _parts_of(node)]
        return columns

    def _checked_column(self, node: dict[str, Any]) -> str:
        """Return the column that a node names, as it is written in `columns`."""
        path = node["column_names"]
        if self.columns is None:
            if len(path) > 1:
                self._refuse(f"the column {'.'.join(path)!r}", "put text in 'quotes'")
            return str(path[0])
        by_lower_case = {name.lower(): name for name in self.columns}
        column = by_lower_case.get(path[0].lower())
        if len(path) == 1 and column is not None:
            return column
        remedy = "name one of these, and put text in 'quotes'"
        if path[-1].lower() in _NUMBERS:
            remedy += "; keys of a least frequency are selected by at_least=..."
        return self._refuse(f"the column {'.'.join(path)!r}", remedy)

    def _check_function(self, node: dict[str, Any]) -> None:
        name = str(node["function_name"])
        has_extras = any(node.get(extra) for extra in ("schema", "catalog", "distinct", "filter"))
        is_plain = not has_extras and not node["order_bys"]["orders"]
        if name.lower() in _ALLOWED and is_plain:
            return
        one = "key" if self.columns is not None else "row"
        remedy = "see the list of functions in dpsample.answers.expressions"
        if self.columns is not None:
            remedy += ", or give a Python function"
        raise InvalidValue(
            f"{self.argument} can use plain functions of one {one}'s values, not {name!r} in {quoted(self.text)}",
            remedy,
        )

    @property
    def _must(self) -> str:
        columns = "of one row" if self.columns is None else listed(self.columns)
        return f"{self.argument} must be one SQL expression on the columns {columns}"

    def _refuse(self, given: str, remedy: str) -> NoReturn:
        raise InvalidValue(f"{self._must}, not {given}", remedy)


def check_memory(
    argument: str,
    text: str,
    checked: Checked,
    bytes_of: Callable[[str], Bytes],
    rows: int,
) -> None:
    """Refuse an expression whose texts may take too much memory.

    `bytes_of` returns the bounds for a column; `rows` is the number of rows for which values are held at once.
    """
    columns = {name.lower(): bytes_of(name) for name in checked.columns}
    texts = _Texts(columns, rows)
    texts.bytes_of(checked.tree)
    if sum(texts.held) > MEMORY:
        raise InvalidValue(
            f"the texts that {argument} computes can take at most {MEMORY >> 20} MB, and {quoted(text)} may take more",
            "nest fewer functions that make texts longer, such as hex and replace, or give a Python function",
        )


def pinned_columns(text: str, parse: Callable[[str], str]) -> set[str]:
    """Return the columns, in lower case, that an expression which was checked sets equal to a constant.

    >>> from dpsample.answers.selection import syntax
    >>> sorted(pinned_columns("Word = 'cat' AND 3 = size", syntax)), pinned_columns("a = 1 OR b = 2", syntax)
    (['size', 'word'], set())
    """
    _, tree = Given("where", text, ())._parsed(parse, f"(\n{text}\n)")
    pinned: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        parts = list(_parts_of(node))
        if node["type"] == "CONJUNCTION_AND":
            waiting += parts
        elif node["type"] == "COMPARE_EQUAL":
            pinned |= _equal_to_a_constant(parts)
    return pinned


def _equal_to_a_constant(parts: list[dict[str, Any]]) -> set[str]:
    """Return the column of a comparison, in lower case, if its other side is a constant."""
    classes = {part["class"] for part in parts}
    if classes != {"COLUMN_REF", "CONSTANT"}:
        return set()
    columns = [part for part in parts if part["class"] == "COLUMN_REF"]
    return {column["column_names"][0].lower() for column in columns}


def _without_places(tree: Any) -> Any:
    """Return a tree without the places in the text, which differ between expressions of one structure."""
    if isinstance(tree, list):
        return [_without_places(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    kept = [name for name in tree if not name.startswith("query_location")]
    return {name: _without_places(tree[name]) for name in kept}


def _parts_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the expressions right below one, in order."""
    waiting = list(node.values())[::-1]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and "class" in part:
            yield part
        elif isinstance(part, dict):
            waiting += list(part.values())[::-1]
        elif isinstance(part, list):
            waiting += part[::-1]


class _Texts:
    """The bounds of the texts that an expression computes, from the bounds of its columns (in lower case).

    `held` collects, for each node that computes texts, the bytes of all that are held at once.
    """

    def __init__(self, columns: Mapping[str, Bytes], rows: int) -> None:
        self._columns = columns
        self._rows = rows
        self._short = Bytes(_SHORT, _SHORT * rows)
        self.held: list[int] = []

    def bytes_of(self, node: dict[str, Any]) -> Bytes:
        """Return the bounds of a node, after those of its parts."""
        kind = node["class"]
        if kind == "COLUMN_REF":
            return self._columns[node["column_names"][0].lower()]
        if kind == "CONSTANT":
            length = _length_of_constant(node)
            return Bytes(length, length * self._rows)
        parts = [self.bytes_of(part) for part in _parts_of(node)]
        if _is_short(node, parts):
            return self._short
        if _function_of(node) in _TABLES and parts:
            # a table with a row for each character of one text, and a column for each of the other
            cells = (parts[0].longest + 2) * (parts[-1].longest + 2)
            self.held.append(8 * cells)
            return self._short
        grown = self._grown(node, parts)
        held = min(grown.together, grown.longest * self._rows)
        self.held.append(held)
        return Bytes(grown.longest, held)

    def _grown(self, node: dict[str, Any], parts: list[Bytes]) -> Bytes:
        """Return the bounds of what a node makes of the texts of its parts."""
        kind = node["class"]
        name = _function_of(node)
        together = sum(parts, Bytes(0, 0))
        if kind == "CASE":  # one of the parts
            longest = max(part.longest for part in parts)
            return Bytes(longest, together.together)
        if kind in ("CAST", "COLLATE"):
            # to a text, a byte becomes \xAB; to another type, it may become an element of a list
            is_text = kind == "COLLATE" or _type_of(node) in _TEXT_TYPES
            return together.times(4 if is_text else 16) + self._short
        if name in ("replace", "regexp_replace") and len(parts) >= 3:  # DuckDB refuses fewer
            text, _, replacement = parts[:3]
            # one replacement for each byte and one more
            with_one_more = text + Bytes(1, self._rows)
            if name == "replace":
                return with_one_more.times(max(1, replacement.longest))
            # in the replacement of a pattern, \1 stands for a part of the text
            return with_one_more.times(1 + 2 * replacement.longest)
        if name == "concat_ws":
            return together.times(len(parts))
        return together.times(_GROWTH.get(name, 1))


def _length_of_constant(node: dict[str, Any]) -> int:
    """Return the bytes of a constant as text, or more."""
    literal = node.get("literal") or node.get("value") or {}
    value = literal.get("text", literal.get("value", node))
    return len(str(value).encode(errors="replace"))


def _function_of(node: dict[str, Any]) -> str:
    """Return the name of the function that a node calls; empty if it calls none."""
    return str(node.get("function_name", "")).lower()


def _is_short(node: dict[str, Any], parts: list[Bytes]) -> bool:
    """Whether a node computes a number, a date, a boolean or a hash."""
    kind = node["class"]
    name = _function_of(node)
    if kind == "FUNCTION" and name in _ANY_LENGTH:
        return all(part.longest <= _SHORT for part in parts)
    if kind == "FUNCTION":
        return name not in _GROWTH and name not in _TABLES
    if kind == "OPERATOR":
        return node["type"].startswith("COMPARE_") or node["type"] in _BOOLEANS
    if kind == "CAST":
        return _type_of(node) in _SHORT_TYPES
    return kind not in ("CASE", "COLLATE")


def _type_of(cast: dict[str, Any]) -> str:
    """Return the type of a cast, as DuckDB 2 or 1 writes it."""
    in_version_2 = (cast.get("type_expr") or {}).get("type_name")
    in_version_1 = (cast.get("cast_type") or {}).get("id")
    return str(in_version_2 or in_version_1).upper()


def listed(columns: Iterable[str]) -> str:
    """Return the names of columns for a message, at most 20."""
    names = list(columns)
    shown = ", ".join(map(repr, names[:_NAMED_IN_MESSAGES]))
    return f"{shown}, ..." if len(names) > _NAMED_IN_MESSAGES else shown


def quoted(text: str) -> str:
    """Return an expression in quotes for a message, shortened."""
    if len(text) > _SHOWN_OF_TEXT:
        text = text[: _SHOWN_OF_TEXT - 3] + "..."
    return repr(text)


def one_line(message: str) -> str:
    """Return the first line of another program's message, without anything that commands a terminal."""
    first, *_ = message.strip().split("\n", 1)
    printable = [c if c.isprintable() else "?" for c in first[:_SHOWN_OF_ERRORS]]
    return "".join(printable).replace("; ", ", ") or "an error"

"""Every refusal of the library, collected from its source.

A refusal states a rule, what was found, and the remedy. What is put into a message when it is raised is shown by a word
in capital letters; constants of a module are shown by their values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import dpsample

PACKAGE = Path(str(dpsample.__file__)).parent

PROOF = "PROOF"  # in the place of a module: a guarantee was checked and does not hold
IN_THREE = {"InvalidValue", "SystemFailure", "kind"}  # `kind` is one of both, chosen by the cause
IN_ONE = {"PrivacyViolation", "UsageError"}  # the three parts are in one text
PASSED_ON = {"rule", "found", "finding", "remedy", "problem"}  # parameters that hold a part of a message
WORDS = {  # of a name in the source -> what a reader calls it; all others are shown as they are
    **dict.fromkeys(("target", "source", "data", "shown"), "PATH"),
    **dict.fromkeys(("st_nlink", "num_rows", "ndim", "count", "len", "sum"), "NUMBER"),
    **dict.fromkeys(("t", "dtype", "__name__", "__qualname__"), "TYPE"),
    **dict.fromkeys(("s", "hold", "schemes"), "SCHEME"),
    **dict.fromkeys(("found", "finding"), "WHAT WAS GIVEN"),
    **dict.fromkeys(("parsed", "errno"), "ERROR"),
    **dict.fromkeys(("others", "unused"), "OPTION"),
    "_STORED": "VALUES OF ITS TYPE",
    "_role": "ROLE",
    "amount": "EPSILON AND DELTA",
    "protects": "UNIT",
    "f": "FORMAT",
    "i": "FREQUENCY",
    "v": "Q",
    "r": "ROW",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Refusal:
    """A message in its three parts, and the module that raises it."""

    module: str
    rule: str
    found: str
    remedy: str


@dataclass
class Scope:
    """What names stand for at one place of a module: values of the module, local assignments, passed-on arguments."""

    module: Mapping[str, Any]
    functions: Sequence[Function]  # the innermost first
    passed: Mapping[str, tuple[ast.expr, Scope]] = field(default_factory=dict)

    def local(self, name: str) -> bool:
        arguments = {one.arg for f in self.functions for one in [*f.args.args, *f.args.kwonlyargs]}
        return name in arguments or any(True for _ in self.values(name))

    def values(self, name: str) -> Iterator[ast.expr | None]:
        """What is assigned to a local name; None for what no single expression states."""
        for function in self.functions:
            for node in ast.walk(function):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        yield from _assigned(target, node.value, name)
                elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                    yield from _assigned(node.target, node.value, name)
                elif isinstance(node, ast.For | ast.comprehension) and name in _names(node.target):
                    yield None

    def additions(self, name: str) -> Iterator[ast.expr]:
        """What may be appended to a local text."""
        for node in ast.walk(self.functions[0]):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                yield node.value


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _assigned(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr | None]:
    if isinstance(target, ast.Name):
        if target.id == name:
            yield value
    elif isinstance(target, ast.Tuple):
        for n, one in enumerate(target.elts):
            if isinstance(one, ast.Name) and one.id == name:
                yield value.elts[n] if isinstance(value, ast.Tuple) else None


def evaluated(node: ast.expr, scope: Scope) -> Any:
    """The value of an expression of a module's constants alone; None for any other."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    stored = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    free = {n.id for n in names} - stored
    known = {name for name in free if name in scope.module and not scope.local(name)}
    if not known or free - known - {"str", "sorted", "map", "repr", "len", "int"}:
        return None
    expression = ast.fix_missing_locations(ast.Expression(node))
    value = eval(compile(expression, "constants", "eval"), dict(scope.module))  # our own source
    return value if isinstance(value, str | int | float) else None


def word(node: ast.AST) -> str:
    """A word in capital letters for what an expression puts into a message."""
    if isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Call):
        named = _error_name(node)
        if named in WORDS:
            name = named
        elif node.args and not all(isinstance(one, ast.Constant) for one in node.args):
            return word(node.args[-1])
        else:
            return word(node.func.value if isinstance(node.func, ast.Attribute) else node.func)
    elif isinstance(node, ast.Subscript):
        return word(node.value)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp):
        return word(node.elt)
    elif isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
        return f"{word(node.left)} {'-' if isinstance(node.op, ast.Sub) else '+'} {node.right.value!r}"
    else:
        inner = [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)]
        return word(inner[0]) if inner else "VALUE"
    return WORDS.get(name, name).strip("_").replace("_", " ").upper()


def rendered(node: ast.expr, scope: Scope, depth: int = 0) -> str:
    """The text of a part of a message."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _put_in(part, scope, depth) if isinstance(part, ast.FormattedValue) else rendered(part, scope, depth)
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and (_is_text(node.left) or _is_text(node.right)):
        if isinstance(node.op, ast.Mult):  # a text, or nothing
            return f"[{rendered(node.left, scope, depth)}]"
        return rendered(node.left, scope, depth) + rendered(node.right, scope, depth)
    if isinstance(node, ast.IfExp):
        then, other = rendered(node.body, scope, depth), rendered(node.orelse, scope, depth)
        return f"[{then or other}]" if "" in (then, other) else _either([then, other])
    if isinstance(node, ast.BoolOp):
        return _either(filter(None, (rendered(value, scope, depth) for value in node.values)))
    if (value := evaluated(node, scope)) is not None:
        return str(value)
    if entries := list(_entries(node, scope)):
        either = _either(rendered(entry, scope, depth + 1) for entry in entries)
        return f"[{either}]" if isinstance(node, ast.Call) else either
    if isinstance(node, ast.Name) and depth < 4:
        if node.id in scope.passed:
            expression, outside = scope.passed[node.id]
            return rendered(expression, outside, depth + 1)
        values = list(scope.values(node.id))
        if values and all(_is_text(value) for value in values):
            text = _either(rendered(value, scope, depth + 1) for value in values if value is not None)
            more = (rendered(value, scope, depth + 1) for value in scope.additions(node.id))
            return text + "".join(f"[{value}]" for value in more)
    return word(node)


def _entries(node: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    """The texts of a mapping from which one is taken: by a subscript, or by `get`, with which there may be none."""
    mapping = node.value if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        mapping = node.func.value
    if isinstance(mapping, ast.Name):
        stated = scope.module.get(mapping.id)
        if isinstance(stated, dict) and all(isinstance(text, str) for text in stated.values()):
            yield from map(ast.Constant, stated.values())
        for value in scope.values(mapping.id):
            if isinstance(value, ast.Dict) and all(map(_is_text, value.values)):
                yield from value.values


def _is_text(node: ast.expr | None) -> bool:
    """Whether an expression is a text that somebody wrote, rather than a computed one."""
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    if isinstance(node, ast.BoolOp):
        return any(map(_is_text, node.values))
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _put_in(part: ast.FormattedValue, scope: Scope, depth: int) -> str:
    value = evaluated(part.value, scope)
    if value is None:
        return rendered(part.value, scope, depth)
    return str(
        eval(compile(ast.fix_missing_locations(ast.Expression(ast.JoinedStr([part]))), "f", "eval"), dict(scope.module))
    )


def _either(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


@cache
def refusals() -> Sequence[Refusal]:
    """Every refusal, module by module, in the order of the source."""
    modules = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    read = (item for item in modules.items() if item[0] not in ("errors.py", "__main__.py"))
    return [refusal for module, path in read for refusal in _refusals_of(path, module)]


def _refusals_of(path: Path, module: str) -> Iterator[Refusal]:
    calls = _calls(ast.parse(path.read_text(encoding="utf-8")))
    name = ".".join(["dpsample", *module.removesuffix(".py").removesuffix("/__init__").split("/")])
    values = vars(import_module(name))
    for node, functions in calls:
        if not _is_refusal(node):
            continue
        if isinstance(node, ast.Tuple):
            yield from _of_parts(node.elts[1].elts, Scope(values, functions), module)  # type: ignore[attr-defined]
            continue
        for passed in _call_sites(calls, node, functions, values) or [{}]:
            scope = Scope(values, functions, passed)
            if _error_name(node) in IN_THREE:
                yield from _of_parts(node.args, scope, module)
            else:
                rule, found, remedy = [*rendered(node.args[0], scope).split("; ", 2), "", ""][:3]
                proof = _error_name(node) == "PrivacyViolation"
                yield Refusal(PROOF if proof else module, rule, found.removeprefix("found "), remedy)


def _of_parts(parts: Sequence[ast.expr], scope: Scope, module: str) -> Iterator[Refusal]:
    if len(parts) == 3:
        rule, found, remedy = (rendered(part, scope) for part in parts)
        if rule:  # a call that passes none cannot fail
            yield Refusal(module, rule, found, remedy)


def _error_name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _calls(tree: ast.AST) -> list[tuple[ast.Call | ast.Tuple, list[Function]]]:
    """Calls and tuples of a module, with the functions around them, the innermost first."""
    found = []
    todo: list[tuple[ast.AST, list[Function]]] = [(tree, [])]
    while todo:
        node, functions = todo.pop()
        if isinstance(node, ast.Call | ast.Tuple):
            found.append((node, functions))
        inside = [node, *functions] if isinstance(node, Function) else functions
        todo += [(child, inside) for child in ast.iter_child_nodes(node)]
    return sorted(found, key=lambda call: (call[0].lineno, call[0].col_offset))


def _is_refusal(node: ast.Call | ast.Tuple) -> bool:
    """Whether a call makes an error, or a tuple is of an error and its three parts."""
    if isinstance(node, ast.Call):
        return bool(node.args) and _error_name(node) in IN_THREE | IN_ONE
    kind, parts = node.elts if len(node.elts) == 2 else (None, None)
    return isinstance(kind, ast.Name) and kind.id in IN_THREE and isinstance(parts, ast.Tuple)


def _call_sites(
    calls: Sequence[tuple[ast.Call | ast.Tuple, list[Function]]],
    error: ast.Call,
    functions: Sequence[Function],
    values: Mapping[str, Any],
) -> list[dict[str, tuple[ast.expr, Scope]]]:
    """Arguments of each call, in the module, of a function that passes parts of a message on."""
    if not functions:
        return []
    arguments = [one.arg for one in functions[0].args.args if one.arg not in ("self", "cls")]
    if not _names(error) & PASSED_ON & set(arguments):
        return []
    defaults = dict(zip(reversed(arguments), reversed(functions[0].args.defaults), strict=False))
    sites = []
    for node, around in calls:
        if isinstance(node, ast.Call) and _error_name(node) == functions[0].name:
            given = defaults | dict(zip(arguments, node.args, strict=False))
            given |= {one.arg: one.value for one in node.keywords if one.arg}
            inner = Scope(values, around)
            sites.append({name: (value, inner) for name, value in given.items() if name in PASSED_ON})
    return sites

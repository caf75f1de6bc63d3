"""How the source is built: which modules import which, how dense functions are, and how many parameters they take.

Docstrings and comments are free: they count neither as syntax nodes nor as lines.

    python tests/helpers/house.py     removes from the lists of exceptions what is not needed any more
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dpsample
from places import TESTS

PACKAGE = Path(str(dpsample.__file__)).parent
DENSEST = 18  # syntax nodes for each line; in twelve well-known libraries, 6 of some 9,500 functions have more
SHORTEST = 5  # lines of a function whose density says something
MOST_PARAMETERS = 7  # beyond, a value object
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Import:
    """One import of a module of ours in another package: both packages, the importing module, and where it stands."""

    package: str
    imported: str
    module: str
    in_function: bool


@dataclass(frozen=True)
class Measured:
    """A function with its size; `name` is that of its module, then its classes and its own."""

    name: str
    nodes: int
    lines: int
    parameters: int


@cache
def sources() -> dict[str, ast.Module]:
    """The parsed source of each module, by its name below `dpsample`."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def module_name(path: Path) -> str:
    """Return the name below `dpsample`, such as `scheme.tokens`; that of a package is its folder's."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def package_of(module: str) -> str:
    """Return the first part of a module's name: a folder, or a file beside the folders."""
    return module.split(".")[0]


@cache
def imports() -> list[Import]:
    """Every import of ours that leaves its package, also those for type checkers alone."""
    return [one for module, tree in sources().items() for one in imports_of(module, tree)]


def imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    own = package_of(module)
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, Function) for node in ast.walk(function)}
    for node in ast.walk(tree):
        for imported in map(package_of, imported_modules(node)):
            if imported != own:
                yield Import(own, imported, module, id(node) in inside)


def imported_modules(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a statement imports, below `dpsample`; of `from dpsample import x`, that is `x`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith("dpsample."):
                yield alias.name.removeprefix("dpsample.")
    elif isinstance(node, ast.ImportFrom) and node.module == "dpsample":
        for alias in node.names:
            if (PACKAGE / alias.name).is_dir() or (PACKAGE / f"{alias.name}.py").is_file():
                yield alias.name
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dpsample."):
        yield node.module.removeprefix("dpsample.")


def functions() -> Iterator[Measured]:
    """Yield every function and method with its size."""
    for module, tree in sources().items():
        yield from functions_of(module, tree)


def functions_of(name: str, outer: ast.AST) -> Iterator[Measured]:
    for node in ast.iter_child_nodes(outer):
        own = name
        if isinstance(node, Function | ast.ClassDef):
            own = f"{name}.{node.name}"
        if isinstance(node, Function):
            yield Measured(own, *nodes_and_lines(node), count_parameters(node))
        yield from functions_of(own, node)


def nodes_and_lines(tree: ast.AST) -> tuple[int, int]:
    """Count syntax nodes, and lines on which a node begins or ends."""
    counted = list(nodes_of(tree))
    lines = set()
    for node in counted:
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias | ast.ExceptHandler | ast.pattern):
            lines |= {node.lineno, node.end_lineno}
    return len(counted), len(lines)


def nodes_of(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield the nodes of a tree, without its docstrings."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if not is_docstring(node):
            yield from nodes_of(node)


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count_parameters(function: Function) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)


def is_dense(function: Measured) -> bool:
    return function.lines >= SHORTEST and function.nodes > DENSEST * function.lines


def has_many_parameters(function: Measured) -> bool:
    return function.parameters > MOST_PARAMETERS


LISTS: dict[str, Callable[[Measured], bool]] = {
    "dense_functions.txt": is_dense,
    "many_parameters.txt": has_many_parameters,
}


def listed(name: str) -> set[str]:
    """Return the functions that a list of exceptions names, one on each line."""
    return set((TESTS / "house" / name).read_text(encoding="utf-8").split())


def shorten(name: str) -> None:
    """Remove from a list of exceptions what is not needed any more."""
    needed = {function.name for function in functions() if LISTS[name](function)}
    text = "".join(f"{function}\n" for function in sorted(listed(name) & needed))
    (TESTS / "house" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in LISTS:
        shorten(name)

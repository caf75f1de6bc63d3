"""The walks of CONTRIBUTING: each function that they name exists, and the drivers call their steps in this order."""

import ast
import re

import pytest

from places import ROOT

SOURCE = ROOT / "src" / "dpsample"
WALKS = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The walks\n")[1].split("\n## ")[0]
NAMED = re.findall(r"`((?:cli|private|release|answers|files|ledger)/[\w/]+)\.([\w.]+)`", WALKS)


def body_of(module: str, name: str) -> ast.AST:
    """The definition of a function or class; of a method, `Class.method`."""
    node: ast.AST = ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))
    for part in name.split("."):
        [node] = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == part
        ]
    return node


@pytest.mark.parametrize(("module", "name"), sorted(set(NAMED)))
def test_each_function_of_a_walk_is_where_it_is_said_to_be(module: str, name: str) -> None:
    assert body_of(module, name)


@pytest.mark.parametrize(
    ("module", "driver"),
    [
        ("private/elements", "draw_elements"),
        ("private/bounded", "draw_bounded_users"),
        ("private/users/walk", "draw_users"),
    ],
)
def test_a_driver_calls_its_steps_in_the_order_of_its_table(module: str, driver: str) -> None:
    table = WALKS.split(f"`{module}.{driver}`")[1].split("\n**")[0]
    steps = [name.rsplit(".", 1)[-1] for name in re.findall(r"^\| \d+ \| `([\w/.]+)`", table, re.MULTILINE)]
    calls = [node.func for node in ast.walk(body_of(module, driver)) if isinstance(node, ast.Call)]
    lines = [(call.lineno, call.col_offset, getattr(call, "id", None) or getattr(call, "attr", "")) for call in calls]
    called = [name for *_, name in sorted(lines) if name in steps]
    in_driver = [step for step in steps if step in called]
    assert len(in_driver) >= 3
    assert list(dict.fromkeys(called)) == in_driver


def test_each_file_of_the_map_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split("## Where is it?\n")[1].split("\n## ")[0]
    files = re.findall(r"`([a-z_/]+\.py)`", table)
    assert len(files) > 30
    assert [file for file in files if not (SOURCE / file).exists()] == []

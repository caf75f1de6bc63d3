"""The list of planted bugs stays usable: each changes one place that is there, and names tests that are there."""

import ast
from pathlib import Path

import pytest

import dpsample
from places import TESTS
from planted import BUGS, Bug

SOURCE = Path(dpsample.__file__).parent


def test_bugs_have_names_of_their_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 40


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_changes_one_place_and_names_its_tests(bug: Bug) -> None:
    source = (SOURCE / bug.file).read_text(encoding="utf-8")
    assert source.count(bug.old) == 1, f"{bug.file} has {bug.old!r} {source.count(bug.old)} times: change its entry"
    changed = source.replace(bug.old, bug.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    for name in bug.tests:
        file, *inner = name.split("::")
        defined = {
            node.name
            for node in ast.walk(ast.parse((TESTS / file).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        assert set(inner) <= defined, name

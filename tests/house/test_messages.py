"""Every message of a refusal is plain text on one line."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpsample

PACKAGE = Path(str(dpsample.__file__)).parent
ERRORS = {"InvalidValue", "SystemFailure", "PrivacyViolation", "UsageError"}


def messages(path: Path) -> Iterator[ast.Call]:
    """The calls that make an error with a message."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = getattr(node, "func", None)
        if isinstance(node, ast.Call) and node.args and getattr(name, "attr", getattr(name, "id", "")) in ERRORS:
            yield node


def texts(call: ast.Call) -> Iterator[str]:
    """The texts that stand in a message."""
    for part in call.args:
        for node in ast.walk(part):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE).with_suffix(""))
)
def test_a_message_is_one_line(path: Path) -> None:
    for call in messages(path):
        for text in texts(call):
            assert "\n" not in text, f"line {call.lineno}"
        assert len(call.args) <= 2, f"line {call.lineno}: a problem and a remedy"

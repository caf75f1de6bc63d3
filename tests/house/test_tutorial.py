"""The first page that newcomers read: its commands, and the notebook that is made from it. Doctests run its Python."""

import json
import re
import shlex
import subprocess
from contextlib import nullcontext
from doctest import ELLIPSIS, DocTestParser, OutputChecker
from pathlib import Path
from typing import Any

import pytest

import dpsample
from dpsample import Release
from notebook import NOTEBOOK, PAGE, notebook
from picture import PICTURE, picture, rows
from support import run

TEXT = PAGE.read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ (.*)\n((?:(?![$`]).*\n)*)", re.MULTILINE)


def output_of(command: str, folder: Path) -> str:
    if not command.startswith("dpsample "):
        return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout
    done = run(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.usefixtures("fixed_coins")
def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = TEXT.split("```python\n")[1].split("```")[0]
    exec("".join(example.source for example in DocTestParser().get_examples(data)), {})
    commands = COMMAND.findall(TEXT)
    assert len(commands) == TEXT.count("\n$ ") == 6
    for command, shown in commands:
        assert OutputChecker().check_output(shown, output_of(command, tmp_path), ELLIPSIS), command


def test_the_picture_has_the_numbers_of_the_page() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run: python website/picture.py"
    assert [row.title for row in rows(TEXT)][:1] == ["A Silent River"]
    assert len(rows(TEXT)) == 5


def test_the_notebook_is_that_of_the_page() -> None:
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(), "run: python website/notebook.py"


@pytest.mark.usefixtures("fixed_coins")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            fails = "raises-exception" in cell["metadata"].get("tags", [])
            with pytest.raises(dpsample.InvalidValue) if fails else nullcontext():
                exec("".join(cell["source"]), names)
    assert isinstance(names["release"], Release)
    assert Path("loans.html").read_text(encoding="utf-8").count("A Silent River")

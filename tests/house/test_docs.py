"""What the docs, the help texts and the Makefile state of the code: names, links, commands and benchmarks exist."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

import dpsample
from dpsample import definitions
from dpsample.accounting import amounts, composition
from dpsample.answers.expressions import DEEPEST, LONGEST, MEMORY
from dpsample.cli import cli
from dpsample.definitions import LEAST_EPSILON
from dpsample.exact import MAX_FREQUENCY
from dpsample.presentation.report import listing
from dpsample.privacy import _LEAST_DELTA
from dpsample.private import known
from dpsample.private.engine.duckdb import engine
from dpsample.scheme.sampling import MAX_POWER, MAX_SEED, MOST_AT_LEAST
from dpsample.scheme.tokens import MAX_GRID
from places import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "examples/pageviews/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAME = re.compile(r"`(dpsample(?:\.\w+)+)[`(]")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(command: click.Command = cli, *name: str) -> Iterator[tuple[str, ...]]:
    yield name
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from commands(inner, *name, part)


def prose(path: Path) -> Iterator[str]:
    """Lines that are neither code nor in a table."""
    code = False
    for line in path.read_text(encoding="utf-8").splitlines():
        code ^= line.startswith("```")
        if not code and not line.startswith(("|", "    ", "```")):
            yield line


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {dpsample.__version__}\n" in text
    assert "arXiv:2010.13048" in text


def longest_module(parts: list[str]) -> int:
    """How many of these parts are a module: `dpsample.release` is a function as well, and a package."""
    for n in range(len(parts), 1, -1):
        try:
            import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return n
    return 1


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "CHANGELOG.md"], ids=ids)
def test_names_in_the_docs_exist(path: Path) -> None:
    for name in NAME.findall(path.read_text(encoding="utf-8")):
        parts = name.split(".")
        module = longest_module(parts)
        value: object = import_module(".".join(parts[:module]))
        for part in parts[module:]:
            value = getattr(value, part)


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = path if not file else (path.parent / file).resolve()
        assert target.exists(), link
        if anchor:
            heads = [line.lstrip("# ") for line in prose(target) if line.startswith("#")]
            assert anchor in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}, link


@pytest.mark.parametrize("path", PAGES, ids=ids)
def test_lines_are_short(path: Path) -> None:
    assert [line for line in prose(path) if len(line) > 120] == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.is_relative_to(ROOT / "docs")], ids=ids)
def test_a_page_ends_with_what_to_do_next(path: Path) -> None:
    assert path.read_text(encoding="utf-8").rstrip("\n").split("\n\n")[-1].startswith("**Next:** ")


def test_every_command_is_named_with_its_function() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = text.split("## The same in Python")[1].split("##")[0]
    first = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`([^`]+)`", first)) == {
        " ".join(name) for name in commands() if name not in {(), ("ledger",)}
    }


def test_make_bench_runs_every_benchmark() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nbench:")[1].split("\n\n")[0]
    assert set(re.findall(r"benchmarks/(\w+)\.py", recipe)) == {
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
    }


def test_the_limits_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "guides" / "limits.md").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text.split("## Sizes")[1], re.MULTILINE))
    assert MAX_FREQUENCY == 2**63 - 1
    assert MOST_AT_LEAST == 2**50
    stated = {
        "ε": f"from {float(LEAST_EPSILON):g} on",
        "δ": f"from {float(_LEAST_DELTA):g} to below 1",
        "ρ, μ of zCDP and GDP": f"from {float(definitions._LEAST):g} to {int(definitions._MOST):,}",
        "`max_keys_per_user`": f"{composition.MOST_KEYS:,}",
        "known keys in a list": f"{known.MOST_KEYS:,}",
        "sums and rows beside users": f"{amounts.MOST_AMOUNTS} in all",
        "`power` of a sample": f"{MAX_POWER}",
        "`grid`": f"a power of two up to {MAX_GRID:,}",
        "seed": f"{MAX_SEED} characters",
        "`memory_limit`": f"at least {engine._LEAST // 10**6}MB",
        "keys in a report": f"{listing.LISTED:,}, and {listing._BYTES / 10**6:g} MB",
        "SQL expression in a question": f"{LONGEST:,} characters, {DEEPEST} levels, {MEMORY >> 20} MB of texts",
    }
    for what, limit in stated.items():
        assert sizes[what].startswith(limit), what
    assert f"rows up to {amounts._MOST_ROWS:,}" in sizes["sums and rows beside users"]

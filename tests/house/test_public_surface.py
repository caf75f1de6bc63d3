"""What users may import, and what the mathematics may not."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import dpsample
import dpsample.scheme

PACKAGE = [
    "CustomSampling",
    "DpsampleError",
    "InvalidValue",
    "KeepAll",
    "Ledger",
    "Ppswor",
    "Priority",
    "Privacy",
    "PrivacyViolation",
    "PrivacyWarning",
    "Release",
    "Sample",
    "SampleAndHold",
    "SampleSize",
    "Sampling",
    "SoftCap",
    "Source",
    "Stream",
    "SystemFailure",
    "__version__",
    "changes",
    "combine",
    "count_frequencies",
    "new_ledger",
    "read_ledger",
    "read_release",
    "read_sample",
    "read_stream",
    "register_sampling",
    "release",
    "release_to_file",
    "sample",
    "sanitize",
]
SCHEME = [
    "Certificate",
    "CustomSampling",
    "IntegerLaw",
    "KeepAll",
    "Ppswor",
    "Priority",
    "SampleAndHold",
    "Sampling",
    "Scheme",
    "SoftCap",
    "TokenLaw",
    "certify",
    "certify_table",
    "closed_form",
    "concordance",
    "concordance_with_all",
    "default_grid",
    "frequency_reaching",
    "integer_law",
    "integer_laws",
    "kendall_tau",
    "likeliest_frequencies",
    "reporting_probabilities",
    "steps_to_one",
    "token_law",
    "token_laws",
]
SPARK = ["Spark", "read_parquet", "release", "release_to_folder", "sample", "sanitize", "session", "stream"]


def test_the_public_names_on_a_cluster() -> None:
    pytest.importorskip("pyspark")
    module = import_module("dpsample.spark")
    assert sorted(module.__all__) == sorted(SPARK)
    for name in SPARK:
        assert (getattr(module, name).__doc__ or "").strip()


ACCURACY = [
    "Accuracy",
    "Coverage",
    "Errors",
    "Estimator",
    "Method",
    "Pws",
    "accuracy",
    "coverage",
    "selection_accuracy",
]
PLANNING = [
    "Curve",
    "Expected",
    "Forecast",
    "Frequencies",
    "Goal",
    "Grid",
    "Page",
    "Plan",
    "Setting",
    "curve",
    "default_delta",
    "estimated_frequencies",
    "explore",
    "forecast",
    "most_possible",
    "recommended",
    "smallest_epsilon",
]
BASELINES = ["NonPrivate", "SampleAndThreshold", "StabilityHistogram"]
PAGES = ["Document", "figure", "policy", "rows", "table"]
CHARTS = [
    "NARROW",
    "WIDE",
    "Axis",
    "Bar",
    "Caption",
    "Change",
    "Chart",
    "Line",
    "LineChart",
    "Point",
    "RowChart",
    "page_colors",
]
REPORT = [
    "Content",
    "PageOptions",
    "PageSetting",
    "Report",
    "SeveralSetting",
    "Statement",
    "check_report",
    "content_of",
    "display",
    "make_report",
    "make_report_of_several",
    "page_setting",
]
ESTIMATORS = [
    "ESTIMATORS",
    "Estimate",
    "Spectrum",
    "Tally",
    "biased_down",
    "estimate",
    "inverse_probability",
    "spectrum",
    "mle",
    "unbiased",
]


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("dpsample", PACKAGE),
        ("dpsample.scheme", SCHEME),
        ("dpsample.comparison.accuracy", ACCURACY),
        ("dpsample.comparison.baselines", BASELINES),
        ("dpsample.estimators", ESTIMATORS),
        ("dpsample.planning", PLANNING),
        ("dpsample.presentation.charts", CHARTS),
        ("dpsample.presentation.pages", PAGES),
        ("dpsample.presentation.report", REPORT),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_public_names(name: str, names: list[str]) -> None:
    module = import_module(name)
    assert sorted(module.__all__) == sorted(names)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in names:
        assert getattr(module, name) is not None


def test_what_both_export_is_the_same() -> None:
    for name in {*PACKAGE} & {*SCHEME}:
        assert getattr(dpsample, name) is getattr(dpsample.scheme, name)


@pytest.mark.parametrize("name", [name for name in (*PACKAGE, *SCHEME) if not name.startswith("__")])
def test_every_public_name_has_a_docstring(name: str) -> None:
    item = getattr(dpsample, name, None) or getattr(dpsample.scheme, name)
    assert (item.__doc__ or "").strip()


def test_errors_have_one_root() -> None:
    assert issubclass(dpsample.InvalidValue, dpsample.DpsampleError)
    assert issubclass(dpsample.InvalidValue, ValueError)
    assert issubclass(dpsample.PrivacyViolation, dpsample.DpsampleError)
    assert issubclass(dpsample.SystemFailure, dpsample.DpsampleError)
    assert issubclass(dpsample.PrivacyWarning, UserWarning)


SCHEME_FILES = sorted(Path(str(dpsample.scheme.__file__)).parent.glob("**/*.py"))
ALLOWED = {
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "decimal",
    "fractions",
    "functools",
    "importlib",
    "hashlib",
    "flint",  # ball arithmetic
    "itertools",
    "math",
    "typing",
}
OURS = {
    "dpsample.balls",
    "dpsample.definitions",
    "dpsample.errors",
    "dpsample.exact",
    "dpsample.privacy",
    "dpsample.scheme",
}


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "numpy")


@pytest.mark.parametrize("path", SCHEME_FILES, ids=lambda path: path.stem)
def test_the_mathematics_knows_no_data_and_no_randomness(path: Path) -> None:
    """No os, random, secrets, duckdb, pyarrow, numpy.random, nor anything of ours that has them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for name in imports(tree):
        top = name.split(".")[0]
        assert top in ALLOWED | {"numpy", "dpsample"}, name
        assert not name.startswith("numpy.random"), name
        if top == "dpsample":
            assert any(name == own or name.startswith(f"{own}.") for own in OURS), name
    # nor by way of np.random, open or __import__
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not attributes & {"random", "default_rng", "urandom", "tofile", "fromfile", "memmap"}
    assert not names & {"open", "__import__", "eval", "exec", "print", "input"}


FOLDER = Path(str(dpsample.__file__)).parent
FILES = sorted(FOLDER.rglob("*.py"))
DOORS = {"__init__.py", "__main__.py", "spark.py"}  # they lead to what is private; nothing behind them leads back


def place(path: Path) -> str:
    """The first part of a file's place below the package: a folder, or a file."""
    return path.relative_to(FOLDER).parts[0]


def ours(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it; of `from dpsample import x`, `dpsample.x`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "dpsample":
            yield from (f"dpsample.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if place(path) not in {"private", "cli", "testing", *DOORS}],
    ids=lambda path: str(path.relative_to(FOLDER)),
)
def test_nothing_that_follows_a_release_can_see_private_data(path: Path) -> None:
    """By path: only `private` itself, the command line and the doors import it, and nothing else imports these.

    So the rule is transitive. It covers late imports too; `from dpsample import __version__` is the one exception.
    """
    for name in ours(path):
        behind = name.split(".")
        assert behind[0] != "dpsample" or behind[1:2] not in (["private"], ["cli"], ["spark"], ["testing"]), name
        assert behind != ["dpsample"], name
        if len(behind) == 2 and behind[0] == "dpsample" and behind[1] != "__version__":
            assert (FOLDER / behind[1]).is_dir() or (FOLDER / f"{behind[1]}.py").is_file(), name


ENTRY = re.compile(r"^ {0,4}(\w+)(?:\.\w+)? {2,}\S")


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name == "__init__.py"], ids=lambda path: path.parent.name
)
def test_the_docstring_of_a_package_is_the_map_of_its_modules(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")), clean=False) or ""
    folder = path.parent
    modules = {item.stem for item in folder.glob("*.py")} | {item.parent.name for item in folder.glob("*/__init__.py")}
    modules -= {"__init__", "__main__"}
    listed = [match[1] for line in docstring.splitlines() if (match := ENTRY.match(line))]
    assert sorted(name for name in listed if (folder / f"{name}.py").exists() or (folder / name).is_dir()) == sorted(
        modules
    )


LIBRARIES = {
    "duckdb": ["private/engine/duckdb", "answers/selection.py"],
    "pyspark": ["private/engine/spark"],
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_libraries_of_the_engines_are_imported_in_one_place_each(library: str) -> None:
    """The first is the engine. The other DuckDB runs questions."""
    importing = {
        path.relative_to(FOLDER).as_posix()
        for path in FILES
        for name in imports(ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] == library
    }
    allowed = tuple(LIBRARIES[library])
    assert importing
    assert not {path for path in importing if not path.startswith(allowed)}


@pytest.mark.parametrize("name", ["balls", "definitions", "errors", "exact", "privacy"])
def test_what_the_mathematics_rests_on_is_as_pure(name: str) -> None:
    path = Path(str(import_module(f"dpsample.{name}").__file__))
    for module in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert module.split(".")[0] in ALLOWED | {"contextlib", "inspect", "re", "types", "warnings", "dpsample"}, (
            module
        )


def test_there_are_files_to_check() -> None:
    assert {"certificate", "integer", "ordinal", "reporting", "sampling", "tokens"} <= {
        path.stem for path in SCHEME_FILES
    }


MAY_SEE_DATA = [
    path
    for path in FILES
    if place(path) in {"private", "files", "scheme"} or path.name in {"errors.py", "frequencies.py"}
]
NAMES_ONLY = {  # errors that hold a file's name, a module's name, or a public parameter, and no data
    "except OSError",
    "except FileExistsError",
    "except ImportError",
    "except TypeError",  # the fields of a scheme's JSON
    "except (ValueError, TypeError, ArithmeticError)",  # the numbers of a table to certify
}


@pytest.mark.parametrize("path", MAY_SEE_DATA, ids=lambda path: str(path.relative_to(FOLDER)))
def test_no_error_is_raised_inside_a_handler(path: Path) -> None:
    """It would keep the other error, which may quote the data, as its `__context__`, also with `from None`."""
    for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(handler, ast.ExceptHandler) and handler.type is not None:
            caught = f"except {ast.unparse(handler.type)}"
            raised = [node for node in ast.walk(handler) if isinstance(node, ast.Raise) and node.exc is not None]
            assert not raised or caught in NAMES_ONLY, f"line {handler.lineno}: {caught}"


@pytest.mark.chance("certain: nothing is drawn")
def test_public_names_are_loaded_when_they_are_used() -> None:
    script = """
import sys
import dpsample
assert "numpy" not in sys.modules and "pyarrow" not in sys.modules
import dpsample.release.terms
assert callable(dpsample.release) and dpsample.release.__module__ == "dpsample.private.run"
from dpsample.answers.release import Release
assert dpsample.Release is Release
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert set(PACKAGE) <= set(dir(dpsample))
    for name in PACKAGE:
        getattr(dpsample, name)
    with pytest.raises(AttributeError, match="no attribute 'relaese'"):
        dpsample.relaese  # type: ignore[attr-defined]  # noqa: B018

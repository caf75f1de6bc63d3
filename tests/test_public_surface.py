"""What users may import, and what the mathematics may not."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import dpsample
import dpsample.accuracy
import dpsample.baselines
import dpsample.estimators
import dpsample.explore
import dpsample.pages
import dpsample.paper
import dpsample.planner
import dpsample.report
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
    "SampleSize",
    "Sampling",
    "Source",
    "SystemFailure",
    "__version__",
    "new_ledger",
    "read_ledger",
    "read_release",
    "read_sample",
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
    "Sampling",
    "TokenLaw",
    "certify",
    "certify_table",
    "closed_form",
    "concordance",
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
SPARK = ["Spark", "read_parquet", "release", "release_to_folder", "sample", "sanitize", "session"]


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
PLANNER = [
    "Curve",
    "Expected",
    "Frequencies",
    "Goal",
    "Outlook",
    "Setting",
    "count",
    "curve",
    "default_delta",
    "outlook",
    "settings",
    "smallest_epsilon",
]
BASELINES = ["NonPrivate", "SampleAndThreshold", "StabilityHistogram"]
PAGES = ["Document", "Markup", "chart_library", "figure", "join", "policy", "rows", "table", "tag"]
REPORT = ["Content", "Report", "content_of", "display", "make_report"]
PAPER = ["CLAIMS", "FIGURES", "Claim", "Figure", "Finding", "build"]
EXPLORE = ["Choices", "Explorer", "Place", "Server"]
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
    ("module", "names"),
    [
        (dpsample, PACKAGE),
        (dpsample.scheme, SCHEME),
        (dpsample.accuracy, ACCURACY),
        (dpsample.baselines, BASELINES),
        (dpsample.estimators, ESTIMATORS),
        (dpsample.explore, EXPLORE),
        (dpsample.pages, PAGES),
        (dpsample.paper, PAPER),
        (dpsample.planner, PLANNER),
        (dpsample.report, REPORT),
    ],
    ids=lambda value: value.__name__ if isinstance(value, ModuleType) else "",
)
def test_the_public_names(module: ModuleType, names: list[str]) -> None:
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
    "itertools",
    "math",
    "typing",
}
OURS = {"dpsample.errors", "dpsample.exact", "dpsample.privacy", "dpsample.scheme"}


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


PACKAGE_FOLDER = Path(str(dpsample.__file__)).parent
SEES_PRIVATE_DATA = {"engine", "explore", "planned", "planner", "randomness", "run", "samples", "sanitizer", "source"}
AFTER_A_RELEASE = ["answers", "estimators", "explain", "expressions", "measures", "ranking", "releases", "report"]
AHEAD_OF_IT = ["accuracy", "baselines", "frequencies", "outlook", "predicted"]  # numbers in, numbers out


def modules_of_ours(path: Path) -> Iterator[str]:
    """The first part of each name below `dpsample` that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "dpsample":
            yield from (alias.name for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpsample."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dpsample."))


def files_of(name: str) -> list[Path]:
    folder = PACKAGE_FOLDER / name
    return sorted(folder.glob("**/*.py")) if folder.is_dir() else [PACKAGE_FOLDER / f"{name}.py"]


@pytest.mark.parametrize("name", [*AFTER_A_RELEASE, *AHEAD_OF_IT, "pages", "selection", "statistics"])
def test_what_follows_a_release_sees_nothing_private(name: str) -> None:
    """Neither by itself nor through anything that it imports: all of it is post-processing."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        module = todo.pop()
        assert module not in SEES_PRIVATE_DATA, module
        if module not in seen:
            seen.add(module)
            for path in files_of(module):
                todo += modules_of_ours(path)
    assert "errors" in seen


@pytest.mark.parametrize("name", ["errors", "exact", "privacy"])
def test_what_the_mathematics_rests_on_is_as_pure(name: str) -> None:
    path = Path(str(import_module(f"dpsample.{name}").__file__))
    for module in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert module.split(".")[0] in ALLOWED | {"warnings", "dpsample"}, module


def test_there_are_files_to_check() -> None:
    assert {"certify", "integer", "ordinal", "reporting", "sampling", "tokens"} <= {path.stem for path in SCHEME_FILES}

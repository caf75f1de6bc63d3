"""The site that `make docs` builds: without a warning, complete, and readable from a folder without a network."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser import DESKTOP, PHONE, opened, scrolls_sideways
from hooks import NAMES, ROOT, public_names

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.chance("certain: the build starts a process, which draws nothing"),
    pytest.mark.xdist_group("browser"),
]
REFERENCE = ROOT / "docs" / "reference"
MODULES = [
    "dpsample",
    "dpsample.comparison.accuracy",
    "dpsample.comparison.baselines",
    "dpsample.estimators",
    "dpsample.planning",
    "dpsample.scheme",
    "dpsample.spark",
]
LOADED = re.compile(r"""(?:\ssrc=|<link[^>]*\shref=|url\(|@import\s)["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ROOT / "website" / "mkdocs.yml", "-d", folder],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).is_file()} == set()
    for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY"):
        assert (site / "project" / ("index.html" if name == "README" else f"{name}.html")).is_file()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 30
    assert [path.name for path in files if LOADED.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_its_place_in_the_reference(module: str) -> None:
    if module == "dpsample.spark":
        pytest.importorskip("pyspark")
    here, top = import_module(module), import_module("dpsample")
    text = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    shown = {name for names in NAMES.findall(text) for name in public_names(names)}
    of_package = {name for name in top.__all__ if getattr(here, name, None) is getattr(top, name)}
    names = {f"dpsample.{name}" if name in of_package else f"{module}.{name}" for name in here.__all__}
    assert names - shown == {"dpsample.__version__"} & names


@pytest.mark.parametrize(
    ("page", "size"),
    [
        ("index", DESKTOP),
        ("tutorial", DESKTOP),
        ("tutorial", PHONE),
        ("theory", PHONE),
        ("command-line", PHONE),
        ("reference/answers", PHONE),
    ],
)
def test_a_page_fits_and_asks_for_nothing(site: Path, browser: "Browser", page: str, size: tuple[int, int]) -> None:
    with opened(browser, (site / f"{page}.html").as_uri(), size=size, dark=size == PHONE) as tab:
        tab.page.wait_for_selector(".md-header")
        assert not scrolls_sideways(tab)
        assert tab.page.locator("body").get_attribute("data-md-color-scheme") == (
            "slate" if size == PHONE else "default"
        )


def test_the_site_is_searched_from_a_folder(site: Path, browser: "Browser") -> None:
    with opened(browser, (site / "index.html").as_uri()) as tab:
        tab.page.click("[data-md-component=search-query]")
        tab.page.keyboard.type("contribution bound")
        tab.page.wait_for_selector(".md-search-result__item")
        titles = tab.page.locator(".md-search-result__item h1").all_inner_texts()
        assert any("Users" in title for title in titles), titles

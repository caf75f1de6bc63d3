"""What the site does besides MkDocs: pages from outside docs/, folders in the navigation, GitHub's anchors.

A link reads the same in the repository and on the site. A file outside docs/ that a page links, CONTRIBUTING.md for
one, is a file of the site too, below `project/`. Links are rewritten to where their targets are on the site.
"""

import json
import re
import sys
from importlib import import_module
from inspect import isclass, isroutine
from pathlib import Path
from posixpath import dirname, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = "project/"
NAMES = re.compile(r"^::: (\S+)$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def slug(text: str, separator: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", separator)


def uri_of(path: Path) -> str:
    """Where a file of the repository is on the site."""
    return (
        path.relative_to(DOCS).as_posix()
        if path.is_relative_to(DOCS)
        else ELSEWHERE + path.relative_to(ROOT).as_posix()
    )


def path_of(uri: str) -> Path:
    """Where a file of the site is in the repository."""
    return ROOT / uri.removeprefix(ELSEWHERE) if uri.startswith(ELSEWHERE) else DOCS / uri


def linked(page: Path) -> set[Path]:
    """The files that a page links."""
    targets = {(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))}
    return {target for target in targets if target.is_file() and target.is_relative_to(ROOT)}


def public_names(names: str) -> list[str]:
    """A name, or with a star all public names of a module that are not public names of `dpsample` too."""
    if not names.endswith(".*"):
        return [names]
    module = names.removesuffix(".*")
    here, top = import_module(module), import_module("dpsample")
    shown = (name for name in here.__all__ if getattr(here, name) is not getattr(top, name, None))
    return [f"{module}.{name}" for name in shown]


def documented(name: str) -> str:
    """What mkdocstrings takes: the place of a name's definition, and the public name as its heading.

    A public name may also be that of a module, as `dpsample.release` is.
    """
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module), last)
    place = f"{value.__module__}.{value.__qualname__}" if isroutine(value) or isclass(value) else name
    options = {"heading": name, "toc_label": last, "inherited_members": has_hidden_base(value)}
    return f"::: {place}\n    options: {json.dumps(options)}"


def has_hidden_base(value: Any) -> bool:
    """Whether members of a class come from a base that has no place in the reference."""
    public = import_module("dpsample").__all__
    return isclass(value) and not any(base.__name__ in public for base in value.__mro__[1:])


def expanded(item: Any) -> Any:
    """A part of the navigation, with pages in the place of folders."""
    if isinstance(item, list):
        return [expanded(part) for part in item]
    if isinstance(item, dict):
        return {title: expanded(part) for title, part in item.items()}
    if item.endswith("/"):
        return sorted(
            (uri_of(path) for path in (DOCS / item).glob("*.md")), key=lambda uri: (not uri.endswith("index.md"), uri)
        )
    return uri_of((DOCS / item).resolve())


def on_config(config: MkDocsConfig) -> None:
    """Complete the navigation, and let anchors be those of GitHub."""
    config.nav = [part for part in expanded(config.nav) if all(part.values())]  # without folders that are empty
    config.mdx_configs["toc"]["slugify"] = slug
    sys.path.insert(0, str(ROOT / "src"))  # the names are those of this tree, as the docstrings are


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what the navigation or a page links outside docs/, and what these files link."""
    in_navigation = set(re.findall(rf"{ELSEWHERE}[^'\"]+", repr(config.nav)))
    to_read = {path_of(uri) for uri in in_navigation} | {DOCS / file.src_uri for file in files.documentation_pages()}
    seen: set[Path] = set()
    while to_read:
        path = to_read.pop()
        seen.add(path)
        if not path.is_relative_to(DOCS):
            file = File.generated(config, uri_of(path), abs_src_path=str(path))
            if file.src_uri not in in_navigation:
                file.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(file)
        if path.suffix == ".md":
            to_read |= {
                target for target in linked(path) - seen if target.suffix == ".md" or not target.is_relative_to(DOCS)
            }


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where their targets are, and colour examples as a console."""
    path, here = path_of(page.file.src_uri), dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = (path.parent / link[1]).resolve()
        return relpath(uri_of(target), here) if target.is_file() and target.is_relative_to(ROOT) else link[1]

    markdown = NAMES.sub(lambda names: "\n\n".join(map(documented, public_names(names[1]))), markdown)
    return LINK.sub(moved, markdown).replace("```python\n>>>", "```pycon\n>>>")

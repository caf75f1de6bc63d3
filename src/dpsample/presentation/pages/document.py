"""Document: one self-contained page. It runs no code but its own, and has no network.

Data are embedded as JSON in blocks that browsers do not run, and read from there: no text of a release ever becomes
code or HTML. The content policy names our scripts and style sheet by their hashes, so that nothing else would run even
if it got into the page; there is no `eval`, no inline handler, no inline style, and no connection.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dpsample.presentation.charts.drawing import color_rules, page_colors
from dpsample.presentation.markup import Markup, tag

_META = {
    "viewport": "width=device-width, initial-scale=1",
    "color-scheme": "light dark",
    "referrer": "no-referrer",
}


@dataclass(frozen=True)
class Document:
    """A page: its title, the HTML inside its body, and the data that its scripts read.

    `data` are JSON values by the id of the block that holds each. `scripts` and `styles` are code of our own that this
    page needs beyond what all pages have.

    >>> page = Document("Pets", tag("main", tag("h1", "Cats & dogs")), data={"pets": ["</script>"]})
    >>> text = page.html()
    >>> "<h1>Cats &amp; dogs</h1>" in text, '["\\\\u003c/script>"]' in text, "default-src &#x27;none&#x27;" in text
    (True, True, True)
    """

    title: str
    body: Markup
    data: Mapping[str, Any] = field(default_factory=dict)
    scripts: Sequence[str] = ()
    styles: Sequence[str] = ()

    def html(self) -> str:
        """Return the HTML of the document."""
        parts = [self.body]
        for name, value in self.data.items():
            parts.append(_block(name, value))
        # modules run after all of the page is there, in order, and share no names
        for script in self._all_scripts():
            parts.append(tag("script", Markup(script), type="module"))
        body = tag("body", *parts)
        page = tag("html", self._head(), body, lang="en")
        return f"<!DOCTYPE html>\n{page}\n"

    def _head(self) -> Markup:
        lines = [tag("meta", charset="utf-8")]
        lines.append(tag("meta", http_equiv="Content-Security-Policy", content=self.policy()))
        for name, value in _META.items():
            lines.append(tag("meta", name=name, content=value))
        lines.append(tag("title", self.title))
        lines.append(tag("style", Markup(self._style())))
        return tag("head", *lines)

    def policy(self) -> str:
        """Return its content policy."""
        return policy(self._all_scripts(), [self._style()])

    def _all_scripts(self) -> list[str]:
        if not self.scripts:
            return []
        return [_own("page.js"), *self.scripts]

    def _style(self) -> str:
        return "\n".join([_colors(), color_rules(), _own("page.css"), *self.styles])


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the content policy: these scripts and styles, and nothing else from anywhere."""
    none = "'none'"
    sources = dict.fromkeys(("default-src", "connect-src", "base-uri", "form-action"), none)
    sources["script-src"] = " ".join(map(_hash, scripts)) or none
    sources["style-src"] = " ".join(map(_hash, styles)) or none
    rules = [f"{kind} {allowed}" for kind, allowed in sources.items()]
    return "; ".join(rules)


def _hash(code: str) -> str:
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _block(name: str, value: Any) -> Markup:
    """Return a block of JSON that cannot end its element, nor a line of a script."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for unsafe in "<\u2028\u2029":
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return tag("script", Markup(text), type="application/json", id=name)


@lru_cache
def _own(name: str) -> str:
    return files("dpsample.presentation.pages").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def _colors() -> str:
    """Return the colours of charts as variables: on the screen as the reader prefers, on paper always light."""
    dark = f":root {{ {_variables(page_colors(dark=True))} }}"
    return f":root {{ {_variables(page_colors())} }}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def _variables(colors: Mapping[str, str]) -> str:
    variables = [f"--{name}: {color};" for name, color in colors.items()]
    return " ".join(variables)

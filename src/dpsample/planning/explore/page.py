"""The explorer's page: its sliders, and empty places for the numbers, which come from the server."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dpsample import __version__
from dpsample.comparison.reporting_curve import PWS
from dpsample.planning.command import EVENTS, KEY, USER
from dpsample.planning.explore.choices import NAMES, SAMPLING, Choices
from dpsample.planning.explore.state import PARTS, Explorer
from dpsample.planning.text import COLUMNS, METHODS, UNCOVERED, columns
from dpsample.presentation.pages import Document, Markup, figure, join, table, tag

_EXPLAINED = ("epsilon", "delta", "sampling", "users")  # in words, below the sliders
_FACTS = {
    "keys": "keys reported",
    "elements": "of elements covered",
    "seen": "detection threshold",
    "total": "error of a total",
    "selection": "error of a selection",
}


def page(explorer: Explorer, origin: str, notice: str | None = None) -> Document:
    """Return the page; `origin` says where the frequencies come from, `notice` how private that is."""
    share, choices = explorer.share, explorer.choices
    sections = [
        tag("section", tag("h2", "Setting"), _controls(choices), _words(), id="setting"),
        tag("section", tag("h2", "What is to be expected"), _numbers(share), id="numbers"),
        tag("section", tag("h2", "How likely a key is to be reported"), _curve(), id="curve"),
        tag("section", tag("h2", "Next to other methods"), _methods(share), id="others"),
        tag("section", tag("h2", "Make this release"), _release(explorer), id="release"),
    ]
    data = {"start": choices.start.texts(), "labels": choices.labels(), "parts": PARTS}
    described = join([f"{origin}: ", tag("span", id="say-data"), "."])
    return framed(described, notice, sections, {"choices": data}, "explore.js")


def framed(
    described: object, notice: str | None, sections: Sequence[Markup], data: Mapping[str, Any], script: str
) -> Document:
    """Return a page of these sections; where it is private, it says so at both ends and in its title."""
    warning = tag("p", tag("strong", notice), " ", UNCOVERED, class_="warning", role="note") if notice else ""
    body = join(
        [
            tag("a", "Skip to the numbers", href="#numbers", class_="skip"),
            tag(
                "header",
                warning,
                tag("h1", "What would a release contain?"),
                tag("p", described, class_="quiet"),
            ),
            tag("main", *sections),
            tag(
                "footer",
                warning,
                tag(
                    "p",
                    f"dpsample {__version__}. Served by this machine to itself. Nothing leaves it. No budget is spent.",
                ),
            ),
        ]
    )
    title = f"{'NOT PRIVATE: ' if notice else ''}What would a release contain?"
    scripts = [_own(script), _own("copy.js")]
    return Document(title, body, data, {}, scripts, [_own("explore.css")], True, True)


def _controls(choices: Choices) -> Markup:
    options = [tag("option", label, value=how, data_by=by) for how, (label, _, by) in SAMPLING.items()]
    how = tag(
        "div", tag("label", "Sampling", for_="how"), tag("select", *options, id="how", autocomplete="off"), class_="one"
    )
    names = ["epsilon", "delta", "", "tau", "size", *(["users"] if len(choices.users) > 1 else [])]
    sliders = [_slider(name, len(getattr(choices, name))) if name else how for name in names]
    return tag("form", *sliders, tag("p", id="trouble", role="alert", class_="bad"), autocomplete="off")


def _slider(name: str, places: int) -> Markup:
    """A slider, and a field in which its number can be typed; keys per user are counted for those of the slider."""
    described = f"say-{name}" if name in _EXPLAINED else "say-sampling"
    typed = tag(
        "input",
        type="text",
        id=f"value-{name}",
        aria_label=f"{NAMES[name]}, typed",
        size=8,
        maxlength=40,
        autocomplete="off",
        spellcheck="false",
    )
    return tag(
        "div",
        tag("label", NAMES[name], for_=name),
        tag("output", id=f"value-{name}", for_=name, aria_hidden="true") if name == "users" else typed,
        tag("input", type="range", id=name, max=places - 1, autocomplete="off", aria_describedby=described),
        class_="one",
        hidden=name in ("tau", "size"),
    )


def _words() -> Markup:
    """Empty places for what the setting means."""
    return tag("div", *(tag("p", id=f"say-{name}", class_="quiet") for name in _EXPLAINED), id="meaning")


def _numbers(share: float) -> Markup:
    words = {
        "total": "The root mean square error of the estimated number of all elements, as a share of the truth.",
        "selection": f"The same for the elements of {100 * share:g} % of the keys, selected at random.",
    }
    facts = [
        tag(
            "div",
            tag("dt", tag("strong", name), tag("span", words.get(key, ""), id=f"say-{key}")),
            tag("dd", "…", id=f"fact-{key}"),
        )
        for key, name in _FACTS.items()
    ]
    return join([tag("p", id="summary", role="status", class_="unseen"), tag("dl", *facts, class_="facts")])


def _curve() -> Markup:
    blank = tag("div", tag("table", id="points"), class_="scroll", role="region", tabindex="0", aria_label="The curve")
    return figure(
        "chart-curve",
        "Rare keys are hidden and frequent keys are reported. In between, chance decides.",
        "Line chart of the reporting probability, by frequency",
        blank,
    )


def _methods(share: float) -> Markup:
    legend = columns(share) | METHODS
    return join(
        [
            table(
                "All private methods have the same privacy",
                COLUMNS,
                [],
                [False, *(True for _ in COLUMNS[1:])],
            ),
            tag("div", id="notes"),
            tag(
                "details",
                tag("summary", "What the columns and methods mean"),
                tag("dl", *(tag("div", tag("dt", name), tag("dd", words)) for name, words in legend.items())),
                tag(
                    "p",
                    f"The errors of {PWS} are predicted on a coarse table, to keep up with the sliders. They are "
                    "nearly always within 3 % of the errors that dpsample plan prints, which takes longer.",
                ),
                class_="legend",
            ),
        ]
    )


def _release(explorer: Explorer) -> Markup:
    names: Sequence[str] = (
        () if explorer.source else (EVENTS, KEY, *([USER] if len(explorer.choices.users) > 1 else []))
    )
    placeholders = f"{', '.join(names)} and OUTPUT stand" if names else "OUTPUT stands"
    meaning = "for your file, its columns, and the file to write" if names else "for the name of the file to write"
    return release_places(f"{placeholders} {meaning}.")


def release_places(placeholders: str) -> Markup:
    """Return the places of the command and the Python that make the release."""
    return join(
        [
            tag("p", f"This release spends the privacy that is set above. {placeholders}"),
            *(
                tag(
                    "div",
                    tag("h3", title),
                    tag("pre", id=name, tabindex="0", aria_label=title),
                    tag("button", f"Copy the {what}", type="button", data_copies=name),
                    tag("span", role="status", class_="good"),
                )
                for name, title, what in [
                    ("command", "On the command line", "command"),
                    ("python", "In Python", "Python"),
                ]
            ),
        ]
    )


@lru_cache
def _own(name: str) -> str:
    return files("dpsample.planning.explore").joinpath(name).read_text(encoding="utf-8")

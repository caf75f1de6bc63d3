"""The page of the explorer of users: a slider of the epsilons that are computed, and places for what is known."""

from dpsample.exact import text
from dpsample.planning.explore.page import framed, release_places
from dpsample.planning.explore.users import FACTS, UsersExplorer
from dpsample.planning.users_text import COLUMNS, MEANINGS
from dpsample.presentation.explain import explain_protected
from dpsample.presentation.pages import Document, Markup, figure, join, table, tag

_EXPLAINED = {
    "keys": "The expected number of keys in a release that counts their users.",
    "possible": "Keys reported and counted, relative to a bound that no method of this privacy exceeds.",
    "error": "Of the counts of all keys that are found: half are closer to the true number of users.",
    "only": "Expected if nothing is spent on counts: --keys-only.",
}


def users_page(explorer: UsersExplorer, origin: str, notice: str) -> Document:
    """Return the page; `origin` says where the data come from, `notice` that it is not private."""
    sections = [
        tag("section", tag("h2", "Setting"), _controls(explorer), id="setting"),
        tag("section", tag("h2", "What is to be expected"), _numbers(), id="numbers"),
        tag("section", tag("h2", "How much each epsilon finds"), _figures(), id="curve"),
        tag("section", tag("h2", "Ways to find keys"), _ways(), id="others"),
        tag(
            "section",
            tag("h2", "Make this release"),
            release_places("OUTPUT stands for the name of the file to write."),
            id="release",
        ),
    ]
    data = {"start": text(explorer.start), "labels": [text(epsilon) for epsilon in explorer.epsilons]}
    users = explorer.numbers.users
    described = f"{origin}: {users.total:,} keys; users have {users.elements:,} keys in all."
    return framed(described, notice, sections, {"choices": data}, "users.js")


def _controls(explorer: UsersExplorer) -> Markup:
    slider = tag(
        "div",
        tag("label", "Epsilon", for_="epsilon"),
        tag("output", id="value-epsilon", for_="epsilon", aria_hidden="true"),
        tag(
            "input",
            type="range",
            id="epsilon",
            max=len(explorer.epsilons) - 1,
            autocomplete="off",
            aria_describedby="progress",
        ),
        class_="one",
    )
    words = (
        "Each epsilon takes passes of its own over all pairs of a user and a key. So the slider stands at a few "
        "epsilons, which are computed while this page is open."
    )
    delta = explorer.settings[explorer.start].privacy.delta
    protected = f"Delta is {text(delta)}. The release protects {explain_protected(unit='user')}."
    form = tag("form", slider, tag("p", id="trouble", role="alert", class_="bad"), autocomplete="off")
    quiet = [tag("p", line, class_="quiet") for line in (protected, words)]
    return join([form, tag("p", id="progress", role="status", class_="quiet"), *quiet])


def _numbers() -> Markup:
    facts = [
        tag("div", tag("dt", tag("strong", name), tag("span", _EXPLAINED[key])), tag("dd", "…", id=f"fact-{key}"))
        for key, name in FACTS.items()
    ]
    return join([tag("p", id="summary", role="status", class_="unseen"), tag("dl", *facts, class_="facts")])


def _figures() -> Markup:
    captions = {
        "keys": "Reported keys by epsilon, next to the most that any method could report.",
        "errors": "Median relative error of the counts of keys that are found, by epsilon.",
    }
    return join(
        [figure(f"chart-{name}", caption, caption, _points(name, caption)) for name, caption in captions.items()]
    )


def _points(name: str, caption: str) -> Markup:
    blank = tag("table", id=f"points-{name}")
    return tag("div", blank, class_="scroll", role="region", tabindex="0", aria_label=caption)


def _ways() -> Markup:
    meanings = tag("dl", *(tag("div", tag("dt", name), tag("dd", words)) for name, words in MEANINGS.items()))
    return join(
        [
            table("At this epsilon", COLUMNS, [], [False, *(True for _ in COLUMNS[1:])]),
            tag("details", tag("summary", "What the columns and methods mean"), meanings, class_="legend"),
        ]
    )

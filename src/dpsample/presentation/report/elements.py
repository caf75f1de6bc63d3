"""What several sections of a report have: cells of numbers, notes, and how to compute the same."""

from collections.abc import Iterable, Sequence

from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import claim_of
from dpsample.presentation.markup import Markup, tag
from dpsample.presentation.numbers import interval, whole
from dpsample.presentation.report.content import Content
from dpsample.release.explain import sentence

NOT_GUARANTEED = "not guaranteed"


def column_name(content: Content) -> str:
    """Return the name of the column of what is estimated."""
    return "users" if content.counted else "frequency"


def estimate_cells(estimates: Sequence[Estimate]) -> list[list[str]]:
    """Return the cells of each estimate: its value, its interval, and, if some are not, whether it is guaranteed."""
    rows = []
    for number in estimates:
        ends = interval(number.low, number.high)
        rows.append([whole(number.value), ends])
    if all(number.guaranteed for number in estimates):
        return rows
    for row, number in zip(rows, estimates, strict=True):
        row.append("" if number.guaranteed else NOT_GUARANTEED)
    return rows


def estimate_heads(estimates: Sequence[Estimate], name: str) -> list[str]:
    """Return the heads of these cells; `name` is that of the value."""
    heads = [name, "95 % interval"]
    if not all(number.guaranteed for number in estimates):
        heads.append("sure?")
    return heads


def claims(notes: Iterable[str]) -> list[Markup]:
    """Show notes, each once, without advice on arguments and options: a reader of the page has none to set."""
    distinct = dict.fromkeys(map(claim_of, notes))
    return [tag("p", sentence(claim), class_="quiet") for claim in distinct]


def key_cells(columns: Sequence[Sequence[str]], row: int) -> list[Markup]:
    """Return the cells of one key, a text for each key column."""
    return [tag("span", column[row], class_="key") for column in columns]


def folded(summary: str, *content: object) -> Markup:
    """Return content that is shown when a reader asks for it."""
    return tag("details", tag("summary", summary), *content)


def again(
    content: Content,
    calls: Sequence[str],
    words: Sequence[object],
    command: str = "On the command line",
) -> Markup:
    """Show how to compute the same numbers."""
    python = tag("pre", content.python(*calls), tabindex="0", class_="again python")
    shell = tag("pre", content.command(*words), tabindex="0", class_="again command")
    in_python = tag("p", "In Python:")
    in_shell = tag("p", f"{command}:")
    return folded("Compute these numbers yourself", in_python, python, in_shell, shell)

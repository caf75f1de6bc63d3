"""What commands print: results to standard output, progress to standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dpsample.exact import text
from dpsample.files.metadata import sidecar_of
from dpsample.release.explain import visibility
from dpsample.release.facts import Topic

# of a release
_PRINTED = (
    "privacy",
    "unit",
    "max_keys_per_user",
    "per_key",
    "sampling",
    "size",
    "total",
    "dropped",
    "part",
    "reading",
    "discovery",
    "counts",
    "ledger",
)
_TOPICS = (
    Topic.SAMPLED,
    Topic.FOUND,
    Topic.CHOSEN,
    Topic.COUNTED,
    Topic.SUMMED,
    Topic.KEPT,
    Topic.SIZE,
    Topic.TOTAL,
    Topic.PRIVACY,
    Topic.PART,
    Topic.READ,
    Topic.SEEN,
    Topic.LEDGER,
)


class Stages:
    """A line on a terminal: the stage of a run, and for how long it runs; elsewhere nothing.

    Of a run on private data it is told no number, and shows none. The settings of a plan are counted: how many there
    are is no secret.
    """

    def __init__(self, shown: Any = None) -> None:
        self._shown = shown
        self._line = None if shown is None else shown.add_task("", total=None)

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:  # noqa: D102
        if self._shown is not None:
            count = "" if total is None else f" {done:,} of {total:,}"
            self._shown.update(self._line, description=stage + count)


@contextmanager
def shown_stages() -> Iterator[Stages]:
    """Show stages on a terminal."""
    if not sys.stderr.isatty():
        yield Stages()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield Stages(shown)


def print_release(
    read: str,
    output: str,
    keys: int,
    terms: Any,
    form: str,
    private: dict[str, int] | None,
) -> None:
    """Print what was released, and how."""
    sampling, metadata = terms.sampling, terms.to_json(keys)
    beside = sidecar_of(Path(output)) if output.lower().endswith((".csv", ".arrow")) else None
    result: dict[str, Any] = {
        "output": output,
        "keys": keys,
        "read": read,
        **{name: metadata[name] for name in _PRINTED if name in metadata},
        "reported_from_frequency": {
            text(level): i for level, i in visibility(sampling, terms.per_key)
        },
    }
    facts = terms.facts(keys).about(*_TOPICS)
    lines = [
        f"Wrote   {output}: {keys:,} keys"
        + ("; the source is empty, or nothing could be reported" if not keys else ""),
        *(
            []
            if beside is None
            else [f"Keep    {beside} beside it: without it, nobody can read the release"]
        ),
        f"Read    {read}",
        *(f"{fact.topic.value.capitalize():7} {fact.words}" for fact in facts),
    ]
    if private is not None:
        result["NOT private"] = private
        lines.append("NOT private: " + ", ".join(f"{stage}: {n:,}" for stage, n in private.items()))
    show(result, lines, form)


def show(result: dict[str, Any], lines: list[str], form: str) -> None:
    """Print a result, as lines for people or as JSON."""
    click.echo(
        json.dumps(result, indent=2, ensure_ascii=False) if form == "json" else "\n".join(lines)
    )

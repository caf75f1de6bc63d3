"""What commands print: results to standard output; progress, and what was done, to standard error."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dpsample.cli.log import current_log
from dpsample.cli.options import is_quiet
from dpsample.exact import text
from dpsample.files.metadata import sidecar_of
from dpsample.private.drawing import Written
from dpsample.release.explain import visibility
from dpsample.release.facts import Topic

_PRINTED = (  # metadata of a release
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
_TOPICS = (  # facts about a release
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
)


class Stages:
    """A line on a terminal: the stage of a run, and for how long it runs. The stage is also entered in the log.

    A run on private data passes no number, so none is shown. The settings of a plan are counted: their number is no
    secret.
    """

    def __init__(self, shown: Any = None) -> None:
        self._shown = shown
        self._line = None if shown is None else shown.add_task("", total=None)

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:  # noqa: D102
        if total is None:
            current_log().stage(stage)
        if self._shown is not None:
            count = "" if total is None else f" {done:,} of {total:,}"
            self._shown.update(self._line, description=stage + count)


@contextmanager
def shown_stages() -> Iterator[Stages]:
    """Show stages on a terminal."""
    if is_quiet() or not sys.stderr.isatty():
        yield Stages()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        yield Stages(shown)


@dataclass(frozen=True)
class Made:
    """A release that a command made: what it read and how, in words, and what it wrote.

    `entry` is the number of its entry in the ledger, if there is one. `private` are numbers of rows by stage, which are
    NOT private, if they were asked for.
    """

    read: str
    output: str
    written: Written
    entry: int | None = None
    private: dict[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the terms of the release, and where it is."""
        terms = self.written.terms
        keys = self.written.keys
        form = {"output": self.output, "keys": keys, "read": self.read}
        metadata = terms.to_json(keys)
        form |= {name: metadata[name] for name in _PRINTED if name in metadata}
        frequencies = visibility(terms.sampling, terms.per_key)
        form["reported_from_frequency"] = {text(level): i for level, i in frequencies}
        if self.entry is not None:
            form["entry"] = self.entry
        if self.private is not None:
            form["NOT private"] = self.private
        return form

    def lines(self) -> list[str]:
        """Return the same for people."""
        keys = self.written.keys
        wrote = f"Wrote   {self.output}: {keys:,} keys"
        if not keys:
            wrote += "; the source is empty, or nothing could be reported"
        lines = [wrote]
        if self.output.lower().endswith((".csv", ".arrow")):
            sidecar = sidecar_of(Path(self.output))
            lines.append(f"Keep    {sidecar} beside it: without it, nobody can read the release")
        lines.append(f"Read    {self.read}")
        for fact in self.written.terms.facts(keys).about(*_TOPICS):
            lines.append(f"{fact.topic.value.capitalize():7} {fact.words}")
        if self.entry is not None:
            lines.append(f"Ledger  entry {self.entry:,}, confirmed")
        if self.private is not None:
            numbers = [f"{stage}: {rows:,}" for stage, rows in self.private.items()]
            lines.append(f"NOT private: {', '.join(numbers)}")
        return lines


def print_release(made: Made, form: str) -> None:
    """Print what was released, and how."""
    tell(made.to_json(), made.lines(), form)


def show(result: Mapping[str, Any], lines: Sequence[str], form: str) -> None:
    """Print a result to standard output, as lines for people or as JSON."""
    if form == "json":
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(lines))


def tell(result: Mapping[str, Any], lines: Sequence[str], form: str) -> None:
    """Print what a command did: to standard error, unless quiet; as JSON it is a result, on standard output."""
    if form == "json":
        show(result, lines, form)
    elif not is_quiet():
        click.echo("\n".join(lines), err=True)


def remark(line: str) -> None:
    """Print a remark to standard error, unless quiet."""
    if not is_quiet():
        click.echo(line, err=True)

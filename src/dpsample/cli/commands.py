"""All commands by their names. Each is loaded when it is used: `dpsample --help` would wait for what they import."""

from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import click


class _Home(NamedTuple):
    """The module and the name of a command, and the first sentence of its help."""

    module: str
    name: str
    summary: str


HOMES = {
    "certify": _Home(
        "inspect",
        "certify_command",
        "Prove, in exact arithmetic, that the terms of a planned release are (epsilon, delta)-differentially private.",
    ),
    "changes": _Home(
        "query",
        "changes",
        "List the keys that rose or fell, at a rate of false discoveries: before is half of the files, or the --first.",
    ),
    "compare": _Home(
        "query",
        "compare",
        "Print the probability that one key is more frequent than another.",
    ),
    "completion": _Home("completion", "completion", "Print the completion script of a shell."),
    "demo": _Home(
        "demo",
        "demo_command",
        "Show, on public data, what a plain count gives away and what a private release shows.",
    ),
    "each-key": _Home("query", "each_key", "Estimate the frequency of each reported key."),
    "explore": _Home(
        "explore",
        "explore",
        "Write a plan as one page with sliders, before any budget is spent.",
    ),
    "info": _Home(
        "inspect",
        "info",
        "Say what a release or a sample is: its privacy, scheme and size.",
    ),
    "ledger": _Home(
        "ledger",
        "ledger_commands",
        "Keep account of a dataset's budget: each release reserves its part before it is drawn, or is refused.",
    ),
    "mean": _Home(
        "query",
        "mean",
        "Estimate the mean of the frequencies of keys, or of a function of them.",
    ),
    "other": _Home(
        "query",
        "other",
        "Estimate the number of elements whose keys were not reported.",
    ),
    "plan": _Home("plan", "plan", "Forecast a release before any budget is spent."),
    "plot": _Home(
        "report",
        "plot",
        "Draw the most frequent keys of a release, with intervals, as a bar chart.",
    ),
    "quantiles": _Home("query", "quantiles", "Estimate quantiles of the frequencies of keys."),
    "query": _Home(
        "query",
        "query",
        "Estimate a total, with its error, on two lines: of frequencies, or of a function of them.",
    ),
    "rank": _Home("query", "rank", "Estimate the rank of a key: 1 for the most frequent one."),
    "release": _Home(
        "release",
        "release",
        "Read elements, sample keys, sanitize them, and write a release that may be published.",
    ),
    "report": _Home(
        "report",
        "report",
        "Show a release as a page: its privacy in plain words, its keys with a search box, and its limits.",
    ),
    "run": _Home(
        "run",
        "run",
        "Make the release that SETTINGS describes, a TOML file with the options of `dpsample release` by their names.",
    ),
    "sample": _Home("release", "sample", "Draw a weighted sample of keys into a file."),
    "sanitize": _Home("release", "sanitize", "Turn a sample into a release."),
    "stream": _Home(
        "stream",
        "stream",
        "Sample and count the keys of a stream, in one pass, in memory of the size of the sample.",
    ),
    "top": _Home("query", "top", "List the most frequent keys."),
    "verify": _Home(
        "inspect",
        "verify",
        "Check a release file, and prove that its stated terms are private: "
        "the scheme, the composition and the totals.",
    ),
}


class LateCommands(UserDict[str, click.Command]):
    """The commands; one is imported when it is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            home = HOMES[name]
            module = import_module(f"dpsample.cli.{home.module}")
            self.data[name] = getattr(module, home.name)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


class LateGroup(click.Group):
    """A group whose help lists its commands without loading them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the beginning of its summary, as click does."""
        room = formatter.width - 6 - max(map(len, HOMES))
        rows = []
        for name, home in HOMES.items():
            command = click.Command(name, help=home.summary)
            rows.append((name, command.get_short_help_str(room)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

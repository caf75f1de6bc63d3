"""dpsample report and plot: a release as a page, and its top keys as a chart."""

import os
from collections.abc import Sequence
from typing import Any

import click

from dpsample.answers.changes import changes
from dpsample.answers.release import read_release
from dpsample.answers.several import Combined, combine
from dpsample.cli import options
from dpsample.cli.printing import tell
from dpsample.errors import InvalidValue
from dpsample.files import check_not_input
from dpsample.presentation.plot import check_plot
from dpsample.presentation.report import (
    PageSetting,
    Report,
    SeveralSetting,
    Statement,
    check_report,
    make_report,
)


@click.command()
@click.argument("releases", metavar="RELEASE...", nargs=-1, required=True)
@click.option("--output", "-o", required=True, help="HTML file to write; its name ends with .html.")
@click.option("--before", help="Earlier release: the page shows which keys rose or fell since.")
@click.option(
    "--top", type=int, default=100, show_default=True, help="Number of keys in the top list."
)
@click.option("--title", help="Title of the page; by default, the key columns.")
@click.option(
    "--about", help="What the data are: a description; an empty line begins a new paragraph."
)
@click.option("--contact", help="Whom to ask; an address of mail or of the web becomes a link.")
@click.option(
    "--date", help="Day of publication, as YYYY-MM-DD; the page has no date unless it is stated."
)
@click.option(
    "--prove/--no-prove",
    default=True,
    show_default=True,
    help="Run the proof of the privacy, or do not.",
)
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@options.done_format
def report(
    releases: tuple[str, ...],
    output: str,
    before: str | None,
    top: int,
    prove: bool,
    force: bool,
    form: str,
    **stated: str | None,
) -> None:
    """Show a release as a page: its privacy in plain words, its keys with a search box, and its limits.

    The page is one HTML file that needs no network. It follows from the release alone, and is as private. Several
    releases, in order, as of the days of a week, are shown together, release by release, and by what changed.

    \b
    Example:
      dpsample report queries.private.parquet -o report.html
      dpsample report tuesday.parquet --before monday.parquet -o changes.html
      dpsample report monday.parquet tuesday.parquet wednesday.parquet -o days.html
      dpsample report q.private.parquet -o q.html --title Queries --about "Of 2025." --contact data@example.org
    """
    statement = Statement(**stated)
    check_report(output, force)
    check_not_input(output, [*releases] if before is None else [*releases, before])
    if len(releases) == 1:
        setting = PageSetting(statement, releases[0], before, top, prove)
        page = _of_one(releases[0], setting)
    else:
        page = _of_several(releases, SeveralSetting(statement, releases, top), before)
    page.write(output, force=force)
    size = os.path.getsize(output)
    line = f"Wrote {output}: {size / 1e6:.1f} MB; open it in a browser"
    tell({"output": output, "bytes": size}, [line], form)


def _of_one(file: str, setting: PageSetting) -> Report:
    """Return the page of one release, with what changed since an earlier one."""
    before = setting.before_name
    earlier = None if before is None else read_release(before)
    shown = read_release(file)
    changed = None if earlier is None else changes(earlier, shown)
    return make_report(shown, setting, changed)


def _of_several(files: Sequence[str], setting: SeveralSetting, before: str | None) -> Report:
    """Return the page of several releases."""
    if before is not None:
        raise InvalidValue(
            "`before` goes with one release", "give all releases in order, the earliest first"
        )
    together = combine(*map(read_release, files))
    assert isinstance(together, Combined)  # there are several
    return together.report(statement=setting.statement, files=setting.files, top=setting.top)


@click.command()
@click.argument("release")
@click.option("--output", "-o", required=True, help="File to write; its name ends with .svg.")
@click.option("-k", "--keys", "k", type=int, default=20, show_default=True, help="Number of keys.")
@click.option("--title", help="Title of the chart.  [default: the number of keys]")
@click.option("--where", help="SQL expression on the key columns and attributes. Selects keys.")
@click.option(
    "--attributes", help="Parquet, CSV or Arrow file with the key columns and further columns."
)
@click.option(
    "--level",
    type=float,
    default=0.95,
    show_default=True,
    help="Nominal coverage of the intervals.",
)
@click.option("--force", is_flag=True, help="Replace an output that exists.")
@options.done_format
def plot(release: str, output: str, force: bool, form: str, **chart: Any) -> None:
    """Draw the most frequent keys of a release, with intervals, as a bar chart.

    \b
    Example:
      dpsample plot queries.private.parquet -k 20 -o queries.svg
    """
    check_plot(output, force)
    check_not_input(output, [release])
    read_release(release).plot(**chart).write(output, force)
    tell({"output": output}, [f"Wrote {output}"], form)

"""dpsample report and plot: a release as a page, and its top keys as a chart."""

import os
from typing import Any

import click

from dpsample.answers.changes import changes
from dpsample.answers.release import read_release
from dpsample.cli import options
from dpsample.cli.printing import tell
from dpsample.files import check_not_input
from dpsample.presentation.plot import check_plot
from dpsample.presentation.report import PageSetting, Statement, check_report, make_report


@click.command()
@click.argument("release")
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
    release: str,
    output: str,
    before: str | None,
    top: int,
    prove: bool,
    force: bool,
    form: str,
    **stated: str | None,
) -> None:
    """Show a release as a page: its privacy in plain words, its keys with a search box, and its limits.

    The page is one HTML file that needs no network. It follows from the release alone, and is as private.

    \b
    Example:
      dpsample report queries.private.parquet -o report.html
      dpsample report tuesday.parquet --before monday.parquet -o changes.html
      dpsample report q.private.parquet -o q.html --title Queries --about "Of 2025." --contact data@example.org
    """
    setting = PageSetting(Statement(**stated), release, before, top, prove)
    check_report(output, force)
    check_not_input(output, [release] if before is None else [release, before])
    earlier = None if before is None else read_release(before)
    shown = read_release(release)
    changed = None if earlier is None else changes(earlier, shown)
    make_report(shown, setting, changed).write(output, force=force)
    size = os.path.getsize(output)
    line = f"Wrote {output}: {size / 1e6:.1f} MB; open it in a browser"
    tell({"output": output, "bytes": size}, [line], form)


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

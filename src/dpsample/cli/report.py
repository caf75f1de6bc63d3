"""The commands that make something to look at: demo, paper, report."""

import os

import click


@click.command()
@click.argument("release")
@click.option("--output", "-o", required=True, help="HTML file to write.")
@click.option("--top", type=int, default=100, show_default=True, help="How many keys the top list has.")
@click.option("--title", help="Of the page; by default, the key columns.")
@click.option("--prove/--no-prove", default=None, help="Run the proof of its privacy; by default, if it takes seconds.")
@click.option("--force", is_flag=True, help="Replace the output.")
def report(release: str, output: str, top: int, title: str | None, prove: bool | None, force: bool) -> None:
    """Show a release as a page: its privacy in plain words, its keys with a search box, and what cannot be seen.

    One HTML file, which needs no network. It is made from the release alone, and as private as that.

    \b
    Example:
      dpsample report queries.private.parquet -o report.html
    """
    from dpsample.files import check_file
    from dpsample.presentation.report import make_report
    from dpsample.release.release import read_release

    check_file(output, force)
    made = make_report(read_release(release), title=title, name=release, top=top, prove=prove)
    made.write(output, force=force)
    click.echo(f"Wrote {output}: {os.path.getsize(output) / 1e6:.1f} MB; open it in a browser")

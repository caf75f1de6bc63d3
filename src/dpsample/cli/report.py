"""dpsample report."""

import os

import click


@click.command()
@click.argument("release")
@click.option("--output", "-o", required=True, help="HTML file to write.")
@click.option("--top", type=int, default=100, show_default=True, help="Number of keys in the top list.")
@click.option("--title", help="Title of the page.  [default: the key columns]")
@click.option("--prove/--no-prove", default=None, help="Run the proof of its privacy.  [default: if it takes seconds]")
@click.option("--force", is_flag=True, help="Replace an output that exists.")
def report(release: str, output: str, top: int, title: str | None, prove: bool | None, force: bool) -> None:
    """Write a release as one HTML page. It needs no network.

    The page shows the privacy of the release in plain words, its keys with a search box, and what cannot be seen. It is
    made from the release alone, so it is as private as the release.

    \b
    Example:
      dpsample report queries.private.parquet -o report.html
    """
    from dpsample.files import check_file
    from dpsample.presentation.report import make_report
    from dpsample.release.release import read_release

    check_file(output, force)
    page = make_report(read_release(release), title=title, name=release, top=top, prove=prove)
    page.write(output, force=force)
    click.echo(f"Wrote {output}: {os.path.getsize(output) / 1e6:.1f} MB; open it in a browser")

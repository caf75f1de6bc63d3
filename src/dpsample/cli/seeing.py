"""The commands that make something to look at: demo, paper, report."""

import os

import click

from dpsample.cli.printing import progress_bar


@click.command("demo")
def demo_command() -> None:
    """Release the identifiers of Python's own standard library, and look at the result."""
    from dpsample.demo import demo

    demo(click.echo)


@click.command()
@click.option("--output", "-o", required=True, help="Folder to make.")
@click.option("--figure", "figures", multiple=True, help="Only this figure, by its name; repeat it for several.")
@click.option("--quick", is_flag=True, help="Coarse grids, and no network.")
@click.option("--data", help="A file of your own, drawn beside the real data sets; the page is then as private as it.")
@click.option("--key", help="Key column of --data.")
@click.option("--force", is_flag=True, help="Replace a folder that this command made.")
def paper(output: str, figures: tuple[str, ...], quick: bool, data: str | None, key: str | None, force: bool) -> None:
    """Draw the paper's figures and check its claims: PNG, SVG and CSV of each, and one page of it all.

    \b
    Examples:
      dpsample paper -o paper
      dpsample paper -o nrmse --figure nrmse --quick
      dpsample paper -o words --figure real --data headlines.csv --key word
    """
    if (data is None) != (key is None):
        raise click.UsageError("--data and --key go together; found only one of them; give both")
    from dpsample.paper import build

    with progress_bar() as progress:
        own = None if data is None or key is None else (data, key)
        drawn = build(output, figures=figures, quick=quick, own=own, force=force, progress=progress)
    click.echo(f"Wrote {output}: {len(drawn)} figures ({', '.join(drawn)}); open {os.path.join(output, 'index.html')}")
    if own is not None:
        click.echo("NOT private: it shows your data as they are. Do not publish it.")


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
    from dpsample.releases import read_release
    from dpsample.report import make_report

    check_file(output, force)
    made = make_report(read_release(release), title=title, name=release, top=top, prove=prove)
    made.write(output, force=force)
    click.echo(f"Wrote {output}: {os.path.getsize(output) / 1e6:.1f} MB; open it in a browser")

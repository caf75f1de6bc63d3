"""python -m paper -o FOLDER: the paper's figures and claims, as a folder with one page (`make paper`)."""

import os
from functools import partial

import click

from dpsample.cli import main
from dpsample.cli.printing import shown_stages
from dpsample.errors import InvalidValue
from dpsample.private.count import count_frequencies
from paper.build import build


@click.command()
@click.option("--output", "-o", required=True, help="Folder to write.")
@click.option(
    "--figure", "figures", multiple=True, help="Name of a figure to draw. Repeat it for several.  [default: all]"
)
@click.option("--quick", is_flag=True, help="Use coarse grids, and no network.")
@click.option("--data", help="Your own file, drawn beside the real data sets. The page is then NOT private.")
@click.option("--key", help="Key column of --data.")
@click.option("--force", is_flag=True, help="Replace a folder that this command wrote.")
def paper(output: str, figures: tuple[str, ...], quick: bool, data: str | None, key: str | None, force: bool) -> None:
    """Draw the paper's figures and check its claims. Writes PNG, SVG and CSV files, and one page with all of them.

    \b
    Examples:
      python -m paper -o figures
      python -m paper -o nrmse --figure nrmse --quick
      python -m paper -o words --figure real --data headlines.csv --key word
    """
    if (data is None) != (key is None):
        raise click.UsageError("--data and --key go together; found only one of them; give both")
    with shown_stages() as stages:
        own = None if data is None or key is None else partial(_own, data, key)
        drawn = build(output, figures=figures, quick=quick, own=own, force=force, progress=stages)
    click.echo(f"Wrote {output}: {len(drawn)} figures ({', '.join(drawn)}); open {os.path.join(output, 'index.html')}")
    if own is not None:
        click.echo("NOT private: it shows your data as they are. Do not publish it.")


def _own(path: str, key: str) -> dict[int, int]:
    """Count how many keys of the user's file have each frequency. The result is as private as the file."""
    counted = count_frequencies(path, key)
    if not counted.total:
        raise InvalidValue(f"{path!r} has no elements to draw", "give another file")
    return dict(zip(counted.values.tolist(), counted.keys.tolist(), strict=True))


if __name__ == "__main__":
    main(paper)

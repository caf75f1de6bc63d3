"""The commands of a reviewer: info, verify, certify."""

from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import show


@click.command()
@click.argument("file")
@options.output_format
def info(file: str, form: str) -> None:
    """Say what a release or a sample is: its privacy, scheme and size. Shows the first keys of a release.

    \b
    Example:
      dpsample info queries.private.parquet
    """
    from dpsample.files import kind_of
    from dpsample.private.sample import read_sample
    from dpsample.release.release import read_release

    found = read_sample(file) if kind_of(file) == "sample" else read_release(file)
    show(found.metadata, [repr(found)], form)


@click.command()
@click.argument("release")
@options.output_format
def verify(release: str, form: str) -> None:
    """Check a release file, and prove all that its privacy rests on: its scheme, composition and totals.

    \b
    Example:
      dpsample verify queries.private.parquet
    """
    from dpsample.accounting.proof import prove_release
    from dpsample.release.release import read_release

    found = read_release(release)
    proof = prove_release(found.terms)
    whole = f"{release}: a whole release of {len(found):,} keys"
    show({"release": release, "keys": len(found), **proof.to_json()}, [whole, str(proof)], form)


@click.command("certify")
@options.privacy
@options.max_keys
@options.scheme
@options.totals
@click.option("--grid", type=int, help="Tokens are multiples of 1/GRID, a power of two.  [default: chosen by epsilon]")
@options.output_format
def certify_command(grid: int | None, form: str, **given: Any) -> None:
    """Prove, in exact arithmetic, that a planned release is (epsilon, delta)-differentially private.

    One page for a reviewer to sign: whom it protects, what is spent on what, the scheme of each key, and the
    composition over a user's keys.

    \b
    Examples:
      dpsample certify --epsilon 1 --delta 1e-8
      dpsample certify --epsilon 0.1 --delta 1e-6 --scheme ppswor --tau 1e-4 --format json
      dpsample certify --epsilon 1 --delta 1e-6 --max-keys-per-user 50 --with-total
    """
    from dpsample.accounting.budget import Budget
    from dpsample.accounting.proof import prove
    from dpsample.accounting.totals import check_share

    size = options.size_of(given)
    share = check_share(given["total_share"] if given["with_total"] else False, "the total")
    budget = Budget(
        options.privacy_of(given), given["max_keys_per_user"], size.share if size else check_share(False, "size"), share
    )
    proof = prove(budget, None if size else options.sampling_of(given), grid)
    show(proof.to_json(), [str(proof)], form)

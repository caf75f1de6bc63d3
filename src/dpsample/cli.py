"""The `dpsample` command: one thin command per task. Parse, call the library, print."""

import json
import sys

import click

from dpsample import __version__
from dpsample.errors import DpsampleError, PrivacyViolation
from dpsample.privacy import Privacy
from dpsample.scheme import DEFAULT_GRID, KeepAll, Ppswor, Priority, Sampling, certify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Private weighted samples and histograms of key-frequency data."""


def scheme_from(scheme: str, tau: str | None, power: str, cap: int | None) -> Sampling:
    """Return the sampling scheme that the options name."""
    if scheme == "all":
        if tau is not None:
            raise click.UsageError("--tau goes with --scheme ppswor or priority; found --scheme all; leave --tau out")
        return KeepAll()
    if tau is None:
        raise click.UsageError(f"--scheme {scheme} needs --tau; found none; add, for example, --tau 1e-4")
    return (Ppswor if scheme == "ppswor" else Priority)(tau, power, cap)


@cli.command("certify")
@click.option("--epsilon", required=True, help="Epsilon, read exactly: 0.1 is one tenth.")
@click.option("--delta", required=True, help="Delta, well below 1 / (number of elements).")
@click.option("--scheme", type=click.Choice(["all", "ppswor", "priority"]), default="all", show_default=True)
@click.option("--tau", help="Sampling threshold of ppswor and priority.")
@click.option("--power", default="1", show_default=True, help="Weight: frequency ** power.")
@click.option("--cap", type=int, help="Weight: min(frequency, cap) ** power.")
@click.option("--grid", default=DEFAULT_GRID, show_default=True, help="Tokens come in steps of 1/grid.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def certify_command(
    epsilon: str, delta: str, scheme: str, tau: str | None, power: str, cap: int | None, grid: int, form: str
) -> None:
    r"""Prove, in exact arithmetic, that a scheme is (epsilon, delta)-differentially private.

    \b
    Examples:
      dpsample certify --epsilon 1 --delta 1e-8
      dpsample certify --epsilon 0.1 --delta 1e-6 --scheme ppswor --tau 1e-4 --format json
    """
    certificate = certify(scheme_from(scheme, tau, power, cap), Privacy(epsilon, delta), grid)
    click.echo(json.dumps(certificate.to_json(), indent=2) if form == "json" else str(certificate))


@cli.command("demo")
def demo_command() -> None:
    """Show what private reporting can do, on the words of Python's own standard library."""
    from dpsample.demo import demo

    demo(click.echo)


def main() -> None:
    """Run the command; a known error becomes one line and exit code 2 (1 where a guarantee failed)."""
    try:
        cli()
    except PrivacyViolation as error:
        click.echo(f"dpsample: {error}", err=True)
        sys.exit(1)
    except DpsampleError as error:
        click.echo(f"dpsample: {error}", err=True)
        sys.exit(2)

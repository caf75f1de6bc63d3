"""The commands of a reviewer: info, verify, certify."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from dpsample import __version__
from dpsample.answers.release import Release, read_release
from dpsample.cli import options
from dpsample.cli.answers import opened
from dpsample.cli.exits import Exit
from dpsample.cli.printing import show
from dpsample.files import check_file, check_not_input, kind_of, write_file
from dpsample.files.metadata import release_sha256
from dpsample.ledger.charges import shown
from dpsample.private.sample import read_sample
from dpsample.release.explain import explain_part
from dpsample.release.option_words import read_privacy, read_sampling, read_size, read_total
from dpsample.release.options import ReleaseOptions, kept_from
from dpsample.release.proof import Proof, prove, prove_release
from dpsample.release.proof.independent import (
    IndependentCheck,
    certificate_text,
    check_independently,
    find_checker,
)
from dpsample.release.proof.page import not_proved, proof_page, verdict


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.output_format
def info(files: tuple[str, ...], form: str) -> None:
    """Say what a release or a sample is: its privacy, scheme and size. Shows the first keys of a release.

    Of several releases, it says what they cost together, and shows the first keys of all.

    \b
    Examples:
      dpsample info queries.private.parquet
      dpsample info day-*.parquet
    """
    if len(files) > 1:
        combined = opened(files)
        show(combined.metadata, [repr(combined)], form)
        return
    [file] = files
    table = read_sample(file) if kind_of(file) == "sample" else read_release(file)
    show(table.metadata, [repr(table)], form)


_certificate = options.together(
    click.option(
        "--certificate",
        metavar="FILE",
        help="Write the rows that the proof is about, for other checkers.",
    ),
    click.option("--force", is_flag=True, help="Replace a certificate that exists."),
)


@click.command()
@click.argument("release")
@click.option(
    "--require-complete",
    is_flag=True,
    help="Exit with code 3 if the proof does not cover every frequency.",
)
@click.option(
    "--independent",
    is_flag=True,
    help="Ask a second program as well, whose yes is proved to be right.",
)
@click.option(
    "--checker",
    envvar="DPSAMPLE_CHECKER",
    metavar="PROGRAM",
    help="The program for --independent, which `make proofs` builds.  [default: dpsample-checker on PATH]",
)
@_certificate
@options.output_format
def verify(
    release: str,
    require_complete: bool,
    independent: bool,
    checker: str | None,
    certificate: str | None,
    force: bool,
    form: str,
) -> None:
    """Check a release file, and prove that its stated terms are private: the scheme, the composition and the totals.

    That the file was drawn on these terms is vouched for by dpsample. The page begins with the verdict, and lists what
    was not proved. A reviewer signs it. It names the file and its SHA-256. For CSV and Arrow this is the SHA-256 of the
    .json beside the file, and for a folder that of its _dpsample.json: these hold the SHA-256 of the rows.

    \b
    Examples:
      dpsample verify queries.private.parquet
      dpsample verify queries.private.parquet --require-complete
      dpsample verify queries.private.parquet --independent
    """
    if certificate is not None:
        check_not_input(certificate, [release])
        check_file(certificate, force)
    program = find_checker(checker) if independent else None
    verified = _Verified.of(release, program)
    proof, part = verified.proof, verified.opened.terms.part
    if certificate is not None:
        write_file(certificate, certificate_text(proof).encode(), force)
    show(verified.to_json(), [proof_page(proof, verified.about(), part)], form)
    if require_complete and not proof.complete:
        click.echo(
            "dpsample: the proof does not cover every frequency, as --require-complete asks",
            err=True,
        )
        click.get_current_context().exit(Exit.INCOMPLETE)


@dataclass(frozen=True)
class _Verified:
    """A release whose stated terms were proved, and what a reviewer needs to know of its file."""

    file: str
    opened: Release
    hashed: str  # the name of the file whose SHA-256 is stated
    sha256: str
    proof: Proof
    independent: IndependentCheck | None
    today: str

    @classmethod
    def of(cls, file: str, program: str | None) -> "_Verified":
        """Read a release and prove its terms; with a `program`, check the proof a second time."""
        opened = read_release(file)
        hashed, sha256 = release_sha256(file)
        proof = prove_release(opened.terms)
        check = None if program is None else check_independently(proof, program)
        return cls(file, opened, hashed.name, sha256, proof, check, _today())

    def about(self) -> list[str]:
        """Return the lines about the file."""
        terms = self.opened.terms
        key_columns = shown(", ".join(terms.keys))
        entered = f"entered as {shown(terms.ledger)}" if terms.ledger else "none"
        lines = [
            f"Release:   {shown(self.file)}: {len(self.opened):,} keys; key: {key_columns}",
            f"SHA-256:   {self.sha256} of {shown(self.hashed)}",
            f"Made by:   dpsample {shown(terms.dpsample)}",
            f"Ledger:    {entered}",
            f"Verified:  {self.today}, by dpsample {__version__}: the file is as it was written",
        ]
        if self.independent is not None:
            lines.append(str(self.independent))
        if terms.part is not None:
            lines.append(f"Read:      {shown(explain_part(terms.part, terms.max_keys))}")
        if terms.reading is not None:
            lines.append(f"Keys of:   {shown(str(terms.reading))}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        terms = self.opened.terms
        form: dict[str, Any] = {
            "release": self.file,
            "sha256": self.sha256,
            "sha256_of": self.hashed,
            "keys": len(self.opened),
            "key_columns": list(terms.keys),
            "dpsample": terms.dpsample,
            "ledger": terms.ledger,
        }
        if terms.part is not None:
            form["part"] = terms.part.to_json()
        if terms.reading is not None:
            form["reading"] = terms.reading.to_json()
        form["verified"] = {"date": self.today, "dpsample": __version__}
        if self.independent is not None:
            form["independent"] = self.independent.to_json()
        form |= self.proof.to_json()
        form["verdict"] = verdict(self.proof, terms.part)
        form["not_proved"] = not_proved(self.proof, terms.part)
        return form


@click.command("certify")
@options.of_release("privacy", "max_keys_per_user")
@options.of_release("sampling", "size", "total", "grid", "keys_only")
@click.option("--dataset", help="Name of the dataset, for the page.")
@_certificate
@options.output_format
def certify_command(
    grid: int | None,
    keys_only: bool,
    dataset: str | None,
    certificate: str | None,
    force: bool,
    form: str,
    **given: Any,
) -> None:
    """Prove, in exact arithmetic, that the terms of a planned release are (epsilon, delta)-differentially private.

    One page for a reviewer to sign: the verdict, what is not proved, the unit of privacy, what is spent on what, the
    scheme of each key, and the composition over a user's keys.

    \b
    Examples:
      dpsample certify --epsilon 1 --delta 1e-8
      dpsample certify --epsilon 0.1 --delta 1e-6 --scheme ppswor --tau 1e-4 --format json
      dpsample certify --epsilon 1 --delta 1e-6 --max-keys-per-user 50 --with-total --dataset clicks
      dpsample certify --zcdp 0.1 --delta 1e-6 --max-keys-per-user 50
    """
    if certificate is not None:
        check_file(certificate, force)
    size = read_size(given)
    stated_sampling = None if size else read_sampling(given)
    sampling = kept_from(given["at_least"], stated_sampling, size)
    planned = ReleaseOptions(
        read_privacy(given),
        sampling,
        size,
        given["max_keys_per_user"],
        total=read_total(given),
        keys_only=keys_only,
    )
    proof = prove(planned.budget, None if size else sampling, grid)
    if certificate is not None:
        write_file(certificate, certificate_text(proof).encode(), force)
    today = _today()
    name = shown(dataset) if dataset else "____________________"
    about = [f"Plan for:  {name}", f"Certified: {today}, by dpsample {__version__}"]
    result = {
        "dataset": dataset,
        "certified": {"date": today, "dpsample": __version__},
        **proof.to_json(),
    }
    show(result, [proof_page(proof, about)], form)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()

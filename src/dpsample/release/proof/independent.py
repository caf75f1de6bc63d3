"""A second opinion: a release's certificate, handed to a program whose yes is proved to be right.

The program is `dpsample-checker`, which `make proofs` builds from a proof in Coq (docs/proofs.md). It shares no code
with this package. It reads the integers that tokens are drawn from, and accepts them or not.
"""

import shutil
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpsample.accounting.user_proof import UsersCertificate
from dpsample.errors import InvalidValue, PrivacyViolation, SystemFailure
from dpsample.release.proof import Proof
from dpsample.scheme.certificate import Certificate
from dpsample.scheme.certificate_text import certificate_lines, repeats

PROGRAM = "dpsample-checker"
_BUILT = Path(__file__).parents[4] / "proofs" / "build" / PROGRAM  # in the source of the package


@dataclass(frozen=True)
class IndependentCheck:
    """What the checker accepted: pairs of neighbouring rows, and whether these are all that there are.

    totals  whether the release has totals as well, of which the checker knows nothing
    units   whether the rows are those of units that users gave, which another theorem is about
    """

    certificate: Certificate
    totals: bool
    units: bool = False

    @property
    def complete(self) -> bool:
        """Whether the checker covers every frequency; else all but the checked ones rest on our own proof."""
        return repeats(self.certificate)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {"accepted": True, "pairs": self.certificate.pairs, "complete": self.complete}

    def __str__(self) -> str:
        accepted = f"Checker:   accepts {self.certificate.pairs} pairs of neighbouring rows"
        if self.complete:
            lines = [f"{accepted}, and all rows above (docs/proofs.md)"]
        else:
            lines = [
                f"{accepted} (docs/proofs.md)",
                "           other frequencies are not covered by it, but by the proof below",
            ]
        if self.units:
            lines.append(
                "           that a user gives one unit is not covered by it, but by proofs/Assignment.v"
            )
        if self.totals:
            lines.append("           totals are not covered by it, but by the proof below")
        return "\n".join(lines)


def covered_certificate(proof: Proof) -> Certificate:
    """Return the certificate that the checker can read; refuse a proof that rests on more than neighbouring rows."""
    scheme = proof.scheme
    one_key = proof.max_keys in (None, 1) and proof.per_key == proof.keys
    if isinstance(scheme, Certificate) and one_key and not _counts_users(proof):
        return scheme
    if scheme is None:
        found = "a scheme whose tau is not known yet"
    elif _counts_users(proof):
        found = "numbers of users with Gaussian noise, which are not drawn by rows"
    elif proof.unit == "user" and proof.max_keys is None:
        found = "keys of users that were discovered"
    elif proof.privacy.definition is not None:
        found = "a budget of zCDP or GDP"
    else:
        found = f"{proof.max_keys} keys of each user, which are composed"
    raise InvalidValue(
        f"the independent checker covers single keys with an epsilon and a delta, and not {found}",
        "use `dpsample verify` without it",
    )


def _counts_users(proof: Proof) -> bool:
    """Return whether users were counted in a stage of its own: the rows of the scheme say nothing of that."""
    if not isinstance(proof.composition, UsersCertificate):
        return False
    return bool(proof.composition.stages)


def find_checker(named: str | None = None) -> str:
    """Return the path of the checker: the one that is named, or the one on PATH, or the one that was built here."""
    candidates = (PROGRAM, str(_BUILT)) if named is None else (named,)
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is not None:
            return path
    missing = f"{PROGRAM} on PATH" if named is None else named
    raise InvalidValue(
        f"the independent check needs its program, and there is no {missing}",
        "build it from the source with `make proofs`, and name it by --checker or DPSAMPLE_CHECKER",
    )


def certificate_text(proof: Proof) -> str:
    """Return the certificate of a proof as the text that checkers read."""
    return "".join(f"{line}\n" for line in certificate_lines(covered_certificate(proof)))


def check_independently(proof: Proof, program: str) -> IndependentCheck:
    """Hand the certificate of a proof to the checker; raise `PrivacyViolation` if it does not accept it."""
    certificate = covered_certificate(proof)
    try:
        answer = subprocess.run(
            [program, "-"],
            input=certificate_text(proof),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise SystemFailure(
            f"the independent checker cannot run: {error.strerror or type(error).__name__}",
            "build it with `make proofs`",
        ) from None
    if answer.returncode == 1 and answer.stdout.startswith("refused: "):
        raise PrivacyViolation(
            f"{certificate.privacy} must hold for the rows of this release; the independent checker refuses them "
            f"({answer.stdout[9:].strip()}); do not trust it"
        )
    if answer.returncode != 0 or answer.stdout.strip() != _expected(certificate):
        said = (answer.stdout or answer.stderr).strip()[:200]
        raise SystemFailure(
            f"the independent checker ended with exit code {answer.returncode} and {said!r}, and accepted nothing",
            "build it anew with `make proofs`",
        )
    gives_units = isinstance(proof.composition, UsersCertificate)
    return IndependentCheck(certificate, bool(proof.bought), gives_units)


def _expected(certificate: Certificate) -> str:
    """Return the line by which the checker accepts these integers."""
    privacy = certificate.privacy
    epsilon = _ratio(privacy.epsilon)
    delta = _ratio(privacy.delta)
    spans = [f"{span.start}-{span.stop - 1}" for span in certificate.checked]
    frequencies = " ".join(spans)
    above = " and all above" if repeats(certificate) else ""
    return f"accepted: epsilon {epsilon}, delta {delta}, frequencies {frequencies}{above}"


def _ratio(number: Fraction) -> str:
    return f"{number.numerator}/{number.denominator}"

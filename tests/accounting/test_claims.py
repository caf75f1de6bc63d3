"""Claims are as large as the proof: the verdict, what was not proved, and which proof each mode has."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

import audit
from dpsample import InvalidValue, KeepAll, Privacy, Release, read_release
from dpsample.accounting.budget import Budget
from dpsample.accounting.parts import Part
from dpsample.cli.demo import _proved
from dpsample.presentation.label import label_of
from dpsample.presentation.report import make_report
from dpsample.release.explain import VOUCHED, explain_strength
from dpsample.release.proof import Proof, independent, prove, prove_release
from dpsample.release.proof.independent import certificate_text
from dpsample.release.proof.page import not_proved, proof_page, verdict
from dpsample.scheme import Certificate
from places import ROOT, VECTORS
from support import run
from vectors import register_halves

PUBLIC = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAID = "that the file was drawn on them is vouched for by dpsample"
NUMBERS_FOR_STATISTICIANS = ("Rényi", "mu**2", "rho-zCDP", "discrete Laplace noise of scale", "checked exactly")


def vector(name: str) -> Release:
    register_halves()
    return read_release(VECTORS / f"release-1-{name}.parquet")


def flat(text: str) -> str:
    """Text without line breaks and emphasis, so that a sentence is found wherever it wraps."""
    return " ".join(text.replace("*", "").split())


# The page of a proof.

ALL = sorted(path.stem.removeprefix("release-1-") for path in VECTORS.glob("release-1-*.parquet"))


@pytest.mark.parametrize("name", ALL)
def test_a_page_has_a_verdict_then_what_was_not_proved_then_terms_then_numbers(name: str) -> None:
    release = vector(name)
    proof = prove_release(release.terms)
    page = proof_page(proof, ["Release:   x"], release.terms.part)
    first, second, *_ = page.splitlines()
    missing = not_proved(proof, release.terms.part)
    assert first.startswith("PROVED: " if proof.complete else "PROVED IN PART: ")
    assert first.endswith(f"Not proved: see 1 to {len(missing)} below.")
    assert f"for each {proof.unit}" in first.replace(",", "")
    assert SAID in second
    numbered = re.findall(r"^  (\d+)\. ", page, re.MULTILINE)
    assert numbered == [str(n) for n in range(1, len(missing) + 1)]
    assert "  1. that this file was drawn on these terms" in page
    places = [page.index(word) for word in ("Not proved:\n", "Protected:", "Spent:", "For statisticians:", "Reviewed:")]
    assert places == sorted(places)
    before = page[: page.index("For statisticians:")]
    for number in NUMBERS_FOR_STATISTICIANS:
        assert number not in before
    assert len(page.splitlines()) < 60


def test_the_verdict_says_what_was_proved_and_of_whom() -> None:
    plan = prove(Budget(Privacy(1, "1e-6"), 50, Fraction(1, 20)), KeepAll())
    assert verdict(plan) == "PROVED: (1, 1e-06) for each user, every frequency. Not proved: see 1 to 6 below."
    unknown = prove(Budget(Privacy(1, "1e-6"), size=Fraction(1, 20)), None)
    assert verdict(unknown).startswith("PROVED IN PART: (1, 1e-06) for each element, but for the scheme")
    assert "tau is found when the release is made" in not_proved(unknown)[-1]
    zcdp = prove(Budget(Privacy.zcdp("0.1", "1e-6")), KeepAll())
    assert verdict(zcdp).startswith("PROVED: zCDP with rho 0.1 outside of delta 5e-07, so (2.20604636, 1e-06),")


def test_what_people_answer_for_is_named() -> None:
    def missing(name: str, part: Part | None = None) -> str:
        return " ".join(not_proved(prove_release(vector(name).terms), part))

    always = ("coins were secret", "without looking at the data", "other releases of the same data", "intervals")
    for name in ALL:
        assert all(words in missing(name) for words in always)
    assert "user column" in missing("counted")
    assert "user column" not in missing("all")
    assert "list of known keys" in missing("known")
    assert "nothing was checked" in missing("all", Part("day", "1", vouched=True))
    assert "nothing was checked" not in missing("all", Part("day", "1"))
    assert "frequencies that were not checked" in missing("registered")


def test_the_commands_begin_with_the_verdict(tmp_path: Path) -> None:
    path = VECTORS / "release-1-counted.parquet"
    expected = "PROVED: (3, 0.001) for each user, every frequency. Not proved: see 1 to 6 below."
    assert run("verify", str(path), cwd=tmp_path).stdout.splitlines()[0] == expected
    planned = run("certify", "-e", "1", "-d", "1e-6", cwd=tmp_path).stdout.splitlines()
    assert planned[0] == "PROVED: (1, 1e-06) for each element, every frequency. Not proved: see 1 to 5 below."


# Everywhere the same claim.


def test_every_place_that_says_proved_says_what_is_vouched_for(tmp_path: Path) -> None:
    release = vector("all")
    places = {
        "the label": label_of(release)["empirical metrics"],
        "the report": re.sub("<[^>]*>", "", make_report(release).html),
        "the demo": _proved(release),
        "the page": str(prove_release(release.terms)),
        "verify --help": run("verify", "--help", cwd=tmp_path).stdout,
        **{name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/index.md")},
        **{
            name: (ROOT / name).read_text(encoding="utf-8")
            for name in ("docs/privacy.md", "docs/guides/reviewing-a-release.md")
        },
    }
    for place, text in places.items():
        assert "vouched for by dpsample" in flat(text).lower(), place
        assert "stated terms" in flat(text).lower(), place
    assert SAID in VOUCHED


@pytest.mark.parametrize(
    "larger_than_the_proof",
    [
        r"what it did is private",
        r"proves? its privacy\b",
        r"proves? the privacy\b",
        r"proves? (all|everything) that",
        r"[Tt]he privacy\W+is proved",
        r"theorems that every release rests on",
        r"release may reveal more",  # NIST SP 800-226 warns of this reading of delta
        r"with a probability of up to 1 in",
    ],
)
def test_no_sentence_is_larger_than_the_proof(larger_than_the_proof: str) -> None:
    sources = [*PUBLIC, *sorted((ROOT / "src").rglob("*.py"))]
    found = [path.name for path in sources if re.search(larger_than_the_proof, flat(path.read_text(encoding="utf-8")))]
    assert not found


def test_delta_is_a_limit_on_probabilities_and_no_chance_of_failure() -> None:
    factor, guess, delta = explain_strength(Privacy(1, "1e-6"), "user")
    assert "plus delta, which is 1 in 1,000,000" in factor  # for (epsilon, delta), the factor alone does not hold
    assert "73.2 %" in guess
    assert delta.startswith("delta is a limit on probabilities, not on what is revealed")


# The matrix of modes and proofs.

Rows = dict[str, dict[str, str]]
_HEADING = "| what was released |"
_GAMES = audit.claims()


def matrix_of(path: Path) -> Rows:
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(_HEADING))
    table: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    heads, _, *rows = table
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


MATRIX = matrix_of(ROOT / "docs" / "privacy.md")


def proofs_of_modes() -> dict[str, list[Proof]]:
    """A proof or more of each row of the matrix."""

    def of(*names: str) -> list[Proof]:
        return [prove_release(vector(name).terms) for name in names]

    keys = prove_release(vector("steps").terms)
    return {
        "elements, all keys": of("all", "at-least"),
        "elements, sampled by ppswor or priority": of("ppswor", "priority"),
        "elements, sampled by one's own function": of("custom", "registered"),
        "elements, known keys": of("known", "only-known"),
        "elements along a stream": of("stream"),
        "elements, zCDP or GDP": of("zcdp", "gdp"),
        "users, a bound of several keys": [keys, *of("noise", "size")],
        "users, keys discovered one for each user": of("discovered"),
        "users, keys discovered many for each user": of("counted"),
        "users, discovered and counted": of("counted", "counted-one-key"),
        "users, rows and sums": of("sums"),
        "users, known keys alone": of("sums-known"),
        "private totals and sizes of samples, beside the keys": of("total"),
    }


def test_the_matrix_is_the_same_in_both_places() -> None:
    guide = matrix_of(ROOT / "docs" / "guides" / "reviewing-a-release.md")
    assert {mode: {k: v.replace("../", "") for k, v in row.items()} for mode, row in guide.items()} == MATRIX


def test_the_second_checker_does_what_the_matrix_says() -> None:
    modes = proofs_of_modes()
    assert set(modes) == set(MATRIX)
    for mode, proofs in modes.items():
        for proof in proofs:
            if MATRIX[mode]["second checker"] == "refuses":
                with pytest.raises(InvalidValue):
                    certificate_text(proof)
            else:
                assert certificate_text(proof).startswith("dpsample-certificate 1\n"), mode


def test_the_theorems_of_the_matrix_are_proved() -> None:
    page = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    named = 0
    for row in MATRIX.values():
        theorems = re.findall(r"`(\w+\.v)`: `(\w+)`", row["theorem in Coq"])
        assert theorems or row["theorem in Coq"] in ("none", "the same")
        for file, name in theorems:
            named += 1
            assert f"\nTheorem {name} " in (ROOT / "proofs" / file).read_text(encoding="utf-8")
            assert f"`{file}`: `{name}`" in page
    assert named >= 8


def test_the_games_of_the_matrix_are_played() -> None:
    for row in MATRIX.values():
        games = re.findall(r'"([^"]+)"', row["attack game"])
        assert games or row["attack game"] == "none"
        for game in games:
            assert any(name.startswith(game) for name in _GAMES), game


def test_a_second_opinion_on_units_says_what_it_does_not_cover(tmp_path: Path) -> None:
    """A program that accepts: the page says that the assignment of units is another theorem's."""
    proof = prove_release(vector("discovered").terms)
    assert isinstance(proof.scheme, Certificate)
    program = tmp_path / "checker"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{independent._expected(proof.scheme)}'\n", encoding="utf-8")
    program.chmod(0o755)
    said = str(independent.check_independently(proof, str(program)))
    assert "that a user gives one unit is not covered by it, but by proofs/Assignment.v" in said
    elements = prove_release(vector("all").terms)
    assert isinstance(elements.scheme, Certificate)
    program.write_text(
        f"#!/bin/sh\ncat > /dev/null\necho '{independent._expected(elements.scheme)}'\n", encoding="utf-8"
    )
    assert "Assignment" not in str(independent.check_independently(elements, str(program)))


def test_numbers_of_users_are_not_what_the_second_checker_reads() -> None:
    """Known keys alone are counted with Gaussian noise: the rows of a scheme say nothing of them."""
    with pytest.raises(InvalidValue, match="numbers of users with Gaussian noise"):
        certificate_text(prove_release(vector("sums-known").terms))

"""The checker that is proved in Coq: it accepts what `certify` does, and what is wrong it refuses."""

import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest

import dpsample
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling, SoftCap
from dpsample.exact import exponential_floor
from dpsample.release.proof.independent import PROGRAM, find_checker
from dpsample.scheme import certify, integer_laws
from dpsample.scheme.certificate_text import certificate_lines, repeats
from dpsample.scheme.reporting import Reporting
from places import ROOT
from support import refused, run

pytestmark = pytest.mark.chance("certain: the checker draws nothing, and terms decide what it says of a release")

Check = Callable[[list[str]], str]


@pytest.fixture(scope="session")
def check() -> Check:
    """The checker: lines of a certificate in, and what it says of them."""
    try:
        program = find_checker()
    except InvalidValue:
        if os.environ.get("CI"):  # there it is built before the tests
            raise
        pytest.skip("the checker was not built; `make proofs`")

    def say(lines: list[str]) -> str:
        done = subprocess.run(
            [program, "-"], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, check=False
        )
        word = {0: "accepted", 1: "refused", 2: "the certificate cannot be read"}[done.returncode]
        assert (done.stdout or done.stderr).startswith(word + ": ")
        return word

    return say


def lines_of(sampling: Sampling, privacy: Privacy, grid: int | None = None) -> list[str]:
    return list(certificate_lines(certify(sampling, privacy, grid)))


def small(rows: list[str], **fields: str) -> list[str]:
    """A certificate of rows from frequency 0 on: epsilon 0, delta 1/4, in units of 1/16."""
    given = {
        "epsilon": "0 1",
        "delta": "1 4",
        "ratio": "1 1",
        "terms": "0",
        "grid": "1",
        "cut_one": "10",
        "q_one": "1",
        "repeats": "0",
    }
    given |= fields
    return ["dpsample-certificate 1", *(f"{k} {v}" for k, v in given.items()), f"span 0 {len(rows):x}", *rows, "end"]


@pytest.mark.parametrize(
    ("sampling", "privacy", "complete"),
    [
        (KeepAll(), Privacy(1, "1e-6"), True),
        (KeepAll(), Privacy("0.3", "1e-9"), True),
        (KeepAll(at_least=20), Privacy(2, "1e-6"), True),
        (Ppswor("1e-3"), Privacy(1, "1e-6"), False),
        (Ppswor("0.5"), Privacy(1, "1e-6"), True),
        (Ppswor("0.01", seed="public"), Privacy(1, "1e-6"), True),
        (Priority("0.01"), Privacy(1, "1e-4"), True),
        (Priority("0.01", "0.5"), Privacy(3, "1e-8"), None),
        (SoftCap("0.01", 50), Privacy(1, "1e-6"), None),
        (CustomSampling(["0.1", "0.1", "0.9"]), Privacy(1, "1e-6"), None),
    ],
)
def test_what_certify_proves_is_accepted(
    check: Check, sampling: Sampling, privacy: Privacy, complete: bool | None
) -> None:
    certificate = certify(sampling, privacy)
    assert complete is None or repeats(certificate) == complete
    assert check(list(certificate_lines(certificate))) == "accepted"


def test_wrong_certificates_are_refused(check: Check) -> None:
    lines = lines_of(KeepAll(), Privacy(1, "1e-6"))
    rows = [n for n, line in enumerate(lines) if line.startswith("row")]

    def with_(at: int, line: str) -> list[str]:
        return [*lines[:at], line, *lines[at + 1 :]]

    assert check(lines) == "accepted"
    swapped = list(lines)
    swapped[rows[20]], swapped[rows[21]] = lines[rows[21]], lines[rows[20]]
    assert check(swapped) == "refused"
    # all but one part in 2**50 of delta is spent
    less = Fraction(1, 10**6) * (1 - Fraction(1, 2**49))
    at = next(n for n, line in enumerate(lines) if line.startswith("delta"))
    assert check(with_(at, f"delta {less.numerator:x} {less.denominator:x}")) == "refused"
    # exp(1) is not more than this
    bits = 128
    ratio = exponential_floor(Fraction(1), bits)
    at = next(n for n, line in enumerate(lines) if line.startswith("ratio"))
    assert f"ratio {ratio:x} {1 << bits:x}" == lines[at]
    assert check(with_(at, f"ratio {ratio + 1:x} {1 << bits:x}")) == "refused"
    # a row that is missing, and a last row that does not repeat
    assert check(with_(rows[30], "row 1 1")) == "refused"
    cut = [*lines[: rows[20]], "end"]
    cut[rows[0] - 1] = f"span 0 {20:x}"
    assert check(cut) == "refused"


def test_one_integer_decides_where_the_constraint_is_tight(check: Check) -> None:
    for first, second, answer in ((4, 8, "accepted"), (5, 8, "refused"), (4, 9, "refused"), (4, 7, "accepted")):
        rows = ["row 0 0", f"row 1 1 {first:x}", f"row 1 1 {first:x} {second:x}"]
        assert check(small(rows)) == answer
    # bounds of q: with q = 1/2 or a little more, the same rows spend half as much or a little more
    for high, answer in ((8, "accepted"), (9, "refused")):
        rows = ["row 0 0", f"row 8 {high:x} 8"]
        assert check(small(rows, q_one="10")) == answer


def test_the_last_row_must_repeat(check: Check) -> None:
    rows = ["row 0 0", "row 1 1 4", "row 1 1 4 8", "row 1 1 4 8 c", "row 1 1 4 8 c 10"]
    assert check(small(rows, repeats="1")) == "accepted"
    assert check(small([*rows[:-1], "row 1 1 4 8 c f"], repeats="1")) == "accepted"
    assert check(small([*rows[:-1], "row 1 1 4 4 c 10"], repeats="1")) == "refused"
    assert check([line.replace("span 0", "span 1") for line in small(rows[1:], repeats="1")]) == "refused"


def spends_at_most_delta(rows: list[tuple[Fraction, Fraction, list[Fraction]]], E: Fraction, delta: Fraction) -> bool:
    """The definition, in exact arithmetic: for the q within the bounds at which each outcome adds most."""
    for (low0, high0, old), (low1, high1, new) in pairwise(rows):
        up = max(Fraction(0), 1 - low1 * sum(new) - E * (1 - high0 * sum(old)))
        down = max(Fraction(0), 1 - low0 * sum(old) - E * (1 - high1 * sum(new)))
        for o, n in zip_longest([Fraction(0), *old], new, fillvalue=Fraction(0)):
            up += max(Fraction(0), high1 * n - E * low0 * o)
            down += max(Fraction(0), high0 * o - E * low1 * n)
        if max(up, down) > delta:
            return False
    return True


def test_the_checker_agrees_with_the_definition(check: Check) -> None:
    coins = random.Random(1)
    answers = []
    for _ in range(150):
        rows: list[tuple[Fraction, Fraction, list[Fraction]]] = [(Fraction(0), Fraction(0), [])]
        lines = ["row 0 0"]
        for i in range(1, 4):
            cuts = sorted(coins.randrange(9) for _ in range(coins.randrange(i + 1)))
            low = coins.randrange(13, 17)
            high = coins.randrange(low, 17)
            masses = [Fraction(b - a, 16) for a, b in pairwise([0, *cuts])]
            rows.append((Fraction(low, 16), Fraction(high, 16), masses))
            lines.append(" ".join(["row", f"{low:x}", f"{high:x}", *(f"{cut:x}" for cut in cuts)]))
        # 5/2 is the sum of the series of exp(1) up to the second power
        right = spends_at_most_delta(rows, Fraction(5, 2), Fraction(5, 16))
        made = small(lines, epsilon="1 1", ratio="5 2", terms="2", delta="5 10", q_one="10")
        assert (check(made) == "accepted") == right
        answers.append(right)
    assert 20 < sum(answers) < 130


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["row 0 0", "row 1 1 8 4"], "cuts descend"),
        (["row 0 0", "row 1 1 4 5"], "frequency 1 has two tokens, on a grid of 1"),
        (["row 0 0 4"], "frequency 0 has a token"),
        (["row 0 0", "row 1 1 11"], "more than one"),
        (["row 0 0", "row 1 0 1"], "the bounds of q are swapped"),
        (["row 0 0", "row 0 2 1"], "q is above one"),
    ],
)
def test_a_row_that_is_no_law_is_refused(check: Check, rows: list[str], reason: str) -> None:
    assert check(small(rows, delta="1 1")) == "refused", reason


@pytest.mark.parametrize("delta", ["1 0", "-1 4", "1", "1 4 4", "1 G"])
def test_numbers_that_are_none(check: Check, delta: str) -> None:
    assert check(small(["row 0 0", "row 1 1"], delta=delta)) != "accepted"


def test_what_is_no_certificate_cannot_be_read(check: Check) -> None:
    lines = small(["row 0 0", "row 1 1"])
    assert check(lines) == "accepted"
    for n in range(len(lines)):
        assert check(lines[:n] + lines[n + 1 :]) == "the certificate cannot be read"
    assert check([*lines, "row 1 1"]) == "the certificate cannot be read"


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    data = {"a": 500, "b": 40}
    privacy = Privacy(1, "1e-6")
    dpsample.release(data, privacy=privacy).write(tmp_path / "all.parquet")
    dpsample.release(data, privacy=privacy, sampling=Ppswor("0.001"), total=True).write(tmp_path / "ppswor.parquet")
    dpsample.release(data, privacy=Privacy.zcdp("0.1", "1e-6")).write(tmp_path / "zcdp.parquet")
    return tmp_path


def test_verify_asks_the_checker(check: Check, releases: Path) -> None:
    page = run("verify", "all.parquet", "--independent", "--certificate", "all.certificate", cwd=releases)
    assert page.returncode == 0
    assert "Checker:   accepts 56 pairs of neighbouring rows, and all rows above" in page.stdout
    lines = (releases / "all.certificate").read_text(encoding="utf-8").splitlines()
    assert lines == lines_of(KeepAll(), Privacy(1, "1e-6"))
    assert check(lines) == "accepted"
    found = json.loads(run("verify", "ppswor.parquet", "--independent", "--format", "json", cwd=releases).stdout)
    assert found["independent"]["accepted"]
    assert not found["independent"]["complete"]
    page = run("verify", "ppswor.parquet", "--independent", cwd=releases)
    assert "other frequencies are not covered by it, but by the proof below" in page.stdout
    assert "totals are not covered by it, but by the proof below" in page.stdout
    done = run("certify", "-e", "1", "-d", "1e-6", "--certificate", "plan", cwd=releases)
    assert done.returncode == 0
    assert (releases / "plan").read_text(encoding="utf-8").splitlines() == lines


def test_what_the_checker_does_not_cover_is_refused(releases: Path) -> None:
    for arguments, found in (
        (["verify", "zcdp.parquet"], "a budget of zCDP or GDP"),
        (["certify", "-e", "1", "-d", "1e-6", "--max-keys-per-user", "5"], "5 keys of each user"),
        (["certify", "-e", "1", "-d", "1e-6", "--scheme", "ppswor", "--sample-size", "100"], "tau is not known yet"),
    ):
        done = run(*arguments, "--certificate", "none", cwd=releases)
        assert done.returncode == 2
        assert "the independent checker covers single keys" in done.stderr
        assert found in done.stderr
        assert not (releases / "none").exists()
    done = run("verify", "all.parquet", "--certificate", "all.parquet", "--force", cwd=releases)
    assert done.returncode == 2


def test_a_program_that_is_none_of_ours(releases: Path) -> None:
    done = run("verify", "all.parquet", "--independent", "--checker", "missing", cwd=releases)
    assert done.returncode == 2
    assert "make proofs" in done.stderr
    for answer, code, said in (
        (
            "accepted: epsilon 2/1, delta 1/1000000, frequencies 1-56 and all above",
            0,
            "the independent checker ended with exit code",
        ),
        ("refused: between the frequencies 3 and 4", 1, "refuses them (between the frequencies 3 and 4)"),
        ("", 2, "the independent checker ended with exit code"),
    ):
        program = releases / PROGRAM
        program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{answer}'\nexit {code}\n", encoding="utf-8")
        program.chmod(0o755)
        done = run("verify", "all.parquet", "--independent", cwd=releases, DPSAMPLE_CHECKER=str(program))
        assert done.returncode == 1
        assert said in done.stderr


def test_streams_and_tables_have_no_such_certificate() -> None:
    with refused("a certificate can be written for a scheme"):
        list(certificate_lines(certify(dpsample.SampleAndHold("0.1"), Privacy(1, "1e-3"))))


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
def test_the_integers_in_the_examples_are_ours() -> None:
    text = (ROOT / "proofs" / "Examples.v").read_text(encoding="utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"Definition (\w) : Z := (\d+)\.", text)}
    privacy = Privacy(1, "0.3")
    reporting = Reporting.of(KeepAll(), privacy)
    assert isinstance(reporting, Reporting)
    numbers |= {"one": reporting.one, "0": 0}
    assert (numbers["E"], numbers["I"], numbers["D"]) == (reporting.E, reporting.inverse, reporting.delta)
    assert f"Definition R : Z := 2 ^ {reporting.ratio_bits}." in text
    assert f"Definition one : Z := 2 ^ {reporting.bits}." in text
    assert [reporting.pi(i) for i in range(5)] == [0, numbers["a"], numbers["b"], reporting.one, reporting.one]
    rows = re.findall(r"Rounding.tails E I R one D 2 pi (\d) = \[([^]]*)\]", text)
    assert [int(i) for i, _ in rows] == [1, 2, 3]
    for (_, row), law in zip(rows, integer_laws(1, KeepAll(), privacy, grid=2), strict=False):
        assert [numbers[name] for name in row.split("; ")] == [0, *law.cuts]


def test_the_page_names_every_theorem() -> None:
    page = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    assumptions = (ROOT / "proofs" / "Assumptions.v").read_text(encoding="utf-8")
    checked = set(re.findall(r"Print Assumptions (\w+)\.(\w+)\.", assumptions))
    assert {(file, name) for file, name in re.findall(r"`(\w+)\.v`: `(\w+)`", page)} == checked
    for file, name in checked:
        assert f"\nTheorem {name} " in (ROOT / "proofs" / f"{file}.v").read_text(encoding="utf-8")
    proofs = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "proofs").glob("*.v"))
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", proofs)

"""At least n: the laws of all keys, of i - n + 1; no key below n is ever reported, on either engine's kernel."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import KeepAll, Ppswor, Privacy, read_release
from dpsample.accounting.choice import capacity_cap, promising_keys
from dpsample.accounting.counts import COUNT_SHARE
from dpsample.accounting.look import Look
from dpsample.accounting.user_budget import UserBudget
from dpsample.estimators.calibration import Calibration
from dpsample.estimators.functional import Functional
from dpsample.private.sanitizer import Sanitizer, sampled
from dpsample.release.proof import prove_release
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.integer import integer_law
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import Reporting, frequency_reaching, reporting_probabilities
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from dpsample.scheme.tokens import token_law
from given_coins import GivenCoins
from references import true_pi
from support import refused, run

PRIVACY = Privacy("0.5", "1e-4")
NOISE = KeyNoise.of(np.exp(-np.abs(np.arange(-12, 13)) / 3.0), offset=2)
STEPS = RenyiSteps(Fraction(14), Fraction("0.02"), Fraction("1e-6"))
COMPOSED = ComposedSteps(Fraction(1), Fraction("1e-6"), Fraction("0.01"))
EACH = [PRIVACY, NOISE, STEPS, COMPOSED]
LEAST = [2, 50, 10**6]


@pytest.mark.parametrize("n", [1, 2, 50])
def test_pi_is_that_of_the_recurrence_with_a_step(n: int) -> None:
    true = true_pi(KeepAll(n), PRIVACY, n + 80)
    found = reporting_probabilities(np.arange(n + 81), KeepAll(n), PRIVACY)
    assert np.allclose(found, [float(p) for p in true], rtol=1e-12, atol=0)
    assert not found[:n].any()
    assert found[n] == pytest.approx(1e-4)


@pytest.mark.parametrize("each", EACH, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("n", LEAST)
def test_reporting_is_that_of_all_keys_shifted(n: int, each: PerKey) -> None:
    shifted, plain = Reporting.of(KeepAll(n), each), Reporting.of(KeepAll(), each)
    i = np.append(np.arange(90), 10**12)
    assert [shifted.pi(k + n - 1) for k in i.tolist()] == [plain.pi(k) for k in i.tolist()]  # the integers, exactly
    assert (shifted.probabilities(i + n - 1) == plain.probabilities(i)).all()
    assert shifted.constant_from == plain.constant_from + n - 1
    assert frequency_reaching(0.5, KeepAll(n), each) == (frequency_reaching(0.5, KeepAll(), each) or 0) + n - 1
    assert not shifted.pi(n - 1)
    assert not shifted.probabilities([1, n - 1]).any()


@pytest.mark.parametrize("each", [PRIVACY, NOISE], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("n", LEAST)
def test_token_laws_are_those_of_all_keys_shifted(n: int, each: PerKey) -> None:
    grid = 4 if each is PRIVACY else 1
    for i in (1, 2, 9, 40, 10**9):
        law, plain = token_law(i + n - 1, KeepAll(n), each, grid), token_law(i, KeepAll(), each, grid)
        assert law.cells.tolist() == (plain.cells + (n - 1) * grid).tolist()
        assert np.allclose(law.probabilities, plain.probabilities, rtol=1e-9, atol=0)
        assert integer_law(i + n - 1, KeepAll(n), each, grid).cuts == integer_law(i, KeepAll(), each, grid).cuts
    cells = np.arange(1, 80 * grid)
    found, expected = (supports(cells + by * grid, Reporting.of(KeepAll(by + 1), each), grid) for by in (n - 1, 0))
    assert (found[0] == expected[0] + n - 1).all()
    assert np.allclose(found[1], expected[1], rtol=1e-9, atol=1e-15)
    assert set(integer_law(max(n - 1, 1), KeepAll(n), each, grid).cuts) == {0}


@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize("each", [PRIVACY, NOISE], ids=lambda each: type(each).__name__)
def test_the_lowest_coin_reports_from_n_on_and_nothing_below(each: PerKey, keys_only: bool) -> None:
    """The number 0 is drawn below every cut that is not 0: with it, all is reported that ever is."""
    n, frequencies = 50, np.array([1, 48, 49, 50, 51, 700])
    assert sampled(frequencies, KeepAll(n), GivenCoins(np.zeros(6, np.uint64))).tolist() == [3, 4, 5]
    sanitizer = Sanitizer(KeepAll(n), each, keys_only=keys_only)
    rows, cells = sanitizer(frequencies, GivenCoins(np.zeros(6, np.uint64)))
    assert sorted(rows.tolist()) == [3, 4, 5]
    assert keys_only or sorted((cells / sanitizer.grid).tolist()) == [50, 51, 700]


@pytest.mark.parametrize("n", [50, 10**6])
def test_values_of_tokens_are_unbiased_from_the_calibration_threshold_on(n: int) -> None:
    scheme = Calibration.of(Scheme(KeepAll(n), Privacy(1, 1e-6), 16))
    total = Functional(scheme, lambda i: i.astype(float), keys=1000)
    above = scheme.frequencies >= scheme.calibration_threshold
    assert scheme.calibration_threshold == 14 + n - 1
    assert abs(total.bias[above]).max() < 1e-4 * scheme.calibration_threshold


def test_a_step_that_is_no_frequency_is_refused() -> None:
    for wrong in (0, -1, True, 2.5, 1 << 51):
        with refused("at_least must be a whole number"):
            KeepAll(wrong)  # type: ignore[arg-type]
    assert KeepAll(1) == KeepAll()
    assert KeepAll(1).to_json() == {"scheme": "keep all"}


WORDS = {"a": 5000, "b": 400, "c": 49, "d": 3}


@pytest.mark.chance("odds 1e-20: a key of 5,000 or 400 is not reported; from 80 on all are; no other ever is")
def test_a_release_says_so_and_is_proved(tmp_path: Path) -> None:
    release = dpsample.release(WORDS, privacy=Privacy(1, 1e-6), at_least=50)
    assert release.table["key"].to_pylist() == ["a", "b"]
    form = release.metadata
    assert form["sampling"] == {"scheme": "keep all", "at_least": 50}
    assert prove_release(release.terms).complete
    release.write(tmp_path / "words.parquet")
    assert read_release(tmp_path / "words.parquet") == release
    assert (np.asarray(release.each_key().numbers["low"]) >= 50).all()
    total = release.sum()
    assert abs(total.value - 5400) < 120  # each key is off by 60 with odds of exp(-60)
    assert total.low < total.value < total.high
    assert total.at_least == 49 + 14 + 2  # the threshold of all keys, shifted, and a little more
    assert release.top(1).groups["key"].to_pylist() == ["a"]
    assert release.rank("b").value == 2
    assert release.quantiles(0.99)[0.99].high > 400
    page = str(release.report(prove=False).html)
    assert "no key of fewer than 50 elements is reported" in page
    assert "It is 0 below 50" in page


@pytest.mark.chance("odds 1e-20: as above")
def test_the_command_is_the_twin(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("key,n\n" + "".join(f"{k},{n}\n" for k, n in WORDS.items()))
    source = ("words.csv", "-k", "key", "--frequency", "n", "-e", "1", "-d", "1e-6", "-o", "out.parquet")
    done = run("release", *source, "--at-least", "50", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "all keys of frequency 50 or more were kept, and no others" in done.stderr
    assert "no key of fewer than 50 elements is reported" in done.stderr
    assert read_release(tmp_path / "out.parquet").sampling == KeepAll(50)
    assert "KeepAll" not in run("verify", "out.parquet", cwd=tmp_path).stdout
    done = run("certify", "-e", "1", "-d", "1e-6", "--at-least", "50", cwd=tmp_path)
    assert "all keys of frequency 50 or more are kept, and no others" in done.stdout
    other = [*source[:-1], "other.parquet"]
    for command in (["release", *other], ["certify", "-e", "1", "-d", "1e-6"]):
        done = run(*command, "--at-least", "50", "--scheme", "ppswor", "--tau", "0.1", cwd=tmp_path)
        assert done.returncode
        assert "--at-least cannot be combined with a sample" in done.stderr


def test_samples_have_a_rule_of_their_own() -> None:
    wrong: list[dict[str, Any]] = [{"sampling": Ppswor(0.1)}, {"size": 10}]
    for options in wrong:
        with refused("at_least cannot be combined with a sample"):
            dpsample.release(WORDS, privacy=PRIVACY, at_least=50, **options)


# ---- users


def test_keys_of_users_need_so_many_more() -> None:
    budget = UserBudget(Privacy(1, 1e-6), counts=COUNT_SHARE)
    each = budget.one_key()
    assert capacity_cap(each, KeepAll(50)) == capacity_cap(each) + 49
    # of some 40 keys, a user gives all where a key needs 1,000 users anyway; elsewhere each key then needs more users
    users = Look((20_000, 0, 0, 2_000, 0, 0, 0), Fraction(1, 50))
    assert promising_keys(budget, users) < promising_keys(budget, users, KeepAll(1000)) == 64


def pairs(**users: int) -> pa.Table:
    """Keys with so many users, of whom each has this key alone."""
    words = [word for word, n in users.items() for _ in range(n)]
    return pa.table({"word": words, "user": list(range(len(words)))})


@pytest.mark.usefixtures("fixed_coins")  # a look errs once in 300 times, and a full key is left out once in 2,000
@pytest.mark.parametrize("options", [{}, {"discover": "many-keys"}, {"keys_only": True}, {"max_keys_per_user": 3}])
def test_users_of_a_key_are_at_least_n(options: dict[str, Any]) -> None:
    data = pairs(a=900, b=99, c=2)
    release = dpsample.release(data, "word", user="user", privacy=Privacy(2, 1e-6), at_least=100, **options)
    assert release.table["word"].to_pylist() == ["a"]
    assert prove_release(release.terms).complete
    if "low" in release.table.column_names:
        assert min(release.table["low"].to_pylist()) >= 100
    if release.terms.discovery is not None and release.terms.discovery.full is not None:
        assert release.terms.discovery.full > 100
    assert "no key of fewer than 100 users is reported" in str(release.report(prove=False).html)

"""Releases, ledgers and plans with a zCDP or GDP budget."""

import json
import math
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import dpsample
from dpsample import InvalidValue, KeepAll, Ppswor, Privacy, PrivacyViolation, SampleSize
from dpsample.accounting.budget import Budget
from dpsample.accounting.gaussian import noise_within, scheme_within
from dpsample.accounting.renyi import ORDERS as RENYI_ORDERS
from dpsample.accounting.renyi import RenyiCurve
from dpsample.cli import cli
from dpsample.planning import Frequencies, Setting, forecast, smallest_epsilon
from dpsample.planning.setting import planned_sampling
from dpsample.release.proof import prove, prove_release
from dpsample.release.terms import Terms
from dpsample.scheme.reporting import reporting_probabilities
from stated_terms import restated, stated_terms
from support import run

ELEMENTS = {f"key {i}": 400 for i in range(20)}
CLICKS = pa.table({"who": [f"user {i}" for i in range(8000)], "key": [f"key {i % 20}" for i in range(8000)]})
OPTIONS: list[dict[str, Any]] = [
    {},
    {"keys_only": True},
    {"total": True},
    {"sampling": Ppswor(1)},
    {"size": SampleSize(10**6), "total": "0.1"},
    {"user": "who", "max_keys_per_user": 1},
    {"user": "who", "max_keys_per_user": 20, "total": True},
    {"user": "who", "max_keys_per_user": 20, "keys_only": True},
    {"user": "who", "max_keys_per_user": 3, "sampling": Ppswor(1)},
]


@pytest.mark.chance("odds 1e-9: one of 20 keys, all far above the threshold, is not sampled or not reported")
@pytest.mark.parametrize(
    ("whole", "options"),
    [((Privacy.zcdp("0.2", "1e-6"), Privacy.gdp("0.6", "1e-6"))[k % 2], options) for k, options in enumerate(OPTIONS)],
    ids=str,
)
def test_a_release_is_made_written_read_and_proved(whole: Privacy, options: dict[str, Any], tmp_path: Path) -> None:
    if "user" in options:
        made = dpsample.release(CLICKS, "key", privacy=whole, **options)
    else:
        made = dpsample.release(ELEMENTS, privacy=whole, **options)
    assert made.privacy == whole
    assert len(made) == 20
    assert "outside of delta 5e-07: epsilon" in repr(made)
    made.write(tmp_path / "release.parquet")
    again = dpsample.read_release(tmp_path / "release.parquet")
    assert again == made
    assert again.privacy.definition == whole.definition
    proof = prove_release(again.terms)
    assert proof.complete
    assert proof.composition is not None
    assert proof.composition.delta <= whole.delta
    assert proof.implied == ()
    page = str(proof)
    assert str(whole.definition) in page
    assert "Also:" not in page
    if not made.keys_only:
        assert made.sum().value > 0
    made.report().write(tmp_path / "release.html")
    bought = again.terms.bought.size and again.terms.bought.size.weights, again.total, again.terms.bought.dropped
    parts = [part.epsilon for part in bought if part]
    assert again.terms.keys_privacy == whole.less(parts)


def test_terms_that_do_not_add_up_are_refused() -> None:
    whole = Privacy.zcdp("0.1", "1e-6")
    good = stated_terms(whole, KeepAll(), ("query",), per_key=scheme_within(whole, 1))
    assert Terms.from_json(good.to_json(0)) == good
    for each in (whole, Privacy(whole.epsilon, whole.delta), Privacy("0.46", "5e-7"), Privacy("0.45", "6e-7")):
        with pytest.raises(InvalidValue, match="add up"):
            restated(good, per_key=each)
    noise = noise_within(Privacy.zcdp("0.11", "1e-6"), 1)
    assert noise is not None
    with pytest.raises(PrivacyViolation):
        prove_release(restated(good, per_key=noise, grid=1))
    with pytest.raises(InvalidValue, match="add up"):  # the noise is for users, or for zCDP and GDP
        stated_terms(Privacy(1, "1e-6"), KeepAll(), ("query",), per_key=noise, grid=1)


@pytest.mark.chance("certain: nothing of a sample that is drawn is asserted but its terms")
def test_a_sample_of_users_gets_a_method_for_samples() -> None:
    clicks = pa.table({"who": [f"user {i}" for i in range(500)], "key": ["a"] * 500})
    for whole in (Privacy.zcdp("0.2", "1e-6"), Privacy(1, "1e-6")):
        drawn = dpsample.sample(clicks, "key", user="who", max_keys_per_user=20, sampling=Ppswor(1))
        assert isinstance(dpsample.sanitize(drawn, privacy=whole).per_key, Privacy)


@pytest.mark.chance("certain: a ledger and terms, whatever was drawn")
def test_a_ledger_counts_the_epsilon_and_delta(tmp_path: Path) -> None:
    path, whole = tmp_path / "x.ledger", Privacy.zcdp("0.1", "1e-6")
    dpsample.new_ledger(path, "x", Privacy(3, "1e-5"))
    dpsample.release(ELEMENTS, privacy=whole, ledger=path)
    assert dpsample.read_ledger(path).spent[:2] == (whole.epsilon, whole.delta)
    with pytest.raises(dpsample.DpsampleError, match="together"):
        dpsample.release(ELEMENTS, privacy=whole, ledger=path)


def test_the_curve_of_a_definition_is_its_own() -> None:
    zcdp, gdp = RenyiCurve.of_privacy(Privacy.zcdp("0.1", "1e-6")), RenyiCurve.of_privacy(Privacy.gdp("0.5", "1e-6"))
    assert zcdp.delta == gdp.delta == Fraction("5e-7")
    assert zcdp.divergences == tuple(order / 10 for order in RENYI_ORDERS)
    assert gdp.divergences == tuple(order / 8 for order in RENYI_ORDERS)


@pytest.mark.chance("certain: a ledger and terms, whatever was drawn")
def test_a_renyi_ledger_adds_up_rho(tmp_path: Path) -> None:
    path, each = tmp_path / "x.ledger", Privacy.zcdp("0.01", "1e-7")
    dpsample.new_ledger(path, "x", Privacy(3, "1e-5"), account="renyi")
    for _ in range(5):
        dpsample.release(ELEMENTS, privacy=each, ledger=path)
    epsilon = dpsample.read_ledger(path).spent[0]
    together = Privacy.zcdp("0.05", "1e-5").epsilon
    assert float(together) < float(epsilon) < 1.3 * float(together) < 5 * float(each.epsilon) / 2


@pytest.mark.parametrize("keys", [None, 1, 30], ids=str)
@pytest.mark.parametrize("whole", [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6")], ids=str)
@pytest.mark.chance("certain: the terms of a release do not depend on what is drawn")
def test_a_plan_has_the_laws_of_the_release(whole: Privacy, keys: int | None) -> None:
    rows = pa.table({"u": list(range(200)), "k": ["a"] * 200})
    users: dict[str, Any] = {} if keys is None else {"user": "u", "max_keys_per_user": keys}
    made = dpsample.release(rows, "k", privacy=whole, **users)
    frequencies = {5: 100, 40: 7, 300: 2}
    found = forecast(Frequencies.of(frequencies), Setting(whole, max_keys_per_user=keys))
    assert found.setting.per_key == made.per_key
    pi = reporting_probabilities(list(frequencies), KeepAll(), made.per_key)
    assert found.pws.keys == pytest.approx(float(pi @ list(frequencies.values())), rel=1e-12)
    assert found.pws.nrmse is not None
    assert str(whole) in found.notes
    assert Privacy.from_json({name: found.to_json()[name] for name in whole.to_json()}) == whole


@pytest.mark.parametrize("keys", [None, 20], ids=str)
def test_baselines_are_within_a_defined_budget(keys: int | None) -> None:
    """Randomized response, the worst of a pure epsilon, is within rho / k at each order; half of delta is left."""
    rho, delta = 0.1, 1e-6
    setting = Setting(Privacy.zcdp("0.1", "1e-6"), max_keys_per_user=keys)
    made, each = forecast([200] * 10, setting, errors=False), setting.budget.composed_per_key
    epsilon, k = float(each.epsilon), keys or 1
    assert float(each.delta) == pytest.approx(delta / 2 / k, rel=1e-8)
    worst = max(
        math.log((math.exp(a * epsilon) + math.exp(epsilon - a * epsilon)) / (1 + math.exp(epsilon))) / (a - 1) / a
        for a in np.linspace(1.0001, 200, 200_000)
    )
    assert k * worst == pytest.approx(rho, rel=1e-3)
    cutoff = math.log(1 / float(each.delta)) / epsilon + 1
    reached = 1 - math.exp(-epsilon * (200 - cutoff)) / 2 if cutoff < 200 else math.exp(epsilon * (200 - cutoff)) / 2
    assert {m.method: m.keys for m in made.methods}["SbH"] == pytest.approx(10 * reached, rel=1e-9)


def test_goals_are_for_epsilon_and_delta() -> None:
    setting = Setting(Privacy.zcdp("0.1", "1e-6"))
    with pytest.raises(InvalidValue, match="a goal finds an epsilon"):
        smallest_epsilon([10, 100], setting, "keys>=1")
    sized = Setting(Privacy.zcdp("0.1", "1e-6"), size=SampleSize(10))
    assert isinstance(planned_sampling(sized, Frequencies.of([10, 100])), Ppswor)


def test_a_plan_of_a_defined_budget_on_the_command_line() -> None:
    plan = ["plan", "--zipf", "1", "--keys", "1000", "-d", "1e-6"]
    lines = CliRunner().invoke(cli, [*plan, "--gdp", "0.5,1"]).output.splitlines()
    assert next(line.split()[0] for line in lines if "of elements" in line) == "mu"
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["PWS"]] == ["0.5", "1"]
    assert lines[-1].startswith("Next: dpsample release EVENTS --key KEY --gdp 1 --delta 1e-06 ")
    for bad in (["--gdp", "1", "--epsilon", "1"], ["--zcdp", "1", "--gdp", "1"], ["--zcdp", "1", "--goal", "keys>=1"]):
        done = CliRunner().invoke(cli, [*plan, *bad])
        assert done.exit_code == 2
        assert "cannot be given" in done.output


@pytest.mark.parametrize("defined", [Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6")], ids=str)
def test_a_ledger_has_a_budget_of_epsilon_and_delta(defined: Privacy, tmp_path: Path) -> None:
    path = tmp_path / "x.ledger"
    for account in ("epsilon", "renyi"):
        with pytest.raises(InvalidValue, match=rf"state Privacy\('{float(defined.epsilon)}', '1e-06'\)"):
            dpsample.new_ledger(path, "x", defined, account=account)
    with pytest.raises(InvalidValue, match="the most that each release may spend"):
        dpsample.new_ledger(path, "x", Privacy(10, "1e-4"), each=defined)
    assert not path.exists()
    dpsample.new_ledger(path, "x", Privacy(defined.epsilon, defined.delta), account="renyi")


# --- the other way round, and the command line -----------------------------------------------------------------------


def test_a_plain_budget_states_what_it_implies() -> None:
    proof = prove(Budget(Privacy(1, "1e-6")), KeepAll())
    zcdp, gdp = proof.implied
    assert float(zcdp.value) == pytest.approx(math.tanh(0.5), rel=1e-8)
    assert float(gdp.value) == pytest.approx(-2 * NormalDist().inv_cdf(1 / (1 + math.e)), rel=1e-8)
    assert f"Also:      rho-zCDP with rho = {float(zcdp.value)}, mu-GDP with mu = " in str(proof)
    parted = prove(Budget(Privacy(1, "1e-6"), total=Fraction(1, 2)), KeepAll())
    assert float(parted.implied[0].value) == pytest.approx(2 * 0.5 * math.tanh(0.25), rel=1e-8)
    many = prove(Budget(Privacy(1, "1e-6"), max_keys=5), KeepAll())
    assert many.implied == ()
    assert "Also:" not in str(many)
    assert "implied" not in many.to_json()
    assert prove(Budget(Privacy(1, "1e-6"), max_keys=1), KeepAll()).implied == proof.implied


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    return done.exit_code, done.output


def test_certify_on_the_command_line() -> None:
    code, page = invoke("certify", "--epsilon", "1", "--delta", "1e-6")
    assert code == 0
    assert "Also:      rho-zCDP with rho = 0.462117158, mu-GDP with mu = 1.23203539, outside" in page
    code, page = invoke("certify", "--zcdp", "0.1", "--delta", "1e-6", "--max-keys-per-user", "5", "--with-total")
    assert code == 0
    assert "Spent:     zCDP with rho 0.1 outside of delta 5e-07: epsilon 2.20604636, delta 1e-06" in page
    assert "Gaussian noise of variance" in page
    assert "these add up to no more than zCDP with rho 0.1" in page
    sampled = ["--max-keys-per-user", "20", "--scheme", "ppswor", "--tau", "0.1"]
    for budget in (["--gdp", "0.5"], ["--epsilon", "1"]):
        code, page = invoke("certify", *budget, "--delta", "1e-6", *sampled, "--format", "json")
        assert code == 0
        assert "method" not in json.loads(page)["per_key"]
    for wrong in ([], ["--epsilon", "1", "--zcdp", "1"], ["--zcdp", "1", "--gdp", "1"]):
        refusal = run("certify", *wrong, "--delta", "1e-6", cwd=Path())
        assert refusal.returncode == 2
        assert "a budget is stated by one of --epsilon, --zcdp and --gdp, not by" in refusal.stderr


@pytest.mark.chance("odds 1e-9: a key of 300 elements is reported from frequency 20 on")
def test_release_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("word\n" + "the\n" * 300)
    code, page = invoke("release", "events.csv", "-k", "word", "--gdp", "0.5", "-d", "1e-6", "-o", "out.parquet")
    assert code == 0
    assert "Privacy GDP with mu 0.5 outside of delta 5e-07: epsilon 2.32749546, delta 1e-06" in page
    made = dpsample.read_release("out.parquet")
    assert (made.privacy, len(made)) == (Privacy.gdp("0.5", "1e-6"), 1)
    code, page = invoke("verify", "out.parquet", "--require-complete")
    assert code == 0
    assert "GDP with mu 0.5 outside of delta 5e-07" in page
    code, page = invoke("verify", "out.parquet", "--format", "json")
    assert json.loads(page)["privacy"]["gdp"] == "0.5"

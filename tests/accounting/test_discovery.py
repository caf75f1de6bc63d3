"""Keys of users without a contribution bound: budget, look, rule, terms, files, proofs, refusals, end to end."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dpsample
from dpsample import KeepAll, Ppswor, Privacy, PrivacyViolation, read_release
from dpsample.accounting.choice import capacity_cap, fuller
from dpsample.accounting.counts import COUNT_SHARE, Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.look import Look, cleaned
from dpsample.accounting.many_keys import largest_steps
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget, whole_square
from dpsample.accounting.user_proof import certify_users
from dpsample.accounting.vectors import VectorNoise
from dpsample.ledger.ledger import new_ledger, read_ledger
from dpsample.private.request import Request, prior_keys
from dpsample.private.users import look as stage
from dpsample.release.proof import prove_release
from dpsample.release.rows import counted
from dpsample.release.terms import Terms
from dpsample.scheme import reporting_probabilities
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.renyi_steps import RenyiSteps
from given_coins import GivenCoins
from stated_terms import restated, stated_terms
from support import refused, run

PRIVACY = Privacy(1, 1e-6)


def look(*users: int, epsilon: str = "0.02") -> Look:
    return Look((*users, *[0] * (len(Look.EDGES) - len(users))), Fraction(epsilon))


def popular(keys: int = 3, users: int = 3000) -> pa.Table:
    """Keys that all users have."""
    names = [f"key {n}" for n in range(keys)]
    return pa.table({"user": np.repeat(np.arange(users), keys), "word": names * users})


# ---- the budget, the look and the rule


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of Gaussian noise (Balle and Wang, 2018)."""
    normal = stats.norm.cdf
    return float(normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu))


def test_the_whole_square_is_that_of_gaussian_noise() -> None:
    for epsilon, delta in (("0.1", "1e-6"), ("1", "1e-6"), ("3", "1e-9"), ("8", "1e-4")):
        square = whole_square(Privacy(epsilon, delta))
        mu = math.sqrt(float(square))
        assert gaussian_delta(float(epsilon), mu) <= float(delta) * (1 + 1e-9)
        assert gaussian_delta(float(epsilon), mu * math.sqrt(1.001)) > float(delta)


@pytest.mark.parametrize("counts", [Fraction(0), COUNT_SHARE, Fraction(3, 4)])
def test_what_a_budget_plans_is_proved(counts: Fraction) -> None:
    budget = UserBudget(PRIVACY, LOOK_SHARE, Fraction(1, 20), counts)
    assert budget.left == Privacy("0.93", "1e-6")
    noise = tuple(VectorNoise.of(budget.square / 5, budget.aside, 1) for _ in range(5)) if counts else ()
    record = Counts(noise, 0.0) if counts else None
    one_key = budget.one_key()
    certify_users(Discovery("one-key", 1, capacity_cap(one_key)), one_key, record, budget.left)
    many = budget.many_keys(20)
    assert many is not None
    certify_users(Discovery("many-keys", 20), many, record, budget.left)
    # one key of many keys' steps, and other mixtures, prove nothing
    with pytest.raises(PrivacyViolation, match="discovery and counts together"):
        certify_users(Discovery("many-keys", 21), many, record, budget.left)
    with pytest.raises(PrivacyViolation, match="discovery and counts together"):
        certify_users(Discovery("one-key", 1, 20), one_key, record, Privacy("0.92", "1e-6"))
    with pytest.raises(PrivacyViolation, match="discovery and counts together"):
        certify_users(Discovery("many-keys", 20), one_key, record, budget.left)


def together(epsilon: float, delta: float, mu: float) -> float:
    """The delta at epsilon 1 of any (epsilon, delta)-private mechanism beside Gaussian noise.

    delta + (1 - delta) (E g(1 - epsilon) + g(1 + epsilon)) / (1 + E), with g the delta of Gaussian noise.
    """
    E = math.exp(epsilon)
    noise = (E * gaussian_delta(1 - epsilon, mu) + gaussian_delta(1 + epsilon, mu)) / (1 + E)
    return delta + (1 - delta) * noise


def test_composed_steps_cost_less_than_any_mechanism_of_the_same_epsilon_beside_noise() -> None:
    """The exact composition leaves more to the keys than basic or optimal composition of an (epsilon, delta) scheme."""
    budget = UserBudget(PRIVACY, counts=COUNT_SHARE)
    mu = math.sqrt(float(budget.square))
    assert together(0.5, 5e-7, mu) < 1e-6 < together(0.6, 5e-7, mu)
    split = reporting_probabilities([19], KeepAll(), Privacy("0.6", "5e-7"))[0]
    composed = reporting_probabilities([19], KeepAll(), budget.one_key())[0]
    assert composed > 0.5 > 0.3 > split


def test_too_much_for_counts_is_refused() -> None:
    with refused("nothing is left for the keys"):
        UserBudget(PRIVACY, counts=Fraction(1))
    with refused("nothing is left for the keys"):
        UserBudget(PRIVACY, look=Fraction(1, 2), total=Fraction(1, 2))
    with refused("users without a contribution bound are protected by an epsilon and a delta"):
        UserBudget(Privacy.zcdp("0.1", "1e-6"))


def test_a_total_of_found_keys_is_paid_for() -> None:
    """What the look and the total cost is not there for anything else."""
    budget = UserBudget(PRIVACY, Fraction(1, 50), total=Fraction(1, 10))
    assert budget.left == Privacy(Fraction(88, 100), PRIVACY.delta)
    assert UserBudget(PRIVACY, total=Fraction(1, 10)).left == Privacy(Fraction(9, 10), PRIVACY.delta)


def test_rows_of_noise_alone_are_left_out() -> None:
    assert cleaned([500, -3, 40, 2], 10.0) == [500.0]  # 42 is less than 4 deviations of the sum of two
    assert cleaned([500, 0, 200, 2], 10.0) == [500.0, 0.0, 200.0]
    assert cleaned([5, -3, 4, 2], 10.0) == [5.0]
    assert look(100, 50, 0).most == 1
    assert look(100_000, 50_000).most == 4
    assert look(100_000, 50_000).kept(1) == 150_000
    assert look(100_000, 50_000).kept(4) == 100_000 + 50_000 * 3  # 2 to 4 keys are 3
    assert look(100_000, 50_000).kept(2) == 100_000 + 50_000 * 2


def test_a_look_counts_users_by_ranges_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = np.zeros(64, np.int64)
    sizes[[0, 1, 2, 3, 4, 5, 12, 13, 63]] = [1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7, 10**8]
    monkeypatch.setattr(stage, "discrete_laplace", lambda scale, coins: int(scale))
    found = stage.look_at(sizes, Fraction(1, 5), GivenCoins(np.zeros(0, np.uint64)))
    # up to 1, 4, 16, 64, 256, 1024 keys, and more
    assert [n - 5 for n in found.users] == [1, 110, 11_000, 10**5, 0, 0, 10**6 + 10**7 + 10**8]
    assert found.epsilon == Fraction(1, 5)


# ---- terms and files


def terms(**changes: Any) -> Terms:
    budget = UserBudget(PRIVACY, LOOK_SHARE, counts=COUNT_SHARE)
    each = budget.one_key()
    noise = tuple(VectorNoise.of(budget.square * share, budget.aside, 1) for share in budget.parts.values())
    form: dict[str, Any] = {
        "privacy": PRIVACY,
        "sampling": KeepAll(),
        "keys": ("word",),
        "per_key": each,
        "discovery": Discovery("one-key", 1, capacity_cap(each), look(5, 6)),
        "counts": Counts(noise, 0.125),
    }
    return stated_terms(**{**form, **changes})


def test_terms_are_written_and_read() -> None:
    written = terms().to_json(rows=0)
    assert Terms.from_json(json.loads(json.dumps(written))) == terms()
    assert terms().columns == ("word", "estimate", "low", "high", "measured", "standard_error")
    assert terms(counts=None, keys_only=True).columns == ("word",)
    assert terms().protects == "user, with all of their keys"
    assert terms().keys_privacy == Privacy("0.98", "1e-6")


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": Ppswor(tau="0.1").to_json()},
        {"keys_only": True},
        {"counts": None},
        {"max_keys_per_user": 3},
        {"unit": "element"},
        {"discovery": None},
        {"grid": 8},
        {"discovery": None, "counts": None, "grid": 8},
    ],
)
@pytest.mark.parametrize("null", [False, True])
def test_terms_that_do_not_go_together_are_refused(changes: dict[str, Any], null: bool) -> None:
    form = {**terms().to_json(rows=0), **changes}
    form = {name: value for name, value in form.items() if null or value is not None or name == "grid"}
    with pytest.raises(dpsample.InvalidValue):
        Terms.from_json(form)


def test_a_proof_refuses_what_is_not_private() -> None:
    good = terms()
    assert prove_release(good).complete
    assert good.counts is not None
    each = good.per_key
    assert isinstance(each, ComposedSteps)
    louder = replace(each, square=each.square * Fraction(9, 10))  # beside more noise than it was made for
    bolder = replace(each, delta=each.delta * 2)
    quiet = replace(good.counts.noise[0], variance=good.counts.noise[0].variance * Fraction(99, 100))
    for wrong in (
        restated(good, per_key=louder),
        restated(good, per_key=bolder),
        restated(good, per_key=Privacy("0.98", "1e-6")),
        restated(good, counts=replace(good.counts, noise=(quiet, *good.counts.noise[1:]))),
        restated(good, discovery=Discovery("many-keys", 5, look=look(5, 6))),
        restated(good, per_key=RenyiSteps(Fraction(14), Fraction("0.02"), Fraction("1e-7"))),
    ):
        with pytest.raises(PrivacyViolation):
            prove_release(wrong)


def test_many_keys_leave_room_for_the_counts() -> None:
    """Steps that spend all that the look and the ends of noise leave are private alone, and refused beside counts."""
    discovery, counted = Discovery("many-keys", 5, look=look(5, 6)), terms().counts
    beside = UserBudget(PRIVACY, LOOK_SHARE, counts=COUNT_SHARE)
    each, larger = beside.many_keys(5), largest_steps(beside.steps, 5, Fraction(0))
    assert each is not None
    assert larger is not None
    assert certify_users(discovery, each, counted, beside.left).delta <= PRIVACY.delta
    assert certify_users(discovery, larger, None, beside.left).delta <= PRIVACY.delta
    with pytest.raises(PrivacyViolation, match="together spend more"):
        certify_users(discovery, larger, counted, beside.left)


def test_records_that_are_impossible_are_refused() -> None:
    for wrong in (
        ("one-key", 2, 5),
        ("one-key", 1, None),
        ("many-keys", 5, 5),
        ("guess", 1, 5),
        ("many-keys", 0, None),
    ):
        with refused("the keys of a release must be found by one key of each user"):
            Discovery(*wrong)
    with refused("a look must have one whole number for each range of keys"):
        Look.from_json({"users": [1], "epsilon": "1"})


def test_rows_of_counts_are_checked() -> None:
    table = counted(pa.table({"word": ["a", "b"]}), np.array([-3.0, 40.25]), np.array([5.0, 2.0]))
    release = dpsample.Release(table, terms())
    assert release.table["estimate"].to_pylist() == [1, 40]
    assert release.table["low"].to_pylist() == [1, 36]
    assert release.table["high"].to_pylist() == [7, 45]
    for name, value in (("standard_error", 0.0), ("low", 0.5), ("high", 2.0), ("measured", float("nan"))):
        place = table.schema.get_field_index(name)
        with refused("is not finite, has no positive error, or is not between its bounds"):
            dpsample.Release(table.set_column(place, name, pa.array([1.0, value])), terms())


# ---- end to end


@pytest.mark.usefixtures("fixed_coins")
@pytest.mark.parametrize("discover", ["ask", "one-key", "many-keys"])
@pytest.mark.parametrize("keys_only", [False, True])
def test_a_release(tmp_path: Path, discover: Any, keys_only: bool) -> None:
    path = tmp_path / "out.parquet"
    options = {"key": "word", "user": "user", "privacy": PRIVACY, "discover": discover, "keys_only": keys_only}
    dpsample.release_to_file(path, popular(), **options)
    release = read_release(path)
    assert release.table["word"].to_pylist() == ["key 0", "key 1", "key 2"]
    assert release.terms.discovery is not None
    assert (release.terms.discovery.look is None) == (discover == "one-key")
    if discover == "ask":  # either way fills three keys: noise decides
        assert release.terms.discovery.keys == fuller(release.terms.discovery.filled).keys
    else:
        assert (release.terms.discovery.method, release.terms.discovery.filled) == (discover, ())
    assert (release.terms.counts is None) == keys_only
    if not keys_only:
        error = release.table["standard_error"].to_numpy()
        assert (np.abs(release.table["measured"].to_numpy() - 3000) < 8 * error).all()
        assert (error < 300).all()
    assert prove_release(release.terms).complete


@pytest.mark.chance("odds 1e-10: a key of one user shows; whatever the look, the fields are the same")
def test_the_schema_does_not_depend_on_the_data(tmp_path: Path) -> None:
    tables = [popular(), popular(1, 1), popular(1, 0).cast(popular().schema)]
    schemas, metadata = set(), set()
    for n, table in enumerate(tables):
        path = tmp_path / f"{n}.parquet"
        dpsample.release_to_file(path, table, "word", user="user", privacy=Privacy(1, 1e-10))
        schemas.add(str(pq.read_schema(path).remove_metadata()))
        metadata.add(tuple(sorted(read_release(path).metadata)))
    assert len(schemas) == len(metadata) == 1
    assert len(read_release(tmp_path / "2.parquet")) == 0


@pytest.mark.usefixtures("fixed_coins")
def test_a_prior_comes_first(tmp_path: Path) -> None:
    table = popular(2)
    earlier = dpsample.release(table, "word", user="user", privacy=PRIVACY)
    path = tmp_path / "earlier.parquet"
    earlier.write(path)
    for prior in (earlier, path):
        release = dpsample.release(table, "word", user="user", privacy=PRIVACY, prior=prior, discover="one-key")
        assert release.terms.discovery is not None
        assert release.terms.discovery.prior
        assert len(release) == 2
    with refused("prior must have the key columns 'other'"):
        dpsample.release(table.rename_columns(["user", "other"]), "other", user="user", privacy=PRIVACY, prior=earlier)
    with refused("prior can only be used for users"):
        dpsample.release(["a"], privacy=PRIVACY, prior=earlier)


def test_a_prior_is_sorted_by_its_estimates() -> None:
    table = counted(pa.table({"word": ["a", "b", "c"]}), np.array([50.0, 7.0, 20.0]), np.ones(3))
    assert prior_keys(dpsample.Release(table, terms()), ("word",))["word"].to_pylist() == ["b", "c", "a"]
    keys_only = dpsample.Release(pa.table({"word": ["a", "b"]}), terms(counts=None, keys_only=True))
    assert prior_keys(keys_only, ("word",))["word"].to_pylist() == ["a", "b"]


@pytest.mark.chance("certain: no assertion depends on which keys are reported, or on noise")
def test_a_ledger_is_charged(tmp_path: Path) -> None:
    for account, budget in (("epsilon", PRIVACY), ("renyi", Privacy(2, 1e-5))):
        path = tmp_path / f"{account}.ledger"
        new_ledger(path, "words", budget, "user", account=account)
        release = dpsample.release(popular(), "word", user="user", privacy=PRIVACY, ledger=path)
        [entry] = read_ledger(path).entries
        assert entry.privacy == PRIVACY
        assert release.terms.ledger == entry.hash
    with pytest.raises(dpsample.InvalidValue, match="may spend"):
        dpsample.release(popular(), "word", user="user", privacy=PRIVACY, ledger=tmp_path / "epsilon.ledger")


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"sampling": Ppswor(tau="0.1")}, "a sample of users' keys needs a contribution bound"),
        ({"size": 100}, "a sample of users' keys needs a contribution bound"),
        ({"discover": "ask", "max_keys_per_user": 3}, "discover cannot be combined with max_keys_per_user"),
        ({"discover": "guess"}, "discover must be one of ask, one-key, many-keys"),
        ({"keys_only": True, "count_share": "0.5"}, "count_share cannot be combined with keys_only"),
        ({"count_share": "0.9999999"}, "leaves nothing of epsilon"),
        ({"count_share": "1.5"}, "the share of epsilon for the counts must be above 0 and below 1"),
        ({"max_keys_per_user": 3, "count_share": "0.5"}, "count_share can only be used for users"),
        ({"grid": 4}, "grid cannot be used where keys are discovered"),
        ({"strategy": "two-pass"}, "strategy cannot be used where keys are discovered"),
        ({"discover": "one-key", "total": True}, "a total cannot be combined with discover='one-key'"),
        ({"discover": "many-keys", "count_share": "0.98"}, "discover='many-keys' needs more of epsilon"),
        ({"privacy": Privacy.zcdp("0.1", "1e-6")}, "users without a contribution bound are protected by"),
        ({"privacy": Privacy("1e-4", "1e-6")}, "is too small to count users"),
    ],
)
def test_refusals(options: dict[str, Any], rule: str) -> None:
    """Before any data are read: the table is not even looked at."""
    with refused(rule):
        Request.of(popular(), "word", user="user", **{"privacy": PRIVACY, **options})


def test_other_refusals() -> None:
    with refused("keys of users can only be discovered if a column names the user"):
        Request.of(popular(), "word", privacy=PRIVACY, discover="ask")
    with refused("max_keys_per_user needs a column"):
        Request.of(popular(), "word", privacy=PRIVACY, max_keys_per_user=3)
    table = popular().rename_columns(["user", "low"])
    with refused("a key column cannot be called 'low'"):
        Request.of(table, "low", user="user", privacy=PRIVACY)
    Request.of(table, "low", user="user", privacy=PRIVACY, keys_only=True)


@pytest.mark.usefixtures("fixed_coins")  # else the look errs once in 700 times
def test_the_command(tmp_path: Path) -> None:
    pq.write_table(popular(), tmp_path / "pairs.parquet")
    command = ("release", "pairs.parquet", "--key", "word", "--user", "user", "-e", "1", "-d", "1e-6")
    done = run(*command, "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert " key" in done.stderr
    done = run(
        *command, "--discover", "one-key", "--count-share", "0.4", "--prior", "out.parquet", "-o", "b.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.csv").read_text().splitlines()[
        0
    ] == '"word","estimate","low","high","measured","standard_error"'
    done = run("verify", "out.parquet", "--require-complete", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "holds for discovery and counts together" in done.stdout
    assert "filled by one key of each user: epsilon 0.002" in done.stdout
    done = run("verify", "b.csv", cwd=tmp_path)
    assert "one unit of a user moves at one key" in done.stdout
    done = run(*command, "--discover", "one-key", "--max-keys-per-user", "3", "-o", "c.parquet", cwd=tmp_path)
    assert done.returncode != 0
    assert not (tmp_path / "c.parquet").exists()

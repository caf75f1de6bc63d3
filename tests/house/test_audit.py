"""The audit's own statistics: its bounds hold, it refutes what is false, and its power is what it says."""

import math
from dataclasses import replace
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import audit
import audit_checks
import dpsample
from dpsample import Privacy
from dpsample.accounting.clipped import Clipped
from dpsample.private.progress import Progress
from dpsample.release.proof import proof, prove_release


@pytest.mark.parametrize("n", [1, 10, 1000])
@pytest.mark.parametrize("p", [0.0, 1e-4, 0.01, 0.3, 0.999, 1.0])
def test_bounds_hold(n: int, p: float) -> None:
    """The exact probability of all counts whose bound is on the wrong side of p."""
    counts = np.arange(n + 1)
    law = stats.binom.pmf(counts, n, p)
    low, high = (np.array([bound(int(k), n) for k in counts]) for bound in (audit.lower_bound, audit.upper_bound))
    assert law[low > p].sum() <= audit.ODDS * (1 + 1e-6)
    assert law[high < p].sum() <= audit.ODDS * (1 + 1e-6)


def test_the_power_that_is_claimed() -> None:
    """A key of one element that is reported with probability 0.0122, and one that is not there: E is exp(0.5)."""
    n = audit.KEYS // 2
    others = math.exp(0.5) * audit.upper_bound(0, n)
    least = next(k for k in range(n) if audit.lower_bound(k, n) - others > 0.01)
    assert stats.binom.sf(least - 1, n, 0.0122) >= 0.99


def test_a_law_at_its_limit_is_not_refuted_and_one_beyond_is() -> None:
    """Randomized response, which is private with exactly epsilon; with fixed seeds."""
    rng, n = np.random.default_rng(0), 200_000
    for epsilon, claimed, refuted in ((1.0, 1.0, False), (1.0, 0.9, True), (0.5, 0.5, False), (0.5, 0.3, True)):
        p = 1 / (1 + math.exp(-epsilon))
        one, other = (np.where(rng.random(n) < p, answer, 1 - answer) for answer in (0, 1))
        verdict = audit.audit(one, other, Privacy(claimed, "0.01"))
        assert verdict.refuted is refuted
        assert verdict.delta <= max(p - math.exp(claimed) * (1 - p), 0)


def test_what_only_one_shows_counts_whole() -> None:
    one, other = np.zeros(40_000, np.int64), np.ones(40_000, np.int64)
    assert audit.audit(one, other, Privacy(1, "0.01")).delta > 0.99
    assert audit.audit(one, one, Privacy(1, "0.01")).delta < 0


def test_the_source_tree_is_not_audited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(dpsample, "__file__", "/elsewhere/src/dpsample/__init__.py")
    assert audit.main() == 2
    assert "Run it with `make audit`" in capsys.readouterr().err


# ---- the checks that need no statistics


def test_repeated_releases_with_the_same_noise_are_found(monkeypatch: pytest.MonkeyPatch, fixed_coins: None) -> None:
    release = dpsample.release(audit_checks.users(100, 90), "key", user="user", privacy=Privacy(2, 1e-6), rows=3)
    monkeypatch.setattr(dpsample, "release", lambda *_, **__: release)
    with pytest.raises(audit_checks.WrongError, match="the same noise in"):
        audit_checks.repeated_releases_have_other_noise()


def test_parts_that_share_noise_are_found(monkeypatch: pytest.MonkeyPatch, fixed_coins: None) -> None:
    """The sum of each key has the noise of its rows, beside a little of its own."""
    drawn = audit_checks.counted_and_summed

    def shared() -> Any:
        table = drawn().table
        name = "sum_price_clipped"
        at, rows, price = table.schema.get_field_index(name), table["rows_measured"], table[name]
        mixed = rows.to_numpy() + 0.1 * price.to_numpy()
        return SimpleNamespace(table=table.set_column(at, name, pa.array(mixed)))

    audit_checks.parts_have_noise_of_their_own()
    monkeypatch.setattr(audit_checks, "counted_and_summed", shared)
    with pytest.raises(audit_checks.WrongError, match="'rows_measured' and 'sum_price_clipped' share noise"):
        audit_checks.parts_have_noise_of_their_own()


def test_answers_that_are_not_numbers_are_found(monkeypatch: pytest.MonkeyPatch, fixed_coins: None) -> None:
    """As they were when a sum over all users was divided by the smallest number instead of being left out."""
    beyond = Clipped.beyond_keys

    def overflowing(self: Clipped, users: Any, values: Any) -> Any:
        below, above = beyond(self, users, values)
        return (replace(below, parts=below.parts * math.nan) if users.sum() > 1.8e8 else below), above

    audit_checks.no_answer_is_nan_however_many_users_there_are()
    monkeypatch.setattr(Clipped, "beyond_keys", overflowing)
    with pytest.raises(audit_checks.WrongError, match="is not finite"):
        audit_checks.no_answer_is_nan_however_many_users_there_are()


def test_files_are_written_as_others_would(tmp_path: Path, fixed_coins: None) -> None:
    """What the audit changes in a file is all that is wrong with it: unchanged, it is read, and proved."""
    read = 0
    for kind, table, metadata in audit_checks.stated(tmp_path):
        audit_checks.write_with(tmp_path / "same.parquet", table, metadata)
        release = dpsample.read_release(tmp_path / "same.parquet")
        assert prove_release(release.terms).complete, kind
        read += 1
    assert read == 4


def test_terms_that_spend_more_are_found(monkeypatch: pytest.MonkeyPatch, fixed_coins: None) -> None:
    """Each is refused; and if terms are not compared with what would be drawn for them, the audit finds that."""
    audit_checks.verify_accepts_no_terms_that_spend_more()
    monkeypatch.setattr(proof, "check_stated", lambda terms: None)
    with pytest.raises(audit_checks.WrongError) as found:
        audit_checks.verify_accepts_no_terms_that_spend_more()
    for lie in ("a way that fills less", "a total of sensitivity 1/2", "weights of roots in whole steps"):
        assert f"{lie} is accepted" in str(found.value)


def test_progress_that_tells_a_number_is_found(monkeypatch: pytest.MonkeyPatch, fixed_coins: None) -> None:
    through = Progress.through

    def telling(self: Progress, stage: str, batches: Any) -> Any:
        for batch in through(self, stage, batches):
            self.begin(f"{batch.num_rows:,} keys")
            yield batch

    audit_checks.progress_tells_no_private_number()
    monkeypatch.setattr(Progress, "through", telling)
    with pytest.raises(audit_checks.WrongError, match="one key more changes"):
        audit_checks.progress_tells_no_private_number()


def test_no_check_is_left_out() -> None:
    """Each function without arguments that says in a sentence what holds is run."""
    sentences = {
        name
        for name, found in vars(audit_checks).items()
        if isinstance(found, FunctionType)
        and found.__module__ == audit_checks.__name__
        and found.__annotations__ == {"return": None}
        and not name.startswith("_")
    }
    assert sentences == {check.__name__ for check in audit_checks.CHECKS}
    assert len(sentences) == len(audit_checks.CHECKS) == 9

"""The audit's own statistics: its bounds hold, it refutes what is false, and its power is what it says."""

import math

import numpy as np
import pytest
from scipy import stats

import audit
import dpsample
from dpsample import Privacy


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

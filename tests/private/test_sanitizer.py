"""The kernel: every decision is that of the exact integers, and the laws come out."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsample.private.sanitizer
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.private.randomness import SecretCoins
from dpsample.private.sanitizer import Sanitizer, picked, sampled
from dpsample.scheme import integer_law, reporting_probabilities, token_law
from given_coins import GivenCoins

pytestmark = pytest.mark.chance("odds 6e-8: some 3,000 counts, each refused if a binomial tail is below 1e-11")

SCHEMES = [
    KeepAll(),
    Ppswor(1e-3),
    Ppswor(1e-6),
    Ppswor(1e-2, cap=50),
    Ppswor(0.7, power=0),
    Priority(1e-2),
    Priority(1e-3, 0.5),
    Priority(1e-5, 2),
    CustomSampling([Fraction(min(1 + i // 7, 60), 60) for i in range(3000)]),
]
PRIVACIES = [Privacy(0.1, 1e-6), Privacy(1, 1e-15), Privacy(0.5, 1e-3), Privacy(4, 1e-9)]


def _mixed(rng: np.random.Generator, sampling: Sampling) -> np.ndarray:
    """Frequencies of all kinds: shared by many keys, alone, and far out."""
    far = rng.integers(2000, 10**9, 15) if sampling.largest > 10**9 else rng.integers(1, sampling.largest, 15)
    return np.concatenate([np.arange(1, 60).repeat(4), np.full(100, 77), rng.integers(60, 2000, 15), far])


# each scheme with two of four privacies, each of which has all kinds of schemes
@pytest.mark.parametrize(
    ("sampling", "privacy"),
    [(scheme, PRIVACIES[(k + shift) % 4]) for k, scheme in enumerate(SCHEMES) for shift in (0, 2)],
    ids=str,
)
def test_every_decision_is_that_of_the_integers(sampling: Sampling, privacy: Privacy) -> None:
    rng = np.random.default_rng(7)
    frequencies = _mixed(rng, sampling)
    # spread over all orders of magnitude, so that rare tokens are drawn too
    words = (2.0 ** (64 * rng.random(len(frequencies)))).astype(np.uint64)
    rest = int(rng.integers(0, 2**60))
    sanitizer = Sanitizer(sampling, privacy)
    rows, cells = sanitizer(frequencies, GivenCoins(words, rest))
    found = dict(zip(rows.tolist(), cells.tolist(), strict=True))
    assert len(found) == len(rows)
    laws = {i: integer_law(i, sampling, privacy, sanitizer.grid) for i in set(frequencies.tolist())}
    for row, (i, word) in enumerate(zip(frequencies.tolist(), words.tolist(), strict=True)):
        law = laws[i]
        v = word << (law.bits - 64) | rest & ((1 << (law.bits - 64)) - 1)
        token = law.token(v)
        assert found.get(row) == (None if token is None else token * sanitizer.grid)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(1e-3), Priority(1e-3)], ids=str)
def test_words_next_to_a_cut_fall_on_their_side(sampling: Sampling) -> None:
    privacy = Privacy(0.5, 1e-6)
    sanitizer = Sanitizer(sampling, privacy)
    for i in (1, 7, 30, 1000):
        law = integer_law(i, sampling, privacy, sanitizer.grid)
        for k in range(0, len(law.cuts), 17):
            for off in (-1, 0, 1):  # around the cut, to the last bit
                v = law.cuts[k] + off
                if not 0 <= v < 1 << law.bits:
                    continue
                low = law.bits - 64
                coins = GivenCoins(np.array([v >> low], np.uint64), v & ((1 << low) - 1))
                _, cells = sanitizer(np.array([i]), coins)
                token = law.token(v)
                assert cells.tolist() == ([] if token is None else [token * sanitizer.grid])


def test_the_sampler_decides_exactly_at_q() -> None:
    for sampling in (Ppswor("0.123"), Priority("0.1", 0.5)):
        for i in (1, 5, 12):
            low = sampling.bounds(i, 1408)[0]
            for v, inside in ((low - 1, True), (low, False)):
                coins = GivenCoins(np.array([v >> 1344], np.uint64), v & ((1 << 1344) - 1))
                assert (len(sampled(np.array([i]), sampling, coins)) == 1) is inside


def test_elements_are_picked_exactly_at_q1() -> None:
    sampling = Ppswor("0.001")
    low = sampling.bounds(1, 1408)[0]
    for v, inside in ((low - 1, True), (low, False)):
        words = np.array([2**64 - 1, v >> 1344, 0], np.uint64)
        rows = picked(3, sampling, GivenCoins(words, v & ((1 << 1344) - 1)))
        assert rows.tolist() == ([1, 2] if inside else [2])


def test_keys_only_reports_the_same_keys() -> None:
    rng = np.random.default_rng(3)
    frequencies = rng.integers(1, 400, 5000)
    words = rng.integers(0, 2**64, 5000, dtype=np.uint64)
    privacy = Privacy(0.3, 1e-5)
    with_tokens, _ = Sanitizer(KeepAll(), privacy)(frequencies, GivenCoins(words))
    keys, cells = Sanitizer(KeepAll(), privacy, keys_only=True)(frequencies, GivenCoins(words))
    assert sorted(keys.tolist()) == sorted(with_tokens.tolist())
    assert not cells.any()


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.01), Priority(0.004)], ids=str)
def test_reported_share_and_tokens_follow_the_law(sampling: Sampling) -> None:
    # End to end, sampling included. For each frequency the number of reports is binomial(n, pi), and that of each
    # token binomial(n, P(token)); a count is refused if its tail is below 1e-11. There are about 3,000 counts: odds of
    # a false alarm 6e-8.
    privacy, n = Privacy(0.5, 1e-3), 200_000
    coins = SecretCoins()
    sanitizer = Sanitizer(sampling, privacy)
    for i in (1, 3, 8, 15, 30, 60, 250):
        kept = sampled(np.full(n, i), sampling, coins)
        rows, cells = sanitizer(np.full(len(kept), i), coins)
        pi = float(reporting_probabilities([i], sampling, privacy)[0])
        assert _tail(len(rows), n, pi) > 1e-11
        law = token_law(i, sampling, privacy, sanitizer.grid)
        drawn, counts = np.unique(cells, return_counts=True)
        assert set(drawn.tolist()) <= set(law.cells.tolist())
        seen = dict(zip(drawn.tolist(), counts.tolist(), strict=True))
        for cell, p in zip(law.cells.tolist(), law.probabilities.tolist(), strict=True):
            assert _tail(seen.get(cell, 0), n, p) > 1e-11


def test_picked_elements_follow_the_law() -> None:
    # binomial(n, 1 - exp(-tau)); odds of a false alarm 2e-10
    n = 2_000_000
    assert _tail(len(picked(n, Ppswor(1e-3), SecretCoins())), n, float(-np.expm1(-1e-3))) > 1e-10


def _tail(count: int, n: int, p: float) -> float:
    """The smaller of the two tails of a binomial at a count."""
    return float(min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)))


def test_exact_path_agrees_when_it_decides_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    frequencies = rng.integers(1, 300, 300)
    words = rng.integers(0, 2**64, 300, dtype=np.uint64)
    sampling, privacy = Ppswor(0.01), Privacy(1, 1e-6)
    floats = Sanitizer(sampling, privacy)(frequencies, GivenCoins(words))
    monkeypatch.setattr(dpsample.private.sanitizer, "_WORD", 2.0)  # nothing is clear any more
    exact = Sanitizer(sampling, privacy)(frequencies, GivenCoins(words))
    assert sorted(zip(*map(np.ndarray.tolist, floats), strict=True)) == sorted(
        zip(*map(np.ndarray.tolist, exact), strict=True)
    )


def test_batches_keep_keys_and_drop_frequencies() -> None:
    batch = pa.record_batch({"word": ["a", "b", "c"], "frequency": pa.array([1, 10**6, 10**6], pa.int64())})
    result = Sanitizer(KeepAll(), Privacy(1, 1e-6)).batch(batch, GivenCoins(np.full(3, 2**62, np.uint64)))
    assert result.schema.names == ["word", "token"]
    assert result["word"].to_pylist() == ["b", "c"]
    assert all(10**6 - 20 < t <= 10**6 for t in result["token"].to_pylist())


def test_empty_batches_are_fine() -> None:
    rows, cells = Sanitizer(Ppswor(0.1), Privacy(1, 1e-6))(np.zeros(0, np.int64), SecretCoins())
    assert len(rows) == len(cells) == 0
    assert len(sampled(np.zeros(0, np.int64), Ppswor(0.1), SecretCoins())) == 0


def test_a_key_that_the_scheme_never_samples_is_refused() -> None:
    with pytest.raises(InvalidValue, match="was drawn"):
        Sanitizer(CustomSampling([0, 0, 0.5]), Privacy(1, 1e-6))(np.array([2]), SecretCoins())

"""Coordinated samples: a public hash decides, keys are sanitized as all keys are, and estimates hold over seeds."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import KeepAll, Ppswor, Priority, Privacy, Release, Sample, combine, read_release, read_sample
from dpsample.answers.coordinated import difference, in_both
from dpsample.estimators.estimate import estimate, least_frequency
from dpsample.estimators.layers import Layers, token_weights
from dpsample.estimators.measures import Measure
from dpsample.estimators.tally import Tally
from dpsample.private.sanitizer import Sanitizer, sampled_batch
from dpsample.release.key_hash import first_frequencies, key_hashes
from dpsample.release.proof import prove_release
from dpsample.scheme import certify, reporting_probabilities, token_law
from dpsample.scheme.coordinated import LAST_FIRST, first_kept
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting, frequency_reaching
from dpsample.scheme.sampling import Ints, Sampling
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.token_columns import supports
from given_coins import GivenCoins
from references import true_pi, true_q
from stated_terms import stated_terms
from support import refused, run

SEED = "2026 public"
PRIVACY = Privacy("0.5", "1e-6")
NOISE = KeyNoise.of(np.exp(-np.abs(np.arange(-12, 13)) / 3.0), offset=2)
SCHEMES: list[Any] = [
    Ppswor("0.01", seed=SEED),
    Priority("0.01", seed=SEED),
    Ppswor("1e-9", seed=SEED),
    Priority("0.003", "0.5", 10_000, seed=SEED),
    Ppswor("0.0001", 2, seed=SEED),
    Ppswor("0.4", 0, seed=SEED),
    Ppswor("0.001", 1, 300, seed=SEED),
]


def split(u: int) -> list[int]:
    return [u >> 64, u & (2**64 - 1)]


# ---- the hash


def test_the_hash_is_what_its_page_says() -> None:
    """Computed here from the bytes that the module's docstring states."""

    def stated(letters: str, row: bytes) -> list[int]:
        text = SEED.encode() + b"\0" + letters.encode() + b"\0" + row
        return split(int.from_bytes(blake2b(text, digest_size=16, person=b"dpsample sample").digest(), "big"))

    columns = {
        "t": (["Zürich", ""], ["Zürich".encode(), b""]),
        "b": ([b"\0x", b""], [b"\0x", b""]),
        "i": ([-7, 2**62], [b"-7", str(2**62).encode()]),
        "l": ([True, False], [b"1", b"0"]),
        "d": ([date(1970, 1, 3), date(1969, 12, 31)], [b"2", b"-1"]),
        "s": ([datetime(1970, 1, 1, 0, 0, 1), datetime(1969, 12, 31)], [b"1000000000", b"-86400000000000"]),
        "n": ([Decimal("1.50"), Decimal("-0.07")], [b"1.5", b"-0.07"]),
    }
    for letter, (values, encoded) in columns.items():
        found = key_hashes(pa.record_batch({"key": values}), SEED)
        assert found.tolist() == [stated(letter, row) for row in encoded], letter
    several = key_hashes(pa.record_batch({"a": ["ab", "a"], "b": ["c", "bc"], "n": [1, 1]}), SEED)
    sizes = [n.to_bytes(8, "little") for n in (2, 1, 1, 2)]
    rows = [sizes[0] + b"ab" + sizes[1] + b"c" + b"1", sizes[2] + b"a" + sizes[3] + b"bc" + b"1"]
    assert several.tolist() == [stated("tti", row) for row in rows]


def test_neither_widths_nor_names_matter() -> None:
    wide = {"n": pa.array([3, 200]), "s": pa.array([10**6, 0], pa.timestamp("us")), "t": ["a", "b"]}
    narrow = {
        "m": pa.array([3, 200], pa.uint8()),
        "u": pa.array([1000, 0], pa.timestamp("ms", "UTC")),
        "x": pa.array(["a", "b"], pa.large_string()),
    }
    first, second = (key_hashes(pa.record_batch(columns), SEED) for columns in (wide, narrow))
    assert (first == second).all()
    assert (first != key_hashes(pa.record_batch(wide), "another")).any(1).all()
    empty = pa.record_batch({"a": pa.array([], pa.string()), "b": pa.array([], pa.int64())})
    assert key_hashes(empty, SEED).shape == (0, 2)


@pytest.mark.parametrize("seed", ["", 7, b"secret", "a\nb", "x" * 201])
@pytest.mark.parametrize("scheme", [Ppswor, Priority])
def test_a_seed_is_public_text(scheme: Any, seed: Any) -> None:
    with refused("seed must be public text of up to 200 characters, which the release states"):
        scheme("0.01", seed=seed)


# ---- the first frequency at which a key is kept


def true_first(u: int, sampling: Sampling) -> int:
    """The smallest i with u / 2**128 < q_i, from the definition of q in 120 digits."""
    low, high = 0, LAST_FIRST
    if Decimal(u) / 2**128 >= true_q(sampling, high)[0]:
        return LAST_FIRST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if Decimal(u) / 2**128 < true_q(sampling, middle)[0] else (middle, high)
    return high


TINY_POWERS = [
    Priority("0.5", "1e-7", seed=SEED),
    Ppswor("0.5", "1e-7", seed=SEED),
]  # a root multiplies errors by 10**7


@pytest.mark.parametrize("sampling", [*SCHEMES, *TINY_POWERS], ids=repr)
def test_the_first_frequency_is_exact(sampling: Any) -> None:
    """Also where u is one of the two numbers next to q_i: an error of 2**-128 would show."""
    from decimal import localcontext

    from references import PRECISE

    generator = np.random.default_rng(1)
    with localcontext(PRECISE):
        numbers = [int(a) << 64 | int(b) for a, b in generator.integers(0, 2**64, (12, 2), np.uint64)]
        numbers += [0, 1, 2**127, 2**128 - 1, 2**64]
        for i in (1, 2, 77, 4321):
            at = int(true_q(sampling, i)[0] * 2**128)
            numbers += [n for n in (at - 1, at, at + 1) if n < 2**128]
        expected = [true_first(u, sampling) for u in numbers]
    found = first_kept(np.array([split(u) for u in numbers], np.uint64), sampling)
    assert found.tolist() == expected


# ---- laws


def test_what_the_issue_states() -> None:
    """At tau 0.01 and (0.5, 1e-6), pi falls from 0.394 to 0.222 at 50, and from 0.632 to 0.528 at 100."""
    plain, seeded = Ppswor("0.01"), Ppswor("0.01", seed=SEED)
    q, star = [true_q(plain, h)[0] for h in range(101)], true_pi(KeepAll(), PRIVACY, 100)
    mixed = [sum((q[h] - q[h - 1]) * star[i - h + 1] for h in range(1, i + 1)) for i in (50, 100)]
    assert [round(float(p), 3) for p in mixed] == [0.222, 0.528]
    assert reporting_probabilities([50, 100], seeded, PRIVACY) == pytest.approx([float(p) for p in mixed], rel=1e-12)
    assert reporting_probabilities([50, 100], plain, PRIVACY).round(3).tolist() == [0.393, 0.632]


@pytest.mark.parametrize("each", [PRIVACY, NOISE], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("sampling", [SCHEMES[0], SCHEMES[3]], ids=repr)
def test_laws_over_seeds_are_mixtures_of_those_of_all_keys(sampling: Any, each: PerKey) -> None:
    """Against sums over all h, row by row; beyond the tabulated frequencies, to the error of interpolation."""
    grid = 4 if each is PRIVACY else 1
    for i, error in ((1, 1e-12), (9, 1e-12), (130, 1e-11), (9000, 1e-5)):
        h = np.arange(1, i + 1)
        weights = np.diff(np.append(0.0, sampling.q(h)))
        star = reporting_probabilities(i - h + 1, KeepAll(), each)
        [pi] = reporting_probabilities([i], sampling, each)
        [absent] = reporting_probabilities([i], sampling, each, complement=True)
        assert pi == pytest.approx(weights @ star, rel=error)
        assert absent == pytest.approx(1 - weights @ star, rel=error)
        if i > 200:
            continue
        expected = np.zeros(i * grid + 1)
        for first, weight in zip(h.tolist(), weights.tolist(), strict=True):
            law = token_law(i - first + 1, KeepAll(), each, grid)
            expected[law.cells + (first - 1) * grid] += weight * law.probabilities
        law = token_law(i, sampling, each, grid)
        found = np.zeros(i * grid + 1)
        found[law.cells] = law.probabilities
        assert np.allclose(found, expected, rtol=1e-9, atol=1e-15)
        cells = np.arange(max(1, (i - 30) * grid), i * grid + 1)
        frequencies, mass = supports(cells, Reporting.of(sampling, each), grid)
        at = frequencies == i
        assert np.allclose(mass[at], expected[cells[at.any(1)]], rtol=1e-9, atol=1e-15)


@pytest.mark.filterwarnings("ignore:delta = 0.5 is above")  # noise of 25 cells is short, and costs much
@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize("each", [PRIVACY, NOISE], ids=lambda each: type(each).__name__)
def test_given_the_hash_keys_are_sanitized_as_all_keys(each: PerKey, keys_only: bool) -> None:
    """The same coins report a key of i as one of i - h + 1 is, with h - 1 added to its token; below h none is there."""
    sampling = Ppswor("0.01", seed=SEED)
    keys = pa.record_batch({"key": [f"k{n}" for n in range(300)]})
    h = first_frequencies(keys, sampling)
    more = np.random.default_rng(2).integers(-3, 60, 300)
    frequencies = np.maximum(h + more, 1)
    batch = keys.append_column("frequency", pa.array(frequencies))
    kept = sampled_batch(batch, sampling, GivenCoins(np.zeros(0, np.uint64)))  # no coin is used
    assert kept["key"].to_pylist() == [f"k{n}" for n in np.flatnonzero(frequencies >= h)]
    terms = stated_terms(Privacy(4, "0.5"), sampling, ("key",), 1, keys_only=keys_only, max_keys=3, per_key=each)
    if each is PRIVACY:
        terms = stated_terms(PRIVACY, sampling, ("key",), 4, keys_only=keys_only)
    inside = frequencies >= h
    words = np.random.default_rng(3).integers(0, 2**64, kept.num_rows, np.uint64)
    found = Sanitizer.of(terms).batch(kept, GivenCoins(words))
    plain = Sanitizer(KeepAll(), each, terms.grid or 1, keys_only=keys_only)
    rows, cells = plain((frequencies - h + 1)[inside], GivenCoins(words))
    names, offset = np.array(kept["key"].to_pylist()), (h - 1)[inside]
    assert sorted(found["key"].to_pylist()) == sorted(names[rows].tolist())
    if not keys_only:
        expected = dict(zip(names[rows].tolist(), (cells / (terms.grid or 1) + offset[rows]).tolist(), strict=True))
        assert dict(zip(found["key"].to_pylist(), found["token"].to_pylist(), strict=True)) == expected
    with refused("a sampled key has a positive probability of being sampled"):
        Sanitizer.of(terms).batch(batch, GivenCoins(words))


@pytest.mark.parametrize("sampling", SCHEMES[:3], ids=repr)
def test_the_certificate_is_that_of_all_keys(sampling: Any) -> None:
    found, plain = certify(sampling, PRIVACY), certify(KeepAll(), PRIVACY)
    assert found.complete
    assert (found.delta, found.checked, found.bound) == (plain.delta, plain.checked, plain.bound)
    assert "for every seed" in str(found)
    proof = prove_release(stated_terms(PRIVACY, sampling, ("key",), 8))
    assert proof.complete
    assert repr(SEED) in str(proof)


# ---- releases


def draw(keys: pa.RecordBatch, frequencies: Ints, sampling: Sampling, generator: Any, privacy: Privacy) -> Release:
    """A release with the coins of a generator, without an engine."""
    terms = stated_terms(privacy, sampling, ("key",), 16)
    batch = keys.append_column("frequency", pa.array(frequencies)).filter(pa.array(frequencies > 0))
    drawn = sampled_batch(batch, sampling, GivenCoins(generator.integers(0, 2**64, batch.num_rows, np.uint64)))
    words = generator.integers(0, 2**64, drawn.num_rows, np.uint64)
    reported = Sanitizer.of(terms).batch(drawn, GivenCoins(words, rest=int(generator.integers(2**62))))
    return Release(pa.Table.from_batches([reported]).sort_by("key"), terms)


@pytest.mark.chance("odds 1e-8: a key of 40 more than its first frequency is not reported, at (1, 1e-8): it surely is")
def test_a_release_from_its_data_to_its_file(tmp_path: Path) -> None:
    sampling = Ppswor("0.01", seed=SEED)
    names = [f"k{n}" for n in range(60)]
    h = first_frequencies(pa.record_batch({"key": names}), sampling)
    data = Counter(
        {name: int(first) + (45 if n % 2 else -1) for n, (name, first) in enumerate(zip(names, h, strict=True))}
    )
    release = dpsample.release(data, privacy=Privacy(1, 1e-8), sampling=sampling)
    assert release.table["key"].to_pylist() == sorted(names[1::2])  # whatever the coins
    assert release.metadata["sampling"] == {"scheme": "ppswor", "tau": "0.01", "power": "1", "seed": SEED}
    release.write(tmp_path / "a.parquet")
    assert read_release(tmp_path / "a.parquet") == release
    for row in release.table.slice(0, 2).to_pylist():  # by the law of this key, not by that over seeds
        assert row["low"] <= row["estimate"] <= row["high"] <= row["low"] + 12
        assert release[row["key"]].low == row["low"]
        assert release.sum([row["key"]]).high == row["high"]
    # of a key that is not reported, the hash says from where on it would be
    reached = frequency_reaching(0.95, KeepAll(), release.privacy) or 0
    assert release["k0"].high == h[0] + reached - 2
    first = release.table["key"][0].as_py()
    low = pa.table({"key": [first], "token": [float(h[names.index(first)] - 1)]})
    with refused("is no positive multiple of 1/16"):
        Release(low, release.terms)
    sample = dpsample.sample(data, sampling=sampling)
    assert sorted(sample.table["key"].to_pylist()) == sorted(names[1::2])
    sample.write(tmp_path / "s.parquet")
    again = dpsample.sanitize(read_sample(tmp_path / "s.parquet"), privacy=Privacy(1, 1e-8))
    assert again.table["key"].to_pylist() == release.table["key"].to_pylist()
    with refused(
        "two passes need raw elements in files or a table, and ppswor by frequency without a seed, or a soft cap"
    ):
        dpsample.release(pa.table({"key": names}), "key", privacy=PRIVACY, sampling=sampling, strategy="two-pass")


@pytest.mark.chance("certain: a scheme, words and refusals")
def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("key,n\n" + "".join(f"k{n},500\n" for n in range(40)))
    scheme = ("--scheme", "priority", "--tau", "0.01", "--seed", SEED)
    options = ("--key", "key", "--frequency", "n", "-e", "1", "-d", "1e-6")
    made = run("release", "e.csv", *options, *scheme, "-o", "r.parquet", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert read_release(tmp_path / "r.parquet").sampling == Priority("0.01", seed=SEED)
    assert f"seed={SEED!r}" in run("info", "r.parquet", cwd=tmp_path).stdout
    assert "every frequency is covered" in run("certify", *scheme, "-e", "1", "-d", "1e-6", cwd=tmp_path).stdout
    drawn = run("sample", "e.csv", *options[:4], *scheme, "-o", "s.parquet", cwd=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    assert isinstance(read_sample(tmp_path / "s.parquet"), Sample)
    for wrong in (("--seed", SEED), ("--scheme", "ppswor", "--sample-size", "10", "--seed", SEED)):
        refusal = run("release", "e.csv", *options, *wrong, "-o", "x.parquet", cwd=tmp_path)
        assert refusal.returncode == 2
        assert "--seed cannot be combined with" in refusal.stderr


# ---- estimates over seeds


KEYS = pa.record_batch({"key": [f"k{n:05d}" for n in range(1500)]})


@lru_cache
def frequencies_of_days() -> tuple[Ints, Ints]:
    """Two days: heavy-tailed keys that change by about a tenth; some are new, and some are gone."""
    generator = np.random.default_rng(5)
    usual = np.minimum(40 * generator.random(1500) ** -0.8, 1e5)
    one, two = (generator.poisson(usual * generator.lognormal(0, 0.1, 1500)) for _ in range(2))
    one[:50], two[-50:] = 0, 0
    return one, two


def test_sums_have_their_error_over_seeds() -> None:
    """Of 30 seeds: the mean error is within 6 of its deviations of 0, and errors are as stated.

    False alarms: 2e-9 for the mean; 1e-8 for the ratio, whose logarithm has the deviation 1 / sqrt(60). A bias of a
    standard error of one release, or errors that are wrong by a factor of 2, are found with certainty.
    """
    privacy, [frequencies, _] = Privacy(1, "1e-6"), frequencies_of_days()
    least = least_frequency(Scheme(Ppswor("0.01", seed=SEED), privacy))
    truth = frequencies[frequencies >= least].sum()
    generator, errors, stated = np.random.default_rng(6), [], []
    for n in range(30):
        sampling = Ppswor("0.01", seed=f"seed {n}")
        h = first_frequencies(KEYS, sampling)
        kept = frequencies >= h
        words = GivenCoins(
            generator.integers(0, 2**64, int(kept.sum()), np.uint64), rest=int(generator.integers(2**62))
        )
        rows, cells = Sanitizer(KeepAll(), privacy, 16)((frequencies - h + 1)[kept], words)
        tally = Tally.of(cells + 16 * (h - 1)[kept][rows])
        answer = estimate(tally, Scheme(Ppswor("0.01", seed=SEED), privacy, 16), Measure.of("frequency"), least=least)
        assert answer.guaranteed
        errors.append(answer.value - truth)
        stated.append(answer.standard_error)
    size = np.sqrt(np.mean(np.square(stated)))
    assert abs(np.mean(errors)) < 6 * size / np.sqrt(30)
    assert abs(np.log(np.sqrt(np.mean(np.square(errors))) / size)) < 0.8


def shifted_value(layers: Layers, by: int, first: Ints, k: Ints) -> Any:
    return layers.value(k + by, first)


def test_layers_estimate_without_bias_whatever_the_frequency() -> None:
    """Exactly: over all h and all tokens, values average to i - least + 1, and variances to the variance of values."""
    sampling, privacy, grid = Ppswor("0.02", seed=SEED), Privacy(1, "1e-6"), 2
    c = least_frequency(Scheme(KeepAll(), privacy))
    layers = Layers(Measure.of("frequency"), [lambda m: sampling.q(np.maximum(m - c + 1, 0))], c, 2000)
    weights = token_weights(privacy, grid)
    for i in (8, 20, 45, 300):
        h = np.arange(1, i + 1)
        chance = np.diff(np.append(0.0, sampling.q(h)))
        mean = 0.0
        for first, p in zip(h.tolist(), chance.tolist(), strict=True):
            law = token_law(i - first + 1, KeepAll(), privacy, grid)
            start = np.full((len(law.cells), 1), first + c - 1)
            values = weights.values(law.cells, partial(shifted_value, layers, first - 1, start))
            mean += p * float(law.probabilities @ values)
        assert mean == pytest.approx(max(i - c + 1, 0), abs=0.02 * max(i - c + 1, 1)), i
        for j in (30, 400):
            visible = np.arange(1, 2001) + c - 1
            steps = layers.value(np.full(2000, j), visible) - layers.value(np.full(2000, i), visible)
            chances = np.diff(np.append(0.0, sampling.q(np.arange(1, 2001))))
            change = max(j - c + 1, 0) - max(i - c + 1, 0)
            assert chances @ steps == pytest.approx(change, rel=1e-9, abs=1e-9)
            variance = layers.variance(np.full(2000, i), np.full(2000, j), visible)
            assert chances @ variance == pytest.approx(chances @ steps**2 - change**2, rel=0.02), (i, j)


def test_a_change_has_at_most_half_the_error_of_independent_samples() -> None:
    """Of 12 pairs of days by one seed, and by secret coins with a tau such that samples have as many keys.

    The errors of independent samples are those that they state, which other tests check. Coordinated errors, which are
    about 0.3 of these, are what they state to a factor of 2: the logarithm of the ratio has the deviation 0.2, and the
    coins are given. An error that is too small by a factor of 4 is found with probability 0.9997.
    """
    privacy, days = Privacy(1, "1e-6"), frequencies_of_days()
    generator = np.random.default_rng(8)
    errors: list[float] = []
    stated: list[float] = []
    for n in range(12):
        one, two = (draw(KEYS, i, Ppswor("0.01", seed=f"seed {n}"), generator, privacy) for i in days)
        change = difference(one, two)
        assert change.at_least is not None
        before, after = (int(np.maximum(i, change.at_least - 1).sum()) for i in days)
        errors.append(change.value - (after - before))
        stated.append(change.standard_error)
    others = [draw(KEYS, i, Ppswor("0.0083"), generator, privacy) for i in days]
    assert len(others[0]) < 1.05 * len(one)
    assert change.at_least is not None
    apart = math.hypot(*(r.sum(at_least=change.at_least).standard_error for r in others))
    size = np.sqrt(np.mean(np.square(stated)))
    assert size < apart / 2
    assert abs(np.mean(errors)) < 5 * size / np.sqrt(12)
    assert abs(np.log(np.sqrt(np.mean(np.square(errors))) / size)) < np.log(2)
    with refused("were not chosen by one public seed"):
        difference(one, others[0])
    with refused("a difference cannot be of keys, which jumps"):
        difference(one, two, of="keys")
    with refused(f"at_least must be {change.at_least} or more, where sampled keys are reported"):
        difference(one, two, at_least=change.at_least - 1)
    shared = in_both(one, two)
    assert shared.at_least is not None
    truth = (np.minimum(days[0], days[1]) >= shared.at_least).sum()
    assert abs(shared.value - truth) < 5 * shared.standard_error < 0.5 * truth
    nothing = difference(one, two, lambda table: pa.array(np.zeros(len(table), bool)))
    assert (nothing.value, nothing.keys, nothing.guaranteed) == (0, 0, False)


def test_a_change_between_two_pairs_of_days_has_the_error_that_it_states() -> None:
    """Of 24 seeds: errors are as stated, to a factor of 2, and about 0 in the mean.

    The coins are given. With others, false alarms have the odds 2e-9 for the mean, at 6 of its deviations, and 2e-6 for
    the ratio, whose logarithm has the deviation 1 / sqrt(48).
    """
    privacy, (one, two) = Privacy(1, "1e-6"), frequencies_of_days()
    generator = np.random.default_rng(9)
    days = [one, two, one + one // 9, two + 20 * (two > 0)]
    errors: list[float] = []
    stated: list[float] = []
    for n in range(24):
        sampling = Ppswor("0.01", seed=f"seed {n}")
        a, b, c, d = (draw(KEYS, i, sampling, generator, privacy) for i in days)
        change = difference(combine(a, b), combine(c, d))
        assert change.at_least is not None
        sums = [int(np.maximum(i, change.at_least - 1).sum()) for i in days]
        errors.append(change.value - (sums[2] + sums[3] - sums[0] - sums[1]))
        stated.append(change.standard_error)
    size = np.sqrt(np.mean(np.square(stated)))
    assert abs(np.mean(errors)) < 6 * size / np.sqrt(24)
    assert abs(np.log(np.sqrt(np.mean(np.square(errors))) / size)) < np.log(2)
    pairs = difference(a, c), difference(b, d)
    assert change.value == pytest.approx(sum(pair.value for pair in pairs), abs=size)
    with refused("give as many before as after"):
        difference(a, combine(c, d))

"""Every noise that is drawn: that it is drawn, from coins of its own, by the law that the certificate names.

Releases of each kind are watched (`draws`). Coins follow from fixed seeds, so nothing here fails by chance. What is
compared is exact: the smallest defect that is found is one number of one noise without noise, one table or scale that
is not the certified one, and one stream that two noises share.
"""

import hashlib
import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsample
from dpsample import KeepAll, Ppswor, Privacy, Release, Sample, SampleSize
from dpsample.accounting.look import Look
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.engine.spark.engine import Spark
from dpsample.private.noise import discrete_laplace
from dpsample.private.randomness import StreamCoins
from dpsample.private.request import Request
from dpsample.private.run import write_release_to
from dpsample.private.stream.queries import QueryStream
from dpsample.scheme.sampling import Ints
from draws import Change, Drawn, WatchedEngine, WatchedSource, certified, watched_noise

pytestmark = pytest.mark.usefixtures("fixed_coins")

PRIVACY = Privacy(2, 1e-6)


def elements() -> pa.Table:
    """Keys of 1, 2, ..., 40 elements: 820 in all."""
    return pa.table({"key": np.repeat(np.arange(40), np.arange(1, 41))})


def users() -> pa.Table:
    """500 users: all have keys 0 to 3, one in n + 1 has key n, and fifty have all. One row for each, with a price."""
    user, key = np.divmod(np.arange(500 * 40), 40)
    has = (key < 4) | (user % (key + 1) == 0) | (user < 50)
    user, key = user[has], key[has]
    return pa.table({"key": key, "user": user, "price": (user + key) % 7})


def users_of_many() -> pa.Table:
    """840 users of 60 keys each, of 336: one key of each user cannot fill many keys, and many keys of each can."""
    user, place = np.divmod(np.arange(840 * 60), 60)
    return pa.table({"key": (user + 3 * place) % 336, "user": user})


@dataclass(frozen=True)
class Case:
    """A release, how many noises of which kind it draws, and from how many streams in all."""

    table: pa.Table
    totals: int = 0
    looks: int = 0
    compared: int = 0  # whether both ways to find keys are compared: two numbers, from one stream
    vectors: int = 0
    others: tuple[str, ...] = ()  # streams that are not for noise
    options: dict[str, Any] = field(default_factory=dict)


BOUNDED: dict[str, Any] = {"user": "user", "max_keys_per_user": 3}
FOUND: dict[str, Any] = {"user": "user", "discover": "one-key"}
MANY: dict[str, Any] = {"user": "user", "discover": "many-keys"}
AMOUNTS: dict[str, Any] = {"rows": 3, "sums": {"price": 5}}
LISTED: dict[str, Any] = {"keys": [*range(0, 40, 3), 77]}

CASES = {
    "elements": Case(elements(), 2, others=("sample", "sanitize"), options={"size": 100, "total": True}),
    "elements, weights with fractions": Case(
        elements(), 1, others=("sample", "sanitize"), options={"size": SampleSize(100, power="0.5")}
    ),
    "elements in two passes": Case(
        elements(), 0, others=("pick", "sanitize"), options={"sampling": Ppswor("0.2"), "strategy": "two-pass"}
    ),
    "bounded users": Case(
        users(),
        3,
        others=("fresh", "sample", "sanitize"),
        options={**BOUNDED, "total": "0.2", "size": SampleSize(20, cap=30)},
    ),
    "keys that are found": Case(
        users(),
        1,
        1,
        1,
        others=("keep", "fresh", "sanitize"),
        options={"user": "user", "keys_only": True, "total": "0.1"},
    ),
    "keys of many each, that fill more": Case(
        users_of_many(), 1, 1, 1, 5, ("keep", "fresh", "fresh", "sanitize"), {"user": "user", "total": "0.1"}
    ),
    "keys that are found and counted": Case(users(), 0, 0, 0, 5, ("keep", "sanitize"), FOUND),
    "keys of many each, counted": Case(users(), 0, 1, 0, 5, ("keep", "fresh", "sanitize"), MANY),
    "keys that are found, counted and summed": Case(users(), 0, 0, 0, 11, ("keep", "sanitize"), FOUND | AMOUNTS),
    "found and known keys": Case(users(), 0, 0, 0, 5, ("keep", "sanitize"), FOUND | LISTED),
    "known keys alone": Case(users(), 0, 0, 0, 8, (), {"user": "user", "only_known": True, "rows": 3} | LISTED),
}


@dataclass(frozen=True)
class Watched:
    """A release that was watched."""

    release: Release
    noises: list[Drawn]
    coins: WatchedSource
    asked: int


def watched(case: Case, changed: tuple[int, int] | None = None, change: Change | None = None) -> Watched:
    """Release; with the coins of one stream, or one number of one noise, changed."""
    engine = WatchedEngine(changed)
    with engine, watched_noise(change) as noises:
        release = dpsample.release(case.table, "key", privacy=PRIVACY, engine=engine, **case.options)
        return Watched(release, noises, engine.coins, engine.asked)


def published(release: Release) -> tuple[Any, ...]:
    """All that anybody sees of a release."""
    return release.terms.to_json(len(release)), release.table.to_pydict()


# ---- noise


@pytest.mark.parametrize("name", CASES)
def test_each_noise_is_drawn_from_coins_of_its_own_by_the_certified_law(name: str) -> None:
    """A noise that is missing, from another source or from coins that others have, or by another law, is found."""
    case = CASES[name]
    found = watched(case)
    assert found.asked == 1  # one source of coins for each release
    laws = Counter(noise.law for noise in found.noises)
    assert laws == Counter(certified(found.release.terms))
    assert len(found.noises) == case.totals + len(Look.EDGES) * case.looks + 2 * case.compared + case.vectors
    of_each_key = sum(len(noise.numbers) == len(found.release) for noise in found.noises)
    assert of_each_key >= case.vectors // 3  # the counts have two parts with a number for each key, an amount has one

    streams = [stream for stream in found.coins.streams if stream.how != "sample" or stream.words]
    used = [next((n for n, own in enumerate(streams) if own is noise.coins), None) for noise in found.noises]
    assert None not in used  # no noise is from coins that the source did not give out
    own = {streams[n] for n in used if n is not None}
    assert len(own) == case.totals + case.looks + case.compared + case.vectors  # one for all numbers of a look
    assert all(stream.how == "fresh" for stream in own)
    assert [stream.how for stream in streams if stream not in own] == list(case.others)
    assert all(stream.words for stream in streams)  # nothing is asked for and not used


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.vectors])
def test_a_table_is_drawn_by_its_integers(name: str) -> None:
    """Each number is the place of its word among the sums of the table's integers, less the middle; by bisection."""
    found = watched(CASES[name])
    for noise in found.noises:
        if isinstance(noise.law, Fraction):
            continue
        [number] = [n for n, stream in enumerate(found.coins.streams) if stream is noise.coins]
        words = StreamCoins(found.coins.key_of(number)).first(len(noise.numbers)).tolist()
        sums = list(accumulate(noise.law.table))
        lowest = [bisect_right(sums, word << 64) for word in words]
        highest = [bisect_right(sums, (word + 1 << 64) - 1) for word in words]
        assert lowest == highest  # the first 64 bits decide about all of these
        assert noise.numbers.tolist() == [place - noise.law.cells // 2 for place in lowest]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.totals + case.looks + case.vectors])
def test_each_noise_reaches_the_release(name: str) -> None:
    """A number of each noise, moved far, makes another release: noise that is drawn and thrown away is found.

    Of noise for each key, the first and the last number do. Other noise decides about a length or a share, which may be
    the same with another number: one number, up or down, must tell.
    """
    case = CASES[name]
    found = watched(case)
    before = published(found.release)

    def tells(draw: int, number: int, up: bool) -> bool:
        moved = watched(case, change=Change(draw=draw, number=number, up=up))
        return published(moved.release) != before

    for draw, noise in enumerate(found.noises):
        last = len(noise.numbers) - 1
        if last + 1 == len(found.release):
            assert tells(draw, 0, True), draw
            assert tells(draw, last, True), draw
        else:
            assert any(tells(draw, number, up) for number in (last, 0) for up in (True, False)), draw


@pytest.mark.parametrize("name", CASES)
def test_each_stream_of_coins_decides_something(name: str) -> None:
    """With other coins in one stream alone, the release is another one: which keys are kept, sampled and reported.

    Not those of noise, which is watched by itself, nor salts, which only decide which keys are full.
    """
    found = watched(CASES[name])
    before = published(found.release)
    of_noise = {noise.coins for noise in found.noises}
    for number, stream in enumerate(found.coins.streams):
        if stream.words and stream.how != "keep" and stream not in of_noise:
            others = (watched(CASES[name], changed=(number, other)) for other in range(1, 9))
            assert any(published(other.release) != before for other in others), (number, stream.how)


def test_without_noise_totals_are_the_true_numbers() -> None:
    """So what is published beside them is noise, and nothing else."""
    none = Change(none=True)
    terms = watched(CASES["elements"], change=none).release.terms
    assert terms.bought.total is not None
    assert terms.bought.size is not None
    assert (terms.bought.total.value, terms.bought.size.weights.value) == (820, 820)

    size = watched(CASES["elements, weights with fractions"], change=none).release.terms.bought.size
    assert size is not None
    units = sum(math.isqrt(n << 32) for n in range(1, 41))  # of roots, rounded down to 1/65536
    assert size.weights.value == Fraction(units, 1 << 16)

    keys = np.unique(users()["user"].to_numpy(), return_counts=True)[1]
    terms = watched(CASES["bounded users"], change=none).release.terms
    assert terms.bought.total is not None
    assert terms.bought.dropped is not None
    assert terms.bought.total.value == np.minimum(keys, 3).sum()
    assert terms.bought.dropped.value == np.clip(keys - 3, 0, 27).sum()  # nine times the bound

    terms = watched(CASES["keys that are found"], change=none).release.terms
    assert terms.discovery is not None
    assert terms.discovery.look is not None
    edges = [0, 1, 4, 16, 64, 256, 1024, math.inf]
    assert terms.discovery.look.users == tuple(np.histogram(keys, np.array(edges) + 0.5)[0].tolist())
    assert terms.bought.total is not None
    assert terms.bought.total.sensitivity == 1  # more keys of a user are within the noise of the look
    assert terms.bought.total.value == 500

    terms = watched(CASES["keys of many each, that fill more"], change=none).release.terms
    assert terms.discovery is not None
    one, many = terms.discovery.filled
    assert (one.keys, one.units) == (1, 840)  # all users give a unit: not all keys of one can be full
    assert 60 * one.full > 840
    # each of a key's users keeps it with probability 32/60: deviations of keys are below 7, and those of all below 130
    has = np.bincount(users_of_many()["key"].to_numpy())
    numbers = np.arange(has.max() + 1)
    law = stats.binom.pmf(numbers, has[:, None], many.keys / 60)
    expected = float((law * np.minimum(numbers, many.full)).sum())
    assert expected < 840 * 32 - 200  # some keys are full, of 32 that users keep
    assert abs(many.units - expected) < 5 * 130
    assert terms.bought.total is not None
    assert (terms.bought.total.value, terms.bought.total.sensitivity) == (Fraction(840 * 60), Fraction(64))


def test_tau_follows_from_the_noisy_total() -> None:
    """Tau is the wanted size over the published total, rounded down to six figures: it tells nothing more."""
    for name in ("elements", "elements, weights with fractions", "bounded users"):
        terms = watched(CASES[name]).release.terms
        assert terms.bought.size is not None
        assert isinstance(terms.sampling, Ppswor)
        exact_tau = terms.bought.size.wanted / Fraction(terms.bought.size.weights.value)
        assert exact_tau * Fraction(99999, 100000) < terms.sampling.tau <= exact_tau


def test_discrete_laplace_noise_by_chi_square() -> None:
    """5,000 draws for each scale that is certified above; one that is 20 % too small is refused, each time."""
    scales: set[Fraction] = set()
    for case in CASES.values():
        scales |= {law for law in certified(watched(case).release.terms) if isinstance(law, Fraction)}
    assert len(scales) >= 6
    for number, scale in enumerate(sorted(scales)):
        for drawn, right in ((scale, True), (scale * Fraction(8, 10), False)):
            coins = StreamCoins(hashlib.sha256(f"{number} {right}".encode()).digest())
            numbers = np.array([discrete_laplace(drawn, coins) for _ in range(5_000)])
            assert (chi_square(numbers, scale) > 1e-4) is right, scale


def chi_square(numbers: Ints, scale: Fraction) -> float:
    """How likely numbers are further from discrete Laplace noise, by their counts in some twenty ranges."""
    a = math.exp(-1 / float(scale))
    # Pr[x >= m] = a**m / (1 + a) for m > 0: ranges begin where that is 1/20, 2/20, ..., 9/20
    wanted = np.arange(1, 10) / 20
    firsts = np.ceil(np.log(wanted * (1 + a)) / math.log(a))
    starts = np.unique(np.maximum(firsts, 1))
    beyond = a**starts / (1 + a)
    ranges = -np.diff(beyond, append=0.0)
    middle = 1 - 2 * ranges.sum()
    law = np.concatenate([ranges[::-1], [middle], ranges])

    edges = np.concatenate([[-np.inf], -starts[::-1] + 0.5, starts - 0.5, [np.inf]])
    counts, _ = np.histogram(numbers, edges)
    return float(stats.chisquare(counts, law * len(numbers)).pvalue)


# ---- where coins come from


def test_on_one_machine_each_run_has_coins_of_its_own(tmp_path: Path) -> None:
    """Each run of a door draws a secret of its own, and two runs never decide alike."""
    table = pa.table({"key": np.arange(200)})
    with DuckDB() as engine:
        assert (engine.new_coins().first(4) != engine.new_coins().first(4)).all()
        asked: list[Any] = []
        give = engine.new_coins
        engine.new_coins = lambda: asked.append(give()) or asked[-1]  # type: ignore[method-assign,func-returns-value]
        sampling = Ppswor(1)
        drawn = [dpsample.sample(table, "key", sampling=sampling, engine=engine) for _ in range(2)]
        assert drawn[0].table["key"] != drawn[1].table["key"]
        request = Request.of(table, "key", privacy=Privacy(1, "0.01"), sampling=sampling)
        for name in ("one.parquet", "two.parquet"):
            write_release_to(tmp_path / name, request, engine=engine)
        assert len(asked) == len(set(asked)) == 4
    with pytest.warns(dpsample.PrivacyWarning):
        half = Privacy(1, "0.5")
    copies = [Sample(table.append_column("frequency", pa.array([1] * 200)), KeepAll(), "key") for _ in range(2)]
    first, second = (dpsample.sanitize(copy, privacy=half).table["key"] for copy in copies)
    assert first != second


def test_on_a_cluster_each_release_and_each_noise_has_coins_of_its_own() -> None:
    """Noise is drawn on the driver, once: its coins do not follow from the secret that workers have."""
    secret, same = Secret(bytes(32)), Secret(bytes(32))
    streams = [secret.fresh(), secret.fresh(), same.fresh(), Secret().fresh()]
    words = np.concatenate([stream.first(8) for stream in streams])
    assert len(np.unique(words)) == 32
    # the engine gives each release a secret of its own; it needs no cluster for that
    engine = object.__new__(Spark)
    keys = pa.record_batch({"key": ["a", "b"]})
    numbers = [engine.new_coins().for_keys(keys, "sample").first(2) for _ in range(2)]
    numbers.append(same.for_keys(keys, "sample").first(2))
    assert len(np.unique(np.concatenate(numbers))) == 6


def test_each_stream_has_a_secret() -> None:
    """Two streams of the same elements hold others."""
    streams = [dpsample.Stream(tau=1) for _ in range(2)]
    for stream in streams:
        stream.add(pa.table({"key": np.arange(200)}))
    assert streams[0].table["key"] != streams[1].table["key"]


def test_batches_of_a_query_have_coins_of_their_own(tmp_path: Path) -> None:
    """A batch that is counted again has the same coins; another batch, and another stream, have others."""
    keys = pa.record_batch({"key": np.arange(4)})
    states = [tmp_path / name for name in ("one.parquet", "two.parquet")]
    for state in states:
        dpsample.Stream(tau=1).write(state)
    queries = [
        QueryStream(states[0], "query", 0),
        QueryStream(states[0], "query", 0),
        QueryStream(states[1], "query", 0),
    ]
    again = [query.coins.for_keys(keys, "sample").first(4).tolist() for query in queries]
    assert again[0] == again[1] != again[2]
    queries[0].add(pa.table({"key": ["a"], "frequency": [1]}), 1)
    later = QueryStream(states[0], "query", 1).coins.for_keys(keys, "sample").first(4).tolist()
    assert not set(later) & set(again[0])

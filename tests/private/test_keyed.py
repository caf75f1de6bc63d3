"""Coins that are a function of a secret and of what is decided about."""

import hashlib
import pickle
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpsample import Ppswor
from dpsample.private.derived_coins import KeyedCoins, Secret, encoded
from dpsample.private.sanitizer import picked

pytestmark = pytest.mark.chance(
    "odds 1e-11: agreement of 64,000 fair bits or 4,000 coins beyond 8 standard deviations, a binomial tail of 1e-12"
)
KEY = bytes(range(32))


def batch(*columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns], [f"c{i}" for i in range(len(columns))])


def test_a_number_is_keyed_blake2b_of_the_key() -> None:
    keys = ["", "a", "é" * 200]
    coins = Secret(KEY).for_keys(batch(keys), "sanitize")
    for row, (word, key) in enumerate(zip(coins.first(3).tolist(), keys, strict=True)):
        first = hashlib.blake2b(key.encode(), digest_size=8, key=KEY, person=b"sanitize").digest()
        assert word == int.from_bytes(first, "little")
        rest = b"".join(
            hashlib.blake2b(key.encode(), key=KEY, person=b"sanitize", salt=bytes([0] * 15 + [n])).digest()
            for n in (1, 2, 3)
        )
        for bits in (1, 64, 511, 512, 513, 1344):
            assert coins.more(row, bits) == int.from_bytes(rest, "big") >> (8 * len(rest) - bits)


def test_neither_order_nor_batches_matter() -> None:
    keys = [f"key {i}" for i in range(1000)]
    whole = Secret(KEY).for_keys(batch(keys), "sample").first(1000)
    backwards = Secret(KEY).for_keys(batch(keys[::-1]), "sample").first(1000)
    part = Secret(KEY).for_keys(batch(keys).slice(100, 50), "sample").first(50)
    assert (whole == backwards[::-1]).all()
    assert (whole[100:150] == part).all()
    assert len(set(whole.tolist())) == 1000


def test_purposes_and_secrets_are_independent() -> None:
    keys = batch([f"key {i}" for i in range(1000)])
    other = Secret()
    streams = [Secret(KEY).for_keys(keys, p).first(1000) for p in ("sample", "sanitize")] + [
        other.for_keys(keys, "sample").first(1000)
    ]
    for a, b in pairwise(streams):
        # agreement of 64,000 fair bits: 8 standard deviations, odds below 1e-14
        agree = 64_000 - int(np.bitwise_count(a ^ b).sum())
        assert abs(agree - 32_000) < 8 * np.sqrt(16_000)
    with pytest.raises(ValueError, match="purpose"):
        KeyedCoins(KEY, keys, "whatever")


values = st.one_of(st.text(max_size=3), st.binary(max_size=3).map(lambda b: b.hex()))


@given(rows=st.lists(st.tuples(values, values, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=30))
def test_different_keys_are_written_differently(rows: list[tuple[str, str, int]]) -> None:
    written = encoded(batch(*zip(*rows, strict=True)))
    assert len(set(written)) == len(set(rows))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.array([1, -5], pa.int8()), pa.array([1, -5], pa.int64())),
        (pa.array([1, 5], pa.uint16()), pa.array([1, 5], pa.int64())),
        (pa.array(["x", "é"]), pa.array(["x", "é"], pa.large_string())),
        (pa.array([b"x", b""]), pa.array([b"x", b""], pa.large_binary())),
        (pa.array([5, -9], pa.timestamp("us")), pa.array([5, -9], pa.timestamp("us", "Europe/Paris"))),
        (
            pa.array([Decimal("1.5"), Decimal("-2.5")]),
            pa.array([Decimal("1.5"), Decimal("-2.5")], pa.decimal128(30, 1)),
        ),
        (pa.array([3, 9], pa.date32()), pa.array([3, 9], pa.int32())),
        (pa.array([True, False]), pa.array([1, 0])),
    ],
    ids=lambda array: str(array.type),
)
def test_the_width_of_a_type_does_not_matter(narrow: pa.Array, wide: pa.Array) -> None:
    assert encoded(batch(narrow)) == encoded(batch(wide))
    assert encoded(batch(narrow).slice(1)) == encoded(batch(wide))[1:]
    assert len(set(encoded(batch(narrow)))) == 2


def test_elements_go_by_place_and_content() -> None:
    rows = batch(["a", "b", "a", "c"] * 100)
    first = Secret(KEY).for_elements(rows, (3, 7)).first(400).tolist()
    assert Secret(KEY).for_elements(rows, (3, 7)).first(400).tolist() == first
    assert (
        Secret(KEY)
        .for_elements(pa.RecordBatch.from_arrays([pa.array(["x", *rows["c0"].to_pylist()])[1:]], ["c0"]), (3, 7))
        .first(400)
        .tolist()
        == first
    )  # memory around the rows does not matter
    for other, place in [
        (rows, (3, 8)),
        (rows, (4, 7)),
        (rows, (37, 7)),
        (rows.take(pa.array([*range(1, 400), 0])), (3, 7)),
        (rows.slice(0, 399), (3, 7)),
    ]:
        assert Secret(KEY).for_elements(other, place).first(399).tolist() != first[:399]
    assert Secret().for_elements(rows, (3, 7)).first(400).tolist() != first


def test_a_run_in_another_order_has_coins_of_its_own() -> None:
    # Some readers have the output of a task's first run, others that of a second one, which met its rows in another
    # order. "a" is looked up in the first, "b" in the second, in the same place. That both or none are picked has then
    # probability 1/2; 8 standard deviations, odds below 1e-14. With coins of the position it would always be so.
    n, sampling = 4000, Ppswor("0.69314718")
    one, two = batch(["a", "b"]), batch(["b", "a"])
    same = 0
    for _ in range(n):
        secret = Secret()
        a = 0 in picked(2, sampling, secret.for_elements(one, (0, 0)))
        b = 0 in picked(2, sampling, secret.for_elements(two, (0, 0)))
        same += a == b
    assert abs(same - n / 2) < 8 * np.sqrt(n / 4)


def test_elements_are_picked_with_the_right_probability() -> None:
    # binomial; odds of a false alarm 2e-12
    n, sampling = 200_000, Ppswor("0.01")
    count = len(picked(n, sampling, Secret().for_elements(batch(np.arange(n)), (0, 0))))
    p = -np.expm1(-0.01)
    assert min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p)) > 1e-12


def test_the_secret_is_not_shown() -> None:
    secret = Secret(KEY)
    coins = secret.for_keys(batch(["a"]), "sample")
    for shown in (repr(secret), str(secret), repr(coins), repr(secret.for_elements(batch(["a"]), (0, 0)))):
        assert KEY.hex() not in shown
        assert repr(KEY) not in shown
        assert shown in ("Secret()", "KeyedCoins()", "StreamCoins()")
    # unlike other coins it must travel: a copy decides the same
    copy = pickle.loads(pickle.dumps(secret))
    assert (copy.for_keys(batch(["a"]), "sample").first(1) == coins.first(1)).all()


def test_each_secret_is_new() -> None:
    assert len({Secret()._key for _ in range(100)}) == 100
    assert {len(Secret()._key)} == {32}

"""Filled capacity on a real cluster: what many keys of each user fill, the same whenever a task is run again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample.spark
from dpsample import Privacy, Source
from dpsample.accounting.choice import fuller
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.spark import Spark
from dpsample.release.proof import prove_release

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.chance("certain: a given secret, sums that no coins change, and a choice that is compared with itself"),
]

KEY = bytes(range(32))
SIZES = [1 + n % 9 for n in range(300)] + [40]
USERS = [[f"key {(n + i * i) % 41 if size < 40 else i}" for i in range(size)] for n, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 users with 1 to 9 of 41 keys, and one with 40; every row twice; in two files."""
    folder = tmp_path_factory.mktemp("filled")
    rows = 2 * [(f"u{n}", key) for n, keys in enumerate(USERS) for key in keys]
    for n in range(2):
        users, keys = zip(*rows[n::2], strict=True)
        pq.write_table(pa.table({"u": list(users), "k": list(keys)}), folder / f"{n}.parquet")
    return folder


def filled(source: Source, asked: list[tuple[int, int]], key: bytes = KEY) -> tuple[int, list[int]]:
    """The units of one key each, and what some numbers of keys fill, each up to a full key."""
    with Spark() as engine:
        given = engine.assigned(source, 1000, Secret(key), keep_pairs=True)
        return given.units, [engine.filled(given, most, full, Secret(key)) for most, full in asked]


def test_keys_are_filled_as_on_one_machine(spark: Any, clicks: Path) -> None:
    """Users who keep all keys: the sum of min(users, full). Keys that are never full: the sum of min(keys, most)."""
    users_of = Counter(key for keys in USERS for key in set(keys))
    sizes = [len(set(keys)) for keys in USERS]
    all_kept = [(64, full) for full in (1, 20, 10**6)]
    never_full = [(most, 10**6) for most in (1, 2, 4, 16)]
    units, found = filled(Source(clicks, "k", user="u"), all_kept + never_full)
    expected = [sum(min(number, full) for number in users_of.values()) for _, full in all_kept]
    expected += [sum(min(most, size) for size in sizes) for most, _ in never_full]
    assert found == expected
    assert units == len(USERS)  # no key is full
    # in other partitions, and from a frame
    frame = spark.read.parquet(f"file:{clicks}")
    other = Source(frame.orderBy("k").repartition(3), "k", user="u")
    assert filled(other, all_kept + never_full) == (units, expected)


def test_a_secret_keeps_the_same_keys_each_time(spark: Any, clicks: Path) -> None:
    source, asked = Source(clicks, "k", user="u"), [(most, 9) for most in (1, 2, 3)]
    first = filled(source, asked)
    assert filled(source, asked) == first
    other = Source(spark.read.parquet(f"file:{clicks}").orderBy("k").repartition(3), "k", user="u")
    assert filled(other, asked) == first
    others = [filled(source, asked, bytes([n]) * 32) for n in range(3)]
    assert len({tuple(found) for _, found in [first, *others]}) > 1


@pytest.mark.parametrize("options", [{"keys_only": True}, {}, {"rows": 3}], ids=["keys", "counts", "rows"])
def test_a_release_has_what_was_compared(clicks: Path, options: dict[str, Any]) -> None:
    release = dpsample.spark.release(clicks, "k", user="u", privacy=Privacy(3, "1e-6"), **options)
    discovery = release.terms.discovery
    assert discovery is not None
    assert [way.keys > 1 for way in discovery.filled] == [False, True]
    assert discovery.keys == fuller(discovery.filled).keys
    assert prove_release(release.terms).complete

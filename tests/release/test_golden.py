"""What is drawn under given coins stays bit for bit the same, for each way to make a release.

The hashes were stored before the code was rearranged. A hash that changes on purpose, since a mechanism changed, is
stored anew in the same commit, whose message says why; the failure shows the new one.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
from dpsample import Ppswor, Privacy, Stream

PRIVACY = Privacy(1, "1e-6")


def rows() -> pa.Table:
    """Elements of 60 keys by 400 users, with an amount: the same in every run, without any random numbers."""
    n = np.arange(9000)
    key = (n * n % 59) * (n % 7 + 1) % 60
    user = n * 31 % 400
    return pa.table({"key": [f"k{k:02d}" for k in key], "user": user, "amount": (n % 13).astype(np.float64)})


def hashed(table: pa.Table) -> str:
    """Hash all rows as Python prints them, so that no library's file format matters."""
    return hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()[:16]


DRAWN: dict[str, tuple[dict[str, Any], str]] = {
    "elements": ({}, "e38c2300d006cfd5"),
    "elements, keys only": ({"keys_only": True}, "1fa0dfeb277dcb94"),
    "elements, at least 100": ({"at_least": 100}, "a8bf91645695bc10"),
    "elements, sampled": ({"sampling": Ppswor("0.01")}, "89a27db0e96758f0"),
    "elements, sampled in two passes": ({"sampling": Ppswor("0.01"), "strategy": "two-pass"}, "89a27db0e96758f0"),
    "elements, coordinated": ({"sampling": Ppswor("0.01", seed="public")}, "f97cd07882636f23"),
    "elements, of a size": ({"size": 20}, "c650d50b21c7ec4c"),
    "elements, with a total": ({"total": True}, "5968f56353ba781b"),
    "elements, known": ({"keys": ["k01", "k02", "zz"], "only_known": True}, "d38a50621fc17d3f"),
    "elements, known and others": ({"keys": ["k01", "k02", "zz"]}, "ef21736bd5e3e9b3"),
    "bounded users": ({"user": "user", "max_keys_per_user": 3}, "b42a09139370bfb9"),
    "bounded users, keys only": ({"user": "user", "max_keys_per_user": 3, "keys_only": True}, "93963495122869b6"),
    "bounded users, of a size, with a total": (
        {"user": "user", "max_keys_per_user": 4, "size": 20, "total": True},
        "9391290ef8cc9378",
    ),
    "bounded users, known": ({"user": "user", "max_keys_per_user": 3, "keys": ["k01", "zz"]}, "fe9e8f1cc5e5d219"),
    "users": ({"user": "user"}, "26fb2d8676674acb"),
    "users, keys only": ({"user": "user", "keys_only": True}, "94e8ef7777187ab5"),
    "users, one key": ({"user": "user", "discover": "one-key"}, "2c9cbe1fd73b71a3"),
    "users, many keys": ({"user": "user", "discover": "many-keys"}, "9c3a6c28df717d23"),
    "users, with a total": ({"user": "user", "total": True}, "5ac50e240e8f61f2"),
    "users, with rows and sums": ({"user": "user", "rows": 5, "sums": {"amount": 20}}, "e3a997ecbf4a9527"),
    "users, known": ({"user": "user", "keys": ["k01", "k02", "zz"], "only_known": True}, "76cff0ad3bee221d"),
    "users, known and others": ({"user": "user", "keys": ["k01", "k02", "zz"]}, "45a3c64a0fb32e63"),
}


@pytest.mark.chance("certain: coins are fixed")
@pytest.mark.parametrize("name", DRAWN)
def test_a_release_draws_the_same_rows_as_ever(name: str, fixed_coins: None) -> None:
    options, expected = DRAWN[name]
    release = dpsample.release(rows(), "key", privacy=PRIVACY, **options)
    drawn = [column for column in ("token", "measured") if column in release.table.column_names]
    assert hashed(release.table) == expected, f"{len(release)} keys, with {drawn}"


@pytest.mark.chance("certain: coins are fixed")
def test_a_stream_draws_the_same_rows_as_ever(fixed_coins: None) -> None:
    stream = Stream(tau="0.01", key="key")
    stream.add(rows().select(["key"]))
    release = stream.sanitize(privacy=PRIVACY)
    assert hashed(release.table) == "b18693f62636e05c", f"{len(release)} keys"

"""Releases to report on, and what a page of a report shows."""

from __future__ import annotations

import datetime
import html
import json
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import dpsample.presentation.report
from dpsample import CustomSampling, KeepAll, Ppswor, Privacy, Release, SampleSize, new_ledger
from stated_terms import stated_terms


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release that protects users, of a chosen size, with a total, in a ledger."""
    ledger = tmp_path_factory.mktemp("budget") / "pages.ledger"
    new_ledger(ledger, "pages", Privacy(10, "1e-4"), unit="user")
    rows = pa.table({"page": [f"p{n % 5}" for n in range(6000)], "user": [n // 4 for n in range(6000)]})
    return dpsample.release(
        rows,
        "page",
        user="user",
        max_keys_per_user=4,
        privacy=Privacy(3, "1e-5"),
        size=SampleSize(1000),
        total=True,
        ledger=ledger,
    )


PRIVACY = Privacy(1, "1e-6")
HOSTILE = sorted(
    [
        "<script>window.ran = 1; alert(1)</script>",
        "</script><script>alert(2)</script>",
        "<img src=x onerror=alert(3)>",
        "<!-- --><svg onload=alert(4)>",
        "javascript:alert(5)",
        "\u202egnp.exe\u2066",
        "a\0b",
        "line\u2028end\u2029",
        "'\"&amp;{{7*7}}${7*7}",
        "=cmd|' /C calc'!A0",
        "+1+1",
        "@SUM(1)",
        "\t=1",
        "x" * 10_000,
        "",
        "   ",
        "back\\u202eslash",
        "נאבק العربية",
    ],
    key=str.encode,
)


def made(keys: dict[str, Any], sampling: Any = None, keys_only: bool = False, **terms: Any) -> Release:
    """A release of these keys, with tokens that fall slowly."""
    n = len(next(iter(keys.values())))
    columns = keys if keys_only else {**keys, "token": pa.array([20.0 + 2.0**m for m in range(n)], pa.float64())}
    return Release(pa.table(columns), stated_terms(PRIVACY, sampling, tuple(keys), keys_only=keys_only, **terms))


def words(n: int = 400) -> Release:
    """A release of n keys of many frequencies."""
    tokens = [1.0 + 0.125 * (m % 30) + (m // 3) + (5000.0 if m % 40 == 0 else 0.0) for m in range(n)]
    table = pa.table({"word": [f"w{m:04d}" for m in range(n)], "token": tokens})
    return Release(table, stated_terms(PRIVACY, KeepAll(), ("word",)))


RELEASES: dict[str, Any] = {
    "empty": lambda: made({"word": pa.array([], pa.string())}),
    "one key": lambda: made({"word": ["a"]}),
    "keys only": lambda: made({"word": ["a", "b"]}, keys_only=True),
    "empty, keys only": lambda: made({"word": pa.array([], pa.string())}, keys_only=True),
    "several columns": lambda: made({"city": ["Oslo", "Oslo", "Rome"], "item": ["a", "b", "a"]}),
    "bytes": lambda: made({"blob": pa.array([b"", b"\x00<b>", b"\xff" * 1000])}),
    "dates": lambda: made({"day": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]}),
    "integers": lambda: made({"id": [-5, 0, 2**62]}),
    "hostile": lambda: made({"<b>key</b>": HOSTILE}),
    "sampled": lambda: made({"word": ["a", "b"]}, Ppswor("0.01")),
    "weighted": lambda: made({"word": ["a", "b"]}, Ppswor("0.01", power="0.5")),
    "a sampling of one's own": lambda: made(
        {"word": ["a"]}, CustomSampling([Fraction(min(i, 90), 100) for i in range(1, 200)])
    ),
}


def seen(page: str) -> str:
    """The text of a page, without its scripts and styles."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def blocks(page: str, kind: str) -> list[str]:
    """What is in the elements `pre` of a class."""
    return [
        html.unescape(text) for text in re.findall(rf'<pre tabindex="0" class="{kind}">(.*?)</pre>', page, re.DOTALL)
    ]


def data(page: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])

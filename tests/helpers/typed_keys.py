"""Keys of every type that engines have in common."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa

MAX = 2**63 - 1
KEYS = [
    "a",
    "A",
    "",
    "007",
    "7",
    "é",
    "e\u0301",
    "日本",
    "\U0001f600",
    "\uffff",
    'q"q',
    "a\nb",
    " a ",
    "NULL",
    "{}",
    "\0",
]


TYPES = {
    "i8": pa.array([1, 1, -2], pa.int8()),
    "i16": pa.array([1, 1, -2], pa.int16()),
    "i32": pa.array([1, 1, -2], pa.int32()),
    "i64": pa.array([MAX, MAX, -MAX], pa.int64()),
    "text": pa.array(["é", "é", "e"]),
    "bytes": pa.array([b"\xff", b"\xff", b""]),
    "flag": pa.array([True, True, False]),
    "day": pa.array([datetime.date(2020, 2, 29)] * 2 + [datetime.date(1583, 1, 1)]),
    "time": pa.array([1, 1, -(10**15)], pa.timestamp("us")),
    "moment": pa.array([1, 1, -(10**15)], pa.timestamp("us", "UTC")),
    "amount": pa.array([Decimal("1.10"), Decimal("1.10"), Decimal("-2.00")], pa.decimal128(9, 2)),
    "large": pa.array([Decimal(10) ** 37, Decimal(10) ** 37, Decimal(-1)], pa.decimal128(38, 0)),
}

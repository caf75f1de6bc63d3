"""Make the files of this folder, once: `python tests/vectors/make.py FOLDER`, with src and tests on the path, and Java.

`make.py FOLDER 3`, `3-keys`, `3-definitions`, `3-sample`, `5`, `5-kinds`, `6` and `6-stream` make those of these
versions alone, and add what they hold. The data are generated, the coins secret: made again, the files would be others.
What each holds is noted before it is written; a folder of parts, which workers write, is read with pyarrow alone.
"""

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dpsample
import dpsample.spark
from dpsample import CustomSampling, Ppswor, Priority, Privacy, Release, SampleSize, Source
from dpsample.private.engine.spark import jobs
from dpsample.release.terms import Terms
from dpsample.scheme.noise import KeyNoise
from test_vectors import content_of, register_halves

TEXTS = [
    "a",
    "A",
    "",
    "007",
    "é",
    "e\u0301",
    "日本",
    '"q"',
    "a\nb",
    "a,b",
    "=1+1",
    "'quoted",
    " ",
    "NULL",
    "\U0001f600",
]
PRIVACY = Privacy("1", "1e-3")
FORMATS = ("parquet", "arrow", "csv")


def elements() -> pa.Table:
    """A key of each text, the n-th 4 n times."""
    return pa.table({"query": [key for n, key in enumerate(TEXTS) for _ in range(4 * n)]})


def typed() -> pa.Table:
    """Keys of every type that all formats keep, with frequencies."""
    zone = datetime.UTC
    return pa.table(
        {
            "integer": pa.array([-(2**63), 2**63 - 1, 7], pa.int64()),
            "small": pa.array([0, 200, 7], pa.uint8()),
            "flag": [True, False, True],
            "day": [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
            "moment": pa.array(
                [datetime.datetime(2020, 1, 1, 0, 0, 0, n, zone) for n in range(3)], pa.timestamp("us", "UTC")
            ),
            "amount": pa.array([Decimal("1.10"), Decimal("-2.00"), Decimal("0.00")], pa.decimal128(9, 2)),
            "bytes": [b"\xff\x00", b"", b"a"],
            "text": pa.array(TEXTS[-3:], pa.large_string()),
            "n": [100, 200, 300],
        }
    )


def clicks() -> pa.Table:
    """Users with one to four keys each."""
    rows = [(user, TEXTS[(user * j) % len(TEXTS)]) for user in range(400) for j in range(1, 2 + user % 4)]
    return pa.table({"user": [user for user, _ in rows], "query": [key for _, key in rows]})


def main(folder: Path) -> None:
    """Write all files, and what they hold."""
    expected: dict[str, Any] = {}

    def write(name: str, made: Any, formats: tuple[str, ...] = FORMATS) -> None:
        for form in formats:
            expected[f"{name}.{form}"] = content_of(made)
            made.write(folder / f"{name}.{form}")

    ledgers = {"ledger-1.ledger": ("element", None), "ledger-1-users.ledger": ("user", Privacy("1", "1e-3"))}
    for name, (unit, each) in ledgers.items():
        dpsample.new_ledger(folder / name, f"clicks by {unit}", Privacy("7/2", "1/100"), unit, each)

    write("release-1", dpsample.release(elements(), "query", privacy=PRIVACY))
    keys = [name for name in typed().column_names if name != "n"]
    write("release-1-types", dpsample.release(typed(), keys, "n", privacy=Privacy("1", "1e-9"), grid=4))
    write("release-1-keys", dpsample.release(elements(), "query", privacy=PRIVACY, keys_only=True))
    write("release-1-empty", dpsample.release(elements()[:0], "query", privacy=PRIVACY))
    for name, sampling in {
        "ppswor": Ppswor("1/50", power="1/2", cap=40),
        "priority": Priority("0.02"),
        "custom": CustomSampling([f"{i}/60" for i in range(1, 61)]),
    }.items():
        write(f"release-1-{name}", dpsample.release(elements(), "query", privacy=PRIVACY, sampling=sampling))

    users: dict[str, Any] = {"user": "user", "max_keys_per_user": 2}
    more: dict[str, Any] = {"size": SampleSize(12, "priority"), "total": "1/10", **users}
    ledger = folder / "ledger-1-users.ledger"
    write("release-2", dpsample.release(clicks(), "query", privacy=PRIVACY, ledger=ledger, **more))
    total = dpsample.release(elements(), "query", privacy=PRIVACY, total=True, ledger=folder / "ledger-1.ledger")
    write("release-2-total", total)

    write("sample-1", dpsample.sample(elements(), "query", sampling=Ppswor("1/20")))
    write("sample-1-types", dpsample.sample(typed(), keys, "n", sampling=Priority("1/150")))
    write("sample-2", dpsample.sample(clicks(), "query", sampling=Priority("1/30"), **users))

    jobs._PART = 4  # rows, so that there are several parts
    with dpsample.spark.session("local[1]") as session:
        for name, table, options in (("release-1", elements(), {}), ("release-2", clicks(), {"total": True, **users})):
            pq.write_table(table, folder / "data.parquet")
            source = Source(
                session.read.parquet(f"file:{folder.resolve()}/data.parquet"), "query", user=options.pop("user", None)
            )
            parts = folder / f"{name}.parts"
            dpsample.spark.release_to_folder(parts, source, privacy=PRIVACY, partitions=3, **options)
            rows = pa.concat_tables([pq.read_table(part) for part in sorted(parts.glob("part-*.parquet"))])
            terms = Terms.from_json(json.loads((parts / "_dpsample.json").read_text()))
            expected[parts.name] = content_of(Release(rows.replace_schema_metadata(), terms))
    (folder / "data.parquet").unlink()
    for name in ledgers:
        expected[name] = content_of(dpsample.read_ledger(folder / name))
    lines = [f"{json.dumps(name)}: {json.dumps(content, ensure_ascii=False)}" for name, content in expected.items()]
    (folder / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def add_version_3(folder: Path) -> None:
    """Write a release of a part and ledgers with parts, and add what they hold."""
    added: dict[str, Any] = {}
    days = pa.table({"query": elements()["query"], "day": [f"day {n % 2}" for n in range(len(elements()))]})
    ledgers: dict[str, dict[str, Any]] = {
        "ledger-3-parts.ledger": {"unit": "user", "parts": "day"},
        "ledger-3-renyi.ledger": {"account": "renyi", "parts": "day", "aside": "1/4"},
    }
    for name, options in ledgers.items():
        dpsample.new_ledger(folder / name, "clicks by day", Privacy("7/2", "1/100"), **options)
    made = None
    for n in range(3):
        part = ("day", f"day {n % 2}")
        renyi = folder / "ledger-3-renyi.ledger"
        made = dpsample.release(days, "query", privacy=Privacy("1/2", "1e-4"), part=part, ledger=renyi)
        users: dict[str, Any] = {"user": "user", "max_keys_per_user": 2, "part_vouched": part}
        dpsample.release(clicks(), "query", privacy=PRIVACY, ledger=folder / "ledger-3-parts.ledger", **users)
    assert made is not None
    for form in FORMATS:
        added[f"release-3-part.{form}"] = content_of(made)
        made.write(folder / f"release-3-part.{form}")
    for name in ledgers:
        added[name] = content_of(dpsample.read_ledger(folder / name))
    _add(folder, added)


def add_many_keys(folder: Path) -> None:
    """Write releases of many keys per user, by bounded noise and by Rényi steps, and add what they hold."""
    added: dict[str, Any] = {}
    for name, keys_only in (("noise", False), ("steps", True)):
        users: dict[str, Any] = {"user": "user", "max_keys_per_user": 4, "keys_only": keys_only}
        made = dpsample.release(clicks(), "query", privacy=PRIVACY, **users)
        for form in FORMATS:
            added[f"release-3-{name}.{form}"] = content_of(made)
            made.write(folder / f"release-3-{name}.{form}")
    _add(folder, added)


def add_definitions(folder: Path) -> None:
    """Write a release of a zCDP budget, and one of bounded noise with an offset, and add what they hold."""
    added: dict[str, Any] = {}
    offset = dpsample.release(clicks(), "query", privacy=PRIVACY, user="user", max_keys_per_user=4)
    assert isinstance(offset.per_key, KeyNoise)
    assert offset.per_key.offset
    zcdp = dpsample.release(elements(), "query", privacy=Privacy.zcdp("0.2", "1e-3"), total=True)
    for name, made in (("zcdp", zcdp), ("offset", offset)):
        for form in FORMATS:
            added[f"release-3-{name}.{form}"] = content_of(made)
            made.write(folder / f"release-3-{name}.{form}")
    _add(folder, added)


def add_sample_of_part(folder: Path) -> None:
    """Write a sample of a part, and add what it holds."""
    days = pa.table({"query": elements()["query"], "day": [f"day {n % 2}" for n in range(len(elements()))]})
    made = dpsample.sample(days, "query", sampling=Ppswor("1/5"), part=("day", "day 1"))
    for form in FORMATS:
        made.write(folder / f"sample-3.{form}")
    _add(folder, {f"sample-3.{form}": content_of(made) for form in FORMATS})


def add_version_5(folder: Path) -> None:
    """Write releases whose rows have intervals: of all keys, of a sample, of a user's keys; add what they hold."""
    added: dict[str, Any] = {}
    users: dict[str, Any] = {"user": "user", "max_keys_per_user": 4}
    for name, made in (
        ("", dpsample.release(elements(), "query", privacy=PRIVACY, total=True)),
        ("-ppswor", dpsample.release(elements(), "query", privacy=PRIVACY, sampling=Ppswor("1/50", cap=40))),
        ("-noise", dpsample.release(clicks(), "query", privacy=PRIVACY, **users)),
    ):
        for form in FORMATS:
            added[f"release-5{name}.{form}"] = content_of(made)
            made.write(folder / f"release-5{name}.{form}")
    _add(folder, added)


def add_version_6(folder: Path) -> None:
    """Write a release of a user's keys with totals of what users kept and dropped; add what it holds."""
    made = dpsample.release(clicks(), "query", privacy=PRIVACY, user="user", max_keys_per_user=2, total="1/5")
    for form in FORMATS:
        made.write(folder / f"release-6-dropped.{form}")
    _add(folder, {f"release-6-dropped.{form}": content_of(made) for form in FORMATS})


def add_kinds_of_version_5(folder: Path) -> None:
    """Write releases of known keys, of discovered ones, of counts, rows and sums, and of a registered function.

    Those that have nothing of version 5 state version 4.
    """
    added: dict[str, Any] = {}
    listed: dict[str, Any] = {"keys": [*TEXTS[:4], "nobody has it"]}
    users: dict[str, Any] = {"user": "user", "privacy": Privacy(3, "1e-3")}
    priced = clicks().append_column("price", pa.array([n % 7 - 2.5 for n in range(len(clicks()))]))
    sums: dict[str, Any] = {"rows": 2, "sums": {"price": "3.5"}}
    for name, made in (
        ("5-known", dpsample.release(elements(), "query", privacy=PRIVACY, **listed)),
        (
            "5-only-known",
            dpsample.release(elements(), "query", privacy=Privacy(1, "1e-200"), only_known=True, **listed),
        ),
        ("5-at-least", dpsample.release(elements(), "query", privacy=PRIVACY, at_least=5)),
        ("5-registered", dpsample.release(elements(), "query", privacy=PRIVACY, sampling=register_halves())),
        ("4-discovered", dpsample.release(clicks(), "query", keys_only=True, **users)),
        ("4-counted", dpsample.release(clicks(), "query", discover="many-keys", total=True, **users)),
        ("5-sums", dpsample.release(priced, "query", **sums, **users)),
        ("5-sums-known", dpsample.release(priced, "query", only_known=True, **listed, **sums, **users)),
    ):
        assert len(made)
        assert made.metadata["version"] == int(name[0])
        for form in FORMATS:
            added[f"release-{name}.{form}"] = content_of(made)
            made.write(folder / f"release-{name}.{form}")
    _add(folder, added)


def add_stream(folder: Path) -> None:
    """Write the state of a stream, and the release of another; add what they hold."""
    state, ended = (dpsample.Stream("1/5", "query", shard=(n, 2)) for n in range(2))
    for stream in (state, ended):
        stream.add(elements())
    state.write(folder / "sample-4.parquet")
    made = ended.sanitize(privacy=PRIVACY)
    for form in FORMATS:
        made.write(folder / f"release-6-stream.{form}")
    added = {f"release-6-stream.{form}": content_of(made) for form in FORMATS}
    _add(folder, {"sample-4.parquet": content_of(dpsample.Sample(state.table, state.sampling, "query")), **added})


def _add(folder: Path, added: dict[str, Any]) -> None:
    known = (folder / "expected.json").read_text().removesuffix("\n}\n")
    lines = [f"{json.dumps(name)}: {json.dumps(content, ensure_ascii=False)}" for name, content in added.items()]
    (folder / "expected.json").write_text(",\n".join([known, *lines]) + "\n}\n")


if __name__ == "__main__":
    parts = {"": main, "3": add_version_3, "3-keys": add_many_keys, "3-definitions": add_definitions}
    parts |= {"3-sample": add_sample_of_part, "5": add_version_5, "5-kinds": add_kinds_of_version_5, "6": add_version_6}
    parts["6-stream"] = add_stream
    parts["".join(sys.argv[2:])](Path(sys.argv[1]))

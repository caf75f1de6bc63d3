"""Make the files of this folder, once for each version: `python tests/vectors/make.py FOLDER`, with src and tests on
the path, and Java.

The data are generated, the coins secret: made again, the files would be others. What each holds is noted before it is
written; a folder of parts, which workers write, is read with pyarrow alone.
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
from dpsample import CustomSampling, Ppswor, Priority, Privacy, Release, Sample, SampleSize, SoftCap, Source, Stream
from dpsample.private.engine.spark import jobs
from dpsample.release.terms import VERSION, Terms
from vectors import content_of, register_halves

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
SIXTIETHS = [f"{i}/60" for i in range(1, 61)]


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


def days() -> pa.Table:
    """Elements of two days."""
    rows = elements()
    return rows.append_column("day", pa.array([f"day {n % 2}" for n in range(len(rows))]))


def priced() -> pa.Table:
    """Clicks with a price of both signs."""
    rows = clicks()
    return rows.append_column("price", pa.array([n % 7 - 2.5 for n in range(len(rows))]))


TYPED = [name for name in typed().column_names if name != "n"]
BOUNDED: dict[str, Any] = {"user": "user", "max_keys_per_user": 2}


def element_releases() -> dict[str, Release]:
    """Releases that protect an element, by name."""
    words = elements()
    listed = [*TEXTS[:4], "nobody has it"]
    zcdp = Privacy.zcdp("0.2", "1e-3")
    return {
        "all": dpsample.release(words, "query", privacy=PRIVACY),
        "types": dpsample.release(typed(), TYPED, "n", privacy=Privacy("1", "1e-9"), grid=4),
        "keys": dpsample.release(words, "query", privacy=PRIVACY, keys_only=True),
        "empty": dpsample.release(words[:0], "query", privacy=PRIVACY),
        "ppswor": dpsample.release(words, "query", privacy=PRIVACY, sampling=Ppswor("1/50", power="1/2", cap=40)),
        "priority": dpsample.release(words, "query", privacy=PRIVACY, sampling=Priority("0.02")),
        "coordinated": dpsample.release(words, "query", privacy=PRIVACY, sampling=Priority("0.02", seed="2026")),
        "soft-cap": dpsample.release(words, "query", privacy=PRIVACY, sampling=SoftCap("0.2", 5)),
        "custom": dpsample.release(words, "query", privacy=PRIVACY, sampling=CustomSampling(SIXTIETHS)),
        "registered": dpsample.release(words, "query", privacy=PRIVACY, sampling=register_halves()),
        "at-least": dpsample.release(words, "query", privacy=PRIVACY, at_least=5),
        "zcdp": dpsample.release(words, "query", privacy=zcdp, total=True),
        "gdp": dpsample.release(words, "query", privacy=Privacy.gdp("0.5", "1e-3")),
        "known": dpsample.release(words, "query", privacy=PRIVACY, keys=listed),
        "only-known": dpsample.release(words, "query", privacy=Privacy(1, "1e-200"), keys=listed, only_known=True),
    }


def user_releases() -> dict[str, Release]:
    """Releases that protect a user, by name."""
    pairs = clicks()
    wider = {**BOUNDED, "max_keys_per_user": 4}
    found: dict[str, Any] = {"user": "user", "privacy": Privacy(3, "1e-3")}
    sums: dict[str, Any] = {"rows": 2, "sums": {"price": ("-2", "3.5")}}
    never_negative: dict[str, Any] = {"rows": 2, "sums": {"price": "0:3.5"}}
    listed: dict[str, Any] = {"keys": [*TEXTS[:4], "nobody has it"], "only_known": True}
    size = SampleSize(12, "priority")
    return {
        "dropped": dpsample.release(pairs, "query", privacy=PRIVACY, total="1/5", **BOUNDED),
        "size": dpsample.release(pairs, "query", privacy=PRIVACY, size=size, total="1/10", **BOUNDED),
        "noise": dpsample.release(pairs, "query", privacy=PRIVACY, **wider),
        "steps": dpsample.release(pairs, "query", privacy=PRIVACY, keys_only=True, **wider),
        "discovered": dpsample.release(pairs, "query", keys_only=True, **found),
        "asked": dpsample.release(pairs, "query", keys_only=True, **found),
        "counted": dpsample.release(pairs, "query", discover="many-keys", total=True, **found),
        "counted-one-key": dpsample.release(pairs, "query", discover="one-key", **found),
        "sums": dpsample.release(priced(), "query", **sums, **found),
        "sums-known": dpsample.release(priced(), "query", **listed, **never_negative, **found),
    }


def stream_of(shard: int) -> Stream:
    """One of two shards of a stream."""
    stream = Stream("1/5", "query", shard=(shard, 2))
    stream.add(elements())
    return stream


def samples() -> dict[str, Sample]:
    """Samples, by name."""
    return {
        "ppswor": dpsample.sample(elements(), "query", sampling=Ppswor("1/20")),
        "types": dpsample.sample(typed(), TYPED, "n", sampling=Priority("1/150")),
        "users": dpsample.sample(clicks(), "query", sampling=Priority("1/30"), **BOUNDED),
        "part": dpsample.sample(days(), "query", sampling=Ppswor("1/5"), part=("day", "day 1")),
    }


def write_ledgers(folder: Path) -> dict[str, Release]:
    """Write ledgers, and return a release that is entered in each of two."""
    new: dict[str, dict[str, Any]] = {
        "elements": {},
        "users": {"unit": "user", "each": Privacy("1", "1e-3")},
        "parts": {"unit": "user", "parts": "day"},
        "renyi": {"account": "renyi", "parts": "day", "aside": "1/4"},
    }
    ledgers = {name: folder / f"ledger-{VERSION}-{name}.ledger" for name in new}
    for name, path in ledgers.items():
        dpsample.new_ledger(path, f"clicks, {name}", Privacy("7/2", "1/100"), **new[name])
    total = dpsample.release(elements(), "query", privacy=PRIVACY, total=True, ledger=ledgers["elements"])
    dpsample.release(clicks(), "query", privacy=PRIVACY, ledger=ledgers["users"], **BOUNDED)
    part = None
    for n in range(3):
        day = ("day", f"day {n % 2}")
        part = dpsample.release(days(), "query", privacy=Privacy("1/2", "1e-4"), part=day, ledger=ledgers["renyi"])
        vouched: dict[str, Any] = {**BOUNDED, "part_vouched": day}
        dpsample.release(clicks(), "query", privacy=PRIVACY, ledger=ledgers["parts"], **vouched)
    assert part is not None
    return {"total": total, "part": part}


def write_folders(folder: Path) -> dict[str, Release]:
    """Write releases in folders of several parts, on a cluster, and return what they hold."""
    jobs._PART = 4  # rows, so that there are several parts
    data = folder / "data.parquet"
    found = {}
    with dpsample.spark.session("local[1]") as session:
        for name, table, user in (("elements", elements(), None), ("users", clicks(), "user")):
            pq.write_table(table, data)
            source = Source(session.read.parquet(f"file:{data.resolve()}"), "query", user=user)
            options: dict[str, Any] = {} if user is None else {"total": True, "max_keys_per_user": 2}
            parts = folder / f"release-{VERSION}-{name}.parts"
            dpsample.spark.release_to_folder(parts, source, privacy=PRIVACY, partitions=3, **options)
            rows = pa.concat_tables([pq.read_table(part) for part in sorted(parts.glob("part-*.parquet"))])
            terms = Terms.from_json(json.loads((parts / "_dpsample.json").read_text()))
            found[parts.name] = Release(rows.replace_schema_metadata(), terms)
    data.unlink()
    return found


def main(folder: Path) -> None:
    """Write all files, and what they hold."""
    folder.mkdir(exist_ok=True)
    state, ended = stream_of(0), stream_of(1)
    kept = Sample(state.table, state.sampling, "query")  # what a reader of the state finds
    releases = {**write_ledgers(folder), **element_releases(), **user_releases()}
    releases["stream"] = ended.sanitize(privacy=PRIVACY)
    expected: dict[str, Any] = {}
    for kind, made in (("release", releases), ("sample", samples())):
        for name, content in made.items():
            for form in FORMATS:
                file = f"{kind}-{VERSION}-{name}.{form}"
                expected[file] = content_of(content)
                content.write(folder / file)
    state.write(folder / f"sample-{VERSION}-stream.parquet")
    expected[f"sample-{VERSION}-stream.parquet"] = content_of(kept)
    for name, release in write_folders(folder).items():
        expected[name] = content_of(release)
    for path in sorted(folder.glob("*.ledger")):
        expected[path.name] = content_of(dpsample.read_ledger(path))
    lines = [f"{json.dumps(name)}: {json.dumps(content, ensure_ascii=False)}" for name, content in expected.items()]
    (folder / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

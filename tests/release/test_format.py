"""docs/format.md: it names every field that is written, and a reader that follows it finds the hashes right."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import Privacy
from dpsample.files import commit_parts
from dpsample.files.metadata import release_sha256
from dpsample.ledger.charges import Charge, scheme_form
from dpsample.ledger.ledger import reserve_budget
from places import ROOT

pytestmark = pytest.mark.chance("certain: fields and hashes are compared, whichever rows were drawn")
PAGE = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
USERS = pa.table({"who": list(range(500)), "k": ["a"] * 500})


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind, with every option that adds a field."""
    folder = tmp_path_factory.mktemp("files")
    dpsample.new_ledger(folder / "l", "clicks", Privacy(9, 1e-6), "user", each=Privacy(3, 1e-8))
    users: dict[str, Any] = {"user": "who", "max_keys_per_user": 2}
    release = dpsample.release(USERS, "k", privacy=Privacy(1, 1e-9), size=9, total=True, ledger=folder / "l", **users)
    for suffix in ("parquet", "csv", "arrow"):
        release.write(folder / f"r.{suffix}")
    (folder / "parts").mkdir()
    pq.write_table(release.table, folder / "parts" / "0.parquet")
    commit_parts(folder / "parts", {"0.parquet": len(release)}, release.table.schema, release.metadata)
    plain = dpsample.release({1: 500, 2: 9}, privacy=Privacy(1, 1e-9), sampling=dpsample.CustomSampling(["0.5"] * 5000))
    plain.write(folder / "plain.csv")
    named = dpsample.register_sampling("tests/format", lambda i: "0.5")
    dpsample.release({1: 500, 2: 9}, privacy=Privacy(1, 1e-9), sampling=named).write(folder / "named.csv")
    dpsample.sample(USERS, "k", sampling=dpsample.Priority("0.1", cap=9), **users).write(folder / "s.arrow")
    dpsample.Stream("0.1", shard=(0, 2)).write(folder / "stream.arrow")
    for scheme in (dpsample.SampleSize(9), dpsample.KeepAll(), dpsample.CustomSampling(["0.5"])):
        charge = Charge(Privacy(1, 1e-9), "user", "r.csv", "clicks", ("k",), "who", 2, scheme_form(scheme), None)
        charge = replace(charge, settings="0" * 64)
        reserve_budget(folder / "l", charge).confirm(release_sha256(folder / "r.csv")[1])
    reserve_budget(folder / "l", charge).cancel()
    dpsample.new_ledger(folder / "days", "clicks", Privacy(9, 1e-6), account="renyi", parts="day")
    words: dict[str, Any] = {
        "privacy": Privacy(1, 1e-9),
        "ledger": folder / "days",
        "part_vouched": ("day", "2026-11-14"),
    }
    dpsample.release({1: 500, 2: 9}, **words).write(folder / "part.csv")
    many: dict[str, Any] = {"privacy": Privacy(1, 1e-9), "user": "who", "max_keys_per_user": 9}
    for name, keys_only in (("noise", False), ("steps", True)):
        dpsample.release(USERS, "k", keys_only=keys_only, **many).write(folder / f"{name}.csv")
    found: dict[str, Any] = {"privacy": Privacy(1, 1e-9), "user": "who"}
    dpsample.release(USERS, "k", filter="k <> ''", keys_only=True, **found).write(folder / "look.csv")
    amounts: dict[str, Any] = {"rows": 2, "sums": {"x": 1}}
    spent = USERS.append_column("x", pa.array([0.5] * len(USERS)))
    dpsample.release(spent, "k", discover="one-key", prior=release, **amounts, **found).write(folder / "counts.csv")
    dpsample.release(USERS, "k", keys=["a", "b"], only_known=True, **many).write(folder / "known.csv")
    return folder


def documents(folder: Path) -> Iterator[dict[str, Any]]:
    yield json.loads(pq.read_metadata(folder / "r.parquet").metadata[b"dpsample"])
    yield from (json.loads(path.read_bytes()) for path in sorted(folder.rglob("*.json")))


def ledger_lines(folder: Path) -> list[bytes]:
    return [line for name in ("l", "days") for line in (folder / name).read_bytes().split(b"\n")[:-1]]


def fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from [] if name[0].isdigit() else [name]  # the orders of a curve
            yield from fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner)


def test_every_written_field_is_specified(files: Path) -> None:
    written = {name for value in (*documents(files), *map(json.loads, ledger_lines(files))) for name in fields(value)}
    assert {"weights", "content_sha256", "parts", "max_keys_per_user", "entry", "each"} <= written
    assert sorted(name for name in written if f"`{name}`" not in PAGE) == []


def test_every_specified_field_of_a_table_is_written(files: Path) -> None:
    written = {name for value in (*documents(files), *map(json.loads, ledger_lines(files))) for name in fields(value)}
    first_cells = re.findall(r"^\| ((?:\[?`\w+`\]?(?:, )?)+) \|", PAGE, re.MULTILINE)
    specified = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(specified) > 30
    assert specified <= written


def test_checksums_follow_from_the_page(files: Path) -> None:
    count = 0
    for document in documents(files):
        checksum = document.pop("checksum")
        assert checksum == sha256(canonical(document))
        count += 1
    assert count == 14
    for name in ("r.csv", "r.arrow", "plain.csv", "s.arrow"):
        assert json.loads((files / f"{name}.json").read_bytes())["file"]["sha256"] == sha256(
            (files / name).read_bytes()
        )


@pytest.mark.parametrize("name", ["r.csv", "plain.csv", "s.arrow"])
def test_the_hash_of_the_content_follows_from_the_page(name: str, files: Path) -> None:
    """Text and integers, floats: from Python values, without Arrow's buffers."""
    file = json.loads((files / f"{name}.json").read_bytes())["file"]
    table = (dpsample.read_sample if name == "s.arrow" else dpsample.read_release)(files / name).table
    hashes = []
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_string(column.type):
            texts = [value.encode() for value in values]
            lengths = b"".join(len(value).to_bytes(8, "little") for value in texts)
            hashes.append([sha256(b"".join(texts)), sha256(lengths)])
        else:
            layout = {"int64": "<i8", "double": "<f8"}[str(column.type)]
            hashes.append([sha256(column.to_numpy().astype(layout).tobytes()), sha256(b"")])
    assert file["content_sha256"] == sha256(canonical([len(table), file["columns"], hashes]))


def test_the_chain_of_a_ledger_follows_from_the_page(files: Path) -> None:
    previous = None
    for line in (files / "l").read_bytes().split(b"\n")[:-1]:
        form = json.loads(line)
        assert line == canonical(form)
        assert form.get("previous") == previous
        previous = sha256(line)
    assert dpsample.read_ledger(files / "l").head == previous

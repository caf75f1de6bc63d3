"""Record and replay: a release, and that of a neighbour with the same coins, differ in what was drawn and nowhere else.

`replayed_coins` makes every coin a function of a seed and of what is decided about: the key, or the draw's number.
`observe` carries out a release and notes everything that anybody may see of it: the error with its chain, what was
printed, warnings, the columns, the metadata, the files with their layout, the names of temporary files, the ledger.
What follows from drawn rows is masked: their number, noisy values, the tau that follows from one, hashes. Nothing else
is, least of all in an error. `differences` compares two observations.

What is drawn is compared too, where it can be: a key that both datasets have equally often has the same token and
estimate, and a noisy total moves by what one element or user can change.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from dpsample.cli import cli
from dpsample.private import bounding, randomness
from dpsample.private.derived_coins import Secret
from dpsample.private.engine.duckdb import users
from dpsample.private.randomness import SecretCoins
from given_coins import GivenCoins

Row = tuple[Any, ...]


@contextmanager
def replayed_coins(seed: int = 0) -> Iterator[None]:
    """Every secret coin is a function of the seed, the purpose, and the key; those of noise, of the draw's number."""
    key = hashlib.blake2b(str(seed).encode(), digest_size=32).digest()
    secret = Secret(key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "os", SimpleNamespace(urandom=lambda size: key[:size], getpid=os.getpid))
        patch.setattr(SecretCoins, "for_keys", lambda _, keys, purpose: secret.for_keys(keys, purpose))
        patch.setattr(SecretCoins, "for_elements", lambda _, elements, place: secret.for_elements(elements, place))
        patch.setattr(users, "choose", _choose_by_key(key))
        patch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
        yield


def _choose_by_key(secret: bytes) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Bounding whose coins are a function of the key: users have the same ones, but nobody's depend on other users."""

    def choose(batches: Iterable[pa.RecordBatch], limit: int, coins: object) -> Iterator[pa.RecordBatch]:
        for_batch = GivenCoins(np.zeros(0, np.uint64))

        def noting() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                keys = zip(*(column.to_pylist() for column in batch.columns[1:]), strict=True)
                words = [hashlib.blake2b(repr(k).encode(), digest_size=8, key=secret).digest() for k in keys]
                for_batch.__init__(np.frombuffer(b"".join(words), np.uint64))  # type: ignore[misc]
                yield batch

        return bounding.choose(noting(), limit, for_batch)

    return choose


@dataclass
class Observation:
    """What anybody sees of a run; `drawn` is what chance decides, the rest is not to depend on single elements."""

    outcome: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    code: int | None = None
    columns: list[str] = field(default_factory=list)
    metadata: Any = None
    files: dict[str, Any] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    ledger: list[str] = field(default_factory=list)
    drawn: dict[Row, Row] = field(default_factory=dict)
    total: int | None = None

    @property
    def refused(self) -> bool:
        """Whether there is no release."""
        return bool(self.outcome)


def differences(one: Observation, other: Observation) -> list[str]:
    """What differs outside of what was drawn, in words for whoever mends it."""
    return list(_unequal(_fields(one), _fields(other), ""))


def _fields(seen: Observation) -> dict[str, Any]:
    return {name: value for name, value in vars(seen).items() if name not in ("drawn", "total")}


def _unequal(one: Any, other: Any, where: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            yield from _unequal(one.get(name, "nothing"), other.get(name, "nothing"), f"{where}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for n, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _unequal(left, right, f"{where}/{n}")
    elif one != other:
        yield f"{where[1:]}: {one!r} and {other!r}"


def observe(work: Callable[[Path], Any], folder: Path, ledger: str | None = None, seed: int = 0) -> Observation:
    """Carry out work that writes into a folder of its own, and note all that can be seen of it.

    `folder` is emptied first: both neighbours run under the same path. `work` gets the folder; with `ledger`, a unit of
    privacy, there is a ledger in it, named "ledger", with room for everything.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if ledger is not None:
        dpsample.new_ledger(folder / "ledger", "data", dpsample.Privacy(20, "0.01"), ledger)
    seen = Observation()
    result: Any = None
    with warnings.catch_warnings(record=True) as warned, _noting_names(folder, seen.created), replayed_coins(seed):
        warnings.simplefilter("always")
        dpsample.privacy._warned.clear()
        try:
            result = work(folder)
        except Exception as error:
            seen.outcome = _chain(error)
    seen.warned = [f"{warning.category.__name__}: {warning.message}" for warning in warned]
    output = next((path for path in folder.iterdir() if path.stem == "out" and path.suffix != ".json"), None)
    release = result if isinstance(result, dpsample.Release) else None
    if release is None and output is not None:
        release = dpsample.read_release(output)
    if release is not None:
        _note_release(release, seen)
    if hasattr(result, "exit_code"):
        seen.code = result.exit_code
        seen.outcome = [] if seen.code == 0 else [result.stderr]
        seen.printed = [_masked_text(text, release) for text in (result.stdout, result.stderr)]
    seen.files = {path.name: _layout(path) for path in sorted(folder.iterdir()) if path.name != "ledger"}
    if ledger is not None:
        entries = dpsample.read_ledger(folder / "ledger").charged
        seen.ledger = [f"{entry.privacy} {entry.release}" for entry in entries]
    return seen


def command(*arguments: str) -> Any:
    """Run the command line in this process."""
    return CliRunner().invoke(cli, [*arguments], catch_exceptions=False)


def _chain(error: BaseException | None) -> list[str]:
    """An error with all that it carries, those that it hides included."""
    seen: list[str] = []
    while error is not None:
        seen += [f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])]
        error = error.__cause__ or error.__context__
    return seen


def _note_release(release: dpsample.Release, seen: Observation) -> None:
    table, keys = release.table, len(release.keys)
    seen.columns = [f"{field.name} {field.type} {field.nullable} {field.metadata}" for field in table.schema]
    seen.columns.append(str(table.schema.metadata))
    with contextlib.suppress(dpsample.InvalidValue):  # a scheme that is a function cannot be written
        seen.metadata = _masked(release.metadata)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    seen.drawn = {row[:keys]: row[keys:] for row in rows}
    assert len(seen.drawn) == len(rows)
    seen.total = None if release.total is None else int(release.total.value)


_DRAWN = {"rows", "content_sha256", "sha256", "checksum", "ledger"}


def _masked(form: Any, sized: bool = False) -> Any:
    """Metadata without what follows from drawn rows and noise."""
    if isinstance(form, list):
        return [_masked(value, sized) for value in form]
    if not isinstance(form, dict):
        return form
    sized = sized or bool(form.get("size"))
    noisy = {"value"} if "sensitivity" in form else set()
    hidden = _DRAWN | noisy | ({"tau", "reported_from_frequency"} if sized else set())
    hidden |= {"keys"} if isinstance(form.get("keys"), int) else set()
    hidden |= {"users", "units"} if "epsilon" in form else set()  # of a look, and of what is filled
    hidden |= {"counts"}  # of users: what was clipped, and the noise that was chosen by it
    return {name: "drawn" if name in hidden else _masked(value, sized) for name, value in form.items()}


def _masked_text(text: str, release: dpsample.Release | None) -> str:
    """What was printed, without what follows from drawn rows and noise."""
    if text.startswith("{"):
        return json.dumps(_masked(json.loads(text)))
    text = re.sub(r"\b[0-9a-f]{64}\b", "drawn", text)
    if release is None:
        return text
    text = re.sub(rf"\b{len(release):,} keys?\b", "drawn keys", text)
    starts = ("Total",) if release.terms.bought.size is None else ("Total", "Sampled", "Size", "Seen")
    return "\n".join(
        re.sub(r"[\d.,]+(e-\d+)?", "drawn", line) if line.startswith(starts) else line for line in text.splitlines()
    )


def _layout(path: Path) -> Any:
    """A file's permissions and structure: all but its rows."""
    mode = stat.filemode(path.stat().st_mode)
    if path.suffix == ".json":
        return [mode, _masked(json.loads(path.read_text()))]
    if path.suffix == ".csv":
        data = path.read_bytes()
        return [mode, data.split(b"\n")[0], data.count(b"\r"), data[-1:]]
    if path.suffix == ".arrow":
        reader = pa.ipc.open_file(path)
        return [mode, str(reader.schema), reader.schema.metadata]
    if path.suffix == ".jsonl":  # a log: all of it, but for the time of its start
        events = [json.loads(line) for line in path.read_text().splitlines()]
        return [mode, [{**event, "time": "masked"} if "time" in event else event for event in events]]
    if path.suffix != ".parquet":
        return [mode, "not known"]
    file = pq.ParquetFile(path).metadata
    said = dict(file.metadata or {})
    document = _masked(json.loads(said.pop(b"dpsample")))
    schema = said.pop(b"ARROW:schema", None)
    types = [str(file.schema.column(n)) for n in range(file.num_columns)]
    return [mode, document, schema, said, types, file.created_by, file.format_version]


@contextmanager
def _noting_names(folder: Path, created: list[str]) -> Iterator[None]:
    """Note the names under which files and folders are made, without what the system's own randomness adds to them.

    Temporary ones are in a folder of this test: elsewhere, other processes may remove a new one, and another is made.
    """
    temporary = folder.with_name("temporary")
    temporary.mkdir(exist_ok=True)

    def note(name: Any) -> None:
        if isinstance(name, str | os.PathLike) and os.fspath(name).startswith((str(folder), str(temporary))):
            created.append(re.sub(r"(?<=dpsample-)[a-z0-9_]{8}(?=/|$)", "random", os.fspath(name)))

    opened, made = os.open, os.mkdir

    def watched_open(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            note(path)
        return opened(path, flags, *rest, **options)

    def watched_mkdir(path: Any, *rest: Any, **options: Any) -> None:
        note(path)
        made(path, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", watched_open)
        patch.setattr(os, "mkdir", watched_mkdir)
        patch.setattr(tempfile, "tempdir", str(temporary))
        yield

"""A small file never keeps who opens it: it is refused within 2 seconds of CPU and 500 MB, whatever it states.

One list of hostile files for each format. They are opened in a process with limits (`hostile`), and what they take is
measured in seconds of CPU, so that a busy machine makes no test fail. The bound of a test is three times the claim,
for slow machines; what these files took before they were refused was minutes, or all memory.
"""

import copy
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from places import HELPERS, VECTORS

pytestmark = pytest.mark.chance("certain: outcomes and costs are looked at, whatever was drawn")

FOLDER = VECTORS
PROGRAM = HELPERS / "hostile.py"
SECONDS, MEGABYTES = 6.0, 500.0
Form = dict[str, Any]
LONG = "9" * 4000
DEEP = "[" * 200_000 + "]" * 200_000
NAN, HUGE = float("nan"), 10**4000


def check_all(files: dict[str, tuple[str, Path]]) -> None:
    """Open all files; each must be refused by dpsample itself, at little cost."""
    lines = "".join(json.dumps([kind, str(path)]) + "\n" for kind, path in files.values())
    ran = subprocess.run([sys.executable, str(PROGRAM)], input=lines, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(results) == len(files), f"{list(files)[len(results)]} ended the process: {ran.stderr[-500:]}"
    wrong = {}
    for name, (outcome, seconds, megabytes) in zip(files, results, strict=True):
        if outcome != "refused" or seconds > SECONDS or megabytes > MEGABYTES:
            wrong[name] = (outcome, round(seconds, 1), round(megabytes))
    assert wrong == {}


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def seal(form: Form) -> Form:
    """Give metadata the checksum that a reader looks for."""
    form = {name: value for name, value in form.items() if name != "checksum"}
    return {**form, "checksum": hashlib.sha256(canonical(form)).hexdigest()}


def placed(form: Form, path: tuple[Any, ...], value: Any) -> Form:
    """The same metadata with another value at one place, or none."""
    form = copy.deepcopy(form)
    inside: Any = form
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return form


def beside(folder: Path, kind: str, name: str, document: str | bytes) -> Path:
    """Put a document beside the rows of a file of the vectors."""
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    shutil.copy(FOLDER / f"{kind}-1-{name}.csv", path)
    data = document if isinstance(document, bytes) else document.encode()
    path.with_name(path.name + ".json").write_bytes(data)
    return path


def stated(kind: str, name: str) -> Form:
    read: Form = json.loads((FOLDER / f"{kind}-1-{name}.csv.json").read_text())
    return read


COUNTS = ("counts", "noise", "counts")
STEPS = {"method": "Rényi steps", "order": "3", "divergence": "1e-10", "delta": "1e-100"}
COMPOSED = {"method": "composed steps", "epsilon": "1e-06", "delta": "0.00098", "square": "1e-14"}
FLAT = {
    "method": "bounded noise",
    "cells": 1 << 20,
    "half": ["1"] * ((1 << 19) - 1) + [f"{(1 << 127) - (1 << 19) + 1:x}"],
}
SPIKE = {**FLAT, "cells": (1 << 20) - 1, "half": ["1"] * ((1 << 19) - 1) + [f"{(1 << 128) - (1 << 20) + 2:x}"]}

# the kind of release, where, what
RELEASES: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
    ("counted-one-key", (*COUNTS, "variance"), "1e99999999"),
    ("counted-one-key", (*COUNTS, "variance"), "1e-99999999"),
    ("counted-one-key", (*COUNTS, "variance"), "1/" + LONG),
    ("counted-one-key", (*COUNTS, "variance"), "1e-300"),
    ("counted-one-key", (*COUNTS, "side"), 2 * 10**9),
    ("counted-one-key", (*COUNTS, "side"), 500_000),
    ("counted-one-key", (*COUNTS, "side"), HUGE),
    ("counted-one-key", (*COUNTS, "length"), 10**9),
    ("counted-one-key", ("counts", "groups"), [[1.0, 0.0]] * 100_000),
    ("counted-one-key", ("counts", "clipped"), NAN),
    ("counted-one-key", ("per_key",), COMPOSED),
    ("counted-one-key", ("per_key", "square"), "1e-300"),
    ("counted-one-key", ("discovery", "full"), HUGE),
    ("counted-one-key", ("privacy", "epsilon"), "1e-12"),
    ("counted", ("discovery", "keys"), 10**18),
    ("counted", ("discovery", "look", "epsilon"), "0"),
    ("counted", ("discovery", "look", "users"), [HUGE] * 7),
    ("counted", ("per_key",), STEPS),
    ("sums", ("counts", "amounts"), [{"clip": "1"}] * 10_000),
    ("steps", ("per_key",), STEPS),
    ("steps", ("per_key",), {**STEPS, "order": "1e300", "divergence": "0.01"}),
    ("steps", ("per_key", "order"), "1.000000000000001"),
    ("steps", ("max_keys_per_user",), 100_000),
    ("noise", ("per_key",), FLAT),
    ("noise", ("max_keys_per_user",), 100_000),
    ("noise", ("per_key", "cells"), HUGE),
    ("zcdp", ("per_key",), SPIKE),
    ("zcdp", ("privacy",), {"epsilon": "1", "delta": "1e-200", "zcdp": "1e-12"}),
    ("gdp", ("privacy",), {"epsilon": "1", "delta": "1e-200", "gdp": "1e-12"}),
    ("gdp", ("privacy",), {"epsilon": "1", "delta": "1e-200", "gdp": "1000000"}),
    ("all", ("privacy",), {"epsilon": "1e-12", "delta": "1e-200"}),
    ("all", ("privacy", "epsilon"), "1e300"),
    ("all", ("privacy", "epsilon"), LONG),
    ("all", ("grid",), 1 << 62),
    ("all", ("rows",), HUGE),
    ("all", ("keys",), ["a"] * 100_000),
    ("known", ("known", "added"), HUGE),
    ("dropped", ("total", "epsilon"), "1e-300"),
    ("dropped", ("total", "value"), "1e300"),
    ("dropped", ("max_keys_per_user",), 100_000),
    ("size", ("size", "weights", "unit"), "1e-300"),
    ("size", ("size", "wanted"), HUGE),
    ("size", ("sampling", "power"), "64"),
    ("ppswor", ("sampling", "tau"), "1e-99999999"),
    ("ppswor", ("sampling", "cap"), HUGE),
    ("custom", ("sampling", "q"), ["0.5"] * 1_000_000),
    ("custom", ("sampling", "q"), ["1/3"] * 131_072 + ["0"]),
    ("registered", ("sampling", "function"), "a" * 1_000_000),
    ("at-least", ("sampling", "at_least"), HUGE),
    ("soft-cap", ("sampling", "tau"), "1/" + LONG),
    ("stream", ("sampling", "tau"), "1e-300"),
    ("coordinated", ("sampling", "seed"), "a" * 1_000_000),
    ("part", ("part", "value"), 5),
)


def test_releases_that_state_too_much_are_refused_soon(tmp_path: Path) -> None:
    files = {}
    for number, (name, place, value) in enumerate(RELEASES):
        document = json.dumps(seal(placed(stated("release", name), place, value)))
        files[f"{number} {name} {place}"] = "release", beside(tmp_path, "release", name, document)
    check_all(files)


DOCUMENTS = ("", "{", "null", "[]", DEEP, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"version": ' + "9" * 10**6 + "}")


@pytest.mark.parametrize("kind", ["release", "sample"])
def test_documents_that_are_no_metadata_are_refused_soon(kind: str, tmp_path: Path) -> None:
    form = stated(kind, "ppswor")
    nested = form | {"before": json.loads("[" * 900 + "]" * 900)}
    documents = [*DOCUMENTS, json.dumps(seal(nested)), json.dumps(seal(form | {"checksum": 1, "file": {}}))]
    files = {f"{n}": (kind, beside(tmp_path, kind, "ppswor", document)) for n, document in enumerate(documents)}
    check_all(files)


SAMPLES: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
    ("ppswor", ("sampling", "tau"), "1e99999999"),
    ("ppswor", ("sampling",), {"scheme": "custom", "q": ["0.5"] * 1_000_000}),
    ("ppswor", ("identity",), 5),
    ("ppswor", ("used",), "no"),
    ("ppswor", ("keys",), "query" * 100_000),
    ("users", ("max_keys_per_user",), HUGE),
    ("part", ("part", "vouched"), 1),
)


def test_samples_that_state_too_much_are_refused_soon(tmp_path: Path) -> None:
    files = {}
    for number, (name, place, value) in enumerate(SAMPLES):
        document = json.dumps(seal(placed(stated("sample", name), place, value)))
        files[f"{number} {name} {place}"] = "sample", beside(tmp_path, "sample", name, document)
    check_all(files)


STATES: tuple[tuple[str, Any], ...] = (
    ("elements", HUGE),
    ("elements", -1),
    ("elements", 1.5),
    ("secret", "00" * 1_000_000),
    ("secret", ""),
    ("files", {"a": HUGE}),
    ("files", {"a": -1}),
    ("files", []),
    ("pipe", HUGE),
    ("shard", [0, HUGE]),
    ("shard", [5, 2]),
    ("query", ["a", -5]),
)


def test_states_of_streams_that_state_too_much_are_refused_soon(tmp_path: Path) -> None:
    table = pq.read_table(FOLDER / "sample-1-stream.parquet")
    form: Form = json.loads(pq.read_metadata(FOLDER / "sample-1-stream.parquet").metadata[b"dpsample"])
    files = {}
    for number, (field, value) in enumerate(STATES):
        path = tmp_path / f"{number}.parquet"
        write_parquet(path, table, seal(placed(form, ("stream", field), value)))
        files[f"{number} {field}"] = "stream", path
    check_all(files)


def write_parquet(path: Path, table: pa.Table, form: Form, rows: int = 1 << 17) -> None:
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table, row_group_size=rows)
        writer.add_key_value_metadata({"dpsample": json.dumps(form)})


def test_a_small_file_of_endless_rows_is_refused_before_they_are_read(tmp_path: Path) -> None:
    """A value that repeats takes no room in Parquet: 60,000,000 rows are 1 MB."""
    form = json.loads(pq.read_metadata(FOLDER / "release-1-all.parquet").metadata[b"dpsample"])
    schema = pq.read_schema(FOLDER / "release-1-all.parquet")
    repeated = [pa.array(["a"] if pa.types.is_string(field.type) else [1.0]).cast(field.type) for field in schema]
    row = pa.table(dict(zip(schema.names, repeated, strict=True)))
    many = row.take(pa.array([0] * (1 << 20)))
    path = tmp_path / "rows.parquet"
    with pq.ParquetWriter(path, many.schema, store_schema=False, compression="zstd") as writer:
        writer.write_table(pa.concat_tables([many] * 60), row_group_size=1 << 26)
        writer.add_key_value_metadata({"dpsample": json.dumps(seal({**form, "rows": 60 << 20}))})
    assert path.stat().st_size < 2_000_000
    check_all({"rows": ("release", path)})


Line = Callable[[list[Form]], None]


def ledger_lines(path: Path, change: Line) -> None:
    """Write the lines of a ledger anew, after a change, with a chain that holds."""
    lines = [json.loads(line) for line in (FOLDER / "ledger-1-renyi.ledger").read_bytes().split(b"\n")[:-1]]
    change(lines)
    data, previous = b"", None
    hashes: dict[Any, str] = {}
    for line in lines:
        old = line.pop("own", None)
        line.pop("previous", None)
        line |= {} if previous is None else {"previous": previous}
        line |= {"entry": hashes.get(line["entry"], line["entry"])} if "entry" in line else {}
        written = canonical(line)
        previous = hashlib.sha256(written).hexdigest()
        hashes[old] = previous
        data += written + b"\n"
    path.write_bytes(data)


def set_in(number: int, *place: Any) -> Callable[[Any], Line]:
    def of(value: Any) -> Line:
        def change(lines: list[Form]) -> None:
            inside: Any = lines[number]
            for step in place[:-1]:
                inside = inside[step]
            inside[place[-1]] = value

        return change

    return of


LEDGERS: tuple[Line, ...] = (
    set_in(0, "budget", "epsilon")("1e99999999"),
    set_in(0, "budget", "epsilon")("1e300"),
    set_in(0, "each")({"epsilon": "1e-99999999", "delta": "1e-200"}),
    set_in(0, "account", "aside")("1/" + LONG),
    set_in(0, "account", "orders")({str(n): {"delta": "1e-9", "divergence": "1"} for n in range(2, 100_000)}),
    set_in(0, "account", "orders", "8", "divergence")("1e300"),
    set_in(0, "unit")(["user"]),
    set_in(0, "dataset")(5),
    set_in(0, "version")(HUGE),
    set_in(1, "spent", "epsilon")("-9"),
    set_in(1, "spent")({"epsilon": "1", "delta": "1e-200", "gdp": "1e-99999999"}),
    set_in(1, "curve", "orders", "8")("1e99999999"),
    set_in(1, "curve", "delta")("-1"),
    set_in(1, "max_keys_per_user")([HUGE]),
    set_in(1, "scheme")("a"),
    set_in(1, "source")(5),
    set_in(1, "unit")("nobody"),
    set_in(1, "keys")(5),
    set_in(1, "kind")([]),
)


def test_ledgers_that_state_too_much_are_refused_soon(tmp_path: Path) -> None:
    files = {}
    for number, change in enumerate(LEDGERS):
        path = tmp_path / f"{number}.ledger"
        ledger_lines(path, change)
        files[f"{number}"] = "ledger", path
    deep = tmp_path / "deep.ledger"
    deep.write_text(DEEP + "\n")
    check_all({**files, "deep": ("ledger", deep)})


SETTINGS = (
    "a = " + DEEP,
    "a = " + "[" * 900 + "]" * 900,
    ".".join(["a"] * 200_000) + " = 1",
    "epsilon = " + "9" * 1_000_000,
    "epsilon = 0x" + "f" * 30_000,
    "source = [" + '"a",' * 3_000_000 + "]",
    "a" + ".a" * 16_000 + " = 1",
    "\n".join(f"[a{'.b' * 200}.c{n}]" for n in range(20_000)),
    "a = {" * 5000 + "}" * 5000,
)


def test_settings_that_state_too_much_are_refused_soon(tmp_path: Path) -> None:
    files = {}
    for number, text in enumerate(SETTINGS):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        files[f"{number} {text[:20]}"] = "settings", path
    check_all(files)

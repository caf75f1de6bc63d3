"""A release that was changed, cut or edited is refused; and how releases are shown."""

import ast
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

import dpsample
from dpsample import InvalidValue, KeepAll
from dpsample.answers.release import Release, read_release
from small_releases import FORMATS, PRIVACY, TERMS, rows, small
from stated_terms import stated_terms

# Damage


def outcome(path: Path, release: Release) -> str:
    try:
        found = read_release(path)
    except InvalidValue as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right
        return "refused"
    assert found == release
    assert found.metadata == release.metadata
    return "same"


@pytest.mark.parametrize("form", FORMATS)
def test_flipped_bits_are_found(tmp_path: Path, form: str) -> None:
    """Every byte of a small release, with a random bit flipped: an error of ours, or the same release."""
    release = small()
    path = tmp_path / f"x.{form}"
    release.write(path)
    draw = random.Random(5)
    for name in sorted(tmp_path.iterdir()):
        whole = name.read_bytes()
        outcomes = []
        for n in range(len(whole)):
            name.write_bytes(whole[:n] + bytes([whole[n] ^ 1 << draw.randrange(8)]) + whole[n + 1 :])
            outcomes.append(outcome(path, release))
        name.write_bytes(whole)
        # Parquet's footer has statistics and the like that are not read
        assert outcomes.count("refused") > (0.6 if form == "parquet" else 0.99) * len(whole)
        assert outcome(path, release) == "same"


@pytest.mark.parametrize("form", FORMATS)
def test_cut_and_overwritten_files_are_found(tmp_path: Path, form: str) -> None:
    release = small()
    path = tmp_path / f"x.{form}"
    release.write(path)
    for name in sorted(tmp_path.iterdir()):
        whole = name.read_bytes()
        for n in range(len(whole) - (name.suffix == ".json")):  # the document's last line end says nothing
            name.write_bytes(whole[:n])
            assert outcome(path, release) == "refused"
        for n in range(0, len(whole), 64):
            name.write_bytes(whole[:n] + bytes(64) + whole[n + 64 :])
            outcome(path, release)
        name.write_bytes(whole)


def test_edited_metadata_are_found(tmp_path: Path) -> None:
    release = small()
    release.write(tmp_path / "x.csv")
    beside = tmp_path / "x.csv.json"
    form = json.loads(beside.read_text())
    beside.write_text(json.dumps(form | {"privacy": {"epsilon": "0.1", "delta": "1e-06"}}))
    with pytest.raises(InvalidValue, match="metadata that were changed"):
        read_release(tmp_path / "x.csv")
    beside.write_text(json.dumps(form, indent=8))  # how it is laid out does not matter
    assert read_release(tmp_path / "x.csv") == release


# What is shown


def test_repr() -> None:
    assert repr(small()).splitlines() == [
        "Release: 3 keys, with estimates of their frequencies",
        "  privacy   epsilon 1, delta 1e-06, for each element",
        "  sampled   Ppswor(tau='0.25')",
        "  tokens    in steps of 1/8",
        "query  day  estimate  low  high  token",
        "'=a'   3    14        1    14    0.125",
        "'b'    1    15        2    17    1.125",
        "'b'    2    16        3    18    2.125",
    ]
    one = Release(rows({"query": ["a"]}, keys_only=True), stated_terms(PRIVACY, KeepAll(), ("query",), keys_only=True))
    assert repr(one).splitlines()[0] == "Release: 1 key, keys only"
    long = Release(rows({"query": [f"{n:04d}" for n in range(1234)]}), TERMS)
    assert repr(long).splitlines()[0] == "Release: 1,234 keys, with estimates of their frequencies"
    assert repr(long).splitlines()[-1] == "... and 1,224 more"
    assert "0009" in repr(long)
    assert "0010" not in repr(long)


def test_keys_are_shown_as_harmless_text() -> None:
    evil = ["\x1b[2J\u202e", "<script>alert(1)</script>", "&" * 1000]
    release = Release(rows({"<b>": sorted(evil)}), stated_terms(PRIVACY, KeepAll(), ("<b>",)))
    assert all(line.isprintable() for line in repr(release).splitlines())
    assert max(map(len, repr(release).splitlines())) < 120
    page = release._repr_html_()
    assert "<script" not in page
    assert "<b>'" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert '<th scope="col" style="text-align:left">&lt;b&gt;</th>' in page
    assert page.isprintable()
    assert page.count("<tr>") == 4


def test_everything_can_be_shown() -> None:
    beyond = {
        "year": pa.array([2**61], pa.int64()).cast(pa.timestamp("us")),
        "nano": pa.array([1], pa.timestamp("ns")),
        "zone": pa.array([0], pa.timestamp("s", "No/Where")),
        "blob": pa.array([b"\xff\n"]),
        "date": pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
    }
    release = Release(rows(beyond, keys_only=True), stated_terms(PRIVACY, KeepAll(), tuple(beyond), keys_only=True))
    assert r"b'\xff\n'" in repr(release)
    assert "1970-01-01 00:00:00.000000001" in repr(release)
    assert release._repr_html_().count("<td ") == 5


# Post-processing


def test_releases_import_nothing_that_sees_private_data() -> None:
    root = Path(dpsample.__file__).parent
    seen: set[str] = set()
    todo = ["dpsample.answers.release"]
    while todo:
        module = todo.pop()
        seen.add(module)
        place = root.parent / module.replace(".", "/")
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
            for name in names:
                inside = root.parent / name.replace(".", "/")
                known = inside.is_dir() or inside.with_suffix(".py").is_file()
                if name.startswith("dpsample.") and known and name not in seen:
                    todo.append(name)
    assert {"dpsample.files", "dpsample.privacy", "dpsample.scheme.sampling"} < seen
    private = (
        "dpsample.private.sample",
        "dpsample.private.sources.source",
        "dpsample.private.engine",
        "dpsample.private.sanitizer",
        "dpsample.private.randomness",
    )
    assert not [name for name in seen if name.startswith((*private, "dpsample.private.run"))]

"""CSV that is not as usual: what is stated is read exactly, what is not stated is refused with the remedy."""

import csv
import gzip
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpsample
from dpsample import InvalidValue, Privacy, Source
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.dialect import checked_nulls
from support import refused, refused_alone, run

CANARY = "canary"


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDB]:
    with DuckDB() as made:
        yield made


def counted(engine: DuckDB, source: Source) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for batch in engine.aggregated(source):
        *keys, frequencies = (column.to_pylist() for column in batch.columns)
        found.update(dict(zip(keys[0] if len(keys) == 1 else zip(*keys, strict=True), frequencies, strict=True)))
    return found


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "§", " "])
@pytest.mark.parametrize(
    ("encoding", "characters"),
    [
        (None, "aä€漢😀"),
        ("utf-8-sig", "aä€漢😀"),
        ("latin-1", "aäÿ\x85\xa0"),
        ("cp1252", "aä€œ"),
        ("utf-16", "aä€漢😀∢"),  # ∢ has the byte of a quote
        ("utf-16-be", "aä€漢😀∢"),
        ("shift_jis", "a表ソ"),  # 表 has the byte of a backslash
    ],
)
def test_every_field_is_read_as_python_reads_it(
    delimiter: str, encoding: str | None, characters: str, engine: DuckDB, tmp_path: Path
) -> None:
    if encoding == "shift_jis" and delimiter == "§":
        characters += "§"
    rng = random.Random(f"{delimiter} {encoding}")
    alphabet = f'{characters}";,\n\r'
    rows = [["".join(rng.choices(alphabet, k=rng.randrange(1, 5))), str(n % 3)] for n in range(300)]
    for zipped in (False, True):
        path = tmp_path / ("a.csv.gz" if zipped else "a.csv")
        opened: Any = gzip.open if zipped else open
        with opened(path, "wt", encoding=encoding or "utf-8", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerow(["k", "n"])
            writer.writerows(rows)
        source = Source(path, ["k", "n"], delimiter=delimiter, encoding=encoding)
        assert counted(engine, source) == Counter(map(tuple, rows))
        assert engine.total(source) == len(rows)


def test_without_a_header(engine: DuckDB, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a;1\nb;1\na;2\n")
    source = Source(path, "column0", header=False, delimiter=";", key_as="k")
    assert engine.check(source).names == ["k"]
    assert counted(engine, source) == {"a": 2, "b": 1}
    assert counted(engine, Source(path, "column0", "column1", header=False, delimiter=";")) == {"a": 3, "b": 1}
    with refused("the column 'column2' must be in", hidden=["a;", "b;"]):
        engine.check(Source(path, "column2", header=False, delimiter=";"))
    path.write_text("")
    assert counted(engine, source) == {}


def test_line_ends_in_the_first_row(engine: DuckDB, tmp_path: Path) -> None:
    """DuckDB takes the first line end for that of all rows: with another one it found no row at all."""
    path = tmp_path / "a.csv"
    for end in ("\n", "\r\n"):
        for inside in ("\n", "\r\n", "\r"):
            path.write_bytes(f'"k{inside}k",n{end}"{CANARY}",2{end}'.encode())
            for source in (Source(path, "n"), Source(path, "column1", header=False)):
                if inside != end:
                    refused_alone(lambda s=source: counted(engine, s), "two kinds of line ends", [CANARY])  # type: ignore[misc]
                else:
                    assert counted(engine, source) == (
                        {"2": 1} if source.options.get("header", True) else {"n": 1, "2": 1}
                    )


def test_texts_that_stand_for_null(engine: DuckDB, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('k,n\na,1\nNA,1\n"NA",1\n\\N,1\n,1\n"",1\nNAN,1\n')
    always = {"a": 1, "": 1, "NAN": 1}
    assert counted(engine, Source(path, "k", drop_null=True)) == {**always, "NA": 2, "\\N": 1}
    assert counted(engine, Source(path, "k", drop_null=True, null="NA")) == {**always, "NA": 1, "\\N": 1}
    assert counted(engine, Source(path, "k", drop_null=True, null=["NA", "\\N"])) == {**always, "NA": 1}
    with refused("the key column 'k' must have no NULL"):
        counted(engine, Source(path, "k", null="NA"))


@pytest.mark.parametrize(("other", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_the_separator_of_a_header_is_named(other: str, word: str, engine: DuckDB, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"n{other}k\n{CANARY}{other}{CANARY}\n")
    message = f"separated by {word}; state them: delimiter={other!r}"
    refused_alone(lambda: engine.check(Source(path, "k", user="n")), re.escape(message), [CANARY])
    # a first line that does not have the names may be data: nothing of it is told
    refused_alone(lambda: engine.check(Source(path, CANARY[:3])), "it has 1 other column", [CANARY])


def test_another_encoding_is_refused_and_shows_nothing(engine: DuckDB, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"k,n\n{CANARY}é,1\n".encode("latin-1"))
    for encoding in ("ascii", "utf-16", "shift_jis_2004"):
        refused_alone(lambda e=encoding: engine.check(Source(path, "k", encoding=e)), "encoding|column", [CANARY])  # type: ignore[misc]
    refused_alone(lambda: counted(engine, Source(path, "k")), "broken row of CSV.*encoding=", [CANARY])
    path.write_bytes(f'k,n\n"{CANARY}é,1\n'.encode("latin-1"))
    with pytest.raises(InvalidValue, match=r"a\.csv' has an odd number of quotes"):
        counted(engine, Source(path, "k", encoding="latin-1"))


def test_a_copy_in_another_encoding_is_private_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k\nä\n", "latin-1")
    (tmp_path / "temp").mkdir()
    with DuckDB(temp_dir=tmp_path / "temp") as made:
        assert counted(made, Source(path, "k", encoding="latin-1")) == {"ä": 1}
        [folder] = (tmp_path / "temp").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "temp").iterdir()) == []


@pytest.mark.parametrize(
    "stated",
    [
        {"delimiter": ";;"},
        {"delimiter": ""},
        {"delimiter": '"'},
        {"delimiter": "a"},
        {"delimiter": 5},
        {"encoding": "klingon"},
        {"encoding": "rot13"},
        {"encoding": 5},
        {"null": ""},
        {"null": ["a,b"]},
        {"null": "a;b", "delimiter": ";"},
    ],
    ids=str,
)
def test_what_is_no_dialect(stated: dict[str, Any]) -> None:
    with refused(f"{min(stated, key=lambda name: name != 'null')} must be"):
        checked_nulls(stated)


@pytest.mark.parametrize("stated", [{"delimiter": ";"}, {"encoding": "latin-1"}, {"header": False}, {"null": "NA"}])
def test_a_dialect_goes_with_text_files(stated: dict[str, Any], tmp_path: Path) -> None:
    [name] = stated
    with refused(f"{name} can"):
        Source({"a": 1}, **stated)
    (tmp_path / "a.jsonl").write_text("")
    with refused(f"{name} can"):
        Source(tmp_path / "a.jsonl", "k", **stated).listing()


def test_names_in_a_release() -> None:
    with refused("is called like a column that samples and releases have"):
        Source("a.csv", "token")
    assert Source("a.csv", "token", key_as="word").key == ("word",)
    for key_as in ("estimate", ["a", "b"], []):
        with pytest.raises(InvalidValue):
            Source("a.csv", "token", key_as=key_as)
    with refused("key_as cannot be used with a mapping"):
        Source({"a": 1}, "k", key_as="word")
    source = Source("a.csv", ["token", "n"], key_as=["word", "m"], delimiter=";", null="NA", header=False)
    assert repr(source) == (
        "Source('a.csv', key=['token', 'n'], key_as=['word', 'm'], delimiter=';', header=False, null=['NA'])"
    )


@pytest.mark.chance("odds 1e-10: a key of one element shows, at delta 1e-10")
def test_the_command_reads_and_renames(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("token\tn\n" + "ä\t1\n" * 500 + "NA\t1\n" * 500, "cp1252")
    stated = ["--delimiter", r"\t", "--encoding", "cp1252", "--null", "NA", "--drop-null", "--key-as", "word"]
    done = run("release", "a.csv", "-k", "token", *stated, "-e", "1", "-d", "1e-10", "-o", "out.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "out.csv.json beside it" in done.stderr
    release = dpsample.read_release(tmp_path / "out.csv")
    assert release.keys == ("word",)
    assert release.table["word"].to_pylist() == ["ä"]
    plan = run("plan", "a.csv", "-k", "token", *stated, "-e", "1", cwd=tmp_path)
    assert "--key-as word --delimiter '\t' --encoding cp1252 --null NA --drop-null" in plan.stdout


def test_what_a_source_has_is_not_an_option_of_a_release() -> None:
    for name in ("delimiter", "encoding", "header", "null", "key_as", "table"):
        wrong: dict[str, Any] = {name: ";"}
        with pytest.raises(TypeError, match=rf"a Source has it: write release\(Source\(data, key, {name}="):
            dpsample.release("a.csv", "k", privacy=(1, 1e-8), **wrong)


@pytest.mark.chance("certain: keys of 500 elements are reported")
def test_a_pair_is_a_privacy() -> None:
    assert dpsample.release({"a": 500}, privacy=(1, 1e-8)).privacy == Privacy(1, 1e-8)
    wrong: Any
    for wrong in (1, (1,), (1, 1e-8, 0), "1", None):
        with refused("privacy must be an epsilon and a delta"):
            dpsample.release({"a": 500}, privacy=wrong)


def test_rows_that_are_not_there_yet() -> None:
    with refused("a LazyFrame of polars has no rows yet"):
        Source(pl.DataFrame({"k": ["a"]}).lazy(), "k")


def test_an_array_of_json_has_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'[{{"k": "{CANARY}"}}]')
    refused_alone(lambda: Source(tmp_path / "a.json", "k").listing(), "an object on each line", [CANARY])


def test_a_file_of_a_database_has_a_remedy() -> None:
    with refused("table and query can only be used with a database") as info:
        Source("shop.sqlite", "k", table="orders")
    assert "sqlite:///" in str(info.value)

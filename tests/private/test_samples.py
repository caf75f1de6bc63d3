"""Samples: each key once, with its scheme, and never a key or a frequency where nobody asked for it."""

import json
import os
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsample
from dpsample import CustomSampling, InvalidValue, KeepAll, Ppswor, Priority, Privacy, Sampling
from dpsample.answers.release import Release
from dpsample.private.sample import WARNING, Sample, read_sample
from stated_terms import stated_terms
from strategies import schemes
from support import refused, refused_alone

SANITIZE = """
import sys, time, dpsample
sample = dpsample.read_sample(sys.argv[1])
write = dpsample.Sample.write
def write_late(*arguments, **options):
    time.sleep(0.5)
    write(*arguments, **options)
dpsample.Sample.write = write_late
print("read", flush=True)
sys.stdin.readline()
try:
    dpsample.sanitize(sample, privacy=dpsample.Privacy(1, "1e-9"))
    print("released")
except dpsample.InvalidValue as error:
    assert str(error).startswith("a sample is sanitized once"), error
    print("refused")
"""
FORMATS = ["parquet", "csv", "arrow"]
CANARY = "canary-5d0e"
NUMBER = 918273645
SCHEME = Ppswor(tau="0.01")


def table(**changes: Any) -> pa.Table:
    return pa.table({"query": [f"z{CANARY}", f"a{CANARY}"], "frequency": [NUMBER, 1]} | changes)


def no_sample(message: str, *args: Any, **options: Any) -> None:
    make = Sample.from_table if options else Sample
    refused_alone(partial(make, *args, **options), message, [CANARY, NUMBER])


@given(st.dictionaries(st.tuples(st.text(max_size=3), st.binary(max_size=2)), st.integers(1, 30)), schemes(30))
def test_any_sample_comes_back(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[tuple[str, bytes], int], sampling: Sampling
) -> None:
    rows = pa.table(
        {
            "query": pa.array([key[0] for key in counts], pa.string()),
            "blob": pa.array([key[1] for key in counts], pa.binary()),
            "frequency": pa.array(counts.values(), pa.int64()),
        }
    )
    sample = Sample(rows, sampling, ["query", "blob"])
    assert len(sample) == len(counts)
    folder = tmp_path_factory.mktemp("any")
    for form in FORMATS:
        sample.write(folder / f"x.{form}")
        found = read_sample(folder / f"x.{form}")
        assert found.table.equals(rows)
        assert (found.sampling, found.keys, len(found)) == (sampling, ("query", "blob"), len(counts))


def test_the_file_says_that_it_is_not_private(tmp_path: Path) -> None:
    sample = Sample(table(), SCHEME, "query")
    expected = {
        "format": "dpsample sample",
        "version": 1,
        "private": False,
        "warning": WARNING,
        "sampling": {"scheme": "ppswor", "tau": "0.01", "power": "1"},
        "keys": ["query"],
        "identity": sample.identity,
        "used": False,
    }
    assert sample.metadata == expected
    assert WARNING.startswith("NOT private")
    sample.write(tmp_path / "x.parquet")
    written = json.loads(pq.read_metadata(tmp_path / "x.parquet").metadata[b"dpsample"])
    assert {name: written[name] for name in expected} == expected


@pytest.mark.parametrize("form", FORMATS)
def test_only_the_owner_may_read_it(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"
    before = os.umask(0)
    try:
        Sample(table(), SCHEME, "query").write(path)
        Sample(table(), SCHEME, "query").write(path, force=True)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    with pytest.raises(InvalidValue, match="exists already"):
        Sample(table(), SCHEME, "query").write(path)


def test_it_shows_scheme_and_size_only() -> None:
    sample = Sample(table(), SCHEME, "query")
    assert repr(sample) == str(sample) == "Sample (NOT private): 2 keys, Ppswor(tau='0.01')"
    assert sample._repr_html_() == "<p>Sample (NOT private): 2 keys, Ppswor(tau=&#x27;0.01&#x27;)</p>"
    one = Sample(table().slice(0, 1), CustomSampling(lambda i: 1), "query")
    assert repr(one) == "Sample (NOT private): 1 key, CustomSampling(<function>)"


def test_what_a_sample_cannot_be(tmp_path: Path) -> None:
    twice = [CANARY, "b", CANARY, CANARY]
    once = "in several rows"
    no_sample(once, table(query=twice, frequency=[1, 2, 3, NUMBER]), SCHEME, "query")
    no_sample(once, table(query=[CANARY] * 2), SCHEME, "query")
    no_sample("must be positive", table(frequency=[NUMBER, 0]), SCHEME, "query")
    no_sample("must be positive", table(frequency=[-NUMBER, 1]), SCHEME, "query")
    no_sample("at most 3, the last", table(), CustomSampling([0.1, 0.2, 0.3]), "query")
    no_sample("the column 'query' has at least one NULL", table(query=[None, CANARY]), SCHEME, "query")
    no_sample("has at least one NULL", table(frequency=[None, NUMBER]), SCHEME, "query")
    no_sample("frequencies must be int64, not double", table(frequency=[1.5, NUMBER]), SCHEME, "query")
    no_sample(
        "its key columns and 'frequency', and no others, but this table has 'query', 'fr",
        table(),
        SCHEME,
        ["query", "day"],
    )
    no_sample("no others", table(day=[1, 2]), SCHEME, "query")
    no_sample("cannot be called 'frequency'", table(), SCHEME, "frequency")
    no_sample("at least one key column", table(), SCHEME, [])
    no_sample("'query' cannot hold double", table(query=[1.5, 2.5]), SCHEME, "query")
    no_sample("the scheme by which it was drawn, not an object of type NoneType", table(), None, "query")
    with pytest.raises(InvalidValue, match="cannot be written beside a sample"):
        Sample(table(), CustomSampling(lambda i: 1), "query").write(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, False, True]),
        pa.array([b"b", b"a", b"b"]),
        pa.array([3, 1, 3], pa.date32()),
        pa.array([3, 1, 3], pa.timestamp("ns", "UTC")),
        pa.array([3, 1, 3], pa.decimal256(60, 2)),
        pa.array(["b", "a", "b"], pa.large_string()),
    ],
)
def test_keys_of_every_type_are_told_apart(column: pa.Array) -> None:
    good = pa.table({"k": column[:2], "frequency": [1, 2]})
    assert len(Sample(good, KeepAll(), "k")) == 2
    both = pa.table({"j": [1, 1, 2], "k": column, "frequency": [1, 2, 3]})
    assert len(Sample(both, KeepAll(), ["j", "k"])) == 3
    no_sample("is in several rows", both.drop_columns(["j"]), KeepAll(), "k")


def test_a_release_is_not_a_sample(tmp_path: Path) -> None:
    terms = stated_terms(Privacy(1, 1e-6), KeepAll(), ("query",))
    release = Release(pa.table({"query": ["a"], "token": [8.0]}), terms)
    for form in FORMATS:
        release.write(tmp_path / f"x.{form}")
        with pytest.raises(InvalidValue, match="must be a sample, not a dpsample release; it is private already"):
            read_sample(tmp_path / f"x.{form}")
        no_sample(
            "cannot be a dpsample release; leave it as it is: it is private already",
            tmp_path / f"x.{form}",
            key="query",
            frequency="token",
            sampling=SCHEME,
        )


# Samples that another system drew


def foreign() -> pa.Table:
    return pa.table({"day": [1, 2], "word": [f"007{CANARY}", ""], "n": pa.array([NUMBER, 2], pa.uint64())})


def test_a_foreign_sample_in_any_shape(tmp_path: Path) -> None:
    rows = foreign()
    pq.write_table(rows, tmp_path / "x.parquet")
    pyarrow.feather.write_feather(rows, tmp_path / "x.arrow", compression="uncompressed")
    (tmp_path / "x.csv").write_text(f'day,word,n\n1,007{CANARY},{NUMBER}\n2,"",2\n')
    categories = rows.set_column(1, "word", rows.column("word").dictionary_encode())
    views = rows.set_column(1, "word", rows.column("word").cast(pa.string_view()))
    summed = rows.set_column(2, "n", rows.column("n").cast(pa.decimal128(38, 0)))
    shapes = [rows, categories, views, summed, pandas.DataFrame(rows.to_pydict()), polars.from_arrow(rows)]
    shapes += [tmp_path / "x.parquet", str(tmp_path / "x.arrow"), tmp_path / "x.csv", rows.to_reader()]
    for shape in shapes:
        sample = Sample.from_table(shape, key="word", frequency="n", sampling=Priority(tau="1e-9"))
        assert sample.table.to_pydict() == {"word": [f"007{CANARY}", ""], "frequency": [NUMBER, 2]}
        assert sample.table.schema.field("frequency").type == pa.int64()
        assert sample.sampling == Priority(tau="1e-9")
    both = Sample.from_table(rows, key=["word", "day"], frequency="n", sampling=SCHEME)
    assert both.keys == ("word", "day")


def test_text_keys_of_a_csv_file_stay_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("k,n\n007,1\n7,2\nNULL,3\n")
    sample = Sample.from_table(tmp_path / "x.csv", key="k", frequency="n", sampling=KeepAll())
    assert sample.table.column("k").to_pylist() == ["007", "7", "NULL"]


def test_foreign_samples_that_are_no_sample(tmp_path: Path) -> None:
    def wrong(message: str, source: Any, **changes: Any) -> None:
        no_sample(message, source, **({"key": "word", "frequency": "n", "sampling": SCHEME} | changes))

    rows = foreign()
    wrong("'nope' is missing or repeated; name some of 'day', 'word', 'n'", rows, key="nope")
    wrong("'nope' is missing", rows, frequency="nope")
    wrong("'n' is missing or repeated", pa.table([[1], [2], ["a"]], ["n", "n", "word"]))
    wrong("must be different columns", rows, key="n")
    wrong("key of the sample is in several rows", pa.concat_tables([rows, rows]))
    wrong("frequencies must be integers, not double", pa.table({"word": [CANARY], "n": [1.0]}))
    wrong("frequencies must be integers, not string", pa.table({"word": [CANARY], "n": [str(NUMBER)]}))
    wrong("at most 2\\*\\*63 - 1", pa.table({"word": [CANARY], "n": pa.array([2**63], pa.uint64())}))
    wrong(
        "'frequency' has at least one NULL",
        pa.table({"word": [CANARY], "n": pa.array([None], pa.int64())}),
    )
    wrong("'word' has at least one NULL", pa.table({"word": pa.array([None], pa.string()), "n": [1]}))
    wrong("exports Arrow, not an object of type int", 5)
    for name, text in (("x.csv", f"word,n\n{CANARY},{CANARY}\n"), ("y.csv", f"word,n\n{CANARY},1.5\n")):
        (tmp_path / name).write_text(text)
        wrong("must be a readable .csv file with whole frequencies", tmp_path / name)
    for name in ("x.parquet", "x.arrow"):
        wrong("must be a readable", tmp_path / name)
        (tmp_path / name).write_text(CANARY)
        wrong("must be a readable", tmp_path / name)
    wrong("a .parquet, .arrow or .csv file, not '.txt'", tmp_path / "x.txt")
    Sample(table(), SCHEME, "query").write(tmp_path / "ours.csv")
    wrong("cannot be a dpsample sample; use dpsample.read_sample", tmp_path / "ours.csv", key="query")


@given(st.sampled_from(["sampling", "keys"]), st.sampled_from([None, 3, [], {}, [1], {"scheme": []}, "x"]))
def test_any_metadata_give_a_sample_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: Any
) -> None:
    from dpsample.files import Rows, write_table

    path = tmp_path_factory.mktemp("any") / "x.parquet"
    sample = Sample(table(), SCHEME, "query")
    rows = sample.table
    write_table(path, Rows(rows.to_batches(), rows.schema), sample.metadata | {name: value})
    with pytest.raises(InvalidValue) as caught:
        read_sample(path)
    assert CANARY not in str(caught.value)


@pytest.mark.chance("odds 2e-37: two random identities of 122 bits are the same; the rest is certain")
class TestOnce:
    """Two releases of one sample share its sampling coins: at 2 epsilon they spend up to 1,850 times 2 delta."""

    RULE = "a sample is sanitized once"

    def drawn(self) -> Sample:
        return dpsample.sample({"a": 5000, "b": 7000}, sampling=Priority("0.1"))

    def test_in_memory(self) -> None:
        drawn = self.drawn()
        dpsample.sanitize(drawn, privacy=Privacy(1, "1e-9"))
        with refused(self.RULE):
            dpsample.sanitize(drawn, privacy=Privacy(1, "1e-9"))
        assert repr(drawn).endswith("sanitized already")

    @pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
    def test_from_a_file(self, ending: str, tmp_path: Path) -> None:
        path = tmp_path / f"s.{ending}"
        self.drawn().write(path)
        once, other = dpsample.read_sample(path), dpsample.read_sample(path)
        assert once.identity == other.identity
        dpsample.sanitize(once, privacy=Privacy(1, "1e-9"))
        for again in (other, dpsample.read_sample(path)):  # one that was read before, and one that is read now
            with refused(self.RULE):
                dpsample.sanitize(again, privacy=Privacy(1, "1e-9"))
        assert os.stat(path).st_mode & 0o777 == 0o600

    def test_by_two_processes_at_once(self, tmp_path: Path) -> None:
        """Each has read the sample before either sanitizes it, and marks it late: without the lock, both would."""
        path = tmp_path / "s.parquet"
        self.drawn().write(path)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", SANITIZE, path], env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "read\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = sorted((process.communicate()[0].strip(), process.returncode) for process in processes)
        assert ends == [("refused", 0), ("released", 0)]
        assert dpsample.read_sample(path).used

    def test_a_file_that_has_changed(self, tmp_path: Path) -> None:
        """Another sample under the same name is not replaced, and one that is gone is not written anew."""
        path = tmp_path / "s.parquet"
        self.drawn().write(path)
        one = dpsample.read_sample(path)
        self.drawn().write(path, force=True)
        before = path.read_bytes()
        with refused("the file that the sample was read from has another sample now"):
            dpsample.sanitize(one, privacy=Privacy(1, "1e-9"))
        assert path.read_bytes() == before
        path.unlink()
        with pytest.raises(dpsample.DpsampleError, match="must be"):
            dpsample.sanitize(one, privacy=Privacy(1, "1e-9"))
        assert list(tmp_path.iterdir()) == []

    def test_in_a_ledger(self, tmp_path: Path) -> None:
        """A copy of the file from before is another file, and the same sample."""
        path, copy, ledger = tmp_path / "s.parquet", tmp_path / "copy.parquet", tmp_path / "l"
        dpsample.new_ledger(ledger, "data", Privacy(5, "1e-5"))
        self.drawn().write(path)
        shutil.copy(path, copy)
        dpsample.sanitize(dpsample.read_sample(path), privacy=Privacy(1, "1e-9"), ledger=ledger)
        with refused("a sample is released once"):
            dpsample.sanitize(dpsample.read_sample(copy), privacy=Privacy(1, "1e-9"), ledger=ledger)
        assert not dpsample.read_sample(copy).used
        assert len(dpsample.read_ledger(ledger).charged) == 1

    def test_a_sample_of_another_system(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"k": ["a"], "n": [5000]}), tmp_path / "t.parquet")
        dpsample.new_ledger(tmp_path / "l", "data", Privacy(5, "1e-5"))

        def sanitized() -> None:
            drawn = Sample.from_table(tmp_path / "t.parquet", key="k", frequency="n", sampling=Priority("0.1"))
            dpsample.sanitize(drawn, privacy=Privacy(1, "1e-9"), ledger=tmp_path / "l")

        sanitized()
        with refused("a sample is released once"):
            sanitized()

    def test_its_name_tells_nothing_of_its_rows(self) -> None:
        """122 random bits; that two are the same has odds of 2e-37."""
        assert self.drawn().identity != self.drawn().identity
        assert len(self.drawn().identity) == 32

"""Files in stores: a real S3 server on loopback; other stores as far as their files are named."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsample
from buckets import BUCKET, KEYS, Bucket, checked_credentials, served_bucket
from dpsample.accounting.parts import Part
from dpsample.cli import cli
from dpsample.errors import DpsampleError, InvalidValue, SystemFailure
from dpsample.ledger.ledger import new_ledger
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.sources.source import Source
from dpsample.private.sources.stores import public_uri


@pytest.fixture(scope="module")
def served() -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch, served_bucket(patch) as bucket:
        yield bucket


@pytest.fixture
def bucket(served: Bucket) -> Bucket:
    served.store.delete_dir_contents(BUCKET)
    served.log.clear()
    return served


def parquet(keys: str, users: int = 1) -> bytes:
    sink = io.BytesIO()
    rows = [(key, user) for user in range(users) for key in keys]
    pq.write_table(pa.table({"k": [key for key, _ in rows], "u": [user for _, user in rows]}), sink)
    return sink.getvalue()


def counted(source: Source) -> dict[Any, int]:
    with DuckDB() as engine:
        rows = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    return {tuple(row[name] for name in source.key): row["frequency"] for row in rows}


def days(bucket: Bucket) -> None:
    bucket.put({f"clicks/day={day}/x.parquet": parquet(keys) for day, keys in [("1", "aab"), ("a%2Fb", "c")]})
    bucket.put({"clicks/_SUCCESS": b"", "clicks/.hidden.parquet": b"no", "other.parquet": parquet("z")})


@pytest.mark.parametrize(
    ("uri", "keys"),
    [
        ("s3://lake/clicks", "aabc"),
        ("s3://lake/clicks/", "aabc"),
        ("s3://lake/clicks/day=1", "aab"),
        ("s3://lake/clicks/*/x.parquet", "aabc"),
        ("s3://lake/**/*.parquet", "aabcz"),
        ("s3://lake/clicks/day=1/x.parquet", "aab"),
        (["s3://lake/clicks", "s3://lake/other.parquet"], "aabcz"),
    ],
)
def test_files_folders_and_globs(uri: Any, keys: str, bucket: Bucket) -> None:
    days(bucket)
    if uri == "s3://lake/**/*.parquet":  # a glob names hidden files too, as it does on this machine
        bucket.store.delete_file(f"{BUCKET}/clicks/.hidden.parquet")
    assert counted(Source(uri, "k")) == {(key,): keys.count(key) for key in keys}


def test_folders_are_columns_and_a_part_reads_its_folder_alone(bucket: Bucket) -> None:
    days(bucket)
    assert counted(Source("s3://lake/clicks", ["day", "k"])) == {("1", "a"): 2, ("1", "b"): 1, ("a/b", "c"): 1}
    bucket.put({"clicks/day=2/x.parquet": b"PAR1 broken PAR1"})
    bucket.read()
    assert counted(Source("s3://lake/clicks", "k").of_part(Part("day", "1"))) == {("a",): 2, ("b",): 1}
    assert {path for path in bucket.read() if path.endswith(".parquet")} == {"clicks/day=1/x.parquet"}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "jsonl", "jsonl.gz", "arrow"])
def test_formats_that_are_copied(ending: str, bucket: Bucket) -> None:
    sink = io.BytesIO()
    if ending == "arrow":
        table = pa.table({"k": ["a", "b"]})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    elif ending.startswith("jsonl"):
        sink.write(b"\n".join(json.dumps({"k": key}).encode() for key in "ab"))
    else:
        sink.write(b"k\na\nb")
    content = sink.getvalue()
    bucket.put({f"d=1/x.{ending}": gzip.compress(content) if ending.endswith("gz") else content})
    assert counted(Source("s3://lake", ["d", "k"])) == {("1", "a"): 1, ("1", "b"): 1}


def test_nothing_that_is_not_needed_is_read(bucket: Bucket) -> None:
    """Of Parquet just the columns that are needed: a file of 2 MB whose key takes some kilobytes."""
    sink = io.BytesIO()
    wide = [f"{number:0>2000}" for number in range(1000)]
    pq.write_table(pa.table({"k": ["a"] * 1000, "wide": wide}), sink, compression="none", use_dictionary=False)
    bucket.put({"x.parquet": sink.getvalue()})
    found = []
    store = type(bucket.store)
    assert store  # the class that opens files
    with DuckDB() as engine:
        mount = engine.mount

        def counting(file: Any) -> str:
            opened = file.open

            class Reader:
                def __init__(self) -> None:
                    self.file = opened()

                def read(self, size: int) -> bytes:
                    found.append(size)
                    content: bytes = self.file.read(size)
                    return content

                def __getattr__(self, name: str) -> Any:
                    return getattr(self.file, name)

            object.__setattr__(file, "open", Reader)
            return mount(file)

        engine.mount = counting  # type: ignore[method-assign]
        assert engine.total(Source("s3://lake/x.parquet", "k")) == 1000
    assert 0 < sum(found) < 300_000


class TestReleases:
    """From a bucket of 50 Parquet files in hive folders to a release of users, by one command."""

    WORDS = ("release", "s3://lake/clicks", "-k", "k", "--user", "u", "-e", "1", "-d", "1e-6")

    def run(self, *words: str) -> Any:
        return CliRunner().invoke(cli, list(words))

    @pytest.mark.chance("odds 1e-12: a key of 5000 users is not found")
    def test_a_release_of_users(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.put({f"clicks/day={day}/{hour}.parquet": parquet("ab", 5000) for day in range(10) for hour in range(5)})
        output = tmp_path / "pages.parquet"
        done = self.run(*self.WORDS, "-o", str(output))
        assert done.exit_code == 0, done.output
        release = dpsample.read_release(output)
        assert set(release.table["k"].to_pylist()) == {"a", "b"}
        for secret in [*KEYS.values(), "canary"]:
            assert secret not in done.output
            assert secret.encode() not in output.read_bytes()

    def refused(self, words: list[str], tmp_path: Path) -> DpsampleError:
        """Return the refusal of a release with a ledger; nothing is written, and nothing spent."""
        ledger = tmp_path / "l.ledger"
        ledger.unlink(missing_ok=True)
        new_ledger(ledger, "clicks", dpsample.Privacy(1, "1e-6"), "user")
        before = ledger.read_bytes()
        done = self.run(*words, "--ledger", str(ledger), "-o", str(tmp_path / "o.parquet"))
        assert isinstance(done.exception, DpsampleError), done.output
        assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["l.ledger"]
        assert ledger.read_bytes() == before
        message = str(done.exception)
        assert len(message.splitlines()) == 1
        assert "canary" not in message
        assert done.exception.__context__ is None
        return done.exception

    def test_a_missing_bucket(self, bucket: Bucket, tmp_path: Path) -> None:
        problem = self.refused(["release", "s3://none/clicks", *self.WORDS[2:]], tmp_path)
        assert "there is no bucket 'none'" in str(problem)

    def test_a_missing_folder(self, bucket: Bucket, tmp_path: Path) -> None:
        problem = self.refused(list(self.WORDS), tmp_path)
        assert "there is no file or folder at 's3://lake/clicks'" in str(problem)

    def test_a_folder_without_data(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.put({"clicks/a.txt": b"no"})
        assert "there is no data file in the folder" in str(self.refused(list(self.WORDS), tmp_path))
        glob = ["release", "s3://lake/clicks/*.csv", *self.WORDS[2:]]
        assert "no file matches" in str(self.refused(glob, tmp_path))

    @pytest.mark.parametrize("kind", ["empty", "damaged", "cut off"])
    def test_a_broken_file(self, kind: str, bucket: Bucket, tmp_path: Path) -> None:
        content = {"empty": b"", "damaged": b"PAR1 broken PAR1", "cut off": parquet("ab", 500)[:-40]}[kind]
        bucket.put({"clicks/day=1/x.parquet": parquet("ab"), "clicks/day=2/x.parquet": content})
        assert "is not whole and readable" in str(self.refused(list(self.WORDS), tmp_path))

    def test_bad_credentials(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.put({"clicks/day=1/x.parquet": parquet("ab")})
        with checked_credentials(bucket):
            problem = self.refused(list(self.WORDS), tmp_path)
        assert "s3://lake did not accept the credentials" in str(problem)
        assert "AWS_ACCESS_KEY_ID" in str(problem)

    def test_a_server_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        for name, value in {**KEYS, "AWS_REGION": "us-east-1"}.items():
            monkeypatch.setenv(name, value)
        assert isinstance(self.refused(list(self.WORDS), tmp_path), SystemFailure)


class TestTheWeb:
    def test_a_file(self, bucket: Bucket) -> None:
        pytest.importorskip("aiohttp", reason="files of the web are tested where aiohttp is installed")
        days(bucket)
        bucket.put({"x.csv": b"k\na\n"})
        assert counted(Source(f"{bucket.url}/lake/other.parquet", "k")) == {("z",): 1}
        assert counted(Source(f"{bucket.url}/lake/x.csv?signature=canary", "k")) == {("a",): 1}
        with pytest.raises(InvalidValue, match="there is no"):
            counted(Source(f"{bucket.url}/lake/none.parquet", "k"))

    def test_what_is_shown(self) -> None:
        source = Source("https://example.org/x.csv?signature=canary", "k")
        assert repr(source) == "Source('https://example.org/x.csv', key='k')"
        assert source.paths == ["https://example.org/x.csv"]
        assert public_uri("s3://lake/day=?/x.csv") == "s3://lake/day=?/x.csv"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://example.org/x.csv", "write https://"),
        ("https://ada:canary@example.org/x.csv", "no user and no password"),
        ("s3://canary:canary@lake/x.csv", "no user and no password"),
        ("gs://canary@lake/x.csv", "no user and no password"),
        ("abfs://c:canary@account.dfs.core.windows.net/x.csv", "no user and no password"),
        ("ftp://example.org/x.csv", "s3://, gs://, abfs:// and https://"),
    ],
)
def test_refused_when_made(uri: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message) as refusal:
        Source(uri, "k")
    assert "canary" not in str(refusal.value)


def test_without_the_extra(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    days(bucket)
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(InvalidValue, match="fsspec and aiohttp; at least one is not installed; run: pip install"):
        counted(Source("s3://lake/clicks", "k"))

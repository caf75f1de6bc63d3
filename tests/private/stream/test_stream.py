"""Streams: what is held depends on the elements and the coins alone, and a stream is sanitized once."""

import io
import itertools
import os
import stat
from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import Privacy, Release, Sample, SampleAndHold, Stream, read_sample, read_stream, sanitize
from dpsample.private.randomness import GivenCoins
from dpsample.private.sanitizer import Sanitizer
from dpsample.private.stream import elements, held, stream
from dpsample.private.stream.batches import held_counts
from dpsample.private.stream.held import HeldKeys, words_of
from dpsample.private.stream.queries import QueryStream
from dpsample.release.terms import Terms
from places import VECTORS
from support import refused, run

PRIVACY = Privacy(1, "1e-6")
KINDS: list[list[Any]] = [
    ["a", "b", "B", "é", "日本", "", " ", "x" * 300],
    [0, 1, -1, 2**40, -(2**63), 2**63 - 1],
    [date(2020, 1, n) for n in range(1, 9)],
    [Decimal("1.50"), Decimal("-7.10"), Decimal("0.00")],
    [True, False],
    [b"", b"\xff\0", b"z"],
]


def slow(keys: list[Any], words: list[int], picked_words: int) -> dict[Any, int]:
    """Sample and hold, element by element."""
    held: dict[Any, int] = {}
    for key, word in zip(keys, words, strict=True):
        if key in held:
            held[key] += 1
        elif word < picked_words:
            held[key] = 1
    return held


def held_by(table: pa.Table) -> dict[Any, int]:
    *columns, counts = [column.to_pylist() for column in table.columns]
    keys = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
    return dict(zip(keys, counts, strict=True))


def table_of(stream: Stream) -> pa.Table:
    return stream.table.combine_chunks()


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("frequent", [0, 2, 4096])
def test_chunks_are_counted_as_elements_are(width: int, frequent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the keys that are counted at once are few, or all, and if others wait for each other."""
    monkeypatch.setattr(held, "_FREQUENT", max(frequent, 1))
    monkeypatch.setattr(held, "_WORTH", 0.1 if frequent else 2)
    monkeypatch.setattr(held, "_LEAST", 30)
    monkeypatch.setattr(held, "_PER_HELD", 1)
    generator = np.random.default_rng(width)
    hurried = 0
    for kinds in [KINDS[n:] + KINDS[:n] for n in range(len(KINDS))]:
        columns = {
            f"c{n}": pa.array([kind[i] for i in generator.integers(0, len(kind), 400)])
            for n, kind in enumerate(kinds[:width])
        }
        table = pa.table(columns)
        words = generator.integers(0, 2**64, 400, dtype=np.uint64)
        picked_words = 2**64 // 20
        made = HeldKeys(table.schema)
        ends = [0, *sorted(generator.integers(0, 401, 12).tolist()), 400]
        for start, end in itertools.pairwise(ends):
            made.count(table.slice(start, end - start), words[start:end], picked_words)
            hurried += len(made._frequent)
        rows = [tuple(row.values()) if width > 1 else row["c0"] for row in table.to_pylist()]
        assert held_by(made.table) == slow(rows, words.tolist(), picked_words)
    assert (hurried > 0) == (frequent > 0)


def test_each_element_has_a_word_of_its_own() -> None:
    """Wherever one starts. An element is picked with probability s: of 10**6 words, as many as a binomial law has."""
    words = words_of(bytes(32), 0, 1_000_000)
    for start in (0, 1, 2, 999, 524_288, 999_999):
        assert (words_of(bytes(32), start, 1_000_000 - start) == words[start:]).all()
    picked = int((words < np.uint64(SampleAndHold("0.1").picked_words)).sum())
    assert abs(picked - 1e6 * float(SampleAndHold("0.1").s)) < 6 * 300  # fixed words; 5 % of s would show


@pytest.mark.parametrize("tau", ["1e-12", "1e-3", "0.3", "5", "32"])
def test_a_number_picks_the_element_that_its_law_says(tau: str) -> None:
    """Numbers close to each q_g = 1 - (1 - s)**g, on both sides; 64 bits, and floats, are too few for most of them."""
    sampling, n, one, more = SampleAndHold(tau), 8, 1 << 1408, 1408 - 64
    q = [1 - (1 - sampling.s) ** g for g in range(1, n + 1)]
    for cut in q:
        for off in (-(1 << 1380), -8, 8, 1 << 1380):
            number = min(max(int(cut * one) + off, 0), one - 1)
            first = next((g for g, above in enumerate(q) if Fraction(number, one) < above), n)
            coins = GivenCoins(np.array([number >> more], np.uint64), number & ((1 << more) - 1))
            assert held_counts(np.array([n]), sampling, coins) == [n - first]


def test_batches_of_counted_keys_have_the_law_of_single_elements() -> None:
    """Of keys of six elements, in batches of three, one and two; fixed coins, six deviations of a binomial law."""
    sampling, n = SampleAndHold("0.3"), 100_000
    generator, held = np.random.default_rng(5), np.zeros(n, np.int64)
    for size in (3, 1, 2):
        words = generator.integers(0, 2**64, n, dtype=np.uint64)
        held = np.where(held > 0, held + size, held_counts(np.full(n, size), sampling, GivenCoins(words)))
    s = float(sampling.s)
    for count, p in [(0, (1 - s) ** 6), *((j, s * (1 - s) ** (6 - j)) for j in range(1, 7))]:
        assert abs(int((held == count).sum()) - n * p) < 6 * (n * p * (1 - p)) ** 0.5


@pytest.mark.chance("certain: the counts are given")
def test_a_batch_of_a_query_counts_once(tmp_path: Path) -> None:
    state = tmp_path / "s.private"
    Stream("0.1").write(state)
    coins = []
    for query, batch, keys in [("q", 0, ["a"]), ("q", 0, ["a"]), ("q", 1, ["a", "b"]), ("q", 1, ["a", "b"])]:
        made = QueryStream(state, query, batch)
        coins.append(made.coins.for_keys(pa.record_batch({"key": ["a"]}), "sample").first(1)[0])
        if not made.counted:
            made.add(pa.table({"key": keys, "frequency": np.arange(1, len(keys) + 1)}), 10)
    assert held_by(read_stream(state).table) == {"a": 2, "b": 2}
    assert read_stream(state).elements == 20
    assert coins[0] == coins[1] != coins[2] == coins[3]
    for query, batch, found in [("q", 3, "lacks"), ("other", 0, "another query"), ("other", 2, "another query")]:
        with refused("a state has all batches of one streaming query") as info:
            QueryStream(state, query, batch)
        assert found in str(info.value)
    late, again = QueryStream(state, "q", 2), QueryStream(state, "q", 2)
    late.add(pa.table({"key": ["a"], "frequency": [1]}), 1)
    with refused("a state is added to by one process at a time"):
        again.add(pa.table({"key": ["a"], "frequency": [1]}), 1)
    read_stream(state).sanitize(privacy=PRIVACY)
    with refused("a sample is sanitized once"):
        QueryStream(state, "q", 3)


@pytest.mark.usefixtures("fixed_coins")
def test_every_kind_of_batch_is_the_same_stream(tmp_path: Path) -> None:
    keys = [f"k{n * n % 37}" for n in range(2000)]
    table = pa.table({"key": keys})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=100)
    (tmp_path / "a.csv").write_text("n,key\n" + "".join(f"{n},{key}\n" for n, key in enumerate(keys)))
    batches: list[Any] = [
        table,
        table.to_batches()[0],
        pa.table({"key": table["key"].dictionary_encode()}),
        pa.table({"key": table["key"].cast(pa.large_string())}),
        table["key"],
        table["key"].combine_chunks(),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=33)),
        pandas.DataFrame({"key": keys, "other": 1}),
        pandas.Series(keys),
        polars.DataFrame({"key": keys}),
        polars.Series(keys),
        keys,
        iter(keys),
    ]
    first = Stream("0.02")
    secret, expected = first._secret, slow(keys, words_of(first._secret, 0, 2000).tolist(), first.sampling.picked_words)
    assert 5 < len(expected) < 37

    def same(added: Stream) -> None:
        assert held_by(added.table) == expected
        assert added.table.schema == pa.schema([("key", pa.string()), ("frequency", pa.int64())])

    def again() -> Stream:
        made = Stream("0.02")
        made._secret = secret
        return made

    for batch in batches:
        (made := again()).add(batch)
        same(made)
    for name in ("a.parquet", "a.csv"):
        (made := again()).add_files(tmp_path / name)
        same(made)
    (made := again()).add_pipe(io.BytesIO("\n".join(keys).encode()))
    same(made)
    (made := again()).add_pipe(io.BytesIO((tmp_path / "a.csv").read_bytes()), format="csv")
    same(made)
    (made := again()).add(table.slice(0, 7))
    made.add([])
    made.add(keys[7:])
    same(made)


class Killed(BaseException):
    """The end of a process."""


class Pipe(io.BytesIO):
    """A pipe whose reader is killed at a block."""

    left = 10**9

    def read(self, size: int | None = -1) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super().read(size)


@pytest.mark.usefixtures("fixed_coins")
def test_killed_ten_times_the_state_is_that_of_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and a pipe; the state is written after every batch, and every few chunks are counted."""
    monkeypatch.setattr(elements, "_BLOCK", 600)
    monkeypatch.setattr(stream, "_CHUNK", 250)
    generator = np.random.default_rng(8)
    keys = [f"key {n}" for n in (generator.pareto(1, 6000) * 10).astype(int)]
    text = "\n".join(keys).encode()
    files = [tmp_path / f"{n}.parquet" for n in range(3)]
    for n, file in enumerate(files):
        pq.write_table(pa.table({"key": keys[2000 * n : 2000 * n + 2000]}), file, row_group_size=300)

    undisturbed = Stream("0.01")
    undisturbed.add_pipe(io.BytesIO(text))
    undisturbed.add_files(files)
    twice = [*keys, *keys]
    words = words_of(undisturbed._secret, 0, len(twice)).tolist()
    assert held_by(undisturbed.table) == slow(twice, words, undisturbed.sampling.picked_words)

    state = tmp_path / "s.private"
    started = Stream("0.01")
    started._secret = undisturbed._secret
    started.write(state)
    for kill in range(10):
        pipe, resumed = Pipe(text), read_stream(state)
        pipe.left = 1 + kill * 6 + kill % 3
        with pytest.raises(Killed):
            resumed.add_pipe(pipe, state=state, every=0 if kill % 2 else 1e9)
    assert 0 < read_stream(state).elements < 6000
    read_stream(state).add_pipe(Pipe(text), state=state)
    assert read_stream(state).elements == 6000
    written = Stream.write
    for kill in range(10):

        def killed(self: Stream, path: Any, force: bool = False, at: int = 6000 + 600 * kill) -> None:
            written(self, path, force)
            if self.elements > at:
                raise Killed

        monkeypatch.setattr(Stream, "write", killed)
        with pytest.raises(Killed):
            read_stream(state).add_files(files, state=state, every=0)
    monkeypatch.setattr(Stream, "write", written)
    for _ in range(2):  # the second time there is nothing left to add
        read_stream(state).add_files(files, state=state)
    final = read_stream(state)
    assert final.elements == 12_000
    assert table_of(final).equals(table_of(undisturbed))
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


@pytest.mark.chance("odds 1e-13: with tau 32 an element is not picked with probability 1.3e-14")
def test_a_file_that_grows_is_added_as_it_grows(tmp_path: Path) -> None:
    log, state = tmp_path / "log.csv", tmp_path / "s.private"
    log.write_text("key\na\nb\n")
    made = Stream(32)
    made.add_files(log, state=state)
    with log.open("a") as file:
        file.write("a\nc\n")
    again = read_stream(state)
    again.add_files(log, state=state)
    assert again.elements == 4
    assert held_by(again.table) == {"a": 2, "b": 1, "c": 1}
    log.write_text("key\na\n")
    with refused("an input that was counted before has at least the elements that it had"):
        again.add_files(log, state=state)


@pytest.mark.chance("odds 1e-12: with tau 32 an element is not picked with probability 1.3e-14; keys are far above")
def test_a_stream_is_sanitized_once(tmp_path: Path) -> None:
    state = tmp_path / "s.private"
    made = Stream(32, "word")
    made.add(["cat"] * 300 + ["dog"] * 200)
    made.write(state)
    held = read_sample(state)
    assert repr(held) == "Sample (NOT private): 2 keys, SampleAndHold(tau='32')"
    other = read_stream(state)
    release = made.sanitize(privacy=PRIVACY)
    assert release.table["word"].to_pylist() == ["cat", "dog"]
    assert release.grid == 1
    assert 270 < release.table["token"][0].as_py() <= 300
    release.write(tmp_path / "out.parquet")
    assert dpsample.read_release(tmp_path / "out.parquet") == release
    for again in (made, other):
        with refused("a sample is sanitized once" if again is other else "a stream ends"):
            again.sanitize(privacy=PRIVACY)
    with refused("a stream ends"):
        made.add(["cat"])
    for read in (read_stream, lambda path: sanitize(read_sample(path), privacy=PRIVACY)):
        with refused("a sample is sanitized once"):
            read(state)
    with refused("a sample is sanitized once"):
        other.add(["dog"])
        other.write(state)


@pytest.mark.chance("certain: the state is one that was written")
def test_a_state_that_was_written_once_goes_on(tmp_path: Path) -> None:
    (tmp_path / "s.parquet").write_bytes((VECTORS / "sample-1-stream.parquet").read_bytes())
    made = read_stream(tmp_path / "s.parquet")
    assert (made.elements, made.shard, made.keys) == (420, (0, 2), ("query",))
    made.add(["a"])
    made.write(tmp_path / "s.parquet")
    assert read_stream(tmp_path / "s.parquet").elements == 421


@pytest.mark.chance("certain: only refusals are looked at")
def test_one_process_adds_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "s.private"
    first = Stream("0.1")
    first.write(state)
    second = read_stream(state)
    for made in (first, second):
        made.add(["a"] * 10)
    first.write(state)
    with refused("a state is added to by one process at a time"):
        second.write(state)
    with refused("an output that exists is not overwritten"):
        Stream("0.1").write(state)


@pytest.mark.usefixtures("fixed_coins")
def test_shards_of_the_keys_merge_exactly(tmp_path: Path) -> None:
    keys = [f"k{n * n % 97}" for n in range(3000)]
    shards = []
    expected: dict[str, int] = {}
    for r in range(3):
        shard = Stream("0.05", shard=(r, 3))
        own = [key for key in keys if int(key[1:]) % 3 == r]
        shard.add(own)
        expected |= slow(own, words_of(shard._secret, 0, len(own)).tolist(), shard.sampling.picked_words)
        shard.write(tmp_path / f"{r}.private")
        shards.append(read_stream(tmp_path / f"{r}.private"))
    merged = Stream.merge(shards)
    assert isinstance(merged, Sample)
    assert held_by(merged.table) == expected
    with refused("streams are merged"):
        Stream.merge(shards)
    with refused("a sample is sanitized once"):
        read_stream(tmp_path / "0.private")
    assert len(sanitize(merged, privacy=PRIVACY)) <= len(expected)


@pytest.mark.chance("odds 1e-13: with tau 32 an element is not picked with probability 1.3e-14")
def test_other_streams_do_not_merge() -> None:
    def made(tau: int = 32, shard: tuple[int, int] | None = None, key: Any = "a") -> Stream:
        added = Stream(tau, shard=shard)
        added.add([key], key_type="int64" if isinstance(key, int) else None)
        return added

    for others, found in [
        ([made(shard=(0, 2))], "fewer than two"),
        ([made(), made()], "states no shard"),
        ([made(shard=(0, 2)), made(shard=(0, 2))], "one shard twice"),
        ([made(shard=(0, 2)), made(shard=(1, 3))], "different divisions"),
        ([made(shard=(0, 2)), made(31, shard=(1, 2))], "different tau"),
        ([made(shard=(0, 2)), made(shard=(1, 2), key=7)], "different types"),
    ]:
        with refused("streams are merged if they state disjoint shards") as info:
            Stream.merge(others)
        assert found in str(info.value)
    with refused("shards have disjoint sets of keys", hidden=["secret key"]):
        Stream.merge([made(shard=(r, 2), key="secret key") for r in range(2)])
    for shard in [(2, 2), (0, 0), (-1, 2), "0/2", (0.5, 2)]:
        with refused("a shard is its number"):
            Stream(1, shard=shard)  # type: ignore[arg-type]


@pytest.mark.chance("certain: only refusals are looked at")
def test_what_is_no_batch_is_refused_and_not_added() -> None:
    made = Stream("0.1")
    made.add(pa.table({"key": ["a", "b"]}))
    for batch, rule in [
        ("file.parquet", "a batch is a table"),
        (Counter("abc"), "a stream has one row for each element"),
        (pa.table({"key": ["c", None]}), "the key column 'key' must have no NULL"),
        (["c", None], "the key column 'key' must have no NULL"),
        (pa.table({"key": [1, 2]}), "all keys of a stream have the types of the first ones"),
        (pa.table({"other": ["a"]}), "the column 'key' must be in"),
        (7, "a source is a path"),
    ]:
        with refused(rule):
            made.add(batch)
    assert made.elements == 2
    made.add(pa.table({"key": ["c", None]}), drop_null=True)
    assert made.elements == 3
    with refused("a pipe has text in UTF-8", hidden=["secret"]):
        made.add_pipe(io.BytesIO(b"secret\xff\n"))
    with refused("each line has 2 fields", hidden=["secret"]):
        Stream(1, ["a", "b"]).add_pipe(io.BytesIO(b"secret\n"), delimiter="\t")
    with refused("a pipe of CSV", hidden=["secret"]):
        Stream(1).add_pipe(io.BytesIO(b"key,b\nsecret\n"), format="csv")
    with refused("a pipe has lines, csv or tsv"):
        made.add_pipe(io.BytesIO(), format="parquet")
    with refused("a key column cannot be called"):
        Stream(1, "frequency")
    with refused("keys are held while a stream comes"):
        dpsample.release(["a"], privacy=PRIVACY, sampling=SampleAndHold("0.1"))


def test_answers_of_a_stream_have_their_coverage() -> None:
    """Of 100 releases by fixed coins, asked as groups of one, the 95 % intervals of three answers hold in 88 or more.

    A true coverage of 80 % would be found with probability 0.97 for each answer.
    """
    sampling, generator = SampleAndHold("1e-3"), np.random.default_rng(4)
    i = (300 * (generator.pareto(1.2, 200) + 1)).astype(np.int64)
    count = np.tile(i, (100, 1)) - generator.geometric(float(sampling.s), (100, len(i))) + 1
    run, key = np.nonzero(count > 0)
    words = generator.integers(0, 2**64, len(key), dtype=np.uint64)
    rows, tokens = Sanitizer(sampling, PRIVACY)(count[run, key], GivenCoins(words))
    table = pa.table({"run": run[rows], "key": key[rows], "token": tokens * 1.0})
    release = Release(table, Terms(PRIVACY, sampling, ("run", "key"), grid=1))
    capped = release.sum(of="capped:5000", at_least=2000, by="run")
    for answers, g in [
        (release.sum(by="run"), i),
        (release.count_keys(by="run"), np.ones_like(i)),
        (capped, np.minimum(i, 5000)),
    ]:
        assert answers.at_least is not None
        truth = g[i >= answers.at_least].sum()
        assert len(answers) == 100
        assert sum(answer.low <= truth <= answer.high for _, answer in answers) >= 88
    assert not any(answer.guaranteed for _, answer in release.quantiles([0.5, 0.9], "run = 3"))


def test_single_keys_are_those_of_the_table() -> None:
    sampling, generator = SampleAndHold("1e-3"), np.random.default_rng(4)
    tokens = np.sort((300 * (generator.pareto(1, 150) + 1)).astype(np.int64))[::-1]
    release = Release(pa.table({"key": range(150), "token": tokens * 1.0}), Terms(PRIVACY, sampling, ("key",), grid=1))
    best = release.top(3)
    assert best.groups["key"].to_pylist() == [0, 1, 2]
    for answers in (best, release.each_key()):
        for column, name in (("value", "estimate"), ("low", "low"), ("high", "high")):
            assert answers.numbers[column].to_pylist() == release.table[name].to_pylist()[: len(answers)]
    for single in (release[7], release.sum([7])):
        assert [single.value, single.low, single.high] == [
            release.table[n][7].as_py() for n in ("estimate", "low", "high")
        ]
    rank = release.rank(0)
    assert rank.guaranteed
    assert rank.value < 2
    assert not release.rank(149).guaranteed  # its interval begins below the detection threshold
    assert release.compare(0, 2) > 0.9
    for together in (dpsample.combine, dpsample.changes):
        with refused("releases with tokens, and without known keys, are combined"):
            together(release, release)
    assert release[-1].high == pytest.approx(3003, abs=10)  # -ln(0.05) / s, and the noise


@pytest.mark.chance("odds 1e-10: with tau 32 an element is not picked with probability 1.3e-14")
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(b"Oslo\t1\n" * 1000 + b"Rome\t2\n" * 900)

    monkeypatch.setattr("sys.stdin", Input)
    keys = ["-k", "city", "-k", "n", "--delimiter", "\\t"]
    made = run("stream", *keys, "--tau", "32", "--state", "s.private", "--show-private", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "1,900 elements, 2 held keys" in made.stdout
    assert "NOT private" in made.stdout
    assert "Oslo" not in made.stdout
    other = run("stream", "--tau", "1", "--state", "s.private", cwd=tmp_path)
    assert other.returncode == 2
    assert "found another --tau" in other.stderr
    assert run("stream", "--state", "new.private", cwd=tmp_path).returncode == 2
    done = run("sanitize", "s.private", "-e", "1", "-d", "1e-6", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    proof = run("verify", "out.parquet", "--require-complete", cwd=tmp_path)
    assert proof.returncode == 0
    assert "sample and hold" in proof.stdout
    assert "every frequency is covered" in proof.stdout
    pq.write_table(pa.table({"key": ["a"] * 1000}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"key": ["b"] * 1000}), tmp_path / "1.parquet")
    for r in range(2):
        options = ["--tau", "32", "--shard", f"{r}/2", "--state", f"{r}.private"]
        assert run("stream", f"{r}.parquet", *options, cwd=tmp_path).returncode == 0
    merged = run("stream", "--merge", "0.private", "1.private", "--state", "all.private", cwd=tmp_path)
    assert merged.returncode == 0, merged.stderr
    assert len(read_sample(tmp_path / "all.private")) == 2
    assert os.listdir(tmp_path).count("all.private") == 1

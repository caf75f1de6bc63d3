"""Streams: what is held depends on the elements and the coins alone, and a stream is sanitized once."""

import io
import itertools
import stat
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

from dpsample import SampleAndHold, Stream, read_stream
from dpsample.private.stream import elements, held, stream
from dpsample.private.stream.batches import held_counts
from dpsample.private.stream.held import HeldKeys, words_of
from dpsample.private.stream.queries import QueryStream
from given_coins import GivenCoins
from streams import PRIVACY, held_by, slow
from support import refused

KINDS: list[list[Any]] = [
    ["a", "b", "B", "é", "日本", "", " ", "x" * 300],
    [0, 1, -1, 2**40, -(2**63), 2**63 - 1],
    [date(2020, 1, n) for n in range(1, 9)],
    [Decimal("1.50"), Decimal("-7.10"), Decimal("0.00")],
    [True, False],
    [b"", b"\xff\0", b"z"],
]


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
    for query, batch, found in [
        ("q", 3, "lacks"),
        ("other", 0, "another streaming query"),
        ("other", 2, "another streaming query"),
    ]:
        with refused("the state ") as info:
            QueryStream(state, query, batch)
        assert found in str(info.value)
    late, again = QueryStream(state, "q", 2), QueryStream(state, "q", 2)
    late.add(pa.table({"key": ["a"], "frequency": [1]}), 1)
    with refused("another process has changed the state"):
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
    with refused("an input has fewer elements"):
        again.add_files(log, state=state)

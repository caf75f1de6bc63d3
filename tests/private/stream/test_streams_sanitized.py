"""Streams are sanitized once, merged by shards, and answer as releases do."""

import io
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsample
from dpsample import Release, Sample, SampleAndHold, Stream, read_sample, read_stream, sanitize
from dpsample.private.sanitizer import Sanitizer
from dpsample.private.stream.held import words_of
from given_coins import GivenCoins
from places import VECTORS
from stated_terms import stated_terms
from streams import PRIVACY, held_by, slow
from support import refused, run


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
        with refused("a sample is sanitized once" if again is other else "the stream ended"):
            again.sanitize(privacy=PRIVACY)
    with refused("the stream ended"):
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
    with refused("another process has changed the state"):
        second.write(state)
    with refused("exists already"):
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
    with refused("these streams cannot be merged"):
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
        ([made(shard=(0, 2)), made(shard=(0, 2))], "a shard is there twice"),
        ([made(shard=(0, 2)), made(shard=(1, 3))], "different divisions"),
        ([made(shard=(0, 2)), made(31, shard=(1, 2))], "different tau"),
        ([made(shard=(0, 2)), made(shard=(1, 2), key=7)], "different types"),
    ]:
        with refused("these streams cannot be merged") as info:
            Stream.merge(others)
        assert found in str(info.value)
    with refused("two shards hold the same key", hidden=["secret key"]):
        Stream.merge([made(shard=(r, 2), key="secret key") for r in range(2)])
    for shard in [(2, 2), (0, 0), (-1, 2), "0/2", (0.5, 2)]:
        with refused("a shard must be its number"):
            Stream(1, shard=shard)  # type: ignore[arg-type]


@pytest.mark.chance("certain: only refusals are looked at")
def test_what_is_no_batch_is_refused_and_not_added() -> None:
    made = Stream("0.1")
    made.add(pa.table({"key": ["a", "b"]}))
    for batch, rule in [
        ("file.parquet", "not a path"),
        (Counter("abc"), "a stream has one row for each element"),
        (pa.table({"key": ["c", None]}), "the key column 'key' must have no NULL"),
        (["c", None], "the key column 'key' must have no NULL"),
        (pa.table({"key": [1, 2]}), "keys have other types than the first ones"),
        (pa.table({"other": ["a"]}), "the column 'key' must be in"),
        (7, "is no source"),
    ]:
        with refused(rule):
            made.add(batch)
    assert made.elements == 2
    made.add(pa.table({"key": ["c", None]}), drop_null=True)
    assert made.elements == 3
    with refused("the text of the pipe is not in UTF-8", hidden=["secret"]):
        made.add_pipe(io.BytesIO(b"secret\xff\n"))
    with refused("each line must have 2 fields", hidden=["secret"]):
        Stream(1, ["a", "b"]).add_pipe(io.BytesIO(b"secret\n"), delimiter="\t")
    with refused("a pipe of CSV", hidden=["secret"]):
        Stream(1).add_pipe(io.BytesIO(b"key,b\nsecret\n"), format="csv")
    with refused("a pipe must have lines, csv or tsv"):
        made.add_pipe(io.BytesIO(), format="parquet")
    with refused("a key column cannot be called"):
        Stream(1, "frequency")
    with refused("SampleAndHold is a scheme for streams"):
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
    release = Release(table, stated_terms(PRIVACY, sampling, ("run", "key"), grid=1))
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
    release = Release(pa.table({"key": range(150), "token": tokens * 1.0}), stated_terms(PRIVACY, sampling))
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
        with refused("one of the releases is there twice"):
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
    assert "1,900 elements, 2 held keys" in made.stderr
    assert "NOT private" in made.stderr
    assert "Oslo" not in made.stdout + made.stderr
    other = run("stream", "--tau", "1", "--state", "s.private", cwd=tmp_path)
    assert other.returncode == 2
    assert "--tau of a state cannot be changed" in other.stderr
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

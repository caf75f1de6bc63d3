"""Users, sizes, totals and ledgers on a real cluster: users are bounded, the same way whatever is run again."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import stats

import dpsample.spark
import faults
from clusters import Cluster
from dpsample import InvalidValue, KeepAll, Ppswor, Privacy, Release, SampleSize, Source, SystemFailure, read_release
from dpsample.accounting.many_keys import chosen_per_key
from dpsample.cli import cli
from dpsample.ledger.ledger import new_ledger, read_ledger
from dpsample.private.charge import NoLedger
from dpsample.private.derived_coins import Secret
from dpsample.private.draw import drawn_release
from dpsample.private.drawing import Counting, Drawing
from dpsample.private.engine.spark import Spark, assignment
from dpsample.private.engine.spark.frames import Frame
from dpsample.private.engine.spark.jobs import Job, draw_keys
from dpsample.private.progress import Progress
from dpsample.private.randomness import SecretCoins
from dpsample.private.request import Request
from dpsample.scheme.sampling import Ints
from spark_tasks import KEY, PRIVACY, killed
from spark_tasks import phases as phases
from support import refused

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark"),
    pytest.mark.chance(
        "odds 2e-9: a chi-square beyond 1e-9, noise beyond 25 scales or 9 deviations; elsewhere a given secret"
    ),
]


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 users with 1 to 9 of 40 keys each, and one in all keys; every row at least twice; in three files."""
    folder = tmp_path_factory.mktemp("clicks")
    rows = [(f"u{n}", f"key {(n + i * i) % 40}") for n in range(2000) for i in range(1 + n % 9)]
    rows = 2 * rows + 3 * [("everybody", f"key {i}") for i in range(40)]
    for n in range(3):
        part = rows[n::3]
        pq.write_table(
            pa.table({"k": [key for _, key in part], "u": [user for user, _ in part]}), folder / f"{n}.parquet"
        )
    return folder


def pairs(clicks: Path) -> dict[str, set[str]]:
    """The keys of each user."""
    found = defaultdict(set)
    for row in pq.read_table(clicks).to_pylist():
        found[row["u"]].add(row["k"])
    return found


def kept(source: Source, limit: int, key: bytes = KEY, **options: Any) -> Counter[str]:
    """The numbers of users who keep each key."""
    with Spark(**options) as engine:
        bounded = engine.bounded(source, limit, Secret(key), rereads=False)
        counting = Counting(bounded, engine.check(bounded), KeepAll())
        table = Job(engine, counting, Secret(key)).sample().table
        return Counter(dict(zip(table["k"].to_pylist(), table["frequency"].to_pylist(), strict=True)))


def drawn(source: Source, **options: Any) -> Release:
    """A release with a given secret."""
    request = Request.of(source, privacy=PRIVACY, max_keys_per_user=3, **options)
    return drawn_for(request)


def drawn_for(request: Request) -> Release:
    """Carry out a request with a given secret."""
    with Spark() as engine:
        drawing = Drawing(engine, request, engine.check(request.source), Secret(KEY), Progress(), draw_keys)
        with drawn_release(drawing) as release:
            return release.in_memory(NoLedger())


def frequencies(engine: Spark, source: Source) -> dict[str, int]:
    """The keys of a source, and their frequencies."""
    rows = [row for batch in engine.aggregated(source) for row in batch.to_pylist()]
    return {row["k"]: row["frequency"] for row in rows}


def units(source: Source, key: bytes = KEY, **options: Any) -> tuple[dict[str, int], list[int]]:
    """The units of each key, of which none has more than 60, and the sizes of users."""
    with Spark(**options) as engine:
        made = engine.assigned(source, 60, Secret(key))
        return frequencies(engine, made.source), made.sizes.tolist()


def counting(keys: int) -> Callable[[Iterator[tuple[Ints, ...]]], Ints]:
    """Return a kernel that counts the users of wanted keys; workers get it without this module."""

    def count(batches: Iterator[tuple[Ints, ...]]) -> Ints:
        return sum((np.bincount(batch[1], minlength=keys) for batch in batches), start=np.zeros(keys, int))

    return count


@pytest.fixture(scope="module")
def calm(spark: Any, clicks: Path) -> tuple[dict[str, int], list[int]]:
    """The units of each key, and the sizes of users, when nothing happens."""
    return units(Source(clicks, "k", user="u"))


class TestBounding:
    def test_each_user_keeps_the_keys_with_the_smallest_numbers(self, spark: Any, clicks: Path) -> None:
        def number(user: str, key: str) -> tuple[int, int]:
            said = len(user.encode()).to_bytes(8, "little") + user.encode() + key.encode()
            hashed = hashlib.blake2b(said, digest_size=16, key=KEY, person=b"keep").digest()
            return int.from_bytes(hashed[:8], "little", signed=True), int.from_bytes(hashed[8:], "little", signed=True)

        of = pairs(clicks)
        oracle: Counter[str] = Counter()
        for user, keys in of.items():
            oracle.update(sorted(keys, key=lambda key, user=user: number(user, key))[:3])  # type: ignore[misc]
        assert sum(oracle.values()) == sum(min(3, len(keys)) for keys in of.values()) < sum(map(len, of.values()))
        assert kept(Source(clicks, "k", user="u"), 3) == oracle
        # in another order, in other partitions, with rows repeated once more
        frame = spark.read.parquet(f"file:{clicks}")
        other = Source(frame.union(frame).orderBy("k").repartition(5), "k", user="u")
        assert kept(other, 3, partitions=3) == oracle
        assert kept(other, 3, bytes(32)) != oracle

    def test_the_choice_is_uniform(self, spark: Any) -> None:
        # 20,000 users with the same five things keep 2, of which keys tell; each of ten pairs is multinomial:
        # chi-square, odds of a false alarm 1e-9
        users = 20_000
        frame = spark.range(5 * users).selectExpr("id % 20000 AS u", "id AS k")
        made = dpsample.spark.sample(frame, "k", sampling=KeepAll(), user="u", max_keys_per_user=2)
        assert made.max_keys == 2
        keys = np.sort(made.table["k"].to_numpy())
        keys = keys[np.argsort(keys % users, kind="stable")].reshape(users, 2)
        assert (keys[:, 0] % users == keys[:, 1] % users).all()
        seen = Counter(zip(*(keys // users).T.tolist(), strict=True))
        counts = [seen[pair] for pair in combinations(range(5), 2)]
        assert sum(counts) == users
        assert stats.chisquare(counts).pvalue > 1e-9

    def test_a_user_with_very_many_keys(self, spark: Any) -> None:
        # also above the limit up to which Spark leaves keys out early
        frame = spark.range(600_000).selectExpr("if(id < 500000, 0, id % 1000) AS u", "id % 500000 AS k")
        for limit in (10, 1500):
            with Spark() as engine:
                bounded = engine.bounded(Source(frame, "k", user="u"), limit, Secret(), rereads=False)
                assert engine.total(bounded) == limit + 999 * min(limit, 100)

    def test_a_worker_is_killed_while_users_are_bounded(
        self, cluster: Cluster, clicks: Path, phases: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, found = Source(clicks, "k", user="u"), Frame.pairs
        calm = drawn(source)
        halting = faults.halting(faults.same, str(phases), "counting and sanitizing keys", 0)
        monkeypatch.setattr(Frame, "pairs", lambda self: faults.rows_of(found(self), halting))
        assert killed(cluster, phases, lambda: drawn(source)) == calm
        assert len(calm) == 40

    @pytest.mark.parametrize(("kernel", "phase"), [("packing", "sorting users"), ("_place", "assigning users")])
    def test_a_worker_is_killed_while_users_are_assigned(
        self, kernel: str, phase: str, cluster: Cluster, clicks: Path, calm: Any, phases: Path, monkeypatch: Any
    ) -> None:
        """One of the tasks that sort, with the rows that it has read, or the one task that places all units."""
        source, make = Source(clicks, "k", user="u"), getattr(assignment, kernel)
        monkeypatch.setattr(assignment, kernel, lambda *given: faults.halting(make(*given), str(phases), phase, 0))
        assert killed(cluster, phases, lambda: units(source)) == calm
        assert max(calm[0].values()) == 60 > min(calm[0].values())
        assert sum(calm[1]) == 2001

    WANTED = tuple(f"key {k}" for k in range(0, 40, 2))

    def test_what_is_lost_is_made_again(self, cluster: Cluster, clicks: Path, calm: Any) -> None:
        """The workers that keep units and pairs are killed before they are read."""
        source = Source(clicks, "k", user="u")
        with Spark() as engine:
            made = engine.assigned(source, 60, Secret(KEY), keep_pairs=True)
            for name in list(cluster._workers):
                cluster.kill(f"/{name}/")
                cluster.wait()
            assert frequencies(engine, made.source) == calm[0]
            found = engine.summed(engine.pairs_of(source, pa.table({"k": self.WANTED}), made), counting(20))
        oracle = Counter(key for keys in pairs(clicks).values() for key in keys)
        assert found.tolist() == [oracle[key] for key in self.WANTED]

    def test_a_worker_is_killed_among_pairs(self, cluster: Cluster, clicks: Path, phases: Path) -> None:
        """It has some of the pairs, which are found again."""
        source, folder, count_users = Source(clicks, "k", user="u"), str(phases), counting(20)

        def count(batches: Iterator[tuple[Ints, ...]]) -> Ints:
            total = count_users(batches)
            faults.wait_here(Path(folder, "here"))
            return total

        def work() -> list[int]:
            with Spark() as engine:
                return [int(n) for n in engine.summed(engine.pairs_of(source, pa.table({"k": self.WANTED})), count)]

        found = killed(cluster, phases, work)
        oracle = Counter(key for keys in pairs(clicks).values() for key in keys)
        assert found == [oracle[key] for key in self.WANTED]

    def test_random_rows_are_refused_for_units_and_pairs(self, spark: Any) -> None:
        source = Source(spark.range(100).selectExpr("id AS u", "if(rand() < 0.5, 1, 2) AS k"), "k", user="u")
        with Spark() as engine:
            with refused("may be others when they are read again"):
                engine.assigned(source, 18, Secret(KEY))
            with refused("may be others when they are read again"):
                engine.pairs_of(source, pa.table({"k": [1]}))
            with pytest.raises(TypeError, match="coins of a Secret"):
                engine.assigned(source, 18, SecretCoins())

    def test_units_do_not_depend_on_partitions(self, spark: Any, clicks: Path, calm: Any) -> None:
        frame = spark.read.parquet(f"file:{clicks}")
        other = Source(frame.union(frame).orderBy("k").repartition(5), "k", user="u")
        assert units(other, partitions=3) == calm
        assert units(other, bytes(32)) != calm

    def test_two_passes(self, clicks: Path) -> None:
        made = dpsample.spark.sample(
            Source(clicks, "k", user="u"), sampling=Ppswor(50), max_keys_per_user=1000, strategy="two-pass"
        )
        oracle = Counter(key for keys in pairs(clicks).values() for key in keys)
        # a key of frequency i is left out with odds exp(-50 i)
        assert dict(zip(*(column.to_pylist() for column in made.table.columns), strict=True)) == oracle

    def test_random_rows_are_refused(self, spark: Any) -> None:
        frame = spark.range(100).selectExpr("id AS u", "if(rand() < 0.5, 1, 2) AS k")
        with pytest.raises(InvalidValue, match="may be others when they are read again"):
            dpsample.spark.release(frame, "k", privacy=PRIVACY, user="u", max_keys_per_user=2)
        with pytest.raises(InvalidValue, match="reads its source twice"):
            dpsample.spark.release(frame, "k", privacy=PRIVACY, total=True)


class TestTotals:
    def test_users_with_a_total_in_a_folder(self, clicks: Path, tmp_path: Path) -> None:
        source, privacy = Source(clicks, "k", user="u"), Privacy(1, 1e-3)
        dpsample.spark.release_to_folder(tmp_path / "out", source, privacy=privacy, max_keys_per_user=3, total="0.5")
        made = dpsample.read_release(tmp_path / "out")
        assert (made.unit, made.terms.max_keys, made.privacy) == ("user", 3, privacy)
        assert made.per_key == chosen_per_key(Privacy("0.5", 1e-3), 3)
        assert made.total is not None
        assert made.terms.bought.dropped is not None
        assert (made.total.epsilon, made.total.sensitivity) == (Fraction(1, 4), Fraction(3))
        # the noise has scales 12 and 108: odds of a false alarm 2 exp(-25) = 3e-11 each
        sizes = [len(keys) for keys in pairs(clicks).values()]
        assert abs(float(made.total.value) - sum(min(3, n) for n in sizes)) <= 25 * 12
        assert abs(float(made.terms.bought.dropped.value) - sum(min(max(n - 3, 0), 27) for n in sizes)) <= 25 * 108

    @pytest.mark.parametrize(
        ("size", "users"),
        [(SampleSize(20), False), (SampleSize(10, "priority", power="0.5", share="0.9"), True)],
        ids=str,
    )
    def test_sizes_by_any_weight(self, size: SampleSize, users: bool, spark: Any, clicks: Path) -> None:
        rows = [(row["u"], row["k"]) for row in pq.read_table(clicks).to_pylist()]
        frequencies = Counter(key for _, key in (set(rows) if users else rows))
        truth = sum(n ** float(size.power) for n in frequencies.values())
        options: dict[str, Any] = {"user": "u", "max_keys_per_user": 40} if users else {}
        frame = spark.read.parquet(f"file:{clicks}")
        made = dpsample.spark.release(frame, "k", privacy=Privacy(20, 1e-3), size=size, **options)
        assert made.terms.bought.size is not None
        weights = made.terms.bought.size.weights
        # 40 keys, each rounded down by less than 2**-16; odds of a false alarm of the noise exp(-25) = 2e-11
        assert abs(float(weights.value) - truth) < 25 * float(weights.scale) + 0.001
        assert made.sampling == size.sampling(weights)
        assert weights.epsilon == 20 * size.share

    def test_a_total_of_frequencies(self, spark: Any) -> None:
        large = 2**63 - 1
        frame = spark.createDataFrame([("a", large), ("b", large), ("c", 5)], "k string, n bigint")
        with Spark() as engine:
            assert engine.total(Source(frame, "k", "n")) == 2 * large + 5
            assert engine.total(Source(frame.filter("n < 0"), "k", "n")) == 0


class TestLedger:
    def test_a_release_is_entered_or_refused(self, clicks: Path, tmp_path: Path) -> None:
        book, source = tmp_path / "book", Source(clicks, "k", user="u")
        dpsample.new_ledger(book, "clicks", Privacy(1, 1e-2), unit="user")
        options: dict[str, Any] = {"privacy": PRIVACY, "max_keys_per_user": 3, "ledger": book}
        first = dpsample.spark.release(source, **options)
        dpsample.spark.release_to_folder(tmp_path / "out", source, **options)
        entries = dpsample.read_ledger(book).entries
        second = dpsample.read_release(tmp_path / "out")
        assert [entry.hash for entry in entries] == [first.terms.ledger, second.terms.ledger]
        assert [entry.release for entry in entries] == ["(in memory)", str(tmp_path / "out")]
        with refused("may spend epsilon 1, delta 0.01 together", hidden=["key "]):
            dpsample.spark.release_to_folder(tmp_path / "more", source, **options)
        assert not (tmp_path / "more").exists()

    def test_it_is_spent_when_all_is_drawn(self, clicks: Path, tmp_path: Path, monkeypatch: Any) -> None:
        book, source = tmp_path / "book", Source(clicks, "k")
        dpsample.new_ledger(book, "clicks", Privacy(2, 1e-2))
        monkeypatch.setattr("dpsample.private.engine.spark.jobs._drafted", faults.elsewhere)
        with pytest.raises(SystemFailure) as early:
            dpsample.spark.release_to_folder(tmp_path / "out", source, privacy=PRIVACY, ledger=book)
        # tokens were drawn, and lie where nobody can remove them
        assert early.value.__notes__ == ["its privacy is spent: it stays in the ledger"]
        assert [entry.status for entry in dpsample.read_ledger(book).entries] == ["reserved"]
        monkeypatch.undo()

        def full(*_: Any) -> None:
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "else").touch()  # somebody else is faster: the folder cannot get its name

        monkeypatch.setattr("dpsample.private.engine.spark.jobs.commit_parts", full)
        with pytest.raises(InvalidValue) as late:
            dpsample.spark.release_to_folder(tmp_path / "out", source, privacy=PRIVACY, ledger=book)
        assert late.value.__notes__ == ["its privacy is spent: it stays in the ledger"]
        assert [entry.status for entry in dpsample.read_ledger(book).entries] == ["reserved", "reserved"]
        assert {path.name for path in tmp_path.iterdir()} == {"book", "out"}


class TestCommand:
    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments], catch_exceptions=False)

    def test_all_of_it(self, cluster: Cluster, clicks: Path, tmp_path: Path) -> None:
        source = [f"file:{clicks}", "-k", "k", "--user", "u", "--max-keys-per-user", "3"]
        engine = ["--engine", "spark", "--master", cluster.address]
        budget = ["-e", "1", "-d", "1e-3", "--ledger", f"{tmp_path}/book"]
        dpsample.new_ledger(tmp_path / "book", "clicks", Privacy(3, 1e-2), unit="user")
        totals = ["--scheme", "ppswor", "--sample-size", "1000", "--with-total"]
        for output in (f"{tmp_path}/out/", f"{tmp_path}/out.parquet"):
            done = self.run("release", *source, *engine, *budget, *totals, "-o", output)
            assert done.exit_code == 0, done.output
            made = dpsample.read_release(output.rstrip("/"))
            assert made.terms.bought.size is not None
            assert made.total is not None
            assert made.per_key == chosen_per_key(Privacy("0.9", 1e-3), 3, all_keys=False)
            assert "Ledger  entry " in done.output
            assert "by Spark, strategy: aggregate, partitions: 4" in done.output
            assert dpsample.read_ledger(tmp_path / "book").entries[-1].release == output
        done = self.run("sample", *source, *engine, "--scheme", "ppswor", "--tau", "1", "-o", f"{tmp_path}/s.parquet")
        assert done.exit_code == 0, done.output
        assert dpsample.read_sample(tmp_path / "s.parquet").max_keys == 3


class TestDiscovery:
    """Users without a contribution bound: keys are found and counted where the rows are."""

    BUDGET = Privacy(3, 1e-6)

    def discovered(self, clicks: Path, **options: Any) -> Release:
        """A release by a given secret; only the noise of the counts is drawn anew."""
        request = Request.of(Source(clicks, "k", user="u"), privacy=self.BUDGET, discover="one-key", **options)
        return drawn_for(request)

    def test_keys_are_found_and_their_users_counted(self, clicks: Path) -> None:
        of = pairs(clicks)
        truth = Counter(key for keys in of.values() for key in keys)
        release = self.discovered(clicks, rows=3)
        found = release.table["k"].to_pylist()
        assert len(found) > 30
        numbers = zip(*(release.table[name].to_pylist() for name in ("measured", "standard_error")), strict=True)
        for key, (measured, error) in zip(found, numbers, strict=True):
            assert abs(measured - truth[key]) < 9 * error
        assert max(release.table["standard_error"].to_pylist()) < 120
        rows = Counter[str]()
        for row in pq.read_table(clicks).group_by(["u", "k"]).aggregate([([], "count_all")]).to_pylist():
            rows[row["k"]] += min(row["count_all"], 3)
        numbers = zip(*(release.table[name].to_pylist() for name in ("rows_measured", "rows_error")), strict=True)
        for key, (measured, error) in zip(found, numbers, strict=True):
            assert abs(measured - rows[key]) < 9 * error
        only = self.discovered(clicks, keys_only=True)
        assert only.table.column_names == ["k"]
        assert only == self.discovered(clicks, keys_only=True)

    @pytest.mark.usefixtures("fixed_coins")  # else the look errs once in 700 times, and no key is found
    def test_a_folder_and_a_ledger(self, clicks: Path, tmp_path: Path) -> None:
        ledger = tmp_path / "clicks.ledger"
        new_ledger(ledger, "clicks", Privacy(9, 1e-5), "user")
        options: dict[str, Any] = {"privacy": self.BUDGET, "total": True, "ledger": ledger}
        keys = dpsample.spark.release_to_folder(tmp_path / "out", Source(clicks, "k", user="u"), **options)
        release = read_release(tmp_path / "out")
        assert len(release) == keys > 20
        assert release.terms.counts is not None
        assert release.terms.ledger == read_ledger(ledger).entries[0].hash
        assert release.total is not None
        pairs_of_all = sum(map(len, pairs(clicks).values()))
        assert abs(int(release.total.value) - pairs_of_all) < 40 * float(release.total.scale)


class TestKnownKeys:
    @pytest.mark.parametrize("only", [False, True])
    def test_users_of_known_keys_are_counted(self, clicks: Path, only: bool) -> None:
        listed = [*sorted({key for keys in pairs(clicks).values() for key in keys})[:2], "nobody has it"]
        source = Source(clicks, "k", user="u")
        release = dpsample.spark.release(source, privacy=Privacy(2, 1e-6), keys=listed, only_known=only)
        rows = zip(release.table["k"].to_pylist(), release.table["known"].to_pylist(), strict=True)
        assert [key for key, known in rows if known] == sorted(listed, key=str.encode)
        assert release.terms.discovery is not None
        assert (release.terms.discovery.method == "none") == only
        assert len(release) == 3 or not only

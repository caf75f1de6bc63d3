"""Ledgers: sums, chains, races, kills."""

import contextlib
import errno
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsample
import dpsample.accounting.ledger_file
from dpsample import InvalidValue, Privacy, SystemFailure, new_ledger, read_ledger
from dpsample.accounting.budget import Budget
from dpsample.accounting.charges import Charge, Entry, scheme_form
from dpsample.accounting.composition import composed_delta
from dpsample.accounting.ledger import check_ledger, release_sha256, reserve_budget, verify_releases
from dpsample.private.prepare import terms_of
from support import refused

pytestmark = pytest.mark.chance("certain: what is spent does not depend on what is drawn")
BUDGET = Privacy(2, 1e-6)
SAMPLING = dpsample.Ppswor("0.5", cap=10)
HALF = Charge(Privacy("0.5", "1e-7"), "element", "half.parquet")


def spend(path: Path | str, privacy: Privacy, unit: str, release: str) -> Entry:
    """Reserve and confirm."""
    with reserve_budget(path, Charge(privacy, unit, release)) as reservation:
        reservation.mark_drawn()
        reservation.confirm()
    return read_ledger(path).entries[-1]


def fill(path: Path, *amounts: tuple[str, str]) -> None:
    for n, (epsilon, delta) in enumerate(amounts):
        spend(path, Privacy(epsilon, delta), "element", f"{n}.parquet")


def test_a_budget_is_spent_to_the_last_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    fill(path, ("0.1", "1e-7"), ("1.9", "9e-7"))  # tenths, exactly
    ledger = read_ledger(path)
    assert ledger.basic == (Fraction(2), Fraction(1, 10**6))
    assert [entry.release for entry in ledger.entries] == ["0.parquet", "1.parquet"]
    before = path.read_bytes()
    with refused("the releases of 'events' may spend epsilon 2, delta 1e-06 together"):
        spend(path, Privacy("1e-9", "1e-30"), "element", "more.parquet")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("amount", [("2.000001", "1e-9"), ("0.1", "1.000001e-6")])
def test_either_of_the_two_is_a_limit(amount: tuple[str, str], tmp_path: Path) -> None:
    new_ledger(tmp_path / "a.ledger", "events", BUDGET)
    with refused("the releases of 'events' may spend"):
        fill(tmp_path / "a.ledger", amount)


def test_the_unit_must_be_the_same(tmp_path: Path) -> None:
    new_ledger(tmp_path / "a.ledger", "clicks", BUDGET, unit="user")
    with refused("counts privacy of one user"):
        spend(tmp_path / "a.ledger", Privacy(1, 1e-9), "element", "x")
    spend(tmp_path / "a.ledger", Privacy(1, 1e-9), "user", "x")


def test_many_small_releases_by_optimal_composition(tmp_path: Path) -> None:
    """With what each may spend fixed at the start: as many as are proved to keep the budget, and not one more."""
    each = Privacy("0.05", "1e-9")
    path = tmp_path / "a.ledger"
    ledger = new_ledger(path, "events", BUDGET, each=each)
    allowed = ledger.releases
    assert allowed is not None
    assert allowed > 40  # what the sums would allow
    assert (
        composed_delta(each, allowed, BUDGET.epsilon) <= BUDGET.delta < composed_delta(each, allowed + 1, Fraction(2))
    )
    with refused("a release of 'events' may spend epsilon 0.05, delta 1e-09 at most"):
        spend(path, Privacy("0.06", "1e-9"), "element", "x")
    with refused("a release of 'events' may spend"):
        spend(path, Privacy("0.05", "2e-9"), "element", "x")
    lines = path.read_bytes()
    for n in range(allowed):
        if n in (0, 1, allowed - 1):
            spend(path, each, "element", f"{n}")
            continue
        head = read_ledger(path).head  # entries without the disk's waiting time
        line = {"previous": head, "version": 1, "kind": "reserve", "spent": each.to_json(), "release": f"{n}"}
        line |= {"time": "then", "unit": "element"}
        path.write_bytes(path.read_bytes() + json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    assert path.read_bytes().startswith(lines)
    spent = read_ledger(path)
    assert len(spent.entries) == allowed
    epsilon, delta, rule = spent.spent
    assert (delta, rule) == (BUDGET.delta, "optimal composition")
    assert epsilon <= BUDGET.epsilon < spent.basic[0]
    with refused("the releases of 'events' may spend"):
        spend(path, Privacy("0.001", "1e-12"), "element", "x")
    # a few large ones gain nothing: then the sums count
    assert new_ledger(tmp_path / "b.ledger", "events", BUDGET, each=Privacy(1, 1e-7)).releases is None


def test_the_smaller_sum_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, each=Privacy("0.05", "1e-9"))
    fill(path, ("0.01", "1e-10"), ("0.02", "1e-10"))
    assert read_ledger(path).spent == (Fraction(3, 100), Fraction(2, 10**10), "basic composition")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("", BUDGET), "a dataset has a name"),
        (("a\nb", BUDGET), "a dataset has a name"),
        (("a", BUDGET, "galaxy"), "the unit of privacy is one of"),
        (("a", BUDGET, "user", Privacy(3, 1e-9)), "a single release spends no more"),
    ],
    ids=str,
)
def test_bad_ledgers_are_not_begun(arguments: tuple[Any, ...], rule: str, tmp_path: Path) -> None:
    with refused(rule):
        new_ledger(tmp_path / "a.ledger", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    fill(path, ("1", "1e-9"))
    with refused("an output that exists is not overwritten"):
        new_ledger(path, "events", BUDGET)
    assert len(read_ledger(path).entries) == 1


# ---- damage


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("ledger") / "a.ledger"
    new_ledger(path, "events", BUDGET)
    for epsilon in ("0.5", "0.25", "0.125"):
        reserve_budget(path, Charge(Privacy(epsilon, "1e-7"), "element", "x.parquet"))
    return path.read_bytes()


def test_every_cut_within_a_line_is_noticed(three: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    for end in [*range(0, len(three), 7), *(n + 1 for n, c in enumerate(three[:-1]) if c == 10), len(three) - 1]:
        path.write_bytes(three[:end])
        if end and three[end - 1 : end] == b"\n":
            # whole lines at the end can be cut off: a chain without a key cannot show it, a noted head does
            assert read_ledger(path).head != read_ledger_bytes(three, tmp_path).head
            assert read_ledger(path).head in read_ledger_bytes(three, tmp_path).hashes
        else:
            with refused("must be a ledger as dpsample wrote it"):
                read_ledger(path)


def read_ledger_bytes(data: bytes, folder: Path) -> dpsample.Ledger:
    (folder / "other.ledger").write_bytes(data)
    return read_ledger(folder / "other.ledger")


@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_before_the_last_line_goes_unnoticed(data: st.DataObject, three: bytes, tmp_path: Path) -> None:
    """Also in the last line, unless it is still a line as it could have been written; its hash differs then."""
    changed = bytearray(three)
    at = data.draw(st.integers(0, len(three) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "a.ledger"
    path.write_bytes(bytes(changed))
    last = three.rstrip(b"\n").rfind(b"\n")
    if at <= last:
        with pytest.raises(InvalidValue):
            read_ledger(path)
        with pytest.raises(InvalidValue):
            spend(path, Privacy("0.1", "1e-9"), "element", "x")
        assert path.read_bytes() == bytes(changed)
    else:
        with contextlib.suppress(InvalidValue):
            assert read_ledger(path).head != read_ledger_bytes(three, tmp_path).head


def test_lines_cannot_be_left_out_moved_or_repeated(three: bytes, tmp_path: Path) -> None:
    first, a, b, c = three.splitlines(keepends=True)
    path = tmp_path / "a.ledger"
    for lines in ([first, b, c], [first, a, c], [first, b, a, c], [first, a, a, b, c], [a, b, c], [first, a, b, b], []):
        path.write_bytes(b"".join(lines))
        with refused("must be a ledger as dpsample wrote it"):
            read_ledger(path)
    cheaper = a.replace(b'"0.5"', b'"0.1"')
    assert cheaper != a
    path.write_bytes(b"".join([first, cheaper, b, c]))
    with refused("must be a ledger as dpsample wrote it") as info:
        read_ledger(path)
    assert "line 3" in str(info.value)


def test_files_that_are_no_ledgers(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    for content in (
        b"",
        b"\n",
        b"hello\n",
        b"{}\n",
        b"[]\n",
        b'{"format": "dpsample ledger"}\n',
        b"\xff\xfe\n",
        b"[" * 9999,
    ):
        path.write_bytes(content)
        with refused("must be a ledger as dpsample wrote it"):
            read_ledger(path)
    path.write_bytes(b'{"format":"dpsample ledger","version":2}\n')
    with refused("this dpsample reads versions up to 1 of ledgers"):
        read_ledger(path)
    with refused("a ledger must exist"):
        read_ledger(tmp_path / "none.ledger")
    with refused("a ledger must exist"):
        spend(tmp_path / "none.ledger", Privacy(1, 1e-9), "element", "x")


# ---- reserve, confirm, cancel

_STEPS = """
import json, os, signal, sys, tempfile
from pathlib import Path
import portalocker.portalocker
from dpsample import Privacy, new_ledger

folder = Path(sys.argv[1])

def counted(function, at):
    def call(*arguments, **options):
        at[0] -= 1
        if at[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        at[0] -= 1
        if at[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

step, killed = 0, True
while killed:
    step += 1
    here = folder / str(step)
    here.mkdir()
    new_ledger(here / "a.ledger", "events", Privacy(1, 1e-9))
    child = os.fork()
    if child == 0:
        (here / "temporary").mkdir()
        tempfile.tempdir = str(here / "temporary")  # its own: what others leave, or remove, would change the steps
        at = [step]
        for name in ("open", "fsync", "replace", "link", "fchmod", "rename", "unlink"):
            setattr(os, name, counted(getattr(os, name), at))
        portalocker.portalocker.LOCKER = counted(portalocker.portalocker.LOCKER, at)  # flock
        work(here)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(json.dumps([step, killed]), flush=True)
"""


def killed_at_every_step(folder: Path, work: str) -> list[Path]:
    """Folders with what is left of `work`, killed before and after each call that changes a file."""
    script = folder / "steps.py"
    script.write_text(work + _STEPS)
    runs = folder / "runs"
    runs.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(runs)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) > 20
    assert not steps[-1][1]
    return [runs / str(step) for step, _ in steps]


def test_a_reservation_is_spent_before_it_is_confirmed(tmp_path: Path) -> None:
    """Whatever becomes of the process that made it: only a cancellation gives the budget back."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-6))
    forfeited, written, cancelled = (
        reserve_budget(path, Charge(Privacy(epsilon, "1e-7"), "element", epsilon)) for epsilon in ("0.1", "0.2", "0.7")
    )
    assert read_ledger(path).basic == (Fraction(1), Fraction(3, 10**7))
    with refused("the releases of 'events' may spend"):
        reserve_budget(path, Charge(Privacy("1e-9", "1e-9"), "element", "more"))
    written.mark_drawn()
    written.confirm("ab" * 32)
    cancelled.cancel()
    ledger = read_ledger(path)
    assert [entry.status for entry in ledger.entries] == ["reserved", "confirmed", "cancelled"]
    assert [entry.hash for entry in ledger.entries] == [forfeited.hash, written.hash, cancelled.hash]
    assert [entry.sha256 for entry in ledger.entries] == [None, "ab" * 32, None]
    assert ledger.basic == (Fraction(3, 10), Fraction(2, 10**7))
    assert len(ledger.hashes) == 1 + 3 + 2
    spend(path, Privacy("0.7", "1e-7"), "element", "again")
    shown = str(read_ledger(path))
    assert "reserved, not confirmed" in shown
    assert "cancelled, not spent" in shown
    assert "left: epsilon 0," in shown


def test_a_cancelled_release_is_none_of_those_that_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    each = Privacy("0.05", "1e-9")
    new_ledger(path, "events", BUDGET, each=each)
    reserve_budget(path, Charge(each, "element", "x")).cancel()
    ledger = read_ledger(path)
    assert ledger.releases == 82
    assert "left: 82 releases" in str(ledger)
    assert ledger.spent[0] == 0


def test_what_is_drawn_cannot_be_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    reservation = reserve_budget(path, HALF)
    reservation.mark_drawn()
    before = path.read_bytes()
    with refused("a reservation is cancelled before anything is drawn"):
        reservation.cancel()
    assert path.read_bytes() == before
    reservation.confirm()
    cancelled = reserve_budget(path, HALF)
    cancelled.cancel()
    for settle in (reservation.confirm, cancelled.confirm, cancelled.cancel):
        with refused("must have the reservation, once and open"):
            settle()


def test_a_reservation_is_settled_where_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the process has moved to another folder, which has a ledger of that name."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        new_ledger(tmp_path / name / "a.ledger", "events", BUDGET)
    monkeypatch.chdir(tmp_path / "here")
    reservation = reserve_budget("a.ledger", HALF)
    monkeypatch.chdir(tmp_path / "there")
    reservation.confirm()
    entries = [read_ledger(tmp_path / name / "a.ledger").entries for name in ("here", "there")]
    assert [[entry.status for entry in each] for each in entries] == [["confirmed"], []]


def test_a_reservation_that_was_rolled_back_is_not_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    before = path.read_bytes()
    reservation = reserve_budget(path, HALF)
    path.write_bytes(before)  # somebody restored an old copy
    with refused("must have the reservation, once and open"):
        reservation.confirm()
    assert path.read_bytes() == before


def test_an_error_before_drawing_cancels_and_after_it_forfeits(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)

    def run(*steps: str) -> list[str]:
        """Reserve, go some steps, fail; return the notes of the error."""
        with pytest.raises(KeyboardInterrupt) as info, reserve_budget(path, HALF) as reservation:  # noqa: PT012
            for step in steps:
                getattr(reservation, step)()
            raise KeyboardInterrupt
        return getattr(info.value, "__notes__", [])

    assert run() == []
    assert run("mark_drawn") == ["its privacy is spent: it stays in the ledger"]
    assert run("mark_drawn", "confirm") == []
    assert [entry.status for entry in read_ledger(path).entries] == ["cancelled", "reserved", "confirmed"]


_RESERVE = """
import os
from dpsample import Privacy
from dpsample.accounting.charges import Charge
from dpsample.accounting.ledger import reserve_budget

def work(here):
    with reserve_budget(here / "a.ledger", Charge(Privacy(1, 1e-9), "element", "out")) as reservation:
        reservation.mark_drawn()
        os.close(os.open(here / "out", os.O_CREAT | os.O_WRONLY))
        reservation.confirm("0" * 64)
"""


def test_kill_9_at_every_step_of_a_reservation(tmp_path: Path) -> None:
    """What was drawn is in the ledger, what is confirmed was written, and the rest is forfeited."""
    seen = set()
    for here in killed_at_every_step(tmp_path, _RESERVE):
        statuses = [entry.status for entry in read_ledger(here / "a.ledger").entries]
        seen.add((*statuses, (here / "out").exists()))
        with refused("the releases of 'events' may spend") if statuses else contextlib.nullcontext():
            spend(here / "a.ledger", Privacy(1, 1e-9), "element", "next")
    assert seen == {(False,), ("reserved", False), ("reserved", True), ("confirmed", True)}


# ---- versions


def test_every_line_states_its_version(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    head = new_ledger(path, "events", BUDGET).head
    new = path.read_bytes()
    for version, rule in (({}, "as dpsample wrote it"), ({"version": 2}, "reads versions up to 1 of ledgers")):
        line = {"previous": head, "spent": BUDGET.to_json(), "release": "x", "time": "then", **version}
        path.write_bytes(new + json.dumps(line).encode() + b"\n")
        with refused(rule):
            read_ledger(path)


# ---- what a line binds


def bound(path: Path, **changed: Any) -> Charge:
    """What a release of words by users spends, as it is told to the ledger."""
    facts = {
        "source": "Source('words.parquet', key='word', user='who')",
        "keys": ("word",),
        "user": "who",
        "max_keys": 3,
        "scheme": scheme_form(SAMPLING),
    }
    return Charge(Privacy(1, 1e-9), "user", str(path), **{**facts, **changed})


def test_a_line_says_what_the_budget_was_spent_on(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, "user")
    charge = bound(tmp_path / "out.parquet", sample="cd" * 32)
    reserve_budget(path, charge)
    line = json.loads(path.read_bytes().splitlines()[1])
    del line["previous"], line["time"]
    assert line == {
        "version": 1,
        "kind": "reserve",
        "dpsample": dpsample.__version__,
        "spent": {"epsilon": "1", "delta": "1e-09"},
        "unit": "user",
        "release": str(tmp_path / "out.parquet"),
        "source": "Source('words.parquet', key='word', user='who')",
        "keys": ["word"],
        "user": "who",
        "max_keys_per_user": 3,
        "scheme": {"scheme": "ppswor", "tau": "0.5", "power": "1", "cap": 10},
        "sample": "cd" * 32,
    }
    ledger = read_ledger(path)
    assert ledger.entries[0].charge == charge
    assert ledger.entries[0].dpsample == dpsample.__version__
    assert "key: word; user: who; up to 3 keys per user" in str(ledger)


def test_a_long_list_of_q_is_bound_by_its_hash() -> None:
    one, other = (scheme_form(dpsample.CustomSampling(["0.5", last])) for last in ("0.6", "0.7"))
    assert one != other
    assert one == scheme_form(dpsample.CustomSampling(["0.5", "0.6"]))
    assert len(json.dumps(scheme_form(dpsample.CustomSampling(["0.5"] * 10_000)))) < 120


def test_a_sample_is_released_once(tmp_path: Path) -> None:
    """Two releases of one sample share its coins: together they spend up to 1,850 times the sum of their deltas."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    one, other = (Charge(HALF.privacy, "element", "x", sample=hash * 32) for hash in ("ab", "cd"))
    reserve_budget(path, one).cancel()  # nothing was drawn
    reserve_budget(path, one)  # forfeited: its tokens may have been seen
    for refuse in (
        lambda: check_ledger(path, one),
        lambda: reserve_budget(path, one),
    ):
        with refused("a sample is released once") as info:
            refuse()
        assert "entry 2 of the ledger" in str(info.value)
    reserve_budget(path, other).confirm()
    reserve_budget(path, HALF).confirm()
    assert [entry.status for entry in read_ledger(path).entries] == ["cancelled", "reserved", *["confirmed"] * 2]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a release of words by users that names a line of a ledger."""

    def write(hash: str, name: str = "out.parquet") -> Path:
        terms = terms_of(Budget(Privacy(1, 1e-9), 3), SAMPLING, ("word",), False, None)
        rows = pa.table({"word": ["the"], "token": [40.0]})
        dpsample.Release(rows, replace(terms, ledger=hash)).write(tmp_path / name, force=True)
        return tmp_path / name

    return write


def test_releases_are_found_in_their_ledger(tmp_path: Path, written: Callable[..., Path]) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, "user")
    reservation = reserve_budget(path, bound(tmp_path / "out.parquet"))
    out = written(reservation.hash)
    (match,) = verify_releases(read_ledger(path), [out])
    assert (match.number, match.entry.status) == (1, "reserved")
    reservation.confirm(release_sha256(out)[1])
    (match,) = verify_releases(read_ledger(path), [out], head=reservation.hash)
    assert (match.file, match.number, match.entry.status) == (str(out), 1, "confirmed")
    assert "the very file that was confirmed" in str(match)
    with refused("the ledger must have the line that was noted down"):
        verify_releases(read_ledger(path), [], head="0" * 64)
    other = written(reservation.hash, "other.csv")
    with refused("must be in the ledger of 'events', with what it spent") as info:
        verify_releases(read_ledger(path), [out, other])
    assert "entry 1 with another SHA-256" in str(info.value)


@pytest.mark.parametrize(
    ("changed", "finding"),
    [
        ({"keys": ("words",)}, "another key"),
        ({"max_keys": 4}, "another contribution bound"),
        ({"scheme": scheme_form(dpsample.KeepAll())}, "another scheme"),
        ({"privacy": Privacy(1, 1e-10)}, "another privacy"),
    ],
    ids=str,
)
def test_a_release_that_the_ledger_knows_otherwise_is_refused(
    changed: dict[str, Any], finding: str, tmp_path: Path, written: Callable[..., Path]
) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, "user")
    reservation = reserve_budget(path, replace(bound(tmp_path / "out.parquet"), **changed))
    with refused("must be in the ledger of 'events', with what it spent") as info:
        verify_releases(read_ledger(path), [written(reservation.hash)])
    assert f"found entry 1 with {finding};" in str(info.value)


def test_a_release_of_a_cancelled_entry_is_refused(tmp_path: Path, written: Callable[..., Path]) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, "user")
    reservation = reserve_budget(path, bound(tmp_path / "out.parquet"))
    reservation.cancel()
    for hash, finding in ((reservation.hash, "entry 1, which was cancelled"), ("0" * 64, "no such entry")):
        with refused("must be in the ledger of 'events', with what it spent") as info:
            verify_releases(read_ledger(path), [written(hash)])
        assert f"found {finding};" in str(info.value)


def test_a_release_of_a_chosen_size_matches_what_was_reserved(tmp_path: Path) -> None:
    """Its tau is found after the reservation, so the line has the size."""
    path, size = tmp_path / "a.ledger", dpsample.SampleSize(100, power="0.5", cap=9)
    new_ledger(path, "events", BUDGET)
    made = dpsample.release({"a": 500, "b": 400}, privacy=Privacy(1, 1e-9), size=size)
    for scheme, matches in ((size, True), (dpsample.SampleSize(101, power="0.5", cap=9), False)):
        charge = Charge(made.privacy, "element", "x", keys=("key",), scheme=scheme_form(scheme))
        reservation = reserve_budget(path, charge)
        terms = replace(made.terms, ledger=reservation.hash)
        dpsample.Release(made.table, terms).write(tmp_path / "out.arrow", force=True)
        with contextlib.nullcontext() if matches else refused("must be in the ledger of 'events'"):
            assert len(verify_releases(read_ledger(path), [tmp_path / "out.arrow"])) == 1


# ---- before any work


def test_a_ledger_with_two_names_is_refused(tmp_path: Path) -> None:
    """A line would go to one of them, and each would have the whole budget."""
    path, other = tmp_path / "a.ledger", tmp_path / "b.ledger"
    new_ledger(path, "events", Privacy(1, 1e-6))
    os.link(path, other)
    os.symlink(path, tmp_path / "c.ledger")
    for name in (path, other, tmp_path / "c.ledger"):
        with refused("a ledger has one name, or each name would have the whole budget"):
            dpsample.release({"x": 1000}, privacy=Privacy(1, 1e-6), ledger=name)
        with refused("a ledger has one name, or each name would have the whole budget"):
            spend(name, Privacy(1, 1e-6), "element", "x")
    other.unlink()
    spend(tmp_path / "c.ledger", Privacy(1, 1e-6), "element", "x")
    assert len(read_ledger(path).entries) == 1


def test_a_new_ledger_that_was_killed_has_one_name(tmp_path: Path) -> None:
    """Its draft is a hard link to it, for a moment, or until the next one who holds the lock removes it."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    os.link(path, tmp_path / ".dpsample-0123456789abcdef-0123456789abcdef.tmp")
    spend(path, HALF.privacy, "element", "x")
    assert [item.name for item in tmp_path.iterdir()] == ["a.ledger"]


@pytest.mark.parametrize("obstacle", ["no locks", "a read-only folder", "a read-only ledger"])
def test_a_ledger_that_cannot_be_written_is_refused_before_any_work(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS without a lock service. Nothing is read: the source does not even exist."""
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)

    def fail(code: int) -> Any:
        raise OSError(code, os.strerror(code))

    usual = os.open
    if obstacle == "no locks":
        monkeypatch.setattr("portalocker.portalocker.LOCKER", lambda fd, how: fail(errno.ENOLCK))
    elif obstacle == "a read-only folder":
        monkeypatch.setattr(
            os, "open", lambda name, how, *mode: fail(errno.EROFS) if how & os.O_CREAT else usual(name, how, *mode)
        )
    else:
        path.chmod(0o444)  # also for those whom no permission stops
    source = dpsample.Source(tmp_path / "no-such-file.parquet", "k")
    with refused("a.ledger" if obstacle == "a read-only folder" else "a ledger must be"):
        dpsample.release(source, privacy=HALF.privacy, ledger=path)
    assert [item.name for item in tmp_path.iterdir()] == ["a.ledger"]
    assert read_ledger(path).entries == ()


# ---- several processes

_ROUNDS = 300


def _race(folder: str, name: str, start: Any, results: Any) -> None:
    won = []
    for n in range(_ROUNDS):
        start.wait()
        try:
            spend(f"{folder}/{n}.ledger", Privacy(1, 1e-7), "element", name)
            won.append(n)
        except InvalidValue:  # that it was refused for want of budget shows in the ledger
            continue
    results.put((name, won))


def test_two_processes_race_for_the_last_of_a_budget(tmp_path: Path) -> None:
    """300 ledgers with room for one release: each is won by exactly one of two processes.

    Without locks both won 44 of 1,000 (measured): 300 rounds miss that with probability 2e-6.
    """
    first = tmp_path / "first.ledger"
    new_ledger(first, "events", BUDGET)
    fill(first, ("1", "1e-7"))
    for n in range(_ROUNDS):
        (tmp_path / f"{n}.ledger").write_bytes(first.read_bytes())
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(str(tmp_path), name, start, results)) for name in ("a", "b")]
    for racer in racers:
        racer.start()
    won = dict(results.get(timeout=900) for _ in racers)
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    assert sorted(won["a"] + won["b"]) == list(range(_ROUNDS))
    for name in ("a", "b"):
        for n in won[name]:
            entries = read_ledger(tmp_path / f"{n}.ledger").entries
            assert [entry.release for entry in entries] == ["0.parquet", name]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".ledger"] * (_ROUNDS + 1)


def test_a_lock_that_is_never_let_go_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET)
    monkeypatch.setattr(dpsample.accounting.ledger_file, "_PATIENCE", 0.05)
    with open(path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SystemFailure, match="locked by another"):
            spend(path, Privacy(1, 1e-9), "element", "x")
    spend(path, Privacy(1, 1e-9), "element", "x")


# ---- releases

# what a release imports is imported once, and not by each of the processes that are killed
_RELEASE = """
import duckdb, pandas, pyarrow.dataset, pyarrow.parquet
import dpsample.private.engine.duckdb.engine
from dpsample import Privacy
from dpsample.private.run import release_to_file

def work(here):
    release_to_file(here / "out.parquet", {"a": 500, "b": 400}, privacy=Privacy(1, 1e-9), ledger=here / "a.ledger")
"""


def test_kill_9_at_every_step_of_a_release(tmp_path: Path) -> None:
    """Before and after each call that changes a file: an output has its line in the ledger, and nothing blocks."""
    seen = set()
    for here in killed_at_every_step(tmp_path, _RELEASE):
        entries = read_ledger(here / "a.ledger").entries
        out = here / "out.parquet"
        seen.add((len(entries), out.exists()))
        if out.exists():
            made = dpsample.read_release(out)
            assert made.terms.ledger == entries[0].hash
        if not entries:  # nothing is spent, so that the next one goes through
            spend(here / "a.ledger", Privacy(1, 1e-9), "element", "next")
        else:
            with refused("the releases of 'events' may spend"):
                spend(here / "a.ledger", Privacy("1e-9", "1e-20"), "element", "next")
        assert len(read_ledger(here / "a.ledger").entries) == 1
    assert seen == {(0, False), (1, False), (1, True)}


def test_a_release_that_is_refused_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))
    source = dpsample.Source(tmp_path / "no-such-file.parquet", "k")
    with refused("the releases of 'events' may spend"):
        dpsample.release(source, privacy=Privacy(2, 1e-9), ledger=path)
    drawn = dpsample.sample({"a": 5}, sampling=dpsample.Ppswor(1))
    with refused("the releases of 'events' may spend"):
        dpsample.sanitize(drawn, privacy=Privacy(2, 1e-9), ledger=path)
    made = dpsample.sanitize(drawn, privacy=Privacy(1, 1e-9), ledger=path)
    assert made.terms.ledger == read_ledger(path).entries[-1].hash


def test_data_that_are_refused_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))
    for bad in ([None, "a"], {"a": -1}):
        with pytest.raises(InvalidValue):
            dpsample.release_to_file(tmp_path / "o.parquet", bad, privacy=Privacy(1, 1e-9), ledger=path)
    assert read_ledger(path).charged == ()


def test_a_release_that_fails_after_spending_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", Privacy(1, 1e-9))

    def full(*arguments: Any, **options: Any) -> int:
        raise SystemFailure("the disk has room", "none", "free some")

    monkeypatch.setattr("dpsample.private.draw.write_release", full)
    with pytest.raises(SystemFailure) as info:
        dpsample.release_to_file(tmp_path / "o.parquet", {"a": 50}, privacy=Privacy(1, 1e-9), ledger=path)
    assert info.value.__notes__ == ["its privacy is spent: it stays in the ledger"]
    assert len(read_ledger(path).entries) == 1

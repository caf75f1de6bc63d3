"""Entries of a ledger, and the releases that they state."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsample
import dpsample.ledger.file
from dpsample import Privacy, new_ledger, read_ledger
from dpsample.accounting.budget import Budget
from dpsample.answers.entered import verify_releases
from dpsample.files.metadata import release_sha256
from dpsample.ledger.charges import Charge, scheme_form
from dpsample.ledger.ledger import check_ledger, reserve_budget
from dpsample.private.tokens import terms_of
from ledgers import BUDGET, HALF
from stated_terms import restated
from support import refused

pytestmark = pytest.mark.chance("certain: what is spent does not depend on what is drawn")
SAMPLING = dpsample.Ppswor("0.5", cap=10)


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
        dpsample.Release(rows, restated(terms, ledger=hash)).write(tmp_path / name, force=True)
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
    with refused("no line of the ledger has the hash that was noted down"):
        verify_releases(read_ledger(path), [], head="0" * 64)
    other = written(reservation.hash, "other.csv")
    with refused("entry 1 in the ledger of 'events' has another SHA-256 than the file"):
        verify_releases(read_ledger(path), [out, other])


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
    with refused(f"entry 1 in the ledger of 'events' has {finding} than the release"):
        verify_releases(read_ledger(path), [written(reservation.hash)])


def test_a_release_of_a_cancelled_entry_is_refused(tmp_path: Path, written: Callable[..., Path]) -> None:
    path = tmp_path / "a.ledger"
    new_ledger(path, "events", BUDGET, "user")
    reservation = reserve_budget(path, bound(tmp_path / "out.parquet"))
    reservation.cancel()
    with refused("was cancelled"):
        verify_releases(read_ledger(path), [written(reservation.hash)])
    with refused("has no entry in the ledger of 'events'"):
        verify_releases(read_ledger(path), [written("0" * 64)])


def test_a_release_of_a_chosen_size_matches_what_was_reserved(tmp_path: Path) -> None:
    """Its tau is found after the reservation, so the line has the size."""
    path, size = tmp_path / "a.ledger", dpsample.SampleSize(100, power="0.5", cap=9)
    new_ledger(path, "events", BUDGET)
    made = dpsample.release({"a": 500, "b": 400}, privacy=Privacy(1, 1e-9), size=size)
    for scheme, matches in ((size, True), (dpsample.SampleSize(101, power="0.5", cap=9), False)):
        charge = Charge(made.privacy, "element", "x", keys=("key",), scheme=scheme_form(scheme))
        reservation = reserve_budget(path, charge)
        terms = restated(made.terms, ledger=reservation.hash)
        dpsample.Release(made.table, terms).write(tmp_path / "out.arrow", force=True)
        with contextlib.nullcontext() if matches else refused("has another scheme than the release"):
            assert len(verify_releases(read_ledger(path), [tmp_path / "out.arrow"])) == 1

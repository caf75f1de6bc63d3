"""Ledgers: sums, chains, and files that are none."""

import contextlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsample
import dpsample.ledger.file
from dpsample import InvalidValue, Privacy, new_ledger, read_ledger
from dpsample.accounting.composition import composed_delta
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget
from ledgers import BUDGET, fill, spend
from support import refused

pytestmark = pytest.mark.chance("certain: what is spent does not depend on what is drawn")


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
        (("", BUDGET), "dataset must be a name of printable characters"),
        (("a\nb", BUDGET), "dataset must be a name of printable characters"),
        (("a", BUDGET, "galaxy"), "unit must be element or user"),
        (("a", BUDGET, "user", Privacy(3, 1e-9)), "each release may spend at most what all may spend together"),
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
    with refused("exists already"):
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
            with refused("is not a ledger as dpsample wrote it"):
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
        with refused("is not a ledger as dpsample wrote it"):
            read_ledger(path)
    cheaper = a.replace(b'"0.5"', b'"0.1"')
    assert cheaper != a
    path.write_bytes(b"".join([first, cheaper, b, c]))
    with refused("is not a ledger as dpsample wrote it") as info:
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
        with refused("is not a ledger as dpsample wrote it"):
            read_ledger(path)
    path.write_bytes(b'{"format":"dpsample ledger","version":2}\n')
    with refused("this dpsample reads versions up to 1 of ledgers"):
        read_ledger(path)
    with refused("there is no ledger"):
        read_ledger(tmp_path / "none.ledger")
    with refused("there is no ledger"):
        spend(tmp_path / "none.ledger", Privacy(1, 1e-9), "element", "x")

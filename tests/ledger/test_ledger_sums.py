"""What a ledger adds up: epsilons and deltas of all releases, each by itself, exactly."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpsample import Privacy, new_ledger, read_ledger
from dpsample.ledger.charges import Charge
from dpsample.ledger.ledger import reserve_budget
from support import refused


@pytest.mark.parametrize(
    ("each", "fits"),
    [
        (Privacy("0.4", "1e-9"), 5),  # epsilon runs out
        (Privacy("0.01", "2e-7"), 5),  # delta does
        (Privacy("0.1", "0.9e-7"), 11),
    ],
    ids=str,
)
def test_epsilons_and_deltas_add_up(each: Privacy, fits: int, tmp_path: Path) -> None:
    """No release alone is beyond the budget of epsilon 2 and delta 1e-6; the one after the last that fits is."""
    book = tmp_path / "a.ledger"
    new_ledger(book, "events", Privacy(2, "1e-6"))
    for number in range(fits):
        reserve_budget(book, Charge(each, "element", f"{number}.parquet"))
    with refused("the releases of 'events' may spend epsilon 2, delta 1e-06 together"):
        reserve_budget(book, Charge(each, "element", "more.parquet"))
    ledger = read_ledger(book)
    assert ledger.basic == (fits * each.epsilon, fits * each.delta)
    assert len(ledger.entries) == fits == min(Fraction(2) // each.epsilon, Fraction(1, 10**6) // each.delta)

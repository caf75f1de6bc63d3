"""What cannot be released is refused before anything is read, and so in the same words for all data.

A refusal that comes once data were read may depend on them, or on noise that was drawn and that nobody pays for.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsample
from dpsample import InvalidValue, Privacy
from dpsample.accounting.amounts import amounts_of
from dpsample.accounting.counts import COUNT_SHARE, count_share
from dpsample.accounting.user_budget import UserBudget

pytestmark = [
    pytest.mark.chance("certain: what is refused is never drawn"),
    pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning"),
]

COUNTS: list[dict[str, Any]] = [
    {},
    {"rows": 3},
    {"sums": {"price": 5}},
    {"keys": ["key1"], "only_known": True},
    {"discover": "one-key"},
    {"discover": "many-keys"},
    {"total": True},
]
EXTREMES = [
    ("300", "0.9", "a smaller epsilon"),
    ("300", "1e-6", "a smaller epsilon"),
    ("2000", "1e-6", "a smaller epsilon"),
    ("1", "1e-30", "a larger delta"),
    ("20", "1e-30", "a larger delta"),
    ("1", "1e-38", "a larger delta"),
    ("300", "1e-100", "a larger delta"),
]


def rows(users: int) -> pa.Table:
    numbers = range(users)
    return pa.table(
        {
            "user": pa.array(numbers, pa.int64()),
            "key": pa.array([f"key{n % 3}" for n in numbers], pa.string()),
            "price": pa.array([float(n % 7) for n in numbers], pa.float64()),
        }
    )


@pytest.mark.parametrize(("epsilon", "delta", "words"), EXTREMES)
@pytest.mark.parametrize("options", COUNTS, ids=str)
def test_counts_of_users_at_extreme_privacy(
    options: dict[str, Any], epsilon: str, delta: str, words: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "a.ledger"
    dpsample.new_ledger(ledger, "data", Privacy("3000", "0.99"), "user")
    said = []
    for users in (0, 400):  # keys are found in one of them
        begun: list[str] = []
        with pytest.raises(InvalidValue, match=words) as caught:
            dpsample.release(
                rows(users),
                "key",
                privacy=Privacy(epsilon, delta),
                user="user",
                ledger=ledger,
                progress=begun.append,
                **options,
            )
        said.append(str(caught.value))
        assert begun == []
    assert said[0] == said[1]
    assert dpsample.read_ledger(ledger).charged == ()


@pytest.mark.parametrize("delta", ["1e-6", "1e-19"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "60"])
def test_what_is_within_reach_is_not_refused(epsilon: str, delta: str) -> None:
    privacy = Privacy(epsilon, delta)
    assert UserBudget(privacy, counts=COUNT_SHARE).square > 0
    amounts = amounts_of(3, {"price": 5})
    assert UserBudget(privacy, counts=count_share(len(amounts)), amounts=amounts).square > 0

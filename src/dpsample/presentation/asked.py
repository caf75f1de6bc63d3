"""What pages ask of a release, and the shape of its answers: protocols, so that nothing here imports the answers.

Published   a release
Together    several releases, as of the days of a week
Ranked      answers about several keys, groups or shares
Changed     the keys that changed since an earlier release
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from dpsample.estimators.estimate import Estimate
from dpsample.release.terms import Terms


class Ranked(Protocol):
    """One estimate in each row: the keys of a top list, or the quantiles of some shares."""

    @property
    def groups(self) -> pa.Table:
        """The keys or shares."""

    @property
    def numbers(self) -> pa.Table:
        """The estimates: the columns value, low and high; of a top list also the probability to be in it."""

    @property
    def level(self) -> float:
        """The nominal coverage of the intervals."""

    @property
    def intervals(self) -> str:
        """Which intervals these are: of each key by itself, or of all keys of a list together."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the estimates."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Any, Estimate]]: ...


class Changed(Protocol):
    """Keys that rose or fell since an earlier release, the largest certain changes first."""

    @property
    def table(self) -> pa.Table:
        """The key columns; then before, after, change, low, high, p, q and direction."""

    @property
    def tested(self) -> int:
        """The number of keys that were tested."""

    @property
    def fdr(self) -> float:
        """The expected share of the listed keys that did not change is at most this."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the keys that were not reported before or after."""

    def __len__(self) -> int: ...


class Published(Protocol):
    """A release: its rows, its terms, and the answers that a page shows."""

    @property
    def table(self) -> pa.Table:
        """The rows: the key columns, then their numbers."""

    @property
    def terms(self) -> Terms:
        """The public parameters."""

    def __len__(self) -> int: ...

    def top(self, k: int) -> Ranked:
        """Return the keys with the largest estimates."""

    def each_key(self) -> Ranked:
        """Return the estimate of each reported key."""

    def quantiles(self, shares: Sequence[float]) -> Ranked:
        """Return the frequency that each share of the keys does not exceed."""

    def count_keys(self, *, at_least: int) -> Estimate:
        """Estimate the number of keys of this frequency or more."""

    def sum(self) -> Estimate:
        """Estimate the sum of all frequencies."""

    def other(self) -> Estimate:
        """Estimate the part of the total that is in keys that were not reported."""


class Together(Protocol):
    """Several releases, as of the days of a week, that answer together."""

    @property
    def releases(self) -> Sequence[Published]:
        """The releases, in order."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns."""

    @property
    def cost(self) -> list[str]:
        """What the releases cost together, in words."""

    @property
    def cautions(self) -> tuple[str, ...]:
        """Remarks that hold for every answer."""

    @property
    def table(self) -> pa.Table:
        """The keys that any release reports: the key columns, their numbers, and how many releases report each."""

    def __len__(self) -> int: ...

    def top(self, k: int) -> Ranked:
        """Return the keys with the largest estimates over all releases."""

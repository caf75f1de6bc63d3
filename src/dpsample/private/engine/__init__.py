"""Engines move data: they read sources, aggregate and sort them, and know no mathematics.

    duckdb   the embedded one, for data on one machine
    spark    the distributed one, imported on demand
    columns  which types keys have, and batches cast to a schema
    errors   what all of them refuse

`Engine` is what every engine does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.source import Source


@runtime_checkable
class Engine(Protocol):
    """What every engine does. Batches have the key column(s) under their own names, then `frequency` (int64).

    A source that breaks a rule is refused with `InvalidValue`, by rule, finding and remedy, never by a value.
    Keys are compared byte by byte, whatever a database thinks of upper and lower case.
    """

    def check(self, source: "Source") -> "pa.Schema":
        """Refuse, before any work, what can be refused from names, types and file endings; return the key's schema."""

    def aggregated(self, source: "Source") -> "Iterator[pa.RecordBatch]":
        """Yield each key once, with its frequency; keys of frequency 0 are left out.

        NULL keys and frequencies that are no whole numbers from 0 to 2**63 - 1 are refused before the first batch.
        """

    def elements(self, source: "Source") -> "Iterator[pa.RecordBatch]":
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """

    def count(self, source: "Source", keys: "pa.Table") -> "Iterator[pa.RecordBatch]":
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """

    def rows(self, source: "Source") -> int | None:
        """Return the number of rows, NULL keys included, if it is known without reading them."""

    def total(self, source: "Source") -> int:
        """Return the number of elements; what `aggregated` refuses is refused."""

    def bounded(
        self,
        source: "Source",
        limit: int,
        choose: "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    ) -> "Source":
        """Let each user keep at most `limit` distinct keys; return what is kept, as a source of raw elements.

        Rows of one user and one key count once. `choose` draws for the users with more keys, once and for all: it is
        shown batches of a user's number and a key, user after user, and yields batches of the keys that are kept.
        The source that is returned can be read as often as needed, until it is forgotten.
        """

    def forget(self, source: "Source") -> None:
        """Let go of a source that `bounded` returned, and of its temporary files."""

    def sort(
        self, batches: "Iterable[pa.RecordBatch]", schema: "pa.Schema", by: Sequence[str]
    ) -> "Iterator[pa.RecordBatch]":
        """Yield all rows in ascending order of some columns; text in the order of its bytes."""

    def close(self) -> None:
        """Let go of everything, and remove all temporary files."""

"""Engines move data: they read sources, aggregate and sort them, and know no mathematics.

    duckdb   the embedded one, for data on one machine
    spark    the distributed one, imported on demand
    columns  which types keys have, batches cast to a schema, keys with positions
    errors   what all of them refuse

`Engine` is what every engine does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsample.private.assignment import Assigned
    from dpsample.private.pairs import Kernel, Pairs
    from dpsample.private.randomness import CoinSource
    from dpsample.private.sources.source import Source
    from dpsample.scheme.sampling import Ints


@runtime_checkable
class Engine(Protocol):
    """What every engine does. Batches have the key column(s) under their own names, then `frequency` (int64).

    A source that breaks a rule is refused with `InvalidValue`, by rule, finding and remedy, never by a value.
    Keys are compared byte by byte, whatever a database thinks of upper and lower case.

    What an engine yields comes to this process. `aggregated` and `elements` yield everything: a distributed engine
    collects it on the driver. `dpsample.spark` uses neither: it draws where the rows are, and collects only what is
    sampled or reported. `bounded`, `assigned`, `pairs_of` and `weighed` leave their rows with the engine.
    """

    def new_coins(self) -> "CoinSource":
        """Return coins for one release: fresh ones, or of a secret where work may be done twice."""

    def check(self, source: "Source") -> "pa.Schema":
        """Refuse, before any work, what can be refused from names, types and file endings; return the key's schema."""

    def repeatable(self, source: "Source") -> bool:
        """Whether rows are the same whenever they are read."""

    def aggregated(
        self, source: "Source", known: "pa.Table | None" = None, only: bool = False
    ) -> "Iterator[pa.RecordBatch]":
        """Yield each key once, with its frequency; keys of frequency 0 are left out.

        NULL keys and frequencies that are no whole numbers from 0 to 2**63 - 1 are refused before the first batch.
        With `known`, distinct keys of the source's types, a column `known` follows, and these keys come with frequency
        0 as well; with `only`, no others come.
        """

    def restricted(self, source: "Source", keys: "pa.Table", outside: bool) -> "Source":
        """Return the rows of just these keys, or of those outside of them, as a source; NULL keys are in both."""

    def elements(self, source: "Source") -> "Iterator[pa.RecordBatch]":
        """Yield the key column(s) only, a row for each element, in any order; for raw sources.

        A NULL key is refused when it is met.
        """

    def count(self, source: "Source", keys: "pa.Table") -> "Iterator[pa.RecordBatch]":
        """Yield the frequencies of just these distinct keys; those that are not in the source are left out.

        It is the second pass over a source: what `elements` refuses, it passes over.
        """

    def total(self, source: "Source") -> int:
        """Return the number of elements; what `aggregated` refuses is refused."""

    def weighed(self, source: "Source", weigh: "Callable[[Ints], int]") -> "tuple[Any, int]":
        """Aggregate, and put all keys with their frequencies aside; return them and the sum of their weights.

        `weigh` returns the sum of the weights of some frequencies. What is put aside is for this engine alone.
        """

    def bounded(
        self, source: "Source", limit: int, coins: "CoinSource", rereads: bool = True
    ) -> "Source":
        """Let each user keep at most `limit` distinct keys; return what is kept, as a source of raw elements.

        Rows of one user and one key count once. Users with more keys keep some that these coins choose, once and for
        all. The source that is returned can be read until it is forgotten; more than once if `rereads`.
        """

    def dropped(self, source: "Source", limit: int, most: int) -> int:
        """Return how many distinct keys users have beyond `limit`, of each user up to `most`.

        Rows of one user and one key count once. What `bounded` refuses is refused.
        """

    def assigned(
        self,
        source: "Source",
        cap: int,
        coins: "CoinSource",
        prior: "pa.Table | None" = None,
        keep_pairs: bool = False,
    ) -> "Assigned":
        """Let each user in turn give one unit to the first of their keys that has fewer than `cap`; return the units.

        Users and keys are in orders that these coins choose, once and for all. The keys of `prior`, which has the key
        columns, come first, in its order. The source that is returned has the units of each key as its frequency, and
        can be read until it is forgotten, more than once. With `keep_pairs`, an engine may put all pairs aside, until
        then, for `pairs_of`.
        """

    def filled(self, given: "Assigned", most: int, full: int, coins: "CoinSource") -> int:
        """Return the sum over keys of min(`full`, number of users who keep the key), if each keeps up to `most`.

        Users are those of pairs that were put aside with `given`. Which of their keys they keep is chosen by these
        coins, or by those of `given`, each with the same probability, and depends on no other user. So a user changes
        the sum by at most `most`.
        """

    def pairs_of(
        self, source: "Source", keys: "pa.Table", after: "Assigned | None" = None
    ) -> "Pairs":
        """Put the users of just these distinct keys aside, to be read more than once, until they are forgotten.

        Rows of one user and one key count once. What `bounded` refuses is refused. Pairs of this source that were put
        aside with `after` are not read again. The amounts of a source are added up for each pair.
        """

    def summed(self, pairs: "Pairs", kernel: "Kernel") -> "Ints":
        """Return the sum of the vectors that a kernel makes of the pairs.

        The kernel reads batches: the rows where users begin, and the position of each row's key in the table of wanted
        keys. Rows of a user follow one another, in one batch. It is called at least once, and where the pairs are: on
        each worker for its own users. All vectors have the same length. If the source has amounts, batches also have
        marks of users, which follow from the user alone, and each amount in whole units.
        """

    def forget_pairs(self, pairs: "Pairs") -> None:
        """Let go of what `pairs_of` has put aside."""

    def forget(self, source: "Source") -> None:
        """Let go of a source that `bounded` or `assigned` returned, and of its temporary files."""

    def sort(
        self, batches: "Iterable[pa.RecordBatch]", schema: "pa.Schema", by: Sequence[str]
    ) -> "Iterator[pa.RecordBatch]":
        """Yield all rows in ascending order of some columns; text in the order of its bytes."""

    def close(self) -> None:
        """Let go of everything, and remove all temporary files."""

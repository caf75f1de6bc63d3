"""Count how many keys have each frequency, for a plan. NOT private: the results are as private as the data.

count_frequencies  the frequencies of keys; of users who keep a bounded number of keys
count_by_bound     the same for several contribution bounds
CountedUsers       the numbers that a release of users without a contribution bound would be made of
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from dpsample.accounting.discovery import Method
from dpsample.accounting.look import TrueLook
from dpsample.accounting.user_budget import UserBudget
from dpsample.errors import InvalidValue
from dpsample.lazy import pc
from dpsample.planning.frequencies import Frequencies
from dpsample.private.assignment import Assigned
from dpsample.private.engine import Engine
from dpsample.private.progress import Listener, no_listener
from dpsample.private.request import check_keywords, check_users
from dpsample.private.run import engine_or_own
from dpsample.private.sources.source import Source
from dpsample.private.users.counts import expected_errors
from dpsample.private.users.look import true_look
from dpsample.scheme.sampling import Floats

_NO_BOUND = 2**62  # a contribution bound that no user reaches


class CountKeywords(TypedDict, total=False):
    """The options of `count_frequencies`: those of a release that say which rows are counted, and for whom."""

    user: str | None
    max_keys_per_user: int | None
    drop_null: bool
    filter: str | None


def count_frequencies(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    engine: Engine | None = None,
    progress: Listener | None = None,
    **options: Unpack[CountKeywords],
) -> Frequencies:
    """Count how many keys of a source have each frequency. NOT private, and neither is a plan that is made by it.

    The arguments are those of `dpsample.release`, with its options `user`, `max_keys_per_user`, `drop_null`, `filter`.
    With `user`, frequencies are numbers of users. Each user keeps `max_keys_per_user` keys, which are drawn once: a
    release draws them anew. `Frequencies.uncut` has the numbers before that.
    `progress` is called now and then with the name of the stage: how often is NOT private either.

    >>> count_frequencies({"weather": 5000, "news": 3000, "my rare disease": 1})
    Frequencies(private)
    """
    check_keywords(options, CountKeywords)
    max_keys = options.pop("max_keys_per_user", None)
    elements = Source.of(source, key, frequency=frequency, **options)
    with engine_or_own(engine) as used:
        return count_by_bound(elements, [max_keys], used, progress)[max_keys]


def count_by_bound(
    source: Source, bounds: Iterable[int | None], engine: Engine, progress: Listener | None = None
) -> dict[int | None, Frequencies]:
    """Count the frequencies for each contribution bound, and once the frequencies before users are bounded."""
    limits = {bound: check_users(source, bound) for bound in bounds}
    if source.user is None:
        engine.check(source)
        return {None: _frequencies(engine, source, progress)}
    uncut = CountedUsers(source, engine, progress).users
    coins = engine.new_coins()
    frequencies: dict[int | None, Frequencies] = {}
    for bound, limit in limits.items():
        if limit is not None:
            kept = engine.bounded(source, limit, coins)
            cut = _frequencies_once(engine, kept, progress)
            frequencies[bound] = replace(cut, uncut=uncut)
    return frequencies


def _frequencies_once(engine: Engine, source: Source, progress: Listener | None) -> Frequencies:
    """Count the frequencies of a source that the engine keeps, and let the engine forget it."""
    try:
        return _frequencies(engine, source, progress)
    finally:
        engine.forget(source)


def _frequencies(engine: Engine, source: Source, progress: Listener | None) -> Frequencies:
    """Count how many keys of a source have each frequency."""
    keys_with: Counter[int] = Counter()  # each frequency
    listener = progress or no_listener
    for batch in engine.aggregated(source):
        listener("counting keys")
        frequencies, keys = np.unique(batch.column("frequency").to_numpy(), return_counts=True)
        keys_with.update(dict(zip(frequencies.tolist(), keys.tolist(), strict=True)))
    return Frequencies.of(keys_with)


class CountedUsers:
    """The numbers of a source that a release of users would be made of: `planning.users.UserNumbers`. NOT private.

    Orders, and which keys users keep, are drawn once: a release draws them anew. The engine keeps what was read until
    it is closed, so that settings that differ in epsilon alone do not read it again.
    """

    def __init__(self, source: Source, engine: Engine, progress: Listener | None = None) -> None:
        if source.user is None:
            raise InvalidValue("a plan for users needs the column of the user", "name it: --user")
        engine.check(source)
        self._source = source
        self._engine = engine
        self.progress = progress
        self._coins = engine.new_coins()
        self._assigned: dict[int, Assigned] = {}  # by the number of users with which a key is full
        self._bounded: dict[int, Source] = {}  # by the number of keys that each user keeps
        self._counted: dict[tuple[Method, int], Frequencies] = {}

    def __repr__(self) -> str:
        return "CountedUsers()"

    @cached_property
    def users(self) -> Frequencies:
        """How many keys have each number of users, if users keep all of their keys."""
        every = self._engine.bounded(self._source, _NO_BOUND, self._coins, rereads=False)
        return _frequencies_once(self._engine, every, self.progress)

    def look(self, full: int, epsilon: Fraction) -> TrueLook:
        """Return how many users have how many keys, without noise, as if it had cost this epsilon."""
        numbers = true_look(self._assignment(full).sizes)
        return TrueLook(tuple(numbers), epsilon)

    def frequencies(self, method: Method, number: int) -> Frequencies:
        """Return how many keys are given each number of users: see `planning.users.UserNumbers`."""
        if (method, number) not in self._counted:
            source = self._source_of(method, number)
            self._counted[method, number] = _frequencies(self._engine, source, self.progress)
        return self._counted[method, number]

    def count_errors(
        self, method: Method, number: int, least: int, budget: UserBudget
    ) -> tuple[Floats, Floats]:
        """Return the users of keys that are given `least` users or more, and the errors of their counts."""
        keys = self._engine.check(self._source)
        batches = []
        for batch in self._engine.aggregated(self._source_of(method, number)):
            enough = pc.greater_equal(batch.column("frequency"), least)
            batches.append(batch.select(keys.names).filter(enough))
        discovered = pa.Table.from_batches(batches, keys)
        return expected_errors(self._engine, self._source, discovered, least, budget, self._pairs)

    def _source_of(self, method: Method, number: int) -> Source:
        """Return the keys that users give: `number` is that of `UserNumbers.frequencies`."""
        if method == "one-key":
            return self._assignment(number).source
        if number not in self._bounded:
            self._bounded[number] = self._engine.bounded(self._source, number, self._coins)
        return self._bounded[number]

    def _assignment(self, full: int) -> Assigned:
        """Return the assignment in which a key is full with this number of users."""
        if full not in self._assigned:
            # the pairs of the first assignment are put aside: counts for all settings read them
            keep_pairs = self._pairs is None
            self._assigned[full] = self._engine.assigned(
                self._source, full, self._coins, keep_pairs=keep_pairs
            )
        return self._assigned[full]

    @property
    def _pairs(self) -> Assigned | None:
        """The first assignment, whose pairs were put aside; None before."""
        return next(iter(self._assigned.values()), None)

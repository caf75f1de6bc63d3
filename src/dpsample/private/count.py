"""Count how many keys have each frequency, for a plan. What comes out is as private as the data.

count_frequencies  the frequencies of keys; of users who keep a bounded number of keys
count_by_bound     the same for several contribution bounds
CountedUsers       what users without a contribution bound would give to a release
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

_NO_BOUND = 2**62  # keys: no user has as many


class CountKeywords(TypedDict, total=False):
    """Which rows are counted, and for whom."""

    user: str | None
    max_keys_per_user: int | None
    drop_null: bool


def count_frequencies(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    engine: Engine | None = None,
    progress: Listener | None = None,
    **options: Unpack[CountKeywords],
) -> Frequencies:
    """Count how many keys of a source have each frequency. NOT private, and neither is what is planned by it.

    The arguments are those of `dpsample.release`; its options `user`, `max_keys_per_user` and `drop_null` are known.
    With `user`, frequencies are numbers of users, of whom each keeps `max_keys_per_user` keys, drawn once: a release
    draws anew. `Frequencies.uncut` has the numbers before that.
    `progress` is called with the name of what is counted, now and then: how often is NOT private either.

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
    """Count the frequencies for each number of keys per user, and once what they are before users keep so many."""
    limits = {bound: check_users(source, bound) for bound in bounds}
    if source.user is None:
        engine.check(source)
        return {None: _frequencies(engine, source, progress)}
    uncut = CountedUsers(source, engine, progress).users
    coins = engine.new_coins()

    def cut(limit: int) -> Frequencies:
        kept = engine.bounded(source, limit, coins)
        try:
            return replace(_frequencies(engine, kept, progress), uncut=uncut)
        finally:
            engine.forget(kept)

    return {bound: cut(limit) for bound, limit in limits.items() if limit is not None}


def _frequencies(engine: Engine, source: Source, progress: Listener | None) -> Frequencies:
    keys_of: Counter[int] = Counter()  # by frequency
    listener = progress or no_listener
    for batch in engine.aggregated(source):
        listener("counting keys")
        frequencies, keys = np.unique(batch.column("frequency").to_numpy(), return_counts=True)
        keys_of.update(dict(zip(frequencies.tolist(), keys.tolist(), strict=True)))
    return Frequencies.of(keys_of)


class CountedUsers:
    """What users would give to a release: `planning.users.UserNumbers` of a source. NOT private, nor are its answers.

    Orders, and which keys users keep, are drawn once: a release draws anew. What was read is kept until the engine is
    closed, so that settings that differ in epsilon alone do not read it again.
    """

    def __init__(self, source: Source, engine: Engine, progress: Listener | None = None) -> None:
        if source.user is None:
            raise InvalidValue("a plan for users needs the column of the user", "name it: --user")
        engine.check(source)
        self._source, self._engine, self.progress = source, engine, progress
        self._coins = engine.new_coins()
        self._assigned: dict[int, Assigned] = {}  # by the number of users at which a key is full
        self._bounded: dict[int, Source] = {}  # by the number of keys that each user keeps
        self._counted: dict[tuple[Method, int], Frequencies] = {}

    def __repr__(self) -> str:
        return "CountedUsers()"

    @cached_property
    def users(self) -> Frequencies:
        """How many keys have each number of users, of all of their keys."""
        every = self._engine.bounded(self._source, _NO_BOUND, self._coins, rereads=False)
        try:
            return _frequencies(self._engine, every, self.progress)
        finally:
            self._engine.forget(every)

    def look(self, full: int, epsilon: Fraction) -> TrueLook:
        """Return how many users have how many keys, without noise, as if it had cost this epsilon."""
        return TrueLook(tuple(true_look(self._given(full).sizes)), epsilon)

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
        found = pa.Table.from_batches(batches, keys)
        return expected_errors(self._engine, self._source, found, least, budget, self._pairs)

    def _source_of(self, method: Method, number: int) -> Source:
        if method == "one-key":
            return self._given(number).source
        if number not in self._bounded:
            self._bounded[number] = self._engine.bounded(self._source, number, self._coins)
        return self._bounded[number]

    def _given(self, full: int) -> Assigned:
        if full not in self._assigned:
            first = self._pairs is None  # whose pairs are put aside for all counts
            self._assigned[full] = self._engine.assigned(
                self._source, full, self._coins, keep_pairs=first
            )
        return self._assigned[full]

    @property
    def _pairs(self) -> Assigned | None:
        return next(iter(self._assigned.values()), None)

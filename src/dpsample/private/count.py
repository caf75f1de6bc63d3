"""Count how many keys have each frequency, for a plan. What comes out is as private as the data."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsample.planning.frequencies import Frequencies
from dpsample.private.engine import Engine
from dpsample.private.progress import Progress, no_progress, with_progress
from dpsample.private.request import check_users
from dpsample.private.run import engine_or_own
from dpsample.private.source import Source


def count_frequencies(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    drop_null: bool = False,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Frequencies:
    """Count how many keys of a source have each frequency. NOT private, and neither is what is planned by it.

    The arguments are those of `dpsample.release`. With `user`, frequencies are numbers of users, of whom each keeps
    `max_keys_per_user` keys, drawn once: a release draws anew.

    >>> count_frequencies({"weather": 5000, "news": 3000, "my rare disease": 1})
    Frequencies(private)
    """
    elements = Source.of(source, key, frequency=frequency, drop_null=drop_null, user=user)
    limit = check_users(elements, max_keys_per_user)
    keys_of: Counter[int] = Counter()  # frequency -> number of keys
    with engine_or_own(engine) as used:
        used.check(elements)
        counted = elements if limit is None else used.bounded(elements, limit, used.new_coins())
        for batch in with_progress(used.aggregated(counted), "counting keys", None, progress or no_progress):
            frequencies, keys = np.unique(batch.column("frequency").to_numpy(), return_counts=True)
            keys_of.update(dict(zip(frequencies.tolist(), keys.tolist(), strict=True)))
        if counted is not elements:
            used.forget(counted)
    return Frequencies.of(keys_of)

"""Count how many keys have each frequency, for a plan. What comes out is as private as the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsample.planning.frequencies import Frequencies
from dpsample.private.engine import Engine
from dpsample.private.randomness import SecretCoins
from dpsample.private.request import check_users
from dpsample.private.run import Progress, bounded, quietly, running, told
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
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null, user=user)
    limit = check_users(made, max_keys_per_user)
    tally: dict[int, int] = {}
    with running(engine) as using:
        using.check(made)
        counted = bounded(made, limit, using, SecretCoins())
        for batch in told(using.aggregated(counted), "counting keys", None, progress or quietly):
            values, keys = np.unique(batch.column("frequency").to_numpy(), return_counts=True)
            for i, n in zip(values.tolist(), keys.tolist(), strict=True):
                tally[i] = tally.get(i, 0) + n
        if counted is not made:
            using.forget(counted)
    return Frequencies.of(tally)

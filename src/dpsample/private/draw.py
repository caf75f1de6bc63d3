"""Draw: the way to a release, and how its keys are sampled and sanitized in this process.

key, frequency -> (sample) -> key, token -> in the order of keys; the release has what follows from tokens
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from dpsample.private.bounded import draw_bounded_users
from dpsample.private.checks import usable_strategy
from dpsample.private.derived_coins import Secret
from dpsample.private.drawing import Batches, Counting, Drawing, DrawnRelease
from dpsample.private.elements import draw_elements
from dpsample.private.engine import Engine
from dpsample.private.progress import Progress
from dpsample.private.randomness import CoinSource
from dpsample.private.request import SampleRequest
from dpsample.private.sanitizer import Sanitizer, picked_elements, sampled_batch
from dpsample.release.rows import drawn_columns
from dpsample.release.terms import Terms


@contextmanager
def drawn_release(drawing: Drawing) -> Iterator[DrawnRelease]:
    """Draw a release for the time of a block, in which it is written; nothing of it has left the run before."""
    max_keys = drawing.request.setting.max_keys_per_user
    try:
        if drawing.request.discovers:
            from dpsample.private.users.walk import (
                draw_users,
            )  # many modules, which a release of elements does without

            yield draw_users(drawing)
        elif max_keys is not None:
            yield draw_bounded_users(drawing, max_keys)
        else:
            yield draw_elements(drawing)
    finally:
        for source in [*drawing.kept]:
            drawing.forget(source)


def draw_keys(drawing: Drawing, counting: Counting, terms: Terms) -> DrawnRelease:
    """Sample and sanitize keys in this process."""
    sampled = draw_sample(counting, drawing.engine, drawing.coins, drawing.progress)
    drawn = sanitize_batches(sampled, counting.keys, terms, drawing.engine, drawing.coins)
    return replace(drawn, strategy=counting.strategy)


def sanitize_batches(
    sampled: Batches, keys: pa.Schema, terms: Terms, engine: Engine, coins: CoinSource
) -> DrawnRelease:
    """Sanitize a sample, and put what is reported into the order of keys."""
    sanitizer, drawn = Sanitizer.of(terms), drawn_columns(keys, terms)
    reported = (
        sanitizer.batch(batch, coins.for_keys(batch.select(keys.names), "sanitize"))
        for batch in sampled
    )
    return DrawnRelease(terms, drawn, engine.sort(reported, drawn, terms.keys))


# ---- samples


def prepare_sample(engine: Engine, request: SampleRequest, coins: CoinSource) -> Counting:
    """Bound users, for a sample that is not released yet; what they keep is with the engine until it is closed."""
    source = request.source
    keys = engine.check(source)
    strategy = usable_strategy(engine, source, request.sampling, request.strategy)
    if request.max_keys is not None:
        source = engine.bounded(source, request.max_keys, coins, rereads=strategy == "two-pass")
    return Counting(source, keys, request.sampling, strategy)


def draw_sample(
    counting: Counting, engine: Engine, coins: CoinSource, progress: Progress
) -> Batches:
    """Draw a weighted sample: key, frequency. Known keys are counted, and none is left out."""
    if counting.known is not None:
        joined = engine.aggregated(counting.source, counting.known, counting.only_known)
        yield from progress.through("counting keys", joined)
    elif counting.strategy == "aggregate":
        yield from _sampled_keys(counting, engine, coins, progress)
    else:
        keys = _keys_of_picked_elements(counting, engine, coins, progress)
        yield from progress.through("counting picked keys", engine.count(counting.source, keys))


def _sampled_keys(
    counting: Counting, engine: Engine, coins: CoinSource, progress: Progress
) -> Batches:
    """Count all keys, then sample them."""
    counted = engine.aggregated(counting.source) if counting.counted is None else counting.counted
    for batch in progress.through("counting keys", counted):
        keys = batch.select(counting.source.key)
        yield sampled_batch(batch, counting.sampling, coins.for_keys(keys, "sample"))


def _keys_of_picked_elements(
    counting: Counting, engine: Engine, coins: CoinSource, progress: Progress
) -> pa.Table:
    """Sample elements, and return their keys, each once."""
    gate = coins if isinstance(coins, Secret) else Secret()
    parts = []
    elements = progress.through("picking elements", engine.elements(counting.source))
    for n, batch in enumerate(elements):
        rows = picked_elements(batch, counting.sampling, coins.for_elements(batch, (0, n)), gate)
        parts.append(batch.take(pa.array(rows)))
    return (
        pa.Table.from_batches(parts, counting.keys)
        .group_by(list(counting.source.key))
        .aggregate([])
    )

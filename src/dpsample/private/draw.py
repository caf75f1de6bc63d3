"""Draw: which walk a release takes, and how its keys are sampled and sanitized in this process.

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
    """Lend a drawn release to a block, which writes it; afterwards the engine forgets what it kept for it.

    Rows are drawn while they are written: before the block reads them, nothing has left the run.
    """
    try:
        yield _walk(drawing)
    finally:
        for source in list(drawing.kept):
            drawing.forget(source)


def _walk(drawing: Drawing) -> DrawnRelease:
    """Take the walk that the request asks for: of users, of bounded users, or of elements."""
    max_keys = drawing.request.options.max_keys_per_user
    if drawing.request.discovers:
        # its many modules are imported on demand: a release of elements starts without them
        from dpsample.private.users.walk import draw_users

        return draw_users(drawing)
    if max_keys is not None:
        return draw_bounded_users(drawing, max_keys)
    return draw_elements(drawing)


def draw_keys(drawing: Drawing, counting: Counting, terms: Terms) -> DrawnRelease:
    """Sample and sanitize keys in this process."""
    sampled = draw_sample(counting, drawing.engine, drawing.coins, drawing.progress)
    drawn = sanitize_batches(sampled, counting.keys, terms, drawing.engine, drawing.coins)
    return replace(drawn, strategy=counting.strategy)


def sanitize_batches(
    sampled: Batches, keys: pa.Schema, terms: Terms, engine: Engine, coins: CoinSource
) -> DrawnRelease:
    """Sanitize a sample, and put what is reported into the order of keys, which tells nothing of the data."""
    sanitizer = Sanitizer.of(terms)
    drawn = drawn_columns(keys, terms)

    def reported() -> Batches:
        for batch in sampled:
            coins_of_keys = coins.for_keys(batch.select(keys.names), "sanitize")
            yield sanitizer.batch(batch, coins_of_keys)

    return DrawnRelease(terms, drawn, engine.sort(reported(), drawn, terms.keys))


# ---- samples


def prepare_sample(engine: Engine, request: SampleRequest, coins: CoinSource) -> Counting:
    """Bound users, for a sample that is not released yet; what they keep stays with the engine until it is closed."""
    source = request.source
    keys = engine.check(source)
    strategy = usable_strategy(engine, source, request.sampling, request.strategy)
    if request.max_keys is not None:
        read_twice = strategy == "two-pass"
        source = engine.bounded(source, request.max_keys, coins, rereads=read_twice)
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
        counted = engine.count(counting.source, keys)
        yield from progress.through("counting picked keys", counted)


def _sampled_keys(
    counting: Counting, engine: Engine, coins: CoinSource, progress: Progress
) -> Batches:
    """Count all keys, then sample them."""
    counted = counting.counted
    if counted is None:
        counted = engine.aggregated(counting.source)
    for batch in progress.through("counting keys", counted):
        keys = batch.select(counting.source.key)
        coins_of_keys = coins.for_keys(keys, "sample")
        yield sampled_batch(batch, counting.sampling, coins_of_keys)


def _keys_of_picked_elements(
    counting: Counting, engine: Engine, coins: CoinSource, progress: Progress
) -> pa.Table:
    """Sample elements, and return their keys, each once."""
    # the gate of a soft cap decides about a key the same in every batch, so its coins must follow from the key
    gate = coins if isinstance(coins, Secret) else Secret()
    picked = []
    elements = progress.through("picking elements", engine.elements(counting.source))
    for number, batch in enumerate(elements):
        coins_of_batch = coins.for_elements(batch, (0, number))
        rows = picked_elements(batch, counting.sampling, coins_of_batch, gate)
        picked.append(batch.take(pa.array(rows)))
    all_picked = pa.Table.from_batches(picked, counting.keys)
    by_key = all_picked.group_by(list(counting.source.key))
    return by_key.aggregate([])

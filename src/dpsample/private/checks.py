"""Checks: what is refused of a request before any cost, by names, types and the kind of source."""

import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.private.engine import Engine
from dpsample.private.request import Request, strategy_of
from dpsample.private.sources.source import Source
from dpsample.release.options import Strategy
from dpsample.release.rows import check_key_types
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Sampling


def check_source(engine: Engine, request: Request) -> pa.Schema:
    """Refuse, before any cost, what can be refused without reading rows; return the schema of the key."""
    source = request.source
    options = request.options
    keys = engine.check(source)
    check_key_types(keys, source.key)
    if rereads(request):
        _require_repeatable(engine, source, "leave totals and sizes out")
    usable_strategy(engine, source, options.sampling, options.strategy)
    if request.known is not None:
        request.known.table(keys)  # refuses a list that is wrong
    return keys


def usable_strategy(
    engine: Engine, source: Source, sampling: Sampling, strategy: Strategy
) -> Strategy:
    """Choose how a sample is drawn, as `strategy_of` does; rows that may differ when read again are read once."""
    if isinstance(sampling, SampleAndHold):
        raise InvalidValue(
            "SampleAndHold is a scheme for streams, but this source can be read more than once",
            "use Ppswor, which is more accurate, or dpsample.Stream (dpsample stream)",
        )
    chosen = strategy_of(source, sampling, strategy)
    if chosen == "aggregate":
        return chosen
    if strategy == "two-pass":
        _require_repeatable(engine, source, "leave the strategy out")
    return chosen if engine.repeatable(source) else "aggregate"


def rereads(request: Request) -> bool:
    """Whether rows are read for a total or a size, and again for the keys."""
    options = request.options
    return options.size is not None or options.budget.total > 0


def _require_repeatable(engine: Engine, source: Source, remedy: str) -> None:
    """Refuse a source that would be read twice, and whose rows may differ the second time."""
    if not engine.repeatable(source):
        raise InvalidValue(
            "this release reads its source twice, and the rows of this one may differ the second time",
            f"write it to files first, or {remedy}",
        )

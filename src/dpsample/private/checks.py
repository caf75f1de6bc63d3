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
    keys = engine.check(request.source)
    check_key_types(keys, request.source.key)
    if rereads(request):
        _require_repeatable(engine, request.source, "leave totals and sizes out")
    usable_strategy(engine, request.source, request.setting.sampling, request.strategy)
    if request.known is not None:
        request.known.table(keys)
    return keys


def usable_strategy(
    engine: Engine, source: Source, sampling: Sampling, strategy: Strategy
) -> Strategy:
    """Choose how a sample is drawn; rows that may differ when they are read again are read once."""
    if isinstance(sampling, SampleAndHold):
        raise InvalidValue(
            "keys are held while a stream comes, but this source can be read again",
            "use Ppswor, which is more accurate, or dpsample.Stream (dpsample stream)",
        )
    chosen = strategy_of(source, sampling, strategy)
    if chosen == "two-pass" and strategy == "two-pass":
        _require_repeatable(engine, source, "leave the strategy out")
    return chosen if chosen == "aggregate" or engine.repeatable(source) else "aggregate"


def rereads(request: Request) -> bool:
    """Whether rows are read for a total or a size, and again for the keys."""
    return request.setting.size is not None or request.setting.budget.total > 0


def _require_repeatable(engine: Engine, source: Source, remedy: str) -> None:
    if not engine.repeatable(source):
        raise InvalidValue(
            "what is read twice must be the same each time, unlike a DataFrame with random columns or filters",
            f"write it to files first, or {remedy}",
        )

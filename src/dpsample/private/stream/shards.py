"""Shards: streams of disjoint sets of keys, which are merged."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsample.errors import InvalidValue

if TYPE_CHECKING:
    from dpsample.private.stream.stream import Stream


def checked_shard(shard: Any) -> tuple[int, int] | None:
    """Return a shard as it is stated: its number and the number of shards, or None."""
    if shard is None:
        return None
    if not _is_shard(shard):
        raise InvalidValue(
            f"a shard must be its number, from 0 on, and the number of shards, not {shard!r}",
            "state, for example, 0 of 4",
        )
    number, shards = shard
    return number, shards


def _is_shard(shard: Any) -> bool:
    """Return whether a value is the number of a shard and the number of shards."""
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        return False
    number, shards = shard
    if type(number) is not int or type(shards) is not int:
        return False
    return 0 <= number < shards < 2**31


def check_shards(streams: Sequence["Stream"]) -> None:
    """Refuse streams that are not shards of one stream."""
    problem = _why_not_shards(streams)
    if problem is not None:
        raise InvalidValue(
            f"these streams cannot be merged: {problem}",
            "divide elements by key, and state the shard of each stream when it is started",
        )


def _why_not_shards(streams: Sequence["Stream"]) -> str | None:
    """Return why streams are not shards of one stream; None if they are."""
    if len(streams) < 2:
        return "there are fewer than two"
    if any(stream.used for stream in streams):
        return "one was sanitized or merged already"
    shards = [stream.shard for stream in streams if stream.shard is not None]
    if len(shards) < len(streams):
        return "one states no shard, and two streams that share a key have picked it twice"
    divisions = {number_of_shards for _, number_of_shards in shards}
    if len(set(shards)) < len(shards) or len(divisions) > 1:
        return "a shard is there twice, or shards are of different divisions"
    if len({(stream.sampling, stream.keys) for stream in streams}) > 1:
        return "they have different tau or key columns"
    if len({stream.table.schema for stream in streams}) > 1:
        return "they have keys of different types"
    return None

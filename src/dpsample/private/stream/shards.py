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
    whole = (
        isinstance(shard, tuple | list) and len(shard) == 2 and all(type(n) is int for n in shard)
    )
    if not whole or not 0 <= shard[0] < shard[1] < 2**31:
        raise InvalidValue(
            f"a shard must be its number, from 0 on, and the number of shards, not {shard!r}",
            "state, for example, 0 of 4",
        )
    return shard[0], shard[1]


def check_shards(parts: Sequence["Stream"]) -> None:
    """Refuse streams that are not shards of one."""
    found = None
    if len(parts) < 2:
        found = "there are fewer than two"
    elif any(part.used for part in parts):
        found = "one was sanitized or merged already"
    elif any(part.shard is None for part in parts):
        found = "one states no shard, and two streams that share a key have picked it twice"
    elif (
        len({part.shard for part in parts}) < len(parts)
        or len({part.shard[1] for part in parts if part.shard}) > 1
    ):
        found = "a shard is there twice, or shards are of different divisions"
    elif len({(part.sampling, part.keys) for part in parts}) > 1:
        found = "they have different tau or key columns"
    elif len({part.table.schema for part in parts}) > 1:
        found = "they have keys of different types"
    if found is not None:
        raise InvalidValue(
            f"these streams cannot be merged: {found}",
            "divide elements by key, and state the shard of each stream when it is started",
        )

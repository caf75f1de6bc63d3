"""A stream's secret stays in one place: a stream is neither pickled nor copied."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpsample import InvalidValue, Stream, read_stream

pytestmark = pytest.mark.chance("odds 1e-12: one of a few elements is not picked, exp(-32) each")

COPIES: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {n}": partial(pickle.dumps, protocol=n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "inside a list": lambda stream: copy.deepcopy([stream]),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_stream_is_not_copied(name: str) -> None:
    stream = Stream(tau=32)
    stream.add(["a", "b"])
    with pytest.raises(InvalidValue, match="write its state"):
        COPIES[name](stream)
    stream.add(["a"])
    assert sorted(stream.table["key"].to_pylist()) == ["a", "b"]


def test_the_remedy_works(tmp_path: Path) -> None:
    stream = Stream(tau=32)
    stream.add(["a"])
    stream.write(tmp_path / "state.private")
    other = read_stream(tmp_path / "state.private")
    other.add(["a"])
    assert other.table.to_pylist() == [{"key": "a", "frequency": 2}]

"""An explorer that is served to a test."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dpsample import Source
from dpsample.planning.explore import Choices, Explorer, Place, Server
from dpsample.planning.explore.choices import SAMPLING
from dpsample.planning.explore.page import page
from dpsample.planning.frequencies import Frequencies

ZIPF = Frequencies.zipf(1, 1000)
USERS = (None, 2, 200)


def explorer(private: bool = False, source: Source | None = None) -> Explorer:
    made = Frequencies(ZIPF.values, ZIPF.keys, private)
    return Explorer(dict.fromkeys(USERS, made), Choices.of(ZIPF, epsilon=1, delta="1e-6", users=USERS), 0.1, source)


@contextmanager
def serving(made: Any, notice: str | None = None, idle: float = 3600, document: Any = None) -> Iterator[Server]:
    server = Server(made, document or page(made, "Made up", notice), idle=idle)
    server.timeout = 0.02
    thread = threading.Thread(target=server.serve)
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.idle = -1
            thread.join()


def placed(choices: Choices, epsilon: int, delta: int, how: int, tau: int, size: int, users: int) -> Place:
    """The place at these positions of the sliders."""
    found = choices.epsilon[epsilon], choices.delta[delta], list(SAMPLING)[how], choices.tau[tau], choices.size[size]
    return choices.relevant(Place(*found, choices.users[users]))


# answers


def number(text: str) -> float:
    """Read a number that is shown."""
    plain = text.replace(",", "").removesuffix(" times")
    return float(plain.removesuffix(" %")) / 100 if plain.endswith(" %") else float(plain)


NUMBERS = {"many": 1000, "some": 100, "few": 14, "rare": 1}  # users of each key


def one_key_each() -> pa.Table:
    """Users have one key each, in two rows."""
    rows = [(f"{key} {n}", key) for key, users in NUMBERS.items() for n in range(users)] * 2
    return pa.table({"u": [u for u, _ in rows], "k": [k for _, k in rows]})

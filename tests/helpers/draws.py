"""Every noise and every coin of a release, watched: what draws, from which coins, and by which law.

`WatchedEngine` gives out coins that follow from a seed and from the number of the stream, and notes each stream.
`watched_noise` notes each call of a function that draws noise: its law, its coins, and what it drew. Both can change
one thing and leave all others: the coins of one stream, or one number of one noise.

`places` lists each place in the source that asks for coins or draws a noise; `private/test_draws.py` has a test
for each.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsample
import dpsample.private
from dpsample.accounting.look import Look
from dpsample.private import noise
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.randomness import Coins, StreamCoins, Words
from dpsample.release.terms import Terms
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.sampling import Ints

SOURCE = Path(dpsample.__file__).parent
Law = Fraction | KeyNoise  # the scale of discrete Laplace noise, or a table

# ---- the places in the source

GIVE_COINS = {"fresh", "for_keys", "for_elements", "new_coins", "words_of", "wide"}
MAKE_COINS = {"SecretCoins", "StreamCoins", "KeyedCoins", "Secret", "secret_key", "urandom", "getrandom"}
DRAW_NOISE = {"discrete_laplace", "from_table"}
OTHER_RANDOMNESS = {"default_rng", "randbits", "randbelow", "token_bytes", "token_hex", "token_urlsafe", "uuid4"}
NAMES = GIVE_COINS | MAKE_COINS | DRAW_NOISE | OTHER_RANDOMNESS


def places() -> Counter[str]:
    """How often each function of the package calls what gives out coins or draws noise: "module.function: name"."""
    found: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        _count_calls(ast.parse(path.read_text(encoding="utf-8")), module, found)
    return found


def _count_calls(node: ast.AST, where: str, found: Counter[str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            called = child.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            if name in NAMES:
                found[f"{where}: {name}"] += 1
        inside = f"{where}.{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
        _count_calls(child, inside, found)


# ---- coins


class WatchedCoins(StreamCoins):
    """A stream of a release: who asked for it, how, and how many words were read."""

    def __init__(self, key: bytes, how: str) -> None:
        super().__init__(key)
        self.how, self.words = how, 0

    def first(self, n: int) -> Words:
        self.words += n
        return super().first(n)


class WatchedSource:
    """The coins of one release: stream n follows from n alone. With `changed`, (n, m), stream n is its m-th other."""

    def __init__(self, changed: tuple[int, int] | None = None) -> None:
        self.changed = changed
        self.streams: list[WatchedCoins] = []

    def key_of(self, number: int) -> bytes:
        """The key of a stream."""
        changed, other = self.changed or (None, 0)
        if number != changed:
            other = 0
        return hashlib.sha256(f"stream {number}, {other}".encode()).digest()

    def _next(self, how: str) -> WatchedCoins:
        stream = WatchedCoins(self.key_of(len(self.streams)), how)
        self.streams.append(stream)
        return stream

    def fresh(self) -> Coins:
        return self._next("fresh")

    def for_keys(self, keys: pa.RecordBatch, purpose: str) -> Coins:
        return self._next(purpose)

    def for_elements(self, elements: pa.RecordBatch, place: tuple[int, int]) -> Coins:
        return self._next("pick")


class WatchedEngine(DuckDB):
    """An engine whose releases draw from a watched source."""

    def __init__(self, changed: tuple[int, int] | None = None) -> None:
        super().__init__(threads=1)
        self.coins = WatchedSource(changed)
        self.asked = 0

    def new_coins(self) -> Any:
        self.asked += 1
        return self.coins


# ---- noise


@dataclass(frozen=True, eq=False)
class Drawn:
    """One call of a function that draws noise."""

    law: Law
    numbers: Ints
    coins: Coins


@dataclass(frozen=True)
class Change:
    """What is changed of the noise of a release: none is there, or one number of one draw is another one."""

    none: bool = False
    draw: int = -1
    number: int = 0
    up: bool = True


@contextmanager
def watched_noise(change: Change | None = None) -> Iterator[list[Drawn]]:
    """Note what draws noise, in all modules that have the functions by name."""
    change, found = change or Change(), list[Drawn]()

    def noted(law: Law, numbers: Ints, coins: Coins) -> Ints:
        far = 100 * max(int(law), 1) if isinstance(law, Fraction) else law.cells
        if change.none:
            numbers = 0 * numbers
        if change.draw == len(found):
            numbers[change.number] += far if change.up else -far
        found.append(Drawn(law, numbers, coins))
        return numbers

    laplace, table = noise.discrete_laplace, noise.from_table

    def discrete_laplace(scale: Fraction, coins: Coins) -> int:
        drawn = np.array([laplace(scale, coins)])
        return int(noted(scale, drawn, coins)[0])

    def from_table(law: KeyNoise, n: int, coins: Coins) -> Ints:
        return noted(law, table(law, n, coins), coins)

    instead: dict[str, tuple[Any, Any]] = {
        "discrete_laplace": (laplace, discrete_laplace),
        "from_table": (table, from_table),
    }
    # a module that is first imported while names are patched would keep the patched functions for ever
    for module_info in pkgutil.walk_packages(dpsample.private.__path__, "dpsample.private."):
        importlib.import_module(module_info.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("dpsample.")]
    with pytest.MonkeyPatch.context() as patch:
        for name, (original, own) in instead.items():
            for module in modules:
                if getattr(module, name, None) is original:
                    patch.setattr(module, name, own)
        yield found


def certified(terms: Terms) -> list[Law]:
    """The law of each noise that the terms of a release state, number by number, or table by table."""
    weights = None if terms.bought.size is None else terms.bought.size.weights
    totals = [weights, terms.bought.total, terms.bought.dropped]
    laws: list[Law] = [total.scale / total.unit for total in totals if total is not None]
    for bought in () if terms.discovery is None else terms.discovery.bought:
        laws += [1 / bought.epsilon] * len(bought.users) if isinstance(bought, Look) else [bought.scale]
    if terms.counts is not None:
        laws += [part.noise for part in terms.counts.noise]
    return laws

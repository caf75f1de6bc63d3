"""Releases of stated keys and frequencies, by the walks of real releases, with coins that everybody knows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, Literal, Unpack, get_args

import numpy as np
import pyarrow as pa

from dpsample.accounting.budget import Budget
from dpsample.answers.release import Release
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.privacy import Privacy
from dpsample.private.checks import check_source
from dpsample.private.derived_coins import Secret
from dpsample.private.draw import draw_keys, drawn_release, sanitize_batches
from dpsample.private.drawing import Drawing, DrawnRelease
from dpsample.private.engine.duckdb import DuckDB
from dpsample.private.progress import Progress
from dpsample.private.randomness import StreamCoins
from dpsample.private.request import Request
from dpsample.private.sources.source import Source
from dpsample.private.stream.held import HeldKeys, words_of
from dpsample.private.tokens import terms_of
from dpsample.release.options import ReleaseKeywords
from dpsample.scheme.holding import SampleAndHold

Kind = Literal["tokens", "keys only", "known keys", "counted users", "stream"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_PRIVACY: Final = Privacy(1, "1e-6")
_TAU: Final = "0.1"  # of a stream, by default: keys of 100 elements and more are nearly always held
_MOST_ROWS: Final = (
    10**7
)  # rows that are made of frequencies, for users and streams: more do not fit into memory
_USER: Final = "user of dpsample.testing"  # a column that no key has by accident
_NOT_HERE: Final = ("ledger", "prior", "user", "keys", "only_known", "keys_only", "drop_null")


class KnownCoins(Secret):
    """Coins that follow from a number alone, so that everybody knows them; the same whatever the order of rows."""

    def __init__(self, number: int) -> None:
        self._seed = f"dpsample.testing {number}".encode()
        self._noises = 0
        super().__init__(self._key_of(b"keys"))

    def _key_of(self, purpose: bytes) -> bytes:
        return blake2b(self._seed + b" " + purpose, digest_size=32).digest()

    def fresh(self) -> StreamCoins:
        """Return the coins of the next noise: each has a stream of its own."""
        self._noises += 1
        purpose = f"noise {self._noises}".encode()
        return StreamCoins(self._key_of(purpose))

    def key_of_elements(self) -> bytes:
        """Return the key of the coins of a stream's elements."""
        return self._key_of(b"elements")


def release(
    frequencies: Mapping[Any, int],
    kind: Kind = "tokens",
    key: str | Sequence[str] | None = None,
    *,
    privacy: Privacy = _PRIVACY,
    number: int = 0,
    tau: Number = _TAU,
    **options: Unpack[ReleaseKeywords],
) -> Release:
    """Return a release of these keys and frequencies for a test. It is NOT private, and marked as such.

    kind      "tokens"; "keys only", without numbers; "known keys", each of which is reported, also with 0; "counted
              users", where a frequency is a number of users with one key each; "stream", by sample and hold
    key       the name of the key column, or several if keys are tuples; by default "key"
    privacy   rare keys are left out by it, as in a real release
    number    another number gives another draw
    tau       the sampling threshold of a stream
    options   of `dpsample.release`, such as `sampling` and `total`; a stream has none

    >>> release({"cat": 120, "dog": 45, "eel": 0}, "known keys").table["key"].to_pylist()
    ['cat', 'dog', 'eel']
    >>> release({("Oslo", 1): 400, ("Rome", 2): 90}, "stream", ["city", "shop"]).keys
    ('city', 'shop')
    """
    if kind not in KINDS:
        kinds = ", ".join(map(repr, KINDS))
        raise InvalidValue(f"`kind` must be one of {kinds}, not {kind!r}")
    for name in _NOT_HERE:
        if name in options:
            raise InvalidValue(
                f"`{name}` cannot be used for a release that is made for tests",
                "leave it out; `kind` says what is released",
            )
    source = Source(dict(frequencies), key)
    coins = KnownCoins(number)
    with DuckDB(threads=1) as engine:  # so that noise is drawn in the same order each time
        if kind == "stream":
            if options:
                raise InvalidValue("a stream has no options beside `tau`", "leave them out")
            drawn = _stream(engine, source, privacy, SampleAndHold(tau), coins)
            return _marked(drawn)
        request = _request(engine, source, kind, privacy, options)
        keys = check_source(engine, request)
        drawing = Drawing(engine, request, keys, coins, Progress(), draw_keys)
        with drawn_release(drawing) as drawn:
            return _marked(drawn)


def _marked(drawn: DrawnRelease) -> Release:
    """Return what was drawn, with the mark."""
    terms = replace(drawn.terms, made_for_tests=True)
    return Release(drawn.table(), terms)


def _request(
    engine: DuckDB, source: Source, kind: Kind, privacy: Privacy, options: ReleaseKeywords
) -> Request:
    """Return the request of a release of a kind."""
    stated: dict[str, Any] = {**options, "privacy": privacy}
    if kind == "counted users":
        rows = _elements(engine, source)
        rows = rows.append_column(_USER, pa.array(np.arange(len(rows))))
        return Request.of(rows, list(source.key), user=_USER, **stated)
    if kind == "known keys":
        listed = list(source.data)
        return Request.of(source, keys=listed, only_known=True, **stated)
    return Request.of(source, keys_only=kind == "keys only", **stated)


def _elements(engine: DuckDB, source: Source) -> pa.Table:
    """Return a row for each element of a source of frequencies, without them."""
    schema = engine.check(source).append(pa.field("frequency", pa.int64()))
    in_order = [(name, "ascending") for name in source.key]
    counted = pa.Table.from_batches(engine.aggregated(source), schema).sort_by(in_order)
    frequencies = counted["frequency"].to_numpy()
    if frequencies.sum() > _MOST_ROWS:
        raise InvalidValue(
            f"frequencies must sum to at most {_MOST_ROWS:,} for users and streams",
            "use smaller ones, or another kind",
        )
    rows = np.repeat(np.arange(len(counted)), frequencies)
    return counted.take(pa.array(rows)).drop_columns(["frequency"])


def _stream(
    engine: DuckDB, source: Source, privacy: Privacy, sampling: SampleAndHold, coins: KnownCoins
) -> DrawnRelease:
    """Sample and hold elements, and sanitize what is held."""
    elements = _elements(engine, source)
    held = HeldKeys(elements.schema)
    words = words_of(coins.key_of_elements(), 0, len(elements))
    held.count(elements, words, sampling.picked_words)
    terms = terms_of(Budget(privacy), sampling, source.key)
    batches = iter(held.table.to_batches())
    return sanitize_batches(batches, elements.schema, terms, engine, coins)

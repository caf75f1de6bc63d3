"""release, sample, sanitize: from data to something that may be published.

    source -> (sample) -> sanitize -> release

A run looks at its input before it does any work, draws each coin once, and hands over a whole result or none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dpsample.engine import Engine
from dpsample.errors import InvalidValue
from dpsample.estimators import mle
from dpsample.files import check_output
from dpsample.keyed import Secret
from dpsample.privacy import Privacy
from dpsample.randomness import Coins, SecretCoins
from dpsample.releases import Release, Terms, write_release
from dpsample.samples import Sample
from dpsample.sanitizer import Sanitizer, picked, sampled_batch
from dpsample.scheme.sampling import Floats, KeepAll, Ppswor, Sampling
from dpsample.scheme.tokens import default_grid
from dpsample.source import Source

Way = Literal["auto", "aggregate", "two-pass"]
Progress = Callable[[str, int, int | None], None]
Batches = Iterator[pa.RecordBatch]

_TWO_PASS_UP_TO = 0.02  # tau up to which picking elements first is at worst a little slower than counting all keys


def release(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Read elements, sample keys, sanitize them: a release, which may be published.

    `source` is a `Source`, a path, or an object (a data frame, an Arrow table, a Counter, keys, ...); `key` names its
    key column(s), `frequency` the column of already aggregated rows. Without `sampling` all keys are kept.

    >>> from collections import Counter
    >>> from dpsample import Privacy, release
    >>> words = Counter({"the": 500, "of": 400, "serendipity": 1})
    >>> release(words, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null)
    with _running(engine) as using:
        terms, schema, batches = _released(
            made, privacy, sampling or KeepAll(), keys_only, grid, way, using, progress, SecretCoins()
        )
        return Release(pa.Table.from_batches(batches, schema), terms)


def release_to_file(
    output: str | PathLike[str],
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    force: bool = False,
    format: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> int:
    """Do what `release` does, but stream to a file that appears whole or not at all; return the number of keys in it.

    Parquet by default; CSV and Arrow by the file's extension or `format`. An existing file is kept unless `force`.
    """
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null)
    check_output(output, force=force, format=format)
    with _running(engine) as using:
        terms, schema, batches = _released(
            made, privacy, sampling or KeepAll(), keys_only, grid, way, using, progress, SecretCoins()
        )
        return write_release(output, batches, schema, terms, force=force, format=format)


def sample(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    sampling: Sampling,
    drop_null: bool = False,
    way: Way = "auto",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Sample:
    """Draw a weighted sample of keys. It is NOT private: `sanitize` it before it leaves the house.

    >>> from collections import Counter
    >>> from dpsample import Ppswor, sample
    >>> sample(Counter({"the": 500, "of": 400}), sampling=Ppswor(tau=1))
    Sample (NOT private): 2 keys, Ppswor(tau='1')
    """
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null)
    with _running(engine) as using:
        schema = using.check(made).append(pa.field("frequency", pa.int64()))
        batches = _sampled(made, sampling, way, using, progress, SecretCoins())
        return Sample(pa.Table.from_batches(batches, schema), sampling, made.key)


def sanitize(
    sample: Sample,
    *,
    privacy: Privacy,
    keys_only: bool = False,
    grid: int | None = None,
    engine: Engine | None = None,
) -> Release:
    """Turn a sample into a release. Its scheme travels with it, and the data are not needed any more.

    >>> from collections import Counter
    >>> from dpsample import Ppswor, Privacy, sample, sanitize
    >>> drawn = sample(Counter({"the": 500, "of": 400, "serendipity": 1}), sampling=Ppswor(tau=1))
    >>> sanitize(drawn, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    with _running(engine) as using:
        terms = terms_of(privacy, sample.sampling, sample.keys, keys_only, grid)
        schema = sample.table.schema
        schema = schema.remove(schema.get_field_index("frequency"))
        return Release(
            pa.Table.from_batches(
                _sanitized(iter(sample.table.to_batches()), terms, schema, using, SecretCoins()),
                columns_of(schema, terms),
            ),
            terms,
        )


def way_of(source: Source, sampling: Sampling, way: Way = "auto") -> Way:
    """Choose how a sample is drawn, from what is public: the kind of source, and the scheme.

    "two-pass" picks elements, then counts only their keys, so that it never holds all keys. It works for raw elements
    that can be read twice and ppswor with power 1, and draws exactly the same samples as "aggregate" does.

    >>> way_of(Source("events.parquet", key="query"), Ppswor(tau=1e-4))
    'two-pass'
    >>> way_of(Source("events.parquet", key="query"), KeepAll())
    'aggregate'
    """
    possible = (
        not source.aggregated
        and source.kind in ("files", "table", "frame")
        and isinstance(sampling, Ppswor)
        and sampling.power == 1
        and sampling.cap is None
    )
    if way == "two-pass" and not possible:
        raise InvalidValue(
            "two passes need raw elements in files or a table, and ppswor with power 1 and no cap",
            f"{source} with {sampling}",
            "leave the way out to have one chosen",
        )
    if way != "auto":
        return way
    return "two-pass" if possible and sampling.q([1])[0] <= _TWO_PASS_UP_TO else "aggregate"


@contextmanager
def _running(engine: Engine | None) -> Iterator[Engine]:
    if engine is not None:
        yield engine
        return
    from dpsample.engine.duckdb import DuckDB

    with DuckDB() as own:
        yield own


def terms_of(privacy: Privacy, sampling: Sampling, keys: Sequence[str], keys_only: bool, grid: int | None) -> Terms:
    """Put together what a release is made with."""
    if keys_only:
        return Terms(privacy, sampling, tuple(keys), grid=None, estimator=None, keys_only=True)
    return Terms(privacy, sampling, tuple(keys), grid=default_grid(privacy) if grid is None else grid)


def columns_of(keys: pa.Schema, terms: Terms) -> pa.Schema:
    """Return the columns of a release."""
    numbers = () if terms.keys_only else ("token", "estimate")
    return pa.schema([*keys, *(pa.field(name, pa.float64()) for name in numbers)])


def _released(
    source: Source,
    privacy: Privacy,
    sampling: Sampling,
    keys_only: bool,
    grid: int | None,
    way: Way,
    engine: Engine,
    progress: Progress | None,
    coins: Coins | Secret,
) -> tuple[Terms, pa.Schema, Batches]:
    """The terms, the columns, and the rows in key order: key, token, estimate."""
    terms = terms_of(privacy, sampling, source.key, keys_only, grid)
    schema = engine.check(source)
    batches = _sampled(source, sampling, way, engine, progress, coins)
    return terms, columns_of(schema, terms), _sanitized(batches, terms, schema, engine, coins)


def _sampled(
    source: Source, sampling: Sampling, way: Way, engine: Engine, progress: Progress | None, coins: Coins | Secret
) -> Batches:
    """A weighted sample: key, frequency."""
    tell = progress or (lambda stage, done, total: None)
    if way_of(source, sampling, way) == "aggregate":
        for batch in _told(engine.aggregated(source), "counting keys", None, tell):
            yield sampled_batch(batch, sampling, coins.about(batch.select(source.key), "sample"))
        return
    parts = []
    for n, batch in enumerate(_told(engine.elements(source), "picking elements", engine.rows(source), tell)):
        parts.append(batch.take(pa.array(picked(batch.num_rows, sampling, coins.along(batch, (0, n))))))
    if parts:
        keys = pa.Table.from_batches(parts).group_by(list(source.key)).aggregate([])
        yield from _told(engine.count(source, keys), "counting picked keys", keys.num_rows, tell)


def _told(batches: Iterable[pa.RecordBatch], stage: str, total: int | None, tell: Progress) -> Batches:
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        tell(stage, done, total)


def _sanitized(batches: Batches, terms: Terms, keys: pa.Schema, engine: Engine, coins: Coins | Secret) -> Batches:
    """The release's rows in key order: key, token, estimate."""
    sanitizer = Sanitizer(terms.sampling, terms.privacy, terms.grid or 1, keys_only=terms.keys_only)
    tokens = pa.schema([*keys, *([] if terms.keys_only else [pa.field("token", pa.float64())])])
    reported = (sanitizer.batch(batch, coins.about(batch.select(keys.names), "sanitize")) for batch in batches)
    ordered = engine.sort(reported, tokens, terms.keys)
    if terms.keys_only:
        return ordered
    estimates = Estimates(terms)
    return (batch.append_column("estimate", pa.array(estimates(batch.column("token")))) for batch in ordered)


class Estimates:
    """Estimates by token, each computed once."""

    def __init__(self, terms: Terms) -> None:
        self._terms, self._grid = terms, terms.grid or 1
        self._cells, self._values = np.zeros(0, np.int64), np.zeros(0)

    def __call__(self, tokens: pa.Array) -> Floats:
        """Return the estimate of each token."""
        cells = np.rint(tokens.to_numpy(zero_copy_only=False) * self._grid).astype(np.int64)
        new = np.setdiff1d(cells, self._cells)
        if len(new):
            values = np.append(self._values, mle(new, self._terms.sampling, self._terms.privacy, self._grid))
            known = np.append(self._cells, new)
            order = np.argsort(known)
            self._cells, self._values = known[order], values[order]
        found: Floats = self._values[np.searchsorted(self._cells, cells)]
        return found

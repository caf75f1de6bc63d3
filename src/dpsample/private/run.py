"""release, sample, sanitize: from data to something that may be published.

    source -> (sample) -> sanitize -> release

A run looks at its input before it does any work, draws each coin once, and hands over a whole result or none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from os import PathLike, fspath
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dpsample.accounting.budget import Budget
from dpsample.accounting.ledger import check_ledger, spend
from dpsample.accounting.totals import RealizedSize, SampleSize, Total
from dpsample.errors import InvalidValue
from dpsample.estimators import mle
from dpsample.exact import Number
from dpsample.files import check_output
from dpsample.privacy import Privacy
from dpsample.private.bounding import choose
from dpsample.private.derived_coins import Secret
from dpsample.private.engine import Engine
from dpsample.private.noise import discrete_laplace
from dpsample.private.randomness import Coins, SecretCoins
from dpsample.private.request import Request, check_users
from dpsample.private.sample import Sample
from dpsample.private.sanitizer import Sanitizer, picked, sampled_batch
from dpsample.private.source import Source
from dpsample.release.release import Release, write_release
from dpsample.release.rows import token_cells
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ppswor, Sampling
from dpsample.scheme.tokens import default_grid

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
    size: int | SampleSize | None = None,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    max_elements_per_key: int | None = None,
    total: bool | Number = False,
    ledger: str | PathLike[str] | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Release:
    """Read elements, sample keys, sanitize them: a release, which may be published.

    `source` is a `Source`, a path, or an object (a data frame, an Arrow table, a Counter, keys, ...); `key` names its
    key column(s), `frequency` the column of already aggregated rows. Without `sampling` all keys are kept; `size` asks
    for a sample of about so many keys instead, and pays for it from the budget.

    With `user`, a column, and `max_keys_per_user`, one user is protected instead of one element: each keeps so many
    keys, chosen at random, and a key's frequency is its number of users. `total` adds a private total of elements
    (True, or the share of epsilon that it costs). With a `ledger`, the release is entered there first, or refused.

    >>> from collections import Counter
    >>> from dpsample import Privacy, release
    >>> words = Counter({"the": 500, "of": 400, "serendipity": 1})
    >>> release(words, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null, user=user)
    request = Request.of(made, privacy, sampling, size, max_keys_per_user, max_elements_per_key, total, ledger)
    with running(engine) as using:
        terms, schema, batches = _released(request, keys_only, grid, way, using, progress, SecretCoins(), "(in memory)")
        with spent(terms):
            return Release(pa.Table.from_batches(batches, schema), terms)


def release_to_file(
    output: str | PathLike[str],
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: Privacy,
    sampling: Sampling | None = None,
    size: int | SampleSize | None = None,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    max_elements_per_key: int | None = None,
    total: bool | Number = False,
    ledger: str | PathLike[str] | None = None,
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
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null, user=user)
    request = Request.of(made, privacy, sampling, size, max_keys_per_user, max_elements_per_key, total, ledger)
    return written(output, request, keys_only, grid, way, force, format, engine, progress)[0]


def written(
    output: str | PathLike[str],
    request: Request,
    keys_only: bool = False,
    grid: int | None = None,
    way: Way = "auto",
    force: bool = False,
    format: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[int, Terms]:
    """Carry out a request into a file; return the number of keys in it, and its terms."""
    check_output(output, force=force, format=format)
    with running(engine) as using:
        terms, schema, batches = _released(
            request, keys_only, grid, way, using, progress, SecretCoins(), fspath(output)
        )
        with spent(terms):
            return write_release(output, batches, schema, terms, force=force, format=format), terms


def sample(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    sampling: Sampling,
    user: str | None = None,
    max_keys_per_user: int | None = None,
    drop_null: bool = False,
    way: Way = "auto",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Sample:
    """Draw a weighted sample of keys. It is NOT private: `sanitize` it before it leaves the house.

    With `user` and `max_keys_per_user`, users are bounded first, and the sample says so; its release protects users.

    >>> from collections import Counter
    >>> from dpsample import Ppswor, sample
    >>> sample(Counter({"the": 500, "of": 400}), sampling=Ppswor(tau=1))
    Sample (NOT private): 2 keys, Ppswor(tau='1')
    """
    made = Source.of(source, key, frequency=frequency, drop_null=drop_null, user=user)
    max_keys = check_users(made, max_keys_per_user)
    with running(engine) as using:
        schema = using.check(made).append(pa.field("frequency", pa.int64()))
        coins = SecretCoins()
        made = bounded(made, max_keys, using, coins)
        batches = _sampled(made, sampling, way, using, progress, coins)
        if max_keys is not None:
            batches = _forgetting(batches, made, using)
        return Sample(pa.Table.from_batches(batches, schema), sampling, made.key, max_keys)


def sanitize(
    sample: Sample,
    *,
    privacy: Privacy,
    ledger: str | PathLike[str] | None = None,
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
    return sanitized(sample, privacy, ledger, keys_only, grid, engine)


def sanitized(
    sample: Sample,
    privacy: Privacy,
    ledger: str | PathLike[str] | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    engine: Engine | None = None,
    output: str = "(in memory)",
) -> Release:
    """Do what `sanitize` does, for a release that is to be written."""
    budget = Budget(privacy, sample.max_keys)
    if ledger is not None:
        check_ledger(ledger, privacy, budget.unit)
    with running(engine) as using:
        terms = terms_of(budget, sample.sampling, sample.keys, keys_only, grid)
        schema = sample.table.schema
        schema = schema.remove(schema.get_field_index("frequency"))
        batches = _sanitized(iter(sample.table.to_batches()), terms, schema, using, SecretCoins())
        terms, batches = _entered(terms, batches, ledger, output)
        with spent(terms):
            return Release(pa.Table.from_batches(batches, columns_of(schema, terms)), terms)


def way_of(source: Source, sampling: Sampling, way: Way = "auto") -> Way:
    """Choose how a sample is drawn, from what is public: the kind of source, and the scheme.

    "two-pass" picks elements, then counts only their keys, so that it never holds all keys. It works for raw elements
    that can be read twice and ppswor with power 1, and draws exactly the same samples as "aggregate" does.

    >>> from dpsample import KeepAll
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
def running(engine: Engine | None) -> Iterator[Engine]:
    """Lend this engine, or one of our own for as long as it takes."""
    if engine is not None:
        yield engine
        return
    from dpsample.private.engine.duckdb import DuckDB

    with DuckDB() as own:
        yield own


def terms_of(
    budget: Budget,
    sampling: Sampling,
    keys: Sequence[str],
    keys_only: bool,
    grid: int | None,
    size: RealizedSize | None = None,
    total: Total | None = None,
) -> Terms:
    """Put together what a release is made with."""
    return Terms(
        budget.privacy,
        sampling,
        tuple(keys),
        grid=None if keys_only else default_grid(budget.per_key) if grid is None else grid,
        estimator=None if keys_only else "mle",
        keys_only=keys_only,
        unit=budget.unit,
        max_keys=budget.max_keys,
        per_key=budget.per_key,
        size=size,
        total=total,
    )


def columns_of(keys: pa.Schema, terms: Terms) -> pa.Schema:
    """Return the columns of a release."""
    numbers = () if terms.keys_only else ("token", "estimate")
    return pa.schema([*keys, *(pa.field(name, pa.float64()) for name in numbers)])


def _released(
    request: Request,
    keys_only: bool,
    grid: int | None,
    way: Way,
    engine: Engine,
    progress: Progress | None,
    coins: Coins | Secret,
    output: str,
) -> tuple[Terms, pa.Schema, Batches]:
    """The terms, the columns, and the rows in key order: key, token, estimate. With a ledger, they are paid for."""
    budget, asked = request.budget, request.size
    other = SecretCoins() if isinstance(coins, Secret) else coins  # for what is not about a key
    way_of(
        request.source, asked.with_tau(Fraction(1)) if asked else request.sampling, way
    )  # refuses what is not possible
    keys = engine.check(request.source)
    source = bounded(request.source, budget.max_keys, engine, other)
    held, sampling, sized, total = None, request.sampling, None, None
    if asked is not None:
        if asked.by_frequency:
            truth = engine.total(source)
        else:
            held, truth = _weighed(source, asked, keys, engine, progress)
        weights = noisy(truth, budget, asked.share, asked.sensitivity, asked.unit, other)
        sampling, sized = asked.sampling(weights), RealizedSize(asked.size, weights)
    if budget.total:
        total = noisy(engine.total(source), budget, budget.total, Fraction(1), Fraction(1), other)
    terms = terms_of(budget, sampling, source.key, keys_only, grid, sized, total)
    drawn = (
        _sampled(source, sampling, way, engine, progress, coins)
        if held is None
        else _kept(held, source.key, sampling, coins)
    )
    if source is not request.source:
        drawn = _forgetting(drawn, source, engine)
    terms, batches = _entered(terms, _sanitized(drawn, terms, keys, engine, coins), request.ledger, output)
    return terms, columns_of(keys, terms), batches


def bounded(source: Source, max_keys: int | None, engine: Engine, coins: Coins) -> Source:
    """What is counted: the source itself or, to protect users, a key for each user who keeps it."""
    if max_keys is None:
        return source
    return engine.bounded(source, max_keys, partial(choose, limit=max_keys, coins=coins))


def _forgetting(batches: Batches, bounded: Source, engine: Engine) -> Batches:
    """Let go of what users kept when it was read for the last time: an engine may go on to other releases."""
    yield from batches
    engine.forget(bounded)


def noisy(truth: int, budget: Budget, share: Fraction, sensitivity: Fraction, unit: Fraction, coins: Coins) -> Total:
    """A private total, from the true one in units; each of the frequencies that change does so by `sensitivity`."""
    bought = Total(0, budget.privacy.epsilon * share, sensitivity * budget.changes, unit)
    value = (truth + discrete_laplace(bought.scale / unit, coins)) * unit
    return replace(bought, value=int(value) if unit == 1 else value)


def _weighed(
    source: Source, size: SampleSize, keys: pa.Schema, engine: Engine, progress: Progress | None
) -> tuple[Batches, int]:
    """All keys with their frequencies, put aside, and the total of their weights."""
    total = 0

    def weighed() -> Batches:
        nonlocal total
        for batch in told(engine.aggregated(source), "weighing keys", None, progress or quietly):
            total += size.total(batch.column("frequency").to_numpy())
            yield batch

    held = engine.sort(weighed(), keys.append(pa.field("frequency", pa.int64())), source.key)
    first = next(held, None)  # everything was read by then
    return (iter(()) if first is None else chain([first], held)), total


def _entered(terms: Terms, batches: Batches, ledger: str | PathLike[str] | None, output: str) -> tuple[Terms, Batches]:
    """Enter a release into its ledger: when all of it was drawn, and before any of it is written."""
    if ledger is None:
        return terms, batches
    first = next(batches, None)
    return paid(terms, ledger, output), batches if first is None else chain([first], batches)


def paid(terms: Terms, ledger: str | PathLike[str] | None, output: str) -> Terms:
    """Enter a release into its ledger, if there is one; its terms then name the entry."""
    return terms if ledger is None else replace(terms, ledger=spend(ledger, terms.privacy, terms.unit, output).hash)


@contextmanager
def spent(terms: Terms) -> Iterator[None]:
    """Say, of whatever fails from here on, that it is paid for."""
    try:
        yield
    except BaseException as error:
        if terms.ledger is not None:
            error.add_note("its privacy is spent: it stays in the ledger")
        raise


def _sampled(
    source: Source, sampling: Sampling, way: Way, engine: Engine, progress: Progress | None, coins: Coins | Secret
) -> Batches:
    """A weighted sample: key, frequency."""
    tell = progress or quietly
    if way_of(source, sampling, way) == "aggregate":
        yield from _kept(told(engine.aggregated(source), "counting keys", None, tell), source.key, sampling, coins)
        return
    parts = []
    for n, batch in enumerate(told(engine.elements(source), "picking elements", engine.rows(source), tell)):
        parts.append(batch.take(pa.array(picked(batch.num_rows, sampling, coins.along(batch, (0, n))))))
    if parts:
        keys = pa.Table.from_batches(parts).group_by(list(source.key)).aggregate([])
        yield from told(engine.count(source, keys), "counting picked keys", keys.num_rows, tell)


def _kept(batches: Batches, key: Sequence[str], sampling: Sampling, coins: Coins | Secret) -> Batches:
    for batch in batches:
        yield sampled_batch(batch, sampling, coins.about(batch.select(key), "sample"))


def quietly(stage: str, done: int, total: int | None) -> None:
    """Progress that nobody asked for."""


def told(batches: Iterable[pa.RecordBatch], stage: str, total: int | None, tell: Progress) -> Batches:
    """Say how many rows went by."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        tell(stage, done, total)


def _sanitized(batches: Batches, terms: Terms, keys: pa.Schema, engine: Engine, coins: Coins | Secret) -> Batches:
    """The release's rows in key order: key, token, estimate."""
    sanitizer = Sanitizer(terms.sampling, terms.per_key, terms.grid or 1, keys_only=terms.keys_only)
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
        cells = token_cells(tokens, self._grid)
        new = np.setdiff1d(cells, self._cells)
        if len(new):
            values = np.append(self._values, mle(new, self._terms.sampling, self._terms.per_key, self._grid))
            known = np.append(self._cells, new)
            order = np.argsort(known)
            self._cells, self._values = known[order], values[order]
        found: Floats = self._values[np.searchsorted(self._cells, cells)]
        return found

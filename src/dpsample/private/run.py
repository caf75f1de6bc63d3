"""The public functions release, sample and sanitize, on one machine.

    source -> (sample) -> sanitize -> release

A run checks its input before it does any work, draws each coin once, and hands over a complete result or none.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, Unpack

import pyarrow as pa

from dpsample.accounting.budget import Budget
from dpsample.answers.release import Release
from dpsample.files import check_not_input, check_output
from dpsample.ledger.charges import Charge, scheme_form
from dpsample.privacy import Privacy, StatedPrivacy
from dpsample.private.charge import IN_MEMORY, Payment, reserve
from dpsample.private.checks import check_source
from dpsample.private.draw import (
    draw_keys,
    draw_sample,
    drawn_release,
    prepare_sample,
    sanitize_batches,
)
from dpsample.private.drawing import Drawing, DrawnRelease, Written
from dpsample.private.engine import Engine
from dpsample.private.progress import Listener, Progress
from dpsample.private.randomness import SecretCoins
from dpsample.private.request import Request, SampleRequest
from dpsample.private.sample import Sample
from dpsample.private.tokens import terms_of
from dpsample.release.options import ReleaseKeywords, SampleKeywords, with_keywords
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Sampling

Batches = Iterator[pa.RecordBatch]


class FileKeywords(ReleaseKeywords, total=False):
    """The keyword arguments of `release_to_file`, beside the privacy: those of a release, and how it is written."""

    force: bool
    format: str | None
    engine: Engine | None
    progress: Listener | None


def release(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: StatedPrivacy,
    engine: Engine | None = None,
    progress: Listener | None = None,
    **options: Unpack[ReleaseKeywords],
) -> Release:
    """Read elements, sample keys, sanitize them: a release, which may be published.

    `source` is a `Source`, a path, or an object (a data frame, an Arrow table, a Counter, keys, ...); `key` names its
    key column(s), `frequency` the column of already aggregated rows.

    {keywords}

    >>> from collections import Counter
    >>> from dpsample import Privacy, release
    >>> words = Counter({"the": 500, "of": 400, "serendipity": 1})
    >>> release(words, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    request = Request.of(source, key, frequency, privacy=privacy, **options)
    watched = Progress(progress)
    with engine_or_own(engine) as used:
        keys = check_source(used, request)
        with reserve(request.options.ledger, request.charge(IN_MEMORY)) as payment:
            drawing = Drawing(used, request, keys, used.new_coins(), watched, draw_keys)
            with drawn_release(drawing) as drawn:
                return drawn.in_memory(payment)


if release.__doc__ is not None:  # `python -OO` leaves docstrings out
    release.__doc__ = with_keywords(release.__doc__)


def release_to_file(
    output: str | PathLike[str],
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: StatedPrivacy,
    **options: Unpack[FileKeywords],
) -> int:
    """Do what `release` does, with its options, but stream to an atomic file; return the number of keys in it.

    Parquet by default; CSV and Arrow by the file's extension or `format`. An existing file is kept unless `force`.
    """
    stated: dict[str, Any] = {**options}
    force = stated.pop("force", False)
    format = stated.pop("format", None)
    engine = stated.pop("engine", None)
    progress = Progress(stated.pop("progress", None))
    request = Request.of(source, key, frequency, privacy=privacy, **stated)
    written = write_release_to(output, request, force, format, engine, progress)
    return written.keys


def check_release_to(
    output: str | PathLike[str],
    request: Request,
    engine: Engine,
    force: bool = False,
    format: str | None = None,
) -> pa.Schema:
    """Refuse, before any cost, what can be refused without reading rows; return the schema of the key."""
    check_not_input(output, request.inputs())
    check_output(output, force=force, format=format)
    request.options.sampling.to_json()  # refuses a scheme that cannot be written
    return check_source(engine, request)


def write_release_to(
    output: str | PathLike[str],
    request: Request,
    force: bool = False,
    format: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Written:
    """Carry out a request: draw the release, and write it to an atomic file.

    Its cost is reserved before anything is drawn, and confirmed once the file is there.
    """
    watched = progress or Progress()
    with engine_or_own(engine) as used:
        keys = check_release_to(output, request, used, force, format)
        with reserve(request.options.ledger, request.charge(fspath(output))) as payment:
            drawing = Drawing(used, request, keys, used.new_coins(), watched, draw_keys)
            with drawn_release(drawing) as drawn:
                return drawn.to_file(output, payment, force, format)


def sample(
    source: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    sampling: Sampling,
    engine: Engine | None = None,
    progress: Listener | None = None,
    **options: Unpack[SampleKeywords],
) -> Sample:
    """Draw a weighted sample of keys. It is NOT private: `sanitize` it before you publish anything of it.

    With `user` and `max_keys_per_user`, users are bounded first, and the sample says so; its release protects users.
    With `part` or `part_vouched`, as of `release`, it is drawn from one part of the dataset, and its release says so.

    >>> from collections import Counter
    >>> from dpsample import Ppswor, sample
    >>> sample(Counter({"the": 500, "of": 400}), sampling=Ppswor(tau=1))
    Sample (NOT private): 2 keys, Ppswor(tau='1')
    """
    request = SampleRequest.of(source, key, frequency, sampling, options)
    bounds_users = request.max_keys is not None
    watched = Progress(progress)
    with engine_or_own(engine) as used:
        coins = used.new_coins()
        if bounds_users:
            watched.begin("bounding users")
        counting = prepare_sample(used, request, coins)
        schema = counting.keys.append(pa.field("frequency", pa.int64()))
        batches = draw_sample(counting, used, coins, watched)
        table = pa.Table.from_batches(batches, schema)
        if bounds_users:
            used.forget(counting.source)
        read = request.source
        return Sample(
            table,
            sampling,
            read.key,
            request.max_keys,
            part=request.part,
            reading=read.reading,
        )


def sanitize(
    sample: Sample,
    *,
    privacy: StatedPrivacy,
    ledger: str | PathLike[str] | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    engine: Engine | None = None,
) -> Release:
    """Turn a sample into a release. Its scheme travels with it, and the data are not needed any more.

    A sample is sanitized once: two releases of one sample spend more than their sum. It is marked as used, also in the
    file that it was read from, and a ledger refuses a second release of it.

    >>> from collections import Counter
    >>> from dpsample import Ppswor, Privacy, sample, sanitize
    >>> drawn = sample(Counter({"the": 500, "of": 400, "serendipity": 1}), sampling=Ppswor(tau=1))
    >>> sanitize(drawn, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    terms = _terms_of_sample(sample, privacy, keys_only, grid)
    with engine_or_own(engine) as used, _reserve_for(sample, terms, ledger, IN_MEMORY) as payment:
        drawn = _sanitized_sample(sample, terms, used)
        return drawn.in_memory(payment)


def sanitize_to_file(
    output: str | PathLike[str],
    sample: Sample,
    *,
    privacy: StatedPrivacy,
    ledger: str | PathLike[str] | None = None,
    keys_only: bool = False,
    grid: int | None = None,
    force: bool = False,
) -> Written:
    """Do what `sanitize` does, but write the release to an atomic file."""
    inputs = sample.inputs()
    if ledger is not None:
        inputs = [*inputs, ledger]
    check_not_input(output, inputs)
    check_output(output, force=force)
    sample.sampling.to_json()  # refuses a scheme that cannot be written
    terms = _terms_of_sample(sample, privacy, keys_only, grid)
    named = fspath(output)
    with engine_or_own(None) as used, _reserve_for(sample, terms, ledger, named) as payment:
        drawn = _sanitized_sample(sample, terms, used)
        return drawn.to_file(output, payment, force)


def _terms_of_sample(
    sample: Sample, privacy: StatedPrivacy, keys_only: bool, grid: int | None
) -> Terms:
    """Return the terms of a release of a sample: those of the sample, and the privacy that is stated."""
    budget = Budget(Privacy.of(privacy), sample.max_keys)
    terms = terms_of(budget, sample.sampling, sample.keys, keys_only, grid, part=sample.part)
    return replace(terms, reading=sample.reading)


@contextmanager
def _reserve_for(
    sample: Sample, terms: Terms, ledger: str | PathLike[str] | None, output: str
) -> Iterator[Payment]:
    """Reserve the cost of a release of a sample for a block, and mark the sample as used; a used one is refused."""
    sample.require_unused()
    charge = Charge(
        terms.privacy,
        terms.unit,
        output,
        keys=terms.keys,
        max_keys=terms.max_keys,
        scheme=scheme_form(terms.sampling),
        sample=sample.identity,
        part=sample.part,
    )
    with reserve(ledger, charge) as payment:
        sample.mark_used()
        yield payment


def _sanitized_sample(sample: Sample, terms: Terms, engine: Engine) -> DrawnRelease:
    """Sanitize a sample with fresh coins."""
    schema = sample.table.schema
    keys = pa.schema([field for field in schema if field.name != "frequency"])
    batches = iter(sample.table.to_batches())
    return sanitize_batches(batches, keys, terms, engine, SecretCoins())


@contextmanager
def engine_or_own(engine: Engine | None) -> Iterator[Engine]:
    """Lend an engine to a block: this one, or an embedded one that is closed after the block."""
    if engine is not None:
        yield engine
        return
    # DuckDB is imported on demand: whoever brings an engine does without it
    from dpsample.private.engine.duckdb import DuckDB

    with DuckDB() as own:
        yield own

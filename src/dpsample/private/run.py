"""release, sample, sanitize: from data to something that may be published, on one machine.

    source -> (sample) -> sanitize -> release

A run looks at its input before it does any work, draws each coin once, and hands over a complete result or none.
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
from dpsample.release.options import ReleaseKeywords, SampleKeywords
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

    sampling           how keys are sampled: `Ppswor`, `Priority`, `SoftCap`, `CustomSampling`; by default all are kept
    at_least           no key of a lower frequency is reported, on top of privacy: fewer elements, or users
    keys               a public list of keys: each is reported, also with 0; it must not depend on the data
    only_known         leave out keys that are not in the list
    size               draw a sample of about this many keys instead; a share of epsilon pays for it
    user               the column of the user: users are protected instead of elements, and a key's frequency is its
                       number of users. Keys are discovered without a bound on the keys of a user, then counted
    discover           how: "one-key" of each user, right for users with few keys, "many-keys", or "ask" (the default),
                       which spends a share of epsilon to compare both privately
    count_share        the share of the privacy for counting; keys_only leaves counting out
    rows               count rows as well, of each user and key up to this number
    sums               sum columns as well: a mapping from column to clip, within which a user's sum for a key is kept
    prior              an earlier release, or its path: its keys are looked for first
    max_keys_per_user  instead of all this: each user keeps this many keys, chosen at random; for samples, and for a
                       known small bound
    total              add a private total of elements: True, or the share of epsilon that it costs
    ledger             enter the release there first, or refuse it
    part               a column and a value, both as text, such as ("day", "2026-11-14"): read the rows of this part
                       alone; in a ledger with parts of this name, releases of different parts cost the maximum
    part_vouched       a name and a value: the caller states that the source has rows of this part alone
    keys_only          report keys without tokens and estimates
    grid               tokens are multiples of 1/grid; by default epsilon decides
    drop_null          leave out rows with a NULL key or user, instead of refusing them
    filter             read only the rows where this SQL condition is true, such as "country = 'DE'"; a key may be an
                       expression as well, such as "lower(query) AS query" (`Source` explains both)
    strategy           how a sample is drawn from raw elements: "aggregate" or "two-pass"; by default chosen

    >>> from collections import Counter
    >>> from dpsample import Privacy, release
    >>> words = Counter({"the": 500, "of": 400, "serendipity": 1})
    >>> release(words, privacy=Privacy(epsilon=1, delta=1e-10)).table["key"].to_pylist()
    ['of', 'the']
    """
    request = Request.of(source, key, frequency, privacy=privacy, **options)
    with engine_or_own(engine) as used:
        keys = check_source(used, request)
        with reserve(request.ledger, request.charge(IN_MEMORY)) as payment:
            drawing = Drawing(used, request, keys, used.new_coins(), Progress(progress), draw_keys)
            with drawn_release(drawing) as drawn:
                return drawn.in_memory(payment)


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
    force, format = stated.pop("force", False), stated.pop("format", None)
    engine, progress = stated.pop("engine", None), Progress(stated.pop("progress", None))
    request = Request.of(source, key, frequency, privacy=privacy, **stated)
    return write_release_to(output, request, force, format, engine, progress).keys


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
    request.setting.sampling.to_json()  # refuses a scheme that cannot be written
    return check_source(engine, request)


def write_release_to(
    output: str | PathLike[str],
    request: Request,
    force: bool = False,
    format: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Written:
    """Carry out a request into a file."""
    with engine_or_own(engine) as used:
        keys = check_release_to(output, request, used, force, format)
        with reserve(request.ledger, request.charge(fspath(output))) as payment:
            drawing = Drawing(
                used, request, keys, used.new_coins(), progress or Progress(), draw_keys
            )
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
    max_keys = request.max_keys
    with engine_or_own(engine) as used:
        coins, watched = used.new_coins(), Progress(progress)
        if max_keys is not None:
            watched.begin("bounding users")
        counting = prepare_sample(used, request, coins)
        schema = counting.keys.append(pa.field("frequency", pa.int64()))
        table = pa.Table.from_batches(draw_sample(counting, used, coins, watched), schema)
        if max_keys is not None:
            used.forget(counting.source)
        read = request.source
        return Sample(table, sampling, read.key, max_keys, part=request.part, reading=read.reading)


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
        return _sanitized_sample(sample, terms, used).in_memory(payment)


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
    check_not_input(output, [*sample.inputs(), *([] if ledger is None else [ledger])])
    check_output(output, force=force)
    sample.sampling.to_json()  # refuses a scheme that cannot be written
    terms = _terms_of_sample(sample, privacy, keys_only, grid)
    with (
        engine_or_own(None) as used,
        _reserve_for(sample, terms, ledger, fspath(output)) as payment,
    ):
        return _sanitized_sample(sample, terms, used).to_file(output, payment, force)


def _terms_of_sample(
    sample: Sample, privacy: StatedPrivacy, keys_only: bool, grid: int | None
) -> Terms:
    budget = Budget(Privacy.of(privacy), sample.max_keys)
    terms = terms_of(budget, sample.sampling, sample.keys, keys_only, grid, part=sample.part)
    return replace(terms, reading=sample.reading)


@contextmanager
def _reserve_for(
    sample: Sample, terms: Terms, ledger: str | PathLike[str] | None, output: str
) -> Iterator[Payment]:
    """Reserve the cost of a release of a sample, and mark the sample as used; one that was is refused."""
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
    keys = pa.schema([field for field in sample.table.schema if field.name != "frequency"])
    return sanitize_batches(iter(sample.table.to_batches()), keys, terms, engine, SecretCoins())


@contextmanager
def engine_or_own(engine: Engine | None) -> Iterator[Engine]:
    """Lend this engine, or an embedded one of our own for the time of a block."""
    if engine is not None:
        yield engine
        return
    from dpsample.private.engine.duckdb import DuckDB

    with DuckDB() as own:
        yield own

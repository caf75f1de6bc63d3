"""Releases of data on a cluster: the stages of `dpsample.release`, done by Spark where the data are.

    elements -> frequencies -> sample -> sanitize -> release

Counting is Spark's; sampling and sanitizing are the same kernel as everywhere, sent to the rows. All coins are a
function of one secret, drawn for this release, and of the keys, so that a task that is run again decides the same. The
secret travels inside the function that is sent, and dies with the job. To protect users, each keeps a bounded number of
keys first, by coins of the same kind. Only the noise of totals is drawn elsewhere: on the driver, once.

Two passes (raw elements, ppswor): the picked elements' keys are kept on the workers once they are picked, and their
frequencies are counted by a second pass, which never holds the other keys. If some of the picked keys are lost, with
a worker, they are picked again, by the same coins.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from dpsample.answers.release import Release
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.files import PathLike
from dpsample.privacy import StatedPrivacy
from dpsample.private.charge import IN_MEMORY, reserve
from dpsample.private.checks import check_source
from dpsample.private.draw import prepare_sample
from dpsample.private.drawing import Counting
from dpsample.private.engine.spark import Spark  # first: it says what to install
from dpsample.private.engine.spark.jobs import Job, release_to_driver, write_release_to
from dpsample.private.engine.spark.reading import read_parquet
from dpsample.private.engine.spark.session import session
from dpsample.private.engine.spark.streams import start_query
from dpsample.private.request import Request, SampleRequest, check_keywords
from dpsample.private.sample import Sample, drawn_of_part
from dpsample.private.sources.source import Source
from dpsample.private.tokens import terms_of
from dpsample.release.options import ReleaseKeywords, SampleKeywords
from dpsample.scheme.sampling import Sampling

__all__ = [
    "Spark",
    "read_parquet",
    "release",
    "release_to_folder",
    "sample",
    "sanitize",
    "session",
    "stream",
]


class SanitizeKeywords(TypedDict, total=False):
    """The keyword arguments of `sanitize`, as those of `dpsample.release`; `identity` is the name of the sample."""

    ledger: PathLike | None
    identity: str | None
    part_vouched: tuple[str, str] | None
    keys_only: bool
    grid: int | None


class StreamKeywords(TypedDict, total=False):
    """The optional keyword arguments of `stream`; its docstring explains them."""

    trigger: dict[str, Any] | None
    drop_null: bool
    partitions: int | None


def release(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: StatedPrivacy,
    partitions: int | None = None,
    **options: Unpack[ReleaseKeywords],
) -> Release:
    """Do what `dpsample.release` does, with its options, and bring the release to the driver.

    `data` is a DataFrame, or a `Source` of one or of Parquet files that all workers see. `partitions` is the number of
    partitions into which keys are divided to be counted; by default Spark chooses it.
    """
    return release_to_driver(
        Request.of(data, key, frequency, privacy=privacy, **options), partitions
    )


def release_to_folder(
    folder: PathLike,
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: StatedPrivacy,
    partitions: int | None = None,
    **options: Unpack[ReleaseKeywords],
) -> int:
    """Do what `release` does, but let the workers write it, as a folder of Parquet files; return its number of keys.

    The folder must be new, and on a file system that the driver and all workers see under this name. It is atomic: it
    appears complete or not at all. `dpsample.read_release` and everything else opens it like any other release.
    """
    request = Request.of(data, key, frequency, privacy=privacy, **options)
    return write_release_to(folder, request, partitions=partitions, folder=True).keys


def sample(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    sampling: Sampling,
    partitions: int | None = None,
    **options: Unpack[SampleKeywords],
) -> Sample:
    """Draw a weighted sample of keys, and bring it to the driver. It is NOT private: `dpsample.sanitize` it."""
    request = SampleRequest.of(data, key, frequency, sampling, options)
    with Spark(partitions=partitions) as engine:
        secret = engine.new_coins()
        counting = prepare_sample(engine, request, secret)
        drawn = Job(engine, counting, secret).sample(request.max_keys)
        return drawn_of_part(drawn, request.part)


def sanitize(
    data: Any,
    key: str | Sequence[str] | None = None,
    frequency: str | None = None,
    *,
    privacy: StatedPrivacy,
    sampling: Sampling,
    partitions: int | None = None,
    **options: Unpack[SanitizeKeywords],
) -> Release:
    """Turn a sample that another job drew, a DataFrame with a row for each sampled key, into a release.

    State how it was drawn: a wrong scheme breaks privacy, and nobody can tell. A sample is sanitized once: two releases
    of one sample spend more than their sum. With a ledger, state its `identity`, a public name that no other sample
    has, such as that of the job that drew it: the ledger refuses a second release of it. With `part_vouched` you state
    that it was drawn from rows of this part alone.
    """
    check_keywords(options, SanitizeKeywords)
    ledger = options.get("ledger")
    identity = options.get("identity")
    if ledger is not None and not identity:
        raise InvalidValue(
            "a sample needs an `identity` to be entered in a ledger, which refuses a second release of it",
            "give it a name that no other sample has, such as identity='clicks 2026-11'",
        )
    part_vouched = options.get("part_vouched")
    how: ReleaseKeywords = {"sampling": sampling, "ledger": ledger, "part_vouched": part_vouched}
    request = Request.of(data, key, frequency or "frequency", privacy=privacy, **how)
    keys_only = options.get("keys_only", False)
    grid = options.get("grid")
    with Spark(partitions=partitions) as engine:
        columns = check_source(engine, request)
        counting = Counting(request.source, columns, sampling, sampled=True)
        with reserve(ledger, replace(request.charge(IN_MEMORY), sample=identity)) as payment:
            budget = request.options.budget
            keys = request.source.key
            terms = terms_of(budget, sampling, keys, keys_only, grid, part=request.part)
            terms_in_ledger = replace(terms, ledger=payment.hash)
            job = Job(engine, counting, engine.new_coins())
            release = job.release(terms_in_ledger, payment)
            payment.confirm()
            return release


def stream(
    data: Any,
    key: str | Sequence[str],
    *,
    tau: Number,
    state: PathLike,
    checkpoint: PathLike,
    **options: Unpack[StreamKeywords],
) -> Any:
    """Start a streaming query that samples and counts the keys of a streaming DataFrame; return Spark's query.

    state       a file on the driver: a sample that is added to after each micro-batch, as of `dpsample.Stream`. It is
                NOT private, and only its owner can read it. It is made if it is not there.
    checkpoint  a folder for Spark's own notes, on a file system that the driver sees; it belongs to the state
    trigger     when micro-batches are read, as of Spark: ``{"availableNow": True}`` reads what is there and ends;
                by default each begins when the one before has ended
    drop_null   whether rows whose key is NULL are left out; otherwise they are refused
    partitions  the number of partitions into which keys are divided; by default Spark chooses it

    An element whose key is not held is picked with probability 1 - exp(-tau), and then its key is held and counted.
    After a failure, call it again with the same state and checkpoint: no element counts twice, and the coins are the
    same. At the end, stop the query, and sanitize the state, once: `dpsample.sanitize(dpsample.read_sample(state),
    privacy=...)`.
    """
    check_keywords(options, StreamKeywords)
    source = Source.of(data, key, drop_null=options.get("drop_null", False))
    trigger = options.get("trigger")
    partitions = options.get("partitions")
    return start_query(source, tau, state, checkpoint, trigger, partitions)

"""dpsample stream: one pass over elements, into a state that is sanitized as a sample is."""

import os
import re
import sys
from typing import Any

import click

from dpsample.cli import options
from dpsample.cli.printing import tell
from dpsample.cli.release import sample_lines
from dpsample.private.stream.stream import Stream, read_stream
from dpsample.scheme.holding import SampleAndHold


@click.command()
@click.argument("source", nargs=-1)
@click.option(
    "--state",
    required=True,
    help="File of the stream's state: .private, .parquet, .csv or .arrow. It is added to if it exists.",
)
@click.option(
    "--tau",
    help="Sampling threshold of a new state: 1 - exp(-tau) of elements are picked, such as 1e-4.",
)
@click.option(
    "--key",
    "-k",
    multiple=True,
    help="Key column. Repeat it for a key of several columns.  [default: key]",
)
@click.option(
    "--shard",
    metavar="R/N",
    help="State that a new stream has the R-th of N disjoint sets of keys, from 0.",
)
@click.option(
    "--input-format",
    help="Of a pipe: lines, csv or tsv.  [default: lines]  Of files: parquet, csv, tsv, jsonl or arrow.  "
    "[default: by the extension of the file]",
)
@click.option(
    "--delimiter", help="Character between the keys of a line, or the fields of CSV, such as '\\t'."
)
@click.option(
    "--drop-null", is_flag=True, help="Drop rows whose key is NULL, instead of refusing them."
)
@click.option(
    "--every",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds after which the state is written again.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="SOURCE are the states of shards. They become one sample, at --state.",
)
@options.resources
@click.option(
    "--show-private",
    is_flag=True,
    help="Also print numbers that are NOT private: of elements and keys.",
)
@options.done_format
def stream(
    source: tuple[str, ...], state: str, merge: bool, show_private: bool, form: str, **given: Any
) -> None:
    """Sample and count the keys of a stream, in one pass, in memory of the size of the sample. NOT private.

    SOURCE is one or more files, folders or globs; without it, standard input is read: one key in each line. The state
    is a sample: sanitize it. If the command is killed, run it again with the same input: no element counts twice.
    Once a pipe has come to its end, the next run adds another one; of files, it adds what is new.

    \b
    Examples:
      zcat log.gz | cut -f 3 | dpsample stream --tau 1e-4 --key query --state s.private
      dpsample stream 'logs/*.parquet' --key query --tau 1e-4 --state s.private
      dpsample sanitize s.private --epsilon 1 --delta 1e-8 -o queries.private.parquet
      dpsample stream --merge shard-0.private shard-1.private --state all.private
    """
    if merge:
        merged = Stream.merge(map(read_stream, source))
        merged.write(state)
        numbers = f"{len(merged):,} keys" if show_private else None
        _print(state, merged.sampling, numbers, form)
        return
    counted = _continued(state, given) if os.path.exists(state) else _started(state, given)
    if not source or source == ("-",):
        lines = given["input_format"] or "lines"
        counted.add_pipe(sys.stdin.buffer, format=lines, **_how(state, given))
    else:
        _add_files(counted, source, state, given)
    numbers = None
    if show_private:
        numbers = f"{counted.elements:,} elements, {len(counted.table):,} held keys"
    _print(state, counted.sampling, numbers, form)


def _how(state: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return how input is read, and how often the state is written."""
    return {
        "delimiter": options.delimiter_of(given),
        "drop_null": given["drop_null"],
        "state": state,
        "every": given["every"],
    }


def _add_files(counted: Stream, source: tuple[str, ...], state: str, given: dict[str, Any]) -> None:
    """Add the elements of files, in their order."""
    from dpsample.cli.machine import ordered_duckdb_of

    how = _how(state, given)
    with ordered_duckdb_of(given) as engine:
        counted.add_files(list(source), format=given["input_format"], engine=engine, **how)


def _started(state: str, given: dict[str, Any]) -> Stream:
    """Begin a new state."""
    if given["tau"] is None:
        raise click.UsageError(
            f"there is no state {state!r} yet, and a new one needs --tau; add --tau 1e-4"
        )
    return Stream(given["tau"], given["key"] or "key", shard=_shard(given["shard"]))


def _continued(state: str, given: dict[str, Any]) -> Stream:
    """Read a state; its options cannot be changed."""
    counted = read_stream(state)
    if given["tau"] is not None and SampleAndHold(given["tau"]) != counted.sampling:
        raise _changed("--tau")
    if given["key"] and given["key"] != counted.keys:
        raise _changed("--key")
    if given["shard"] is not None and _shard(given["shard"]) != counted.shard:
        raise _changed("--shard")
    return counted


def _changed(option: str) -> click.UsageError:
    return click.UsageError(
        f"{option} of a state cannot be changed; leave it out, or name another state"
    )


def _shard(text: str | None) -> tuple[int, int] | None:
    """Read the number of a shard, and of how many."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None:
        raise click.UsageError(
            f"--shard must be a number and the number of shards, not {text!r}; write, for example, --shard 0/4"
        )
    return int(found[1]), int(found[2])


def _print(state: str, sampling: Any, numbers: str | None, form: str) -> None:
    """Print that a state was written, with numbers that are NOT private if they were asked for."""
    result = {"state": state, "private": False, "sampling": sampling.to_json()}
    if numbers is not None:
        result["numbers"] = numbers
    tell(result, sample_lines(state, sampling, numbers), form)

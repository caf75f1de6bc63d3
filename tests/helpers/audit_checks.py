"""Checks of the audit that need no statistics, or little: on the installed package, from outside.

`CHECKS` are run by `audit.py`. Each is a function that raises `WrongError` if what its name says is not so. They use
public names, files, and what the command prints.

Called as a program, with paths, it reads each file under a limit of time and memory, and prints what that cost.
"""

import hashlib
import json
import os
import pty
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import dpsample
from dpsample import DpsampleError, Privacy, Release, SampleSize
from dpsample.exact import text as written
from dpsample.release.proof import prove_release

Metadata = dict[str, Any]
Change = Callable[[Metadata], None]

SECONDS, MEGABYTES = 2, 500  # what a file may cost before it is refused


class WrongError(Exception):
    """What the audit found to be otherwise than claimed."""


def require(holds: bool, otherwise: str) -> None:
    """Refuse with these words what does not hold."""
    if not holds:
        raise WrongError(otherwise)


# ---- releases of users


def users(per_key: int = 300, keys: int = 300) -> pa.Table:
    """Users of three keys each, so that each key has as many users; a price of 0 to 6 for each."""
    number = np.arange(per_key * keys)
    return pa.table({"user": number // 3, "key": number % keys, "price": number // keys % 7})


def counted_and_summed() -> Release:
    """A release with numbers of users and of rows, and a sum, of 300 keys."""
    options: dict[str, Any] = {"keys": list(range(300)), "only_known": True, "rows": 3, "sums": {"price": 5}}
    return dpsample.release(users(), "key", user="user", privacy=Privacy(2, 1e-6), **options)


def noisy_numbers(release: Release) -> dict[str, tuple[Any, ...]]:
    """All that a release shows of each of its noises, by name."""
    terms, table = release.terms, release.table
    found: dict[str, tuple[Any, ...]] = {}
    for name in ("measured", "rows_measured", "sum_price_clipped", "token"):
        if name in table.column_names:
            found[name] = tuple(table[name].to_pylist())
    totals = {
        "total": terms.bought.total,
        "dropped": terms.bought.dropped,
        "size": terms.bought.size and terms.bought.size.weights,
    }
    found |= {name: (total.value,) for name, total in totals.items() if total is not None}  # type: ignore[union-attr]
    if terms.discovery is not None and terms.discovery.look is not None:
        found["look"] = tuple(terms.discovery.look.users)
        # with how many keys is chosen by the look, and may differ from release to release
        names = ("filled by one key", "filled by many keys")
        found |= {name: (way.units,) for name, way in zip(names, terms.discovery.filled, strict=False)}
    if terms.counts is not None:
        found |= {f"{c.amount.name} beyond": tuple(c.beyond) for c in terms.counts.amounts}
        found |= {f"{c.amount.name} clipped": (c.share,) for c in terms.counts.amounts}
        found["clipped"] = (terms.counts.clipped,)
    return found


def repeated_releases_have_other_noise() -> None:
    """Eight releases of one dataset: no noise is the same in all, by odds below 1e-9 for each.

    A total has noise of scale 20 or more, so that seven more of the same value have odds of 1/40**7.
    """
    total: dict[str, Any] = {"user": "user", "total": "0.05"}
    settings: list[dict[str, Any]] = [
        {"user": "user", "rows": 3, "sums": {"price": 5}},
        {**total, "keys_only": True},
        {**total, "max_keys_per_user": 2, "size": 200},
    ]
    for options in settings:
        seen: dict[str, set[tuple[Any, ...]]] = {}
        for _ in range(8):
            release = dpsample.release(users(100, 90), "key", privacy=Privacy(2, 1e-6), **options)
            for name, numbers in noisy_numbers(release).items():
                seen.setdefault(name, set()).add(numbers)
        require(len(seen) >= 2, "a release shows none of its noise")
        for name, different in seen.items():
            require(len(different) > 1, f"eight releases have the same noise in {name!r}")


def parts_have_noise_of_their_own() -> None:
    """The noise of users, rows and sums of 300 keys is not correlated; nor is it the same from release to release.

    Differences of two releases have no truth in them, and without their mean nothing that keys have in common. Of 300
    keys a correlation has the deviation 0.058; beyond 0.4 the odds are 5e-12.
    """
    columns = ("measured", "rows_measured", "sum_price_clipped")
    one, other, third = (counted_and_summed().table for _ in range(3))
    differences = [one[name].to_numpy() - other[name].to_numpy() for name in columns]
    differences += [other[name].to_numpy() - third[name].to_numpy() for name in columns]
    for name, values in zip(columns * 2, differences, strict=True):
        require(float(np.std(values)) > 0, f"two releases have the same noise in {name!r}")
    related = np.corrcoef(differences)
    for a, b in ((0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)):
        require(abs(related[a, b]) < 0.4, f"{columns[a % 3]!r} and {columns[b % 3]!r} share noise")


def no_answer_is_nan_however_many_users_there_are() -> None:
    """A release whose numbers are a million times larger: 90 billion pairs of a user and a key."""
    release = counted_and_summed()
    columns = {
        name: release.table[name] if name in ("key", "known") else pc.multiply(release.table[name], 1e6)
        for name in release.table.column_names
    }
    large = Release(pa.table(columns), release.terms)
    names = ("rows", "rows_clipped", "sum_price", "sum_price_clipped")
    answers = [large.sum(), *(large.sum(of=name) for name in names), large.ratio("sum_price", "rows")]
    for answer in answers:
        ends = [answer.value, answer.low, answer.high]
        require(bool(np.isfinite(ends).all()), f"an answer is not finite: {ends}")


# ---- what is read


def nothing_but_rows_decides_the_error_of_a_broken_file() -> None:
    """Each broken row, whatever it says, ends a run with the same refusal."""
    texts = ("x", "failed: KeyboardInterrupt", "No space left", "dpsample-refused:negative", "Out of Memory Error")
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        for text in texts:
            path.write_text("key,b\n" + "a,1\n" * 10 + f'"{text}",1,2,3,4\n')
            try:
                dpsample.release(path, "key", privacy=Privacy(1, 1e-6))
            except BaseException as error:  # any is looked at
                require(isinstance(error, dpsample.InvalidValue), f"{text!r} ends a run with {type(error).__name__}")
                found.add(str(error))
    require(len(found) == 1, f"{len(found)} different refusals of one fault")


def counts_are_not_read_as_keys() -> None:
    """What pandas counts is keys and their frequencies, or is refused."""
    import pandas as pd

    counts = pd.Series(np.repeat(["a", "b", "c"], [500, 400, 300])).value_counts()
    try:
        release = dpsample.release(counts, privacy=Privacy(1, 1e-6))
    except DpsampleError:
        return
    found = dict(zip(*(column.to_pylist() for column in release.table.select([0, 1]).columns), strict=True))
    require(set(found) == {"a", "b", "c"}, "numbers of rows became keys")


# ---- what neighbours show


def progress_tells_no_private_number() -> None:
    """Two datasets with as many rows, one with a key more: what is shown along the way is the same."""
    shown = []
    for more in (0, 1):
        keys = np.arange(60_000) % 30_000
        keys[-1] += 30_000 * more
        table = pa.table({"key": keys, "user": np.arange(60_000) // 2})
        for options in (
            {},
            {"user": "user", "discover": "one-key", "keys_only": True},
            {"sampling": dpsample.Ppswor("0.1")},
        ):
            seen: set[tuple[Any, ...]] = set()

            def note(*told: Any, seen: set[tuple[Any, ...]] = seen) -> None:
                seen.add(tuple(value for value in told if not isinstance(value, float)))

            dpsample.release(table, "key", privacy=Privacy(1, 1e-6), progress=note, **options)
            shown.append(seen)
    require(shown[:3] == shown[3:], "a callback is told numbers that one key more changes")


def a_terminal_shows_no_private_number() -> None:
    """The number of distinct keys, which is 400,021 here, of 460,000 rows, never appears on the terminal of a run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = np.append(np.arange(400_021), np.arange(59_979) % 2_000)
        pq.write_table(pa.table({"key": keys, "user": np.arange(len(keys))}), folder / "events.parquet")
        arguments = ["release", "events.parquet", "--key", "key", "--user", "user", "--discover", "one-key"]
        text = on_a_terminal([*arguments, "--epsilon", "1", "--delta", "1e-6", "-o", "out.parquet"], folder)
    require("Wrote" in text, "the run did not end as it should")
    require(not re.search(r"400.?021", text), "the exact number of keys is on the terminal")


def on_a_terminal(arguments: list[str], folder: Path) -> str:
    """Run the command on a terminal of its own; return all that it shows."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, "-I", "-m", "dpsample", *arguments])
    shown = b""
    while select.select([terminal], [], [], 120)[0]:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(terminal)
    os.waitpid(process, 0)
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode(errors="replace")


# ---- files that others wrote


def metadata_of(path: Path) -> Metadata:
    """The metadata of a Parquet file of dpsample."""
    found: Metadata = json.loads(pq.read_metadata(path).metadata[b"dpsample"])
    return found


def write_with(path: Path, table: pa.Table, metadata: Metadata) -> None:
    """Write a Parquet file with these metadata, and a checksum that is right."""
    metadata = {name: value for name, value in metadata.items() if name != "checksum"}
    canonical = json.dumps(metadata, sort_keys=True, separators=(",", ":")).encode()
    metadata["checksum"] = hashlib.sha256(canonical).hexdigest()
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"dpsample": json.dumps(metadata)})


def kinds_of_releases() -> dict[str, Release]:
    """A small release of each kind whose terms differ."""
    elements = pa.table({"key": np.repeat(np.arange(700), 40)})
    privacy = Privacy(1, 1e-6)
    own: dict[str, Any] = {"user": "user", "privacy": privacy}
    some = users(100, 60)
    return {
        "elements": dpsample.release(elements, "key", privacy=privacy, size=SampleSize(100, power="0.5"), total=True),
        "bounded users": dpsample.release(some, "key", max_keys_per_user=3, total="0.2", **own),
        "found keys": dpsample.release(some, "key", keys_only=True, total="0.1", **own),
        "counted users": dpsample.release(some, "key", discover="one-key", rows=3, **own),
    }


def stated(folder: Path) -> Iterator[tuple[str, pa.Table, Metadata]]:
    """The rows and the metadata of a release of each kind."""
    for kind, release in kinds_of_releases().items():
        path = folder / "release.parquet"
        release.write(path, force=True)
        yield kind, pq.read_table(path), metadata_of(path)


def set_at(form: Any, place: tuple[Any, ...], value: Any) -> None:
    """Replace the value at a place of nested metadata."""
    for step in place[:-1]:
        form = form[step]
    form[place[-1]] = value


def leaves(form: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All values of nested metadata that are no lists or objects, with their places."""
    inner = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else None
    if inner is None:
        yield place, form
    else:
        for name, value in inner:
            yield from leaves(value, (*place, name))


LARGE = {str: ("1e99999999", "1/" + "9" * 4000), int: (2 * 10**9, 500_000), float: (1e300,)}


def a_file_that_states_large_numbers_is_refused_quickly() -> None:
    """Each number of the metadata of each kind of release, replaced by a huge one or one of many digits."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, table, metadata in stated(folder):
            numbers = [(place, value) for place, value in leaves(metadata) if place[0] not in ("file", "checksum")]
            for place, value in numbers:
                numeric = type(value) is not str or re.fullmatch(r"[-\d./e]+", value)
                for n, huge in enumerate(LARGE.get(type(value), ()) if numeric else ()):
                    form = deepcopy(metadata)
                    set_at(form, place, huge)
                    write_with(folder / f"{kind} {'.'.join(map(str, place))} {n}.parquet", table, form)
        (folder / "release.parquet").unlink()
        paths = sorted(folder.glob("*.parquet"))
        require(len(paths) > 60, "too few files")
        wrong = read_under_limits(paths)
    require(not wrong, f"{len(wrong)} of {len(paths)} files are not refused as they should: {'; '.join(wrong[:6])}")


def read_under_limits(paths: list[Path]) -> list[str]:
    """What was wrong with files that are read one after the other in other processes; up to three that end these."""
    wrong, left, killed = [], list(paths), 0
    while left and killed < 3:
        command = [sys.executable, "-I", __file__, *map(str, left)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line.split("\t") for line in ended.stdout.splitlines()]
        for path, seconds, megabytes, result in lines:
            if float(seconds) > SECONDS or float(megabytes) > MEGABYTES or result not in ("read", "refused"):
                wrong.append(f"{Path(path).stem} ({seconds} s, {megabytes} MB, {result})")
        if len(lines) < len(left):
            killed += 1
            last = (ended.stderr.splitlines() or [""])[-1]
            wrong.append(f"{left[len(lines)].stem} (ended the process: {ended.returncode} {last})")
        left = left[len(lines) + 1 :]
    return wrong


def read_each(paths: list[str]) -> None:
    """Read and verify each file; print processor seconds, and megabytes that were added to what the process has."""
    dpsample.release({"a": 1}, privacy=Privacy(1, 1e-6))  # so that what is loaded once does not count
    for path in paths:
        spent, before = time.process_time(), peak()
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + 2 * SECONDS + 2, hard))
        try:
            prove_release(dpsample.read_release(path).terms)
            result = "read"
        except DpsampleError:
            result = "refused"
        except Exception as error:
            result = type(error).__name__
        seconds = time.process_time() - spent
        print(path, f"{seconds:.2f}", f"{peak() - before:.0f}", result, sep="\t", flush=True)


def peak() -> float:
    """The most memory that the process had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def verify_accepts_no_terms_that_spend_more() -> None:
    """Metadata with right checksums and false terms are refused, each by a refusal of ours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = {kind: (table, metadata) for kind, table, metadata in stated(folder)}
        wrong = []
        for what, (kind, change) in LIES.items():
            table, metadata = kinds[kind]
            form = deepcopy(metadata)
            change(form)
            path = folder / "lie.parquet"
            write_with(path, table, form)
            try:
                if prove_release(dpsample.read_release(path).terms).complete:
                    wrong.append(f"{what} is accepted")
            except DpsampleError:
                pass
            except Exception as error:
                wrong.append(f"{what} ends with {type(error).__name__}")
    require(not wrong, "; ".join(wrong))


def _negative_look(form: Metadata) -> None:
    form["discovery"] |= {"method": "one-key", "keys": 1, "full": 20}
    form["discovery"]["look"]["epsilon"] = "-9"
    form["per_key"] = {"epsilon": "10", "delta": "1e-06"}
    del form["total"]


def _total_changed(form: Metadata) -> None:
    weights = form["size"]["weights"]
    weights["value"] = written(2 * Fraction(weights["value"]))


def _whole_weights(form: Metadata) -> None:
    """Weights of roots, with noise in whole steps; the tau of the rows follows from them, and from another size."""
    weights = 10**9
    form["size"]["weights"] |= {"value": str(weights), "unit": "1"}
    form["size"]["wanted"] = round(Fraction(form["sampling"]["tau"]) * weights)


def _noise_for(total: Metadata, changed: str) -> None:
    """State a total whose noise is for another change, and whose scale is that of this noise."""
    total["sensitivity"] = written(Fraction(changed))
    total["scale"] = written(Fraction(changed) / Fraction(total["epsilon"]))


def _other_fills_more(form: Metadata) -> None:
    for way in form["discovery"]["filled"]:
        chosen = (way["keys"] == 1) == (form["discovery"]["method"] == "one-key")
        way["units"] = way["full"] * (10 if chosen else 1000)


LIES: dict[str, tuple[str, Change]] = {
    "a look of a negative epsilon": ("found keys", _negative_look),
    "a look of epsilon 0": ("found keys", lambda form: set_at(form, ("discovery", "look", "epsilon"), "0")),
    "what is filled, for nothing": (
        "found keys",
        lambda form: set_at(form, ("discovery", "filled", 1, "epsilon"), "0"),
    ),
    "a way that fills less": ("found keys", _other_fills_more),
    "a total in steps of a million": ("elements", lambda form: set_at(form, ("size", "weights", "unit"), "1000000")),
    "a total of sensitivity 1/2": ("elements", lambda form: _noise_for(form["total"], "1/2")),
    "weights of roots in whole steps": ("elements", _whole_weights),
    "a tau of another total": ("elements", _total_changed),
    "noise of counts for length 1": (
        "counted users",
        lambda form: set_at(form, ("counts", "noise", "clipped", "length"), 1),
    ),
    "a total of users for one key": ("bounded users", lambda form: _noise_for(form["total"], "1")),
    "an epsilon below that of the parts": ("found keys", lambda form: set_at(form, ("privacy", "epsilon"), "0.5")),
}

CHECKS: tuple[Callable[[], None], ...] = (
    repeated_releases_have_other_noise,
    parts_have_noise_of_their_own,
    no_answer_is_nan_however_many_users_there_are,
    counts_are_not_read_as_keys,
    progress_tells_no_private_number,
    a_terminal_shows_no_private_number,
    nothing_but_rows_decides_the_error_of_a_broken_file,
    verify_accepts_no_terms_that_spend_more,
    a_file_that_states_large_numbers_is_refused_quickly,
)

if __name__ == "__main__":
    read_each(sys.argv[1:])

"""What a stranger's program looks like to mypy and pyright, both strict, with the package installed: `make package`.

Nobody runs it. Each `assert_type` states what the library's own annotations must say. `Release.table` is not in it:
pyarrow has no types of its own, so strict checkers do not know what a table is.
"""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import assert_type

import dpsample
from dpsample import (
    DpsampleError,
    InvalidValue,
    Ledger,
    Ppswor,
    Privacy,
    Release,
    Sample,
    SampleSize,
    Sampling,
    Source,
    Stream,
)
from dpsample.answers.changes import Changes
from dpsample.answers.estimates import Estimates
from dpsample.answers.several import Combined
from dpsample.estimators.estimate import Estimate


def privacy() -> Privacy:
    """State a privacy in each of the ways."""
    stated = Privacy(epsilon=1, delta="1e-8")
    assert_type(stated.epsilon, Fraction)
    return min(stated, Privacy.zcdp("0.1", 1e-8), Privacy.gdp(Fraction(1, 2), 1e-8), key=lambda each: each.epsilon)


def released(folder: Path) -> Release:
    """Release from memory and to a file, with a ledger."""
    ledger = dpsample.new_ledger(folder / "a.ledger", "queries", Privacy(3, 1e-6), unit="user", parts="day")
    assert_type(ledger, Ledger)
    queries = Counter({"weather": 5000, "news": 3000})
    release = dpsample.release(queries, privacy=(1, 1e-8), sampling=Ppswor(tau=0.01))
    assert_type(release, Release)
    dpsample.release(queries, privacy=(1, 1e-8), max_key_per_user=5)  # type: ignore[call-arg]  # misspelled
    source = Source(folder / "events.parquet", key=["country", "page"], user="user")
    size = SampleSize(1000, power="0.5")
    keys = dpsample.release_to_file(
        folder / "out.parquet",
        source,
        privacy=privacy(),
        max_keys_per_user=5,
        size=size,
        total=True,
        part=("day", "2026-11-14"),
        ledger=folder / "a.ledger",
        progress=show,
    )
    assert_type(keys, int)
    return release if keys == 0 else dpsample.read_release(folder / "out.parquet")


def show(stage: str) -> None:
    """Show progress."""
    print(stage)


def asked(release: Release, later: Release) -> list[str]:
    """Ask one release, and two."""
    total = release.sum("key LIKE 'w%'", level=0.9)
    assert_type(total, Estimate)
    top = release.top(10)
    assert_type(top, Estimates)
    assert_type(release["weather"], Estimate)
    assert_type(release.compare("weather", "news"), float)
    low, high = total.low, total.high
    week = dpsample.combine(release, later)
    if isinstance(week, Combined):
        assert_type(week.sum(), Estimate)
        assert_type(week.mean(by="key"), Estimates)
        assert_type(week.count_keys("key <> ''", at_least=100), Estimate)
    assert_type(dpsample.changes(release, later), Changes)
    return [f"{low:,.0f} to {high:,.0f}", str(top), *(str(len(each)) for each in (release, later))]


def sampled(path: Path) -> int:
    """Sample and sanitize; follow a stream; catch errors."""
    scheme: Sampling = Ppswor(tau="1e-4", power=1)
    sample = dpsample.sample(str(path), "query", sampling=scheme)
    assert_type(sample, Sample)
    try:
        release = dpsample.sanitize(sample, privacy=Privacy(1, 1e-8))
    except InvalidValue as error:
        print(error)
        return 2
    except DpsampleError:
        return 1
    stream = Stream(tau="1e-3")
    assert_type(stream, Stream)
    return len(release)


if __name__ == "__main__":
    here = Path()
    print(asked(released(here), released(here)), sampled(here / "events.csv"))

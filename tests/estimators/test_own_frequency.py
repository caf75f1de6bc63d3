"""The columns of a release: what a token says of its own key, from the likeliest frequency to the ends of the interval.

Laws come row by row from `token_laws`, frequency by frequency; what is tested goes column by column.
"""

import runpy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Privacy, Release, Sampling, read_release
from dpsample.files import Rows, write_table
from dpsample.scheme import token_laws
from dpsample.scheme.likelihood import likely_frequencies
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey
from places import ROOT
from stated_terms import stated_terms
from support import refused

SCHEMES: list[tuple[Sampling, PerKey, int]] = [
    (KeepAll(), Privacy(1, "1e-4"), 4),
    (KeepAll(at_least=9), Privacy(1, "1e-4"), 4),
    (Ppswor("0.02"), Privacy("0.5", "1e-3"), 2),
    (Priority("0.05"), Privacy(2, "1e-5"), 64),
    (CustomSampling([f"{1 + 29 * (i > 25)}/30" for i in range(300)]), Privacy("0.7", "1e-3"), 2),
    (KeepAll(), KeyNoise.of([1, 3, 9, 20, 30, 20, 9, 3, 1], offset=2), 1),
]


@pytest.mark.parametrize(("sampling", "privacy", "grid"), SCHEMES, ids=str)
def test_numbers_follow_from_the_laws_and_ascend_with_the_token(sampling: Sampling, privacy: PerKey, grid: int) -> None:
    last = 120
    table = np.zeros((last, last * grid + 1))  # frequency, token
    for law in token_laws(range(1, last + 1), sampling, privacy, grid):
        table[law.frequency - 1, law.cells] = law.probabilities
    cells = np.flatnonzero(table[:60].any(0))  # tokens whose support ends within the table
    found = likely_frequencies(cells, sampling, privacy, grid)
    reported = np.maximum(table.sum(1), 1e-300)[:, None]
    at_least, at_most = np.cumsum(table[:, ::-1], 1)[:, ::-1] / reported, np.cumsum(table, 1) / reported
    for token, estimate, low, high in zip(cells, *found, strict=True):
        assert table[estimate - 1, token] >= (1 - 1e-9) * table[:, token].max()
        # each end is where its own test rejects no more; the estimate is inside
        ends = [1 + np.append(np.flatnonzero(part[:, token] >= 0.025), estimate - 1) for part in (at_least, at_most)]
        assert (low, high) == (ends[0].min(), ends[1].max())
    assert all((np.diff(column) >= 0).all() for column in found)
    assert found[1].min() >= sampling.least
    # so each frequency is covered with probability 0.95 or more
    inside = (found[1] <= np.arange(1, 41)[:, None]) & (np.arange(1, 41)[:, None] <= found[2])
    coverage = (table[:40, cells] * inside).sum(1) / reported[:40, 0]
    assert coverage[table[:40].any(1)].min() >= 0.95 - 1e-9


def test_the_file_is_as_accurate_as_noisy_counts() -> None:
    """Expected values, without chance: for 100,000 keys whose frequencies follow a power law, at (0.5, 1e-6)."""
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "own_frequency.py"))
    found = benchmark["errors"](benchmark["generated"](10**5), KeepAll(), Privacy("0.5", "1e-6"))
    assert found["ours/discrete Laplace"] <= found["discrete Laplace"]
    assert found["ours/truncated"] <= 1.005 * found["truncated"]
    assert found["ours/Gaussian"] < found["Gaussian"] / 3
    assert found["all"] < 2.0 < found["weight"]
    assert 0.95 <= found["held"] <= 0.96


def test_a_file_whose_numbers_do_not_follow_from_its_tokens_is_refused(tmp_path: Path) -> None:
    """Not even with checksums that are right."""
    table = pa.table({"key": ["a", "b", "c"], "token": [0.5, 20.0, 10.0**9]})
    release = Release(table, stated_terms(Privacy(1, "1e-6"), KeepAll(), ("key",), grid=2))
    each = release.each_key().numbers
    for name, answer in (("estimate", "value"), ("low", "low"), ("high", "high")):
        assert release.table[name].to_pylist() == each[answer].to_pylist()
    for form in ("parquet", "csv", "arrow"):
        for name in ("estimate", "low", "high"):
            at = release.table.column_names.index(name)
            moved = release.table[name].to_numpy() + np.array([0.0, 1.0, 0.0])
            forged = release.table.set_column(at, name, pa.array(moved))
            path = tmp_path / f"{name}.{form}"
            write_table(path, Rows(forged.to_batches(), forged.schema), release.metadata)
            with refused("follow from its token") as info:
                read_release(path)
            assert f"the {name} in row 2 does not follow" in str(info.value)
        path = tmp_path / f"drawn.{form}"
        write_table(path, Rows(table.to_batches(), table.schema), release.metadata)
        with refused("a release has the columns"):
            read_release(path)
        release.write(tmp_path / f"good.{form}")
        assert read_release(tmp_path / f"good.{form}") == release

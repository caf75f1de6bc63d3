"""Frequencies of a plan: distributions, lists, histograms and counted data."""

import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsample.planning.frequencies import Frequencies
from dpsample.private.count import count_frequencies
from support import refused

# frequencies


@pytest.mark.parametrize(("alpha", "keys"), [(1, 1000), (0.5, 300), (2, 50), (0, 7), (1, 1)])
def test_zipf_is_its_definition(alpha: float, keys: int) -> None:
    expected = Counter(max(1, round(Decimal(keys / r) ** Decimal(alpha))) for r in range(1, keys + 1))
    made = Frequencies.zipf(alpha, keys)
    assert dict(zip(made.values.tolist(), made.keys.tolist(), strict=True)) == expected
    assert (made.total, made.private) == (keys, False)
    assert made.elements == sum(i * n for i, n in expected.items())


def test_zipf_with_a_number_of_elements() -> None:
    made = Frequencies.zipf(1, 100, elements=10**6)
    harmonic = sum(1 / r for r in range(1, 101))
    assert made.values[-1] == round(10**6 / harmonic)
    assert abs(made.elements - 10**6) <= 50  # each of 100 is rounded by at most one half
    assert Frequencies.zipf(3, 1000, elements=1000).values[0] == 1


@pytest.mark.parametrize("arguments", [(math.nan, 10), (1, 0), (1, True), (-1, 10), (1, 10, 9), (50, 10**6), ("x", 5)])
def test_what_is_no_zipf_distribution_is_refused(arguments: tuple[float, int]) -> None:
    with refused(""):
        Frequencies.zipf(*arguments)


def test_lists_and_mappings_agree_and_show_nothing() -> None:
    listed, mapped = Frequencies.of([7, 3, 7, 7]), Frequencies.of({7: 3, 3: 1, 9: 0})
    for made in (listed, mapped):
        assert (made.values.tolist(), made.keys.tolist(), made.elements) == ([3, 7], [1, 3], 24)
        assert repr(made) == "Frequencies(private)"
    wrongs: list[Any] = [[], [0, 3], {0: 2}, [1.5], {3: -1}, {"a": 2}]
    for wrong in wrongs:
        with refused(""):
            Frequencies.of(wrong)


def test_histograms_are_read(tmp_path: Path) -> None:
    table = pa.table({"keys": [5, 2, 1], "frequency": [3, 100, 3]})
    pq.write_table(table, tmp_path / "h.parquet")
    (tmp_path / "h.csv").write_text("frequency,keys\n3,6\n100,2\n")
    (tmp_path / "rows.json").write_text('[{"frequency": 100, "keys": 2}, {"frequency": 3, "keys": 6}]')
    (tmp_path / "columns.json").write_text('{"frequency": [3, 100], "keys": [6, 2]}')
    with pa.ipc.new_file(tmp_path / "h.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("h.parquet", "h.csv", "rows.json", "columns.json", "h.arrow"):
        made = Frequencies.read(tmp_path / name)
        assert (made.values.tolist(), made.keys.tolist(), made.private) == ([3, 100], [6, 2], True)


@pytest.mark.parametrize(
    "content",
    ["frequency,keys\n31337,\n", "frequency\n31337\n", "frequency,keys\n31337,1.5\n", "frequency,keys\n-31337,1\n", ""],
)
def test_what_is_no_histogram_is_refused_without_its_content(content: str, tmp_path: Path) -> None:
    (tmp_path / "h.csv").write_text(content)
    with refused("", hidden=["31337"]):
        Frequencies.read(tmp_path / "h.csv")
    (tmp_path / "h.json").write_text(content)
    with refused("", hidden=["31337"]):
        Frequencies.read(tmp_path / "h.json")
    with refused("there is no histogram"):
        Frequencies.read(tmp_path / "no.csv")
    with refused("must end with"):
        Frequencies.read(Path(__file__))


@pytest.mark.chance("certain: numbers of kept keys do not depend on which")
def test_counting_is_private_and_right() -> None:
    found = count_frequencies(["a"] * 5 + ["b"] * 5 + ["c"])
    assert (found.values.tolist(), found.keys.tolist(), repr(found)) == ([1, 5], [1, 2], "Frequencies(private)")
    table = pa.table({"u": [1, 1, 1, 2, 2, 3], "k": ["a", "b", "c", "a", "a", "a"]})
    assert count_frequencies(table, "k", user="u", max_keys_per_user=3).elements == 5  # a user counts once in a key
    bounded = count_frequencies(table, "k", user="u", max_keys_per_user=1)
    assert (bounded.elements, bounded.total) in {(3, 1), (3, 2)}
    with refused("user needs a contribution bound"):
        count_frequencies(table, "k", user="u")
    with refused("needs keys"):
        count_frequencies([])

"""The checks of the frequencies that a scheme is asked about."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpsample import CustomSampling, KeepAll, Ppswor, Priority, Sampling
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.sampling import as_frequencies
from support import refused

# Frequencies.


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_every_integer_type(kind: str) -> None:
    largest = min(int(np.iinfo(kind).max), MAX_FREQUENCY)
    found = as_frequencies(np.array([0, 5, largest], kind))
    assert found.dtype == np.int64
    assert found.tolist() == [0, 5, largest]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 3], [3, 1, 3]),
        ((2**63 - 1, 0), [2**63 - 1, 0]),
        (range(3), [0, 1, 2]),
        (7, 7),
        (np.int16(7), 7),
        (np.array(7, np.uint64), 7),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        (np.array([1, 2**63 - 1], object), [1, 2**63 - 1]),
        ([], []),
        (np.zeros((0, 3), np.int32), []),
        (np.arange(12, dtype=np.uint16).reshape(3, 4)[::2, ::-2], [[3, 1], [11, 9]]),
    ],
    ids=repr,
)
def test_shapes_and_containers(values: Any, expected: Any) -> None:
    found = as_frequencies(values)
    assert found.dtype == np.int64
    assert found.shape == np.shape(values)
    assert found.tolist() == expected


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.1), Priority(0.1, 2), CustomSampling(lambda i: 1)], ids=repr)
@pytest.mark.parametrize("values", [7, [], [[1, 2, 3]], np.zeros((0, 2), int), np.array(3, np.int8)], ids=repr)
def test_q_has_the_shape_of_the_frequencies(sampling: Sampling, values: Any) -> None:
    assert np.shape(sampling.q(values)) == np.shape(values)
    assert np.shape(sampling.complement(values)) == np.shape(values)


@pytest.mark.parametrize(
    "values",
    [
        [41.0, 7.5],
        np.array([41], np.float32),
        [True, False],
        np.array(True),
        ["41"],
        [None, 41],
        [41, "x"],
        [41 + 0j],
        np.array(["2041-01-01"], "datetime64[D]"),
        [-41, 2],
        np.array([-41], np.int8),
        [2**63 + 41],
        np.array([2**63 + 41], np.uint64),
        [2**64 + 41],
        [-(2**70) - 41],
        np.array([41, -41], object),
        [Fraction(41)],
        [Decimal(41)],
    ],
    ids=repr,
)
def test_other_frequencies_are_refused_without_showing_them(values: Any) -> None:
    with refused("frequencies must be integers from 0 to 2**63 - 1", hidden=[41, 9223372036854775849]):
        as_frequencies(values)


@pytest.mark.parametrize("sampling", [KeepAll(), Ppswor(0.1), Priority(0.1), CustomSampling(["0.1"])], ids=repr)
@pytest.mark.parametrize("use", ["q", "complement"])
def test_every_scheme_checks_its_frequencies(sampling: Sampling, use: str) -> None:
    for bad in ([1.0], [-41], [2**63]):
        with refused("frequencies must be integers", hidden=[41]):
            getattr(sampling, use)(bad)


def test_bools_and_ragged_lists_are_no_frequencies() -> None:
    with refused("frequencies must be integers"):
        KeepAll().q([1, True])
    with refused("frequencies must be integers"):
        KeepAll().q([[1, 2], [3]])

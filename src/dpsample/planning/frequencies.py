"""Frequencies: how many keys have each frequency. A plan needs to know nothing else of the data."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue, attempt
from dpsample.exact import MAX_FREQUENCY
from dpsample.files import read_foreign
from dpsample.scheme.sampling import Floats, Ints, as_frequencies

MOST_KEYS = 10**8  # of a Zipf distribution: more take minutes
_RANKS = 10**6  # the ranks that are computed at once: an array takes 8 MB
_MOST_ELEMENTS = 2**80  # sums of frequencies are exact far beyond, and no dataset has as many
_FORMATS = (".parquet", ".csv", ".arrow", ".json")
_COLUMNS = ("frequency", "keys")  # of a histogram's file


@dataclass(frozen=True, eq=False, repr=False)
class Frequencies:
    """How many keys have each frequency; `private` if it was, or may have been, counted in private data.

    >>> Frequencies.zipf(1, 6)
    Frequencies(6 keys, 15 elements)
    >>> Frequencies.of({3: 100, 20: 7})
    Frequencies(private)
    """

    values: Ints  # distinct, ascending, from 1
    keys: Ints  # of each
    private: bool = True
    # the frequencies before users kept a bounded number of keys, if known
    uncut: "Frequencies | None" = None
    known_from: int = 1  # keys of a lower frequency are unknown, and left out

    def __repr__(self) -> str:
        if self.private:
            return "Frequencies(private)"
        return f"Frequencies({self.total:,} keys, {self.elements:,} elements)"

    @cached_property
    def total(self) -> int:
        """The number of keys."""
        return sum(self.keys.tolist())

    @cached_property
    def elements(self) -> int:
        """The number of elements."""
        pairs = zip(self.values.tolist(), self.keys.tolist(), strict=True)
        return sum(frequency * keys for frequency, keys in pairs)

    @property
    def base(self) -> "Frequencies":
        """What shares and errors are relative to: the frequencies before the cut, if known."""
        return self.uncut or self

    @cached_property
    def counts(self) -> Floats:
        """The numbers of keys, to compute with."""
        return self.keys.astype(np.float64)

    @staticmethod
    def of(
        frequencies: "ArrayLike | Mapping[int, int] | Frequencies", private: bool = True
    ) -> "Frequencies":
        """Read a list with the frequency of each key, or a mapping from each frequency to its number of keys.

        They count as private unless `private=False`, and so does a plan of them.
        """
        if isinstance(frequencies, Frequencies):
            return frequencies
        if isinstance(frequencies, Mapping):
            return _summed(list(frequencies), list(frequencies.values()), private)
        flat = as_frequencies(frequencies).reshape(-1)
        return _summed(flat, np.ones(len(flat), np.int64), private)

    @staticmethod
    def zipf(alpha: float, keys: int, elements: int | None = None) -> "Frequencies":
        """Return a Zipf distribution: the key of rank r has a frequency proportional to ``r**-alpha``, rounded.

        The last key has frequency 1. With `elements`, the frequencies add up to about that number instead, and each
        is at least 1.

        >>> zipf = Frequencies.zipf(2, 4)
        >>> dict(zip(zipf.values.tolist(), zipf.keys.tolist()))
        {1: 1, 2: 1, 4: 1, 16: 1}
        """
        exponent = _alpha(alpha)
        _check_numbers(keys, elements)
        ranks = _ranks(keys)
        # the logarithm of the frequency of rank 1
        if elements is None:
            log_first = exponent * math.log(keys)
        else:
            sum_of_powers = sum(float((block**-exponent).sum()) for block in ranks)
            log_first = math.log(elements) - math.log(sum_of_powers)
        if log_first > math.log(MAX_FREQUENCY) - 1e-9:
            raise InvalidValue(
                "the frequency of rank 1 would reach 2**63",
                "choose a smaller alpha, or fewer keys or elements",
            )

        first = math.exp(log_first)
        values = []
        numbers = []
        for block in ranks:
            rounded = np.rint(first * block**-exponent)
            distinct, keys_of_each = np.unique(np.maximum(rounded, 1.0), return_counts=True)
            values.append(distinct.astype(np.int64))
            numbers.append(keys_of_each)
        return _summed(np.concatenate(values), np.concatenate(numbers), private=False)

    @staticmethod
    def read(path: str | os.PathLike[str], private: bool = True) -> "Frequencies":
        """Read a histogram: a Parquet, CSV, Arrow or JSON file with the columns frequency and keys.

        JSON is an object of two lists, or a list of objects.
        """
        name = os.fspath(path)
        if not os.path.isfile(name):
            raise InvalidValue(f"there is no histogram at {name!r}", "check the path")
        if not name.lower().endswith(_FORMATS):
            raise InvalidValue(
                f"the name of a histogram must end with {', '.join(_FORMATS)}, not as {name!r}"
            )
        # messages of other libraries may quote the file
        return attempt(lambda: _summed(*_columns(name), private), _no_histogram(name), Exception)


def _ranks(keys: int) -> list[Floats]:
    """Return the ranks from 1 to this number of keys, in blocks."""
    blocks = []
    for start in range(1, keys + 1, _RANKS):
        end = min(start + _RANKS, keys + 1)
        blocks.append(np.arange(start, end, dtype=np.float64))
    return blocks


def _check_numbers(keys: Any, elements: Any) -> None:
    """Check the numbers of keys and elements of a Zipf distribution."""
    if not _is_whole(keys) or not 1 <= keys <= MOST_KEYS:
        raise InvalidValue(
            f"the number of keys must be a whole number from 1 to {MOST_KEYS:,}, not {keys!r}"
        )
    if elements is None:
        return
    if not _is_whole(elements) or elements < keys:
        raise InvalidValue(
            f"the number of elements must be a whole number, at least that of keys, not {elements!r}"
        )


def _columns(name: str) -> tuple[Any, Any]:
    """Return the two columns of a histogram's file."""
    if name.lower().endswith(".json"):
        return _columns_of_json(name)
    table = read_foreign(name)
    assert table is not None  # the ending was checked
    for column in _COLUMNS:
        if table[column].null_count or not pa.types.is_integer(table[column].type):
            raise _no_histogram(name)
    return table["frequency"].to_numpy(), table["keys"].to_numpy()


def _columns_of_json(name: str) -> tuple[Any, Any]:
    with open(name, encoding="utf-8") as file:
        document = json.load(file)
    if isinstance(document, list):
        frequencies = [row["frequency"] for row in document]
        keys = [row["keys"] for row in document]
        return frequencies, keys
    return document["frequency"], document["keys"]


def _no_histogram(name: str) -> InvalidValue:
    return InvalidValue(
        f"{name!r} does not have the columns frequency and keys, of whole numbers",
        "write one line for each frequency; to plan from a release, give it as --release",
    )


def _summed(frequencies: ArrayLike, keys: ArrayLike, private: bool) -> Frequencies:
    """Check both columns, and add up the keys of equal frequencies."""
    all_values = as_frequencies(frequencies).reshape(-1)
    all_keys = as_frequencies(keys).reshape(-1)
    if len(all_values) != len(all_keys):
        raise InvalidValue("each frequency must have one number of keys")
    present = all_keys > 0
    values_present = all_values[present]
    keys_present = all_keys[present]
    if not len(values_present):
        raise InvalidValue("a plan needs keys, and there are none")
    if values_present.min() < 1:
        raise InvalidValue(
            "a plan needs frequencies of 1 or more", "leave out keys without elements"
        )
    values, place = np.unique(values_present, return_inverse=True)
    totals = np.zeros(len(values), np.int64)
    np.add.at(totals, place, keys_present)
    summed = Frequencies(values, totals, private)
    if sum(keys_present.tolist()) > MAX_FREQUENCY or summed.elements > _MOST_ELEMENTS:
        raise InvalidValue(
            "there are too many keys or elements to plan", "check how they were counted"
        )
    return summed


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _alpha(value: Any) -> float:
    """Read and check the exponent of a Zipf distribution."""
    try:
        alpha = float(value)
    except (TypeError, ValueError, OverflowError):
        alpha = math.nan
    if not 0 <= alpha <= 100:
        raise InvalidValue(
            f"alpha must be a number from 0 to 100, not {value!r}", "choose one such as 1"
        )
    return alpha

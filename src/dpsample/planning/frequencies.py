"""Frequencies: how many keys have each frequency. A plan needs to know nothing else of the data."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue, attempt
from dpsample.exact import MAX_FREQUENCY
from dpsample.files import read_foreign
from dpsample.scheme.sampling import Floats, Ints, as_frequencies

MOST_KEYS = 10**8  # of a Zipf distribution
_RANKS = 10**6  # that are computed at once
_FORMATS = (".parquet", ".csv", ".arrow", ".json")


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
    uncut: "Frequencies | None" = None  # what they were before users kept a bounded number of keys, if known
    known_from: int = 1  # keys of a lower frequency are unknown, and left out

    def __repr__(self) -> str:
        return f"Frequencies({'private' if self.private else f'{self.total:,} keys, {self.elements:,} elements'})"

    @cached_property
    def total(self) -> int:
        """The number of keys."""
        return sum(self.keys.tolist())

    @cached_property
    def elements(self) -> int:
        """The number of elements."""
        return sum(i * n for i, n in zip(self.values.tolist(), self.keys.tolist(), strict=True))

    @property
    def base(self) -> "Frequencies":
        """What shares and errors are relative to: the frequencies before the cut, if known."""
        return self.uncut or self

    @cached_property
    def counts(self) -> Floats:
        """The numbers of keys, to compute with."""
        return self.keys.astype(np.float64)

    @staticmethod
    def of(frequencies: "ArrayLike | Mapping[int, int] | Frequencies", private: bool = True) -> "Frequencies":
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
        alpha = _number(alpha, "alpha")
        if isinstance(keys, bool) or not isinstance(keys, int | np.integer) or not 1 <= keys <= MOST_KEYS:
            raise InvalidValue(f"a number of keys is a whole number from 1 to {MOST_KEYS:,}", repr(keys), "choose one")
        if not 0 <= alpha <= 100:
            raise InvalidValue("alpha is a number from 0 to 100", repr(alpha), "choose one such as 1")
        blocks = [np.arange(a, min(a + _RANKS, keys + 1), dtype=np.float64) for a in range(1, keys + 1, _RANKS)]
        if elements is None:
            logarithm = alpha * math.log(keys)
        else:
            if isinstance(elements, bool) or not isinstance(elements, int | np.integer) or elements < keys:
                raise InvalidValue(
                    "a number of elements is a whole number, at least that of keys", repr(elements), "choose more"
                )
            logarithm = math.log(elements) - math.log(sum(float((r**-alpha).sum()) for r in blocks))
        if logarithm > math.log(MAX_FREQUENCY) - 1e-9:
            raise InvalidValue(
                "frequencies are below 2**63", "a larger one at rank 1", "choose a smaller alpha, or fewer keys"
            )
        first = math.exp(logarithm)
        counted = [np.unique(np.maximum(np.rint(first * r**-alpha), 1.0), return_counts=True) for r in blocks]
        values, numbers = (np.concatenate(column).astype(np.int64) for column in zip(*counted, strict=True))
        return _summed(values, numbers, private=False)

    @staticmethod
    def read(path: str | os.PathLike[str], private: bool = True) -> "Frequencies":
        """Read a histogram: a Parquet, CSV, Arrow or JSON file with the columns frequency and keys.

        JSON is an object of two lists, or a list of objects.
        """
        name = os.fspath(path)
        if not os.path.isfile(name):
            raise InvalidValue("a histogram must exist to be read", f"no file at {name!r}", "check the path")
        if not name.lower().endswith(_FORMATS):
            raise InvalidValue(f"a histogram's file ends with {', '.join(_FORMATS)}", repr(name), "rename it")
        # messages of other libraries may quote the file
        return attempt(lambda: _summed(*_columns(name), private), _no_histogram(name), Exception)


def _columns(name: str) -> tuple[Any, Any]:
    """The two columns of a histogram's file."""
    if name.lower().endswith(".json"):
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
        if isinstance(document, list):
            document = {column: [row[column] for row in document] for column in ("frequency", "keys")}
        return document["frequency"], document["keys"]
    import pyarrow as pa

    table = read_foreign(name)
    assert table is not None  # the ending was checked
    for column in ("frequency", "keys"):
        if table[column].null_count or not pa.types.is_integer(table[column].type):
            raise _no_histogram(name)
    return table["frequency"].to_numpy(), table["keys"].to_numpy()


def _no_histogram(name: str) -> InvalidValue:
    return InvalidValue(
        "a histogram has the columns frequency and keys, of whole numbers",
        f"another file at {name!r}",
        "write one line for each frequency; a plan from a release takes it as --release",
    )


def _summed(frequencies: ArrayLike, keys: ArrayLike, private: bool) -> Frequencies:
    """Check both columns, and add up the keys of equal frequencies."""
    i, n = as_frequencies(frequencies).reshape(-1), as_frequencies(keys).reshape(-1)
    if len(i) != len(n):
        raise InvalidValue("each frequency has a number of keys", "more of one than of the other", "give pairs")
    i, n = i[n > 0], n[n > 0]
    if not len(i) or i.min() < 1:
        raise InvalidValue(
            "a plan needs keys, with frequencies from 1",
            "no key" if not len(i) else "a frequency of 0",
            "leave out keys without elements",
        )
    values, back = np.unique(i, return_inverse=True)
    totals = np.zeros(len(values), np.int64)
    np.add.at(totals, back, n)
    summed = Frequencies(values, totals, private)
    if sum(n.tolist()) > MAX_FREQUENCY or summed.elements > 2**80:
        raise InvalidValue("a plan is for less than 2**63 keys", "more", "check how they were counted")
    return summed


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidValue(f"{name} is a finite number", repr(value), "choose one such as 1")
    return number

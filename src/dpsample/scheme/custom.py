"""Sampling schemes of one's own: any non-decreasing q, as a sequence or a function."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, exact, text
from dpsample.scheme.sampling import (
    Floats,
    Sampling,
    as_frequencies,
    scaled_ceiling,
    scaled_floor,
)

_ULP = 2.0**-53  # floats of q and 1 - q are moved toward privacy by one or two of these
_MOST_VALUES = 1 << 17  # reading them takes a second, for everybody who opens a release
_WITHIN = "q must lie in [0, 1]"
_ASCENDING = "q must not decrease as the frequency grows"
_AS_DRAWN = "state the probabilities with which the sample was drawn"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class CustomSampling(Sampling):
    """Any non-decreasing q: a sequence ``[q_1, q_2, ...]`` or a function of the frequency.

    A sequence ends at its last frequency: larger ones are refused, since nothing is known of how they
    were sampled. A function is called with one frequency at a time, and once for each; its values must lie in [0, 1]
    and not decrease, which is checked on every frequency that is used. Schemes of functions are equal only if they are
    the same object: one function may return different values at different times, or in different processes.

    >>> CustomSampling([0.1, 0.1, 0.5]).q([1, 3])
    array([0.1, 0.5])
    >>> CustomSampling([0.5, 0.1])
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: q must not decrease as the frequency grows, but it is smaller at frequency 2 than \
at 1; state the probabilities with which the sample was drawn
    """

    name: ClassVar[str] = "custom"
    values: tuple[Fraction, ...] | None
    function: Callable[[int], Number] | None
    _seen: dict[int, Fraction]  # q at the frequencies at which the function was called
    _order: list[int]  # these frequencies, ascending

    def __init__(self, q: Iterable[Number] | Callable[[int], Number]) -> None:
        is_sequence = isinstance(q, Iterable) and not isinstance(q, str | bytes)
        if not callable(q) and not is_sequence:
            raise InvalidValue(
                f"q must be a sequence or a function, not {type(q).__name__}",
                "give [q_1, q_2, ...]",
            )
        object.__setattr__(self, "function", q if callable(q) else None)
        object.__setattr__(self, "values", None if callable(q) else _values_of(q))
        object.__setattr__(self, "_seen", {})
        object.__setattr__(self, "_order", [])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomSampling):
            return NotImplemented
        if self.values is None:
            return self is other
        return self.values == other.values

    def __hash__(self) -> int:
        return object.__hash__(self) if self.values is None else hash(self.values)

    def __getstate__(self) -> dict[str, Any]:
        # the frequencies at which the function was called are data, which do not leave this process
        return {**self.__dict__, "_seen": {}, "_order": []}

    @property
    def largest(self) -> int:  # noqa: D102
        return MAX_FREQUENCY if self.values is None else len(self.values)

    @property
    def monotone(self) -> bool:  # noqa: D102
        return self.values is not None

    def __repr__(self) -> str:
        shown = "function" if self.values is None else f"{len(self.values)} values"
        return f"CustomSampling(<{shown}>)"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        if self.values is None:
            raise InvalidValue(
                "a scheme of a function cannot be written beside a sample",
                "name the function with dpsample.register_sampling, or give CustomSampling the list [q_1, q_2, ...]",
            )
        return {"scheme": self.name, "q": [text(value) for value in self.values]}

    def _exact(self, frequencies: Iterable[int]) -> list[Fraction]:
        """Return the exact q of each frequency."""
        wanted = list(frequencies)
        if self.values is not None:
            return _values_at(wanted, self.values)
        not_seen = {*wanted} - self._seen.keys() - {0}
        for i in sorted(not_seen):
            self._see(i)
        return [self._seen[i] if i else Fraction(0) for i in wanted]

    def _see(self, frequency: int) -> None:
        """Call the function at a frequency, and check its value against those at the neighbours that were seen."""
        q = self._call(frequency)
        if not 0 <= q <= 1:
            raise InvalidValue(f"{_WITHIN}, also if it is a function", _AS_DRAWN)
        at = bisect_left(self._order, frequency)
        lower = self._order[max(at - 1, 0) : at]
        higher = self._order[at : at + 1]
        q_lower = [self._seen[i] for i in lower]
        q_higher = [self._seen[i] for i in higher]
        neighbours = [*q_lower, q, *q_higher]
        if neighbours != sorted(neighbours):
            raise InvalidValue(f"{_ASCENDING}, also if it is a function", _AS_DRAWN)
        self._seen[frequency] = q
        self._order.insert(at, frequency)

    def _call(self, frequency: int) -> Fraction:
        """Call the function. What it returns or raises may show the frequency, so no message shows that."""
        assert self.function is not None
        try:
            return exact(self.function(frequency), "q")
        except InvalidValue:
            problem = "returns something else"
        except Exception as error:
            problem = f"raises {type(error).__name__}"
        raise InvalidValue(
            f"q must be a number at every frequency, but its function {problem}",
            "call the function for what may occur",
        )

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        distinct, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        exact_q = self._exact(distinct.tolist())
        q = np.array([float(value) for value in exact_q])
        below = 1 - _ULP if toward_privacy else 1.0
        return q[back].reshape(np.shape(frequencies)) * below

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        distinct, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        exact_q = self._exact(distinct.tolist())
        absent = np.array([float(1 - value) for value in exact_q])
        above = 1 + 2 * _ULP if toward_privacy else 1.0
        return np.minimum(absent[back].reshape(np.shape(frequencies)) * above, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        [q] = self._exact([frequency])
        return scaled_floor(q, bits), scaled_ceiling(q, bits)


def _values_of(q: Iterable[Number]) -> tuple[Fraction, ...]:
    """Return the exact values of a sequence, which must be probabilities that do not decrease."""
    given = tuple(islice(q, _MOST_VALUES + 1))
    if len(given) > _MOST_VALUES:
        raise InvalidValue(
            f"a sequence of q must have at most {_MOST_VALUES:,} values",
            "register a function (register_sampling)",
        )
    values = tuple(exact(value, "q") for value in given)
    if not values:
        raise InvalidValue("q must have at least one value", "give [q_1, q_2, ...] or a function")
    for place, (before, value) in enumerate(pairwise((Fraction(0), *values)), start=1):
        if not 0 <= value <= 1:
            raise InvalidValue(
                f"{_WITHIN}, but it is {text(value)} at frequency {place}", _AS_DRAWN
            )
        if value < before:
            raise InvalidValue(
                f"{_ASCENDING}, but it is smaller at frequency {place} than at {place - 1}",
                _AS_DRAWN,
            )
    return values


def _values_at(frequencies: list[int], values: tuple[Fraction, ...]) -> list[Fraction]:
    """Return ``[q_i, ...]`` of a sequence ``q_1, q_2, ...``; frequencies beyond its end are refused."""
    if max(frequencies, default=0) > len(values):
        raise InvalidValue(
            f"every frequency must be within the sequence of q, which ends at {len(values)}",
            "give a longer sequence or a function",
        )
    return [values[i - 1] if i else Fraction(0) for i in frequencies]

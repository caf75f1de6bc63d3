"""Sampling schemes of other people: any non-decreasing q, as a sequence or a function."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, exact, text
from dpsample.scheme.sampling import Floats, Sampling, as_frequencies, scaled_floor

_ULP = 2.0**-53
_MOST_VALUES = 1 << 17  # reading them takes a second
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
    _seen: dict[int, Fraction]
    _order: list[int]  # the frequencies in `_seen`, ascending

    def __init__(self, q: Iterable[Number] | Callable[[int], Number]) -> None:
        function = q if callable(q) else None
        if function is None and (isinstance(q, str | bytes) or not isinstance(q, Iterable)):
            raise InvalidValue(
                f"q must be a sequence or a function, not {type(q).__name__}",
                "give [q_1, q_2, ...]",
            )
        values = None if callable(q) else _values_of(q)
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_seen", {})
        object.__setattr__(self, "_order", [])
        if values is not None:
            if not values:
                raise InvalidValue(
                    "q must have at least one value", "give [q_1, q_2, ...] or a function"
                )
            if place := _misplaced(values):
                value = values[place - 1]
                if not 0 <= value <= 1:
                    raise InvalidValue(
                        f"{_WITHIN}, but it is {text(value)} at frequency {place}", _AS_DRAWN
                    )
                raise InvalidValue(
                    f"{_ASCENDING}, but it is smaller at frequency {place} than at {place - 1}",
                    _AS_DRAWN,
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomSampling):
            return NotImplemented
        return self is other or (self.values is not None and self.values == other.values)

    def __hash__(self) -> int:
        return object.__hash__(self) if self.values is None else hash(self.values)

    def __getstate__(self) -> dict[str, Any]:
        # what was called belongs to this object, and to frequencies that stay where they are
        return {**self.__dict__, "_seen": {}, "_order": []}

    @property
    def largest(self) -> int:  # noqa: D102
        return MAX_FREQUENCY if self.values is None else len(self.values)

    @property
    def monotone(self) -> bool:  # noqa: D102
        return self.values is not None

    def __repr__(self) -> str:
        what = "function" if self.values is None else f"{len(self.values)} values"
        return f"CustomSampling(<{what}>)"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        if self.values is None:
            raise InvalidValue(
                "a scheme of a function cannot be written beside a sample",
                "name the function with dpsample.register_sampling, or give CustomSampling the list [q_1, q_2, ...]",
            )
        return {"scheme": self.name, "q": [text(v) for v in self.values]}

    def _exact(self, frequencies: Iterable[int]) -> list[Fraction]:
        frequencies = list(frequencies)
        if self.values is not None:
            if max(frequencies, default=0) > len(self.values):
                raise InvalidValue(
                    f"every frequency must be within the sequence of q, which ends at {len(self.values)}",
                    "give a longer sequence or a function",
                )
            return [self.values[i - 1] if i else Fraction(0) for i in frequencies]
        for i in sorted({i for i in frequencies if i and i not in self._seen}):
            q, at = self._call(i), bisect_left(self._order, i)
            if not 0 <= q <= 1:
                raise InvalidValue(f"{_WITHIN}, also if it is a function", _AS_DRAWN)
            lower, higher = (
                self._order[max(at - 1, 0) : at],
                self._order[at : at + 1],
            )  # its neighbours so far
            if _misplaced([*(self._seen[n] for n in lower), q, *(self._seen[n] for n in higher)]):
                raise InvalidValue(f"{_ASCENDING}, also if it is a function", _AS_DRAWN)
            self._seen[i] = q
            self._order.insert(at, i)
        return [self._seen[i] if i else Fraction(0) for i in frequencies]

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

    def _floats(self, frequencies: ArrayLike, complement: bool) -> Floats:
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        q = self._exact(i.tolist())
        return np.array([float(1 - v if complement else v) for v in q])[back].reshape(
            np.shape(frequencies)
        )

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return self._floats(frequencies, False) * (1 - _ULP if toward_privacy else 1.0)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return np.minimum(
            self._floats(frequencies, True) * (1 + 2 * _ULP if toward_privacy else 1.0), 1.0
        )

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        (q,) = self._exact([frequency])
        return scaled_floor(q, bits), -scaled_floor(-q, bits)


def _values_of(q: Iterable[Number]) -> tuple[Fraction, ...]:
    """Read a sequence, unless it is so long that whoever opens a release would wait for it."""
    values = tuple(islice(q, _MOST_VALUES + 1))
    if len(values) > _MOST_VALUES:
        raise InvalidValue(
            f"a sequence of q must have at most {_MOST_VALUES:,} values",
            "register a function (register_sampling)",
        )
    return tuple(exact(value, "q") for value in values)


def _misplaced(values: Iterable[Fraction]) -> int | None:
    """The place, from 1, of the first value that is no probability, or smaller than the one before it."""
    before = Fraction(0)
    for place, v in enumerate(values, 1):
        if not before <= v <= 1:
            return place
        before = v
    return None

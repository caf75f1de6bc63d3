"""What a question sums over keys: g(frequency), non-negative and non-decreasing, with g(0) = 0."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.scheme.sampling import Floats, as_frequencies

FORMS = "frequency, keys, log1p, power:P, capped:T or at-least:T"


@dataclass(frozen=True)
class Measure:
    """A function of the frequency that can be summed over keys.

    >>> [Measure.of(g)([0, 3, 200]).tolist() for g in ("frequency", "keys", "power:2", "capped:100", "at-least:100")]
    [[0.0, 3.0, 200.0], [0.0, 1.0, 1.0], [0.0, 9.0, 40000.0], [0.0, 3.0, 100.0], [0.0, 0.0, 1.0]]
    >>> Measure.of(np.sqrt)([4, 9])
    array([2., 3.])
    """

    name: str
    function: Callable[[Floats], Any]
    kink: int | None = None  # where it jumps or bends, if it does
    checked: bool = False  # whether it is known to be 0 at 0 and never to decrease
    whole: bool = False  # whether its values are whole numbers

    @staticmethod
    def of(value: "Measure | str | Callable[[Floats], Any]") -> "Measure":
        """Read a measure: a name such as "frequency" or "capped:100", or a function of an array of frequencies."""
        if isinstance(value, Measure):
            return value
        if isinstance(value, str):
            return _named(value)
        if callable(value):
            return Measure(getattr(value, "__name__", "a function"), value)
        raise _unknown(type(value).__name__)

    def from_frequency(self, least: int) -> "Measure":
        """Return the same measure of the keys from a frequency on; other keys count 0. Equal ones are equal values.

        >>> Measure.of("frequency").from_frequency(4)([3, 4, 5])
        array([0., 4., 5.])
        """
        if self.kink is not None and least <= self.kink and not self([self.kink - 1]).any():
            return self  # it is 0 below anyway
        return Measure(
            f"{self.name} from {least}", _FromFrequency(self.function, least), least, self.checked, self.whole
        )

    def at_every(self, k: int) -> "Measure":
        """Return the same measure of numbers of k elements. Equal ones are equal values.

        >>> Measure.of("capped:100").at_every(30)([1, 2, 4])
        array([ 30.,  60., 100.])
        """
        if k == 1 or self == _named("keys"):
            return self
        kink = None if self.kink is None else -(-self.kink // k)
        return Measure(f"{self.name} in steps of {k}", _AtEvery(self.function, k), kink, self.checked, self.whole)

    def __call__(self, frequencies: ArrayLike) -> Floats:
        """Return g at each frequency; refuses a function that cannot be summed honestly."""
        i = as_frequencies(frequencies)
        g = self._values(i.reshape(-1).astype(np.float64))
        ordered = np.zeros(1) if self.checked else self._values(np.append(0.0, np.unique(i)))
        if ordered[0] != 0 or (np.diff(ordered) < 0).any():
            raise InvalidValue(
                "a function of the frequency is 0 at 0 and never decreases",
                f"{self.name}, which does not do so",
                f"give {FORMS}, or such a function",
            )
        return g.reshape(i.shape)

    def _values(self, i: Floats) -> Floats:
        try:
            g = np.asarray(self.function(i), np.float64)
        except (TypeError, ValueError):
            g = np.array(math.nan)
        if g.shape != i.shape or not np.isfinite(g).all():
            raise InvalidValue(
                "a function of the frequency takes an array of frequencies and returns as many finite numbers",
                f"{self.name}, which does not do so",
                "write it with numpy",
            )
        return g

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _FromFrequency:
    function: Callable[[Floats], Any]
    least: int

    def __call__(self, i: Floats) -> Floats:
        return np.asarray(self.function(i)) * (i >= self.least)


@dataclass(frozen=True)
class _AtEvery:
    function: Callable[[Floats], Any]
    k: int

    def __call__(self, i: Floats) -> Floats:
        return np.asarray(self.function(i * self.k))


@lru_cache(maxsize=64)
def _named(name: str) -> Measure:
    kind, _, argument = name.partition(":")
    plain: dict[str, Callable[[Floats], Any]] = {
        "frequency": lambda i: i,
        "keys": lambda i: (i > 0).astype(np.float64),
        "log1p": np.log1p,
    }
    if name in plain:
        return Measure(name, plain[name], checked=True, whole=name != "log1p")
    if kind not in ("power", "capped", "at-least") or not argument:
        raise _unknown(repr(name))
    bound = exact(argument, kind)
    if bound <= 0:
        raise InvalidValue(f"{kind} takes a number above 0", text(bound), "give one, as in capped:100")
    number = float(bound)
    forms: dict[str, Callable[[Floats], Any]] = {
        "power": lambda i: i**number,
        "capped": lambda i: np.minimum(i, number),
        "at-least": lambda i: (i >= number).astype(np.float64),
    }
    kink = None if kind == "power" else min(math.ceil(bound), 1 << 62)
    return Measure(
        f"{kind}:{text(bound)}", forms[kind], kink, checked=True, whole=kind != "power" and bound.denominator == 1
    )


def _unknown(value: str) -> InvalidValue:
    return InvalidValue(f"what is summed over keys is {FORMS}, or a function of the frequency", value, "name one")

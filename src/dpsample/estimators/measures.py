"""What a question sums over keys: g(frequency), non-negative and non-decreasing, with g(0) = 0."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.scheme.sampling import Floats, as_frequencies

FORMS = "frequency, keys, log1p, power:P, capped:T or at-least:T"
_FARTHEST = 1 << 62  # the largest kink: twice a frequency still fits an int64

Given: TypeAlias = Callable[[Floats], Any]


class Form(Enum):
    """The functions of the frequency that have a name; those of a parameter take it after a colon."""

    FREQUENCY = "frequency"
    KEYS = "keys"
    LOG1P = "log1p"
    POWER = "power"
    CAPPED = "capped"
    AT_LEAST = "at-least"
    GIVEN = "a function"


_NAMED = {form.value: form for form in Form if form is not Form.GIVEN}
_OF_A_PARAMETER = (Form.POWER, Form.CAPPED, Form.AT_LEAST)
_WHOLE = (Form.FREQUENCY, Form.KEYS, Form.CAPPED, Form.AT_LEAST)  # if the parameter is whole


@dataclass(frozen=True)
class Measure:
    """A function of the frequency that can be summed over keys: ``f(step * i - added)`` from `least` on, and 0 below.

    >>> [Measure.of(g)([0, 3, 200]).tolist() for g in ("frequency", "keys", "power:2", "capped:100", "at-least:100")]
    [[0.0, 3.0, 200.0], [0.0, 1.0, 1.0], [0.0, 9.0, 40000.0], [0.0, 3.0, 100.0], [0.0, 0.0, 1.0]]
    >>> Measure.of(np.sqrt)([4, 9])
    array([2., 3.])
    """

    form: Form
    parameter: Fraction | None = None  # P or T
    given: Given | None = None
    least: int = 0  # keys of a lower frequency count 0
    step: int = 1  # how many elements a frequency of 1 stands for
    added: int = 0  # elements that each key has for certain, and that do not count

    @staticmethod
    def of(value: "Measure | str | Given") -> "Measure":
        """Read a measure: a name such as "frequency" or "capped:100", or a function of an array of frequencies."""
        if isinstance(value, Measure):
            return value
        if isinstance(value, str):
            return _named(value)
        if callable(value):
            return Measure(Form.GIVEN, given=value)
        raise _unknown(type(value).__name__)

    @staticmethod
    def at_least(frequency: int) -> "Measure":
        """Return the measure of how many keys have this frequency or more."""
        return Measure(Form.AT_LEAST, Fraction(frequency))

    def from_frequency(self, least: int) -> "Measure":
        """Return the same measure of the keys from a frequency on; other keys count 0.

        >>> FREQUENCY.from_frequency(4)([3, 4, 5])
        array([0., 4., 5.])
        """
        if self.kink is not None and least <= self.kink and self.is_0_below_its_kink:
            return self
        return replace(self, least=least)

    def at_every(self, step: int) -> "Measure":
        """Return the same measure of numbers of `step` elements.

        >>> Measure.of("capped:100").at_every(30)([1, 2, 4])
        array([ 30.,  60., 100.])
        """
        return self if self == KEYS else replace(self, step=step, least=-(-self.least // step))

    def beyond(self, added: int) -> "Measure":
        """Return the same measure of the frequency less what was added to it.

        >>> FREQUENCY.beyond(10).from_frequency(11)([10, 15])
        array([0., 5.])
        """
        return replace(self, added=added)

    @property
    def kink(self) -> int | None:
        """Where the function jumps or bends, if it does."""
        if self.least:
            return self.least
        if self.parameter is None or self.form is Form.POWER:
            return None
        return min(math.ceil((self.parameter + self.added) / self.step), _FARTHEST)

    @property
    def is_0_below_its_kink(self) -> bool:
        """Whether keys of a frequency below the kink count 0; True only if there is a kink."""
        return bool(self.least) or self.form is Form.AT_LEAST or self.kink == 1

    @property
    def counts_keys(self) -> bool:
        """Whether each key counts 1, or 0."""
        return self.form in (Form.KEYS, Form.AT_LEAST)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return self.form in _WHOLE and (self.parameter is None or self.parameter.denominator == 1)

    @property
    def name(self) -> str:
        """The name by which it can be asked for; that of the function, if it was given."""
        if self.given is not None:
            return str(getattr(self.given, "__name__", self.form.value))
        parameter = "" if self.parameter is None else f":{text(self.parameter)}"
        return f"{self.form.value}{parameter}"

    def __str__(self) -> str:
        return self.name

    def __call__(self, frequencies: ArrayLike) -> Floats:
        """Return g at each frequency; refuses a function that cannot be summed honestly."""
        i = as_frequencies(frequencies)
        g = self._checked_values(i.reshape(-1).astype(np.float64))
        if self.given is not None:
            ascending = self._checked_values(np.append(0.0, np.unique(i)))
            if ascending[0] != 0 or (np.diff(ascending) < 0).any():
                raise InvalidValue(
                    f"a function of the frequency must be 0 at 0 and never decrease, unlike {self.name}",
                    f"give {FORMS}, or another function",
                )
        return g.reshape(i.shape)

    def function(self, i: Floats) -> Floats:
        """Return g at numbers that need not be frequencies, unchecked."""
        values = np.asarray(self._of_elements(i * self.step - self.added))
        return values * (i >= self.least) if self.least else values

    def _of_elements(self, n: Floats) -> Any:
        """The function of a number of elements."""
        if self.given is not None:
            return self.given(n)
        parameter = float(self.parameter or 0)
        match self.form:
            case Form.KEYS:
                return (n > 0).astype(np.float64)
            case Form.LOG1P:
                return np.log1p(n)
            case Form.POWER:
                return n**parameter
            case Form.CAPPED:
                return np.minimum(n, parameter)
            case Form.AT_LEAST:
                return (n >= parameter).astype(np.float64)
        return n

    def _checked_values(self, i: Floats) -> Floats:
        try:
            g = np.asarray(self.function(i), np.float64)
        except (TypeError, ValueError):
            g = np.array(math.nan)
        if g.shape != i.shape or not np.isfinite(g).all():
            raise InvalidValue(
                f"{self.name} must take an array of frequencies and return a finite number for each",
                "write it with numpy",
            )
        return g


FREQUENCY = Measure(Form.FREQUENCY)
KEYS = Measure(Form.KEYS)


def _named(name: str) -> Measure:
    word, colon, argument = name.partition(":")
    form = _NAMED.get(word)
    takes_one = form in _OF_A_PARAMETER
    if form is None or bool(colon) != takes_one or bool(argument) != takes_one:
        raise _unknown(repr(name))
    if not takes_one:
        return Measure(form)
    parameter = exact(argument, word)
    if parameter <= 0:
        raise InvalidValue(
            f"{word} takes a number above 0, not {text(parameter)}", "give one, as in capped:100"
        )
    return Measure(form, parameter)


def _unknown(value: str) -> InvalidValue:
    return InvalidValue(
        f"keys can be summed by {FORMS}, or by a function of the frequency, not by {value}"
    )

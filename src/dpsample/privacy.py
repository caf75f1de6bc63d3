"""Privacy(epsilon, delta): how much one element, or one user, may change what is published."""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.errors import InvalidValue, PrivacyWarning
from dpsample.exact import Number, exact, text

_LEAST_EPSILON = Fraction(1, 10**12)  # less, and the integers of a scheme hardly tell exp(epsilon) from 1
_LEAST_DELTA = Fraction(1, 10**200)  # less, and they are longer than what a float can hold
_warned: set[str] = set()


@dataclass(frozen=True, repr=False)
class Privacy:
    """The pair (epsilon, delta) of differential privacy, exact and checked when made.

    For neighbouring datasets D and D' and every set T of outputs,
    ``Pr[output(D) in T] <= exp(epsilon) * Pr[output(D') in T] + delta``.

    >>> Privacy(epsilon=0.1, delta=1e-6)
    Privacy(epsilon='0.1', delta='1e-06')
    >>> Privacy("0.1", "1e-6") == Privacy(0.1, 1e-6)
    True
    >>> Privacy(epsilon=1, delta=0)
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: delta must be above 0; found 0; choose a delta well below 1 / (number of \
elements), such as 1e-8: with delta = 0 a key that is in the data only because of one element may never be \
reported, so neither may any other key, and a release of keys would be empty
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        epsilon, delta = exact(epsilon, "epsilon"), exact(delta, "delta")
        if epsilon <= 0:
            raise InvalidValue(
                "epsilon must be above 0",
                text(epsilon),
                "choose one, commonly from 0.1 to 3; smaller is more private",
            )
        if delta == 0:
            raise InvalidValue(
                "delta must be above 0",
                "0",
                "choose a delta well below 1 / (number of elements), such as 1e-8: with delta = 0 a key that is in "
                "the data only because of one element may never be reported, so neither may any other key, and a "
                "release of keys would be empty",
            )
        if not 0 < delta < 1:
            raise InvalidValue(
                "delta must be above 0 and below 1",
                text(delta),
                "choose one such as 1e-8; with delta = 1 nothing is private",
            )
        if epsilon < _LEAST_EPSILON or delta < _LEAST_DELTA:
            raise InvalidValue(
                f"epsilon must be at least {text(_LEAST_EPSILON)} and delta at least {text(_LEAST_DELTA)}, or integers "
                "cannot hold the scheme",
                f"epsilon = {text(epsilon)}, delta = {text(delta)}",
                "choose larger ones; of a user's privacy each key has a part",
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        if epsilon > 20:
            _warn_once(
                f"epsilon = {text(epsilon)} is above 20: it protects next to nothing; common values are 0.1 to 3"
            )
        if delta > Fraction(1, 100):
            _warn_once(
                f"delta = {text(delta)} is above 0.01: each element is exposed with up to that probability; "
                "choose one well below 1 / (number of elements)"
            )

    def __repr__(self) -> str:
        return f"Privacy(epsilon={text(self.epsilon)!r}, delta={text(self.delta)!r})"

    def to_json(self) -> dict[str, str]:
        """Return the exact JSON form.

        >>> Privacy(1, 1e-6).to_json()
        {'epsilon': '1', 'delta': '1e-06'}
        """
        return {"epsilon": text(self.epsilon), "delta": text(self.delta)}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Privacy":
        """Read the JSON form back.

        >>> Privacy.from_json({"epsilon": "1", "delta": "1e-06"})
        Privacy(epsilon='1', delta='1e-06')
        """
        if not isinstance(form, dict) or set(form) != {"epsilon", "delta"}:
            raise InvalidValue(
                "the JSON form of Privacy has the fields epsilon and delta",
                f"{sorted(map(str, form)) if isinstance(form, dict) else type(form).__name__}",
                "write it with Privacy.to_json",
            )
        return cls(form["epsilon"], form["delta"])


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, PrivacyWarning, stacklevel=3)

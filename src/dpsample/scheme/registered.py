"""Registered schemes: sampling by a function that files name.

A file never makes a reader run code that the reader did not choose: it has the name of the function alone, and a hash
of some values. The reader registers the function of that name.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, text
from dpsample.scheme.custom import CustomSampling

# Frequencies whose q a file has a hash of: small ones, and all powers of two. Files of before need these very ones.
_POWERS_OF_TWO = (1 << n for n in range(9, 63))
HASHED = (*range(1, 257), *_POWERS_OF_TWO, MAX_FREQUENCY)

# Frequencies at which a function is checked, and between which its q is kept: all up to 10,000, and beyond these 16
# between each two powers of two. With more, registering takes longer; with fewer, less of a wrong function is seen.
_LAST_IN_A_ROW = 10_000


def _spread_frequencies() -> list[int]:
    """Return 16 frequencies between each two powers of two, from the first one above `_LAST_IN_A_ROW`."""
    multiples = range(16, 32)
    frequencies = {k << n for n in range(9, 59) for k in multiples}
    return sorted(i for i in frequencies if i > _LAST_IN_A_ROW)


CHECKED = (*range(1, _LAST_IN_A_ROW + 1), *_spread_frequencies(), MAX_FREQUENCY)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class RegisteredSampling(CustomSampling):
    """q as a function that has a name; made by `register_sampling`, once for each name."""

    name: ClassVar[str] = "registered"
    function_name: str
    sha256: str  # of q at `HASHED`

    def __init__(self, function_name: str, function: Callable[[int], Number]) -> None:
        super().__init__(function)
        values = self._exact(HASHED)
        lines = []
        for frequency, q in zip(HASHED, values, strict=True):
            lines.append(f"{frequency} {text(q)}\n")
        all_lines = "".join(lines)
        object.__setattr__(self, "function_name", function_name)
        object.__setattr__(self, "sha256", hashlib.sha256(all_lines.encode()).hexdigest())

    def __repr__(self) -> str:
        return f"RegisteredSampling({self.function_name!r})"

    def _exact(self, frequencies: Iterable[int]) -> list[Fraction]:
        if not self._seen:  # the first call in this process
            super()._exact(CHECKED)
        wanted = list(frequencies)
        for i in {*wanted} - self._seen.keys() - {0}:
            self._seen[i] = self._between_checked(i)
        return [self._seen[i] if i else Fraction(0) for i in wanted]

    def _between_checked(self, frequency: int) -> Fraction:
        """Return q at a frequency that was not checked, kept between those at the checked frequencies around it.

        Where the function fails, it is the lower one of these: no error depends on the data. And q of a frequency does
        not depend on which other frequencies the data have.
        """
        at = bisect_left(CHECKED, frequency)
        low = self._seen[CHECKED[at - 1]]
        high = self._seen[CHECKED[at]]
        try:
            q = self._call(frequency)
        except InvalidValue:
            return low
        return min(max(q, low), high)

    def to_json(self) -> dict[str, Any]:
        """Return the name of the function, and the hash of some of its values."""
        return {"scheme": self.name, "function": self.function_name, "sha256": self.sha256}


_registered: dict[str, RegisteredSampling] = {}  # by the names of the functions


def register_sampling(name: str, function: Callable[[int], Number]) -> RegisteredSampling:
    """Give a function of q a name, so that samples and releases by it can be written, and read where it is registered.

    The function returns q for a frequency, from 1 to 2**63 - 1: an exact number (a Fraction, a text such as "1/3", an
    integer, or a float, which is read as it is printed), in [0, 1], which does not decrease. This is checked before any
    data are read, at all frequencies up to 10,000 and at 16 between each two powers of two beyond. See to it that it
    holds at all others, since privacy rests on it. There, q is kept between its values at the checked frequencies
    around, and is the lower one of these if the function fails: a run does not end with an error that depends on the
    data. A file has the name, and a hash of some values. A reader must have registered a function of that name with the
    same values; a file makes nobody run code.

    >>> from fractions import Fraction
    >>> rational = register_sampling("example/rational", lambda i: Fraction(i, i + 100))
    >>> rational.q([1, 100])
    array([0.00990099, 0.5       ])
    >>> from dpsample import Sampling
    >>> Sampling.from_json(rational.to_json()) is rational
    True
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidValue(
            f"a sampling scheme is registered by a name, not {name!r}",
            "give one, such as 'org/my-scheme'",
        )
    if not callable(function):
        raise InvalidValue(
            f"a sampling scheme is registered with a function, not {type(function).__name__}"
        )
    scheme = RegisteredSampling(name, function)
    if _registered.setdefault(name, scheme).sha256 != scheme.sha256:
        raise InvalidValue(
            f"another function has the name {name!r}: a name stands for one sampling scheme",
            "choose another name",
        )
    return _registered[name]


def registered(form: dict[str, Any]) -> RegisteredSampling:
    """Return the scheme that a JSON form names; refuse one that is not registered here, or has other values."""
    fields = {name: value for name, value in form.items() if name != "scheme"}
    if fields.keys() != {"function", "sha256"} or not isinstance(fields["function"], str):
        raise InvalidValue(
            "the JSON form of a registered scheme must have its function and sha256 alone",
            "write it with to_json",
        )
    name = fields["function"]
    scheme = _registered.get(name)
    if scheme is None or scheme.sha256 != fields["sha256"]:
        problem = "is unknown" if scheme is None else "has other values"
        raise InvalidValue(
            f"the sampling scheme of a file must be registered where it is read, but {name!r} {problem} here",
            "call dpsample.register_sampling with that name and the function of the writer, in Python",
        )
    return scheme

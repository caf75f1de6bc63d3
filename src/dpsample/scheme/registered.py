"""Registered: sampling by a function that files name. A file never makes a reader run code that it did not choose."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, Number, text
from dpsample.scheme.custom import CustomSampling

# where a function is compared with that of a file: small frequencies, and all powers of two
HASHED = (*range(1, 257), *(1 << n for n in range(9, 63)), MAX_FREQUENCY)
# where it is checked: all frequencies up to 10,000, and from there on 16 between each two powers of two
CHECKED = (
    *range(1, 10_001),
    *sorted({(16 + k) << n for n in range(9, 59) for k in range(16)} - {*range(10_001)}),
)
CHECKED = (*CHECKED, MAX_FREQUENCY)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class RegisteredSampling(CustomSampling):
    """q as a function that has a name; made by `register_sampling`, once for each name."""

    name: ClassVar[str] = "registered"
    function_name: str
    sha256: str  # of q at `HASHED`

    def __init__(self, function_name: str, function: Callable[[int], Number]) -> None:
        super().__init__(function)
        pairs = zip(HASHED, self._exact(HASHED), strict=True)
        lines = [f"{i} {text(q)}\n" for i, q in pairs]
        sha256 = hashlib.sha256("".join(lines).encode()).hexdigest()
        object.__setattr__(self, "function_name", function_name)
        object.__setattr__(self, "sha256", sha256)

    def __repr__(self) -> str:
        return f"RegisteredSampling({self.function_name!r})"

    def _exact(self, frequencies: Iterable[int]) -> list[Fraction]:
        if not self._seen:  # at first, and in each process
            super()._exact(CHECKED)
        frequencies = list(frequencies)
        for i in {*frequencies} - self._seen.keys() - {0}:
            self._seen[i] = self._between_checked(i)
        return [self._seen[i] if i else Fraction(0) for i in frequencies]

    def _between_checked(self, frequency: int) -> Fraction:
        """Return q at another frequency, between those at the checked ones around it, whatever the function does there.

        So no error depends on the data, and q of a frequency does not depend on which others there are.
        """
        at = bisect_left(CHECKED, frequency)
        low, high = (self._seen[i] for i in CHECKED[at - 1 : at + 1])
        try:
            return min(max(self._call(frequency), low), high)
        except InvalidValue:
            return low

    def to_json(self) -> dict[str, Any]:
        """Return the name of the function, and the hash of some of its values."""
        return {"scheme": self.name, "function": self.function_name, "sha256": self.sha256}


_registered: dict[str, RegisteredSampling] = {}


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
    made = RegisteredSampling(name, function)
    if _registered.setdefault(name, made).sha256 != made.sha256:
        raise InvalidValue(
            f"another function has the name {name!r}: a name stands for one sampling scheme",
            "choose another name",
        )
    return _registered[name]


def registered(form: dict[str, Any]) -> RegisteredSampling:
    """Return the scheme that a file names; refuse one that is not registered here, or has other values."""
    fields = {name: form.get(name) for name in form if name != "scheme"}
    if fields.keys() != {"function", "sha256"} or not isinstance(fields["function"], str):
        raise InvalidValue(
            "the JSON form of a registered scheme must have its function and sha256 alone",
            "write it with to_json",
        )
    made = _registered.get(fields["function"])
    if made is None or made.sha256 != fields["sha256"]:
        name = fields["function"]
        problem = "is unknown" if made is None else "has other values"
        raise InvalidValue(
            f"the sampling scheme of a file must be registered where it is read, but {name!r} {problem} here",
            "call dpsample.register_sampling with that name and the function of the writer, in Python",
        )
    return made

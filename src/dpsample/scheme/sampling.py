"""Sampling schemes: the probability q_i with which a key of frequency i enters the sample.

A scheme is a frozen value. It gives q as floats for whole arrays, and bounds of the true, real q_i as
integers of any precision for single frequencies; the latter carry the proofs.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpsample.errors import InvalidValue, attempt
from dpsample.exact import MAX_FREQUENCY, Number, exact, text

if TYPE_CHECKING:
    from dpsample.privacy import Privacy
    from dpsample.scheme.law import Law

MAX_POWER = 64  # so that floats err by less than 2**-40: a thousandth of what the sanitizer decides in integers
MOST_AT_LEAST = (
    1 << 50
)  # so that all tokens around it are floats, and fit an int64 in units of 1/grid
MAX_SEED = 200  # characters
MAX_WIDTH = 16  # units that the bounds of q are apart, at most; a certificate rests on it
_ULP = 2.0**-53
_LIBRARY_ERROR = (
    8 * _ULP
)  # of numpy's exp, expm1 and power; documented below 4 units in the last place

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def as_frequencies(values: ArrayLike) -> Ints:
    """Check integers from 0 to 2**63 - 1 of any integer type and shape, as an int64 array.

    >>> as_frequencies([3, 1, 3])
    array([3, 1, 3])
    >>> as_frequencies([1.5])
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: frequencies must be integers from 0 to 2**63 - 1, not values of type float64; \
count the elements of each key, or convert whole numbers with .astype('int64')
    """
    array = attempt(lambda: np.asarray(values), _ragged, ValueError)
    if isinstance(values, list | tuple) and any(isinstance(v, bool) for v in values):
        raise _not_frequencies("values of type bool", _COUNT)
    if array.size == 0:
        return np.zeros(array.shape, np.int64)
    if array.dtype == object:
        return _long_integers(array)
    if array.dtype.kind not in "iu":
        raise _not_frequencies(
            f"values of type {array.dtype}",
            f"{_COUNT}, or convert whole numbers with .astype('int64')",
        )
    if array.dtype.kind == "i" and array.min() < 0:
        raise _not_frequencies(*_NEGATIVE)
    if array.dtype == np.uint64 and array.max() > MAX_FREQUENCY:
        raise _not_frequencies(*_TOO_LARGE)
    return array.astype(np.int64, copy=False)


def _long_integers(array: NDArray[Any]) -> Ints:
    """Integers of which some do not fit 64 bits with a sign; numpy keeps these as objects."""
    if not all(isinstance(v, int) and not isinstance(v, bool) for v in array.flat):
        raise _not_frequencies(
            "values of type object", f"{_COUNT}, or convert whole numbers with .astype('int64')"
        )
    if any(v > MAX_FREQUENCY for v in array.flat):
        raise _not_frequencies(*_TOO_LARGE)
    if any(v < 0 for v in array.flat):
        raise _not_frequencies(*_NEGATIVE)
    return array.astype(np.int64)


_COUNT = "count the elements of each key"
_NEGATIVE = "a negative one", "check how the frequencies were counted"
_TOO_LARGE = "one above 2**63 - 1", "check how the frequencies were summed"


def _not_frequencies(shown: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"frequencies must be integers from 0 to 2**63 - 1, not {shown}", remedy)


def _ragged() -> InvalidValue:
    return _not_frequencies("lists of different lengths", "give one list of frequencies")


class Sampling(ABC):
    """A non-decreasing sequence q_1 <= q_2 <= ... of probabilities; q_0 = 0.

    A new scheme implements `q`, `complement` and `bounds`, and its fields' JSON form.
    """

    name: ClassVar[str]
    seed: str | None = (
        None  # of a coordinated sample, over which q is a probability; else secret coins sample keys
    )

    @property
    def largest(self) -> int:
        """The largest frequency for which the scheme is defined."""
        return MAX_FREQUENCY

    @property
    def least(self) -> int:
        """The least frequency whose keys may be sampled."""
        return 1

    @property
    def monotone(self) -> bool:
        """Whether `bounds` are known not to decrease. A function is known only where it was called."""
        return True

    @property
    def sanitized_as(self) -> "Sampling":
        """The scheme by which keys are sanitized: this one, or that of all keys for a coordinated sample."""
        return self if self.seed is None else KeepAll()

    @abstractmethod
    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:
        """Return q for each frequency; with `toward_privacy`, surely not above the real q."""

    @abstractmethod
    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:
        """Return 1 - q, as accurate near q = 1; with `toward_privacy`, surely not below the real 1 - q."""

    @abstractmethod
    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:
        """Integers ``low <= 2**bits * q <= high``, both non-decreasing in the frequency, at most 16 units apart."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""

    def reporting(self, privacy: "Privacy") -> "Law | None":
        """Return the reporting probabilities and token laws of a scheme that has its own; None if q determines them."""
        return None

    @staticmethod
    def from_json(form: dict[str, Any]) -> "Sampling":
        """Read any scheme's JSON form back.

        >>> Sampling.from_json(Ppswor(tau=1e-4).to_json())
        Ppswor(tau='0.0001')
        """
        if isinstance(form, dict) and form.get("scheme") == "registered":
            from dpsample.scheme.registered import registered

            return registered(form)
        from dpsample.scheme.custom import CustomSampling
        from dpsample.scheme.holding import SampleAndHold
        from dpsample.scheme.soft_cap import SoftCap

        known = (KeepAll, Ppswor, Priority, SoftCap, CustomSampling, SampleAndHold)
        schemes: dict[str, type[Sampling]] = {c.name: c for c in known}
        name = form.get("scheme") if isinstance(form, dict) else None
        if not isinstance(name, str) or name not in schemes:
            raise InvalidValue(
                f"the JSON form of a sampling scheme must name one of {', '.join(schemes)} as its scheme, not {name!r}",
                "write it with the scheme's to_json",
            )
        fields = {field: value for field, value in form.items() if field != "scheme"}
        try:
            return schemes[name](**fields)
        except TypeError:
            shown = ", ".join(sorted(fields)) or "none"
            raise InvalidValue(
                f"the JSON form of {name} must have that scheme's own fields, not {shown}",
                "write it with the scheme's to_json",
            ) from None


@dataclass(frozen=True)
class KeepAll(Sampling):
    """No sampling: every key is kept, q = 1. The release is a private histogram.

    With `at_least`, keys of a lower frequency are left out, q = 0: no release has any of them.

    >>> KeepAll().q([0, 1, 5]), KeepAll(at_least=5).q([0, 1, 5])
    (array([0., 1., 1.]), array([0., 0., 1.]))
    """

    at_least: int = 1
    name: ClassVar[str] = "keep all"

    def __post_init__(self) -> None:
        n = self.at_least
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_AT_LEAST:
            raise InvalidValue(
                f"`at_least` must be a whole number from 1 to 2**50, not {n!r}",
                "give the least frequency of the keys",
            )

    @property
    def least(self) -> int:  # noqa: D102
        return self.at_least

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return (as_frequencies(frequencies) >= self.at_least).astype(np.float64)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return (as_frequencies(frequencies) < self.at_least).astype(np.float64)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        return (1 << bits, 1 << bits) if frequency >= self.at_least else (0, 0)

    def __repr__(self) -> str:
        return f"KeepAll({f'at_least={self.at_least}' if self.at_least > 1 else ''})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        return {"scheme": self.name, **({"at_least": self.at_least} if self.at_least > 1 else {})}


@dataclass(frozen=True, init=False, repr=False)
class _ByWeight(Sampling):
    """q as a function of ``x = tau * min(frequency, cap) ** power``.

    With a `seed`, which is public text, a hash of the key takes the place of secret coins: samples with one seed have
    the same keys, as far as their frequencies are the same (`coordinated`).

    The power is at most 64. An error of a power's last bit is multiplied by the power. With a much larger one, floats
    would no longer lead to the same decisions as the certified integers.
    """

    tau: Fraction
    power: Fraction
    cap: int | None
    seed: str | None

    def __init__(
        self, tau: Number, power: Number = 1, cap: int | None = None, seed: str | None = None
    ) -> None:
        tau, power = exact(tau, "tau"), exact(power, "power")
        if tau <= 0:
            raise InvalidValue(
                f"tau must be above 0, not {text(tau)}",
                "choose about (wanted sample size) / (sum of weights), such as 1e-4",
            )
        if power < 0:
            raise InvalidValue(
                f"power must be at least 0, not {text(power)}: a negative one favours rare keys",
                "choose 0 to sample keys uniformly, 1 by frequency, 2 by its square",
            )
        if power > MAX_POWER:
            raise InvalidValue(
                f"power must be at most {MAX_POWER}, not {text(power)}: floats are too far from certified integers"
            )
        if cap is not None and (
            isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= MAX_FREQUENCY
        ):
            raise InvalidValue(
                f"cap must be an integer from 1 to 2**63 - 1, or None, not {cap!r}", "leave it out"
            )
        if seed is not None and (
            not isinstance(seed, str) or not 1 <= len(seed) <= MAX_SEED or not seed.isprintable()
        ):
            raise InvalidValue(
                f"seed must be public text of up to {MAX_SEED} characters, which the release states",
                'give one, such as `seed="2026 public"`, or leave it out for secret coins',
            )
        object.__setattr__(self, "tau", tau)
        object.__setattr__(self, "power", power)
        object.__setattr__(self, "cap", cap)
        object.__setattr__(self, "seed", seed)

    def __repr__(self) -> str:
        shown = f"tau={text(self.tau)!r}"
        if self.power != 1:
            shown += f", power={text(self.power)!r}"
        if self.cap is not None:
            shown += f", cap={self.cap}"
        if self.seed is not None:
            shown += f", seed={self.seed!r}"
        return f"{type(self).__name__}({shown})"

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "scheme": self.name,
            "tau": text(self.tau),
            "power": text(self.power),
        }
        optional = {"cap": self.cap, "seed": self.seed}
        return form | {name: value for name, value in optional.items() if value is not None}

    def _x(self, frequencies: ArrayLike, factor: float = 1.0) -> Floats:
        """``factor * x`` as floats, and 0 for frequency 0; relative error below `_x_error`."""
        i = as_frequencies(frequencies)
        w = np.minimum(i, self.cap) if self.cap is not None else i
        if self.power == 1:
            return np.multiply(w, factor * float(self.tau), dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            x: Floats = np.power(w, float(self.power), dtype=np.float64) * (
                factor * float(self.tau)
            )
        return np.where(i == 0, 0.0, x)

    @property
    def _x_error(self) -> float:
        """Relative: conversions and products, power's own, and the rounding of a power such as 0.1."""
        inexact = Fraction(float(self.power)) != self.power
        return (
            6 + 2 * float(self.power) + (90 * float(self.power) if inexact else 0)
        ) * _ULP + _LIBRARY_ERROR

    def _x_real(self, frequency: int, bits: int) -> Decimal:
        """The real x, with an error far below 2**-bits as long as x < bits."""
        i = frequency if self.cap is None else min(frequency, self.cap)
        context = decimal_context(bits)
        if self.power.denominator == 1:
            weight = Decimal(i ** int(self.power))
        else:
            weight = context.exp(
                context.multiply(decimal_of(self.power, context), context.ln(Decimal(i)))
            )
        return context.multiply(decimal_of(self.tau, context), weight)


class Ppswor(_ByWeight):
    """Threshold ppswor: ``q_i = 1 - exp(-tau * min(i, cap)**power)``.

    The exponential form makes a sample by frequency (power 1) one that raw elements can be sampled
    for, each on its own: a key is in as soon as one of its elements is picked.

    >>> Ppswor(tau=0.01).q([1, 100])
    array([0.00995017, 0.63212056])
    """

    name: ClassVar[str] = "ppswor"

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        if not toward_privacy:
            return -np.expm1(self._x(frequencies, -1.0))
        q = np.expm1(self._x(frequencies, -(1 - self._x_error)))
        q *= -(1 - 2 * _LIBRARY_ERROR)
        return q

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        with np.errstate(under="ignore"):
            if not toward_privacy:
                return np.exp(self._x(frequencies, -1.0))
            above = np.exp(self._x(frequencies, -(1 - self._x_error))) * (1 + 2 * _LIBRARY_ERROR)
        return np.clip(above, 5e-324, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        one = 1 << bits
        x = self._x_real(frequency, bits)
        if x > bits:  # exp(-bits) < 2**-bits
            return one - 1, one
        context = decimal_context(bits)
        absent = int(
            context.multiply(context.exp(context.minus(x)), Decimal(one))
        )  # within one unit
        return max(0, one - absent - 2), min(one, one - absent + 1)


class Priority(_ByWeight):
    """Threshold priority (Poisson PPS) sampling: ``q_i = min(1, tau * min(i, cap)**power)``.

    >>> Priority(tau=0.01).q([1, 50, 100, 200])
    array([0.01, 0.5 , 1.  , 1.  ])
    """

    name: ClassVar[str] = "priority"

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        return np.minimum(self._x(frequencies, 1 - self._x_error if toward_privacy else 1.0), 1.0)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        x = self._x(frequencies)
        absent = np.asarray(np.clip(1.0 - x, 0.0, 1.0))
        if toward_privacy:
            absent = np.minimum(absent * (1 + 2**5 * self._x_error + 4 * _ULP), 1.0)
        close = (
            np.abs(1.0 - x) < 2.0**-5
        )  # where 1 - x cancels: exactly, once for each distinct frequency
        if close.any():
            i, back = np.unique(as_frequencies(frequencies)[close], return_inverse=True)
            above = 1 + 4 * _ULP if toward_privacy else 1.0
            absent[close] = (self._absent(i) * above)[back]
        return absent

    def _absent(self, frequencies: Ints) -> Floats:
        """1 - q, computed in integers."""
        if self.power == 1 and self.tau.denominator < 2**60:  # then so is the weight's share of it
            w = frequencies if self.cap is None else np.minimum(frequencies, self.cap)
            left = self.tau.denominator - self.tau.numerator * w
            return np.maximum(left, 0) / self.tau.denominator
        one = 1 << 128
        absent = []
        for i in frequencies.tolist():
            q_below, _ = self.bounds(i, 128)
            absent.append((one - q_below) / one)
        return np.array(absent)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        one = 1 << bits
        if self.power.denominator == 1:
            counted = frequency if self.cap is None else min(frequency, self.cap)
            x = self.tau * counted ** int(self.power)
            return min(one, scaled_floor(x, bits)), min(one, -scaled_floor(-x, bits))
        real = min(self._x_real(frequency, bits), Decimal(2))
        scaled = int(decimal_context(bits).multiply(real, Decimal(one)))
        return min(one, max(0, scaled - 1)), min(one, scaled + 2)


def scaled_floor(value: Fraction, bits: int) -> int:
    """Return the integer below the value, in units of 2**-bits."""
    return (value.numerator << bits) // value.denominator


def decimal_of(value: Fraction, context: Context) -> Decimal:
    """Return a rational number in a context."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache
def decimal_context(bits: int) -> Context:
    """Return a decimal context in which a few operations stay good to well beyond `bits`.

    The decimal module rounds exp and ln correctly; the exponent of a weight, at most 64 * ln(2**63), loses at most 4 of
    the 30 spare digits.
    """
    return Context(prec=bits * 302 // 1000 + 30, Emax=MAX_EMAX, Emin=MIN_EMIN)

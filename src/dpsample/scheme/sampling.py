"""Sampling schemes: the probability q_i with which a key of frequency i enters the sample.

A scheme is a frozen value. It returns q as floats for whole arrays of frequencies, and integers of any precision that
enclose the real q_i of one frequency; proofs rest on these. The paper introduces q_i and threshold sampling, by ppswor
and by priority, in section 2.1 and Algorithm 1.
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
from dpsample.privacy import Privacy

if TYPE_CHECKING:
    from dpsample.scheme.law import Law

# floats of q then err by less than 2**-40, a thousandth of the distance within which the sanitizer decides in integers
MAX_POWER = 64
# all tokens around it are floats, and fit an int64 in units of 1/grid
MOST_AT_LEAST = 1 << 50
MAX_SEED = 200  # characters
# the bounds of q are at most this many units of 2**-bits apart: G of docs/theory.md, section 5, which certificates use
MAX_WIDTH = 16
_ULP = 2.0**-53
# relative, of numpy's exp, expm1 and power: twice the 4 units in the last place that numpy documents
_LIBRARY_ERROR = 8 * _ULP
# where 1 - x is smaller, it is computed in integers; elsewhere it errs by 2**5 times the relative error of x
_CANCELS_BELOW = 2.0**-5
# precision of the integers from which 1 - q is then computed: its error of 2**-128 is far below what a float shows
_COMPLEMENT_BITS = 128
_SMALLEST_FLOAT = 5e-324

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_COUNT = "count the elements of each key"
_CONVERT = f"{_COUNT}, or convert whole numbers with .astype('int64')"


def as_frequencies(values: ArrayLike) -> Ints:
    """Return integers from 0 to 2**63 - 1, of any integer type and shape, as an int64 array; refuse other values.

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
        raise _not_frequencies(f"values of type {array.dtype}", _CONVERT)
    if array.dtype.kind == "i" and array.min() < 0:
        raise _negative()
    if array.dtype == np.uint64 and array.max() > MAX_FREQUENCY:
        raise _too_large()
    return array.astype(np.int64, copy=False)


def _long_integers(array: NDArray[Any]) -> Ints:
    """Return the integers of an array of objects, in which numpy keeps lists with a number that no int64 holds."""
    for value in array.flat:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _not_frequencies("values of type object", _CONVERT)
    if any(value > MAX_FREQUENCY for value in array.flat):
        raise _too_large()
    if any(value < 0 for value in array.flat):
        raise _negative()
    return array.astype(np.int64)


def _not_frequencies(shown: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"frequencies must be integers from 0 to 2**63 - 1, not {shown}", remedy)


def _negative() -> InvalidValue:
    return _not_frequencies("a negative one", "check how the frequencies were counted")


def _too_large() -> InvalidValue:
    return _not_frequencies("one above 2**63 - 1", "check how the frequencies were summed")


def _ragged() -> InvalidValue:
    return _not_frequencies("lists of different lengths", "give one list of frequencies")


class Sampling(ABC):
    """A non-decreasing sequence q_1 <= q_2 <= ... of sampling probabilities; q_0 = 0.

    A new scheme implements `q`, `complement`, `bounds` and `to_json`.
    """

    name: ClassVar[str]
    # the public text that a coordinated sample hashes keys with; None if secret coins sample keys
    seed: str | None = None

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
        """Whether `bounds` surely do not decrease. A user's function is known only where it was called."""
        return True

    @property
    def sanitized_as(self) -> "Sampling":
        """The scheme by which keys are sanitized: this one, or `KeepAll` for a coordinated sample."""
        return self if self.seed is None else KeepAll()

    @abstractmethod
    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:
        """Return q for each frequency; with `toward_privacy`, surely not above the real q."""

    @abstractmethod
    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:
        """Return 1 - q, accurate also near q = 1; with `toward_privacy`, surely not below the real 1 - q."""

    @abstractmethod
    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:
        """Return integers ``low <= 2**bits * q <= high``, at most `MAX_WIDTH` apart; both do not decrease with i."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""

    def reporting(self, privacy: Privacy) -> "Law | None":
        """Return the reporting probabilities and token laws of a scheme that has its own; None if q determines them."""
        return None

    @staticmethod
    def from_json(form: dict[str, Any]) -> "Sampling":
        """Read any scheme's JSON form back.

        >>> Sampling.from_json(Ppswor(tau=1e-4).to_json())
        Ppswor(tau='0.0001')
        """
        name = form.get("scheme") if isinstance(form, dict) else None
        if name == "registered":
            from dpsample.scheme.registered import registered

            return registered(form)
        schemes = _schemes_by_name()
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


def _schemes_by_name() -> "dict[str, type[Sampling]]":
    """Return the schemes that can be read from their fields; their modules import this one."""
    from dpsample.scheme.custom import CustomSampling
    from dpsample.scheme.holding import SampleAndHold
    from dpsample.scheme.soft_cap import SoftCap

    schemes = (KeepAll, Ppswor, Priority, SoftCap, CustomSampling, SampleAndHold)
    return {scheme.name: scheme for scheme in schemes}


@dataclass(frozen=True)
class KeepAll(Sampling):
    """No sampling: every key is kept, q = 1. The release is a private histogram.

    With `at_least`, keys of a lower frequency are left out, q = 0, and never released.

    >>> KeepAll().q([0, 1, 5]), KeepAll(at_least=5).q([0, 1, 5])
    (array([0., 1., 1.]), array([0., 0., 1.]))
    """

    at_least: int = 1
    name: ClassVar[str] = "keep all"

    def __post_init__(self) -> None:
        n = self.at_least
        is_integer = isinstance(n, int) and not isinstance(n, bool)
        if not is_integer or not 1 <= n <= MOST_AT_LEAST:
            raise InvalidValue(
                f"`at_least` must be a whole number from 1 to 2**50, not {n!r}",
                "give the least frequency of the keys",
            )

    @property
    def least(self) -> int:  # noqa: D102
        return self.at_least

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        is_kept = as_frequencies(frequencies) >= self.at_least
        return is_kept.astype(np.float64)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        is_left_out = as_frequencies(frequencies) < self.at_least
        return is_left_out.astype(np.float64)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        q = 1 << bits if frequency >= self.at_least else 0
        return q, q

    def __repr__(self) -> str:
        shown = f"at_least={self.at_least}" if self.at_least > 1 else ""
        return f"KeepAll({shown})"

    def to_json(self) -> dict[str, Any]:  # noqa: D102
        form: dict[str, Any] = {"scheme": self.name}
        if self.at_least > 1:
            form["at_least"] = self.at_least
        return form


@dataclass(frozen=True, init=False, repr=False)
class _ByWeight(Sampling):
    """Threshold sampling, Algorithm 1 of the paper: q as a function of ``x = tau * min(frequency, cap) ** power``.

    With a `seed`, which is public text, a hash of the key takes the place of secret coins: two samples with one seed
    agree on every key whose frequency is the same in both (`coordinated`).

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
        exact_tau = exact(tau, "tau")
        exact_power = exact(power, "power")
        if exact_tau <= 0:
            raise InvalidValue(
                f"tau must be above 0, not {text(exact_tau)}",
                "choose about (wanted sample size) / (sum of weights), such as 1e-4",
            )
        _check_power(exact_power)
        _check_cap(cap)
        _check_seed(seed)
        object.__setattr__(self, "tau", exact_tau)
        object.__setattr__(self, "power", exact_power)
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
        if self.cap is not None:
            form["cap"] = self.cap
        if self.seed is not None:
            form["seed"] = self.seed
        return form

    def _x(self, frequencies: ArrayLike, factor: float = 1.0) -> Floats:
        """Return ``factor * x`` as floats, and 0 for frequency 0; the relative error is below `_x_error`."""
        i = as_frequencies(frequencies)
        capped = i if self.cap is None else np.minimum(i, self.cap)
        scale = factor * float(self.tau)
        if self.power == 1:
            return np.multiply(capped, scale, dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            weight = np.power(capped, float(self.power), dtype=np.float64)
            x: Floats = weight * scale
        return np.where(i == 0, 0.0, x)

    @property
    def _x_error(self) -> float:
        """A bound of the relative error of `_x`."""
        power = float(self.power)
        units = 6 + 2 * power  # conversions and products
        if Fraction(power) != self.power:
            # rounding the power moves x by ln(2**63) = 44 times the power in units; this is twice as much
            units += 90 * power
        return units * _ULP + _LIBRARY_ERROR

    def _x_real(self, frequency: int, bits: int) -> Decimal:
        """Return the real x, with an error far below 2**-bits as long as x < bits."""
        capped = frequency if self.cap is None else min(frequency, self.cap)
        context = decimal_context(bits)
        if self.power.denominator == 1:
            weight = Decimal(capped ** int(self.power))
        else:
            power = decimal_of(self.power, context)
            log_weight = context.multiply(power, context.ln(Decimal(capped)))
            weight = context.exp(log_weight)
        return context.multiply(decimal_of(self.tau, context), weight)


def _check_power(power: Fraction) -> None:
    if power < 0:
        raise InvalidValue(
            f"power must be at least 0, not {text(power)}: a negative one favours rare keys",
            "choose 0 to sample keys uniformly, 1 by frequency, 2 by its square",
        )
    if power > MAX_POWER:
        raise InvalidValue(
            f"power must be at most {MAX_POWER}, not {text(power)}: floats are too far from certified integers"
        )


def _check_cap(cap: Any) -> None:
    if cap is None:
        return
    is_integer = isinstance(cap, int) and not isinstance(cap, bool)
    if not is_integer or not 1 <= cap <= MAX_FREQUENCY:
        raise InvalidValue(
            f"cap must be an integer from 1 to 2**63 - 1, or None, not {cap!r}", "leave it out"
        )


def _check_seed(seed: Any) -> None:
    if seed is None:
        return
    if not isinstance(seed, str) or not 1 <= len(seed) <= MAX_SEED or not seed.isprintable():
        raise InvalidValue(
            f"seed must be public text of up to {MAX_SEED} characters, which the release states",
            'give one, such as `seed="2026 public"`, or leave it out for secret coins',
        )


class Ppswor(_ByWeight):
    """Threshold ppswor: ``q_i = 1 - exp(-tau * min(i, cap)**power)``.

    With power 1, the exponential form lets raw elements be sampled, each on its own: a key is in the sample as soon as
    one of its elements is picked.

    >>> Ppswor(tau=0.01).q([1, 100])
    array([0.00995017, 0.63212056])
    """

    name: ClassVar[str] = "ppswor"

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        if not toward_privacy:
            return -np.expm1(self._x(frequencies, -1.0))
        least_x = 1 - self._x_error
        q = np.expm1(self._x(frequencies, -least_x))
        q *= -(1 - 2 * _LIBRARY_ERROR)
        return q

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        with np.errstate(under="ignore"):
            if not toward_privacy:
                return np.exp(self._x(frequencies, -1.0))
            least_x = 1 - self._x_error
            above = np.exp(self._x(frequencies, -least_x)) * (1 + 2 * _LIBRARY_ERROR)
        return np.clip(above, _SMALLEST_FLOAT, 1.0)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        return bounds_of_exponential(self._x_real(frequency, bits), bits)


def bounds_of_exponential(x: Decimal, bits: int) -> tuple[int, int]:
    """Return integers below and above ``2**bits (1 - exp(-x))``; x is good to far more than `bits`."""
    one = 1 << bits
    if x > bits:  # exp(-bits) < 2**-bits
        return one - 1, one
    context = decimal_context(bits)
    complement = context.exp(context.minus(x))
    absent = int(context.multiply(complement, Decimal(one)))  # within one unit
    return max(0, one - absent - 2), min(one, one - absent + 1)


class Priority(_ByWeight):
    """Threshold priority (Poisson PPS) sampling: ``q_i = min(1, tau * min(i, cap)**power)``.

    >>> Priority(tau=0.01).q([1, 50, 100, 200])
    array([0.01, 0.5 , 1.  , 1.  ])
    """

    name: ClassVar[str] = "priority"

    def q(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        factor = 1 - self._x_error if toward_privacy else 1.0
        return np.minimum(self._x(frequencies, factor), 1.0)

    def complement(self, frequencies: ArrayLike, *, toward_privacy: bool = False) -> Floats:  # noqa: D102
        left = 1.0 - self._x(frequencies)
        absent = np.asarray(np.clip(left, 0.0, 1.0))
        if toward_privacy:
            relative_error = self._x_error / _CANCELS_BELOW + 4 * _ULP
            absent = np.minimum(absent * (1 + relative_error), 1.0)
        cancels = np.abs(left) < _CANCELS_BELOW
        if cancels.any():
            distinct, back = np.unique(as_frequencies(frequencies)[cancels], return_inverse=True)
            above = 1 + 4 * _ULP if toward_privacy else 1.0
            exact_absent = self._absent(distinct) * above
            absent[cancels] = exact_absent[back]
        return absent

    def _absent(self, frequencies: Ints) -> Floats:
        """Return 1 - q, computed in integers."""
        # 1 - q = (denominator - numerator w) / denominator; near q = 1 both products fit an int64
        if self.power == 1 and self.tau.denominator < 2**60:
            capped = frequencies if self.cap is None else np.minimum(frequencies, self.cap)
            left = self.tau.denominator - self.tau.numerator * capped
            return np.maximum(left, 0) / self.tau.denominator
        one = 1 << _COMPLEMENT_BITS
        absent = []
        for i in frequencies.tolist():
            q_below, _ = self.bounds(i, _COMPLEMENT_BITS)
            absent.append((one - q_below) / one)
        return np.array(absent)

    def bounds(self, frequency: int, bits: int) -> tuple[int, int]:  # noqa: D102
        if frequency == 0:
            return 0, 0
        one = 1 << bits
        if self.power.denominator == 1:
            capped = frequency if self.cap is None else min(frequency, self.cap)
            x = self.tau * capped ** int(self.power)
            return min(one, scaled_floor(x, bits)), min(one, scaled_ceiling(x, bits))
        real = min(self._x_real(frequency, bits), Decimal(2))
        scaled = int(decimal_context(bits).multiply(real, Decimal(one)))
        return min(one, max(0, scaled - 1)), min(one, scaled + 2)


def scaled_floor(value: Fraction, bits: int) -> int:
    """Return the largest integer that is at most ``2**bits value``."""
    return (value.numerator << bits) // value.denominator


def scaled_ceiling(value: Fraction, bits: int) -> int:
    """Return the smallest integer that is at least ``2**bits value``."""
    return -scaled_floor(-value, bits)


def decimal_of(value: Fraction, context: Context) -> Decimal:
    """Return a rational number, rounded to the digits of a context."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache
def decimal_context(bits: int) -> Context:
    """Return a decimal context in which a few operations stay good to well beyond `bits`.

    The decimal module rounds exp and ln correctly; the exponent of a weight, at most 64 * ln(2**63), loses at most 4 of
    the 30 spare digits.
    """
    digits = bits * 302 // 1000 + 30  # log10(2) is below 0.302
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)

"""Private totals, and samples of a chosen size: a share of epsilon pays for them.

A total is a sum plus discrete Laplace noise. The total of elements is published as it is. The total of weights gives
tau: the weight of a key is ``min(frequency, cap) ** power``, and a key is sampled with a probability of at most tau
times its weight, so ``tau = size / total`` gives a sample of at most `size` keys on average. Tau is public, so the
total must be private: each weight is rounded down to a unit, and noise is added to the sum.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dpsample.definitions import LEAST_EPSILON
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.exact import MAX_FREQUENCY, Number, check_level, exact, figures_below, text
from dpsample.scheme.sampling import Ints, Ppswor, Priority, Sampling

# The default share of epsilon for a total.
SHARE = Fraction(1, 20)
# Weights that are not integers are counted in units of 1 / 65,536, so that rounding them down matters little.
_UNIT = 1 << 16
# The steps of noise: integers, or these units.
_UNITS = (Fraction(1), Fraction(1, _UNIT))
# Figures of tau, which is rounded down so that files state a short number.
_FIGURES = 6
# The largest total, and the largest scale of its noise. Nothing has a larger number, and floats could not show it.
_LARGEST = 10**100
# The most by which one element may change a weight: sums and noise stay far below `_LARGEST`.
_MOST_CHANGED = 10**80
_SCHEMES = ("ppswor", "priority")
# Floats of weights are taken to be wrong by up to 2**-44 of the weight, far more than they are. From 2**40 units on,
# exact arithmetic decides.
_FLOAT_ERROR = 2.0**-44
_LARGEST_FLOAT = 2.0**40
_REREAD = "get the release again from where it was written"


@dataclass(frozen=True)
class Total:
    """A private total: a true sum plus discrete Laplace noise, in steps of `unit`.

    One element or user changes the sum by at most `sensitivity`. The noise costs `epsilon`.

    >>> total = Total(1_000_000, epsilon=Fraction(1, 20), sensitivity=Fraction(1))
    >>> total.scale, total.interval(0.95)
    (Fraction(20, 1), (999940, 1000060))
    """

    value: int | Fraction
    epsilon: Fraction
    sensitivity: Fraction
    unit: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.epsilon < LEAST_EPSILON or self.sensitivity <= 0 or self.unit not in _UNITS:
            raise InvalidValue(
                f"a total must state an epsilon of at least {text(LEAST_EPSILON)}, a positive sensitivity, and noise "
                f"in steps of 1 or 1/{_UNIT}",
                _REREAD,
            )
        value = Fraction(self.value)
        is_whole = (value / self.unit).denominator == 1
        if not is_whole or self.scale > _LARGEST or abs(value) > _LARGEST:
            raise InvalidValue(
                "a total must be a whole number of steps of its noise, and both at most 1e100",
                _REREAD,
            )

    @property
    def scale(self) -> Fraction:
        """The scale of the noise x, which has a probability proportional to exp(-abs(x) / scale)."""
        return self.sensitivity / self.epsilon

    def interval(self, level: float = 0.95) -> tuple[int | Fraction, int | Fraction]:
        """Return bounds that enclose the true sum with at least this probability; no bound is negative.

        The noise x has ``Pr[abs(x) > m unit] = 2 a**(m + 1) / (1 + a)`` with ``a = exp(-unit / scale)``. The interval
        extends by the least m for which that is at most 1 - level.
        """
        step = self._step
        miss = 1 - check_level(level)
        tail = miss * (1 + math.exp(-step)) / 2
        exponent = math.ceil(-math.log(tail) / step * (1 + 1e-12))  # 1e-12 makes up for rounding
        m = max(0, exponent - 1) * self.unit
        value = Fraction(self.value)
        low = max(value - m, Fraction(0))
        high = max(value + m, Fraction(0))
        if self.unit == 1:
            return int(low), int(high)
        return low, high

    @property
    def _step(self) -> float:
        """The unit divided by the scale of the noise: a step of noise is less likely by the factor exp(-step)."""
        return float(self.unit / self.scale)

    def estimate(self, level: float = 0.95) -> Estimate:
        """Return the total in the form of an answer: a number with its standard error, and the bounds of `interval`.

        The noise has the standard deviation ``unit sqrt(2 a) / (1 - a)``, with ``a = exp(-unit / scale)``.

        >>> Total(1_000_000, epsilon=Fraction(1, 20), sensitivity=Fraction(1)).estimate()
        1,000,000 (95 %: 999,940 to 1,000,060)
        """
        step = self._step
        root = math.sqrt(2 * math.exp(-step))
        one_minus_a = -math.expm1(-step)
        error = float(self.unit) * root / one_minus_a
        low, high = self.interval(level)
        return Estimate(float(self.value), error, float(low), float(high), level)

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "value": text(Fraction(self.value)),
            "epsilon": text(self.epsilon),
            "sensitivity": text(self.sensitivity),
            "unit": text(self.unit),
            "scale": text(self.scale),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Total":
        """Read the JSON form back."""
        value: int | Fraction = exact(form["value"], "value")
        epsilon = exact(form["epsilon"], "epsilon")
        sensitivity = exact(form["sensitivity"], "sensitivity")
        unit = exact(form["unit"], "unit")
        if unit == 1 and value.denominator == 1:
            value = int(value)
        return cls(value, epsilon, sensitivity, unit)


@dataclass(frozen=True)
class RealizedSize:
    """The sample size that was asked for, and the private total of weights from which tau follows."""

    wanted: int
    weights: Total

    def __post_init__(self) -> None:
        SampleSize(self.wanted)  # checks it

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {"wanted": self.wanted, "weights": self.weights.to_json()}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "RealizedSize":
        """Read the JSON form back."""
        return cls(form["wanted"], Total.from_json(form["weights"]))


def check_share(value: bool | Number, name: str) -> Fraction:
    """Return a share of epsilon, after checking its range: True is the default share, and False is none.

    >>> check_share(True, "total"), check_share("0.1", "total"), check_share(False, "total")
    (Fraction(1, 20), Fraction(1, 10), Fraction(0, 1))
    """
    if isinstance(value, bool):
        return SHARE if value else Fraction(0)
    share = exact(value, name)
    if not 0 < share < 1:
        raise InvalidValue(
            f"the share of epsilon for {name} must be above 0 and below 1, not {text(share)}",
            f"choose one such as {text(SHARE)}",
        )
    return share


@dataclass(frozen=True, init=False)
class SampleSize:
    """A request for a sample of about `size` keys, instead of a tau.

    scheme      "ppswor" or "priority"
    power, cap  the weight of a key is ``min(frequency, cap) ** power``
    share       the share of epsilon that pays for the total of weights, from which tau follows

    >>> SampleSize(100_000).sampling(Total(20_000_000, Fraction(1, 20), Fraction(1)))
    Ppswor(tau='0.005')
    """

    size: int
    scheme: str
    power: Fraction
    cap: int | None
    share: Fraction

    def __init__(
        self,
        size: int,
        scheme: str = "ppswor",
        power: Number = 1,
        cap: int | None = None,
        share: Number = SHARE,
    ) -> None:
        weight = Ppswor(1, power, cap)  # checks power and cap
        object.__setattr__(self, "size", _checked_size(size))
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "power", weight.power)
        object.__setattr__(self, "cap", weight.cap)
        object.__setattr__(self, "share", check_share(share, "the sample size"))
        self._check_scheme()

    def _check_scheme(self) -> None:
        """Refuse schemes without a tau, and weights that one element changes by too much."""
        if self.scheme not in _SCHEMES:
            raise InvalidValue(
                f"the scheme of a sample size must be ppswor or priority, not {self.scheme!r}",
                "choose one of them",
            )
        if self.power > 1 and self.cap is None:
            raise InvalidValue(
                f"with power {text(self.power)} and no cap, one element may change a weight by any amount, so a sample "
                "size cannot be chosen",
                "set a cap, such as `cap=1000`, or choose `tau` yourself",
            )
        if self.sensitivity > _MOST_CHANGED:
            raise InvalidValue(
                f"with power {text(self.power)} and cap {self.cap}, one element may change a weight by more than 1e80, "
                "so a sample size cannot be chosen",
                "choose a smaller cap or power, or choose `tau` yourself",
            )

    @property
    def integral(self) -> bool:
        """Whether weights are integers."""
        return self.power in (0, 1)

    @property
    def by_frequency(self) -> bool:
        """Whether the weight is the frequency, so that the weights' total is the number of elements."""
        return self.power == 1 and self.cap is None

    @property
    def unit(self) -> Fraction:
        """The unit to which weights are rounded down."""
        if self.integral:
            return Fraction(1)
        return Fraction(1, _UNIT)

    @cached_property
    def sensitivity(self) -> Fraction:
        """The largest change of a rounded weight if the frequency changes by one.

        For powers up to 1 a weight grows by at most 1; for larger ones it grows most at the cap. Rounding moves each of
        two weights by little more than a unit at most, so it moves their difference, a number of units, by at most two.
        """
        if self.integral:
            return Fraction(1)
        if self.power < 1:
            return Fraction(_UNIT + 2, _UNIT)
        assert self.cap is not None
        largest_growth = self._rounded(self.cap) - self._rounded(self.cap - 1)
        return Fraction(largest_growth + 4, _UNIT)

    def total(self, frequencies: Ints, keys: Ints | None = None) -> int:
        """Return the sum of the weights, each rounded down, in units; a function of the frequencies alone.

        `keys` are the numbers of keys with these frequencies, which are then distinct.
        """
        distinct = frequencies
        if keys is None:
            positive = frequencies[frequencies > 0]
            distinct, keys = np.unique(positive, return_counts=True)
        if self.cap is not None:
            distinct = np.minimum(distinct, self.cap)
        if self.power == 0:
            return int(keys.sum())
        units = distinct.tolist() if self.power == 1 else self._units(distinct)
        # Python's integers, which do not overflow
        return sum(own * times for own, times in zip(units, keys.tolist(), strict=True))

    def _units(self, frequencies: Ints) -> list[int]:
        """Return the weights of frequencies in units, rounded down, for a power other than 0 and 1.

        Floats decide the clear cases: a number that is not close to an integer has the right integer part.
        """
        with np.errstate(over="ignore"):
            powers = frequencies.astype(np.float64) ** float(self.power)
            near = np.minimum(powers * _UNIT, _LARGEST_FLOAT)
        error = near * _FLOAT_ERROR
        same_integer = np.floor(near - error) == np.floor(near + error)
        is_clear = same_integer & (near < _LARGEST_FLOAT)
        units = [int(number) for number in np.floor(near).tolist()]
        for at in np.flatnonzero(~is_clear).tolist():
            units[at] = self._rounded(int(frequencies[at]))
        return units

    def sampling(self, weights: Total) -> Sampling:
        """Return the scheme whose tau follows from a private total of the weights."""
        total = max(Fraction(weights.value), weights.unit)
        return self.with_tau(figures_below(self.size / total, _FIGURES))

    def with_tau(self, tau: Fraction) -> Sampling:
        """Return the scheme with this tau."""
        scheme = Ppswor if self.scheme == "ppswor" else Priority
        return scheme(tau, self.power, self.cap)

    def _rounded(self, frequency: int) -> int:
        """Return the weight of one frequency in units, rounded down, by exact or by long decimal arithmetic."""
        if self.power.denominator == 1:
            return int(frequency ** int(self.power)) * _UNIT
        if frequency == 0:
            return 0
        # 60 digits beyond those of the largest weight
        digits_of_frequency = len(str(self.cap or MAX_FREQUENCY))
        context = Context(prec=60 + digits_of_frequency * (int(self.power) + 1))
        power = context.divide(Decimal(self.power.numerator), Decimal(self.power.denominator))
        log_weight = context.multiply(power, context.ln(Decimal(frequency)))
        weight = context.exp(log_weight)
        return int(context.multiply(weight, Decimal(_UNIT)))


def _checked_size(size: int) -> int:
    """Return a sample size as an int, after checking that it is a whole number from 1."""
    is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not is_whole or not 1 <= size < 2**63:
        raise InvalidValue(
            f"a sample size must be a whole number from 1, not {size!r}",
            "choose one such as 100_000",
        )
    return int(size)

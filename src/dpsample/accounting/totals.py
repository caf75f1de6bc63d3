"""Private totals, and samples of a chosen size: what a share of epsilon buys.

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

SHARE = Fraction(1, 20)  # default share of epsilon for a total
_UNIT = 1 << 16  # weights that are not integers are counted in steps of 1 / _UNIT
_FIGURES = 6  # of tau, rounded down
_LARGEST = (
    10**100
)  # of a total and of its noise: more is no number of anything, and floats could not show it
_MOST_CHANGED = 10**80  # by which one element changes a weight
_UNITS = (Fraction(1), Fraction(1, _UNIT))  # steps of noise


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
        if not (self.epsilon >= LEAST_EPSILON and self.sensitivity > 0 and self.unit in _UNITS):
            raise InvalidValue(
                f"a total has an epsilon of at least {text(LEAST_EPSILON)}, a positive sensitivity, and noise in steps "
                f"of 1 or 1/{_UNIT}",
                "others",
                "get the release again from where it was written",
            )
        value = Fraction(self.value)
        if self.scale > _LARGEST or abs(value) > _LARGEST or (value / self.unit).denominator != 1:
            raise InvalidValue(
                "a total is a number of steps of its noise, neither larger than 1e100",
                "another",
                "get the release again from where it was written",
            )

    @property
    def scale(self) -> Fraction:
        """The scale of the noise x, which has a probability proportional to exp(-abs(x) / scale)."""
        return self.sensitivity / self.epsilon

    def interval(self, level: float = 0.95) -> tuple[int | Fraction, int | Fraction]:
        """Return bounds that enclose the true sum with at least this probability; totals are not negative.

        ``Pr[abs(x) > m unit] = 2 a**(m + 1) / (1 + a)`` with ``a = exp(-unit / scale)``.
        """
        step = float(self.unit / self.scale)
        tail = math.log((1 - check_level(level)) * (1 + math.exp(-step)) / 2)
        m = max(0, math.ceil(-tail / step * (1 + 1e-12)) - 1) * self.unit
        low, high = (max(Fraction(self.value) + sign * m, Fraction(0)) for sign in (-1, 1))
        return (int(low), int(high)) if self.unit == 1 else (low, high)

    def estimate(self, level: float = 0.95) -> Estimate:
        """Return the total as questions are answered: a number with its error, and the bounds of `interval`.

        The noise has the standard deviation ``unit sqrt(2 a) / (1 - a)``, with a as above.

        >>> Total(1_000_000, epsilon=Fraction(1, 20), sensitivity=Fraction(1)).estimate()
        1,000,000 (95 %: 999,940 to 1,000,060)
        """
        step = float(self.unit / self.scale)
        error = float(self.unit) * math.sqrt(2 * math.exp(-step)) / -math.expm1(-step)
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
        value, epsilon, sensitivity, unit = (
            exact(form[name], name) for name in ("value", "epsilon", "sensitivity", "unit")
        )
        whole = unit == 1 and value.denominator == 1
        return cls(int(value) if whole else value, epsilon, sensitivity, unit)


@dataclass(frozen=True)
class RealizedSize:
    """The sample size of the request, and the private total of weights that gave tau."""

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
    """Read a share of epsilon: True is the default, False none.

    >>> check_share(True, "total"), check_share("0.1", "total"), check_share(False, "total")
    (Fraction(1, 20), Fraction(1, 10), Fraction(0, 1))
    """
    if isinstance(value, bool):
        return SHARE if value else Fraction(0)
    share = exact(value, name)
    if not 0 < share < 1:
        raise InvalidValue(
            f"the share of epsilon for {name} is above 0 and below 1",
            text(share),
            f"choose one such as {text(SHARE)}",
        )
    return share


@dataclass(frozen=True, init=False)
class SampleSize:
    """A sample of about `size` keys, instead of a tau; `share` of epsilon buys the total that gives tau.

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
        if (
            isinstance(size, bool)
            or not isinstance(size, int | np.integer)
            or not 1 <= size < 2**63
        ):
            raise InvalidValue(
                "a sample size is a whole number from 1", repr(size), "choose one such as 100_000"
            )
        if scheme not in ("ppswor", "priority"):
            raise InvalidValue(
                "a sample of a chosen size is drawn by ppswor or priority",
                repr(scheme),
                "choose one of them",
            )
        weight = Ppswor(1, power, cap)  # checks power and cap
        values = {
            "size": int(size),
            "scheme": scheme,
            "power": weight.power,
            "cap": weight.cap,
            "share": check_share(share, "the sample size"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.power > 1 and self.cap is None:
            raise InvalidValue(
                "a sample size needs weights that one element changes by a bounded amount",
                f"power {text(self.power)} without a cap",
                "set a cap, such as `cap=1000`, or choose `tau` yourself",
            )
        if self.sensitivity > _MOST_CHANGED:
            raise InvalidValue(
                "a sample size needs weights that one element changes by less than 1e80",
                f"power {text(self.power)} with cap {self.cap}",
                "choose a smaller cap or power, or choose tau yourself",
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
        """What weights are rounded down to."""
        return Fraction(1) if self.integral else Fraction(1, _UNIT)

    @cached_property
    def sensitivity(self) -> Fraction:
        """By how much a rounded weight can change if the frequency changes by one.

        For powers up to 1 a weight grows by at most 1; for larger ones it grows most at the cap. Rounding moves each of
        two weights by little more than a unit at most, so it moves their difference, a number of units, by at most two.
        """
        if self.integral:
            return Fraction(1)
        if self.power < 1:
            return Fraction(_UNIT + 2, _UNIT)
        assert self.cap is not None
        return Fraction(self._rounded(self.cap) - self._rounded(self.cap - 1) + 4, _UNIT)

    def total(self, frequencies: Ints, keys: Ints | None = None) -> int:
        """Return the sum of the weights, each rounded down, in units; a function of the frequencies alone.

        `keys` are the numbers of keys with these frequencies, which are then distinct.
        """
        distinct = frequencies
        if keys is None:
            distinct, keys = np.unique(frequencies[frequencies > 0], return_counts=True)
        if self.cap is not None:
            distinct = np.minimum(distinct, self.cap)
        if self.power == 0:
            return int(keys.sum())
        if self.power == 1:
            return sum(i * n for i, n in zip(distinct.tolist(), keys.tolist(), strict=True))
        # floats decide the clear cases: a number that is not close to an integer has the right integer part
        with np.errstate(over="ignore"):
            near = np.minimum(distinct.astype(np.float64) ** float(self.power) * _UNIT, 2.0**40)
        error = near * 2.0**-44
        clear = (np.floor(near - error) == np.floor(near + error)) & (near < 2.0**40)
        units = np.floor(near).tolist()
        for at in np.flatnonzero(~clear).tolist():
            units[at] = self._rounded(int(distinct[at]))
        return sum(int(u) * n for u, n in zip(units, keys.tolist(), strict=True))

    def sampling(self, weights: Total) -> Sampling:
        """Return the scheme whose tau follows from a private total of the weights."""
        return self.with_tau(
            figures_below(
                Fraction(self.size) / max(Fraction(weights.value), weights.unit), _FIGURES
            )
        )

    def with_tau(self, tau: Fraction) -> Sampling:
        """Return the scheme with this tau."""
        return (Ppswor if self.scheme == "ppswor" else Priority)(tau, self.power, self.cap)

    def _rounded(self, frequency: int) -> int:
        """The weight of one frequency in units, rounded down."""
        if self.power.denominator == 1:
            return int(frequency ** int(self.power)) * _UNIT
        if frequency == 0:
            return 0
        context = Context(prec=60 + len(str(self.cap or MAX_FREQUENCY)) * (int(self.power) + 1))
        power = context.divide(Decimal(self.power.numerator), Decimal(self.power.denominator))
        weight = context.exp(context.multiply(power, context.ln(Decimal(frequency))))
        return int(context.multiply(weight, Decimal(_UNIT)))

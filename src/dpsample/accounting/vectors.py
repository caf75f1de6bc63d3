"""Gaussian noise on vectors: counts, or any weights, that one user changes by a vector of bounded length.

Weights are rounded to whole units, so that a user changes a vector of integers by integers whose squares add up to at
most length**2. Each coordinate gets noise from one table: a Gaussian law, rounded, in integers over 2**128, cut off.
Coordinates that a user does not change cost nothing, and at most length**2 are changed.

**Claim.** All coordinates together have the privacy of Gaussian noise, mu**2 = length**2 / variance, outside of events
of probability length**2 d, with

    d = 1 - (1 - r) / (1 + t / o)

where every integer is at least (1 - r) times the probability g of its cell, t is the probability of two tails beyond
what a coordinate may change, and o is the overlap of g and its largest shift, sum of min(g(z), g(z - s)). The proof is
in docs/theory.md, section 9.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any

from dpsample.accounting.gaussian import gaussian_law, gaussian_noise, gaussian_tail
from dpsample.balls import dyadic, figures_above, precision
from dpsample.errors import InvalidValue, PrivacyViolation
from dpsample.exact import exact, text
from dpsample.lazy import flint
from dpsample.scheme.noise import BITS, MOST_CELLS, KeyNoise

if TYPE_CHECKING:
    from flint import arb

# Bits of proofs: those with which tables are made in `gaussian`, so that a law that was computed there is not computed
# again.
_PRECISION = 256
# The range of mu**2 of noise that is drawn. With more, a deviation is too short for a table; with less, a table has
# more than a million cells.
MOST_SQUARE = 25
_LEAST_SQUARE = Fraction(1, 10**12)
# By default, a standard deviation has at least this many units, so that rounding weights to units matters little.
_SPREAD = 64
# A table reaches at most this many deviations beyond `length`. A normal law has less than 1e-800 beyond.
_MOST_DEVIATIONS = 64
_REREAD = "get the release again from where it was written"


@dataclass(frozen=True)
class GaussianStage:
    """The cost of Gaussian noise on a vector: mu**2, and the delta that is set aside for drawing it in integers.

    `square` is mu**2 = (length / deviation)**2, where one user changes the vector by at most `length`.
    """

    square: Fraction
    delta: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"Gaussian noise of mu**2 = {float(self.square):.6g}"


@dataclass(frozen=True)
class VectorNoise:
    """Noise for vectors of integers that one user changes by at most `length`.

    variance  of the noise of each coordinate, in units squared
    side      the largest noise of a coordinate

    These three determine the table, which is made when it is needed. So what a file states is compared with what would
    be drawn before anything is computed from it.

    >>> noise = VectorNoise.of(Fraction("0.01"), Fraction("1e-20"))
    >>> noise.length, float(noise.variance), noise.square
    (7, 4900.0, Fraction(1, 100))
    >>> certify_vector_noise(noise).delta <= Fraction("1e-20")
    True
    """

    length: int
    variance: Fraction
    side: int

    def __post_init__(self) -> None:
        if not _can_be_made(self):
            raise InvalidValue(
                "noise of vectors must have a length, a mu**2 of up to 25, and a table that ends at most 64 deviations "
                "beyond the length",
                _REREAD,
            )

    @classmethod
    def of(cls, square: Fraction, delta: Fraction, length: int | None = None) -> "VectorNoise":
        """Return the noise of mu**2 = `square`, with at most `delta` set aside.

        Without a length, it is the smallest for which a standard deviation has 64 units.
        """
        if not 0 < square <= MOST_SQUARE:
            raise InvalidValue(
                f"mu**2 of Gaussian noise must be above 0 and at most {MOST_SQUARE}, not {text(square)}",
                "choose another share or epsilon",
            )
        if length is None:
            length = 1
            while length**2 < _SPREAD**2 * square:
                length += 1
        return _vector_noise(square, delta, length)

    @property
    def square(self) -> Fraction:
        """The privacy of the noise, as mu**2."""
        return self.length**2 / self.variance

    @cached_property
    def noise(self) -> KeyNoise:
        """The table from which the noise of each coordinate is drawn."""
        table = gaussian_noise(self.variance, self.side)
        if table is None:
            raise InvalidValue(
                "Gaussian noise must spread over several units to be drawn from a table",
                "choose finer units",
            )
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form: what determines the table, integer by integer."""
        return {"length": self.length, "variance": text(self.variance), "side": self.side}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "VectorNoise":
        """Read the JSON form back; the table is made again when it is needed."""
        return cls(form["length"], exact(form["variance"], "a variance"), form["side"])


def _can_be_made(noise: VectorNoise) -> bool:
    """Whether these are numbers that `VectorNoise.of` may choose: their table is made in seconds at most."""
    are_integers = type(noise.length) is int and type(noise.side) is int
    if not are_integers or not 1 <= noise.length < noise.side <= MOST_CELLS // 2:
        return False
    if noise.variance <= 0 or not _LEAST_SQUARE <= noise.square <= MOST_SQUARE:
        return False
    beyond = noise.side - noise.length
    return beyond**2 <= _MOST_DEVIATIONS**2 * noise.variance + 1


@lru_cache(maxsize=16)  # a table is proved when it is made, and with the release
def certify_vector_noise(noise: VectorNoise, table: KeyNoise | None = None) -> GaussianStage:
    """Return the cost of the noise, proved from the integers of its table, or of another table of as many cells.

    Raises `PrivacyViolation` if the table is not one of Gaussian noise: if an integer is too small for its cell.
    """
    drawn = noise.noise if table is None else table
    side = noise.side
    shift = noise.length
    if drawn.cells != 2 * side + 1:
        raise PrivacyViolation(
            "a table has another number of cells than its noise states; do not use it"
        )
    with precision(_PRECISION):
        law = gaussian_law(noise.variance, side)  # from the outermost cell to the middle
        units_for_probability = (n / g for n, g in zip(drawn.half, law, strict=True))
        least = reduce(flint.arb.min, units_for_probability) * dyadic(1, BITS)
        if not least > dyadic(1, 1):
            raise PrivacyViolation(
                "an integer of a table is far below the probability of its cell; do not use it"
            )
        one_minus_r = least.min(flint.arb(1))
        tails = 2 * gaussian_tail(noise.variance, side - shift + 1)
        overlap = _overlap(noise.variance, side, shift)
        lost = 1 - one_minus_r / (1 + tails / overlap)
        aside = figures_above(shift**2 * lost)
    return GaussianStage(noise.square, aside)


@lru_cache(maxsize=16)
def _vector_noise(square: Fraction, delta: Fraction, length: int) -> VectorNoise:
    """Return the noise that `planned_noise` plans, after proving that it sets aside at most `delta`."""
    planned = planned_noise(square, delta, length)
    if certify_vector_noise(planned).delta > delta:
        raise InvalidValue(
            f"integers of 128 bits are too coarse to set aside a delta of only {text(delta)}",
            "choose a larger delta",
        )
    return planned


def planned_noise(square: Fraction, delta: Fraction, length: int) -> VectorNoise:
    """Return the noise of mu**2 = `square` whose table is the shortest whose ends cost at most half of delta.

    Nothing is made or proved, so this is quick: what a file states is compared with it first.
    """
    variance = length**2 / square
    low = length
    high = 2 * length + 1  # cells on either side of the middle
    while not _is_long_enough(variance, length, high, delta):
        low = high
        high = 2 * high
        if high > MOST_CELLS // 2:
            raise InvalidValue(
                "the table of this Gaussian noise would have more than a million cells",
                "choose a larger delta, or fewer units",
            )
    while high - low > 1:
        middle = (low + high) // 2
        if _is_long_enough(variance, length, middle, delta):
            high = middle
        else:
            low = middle
    return VectorNoise(length, variance, high)


def _is_long_enough(variance: Fraction, length: int, side: int, delta: Fraction) -> bool:
    """Whether the tails beyond a table cost at most half of delta; the other half is for rounding to integers."""
    with precision(_PRECISION):
        tails = 2 * gaussian_tail(variance, side - length + 1)
        overlap = _overlap(variance, side, length)
        if not overlap > 0:
            return False
        cost = figures_above(length**2 * tails / overlap)
        return cost <= delta / 2


def _overlap(variance: Fraction, side: int, shift: int) -> "arb":
    """Return a lower bound of the sum of min(g(z), g(z - shift)) over the cells that both laws have.

    One half of the sum lies on either side of the middle between both laws. What is cut off at the end of the table is
    subtracted from both halves.
    """
    beyond_middle = gaussian_tail(variance, (shift + 2) // 2 + 1)
    beyond_end = gaussian_tail(variance, side - shift + 1)
    return 2 * (beyond_middle - beyond_end)

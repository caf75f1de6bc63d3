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

_PRECISION = (
    256  # bits, as where tables are made: a law that was computed there is not computed again
)
MOST_SQUARE = 25  # of Gaussian noise whose tables can be made
_SPREAD = 64  # least number of units in a standard deviation
# what is drawn lies between; with less, or a longer table, one would have more than a million cells
_LEAST_SQUARE = Fraction(1, 10**12)
_MOST_DEVIATIONS = 64  # of a table: a normal law has less than 1e-800 beyond


@dataclass(frozen=True)
class GaussianStage:
    """What Gaussian noise on a vector costs: mu**2, and the delta that is set aside for drawing it in integers.

    `square` is mu**2 = (length / deviation)**2, with `length` by which one user changes the vector.
    """

    square: Fraction
    delta: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"Gaussian noise of mu**2 = {float(self.square):.6g}"


@dataclass(frozen=True)
class VectorNoise:
    """Noise for vectors of integers that one user changes by at most `length`; `variance` is in units, squared.

    `side` is the largest noise. These three determine the table, which is made when it is needed: what a file states
    is compared with what would be drawn before anything is computed from it.

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
                "noise of vectors has a length, a mu**2 of up to 25, and a side of up to 64 deviations beyond that",
                "others",
                "get the release again from where it was written",
            )

    @classmethod
    def of(cls, square: Fraction, delta: Fraction, length: int | None = None) -> "VectorNoise":
        """Return the noise of mu**2 = `square`, with at most `delta` set aside; by default in units that are fine."""
        if not 0 < square <= MOST_SQUARE:
            raise InvalidValue(
                f"mu**2 of Gaussian noise is above 0 and at most {MOST_SQUARE}",
                text(square),
                "choose a smaller one",
            )
        if length is None:
            length = 1
            while length**2 < _SPREAD**2 * square:
                length += 1
        return _vector_noise(square, delta, length)

    @property
    def square(self) -> Fraction:
        """mu**2: the privacy."""
        return self.length**2 / self.variance

    @cached_property
    def noise(self) -> KeyNoise:
        """The table."""
        table = gaussian_noise(self.variance, self.side)
        if table is None:
            raise InvalidValue(
                "Gaussian noise spreads over some units", "too few", "choose finer units"
            )
        return table

    def to_json(self) -> dict[str, Any]:
        """Return what determines the table: it can be made again, integer by integer."""
        return {"length": self.length, "variance": text(self.variance), "side": self.side}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "VectorNoise":
        """Read the JSON form back; the table is made again when it is needed."""
        return cls(form["length"], exact(form["variance"], "a variance"), form["side"])


def _can_be_made(noise: VectorNoise) -> bool:
    """Whether these are numbers that `VectorNoise.of` may choose: a table of them takes seconds at most."""
    whole = type(noise.length) is int and type(noise.side) is int
    if not whole or not 1 <= noise.length < noise.side <= MOST_CELLS // 2:
        return False
    if noise.variance <= 0 or not _LEAST_SQUARE <= noise.square <= MOST_SQUARE:
        return False
    beyond = noise.side - noise.length
    return beyond**2 <= _MOST_DEVIATIONS**2 * noise.variance + 1


@lru_cache(maxsize=16)  # a table is proved when it is made, and with the release
def certify_vector_noise(noise: VectorNoise, table: KeyNoise | None = None) -> GaussianStage:
    """Prove what the noise costs, from the integers of its table, or of another: a stage with what is set aside.

    Raises `PrivacyViolation` if the table is not one of Gaussian noise: if an integer is too small for its cell.
    """
    drawn = noise.noise if table is None else table
    side, shift = noise.side, noise.length
    if drawn.cells != 2 * side + 1:
        raise PrivacyViolation(
            "a table must have as many cells as its noise; found another number; do not use it"
        )
    with precision(_PRECISION):
        law = gaussian_law(noise.variance, side)  # from the outermost cell to the middle
        least = reduce(
            flint.arb.min, (n / g for n, g in zip(drawn.half, law, strict=True))
        ) * dyadic(1, BITS)
        if not least > dyadic(1, 1):
            raise PrivacyViolation(
                "each integer of a table must be about the probability of its cell; found one far below; do not use it"
            )
        tails = 2 * gaussian_tail(noise.variance, side - shift + 1)
        lost = 1 - least.min(flint.arb(1)) / (1 + tails / _overlap(noise.variance, side, shift))
        aside = figures_above(shift**2 * lost)
    return GaussianStage(noise.square, aside)


@lru_cache(maxsize=16)
def _vector_noise(square: Fraction, delta: Fraction, length: int) -> VectorNoise:
    """The noise of this mu**2, proved."""
    made = planned_noise(square, delta, length)
    if certify_vector_noise(made).delta > delta:
        raise InvalidValue(
            "what is set aside must be more than 128 bits can tell",
            text(delta),
            "choose a larger delta",
        )
    return made


def planned_noise(square: Fraction, delta: Fraction, length: int) -> VectorNoise:
    """Return the noise of this mu**2 whose table is the shortest that costs at most half of delta by its ends.

    Nothing is made or proved: what a file states is compared with this first.
    """
    variance = length**2 / square
    low, high = length, 2 * length + 1  # cells on either side
    while not _enough(variance, length, high, delta):
        low, high = high, 2 * high
        if high > MOST_CELLS // 2:
            raise InvalidValue(
                "a table of Gaussian noise has at most a million cells",
                "more",
                "choose a larger delta, or fewer units",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _enough(variance, length, middle, delta) else (middle, high)
    return VectorNoise(length, variance, high)


def _enough(variance: Fraction, length: int, side: int, delta: Fraction) -> bool:
    """Whether tails beyond a table of this length cost at most half of delta; the other half is for rounding."""
    with precision(_PRECISION):
        tails = 2 * gaussian_tail(variance, side - length + 1)
        overlap = _overlap(variance, side, length)
        return bool(overlap > 0) and figures_above(length**2 * tails / overlap) <= delta / 2


def _overlap(variance: Fraction, side: int, shift: int) -> "arb":
    """A lower bound of the sum of min(g(z), g(z - shift)) over cells that both laws have."""
    # half of it lies on either side of the middle between both; what is cut off is counted on both sides
    return 2 * (
        gaussian_tail(variance, (shift + 2) // 2 + 1) - gaussian_tail(variance, side - shift + 1)
    )

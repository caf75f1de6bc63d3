"""Privacy loss distributions: the exact cost of many mechanisms together.

The privacy loss of an outcome is ln(P / Q), with P and Q its probabilities under two neighbouring datasets. Under P it
has a distribution. Losses of independent mechanisms add, so distributions convolve, and

    delta(epsilon) = E[max(0, 1 - exp(epsilon - loss))].

Here losses are on a grid, in steps of 2**-step. A loss between two grid points is divided among them such that both P
and Q are kept (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022), which never lowers delta. Masses are integers
over 2**128, every rounding is upward, and convolutions are exact before that. So every delta is proved.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsample.balls import ball, ceiling, dyadic, floor, precision
from dpsample.lazy import flint

if TYPE_CHECKING:
    from flint import arb

BITS = 128
_TAIL = 1 << (BITS - 110)  # a tail of this mass is set aside
_CELLS = 1 << 14  # most cells of a distribution; with more, the grid becomes coarser
_FINE = 1 << 11  # least number of steps between the smallest and the largest loss of one mechanism


@dataclass(frozen=True)
class Losses:
    """An upper bound of a privacy loss distribution: the mass at (first + n) / 2**step is masses[n] / 2**BITS.

    >>> likely, unlikely = ball(Fraction(3, 4)), ball(Fraction(1, 4))
    >>> coin = Losses.of_atoms([(likely, unlikely), (unlikely, likely)])
    >>> round(float(coin.delta(Fraction(0))), 6), round(float((coin ** 4).delta(Fraction(1))), 6)
    (0.5, 0.600244)
    """

    step: int
    first: int
    masses: tuple[int, ...]
    infinite: int = 0

    @classmethod
    def of_atoms(
        cls,
        atoms: "Sequence[tuple[arb, arb]]",
        infinite: Fraction = Fraction(0),
        step: int | None = None,
    ) -> "Losses":
        """Return the losses of a pair of laws, given as the probabilities P and Q of each outcome, all positive.

        `infinite` is the probability under P of outcomes that Q does not have.
        """
        with precision():
            losses = [(p / q).log() for p, q in atoms]
            if step is None:
                floats = [float(loss) for loss in losses]
                step = _step_of(max(floats) - min(floats))
            cells: dict[int, int] = {}
            for (p, q), loss in zip(atoms, losses, strict=True):
                for cell, mass in _divided(p, q, floor(loss, step), ceiling(loss, step), step):
                    cells[cell] = cells.get(cell, 0) + mass
            return cls._trimmed(step, cells, _above(infinite))

    @classmethod
    def _trimmed(cls, step: int, cells: dict[int, int], infinite: int) -> "Losses":
        first = min(cells)
        return cls(
            step, first, tuple(cells.get(i, 0) for i in range(first, max(cells) + 1)), infinite
        )._shorter()

    def __mul__(self, other: "Losses") -> "Losses":
        """Compose two mechanisms."""
        step = min(self.step, other.step)
        a = self._coarser(step)
        b = other._coarser(step)
        product = flint.fmpz_poly(list(a.masses)) * flint.fmpz_poly(list(b.masses))
        round_up = (1 << BITS) - 1
        masses = tuple((int(mass) + round_up) >> BITS for mass in product.coeffs())
        composed = Losses(step, a.first + b.first, masses, a.infinite + b.infinite)
        return composed._shorter()

    def __pow__(self, times: int) -> "Losses":
        """Compose a mechanism with itself."""
        result: Losses | None = None
        square = self
        while True:
            if times & 1:
                result = square if result is None else result * square
            times >>= 1
            if not times:
                assert result is not None
                return result
            square = square * square

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return the delta at this epsilon, proved, rounded up."""
        start = max(math.floor(epsilon * 2**self.step) + 1 - self.first, 0)
        above = self.masses[start:]
        if not above:
            return min(Fraction(self.infinite, 1 << BITS), Fraction(1))
        with precision():
            shrink = (-dyadic(1, self.step)).exp()
            weighted = ball(0)
            for mass in reversed(above):
                weighted = weighted * shrink + flint.arb(flint.fmpz(mass))
            nearest = (ball(epsilon) - dyadic(self.first + start, self.step)).exp()
            finite = max(ceiling(flint.arb(flint.fmpz(sum(above))) - nearest * weighted, 0), 0)
        return min(Fraction(self.infinite + finite, 1 << BITS), Fraction(1))

    def _shorter(self) -> "Losses":
        """Put tails aside: the upper one at infinity, the lower one where it begins."""
        masses, infinite, end = self.masses, self.infinite, len(self.masses)
        above = below = start = 0
        while end > 1 and above + masses[end - 1] <= _TAIL:
            end -= 1
            above += masses[end]
        while start < end - 1 and below + masses[start] <= _TAIL:
            below += masses[start]
            start += 1
        masses = (masses[start] + below, *masses[start + 1 : end])
        shorter = Losses(self.step, self.first + start, masses, infinite + above)
        return shorter._coarser(self.step - 1) if len(masses) > _CELLS else shorter

    def _coarser(self, step: int) -> "Losses":
        """The same on a coarser grid; an odd cell is divided among its neighbours."""
        losses = self
        while losses.step > step:
            with precision():
                upper = 1 / (1 + (-dyadic(1, losses.step)).exp())  # the share that goes up
                up, down = ceiling(upper, BITS), ceiling(1 - upper, BITS)
            start = losses.first // 2
            cells = [0] * (len(losses.masses) // 2 + 2)
            for i, mass in enumerate(losses.masses, losses.first):
                place = i // 2 - start
                if i % 2:
                    cells[place] += (mass * down >> BITS) + 1
                    cells[place + 1] += (mass * up >> BITS) + 1
                else:
                    cells[place] += mass
            losses = Losses(losses.step - 1, start, tuple(cells), losses.infinite)
        return losses


def _step_of(span: float) -> int:
    return max(0, math.ceil(math.log2(_FINE / max(span, 2.0**-40))))


def _above(value: Fraction) -> int:
    return -(-(value.numerator << BITS) // value.denominator)


def _divided(p: "arb", q: "arb", low: int, high: int, step: int) -> list[tuple[int, int]]:
    """Divide an outcome, or several whose losses lie between two grid points, among both; P and Q are kept."""
    if high != low + 1:  # on a grid point, or too close to one to tell
        return [(high, ceiling(p, BITS))]
    width = dyadic(1, step)
    E_low = dyadic(low, step).exp()
    E_high = dyadic(high, step).exp()
    upper = (p - q * E_low) / (1 - (-width).exp())
    lower = (q * E_high - p) / (width.exp() - 1)
    upper_mass = max(ceiling(upper, BITS), 0)
    lower_mass = max(ceiling(lower, BITS), 0)
    return [(low, lower_mass), (high, upper_mass)]

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

# Masses are integers over 2**128, as the tables of noise are.
BITS = 128
# The mass of a tail that is cut off: 2**-110, far below any delta. A larger one would add to delta.
_TAIL = 1 << (BITS - 110)
# A distribution has at most this many cells; with more, its grid becomes coarser. With fewer, deltas would be larger.
_CELLS = 1 << 14
# There are at least this many steps between the smallest and the largest loss of one mechanism. With fewer, dividing
# losses among grid points raises delta noticeably.
_FINE = 1 << 11
# The span of losses is taken to be at least this, so that a mechanism that reveals almost nothing has a finite grid.
_LEAST_SPAN = 2.0**-40


@dataclass(frozen=True)
class Losses:
    """An upper bound of a privacy loss distribution, on a grid.

    The loss (first + n) / 2**step has the mass masses[n] / 2**BITS, and `infinite` is the mass of infinite losses.

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
        """Return the losses of a pair of laws; each atom is an outcome's probabilities P and Q, which are positive.

        `infinite` is the probability under P of outcomes that Q does not have. `step` sets the grid; by default it
        follows from the span of the losses.
        """
        with precision():
            losses = [(p / q).log() for p, q in atoms]
            if step is None:
                step = _step_of(losses)
            cells: dict[int, int] = {}
            for (p, q), loss in zip(atoms, losses, strict=True):
                below = floor(loss, step)
                above = ceiling(loss, step)
                for cell, mass in _divided(p, q, below, above, step):
                    cells[cell] = cells.get(cell, 0) + mass

            first = min(cells)
            places = range(first, max(cells) + 1)
            masses = tuple(cells.get(place, 0) for place in places)
            return cls(step, first, masses, _units_above(infinite))._shorter()

    def __mul__(self, other: "Losses") -> "Losses":
        """Return the losses of two mechanisms together: a convolution, which multiplies polynomials."""
        step = min(self.step, other.step)
        one = self._coarser(step)
        another = other._coarser(step)
        product = flint.fmpz_poly(list(one.masses)) * flint.fmpz_poly(list(another.masses))
        products = map(int, product.coeffs())  # in units of 2**(-2 BITS)
        to_round_up = (1 << BITS) - 1
        masses = tuple((mass + to_round_up) >> BITS for mass in products)
        infinite = one.infinite + another.infinite
        return Losses(step, one.first + another.first, masses, infinite)._shorter()

    def __pow__(self, times: int) -> "Losses":
        """Return the losses of a mechanism that is run `times` times, by squaring."""
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
        """Return a proved upper bound of the delta at this epsilon.

        The mass m of each loss L above epsilon adds ``m (1 - exp(epsilon - L))``. These are the masses less
        ``exp(epsilon - L_0) sum m_n shrink**n``, where L_0 is the first such loss, n counts steps from there, and
        shrink = exp(-step). The sum is computed by Horner's rule.
        """
        first_above = math.floor(epsilon * 2**self.step) + 1
        start = max(first_above - self.first, 0)
        above = self.masses[start:]
        if not above:
            return min(Fraction(self.infinite, 1 << BITS), Fraction(1))
        with precision():
            shrink = (-dyadic(1, self.step)).exp()
            shrunk_sum = flint.arb(0)
            for mass in reversed(above):
                shrunk_sum = shrunk_sum * shrink + flint.arb(flint.fmpz(mass))
            first_loss = dyadic(self.first + start, self.step)
            first_factor = (ball(epsilon) - first_loss).exp()
            finite = flint.arb(flint.fmpz(sum(above))) - first_factor * shrunk_sum
            finite_units = max(ceiling(finite, 0), 0)
        units = self.infinite + finite_units
        return min(Fraction(units, 1 << BITS), Fraction(1))

    def _shorter(self) -> "Losses":
        """Return an upper bound with fewer cells: the upper tail at infinity, the lower one at its largest loss.

        If that leaves more than `_CELLS` cells, the grid becomes coarser by a factor of two.
        """
        end = len(self.masses)
        upper_tail = 0
        while end > 1 and upper_tail + self.masses[end - 1] <= _TAIL:
            end -= 1
            upper_tail += self.masses[end]
        start = 0
        lower_tail = 0
        while start < end - 1 and lower_tail + self.masses[start] <= _TAIL:
            lower_tail += self.masses[start]
            start += 1
        smallest = self.masses[start] + lower_tail
        masses = (smallest, *self.masses[start + 1 : end])
        shorter = Losses(self.step, self.first + start, masses, self.infinite + upper_tail)
        if len(masses) > _CELLS:
            return shorter._coarser(self.step - 1)
        return shorter

    def _coarser(self, step: int) -> "Losses":
        """Return an upper bound on the grid of this step, which is coarser or the same.

        Every other cell is between two cells of the coarser grid, and is divided among them (`_divided`).
        """
        losses = self
        while losses.step > step:
            with precision():
                upper_share = 1 / (1 + (-dyadic(1, losses.step)).exp())
                up = ceiling(upper_share, BITS)
                down = ceiling(1 - upper_share, BITS)
            first = losses.first // 2
            cells = [0] * (len(losses.masses) // 2 + 2)
            for place, mass in enumerate(losses.masses, losses.first):
                cell = place // 2 - first
                if place % 2:
                    cells[cell] += (mass * down >> BITS) + 1
                    cells[cell + 1] += (mass * up >> BITS) + 1
                else:
                    cells[cell] += mass
            losses = Losses(losses.step - 1, first, tuple(cells), losses.infinite)
        return losses


def _step_of(losses: "list[arb]") -> int:
    """Return the step of a grid, in steps of 2**-step, that is fine for these losses."""
    floats = [float(loss) for loss in losses]
    span = max(floats) - min(floats)
    steps_of_one = _FINE / max(span, _LEAST_SPAN)
    return max(0, math.ceil(math.log2(steps_of_one)))


def _units_above(probability: Fraction) -> int:
    """Return a probability in units of 2**-BITS, rounded up."""
    return -(-(probability.numerator << BITS) // probability.denominator)


def _divided(p: "arb", q: "arb", low: int, high: int, step: int) -> list[tuple[int, int]]:
    """Return the masses of both grid points, `low` and `high`, between which an outcome's loss lies.

    `p` and `q` are the outcome's probabilities P and Q. The masses a and b solve ``a + b = p`` and
    ``a exp(-L_low) + b exp(-L_high) = q``, so that the grid points have the same P and Q together.
    """
    if high != low + 1:  # on a grid point, or too close to one to tell
        return [(high, ceiling(p, BITS))]
    width = dyadic(1, step)
    E_low = dyadic(low, step).exp()
    E_high = dyadic(high, step).exp()
    shrink = (-width).exp()
    grow = width.exp()
    upper = (p - q * E_low) / (1 - shrink)
    lower = (q * E_high - p) / (grow - 1)
    upper_mass = max(ceiling(upper, BITS), 0)
    lower_mass = max(ceiling(lower, BITS), 0)
    return [(low, lower_mass), (high, upper_mass)]

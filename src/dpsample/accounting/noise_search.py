"""The search for bounded noise, in floats: laws of least Rényi divergence, and what they cost together.

Nothing here is proved: `many_keys` takes what is found, and proves it in integers.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsample.privacy import Privacy
from dpsample.scheme.noise import MOST_CELLS
from dpsample.scheme.sampling import Floats

# Orders that are tried, and how far they are from the best order for Gaussian noise. The law changes slowly with the
# order, so that more of them gain little.
_ORDERS = 9
_LOWEST_ORDER = 0.3
_HIGHEST_ORDER = 1.4
# The range of slopes that is searched, and the relative precision of the result. A law is shorter by about that much at
# most if the slope is found more precisely.
_LEAST_SLOPE = 1e-14
_LARGEST_SLOPE = 1e8
_SLOPE_PRECISION = 0.01
# Cells of a loss distribution in floats: a power of two, for the Fourier transform.
_BINS = 1 << 14
# A loss distribution reaches this many deviations beyond its mean, where a normal law has no mass that a float can add.
_DEVIATIONS = 14
# Points at which the integrals of a long law are computed.
_POINTS = 1000
# The integrals end where a cell has exp(-40) times the mass of its neighbour or less.
_STEEP = 40.0
# From this number of cells on, the integrals have the length of the recursion, within a cell or two.
_LONG = 200
# Tilts that are tried, as parts of the largest one. That is at most 300 over the span of losses: exp(300) is a float.
_TILTS = (0.0, 0.25, 0.5, 1.0)
_MOST_TILT = 300.0
# A law whose ends have less mass is refused: the ratio of two smaller floats may overflow.
_TINY = 1e-280


class Shape(Protocol):
    """A function that computes the law of an order and a slope, as `recursive_shape` does."""

    def __call__(
        self, order: float, slope: float, end: float, most: int, offset: int = 0
    ) -> Floats | None:
        """Return the law, or None if it has more cells than `most`."""


@dataclass(frozen=True)
class Choice:
    """A law that is private enough in floats.

    reach   the frequency at which it reports a key with probability 1/2
    order   the number of its order in the list of those that are tried
    end     the mass of its last cell, or of its last `offset` + 1 cells
    slope   how soon it falls
    offset  that of `KeyNoise`
    """

    reach: int
    order: int
    end: float
    slope: float
    offset: int


@dataclass(frozen=True)
class NoiseSearch:
    """A search for noise with which `keys` keys have the privacy `whole` together.

    `orders` are the orders of Rényi divergence that are tried, and `shape` computes the law of each.
    """

    whole: Privacy
    keys: int
    orders: list[float]
    shape: Shape

    def lowest(
        self, shares: tuple[float, ...], offset: int = 0, best: Choice | None = None
    ) -> Choice | None:
        """Return the law with this offset that reports keys at the lowest frequency.

        `shares` are the parts of delta that are tried for the ends of the law. None if no law reports keys at a lower
        frequency than `best` does.
        """
        start = best
        for share in shares:
            end = share * float(self.whole.delta) / self.keys
            for order in self._orders_to_try(offset, best):
                most = 2 * (best.reach + offset) if best else MOST_CELLS
                steepest = self._steepest(self.orders[order], end, offset, most)
                if steepest is not None:
                    cells, slope = steepest
                    best = Choice(cells // 2 - offset, order, end, slope, offset)
        return None if best is start else best

    def _orders_to_try(self, offset: int, best: Choice | None) -> range:
        """Return the numbers of all orders, or of those beside the best one so far if there is no offset."""
        if best is None or offset:
            return range(len(self.orders))
        first = max(best.order - 1, 0)
        after = min(best.order + 2, len(self.orders))
        return range(first, after)

    def _steepest(
        self, order: float, end: float, offset: int, most: int
    ) -> tuple[int, float] | None:
        """Return the number of cells and the slope of the shortest law of an order that is private enough.

        The steeper a law, the shorter and the less private it is. The slope is found by bisection of its logarithm.
        None if the law has `most` cells or more.
        """
        delta = float(self.whole.delta)

        def is_private(slope: float) -> bool:
            return self._delta(order, slope, end, offset, most) <= delta

        low = _LEAST_SLOPE
        high = _LARGEST_SLOPE
        while math.log(high / low) > _SLOPE_PRECISION:
            middle = math.sqrt(low * high)
            if is_private(middle):
                low = middle
            else:
                high = middle
        law = self.shape(order, low, end, most, offset)
        if law is None or len(law) >= most or not is_private(low):
            return None
        return len(law), low

    def _delta(self, order: float, slope: float, end: float, offset: int, most: int) -> float:
        """Return the delta of a law: below 0 if it has too many cells, and infinite if it is far too steep."""
        try:
            weights = self.shape(order, slope, end, most, offset)
        except OverflowError:
            return math.inf
        if weights is None:
            return -1.0
        if weights[0] < _TINY:
            return math.inf
        law = weights / weights.sum()
        return delta_in_floats(law, float(self.whole.epsilon), self.keys)


def orders_near(epsilon: float, delta: float) -> Floats:
    """Return orders around the one that is best for Gaussian noise of this privacy.

    Gaussian noise of mu has ``epsilon = alpha mu**2 / 2 + ln(1 / delta) / (alpha - 1)`` at order alpha, by the simplest
    conversion. The best order is ``alpha = 1 + sqrt(2 ln(1 / delta)) / mu``, where
    ``mu / sqrt(2) = sqrt(ln(1 / delta) + epsilon) - sqrt(ln(1 / delta))``.
    """
    rest = math.log(1 / delta)
    mu_over_root_2 = math.sqrt(rest + epsilon) - math.sqrt(rest)
    best = 1 + math.sqrt(rest) / mu_over_root_2
    return 1 + (best - 1) * np.geomspace(_LOWEST_ORDER, _HIGHEST_ORDER, _ORDERS)


def recursive_shape(
    order: float, slope: float, end: float, most: int, offset: int = 0
) -> Floats | None:
    """Return the symmetric law that minimises the moment of an order, computed from its middle outward.

    It ends where its last cell, or its last `offset` + 1 cells together, have at most the mass `end`. None if it would
    have more than `most` cells.

    With P the law, Q its shift by one and a the order, the moment is the sum of ``P**a Q**(1-a) + Q**a P**(1-a)``. It
    is stationary if, with s the ratio of a mass to the next outer one and s' the same ratio one cell further out,
    ``a s'**(a-1) - (a-1) s'**-a = 2 + slope + (a-1) s**a - a s**(1-a)``. Here 2 + slope is a Lagrange multiplier; the
    larger the slope, the sooner the law falls. Each s' follows by Newton's method for its logarithm u.
    """
    a = order
    u = 0.0
    log_mass = 0.0
    logs = [0.0]
    total = 1.0
    while True:
        gained = (a - 1) * math.exp(a * u)
        lost = a * math.exp((1 - a) * u)
        target = 2 + slope + gained - lost
        for _ in range(
            50
        ):  # four or five steps are enough, since u changes little from cell to cell
            grown = a * math.exp((a - 1) * u)
            shrunk = (a - 1) * math.exp(-a * u)
            derivative = (a - 1) * grown + a * shrunk
            step = (grown - shrunk - target) / derivative
            u -= step
            if abs(step) < 1e-13 * (1 + u):
                break
        log_mass -= u
        mass = math.exp(log_mass)
        total += mass
        logs.append(log_mass)
        last = mass
        if offset:
            last = sum(math.exp(log) for log in logs[-1 - offset :])
        has_ended = last <= end * 2 * total
        if has_ended and len(logs) > offset + 1:
            break
        if 2 * len(logs) > most:
            return None
    half = np.exp(np.array(logs[::-1]))
    return np.concatenate([half, half[::-1]])


def smooth_shape(order: float, slope: float, end: float, most: int) -> Floats | None:
    """Return about the law of `recursive_shape`, for long laws, in less than a thousandth of a second.

    With u = ln s the recursion is the trapezoidal rule, in steps of one cell, of the differential equation
    ``d/dx G(u) = slope + D(u)``, where ``G = a sinh((a-1) u) + (a-1) sinh(a u)`` and
    ``D = 2 + 2 (a-1) cosh(a u) - 2 a cosh((a-1) u)``. So the place x at which the ratio is u is an integral, and so is
    the logarithm of the mass there. The points are dense where the law bends.
    """
    a = order
    # from about here on the law falls faster than a normal one
    bend = math.sqrt(slope / (a * (a - 1)))
    steepest = math.asinh(_STEEP / (a * bend))
    u = bend * np.sinh(np.linspace(0, steepest, _POINTS))
    # D by cosh(x) = 1 + 2 sinh(x / 2)**2, which keeps its digits where u is small
    b = a - 1
    gained = 4 * b * np.sinh(a * u / 2) ** 2
    lost = 4 * a * np.sinh(b * u / 2) ** 2
    D = gained - lost
    sum_of_cosh = np.cosh(b * u) + np.cosh(a * u)
    G_slope = a * b * sum_of_cosh
    cells_per_u = G_slope / (slope + D)
    x = _integral(cells_per_u, u)
    log_mass = -_integral(u * cells_per_u, u)

    mass = np.exp(log_mass)
    total = _integral(mass, x)
    ended = mass <= end * 2 * total
    half = int(x[-1])
    if ended.any():
        half = int(x[np.argmax(ended)]) + 1
    if 2 * half > most:
        return None
    middles = np.arange(half) + 0.5
    weights = np.exp(np.interp(middles, x, log_mass))
    return np.concatenate([weights[::-1], weights])


def quick_shape(
    order: float, slope: float, end: float, most: int, offset: int = 0
) -> Floats | None:
    """Return the law of `recursive_shape`, by `smooth_shape` where it is long: for predictions."""
    long = smooth_shape(order, slope, end, 2 * MOST_CELLS)
    is_short = long is not None and len(long) < _LONG
    if offset or is_short:
        return recursive_shape(order, slope, end, most, offset)
    if long is None or len(long) > most:
        return None
    return long


def _integral(values: Floats, x: Floats) -> Floats:
    """Return the integral of a function up to each point x, by the trapezoidal rule."""
    means = (values[1:] + values[:-1]) / 2
    areas = means * np.diff(x)
    return np.concatenate([[0.0], np.cumsum(areas)])


def delta_in_floats(law: Floats, epsilon: float, keys: int) -> float:
    """Return the delta of `keys` copies of a law and its shift by one, in floats.

    The loss distribution is convolved by Fourier transform. Masses are multiplied by exp(tilt loss) before it, and
    divided afterwards, since a transform has no digits for masses that are 1e16 times smaller than the largest.
    """
    mass = law[1:]
    loss = np.log(law[1:] / law[:-1])
    # sums of products, since a dot product of long vectors starts threads, which takes longer than the product
    mean = keys * float((mass * loss).sum())
    variance = keys * float((mass * loss**2).sum())
    deviation = math.sqrt(variance)
    largest_loss = float(np.abs(loss).max())
    span = max(mean + _DEVIATIONS * deviation, 2 * epsilon) + largest_loss
    width = 2 * span / _BINS
    cells = _on_a_grid(mass, loss, width)
    losses = np.fft.fftfreq(_BINS, 1 / _BINS) * width

    def log_chernoff_bound(tilt: float) -> float:
        """Return the logarithm of Chernoff's bound of the probability that the loss exceeds epsilon."""
        moment = (mass * np.exp(tilt * loss)).sum()
        log_moment = math.log(moment)
        return keys * log_moment - tilt * epsilon

    # the largest tilt is the one that would move the mean of a normal law to epsilon
    to_epsilon = max(epsilon - mean, 0.0) / deviation**2
    most_tilt = min(to_epsilon, _MOST_TILT / span)
    tilts = most_tilt * np.array(_TILTS)
    tilt = min(tilts.tolist(), key=log_chernoff_bound)
    tilted = cells * np.exp(tilt * losses)
    scale = float(tilted.sum())
    transformed = np.fft.rfft(tilted / scale)
    composed = np.fft.irfft(_power(transformed, keys), _BINS)
    composed = np.maximum(composed, 0)

    is_above = losses > epsilon
    above = losses[is_above]
    log_tilted_by = keys * math.log(scale) - tilt * above
    untilted = composed[is_above] * np.exp(log_tilted_by)
    finite = untilted * -np.expm1(epsilon - above)
    return float(keys * law[0] + finite.sum())


def _on_a_grid(mass: Floats, loss: Floats, width: float) -> Floats:
    """Return the mass of each cell of a grid: that of a loss is divided among the two multiples of `width` around it.

    Both laws keep their mass (`losses._divided`). Negative losses are in the upper half, as the transform expects.
    """
    place = np.floor(loss / width)
    below_loss = (place - loss / width) * width
    part = -np.expm1(below_loss)
    whole = -math.expm1(-width)
    upper = mass * part / whole
    lower = mass - upper
    cell = place.astype(np.int64)
    above = np.bincount((cell + 1) % _BINS, upper, _BINS)
    below = np.bincount(cell % _BINS, lower, _BINS)
    return np.asarray(above + below)


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """Return ``values**times`` by squaring: numpy's own power takes a hundred times as long."""
    result = np.ones_like(values)
    square = values
    while times:
        if times & 1:
            result = result * square
        square = square * square
        times >>= 1
    return result

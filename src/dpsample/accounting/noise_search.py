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

_ORDERS = 9
_BINS = 1 << 14  # of a loss distribution in floats
_POINTS = 1000  # of the integrals of a long law
_STEEP = 40.0  # where they end, as a multiple of 1 / order: there, a cell has far less than its neighbour
_LONG = 200  # cells from which on the integrals have the length, within a cell or two
_TILTS = (0.0, 0.25, 0.5, 1.0)
_MOST_TILT = 300.0  # as a logarithm, over all losses
_TINY = 1e-280  # ratios of smaller floats may overflow


class Shape(Protocol):
    """How the law of an order and a slope is computed, as `recursive_shape`; None if it has more cells than `most`."""

    def __call__(
        self, order: float, slope: float, end: float, most: int, offset: int = 0
    ) -> Floats | None:
        """Return the law, or None."""


@dataclass(frozen=True)
class Choice:
    """A law of one order that is private enough in floats, and from which frequency on it reports every other key."""

    reach: int
    order: int  # its number
    end: float
    slope: float
    offset: int


def lowest(
    whole: Privacy,
    keys: int,
    orders: list[float],
    shares: tuple[float, ...],
    offset: int,
    best: Choice | None,
    shape: Shape,
) -> Choice | None:
    """The law with this offset that reports keys at the lowest frequency, if that is lower than with `best`."""
    epsilon, delta = float(whole.epsilon), float(whole.delta)
    start = best
    for share in shares:
        near = range(len(orders))
        if best is not None and not offset:
            near = range(max(best.order - 1, 0), min(best.order + 2, len(orders)))
        for n in near:
            most = 2 * (best.reach + offset) if best else MOST_CELLS
            end = share * delta / keys
            shorter = _steepest(orders[n], end, epsilon, delta, keys, most, offset, shape)
            if shorter is not None:
                best = Choice(shorter[0] // 2 - offset, n, end, shorter[1], offset)
    return None if best is start else best


def orders_near(epsilon: float, delta: float) -> Floats:
    """Orders around the one that is best for Gaussian noise of this privacy."""
    rest = math.log(1 / delta)
    root = math.sqrt(rest + epsilon) - math.sqrt(rest)
    best = 1 + math.sqrt(rest) / root
    return 1 + (best - 1) * np.geomspace(0.3, 1.4, _ORDERS)


def recursive_shape(
    order: float, slope: float, end: float, most: int, offset: int = 0
) -> Floats | None:
    """The symmetric law that minimises the moment of an order, from its middle outward.

    It ends where its last cell, or its last `offset` + 1 cells, have the mass `end`.

    With s the ratio of two neighbours, a stationary law has ``a s'**(a-1) - (a-1) s'**-a = 2 + slope + (a-1) s**a -
    a s**(1-a) - 1`` from one pair to the next outer one; the slope says how soon it falls.
    """
    a, u = order, 0.0
    log_mass, logs = 0.0, [0.0]
    total = 1.0
    while True:
        target = 2 + slope + (a - 1) * math.exp(a * u) - a * math.exp((1 - a) * u)
        for _ in range(50):
            grown, shrunk = a * math.exp((a - 1) * u), (a - 1) * math.exp(-a * u)
            step = (grown - shrunk - target) / ((a - 1) * grown + a * shrunk)
            u -= step
            if abs(step) < 1e-13 * (1 + u):
                break
        log_mass -= u
        mass = math.exp(log_mass)
        total += mass
        logs.append(log_mass)
        last = mass if not offset else sum(math.exp(log) for log in logs[-1 - offset :])
        if last <= end * 2 * total and len(logs) > offset + 1:
            break
        if 2 * len(logs) > most:
            return None
    half = np.exp(np.array(logs[::-1]))
    return np.concatenate([half, half[::-1]])


def smooth_shape(order: float, slope: float, end: float, most: int) -> Floats | None:
    """As `recursive_shape`, for long laws, in less than a thousandth of a second: as a differential equation.

    With u = ln s the recursion is the trapezoidal rule, in steps of one cell, of ``d/dx G(u) = slope + D(u)``, where
    ``G = a sinh((a-1) u) + (a-1) sinh(a u)`` and ``D = 2 + 2 (a-1) cosh(a u) - 2 a cosh((a-1) u)``. So the place x at
    which the ratio is u is an integral, and so is the logarithm of the mass there.
    """
    a = order
    bend = math.sqrt(
        slope / (a * (a - 1))
    )  # from about here on the law falls faster than a normal one
    steepest = math.asinh(_STEEP / (a * bend))
    u = bend * np.sinh(np.linspace(0, steepest, _POINTS))
    D = 4 * (a - 1) * np.sinh(a * u / 2) ** 2 - 4 * a * np.sinh((a - 1) * u / 2) ** 2
    G_slope = a * (a - 1) * (np.cosh((a - 1) * u) + np.cosh(a * u))
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
    """As `recursive_shape`, for predictions."""
    long = smooth_shape(order, slope, end, 2 * MOST_CELLS)
    if offset or (long is not None and len(long) < _LONG):
        return recursive_shape(order, slope, end, most, offset)
    return None if long is None or len(long) > most else long


def _integral(values: Floats, x: Floats) -> Floats:
    """The integral up to each point, by the trapezoidal rule."""
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(x))])


def _steepest(
    order: float,
    end: float,
    epsilon: float,
    delta: float,
    keys: int,
    most: int,
    offset: int,
    shape: Shape,
) -> tuple[int, float] | None:
    """The length and slope of the shortest law of this order that is private enough, if it is shorter than `most`."""

    def spent(slope: float) -> float:
        try:
            weights = shape(order, slope, end, most, offset)
        except OverflowError:  # far too steep
            return math.inf
        if weights is None:
            return -1.0
        return (
            math.inf
            if weights[0] < _TINY
            else delta_in_floats(weights / weights.sum(), epsilon, keys)
        )

    low, high = 1e-14, 1e8
    while math.log(high / low) > 0.01:
        middle = math.sqrt(low * high)
        amount = spent(middle)
        if amount < 0 or amount <= delta:
            low = middle
        else:
            high = middle
    weights = shape(order, low, end, most, offset)
    if weights is None or len(weights) >= most or spent(low) > delta:
        return None
    return len(weights), low


def delta_in_floats(law: Floats, epsilon: float, keys: int) -> float:
    """The delta of `keys` copies of a law and its shift by one, in floats: a convolution by Fourier transform.

    Masses are multiplied by exp(tilt loss), and divided by it in the end: a transform has no digits for what is 1e16
    times less likely than the rest.
    """
    mass = law[1:]
    loss = np.log(law[1:] / law[:-1])
    # sums, since a product of long vectors starts threads, which takes longer than the product
    mean = keys * float((mass * loss).sum())
    deviation = math.sqrt(keys * float((mass * loss**2).sum()))
    span = max(mean + 14 * deviation, 2 * epsilon) + float(np.abs(loss).max())
    width = 2 * span / _BINS
    cells = _on_a_grid(mass, loss, width)
    losses = np.fft.fftfreq(_BINS, 1 / _BINS) * width

    def moment(tilt: float) -> float:
        return keys * math.log((mass * np.exp(tilt * loss)).sum()) - tilt * epsilon

    # of some tilts, up to that which would make epsilon the mean of a normal law, the one with the least moment
    to_epsilon = max(epsilon - mean, 0.0) / deviation**2
    most_tilt = min(to_epsilon, _MOST_TILT / span)
    tilts = most_tilt * np.array(_TILTS)
    tilt = min(tilts.tolist(), key=moment)
    tilted = cells * np.exp(tilt * losses)
    scale = float(tilted.sum())
    transformed = np.fft.rfft(tilted / scale)
    composed = np.fft.irfft(_power(transformed, keys), _BINS)
    together = np.maximum(composed, 0)

    above = losses > epsilon
    beyond = losses[above]
    untilted = together[above] * np.exp(keys * math.log(scale) - tilt * beyond)
    finite = untilted * -np.expm1(epsilon - beyond)
    return float(keys * law[0] + finite.sum())


def _on_a_grid(mass: Floats, loss: Floats, width: float) -> Floats:
    """Divide the mass of each loss among the two multiples of `width` around it, so that both laws are kept."""
    place = np.floor(loss / width)
    below_loss = (place - loss / width) * width
    upper = mass * -np.expm1(below_loss) / -math.expm1(-width)
    lower = mass - upper
    at = place.astype(np.int64)
    above = np.bincount((at + 1) % _BINS, upper, _BINS)
    below = np.bincount(at % _BINS, lower, _BINS)
    return np.asarray(above + below)


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """By squares: numpy's own power takes a hundred times as long."""
    result = np.ones_like(values)
    while times:
        if times & 1:
            result = result * values
        values, times = values * values, times >> 1
    return result

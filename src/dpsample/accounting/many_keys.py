"""Many keys of one user: what each key gets, so that k of them together have the user's privacy.

privacy        k copies of an (epsilon', delta')-private scheme, by the optimal composition theorem (`composition`)
bounded noise  without sampling: the noise of least Rényi divergence, and its exact loss distribution
Rényi steps    keys only: the largest steps of Rényi divergence at one order

The theorem is tight for the worst scheme of its kind, which a token is not, so the others are better from a few keys
on. The choice depends on the parameters alone: the method that reports keys with an even chance at the lowest
frequency. What is found in floats here is then proved in integers (`certify_many_keys`). For a budget that is stated as
zCDP or GDP, `gaussian` has the methods and their proof.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from dpsample.accounting.composition import check_keys_per_user, composed_delta, per_key
from dpsample.accounting.gaussian import delta_within, method_within, noise_within, scheme_within
from dpsample.accounting.losses import Losses
from dpsample.accounting.renyi import RenyiCurve, conversion
from dpsample.balls import dyadic
from dpsample.errors import PrivacyViolation
from dpsample.exact import figures_below, text
from dpsample.privacy import Privacy
from dpsample.scheme.noise import BITS, MOST_CELLS, KeyNoise
from dpsample.scheme.per_key import ManyKeys, PerKey
from dpsample.scheme.renyi_steps import RenyiSteps, steps_to_half
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, KeepAll

_FEW_KEYS = 8  # up to here the composition theorem may be best
_SHARES = (0.3, 0.1, 0.6)  # of delta, for the ends of the noise, or the first step
_ORDERS = 9
# Offsets are tried where they can gain: of short noise. Beyond, the gain is below 1 %, and the search takes seconds.
_OFFSETS = (1, 2, 3)
_OFFSET_KEYS = 20
_OFFSET_REACH = 128
_OFFSET_SHARES = (0.6,)  # of delta, for new keys; ledgers set it aside, so it is no more than without an offset
_BINS = 1 << 14  # of a loss distribution in floats
_FIGURES = 9
_POINTS = 1000  # of the integrals of a long law
_STEEP = 40.0  # where they end, as a multiple of 1 / order: there, a cell has far less than its neighbour
_LONG = 200  # cells from which on the integrals have the length, within a cell or two
_TILTS = (0.0, 0.25, 0.5, 1.0)
_MOST_TILT = 300.0  # as a logarithm, over all losses
_TINY = 1e-280  # ratios of smaller floats may overflow


@dataclass(frozen=True)
class ManyKeysCertificate:
    """What up to `keys` keys of a user cost together: at most `whole`, since `delta` is not above its."""

    each: ManyKeys
    keys: int
    whole: Privacy
    delta: Fraction  # a proved upper bound, at the epsilon of `whole`

    @property
    def method(self) -> str:
        """How it was proved."""
        if self.whole.definition is not None:
            return method_within(self.each, self.keys, self.whole)
        if isinstance(self.each, Privacy):
            return "by the optimal composition theorem, in interval arithmetic"
        if isinstance(self.each, KeyNoise):
            return "by the loss distribution of the noise, in integers"
        return f"by Rényi divergence at order {text(self.each.order)}, in ball arithmetic"

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        return {
            "each": self.each.to_json(),
            "keys": self.keys,
            "whole": self.whole.to_json(),
            "method": self.method,
            "delta_found": f"{float(self.delta):.17g}",
        }

    def __str__(self) -> str:
        keys = f"up to {self.keys:,} keys together, each" if self.keys > 1 else "a key"
        return (
            f"{self.whole} holds for {keys} with {self.each}\n"
            f"  {self.method}: delta is at most {float(self.delta):.12g}"
        )


def certify_many_keys(each: ManyKeys, keys: int, whole: Privacy) -> ManyKeysCertificate:
    """Prove what a user's keys cost together; raises `PrivacyViolation` if that is more than `whole`.

    >>> print(certify_many_keys(Privacy("0.033", "1e-8"), 50, Privacy(1, 1e-6)))
    Privacy(epsilon='1', delta='1e-06') holds for up to 50 keys together, each with Privacy(epsilon='0.033', \
delta='1e-08')
      by the optimal composition theorem, in interval arithmetic: delta is at most 8.3...e-07
    """
    check_keys_per_user(keys)
    delta = _delta_together(each, keys, whole)
    if delta > whole.delta:
        raise PrivacyViolation(
            f"{whole} must hold for {keys:,} keys together; found delta up to {float(delta):.12g} with {each} for "
            "each; spend less on each"
        )
    return ManyKeysCertificate(each, keys, whole, delta)


def curve_of_keys(each: ManyKeys, keys: int, whole: Privacy) -> RenyiCurve:
    """Return an upper bound of the Rényi divergences of a user's keys together, which are proved to have `whole`."""
    if isinstance(each, KeyNoise):
        return curve_of_noise(each) * keys
    if isinstance(each, RenyiSteps):
        return RenyiCurve.of_order(each.order, keys * each.divergence, RenyiCurve.of_privacy(whole))
    return RenyiCurve.of_privacy(each) * keys


def curve_of_noise(noise: KeyNoise) -> RenyiCurve:
    """Return the curve of one key. A new key is not reported, in either dataset, unless that is set aside."""
    shifted = RenyiCurve.of_shifted(noise_atoms(noise), noise.delta)
    return replace(shifted, delta=noise.new_key)


def noise_atoms(noise: KeyNoise) -> list[tuple[arb, arb]]:
    """Return the probabilities of each outcome under two frequencies that differ by one, but for the ends."""
    masses = [dyadic(n, BITS) for n in noise.table]
    return [(now, before) for before, now in pairwise(masses)]


def _delta_together(each: ManyKeys, keys: int, whole: Privacy) -> Fraction:
    if whole.definition is not None:
        return delta_within(each, keys, whole)
    if isinstance(each, KeyNoise):
        return _delta_of_noise(each, keys, whole.epsilon)
    if isinstance(each, RenyiSteps):
        left = whole.delta - keys * each.delta
        if left <= 0 or keys * each.divergence + conversion(each.order, left) > whole.epsilon:
            return Fraction(1)
        return whole.delta
    return composed_delta(each, keys, whole.epsilon)


def _delta_of_noise(noise: KeyNoise, keys: int, epsilon: Fraction) -> Fraction:
    """The largest of ``j new_key + delta_{k - j}``: j keys are new, and k - j exist anyway (docs/theory.md, section 9).

    Without an offset no new key costs more than one that exists. For many keys, j goes by ranges: the cost of the new
    keys at the end of a range, and of the others at its start.
    """
    losses = Losses.of_atoms(noise_atoms(noise), noise.delta)
    if not noise.offset:
        return (losses**keys).delta(epsilon)
    starts = list(range(keys)) if keys <= _OFFSET_KEYS else [0, *(1 << n for n in range((keys - 1).bit_length()))]
    worst, existing = keys * noise.new_key, 0
    together: Losses | None = None
    for start, after in reversed(list(pairwise([*starts, keys]))):
        more = losses ** (keys - start - existing)
        together, existing = more if together is None else together * more, keys - start
        worst = max(worst, (after - 1) * noise.new_key + together.delta(epsilon))
    return worst


@lru_cache(maxsize=64, typed=True)  # True is no number of keys
def chosen_per_key(
    whole: Privacy, keys: int, all_keys: bool = True, keys_only: bool = False, quick: bool = False
) -> ManyKeys:
    """Return what each of a user's up to `keys` keys gets, so that all together have `whole`.

    Of the methods that can be used, the one with the lowest frequency of an even chance; the first of equals.
    `all_keys` says that there is no sampling. `quick` is for predictions: noise that is found in floats alone, of few
    orders and without an offset, and a little longer.

    >>> [type(chosen_per_key(Privacy(1, 1e-6), keys)).__name__ for keys in (1, 2, 50)]
    ['Privacy', 'Privacy', 'KeyNoise']
    >>> even_chance(chosen_per_key(Privacy(1, 1e-6), 50)) < 130
    True
    """
    check_keys_per_user(keys)
    candidates: list[ManyKeys | None] = []
    if whole.definition is not None:
        candidates += [noise_within(whole, keys) if all_keys else None, scheme_within(whole, keys)]
        return min((c for c in candidates if c is not None), key=even_chance)
    if keys <= _FEW_KEYS or not (all_keys or keys_only):
        candidates.append(per_key(whole, keys))
    if keys > 1 and all_keys and not keys_only:
        candidates += [least_noise(whole, keys, quick)]
    if keys > 1 and keys_only:
        candidates += [largest_steps(whole, keys)]
    usable = [c for c in candidates if c is not None]
    if not usable:
        usable = [per_key(whole, keys)]
    return min(usable, key=even_chance)


def even_chance(each: PerKey) -> float:
    """Return the frequency from which on keys are reported with an even chance, without sampling."""
    reached = frequency_reaching(0.5, KeepAll(), each)
    return math.inf if reached is None else float(reached)


# --- bounded noise ---------------------------------------------------------------------------------------------------


class _Shape(Protocol):
    def __call__(self, order: float, slope: float, end: float, most: int, offset: int = 0) -> Floats | None: ...


@dataclass(frozen=True)
class _Choice:
    """A law of one order that is private enough in floats, and from which frequency on it reports every other key."""

    reach: int
    order: int  # its number
    end: float
    slope: float
    offset: int


@lru_cache(maxsize=64, typed=True)
def least_noise(whole: Privacy, keys: int, quick: bool = False) -> KeyNoise | None:
    """Return the noise, of least Rényi divergence at some order, that reports most and gives `keys` keys `whole`.

    An offset is chosen only where it reports keys at a lower frequency. None if the noise would be longer than a
    million cells.
    """
    orders = _orders(float(whole.epsilon), float(whole.delta)).tolist()
    orders, shares = (orders[::2], _SHARES[:1]) if quick else (orders, _SHARES)
    shape: _Shape = _quick_shape if quick else _shape
    plain = _lowest(whole, keys, orders, shares, 0, None, shape)
    if plain is None:
        return None
    noise = _proved_noise(whole, keys, orders, plain, quick)
    if quick or keys > _OFFSET_KEYS or plain.reach > _OFFSET_REACH:
        return noise
    best = plain
    for offset in _OFFSETS:
        best = _lowest(whole, keys, orders, _OFFSET_SHARES, offset, best, shape) or best
    if best is plain:
        return noise
    return min(noise, _proved_noise(whole, keys, orders, best, False), key=even_chance)


def _lowest(
    whole: Privacy,
    keys: int,
    orders: list[float],
    shares: tuple[float, ...],
    offset: int,
    best: _Choice | None,
    shape: _Shape,
) -> _Choice | None:
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
                best = _Choice(shorter[0] // 2 - offset, n, end, shorter[1], offset)
    return None if best is start else best


def _proved_noise(whole: Privacy, keys: int, orders: list[float], choice: _Choice, quick: bool) -> KeyNoise:
    """The table of a law; if floats were too bold, of one that is a little longer."""
    slope, shape = choice.slope, _quick_shape if quick else _shape
    while True:
        weights = shape(orders[choice.order], slope, choice.end, MOST_CELLS, choice.offset)
        assert weights is not None
        noise = KeyNoise.of(weights, choice.offset)
        if quick or _delta_together(noise, keys, whole) <= whole.delta:
            return noise
        slope *= 0.999


def _orders(epsilon: float, delta: float) -> Floats:
    """Orders around the one that is best for Gaussian noise of this privacy."""
    rest = math.log(1 / delta)
    root = math.sqrt(rest + epsilon) - math.sqrt(rest)
    best = 1 + math.sqrt(rest) / root
    return 1 + (best - 1) * np.geomspace(0.3, 1.4, _ORDERS)


def _shape(order: float, slope: float, end: float, most: int, offset: int = 0) -> Floats | None:
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


def _smooth_shape(order: float, slope: float, end: float, most: int) -> Floats | None:
    """As `_shape`, for long laws, in less than a thousandth of a second: as a differential equation.

    With u = ln s the recursion is the trapezoidal rule, in steps of one cell, of ``d/dx G(u) = slope + D(u)``, where
    ``G = a sinh((a-1) u) + (a-1) sinh(a u)`` and ``D = 2 + 2 (a-1) cosh(a u) - 2 a cosh((a-1) u)``. So the place x at
    which the ratio is u is an integral, and so is the logarithm of the mass there.
    """
    a = order
    bend = math.sqrt(slope / (a * (a - 1)))  # from about here on the law falls faster than a normal one
    u = bend * np.sinh(np.linspace(0, math.asinh(_STEEP / (a * bend)), _POINTS))
    rise = slope + 4 * (a - 1) * np.sinh(a * u / 2) ** 2 - 4 * a * np.sinh((a - 1) * u / 2) ** 2
    rate = a * (a - 1) * (np.cosh((a - 1) * u) + np.cosh(a * u)) / rise
    x, log = _integral(rate, u), -_integral(u * rate, u)
    total = _integral(np.exp(log), x)
    ended = np.exp(log) <= end * 2 * total
    half = int(x[np.argmax(ended)]) + 1 if ended.any() else int(x[-1])
    if 2 * half > most:
        return None
    weights = np.exp(np.interp(np.arange(half) + 0.5, x, log))
    return np.concatenate([weights[::-1], weights])


def _quick_shape(order: float, slope: float, end: float, most: int, offset: int = 0) -> Floats | None:
    """As `_shape`, for predictions."""
    long = _smooth_shape(order, slope, end, 2 * MOST_CELLS)
    if offset or (long is not None and len(long) < _LONG):
        return _shape(order, slope, end, most, offset)
    return None if long is None or len(long) > most else long


def _integral(values: Floats, x: Floats) -> Floats:
    """The integral up to each point, by the trapezoidal rule."""
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(x))])


def _steepest(
    order: float, end: float, epsilon: float, delta: float, keys: int, most: int, offset: int, shape: _Shape
) -> tuple[int, float] | None:
    """The length and slope of the shortest law of this order that is private enough, if it is shorter than `most`."""

    def spent(slope: float) -> float:
        try:
            weights = shape(order, slope, end, most, offset)
        except OverflowError:  # far too steep
            return math.inf
        if weights is None:
            return -1.0
        return math.inf if weights[0] < _TINY else _delta_in_floats(weights / weights.sum(), epsilon, keys)

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


def _delta_in_floats(law: Floats, epsilon: float, keys: int) -> float:
    """The delta of `keys` copies of a law and its shift by one, in floats: a convolution by Fourier transform.

    Masses are multiplied by exp(tilt loss), and divided by it in the end: a transform has no digits for what is 1e16
    times less likely than the rest.
    """
    mass, loss = law[1:], np.log(law[1:] / law[:-1])
    # sums, since a product of long vectors starts threads, which takes longer than the product
    mean, deviation = keys * float((mass * loss).sum()), math.sqrt(keys * float((mass * loss**2).sum()))
    span = max(mean + 14 * deviation, 2 * epsilon) + float(np.abs(loss).max())
    width = 2 * span / _BINS
    place = np.floor(loss / width)
    upper = mass * -np.expm1((place - loss / width) * width) / -math.expm1(-width)
    at = place.astype(np.int64)
    cells = np.bincount((at + 1) % _BINS, upper, _BINS) + np.bincount(at % _BINS, mass - upper, _BINS)
    losses = np.fft.fftfreq(_BINS, 1 / _BINS) * width
    # of some tilts, up to that which would make epsilon the mean of a normal law, the one with the least moment
    tilts = min(max(epsilon - mean, 0.0) / deviation**2, _MOST_TILT / span) * np.array(_TILTS)
    tilt = min(tilts.tolist(), key=lambda t: keys * math.log((mass * np.exp(t * loss)).sum()) - t * epsilon)
    tilted = cells * np.exp(tilt * losses)
    scale = float(tilted.sum())
    together = np.maximum(np.fft.irfft(_power(np.fft.rfft(tilted / scale), keys), _BINS), 0)
    above = losses > epsilon
    beyond = losses[above]
    finite = together[above] * np.exp(keys * math.log(scale) - tilt * beyond) * -np.expm1(epsilon - beyond)
    return float(keys * law[0] + finite.sum())


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """By squares: numpy's own power takes a hundred times as long."""
    result = np.ones_like(values)
    while times:
        if times & 1:
            result = result * values
        values, times = values * values, times >> 1
    return result


# --- Rényi steps -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64, typed=True)
def largest_steps(whole: Privacy, keys: int, square: Fraction = Fraction(0)) -> RenyiSteps | None:
    """Return the Rényi steps that reach one half first, with which `keys` keys have `whole`; None if none do.

    `square` is the mu**2 of Gaussian noise that has its part of `whole` too.
    """
    options = []
    for share in _SHARES:
        delta = figures_below(whole.delta * Fraction(share) / keys, _FIGURES)
        for wanted in _orders(float(whole.epsilon), float(whole.delta)).tolist():
            order = max(figures_below(Fraction(wanted), 3), Fraction(101, 100))
            left = whole.epsilon - conversion(order, whole.delta - keys * delta) - order * square / 2
            if left > 0:
                options.append(RenyiSteps(order, figures_below(left / keys, _FIGURES), delta))
    if not options:
        return None
    steps = steps_to_half(*([getattr(o, name) for o in options] for name in ("order", "divergence", "delta")))
    best = int(np.argmin(steps))
    return options[best] if np.isfinite(steps[best]) else None

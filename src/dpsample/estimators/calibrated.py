"""Calibrated estimates: unbiased wherever keys can be seen, cautious where they cannot. The default.

A sum is estimated in two parts. A `Functional` is linear in the tokens, has nearly no bias at all visible frequencies,
and its variance is known; it never counts more of the dark than is there. To it is added a continuation into the dark:
as many keys for each frequency as are surely there, by the same functionals, just above it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpsample.estimators.calibration import Calibration, Function, Functional, calibration
from dpsample.estimators.tally import Tally
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import Floats, Ints, Sampling
from dpsample.scheme.tokens import lifetime

_WINDOWS = ((1.1, 1.0), (1.45, 2.0), (1.9, 4.0))  # where, in multiples of the edge; how much denser the edge may be
# than it is here: as a power law is with exponent 3, no more; and so that a spike at the edge is not continued
_WIDTH = 0.4  # of a window, to either side, in the logarithm of the frequency: smooth ones have little variance
_ROUGH = 0.02  # of the trust in densities, whose variance matters more than their bias
_CAUTION = 0.7  # standard errors by which the continuation stays below what is seen
_STEEPEST = 4.0  # power with which a density may fall toward 0
_SHARPEST = 2.0  # change of that power from window to window; more than that is an upper end, not a trend
_SURER = 10.0  # times the trust, for what the error is made of
_LEAST = 0.2  # of a flat estimate: what a calibrated one of the variance, or of its own, is not believed to be below
_BLEND = 6.0  # square of the freedom at which the flat and the calibrated estimate of the variance count alike
_FIRM = 3.0  # freedom of the latter, below which no interval is guaranteed
_FEW = 30.0  # keys that an error rests on, below which no interval is guaranteed
_UNSEEN = 0.02  # of an error's square, that one key may have which was not reported, above which none is either
NEGLIGIBLE = 0.25  # of the standard error: what may be in the dark without being mentioned
_NOTHING = 1e-9  # of a key: a bias that only rounding has
_BETWEEN = 129  # frequencies at which a key may be that was not reported


@dataclass(frozen=True)
class Parts:
    """A sum over the selected keys, in two parts: what is seen, and the continuation into the dark."""

    seen: float  # the part that has no bias at visible frequencies
    error: float  # its standard error
    slack: float  # the bias that it may have left at visible frequencies
    keys: float  # the number of keys that the error effectively rests on
    freedom: float  # the square of the error's square over its variance: how sure the error is
    firm: float  # the same before anything was added to the error because it is not sure
    trend: float  # how much larger its square is to be expected where `seen` is larger by one
    unseen: float  # the share of the error's square that a key has which may not have been reported
    unseen_trend: float  # and its trend; both matter above `seen`, not below
    dark: float  # the other part; negative if keys of the dark that are not meant were counted
    dark_error: float  # its standard error, if the density goes on as it was

    @property
    def value(self) -> float:
        """The estimate."""
        return self.seen + self.dark

    @property
    def sure(self) -> bool:
        """Whether the error rests on enough keys, and not on one that may have been missed, for a guarantee."""
        return self.keys >= _FEW and self.firm >= _FIRM and self.unseen <= _UNSEEN

    @property
    def clear(self) -> bool:
        """Whether the dark does not matter."""
        return abs(self.dark) <= NEGLIGIBLE * self.error

    def taken(self, level: float) -> tuple[float, float]:
        """Return how many keys of the dark were counted that are not meant: about, and at most.

        There are at most twice as many as if the density went on.
        """
        about = max(-self.dark, 0.0)
        return about, 2 * about + NormalDist().inv_cdf(0.5 + level / 2) * self.dark_error * (about > 0)

    def bounds(self, level: float) -> tuple[float, float]:
        """Return bounds of the whole sum: the dark may hold nothing, or as much as is estimated."""
        low, high = self.interval(level)
        if self.clear:
            return low, high
        if self.dark < 0:
            return low - self.taken(level)[1], high
        return low, high + self.dark + NormalDist().inv_cdf(0.5 + level / 2) * self.dark_error

    def interval(self, level: float) -> tuple[float, float]:
        """Return bounds of the sum over the visible keys: those sums from which `seen` is not unlikely.

        When too few keys were reported, `seen` is too small, and so is its error: a sum above it by d is tested with
        the variance that is to be expected then, ``error**2 + trend d``, as in Wilson's interval of a share. The rest
        of what is unsure of the error is met by Student's distribution.
        """
        t = float(student(0.5 + level / 2, np.array(2 * self.freedom)))
        down, up = t * t * self.trend / 2, t * t * (self.trend + self.unseen_trend) / 2
        low = self.seen + down - math.sqrt((t * self.error) ** 2 * (1 - self.unseen) + down**2)
        high = self.seen + up + math.sqrt((t * self.error) ** 2 + up**2)
        return low - self.slack, high + self.slack


def student(share: float, freedom: Floats) -> Floats:
    """A quantile of Student's distribution, by its expansion around the normal one."""
    z, n = NormalDist().inv_cdf(share), np.maximum(freedom, 2.0)
    found: Floats = z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    return found


def parts(tally: Tally, sampling: Sampling, privacy: Privacy, grid: int, of: Function) -> Parts:
    """Estimate the sum of ``L(x) g(frequency of x)`` over all keys from a tally of the reported ones.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.estimators.measures import Measure
    >>> keys = Tally.of([16 * 1000, 16 * 2000])
    >>> found = parts(keys, KeepAll(), Privacy(1, 1e-6), 16, Measure.of("frequency"))
    >>> round(found.value, 2), round(found.error, 2)
    (3027.32, 1.94)
    """
    if not len(tally.cells):
        return Parts(*[0.0] * 11)
    scheme = calibration(sampling, privacy, grid)
    keys = rough(tally.total)
    largest = 1 << (int(tally.cells[-1]) // grid + 2 * lifetime(privacy)).bit_length()
    made = _functionals(scheme, of, keys, largest)
    near = tally.cells <= scheme.table_tokens
    at = tally.cells[near] - 1
    far = scheme.flat(tally.cells[~near], [of, made.spread.function, made.trend.function, made.left])
    seen = float(tally.weights[near] @ made.total.near[at] + tally.weights[~near] @ far[:, 0])
    dark, dark_error = _continued(made.total, made.windows, tally.weights[near], tally.squares[near], at)

    guess, better = (np.append(values[at], far[:, 1]) for values in (made.spread.flat, made.spread.near))
    noise, trend = np.append(made.noise[at], far[:, 1] ** 2), np.append(made.trend.near[at], far[:, 2])
    # beside the reported keys one more, anywhere from the edge on to the least of them, that may not be reported
    least = max(int(tally.cells[0]) // grid + lifetime(privacy) // 2, scheme.edge)
    size = math.sqrt(float(tally.squares.sum()) / tally.total)
    more, slope = (float(found) for found in size ** np.array([2, 3]) * _unreported(made, least))
    # the variance, by two estimates: a flat one, and one that has no bias but a variance of its own
    flat, fine = float(tally.squares @ guess), float(tally.squares @ better)
    fourth = tally.squares**2 / tally.keys
    unsure = max(float(fourth @ better**2), _LEAST * float(fourth @ noise)) + more**2 + 1e-300
    variance = more + max(fine, _LEAST * flat) + 1e-300
    firm = variance**2 / unsure
    variance += max(flat - fine, 0.0) * _BLEND / (_BLEND + firm**2)
    return Parts(
        seen,
        math.sqrt(variance),
        slack=float(np.abs(tally.weights) @ np.append(made.slack[at], far[:, 3])),
        keys=(flat + more) ** 2 / (float(fourth @ guess**2) + more**2 + 1e-300),
        freedom=variance**2 / unsure,
        firm=firm,
        trend=max(float(trend @ (tally.squares * tally.weights / tally.keys)), 0.0) / variance,
        unseen=more / variance,
        unseen_trend=max(slope, 0.0) / variance,
        dark=dark,
        dark_error=dark_error,
    )


def rough(keys: float) -> int:
    """Round a number of reported keys up, so that few functionals serve all of them."""
    return int(10 ** (np.ceil(2 * np.log10(max(keys, 100))) / 2))


Window = tuple[Functional, float, float, float]


@dataclass(frozen=True, eq=False)
class _Functionals:
    """What a sum is estimated with, and its error."""

    total: Functional  # the sum
    spread: Functional  # its variance
    trend: Functional  # how the two vary together
    noise: Floats  # for each token, the variance of the variance
    left: Function  # at each frequency, the bias that the sum has left
    slack: Floats  # and for each token
    windows: list[Window]  # the number of keys just above the edge


@lru_cache(maxsize=64)
def _functionals(scheme: Calibration, of: Function, keys: int, largest: int) -> _Functionals:
    total = Functional(scheme, of, keys)
    variance = total.covariance(total, largest)
    spread = Functional(scheme, lambda i: np.maximum(variance(i), 0.0), _SURER * keys)
    trend = Functional(scheme, total.covariance(spread, largest), _SURER * keys)
    noise, left = scheme.laws @ spread.near**2, total.left(largest)
    return _Functionals(
        total,
        spread,
        trend,
        noise=scheme.flat_table(lambda i: np.interp(i, scheme.frequencies, noise)),
        left=left,
        slack=scheme.flat_table(left),
        windows=windows_of(total, keys),
    )


def windows_of(total: Functional, keys: int) -> list[Window]:
    """Return what estimates the number of keys for each frequency just above the edge, if the dark matters."""
    matters = (np.abs(total.bias[total.scheme.dark]) > _NOTHING).any()
    return _windows(total.scheme, keys) if matters else []


@lru_cache(maxsize=16)
def _windows(scheme: Calibration, keys: int) -> list[Window]:
    """Functionals for the number of keys just above the edge, the same for every sum: all windows, or none."""
    windows: list[Window] = []
    # wide enough to tell frequencies apart
    widen = max(1.0, 2.5 / (float(scheme.privacy.epsilon) * _WIDTH * scheme.edge))
    for place, more in _WINDOWS:
        centre = math.log(scheme.edge) + math.log(place) * widen
        window = Functional(scheme, _around(centre, _WIDTH * widen), _ROUGH * keys)
        inside = window.function(scheme.frequencies[~scheme.dark])
        # keys of the dark that are reported look like keys at the edge
        width = (float(inside.sum()) + float(window.mean[scheme.dark].sum())) * scheme.step
        if inside.any() and width > 0:
            windows.append((window, width, more, centre))
    return windows if len(windows) == len(_WINDOWS) else []


def _unreported(made: _Functionals, least: int) -> Floats:
    """Of a key anywhere from the edge on to some frequency, the variance, and how it varies with the sum."""
    scheme = made.total.scheme
    end = min(least + 3 / float(scheme.privacy.epsilon), float(scheme.sampling.largest))
    i = scheme.edge + np.geomspace(1, max(end - scheme.edge, 1) + 1, _BETWEEN) - 1
    absent = np.minimum(1.0, 2 * scheme.absent(i.astype(np.int64)))  # a key that is surely reported does not matter
    both = np.stack([made.spread.function(i), made.trend.function(i)]) * absent  # type: ignore[arg-type]
    found: Floats = (both[:, 1:] + both[:, :-1]) / 2 @ np.diff(i) / (i[-1] - i[0])
    return found


def _continued(
    total: Functional, windows: list[Window], weights: Floats, squares: Floats, at: Ints
) -> tuple[float, float]:
    """What the dark adds to the sum if the density goes on below the edge as it is above, and its standard error."""
    if not windows:
        return 0.0, 0.0
    density, error = np.zeros((2, len(windows)))
    for n, (window, width, _, _) in enumerate(windows):
        b = window.near[at]
        density[n], error[n] = float(weights @ b) / width, math.sqrt(float(squares @ b**2)) / width
    dark, unsure = continued(total, windows, density, error)
    return float(dark), float(unsure)


def continued(total: Functional, windows: list[Window], density: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Continue densities [..., windows] into the dark: what is surely to be added to the sum, and its error, [...]."""
    more, place = (np.array([window[n] for window in windows]) for n in (2, 3))
    least = np.argmin(more * (density - _CAUTION * error), axis=-1)[..., None]
    low, unsure = (
        np.take_along_axis(np.broadcast_to(more * x, density.shape), least, -1)[..., 0] for x in (density, error)
    )
    there = density.min(axis=-1) > 0
    at_edge = float(_missed(total, np.zeros(())))
    if at_edge < 0:  # keys at the edge are meant, and those below look like them
        return np.where(there, density[..., 0] * at_edge, 0.0), error[..., 0] * -at_edge
    # a density that surely falls toward the edge, or bends to, goes on doing so; one that rises stays what it was
    known, apart = np.where(there[..., None], density, 1.0), np.diff(place)
    slopes = np.diff(np.log(known), axis=-1) / apart
    spread = (error / known) ** 2
    blur = np.sqrt((4 * spread[..., :-1].sum(-1)) / apart[0] ** 2 + spread[..., 1:].sum(-1) / apart[1] ** 2)
    bend = slopes[..., 0] - slopes[..., 1]
    slope = slopes[..., 0] + np.where(bend <= _SHARPEST, bend, 0.0) - _CAUTION * blur
    missed = _missed(total, np.where(there, slope.clip(0.0, _STEEPEST), 0.0))
    return np.where(there, np.maximum((low - _CAUTION * unsure) * missed, 0.0), 0.0), unsure * missed


def _missed(total: Functional, slope: Floats) -> Floats:
    """What the sum misses if there is one key for each frequency at the edge, and ever fewer below."""
    scheme = total.scheme
    falling = (scheme.frequencies[scheme.dark] / scheme.edge) ** slope[..., None]
    found: Floats = falling @ -total.bias[scheme.dark] * scheme.step
    return found


def _around(centre: float, width: float) -> Function:
    """A smooth window: 1 at the centre, 0 from so far away on, in the logarithm of the frequency."""
    return lambda i: (1 + np.cos(np.pi * np.clip((np.log(np.maximum(i, 1)) - centre) / width, -1, 1))) / 2

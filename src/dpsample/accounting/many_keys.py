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
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.accounting.composition import check_keys_per_user, composed_delta, per_key
from dpsample.accounting.gaussian import delta_within, method_within, noise_within, scheme_within
from dpsample.accounting.losses import Losses
from dpsample.accounting.noise_search import (
    Choice,
    Shape,
    delta_in_floats,
    lowest,
    orders_near,
    quick_shape,
    recursive_shape,
)
from dpsample.accounting.renyi import RenyiCurve, conversion
from dpsample.balls import dyadic
from dpsample.errors import PrivacyViolation
from dpsample.exact import figures_below, text
from dpsample.privacy import Privacy
from dpsample.scheme.noise import BITS, MOST_CELLS, KeyNoise
from dpsample.scheme.per_key import ManyKeys, PerKey
from dpsample.scheme.renyi_steps import RenyiSteps, steps_to_half
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import KeepAll

if TYPE_CHECKING:
    from flint import arb

_FEW_KEYS = 8  # up to here the composition theorem may be best
_SHARES = (0.3, 0.1, 0.6)  # of delta, for the ends of the noise, or the first step
# Offsets are tried where they can gain: of short noise. Beyond, the gain is below 1 %, and the search takes seconds.
_OFFSETS = (1, 2, 3)
_OFFSET_KEYS = 20
_OFFSET_REACH = 128
_OFFSET_SHARES = (
    0.6,
)  # of delta, for new keys; ledgers set it aside, so it is no more than without an offset
_FIGURES = 9
_HOPELESS = 2  # times the allowed delta, in floats: no proof will find less


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


def noise_atoms(noise: KeyNoise) -> "list[tuple[arb, arb]]":
    """Return the probabilities of each outcome under two frequencies that differ by one, but for the ends."""
    masses = [dyadic(n, BITS) for n in noise.table]
    return [(now, before) for before, now in pairwise(masses)]


def _delta_together(each: ManyKeys, keys: int, whole: Privacy) -> Fraction:
    if whole.definition is not None:
        return delta_within(each, keys, whole)
    if isinstance(each, KeyNoise):
        if not may_hold(each, keys, whole):
            return Fraction(1)
        return _delta_of_noise(each, keys, whole.epsilon)
    if isinstance(each, RenyiSteps):
        left = whole.delta - keys * each.delta
        if left <= 0 or keys * each.divergence + conversion(each.order, left) > whole.epsilon:
            return Fraction(1)
        return whole.delta
    return composed_delta(each, keys, whole.epsilon)


@lru_cache(maxsize=64)
def may_hold(noise: KeyNoise, keys: int, whole: Privacy) -> bool:
    """Whether a proof that keys have this privacy together is worth beginning: in floats, and soon.

    A proof takes long for a long table, and so does all that is computed from its law.
    """
    most = _HOPELESS * float(whole.delta)
    new_keys = -math.expm1(keys * math.log1p(-float(noise.new_key)))
    if new_keys > most:
        return False
    return delta_in_floats(noise.probabilities, min(float(whole.epsilon), 700.0), keys) <= most


def _delta_of_noise(noise: KeyNoise, keys: int, epsilon: Fraction) -> Fraction:
    """The largest of ``j new_key + delta_{k - j}``: j keys are new, and k - j exist anyway (docs/theory.md, section 9).

    Without an offset no new key costs more than one that exists. For many keys, j goes by ranges: the cost of the new
    keys at the end of a range, and of the others at its start.
    """
    losses = Losses.of_atoms(noise_atoms(noise), noise.delta)
    if not noise.offset:
        return (losses**keys).delta(epsilon)
    starts = list(range(keys))
    if keys > _OFFSET_KEYS:
        starts = [0, *(1 << n for n in range((keys - 1).bit_length()))]
    worst = keys * noise.new_key
    existing = 0
    together: Losses | None = None  # of the keys that exist anyway
    for start, after in reversed(list(pairwise([*starts, keys]))):
        more = losses ** (keys - start - existing)
        together = more if together is None else together * more
        existing = keys - start
        most_new = after - 1
        worst = max(worst, most_new * noise.new_key + together.delta(epsilon))
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


@lru_cache(maxsize=64, typed=True)
def least_noise(whole: Privacy, keys: int, quick: bool = False) -> KeyNoise | None:
    """Return the noise, of least Rényi divergence at some order, that reports most and gives `keys` keys `whole`.

    An offset is chosen only where it reports keys at a lower frequency. None if the noise would be longer than a
    million cells.
    """
    orders = orders_near(float(whole.epsilon), float(whole.delta)).tolist()
    orders, shares = (orders[::2], _SHARES[:1]) if quick else (orders, _SHARES)
    shape: Shape = quick_shape if quick else recursive_shape
    plain = lowest(whole, keys, orders, shares, 0, None, shape)
    if plain is None:
        return None
    noise = _proved_noise(whole, keys, orders, plain, quick)
    if quick or keys > _OFFSET_KEYS or plain.reach > _OFFSET_REACH:
        return noise
    best = plain
    for offset in _OFFSETS:
        best = lowest(whole, keys, orders, _OFFSET_SHARES, offset, best, shape) or best
    if best is plain:
        return noise
    return min(noise, _proved_noise(whole, keys, orders, best, False), key=even_chance)


def _proved_noise(
    whole: Privacy, keys: int, orders: list[float], choice: Choice, quick: bool
) -> KeyNoise:
    """The table of a law; if floats were too bold, of one that is a little longer."""
    slope, shape = choice.slope, quick_shape if quick else recursive_shape
    while True:
        weights = shape(orders[choice.order], slope, choice.end, MOST_CELLS, choice.offset)
        assert weights is not None
        noise = KeyNoise.of(weights, choice.offset)
        if quick or _delta_together(noise, keys, whole) <= whole.delta:
            return noise
        slope *= 0.999


# --- Rényi steps -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64, typed=True)
@lru_cache(maxsize=256)
def largest_steps(whole: Privacy, keys: int, square: Fraction = Fraction(0)) -> RenyiSteps | None:
    """Return the Rényi steps that reach one half first, with which `keys` keys have `whole`; None if none do.

    `square` is the mu**2 of Gaussian noise that has its part of `whole` too.
    """
    options = []
    for share in _SHARES:
        delta = figures_below(whole.delta * Fraction(share) / keys, _FIGURES)
        for wanted in orders_near(float(whole.epsilon), float(whole.delta)).tolist():
            order = max(figures_below(Fraction(wanted), 3), Fraction(101, 100))
            left = (
                whole.epsilon - conversion(order, whole.delta - keys * delta) - order * square / 2
            )
            if left > 0:
                options.append(RenyiSteps(order, figures_below(left / keys, _FIGURES), delta))
    if not options:
        return None
    steps = steps_to_half(
        *([getattr(o, name) for o in options] for name in ("order", "divergence", "delta"))
    )
    best = int(np.argmin(steps))
    return options[best] if np.isfinite(steps[best]) else None

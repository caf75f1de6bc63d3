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
    NoiseSearch,
    delta_in_floats,
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

# With more keys, the composition theorem is never the best method, and is not tried.
_FEW_KEYS = 8
# Parts of delta that are tried for the ends of noise, or for the first of the Rényi steps.
_SHARES = (0.3, 0.1, 0.6)
# Offsets are tried where they can gain: for few keys and short noise. Beyond, the gain is below 1 %, and the search
# takes seconds.
_OFFSETS = (1, 2, 3)
_OFFSET_KEYS = 20
_OFFSET_REACH = 128
# The part of delta for new keys with an offset. Ledgers set it aside, so it is no more than without an offset.
_OFFSET_SHARES = (0.6,)
# Figures of the parameters of Rényi steps, rounded down.
_FIGURES = 9
# Noise whose delta in floats is more than twice the allowed one is refused without a proof, which takes long. Floats
# are far more precise than that.
_HOPELESS = 2
# An epsilon beyond this has an exp that is no float. In floats it is replaced by this one, which allows less.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class ManyKeysCertificate:
    """The proof that up to `keys` keys of a user, with `each` for one key, have the privacy `whole` together.

    `delta` is a proved upper bound of their delta at the epsilon of `whole`, and at most the delta of `whole`.
    """

    each: ManyKeys
    keys: int
    whole: Privacy
    delta: Fraction

    @property
    def method(self) -> str:
        """The method of the proof, in words."""
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
    """Prove that a user's keys have the privacy `whole` together; raise `PrivacyViolation` if they do not.

    >>> print(certify_many_keys(Privacy("0.033", "1e-8"), 50, Privacy(1, 1e-6)))
    Privacy(epsilon='1', delta='1e-06') holds for up to 50 keys together, each with Privacy(epsilon='0.033', \
delta='1e-08')
      by the optimal composition theorem, in interval arithmetic: delta is at most 8.3...e-07
    """
    check_keys_per_user(keys)
    delta = _delta_together(each, keys, whole)
    if delta > whole.delta:
        raise PrivacyViolation(
            f"{whole} does not hold for {keys:,} keys together, since delta may be {float(delta):.12g} with {each} for "
            "each; spend less on each"
        )
    return ManyKeysCertificate(each, keys, whole, delta)


def curve_of_keys(each: ManyKeys, keys: int, whole: Privacy) -> RenyiCurve:
    """Return an upper bound of the Rényi divergences of a user's keys together, if these have the privacy `whole`."""
    if isinstance(each, KeyNoise):
        return curve_of_noise(each) * keys
    if isinstance(each, RenyiSteps):
        together = keys * each.divergence
        return RenyiCurve.of_order(each.order, together, RenyiCurve.of_privacy(whole))
    return RenyiCurve.of_privacy(each) * keys


def curve_of_noise(noise: KeyNoise) -> RenyiCurve:
    """Return the curve of one key. The event that a new key is reported is set aside in its delta."""
    shifted = RenyiCurve.of_shifted(noise_atoms(noise), noise.delta)
    return replace(shifted, delta=noise.new_key)


def noise_atoms(noise: KeyNoise) -> "list[tuple[arb, arb]]":
    """Return the probabilities of each outcome under two frequencies that differ by one.

    Each frequency has one outcome, an end of the table, that the other one does not have. These two are left out.
    """
    masses = [dyadic(n, BITS) for n in noise.table]
    return [(mass, shifted) for shifted, mass in pairwise(masses)]


def _delta_together(each: ManyKeys, keys: int, whole: Privacy) -> Fraction:
    """Return a proved delta of `keys` keys together at the epsilon of `whole`; 1 if nothing is proved."""
    if whole.definition is not None:
        return delta_within(each, keys, whole)
    if isinstance(each, KeyNoise):
        if not may_hold(each, keys, whole):
            return Fraction(1)
        return _delta_of_noise(each, keys, whole.epsilon)
    if isinstance(each, RenyiSteps):
        delta_left = whole.delta - keys * each.delta
        if delta_left <= 0:
            return Fraction(1)
        epsilon = keys * each.divergence + conversion(each.order, delta_left)
        return whole.delta if epsilon <= whole.epsilon else Fraction(1)
    return composed_delta(each, keys, whole.epsilon)


@lru_cache(maxsize=64)
def may_hold(noise: KeyNoise, keys: int, whole: Privacy) -> bool:
    """Whether `keys` keys with this noise may have the privacy `whole`, by a quick computation in floats.

    It is asked first, since a proof for a long table takes long, as does everything that is computed from its law.
    """
    most = _HOPELESS * float(whole.delta)
    new_keys = -math.expm1(keys * math.log1p(-float(noise.new_key)))
    if new_keys > most:
        return False
    epsilon = min(float(whole.epsilon), _LARGEST_EXPONENT)
    return delta_in_floats(noise.probabilities, epsilon, keys) <= most


def _delta_of_noise(noise: KeyNoise, keys: int, epsilon: Fraction) -> Fraction:
    """Return a proved delta of `keys` keys: the largest of ``j new_key + delta_{k - j}`` over j (docs/theory.md, 9).

    Here j of the k keys are new, and the others exist without this user too. Without an offset, a new key never costs
    more than one that exists, and j = 0 is the worst. With many keys, j goes by ranges that double: each range counts
    with the new keys at its end and the others at its start, which is an upper bound.
    """
    losses = Losses.of_atoms(noise_atoms(noise), noise.delta)
    if not noise.offset:
        return (losses**keys).delta(epsilon)
    starts = list(range(keys))
    if keys > _OFFSET_KEYS:
        doubling = [1 << n for n in range((keys - 1).bit_length())]
        starts = [0, *doubling]
    ranges = list(pairwise([*starts, keys]))
    worst = keys * noise.new_key
    existing = 0
    together: Losses | None = None  # the losses of the keys that exist
    for start, after in reversed(ranges):
        more = losses ** (keys - start - existing)
        together = more if together is None else together * more
        existing = keys - start
        most_new = after - 1
        worst = max(worst, most_new * noise.new_key + together.delta(epsilon))
    return worst


@lru_cache(maxsize=64, typed=True)  # typed, so that True, which is refused, is not taken for 1
def chosen_per_key(
    whole: Privacy, keys: int, all_keys: bool = True, keys_only: bool = False, quick: bool = False
) -> ManyKeys:
    """Return the mechanism of each key, if a user has up to `keys` keys that together have the privacy `whole`.

    It is the one that reports keys with an even chance at the lowest frequency, and the first of equals.

    all_keys   whether keys are not sampled
    keys_only  whether keys are reported without tokens
    quick      for predictions: noise is found in floats alone, for fewer orders and without an offset, and is a little
               longer

    >>> [type(chosen_per_key(Privacy(1, 1e-6), keys)).__name__ for keys in (1, 2, 50)]
    ['Privacy', 'Privacy', 'KeyNoise']
    >>> even_chance(chosen_per_key(Privacy(1, 1e-6), 50)) < 130
    True
    """
    check_keys_per_user(keys)
    if whole.definition is not None:
        noise = noise_within(whole, keys) if all_keys else None
        return _lowest_even_chance(noise, scheme_within(whole, keys))
    candidates: list[ManyKeys | None] = []
    if keys <= _FEW_KEYS or not (all_keys or keys_only):
        candidates.append(per_key(whole, keys))
    if keys > 1 and all_keys and not keys_only:
        candidates.append(least_noise(whole, keys, quick))
    if keys > 1 and keys_only:
        candidates.append(largest_steps(whole, keys))
    if all(each is None for each in candidates):
        return per_key(whole, keys)
    return _lowest_even_chance(*candidates)


def _lowest_even_chance(*candidates: ManyKeys | None) -> ManyKeys:
    """Return the mechanism that reports keys with an even chance at the lowest frequency; the first of equals."""
    usable = [each for each in candidates if each is not None]
    return min(usable, key=even_chance)


def even_chance(each: PerKey) -> float:
    """Return the lowest frequency at which keys are reported with probability 1/2 or more, without sampling."""
    reached = frequency_reaching(0.5, KeepAll(), each)
    return math.inf if reached is None else float(reached)


# --- bounded noise ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64, typed=True)
def least_noise(whole: Privacy, keys: int, quick: bool = False) -> KeyNoise | None:
    """Return bounded noise with which `keys` keys have the privacy `whole`, and which reports most keys.

    Its law has the least Rényi divergence at some order. It has an offset only where it then reports keys at a lower
    frequency. None if the noise would be longer than a million cells.
    """
    orders = orders_near(float(whole.epsilon), float(whole.delta)).tolist()
    if quick:
        search = NoiseSearch(whole, keys, orders[::2], quick_shape)
        plain = search.lowest(_SHARES[:1])
        return None if plain is None else _noise_of(search, plain)

    search = NoiseSearch(whole, keys, orders, recursive_shape)
    plain = search.lowest(_SHARES)
    if plain is None:
        return None
    noise = _proved_noise(search, plain)
    if keys > _OFFSET_KEYS or plain.reach > _OFFSET_REACH:
        return noise
    best = plain
    for offset in _OFFSETS:
        best = search.lowest(_OFFSET_SHARES, offset, best) or best
    if best is plain:
        return noise
    return min(noise, _proved_noise(search, best), key=even_chance)


def _noise_of(search: NoiseSearch, choice: Choice) -> KeyNoise:
    """Return the table of a law that was found."""
    order = search.orders[choice.order]
    weights = search.shape(order, choice.slope, choice.end, MOST_CELLS, choice.offset)
    assert weights is not None
    return KeyNoise.of(weights, choice.offset)


def _proved_noise(search: NoiseSearch, choice: Choice) -> KeyNoise:
    """Return the table of a law that was found; if it cannot be proved private, that of a law that falls later."""
    while True:
        noise = _noise_of(search, choice)
        if _delta_together(noise, search.keys, search.whole) <= search.whole.delta:
            return noise
        choice = replace(choice, slope=choice.slope * 0.999)


# --- Rényi steps -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def largest_steps(whole: Privacy, keys: int, square: Fraction = Fraction(0)) -> RenyiSteps | None:
    """Return Rényi steps with which `keys` keys have the privacy `whole`, and which reach probability 1/2 first.

    `square` is the mu**2 of Gaussian noise that is covered by `whole` as well. None if no order leaves a divergence for
    the keys.
    """
    options = []
    for share in _SHARES:
        delta = figures_below(whole.delta * Fraction(share) / keys, _FIGURES)
        delta_left = whole.delta - keys * delta
        for wanted in orders_near(float(whole.epsilon), float(whole.delta)).tolist():
            order = max(figures_below(Fraction(wanted), 3), Fraction(101, 100))
            left = whole.epsilon - conversion(order, delta_left) - order * square / 2
            if left > 0:
                divergence = figures_below(left / keys, _FIGURES)
                options.append(RenyiSteps(order, divergence, delta))
    if not options:
        return None
    steps = steps_to_half(
        [option.order for option in options],
        [option.divergence for option in options],
        [option.delta for option in options],
    )
    best = int(np.argmin(steps))
    return options[best] if np.isfinite(steps[best]) else None

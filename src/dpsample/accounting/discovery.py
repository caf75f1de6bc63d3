"""Discovery and counts: what a release of users' keys without a contribution bound spends on each of its stages.

look       how many users have how many keys: discrete Laplace noise, at a share of epsilon
filled     how many keys could be filled by one key of each user, and by many: the same (`accounting.filled`)
discovery  which keys are reported: one key of each user, or many
counts     how many users have each of these keys, and the sums of their amounts: Gaussian noise, at a share of mu**2

The look, what is filled, and a total are paid for in epsilon. What they leave is shared by discovery and counts: with
one key of each user exactly (`scheme.composed_steps`), with many keys by Rényi divergence at one order. A part of delta
is set aside for the ends of the tables of Gaussian noise. Shares are fixed before anything is read (docs/theory.md,
section 10).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Literal

from dpsample.accounting.amounts import Amount, check_amounts, check_measured
from dpsample.accounting.clipped import Clipped
from dpsample.accounting.composition import MOST_KEYS
from dpsample.accounting.filled import FILLED_PARTS, Filled, fuller
from dpsample.accounting.lengths import MOST_GROUPS
from dpsample.accounting.many_keys import largest_steps
from dpsample.accounting.renyi import conversion
from dpsample.accounting.vectors import MOST_SQUARE, GaussianStage, VectorNoise, certify_vector_noise
from dpsample.balls import ball, precision
from dpsample.definitions import LEAST_EPSILON
from dpsample.errors import InvalidValue, PrivacyViolation
from dpsample.exact import MAX_FREQUENCY, exact, figures_below, text
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps, spent_by_noise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import KeepAll, Sampling

Method = Literal["one-key", "many-keys", "none"]
METHODS: tuple[Method, ...] = ("one-key", "many-keys", "none")
ALL = KeepAll()

LOOK_SHARE = Fraction(1, 50)  # of epsilon; the half of it if what is filled is compared, which costs the other half
COUNT_SHARE = Fraction(1, 4)  # of mu**2
FULL = 0.999  # a key is full with so many users that it is reported with this probability
_ASIDE = Fraction(1, 50)  # of delta
_PAST = 0.7  # of the largest capacity: with more keys it only falls further
_DOUBT = 1.0  # deviations of the look's noise by which a capacity is taken to be smaller than it seems
_NUMBERS_OF_KEYS = tuple(1 << n for n in range(1, 10))  # that users may keep: with more, noise decides more often
_FIGURES = 6
_LEAST_ASIDE = Fraction(1, 10**22)  # of delta, for each table; tables were made with 1e-24 at epsilon 0.1, 1 and 20
_MOST_USERS = 1 << 100  # more is no number of users, whatever its noise
_LEAST_SQUARE = Fraction(1, 10**8)  # less, and a table of noise would have more than a million cells

# the parts of the counts, and what each has of their mu**2
COUNT_PARTS = {
    "keys per user": Fraction(1, 20),
    "first counts": Fraction(3, 20),
    "lengths": Fraction(1, 20),
    "clipped": Fraction(1, 20),
    "counts": Fraction(7, 10),
}
# what each amount has for each 1 of COUNT_PARTS: its sums have as much as the counts of users
AMOUNT_PARTS = Fraction(7, 10), Fraction(1, 20), Fraction(1, 10)  # sums, clipped, beyond


def count_share(amounts: int) -> Fraction:
    """Return the default share of mu**2 for users and this number of amounts: each has a third of what discovery has.

    >>> [str(count_share(n)) for n in range(3)]
    ['1/4', '2/5', '1/2']
    """
    return COUNT_SHARE * (1 + amounts) / (1 + COUNT_SHARE * amounts)


def count_parts(amounts: tuple[Amount, ...] = ()) -> dict[str, Fraction]:
    """Return the parts of the counts, those of amounts included, and what each has of their mu**2."""
    parts = dict(COUNT_PARTS)
    for amount in amounts:
        parts |= zip(amount.parts, AMOUNT_PARTS, strict=True)
    whole = sum(parts.values())
    return {name: share / whole for name, share in parts.items()}


@dataclass(frozen=True)
class UserBudget:
    """How the privacy of a release without a contribution bound is divided.

    >>> budget = UserBudget(Privacy(1, 1e-6), counts=COUNT_SHARE)
    >>> float(budget.square), budget.one_key().steps, budget.many_keys(50).steps
    (0.0140072, 19.0, 100.0)
    """

    privacy: Privacy
    look: Fraction = Fraction(0)  # share of epsilon
    total: Fraction = Fraction(0)  # share of epsilon
    counts: Fraction = Fraction(0)  # share of mu**2
    discovers: bool = True  # otherwise known keys alone are counted, with all of it
    amounts: tuple[Amount, ...] = ()  # that are summed beside users
    filled: Fraction = Fraction(0)  # share of epsilon, to compare one key of each user with many

    def __post_init__(self) -> None:
        if self.privacy.definition is not None:
            raise InvalidValue(
                "keys without a contribution bound are found with an epsilon and a delta",
                f"{self.privacy}",
                "state Privacy(epsilon, delta), or set `max_keys_per_user`",
            )
        before = self.look + self.filled + self.total
        if not (before < 1 and 0 <= self.counts < 1 + (not self.discovers)):
            raise InvalidValue(
                "the shares for the look, the total and the counts must leave some of the privacy for the keys",
                f"{text(before)} of epsilon, {text(self.counts)} of mu**2",
                "choose smaller ones",
            )
        if self.counts and self.square * min(self.parts.values()) < _LEAST_SQUARE * min(COUNT_PARTS.values()):
            raise InvalidValue(
                "counts of users need a larger epsilon",
                f"epsilon {text(self.left.epsilon)}, of which {text(self.counts)} of mu**2 is for counts",
                "release keys only with `keys_only=True`, or choose a larger one",
            )
        if self.counts and self.aside < _LEAST_ASIDE:
            raise InvalidValue(
                "counts of users need a larger delta, for their noise is drawn from tables of 128 bits",
                f"delta {text(self.left.delta)}",
                "release keys only with `keys_only=True`, or choose a larger one, such as 1e-18",
            )
        if self.counts and self.square * max(self.parts.values()) > MOST_SQUARE:
            raise InvalidValue(
                "the Gaussian noise of counts needs a smaller epsilon",
                f"epsilon {text(self.left.epsilon)}, of which {text(self.counts)} of mu**2 is for counts",
                "choose a smaller epsilon, or `count_share`",
            )

    @property
    def filled_epsilons(self) -> tuple[Fraction, ...]:
        """What it costs to measure what one key of each user fills, and what many keys fill; empty if neither is."""
        return tuple(self.privacy.share(self.filled * part) for part in FILLED_PARTS) if self.filled else ()

    @property
    def left(self) -> Privacy:
        """What the look, what is filled and the total leave to discovery and counts."""
        epsilons = [self.privacy.share(share) for share in (self.look, self.total) if share]
        return self.privacy.less([*epsilons, *self.filled_epsilons])

    @cached_property
    def square(self) -> Fraction:
        """mu**2 of all Gaussian noise of the counts."""
        if not self.discovers:
            return whole_square(self.steps)
        return figures_below(self.counts * whole_square(self.left), _FIGURES) if self.counts else Fraction(0)

    @cached_property
    def parts(self) -> dict[str, Fraction]:
        """The parts of the counts, and what each has of their mu**2."""
        return count_parts(self.amounts)

    @property
    def aside(self) -> Fraction:
        """The part of delta for the end of one table of Gaussian noise."""
        return aside_for(self.left.delta, len(self.parts))

    @property
    def steps(self) -> Privacy:
        """The epsilon and delta that discovery and the Gaussian noise have together."""
        aside = len(self.parts) * self.aside if self.counts else Fraction(0)
        return Privacy(self.left.epsilon, self.left.delta - aside)

    def one_key(self) -> Privacy | ComposedSteps:
        """Return that by which keys are reported if each user gives one."""
        return ComposedSteps(self.steps.epsilon, self.steps.delta, self.square) if self.counts else self.steps

    def many_keys(self, keys: int) -> RenyiSteps | None:
        """Return that by which keys are reported if each user gives so many; None if nothing is left for it."""
        return largest_steps(self.steps, keys, self.square)


def aside_for(delta: Fraction, parts: int) -> Fraction:
    """Return the delta that is set aside for the end of one table of Gaussian noise, with this number of tables."""
    return figures_below(delta * _ASIDE / parts, _FIGURES)


@lru_cache(maxsize=64)
def whole_square(privacy: Privacy) -> Fraction:
    """Return the mu**2 of Gaussian noise that has this privacy, about, rounded down (Balle and Wang, 2018)."""
    epsilon, delta, phi = float(privacy.epsilon), float(privacy.delta), NormalDist().cdf
    low, high = 0.0, 100.0
    for _ in range(100):
        mu = (low + high) / 2
        ratio = epsilon / mu
        spent = phi(mu / 2 - ratio) - math.exp(min(epsilon, 700.0)) * phi(-mu / 2 - ratio)
        low, high = (low, mu) if spent > delta else (mu, high)
    return figures_below(Fraction(low) ** 2, _FIGURES)


def capacity_cap(each: PerKey, sampling: Sampling = ALL) -> int:
    """Return the number of users at which a key is full."""
    reached = frequency_reaching(FULL, sampling, each)
    assert reached is not None  # all keys are reported from some frequency on
    return reached


@dataclass(frozen=True)
class UsersByKeys:
    """A histogram of users by their number of keys: up to 1, 4, 16, ..., 1024, and more; it costs an epsilon."""

    users: tuple[int, ...]
    epsilon: Fraction
    EDGES: ClassVar[tuple[int, ...]] = tuple(4**i for i in range(7))

    def kept(self, most: int) -> float:
        """Estimate how many keys users keep in all if each keeps up to `most`: a sum over users of min(most, keys)."""
        return sum(users * kept for users, kept in zip(self.users, self._kept_each(most), strict=True))

    def kept_with_doubt(self, most: int) -> float:
        """Return the same, less a deviation of its noise, so that a sum is seldom large by noise alone."""
        squares = sum(kept * kept for kept in self._kept_each(most))
        return self.kept(most) - _DOUBT * math.sqrt(2 * squares) / float(self.epsilon)

    def _kept_each(self, most: int) -> list[float]:
        """How many keys a user of each range keeps, about, if each keeps up to `most`."""
        lowest = (1, *(edge + 1 for edge in self.EDGES[:-1]))
        return [min(float(most), (low + high) / 2) for low, high in zip(lowest, self.EDGES, strict=True)]


class TrueLook(UsersByKeys):
    """The histogram without noise, as if it had cost its epsilon: for a forecast. NOT private; no release has one."""

    def __repr__(self) -> str:
        return "TrueLook()"


@dataclass(frozen=True)
class Look(UsersByKeys):
    """The histogram with noise, as a release states it. Adding or removing a user changes one number by one."""

    def __post_init__(self) -> None:
        _check_look(self)

    @property
    def most(self) -> int:
        """The largest number of keys that a notable number of users have: beyond it there is noise alone."""
        return self.EDGES[len(self._cleaned) - 1]

    @cached_property
    def _cleaned(self) -> list[float]:
        """The numbers of users, none negative, up to the last that rises above the noise with all after it."""
        return cleaned(self.users, math.sqrt(2) / float(self.epsilon))

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {"users": list(self.users), "epsilon": text(self.epsilon)}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Look":
        """Read the JSON form back."""
        return cls(tuple(form["users"]), exact(form["epsilon"], "epsilon"))


def _check_look(look: Look) -> None:
    """Refuse a look without noise, and numbers that are no noisy numbers of users."""
    if look.epsilon < LEAST_EPSILON:
        raise InvalidValue(
            f"the epsilon of a look at users must be at least {text(LEAST_EPSILON)}",
            text(look.epsilon),
            "get the release again from where it was written",
        )
    numbers = all(type(n) is int and abs(n) < _MOST_USERS for n in look.users)
    if not numbers or len(look.users) != len(look.EDGES):
        raise InvalidValue(
            "a look has a whole number for each range of keys",
            "others",
            "get the release again from where it was written",
        )


def cleaned(numbers: tuple[int, ...] | list[int], deviation: float) -> list[float]:
    """Leave out what is noise alone at the end of a noisy histogram; no number is negative.

    The last row that is kept is the last one whose sum with all after it exceeds four deviations of that sum.
    """
    after, last = 0.0, 0
    for n in range(len(numbers) - 1, 0, -1):
        after += numbers[n]
        if after > 4 * deviation * math.sqrt(len(numbers) - n):
            last = n
            break
    return [max(float(n), 0.0) for n in numbers[: last + 1]]


def promising_keys(budget: UserBudget, look: UsersByKeys, sampling: Sampling = ALL) -> int:
    """Choose with how many keys of each user the most could be found, one key apart, from the look alone.

    The capacity of k keys is what users give, in all, over the users that a key needs for an even chance. Users give
    the sum of min(k, their keys). Of the powers of two from 2 to 512, the one of largest capacity is chosen; 1 if
    nothing is left for many keys.
    """
    more = sampling.least - 1
    best, chosen = -math.inf, 1
    for k in _NUMBERS_OF_KEYS:
        each = budget.many_keys(k)
        if each is None:
            continue
        capacity = look.kept_with_doubt(k) / (each.steps + more)
        if capacity > best:
            best, chosen = capacity, k
        elif capacity < _PAST * best:
            break
    return chosen


@dataclass(frozen=True)
class Discovery:
    """How the keys of a release were found: its public record.

    `keys` is the number of keys of each user that were looked at: 0 with the method "none", if known keys were counted
    and no others. `full` is the number of users from which on a key
    takes no more, if users gave one key each. `prior` says that the keys of an earlier release came first. `filled` has
    what one key of each user fills, and what many keys fill, if these were compared: they chose the method.
    """

    method: Method
    keys: int
    full: int | None = None
    look: Look | None = None
    prior: bool = False
    filled: tuple[Filled, ...] = ()

    def __post_init__(self) -> None:
        _check_discovery(self)

    @property
    def bought(self) -> tuple[Look | Filled, ...]:
        """What was bought with an epsilon of its own before keys were discovered."""
        return (*(() if self.look is None else (self.look,)), *self.filled)

    @property
    def follows(self) -> bool:
        """Whether the method is the one that fills more, where this was compared."""
        return not self.filled or fuller(self.filled).keys == self.keys

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        optional = {
            "full": self.full,
            "look": self.look and self.look.to_json(),
            "filled": [way.to_json() for way in self.filled] or None,
            "prior": self.prior or None,
        }
        stated = {name: value for name, value in optional.items() if value is not None}
        return {"method": self.method, "keys": self.keys, **stated}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Discovery":
        """Read the JSON form back."""
        look = Look.from_json(form["look"]) if "look" in form else None
        filled = tuple(Filled.from_json(way) for way in form.get("filled", ()))
        return cls(form["method"], form["keys"], form.get("full"), look, form.get("prior", False), filled)

    def __str__(self) -> str:
        if self.method == "none":
            return "nothing: known keys alone"
        how = f"one key of each user, up to {self.full:,} users for a key" if self.full else f"up to {self.keys:,} keys"
        return how + (" of each user" if not self.full else "") + (", those of an earlier release first" * self.prior)


def _check_discovery(found: Discovery) -> None:
    """Refuse numbers of keys, and full keys, that no method has."""
    least, most = {"one-key": (1, 1), "many-keys": (1, MOST_KEYS), "none": (0, 0)}.get(found.method, (1, 0))
    numbers = type(found.keys) is int and least <= found.keys <= most
    full = found.full is None
    if found.method == "one-key":
        full = type(found.full) is int and 1 <= found.full <= MAX_FREQUENCY
    if not numbers or not full or type(found.prior) is not bool:
        raise InvalidValue(
            "keys are found by one key of each user, up to a full one, or by many",
            "another method",
            "get the release again from where it was written",
        )
    if found.filled and ([way.keys > 1 for way in found.filled] != [False, True] or found.look is None):
        raise InvalidValue(
            "after a look, one key of each user is compared with many",
            "another comparison",
            "get the release again from where it was written",
        )


@dataclass(frozen=True)
class Counts:
    """The Gaussian noise of each part of the counts, and what they found of clipping: the public record.

    `clipped` is the share of users, averaged over keys, that clipping took away, and that was put back. It was measured
    for groups of keys. `groups` has, for each, about the least number of users of its keys, ascending, and the relative
    error that its keys have in common; the last one are keys that were not clipped, without such an error. `amounts`
    has what was summed beside users, and what clipping did to it.
    """

    noise: tuple[VectorNoise, ...]  # in the order of `parts`
    clipped: float
    groups: tuple[tuple[float, float], ...] = ()
    amounts: tuple[Clipped, ...] = ()

    def __post_init__(self) -> None:
        check_amounts(clipped.amount for clipped in self.amounts)
        _check_groups(self)

    @property
    def parts(self) -> list[str]:
        """The names of the parts."""
        return list(count_parts(tuple(clipped.amount for clipped in self.amounts)))

    def stages(self) -> list[GaussianStage]:
        """Prove what each part costs, from its integers."""
        return [certify_vector_noise(noise) for noise in self.noise]

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        parts = {name: noise.to_json() for name, noise in zip(self.parts, self.noise, strict=True)}
        amounts = {"amounts": [clipped.to_json() for clipped in self.amounts]} if self.amounts else {}
        return {"noise": parts, "clipped": self.clipped, "groups": [list(group) for group in self.groups], **amounts}

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Counts":
        """Read the JSON form back."""
        amounts = tuple(Clipped.from_json(clipped) for clipped in form.get("amounts", ()))
        parts = count_parts(check_amounts(clipped.amount for clipped in amounts))
        if set(form["noise"]) != set(parts):
            raise InvalidValue("counts have noise for each of their parts", "others", "upgrade dpsample")
        return cls(
            tuple(VectorNoise.from_json(form["noise"][name]) for name in parts),
            float(form["clipped"]),
            tuple((float(least), float(error)) for least, error in form["groups"]),
            amounts,
        )


def _check_groups(counts: Counts) -> None:
    """Refuse what was measured of clipping if it is not of a few groups of keys, the same for all amounts."""
    least, errors = [group[0] for group in counts.groups], [group[1] for group in counts.groups]
    check_measured("what clipping did to counts", (counts.clipped, *least), errors)
    several = all(len(clipped.groups) == len(counts.groups) for clipped in counts.amounts)
    if len(counts.groups) > MOST_GROUPS + 1 or least != sorted(least) or not several:
        raise InvalidValue(
            f"clipping is measured for up to {MOST_GROUPS} groups of keys, in the order of their users",
            "others",
            "get the release again from where it was written",
        )


@dataclass(frozen=True)
class UsersCertificate:
    """What discovery and counts cost one user together: at most `whole`, since `delta` is not above its."""

    discovery: Discovery
    each: PerKey
    stages: tuple[GaussianStage, ...]
    whole: Privacy
    delta: Fraction
    parts: tuple[str, ...] = ()  # names of the stages

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        return {
            "discovery": self.discovery.to_json(),
            "each": self.each.to_json(),
            "stages": [str(stage) for stage in self.stages],
            "whole": self.whole.to_json(),
            "delta_found": f"{float(self.delta):.17g}",
        }

    def __str__(self) -> str:
        how = {
            "one-key": f"one unit of a user moves at one key, whatever number of keys users have, {self.each}",
            "many-keys": f"each user keeps up to {self.discovery.keys:,} keys, {self.each}",
            "none": "none, known keys alone are counted",
        }[self.discovery.method]
        lines = [f"{self.whole} holds for discovery and counts together", f"  discovery: {how}"]
        lines += [f"  {name}: {stage}" for name, stage in zip(self.parts, self.stages, strict=True)]
        return "\n".join([*lines, f"  delta is at most {float(self.delta):.12g}"])


def certify_users(discovery: Discovery, each: PerKey, counts: Counts | None, whole: Privacy) -> UsersCertificate:
    """Prove what discovery and counts cost together; raises `PrivacyViolation` if that is more than `whole`.

    That the scheme `each` is what it says is proved by `scheme.certify`.
    """
    noise = counts.noise if counts else ()
    square = sum((part.square for part in noise), Fraction(0))
    _require_private(discovery, each, square, Fraction(0), whole)  # before tables are made, which takes longer
    stages = tuple(counts.stages()) if counts else ()
    aside = sum((stage.delta for stage in stages), Fraction(0))
    _require_private(discovery, each, square, aside, whole)
    one_key = discovery.method == "one-key" and not isinstance(each, RenyiSteps)
    delta = each.delta + aside if one_key else whole.delta
    return UsersCertificate(discovery, each, stages, whole, delta, tuple(counts.parts) if counts else ())


def _require_private(discovery: Discovery, each: PerKey, square: Fraction, aside: Fraction, whole: Privacy) -> None:
    """Refuse discovery beside Gaussian noise of this mu**2, with this delta set aside, if they spend more than all."""
    left = whole.delta - aside
    held = False
    if isinstance(each, RenyiSteps) and discovery.method == "many-keys":
        after = left - discovery.keys * each.delta
        spent = discovery.keys * each.divergence + each.order * square / 2
        held = after > 0 and spent + conversion(each.order, after) <= whole.epsilon
    elif isinstance(each, ComposedSteps) and discovery.method == "one-key":
        held = each.epsilon <= whole.epsilon and each.delta <= left and square <= each.square
    elif isinstance(each, Privacy) and discovery.method == "one-key":
        held = each.definition is None and each.epsilon <= whole.epsilon and each.delta <= left and not square
    elif discovery.method == "none" and square and left > 0:
        with precision():
            held = bool(spent_by_noise(ball(whole.epsilon), square) <= ball(left))
    if not held:
        raise PrivacyViolation(
            f"{whole} must hold for discovery and counts together; found parts that spend more; do not trust this"
        )

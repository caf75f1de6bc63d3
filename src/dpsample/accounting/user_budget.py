"""The budget of a release of users without a contribution bound: how its privacy is divided among the stages.

The look, what is filled, and a total are paid for in epsilon. Discovery and counts share the rest: with one key of each
user by exact composition (`scheme.composed_steps`), with many keys by Rényi divergence at one order. A part of delta is
set aside for the ends of the tables of Gaussian noise. Shares are fixed before anything is read (docs/theory.md,
section 10).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

from dpsample.accounting.amounts import Amount
from dpsample.accounting.counts import COUNT_PARTS, count_parts
from dpsample.accounting.filled import FILLED_PARTS
from dpsample.accounting.many_keys import largest_steps
from dpsample.accounting.vectors import MOST_SQUARE
from dpsample.errors import InvalidValue
from dpsample.exact import figures_below, text
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.renyi_steps import RenyiSteps

# The share of epsilon for the look. If ways of discovery are compared, the look has half of it, and the comparison the
# other half.
LOOK_SHARE = Fraction(1, 50)
# The share of delta that is set aside for the ends of all tables of Gaussian noise.
_ASIDE = Fraction(1, 50)
# Significant figures of mu**2 and of the delta set aside, so that files state short numbers.
_FIGURES = 6
# The least delta for the end of one table. Tables were made with 1e-24 at epsilon 0.1, 1 and 20.
_LEAST_ASIDE = Fraction(1, 10**22)
# The least mu**2 of the smallest part: below it, a table of noise has more than a million cells.
_LEAST_SQUARE = Fraction(1, 10**8)
# The largest mu, which is found by bisection. A hundred halvings are more than floats can tell apart.
_LARGEST_MU = 100.0
_BISECTIONS = 100
# The exp of a larger number is no float. With this one instead, mu only becomes smaller.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class UserBudget:
    """How the privacy of a release without a contribution bound is divided.

    look       the share of epsilon for the look at how many keys users have
    total      the share of epsilon for a private total of their keys
    counts     the share of mu**2 for counting the users of discovered keys
    discovers  whether keys are discovered; if not, known keys alone are counted, with the whole budget
    amounts    the amounts that are summed beside users
    filled     the share of epsilon for comparing one key of each user with many keys

    >>> from dpsample.accounting.counts import COUNT_SHARE
    >>> budget = UserBudget(Privacy(1, 1e-6), counts=COUNT_SHARE)
    >>> float(budget.square), budget.one_key().steps, budget.many_keys(50).steps
    (0.0140072, 19.0, 100.0)
    """

    privacy: Privacy
    look: Fraction = Fraction(0)
    total: Fraction = Fraction(0)
    counts: Fraction = Fraction(0)
    discovers: bool = True
    amounts: tuple[Amount, ...] = ()
    filled: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.privacy.definition is not None:
            raise InvalidValue(
                f"users without a contribution bound are protected by an epsilon and a delta, not by {self.privacy}",
                "state Privacy(epsilon, delta), or set `max_keys_per_user`",
            )
        before = self.look + self.filled + self.total
        largest_counts = 1 if self.discovers else 2  # known keys alone may have all of it
        if not (before < 1 and 0 <= self.counts < largest_counts):
            raise InvalidValue(
                f"the look and the total take {text(before)} of epsilon, and the counts {text(self.counts)} of mu**2: "
                "nothing is left for the keys",
                "choose smaller shares",
            )
        if self.counts:
            self._check_counts()

    def _check_counts(self) -> None:
        """Refuse a budget for which the tables of Gaussian noise would be too long, too short or not exact enough."""
        spent = f"epsilon {text(self.left.epsilon)} with {text(self.counts)} of mu**2 for counts"
        smallest_square = self.square * min(self.parts.values())
        largest_square = self.square * max(self.parts.values())
        if smallest_square < _LEAST_SQUARE * min(COUNT_PARTS.values()):
            raise InvalidValue(
                f"{spent} is too small to count users",
                "release keys only with `keys_only=True`, or choose a larger epsilon",
            )
        if self.aside < _LEAST_ASIDE:
            raise InvalidValue(
                f"delta {text(self.left.delta)} is too small to count users: noise is drawn from tables of 128 bits",
                "release keys only with `keys_only=True`, or choose a larger delta, such as 1e-18",
            )
        if largest_square > MOST_SQUARE:
            raise InvalidValue(
                f"{spent} is too large for Gaussian noise",
                "choose a smaller epsilon, or a smaller `count_share`",
            )

    @property
    def filled_epsilons(self) -> tuple[Fraction, ...]:
        """The epsilons of the noisy numbers for one key of each user and for many; empty if they are not compared."""
        if not self.filled:
            return ()
        shares = [self.filled * part for part in FILLED_PARTS]
        return tuple(map(self.privacy.share, shares))

    @property
    def left(self) -> Privacy:
        """The privacy that is left for discovery and counts, after the look, the comparison and the total."""
        epsilons = [self.privacy.share(share) for share in (self.look, self.total) if share]
        return self.privacy.less([*epsilons, *self.filled_epsilons])

    @cached_property
    def square(self) -> Fraction:
        """The mu**2 of all Gaussian noise of the counts."""
        if not self.discovers:
            return whole_square(self.steps)
        if not self.counts:
            return Fraction(0)
        return figures_below(self.counts * whole_square(self.left), _FIGURES)

    @cached_property
    def parts(self) -> dict[str, Fraction]:
        """The parts of the counts, and the share of mu**2 of each."""
        return count_parts(self.amounts)

    @property
    def aside(self) -> Fraction:
        """The part of delta for the end of one table of Gaussian noise."""
        return aside_for(self.left.delta, len(self.parts))

    @property
    def steps(self) -> Privacy:
        """The epsilon and delta that discovery and the Gaussian noise have together, without what is set aside."""
        aside = Fraction(0)
        if self.counts:
            aside = len(self.parts) * self.aside
        return Privacy(self.left.epsilon, self.left.delta - aside)

    def one_key(self) -> Privacy | ComposedSteps:
        """Return the per-key mechanism when each user contributes one key."""
        if not self.counts:
            return self.steps
        return ComposedSteps(self.steps.epsilon, self.steps.delta, self.square)

    def many_keys(self, keys: int) -> RenyiSteps | None:
        """Return the per-key mechanism when each user contributes `keys` keys, or None if the budget is too small."""
        return largest_steps(self.steps, keys, self.square)


def aside_for(delta: Fraction, parts: int) -> Fraction:
    """Return the delta that is set aside for the end of one table of Gaussian noise, if there are `parts` tables."""
    return figures_below(delta * _ASIDE / parts, _FIGURES)


@lru_cache(maxsize=64)
def whole_square(privacy: Privacy) -> Fraction:
    """Return about the largest mu**2 of Gaussian noise that has this privacy, rounded down, by bisection.

    The delta of Gaussian noise is ``Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu)`` (Balle and
    Wang, 2018, theorem 8). It is computed in floats, since the result only decides how the budget is divided:
    `user_proof` proves that the parts are private together.
    """
    epsilon = float(privacy.epsilon)
    delta = float(privacy.delta)
    phi = NormalDist().cdf
    exp_epsilon = math.exp(min(epsilon, _LARGEST_EXPONENT))
    low = 0.0
    high = _LARGEST_MU
    for _ in range(_BISECTIONS):
        mu = (low + high) / 2
        ratio = epsilon / mu
        spent = phi(mu / 2 - ratio) - exp_epsilon * phi(-mu / 2 - ratio)
        if spent > delta:
            high = mu
        else:
            low = mu
    return figures_below(Fraction(low) ** 2, _FIGURES)

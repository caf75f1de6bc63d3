"""Composed steps: reporting probabilities of one key, beside Gaussian noise on other numbers of the same user.

A user changes one coin, from pi_{i-1} to pi_i, and numbers with Gaussian noise of mu**2 in all. With H the delta of
that noise at any epsilon,

    H(e) = Phi(mu / 2 - e / mu) - exp(e) Phi(-mu / 2 - e / mu)

both together spend, from a coin r to a coin p, the delta

    p H(epsilon - ln(p / r)) + (1 - p) H(epsilon - ln((1 - p) / (1 - r)))

and pi_i is the largest p for which neither direction spends more than delta: (4) of docs/theory.md, section 10. No
scheme beside such noise reports a key with a larger probability; without noise these are the steps of `reporting`. Each
step is decided in ball arithmetic.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from dpsample.balls import ball, dyadic, precision
from dpsample.definitions import gaussian_delta
from dpsample.errors import InvalidValue
from dpsample.exact import exact, figures_below, text
from dpsample.scheme.bisection import last_float
from dpsample.scheme.law import PerKeyMethod
from dpsample.scheme.renyi_steps import LONGEST_STEP, MOST_STEPS, StepReporting, softplus
from dpsample.scheme.reporting import Points
from dpsample.scheme.sampling import Flags, KeepAll, Sampling

if TYPE_CHECKING:
    from flint import arb

_PRECISION = 256  # bits of ball arithmetic
_FIGURES = 9  # of the first step, which a release states
_BISECTIONS = 50  # of the first step: far more than its figures need
_ROOT_2 = math.sqrt(2)
_MOST_EXPONENT = 700.0  # exp of it is a float; the other factor is then 0


@dataclass(frozen=True)
class ComposedSteps(PerKeyMethod):
    """The largest steps that have (epsilon, delta) together with Gaussian noise; `square` is its mu**2.

    >>> steps = ComposedSteps(Fraction(1), Fraction("1e-6"), Fraction("0.01"))
    >>> steps.steps
    18.0
    """

    epsilon: Fraction
    delta: Fraction
    square: Fraction
    name: ClassVar[str] = "composed steps"

    def __post_init__(self) -> None:
        are_defined = self.epsilon > 0 and 0 < self.delta < 1 and self.square > 0
        if not are_defined or self.first <= 0:
            raise InvalidValue(
                f"Gaussian noise of mu**2 = {text(self.square)} leaves nothing of epsilon {text(self.epsilon)}, delta "
                f"{text(self.delta)} for the keys",
                "spend less on counts",
            )

    def reporting(self, sampling: Sampling) -> "ComposedReporting":  # noqa: D102
        if not isinstance(sampling, KeepAll):
            raise InvalidValue(
                f"composed steps are for all keys, not for {sampling}", "leave sampling out"
            )
        return ComposedReporting(sampling, self)

    @cached_property
    def first(self) -> Fraction:
        """The step from 0, and the last one, to 1: at most delta, of few figures; 0 if there is none."""
        low = Fraction(0)
        high = self.delta
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self._allows_first(middle):
                low = middle
            else:
                high = middle
        if not low:
            return low
        step = figures_below(low, _FIGURES)
        return step if self._allows_first(step) else Fraction(0)

    def _allows_first(self, step: Fraction) -> bool:
        """Whether a step from 0 is proved. A report costs its probability in full: without the user there is none."""
        with precision(_PRECISION):
            p = ball(step)
            most = ball(self.delta)
            log_absent = (1 - p).log()
            added = p + (1 - p) * self._spent(self._epsilon - log_absent)
            removed = self._spent(self._epsilon + log_absent)
            return bool(added <= most and removed <= most)

    @cached_property
    def steps(self) -> float:
        """The number of steps that pi needs from 0 to one half."""
        logit = math.log(self.first) - math.log1p(-self.first)
        steps = 1
        while logit < 0 and steps < MOST_STEPS:
            logit = self.next_logit(logit)
            steps += 1
        return float(steps)

    def next_logit(self, logit: float) -> float:
        """Return ln(p / (1 - p)) of the largest next p, in floats."""
        # Steps are sought around this, so that pi of a file follows from these very floats: do not reorder them.
        spent = self._spent_in_floats
        delta = self._delta_below

        def is_too_far(now: float) -> bool:
            return spent(now, logit) > delta or spent(logit, now) > delta

        return last_float(is_too_far, logit, logit + LONGEST_STEP)

    @cached_property
    def _delta_below(self) -> float:
        """The largest float up to delta: a float is above delta if it is above this one."""
        delta = float(self.delta)
        return delta if Fraction(delta) <= self.delta else math.nextafter(delta, 0)

    @cached_property
    def _epsilon_and_mu(self) -> tuple[float, float]:
        return float(self.epsilon), math.sqrt(self.square)

    def _spent_in_floats(self, now: float, before: float) -> float:
        """Return the delta that coin and noise spend in one direction; coins are given by their logits."""
        epsilon, mu = self._epsilon_and_mu
        total = 0.0
        for sign in (1, -1):  # reported, and not reported
            log_p = -softplus(-sign * now)
            log_r = -softplus(-sign * before)
            # H at e = epsilon - ln(p / r), as in the docstring of this module; Phi(-x) is erfc(x / sqrt(2)) / 2
            e = epsilon - log_p + log_r
            near = (e / mu - mu / 2) / _ROOT_2
            far = (e / mu + mu / 2) / _ROOT_2
            growth = math.exp(min(e, _MOST_EXPONENT))
            twice_H = math.erfc(near) - growth * math.erfc(far)
            total += math.exp(log_p) * twice_H / 2
        return total

    def proves(self, now: int, before: int, bits: int) -> bool:
        """Whether a step between two probabilities over 2**bits is proved, in both directions."""
        one = 1 << bits
        with precision(_PRECISION):
            p = dyadic(now, bits)
            p_not = dyadic(one - now, bits)
            r = dyadic(before, bits)
            r_not = dyadic(one - before, bits)
            loss_if_reported = (p / r).log()
            loss_if_absent = (p_not / r_not).log()
            epsilon = self._epsilon
            there_reported = p * self._spent(epsilon - loss_if_reported)
            there_absent = p_not * self._spent(epsilon - loss_if_absent)
            back_reported = r * self._spent(epsilon + loss_if_reported)
            back_absent = r_not * self._spent(epsilon + loss_if_absent)
            there = there_reported + there_absent
            back = back_reported + back_absent
            most = ball(self.delta)
            return bool(there <= most and back <= most)

    @property
    def _epsilon(self) -> "arb":
        return ball(self.epsilon)

    def _spent(self, epsilon: "arb") -> "arb":
        return spent_by_noise(epsilon, self.square)

    def claim(self, sampling: Sampling) -> str:  # noqa: D102
        return f"one key of each user: {self}"

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "method": self.name,
            "epsilon": text(self.epsilon),
            "delta": text(self.delta),
            "square": text(self.square),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "ComposedSteps":
        """Read the JSON form back."""
        epsilon = exact(form["epsilon"], "epsilon")
        delta = exact(form["delta"], "delta")
        square = exact(form["square"], "square")
        return cls(epsilon, delta, square)

    def __str__(self) -> str:
        return (
            f"epsilon {text(self.epsilon)}, delta {text(self.delta)} together with Gaussian noise of "
            f"mu**2 = {float(self.square):.6g}"
        )


def spent_by_noise(epsilon: "arb", square: Fraction) -> "arb":
    """H: the delta of Gaussian noise alone at an epsilon of any sign."""
    return gaussian_delta(epsilon, ball(square).sqrt())


class ComposedReporting(StepReporting):
    """Pi of composed steps, for all keys."""

    def __init__(self, sampling: KeepAll, steps: ComposedSteps) -> None:
        self.per_key = steps
        super().__init__(sampling, steps)

    def _is_wide(self, low: Points, high: Points) -> Flags:
        is_wide: Flags = high.q > low.q  # of all keys, q goes from 0 to 1 at once
        return is_wide

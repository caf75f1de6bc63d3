"""Rényi steps: reporting probabilities for many keys of one user, keys only.

A key is reported or not, so a user changes one coin for each of up to k keys, each by one step from pi_{i-1} to pi_i.
Rényi divergences of one order add up, at whatever frequencies the keys are, so the largest steps are

    pi_1 = delta,   pi_i = min(q_i, the largest p with D(p || pi_{i-1}) and D(pi_{i-1} || p) at most r)

with D the divergence of that order between two coins, and delta set aside for the first step, and for the last
(docs/theory.md, section 9). Each step is decided in ball arithmetic: p has 32 significant bits, and one unit more would
not be proved. Floats, in which coins are given by their logits ln(p / (1 - p)), only say where to look.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpsample.balls import ball, dyadic, precision
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.scheme.bisection import last_float
from dpsample.scheme.law import PerKeyMethod
from dpsample.scheme.reporting import Points, Reporting
from dpsample.scheme.sampling import Flags, Floats, Sampling

if TYPE_CHECKING:
    from flint import arb

_FIGURES = 32  # significant bits of a step: with fewer, less is reported; with more, proofs need more precision
MARGIN = Fraction(1, 1 << 30)  # of r, for the rounding of q
MOST_STEPS = 1 << 20  # from 0 to one half: more would take minutes
_PRECISION = 192  # bits of ball arithmetic: enough for steps of 32 bits at any order
_MOST_ORDER = 10**15  # beyond, that precision tells no steps apart
# in logits: the next coin is sought within it; a longer step leads to certainty
LONGEST_STEP = 64.0
_LOOKED_AT = 33  # logits at which the length of a step is taken to estimate their number: it is a smooth integral
_TINY = 1e-300  # keeps ratios defined
_MOST_LOGIT = 1e4  # of q: beyond it, q is 0 or 1 in floats
_FIRST_HALVINGS = 24  # of an interval of 64 logits: the first steps are found to 4e-6
_LATER_HALVINGS = 18  # of an interval of twice the step before: to 1e-5 of a step


@dataclass(frozen=True)
class RenyiSteps(PerKeyMethod):
    """Steps of Rényi divergence `divergence` at `order`, outside of events of probability `delta` for each key.

    >>> steps = RenyiSteps(Fraction(14), Fraction("0.002"), Fraction("1e-9"))
    >>> steps.steps
    125.0
    """

    order: Fraction
    divergence: Fraction
    delta: Fraction
    name: ClassVar[str] = "Rényi steps"

    def __post_init__(self) -> None:
        if not (1 < self.order <= _MOST_ORDER and self.divergence > 0 and 0 < self.delta < 1):
            raise InvalidValue(
                "Rényi steps must have an order above 1, up to 1e15, a divergence above 0, and a delta between 0 and 1",
                "get the release again from where it was written",
            )

    def reporting(self, sampling: Sampling) -> "RenyiReporting":  # noqa: D102
        return RenyiReporting(sampling, self)

    @cached_property
    def steps(self) -> float:
        """The number of steps that pi needs from 0 to one half."""
        [steps] = steps_to_half([self.order], [self.divergence], [self.delta]).tolist()
        return float(steps)

    @property
    def epsilon(self) -> float:
        """The epsilon of a scheme by Algorithm 3 with about as many steps: the scale of charts."""
        log_range = math.log(1 / float(self.delta))
        return log_range / self.steps

    @property
    def first(self) -> Fraction:
        """The step from 0, and the last one, to 1."""
        return self.delta

    def next_logit(self, logit: float) -> float:
        """Return ln(p / (1 - p)) of the largest next p, in floats."""
        return _next_logit(logit, float(self.order), float(self.divergence))

    def proves(self, now: int, before: int, bits: int) -> bool:
        """Whether a step between two probabilities over 2**bits is proved, with a margin."""
        with precision(_PRECISION):
            return allowed(now, before, bits, self.order, self._limit)

    @cached_property
    def _limit(self) -> "arb":
        return moment_limit(self.order, self.divergence * (1 - MARGIN))

    def __reduce__(self) -> tuple[type["RenyiSteps"], tuple[Fraction, Fraction, Fraction]]:
        # without what was computed: balls cannot be sent to another process
        return RenyiSteps, (self.order, self.divergence, self.delta)

    def claim(self, sampling: Sampling) -> str:  # noqa: D102
        return f"{self}, outside of a probability of {float(self.delta):.3g}, for {sampling}"

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "method": self.name,
            "order": text(self.order),
            "divergence": text(self.divergence),
            "delta": text(self.delta),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "RenyiSteps":
        """Read the JSON form back."""
        order = exact(form["order"], "order")
        divergence = exact(form["divergence"], "divergence")
        delta = exact(form["delta"], "delta")
        return cls(order, divergence, delta)

    def __str__(self) -> str:
        return f"steps of Rényi divergence {float(self.divergence):.6g} at order {text(self.order)}"


class Steps(Protocol):
    """How far pi may go from one frequency to the next; `RenyiSteps`, or `ComposedSteps`."""

    @property
    def steps(self) -> float:
        """The number of steps that pi needs from 0 to one half."""

    @property
    def first(self) -> Fraction:
        """The step from 0, and the last one, to 1."""

    def next_logit(self, logit: float) -> float:
        """Return ln(p / (1 - p)) of the largest next p, in floats."""

    def proves(self, now: int, before: int, bits: int) -> bool:
        """Whether a step between two probabilities over 2**bits is proved."""


def estimated_steps(steps: Steps) -> float:
    """Return about how many steps pi needs from 0 to one half: without going them, which may take long.

    It is the integral of one over the length of a step, over the logits from the first step to one half.
    """
    first_logit = math.log(steps.first) - math.log1p(-steps.first)
    if first_logit >= 0:  # the first step leads beyond one half
        return 0.0
    logits = np.linspace(first_logit, first_logit / _LOOKED_AT, _LOOKED_AT).tolist()
    spacing = logits[1] - logits[0]
    lengths = np.array([steps.next_logit(logit) - logit for logit in logits])
    steps_within_spacing = spacing / np.maximum(lengths, _TINY)
    return float(steps_within_spacing.sum())


class StepReporting(Reporting):
    """`Reporting` with other steps."""

    def __init__(self, sampling: Sampling, steps: Steps) -> None:
        self.sampling = sampling
        self.steps = steps
        clearly_too_many = estimated_steps(steps) > 1.5 * MOST_STEPS
        if clearly_too_many or not steps.steps < MOST_STEPS:
            raise InvalidValue(
                "the keys of a user must lead from 0 to certainty in a million frequencies",
                "choose a larger epsilon",
            )
        # a unit is far below 2**-30 of a divergence, over delta**2: what `certify_keys` checks of the rounding
        needed = math.ceil(160 - 2 * math.log2(steps.first))
        self.bits = -(-needed // 64) * 64  # a multiple of the words that are drawn
        self.one = 1 << self.bits
        self.delta = int(steps.first * self.one)
        self._next: dict[int, int] = {}
        self._find_binding()

    def advance(self, pi: int) -> int:
        """Return the largest pi that the steps allow for the next frequency, rounded down."""
        if pi <= 0:
            return self.delta
        if self.one - pi <= self.delta:
            return self.one
        if pi not in self._next:
            self._next[pi] = self._advanced(pi)
        return self._next[pi]

    def _advanced(self, pi: int) -> int:
        """Return the largest number of few bits that is proved, sought around a float.

        Above one half, its complement to one has few bits.
        """
        logit = math.log(pi) - math.log(self.one - pi)
        guess = self.steps.next_logit(logit)
        below_half = guess < 0
        smaller_side = 1 / (1 + math.exp(abs(guess)))  # of pi and 1 - pi
        shift = self.bits - _FIGURES + math.frexp(smaller_side)[1]
        n = int(math.ldexp(smaller_side, self.bits - shift))
        closer_to_pi = -1 if below_half else 1
        n -= 2 * closer_to_pi  # begin a little beyond the guess
        while True:
            now = n << shift if below_half else self.one - (n << shift)
            if now <= pi:
                return pi
            if now < self.one and self.steps.proves(now, pi, self.bits):
                return now
            n += closer_to_pi


class RenyiReporting(StepReporting):
    """Pi of Rényi steps, with any sampling scheme."""

    def __init__(self, sampling: Sampling, steps: RenyiSteps) -> None:
        self.per_key = steps
        self._renyi = steps
        super().__init__(sampling, steps)

    def _is_wide(self, low: Points, high: Points) -> Flags:
        """Return where the step from one q to another spends more than about half of the divergence."""
        order = float(self._renyi.order)
        half_divergence = float(self._renyi.divergence) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            now = np.log(high.q) - np.log(high.absent)
            before = np.log(low.q) - np.log(low.absent)
            diverges = _diverging_from(np.maximum(before, -_MOST_LOGIT), order, half_divergence)
            is_far = diverges(np.minimum(now, _MOST_LOGIT))
        from_or_to_certainty = (low.q <= 0) | (high.absent <= 0)
        return (high.q > low.q) & (from_or_to_certainty | is_far)


def moment_limit(order: Fraction, divergence: Fraction) -> "arb":
    """Return exp((order - 1) divergence), which the moments of two coins may not exceed."""
    log_limit = (ball(order) - 1) * ball(divergence)
    return log_limit.exp()


def allowed(now: int, before: int, bits: int, order: Fraction, limit: "arb") -> bool:
    """Whether both moments of two coins, exp((order - 1) D), are proved to be at most the limit."""
    alpha = ball(order)
    one = 1 << bits
    p = dyadic(now, bits)
    p_not = dyadic(one - now, bits)
    q = dyadic(before, bits)
    q_not = dyadic(one - before, bits)
    up = p / q
    down = p_not / q_not
    there = q * up**alpha + q_not * down**alpha
    if not there <= limit:
        return False
    back = p * up**-alpha + p_not * down**-alpha
    return bool(back <= limit)


def next_logits(
    logits: Floats,
    order: Floats | float,
    divergence: Floats | float,
    most: Floats | float = LONGEST_STEP,
    halvings: int = _FIRST_HALVINGS,
) -> Floats:
    """Return the logit of the largest next p, about, for many logits; no step is longer than `most`."""
    low = logits
    high = logits + most
    diverges = _diverging_from(logits, order, divergence)
    for _ in range(halvings):
        middle = (low + high) / 2
        is_far = diverges(middle)
        low = np.where(is_far, low, middle)
        high = np.where(is_far, middle, high)
    return low


def _next_logit(logit: float, order: float, divergence: float) -> float:
    """Return what `next_logits` does, for one logit, up to rounding: numpy would take ten times as long."""
    log_q = -softplus(-logit)
    log_q_not = -softplus(logit)
    rest_of_order = 1 - order
    limit = (order - 1) * divergence

    def diverges(next_logit: float) -> bool:
        log_p = -softplus(-next_logit)
        log_p_not = -softplus(next_logit)
        # the moments of p and q, exp((order - 1) D), in both directions
        there = _log_sum(
            order * log_p + rest_of_order * log_q, order * log_p_not + rest_of_order * log_q_not
        )
        back = _log_sum(
            order * log_q + rest_of_order * log_p, order * log_q_not + rest_of_order * log_p_not
        )
        return max(there, back) > limit

    return last_float(diverges, logit, logit + LONGEST_STEP)


def softplus(x: float) -> float:
    """Return ln(1 + exp(x)) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_sum(x: float, y: float) -> float:
    """Return ln(exp(x) + exp(y))."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def steps_to_half(order: Any, divergence: Any, delta: Any) -> Floats:
    """Return the number of steps that pi needs from 0 to one half, for many parameters at once.

    They are counted until one of the parameters is there; it is infinite for the others. Each step is found to a
    hundred-thousandth: enough to count them.
    """
    orders = np.asarray(order, np.float64)
    divergences = np.asarray(divergence, np.float64)
    deltas = np.asarray(delta, np.float64)
    logits = np.log(deltas) - np.log1p(-deltas)
    steps = np.ones(len(orders))
    longest: Floats | float = LONGEST_STEP
    halvings = _FIRST_HALVINGS
    while (logits < 0).all() and steps[0] < MOST_STEPS:
        after = next_logits(logits, orders, divergences, longest, halvings)
        longest = 2 * (after - logits)  # below one half, steps do not become longer
        halvings = _LATER_HALVINGS
        logits = after
        steps = steps + 1
    return np.where(logits < 0, np.inf, steps)


def _diverging_from(
    before: Floats, order: Floats | float, divergence: Floats | float
) -> Callable[[Floats], Flags]:
    """Return a function of logits: whether these coins diverge by more than this from those of `before`, in floats.

    It is that of `_next_logit` for arrays. What does not depend on the logits is computed once.
    """
    log_q = -np.logaddexp(0, -before)
    log_q_not = -np.logaddexp(0, before)
    rest_of_order = 1 - order
    limit = (order - 1) * divergence
    there_q = rest_of_order * log_q
    there_q_not = rest_of_order * log_q_not
    back_q = order * log_q
    back_q_not = order * log_q_not

    def diverges(now: Floats) -> Flags:
        log_p_not = -np.logaddexp(0, now)
        log_p = now + log_p_not
        there = np.logaddexp(order * log_p + there_q, order * log_p_not + there_q_not)
        back = np.logaddexp(back_q + rest_of_order * log_p, back_q_not + rest_of_order * log_p_not)
        is_far: Flags = np.maximum(there, back) > limit
        return is_far

    return diverges

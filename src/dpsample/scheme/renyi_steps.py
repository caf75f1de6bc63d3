"""Rényi steps: reporting probabilities for many keys of one user, keys only.

A key is reported or not, so a user changes one coin for each of up to k keys, each by one step from pi_{i-1} to pi_i.
Rényi divergences of one order add up, at whatever frequencies the keys are, so the largest steps are

    pi_1 = delta,   pi_i = min(q_i, the largest p with D(p || pi_{i-1}) and D(pi_{i-1} || p) at most r)

with D the divergence of that order between two coins, and delta set aside for the first step, and for the last.
Each step is decided in ball arithmetic: p has 32 significant bits, and one unit more would not be proved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from flint import arb

from dpsample.balls import ball, dyadic, precision
from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.scheme.bisection import last_float
from dpsample.scheme.law import PerKeyMethod
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import Floats, Sampling

_FIGURES = 32  # significant bits of a step
MARGIN = Fraction(1, 1 << 30)  # of r, for the rounding of q
MOST_STEPS = 1 << 20
_PRECISION = 192
_MOST_ORDER = 10**15  # beyond, that many bits tell no steps apart
LONGEST_STEP = (
    64.0  # in logits: the next coin is sought within it; a step this long is as good as certain
)
_LOOKED_AT = 33  # logits at which the number of steps is estimated: it is a smooth integral
_TINY = 1e-300  # keeps ratios defined


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
        return float(steps_to_half([self.order], [self.divergence], [self.delta])[0])

    @property
    def epsilon(self) -> float:
        """The epsilon of a scheme with as many steps, about: the scale of drawings."""
        return math.log(1 / float(self.delta)) / self.steps

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
    def _limit(self) -> arb:
        return moment_limit(self.order, self.divergence * (1 - MARGIN))

    def __reduce__(self) -> tuple[type["RenyiSteps"], tuple[Fraction, Fraction, Fraction]]:
        return RenyiSteps, (
            self.order,
            self.divergence,
            self.delta,
        )  # balls, which are computed, cannot be sent

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
        return cls(*(exact(form[name], name) for name in ("order", "divergence", "delta")))

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
    start = math.log(steps.first) - math.log1p(-steps.first)
    if start >= 0:  # the first step leads beyond one half
        return 0.0
    logits = np.linspace(start, start / _LOOKED_AT, _LOOKED_AT).tolist()
    spacing = logits[1] - logits[0]
    lengths = np.array([steps.next_logit(logit) - logit for logit in logits])
    return float((spacing / np.maximum(lengths, _TINY)).sum())


class StepReporting(Reporting):
    """`Reporting` with other steps."""

    def __init__(self, sampling: Sampling, steps: Steps) -> None:
        self.sampling, self.steps = sampling, steps
        if estimated_steps(steps) > 1.5 * MOST_STEPS or not steps.steps < MOST_STEPS:
            raise InvalidValue(
                "the keys of a user must lead from 0 to certainty in a million frequencies",
                "choose a larger epsilon",
            )
        self.bits = -(-math.ceil(160 - 2 * math.log2(steps.first)) // 64) * 64  # see `certify_keys`
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
        """The largest number of few bits that is proved, sought around a float; above one half, its complement."""
        guess = self.steps.next_logit(math.log(pi) - math.log(self.one - pi))
        small = 1 / (1 + math.exp(abs(guess)))  # of pi and 1 - pi, the smaller one
        shift = self.bits - _FIGURES + math.frexp(small)[1]
        n = int(math.ldexp(small, self.bits - shift)) + (2 if guess < 0 else -2)
        while True:
            now = n << shift if guess < 0 else self.one - (n << shift)
            if now <= pi:
                return pi
            if now < self.one and self.steps.proves(now, pi, self.bits):
                return now
            n += -1 if guess < 0 else 1


class RenyiReporting(StepReporting):
    """Pi of Rényi steps, with any sampling scheme."""

    def __init__(self, sampling: Sampling, steps: RenyiSteps) -> None:
        self.per_key = self._renyi = steps
        super().__init__(sampling, steps)

    def _wide(self, low: Floats, high: Floats, low_absent: Floats, high_absent: Floats) -> Any:
        """Whether a step from low to high, about, spends more than half of the divergence."""
        order = float(self._renyi.order)
        half_divergence = float(self._renyi.divergence) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            now = np.log(high) - np.log(high_absent)
            before = np.log(low) - np.log(low_absent)
            diverges = _diverging_from(np.maximum(before, -1e4), order, half_divergence)
            far = diverges(np.minimum(now, 1e4))
        from_or_to_certainty = (low <= 0) | (high_absent <= 0)
        return (high > low) & (from_or_to_certainty | far)


def moment_limit(order: Fraction, divergence: Fraction) -> arb:
    """Return exp((order - 1) divergence), which the moments of two coins may not exceed."""
    return ((ball(order) - 1) * ball(divergence)).exp()


def allowed(now: int, before: int, bits: int, order: Fraction, limit: arb) -> bool:
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
    halvings: int = 24,
) -> Floats:
    """Return ln(p / (1 - p)) of the largest next p, about, for many logits; no step is longer than `most`."""
    low, high = logits, logits + most
    diverges = _diverging_from(logits, order, divergence)
    for _ in range(halvings):
        middle = (low + high) / 2
        far = diverges(middle)
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return low


def _next_logit(logit: float, order: float, divergence: float) -> float:
    """As `next_logits`, of one pi, up to rounding: numpy would take ten times as long."""
    q, q_not = -softplus(-logit), -softplus(logit)
    limit = (order - 1) * divergence

    def diverges(now: float) -> bool:
        p, p_not = -softplus(-now), -softplus(now)
        there = _log_moment(order, (p, p_not), (q, q_not))
        back = _log_moment(order, (q, q_not), (p, p_not))
        return max(there, back) > limit

    return last_float(diverges, logit, logit + LONGEST_STEP)


def _log_moment(order: float, coin: tuple[float, float], other: tuple[float, float]) -> float:
    """The logarithm of ``sum of coin**order other**(1 - order)``, of coins given by the logarithms of both sides."""
    first = order * coin[0] + (1 - order) * other[0]
    second = order * coin[1] + (1 - order) * other[1]
    return _log_sum(first, second)


def softplus(x: float) -> float:
    """Return ln(1 + exp(x)) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_sum(x: float, y: float) -> float:
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def steps_to_half(order: Any, divergence: Any, delta: Any) -> Floats:
    """Return how many steps pi needs from 0 to one half, for many parameters; infinite for all but the first there.

    Each step is found to a hundred-thousandth: enough to count them.
    """
    order, divergence, delta = (np.asarray(a, np.float64) for a in (order, divergence, delta))
    logits = np.log(delta) - np.log1p(-delta)
    steps = np.ones(len(order))
    most: Floats | float = LONGEST_STEP
    halvings = 24
    while (logits < 0).all() and steps[0] < MOST_STEPS:
        after = next_logits(logits, order, divergence, most, halvings)
        most = 2 * (after - logits)  # below one half, steps do not become longer
        halvings = 18
        logits = after
        steps = steps + 1
    return np.where(logits < 0, np.inf, steps)


def _diverging_from(
    before: Floats, order: Floats | float, divergence: Floats | float
) -> Callable[[Floats], Any]:
    """Return whether a coin diverges from these by more than this, in floats; coins are given by their logits."""
    log_q = -np.logaddexp(0, -before)
    log_q_not = -np.logaddexp(0, before)
    less = 1 - order
    limit = (order - 1) * divergence
    there_q, there_q_not = less * log_q, less * log_q_not
    back_q, back_q_not = order * log_q, order * log_q_not

    def diverges(now: Floats) -> Any:
        log_p_not = -np.logaddexp(0, now)
        log_p = now + log_p_not
        there = np.logaddexp(order * log_p + there_q, order * log_p_not + there_q_not)
        back = np.logaddexp(back_q + less * log_p, back_q_not + less * log_p_not)
        return np.maximum(there, back) > limit

    return diverges

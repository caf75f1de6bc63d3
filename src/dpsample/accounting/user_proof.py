"""The proof that discovery and counts of users together spend no more than their release states."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.renyi import conversion
from dpsample.accounting.vectors import GaussianStage
from dpsample.balls import ball, precision
from dpsample.errors import PrivacyViolation
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps, spent_by_noise
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.renyi_steps import RenyiSteps


@dataclass(frozen=True)
class UsersCertificate:
    """What discovery and counts cost one user together: at most `whole`, since `delta` is at most the delta of it."""

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
        for name, stage in zip(self.parts, self.stages, strict=True):
            lines.append(f"  {name}: {stage}")
        return "\n".join([*lines, f"  delta is at most {float(self.delta):.12g}"])


@dataclass(frozen=True)
class _Spent:
    """Discovery, beside Gaussian noise of this mu**2, with a part of delta set aside for the ends of its tables."""

    discovery: Discovery
    each: PerKey
    square: Fraction
    aside: Fraction = Fraction(0)

    def is_within(self, whole: Privacy) -> bool:
        """Whether all of it is private by `whole`; False also for a method that has another mechanism (theory, 10)."""
        delta = whole.delta - self.aside
        method, each = self.discovery.method, self.each
        if method == "many-keys" and isinstance(each, RenyiSteps):
            return self._renyi_epsilon_is_within(each, whole.epsilon, delta)
        if method == "one-key" and isinstance(each, ComposedSteps):
            return (
                each.epsilon <= whole.epsilon and each.delta <= delta and self.square <= each.square
            )
        if method == "one-key" and isinstance(each, Privacy):
            no_noise = not self.square
            return (
                each.definition is None
                and each.epsilon <= whole.epsilon
                and each.delta <= delta
                and no_noise
            )
        if method == "none" and self.square and delta > 0:
            with precision():
                return bool(spent_by_noise(ball(whole.epsilon), self.square) <= ball(delta))
        return False

    def _renyi_epsilon_is_within(
        self, each: RenyiSteps, epsilon: Fraction, delta: Fraction
    ) -> bool:
        """Add the Rényi divergences of all keys and of the noise at one order, and convert the sum."""
        keys = self.discovery.keys
        delta_left = delta - keys * each.delta
        divergence = keys * each.divergence + each.order * self.square / 2
        return delta_left > 0 and divergence + conversion(each.order, delta_left) <= epsilon


def certify_users(
    discovery: Discovery, each: PerKey, counts: Counts | None, whole: Privacy
) -> UsersCertificate:
    """Prove what discovery and counts cost together; raise `PrivacyViolation` if that is more than `whole`.

    That the scheme `each` is as private as it states is proved by `scheme.certify`.
    """
    noise = counts.noise if counts else ()
    square = sum((part.square for part in noise), Fraction(0))
    _require_private(
        _Spent(discovery, each, square), whole
    )  # first without the tables, which take time to make

    stages = tuple(counts.stages()) if counts else ()
    aside = sum((stage.delta for stage in stages), Fraction(0))
    _require_private(_Spent(discovery, each, square, aside), whole)

    delta = whole.delta
    if discovery.method == "one-key" and not isinstance(each, RenyiSteps):
        delta = each.delta + aside
    names = tuple(counts.parts) if counts else ()
    return UsersCertificate(discovery, each, stages, whole, delta, names)


def _require_private(spent: _Spent, whole: Privacy) -> None:
    if not spent.is_within(whole):
        raise PrivacyViolation(
            f"discovery and counts together spend more than {whole}, which this release states; do not trust it"
        )

"""The proof that discovery and counts of users together spend no more than their release states."""

from dataclasses import dataclass, replace
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
    """The proof that discovery and counts together have the privacy `whole` of one user.

    each    the mechanism by which each key is reported
    stages  the cost of the Gaussian noise of each part of the counts, and `parts` the names of these
    delta   a proved upper bound of the delta of everything, at the epsilon of `whole`
    """

    discovery: Discovery
    each: PerKey
    stages: tuple[GaussianStage, ...]
    whole: Privacy
    delta: Fraction
    parts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        stages = [str(stage) for stage in self.stages]
        return {
            "discovery": self.discovery.to_json(),
            "each": self.each.to_json(),
            "stages": stages,
            "whole": self.whole.to_json(),
            "delta_found": f"{float(self.delta):.17g}",
        }

    def __str__(self) -> str:
        lines = [f"{self.whole} holds for discovery and counts together"]
        lines.append(f"  discovery: {self._discovery_in_words()}")
        for name, stage in zip(self.parts, self.stages, strict=True):
            lines.append(f"  {name}: {stage}")
        lines.append(f"  delta is at most {float(self.delta):.12g}")
        return "\n".join(lines)

    def _discovery_in_words(self) -> str:
        if self.discovery.method == "one-key":
            return f"one unit of a user moves at one key, whatever number of keys users have, {self.each}"
        if self.discovery.method == "many-keys":
            return f"each user keeps up to {self.discovery.keys:,} keys, {self.each}"
        return "none, known keys alone are counted"


@dataclass(frozen=True)
class _Spent:
    """What is spent: discovery with the mechanism `each` for one key, and Gaussian noise of mu**2 = `square`.

    `aside` is the delta that is set aside for the ends of the tables of the noise.
    """

    discovery: Discovery
    each: PerKey
    square: Fraction
    aside: Fraction = Fraction(0)

    def is_within(self, whole: Privacy) -> bool:
        """Whether all of it together is proved to have the privacy `whole` (docs/theory.md, section 10).

        False also if the mechanism is none that this method of discovery has.
        """
        delta = whole.delta - self.aside
        method = self.discovery.method
        each = self.each
        if method == "many-keys" and isinstance(each, RenyiSteps):
            return self._renyi_epsilon_is_within(each, whole.epsilon, delta)
        if method == "one-key" and isinstance(each, ComposedSteps):
            # the steps were composed with Gaussian noise of each.square
            epsilon_is_within = each.epsilon <= whole.epsilon
            return epsilon_is_within and each.delta <= delta and self.square <= each.square
        if method == "one-key" and isinstance(each, Privacy):
            has_noise = bool(self.square)
            if has_noise or each.definition is not None:
                return False
            return each.epsilon <= whole.epsilon and each.delta <= delta
        if method == "none" and self.square and delta > 0:
            with precision():
                return bool(spent_by_noise(ball(whole.epsilon), self.square) <= ball(delta))
        return False

    def _renyi_epsilon_is_within(
        self, each: RenyiSteps, epsilon: Fraction, delta: Fraction
    ) -> bool:
        """Whether the Rényi divergences of all keys and of the noise, at one order, add up to at most this epsilon."""
        keys = self.discovery.keys
        delta_left = delta - keys * each.delta
        if delta_left <= 0:
            return False
        divergence = keys * each.divergence + each.order * self.square / 2
        return divergence + conversion(each.order, delta_left) <= epsilon


def certify_users(
    discovery: Discovery, each: PerKey, counts: Counts | None, whole: Privacy
) -> UsersCertificate:
    """Prove that discovery and counts together have the privacy `whole`; raise `PrivacyViolation` if they do not.

    That the mechanism `each` is as private as it states is proved by `scheme.certificate`.
    """
    noise = counts.noise if counts else ()
    square = sum((part.square for part in noise), Fraction(0))
    spent = _Spent(discovery, each, square)
    _require_private(spent, whole)  # before the tables, which take time to make

    stages = tuple(counts.stages()) if counts else ()
    aside = sum((stage.delta for stage in stages), Fraction(0))
    _require_private(replace(spent, aside=aside), whole)

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

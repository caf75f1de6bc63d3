"""Stages: the different mechanisms of one release, and what they cost together.

private   any (epsilon, delta)-private mechanism, such as a PWS scheme: none tells more than randomized response
laplace   discrete Laplace noise: totals, and the totals that give tau
gaussian  Gaussian noise on numbers that one user changes by a vector of bounded length
keys      the tokens, or the reports, of up to k keys of one user

Each has a curve of Rényi divergences and a privacy loss distribution. The latter is the same in both directions, since
all of these laws are symmetric. Curves add, distributions convolve, and one certificate covers all of a release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from flint import arb

from dpsample.accounting.losses import Losses
from dpsample.accounting.many_keys import curve_of_noise, noise_atoms
from dpsample.accounting.renyi import RenyiCurve
from dpsample.balls import ball, precision
from dpsample.errors import InvalidValue, PrivacyViolation
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.scheme.noise import KeyNoise

_MOST_ATOMS = 4096  # of Laplace noise; for a larger sensitivity, its epsilon alone is counted


class Stage(Protocol):
    """A mechanism: what it costs, as a curve and as a distribution."""

    @property
    def curve(self) -> RenyiCurve:
        """Upper bounds of its Rényi divergences."""

    @property
    def losses(self) -> Losses:
        """An upper bound of its privacy loss distribution, in either direction."""


@dataclass(frozen=True)
class PrivateStage:
    """Any mechanism of a privacy; `delta` may be 0.

    >>> stage = PrivateStage(Fraction(1), Fraction("1e-6"))
    >>> round(float((stage.losses**10).epsilon(Fraction("1e-4"))), 1)
    10.0
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    @property
    def curve(self) -> RenyiCurve:  # noqa: D102
        return RenyiCurve.of_epsilon(self.epsilon, self.delta)

    @property
    def losses(self) -> Losses:  # noqa: D102
        with precision():
            likely = (1 - ball(self.delta)) / (1 + (-ball(self.epsilon)).exp())
            unlikely = 1 - ball(self.delta) - likely
            return Losses.of_atoms([(likely, unlikely), (unlikely, likely)], self.delta)

    def __str__(self) -> str:
        return f"a mechanism of epsilon {text(self.epsilon)}, delta {text(self.delta)}"


@dataclass(frozen=True)
class LaplaceStage:
    """Discrete Laplace noise on an integer that changes by up to `sensitivity`, at a cost of epsilon.

    With a = exp(-epsilon / sensitivity), the noise x has probability (1 - a) / (1 + a) a**abs(x).

    >>> LaplaceStage(Fraction(1), 3).curve.divergences[0] < PrivateStage(Fraction(1)).curve.divergences[0]
    True
    """

    epsilon: Fraction
    sensitivity: int = 1

    @property
    def curve(self) -> RenyiCurve:  # noqa: D102
        return RenyiCurve.of_atoms(self._atoms) if self._exact else RenyiCurve.of_epsilon(self.epsilon)

    @property
    def losses(self) -> Losses:  # noqa: D102
        return Losses.of_atoms(self._atoms) if self._exact else PrivateStage(self.epsilon).losses

    @property
    def _exact(self) -> bool:
        return 1 <= self.sensitivity <= _MOST_ATOMS

    @property
    def _atoms(self) -> list[tuple[arb, arb]]:
        """Outcomes up to 0, each of 1 to s - 1, and from s on: within the first and the last, all are alike."""
        with precision():
            s, a = self.sensitivity, (-ball(self.epsilon / self.sensitivity)).exp()
            tail = 1 / (1 + a)  # of an outcome up to 0, without a shift
            far = (-ball(self.epsilon)).exp() * tail
            between = [(tail * (1 - a) * a**x, tail * (1 - a) * a ** (s - x)) for x in range(1, s)]
            return [(tail, far), *between, (far, tail)]

    def __str__(self) -> str:
        return f"discrete Laplace noise of scale {text(self.sensitivity / self.epsilon)}"


@dataclass(frozen=True)
class GaussianStage:
    """Gaussian noise on a vector that changes by up to a length; `square` is (length / deviation)**2.

    `delta` is set aside, for the difference between the drawn integers and the normal law.
    """

    square: Fraction
    delta: Fraction = Fraction(0)

    @property
    def curve(self) -> RenyiCurve:  # noqa: D102
        return RenyiCurve.of_gaussian(self.square, self.delta)

    @property
    def losses(self) -> Losses:  # noqa: D102
        return Losses.of_gaussian(self.square).with_infinite(self.delta)

    def __str__(self) -> str:
        return f"Gaussian noise of mu**2 = {float(self.square):.6g}"


@dataclass(frozen=True)
class KeysStage:
    """The tokens of up to `keys` keys of one user, by bounded noise."""

    noise: KeyNoise
    keys: int

    @property
    def curve(self) -> RenyiCurve:  # noqa: D102
        return curve_of_noise(self.noise) * self.keys

    @property
    def losses(self) -> Losses:  # noqa: D102
        # one distribution for new keys and others: all that either may have at infinity
        return Losses.of_atoms(noise_atoms(self.noise), self.noise.new_key) ** self.keys

    def __str__(self) -> str:
        return f"up to {self.keys:,} keys, each with {self.noise}"


@dataclass(frozen=True)
class StagesCertificate:
    """What all stages of a release cost together: at most `whole`, since `delta` is not above its."""

    stages: tuple[Stage, ...]
    whole: Privacy
    delta: Fraction
    curve: RenyiCurve

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        return {
            "stages": [str(stage) for stage in self.stages],
            "whole": self.whole.to_json(),
            "delta_found": f"{float(self.delta):.17g}",
            "curve": self.curve.to_json(),
        }

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.whole} holds for all stages together:",
                *(f"  {stage}" for stage in self.stages),
                f"  by their loss distributions, in integers: delta is at most {float(self.delta):.12g}",
            ]
        )


def composed(stages: Sequence[Stage]) -> Losses:
    """Return an upper bound of the privacy loss distribution of all stages together."""
    if not stages:
        raise InvalidValue("a release has at least one stage", "none", "state what was drawn")
    total = stages[0].losses
    for stage in stages[1:]:
        total = total * stage.losses
    return total


def certify_stages(stages: Sequence[Stage], whole: Privacy) -> StagesCertificate:
    """Prove what the stages of a release cost together; raises `PrivacyViolation` if that is more than `whole`.

    >>> stages = [PrivateStage(Fraction("0.5"), Fraction("5e-7")), GaussianStage(Fraction("0.012"))]
    >>> print(certify_stages(stages, Privacy(1, 1e-6)))
    Privacy(epsilon='1', delta='1e-06') holds for all stages together:
      a mechanism of epsilon 0.5, delta 5e-07
      Gaussian noise of mu**2 = 0.012
      by their loss distributions, in integers: delta is at most 5.4...e-07
    """
    delta = composed(stages).delta(whole.epsilon)
    if delta > whole.delta:
        raise PrivacyViolation(
            f"{whole} must hold for all stages together; found delta up to {float(delta):.12g}; spend less on one"
        )
    curve = RenyiCurve.none()
    for stage in stages:
        curve = curve + stage.curve
    return StagesCertificate(tuple(stages), whole, delta, curve)

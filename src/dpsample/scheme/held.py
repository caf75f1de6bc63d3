"""Held keys: which are reported, and with which token. The largest probabilities that one pass and privacy allow.

Let P_i be the law of what becomes of a key of frequency i, and R_c that of a held key with a count of c. The first
element of a key is picked or not, so

    P_i = (1 - s) P_{i-1} + s R_i,

and rows P_i come from one pass if and only if no outcome has less than 1 - s times its probability in the row before.
With E = exp(epsilon), all tails S_i(x), the probabilities of a token above x, follow one concave map:

    grow   = E x + delta                    no outcome may become much more likely,
    shrink = 1 - (1 - x - delta) / E        nor any other much less likely,
    hold   = (1 - s) x + s                  nor any less likely than by one more element that is not picked,
    S_i    = f(S_{i-1}),   f = min(grow, shrink, hold).

So ``S_i(x) = phi_{i-x}`` with ``phi_0 = 0, phi_k = f(phi_{k-1})``. In particular pi_i = phi_i, and a token is i less a
noise. For a held key, it is c less a bounded noise: Y is below k with probability ``rho_k = (phi_k - (1 - s)
phi_{k-1}) / s``, which is 1 from where `hold` binds, and the key is reported if c - Y is at least 1. The integers rho_k
are what tokens are drawn from. `certify_held` proves privacy of them; docs/theory.md has the proofs.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY, text
from dpsample.privacy import Privacy
from dpsample.scheme.holding import WORD, SampleAndHold
from dpsample.scheme.law import Law, PerKeyMethod
from dpsample.scheme.reporting import IntegerSteps
from dpsample.scheme.sampling import Floats, Ints, KeepAll, Sampling, as_frequencies

MOST_CELLS = (
    1 << 16
)  # of the noise: a second; rounding costs each a few units, and the margin pays for millions
_REST = 2.0**-40  # probability that laws leave out at their ends, in floats
_POINTS = 64  # frequencies at which estimators look in 1 / s of them, or all if these are fewer


class HeldReporting(IntegerSteps, Law):
    """Pi and tokens of keys that were held along a stream; of every k-th frequency, for estimators.

    `reported_share` divides pi by the q of `sampling`: `hold`, or `KeepAll`, whose q is 1, for a `HeldLaw`.
    """

    def __init__(
        self,
        hold: SampleAndHold,
        privacy: Privacy,
        every: int = 1,
        sampling: Sampling | None = None,
    ) -> None:
        super().__init__(privacy)
        self.hold, self.sampling = hold, sampling or hold
        self.per_key, self.every = privacy, every
        self.noise_cuts = _noise_cuts(self)
        self.binding: Ints = np.arange(1, len(self.noise_cuts), dtype=np.int64)
        self.delicate = self.binding

    @property
    def cells(self) -> int:
        """The number of values of the noise."""
        return len(self.noise_cuts)

    @cached_property
    def _below(self) -> tuple[Floats, Floats]:
        """phi_k and 1 - phi_k for k = 0, ..., cells, as they are drawn."""
        picked = self.hold.picked_words
        phi = 0
        phis = [phi]
        for cut in self.noise_cuts:
            phi = ((WORD - picked) * phi + picked * cut) // WORD
            phis.append(phi)
        below = np.array([p / self.one for p in phis])
        absent = np.array([(self.one - p) / self.one for p in phis])
        return below, absent

    def phi(self, k: ArrayLike, complement: bool = False) -> Floats:
        """Return the probability that frequency less token is below k, or that it is not; 0 up to k = 0."""
        n = np.asarray(k, np.int64)
        within = n.clip(0, self.cells)
        beyond = np.maximum(n - self.cells, 0) * self.hold.log_passed
        phi, absent = (values[within] for values in self._below)
        if complement:
            return np.asarray(absent * np.exp(beyond))
        return np.asarray(phi - absent * np.expm1(beyond))

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:  # noqa: D102
        i = as_frequencies(frequencies)
        return self.phi(np.minimum(i, MAX_FREQUENCY // self.every) * self.every, complement)

    def pi(self, i: int) -> int:  # noqa: D102
        return int(self.probabilities([i])[0] * self.one)

    @cached_property
    def support(self) -> int:
        """The number of rows after which next to nothing is left of a token."""
        left = math.log(_REST / max(self._below[1][-1], _REST)) / self.hold.log_passed
        return -(-(self.cells + math.ceil(left) + 1) // self.every)

    @property
    def constant_from(self) -> int:  # noqa: D102
        return -(-(self.cells + math.ceil(-40 / self.hold.log_passed)) // self.every)

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Tokens tell frequencies apart from where pi no longer grows as fast as privacy allows."""
        return self.probabilities(rows[1:]), np.where(rows[1:] * self.every >= self.cells, 1.0, 0.0)

    def integer_tails(self, frequency: int) -> tuple[int, ...]:
        """Return the cut points of a held key with this count."""
        return self.noise_cuts[:frequency]

    def tails(self, frequencies: Ints, grid: int = 1) -> tuple[Floats, Floats]:
        """S and the gap to pi at x = i, i - 1, ... of several frequencies: shape (k, frequency)."""
        rows = min(self.support, int(frequencies.max(initial=1))) + 1
        row = np.arange(rows)[:, None]
        k = np.minimum(row, frequencies) * self.every
        above = self.phi(k)
        not_above = self.phi(k, complement=True)
        gap = not_above - self.probabilities(frequencies, complement=True)
        gap[-1] = 0.0  # what is left out
        return above, np.maximum(gap, 0.0)

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:
        """The probability of each token, k rows after its first, and of all above it: shape (k, tokens)."""
        rows = max(window, self.support) + 2
        k = np.arange(rows, dtype=np.int64) * self.every
        above = self.phi(k)
        absent = self.phi(k, complement=True)
        by_above = np.diff(above)
        by_absent = -np.diff(absent)
        mass = np.where(above[1:] < 0.5, by_above, by_absent)
        mass[self.support :] = 0.0

        def for_each_token(column: Floats) -> Floats:
            return np.repeat(column[:, None], cells.size, axis=1)

        return for_each_token(mass), for_each_token(above[:-1])


def _noise_cuts(reporting: HeldReporting) -> tuple[int, ...]:
    """rho_1, rho_2, ... up to the first that is 1, over 2**bits, rounded toward privacy."""
    one, picked = reporting.one, reporting.hold.picked_words
    phi, cuts = 0, [0]
    while cuts[-1] < one:
        if len(cuts) > MOST_CELLS:
            raise InvalidValue(
                f"the noise of a stream's tokens would have more than {MOST_CELLS:,} values for epsilon "
                f"{text(reporting.privacy.epsilon)} and {reporting.hold}",
                "choose a larger epsilon, or a smaller tau",
            )
        private = reporting.advance(phi)
        hold = ((WORD - picked) * phi + picked * one) // WORD
        cut = one
        if private < hold:
            cut = (private * WORD - (WORD - picked) * phi) // picked
        cuts.append(min(max(cut, cuts[-1]), one))
        phi = ((WORD - picked) * phi + picked * cuts[-1]) // WORD
    return tuple(cuts[1:])


@dataclass(frozen=True)
class HeldLaw(PerKeyMethod):
    """The token laws of a stream's release as estimators see them: at every k-th frequency, with tokens rounded up.

    A token tells a frequency up to about 1/s elements, which were not counted. Laws are smooth over far fewer, so they
    are computed at 64 frequencies in 1/s.

    >>> law = HeldLaw.of(SampleAndHold(tau=1e-4), Privacy(1, 1e-6))
    >>> law.every, round(law.epsilon, 3)
    (156, 0.022)
    """

    sampling: SampleAndHold
    privacy: Privacy
    every: int

    @classmethod
    def of(cls, sampling: SampleAndHold, privacy: Privacy) -> "HeldLaw":
        """Return the laws of a release."""
        return cls(sampling, privacy, max(1, int(1 / (_POINTS * sampling.s))))

    def reporting(self, sampling: Sampling) -> HeldReporting:
        """Return the reporting probabilities and token laws, which are for `KeepAll`: pi includes being held."""
        return _strided(self)

    @property
    def epsilon(self) -> float:
        """The epsilon of discrete Laplace noise of the same deviation: the scale by which estimators go."""
        one_token = np.ones(1, np.int64)
        mass, _ = self.reporting(self.sampling).columns(one_token, 1, 1)
        law = mass[:, 0] / mass[:, 0].sum()
        k = np.arange(len(law))
        variance = float(law @ (k - law @ k) ** 2 + 0.1)
        return math.sqrt(2 / variance)

    @property
    def steps(self) -> float:
        """Half of the rows that a token has."""
        return self.reporting(self.sampling).support / 2

    def claim(self, sampling: Sampling) -> str:
        """Refuse: certificates are of the privacy and the sampling."""
        raise InvalidValue("a law of some frequencies has no certificate", "certify the privacy")

    def to_json(self) -> dict[str, Any]:
        """Refuse: files have the privacy and the sampling."""
        raise InvalidValue("a law of some frequencies cannot be written", "write the privacy")


@lru_cache(maxsize=16)
def _strided(law: HeldLaw) -> HeldReporting:
    return HeldReporting(law.sampling, law.privacy, law.every, KeepAll())

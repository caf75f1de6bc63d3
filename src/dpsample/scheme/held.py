"""Held keys of a stream: the largest reporting probabilities, and the tokens, that one pass and privacy allow.

docs/theory.md, section 12, derives this. Let P_i be the law of the outcome of a key of frequency i, and R_c that of a
held key with a count of c. The first element of a key is picked or not, so

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

# of the noise: they take a second; rounding costs each a few units, and the margin of delta pays for millions
MOST_CELLS = 1 << 16
_REST = 2.0**-40  # probability that laws leave out at their ends, in floats
# pi is taken as constant once 1 - pi has fallen by exp of this, below any float's last bit
_LOG_REST = -40
_POINTS = 64  # frequencies within 1/s at which estimators look at laws, or all if these are fewer: laws are smooth
_GRAIN = 0.1  # added to a variance, so that noise of a single value has an epsilon


class HeldReporting(IntegerSteps, Law):
    """Pi and tokens of keys that were held along a stream.

    For estimators, rows are those of every k-th frequency, k = `every`. Their `sampling` is `KeepAll`, since pi then
    includes the probability of being held, by which `reported_share` would otherwise divide.
    """

    def __init__(
        self,
        hold: SampleAndHold,
        privacy: Privacy,
        every: int = 1,
        sampling: Sampling | None = None,
    ) -> None:
        super().__init__(privacy)
        self.hold = hold
        self.sampling = sampling or hold
        self.per_key = privacy
        self.every = every
        self.noise_cuts = _noise_cuts(self)
        self.binding: Ints = np.arange(1, len(self.noise_cuts), dtype=np.int64)
        self.delicate = self.binding

    @property
    def cells(self) -> int:
        """The number of values of the noise."""
        return len(self.noise_cuts)

    @cached_property
    def _below(self) -> tuple[Floats, Floats]:
        """phi_k and 1 - phi_k for k = 0, ..., cells, as they follow from the integers rho_k that are drawn from."""
        phis = [0]
        for rho in self.noise_cuts:
            phis.append(_mixed(phis[-1], rho, self.hold))
        below = np.array([p / self.one for p in phis])
        absent = np.array([(self.one - p) / self.one for p in phis])
        return below, absent

    def phi(self, k: ArrayLike, complement: bool = False) -> Floats:
        """Return phi_k, the probability that frequency less token is below k, or 1 - phi_k; phi_k is 0 up to k = 0."""
        n = np.asarray(k, np.int64)
        within = n.clip(0, self.cells)
        # beyond the noise, `hold` binds, and each row multiplies 1 - phi by 1 - s
        log_fall = np.maximum(n - self.cells, 0) * self.hold.log_passed
        phis, absents = self._below
        absent = absents[within]
        if complement:
            return np.asarray(absent * np.exp(log_fall))
        return np.asarray(phis[within] - absent * np.expm1(log_fall))

    def probabilities(self, frequencies: ArrayLike, complement: bool = False) -> Floats:  # noqa: D102
        i = as_frequencies(frequencies)
        last = MAX_FREQUENCY // self.every
        return self.phi(np.minimum(i, last) * self.every, complement)

    def pi(self, i: int) -> int:  # noqa: D102
        [pi] = self.probabilities([i]).tolist()
        return int(pi * self.one)

    @cached_property
    def support(self) -> int:
        """The number of rows after which next to nothing is left of a token."""
        _, absents = self._below
        absent_at_end = max(absents[-1], _REST)
        beyond_noise = math.log(_REST / absent_at_end) / self.hold.log_passed
        return -(-(self.cells + math.ceil(beyond_noise) + 1) // self.every)

    @property
    def constant_from(self) -> int:  # noqa: D102
        beyond_noise = math.ceil(_LOG_REST / self.hold.log_passed)
        return -(-(self.cells + beyond_noise) // self.every)

    def unused_growth(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return pi, and 1 beyond the noise, where pi no longer grows as fast as privacy allows; 0 before."""
        is_beyond_noise = rows[1:] * self.every >= self.cells
        return self.probabilities(rows[1:]), np.where(is_beyond_noise, 1.0, 0.0)

    def integer_tails(self, frequency: int) -> tuple[int, ...]:
        """Return the cut points of a held key with this count."""
        return self.noise_cuts[:frequency]

    def tails(self, frequencies: Ints, grid: int = 1) -> tuple[Floats, Floats]:
        """Return S and the gap to pi at x = i, i - 1, ... of several frequencies: shape (k, frequency)."""
        rows = min(self.support, int(frequencies.max(initial=1))) + 1
        row = np.arange(rows)[:, None]
        k = np.minimum(row, frequencies) * self.every
        above = self.phi(k)
        not_above = self.phi(k, complement=True)
        not_reported = self.probabilities(frequencies, complement=True)
        gap = not_above - not_reported
        gap[-1] = 0.0  # what is left out
        return above, np.maximum(gap, 0.0)

    def columns(self, cells: Ints, grid: int, window: int) -> tuple[Floats, Floats]:
        """Return the probability of each token, k rows after its first, and of all above it: shape (k, tokens).

        All tokens have the same column.
        """
        rows = max(window, self.support) + 2
        k = np.arange(rows, dtype=np.int64) * self.every
        above = self.phi(k)
        absent = self.phi(k, complement=True)
        by_above = np.diff(above)
        by_absent = -np.diff(absent)
        mass = np.where(above[1:] < 0.5, by_above, by_absent)
        mass[self.support :] = 0.0
        masses = np.repeat(mass[:, None], cells.size, axis=1)
        all_above = np.repeat(above[:-1, None], cells.size, axis=1)
        return masses, all_above


def _mixed(phi: int, rho: int, hold: SampleAndHold) -> int:
    """Return ``(1 - s) phi + s rho``, rounded down: phi of the next row from that of a held key."""
    picked = hold.picked_words
    return ((WORD - picked) * phi + picked * rho) // WORD


def _noise_cuts(reporting: HeldReporting) -> tuple[int, ...]:
    """Return rho_1, rho_2, ... up to the first that is 1, over 2**bits, rounded toward privacy."""
    one = reporting.one
    hold = reporting.hold
    picked = hold.picked_words
    phi = 0
    cuts = [0]
    while cuts[-1] < one:
        if len(cuts) > MOST_CELLS:
            raise InvalidValue(
                f"the noise of a stream's tokens would have more than {MOST_CELLS:,} values for epsilon "
                f"{text(reporting.privacy.epsilon)} and {hold}",
                "choose a larger epsilon, or a smaller tau",
            )
        grow_or_shrink = reporting.advance(phi)
        rho = one  # where `hold` binds
        if grow_or_shrink < _mixed(phi, one, hold):
            rho = (grow_or_shrink * WORD - (WORD - picked) * phi) // picked
        rho = min(max(rho, cuts[-1]), one)
        cuts.append(rho)
        phi = _mixed(phi, rho, hold)
    return tuple(cuts[1:])


@dataclass(frozen=True)
class HeldLaw(PerKeyMethod):
    """The token laws of a stream's release as estimators see them: at every k-th frequency, with tokens rounded up.

    A stream misses about 1/s elements of each key, so that laws are smooth over far fewer: k is 1 / (64 s).

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
        every = int(1 / (_POINTS * sampling.s))
        return cls(sampling, privacy, max(1, every))

    def reporting(self, sampling: Sampling) -> HeldReporting:
        """Return the reporting probabilities and token laws, which are for `KeepAll`: pi includes being held."""
        return _strided(self)

    @property
    def epsilon(self) -> float:
        """The epsilon of discrete Laplace noise of the same standard deviation, to which estimators scale theirs."""
        one_token = np.ones(1, np.int64)
        masses, _ = self.reporting(self.sampling).columns(one_token, 1, 1)
        mass = masses[:, 0]
        law = mass / mass.sum()
        k = np.arange(len(law))
        mean = law @ k
        variance = float(law @ (k - mean) ** 2 + _GRAIN)
        return math.sqrt(2 / variance)

    @property
    def steps(self) -> float:
        """Half of the rows that a token has."""
        return self.reporting(self.sampling).support / 2

    def claim(self, sampling: Sampling) -> str:
        """Refuse: a certificate states the privacy and the sampling."""
        raise InvalidValue("a law of some frequencies has no certificate", "certify the privacy")

    def to_json(self) -> dict[str, Any]:
        """Refuse: a file states the privacy and the sampling."""
        raise InvalidValue("a law of some frequencies cannot be written", "write the privacy")


@lru_cache(maxsize=16)
def _strided(law: HeldLaw) -> HeldReporting:
    return HeldReporting(law.sampling, law.privacy, law.every, KeepAll())

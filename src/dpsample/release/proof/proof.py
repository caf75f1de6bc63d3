"""Proof: that the stated terms of a release are private. Not that a file was drawn on them.

the scheme       each key, in exact integers                      scheme.certify
composition      up to k keys of one user together                many_keys
the parts        keys, sample size and total add up exactly       budget
the curve        Rényi divergences of all of it, for ledgers      renyi

`proof_page` prints it, with a verdict, and with what was not proved.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from dpsample.accounting.budget import Budget
from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.known import Known
from dpsample.accounting.many_keys import ManyKeysCertificate, certify_many_keys, curve_of_keys
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.user_proof import UsersCertificate, certify_users
from dpsample.definitions import Definition, Gdp, Zcdp
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.release.proof.page import not_proved, proof_page, verdict
from dpsample.release.proof.stated import check_stated
from dpsample.release.spending import Spending
from dpsample.release.terms import Terms
from dpsample.scheme.certificate import Certificate, KeyCertificate, certify, certify_keys
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling

Scheme: TypeAlias = (
    Callable[[], Certificate | KeyCertificate] | None
)  # proves the scheme; None if it is not fixed


@dataclass(frozen=True)
class Proof:
    """What was proved of a plan or a release. The scheme is None if its tau is found when the release is made.

    >>> from fractions import Fraction
    >>> from dpsample import KeepAll
    >>> proof = prove(Budget(Privacy(1, 1e-6), max_keys=50, total=Fraction(1, 20)), KeepAll())
    >>> proof.complete, proof.composition.delta <= Fraction(1, 10**6)
    (True, True)
    """

    privacy: Privacy
    unit: str
    max_keys: int | None
    keys: Privacy
    per_key: PerKey
    bought: tuple[Spending, ...]
    scheme: Certificate | KeyCertificate | None
    composition: ManyKeysCertificate | UsersCertificate | None
    curve: RenyiCurve
    known: Known | None = None

    @property
    def complete(self) -> bool:
        """Whether every frequency is covered by the scheme's certificate."""
        return self.scheme is not None and self.scheme.complete

    @property
    def implied(self) -> tuple[Definition, ...]:
        """The zCDP and GDP that follow outside of delta, rounded up; none for many keys, or where one is stated."""
        many = isinstance(self.composition, UsersCertificate) or (
            self.composition is not None and self.composition.keys > 1
        )
        if many or self.privacy.definition is not None:
            return ()
        epsilons = [self.keys.epsilon, *(spending.epsilon for spending in self.bought)]
        return Zcdp.implied(epsilons), Gdp.implied(epsilons)

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON."""
        implied = {definition.name: text(definition.value) for definition in self.implied}
        bought = {part.name: {"epsilon": text(part.epsilon), "delta": "0"} for part in self.bought}
        return {
            "verdict": verdict(self),
            "not_proved": not_proved(self),
            "privacy": self.privacy.to_json(),
            **({"implied": implied} if implied else {}),
            "unit": self.unit,
            "max_keys_per_user": self.max_keys,
            "parts": {"keys": self.keys.to_json(), **bought},
            "per_key": self.per_key.to_json(),
            **({"known": self.known.to_json()} if self.known else {}),
            "complete": self.complete,
            "scheme": self.scheme and self.scheme.to_json(),
            "composition": self.composition and self.composition.to_json(),
            "curve": self.curve.to_json(),
        }

    def __str__(self) -> str:
        return proof_page(self)


def prove(budget: Budget, sampling: Sampling | None, grid: int | None = None) -> Proof:
    """Prove a plan; `sampling` is None if tau is to follow from a sample size."""
    bought = tuple(
        Spending(name, name, budget.spent_on(share), None) for name, share in budget.shares.items()
    )
    scheme = None if sampling is None else partial(_certify_scheme, sampling, budget.per_key, grid)
    return _prove(
        budget.privacy, bought, _Keys(budget.keys, budget.per_key, budget.max_keys), scheme
    )


def prove_release(terms: Terms) -> Proof:
    """Prove a release, from its terms; raises `PrivacyViolation` if its parts are not as private as it says."""
    check_stated(terms)
    keys = _Keys(terms.keys_privacy, terms.per_key, terms.max_keys, terms.discovery, terms.counts)
    scheme = partial(_certify_scheme, terms.sampling, terms.per_key, terms.grid or 1)
    return replace(_prove(terms.privacy, terms.spent, keys, scheme), known=terms.known)


@dataclass(frozen=True)
class _Keys:
    """The keys of a release: what they spend together, and by which mechanism each is reported.

    One user changes up to `max_keys` keys; or discovery and counts bound what a user changes in all.
    """

    privacy: Privacy
    per_key: PerKey
    max_keys: int | None = None
    discovery: Discovery | None = None
    counts: Counts | None = None

    @property
    def unit(self) -> str:
        return "element" if self.max_keys is None and self.discovery is None else "user"

    def composition(self) -> ManyKeysCertificate | UsersCertificate | None:
        """Prove what all keys of one user spend together; None if one element changes one key, by all they have."""
        if self.discovery is not None:
            return certify_users(self.discovery, self.per_key, self.counts, self.privacy)
        if isinstance(self.per_key, ComposedSteps):
            raise PrivacyViolation(
                "composed steps are for discovered keys, and this release has none; do not trust it"
            )
        if self.max_keys is None and self.privacy.definition is None:
            return None
        return certify_many_keys(self.per_key, self.max_keys or 1, self.privacy)

    def curve(self) -> RenyiCurve:
        """Return the Rényi divergences of all keys together."""
        if self.discovery is not None or isinstance(self.per_key, ComposedSteps):
            return RenyiCurve.of_privacy(self.privacy)
        return curve_of_keys(self.per_key, self.max_keys or 1, self.privacy)


def _prove(privacy: Privacy, bought: tuple[Spending, ...], keys: _Keys, scheme: Scheme) -> Proof:
    """Prove that the keys and what was bought beside them spend no more than the privacy that is stated."""
    if privacy.less(spending.epsilon for spending in bought) != keys.privacy:
        raise PrivacyViolation(
            "the parts of this release do not add up to the privacy it claims; do not trust it"
        )
    composition = keys.composition()
    curve = keys.curve()
    for spending in bought:
        curve += RenyiCurve.of_epsilon(spending.epsilon)
    certificate = None if scheme is None else scheme()
    max_keys, per_key = keys.max_keys, keys.per_key
    return Proof(
        privacy, keys.unit, max_keys, keys.privacy, per_key, bought, certificate, composition, curve
    )


def _certify_scheme(
    sampling: Sampling, per_key: PerKey, grid: int | None
) -> Certificate | KeyCertificate:
    """Prove that each key is as private as its mechanism claims, in exact integers."""
    if isinstance(per_key, Privacy):
        return certify(sampling, per_key, grid)
    return certify_keys(sampling, per_key, grid)

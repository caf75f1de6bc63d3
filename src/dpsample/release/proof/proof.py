"""Proof: that the stated terms of a release are private. Not that a file was drawn on them.

the scheme       each key, in exact integers                      scheme.certify
composition      up to k keys of one user together                many_keys
the parts        keys, sample size and total add up exactly       budget
the curve        Rényi divergences of all of it, for ledgers      renyi

`proof_page` prints it, with a verdict, and with what was not proved.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpsample.accounting.budget import Budget
from dpsample.accounting.discovery import Counts, Discovery, UsersCertificate, certify_users
from dpsample.accounting.known import Known
from dpsample.accounting.many_keys import ManyKeysCertificate, certify_many_keys, curve_of_keys
from dpsample.accounting.renyi import RenyiCurve
from dpsample.definitions import Definition, Gdp, Zcdp
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.release.proof.page import not_proved, proof_page, verdict
from dpsample.release.proof.stated import check_stated
from dpsample.release.terms import Terms
from dpsample.scheme.certify import Certificate, KeyCertificate, certify, certify_keys
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling

Totals = tuple[tuple[str, Fraction, Fraction | None], ...]  # what, epsilon, scale of the noise if it is known


@dataclass(frozen=True)
class Proof:
    """What was proved. `scheme` is None if tau is still to be found; the release's own proof then has it.

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
    totals: Totals
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
        epsilons = [self.keys.epsilon, *(epsilon for _, epsilon, _ in self.totals)]
        return Zcdp.implied(epsilons), Gdp.implied(epsilons)

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON."""
        return {
            "verdict": verdict(self),
            "not_proved": not_proved(self),
            "privacy": self.privacy.to_json(),
            **({"implied": {d.name: text(d.value) for d in self.implied}} if self.implied else {}),
            "unit": self.unit,
            "max_keys_per_user": self.max_keys,
            "parts": {
                "keys": self.keys.to_json(),
                **{what: {"epsilon": text(epsilon), "delta": "0"} for what, epsilon, _ in self.totals},
            },
            "per_key": self.per_key.to_json(),
            **({"known": self.known.to_json()} if self.known else {}),
            "complete": self.complete,
            "scheme": None if self.scheme is None else self.scheme.to_json(),
            "composition": None if self.composition is None else self.composition.to_json(),
            "curve": self.curve.to_json(),
        }

    def __str__(self) -> str:
        return proof_page(self)


def prove(budget: Budget, sampling: Sampling | None, grid: int | None = None) -> Proof:
    """Prove a plan; `sampling` is None if tau is to follow from a sample size."""
    totals: Totals = tuple((what, budget.spent_on(share), None) for what, share in budget.shares.items())
    return _proved(budget.privacy, budget.max_keys, budget.keys, budget.per_key, totals, sampling, grid)


def prove_release(terms: Terms) -> Proof:
    """Prove a release, from its terms; raises `PrivacyViolation` if its parts are not as private as it says."""
    check_stated(terms)
    known = terms.known
    proof = _proved(
        terms.privacy,
        terms.max_keys,
        terms.keys_privacy,
        terms.per_key,
        _totals_of(terms),
        terms.sampling,
        terms.grid or 1,
        terms.discovery,
        terms.counts,
    )
    return replace(proof, known=known)


def _bought_before(discovery: Discovery) -> Totals:
    """What chose the method and the number of keys. A user changes one number of the look, and m units of m keys."""
    look = () if discovery.look is None else (("look", discovery.look.epsilon, 1 / discovery.look.epsilon),)
    filled = (
        (f"filled by {'one key' if way.keys == 1 else f'{way.keys:,} keys'} of each user", way.epsilon, way.scale)
        for way in discovery.filled
    )
    return (*look, *filled)


def _totals_of(terms: Terms) -> Totals:
    """What was bought beside keys, what it cost, and the scale of its noise."""
    stated = {
        "sample size": terms.size and terms.size.weights,
        "total": terms.total,
        "dropped keys": terms.dropped,
    }
    totals = tuple((what, part.epsilon, part.scale) for what, part in stated.items() if part)
    return (*_bought_before(terms.discovery), *totals) if terms.discovery else totals


def _proved(
    privacy: Privacy,
    max_keys: int | None,
    keys: Privacy,
    per_key: PerKey,
    totals: Totals,
    sampling: Sampling | None,
    grid: int | None,
    discovery: Discovery | None = None,
    counts: Counts | None = None,
) -> Proof:
    if privacy.less(epsilon for _, epsilon, _ in totals) != keys:
        raise PrivacyViolation("the parts must add up to what was spent; found that they do not; do not trust this")
    composition: ManyKeysCertificate | UsersCertificate | None = None
    if discovery is not None:
        composition = certify_users(discovery, per_key, counts, keys)
        curve = RenyiCurve.of_privacy(keys)
    else:
        if isinstance(per_key, ComposedSteps):
            raise PrivacyViolation("composed steps are for keys that were discovered; found others; do not trust this")
        if max_keys is not None or privacy.definition is not None:
            composition = certify_many_keys(per_key, max_keys or 1, keys)
        curve = curve_of_keys(per_key, max_keys or 1, keys)
    scheme: Certificate | KeyCertificate | None = None
    if sampling is not None:
        scheme = (
            certify(sampling, per_key, grid) if isinstance(per_key, Privacy) else certify_keys(sampling, per_key, grid)
        )
    for _, epsilon, _ in totals:
        curve += RenyiCurve.of_epsilon(epsilon)
    unit = "element" if max_keys is None and discovery is None else "user"
    return Proof(privacy, unit, max_keys, keys, per_key, totals, scheme, composition, curve)

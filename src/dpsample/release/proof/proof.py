"""Proof: that the stated terms of a release are private. Not that a file was drawn on them.

the scheme       each key, in exact integers                      scheme.certificate
composition      all keys of one user together                    the kind of the release, `keys_proof`
the parts        keys, sample size and total add up exactly       here, and `stated`
the curve        Rényi divergences of the whole, for ledgers      accounting.renyi

`proof_page` prints a proof, with a verdict and a list of what was not proved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpsample.accounting.budget import Budget
from dpsample.accounting.known import Known
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.user_proof import UsersCertificate
from dpsample.definitions import Definition, Gdp, Zcdp
from dpsample.errors import PrivacyViolation
from dpsample.exact import text
from dpsample.privacy import Privacy
from dpsample.release.keys_proof import Composition, prove_keys
from dpsample.release.made_for_tests import refused
from dpsample.release.proof.page import not_proved, proof_page, verdict
from dpsample.release.spending import Spending
from dpsample.release.stated import check_known, check_size, not_private
from dpsample.release.terms import Terms
from dpsample.scheme.certificate import Certificate, KeyCertificate, certify, certify_keys
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling

SchemeCertificate: TypeAlias = Certificate | KeyCertificate


@dataclass(frozen=True)
class Proof:
    """What was proved of a plan or a release. The scheme is None if its tau is found when the release is made.

    privacy      of the whole release; `keys` is what all keys of one unit have of it, and `per_key` what one key has
    bought       what was bought beside the keys
    composition  the proof for all keys of one unit together; None if one element changes one key
    curve        the Rényi divergences of the whole release

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
    scheme: SchemeCertificate | None
    composition: Composition | None
    curve: RenyiCurve
    known: Known | None = None

    @property
    def complete(self) -> bool:
        """Whether every frequency is covered by the scheme's certificate."""
        return self.scheme is not None and self.scheme.complete

    @property
    def implied(self) -> tuple[Definition, ...]:
        """The zCDP and GDP that follow outside of delta, rounded up; none for many keys, or where one is stated."""
        if self.privacy.definition is not None or self._composes_keys():
            return ()
        epsilons = [self.keys.epsilon]
        epsilons += [spending.epsilon for spending in self.bought]
        return Zcdp.implied(epsilons), Gdp.implied(epsilons)

    def _composes_keys(self) -> bool:
        """Whether one user changes several keys."""
        if self.composition is None:
            return False
        return isinstance(self.composition, UsersCertificate) or self.composition.keys > 1

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON."""
        form: dict[str, Any] = {
            "verdict": verdict(self),
            "not_proved": not_proved(self),
            "privacy": self.privacy.to_json(),
        }
        if self.implied:
            form["implied"] = {each.name: text(each.value) for each in self.implied}
        form["unit"] = self.unit
        form["max_keys_per_user"] = self.max_keys
        form["parts"] = {"keys": self.keys.to_json()}
        for spending in self.bought:
            form["parts"][spending.name] = {"epsilon": text(spending.epsilon), "delta": "0"}
        form["per_key"] = self.per_key.to_json()
        if self.known:
            form["known"] = self.known.to_json()
        form["complete"] = self.complete
        form["scheme"] = self.scheme and self.scheme.to_json()
        form["composition"] = self.composition and self.composition.to_json()
        form["curve"] = self.curve.to_json()
        return form

    def __str__(self) -> str:
        return proof_page(self)


def prove(budget: Budget, sampling: Sampling | None, grid: int | None = None) -> Proof:
    """Prove a plan; `sampling` is None if tau is to follow from a sample size."""
    bought = []
    for name, share in budget.shares.items():
        bought.append(Spending(name, name, budget.spent_on(share), None))
    _check_adds_up(budget.privacy, bought, budget.keys)
    proved = prove_keys(budget.per_key, budget.max_keys, budget.keys)
    scheme = None if sampling is None else _certify_scheme(sampling, budget.per_key, grid)
    return Proof(
        privacy=budget.privacy,
        unit="element" if budget.max_keys is None else "user",
        max_keys=budget.max_keys,
        keys=budget.keys,
        per_key=budget.per_key,
        bought=tuple(bought),
        scheme=scheme,
        composition=proved.composition,
        curve=_whole_curve(proved.curve, bought),
    )


def prove_release(terms: Terms) -> Proof:
    """Prove a release, from its terms; raises `PrivacyViolation` if its parts are not as private as it says.

    A release that was made for tests is refused: its coins are known.
    """
    if terms.made_for_tests:
        raise refused("verified")
    check_stated(terms)
    _check_adds_up(terms.privacy, terms.spent, terms.keys_privacy)
    proved = terms.kind.prove(terms.keys_privacy)
    return Proof(
        privacy=terms.privacy,
        unit=terms.unit,
        max_keys=terms.max_keys,
        keys=terms.keys_privacy,
        per_key=terms.per_key,
        bought=terms.spent,
        scheme=_certify_scheme(terms.sampling, terms.per_key, terms.grid or 1),
        composition=proved.composition,
        curve=_whole_curve(proved.curve, terms.spent),
        known=terms.known,
    )


def check_stated(terms: Terms) -> None:
    """Refuse terms that state other noise, or other parts, than would be drawn for them."""
    if terms.bought.size is not None:
        check_size(terms.bought.size, terms.sampling, terms.max_keys, terms.unit)
    terms.kind.check_stated(terms.keys_privacy, terms.bought)
    if terms.known is not None:
        check_known(terms.known, terms.per_key, terms.counts)
    discovers_nothing = terms.discovery is not None and terms.discovery.method == "none"
    only_known = terms.known is not None and terms.known.only
    if discovers_nothing and not only_known:
        raise not_private("keys are known or discovered, and this release states neither")


def _check_adds_up(privacy: Privacy, bought: Sequence[Spending], keys: Privacy) -> None:
    """Check that the keys have exactly the privacy that the purchases leave."""
    if privacy.less(spending.epsilon for spending in bought) != keys:
        raise PrivacyViolation(
            "the parts of this release do not add up to the privacy it claims; do not trust it"
        )


def _whole_curve(keys: RenyiCurve, bought: Sequence[Spending]) -> RenyiCurve:
    """Return the Rényi divergences of the keys and of all that was bought beside them."""
    curve = keys
    for spending in bought:
        curve += RenyiCurve.of_epsilon(spending.epsilon)
    return curve


def _certify_scheme(sampling: Sampling, per_key: PerKey, grid: int | None) -> SchemeCertificate:
    """Prove that each key is as private as its mechanism claims, in exact integers."""
    if isinstance(per_key, Privacy):
        return certify(sampling, per_key, grid)
    return certify_keys(sampling, per_key, grid)

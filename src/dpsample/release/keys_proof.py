"""The proof that all keys of one element or user together spend no more than their privacy."""

from dataclasses import dataclass
from typing import TypeAlias

from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.many_keys import ManyKeysCertificate, certify_many_keys, curve_of_keys
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.user_proof import UsersCertificate, certify_users
from dpsample.errors import PrivacyViolation
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.per_key import PerKey

Composition: TypeAlias = ManyKeysCertificate | UsersCertificate


@dataclass(frozen=True)
class KeysProof:
    """The proof for all keys of one element or user together, and their Rényi divergences.

    `composition` is None where nothing is composed: one element changes one key, which has all of the privacy.
    """

    composition: Composition | None
    curve: RenyiCurve


def prove_keys(per_key: PerKey, max_keys: int | None, privacy: Privacy) -> KeysProof:
    """Prove that up to `max_keys` keys of one user, or the key of one element, spend no more than `privacy`."""
    if isinstance(per_key, ComposedSteps):
        raise PrivacyViolation(
            "composed steps are for discovered keys, and this release has none; do not trust it"
        )
    keys = max_keys or 1
    composes = max_keys is not None or privacy.definition is not None
    composition = certify_many_keys(per_key, keys, privacy) if composes else None
    return KeysProof(composition, curve_of_keys(per_key, keys, privacy))


def prove_users(
    discovery: Discovery, per_key: PerKey, counts: Counts | None, privacy: Privacy
) -> KeysProof:
    """Prove that discovery and counts together spend no more than `privacy`, whatever number of keys a user has."""
    composition = certify_users(discovery, per_key, counts, privacy)
    return KeysProof(composition, RenyiCurve.of_privacy(privacy))

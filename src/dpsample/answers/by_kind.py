"""Which evidence a release has: one class for each kind."""

import pyarrow as pa

from dpsample.answers.counted import CountedEvidence
from dpsample.answers.evidence import Evidence
from dpsample.answers.held import HeldEvidence
from dpsample.answers.keys_only import KeysOnlyEvidence
from dpsample.answers.known import KnownEvidence
from dpsample.answers.token_sums import TokenEvidence
from dpsample.release.kinds import Counted, Held, KeysOnly, Tokens
from dpsample.release.terms import Terms


def evidence_of(table: pa.Table, terms: Terms) -> Evidence:
    """Return the evidence of a release with these rows."""
    match terms.kind:
        case Counted():
            return CountedEvidence.of(table, terms)
        case KeysOnly():
            return KeysOnlyEvidence.of(table, terms)
        case Held():
            return HeldEvidence.of(table, terms)
        case Tokens() if terms.known is None:
            return TokenEvidence.of(table, terms)
        case Tokens():
            return KnownEvidence.of(table, terms)

"""Which evidence a release has: one class for each kind."""

import pyarrow as pa

from dpsample.answers.counted import CountedEvidence
from dpsample.answers.evidence import Evidence
from dpsample.answers.held import HeldEvidence
from dpsample.answers.keys_only import KeysOnlyEvidence
from dpsample.answers.known import KnownEvidence
from dpsample.answers.selection import Rows
from dpsample.answers.token_sums import TokenEvidence
from dpsample.answers.unreported import Silence
from dpsample.release.terms import Terms
from dpsample.scheme.holding import SampleAndHold


def evidence_of(table: pa.Table, terms: Terms) -> Evidence:
    """Return the evidence of a release with these rows."""
    if terms.counts is not None:
        return CountedEvidence.of(table, terms)
    if terms.keys_only:
        return KeysOnlyEvidence(Rows.of(table, terms), Silence.of(terms), terms.total)
    if isinstance(terms.sampling, SampleAndHold):
        return HeldEvidence.of(table, terms)
    if terms.known is not None:
        return KnownEvidence.of(table, terms)
    return TokenEvidence.of(table, terms)

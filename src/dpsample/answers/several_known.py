"""The evidence of several releases that have one list of known keys, and other keys with tokens.

The listed keys are counted in each release, so that sums over them are complete. The other keys are as in several
releases without a list (`several_tokens`). A sum is that of both kinds: their errors are independent.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dpsample.answers.combinable import share_a_seed
from dpsample.answers.evidence import Groups
from dpsample.answers.known import ALL_KNOWN, KnownEvidence, _merged
from dpsample.answers.question import Question
from dpsample.answers.release import Release
from dpsample.answers.several_evidence import with_own_estimates
from dpsample.answers.several_keys import keys_of
from dpsample.answers.several_measured import SeveralMeasured
from dpsample.answers.several_tokens import SeveralTokens
from dpsample.estimators.measures import FREQUENCY, KEYS
from dpsample.estimators.reported import Bools
from dpsample.release.kinds import Tokens
from dpsample.scheme.sampling import Ints


class SeveralKnown(SeveralMeasured):
    """What several releases say of the keys of one list, and of others."""

    def __init__(self, releases: Sequence[Release], is_listed: Bools) -> None:
        """Take the keys of all releases, and which of them are listed."""
        super().__init__(releases)
        listed = np.flatnonzero(is_listed)
        others = np.flatnonzero(~is_listed)
        self._listed_keys = _ListAlone(releases, self._located(listed))
        parts = []
        for release in releases:
            parts.append(KnownEvidence.of(release.table, release.terms).others)
        self._other_keys = SeveralTokens(releases, parts, self._located(others))

    def _located(self, rows: Ints) -> tuple[pa.Table, Ints]:
        """Some keys, and their rows in each release."""
        return self.rows.keys.take(pa.array(rows)), self.places[rows]

    def sums(self, question: Question) -> Groups:
        """Estimate sums over listed keys and others; others count from a little above the threshold on."""
        adds_up = question.measure in (FREQUENCY, KEYS) and question.at_least is None
        if not adds_up or question.extrapolate or self._names_reported_keys(question):
            return super().sums(question)
        others = self._other_keys.sums(question)
        together = _merged(others, self._listed_keys.sums(question))
        return with_own_estimates(together, super().sums(question))


class _ListAlone(SeveralMeasured):
    """The listed keys of several releases."""

    def __init__(self, releases: Sequence[Release], located: tuple[pa.Table, Ints]) -> None:
        super().__init__(releases, located)
        self.in_others = ALL_KNOWN

    @property
    def detection_threshold(self) -> int:
        """All of these keys are known."""
        return 0

    def sums(self, question: Question) -> Groups:
        """Estimate sums, without what single releases note of keys that are not listed."""
        found = super().sums(question)
        return found._replace(estimates=[replace(one, notes=()) for one in found.estimates])


def keys_of_one_list(releases: Sequence[Release]) -> Bools | None:
    """Return which of the keys of all releases are in a list that each release has beside other keys; None without one.

    Samples that one public seed chose are not independent: they are left to `several_measured`.
    """
    if share_a_seed(releases):
        return None
    for release in releases:
        known = release.terms.known
        if type(release.terms.kind) is not Tokens or known is None or known.only:
            return None
    _, places = keys_of(releases)
    is_listed = np.zeros(places.shape, bool)
    for n, release in enumerate(releases):
        place = places[:, n]
        here = place >= 0
        listed = release.table["known"].to_numpy()
        is_listed[here, n] = listed[place[here]]
    in_all = is_listed.all(1)
    in_some = is_listed.any(1)
    is_one_list = bool((in_all == in_some).all())
    return np.asarray(in_all) if is_one_list else None

"""The content of a report, as values, computed from the release alone."""

import math
import shlex
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from dpsample.answers.changes import Changes, changes
from dpsample.answers.estimates import Estimates
from dpsample.answers.release import Release
from dpsample.comparison.reporting_curve import Curve, curve
from dpsample.errors import PrivacyViolation
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.report.statement import Statement
from dpsample.presentation.tables import readable
from dpsample.release.proof import Proof, prove_release
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.tokens import support_length

TOP = 100  # keys in the top list
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
LISTED = 100_000  # keys that can be searched
_BYTES = 3_800_000  # of these keys in the page
_EACH = 3  # bytes of a key beyond its text, about
_TOKEN = 34  # bytes of the numbers of a token, about
_LONG = 1500  # frequencies of a token's support, with a small epsilon; above, each number of keys takes seconds
_POINTS = 160  # of a curve


@dataclass(frozen=True)
class Listing:
    """The keys that can be searched, most frequent first; keys of equal numbers, such as of one token, are neighbours.

    Of counted users, each key has numbers of its own.
    """

    columns: dict[str, list[str]]  # texts
    runs: list[int]  # number of keys of equal numbers
    numbers: dict[str, Floats]  # value, low, high; empty for keys only
    left_out: int  # number of keys that are not listed

    def __len__(self) -> int:
        return sum(self.runs)


@dataclass(frozen=True)
class Content:
    """The content of a report."""

    statement: Statement
    name: str
    release: Release
    proof: Proof | PrivacyViolation | None  # None: not run
    detection_threshold: int | None
    top: Estimates | None  # None for keys only, as all that needs numbers
    counts: list[
        tuple[int, Estimate]
    ]  # a frequency, and the number of keys of this frequency or more
    quantiles: Estimates | None
    curve: Curve
    sum: (
        Estimate | None
    )  # of all elements, in reported keys and in all keys; None without a total, or of users
    other: Estimate | None
    listing: Listing
    changes: Changes | None = None  # since an earlier release
    before: str = ""  # the name of its file

    @property
    def title(self) -> str:
        """The title that the publisher states, or the key columns."""
        return self.statement.title or f"Private release: {', '.join(self.release.keys)}"

    @property
    def terms(self) -> Terms:
        """The public parameters of the release."""
        return self.release.terms

    @property
    def counted(self) -> bool:
        """Whether numbers are about all users who have a key."""
        return self.terms.counts is not None

    def python(self, *calls: str) -> str:
        """Return Python that computes the numbers of a section."""
        return "\n".join(
            ["import dpsample", "", f"release = dpsample.read_release({self.name!r})", *calls]
        )

    def command(self, *words: object) -> str:
        """Return the command that prints the numbers of a section; FILE among the words is the release."""
        return shlex.join(
            ["dpsample", *(self.name if word is FILE else str(word) for word in words)]
        )


FILE = object()


def content_of(
    release: Release,
    statement: Statement | None = None,
    *,
    name: str | None = None,
    top: int = TOP,
    prove: bool = True,
    before: Release | None = None,
    before_name: str | None = None,
) -> Content:
    """Compute the content. The arguments are those of `make_report`."""
    terms, threshold = release.terms, release.terms.detection_threshold
    has_numbers = not terms.keys_only
    has_total = has_numbers and terms.bought.total is not None
    known_among_others = (
        terms.known is not None and terms.grid is not None
    )  # these have no quantiles and no remainder
    has_quantiles = (
        has_numbers and len(release) > 0 and threshold is not None and not known_among_others
    )
    listed = _numbers_of(release) if has_numbers and len(release) else None
    return Content(
        statement=statement or Statement(),
        name=_file_name(name, "release.private.parquet"),
        release=release,
        proof=_proof(terms, prove),
        detection_threshold=threshold,
        top=release.top(top) if has_numbers else None,
        counts=_counts(release, threshold, listed),
        quantiles=release.quantiles(SHARES) if has_quantiles else None,
        curve=curve(terms.sampling, terms.per_key, _POINTS),
        sum=release.sum() if has_total and terms.unit == "element" else None,
        other=release.other() if has_total and not known_among_others else None,
        listing=_listing(release, listed),
        changes=None if before is None else changes(before, release),
        before=_file_name(before_name, "before.private.parquet"),
    )


def _numbers_of(release: Release) -> dict[str, Floats]:
    """The numbers of each key, as `Release.each_key` has them: those of tokens are in the table."""
    columns = {"value": "estimate", "low": "low", "high": "high"}
    if release.grid is None:
        numbers = release.each_key().numbers
        return {name: numbers[name].to_numpy() for name in columns}
    return {
        name: release.table[column].to_numpy().astype(np.float64)
        for name, column in columns.items()
    }


def _file_name(name: str | None, otherwise: str) -> str:
    return PurePath(name).name if name else otherwise


def _proof(terms: Terms, prove: bool) -> Proof | PrivacyViolation | None:
    if not prove:
        return None
    try:
        return prove_release(terms)
    except PrivacyViolation as violation:
        return violation


def _counts(
    release: Release, detection_threshold: int | None, listed: dict[str, Floats] | None
) -> list[tuple[int, Estimate]]:
    if listed is None or detection_threshold is None:
        return []
    detection_threshold = max(detection_threshold, 1)
    largest = max(float(listed["value"].max()), detection_threshold)
    few = release.grid is not None and support_length(release.per_key) > _LONG
    return [
        (i, release.count_keys(at_least=i))
        for i in round_frequencies(detection_threshold, largest, few)
    ]


def round_frequencies(first: int, last: float, few: bool = False) -> list[int]:
    """Return round frequencies from the first to the last, evenly by magnitude: few enough to estimate each.

    >>> round_frequencies(14, 1000), round_frequencies(20, 3e6), round_frequencies(20, 1e12)[:4]
    ([14, 20, 50, 100, 200, 500, 1000], [20, 30, 100, 300, 1000, 3000, 10000, ...], [20, 100, 1000, 10000])
    """
    decades = math.log10(last / first)
    in_each_decade: tuple[int, ...] = (1, 2, 5)
    if few or decades > 5.5:
        in_each_decade = (1,)
    elif decades > 2.5:
        in_each_decade = (1, 3)
    frequencies = [first]
    for power in range(int(math.log10(first)), int(math.log10(last)) + 1):
        round_ones = (step * 10**power for step in in_each_decade)
        frequencies += [frequency for frequency in round_ones if first < frequency <= last]
    return frequencies


def _listing(release: Release, listed: dict[str, Floats] | None) -> Listing:
    """List the keys with the largest estimates, as many as a page can hold."""
    alike, known = _alike(release, listed), _known(release)
    values = alike if listed is None else listed["value"]
    order = np.lexsort((known, -alike, -values))[:LISTED]
    starts_run = np.diff(alike[order], prepend=np.inf) != 0  # equal numbers are neighbours
    starts_run |= np.diff(known[order], prepend=2) != 0
    first_of_run = np.flatnonzero(starts_run)

    table = release.table.take(pa.array(order))
    columns = {name: readable(table[name]) for name in release.keys}
    n = _fitting(columns, first_of_run)
    first_of_run = first_of_run[first_of_run < n]
    columns = {name: texts[:n] for name, texts in columns.items()}
    left_out = len(release) - n
    if listed is None:
        return Listing(columns, [n], {}, left_out)
    runs = np.diff(first_of_run, append=n).tolist()
    numbers = {name: column[order[first_of_run]] for name, column in listed.items()}
    return Listing(columns, runs, numbers, left_out)


def _fitting(columns: dict[str, list[str]], first_of_run: Ints) -> int:
    """Return how many of the keys, whose texts are in these columns, a page can hold; runs share their numbers."""
    sizes = sum(
        np.array([len(text.encode()) + _EACH for text in texts], float)
        for texts in columns.values()
    )
    assert isinstance(sizes, np.ndarray)  # there is a key column
    sizes[first_of_run] += _TOKEN
    all_bytes = np.cumsum(sizes)
    return int(np.searchsorted(all_bytes, _BYTES, side="right"))


def _known(release: Release) -> Floats:
    """Return 1 for known keys, 0 for others."""
    if release.terms.known is None:
        return np.zeros(len(release))
    known: Floats = release.table["known"].to_numpy().astype(float)
    return known


def _alike(release: Release, listed: dict[str, Floats] | None) -> Floats:
    """Numbers that are equal for keys that have equal estimates: tokens. Of counted users, each key has its own."""
    if listed is None:
        return np.ones(len(release))
    if release.grid is None:
        return np.arange(len(release), 0.0, -1.0)
    tokens: Floats = release.table["token"].to_numpy()
    return tokens

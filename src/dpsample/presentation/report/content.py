"""The content of a report, as values, computed from the release alone."""

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
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
from dpsample.release.explain import visibility
from dpsample.release.proof import Proof, prove_release
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats
from dpsample.scheme.tokens import support_length

TOP = 100  # keys in the top list
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
LISTED = 100_000  # keys that can be searched
_BYTES = 3_800_000  # of these keys in the page
_EACH, _TOKEN = 3, 34  # bytes, about: of a key beyond its text, and of the numbers of a token
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
    visibility: list[tuple[Fraction, int | None]]
    top: Estimates | None  # None for keys only, as all that needs numbers
    counts: list[tuple[int, Estimate]]  # a frequency, and the number of keys of this frequency or more
    quantiles: Estimates | None
    curve: Curve
    sum: Estimate | None  # of all elements, in reported keys and in all keys; None without a total, or of users
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
        return "\n".join(["import dpsample", "", f"release = dpsample.read_release({self.name!r})", *calls])

    def command(self, *words: object) -> str:
        """Return the command that prints the numbers of a section; FILE among the words is the release."""
        return shlex.join(["dpsample", *(self.name if word is FILE else str(word) for word in words)])


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
    sampling, privacy = release.sampling, release.per_key
    numbers = not release.keys_only
    detection_threshold = release.terms.detection_threshold
    listed = _numbers_of(release) if numbers and len(release) else None
    both = release.terms.known is not None and release.grid is not None  # such tokens have no quantiles and remainder
    elements = release.terms.unit == "element"
    has_quantiles = numbers and len(release) and detection_threshold is not None and not both
    return Content(
        statement=statement or Statement(),
        name=_file_name(name, "release.private.parquet"),
        release=release,
        proof=_proof(release.terms, prove),
        detection_threshold=detection_threshold,
        visibility=visibility(sampling, privacy),
        top=release.top(top) if numbers else None,
        counts=_counts(release, detection_threshold, listed),
        quantiles=release.quantiles(SHARES) if has_quantiles else None,
        curve=curve(sampling, privacy, _POINTS),
        sum=release.sum() if numbers and release.total is not None and elements else None,
        other=release.other() if numbers and release.total is not None and not both else None,
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
    return {name: release.table[column].to_numpy().astype(np.float64) for name, column in columns.items()}


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
    return [(i, release.count_keys(at_least=i)) for i in round_frequencies(detection_threshold, largest, few)]


def round_frequencies(first: int, last: float, few: bool = False) -> list[int]:
    """Return round frequencies from the first to the last, evenly by magnitude: few enough to estimate each.

    >>> round_frequencies(14, 1000), round_frequencies(20, 3e6), round_frequencies(20, 1e12)[:4]
    ([14, 20, 50, 100, 200, 500, 1000], [20, 30, 100, 300, 1000, 3000, 10000, ...], [20, 100, 1000, 10000])
    """
    decades = math.log10(last / first)
    between = (1,) if few or decades > 5.5 else (1, 3) if decades > 2.5 else (1, 2, 5)
    powers = range(int(math.log10(first)), int(math.log10(last)) + 1)
    return [first, *(i for power in powers for step in between if first < (i := step * 10**power) <= last)]


def _listing(release: Release, listed: dict[str, Floats] | None) -> Listing:
    """List the keys with the largest estimates, as many as a page can hold."""
    alike = _alike(release, listed)
    values = alike if listed is None else listed["value"]
    known = np.zeros(len(release)) if release.terms.known is None else release.table["known"].to_numpy().astype(float)
    order = np.lexsort((known, -alike, -values))[:LISTED]
    alike = alike[order]
    new = np.diff(alike, prepend=np.inf) != 0  # equal numbers are neighbours
    first = np.flatnonzero(new | (np.diff(known[order], prepend=2) != 0))
    table = release.table.take(pa.array(order))
    columns = {name: readable(table[name]) for name in release.keys}
    sizes = np.array([sum(map(len, map(str.encode, texts))) for texts in zip(*columns.values(), strict=True)], float)
    sizes += _EACH * len(columns)
    sizes[first] += _TOKEN
    n = int(np.searchsorted(np.cumsum(sizes), _BYTES, side="right"))
    first = first[first < n]
    columns = {name: texts[:n] for name, texts in columns.items()}
    runs = np.diff(first, append=n).tolist()
    if listed is None:
        return Listing(columns, [n], {}, len(release) - n)
    numbers = {name: column[order[first]] for name, column in listed.items()}
    return Listing(columns, runs, numbers, len(release) - n)


def _alike(release: Release, listed: dict[str, Floats] | None) -> Floats:
    """Numbers that are equal for keys that have equal estimates: tokens. Of counted users, each key has its own."""
    if listed is None:
        return np.ones(len(release))
    if release.grid is None:
        return np.arange(len(release), 0.0, -1.0)
    tokens: Floats = release.table["token"].to_numpy()
    return tokens

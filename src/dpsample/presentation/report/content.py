"""The content of a report, as values, computed from the release alone."""

import math
import shlex
from dataclasses import dataclass

from dpsample.comparison.reporting_curve import Curve, curve
from dpsample.errors import PrivacyViolation
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.asked import Changed, Published, Ranked
from dpsample.presentation.report.listing import Listing, listing_of, numbers_of
from dpsample.presentation.report.setting import PageSetting
from dpsample.presentation.report.statement import Statement
from dpsample.release.proof import Proof, prove_release
from dpsample.release.terms import Terms
from dpsample.scheme.sampling import Floats
from dpsample.scheme.tokens import support_length

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # of the quantiles
# The number of keys of one frequency or more takes seconds to estimate where the support of tokens has more frequencies
# than this, which a small epsilon makes long: then fewer of these numbers are shown.
_LONG_SUPPORT = 1500
_POINTS = 160  # of the curve of reporting probabilities: enough for it to look smooth


@dataclass(frozen=True)
class Content:
    """The content of a report."""

    setting: PageSetting
    release: Published
    proof: Proof | PrivacyViolation | None  # None: not run
    detection_threshold: int | None
    top: Ranked | None  # None for keys only, as everything that needs numbers
    counts: list[tuple[int, Estimate]]  # a frequency, and the number of keys of it or more
    quantiles: Ranked | None
    curve: Curve
    sum: Estimate | None  # of all elements; None without a total, and for users
    other: Estimate | None  # what is in keys that were not reported
    listing: Listing
    changes: Changed | None = None  # since an earlier release

    @property
    def statement(self) -> Statement:
        """What the publisher states."""
        return self.setting.statement

    @property
    def title(self) -> str:
        """The title that the publisher states, or the key columns."""
        return self.statement.title or f"Private release: {', '.join(self.terms.keys)}"

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
        read = f"release = dpsample.read_release({self.setting.file!r})"
        return "\n".join(["import dpsample", "", read, *calls])

    def command(self, *words: object) -> str:
        """Return the command that prints the numbers of a section; FILE among the words is the release."""
        written = [self.setting.file if word is FILE else str(word) for word in words]
        return shlex.join(["dpsample", *written])


FILE = object()


def content_of(
    release: Published, setting: PageSetting | None = None, changes: Changed | None = None
) -> Content:
    """Compute the content; `changes` are those since an earlier release."""
    setting = setting or PageSetting()
    terms = release.terms
    numbers = numbers_of(release)
    return Content(
        setting=setting,
        release=release,
        proof=_proof(terms) if setting.prove else None,
        detection_threshold=terms.detection_threshold,
        top=None if terms.keys_only else release.top(setting.top),
        counts=_counts(release, numbers),
        quantiles=_quantiles(release, numbers),
        curve=curve(terms.sampling, terms.per_key, _POINTS),
        sum=_sum(release),
        other=_other(release),
        listing=listing_of(release, numbers),
        changes=changes,
    )


def _proof(terms: Terms) -> Proof | PrivacyViolation:
    try:
        return prove_release(terms)
    except PrivacyViolation as violation:
        return violation


def _quantiles(release: Published, numbers: dict[str, Floats]) -> Ranked | None:
    """Return the quantiles of frequencies; None without numbers, and if no key is reported with probability 1/2."""
    if not numbers or release.terms.detection_threshold is None:
        return None
    if _has_known_among_others(release.terms):
        return None
    return release.quantiles(SHARES)


def _sum(release: Published) -> Estimate | None:
    """Return the sum of all elements, if the page can show the private total beside it."""
    terms = release.terms
    if terms.keys_only or terms.bought.total is None or terms.unit == "user":
        return None
    return release.sum()


def _other(release: Published) -> Estimate | None:
    """Return what is in keys that were not reported, if there is a total to compare with."""
    terms = release.terms
    if terms.keys_only or terms.bought.total is None or _has_known_among_others(terms):
        return None
    return release.other()


def _has_known_among_others(terms: Terms) -> bool:
    """Whether a list of known keys is reported among others: these leave no quantiles and no remainder."""
    return terms.known is not None and terms.grid is not None


def _counts(release: Published, numbers: dict[str, Floats]) -> list[tuple[int, Estimate]]:
    """Return the number of keys of each round frequency or more, from the detection threshold on."""
    terms = release.terms
    if not numbers or terms.detection_threshold is None:
        return []
    first = max(terms.detection_threshold, 1)
    largest = max(float(numbers["value"].max()), first)
    few = terms.grid is not None and support_length(terms.per_key) > _LONG_SUPPORT
    frequencies = round_frequencies(first, largest, few)
    return [(frequency, release.count_keys(at_least=frequency)) for frequency in frequencies]


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
    first_power = int(math.log10(first))
    last_power = int(math.log10(last))
    for power in range(first_power, last_power + 1):
        for step in in_each_decade:
            frequency = step * 10**power
            if first < frequency <= last:
                frequencies.append(frequency)
    return frequencies

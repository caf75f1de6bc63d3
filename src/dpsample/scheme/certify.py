"""Certificates: an exact check that a scheme is (epsilon, delta)-differentially private.

Neighbouring datasets differ in one element, so in one key's frequency, by one; all other keys are drawn on their
own. The guarantee is then, for all r, with P_r(j) the probability of token j (or of "not reported") at frequency r,

    sum_j max(0, P_r(j) - E P_{r-1}(j)) <= delta   and   sum_j max(0, P_{r-1}(j) - E P_r(j)) <= delta.

Both are evaluated in integers, for the very cut points that a sanitizer draws from, with a proved lower bound of
E = exp(epsilon) and with proved bounds of the real sampling probabilities. Nothing is rounded. Frequencies that are too
many to be checked one by one are covered by `lemma`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from dpsample.balls import precision
from dpsample.errors import InvalidValue, PrivacyViolation
from dpsample.exact import MAX_FREQUENCY, exponential_floor
from dpsample.privacy import Privacy
from dpsample.scheme.certify_held import spent_by_rows
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.held import HeldReporting
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.integer import IntegerLaw, advance, integer_laws
from dpsample.scheme.law import Law
from dpsample.scheme.lemma import check_steps, delta_bound
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.renyi_steps import MARGIN, RenyiSteps, allowed, moment_limit
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import KeepAll, Sampling
from dpsample.scheme.tokens import chosen_grid, support_length

COUNTED_FROM = (
    "frequencies count from the first one at which the key's public hash samples it: for every seed"
)
_RATIO_BITS = 256  # of the lower bound of exp(epsilon): far more digits than delta has
_SHOWN_SPANS = 8
# tokens of rows that are computed where the lemma covers all: about a second, at any epsilon
_WORK = 1 << 20


@dataclass(frozen=True)
class Certificate:
    """What was proved, and the largest delta that was found.

    `checked` are ranges of frequencies r whose pair of rows (r - 1, r) was checked. From `shifts_from` on, every row is
    proved to be a shift of a checked one, or, along a stream, to spend as much; None if there is no such row. `bound`
    is the delta that the lemma of docs/theory.md, section 5, proves for every pair of rows, checked or not; None if it
    proves none.
    """

    privacy: Privacy
    sampling: Sampling | None
    grid: int | None
    checked: tuple[range, ...]
    delta: Fraction
    at: int
    shifts_from: int | None
    bound: Fraction | None = None

    @property
    def pairs(self) -> int:
        """The number of pairs of neighbouring rows that were checked."""
        return sum(map(len, self.checked))

    @property
    def complete(self) -> bool:
        """Whether every frequency is covered: by the lemma, or one by one, or as a shift of a checked row."""
        if self.bound is not None:
            return True
        if not self.checked or self.checked[0].start != 1:
            return False
        end = self.shifts_from
        if end is None:  # a table, or a sequence of q, ends somewhere
            return self.sampling is None or self.checked[0].stop > self.sampling.largest
        return self.checked[0].stop > end

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON; both deltas are exact."""
        return {
            "privacy": self.privacy.to_json(),
            "sampling": None if self.sampling is None else self.sampling.to_json(),
            "grid": self.grid,
            "holds": "at every frequency" if self.complete else "at the checked frequencies",
            "checked": [[r.start, r.stop - 1] for r in self.checked],
            "delta_found": _ratio(self.delta),
            "delta_found_decimal": f"{float(self.delta):.17g}",
            "at_frequency": self.at,
            "shifts_from": self.shifts_from,
            "delta_at_every_frequency": None if self.bound is None else _ratio(self.bound),
            "complete": self.complete,
        }

    def __str__(self) -> str:
        where = "" if self.complete else "at the checked frequencies "
        steps = f", tokens in steps of 1/{self.grid}" if self.grid else ""
        lines = [
            f"{self.privacy} holds {where}for {self.sampling or 'the given table'}{steps}",
            f"  checked exactly: {self.pairs} pairs of neighbouring frequencies: {self._spans_in_words()}",
            f"  largest delta found: {float(self.delta):.12g} at frequency {self.at}; "
            f"{self._unused(self.delta)} of the allowed {float(self.privacy.delta):g} is unused",
        ]
        if self.sampling is not None and self.sampling.seed is not None:
            lines.append(f"  {COUNTED_FROM}")
        if self.shifts_from is not None:
            repeated = "is a shift of a checked one"
            if isinstance(self.sampling, SampleAndHold):
                repeated = "spends with the one before it what this one does"
            lines.append(f"  from frequency {self.shifts_from} on, every row {repeated}")
        if self.bound is not None:
            by_lemma = "of it or more is unused, by the lemma of docs/theory.md, section 5"
            lines.append(f"  every other pair: {self._unused(self.bound)} {by_lemma}")
        return "\n".join([*lines, _coverage_in_words(self.complete)])

    def _unused(self, delta: Fraction) -> str:
        """The share of the allowed delta that a smaller one leaves."""
        return f"{float(1 - delta / self.privacy.delta):.2g}"

    def _spans_in_words(self) -> str:
        spans = ", ".join(f"{span.start}-{span.stop - 1}" for span in self.checked[:_SHOWN_SPANS])
        more = len(self.checked) - _SHOWN_SPANS
        return f"{spans} and {more} more spans" if more > 0 else spans


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _coverage_in_words(complete: bool) -> str:
    return "  every frequency is covered" if complete else "  other frequencies are not covered"


def certify(
    sampling: Sampling,
    privacy: Privacy,
    grid: int | None = None,
    frequencies: Iterable[range] | range | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Certificate:
    """Check the integer scheme exactly; raise `PrivacyViolation` if it is not (epsilon, delta)-DP.

    By default the lemma of docs/theory.md, section 5, covers every frequency, and rows are checked besides, one by one:
    those at which a privacy term binds, then pairs ever wider apart, then those from where pi is constant up to where
    rows are shifts of one another; where that takes more than seconds, the first of them. The lemma does not cover a
    q that is a function, which is known only where it was called. `frequencies` are ranges of r to check instead (the
    pair of rows r - 1 and r), without the lemma. `progress` is called with pairs done and pairs in all.

    >>> from dpsample import KeepAll, Privacy
    >>> certificate = certify(KeepAll(), Privacy(1, 1e-6), grid=1)
    >>> certificate.complete, float(certificate.delta) <= 1e-6
    (True, True)
    >>> print(certificate)
    Privacy(epsilon='1', delta='1e-06') holds for KeepAll(), tokens in steps of 1/1
      checked exactly: 56 pairs of neighbouring frequencies: 1-56
      largest delta found: 1e-06 at frequency 27; 8.9e-16 of the allowed 1e-06 is unused
      from frequency 56 on, every row is a shift of a checked one
      every other pair: 8.9e-16 of it or more is unused, by the lemma of docs/theory.md, section 5
      every frequency is covered
    """
    grid = chosen_grid(grid, privacy, sampling=sampling)
    reporting = Reporting.of(sampling.sanitized_as, privacy)
    if isinstance(reporting, HeldReporting):
        return _certify_held(reporting, frequencies, progress)
    assert isinstance(reporting, Reporting)
    largest = min(sampling.largest, MAX_FREQUENCY // grid)
    window = support_length(privacy)
    bound = None if frequencies is not None else _bound(reporting, grid, largest)
    steady = (
        _steady(reporting, grid, largest) if bound is None or window**2 * grid <= _WORK else None
    )
    spans = (
        _spans(reporting, steady, largest)
        if frequencies is None
        else _checked_spans(frequencies, largest)
    )
    if bound is not None:
        spans = _affordable(spans, window, grid)
    E = exponential_floor(min(privacy.epsilon, Fraction(64)), _RATIO_BITS)
    unit = 1 << (2 * reporting.bits + 64 + _RATIO_BITS)
    largest_delta = _LargestDelta(privacy, sampling, unit, sum(map(len, spans)), progress)
    for span in spans:
        for before, now in _pairs(span, reporting, grid):
            largest_delta.see(_delta_between(before, now, E), now.frequency)
    covered = steady is not None and any(steady in span for span in spans)
    shifts_from = steady if covered else None
    return Certificate(
        privacy, sampling, grid, spans, largest_delta.found, largest_delta.at, shifts_from, bound
    )


class _LargestDelta:
    """The largest delta of the pairs of rows that were checked so far; one above that of the privacy is refused."""

    def __init__(
        self,
        privacy: Privacy,
        sampling: Sampling,
        unit: int,
        pairs: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._privacy, self._sampling, self._unit = privacy, sampling, unit
        self._pairs, self._progress = pairs, progress
        self._allowed = privacy.delta * unit
        self._worst = self._seen = 0
        self.at = 0  # the later frequency of the worst pair; 0 if none was checked

    @property
    def found(self) -> Fraction:
        return Fraction(self._worst, self._unit)

    def see(self, delta: int, frequency: int) -> None:
        """Take the delta between a frequency and the one before it, in units."""
        if delta > self._allowed:
            raise PrivacyViolation(
                f"{self._privacy} must hold at every frequency; found delta = "
                f"{float(Fraction(delta, self._unit)):.12g} between {frequency - 1} and {frequency}; do not use "
                f"{self._sampling} with these parameters"
            )
        if delta > self._worst or not self.at:
            self._worst, self.at = delta, frequency
        self._seen += 1
        if self._progress is not None:
            self._progress(self._seen, self._pairs)


def _certify_held(
    reporting: HeldReporting,
    frequencies: Iterable[range] | range | None,
    progress: Callable[[int, int], None] | None,
) -> Certificate:
    """The certificate of a stream, from the integers that held keys draw from: all rows up to the end of the noise."""
    privacy, end = reporting.privacy, reporting.cells
    spans = (
        (range(1, end + 1),) if frequencies is None else _checked_spans(frequencies, MAX_FREQUENCY)
    )
    E, ratio_bits = (
        reporting.E,
        reporting.ratio_bits,
    )  # a proved bound, of a precision that fits delta
    unit = 1 << (reporting.bits + 128 + ratio_bits)
    steady = end if any(span.stop > end for span in spans) else None
    pairs = min(sum(map(len, spans)), end)
    largest_delta = _LargestDelta(privacy, reporting.sampling, unit, pairs, progress)
    for i, (up, down) in enumerate(spent_by_rows(reporting, E, ratio_bits), start=1):
        if i == steady or any(i in span for span in spans):
            largest_delta.see(max(up, down), i)
    return Certificate(
        privacy, reporting.sampling, 1, spans, largest_delta.found, largest_delta.at, steady
    )


def certify_table(rows: Sequence[Sequence[Any]], privacy: Privacy) -> Certificate:
    """Check a law from outside: row r holds the probabilities of each token at frequency r = 0, 1, 2, ...

    Rows may have different lengths; what a row lacks to 1 is the probability of not being reported. Numbers are taken
    exactly as they are (a float is a binary fraction). Raises `PrivacyViolation` if a pair of rows fails.

    >>> from dpsample import Privacy
    >>> certify_table([[], ["0.01"], ["0.03", "0.01"]], Privacy(2, 0.01)).pairs
    2
    """
    E = Fraction(
        exponential_floor(min(privacy.epsilon, Fraction(64)), _RATIO_BITS), 1 << _RATIO_BITS
    )
    table = []
    for r, row in enumerate(_rows_of(rows)):
        try:
            law = [_probability(v) for v in _rows_of(row)]
        except (ValueError, TypeError, ArithmeticError):
            raise InvalidValue(f"row {r} must hold numbers alone", "write decimals") from None
        absent = 1 - sum(law, Fraction(0))
        if absent < 0 or any(p < 0 for p in law):
            problem = (
                f"a sum that exceeds 1 by {float(-absent):.3g}"
                if absent < 0
                else "a negative number"
            )
            raise InvalidValue(
                f"each row must hold probabilities that sum to at most 1, but row {r} has {problem}",
                "scale it down, or leave the rounding error to the probability of not being reported",
            )
        table.append([absent, *law])
    if len(table) < 2:
        raise InvalidValue(
            f"a table must have at least two rows, not {len(table)}",
            "give rows for r = 0, 1, 2, ...",
        )
    worst, at = Fraction(0), 1
    for r in range(1, len(table)):
        width = max(len(table[r - 1]), len(table[r]))
        a, b = (row + [Fraction(0)] * (width - len(row)) for row in (table[r - 1], table[r]))
        delta = max(_excess(a, b, E), _excess(b, a, E))
        if delta > privacy.delta:
            raise PrivacyViolation(
                f"{privacy} must hold at every frequency; found delta = {float(delta):.12g} "
                f"between rows {r - 1} and {r}; do not use this table with these parameters"
            )
        if delta > worst:
            worst, at = delta, r
    return Certificate(privacy, None, None, (range(1, len(table)),), worst, at, None)


@dataclass(frozen=True)
class KeyCertificate:
    """What was proved of the keys of one user, each on its own: that their law is the one that composition counts."""

    per_key: KeyNoise | RenyiSteps | ComposedSteps
    sampling: Sampling
    grid: int | None
    comparisons: int
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON."""
        return {
            "per_key": self.per_key.to_json(),
            "sampling": self.sampling.to_json(),
            "grid": self.grid,
            "holds": "at every frequency" if self.complete else "at the checked frequencies",
            "comparisons": self.comparisons,
            "complete": self.complete,
        }

    def __str__(self) -> str:
        lines = [
            self.per_key.claim(self.sampling),
            f"  checked exactly: {self.comparisons:,} steps from one reporting probability to another",
        ]
        if self.sampling.seed is not None:
            lines.append(f"  {COUNTED_FROM}")
        return "\n".join([*lines, _coverage_in_words(self.complete)])


def certify_keys(
    sampling: Sampling, per_key: KeyNoise | RenyiSteps | ComposedSteps, grid: int | None = None
) -> KeyCertificate:
    """Check the law by which the keys of one user are drawn; raise `PrivacyViolation` if it is another.

    >>> from dpsample import KeepAll
    >>> certify_keys(KeepAll(), RenyiSteps(Fraction(14), Fraction("0.02"), Fraction("1e-7"))).complete
    True
    """
    if isinstance(per_key, KeyNoise):
        if not isinstance(sampling.sanitized_as, KeepAll):
            raise PrivacyViolation(
                f"bounded noise is for all keys; found {sampling}; do not trust this release"
            )
        return KeyCertificate(per_key, sampling, 1, per_key.cells, True)
    reporting = Reporting.of(sampling.sanitized_as, per_key)
    proved = (
        per_key.proves if isinstance(per_key, ComposedSteps) else _renyi_proof(reporting, per_key)
    )

    def private_step(before: int, now: int) -> bool:
        if before == 0:
            return now <= reporting.delta
        if now == reporting.one:
            return before >= reporting.one - reporting.delta
        return before == now or proved(now, before, reporting.bits)

    with precision():
        comparisons = check_steps(reporting, sampling.largest, private_step)
    return KeyCertificate(per_key, sampling, grid, comparisons, sampling.monotone)


def _renyi_proof(reporting: Law, steps: RenyiSteps) -> Callable[[int, int, int], bool]:
    """Return what decides whether a step has the divergence that it may have."""
    order = steps.order
    # rounding moves pi, and 1 - pi, by less than 64 units of 2**-bits over delta: far less than the margin of the steps
    if order * 64 > (order - 1) * steps.divergence * MARGIN / 2 * steps.delta**2 * reporting.one:
        raise PrivacyViolation(
            "rounding must cost less than the margin; found more; do not use these parameters"
        )
    with precision():
        limit = moment_limit(order, steps.divergence * (1 - MARGIN / 2))
    return lambda now, before, bits: allowed(now, before, bits, order, limit)


def _rows_of(value: Any) -> Iterable[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValue(
            f"a table must be a sequence of rows, not {type(value).__name__}",
            "give [[...], [...], ...]",
        )
    return value


def _probability(value: Any) -> Fraction:
    """Take a number exactly as it is: a float is a binary fraction."""
    if isinstance(value, bool):
        raise TypeError
    return Fraction(value.item() if hasattr(value, "item") else value)


def _excess(a: Iterable[Fraction], b: Iterable[Fraction], E: Fraction) -> Fraction:
    return sum((max(p - E * r, Fraction(0)) for p, r in zip(a, b, strict=True)), Fraction(0))


def _bound(reporting: Reporting, grid: int, largest: int) -> Fraction | None:
    """The delta of the lemma; None if that is more than allowed, or if nobody knows q between calls."""
    units = delta_bound(reporting, grid)
    if (
        units is None
        or units > reporting.privacy.delta * reporting.one
        or not reporting.sampling.monotone
    ):
        return None
    check_steps(reporting, largest)
    return Fraction(units, reporting.one)


def _steady(reporting: Reporting, grid: int, largest: int) -> int | None:
    """The first row from which on all are proved shifts: no token from before pi was constant is in it."""
    constant = i = reporting.constant_from
    if constant >= largest or not reporting.sampling.monotone:
        return None
    tails = [0]
    while tails[-1] != reporting.pi(i) or i == constant:
        if i >= largest:
            return None
        i += 1
        tails = advance(tails, i, reporting, grid)
    return i


def _checked_spans(frequencies: Any, largest: int) -> tuple[range, ...]:
    spans = [frequencies] if isinstance(frequencies, range) else frequencies
    if isinstance(spans, Iterable):
        spans = tuple(spans)
        if all(
            isinstance(s, range) and s.step == 1 and 1 <= s.start <= s.stop <= largest + 1
            for s in spans
        ):
            return spans
    raise InvalidValue(
        f"frequencies must be ranges of step 1 within 1 to {largest}, not {frequencies!r}",
        "give, for example, range(1, 1001)",
    )


def _spans(reporting: Reporting, steady: int | None, largest: int) -> tuple[range, ...]:
    """The default choice of frequencies, as disjoint ranges in ascending order."""
    window = support_length(reporting.privacy)
    wanted = [range(1, 3)]
    wanted += [range(i, i + 2) for i in reporting.delicate.tolist()]
    wanted += [
        range(1 << k, (1 << k) + 2)
        for k in range(2, largest.bit_length())
        if not steady or 1 << k < steady
    ]
    if steady is not None:
        wanted.append(range(reporting.constant_from, steady + 1))
    spans: list[range] = []
    for span in sorted(wanted, key=lambda r: r.start):
        start, stop = span.start, min(span.stop, largest + 1)
        if start >= stop:
            continue
        if spans and start <= spans[-1].stop + 4 * window:  # small gaps are cheap to fill
            spans[-1] = range(spans[-1].start, max(spans[-1].stop, stop))
        else:
            spans.append(range(start, stop))
    return tuple(spans)


def _affordable(spans: tuple[range, ...], window: int, grid: int) -> tuple[range, ...]:
    """As many of the first rows as `_WORK` allows; a row costs its tokens, a span the rows that lead to it as well."""
    affordable: list[range] = []
    work = _WORK
    for span in spans:
        row = min(span.stop, window) * grid
        pairs = (work - min(span.start, window) * row // 2) // row
        if pairs <= 0:
            break
        affordable.append(span[:pairs])
        work -= (min(span.start, window) // 2 + len(affordable[-1])) * row
    return tuple(affordable)


@dataclass(frozen=True)
class _Row:
    """An integer law with bounds of its real q, over 2**(bits + 64)."""

    frequency: int
    grid: int
    bits: int
    cuts: Sequence[int]
    low: int
    high: int


def _pairs(span: range, reporting: Reporting, grid: int) -> Iterator[tuple[_Row, _Row]]:
    sampling, bits = reporting.sampling, reporting.bits + 64

    def with_bounds(law: IntegerLaw) -> _Row:
        low, high = sampling.bounds(law.frequency, bits)
        if law.frequency >= reporting.constant_from:  # stands for all larger frequencies too
            high = sampling.bounds(sampling.largest, bits)[1]
        return _Row(law.frequency, grid, reporting.bits, law.cuts, low, high)

    first = max(span.start - 1, 1)
    laws = map(
        with_bounds,
        islice(integer_laws(first, sampling, reporting.privacy, grid), span.stop - first),
    )
    before = next(laws) if span.start > 1 else _Row(0, grid, reporting.bits, (0,), 0, 0)
    for now in laws:
        yield before, now
        before = now


def _delta_between(before: _Row, now: _Row, E: int) -> int:
    """The delta that a pair of rows spends, in the worse direction, in units of 2**-(2 bits + 64 + _RATIO_BITS)."""
    one = 1 << (2 * now.bits + 64)
    # "not reported": bounds of the real probability, in units of 2**-(2 bits + 64)
    if now.cuts[-1] > 1 << now.bits:
        raise PrivacyViolation(
            f"a key must not be reported more often than it is sampled; found otherwise at frequency {now.frequency}; "
            "do not use this scheme"
        )
    absent_low = [one - row.high * row.cuts[-1] for row in (before, now)]
    absent_high = [one - row.low * row.cuts[-1] for row in (before, now)]
    up = max(0, (absent_high[1] << _RATIO_BITS) - E * absent_low[0])
    down = max(0, (absent_high[0] << _RATIO_BITS) - E * absent_low[1])
    # tokens: the cell that is k-th from the top in row r is (k - grid)-th in row r - 1
    fresh = [b - a for a, b in zip((0, *now.cuts), now.cuts, strict=False)]
    old = [0] * now.grid + [b - a for a, b in zip((0, *before.cuts), before.cuts, strict=False)]
    width = max(len(fresh), len(old))
    fresh += [0] * (width - len(fresh))
    old += [0] * (width - len(old))
    now_high, before_high = now.high << _RATIO_BITS, before.high << _RATIO_BITS
    now_low, before_low = E * now.low, E * before.low
    for n, o in zip(fresh, old, strict=True):
        more = now_high * n - before_low * o
        if more > 0:
            up += more
        more = before_high * o - now_low * n
        if more > 0:
            down += more
    return max(up, down)

"""Certificates: an exact check that a scheme is (epsilon, delta)-differentially private.

Neighbouring datasets differ in one element, so in one key's frequency, by one; all other keys are drawn on their
own. The guarantee is then, for all r, with P_r(j) the probability of token j (or of "not reported") at frequency r,

    sum_j max(0, P_r(j) - E P_{r-1}(j)) <= delta   and   sum_j max(0, P_{r-1}(j) - E P_r(j)) <= delta.

This is (1) of docs/theory.md, section 1. Both sums are evaluated in integers, for the very cut points that a sanitizer
draws from, with a proved lower bound of E = exp(epsilon) and with proved bounds of the real sampling probabilities.
Nothing is rounded. Where there are too many frequencies to check one by one, `lemma` covers the others (section 5).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise, zip_longest
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
_MORE_BITS = 64  # of the bounds of q than the cuts have, so that they cost next to nothing of delta
_SHOWN_SPANS = 8
# tokens of rows that are checked besides the lemma, which covers all: about a second, at any epsilon
_WORK = 1 << 20
_SMALL_GAP = 4  # supports: a gap between spans that is no longer is checked too, since its rows are computed anyway
_ROUNDING = 64  # units of 2**-bits, over delta, by which rounding moves pi and 1 - pi of Rényi steps at most

Progress = Callable[[int, int], None]  # is called with pairs done, and pairs in all


@dataclass(frozen=True)
class Certificate:
    """A proved privacy, and the largest delta that was found.

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
    at: int  # the later frequency of the pair that spends it
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
        after_first_span = self.checked[0].stop
        if self.shifts_from is not None:
            return after_first_span > self.shifts_from
        # a table, or a sequence of q, ends somewhere
        return self.sampling is None or after_first_span > self.sampling.largest

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON; both deltas are exact."""
        return {
            "privacy": self.privacy.to_json(),
            "sampling": None if self.sampling is None else self.sampling.to_json(),
            "grid": self.grid,
            "holds": _holds(self.complete),
            "checked": [[span.start, span.stop - 1] for span in self.checked],
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
        """Return the share of the allowed delta that a smaller one leaves."""
        share = 1 - delta / self.privacy.delta
        return f"{float(share):.2g}"

    def _spans_in_words(self) -> str:
        shown = [f"{span.start}-{span.stop - 1}" for span in self.checked[:_SHOWN_SPANS]]
        spans = ", ".join(shown)
        more = len(self.checked) - _SHOWN_SPANS
        return f"{spans} and {more} more spans" if more > 0 else spans


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _holds(complete: bool) -> str:
    return "at every frequency" if complete else "at the checked frequencies"


def _coverage_in_words(complete: bool) -> str:
    return "  every frequency is covered" if complete else "  other frequencies are not covered"


def certify(
    sampling: Sampling,
    privacy: Privacy,
    grid: int | None = None,
    frequencies: Iterable[range] | range | None = None,
    progress: Progress | None = None,
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

    bound = _bound(reporting, grid, largest) if frequencies is None else None
    steady = None
    if bound is None or window**2 * grid <= _WORK:
        steady = _steady(reporting, grid, largest)
    if frequencies is None:
        spans = _spans(reporting, steady, largest)
    else:
        spans = _checked_spans(frequencies, largest)
    if bound is not None:
        spans = _affordable(spans, window, grid)

    E = exponential_floor(min(privacy.epsilon, Fraction(64)), _RATIO_BITS)
    unit = 1 << (2 * reporting.bits + _MORE_BITS + _RATIO_BITS)
    pairs = sum(map(len, spans))
    largest_delta = _LargestDelta(privacy, sampling, unit, pairs, progress)
    for span in spans:
        for before, now in _pairs(span, reporting, grid):
            largest_delta.see(_delta_between(before, now, E), now.frequency)
    is_steady_checked = steady is not None and any(steady in span for span in spans)
    return Certificate(
        privacy=privacy,
        sampling=sampling,
        grid=grid,
        checked=spans,
        delta=largest_delta.found,
        at=largest_delta.at,
        shifts_from=steady if is_steady_checked else None,
        bound=bound,
    )


class _LargestDelta:
    """The largest delta of the pairs of rows that were checked so far; one above that of the privacy is refused.

    Deltas are integers in units of 1 / `unit`.
    """

    def __init__(
        self,
        privacy: Privacy,
        sampling: Sampling,
        unit: int,
        pairs: int,
        progress: Progress | None,
    ) -> None:
        self._privacy = privacy
        self._sampling = sampling
        self._unit = unit
        self._allowed = privacy.delta * unit
        self._pairs = pairs
        self._progress = progress
        self._seen = 0
        self._worst = 0
        self.at = 0  # the later frequency of the worst pair; 0 if none was checked

    @property
    def found(self) -> Fraction:
        return Fraction(self._worst, self._unit)

    def see(self, delta: int, frequency: int) -> None:
        """Take the delta between a frequency and the one before it."""
        if delta > self._allowed:
            exact_delta = Fraction(delta, self._unit)
            raise PrivacyViolation(
                f"{self._privacy} does not hold: delta is {float(exact_delta):.12g} between the frequencies "
                f"{frequency - 1} and {frequency}; do not use {self._sampling} with these parameters"
            )
        if delta > self._worst or not self.at:
            self._worst = delta
            self.at = frequency
        self._seen += 1
        if self._progress is not None:
            self._progress(self._seen, self._pairs)


def _certify_held(
    reporting: HeldReporting,
    frequencies: Iterable[range] | range | None,
    progress: Progress | None,
) -> Certificate:
    """Return the certificate of a stream, of all rows up to the end of the noise."""
    end = reporting.cells
    spans: tuple[range, ...] = (range(1, end + 1),)
    if frequencies is not None:
        spans = _checked_spans(frequencies, MAX_FREQUENCY)
    steady = end if any(span.stop > end for span in spans) else None
    pairs = min(sum(map(len, spans)), end)
    # E is a proved bound, of a precision that fits delta
    unit = 1 << (reporting.bits + 128 + reporting.ratio_bits)
    largest_delta = _LargestDelta(reporting.privacy, reporting.sampling, unit, pairs, progress)
    spent = spent_by_rows(reporting, reporting.E, reporting.ratio_bits)
    for i, (up, down) in enumerate(spent, start=1):
        if i == steady or any(i in span for span in spans):
            largest_delta.see(max(up, down), i)
    return Certificate(
        privacy=reporting.privacy,
        sampling=reporting.sampling,
        grid=1,
        checked=spans,
        delta=largest_delta.found,
        at=largest_delta.at,
        shifts_from=steady,
    )


def certify_table(rows: Sequence[Sequence[Any]], privacy: Privacy) -> Certificate:
    """Check a law from outside: row r holds the probabilities of each token at frequency r = 0, 1, 2, ...

    Rows may have different lengths; the probability of not being reported is the rest to 1. Numbers are taken
    exactly as they are (a float is a binary fraction). Raises `PrivacyViolation` if a pair of rows fails.

    >>> from dpsample import Privacy
    >>> certify_table([[], ["0.01"], ["0.03", "0.01"]], Privacy(2, 0.01)).pairs
    2
    """
    E_bits = exponential_floor(min(privacy.epsilon, Fraction(64)), _RATIO_BITS)
    E = Fraction(E_bits, 1 << _RATIO_BITS)
    table = [_law_of_row(r, row) for r, row in enumerate(_rows_of(rows))]
    if len(table) < 2:
        raise InvalidValue(
            f"a table must have at least two rows, not {len(table)}",
            "give rows for r = 0, 1, 2, ...",
        )
    worst = Fraction(0)
    at = 1
    for r, (before, now) in enumerate(pairwise(table), start=1):
        delta = max(_excess(before, now, E), _excess(now, before, E))
        if delta > privacy.delta:
            raise PrivacyViolation(
                f"{privacy} does not hold: delta is {float(delta):.12g} between rows {r - 1} and {r}; do not use this "
                "table with these parameters"
            )
        if delta > worst:
            worst = delta
            at = r
    checked = (range(1, len(table)),)
    return Certificate(
        privacy, sampling=None, grid=None, checked=checked, delta=worst, at=at, shifts_from=None
    )


def _rows_of(value: Any) -> Iterable[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValue(
            f"a table must be a sequence of rows, not {type(value).__name__}",
            "give [[...], [...], ...]",
        )
    return value


def _law_of_row(r: int, row: Any) -> list[Fraction]:
    """Return the probabilities of not being reported, and of each token, at frequency r."""
    try:
        tokens = [_probability(value) for value in _rows_of(row)]
    except (ValueError, TypeError, ArithmeticError):
        raise InvalidValue(f"row {r} must hold numbers alone", "write decimals") from None
    absent = 1 - sum(tokens, Fraction(0))
    problem = None
    if absent < 0:
        problem = f"a sum that exceeds 1 by {float(-absent):.3g}"
    elif any(p < 0 for p in tokens):
        problem = "a negative number"
    if problem is not None:
        raise InvalidValue(
            f"each row must hold probabilities that sum to at most 1, but row {r} has {problem}",
            "scale it down, or leave the rounding error to the probability of not being reported",
        )
    return [absent, *tokens]


def _probability(value: Any) -> Fraction:
    """Return a number exactly as it is: a float is a binary fraction."""
    if isinstance(value, bool):
        raise TypeError
    return Fraction(value.item() if hasattr(value, "item") else value)


def _excess(a: Iterable[Fraction], b: Iterable[Fraction], E: Fraction) -> Fraction:
    """Return the sum of ``max(0, P(j) - E P'(j))`` over all outcomes; the shorter law is 0 at the others."""
    total = Fraction(0)
    for p, other in zip_longest(a, b, fillvalue=Fraction(0)):
        total += max(p - E * other, Fraction(0))
    return total


@dataclass(frozen=True)
class KeyCertificate:
    """A proof about the keys of one user, each on its own: that their law is the one that composition counts."""

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
            "holds": _holds(self.complete),
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
                f"bounded noise is for all keys, not for {sampling}; do not trust this release"
            )
        return KeyCertificate(per_key, sampling, 1, comparisons=per_key.cells, complete=True)
    reporting = Reporting.of(sampling.sanitized_as, per_key)
    proved: Callable[[int, int, int], bool]
    if isinstance(per_key, RenyiSteps):
        proved = _renyi_proof(reporting, per_key)
    else:
        proved = per_key.proves

    def private_step(before: int, now: int) -> bool:
        if before == 0:
            return now <= reporting.delta
        if now == reporting.one:
            return before >= reporting.one - reporting.delta
        return before == now or proved(now, before, reporting.bits)

    with precision():
        comparisons = check_steps(reporting, sampling.largest, private_step)
    return KeyCertificate(per_key, sampling, grid, comparisons, complete=sampling.monotone)


def _renyi_proof(reporting: Law, steps: RenyiSteps) -> Callable[[int, int, int], bool]:
    """Return a function of two probabilities over 2**bits: whether a step has the divergence that it may have."""
    order = steps.order
    # a step may cost the divergence less half of its margin; rounding must cost less than that half
    moments_of_rounding = order * _ROUNDING
    moments_of_margin = (order - 1) * steps.divergence * MARGIN / 2
    if moments_of_rounding > moments_of_margin * steps.delta**2 * reporting.one:
        raise PrivacyViolation(
            "rounding costs more than the margin that is left for it; do not use these parameters"
        )
    with precision():
        limit = moment_limit(order, steps.divergence * (1 - MARGIN / 2))
    return lambda now, before, bits: allowed(now, before, bits, order, limit)


def _bound(reporting: Reporting, grid: int, largest: int) -> Fraction | None:
    """Return the delta of the lemma; None if that is more than allowed, or if nobody knows q between calls."""
    if not reporting.sampling.monotone:
        return None
    units = delta_bound(reporting, grid)
    if units is None or units > reporting.privacy.delta * reporting.one:
        return None
    check_steps(reporting, largest)
    return Fraction(units, reporting.one)


def _steady(reporting: Reporting, grid: int, largest: int) -> int | None:
    """Return a row of which all later ones are proved shifts: it has no token from before pi was constant."""
    constant = reporting.constant_from
    if constant >= largest or not reporting.sampling.monotone:
        return None
    i = constant
    tails = [0]
    while tails[-1] != reporting.pi(i) or i == constant:
        if i >= largest:
            return None
        i += 1
        tails = advance(tails, i, reporting, grid)
    return i


def _checked_spans(frequencies: Any, largest: int) -> tuple[range, ...]:
    """Return the ranges that a caller gives, or refuse them."""
    spans = [frequencies] if isinstance(frequencies, range) else frequencies
    if isinstance(spans, Iterable):
        spans = tuple(spans)
        if all(_is_span(span, largest) for span in spans):
            return spans
    raise InvalidValue(
        f"frequencies must be ranges of step 1 within 1 to {largest}, not {frequencies!r}",
        "give, for example, range(1, 1001)",
    )


def _is_span(span: Any, largest: int) -> bool:
    if not isinstance(span, range) or span.step != 1:
        return False
    return 1 <= span.start <= span.stop <= largest + 1


def _spans(reporting: Reporting, steady: int | None, largest: int) -> tuple[range, ...]:
    """Return the default choice of frequencies, as disjoint ranges in ascending order."""
    wanted = [range(1, 3)]
    for i in reporting.delicate.tolist():
        wanted.append(range(i, i + 2))
    for exponent in range(2, largest.bit_length()):
        power_of_two = 1 << exponent
        if not steady or power_of_two < steady:
            wanted.append(range(power_of_two, power_of_two + 2))
    if steady is not None:
        wanted.append(range(reporting.constant_from, steady + 1))
    small_gap = _SMALL_GAP * support_length(reporting.privacy)
    spans: list[range] = []
    for span in sorted(wanted, key=lambda span: span.start):
        start = span.start
        stop = min(span.stop, largest + 1)
        if start >= stop:
            continue
        if spans and start <= spans[-1].stop + small_gap:
            last = spans.pop()
            start = last.start
            stop = max(last.stop, stop)
        spans.append(range(start, stop))
    return tuple(spans)


def _affordable(spans: tuple[range, ...], window: int, grid: int) -> tuple[range, ...]:
    """Return as many of the first rows as `_WORK` allows.

    A row costs its tokens. A span costs in addition the rows that lead to its first one, half as long on average.
    """
    affordable: list[range] = []
    work = _WORK
    for span in spans:
        tokens_of_row = min(span.stop, window) * grid
        rows_before = min(span.start, window)
        pairs = (work - rows_before * tokens_of_row // 2) // tokens_of_row
        if pairs <= 0:
            break
        checked = span[:pairs]
        affordable.append(checked)
        work -= (rows_before // 2 + len(checked)) * tokens_of_row
    return tuple(affordable)


@dataclass(frozen=True)
class _Row:
    """An integer law with bounds of its real q, over 2**(bits + _MORE_BITS)."""

    frequency: int
    grid: int
    bits: int
    cuts: Sequence[int]
    low: int
    high: int

    @property
    def cells(self) -> list[int]:
        """The integers of each token, from the highest on; over 2**bits, if the key is sampled."""
        return [cut - before for before, cut in pairwise((0, *self.cuts))]


def _pairs(span: range, reporting: Reporting, grid: int) -> Iterator[tuple[_Row, _Row]]:
    """Yield the rows r - 1 and r for each r of a span."""
    sampling = reporting.sampling
    bits_of_q = reporting.bits + _MORE_BITS

    def with_bounds(law: IntegerLaw) -> _Row:
        low, high = sampling.bounds(law.frequency, bits_of_q)
        if law.frequency >= reporting.constant_from:  # stands for all larger frequencies too
            _, high = sampling.bounds(sampling.largest, bits_of_q)
        return _Row(law.frequency, grid, reporting.bits, law.cuts, low, high)

    first = max(span.start - 1, 1)
    laws = integer_laws(first, sampling, reporting.privacy, grid)
    rows = map(with_bounds, islice(laws, span.stop - first))
    if span.start == 1:
        before = _Row(0, grid, reporting.bits, cuts=(0,), low=0, high=0)
    else:
        before = next(rows)
    for now in rows:
        yield before, now
        before = now


def _delta_between(before: _Row, now: _Row, E: int) -> int:
    """Return the delta that a pair of rows spends, in the worse direction.

    It is in units of 2**-(2 bits + _MORE_BITS + _RATIO_BITS). `E` is a lower bound of exp(epsilon) over 2**_RATIO_BITS.
    """
    if now.cuts[-1] > 1 << now.bits:
        raise PrivacyViolation(
            f"a key must not be reported more often than it is sampled, as it is at frequency {now.frequency}; do not "
            "use this scheme"
        )
    # "not reported": bounds of the real probability, in units of 2**-(2 bits + _MORE_BITS)
    one = 1 << (2 * now.bits + _MORE_BITS)
    absent_least_before = one - before.high * before.cuts[-1]
    absent_most_before = one - before.low * before.cuts[-1]
    absent_least_now = one - now.high * now.cuts[-1]
    absent_most_now = one - now.low * now.cuts[-1]
    up = max(0, (absent_most_now << _RATIO_BITS) - E * absent_least_before)
    down = max(0, (absent_most_before << _RATIO_BITS) - E * absent_least_now)
    # tokens: the k-th cell from the top in row r is the (k - grid)-th in row r - 1
    cells_now = now.cells
    cells_before = [0] * now.grid + before.cells
    q_most_now = now.high << _RATIO_BITS
    q_most_before = before.high << _RATIO_BITS
    E_q_least_now = E * now.low
    E_q_least_before = E * before.low
    for cell_now, cell_before in zip_longest(cells_now, cells_before, fillvalue=0):
        more = q_most_now * cell_now - E_q_least_before * cell_before
        if more > 0:
            up += more
        more = q_most_before * cell_before - E_q_least_now * cell_now
        if more > 0:
            down += more
    return max(up, down)

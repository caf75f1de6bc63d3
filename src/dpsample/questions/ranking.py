"""Questions about single keys: their frequencies, the top k, the rank of a key, which of two is more frequent.

The frequency of a key has a law, given its token. Ranks also depend on the other keys, reported or not: the frequencies
of those that may be above or below are drawn from their laws. The generator has a fixed seed, so that equal questions
have equal answers. Nothing here needs to be secret: it sees the release alone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate, estimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.notes import Note
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.questions.arguments import check_k
from dpsample.questions.result import OF_EACH, Estimates, about_each
from dpsample.questions.selection import Attributes, Selection, Where
from dpsample.questions.single_keys import key_frequencies
from dpsample.questions.sums import kept_notes, needs_tokens
from dpsample.questions.unreported import rank_unreported, unreported_law
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import first_frequency, support_length

if TYPE_CHECKING:
    from dpsample.release.release import Release

RARE = "the key may be below the detection threshold: its rank is uncertain"
_WORK = 4_000_000  # draws of a key's frequency
_DRAWS = 40, 1000  # of all keys together: fewest and most
_CROWD = 20  # keys that may be above or below: if more, they may all have the same frequency


def top(
    release: "Release", k: int, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimates:
    """List the k keys with the largest estimates, and for each the probability that it is in the top k.

    A key is in the top k if fewer than k of the selected keys, reported or not, are more frequent. Estimates are those
    of the release's table. Among many keys of about the same frequency, those with the largest tokens are listed, and
    their estimates are too high. Each interval is that of the key by itself, as elsewhere; a note states the higher
    level at which the listed keys have the nominal coverage on average (Benjamini and Yekutieli, 2005).
    """
    level, k = check_level(level), check_k(k)
    selected = _SelectedKeys(release, where, attributes)
    if not len(selected.cells):
        return selected.listing(np.zeros(0, np.int64), [np.zeros(0)] * 5, level, "no reported key is selected")
    # k keys reach the first frequency of the k-th largest token, so that no key below it matters
    kth = np.sort(selected.cells)[-min(k, len(selected.cells))]
    competitors = selected.competitors(first_frequency(int(kth), selected.scheme.grid), None)
    place = np.searchsorted(competitors.cells, selected.cells).clip(max=len(competitors.cells) - 1)
    inside = competitors.cells[place] == selected.cells
    rows, place = selected.rows[inside], place[inside]
    order = np.lexsort((rows, -place))[:k]  # as estimates, and finer
    rows, place = rows[order], place[order]
    tokens, back = np.unique(place, return_inverse=True)
    _, _, rivals = listed(selected.spectrum, competitors.cells, competitors.counts, place, level)
    value, low, high = key_frequencies(release, rows, level)
    columns = value, competitors.law.deviation[place], low, high, competitors.top(k, tokens)[back]
    fewer = ", fewer than k," if len(rows) < k else ""
    claim, advice = f"top {k:,} among {len(selected.cells):,} reported keys{fewer} and those that were not reported", ""
    if rivals > len(rows):
        claim += f"; {rivals:,} compete for the list, and those on it may be estimated too high"
        advice = f"to allow for it, ask for the level {1 - (1 - level) * len(rows) / rivals:.6g}"
    return selected.listing(rows, columns, level, Note(claim, advice))


def each_key(release: "Release", where: Where = None, level: float = 0.95, attributes: Attributes = None) -> Estimates:
    """Estimate the frequency of each selected key that was reported, in the order of the release, from its token alone.

    Values and, at the level 0.95, intervals are those of the release's own table. Standard errors are deviations of the
    keys' laws. Keys of equal tokens have equal estimates, so that many keys cost no more than their distinct tokens.
    """
    level = check_level(level)
    selected = _SelectedKeys(release, where, attributes)
    cells = selected.tally.cells
    deviation = np.zeros(len(cells))
    size = max(1, _WORK // (support_length(release.per_key) + TUNING.ranking_margin))
    for start in range(0, len(cells), size):
        part = slice(start, start + size)
        deviation[part] = _Law(*selected.spectrum.posterior(cells[part])).deviation
    value, low, high = key_frequencies(release, selected.rows, level)
    columns = value, deviation[np.searchsorted(cells, selected.cells)], low, high
    return selected.listing(selected.rows, columns, level, about_each(len(selected.cells)))


def rank(
    release: "Release", key: Any, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimate:
    """Estimate a key's rank: one more than the number of selected keys, reported or not, that are more frequent."""
    level = check_level(level)
    selected = _SelectedKeys(release, where, attributes)
    if selected.row_of(key) is None:
        return selected.rank_unreported(key, level)
    cell = selected.cell_of(key)
    frequencies, probabilities = (part[0] for part in selected.spectrum.posterior([cell]))
    held = frequencies[probabilities > 0]
    competitors = selected.competitors(int(held[0]) + 1, int(held[-1]), without=cell)
    ranks, weights = [], []
    for values, counts, _ in competitors.draws():
        order = np.argsort(values)
        upto = np.append(0, np.cumsum(counts[order]))
        above = upto[-1] - upto[np.searchsorted(values[order], frequencies, side="right")]
        ranks.append(1 + competitors.above + above)
        weights.append(probabilities)
    drawn, weight = np.concatenate(ranks), np.concatenate(weights)
    weight = weight / weight.sum()
    value = float(drawn[0] + (drawn - drawn[0]) @ weight)
    error = float(np.sqrt(((drawn - value) ** 2) @ weight))
    order = np.argsort(drawn)
    tail = (1 - level) / 2
    ends = np.searchsorted(np.cumsum(weight[order]), [tail, 1 - tail]).clip(max=len(drawn) - 1)
    low, high = drawn[order][ends].tolist()
    if competitors.counts.sum() > _CROWD:
        fewest, most = selected.ranks_of_interval(cell, 1 - tail)
        low, high = min(low, fewest), max(high, most)
    guaranteed = selected.detection_threshold is not None and bool(
        frequencies @ probabilities >= selected.detection_threshold
    )
    notes = () if guaranteed else (RARE,)
    return Estimate(
        value,
        error,
        float(low),
        float(high),
        level,
        0.0,
        len(selected.cells),
        selected.detection_threshold,
        guaranteed,
        notes,
    )


def compare(release: "Release", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; either may be unreported."""
    if a == b:
        return 0.0
    selected = _SelectedKeys(release, None, None)
    (i, p), (j, q) = (selected.law_of(key) for key in (a, b))
    order = np.argsort(j)
    below = np.append(0, np.cumsum(q[order]))
    return float(p @ below[np.searchsorted(j[order], i, side="left")])


def listed(spectrum: Spectrum, cells: Ints, counts: Ints, place: Ints, level: float) -> tuple[Ints, Ints, int]:
    """Return the intervals of listed keys, by the places of their tokens, and the number of keys that compete.

    A key competes if its interval reaches those of the listed ones. The more keys compete, the longer intervals are,
    and the more keys reach.
    """
    rivals, before = len(place), 0
    while rivals > before:
        part = 1 - (1 - level) * len(place) / rivals
        low, high = spectrum.interval(cells[place], part)
        # the larger a token, the further its interval reaches
        first = bisect_left(cells, low.min(), hi=int(place.min()), key=partial(_reach, spectrum, part))
        before, rivals = rivals, max(int(counts[first:].sum()), rivals)
    return low, high, rivals


def _reach(spectrum: Spectrum, level: float, token: int) -> int:
    """The upper end of the interval of a token's key."""
    return int(spectrum.interval([token], level)[1][0])


class _Law:
    """The laws of the frequencies of keys, by token: [token, frequency], frequencies ascending."""

    def __init__(self, frequencies: Ints, probabilities: Floats) -> None:
        order = np.argsort(frequencies, axis=1)
        self.frequencies = np.take_along_axis(frequencies, order, 1)
        p = np.take_along_axis(probabilities, order, 1)
        self.p = p / p.sum(1, keepdims=True)
        self.upto = np.cumsum(self.p, axis=1)
        base = self.frequencies[:, :1]  # frequencies may be large, and their differences small
        mean = ((self.frequencies - base) * self.p).sum(1, keepdims=True)
        self.deviation = np.sqrt((((self.frequencies - base) - mean) ** 2 * self.p).sum(1))

    def reaching(self, frequency: int, tokens: Ints) -> Floats:
        """Return the probability that a key of each token has at least this frequency."""
        below = (self.frequencies[tokens] < frequency).sum(1)
        reached: Floats = 1 - np.where(below > 0, self.upto[tokens, below - 1], 0.0)
        return reached.clip(0, 1)


class _SelectedKeys:
    """The selected keys of a release, with their tokens and the laws of their frequencies."""

    def __init__(self, release: "Release", where: Where, attributes: Attributes) -> None:
        if release.keys_only:
            raise needs_tokens("an order of keys")
        assert release.grid is not None
        self.release, self.scheme = release, Scheme(release.sampling, release.per_key, release.grid)
        self.rows, self.cells = Selection(release, where, attributes=attributes).rows()
        self.tally = Tally.of(self.cells)
        self.detection_threshold = frequency_reaching(0.5, release.sampling, release.per_key)

    @cached_property
    def spectrum(self) -> Spectrum:
        return spectrum(self.tally, self.scheme)

    def row_of(self, key: Any) -> int | None:
        """Find a key's row in the release; None if it was not reported."""
        rows, _ = Selection(self.release, [key]).rows()
        return int(rows[0]) if len(rows) else None

    def cell_of(self, key: Any) -> int:
        """Find the token of a selected key."""
        place = np.flatnonzero(self.rows == self.row_of(key))
        if not len(place):
            raise InvalidValue("the key is among the selected ones", "one that is not", "change where")
        return int(self.cells[place[0]])

    def law_of(self, key: Any) -> tuple[Ints, Floats]:
        """Return frequencies and their probabilities, for a key that was reported, or was not."""
        if self.row_of(key) is None:
            return unreported_law(self.release, key)
        frequencies, probabilities = self.spectrum.posterior([self.cell_of(key)])
        return frequencies[0], probabilities[0]

    def count_keys(self, at_least: int, level: float) -> Estimate:
        """Estimate how many selected keys have a frequency or more."""
        return estimate(self.tally, self.scheme, Measure.at_least(at_least), level=level)

    def ranks_of_interval(self, cell: int, level: float) -> tuple[float, float]:
        """The ranks at both ends of the interval of a token's frequency, whatever frequencies the other keys have."""
        low, high = (int(end[0]) for end in self.spectrum.interval([cell], level))
        return 1 + self.count_keys(high + 1, level).low, 1 + self.count_keys(low + 1, level).high

    def rank_unreported(self, key: Any, level: float) -> Estimate:
        """The rank of a key that was not reported."""
        return rank_unreported(
            self.release, level, self.tally.total, lambda reached: self.count_keys(reached, level).low, key
        )

    def listing(self, rows: Ints, columns: Iterable[Any], level: float, note: str) -> Estimates:
        """Return the answer for some keys: value, deviation and interval of each, and in a top list a probability."""
        names = ("value", "standard_error", "low", "high", "probability")
        numbers = {name: column.astype(np.float64) for name, column in zip(names, columns, strict=False)}
        keys = self.release.table.select(list(self.release.keys)).take(pa.array(rows))
        notes = (note, *kept_notes(self.release))
        return Estimates(keys, pa.table(numbers), level, self.detection_threshold, notes, intervals=OF_EACH)

    def competitors(self, low: int, high: int | None, without: int | None = None) -> "_Competitors":
        """Return the keys whose frequency may be from low to high, without one key of the token `without`."""
        first = first_frequency(self.tally.cells, self.scheme.grid)
        near = first + support_length(self.release.per_key) + TUNING.ranking_margin >= low
        above = np.zeros_like(near) if high is None else first > high
        counts = self.tally.keys - (self.tally.cells == without)
        near &= ~above & (counts > 0)
        return _Competitors(self, self.tally.cells[near], counts[near], int(counts[above].sum()), int(low), high)


class _Competitors:
    """Keys whose order is uncertain: reported ones, by token, and unreported ones. `above` keys are certainly above."""

    def __init__(
        self, selected: _SelectedKeys, cells: Ints, counts: Ints, above: int, low: int, high: int | None
    ) -> None:
        self.selected, self.cells, self.counts, self.above = selected, cells, counts, above
        self.law = _Law(*selected.spectrum.posterior(cells))
        spectrum, release = selected.spectrum, selected.release
        pi = reporting_probabilities(spectrum.frequencies, release.sampling, release.per_key)
        missable = (spectrum.frequencies >= low) & (pi < 1) & (spectrum.keys > 0)
        i, pi, keys = spectrum.frequencies[missable], np.maximum(pi[missable], 1e-9), spectrum.keys[missable]
        near = i <= (MAX_FREQUENCY if high is None else high)
        self.frequencies, self.pi, self.reported = i[near], pi[near], keys[near] * pi[near]  # expected to be reported
        if not near.all():  # of those above, only the number matters: as one frequency of equal mean and variance
            missed = keys[~near] * (1 - pi[~near])
            p = missed.sum() / (missed / pi[~near]).sum()
            self.frequencies = np.append(self.frequencies, i[-1])
            self.pi = np.append(self.pi, p)
            self.reported = np.append(self.reported, missed.sum() * p / (1 - p))

    def draws(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield draws of all frequencies: values, numbers of keys of each, places of their tokens (-1 for none)."""
        generator = np.random.default_rng(0)
        D, m = self.law.p.shape
        few = self.counts <= m  # drawn key by key; of the others the numbers by frequency are drawn
        owner = np.repeat(np.arange(D)[few], self.counts[few])
        flat = (self.law.upto / self.law.upto[:, -1:] + np.arange(D)[:, None]).ravel()
        many = np.flatnonzero(~few)
        n = int(np.clip(_WORK // max(len(owner) + len(many) * m + len(self.pi), 1), *_DRAWS))
        place = np.concatenate([owner, np.repeat(many, m), np.full(len(self.pi), -1)])
        ones = np.ones(len(owner), np.int64)
        shared = np.zeros(0, np.int64)
        for _ in range(n):
            at = np.searchsorted(flat, owner + generator.random(len(owner)), side="right")
            single = self.law.frequencies.ravel()[np.clip(at, owner * m, owner * m + m - 1)]
            if len(many):
                shared = generator.multinomial(self.counts[many], self.law.p[many]).ravel()
            # the number of keys missed, each with probability 1 - pi, before `reported` ones were reported
            missed = generator.negative_binomial(np.maximum(self.reported, 1e-12), self.pi)
            values = np.concatenate([single, self.law.frequencies[many].ravel(), self.frequencies])
            yield values, np.concatenate([ones, shared, missed]), place

    def top(self, k: int, tokens: Ints) -> Floats:
        """Return, for a key of each of some tokens, the probability that fewer than k keys are more frequent.

        Given the others, that is the probability of reaching the k-th largest frequency of the others: the k-th of
        all, or the next one if the key is itself among the k.
        """
        probabilities = np.zeros(len(tokens))
        n = 0
        for values, counts, place in self.draws():
            order = np.argsort(values)[::-1]
            upto = np.cumsum(counts[order])
            kth, next_ = (
                int(values[order][at]) if (at := int(np.searchsorted(upto, rank))) < len(order) else 0
                for rank in (k, k + 1)
            )
            ours = place >= 0
            inside = np.bincount(place[ours], (counts * (values >= kth))[ours], len(self.cells)) / self.counts
            reach = self.law.reaching(kth, tokens)
            further = reach if next_ == kth else self.law.reaching(next_, tokens)
            probabilities += reach + inside[tokens] * (further - reach)
            n += 1
        return (probabilities / n).clip(0, 1)

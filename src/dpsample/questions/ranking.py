"""Questions about single keys: how frequent each is, the top k, the rank of a key, which of two is more frequent.

A key's token tells a law of its frequency. Ranks also depend on the
other keys, reported or not; those that may lie on either side are drawn from their laws, by a generator with a fixed
seed, so that equal questions have equal answers. Nothing here needs to be secret: it sees the release alone.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING
from dpsample.exact import check_level
from dpsample.questions.result import Estimates
from dpsample.questions.selection import Selection, Where
from dpsample.questions.sums import needs_tokens
from dpsample.scheme.reporting import frequency_reaching, reporting_probabilities
from dpsample.scheme.sampling import MAX_FREQUENCY, Floats, Ints
from dpsample.scheme.tokens import lifetime

if TYPE_CHECKING:
    from dpsample.release.release import Release

_WORK = 4_000_000  # draws of a key's frequency
_DRAWS = 40, 1000  # of all keys, at least and at most


def top(release: "Release", k: int, where: Where = None, level: float = 0.95, attributes: Any = None) -> Estimates:
    """List the k keys with the largest estimates, and for each the probability that it is in the top k.

    A key is in the top k if fewer than k of the selected keys, reported or not, are more frequent. Estimates are the
    means of the keys' laws. Among many of about the same frequency, those on top are there because their tokens are
    large, and are estimated too high; so intervals are those of a level at which, of the keys listed, the given level
    holds on average, however they came to be listed (Benjamini and Yekutieli, 2005).
    """
    level = check_level(level)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidValue("k is an integer from 1 on", repr(k), "ask for the top 10, say")
    field = _Field(release, where, attributes)
    if not len(field.cells):
        return field.listing(np.zeros(0, np.int64), [np.zeros(0)] * 5, level, "no reported key is selected")
    # k keys have at least the frequency at which the k-th largest token is born, so that no key below it matters
    kth = np.sort(field.cells)[-min(k, len(field.cells))]
    contest = field.contest(int(field.birth(kth)), None)
    law = contest.law
    place = np.searchsorted(contest.cells, field.cells).clip(max=len(contest.cells) - 1)
    inside = contest.cells[place] == field.cells
    rows, place = field.rows[inside], place[inside]
    order = np.lexsort((rows, -law.mean[place]))[:k]
    rows, place = rows[order], place[order]
    tokens, back = np.unique(place, return_inverse=True)
    low, high, rivals = listed(field.spectrum, contest.cells, contest.counts, place, level)
    columns = law.mean[place], law.deviation[place], low, high, contest.top(k, tokens)[back]
    fewer = ", fewer than k," if len(rows) < k else ""
    note = f"top {k:,} among {len(field.cells):,} reported keys{fewer} and those that were not reported"
    if rivals > len(rows):
        note += f"; {rivals:,} compete for the list, and those on it may be estimated too high: intervals allow for it"
    return field.listing(rows, columns, level, note)


def each_key(release: "Release", where: Where = None, level: float = 0.95, attributes: Any = None) -> Estimates:
    """Estimate the frequency of each selected key that was reported, in the order of the release, as `top` does.

    Keys of equal tokens have equal estimates, so that many keys cost no more than their distinct tokens.
    """
    level = check_level(level)
    field = _Field(release, where, attributes)
    cells = field.tally.cells
    found = np.zeros((4, len(cells)))
    size = max(1, _WORK // (lifetime(release.per_key) + TUNING.ranking_margin))
    for start in range(0, len(cells), size):
        part = slice(start, start + size)
        law = _Law(*field.spectrum.posterior(cells[part]))
        found[:, part] = law.mean, law.deviation, *field.spectrum.interval(cells[part], level)
    note = f"{len(field.cells):,} reported keys, each as if it alone had been asked for"
    return field.listing(field.rows, found[:, np.searchsorted(cells, field.cells)], level, note)


def rank(release: "Release", key: Any, where: Where = None, level: float = 0.95, attributes: Any = None) -> Estimate:
    """Estimate a key's rank: one more than the number of selected keys, reported or not, that are more frequent."""
    level = check_level(level)
    field = _Field(release, where, attributes)
    cell = field.cell_of(key)
    frequencies, probabilities = (part[0] for part in field.spectrum.posterior([cell]))
    held = frequencies[probabilities > 0]
    contest = field.contest(int(held[0]) + 1, int(held[-1]), without=cell)
    ranks, weights = [], []
    for values, counts, _ in contest.draws():
        order = np.argsort(values)
        upto = np.append(0, np.cumsum(counts[order]))
        above = upto[-1] - upto[np.searchsorted(values[order], frequencies, side="right")]
        ranks.append(1 + contest.above + above)
        weights.append(probabilities)
    found, weight = np.concatenate(ranks), np.concatenate(weights)
    weight = weight / weight.sum()
    value = float(found[0] + (found - found[0]) @ weight)
    error = float(np.sqrt(((found - value) ** 2) @ weight))
    order = np.argsort(found)
    tail = (1 - level) / 2
    ends = np.searchsorted(np.cumsum(weight[order]), [tail, 1 - tail]).clip(max=len(found) - 1)
    low, high = found[order][ends].tolist()
    guaranteed = field.visible is not None and bool(frequencies @ probabilities >= field.visible)
    notes = () if guaranteed else ("the key may be too rare for its rank to be told",)
    return Estimate(
        value, error, float(low), float(high), level, 0.0, len(field.cells), field.visible, guaranteed, notes
    )


def compare(release: "Release", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; both must be reported."""
    field = _Field(release, None, None)
    rows = [field.row_of(key) for key in (a, b)]
    if rows[0] == rows[1]:
        return 0.0
    frequencies, probabilities = field.spectrum.posterior(field.cells[rows])
    order = np.argsort(frequencies[1])
    below = np.append(0, np.cumsum(probabilities[1][order]))
    return float(probabilities[0] @ below[np.searchsorted(frequencies[1][order], frequencies[0], side="left")])


def listed(spectrum: Spectrum, cells: Ints, counts: Ints, place: Ints, level: float) -> tuple[Ints, Ints, int]:
    """Return the intervals of listed keys, by the places of their tokens, and how many keys compete to be listed.

    These are the keys whose intervals reach those of the listed ones; the more compete, the longer intervals are, and
    the more reach.
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
        self.mean = base[:, 0] + ((self.frequencies - base) * self.p).sum(1)
        self.deviation = np.sqrt((((self.frequencies - base) - (self.mean - base[:, 0])[:, None]) ** 2 * self.p).sum(1))

    def reaching(self, frequency: int, tokens: Ints) -> Floats:
        """Return the probability that a key of each token has at least this frequency."""
        below = (self.frequencies[tokens] < frequency).sum(1)
        reached: Floats = 1 - np.where(below > 0, self.upto[tokens, below - 1], 0.0)
        return reached.clip(0, 1)


class _Field:
    """The selected keys of a release, and what their tokens tell."""

    def __init__(self, release: "Release", where: Where, attributes: Any) -> None:
        if release.keys_only:
            raise needs_tokens("an order of keys")
        assert release.grid is not None
        self.release, self.grid = release, release.grid
        self.rows, self.cells = Selection(release, where, attributes=attributes).rows()
        self.tally = Tally.of(self.cells)
        self.visible = frequency_reaching(0.5, release.sampling, release.per_key)

    @cached_property
    def spectrum(self) -> Spectrum:
        return spectrum(self.tally, self.release.sampling, self.release.per_key, self.grid)

    def birth(self, cells: Any) -> Any:
        """The smallest frequency that a token may come from."""
        return -(-cells // self.grid)

    def row_of(self, key: Any) -> int:
        """Find a key's row in the release."""
        found, _ = Selection(self.release, [key]).rows()
        if not len(found):
            raise InvalidValue(
                "the key is one that was reported", "one that is not in the release", "check its spelling"
            )
        return int(found[0])

    def cell_of(self, key: Any) -> int:
        """Find the token of a selected key."""
        place = np.flatnonzero(self.rows == self.row_of(key))
        if not len(place):
            raise InvalidValue("the key is among those that are selected", "one that is not", "change where")
        return int(self.cells[place[0]])

    def listing(self, rows: Ints, columns: Iterable[Any], level: float, note: str) -> Estimates:
        """Return the answer for some keys: their mean, deviation and interval, and perhaps a probability."""
        names = ("value", "standard_error", "low", "high", "probability")  # the last only in a top list
        numbers = {name: column.astype(np.float64) for name, column in zip(names, columns, strict=False)}
        keys = self.release.table.select(list(self.release.keys)).take(pa.array(rows))
        return Estimates(keys, pa.table(numbers), level, self.visible, (note,))

    def contest(self, low: int, high: int | None, without: int | None = None) -> "_Contest":
        """Return the keys whose frequency may be anything from low to high, without one key of the token `without`."""
        birth = self.birth(self.tally.cells)
        near = birth + lifetime(self.release.per_key) + TUNING.ranking_margin >= low
        above = np.zeros_like(near) if high is None else birth > high
        counts = self.tally.keys - (self.tally.cells == without)
        near &= ~above & (counts > 0)
        return _Contest(self, self.tally.cells[near], counts[near], int(counts[above].sum()), int(low), high)


class _Contest:
    """Keys whose order is open, by token, and those unreported; `above` so many are certainly above them all."""

    def __init__(self, field: _Field, cells: Ints, counts: Ints, above: int, low: int, high: int | None) -> None:
        self.field, self.cells, self.counts, self.above = field, cells, counts, above
        self.law = _Law(*field.spectrum.posterior(cells))
        found, release = field.spectrum, field.release
        pi = reporting_probabilities(found.frequencies, release.sampling, release.per_key)
        hidden = (found.frequencies >= low) & (pi < 1) & (found.keys > 0)
        i, pi, keys = found.frequencies[hidden], np.maximum(pi[hidden], 1e-9), found.keys[hidden]
        near = i <= (MAX_FREQUENCY if high is None else high)
        self.frequencies, self.pi, self.reported = i[near], pi[near], keys[near] * pi[near]  # expected to be reported
        if not near.all():  # of those above, only the number matters: as one frequency of equal mean and variance
            missed = keys[~near] * (1 - pi[~near])
            p = missed.sum() / (missed / pi[~near]).sum()
            self.frequencies = np.append(self.frequencies, i[-1])
            self.pi = np.append(self.pi, p)
            self.reported = np.append(self.reported, missed.sum() * p / (1 - p))

    def draws(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield draws of all frequencies: values, how many keys have each, and the place of their token, or -1."""
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
            # how many keys were missed, each with probability 1 - pi, until so many were reported
            missed = generator.negative_binomial(np.maximum(self.reported, 1e-12), self.pi)
            values = np.concatenate([single, self.law.frequencies[many].ravel(), self.frequencies])
            yield values, np.concatenate([ones, shared, missed]), place

    def top(self, k: int, tokens: Ints) -> Floats:
        """Return, for a key of each of some tokens, the probability that fewer than k keys are more frequent.

        Given the others, that is the probability of reaching the k-th largest frequency of the others: the k-th of
        all, or the next one if the key is itself among the k.
        """
        found = np.zeros(len(tokens))
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
            found += reach + inside[tokens] * (further - reach)
            n += 1
        return (found / n).clip(0, 1)

"""Single keys by their tokens: their frequencies, the top k, the rank of a key, which of two is more frequent.

The frequency of a key has a law, given its token. Ranks also depend on the other keys, reported or not: the frequencies
of those that may be above or below are drawn from their laws. The generator has a fixed seed, so that equal questions
have equal answers. Nothing here needs to be secret: it sees the release alone.
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Keys
from dpsample.answers.tokens import TokenView
from dpsample.estimators.estimate import Estimate, estimate
from dpsample.estimators.measures import Measure
from dpsample.estimators.spectrum import Spectrum, spectrum
from dpsample.estimators.tally import Tally
from dpsample.estimators.tuning import TUNING
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import first_frequency, support_length

RARE = "the key may be below the detection threshold: its rank is uncertain"
WORK = 4_000_000  # draws of a key's frequency: about a second of work
DRAWS = 40, 1000  # of all keys together: fewest and most
_CROWD = 20  # keys that may be above or below: if more, they may all have the same frequency

Law = tuple[Ints, Floats]  # frequencies of a key, and their probabilities


def probability_larger(a: Law, b: Law) -> float:
    """Return the probability that a key of one law is more frequent than an independent key of another."""
    frequencies_a, p = a
    frequencies_b, q = b
    order = np.argsort(frequencies_b)
    upto = np.append(0, np.cumsum(q[order]))
    number_below = np.searchsorted(frequencies_b[order], frequencies_a, side="left")
    return float(p @ upto[number_below])


class TokenKeys(Keys):
    """Selected keys with tokens, and the laws of their frequencies."""

    others = " and those that were not reported"

    def __init__(self, view: TokenView, rows: Ints) -> None:
        self.view, self.rows = view, rows
        self.cells = view.cells[rows]
        self.tally = Tally.of(self.cells)

    @cached_property
    def spectrum(self) -> Spectrum:
        """How many of these keys have each frequency, and the law of each token's frequency."""
        return spectrum(self.tally, self.view.scheme)

    def law(self, place: int) -> Law:
        """Return the law of a key's frequency."""
        frequencies, probabilities = self.spectrum.posterior([self.cells[place]])
        return frequencies[0], probabilities[0]

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        """Estimate each key from its token alone: values and intervals of the release's table, deviations of the laws.

        Keys of equal tokens have equal estimates, so that many keys cost no more than their distinct tokens.
        """
        distinct, back = np.unique(self.cells[places], return_inverse=True)
        value, low, high = self.view.frequencies(self.rows[places], level)
        return KeyEstimates(value, self._deviations(distinct)[back], low, high)

    def _deviations(self, cells: Ints) -> Floats:
        """The deviations of the laws of some tokens; those of a block of tokens are in memory at once."""
        frequencies = support_length(self.view.scheme.per_key) + TUNING.ranking_margin
        at_once = max(1, WORK // frequencies)
        deviations = np.zeros(len(cells))
        for start in range(0, len(cells), at_once):
            block = slice(start, start + at_once)
            deviations[block] = KeyLaws(*self.spectrum.posterior(cells[block])).deviation
        return deviations

    def ordered(self) -> Ints:
        """Return the places of all keys in the order of their tokens: as estimates, and finer."""
        return np.lexsort((self.rows, -self.cells))

    def competing(self, listed: Ints, level: float) -> int:
        """Return how many keys have an interval that reaches the lowest one of the listed keys.

        The larger a token, the further its interval reaches: the first token that reaches is found by bisection.
        """

        def reach(token: int) -> int:
            return int(self.spectrum.interval([token], level)[1][0])

        cells, tokens = self.cells[listed], self.tally.cells
        low, _ = self.spectrum.interval(cells, level)
        least_listed = int(np.searchsorted(tokens, cells.min()))
        first = bisect_left(tokens, low.min(), hi=least_listed, key=reach)
        return int(self.tally.keys[first:].sum())

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        # k keys reach the first frequency of the k-th largest token, so that no key below it matters
        cells = self.cells[listed]
        lowest = first_frequency(int(cells.min()), self.view.scheme.grid)
        competitors = self._competitors(lowest, None)
        places = np.searchsorted(competitors.cells, cells)
        tokens, back = np.unique(places, return_inverse=True)
        return competitors.in_the_top(k, tokens)[back]

    def rank(self, place: int, level: float) -> Estimate:
        cell = int(self.cells[place])
        frequencies, probabilities = self.law(place)
        possible = frequencies[probabilities > 0]
        competitors = self._competitors(int(possible[0]) + 1, int(possible[-1]), without=cell)
        drawn = competitors.ranks(frequencies, probabilities)
        tail = (1 - level) / 2
        low, high = drawn.quantile(tail), drawn.quantile(1 - tail)
        if competitors.counts.sum() > _CROWD:
            fewest, most = self._ranks_of_interval(cell, 1 - tail)
            low, high = min(low, fewest), max(high, most)
        threshold = self.view.detection_threshold
        certain = threshold is not None and bool(frequencies @ probabilities >= threshold)
        return Estimate(
            drawn.mean,
            drawn.deviation,
            float(low),
            float(high),
            level,
            keys=len(self),
            detection_threshold=threshold,
            guaranteed=certain,
            notes=() if certain else (RARE,),
        )

    def fewest(self, frequency: int, level: float) -> float:
        return self._number_reaching(frequency, level).low

    def _number_reaching(self, frequency: int, level: float) -> Estimate:
        """Estimate how many keys have a frequency or more."""
        return estimate(self.tally, self.view.scheme, Measure.at_least(frequency), level=level)

    def _ranks_of_interval(self, cell: int, level: float) -> tuple[float, float]:
        """The ranks at both ends of the interval of a token's frequency, whatever frequencies the other keys have."""
        ends = self.spectrum.interval([cell], level)
        least, largest = np.ravel(ends).tolist()
        fewest_above = self._number_reaching(largest + 1, level).low
        most_above = self._number_reaching(least + 1, level).high
        return 1 + fewest_above, 1 + most_above

    def _competitors(
        self, low: int, high: int | None, without: int | None = None
    ) -> "_Competitors":
        """Return the keys whose frequency may be from low to high, without one key of the token `without`."""
        scheme, tokens = self.view.scheme, self.tally.cells
        first = first_frequency(tokens, scheme.grid)
        last = first + support_length(scheme.per_key) + TUNING.ranking_margin
        certainly_above = first > (MAX_FREQUENCY if high is None else high)
        counts = self.tally.keys - (tokens == without)
        above = int(counts[certainly_above].sum())

        near = (last >= low) & ~certainly_above & (counts > 0)
        tokens, counts = tokens[near], counts[near]
        laws = KeyLaws(*self.spectrum.posterior(tokens))
        missed = _Missed.of(self.spectrum, scheme, low, high)
        return _Competitors(tokens, counts, laws, missed, above)


class KeyLaws:
    """The laws of the frequencies of keys, by token: [token, frequency], frequencies ascending."""

    def __init__(self, frequencies: Ints, probabilities: Floats) -> None:
        order = np.argsort(frequencies, axis=1)
        self.frequencies = np.take_along_axis(frequencies, order, 1)
        p = np.take_along_axis(probabilities, order, 1)
        self.p = p / p.sum(1, keepdims=True)
        self.upto = np.cumsum(self.p, axis=1)

    @cached_property
    def _ends(self) -> Floats:
        """The distribution functions one after the other: that of token t goes from t to t + 1."""
        tokens = np.arange(len(self.upto))
        return np.asarray((self.upto / self.upto[:, -1:] + tokens[:, None]).ravel())

    def draw(self, tokens: Ints, generator: np.random.Generator) -> Ints:
        """Draw a frequency for a key of each of these tokens."""
        drawn = tokens + generator.random(len(tokens))
        place = np.searchsorted(self._ends, drawn, side="right")
        support = self.upto.shape[1]
        first = tokens * support
        inside = np.clip(place, first, first + support - 1)
        return np.asarray(self.frequencies.ravel()[inside])

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each law."""
        above_lowest = (
            self.frequencies - self.frequencies[:, :1]
        )  # frequencies may be large, their differences small
        mean = (above_lowest * self.p).sum(1, keepdims=True)
        return np.asarray(np.sqrt(((above_lowest - mean) ** 2 * self.p).sum(1)))

    def reaching(self, frequency: int, tokens: Ints) -> Floats:
        """Return the probability that a key of each token has at least this frequency."""
        below = (self.frequencies[tokens] < frequency).sum(1)
        reached: Floats = 1 - np.where(below > 0, self.upto[tokens, below - 1], 0.0)
        return reached.clip(0, 1)


class _DrawnRanks(NamedTuple):
    """Draws of a rank, and the weight of each."""

    ranks: Ints
    weights: Floats

    @property
    def mean(self) -> float:
        return float(self.ranks[0] + (self.ranks - self.ranks[0]) @ self.weights)

    @property
    def deviation(self) -> float:
        return float(np.sqrt(((self.ranks - self.mean) ** 2) @ self.weights))

    def quantile(self, share: float) -> float:
        order = np.argsort(self.ranks)
        place = int(np.searchsorted(np.cumsum(self.weights[order]), share))
        return float(self.ranks[order][min(place, len(order) - 1)])


class _Missed(NamedTuple):
    """Keys that were not reported, by frequency.

    If each key is reported with probability pi, and r of them were, the number that was missed is negative binomial.
    """

    frequencies: Ints
    pi: Floats
    reported: Floats  # expected number of reported keys

    @staticmethod
    def of(spectrum: Spectrum, scheme: Scheme, low: int, high: int | None) -> "_Missed":
        """Return the keys from a frequency on. Those above `high` stand together at one frequency.

        Of these only the number matters: it has the mean and the variance of the sum of their numbers.
        """
        pi = reporting_probabilities(spectrum.frequencies, scheme.sampling, scheme.per_key)
        missable = (spectrum.frequencies >= low) & (pi < 1) & (spectrum.keys > 0)
        frequencies, keys = spectrum.frequencies[missable], spectrum.keys[missable]
        pi = np.maximum(pi[missable], 1e-9)
        near = frequencies <= (MAX_FREQUENCY if high is None else high)
        found = _Missed(frequencies[near], pi[near], keys[near] * pi[near])
        if near.all():
            return found
        missed = keys[~near] * (1 - pi[~near])
        variance = (missed / pi[~near]).sum()
        p = missed.sum() / variance
        reported = missed.sum() * p / (1 - p)
        return _Missed(
            np.append(found.frequencies, frequencies[-1]),
            np.append(found.pi, p),
            np.append(found.reported, reported),
        )

    def draw(self, generator: np.random.Generator) -> Ints:
        """Draw the number of missed keys of each frequency."""
        return generator.negative_binomial(np.maximum(self.reported, 1e-12), self.pi)


class _Competitors(NamedTuple):
    """Keys whose order is uncertain: reported ones, by token, and missed ones. `above` more are certainly above."""

    cells: Ints
    counts: Ints  # keys of each token
    laws: KeyLaws
    missed: _Missed
    above: int

    def draws(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield draws of all frequencies: values, numbers of keys of each, places of their tokens (-1 for none).

        Keys of a token are drawn one by one if they are fewer than its frequencies; otherwise the numbers of keys by
        frequency are drawn.
        """
        generator, frequencies = np.random.default_rng(0), self.laws.frequencies
        support = frequencies.shape[1]
        few = self.counts <= support
        alone = np.repeat(np.flatnonzero(few), self.counts[few])
        many = np.flatnonzero(~few)
        values_of_many = frequencies[many].ravel()
        missed = self.missed.frequencies
        place = np.concatenate([alone, np.repeat(many, support), np.full(len(missed), -1)])
        ones = np.ones(len(alone), np.int64)
        shared = np.zeros(0, np.int64)
        draws = WORK // max(len(place), 1)
        for _ in range(int(np.clip(draws, *DRAWS))):
            single = self.laws.draw(alone, generator)
            if len(many):
                shared = generator.multinomial(self.counts[many], self.laws.p[many]).ravel()
            counts = np.concatenate([ones, shared, self.missed.draw(generator)])
            yield np.concatenate([single, values_of_many, missed]), counts, place

    def ranks(self, frequencies: Ints, probabilities: Floats) -> _DrawnRanks:
        """Return draws of the rank of one more key, at each of its frequencies with their probabilities."""
        ranks, weights = [], []
        for values, counts, _ in self.draws():
            order = np.argsort(values)
            upto = np.append(0, np.cumsum(counts[order]))
            not_above = upto[np.searchsorted(values[order], frequencies, side="right")]
            ranks.append(1 + self.above + upto[-1] - not_above)
            weights.append(probabilities)
        together = np.concatenate(weights)
        return _DrawnRanks(np.concatenate(ranks), together / together.sum())

    def in_the_top(self, k: int, tokens: Ints) -> Floats:
        """Return, for a key of each of some tokens, the probability that fewer than k keys are more frequent.

        Given the others, that is the probability of reaching the k-th largest frequency of the others: the k-th of
        all, or the next one if the key is itself among the k.
        """
        probabilities = np.zeros(len(tokens))
        draws = 0
        for values, counts, place in self.draws():
            kth, following = _largest(values, counts, k), _largest(values, counts, k + 1)
            ours = place >= 0
            inside = (
                np.bincount(place[ours], (counts * (values >= kth))[ours], len(self.cells))
                / self.counts
            )
            reach = self.laws.reaching(kth, tokens)
            further = reach if following == kth else self.laws.reaching(following, tokens)
            probabilities += reach + inside[tokens] * (further - reach)
            draws += 1
        return (probabilities / draws).clip(0, 1)


def _largest(values: Ints, counts: Ints, n: int) -> int:
    """Return the n-th largest of values that occur these numbers of times; 0 if they are fewer."""
    order = np.argsort(values)[::-1]
    place = int(np.searchsorted(np.cumsum(counts[order]), n))
    return int(values[order][place]) if place < len(order) else 0

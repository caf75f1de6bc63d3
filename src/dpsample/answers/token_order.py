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
# Draws of all keys together: the fewest, for a standard error of a probability of 8 points at most; the most, for 1.6.
DRAWS = 40, 1000
# The number of keys that may be above or below, beyond which the interval of a rank allows for all of them to have one
# frequency. No record of the choice; a larger number makes the intervals of some ranks shorter, a smaller one longer.
_CROWD = 20
_LEAST_PI = 1e-9  # of a key: rarer ones would be drawn in numbers that no integer holds
_LEAST_REPORTED = 1e-12  # of keys, as the parameter of a law that needs one above 0

Law = tuple[Ints, Floats]  # frequencies of a key, and their probabilities


def probability_larger(a: Law, b: Law) -> float:
    """Return the probability that a key of one law is more frequent than an independent key of another."""
    frequencies_a, p_a = a
    frequencies_b, p_b = b
    ascending = np.argsort(frequencies_b)
    upto = np.append(0, np.cumsum(p_b[ascending]))
    number_below = np.searchsorted(frequencies_b[ascending], frequencies_a, side="left")
    probability_below = upto[number_below]  # that b is below, for each frequency of a
    return float(p_a @ probability_below)


class TokenKeys(Keys):
    """Selected keys with tokens, and the laws of their frequencies."""

    others = " and those that were not reported"

    def __init__(self, view: TokenView, rows: Ints) -> None:
        self.view = view
        self.rows = rows
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
        """Estimate each key from its token alone: as in the release's table, with the standard deviations of its law.

        Keys of equal tokens have equal estimates, so that many keys cost no more than their distinct tokens.
        """
        distinct, back = np.unique(self.cells[places], return_inverse=True)
        value, low, high = self.view.frequencies(self.rows[places], level)
        deviations = self._deviations(distinct)
        return KeyEstimates(value, deviations[back], low, high)

    def _deviations(self, cells: Ints) -> Floats:
        """Return the deviations of the laws of some tokens; the laws of a block of tokens are in memory at once."""
        frequencies = support_length(self.view.scheme.per_key) + TUNING.ranking_margin
        at_once = max(1, WORK // frequencies)
        deviations = np.zeros(len(cells))
        for start in range(0, len(cells), at_once):
            block = slice(start, start + at_once)
            laws = KeyLaws(*self.spectrum.posterior(cells[block]))
            deviations[block] = laws.deviation
        return deviations

    def ordered(self) -> Ints:
        """Return the places of all keys in the order of their tokens: as estimates, and finer."""
        return np.lexsort((self.rows, -self.cells))

    def competing(self, listed: Ints, level: float) -> int:
        """Return how many keys have an interval that reaches the lowest one of the listed keys.

        The larger a token, the further its interval reaches: the first token that reaches is found by bisection.
        """

        def upper_end(token: int) -> int:
            _, high = self.spectrum.interval([token], level)
            return int(high[0])

        listed_cells = self.cells[listed]
        low, _ = self.spectrum.interval(listed_cells, level)
        tokens = self.tally.cells
        lowest_listed = int(np.searchsorted(tokens, listed_cells.min()))
        first = bisect_left(tokens, low.min(), hi=lowest_listed, key=upper_end)
        return int(self.tally.keys[first:].sum())

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        # k keys reach the first frequency of the k-th largest token, so that no key below it matters
        cells = self.cells[listed]
        lowest = first_frequency(int(cells.min()), self.view.scheme.grid)
        competitors = self._competitors(lowest, None)
        places = np.searchsorted(competitors.cells, cells)
        tokens, back = np.unique(places, return_inverse=True)
        probability_of_token = competitors.in_the_top(k, tokens)
        return probability_of_token[back]

    def rank(self, place: int, level: float) -> Estimate:
        cell = int(self.cells[place])
        frequencies, probabilities = self.law(place)
        possible = frequencies[probabilities > 0]
        competitors = self._competitors(int(possible[0]) + 1, int(possible[-1]), without=cell)
        drawn = competitors.ranks(frequencies, probabilities)
        tail = (1 - level) / 2
        low = drawn.quantile(tail)
        high = drawn.quantile(1 - tail)
        if competitors.counts.sum() > _CROWD:
            fewest, most = self._ranks_of_interval(cell, 1 - tail)
            low = min(low, fewest)
            high = max(high, most)
        threshold = self.view.detection_threshold
        mean_frequency = frequencies @ probabilities
        certain = threshold is not None and bool(mean_frequency >= threshold)
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
        """Estimate how many keys have this frequency or more."""
        return estimate(self.tally, self.view.scheme, Measure.at_least(frequency), level=level)

    def _ranks_of_interval(self, cell: int, level: float) -> tuple[float, float]:
        """Return bounds of the ranks at both ends of the interval of a token's frequency.

        They hold whatever frequencies the other keys have.
        """
        ends = self.spectrum.interval([cell], level)
        least, largest = np.ravel(ends).tolist()
        fewest_above = self._number_reaching(largest + 1, level).low
        most_above = self._number_reaching(least + 1, level).high
        return 1 + fewest_above, 1 + most_above

    def _competitors(
        self, low: int, high: int | None, without: int | None = None
    ) -> "_Competitors":
        """Return the keys whose frequency may be from low to high, without one key of the token `without`.

        There is no upper end if `high` is None.
        """
        scheme = self.view.scheme
        highest = MAX_FREQUENCY if high is None else high
        tokens = self.tally.cells
        keys = self.tally.keys - (tokens == without)
        first = first_frequency(tokens, scheme.grid)
        last = first + support_length(scheme.per_key) + TUNING.ranking_margin
        certainly_above = first > highest
        above = int(keys[certainly_above].sum())

        is_near = (last >= low) & ~certainly_above & (keys > 0)
        laws = KeyLaws(*self.spectrum.posterior(tokens[is_near]))
        missed = _Missed.of(self.spectrum, scheme, low, highest)
        return _Competitors(tokens[is_near], keys[is_near], laws, missed, above)


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
        """The distribution functions one after the other: that of token t rises from t to t + 1."""
        tokens = np.arange(len(self.upto))
        distribution = self.upto / self.upto[:, -1:]
        return np.asarray((distribution + tokens[:, None]).ravel())

    def draw(self, tokens: Ints, generator: np.random.Generator) -> Ints:
        """Draw a frequency for a key of each of these tokens: the inverse of its distribution function at random."""
        drawn = tokens + generator.random(len(tokens))
        place = np.searchsorted(self._ends, drawn, side="right")
        support = self.upto.shape[1]
        first = tokens * support
        inside = np.clip(place, first, first + support - 1)  # rounding may lead to the next token
        return np.asarray(self.frequencies.ravel()[inside])

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each law."""
        # frequencies may be large, and their differences small
        above_lowest = self.frequencies - self.frequencies[:, :1]
        mean = (above_lowest * self.p).sum(1, keepdims=True)
        squares = (above_lowest - mean) ** 2
        variance = (squares * self.p).sum(1)
        return np.asarray(np.sqrt(variance))

    def reaching(self, frequency: int, tokens: Ints) -> Floats:
        """Return the probability that a key of each token has this frequency or more."""
        number_below = (self.frequencies[tokens] < frequency).sum(1)
        upto_these = self.upto[tokens, number_below - 1]
        probability_below = np.where(number_below > 0, upto_these, 0.0)
        reached: Floats = 1 - probability_below
        return reached.clip(0, 1)


class _DrawnRanks(NamedTuple):
    """Draws of a rank, and the weight of each; weights add up to 1."""

    ranks: Ints
    weights: Floats

    @property
    def mean(self) -> float:
        # from the first one on: ranks may be large, and their differences small
        first = self.ranks[0]
        return float(first + (self.ranks - first) @ self.weights)

    @property
    def deviation(self) -> float:
        squares = (self.ranks - self.mean) ** 2
        return float(np.sqrt(squares @ self.weights))

    def quantile(self, share: float) -> float:
        ascending = np.argsort(self.ranks)
        upto = np.cumsum(self.weights[ascending])
        place = int(np.searchsorted(upto, share))
        last = len(ascending) - 1
        return float(self.ranks[ascending][min(place, last)])


class _Missed(NamedTuple):
    """Keys that were not reported, by frequency.

    If each key is reported with probability pi, and r of them were, the number that was missed is negative binomial:
    its mean is ``r (1 - pi) / pi``, and its variance is the mean over pi.
    """

    frequencies: Ints
    pi: Floats
    reported: Floats  # expected number of reported keys

    @staticmethod
    def of(spectrum: Spectrum, scheme: Scheme, low: int, high: int) -> "_Missed":
        """Return the keys of frequency `low` or more. Those above `high` stand together at one frequency.

        Of these only the number matters. It is taken to be negative binomial, with the mean and the variance of the sum
        of their numbers: p is the mean over the variance, and r the mean times p / (1 - p).
        """
        all_pi = reporting_probabilities(spectrum.frequencies, scheme.sampling, scheme.per_key)
        can_be_missed = (spectrum.frequencies >= low) & (all_pi < 1) & (spectrum.keys > 0)
        frequencies = spectrum.frequencies[can_be_missed]
        keys = spectrum.keys[can_be_missed]
        pi = np.maximum(all_pi[can_be_missed], _LEAST_PI)
        is_near = frequencies <= high
        near = _Missed(frequencies[is_near], pi[is_near], keys[is_near] * pi[is_near])
        if is_near.all():
            return near
        missed = keys[~is_near] * (1 - pi[~is_near])
        mean = missed.sum()
        variance = (missed / pi[~is_near]).sum()
        p = mean / variance
        r = mean * p / (1 - p)
        return _Missed(
            np.append(near.frequencies, frequencies[-1]),
            np.append(near.pi, p),
            np.append(near.reported, r),
        )

    def draw(self, generator: np.random.Generator) -> Ints:
        """Draw the number of missed keys of each frequency."""
        reported = np.maximum(self.reported, _LEAST_REPORTED)
        return generator.negative_binomial(reported, self.pi)


class _Drawn(NamedTuple):
    """One draw of the frequencies of all competing keys: some frequencies, and the number of keys of each."""

    frequencies: Ints
    keys: Ints
    tokens: Ints  # the place of the token that these keys have; -1 for keys that were not reported

    def largest(self, n: int) -> int:
        """Return the frequency of the n-th most frequent key; 0 if there are fewer keys."""
        descending = np.argsort(self.frequencies)[::-1]
        upto = np.cumsum(self.keys[descending])
        place = int(np.searchsorted(upto, n))
        if place == len(descending):
            return 0
        return int(self.frequencies[descending][place])


class _Competitors(NamedTuple):
    """Keys whose order is uncertain: reported ones, by token, and missed ones. `above` more are certainly above."""

    cells: Ints
    counts: Ints  # keys of each token
    laws: KeyLaws
    missed: _Missed
    above: int

    def draws(self) -> Iterator[_Drawn]:
        """Yield draws of the frequencies of all keys.

        Keys of a token are drawn one by one if they are fewer than its frequencies; otherwise the numbers of keys by
        frequency are drawn.
        """
        generator = np.random.default_rng(0)
        frequencies = self.laws.frequencies
        support = frequencies.shape[1]
        has_few = self.counts <= support
        tokens_of_single = np.repeat(np.flatnonzero(has_few), self.counts[has_few])
        one_each = np.ones(len(tokens_of_single), np.int64)
        tokens_of_many = np.flatnonzero(~has_few)
        frequencies_of_many = frequencies[tokens_of_many].ravel()
        keys_of_many = np.zeros(0, np.int64)
        missed = self.missed.frequencies
        no_token = np.full(len(missed), -1)
        tokens = np.concatenate([tokens_of_single, np.repeat(tokens_of_many, support), no_token])

        draws = WORK // max(len(tokens), 1)
        for _ in range(int(np.clip(draws, *DRAWS))):
            single = self.laws.draw(tokens_of_single, generator)
            if len(tokens_of_many):
                number = self.counts[tokens_of_many]
                keys_of_many = generator.multinomial(number, self.laws.p[tokens_of_many]).ravel()
            keys = np.concatenate([one_each, keys_of_many, self.missed.draw(generator)])
            yield _Drawn(np.concatenate([single, frequencies_of_many, missed]), keys, tokens)

    def ranks(self, frequencies: Ints, probabilities: Floats) -> _DrawnRanks:
        """Return draws of the rank of one more key, at each of its frequencies with their probabilities."""
        ranks = []
        weights = []
        for drawn in self.draws():
            ascending = np.argsort(drawn.frequencies)
            upto = np.append(0, np.cumsum(drawn.keys[ascending]))
            places = np.searchsorted(drawn.frequencies[ascending], frequencies, side="right")
            not_above = upto[places]
            ranks.append(1 + self.above + upto[-1] - not_above)
            weights.append(probabilities)
        all_weights = np.concatenate(weights)
        return _DrawnRanks(np.concatenate(ranks), all_weights / all_weights.sum())

    def in_the_top(self, k: int, tokens: Ints) -> Floats:
        """Return, for a key of each of some tokens, the probability that fewer than k keys are more frequent.

        Given the others, that is the probability of reaching the k-th largest frequency of the others: the k-th of
        all, or the next one if the key is itself among the k. A key of a token is among the k with the share of the
        token's keys that are, in the draw.
        """
        probabilities = np.zeros(len(tokens))
        draws = 0
        for drawn in self.draws():
            kth = drawn.largest(k)
            following = drawn.largest(k + 1)
            is_reported = drawn.tokens >= 0
            keys_inside = drawn.keys * (drawn.frequencies >= kth)
            inside_by_token = np.bincount(
                drawn.tokens[is_reported], keys_inside[is_reported], len(self.cells)
            )
            share_inside = (inside_by_token / self.counts)[tokens]
            reach_kth = self.laws.reaching(kth, tokens)
            reach_following = reach_kth
            if following != kth:
                reach_following = self.laws.reaching(following, tokens)
            probabilities += reach_kth + share_inside * (reach_following - reach_kth)
            draws += 1
        return (probabilities / draws).clip(0, 1)

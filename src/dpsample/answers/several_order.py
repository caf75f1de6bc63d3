"""Single keys of several releases, and their order: each key, top k, ranks, comparisons, quantiles.

The law of a key's frequency over all releases, given its tokens, is a sum over releases. For its order among others it
is taken as normal, with the mean and the variance of that sum. Keys that no release reports stand beside those that
some do: a key that is reported by some release with probability p counts for (1 - p) / p others in the mean.
"""

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Keys, Quantiles
from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.question import Question
from dpsample.answers.selection import Selection
from dpsample.answers.several_numbers import Numbers
from dpsample.answers.several_sums import least_in_one_release
from dpsample.answers.token_quantiles import CONSERVATIVE, NO_KEY
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import FEW, HIDDEN
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.answers.several_tokens import SeveralTokens

# Draws of the frequencies of all keys: a probability near 1/2 has an error of 0.025, and time grows with their number.
_DRAWS = 400
# Deviations: keys that are further away do not change places with a probability that matters.
_REACH = 6.0
# With fewer keys, quantiles are noted to rest on few.
_FEW_KEYS = 20
_LEAST_PROBABILITY = 1e-9  # of being reported: keeps the number of missed keys defined
_LEAST_DEVIATION = 1e-9  # of a difference: keeps its law defined if it is known
_ROUNDING = 1e-9  # by which a sum of weights may miss a share that it reaches
UNCERTAIN = "the key may be below the detection threshold: its rank is uncertain"


class SeveralKeys(Keys):
    """Selected keys that some release reports, and what is known of each over all releases."""

    others = " and those that none does"

    def __init__(self, evidence: "SeveralTokens", rows: Ints) -> None:
        self.evidence, self.rows = evidence, rows
        self.called = f"keys that at least one of {evidence.stated} reports"
        self.values = evidence.totals.values[rows]
        self.errors = evidence.totals.deviations[rows]

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        return self.evidence.estimates_of(self.rows[places], level)

    def ordered(self) -> Ints:
        return np.lexsort((self.rows, -self.values))

    def competing(self, listed: Ints, level: float) -> int:
        reach = _margin(level) * self.errors
        lows = self.values - reach
        competes = self.values + reach >= lows[listed].min()
        return int(competes.sum())

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        lows = self.values - _REACH * self.errors
        lowest = float(lows[listed].min())
        # the listed keys are the first ones in this order
        competitors = _Competitors.of(self, self.ordered(), lowest)
        return competitors.in_the_top(k, len(listed))

    def rank(self, place: int, level: float) -> Estimate:
        own = NormalLaw(float(self.values[place]), float(self.errors[place]))
        others = np.delete(np.arange(len(self)), place)
        lowest = own.mean - _REACH * own.deviation
        ranks = _Competitors.of(self, others, lowest).ranks(own)
        tail = (1 - level) / 2
        low, high = np.quantile(ranks, [tail, 1 - tail], method="inverted_cdf").tolist()
        value = float(ranks.mean())
        error = float(ranks.std())
        found = Estimate(value, error, low, high, level, keys=len(self))
        found = replace(found, detection_threshold=self.evidence.detection_threshold)

        [low_of_key] = self.estimates(np.array([place]), level).low
        if low_of_key > self.evidence.unreported(level).high:
            return replace(found, notes=self.evidence.remarks)
        return replace(found, guaranteed=False, notes=(UNCERTAIN, *self.evidence.remarks))

    def fewest(self, frequency: int, level: float) -> float:
        lows = self.values - _margin(level) * self.errors
        certain = lows > frequency - 1
        return float(certain.sum())


def _margin(level: float) -> float:
    """The errors by which a normal interval of this level extends."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def probability_above(evidence: "SeveralTokens", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; either may be unreported."""
    law_a = _law(evidence, a)
    law_b = _law(evidence, b)
    deviation = math.hypot(law_a.deviation, law_b.deviation)
    # frequencies are whole, and equal ones do not count
    difference = law_a.mean - law_b.mean - 0.5
    return NormalDist().cdf(difference / max(deviation, _LEAST_DEVIATION))


def _law(evidence: "SeveralTokens", key: Any) -> NormalLaw:
    """The mean and the deviation of a key's frequency, reported or not."""
    row = evidence.row_of(key)
    if row is None:
        return evidence.law_of_missed()
    value = evidence.totals.values[row]
    deviation = evidence.totals.deviations[row]
    return NormalLaw(float(value), float(deviation))


def quantiles(evidence: "SeveralTokens", question: Question, shares: Floats) -> Quantiles:
    """Estimate quantiles of the frequencies over all releases, of keys that have the least frequency in one of them.

    Keys have the weights by which they are counted. The interval goes from the quantile of the lower ends of the keys'
    intervals to that of the upper ends, each moved by the error of the number of keys.
    """
    level = question.level
    least, detectable = least_in_one_release(evidence, question)
    _, [(keys, _)] = Selection.of(evidence.rows, question).weighted_rows()
    about = f"of frequencies over {evidence.stated}, of keys of frequency {least:,} or more in at least one"
    unweighted = np.ones(len(keys))
    numbers = Numbers(evidence, [(keys, unweighted)], least)
    [number] = numbers.answers(level)
    if not number.value > 0:
        unknown = np.full(len(shares), math.nan)
        no_limit = np.full(len(shares), math.inf)
        nothing = KeyEstimates(unknown, unknown, np.zeros(len(shares)), no_limit)
        return Quantiles(nothing, len(keys), False, (NO_KEY, about), least)

    counts = 1 - numbers.absent
    variances = numbers.absent**2 - numbers.absent
    own, _, lows, highs = evidence.estimates_of(keys, level)
    value = _weighted_quantiles(own, counts, shares)
    # the number of keys up to a quantile, less its share of all keys, is a weighted sum over keys
    variance = np.zeros(len(shares))
    for n, share in enumerate(shares.tolist()):
        weights = np.where(own <= value[n], 1 - share, share)
        variance[n] = variances @ weights**2
    z = _margin(level)
    of_sum = z * np.sqrt(np.maximum(variance, 0.0))
    of_number = (1 - shares) * (number.high - number.low) / 2
    moved = (of_sum + of_number + TUNING.single_key_allowance) / number.value
    low_shares = (shares - moved).clip(0, 1)
    high_shares = (shares + moved).clip(0, 1)
    low = np.minimum(_weighted_quantiles(lows, counts, low_shares), value)
    high = np.maximum(_weighted_quantiles(highs, counts, high_shares), value)

    blurred = bool(number.notes) and not number.guaranteed
    note: str = FEW if len(keys) < _FEW_KEYS else CONSERVATIVE
    if not detectable:
        note = HIDDEN
    if blurred:
        note = number.notes[0]
    error = (high - low) / (2 * z)
    estimates = KeyEstimates(value, error, low, high)
    guaranteed = detectable and not blurred
    return Quantiles(estimates, len(keys), guaranteed, (note, about), least)


def _weighted_quantiles(values: Floats, weights: Floats, shares: Floats) -> Floats:
    """Return the least value up to which the weights reach each share of their sum; weights may be negative."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    cumulative = np.cumsum(weights[order])
    up_to = np.maximum.accumulate(cumulative)
    wanted = shares * up_to[-1] - _ROUNDING
    place = np.searchsorted(up_to, wanted)
    last = len(values) - 1
    return np.asarray(ascending[place.clip(max=last)])


class _Competitors(NamedTuple):
    """Keys that may have a frequency or more, with those that no release reports beside them."""

    values: Floats
    errors: Floats
    pi: Floats  # the probability that some release reports such a key
    generator: np.random.Generator

    @staticmethod
    def of(keys: SeveralKeys, places: Ints, low: float) -> "_Competitors":
        """Return those of some keys that may have the frequency `low`, in this order."""
        highest = keys.values + _REACH * keys.errors
        near = places[highest[places] >= low]
        evidence = keys.evidence
        rows = keys.rows[near]
        times = np.maximum(evidence.reports(rows), 1)
        reported = evidence.totals.reported[rows]
        mean = np.maximum(reported / times, 1)
        likely = np.rint(mean).astype(np.int64)
        # such a key has this frequency in as many releases, and none of them reports it
        missed_by_all = np.ones(len(rows))
        cells_of_near = evidence.cells[rows]
        for scheme, cells in zip(evidence.schemes, cells_of_near.T, strict=True):
            sampling, per_key, _ = scheme
            missed = reporting_probabilities(likely, sampling, per_key, complement=True)
            missed_by_all *= np.where(cells > 0, missed, 1.0)
        pi = np.maximum(1 - missed_by_all, _LEAST_PROBABILITY)
        # a fixed seed, so that equal questions have equal answers: nothing here is secret
        generator = np.random.default_rng(0)
        return _Competitors(keys.values[near], keys.errors[near], pi, generator)

    def _draw(self) -> tuple[Floats, Floats]:
        """Draw the frequencies of all keys, and the numbers of unreported keys beside each."""
        own = self.generator.normal(self.values, self.errors)
        # as many keys as are missed until one is reported
        missed = self.generator.negative_binomial(1, self.pi)
        return own, missed.astype(np.float64)

    def ranks(self, own: NormalLaw) -> Floats:
        """Return draws of the rank of one more key."""
        ranks = np.ones(_DRAWS)
        for n in range(_DRAWS):
            others, missed = self._draw()
            frequency = self.generator.normal(own.mean, own.deviation)
            reported_above = (others > frequency).sum()
            missed_above = missed[self.values > frequency]
            ranks[n] += reported_above + missed_above.sum()
        return ranks

    def in_the_top(self, k: int, listed: int) -> Floats:
        """Return the probability that fewer than k keys are more frequent, for each of the first keys."""
        inside = np.zeros(listed)
        for _ in range(_DRAWS):
            own, missed = self._draw()
            frequencies = np.append(own, self.values)
            counts = np.append(np.ones(len(own)), missed)
            order = np.argsort(-frequencies, kind="stable")
            number_up_to = np.cumsum(counts[order])
            place = int(np.searchsorted(number_up_to, k))
            kth = -math.inf
            if place < len(order):
                kth = frequencies[order[place]]
            inside += own[:listed] >= kth
        return inside / _DRAWS

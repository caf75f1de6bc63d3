"""Single keys of several releases, and their order: each key, top k, ranks, comparisons, quantiles.

The law of a key's frequency over all releases, given its tokens, is a sum over releases. For its order among others it
is taken as normal, with the mean and the variance of that sum. Keys that no release reports stand beside those that
some do: a key that is reported by some release with probability p counts for (1 - p) / p others in the mean.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpsample.answers.evidence import KeyEstimates, Keys, Quantiles
from dpsample.answers.normal_order import NormalLaw
from dpsample.answers.question import Question
from dpsample.answers.selection import Selection
from dpsample.answers.several_numbers import numbers_of
from dpsample.answers.token_quantiles import CONSERVATIVE, NO_KEY
from dpsample.answers.token_sums import least_of_keys
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import FEW, HIDDEN
from dpsample.estimators.tuning import TUNING
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.answers.several_tokens import SeveralTokens

_DRAWS = 400  # of the frequencies of all keys
_REACH = 6.0  # deviations: keys that are further away do not change places
_FEW_KEYS = 20  # with fewer, quantiles rest on few
UNCERTAIN = "the key may be below the detection threshold: its rank is uncertain"


class SeveralKeys(Keys):
    """Selected keys that some release reports, and what is known of each over all releases."""

    others = " and those that none does"

    def __init__(self, evidence: "SeveralTokens", rows: Ints) -> None:
        self.evidence, self.rows = evidence, rows
        self.called = f"keys that one of {evidence.stated} reports"
        self.values, self.errors = evidence.totals.values[rows], evidence.totals.deviations[rows]

    def estimates(self, places: Ints, level: float) -> KeyEstimates:
        return self.evidence.estimates_of(self.rows[places], level)

    def ordered(self) -> Ints:
        return np.lexsort((self.rows, -self.values))

    def competing(self, listed: Ints, level: float) -> int:
        reach = NormalDist().inv_cdf(0.5 + level / 2) * self.errors
        lowest = (self.values - reach)[listed].min()
        return int((self.values + reach >= lowest).sum())

    def in_the_top(self, k: int, listed: Ints) -> Floats:
        lowest = (self.values - _REACH * self.errors)[listed].min()
        return _Competitors.of(self, self.ordered(), float(lowest)).in_the_top(k, len(listed))

    def rank(self, place: int, level: float) -> Estimate:
        own = NormalLaw(float(self.values[place]), float(self.errors[place]))
        others = np.delete(np.arange(len(self)), place)
        drawn = _Competitors.of(self, others, own.mean - _REACH * own.deviation).ranks(own)
        tail = (1 - level) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf").tolist()
        lowest = self.estimates(np.array([place]), level).low[0]
        certain = bool(lowest > self.evidence.unreported(level).high)
        return Estimate(
            float(drawn.mean()),
            float(drawn.std()),
            float(low),
            float(high),
            level,
            keys=len(self),
            detection_threshold=self.evidence.detection_threshold,
            guaranteed=certain,
            notes=(*(() if certain else (UNCERTAIN,)), *self.evidence.remarks),
        )

    def fewest(self, frequency: int, level: float) -> float:
        z = NormalDist().inv_cdf(0.5 + level / 2)
        return float((self.values - z * self.errors > frequency - 1).sum())


def probability_above(evidence: "SeveralTokens", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; either may be unreported."""
    first, second = (_law(evidence, key) for key in (a, b))
    deviation = math.hypot(first.deviation, second.deviation)
    # frequencies are whole, and equal ones do not count
    return NormalDist().cdf((first.mean - second.mean - 0.5) / max(deviation, 1e-9))


def _law(evidence: "SeveralTokens", key: Any) -> NormalLaw:
    """The mean and the deviation of a key's frequency, reported or not."""
    row = evidence.row_of(key)
    if row is not None:
        return NormalLaw(float(evidence.totals.values[row]), float(evidence.totals.deviations[row]))
    return evidence.law_of_missed()


def quantiles(evidence: "SeveralTokens", question: Question, shares: Floats) -> Quantiles:
    """Estimate quantiles of the frequencies over all releases, of keys that have the least frequency in one of them.

    Keys have the weights by which they are counted. The interval goes from the quantile of the lower ends of the keys'
    intervals to that of the upper ends, each moved by the error of the number of keys.
    """
    level = question.level
    bounds = [least_of_keys(part.view, question.at_least) for part in evidence.parts]
    least, detectable = max(bound for bound, _ in bounds), all(sure for _, sure in bounds)
    [(keys, _)] = Selection.of(evidence.rows, question).weighted_rows()[1]
    number, counts, variances = numbers_of(evidence, keys, least)
    value, low, high = np.full((3, len(shares)), [[math.nan], [0.0], [math.inf]])
    note: str = NO_KEY
    blurred = bool(number.notes) and not number.guaranteed
    z = NormalDist().inv_cdf(0.5 + level / 2)
    if number.value > 0:
        own, _, lows, highs = evidence.estimates_of(keys, level)
        value = _quantile(own, counts, shares)
        # of the number of keys up to the quantile, less its share of all keys
        distances = [
            np.where(own <= x, 1 - share, share) for x, share in zip(value, shares, strict=True)
        ]
        variance = np.array([variances @ distance**2 for distance in distances])
        error = (
            z * np.sqrt(np.maximum(variance, 0.0)) + (1 - shares) * (number.high - number.low) / 2
        )
        moved = (error + TUNING.single_key_allowance) / number.value
        low = np.minimum(_quantile(lows, counts, (shares - moved).clip(0, 1)), value)
        high = np.maximum(_quantile(highs, counts, (shares + moved).clip(0, 1)), value)
        enough = FEW if len(keys) < _FEW_KEYS else CONSERVATIVE
        note = number.notes[0] if blurred else enough if detectable else HIDDEN
    about = f"of frequencies over {evidence.stated}, of keys of frequency {least:,} or more in at least one"
    error = np.where(np.isnan(value), math.nan, (high - low) / (2 * z))
    guaranteed = detectable and not blurred and number.value > 0
    return Quantiles(
        KeyEstimates(value, error, low, high), len(keys), guaranteed, (note, about), least
    )


def _quantile(values: Floats, weights: Floats, shares: Floats) -> Floats:
    """Return the least value up to which the weights reach each share of their sum."""
    order = np.argsort(values, kind="stable")
    upto = np.maximum.accumulate(np.cumsum(weights[order]))
    place = np.searchsorted(upto, shares * upto[-1] - 1e-9)
    return np.asarray(values[order][place.clip(max=len(values) - 1)])


class _Competitors(NamedTuple):
    """Keys that may have a frequency or more, with those that no release reports beside them."""

    values: Floats
    errors: Floats
    pi: Floats  # the probability that some release reports such a key
    generator: np.random.Generator

    @staticmethod
    def of(keys: SeveralKeys, places: Ints, low: float) -> "_Competitors":
        """Return those of some keys that may have the frequency `low`, in this order."""
        reach = keys.values[places] + _REACH * keys.errors[places]
        near = places[reach >= low]
        evidence, rows = keys.evidence, keys.rows[near]
        reports = np.maximum(evidence.reports(rows), 1)
        likely = np.rint(np.maximum(evidence.totals.reported[rows] / reports, 1)).astype(np.int64)
        absent = np.ones(
            len(likely)
        )  # by all releases, of a key of this frequency in as many releases
        for n, part in enumerate(evidence.parts):
            sampling, per_key, _ = part.view.scheme
            missed = reporting_probabilities(likely, sampling, per_key, complement=True)
            absent *= np.where(evidence.cells[rows, n] > 0, missed, 1.0)
        pi = np.maximum(1 - absent, 1e-9)
        return _Competitors(keys.values[near], keys.errors[near], pi, np.random.default_rng(0))

    def _draw(self) -> tuple[Floats, Floats]:
        """Draw the frequencies of all keys, and the numbers of unreported keys beside each."""
        own = self.generator.normal(self.values, self.errors)
        return own, self.generator.negative_binomial(1, self.pi).astype(np.float64)

    def ranks(self, own: NormalLaw) -> Floats:
        """Return draws of the rank of one more key."""
        ranks = np.ones(_DRAWS)
        for n in range(_DRAWS):
            others, missed = self._draw()
            drawn = self.generator.normal(own.mean, own.deviation)
            ranks[n] += (others > drawn).sum() + missed[self.values > drawn].sum()
        return ranks

    def in_the_top(self, k: int, listed: int) -> Floats:
        """Return the probability that fewer than k keys are more frequent, for each of the first keys."""
        inside = np.zeros(listed)
        for _ in range(_DRAWS):
            own, missed = self._draw()
            values, counts = np.append(own, self.values), np.append(np.ones(len(own)), missed)
            order = np.argsort(-values, kind="stable")
            place = int(np.searchsorted(np.cumsum(counts[order]), k))
            kth = values[order][place] if place < len(order) else -math.inf
            inside += own[:listed] >= kth
        return inside / _DRAWS

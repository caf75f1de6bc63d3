"""Questions about single keys of several releases, and their order: each key, top k, ranks, comparisons, quantiles.

The law of a key's frequency over all releases, given its tokens, is a sum over releases. For its order among others it
is taken as normal, with the mean and the variance of that sum. Keys that no release reports stand beside those that
some do: a key that is reported by some release with probability p counts for (1 - p) / p others in the mean.
"""

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.estimators.notes import FEW, HIDDEN, Note
from dpsample.estimators.tuning import TUNING
from dpsample.exact import check_level
from dpsample.periods.numbers import numbers_of
from dpsample.answers.arguments import check_k, check_shares
from dpsample.answers.estimates import OF_EACH, Estimates
from dpsample.answers.selection import Attributes, Selection, Where
from dpsample.answers.token_sums import least_of_keys
from dpsample.answers.unreported import unreported_law
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.periods.combined import Combined

_DRAWS = 400  # of the frequencies of all keys
_REACH = 6.0  # deviations: keys that are further away do not change places
UNCERTAIN = "the key may be below the detection threshold: its rank is uncertain"
CONSERVATIVE = "these intervals are conservative: how much of the spread is noise of tokens is not known"


def each_key(
    combined: "Combined", where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimates:
    """Estimate the frequency of each selected key over all releases, from its tokens alone."""
    keys = selected(combined, where, attributes)
    note = f"{len(keys):,} keys that one of {combined.stated} reports, each by itself"
    return _listing(combined, keys, combined.estimates_of(keys, check_level(level)), level, note)


def top(
    combined: "Combined", k: int, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimates:
    """List the k keys with the largest estimates, and for each the probability that it is in the top k."""
    level, k = check_level(level), check_k(k)
    keys = selected(combined, where, attributes)
    if not len(keys):
        return _listing(combined, keys, [np.zeros(0)] * 5, level, "no reported key is selected")
    value, error = combined.totals.values[keys], combined.totals.deviations[keys]
    order = np.lexsort((keys, -value))
    keys, value, error = keys[order], value[order], error[order]
    listed = min(k, len(keys))
    competitors = _Competitors(combined, keys, value, error, float((value - _REACH * error)[:listed].min()))
    columns = *combined.estimates_of(keys[:listed], level), competitors.top(k, listed)
    fewer = ", fewer than k," if listed < k else ""
    note = f"top {k:,} among {len(keys):,} keys that one of {combined.stated} reports{fewer} and those that none does"
    rivals = _rivals(value, error, listed, level)
    if rivals > listed:
        among = 1 - (1 - level) * listed / rivals
        note += f"; {rivals:,} compete for the list, and those on it may be estimated too high"
        note = Note(note, advice=f"to allow for it, ask for the level {among:.6g}")
    return _listing(combined, keys[:listed], columns, level, note)


def rank(
    combined: "Combined", key: Any, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimate:
    """Estimate a key's rank: one more than the number of selected keys, reported or not, that are more frequent."""
    level = check_level(level)
    keys, own = selected(combined, where, attributes), selected(combined, [key])
    values, errors = combined.totals.values, combined.totals.deviations
    stated = level, 0.0, len(keys), combined.threshold
    if not len(own):
        most = combined.unreported(level)
        z = NormalDist().inv_cdf(0.5 + level / 2)
        before = int((values[keys] - z * errors[keys] > most.high).sum())
        return Estimate(math.nan, math.nan, 1.0 + before, math.inf, *stated, most.guaranteed, most.notes)
    if own[0] not in keys:
        raise InvalidValue("the key is among the selected ones", "one that is not", "change where")
    value, error = float(values[own[0]]), float(errors[own[0]])
    keys = keys[keys != own[0]]
    competitors = _Competitors(combined, keys, values[keys], errors[keys], value - _REACH * error)
    drawn = competitors.ranks(value, error)
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf").tolist()
    certain = combined.estimates_of(own, level)[2][0] > combined.unreported(level).high
    notes = (*(() if certain else (UNCERTAIN,)), *combined.cautions)
    return Estimate(float(drawn.mean()), float(drawn.std()), float(low), float(high), *stated, bool(certain), notes)


def compare(combined: "Combined", a: Any, b: Any) -> float:
    """Return the probability that key a is more frequent than key b; either may be unreported."""
    if a == b:
        return 0.0
    (mean_a, variance_a), (mean_b, variance_b) = (_moments(combined, key) for key in (a, b))
    deviation = math.sqrt(variance_a + variance_b)
    # frequencies are whole, and equal ones do not count
    return NormalDist().cdf((mean_a - mean_b - 0.5) / max(deviation, 1e-9))


def quantiles(
    combined: "Combined",
    shares: Any,
    where: Where = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimates:
    """Estimate quantiles of the frequencies over all releases, of keys that have the least frequency in one of them.

    Keys have the weights by which they are counted. The interval goes from the quantile of the lower ends of the keys'
    intervals to that of the upper ends, each moved by the error of the number of keys.
    """
    level, p = check_level(level), check_shares(shares)
    bounds = [least_of_keys(release, at_least) for release in combined.releases]
    least, detectable = max(bound for bound, _ in bounds), all(sure for _, sure in bounds)
    keys = selected(combined, where, attributes)
    number, counts, variances = numbers_of(combined, keys, least)
    value, low, high = np.full((3, len(p)), [[math.nan], [0.0], [math.inf]])
    note: str = Note("no selected key is that frequent", advice="at_least (--at-least) takes in rarer ones")
    blurred = bool(number.notes) and not number.guaranteed
    if number.value > 0:
        z = NormalDist().inv_cdf(0.5 + level / 2)
        own, _, lows, highs = combined.estimates_of(keys, level)
        value = _quantile(own, counts, p)
        # of the number of keys up to the quantile, less its share of all keys
        variance = np.array([variances @ np.where(own <= x, 1 - q, q) ** 2 for x, q in zip(value, p, strict=True)])
        error = z * np.sqrt(np.maximum(variance, 0.0)) + (1 - p) * (number.high - number.low) / 2
        share = (error + TUNING.single_key_allowance) / number.value
        low = np.minimum(_quantile(lows, counts, (p - share).clip(0, 1)), value)
        high = np.maximum(_quantile(highs, counts, (p + share).clip(0, 1)), value)
        note = FEW if len(keys) < 20 else CONSERVATIVE
        note = number.notes[0] if blurred else note if detectable else HIDDEN
    deviation = (high - low) / (2 * NormalDist().inv_cdf(0.5 + level / 2))
    numbers = {
        "value": value,
        "standard_error": np.where(np.isnan(value), math.nan, deviation),
        "low": low,
        "high": high,
    }
    guaranteed = np.full(len(p), detectable and not blurred and number.value > 0)
    table = pa.table({**numbers, "keys": np.full(len(p), len(keys)), "guaranteed": guaranteed})
    about = f"of frequencies over {combined.stated}, of keys of frequency {least:,} or more in at least one"
    notes = (note, about, *combined.cautions)
    return Estimates(pa.table({"quantile": p}), table, level, combined.threshold, notes, least)


def _quantile(values: Floats, weights: Floats, shares: Floats) -> Floats:
    """Return the least value up to which the weights reach each share of their sum."""
    order = np.argsort(values, kind="stable")
    upto = np.maximum.accumulate(np.cumsum(weights[order]))
    place = np.searchsorted(upto, shares * upto[-1] - 1e-9)
    return np.asarray(values[order][place.clip(max=len(values) - 1)])


def selected(combined: "Combined", where: Where, attributes: Attributes = None) -> Ints:
    """Return the places of the selected keys, ascending."""
    [(keys, _)] = Selection(combined.rows, where, attributes=attributes).weighted_rows()[1]
    return keys


def _listing(combined: "Combined", keys: Ints, columns: Any, level: float, note: str) -> Estimates:
    names = ("value", "standard_error", "low", "high", "probability")
    numbers = {name: np.asarray(column, np.float64) for name, column in zip(names, columns, strict=False)}
    table = combined.rows.table.take(pa.array(keys))
    notes = (note, *combined.cautions)
    return Estimates(table, pa.table(numbers), level, combined.threshold, notes, intervals=OF_EACH)


def _moments(combined: "Combined", key: Any) -> tuple[float, float]:
    """The mean and the variance of the law of a key's frequency, reported or not."""
    own = selected(combined, [key])
    if len(own):
        return float(combined.totals.values[own[0]]), float(combined.totals.deviations[own[0]]) ** 2
    mean = variance = 0.0
    for release in combined.releases:
        i, probabilities = unreported_law(release)
        here = float(probabilities @ i)
        mean, variance = mean + here, variance + float(probabilities @ (i - here) ** 2)
    return mean, variance


def _rivals(value: Floats, error: Floats, listed: int, level: float) -> int:
    """The number of keys that compete for a list: whose intervals reach those of the listed ones."""
    rivals, before = listed, 0
    while rivals > before:
        z = NormalDist().inv_cdf(1 - (1 - level) * listed / rivals / 2)
        before, rivals = rivals, max(int((value + z * error >= (value - z * error)[:listed].min()).sum()), rivals)
    return rivals


class _Competitors:
    """Keys that may have this frequency or more, with those that no release reports beside them."""

    def __init__(self, combined: "Combined", keys: Ints, value: Floats, error: Floats, low: float) -> None:
        near = value + _REACH * error >= low
        self.value, self.error = value[near], error[near]
        cells = combined.cells[keys[near]]
        present = np.maximum((cells > 0).sum(1), 1)
        likely = np.rint(np.maximum(combined.totals.reported[keys[near]] / present, 1)).astype(np.int64)
        absent = np.ones(len(likely))  # by all releases, of a key of this frequency in as many releases
        for n, release in enumerate(combined.releases):
            missed = reporting_probabilities(likely, release.sampling, release.per_key, complement=True)
            absent *= np.where(cells[:, n] > 0, missed, 1.0)
        self.pi = np.maximum(1 - absent, 1e-9)
        self._generator = np.random.default_rng(0)

    def _drawn(self) -> tuple[Floats, Floats]:
        """One draw of the frequencies of all keys, and of the numbers of unreported keys beside each."""
        own = self._generator.normal(self.value, self.error)
        return own, self._generator.negative_binomial(1, self.pi).astype(np.float64)

    def ranks(self, value: float, error: float) -> Floats:
        """Return draws of the rank of one more key."""
        ranks = np.ones(_DRAWS)
        for n in range(_DRAWS):
            own, missed = self._drawn()
            drawn = self._generator.normal(value, error)
            ranks[n] += (own > drawn).sum() + missed[self.value > drawn].sum()
        return ranks

    def top(self, k: int, listed: int) -> Floats:
        """Return the probability that fewer than k keys are more frequent, for each of the first keys."""
        inside = np.zeros(listed)
        for _ in range(_DRAWS):
            own, missed = self._drawn()
            values, counts = np.append(own, self.value), np.append(np.ones(len(own)), missed)
            order = np.argsort(-values, kind="stable")
            upto = np.cumsum(counts[order])
            place = int(np.searchsorted(upto, k))
            kth = values[order][place] if place < len(order) else -math.inf
            inside += own[:listed] >= kth
        return inside / _DRAWS

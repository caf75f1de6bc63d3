"""The order of counted keys: quantiles, the top k, ranks, and which of two keys has more users.

Answers are about the reported keys. Probabilities are those of normal laws around what was measured; draws have a fixed
seed, so that equal questions have equal answers. Nothing here needs to be secret: it sees the release alone.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpsample.accounting.normal import margin
from dpsample.estimators.estimate import Estimate
from dpsample.exact import check_level
from dpsample.questions.arguments import check_frequency, check_k, check_shares
from dpsample.questions.counted_keys import CountedKeys, Reached, detection_threshold, normal_probability
from dpsample.questions.result import OF_EACH, Estimates, of_the_top
from dpsample.questions.selection import Attributes, Where
from dpsample.questions.unreported import probability_above, rank_unreported
from dpsample.scheme.sampling import Floats, Ints

if TYPE_CHECKING:
    from dpsample.release.release import Release

_WORK = 4_000_000  # draws of a number of users
_DRAWS = 40, 1000  # of all keys together: fewest and most
_AT_ONCE = 200_000  # of these, in memory
_FAR = 7.0  # errors beyond which a normal law has nothing that matters
_POINTS = 64  # at which the law of a key is taken, for its rank


def quantiles(
    release: "Release",
    shares: Sequence[float],
    where: Where = None,
    level: float = 0.95,
    attributes: Attributes = None,
    at_least: int | None = None,
) -> Estimates:
    """Estimate quantiles of the numbers of users of the selected keys that were reported.

    The quantile of share p is the smallest number of users that a share p or more of these keys do not exceed.
    `at_least` leaves out keys of fewer users. Then half of the probability that an interval misses goes to the number
    of keys that are left.
    """
    level, p = check_level(level), check_shares(shares)
    least = 1 if at_least is None else check_frequency(at_least)
    keys = CountedKeys.selected(release, where, attributes)
    reached = Reached(keys, level if least == 1 else (1 + level) / 2)
    fewest, most = (len(keys),) * 2 if least == 1 else (reached.fewest(least), reached.most(least))
    if not most:
        columns = [np.full(len(p), value) for value in (math.nan, math.nan, 0.0, math.inf)]
        note = "no reported key is selected" if not len(keys) else f"no reported key has {least:,} users or more"
    else:
        # the more keys there are, the more of them are above a quantile
        low = np.maximum([reached.low(place) for place in _from_the_top(p, most)], least)
        high = np.maximum([reached.high(place) for place in _from_the_top(p, fewest)], least)
        low, high = np.minimum(low, high), np.maximum(low, high)  # bounds that miss may cross
        likely = int((np.maximum(keys.values, keys.least) >= least).sum())
        value = np.sort(np.maximum(keys.values, keys.least))[::-1][_from_the_top(p, likely)].clip(low, high)
        columns = [value, (high - low) / (2 * margin(level)), low, high]
        note = "these intervals are conservative: how much of the spread is noise is not known"
    over = "over all reported keys" if least == 1 else f"over reported keys of {least:,} users or more"
    numbers = dict(zip(("value", "standard_error", "low", "high"), columns, strict=True))
    held = np.full(len(p), most > 0)
    table = pa.table({**numbers, "keys": np.full(len(p), len(keys)), "guaranteed": held})
    notes = (f"{over}; keys that were not reported are not in it", note)
    return Estimates(pa.table({"quantile": p}), table, level, detection_threshold(release), notes)


def _from_the_top(shares: Floats, keys: int) -> Ints:
    """The place of each quantile among this number of keys, from the largest on, which is 0."""
    place = np.ceil(shares * keys * (1 - 1e-12)).clip(1, max(keys, 1))
    return (max(keys, 1) - place).astype(np.int64)


def top(
    release: "Release", k: int, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimates:
    """List the k keys with the most users, as measured, and for each the probability that it is in the top k.

    Those on the list may be measured too high. So intervals have a higher level, at which the listed keys have the
    nominal coverage on average, whatever the selection (Benjamini and Yekutieli, 2005).
    """
    level, k = check_level(level), check_k(k)
    keys = CountedKeys.selected(release, where, attributes)
    order = np.lexsort((keys.rows, -keys.values))[:k]
    note = f"top {k:,} among {len(keys):,} reported keys; keys that were not reported are not compared"
    if not len(keys):
        return listing(release, order, [np.zeros(0)] * 5, level, "no reported key is selected")
    listed = keys.at(order)
    low, high, rivals = _listed_intervals(keys, listed, level)
    columns = (
        np.maximum(listed.values, listed.least),
        listed.errors,
        low,
        high,
        in_the_top(keys.values, keys.errors, order, k),
    )
    if rivals > len(listed):
        note += f"; {rivals:,} compete for the list, and those on it may be measured too high: intervals allow for it"
    return listing(release, listed.rows, columns, level, note, of_the_top(k))


def _listed_intervals(keys: CountedKeys, listed: CountedKeys, level: float) -> tuple[Floats, Floats, int]:
    """The intervals of listed keys, and the number of keys that compete: whose intervals reach those of the listed."""
    rivals, before = len(listed), 0
    while rivals > before:
        part = 1 - (1 - level) * len(listed) / rivals
        low, high = listed.intervals(part)
        reached = keys.intervals(part)[1] >= low.min()
        before, rivals = rivals, max(int(reached.sum()), rivals)
    return low, high, rivals


def in_the_top(values: Floats, errors: Floats, places: Ints, k: int) -> Floats:
    """Return the probability of each of some keys, with errors that are about normal, that fewer than k are above it.

    Given the others, that is the probability of reaching the k-th largest of the others: the k-th of all, or the next
    one if the key is itself among the k.
    """
    if k >= len(values):
        return np.ones(len(places))
    floor = np.sort(values - _FAR * errors)[-k]
    near = np.flatnonzero(values + _FAR * errors >= floor)
    values, errors, ours = values[near], errors[near], np.searchsorted(near, places)
    if k >= len(near):
        return np.ones(len(places))
    generator = np.random.default_rng(0)
    draws = int(np.clip(_WORK // len(near), *_DRAWS))
    probability = np.zeros(len(places))
    for start in range(0, draws, size := max(1, _AT_ONCE // len(near))):
        drawn = values + errors * generator.standard_normal((min(size, draws - start), len(near)))
        kth, following = np.partition(drawn, [-k, -k - 1], axis=1)[:, [-k, -k - 1]].T[:, :, None]
        needed = np.where(drawn[:, ours] >= kth, following, kth)
        probability += normal_probability((values[ours] - needed) / errors[ours]).sum(0)
    return probability / draws


def rank(
    release: "Release", key: Any, where: Where = None, level: float = 0.95, attributes: Attributes = None
) -> Estimate:
    """Estimate a key's rank: one more than the number of selected keys that were reported and have more users.

    The interval has the keys that have more users with certainty, and those that possibly do, by intervals of all
    differences at once.
    """
    level = check_level(level)
    keys = CountedKeys.selected(release, where, attributes)
    at = keys.place_of(release, key)
    if at is None:
        return rank_unreported(release, level, len(keys), Reached(keys, level).fewest)
    others = np.arange(len(keys)) != at
    differences = (keys.values - keys.values[at])[others]
    reach = margin(level, max(len(keys) - 1, 1)) * np.hypot(keys.errors, keys.errors[at])[others]
    low, high = 1 + int((differences > reach).sum()), 1 + int((differences > -reach).sum())
    value, error = rank_law(keys.values[others], keys.errors[others], float(keys.values[at]), float(keys.errors[at]))
    note = "among the reported keys; keys that were not reported are not compared"
    threshold = detection_threshold(release)
    value = min(max(value, float(low)), float(high))
    return Estimate(value, error, float(low), float(high), level, 0.0, len(keys), threshold, True, (note,))


def rank_law(values: Floats, errors: Floats, value: float, error: float) -> tuple[float, float]:
    """Return the mean and the deviation of one more than the number of normal numbers that exceed another one."""
    normal = [margin(abs(2 * p - 1)) * (1 if p > 0.5 else -1) for p in (np.arange(_POINTS) + 0.5) / _POINTS]
    certain = values - value > _FAR * (errors + error)
    near = np.abs(values - value) <= _FAR * (errors + error)
    means, variances = np.zeros(_POINTS), np.zeros(_POINTS)
    for n, deviation in enumerate(normal):
        p = normal_probability((values[near] - (value + error * deviation)) / errors[near])
        means[n], variances[n] = p.sum(), (p * (1 - p)).sum()
    return float(1 + certain.sum() + means.mean()), math.sqrt(float(variances.mean() + means.var()))


def compare(release: "Release", a: Any, b: Any) -> float:
    """Return the probability that key a has more users than key b; either may be unreported."""
    if a == b:
        return 0.0
    keys = CountedKeys.selected(release, None, None)
    places = (keys.place_of(release, key) for key in (a, b))
    laws = (None if n is None else (float(keys.values[n]), float(keys.errors[n])) for n in places)
    return probability_above(release, *laws)


def listing(
    release: "Release", rows: Ints, columns: Iterable[Any], level: float, note: str, intervals: str = OF_EACH
) -> Estimates:
    """Return the answer for some keys: value, error and interval of each, and in a top list a probability."""
    names = ("value", "standard_error", "low", "high", "probability")
    numbers = {name: np.asarray(column, np.float64) for name, column in zip(names, columns, strict=False)}
    keys = release.table.select(list(release.keys)).take(pa.array(rows, pa.int64()))
    return Estimates(keys, pa.table(numbers), level, detection_threshold(release), (note,), intervals=intervals)

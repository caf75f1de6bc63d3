"""Questions about amounts of counted users: sums of rows and of columns, and ratios of two sums.

The interval of a sum has the noise of its keys, and what is beyond the clip of the amount, on either side. A ratio has
the interval of Fieller: of all ratios r, those for which `a - r b` is not further from 0 than its error allows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsample.accounting.amounts import Clipped
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.presentation.explain import amount_limits
from dpsample.questions.counted_keys import CountedKeys, detection_threshold, error_of_sum, margin
from dpsample.scheme.sampling import Floats

if TYPE_CHECKING:
    from dpsample.release.release import Release


@dataclass(frozen=True)
class Sum:
    """A weighted sum over keys: its value and error, and by how much it may be lower and higher, beyond a clip."""

    value: float
    error: float
    beyond: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (0.0, 0.0))  # below and above, with errors

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of this level."""
        (down, its_error), (up, error_up) = self.beyond
        reach = margin(level)
        low = self.value - down - reach * math.hypot(self.error, its_error)
        return low, self.value + up + reach * math.hypot(self.error, error_up)

    def ends(self) -> list["Sum"]:
        """Return the sums without what is beyond, and with all of it, on either side."""
        (down, its_error), (up, error_up) = self.beyond
        low = Sum(self.value - down, math.hypot(self.error, its_error))
        return [low, Sum(self.value + up, math.hypot(self.error, error_up))]


def amount_of(release: "Release", name: Any) -> Clipped | None:
    """Return the amount of a release that has this name, if there is one."""
    counts = release.terms.counts
    return (
        next((c for c in counts.amounts if c.amount.name == name), None) if counts and isinstance(name, str) else None
    )


def sum_of_amount(release: "Release", clipped: Clipped, keys: CountedKeys, level: float) -> Estimate:
    """Estimate the sum of an amount over keys."""
    if not len(keys):
        return _nothing(release, level)
    total = _summed(release, clipped, keys)
    notes = (amount_limits(clipped), unreported_note(release, "this sum"))
    return _estimate(release, keys, total, *total.interval(level), level, notes)


def ratio_of(release: "Release", of: str, per: str) -> Callable[[CountedKeys, float], Estimate]:
    """Return what estimates the ratio of two sums; each is of users or of an amount."""
    above, below = (None if name == "users" else amount_of(release, name) for name in (of, per))
    names = ["users", *(amount.name for amount in release.terms.amounts)]
    if of == per or of not in names or per not in names:
        raise InvalidValue(
            f"a ratio is of two sums of this release: {', '.join(names)}",
            f"{of!r} per {per!r}",
            "name two of them; rows and sums are counted with rows=... and sums=... (--rows, --sum)",
        )

    def answered(keys: CountedKeys, level: float) -> Estimate:
        if not len(keys):
            return _nothing(release, level, math.nan)
        a, b = (_summed(release, amount, keys) for amount in (above, below))
        corners = [fieller(x, y, level) for x, y in product(a.ends(), b.ends())]
        low, high = min(low for low, _ in corners), max(high for _, high in corners)
        value = a.value / b.value if b.value else math.nan
        ratio = Sum(value, math.hypot(a.error, value * b.error) / abs(b.value) if b.value else math.nan)
        limits = dict.fromkeys(amount_limits(c) for c in (above, below) if c is not None)
        notes = [*limits, unreported_note(release, "either sum")]
        if not math.isfinite(high - low):
            notes.append(f"{per} cannot be told from 0: nothing is known of the ratio")
        return _estimate(release, keys, ratio, low, high, level, tuple(notes))

    return answered


def fieller(a: Sum, b: Sum, level: float) -> tuple[float, float]:
    """Return the interval of a / b, of independent normal errors; all numbers if b cannot be told from 0.

    >>> fieller(Sum(100.0, 0.0), Sum(10.0, 1.0), 0.95)
    (8.3..., 12.4...)
    """
    square = margin(level) ** 2
    steep = b.value**2 - square * b.error**2
    if steep <= 0:
        return -math.inf, math.inf
    middle = a.value * b.value
    root = math.sqrt(max(middle**2 - steep * (a.value**2 - square * a.error**2), 0.0))
    return (middle - root) / steep, (middle + root) / steep


def unreported_note(release: "Release", what: str) -> str:
    """Say that other keys are left out."""
    known = "; other() estimates them" if release.total is not None else ""
    return f"keys that were not reported are not in {what}{known}"


def _summed(release: "Release", clipped: Clipped | None, keys: CountedKeys) -> Sum:
    """The sum of an amount, or of users, over some keys; what is beyond the clip is divided among all keys."""
    if clipped is None:
        return Sum(float(keys.weights @ keys.values), error_of_sum(keys))
    own = keys.of_amount(release, clipped)
    table = release.table
    users, values = (table[name].to_numpy() for name in ("measured", clipped.amount.measured))
    positive, negative = np.maximum(keys.weights, 0), np.maximum(-keys.weights, 0)
    chosen = [side[..., keys.rows] for side in clipped.beyond_keys(users, values)]
    down, up = (_beyond(side * positive + other * negative) for side, other in (chosen, chosen[::-1]))
    return Sum(float(keys.weights @ own.values), error_of_sum(own), (down, up))


def _beyond(parts: Floats) -> tuple[float, float]:
    """What some keys have beyond a clip, and its error: what they have in common adds up, the rest by squares."""
    sums, common, own = parts[0].sum(axis=1), parts[1].sum(axis=1), np.linalg.norm(parts[2], axis=1)
    return float(sums.max()), math.hypot(float(common.max()), float(own.max()))


def _estimate(
    release: "Release",
    keys: CountedKeys,
    total: Sum,
    low: float,
    high: float,
    level: float,
    notes: tuple[str, ...],
) -> Estimate:
    threshold = detection_threshold(release)
    guaranteed = math.isfinite(high - low)
    return Estimate(total.value, total.error, low, high, level, 0.0, len(keys), threshold, guaranteed, notes)


def _nothing(release: "Release", level: float, value: float = 0.0) -> Estimate:
    """The answer if no reported key is selected."""
    note = "no reported key is selected; nothing is known of other keys"
    unknown = math.nan, -math.inf, math.inf, level, math.nan
    return Estimate(value, *unknown, 0, detection_threshold(release), False, (note,))

"""Totals: what a release of elements, or of users with a contribution bound, buys beside its keys.

Each total is a sum plus discrete Laplace noise, for a share of epsilon that is fixed before anything is read.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpsample.accounting.dropped import TIMES, most_dropped
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.private.drawing import Drawing
from dpsample.private.noise import noisy_total
from dpsample.private.sources.source import Source
from dpsample.scheme.sampling import Sampling


@dataclass(frozen=True)
class Sized:
    """How keys are sampled; in a sample of a chosen size, the total that gave tau, and the keys if they are aside."""

    sampling: Sampling
    realized: RealizedSize | None = None
    counted: Any = None


class Totals:
    """The totals of a source, each with noise by coins of its own.

    One element or user changes `changes` frequencies by one each, and the total of frequencies by as much.
    """

    def __init__(self, drawing: Drawing, source: Source) -> None:
        self._drawing, self._engine, self._source = drawing, drawing.engine, source
        self._setting = drawing.request.setting
        self._budget = self._setting.budget

    @cached_property
    def _true_elements(self) -> int:
        """The number of elements, read once for two totals; as private as the data."""
        return self._engine.total(self._source)

    def sized(self) -> Sized:
        """Choose tau by a private total of weights, if the sample is of a chosen size."""
        size, counted = self._setting.size, None
        if size is None:
            return Sized(self._setting.sampling)
        self._drawing.progress.begin("weighing keys")
        if size.by_frequency:
            weights = self._true_elements
        else:
            counted, weights = self._engine.weighed(self._source, size.total)
        bought = self._bought(weights, size.share, size.sensitivity, size.unit)
        return Sized(size.sampling(bought), RealizedSize(size.size, bought), counted)

    def elements(self) -> Total | None:
        """Buy a total of elements, or of the keys that users kept, if the budget has a share for it."""
        share = self._budget.shares.get("total")
        if share is None:
            return None
        self._drawing.progress.begin("counting elements")
        return self._bought(self._true_elements, share)

    def dropped(self, unbounded: Source) -> Total | None:
        """Buy a total of the keys that users dropped, of each user up to a bound, if the budget has a share for it."""
        share = self._budget.shares.get("dropped keys")
        if share is None:
            return None
        self._drawing.progress.begin("counting the keys of users")
        bound = self._budget.changes
        beyond = self._engine.dropped(unbounded, bound, most_dropped(bound))
        return self._bought(beyond, share, Fraction(TIMES))

    def _bought(
        self,
        truth: int,
        share: Fraction,
        each: Fraction = Fraction(1),
        unit: Fraction = Fraction(1),
    ) -> Total:
        """Add noise to a total of units, which one frequency changes by at most `each`."""
        stated = Total(0, self._budget.spent_on(share), each * self._budget.changes, unit)
        return noisy_total(truth, stated, self._drawing.coins.fresh())

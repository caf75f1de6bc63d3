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
class ChosenSampling:
    """How keys are sampled, as stated or by a private total.

    `realized` has the total that gave tau, for a sample of a chosen size. `counted` holds all keys with their
    frequencies where the engine has put them aside on the way; it is private, and for the engine alone.
    """

    sampling: Sampling
    realized: RealizedSize | None = None
    counted: Any = None


class Totals:
    """The totals of a source, each with noise by coins of its own.

    One element or user changes `budget.changes` frequencies by one each, and so the total of frequencies by as much.
    """

    def __init__(self, drawing: Drawing, source: Source) -> None:
        self._drawing = drawing
        self._engine = drawing.engine
        self._source = source
        self._budget = drawing.request.options.budget

    @cached_property
    def _true_elements(self) -> int:
        """The number of elements without noise, read once for two totals. NOT private."""
        return self._engine.total(self._source)

    def choose_sampling(self) -> ChosenSampling:
        """Return the stated sampling scheme; for a sample of a chosen size, buy the total that gives tau."""
        options = self._drawing.request.options
        size = options.size
        if size is None:
            return ChosenSampling(options.sampling)
        self._drawing.progress.begin("weighing keys")
        counted = None
        if size.by_frequency:
            weights = self._true_elements
        else:
            counted, weights = self._engine.weighed(self._source, size.total)
        bought = self._bought(weights, size.share, size.sensitivity, size.unit)
        realized = RealizedSize(size.size, bought)
        return ChosenSampling(size.sampling(bought), realized, counted)

    def elements(self) -> Total | None:
        """Buy a total of elements, or of the keys that users kept, if the budget has a share for it."""
        share = self._budget.shares.get("total")
        if share is None:
            return None
        self._drawing.progress.begin("counting elements")
        return self._bought(self._true_elements, share)

    def dropped(self, unbounded: Source) -> Total | None:
        """Buy a total of the keys that users dropped, up to a bound for each user, if the budget has a share for it."""
        share = self._budget.shares.get("dropped keys")
        if share is None:
            return None
        self._drawing.progress.begin("counting the keys of users")
        bound = self._budget.changes
        dropped = self._engine.dropped(unbounded, bound, most_dropped(bound))
        return self._bought(dropped, share, Fraction(TIMES))

    def _bought(
        self,
        truth: int,
        share: Fraction,
        each: Fraction = Fraction(1),
        unit: Fraction = Fraction(1),
    ) -> Total:
        """Return a total with the noise that a share of epsilon buys.

        `truth` counts steps of `unit`. One unit more of one frequency changes the total by at most `each`.
        """
        epsilon = self._budget.spent_on(share)
        stated = Total(0, epsilon, each * self._budget.changes, unit)
        return noisy_total(truth, stated, self._drawing.coins.fresh())

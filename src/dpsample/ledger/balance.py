"""The balance of a ledger: its entries, the budget that is spent by each part, and what is left.

A ledger whose first line names parts applies its rule to each of them on its own, since they do not overlap: releases
of different parts cost the maximum. A release that is of no part counts for every part.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpsample.accounting.parts import Part, protected_unit
from dpsample.errors import InvalidValue
from dpsample.exact import text
from dpsample.ledger.charges import Charge, Entry, amount, shown
from dpsample.ledger.filters import RenyiBudget
from dpsample.ledger.rules import Rule, more_in_words, sums
from dpsample.privacy import Privacy


@dataclass(frozen=True)
class Ledger:
    """A ledger as it was read: a checked chain of lines.

    dataset  the name of the dataset
    budget   the privacy that all releases may spend together, of each part if there are parts
    unit     the unit of privacy
    each     the most that a single release may spend, if that was fixed
    entries  the releases, in the order of their reservations
    head     the hash of the last line
    hashes   the hashes of all lines, the head last. If one that was noted elsewhere is here, no line before it was cut
             off
    account  the budget at each order, if the ledger counts Rényi divergences
    parts    the name of the parts that are accounted for one by one, such as "day"

    >>> import tempfile
    >>> from dpsample.ledger.ledger import new_ledger, read_ledger, reserve_budget
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = new_ledger(f"{folder}/queries.ledger", "queries", Privacy(2, 1e-6))
    ...     charge = Charge(Privacy(1, 1e-8), "element", "first.parquet", source="events", keys=("query",))
    ...     with reserve_budget(f"{folder}/queries.ledger", charge) as reservation:
    ...         reservation.mark_drawn()
    ...         reservation.confirm()
    ...     print(read_ledger(f"{folder}/queries.ledger"))
    Ledger of 'queries': epsilon 2, delta 1e-06 for each element
      1  epsilon 1, delta 1e-08  first.parquet  ...  confirmed
         of events; key: query
      spent: epsilon 1, delta 1e-08 (basic composition); left: epsilon 1, delta 9.9e-07
    """

    dataset: str
    budget: Privacy
    unit: str
    each: Privacy | None = None
    entries: tuple[Entry, ...] = ()
    head: str = field(default="", compare=False)
    hashes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    account: RenyiBudget | None = None
    parts: str | None = None

    @property
    def charged(self) -> tuple[Entry, ...]:
        """The entries that are spent: all but those that were cancelled."""
        return tuple(entry for entry in self.entries if entry.status != "cancelled")

    @property
    def rule(self) -> Rule:
        """The rule by which releases add up: all of them, or those of one part."""
        return Rule(self.budget, self.each, self.account)

    @property
    def protects(self) -> str:
        """The unit of privacy, in words. With parts, a user is protected within each of them."""
        return protected_unit(self.unit, self.parts)

    def charges(self, part: str | None = None) -> tuple[Charge, ...]:
        """Return what is spent of one part: by its own releases, and by those of no part, which count for every part.

        With parts, None stands for any part of which nothing was released.
        """
        charges = tuple(entry.charge for entry in self.charged)
        if self.parts is None:
            return charges
        return tuple(c for c in charges if self._part_of(c) in (None, part))

    def _part_of(self, charge: Charge) -> str | None:
        """Return the part that a release counts for alone; None if it counts for all."""
        if charge.part is None or charge.part.name != self.parts:
            return None
        return charge.part.value

    @property
    def released_parts(self) -> tuple[str, ...]:
        """The parts of which something was released, in the order of their first releases."""
        parts = [self._part_of(entry.charge) for entry in self.charged]
        named = [part for part in parts if part is not None]
        return tuple(dict.fromkeys(named))

    @property
    def largest_part(self) -> str | None:
        """The part that spent most; None if there are no parts."""

        def spent(part: str) -> Fraction:
            return self.rule.share(self.charges(part))

        return max(self.released_parts, key=spent, default=None)

    @property
    def basic(self) -> tuple[Fraction, Fraction]:
        """The sums of all epsilons and of all deltas, of the part that spent most."""
        return sums(self.charges(self.largest_part))

    @property
    def releases(self) -> int | None:
        """The number of releases that the ledger allows; None if their sums or their curves count instead."""
        return self.rule.releases

    @property
    def spent(self) -> tuple[Fraction, Fraction, str]:
        """Epsilon and delta that the part that spent most has spent, and the name of the rule."""
        return self.rule.spent(self.charges(self.largest_part))

    @property
    def more(self) -> int | None:
        """The number of further releases like the last one, in a Rényi ledger; None if it is any number or unknown."""
        if self.account is None or not self.charged:
            return None
        last = self.charged[-1].charge
        limits = []
        for part in self._parts_of(last):
            allowed = self.rule.more(self.charges(part), last)
            if allowed is not None:
                limits.append(allowed)
        return min(limits, default=None)

    def _parts_of(self, charge: Charge) -> tuple[str | None, ...]:
        """Return the parts that a release counts for; None stands for any part without releases."""
        own = self._part_of(charge)
        return (own,) if own is not None else (None, *self.released_parts)

    def require(self, charge: Charge) -> None:
        """Refuse a release that the budget does not allow, or whose sample was released before."""
        self._require_unit(charge)
        for part in self._parts_of(charge):
            name = self._name_of(part)
            self.rule.require(name, self.charges(part), charge)
        self._require_new_sample(charge)

    def _require_unit(self, charge: Charge) -> None:
        """Refuse a release that protects another unit than this ledger counts."""
        if charge.unit != self.unit:
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.protects}, not of one {charge.unit}",
                f"use another ledger, or protect each {self.unit}",
            )
        if self.parts is not None and self.unit == "user" and self._part_of(charge) is None:
            # which keys a user keeps depends on all parts: without those of one part, others take their place
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.protects}, and this release is not of one "
                "part",
                f"name it with `part=({self.parts!r}, VALUE)`, or use another ledger",
            )

    def _require_new_sample(self, charge: Charge) -> None:
        """Refuse a second release of a sample: both together would spend more than their sum."""
        if charge.sample is None:
            return
        for number, entry in enumerate(self.entries, 1):
            is_spent = entry.status != "cancelled"
            if is_spent and entry.charge.sample == charge.sample:
                raise InvalidValue(
                    f"a sample is released once, and entry {number} of the ledger of {self.dataset!r} released this "
                    "one",
                    "use that release, or draw another sample",
                )

    def _name_of(self, part: str | None) -> str:
        """Return the name of the dataset, or of one part of it, for a message."""
        if part is None:
            return repr(self.dataset)
        return f"{self.dataset!r}, {Part(str(self.parts), part)},"

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger states, and what is spent in all."""
        epsilon, delta, rule = self.spent
        spent = {"epsilon": text(epsilon), "delta": text(delta), "rule": rule}
        each = None if self.each is None else self.each.to_json()
        account = None if self.account is None else self.account.to_json()
        entries = [entry.to_json() for entry in self.entries]
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "unit": self.unit,
            "protects": self.protects,
            "each": each,
            "account": account,
            "parts": self.parts,
            "releases_allowed": self.releases,
            "entries": entries,
            "spent": {**spent, "part": self.largest_part},
            "more_like_the_last": self.more,
            "head": self.head,
        }

    def __str__(self) -> str:
        lines = self._rules_in_words()
        for number, entry in enumerate(self.entries, 1):
            lines.append(f"  {number}  {entry}")
            purpose = str(entry.charge)
            if purpose:
                lines.append(f"     {purpose}")
        lines.append(self._balance())
        return "\n".join(lines)

    def _rules_in_words(self) -> list[str]:
        """Return what was fixed when the ledger was begun, one statement on each line."""
        budget = amount(self.budget.epsilon, self.budget.delta)
        lines = [f"Ledger of {self.dataset!r}: {budget} for each {self.protects}"]
        if self.parts is not None:
            name = shown(self.parts)
            lines.append(f"  parts that do not overlap: {name}; each has all of the budget")
        if self.account is not None:
            orders = len(self.account.limits)
            aside = text(self.account.aside)
            lines.append(
                f"  by Rényi divergences at {orders} orders; delta {aside} is set aside for the deltas of the releases"
            )
        if self.each is not None:
            most = amount(self.each.epsilon, self.each.delta)
            in_all = "" if self.releases is None else f": {self.releases} releases in all"
            lines.append(f"  at most {most} for each release{in_all}")
        return lines

    def _balance(self) -> str:
        """Return the last line: the budget that is spent, and what is left."""
        epsilon, delta, rule = self.spent
        part = self.largest_part
        where = ""
        if part is not None:
            where = f" of {Part(str(self.parts), part)}, the part that spent most"
        if self.account is None:
            left = self.rule.left(self.charges(part))
        else:
            left = self._left_like_the_last() if self.charged else "all"
        return f"  spent: {amount(epsilon, delta)} ({rule}){where}; left: {left}"

    def _left_like_the_last(self) -> str:
        last = self.charged[-1].charge
        left = more_in_words(self.more)
        if self._part_of(last) is not None:
            left += f", of {last.part}"
        return left

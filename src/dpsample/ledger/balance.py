"""The balance of a ledger: what is spent, of which part, and what is left.

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
    """The hashes of all lines, the head last. One that is noted elsewhere shows that no line before it was cut off."""

    account: RenyiBudget | None = None  # of a Rényi ledger
    parts: str | None = None  # what the parts are called that are accounted for one by one

    @property
    def charged(self) -> tuple[Entry, ...]:
        """The entries that are spent: all but those that were cancelled."""
        return tuple(entry for entry in self.entries if entry.status != "cancelled")

    @property
    def rule(self) -> Rule:
        """What releases may spend together: all of them, or those of one part."""
        return Rule(self.budget, self.each, self.account)

    @property
    def protects(self) -> str:
        """The unit of privacy, in words: with parts, a user within one of them."""
        return protected_unit(self.unit, self.parts)

    def charges(self, part: str | None = None) -> tuple[Charge, ...]:
        """Return what is spent of one part: its own releases, and those that are of no part and so of every part.

        With parts, None stands for a part of which nothing was released.
        """
        charges = tuple(entry.charge for entry in self.charged)
        return (
            charges
            if self.parts is None
            else tuple(c for c in charges if self._part_of(c) in (None, part))
        )

    def _part_of(self, charge: Charge) -> str | None:
        """The part that a release counts for alone; None if it counts for all."""
        return (
            charge.part.value
            if charge.part is not None and charge.part.name == self.parts
            else None
        )

    @property
    def released_parts(self) -> tuple[str, ...]:
        """The parts of which something was released, in the order of their first releases."""
        values = (self._part_of(entry.charge) for entry in self.charged)
        return tuple(dict.fromkeys(value for value in values if value is not None))

    @property
    def largest_part(self) -> str | None:
        """The part that spent most; None if there are no parts."""
        return max(
            self.released_parts, key=lambda part: self.rule.share(self.charges(part)), default=None
        )

    @property
    def basic(self) -> tuple[Fraction, Fraction]:
        """The sums of all epsilons and of all deltas, of the part that spent most."""
        return sums(self.charges(self.largest_part))

    @property
    def releases(self) -> int | None:
        """How many releases the ledger allows; None if it is their sums or their curves that count."""
        return self.rule.releases

    @property
    def spent(self) -> tuple[Fraction, Fraction, str]:
        """Epsilon and delta that are spent so far, of the part that spent most, and by which rule."""
        return self.rule.spent(self.charges(self.largest_part))

    @property
    def more(self) -> int | None:
        """How many more releases like the last a Rényi ledger allows; None if it does not say."""
        if self.account is None or not self.charged:
            return None
        last = self.charged[-1].charge
        numbers = [self.rule.more(self.charges(part), last) for part in self._parts_of(last)]
        return min((number for number in numbers if number is not None), default=None)

    def _parts_of(self, charge: Charge) -> tuple[str | None, ...]:
        """The parts that a release counts for."""
        own = self._part_of(charge)
        return (own,) if own is not None else (None, *self.released_parts)

    def require(self, charge: Charge) -> None:
        """Refuse what the budget does not allow, and a sample that was released before."""
        if charge.unit != self.unit:
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.protects}",
                f"a release that protects one {charge.unit}",
                f"use another ledger, or protect each {self.unit}",
            )
        if self.parts is not None and self.unit == "user" and self._part_of(charge) is None:
            # which keys a user keeps depends on all parts: without those of one part, others take their place
            raise InvalidValue(
                f"the ledger of {self.dataset!r} counts privacy of one {self.protects}",
                "a release that is not of one part",
                f"name it with `part=({self.parts!r}, VALUE)`, or use another ledger",
            )
        for part in self._parts_of(charge):
            dataset = repr(self.dataset) + (
                "" if part is None else f", {Part(str(self.parts), part)},"
            )
            self.rule.require(dataset, self.charges(part), charge)
        for number, entry in enumerate(self.entries, 1):
            if (
                charge.sample is not None
                and entry.charge.sample == charge.sample
                and entry.status != "cancelled"
            ):
                raise InvalidValue(
                    "a sample is released once: two releases of one sample spend more than their sum",
                    f"entry {number} of the ledger of {self.dataset!r}, which released this sample",
                    "use that release, or draw another sample",
                )

    def to_json(self) -> dict[str, Any]:
        """Return what the ledger states, with its sums."""
        epsilon, delta, rule = self.spent
        return {
            "dataset": self.dataset,
            "budget": self.budget.to_json(),
            "unit": self.unit,
            "protects": self.protects,
            "each": None if self.each is None else self.each.to_json(),
            "account": None if self.account is None else self.account.to_json(),
            "parts": self.parts,
            "releases_allowed": self.releases,
            "entries": [entry.to_json() for entry in self.entries],
            "spent": {
                "epsilon": text(epsilon),
                "delta": text(delta),
                "rule": rule,
                "part": self.largest_part,
            },
            "more_like_the_last": self.more,
            "head": self.head,
        }

    def __str__(self) -> str:
        budget = amount(self.budget.epsilon, self.budget.delta)
        lines = [f"Ledger of {self.dataset!r}: {budget} for each {self.protects}"]
        if self.parts is not None:
            lines.append(
                f"  parts that do not overlap: {shown(self.parts)}; each has all of the budget"
            )
        if self.account is not None:
            lines.append(
                f"  by Rényi divergences at {len(self.account.limits)} orders; delta {text(self.account.aside)} is set "
                "aside for the deltas of the releases"
            )
        if self.each is not None:
            rule = f": {self.releases} releases in all" if self.releases is not None else ""
            lines.append(
                f"  at most {amount(self.each.epsilon, self.each.delta)} for each release{rule}"
            )
        for number, entry in enumerate(self.entries, 1):
            lines += [
                f"  {number}  {entry}",
                *([f"     {entry.charge}"] if str(entry.charge) else []),
            ]
        return "\n".join([*lines, self._balance()])

    def _balance(self) -> str:
        epsilon, delta, rule = self.spent
        part = self.largest_part
        where = (
            "" if part is None else f" of {Part(str(self.parts), part)}, the part that spent most"
        )
        if self.account is not None:
            left = self._left_like_the_last() if self.charged else "all"
        else:
            left = self.rule.left(self.charges(part))
        return f"  spent: {amount(epsilon, delta)} ({rule}){where}; left: {left}"

    def _left_like_the_last(self) -> str:
        last = self.charged[-1].charge
        of_one = self._part_of(last) is not None
        return more_in_words(self.more) + (f", of {last.part}" if of_one else "")

"""Mutations of JSON: what an attacker, or a careless program, may make of the metadata of a file."""

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

Path = tuple[Any, ...]

TEXTS = (
    "0", "-0", "1", "-1", "2", "0.5", "-9", "10", "1e-6", "1e-12", "1e-13", "1e-200", "1e-300", "1e300", "1e-301",
    "1e99999999", "1e-99999999", "1/3", "1/0", "-1/3", "2/1", "1.0", "nan", "inf", "-inf", "", " 1", "1_0", "abc",
    "0x10", "9" * 5000, "1/" + "9" * 4000, "0." + "1" * 3000,
)  # fmt: skip
WHOLE = (0, 1, -1, 2, 3, 8, 1024, 10**6, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**40, 10**400)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 1e-9)
NAMES = (
    "keep all", "ppswor", "priority", "soft cap", "custom", "registered", "sample and hold", "bounded noise",
    "Rényi steps", "composed steps", "one-key", "many-keys", "none", "element", "user", "zcdp", "gdp", "a", "\x00",
    "\ud800", "halves",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"a": 1}, [1, 2], ["1"])
FIELDS = (
    "zcdp", "gdp", "method", "offset", "look", "full", "prior", "known", "total", "dropped", "size", "cap", "seed",
    "at_least", "max_keys_per_user", "discovery", "counts", "per_key", "amounts", "column", "part", "ledger", "other",
)  # fmt: skip


def paths(value: Any, before: Path = ()) -> Iterator[Path]:
    """Yield the places of all values within a value, and of itself."""
    yield before
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*before, name))
    elif isinstance(value, list):
        for n, inner in enumerate(value[:12]):  # one of many like values is as good as another
            yield from paths(inner, (*before, n))


def at(value: Any, path: Path) -> Any:
    """Return the value at a place."""
    for step in path:
        value = value[step]
    return value


class Mutations:
    """Mutations of a document, from a fixed seed; `donors` are documents whose values may take the place of others."""

    def __init__(self, document: dict[str, Any], donors: list[dict[str, Any]], seed: str) -> None:
        self._document, self._donors, self._random = document, donors, random.Random(seed)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            mutated = copy.deepcopy(self._document)
            for _ in range(self._random.choice((1, 1, 1, 2, 3))):
                self._mutate(mutated)
            if self._random.random() < 0.5:
                make_consistent(mutated)
            yield mutated

    def _mutate(self, document: dict[str, Any]) -> None:
        places = [path for path in paths(document) if path]
        path = self._random.choice(places)
        inside, last = at(document, path[:-1]), path[-1]
        ways = [self._change] * 6 + [self._remove, self._add, self._swap, self._swap, self._splice, self._splice]
        self._random.choice(ways)(document, inside, last)

    def _change(self, document: Any, inside: Any, last: Any) -> None:
        inside[last] = self._changed(inside[last])

    def _remove(self, document: Any, inside: Any, last: Any) -> None:
        del inside[last]

    def _add(self, document: Any, inside: Any, last: Any) -> None:
        if isinstance(inside, list):
            inside.insert(0, copy.deepcopy(inside[last]))
            return
        donor = self._random.choice(self._donors)
        name = self._random.choice(FIELDS)
        inside[name] = copy.deepcopy(donor.get(name, self._random.choice((*TEXTS, *WHOLE, *OTHERS))))

    def _swap(self, document: Any, inside: Any, last: Any) -> None:
        """Let two values of one type change places."""
        like = [path for path in paths(document) if path and type(at(document, path)) is type(inside[last])]
        path = self._random.choice(like)
        other, its_last = at(document, path[:-1]), path[-1]
        inside[last], other[its_last] = copy.deepcopy(other[its_last]), copy.deepcopy(inside[last])

    def _splice(self, document: Any, inside: Any, last: Any) -> None:
        """Take a value from another document: of the same name, if it has one."""
        donor = self._random.choice(self._donors)
        places = [path for path in paths(donor) if path]
        named = [path for path in places if path[-1] == last]
        inside[last] = copy.deepcopy(at(donor, self._random.choice(named or places)))

    def _changed(self, value: Any) -> Any:
        pick = self._random.choice
        if isinstance(value, bool) or value is None or self._random.random() < 0.1:
            return copy.deepcopy(pick((*OTHERS, *WHOLE, *TEXTS, *FLOATS)))
        if isinstance(value, int):
            near = (value + 1, value - 1, -value, 2 * value, value // 2, value + 7)
            return pick((*near, *near, *WHOLE, float(min(value, 2**60)), str(value)))
        if isinstance(value, float):
            return pick((-value, 2 * value, value * (1 + 1e-9), *FLOATS, str(value)))
        if isinstance(value, str):
            return self._changed_text(value)
        return copy.deepcopy(pick(OTHERS))

    def _changed_text(self, value: str) -> Any:
        pick = self._random.choice
        try:
            number = float(eval_ratio(value))
        except (ValueError, ArithmeticError):
            return pick((*NAMES, *NAMES, *TEXTS, value + "0", value[:-1]))
        factor = pick((-1, 2, 0.5, 10, 0.1, 1.001, 0.999, 1.000001, 0.999999))
        return pick((repr(number * factor), repr(number * factor), value + "0", pick(TEXTS), number, pick(WHOLE)))


def eval_ratio(text: str) -> float:
    """Read a decimal or a ratio."""
    above, _, below = text.partition("/")
    return float(above) / (float(below) if below else 1.0)


def make_consistent(document: dict[str, Any]) -> None:
    """Restate what follows from other numbers, as somebody would who wants to be believed; as far as there are any."""
    for restate in (_restate_scales, _restate_keys, _restate_noise):
        with contextlib.suppress(Exception):  # of whatever was mutated
            restate(document)


def _restate_scales(document: dict[str, Any]) -> None:
    """The scale of a total's noise is its sensitivity over its epsilon."""
    for total in (document.get("total"), document.get("dropped"), document.get("size", {}).get("weights")):
        if total is not None:
            total["scale"] = plain(ratio(total["sensitivity"]) / ratio(total["epsilon"]))


def _restate_keys(document: dict[str, Any]) -> None:
    """Keys have what totals leave, if each has an epsilon of its own; or all else has what keys leave."""
    parts = [document.get("total"), document.get("dropped"), document.get("size", {}).get("weights")]
    parts.append(document.get("discovery", {}).get("look"))
    parts.extend(document.get("discovery", {}).get("filled", ()))
    spent = sum((ratio(part["epsilon"]) for part in parts if part), Fraction(0))
    each = document["per_key"]
    if "max_keys_per_user" not in document and each.get("method") in (None, "composed steps"):
        each["epsilon"] = plain(ratio(document["privacy"]["epsilon"]) - spent)


def _restate_noise(document: dict[str, Any]) -> None:
    """Keep the mu**2 of each part of the counts if its length was changed; steps are beside all of it."""
    noise = document["counts"]["noise"]
    squares = {name: part["length"] ** 2 / ratio(part["variance"]) for name, part in noise.items()}
    each = document.get("per_key", {})
    if each.get("method") == "composed steps":
        each["square"] = plain(sum(squares.values(), Fraction(0)))


def ratio(text: str) -> Fraction:
    """Read a number, unless its exponent is so long that this would take for ever."""
    if len(text) > 100 or abs(int(text.lower().partition("e")[2] or 0)) > 400:
        raise ValueError
    return Fraction(text)


def plain(number: Fraction) -> str:
    """Write a number as the package does: a short decimal, or a ratio."""
    if number.denominator == 1:
        return str(number.numerator)
    decimal = repr(float(number))
    return decimal if Fraction(decimal) == number else f"{number.numerator}/{number.denominator}"


def written(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as a file would hold it, to the last digit; NaN is not JSON, but Python reads it."""
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read

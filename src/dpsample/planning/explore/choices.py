"""Choices: the numbers that sliders can be set to, and which others can be typed.

The numbers of the sliders are round and few, so that those nearby can be computed ahead. A place is also what the
address of the page has after its #, as texts.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dpsample.accounting.totals import SampleSize
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import KeepAll, Ppswor, Priority

EPSILONS = Fraction(1, 20), Fraction(10)
DELTAS = Fraction(1, 10**12), Fraction(1, 1000)
USERS = (None, 1, 2, 5, 10, 20, 50, 100, 200)  # keys per user; None: elements are protected
NAMES = {
    "epsilon": "Epsilon",
    "delta": "Delta",
    "tau": "Tau",
    "size": "Sample size",
    "users": "Keys per user",
}  # of the sliders
SAMPLING = {  # name in the address -> label on the page, scheme, and the slider that sets it
    "all": ("All keys, no sampling", "all", ""),
    "ppswor tau": ("ppswor, by tau", "ppswor", "tau"),
    "ppswor size": ("ppswor, by sample size", "ppswor", "size"),
    "priority tau": ("priority, by tau", "priority", "tau"),
    "priority size": ("priority, by sample size", "priority", "size"),
}
_LONGEST = 40  # characters of a number that is typed
_COARSE = ("1", "2", "5")
_FINE = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_NEAR, _ALSO = 4, 2  # steps to compute first: of the slider that was moved, and of the others


class Place(NamedTuple):
    """A setting, as the page has it."""

    epsilon: Fraction
    delta: Fraction
    how: str
    tau: Fraction
    size: int
    users: int | None

    def texts(self) -> dict[str, str]:
        """Return it as texts, as `Choices.place` reads them.

        >>> Place(Fraction(7, 10), Fraction(1, 10**6), "ppswor tau", Fraction(1, 3), 100, None).texts()
        {'epsilon': '0.7', 'delta': '1e-06', 'how': 'ppswor tau', 'tau': '1/3', 'size': '100', 'users': 'off'}
        """
        return {name: _text(value) for name, value in self._asdict().items()}


@dataclass(frozen=True)
class Choices:
    """The numbers that each slider can be set to, ascending, and the place to start with.

    >>> choices = Choices.of(Frequencies.zipf(1, 1000), epsilon="0.7", delta="1e-6")
    >>> len(choices.epsilon), [text(e) for e in choices.epsilon[:4]], text(choices.start.epsilon)
    (25, ['0.05', '0.06', '0.08', '0.1'], '0.7')
    >>> choices.setting(choices.start).privacy
    Privacy(epsilon='0.7', delta='1e-06')
    """

    epsilon: tuple[Fraction, ...]
    delta: tuple[Fraction, ...]
    tau: tuple[Fraction, ...]
    size: tuple[int, ...]
    users: tuple[int | None, ...]
    start: Place

    @staticmethod
    def of(
        frequencies: Frequencies,
        *,
        epsilon: Number,
        delta: Number,
        scheme: str = "all",
        tau: Number | None = None,
        size: int | None = None,
        users: Sequence[int | None] = (None,),
    ) -> "Choices":
        """Return choices that include a setting to start with, which is checked."""
        privacy, keys, elements = Privacy(epsilon, delta), frequencies.total, frequencies.elements
        how = scheme if scheme == "all" else f"{scheme} {'tau' if size is None else 'size'}"
        if how not in SAMPLING:
            raise InvalidValue("a scheme is all, ppswor or priority", repr(scheme), "choose one")
        # a sample starts with about a tenth of the keys, by default
        sizes, first_size = _with(*_between(1, 10 ** len(str(keys)), _COARSE, keys / 10), size)
        smallest_tau = Fraction(1, 10 ** len(str(elements)))
        taus, first_tau = _with(*_between(smallest_tau, 1, _COARSE, keys / 10 / elements), tau)
        epsilons, _ = _with(*_between(*EPSILONS, _FINE, 1), privacy.epsilon)
        deltas, _ = _with(*_between(*DELTAS, _COARSE, 1e-8), privacy.delta)
        start = Place(privacy.epsilon, privacy.delta, how, first_tau, int(first_size), users[0])
        choices = Choices(epsilons, deltas, taus, tuple(map(int, sizes)), tuple(users), start)
        for bound in choices.users:
            choices.setting(start._replace(users=bound))  # checks it
        return choices

    def place(self, **texts: str) -> Place:
        """Read a place from texts, and check it: a number is one from the first to the last of its slider.

        >>> choices = Choices.of(Frequencies.zipf(1, 1000), epsilon=1, delta="1e-6")
        >>> place = choices.place(**{**choices.start.texts(), "epsilon": "0.7"})
        >>> choices.setting(place).privacy
        Privacy(epsilon='0.7', delta='1e-06')
        """
        if texts["how"] not in SAMPLING:
            raise InvalidValue("a sampling is one of the page's", "another", "choose one")
        by = {_text(bound): bound for bound in self.users}
        if texts["users"] not in by:
            raise InvalidValue("keys per user are those of the slider", "another number", "move the slider")
        numbers: dict[str, Any] = {
            name: self._number(name, texts[name]) for name in ("epsilon", "delta", SAMPLING[texts["how"]][2]) if name
        }
        return self.start._replace(how=texts["how"], users=by[texts["users"]], **numbers)

    def _number(self, name: str, typed: str) -> Fraction | int:
        grid, whole = getattr(self, name), name == "size"
        try:
            number = exact(typed if len(typed) <= _LONGEST else "", name)
        except InvalidValue:
            number = Fraction(0)
        if not grid[0] <= number <= grid[-1] or (whole and number.denominator != 1):
            raise InvalidValue(
                f"{NAMES[name].lower()} is a {'whole ' * whole}number from {_text(grid[0])} to {_text(grid[-1])}",
                "something else",
                "type one, or move the slider",
            )
        return int(number) if whole else number

    def relevant(self, place: Place) -> Place:
        """Return a place in which what has no effect is as at the start, so that it is computed once."""
        by = SAMPLING[place.how][2]
        idle = {name: getattr(self.start, name) for name in ("tau", "size") if name != by}
        return place._replace(**idle)

    def setting(self, place: Place) -> Setting:
        """Return the setting of a place."""
        _, scheme, by = SAMPLING[place.how]
        kind = Ppswor if scheme == "ppswor" else Priority
        return Setting(
            Privacy(place.epsilon, place.delta),
            kind(place.tau) if by == "tau" else KeepAll(),
            SampleSize(place.size, scheme) if by == "size" else None,
            place.users,
        )

    def labels(self) -> dict[str, list[str]]:
        """Return the number at each position of each slider, as a text."""
        return {name: [_text(value) for value in getattr(self, name)] for name in NAMES}

    def nearby(self, place: Place, before: Place) -> Iterator[Place]:
        """Yield the places that may be next, the likeliest first.

        First come steps of the slider that was moved, onward and back; then steps of the other sliders; then all other
        positions of each slider, the nearest first.
        """
        place, by = self.relevant(place), SAMPLING[place.how][2]
        names = ["epsilon", "delta", *([by] if by else []), *(["users"] if len(self.users) > 1 else [])]
        moved = next((name for name in names if getattr(place, name) != getattr(before, name)), "epsilon")
        onward = -1 if (getattr(place, moved) or 0) < (getattr(before, moved) or 0) else 1
        others = [name for name in names if name != moved]
        furthest = max(len(getattr(self, name)) for name in names)
        steps = [
            *_steps([moved], _NEAR, onward),
            *_steps(others, _ALSO),
            *_steps(names, furthest - 1),
        ]
        for name, step in dict.fromkeys(steps):
            grid = getattr(self, name)
            position = _position(grid, getattr(place, name), step)
            if 0 <= position < len(grid):
                yield place._replace(**{name: grid[position]})


def _position(grid: Sequence[Fraction | int | None], value: Fraction | int | None, step: int) -> int:
    """Return the position that is some steps from a number, which may lie between two positions.

    >>> [_position([None, 1, 2, 5], value, step) for value in (2, 3) for step in (-1, 1)]
    [1, 3, 2, 3]
    """
    position = bisect_left([number or 0 for number in grid], value or 0)
    between = position == len(grid) or grid[position] != value
    return position + step - (between and step > 0)


def _text(value: Fraction | int | str | None) -> str:
    return "off" if value is None else value if isinstance(value, str) else text(Fraction(value))


def _steps(names: Sequence[str], furthest: int, onward: int = 1) -> Iterator[tuple[str, int]]:
    """Steps of some sliders, the nearest first, in both directions."""
    for distance in range(1, furthest + 1):
        for name in names:
            yield name, distance * onward
            yield name, -distance * onward


def _between(
    low: Fraction | int, high: Fraction | int, steps: Sequence[str], near: float
) -> tuple[tuple[Fraction, ...], Fraction]:
    """Return round numbers between two bounds, and the one of them that is nearest to a number, by ratio."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [Fraction(step) * Fraction(10) ** power for power in powers for step in steps]
    grid = tuple(n for n in every if low <= n <= high)
    return grid, min(grid, key=lambda n: abs(math.log(n / near)))


def _with(grid: tuple[Fraction, ...], nearest: Fraction, start: Number | None) -> tuple[tuple[Fraction, ...], Fraction]:
    """Return a grid that includes a number to start with, and this number; without one, the grid as it is."""
    if start is None:
        return grid, nearest
    first = exact(start, "a number to start with")
    return tuple(sorted({*grid, first})), first

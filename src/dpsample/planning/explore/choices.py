"""Choices: the positions of the sliders. The page requests positions, not numbers, so that few are to be computed."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

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
SAMPLING = {  # label on the page -> scheme, and the slider that sets it
    "All keys, no sampling": ("all", ""),
    "ppswor, by tau": ("ppswor", "tau"),
    "ppswor, by sample size": ("ppswor", "size"),
    "priority, by tau": ("priority", "tau"),
    "priority, by sample size": ("priority", "size"),
}
_HOW = tuple(SAMPLING.values())
_COARSE = ("1", "2", "5")
_FINE = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_NEAR, _ALSO = 4, 2  # steps to compute first: of the slider that was moved, and of the others


class Place(NamedTuple):
    """The position of each slider."""

    epsilon: int
    delta: int
    how: int
    tau: int
    size: int
    users: int


@dataclass(frozen=True)
class Choices:
    """The numbers that each slider can be set to, ascending, and the first position of each.

    >>> choices = Choices.of(Frequencies.zipf(1, 1000), epsilon="0.7", delta="1e-6")
    >>> len(choices.epsilon), [text(e) for e in choices.epsilon[:4]], text(choices.epsilon[choices.start.epsilon])
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
        how = (scheme, "" if scheme == "all" else "tau" if size is None else "size")
        if how not in _HOW:
            raise InvalidValue("a scheme is all, ppswor or priority", repr(scheme), "choose one")
        # a sample starts with about a tenth of the keys, by default
        sizes, at_size = _with(*_between(1, 10 ** len(str(keys)), _COARSE, keys / 10), size)
        smallest_tau = Fraction(1, 10 ** len(str(elements)))
        taus, at_tau = _with(*_between(smallest_tau, 1, _COARSE, keys / 10 / elements), tau)
        epsilons, at_epsilon = _with(*_between(*EPSILONS, _FINE, 1), privacy.epsilon)
        deltas, at_delta = _with(*_between(*DELTAS, _COARSE, 1e-8), privacy.delta)
        start = Place(at_epsilon, at_delta, _HOW.index(how), at_tau, at_size, users=0)
        choices = Choices(epsilons, deltas, taus, tuple(map(int, sizes)), tuple(users), start)
        for n in range(len(choices.users)):
            choices.setting(start._replace(users=n))  # checks it
        return choices

    def place(self, *positions: int) -> Place:
        """Check the positions of the sliders; those that have no effect are set to 0.

        >>> Choices.of(Frequencies.zipf(1, 1000), epsilon=1, delta="1e-6").place(3, 2, 0, 5, 7, 0)
        Place(epsilon=3, delta=2, how=0, tau=0, size=0, users=0)
        """
        lengths = [len(self.epsilon), len(self.delta), len(_HOW), len(self.tau), len(self.size), len(self.users)]
        if len(positions) != len(lengths) or not all(0 <= n < m for n, m in zip(positions, lengths, strict=True)):
            raise InvalidValue("sliders have the positions of the page", "another position", "load the page again")
        place = Place(*positions)
        _, by = _HOW[place.how]
        return place._replace(tau=place.tau if by == "tau" else 0, size=place.size if by == "size" else 0)

    def setting(self, place: Place) -> Setting:
        """Return the setting of these positions."""
        scheme, by = _HOW[place.how]
        kind = Ppswor if scheme == "ppswor" else Priority
        return Setting(
            Privacy(self.epsilon[place.epsilon], self.delta[place.delta]),
            kind(self.tau[place.tau]) if by == "tau" else KeepAll(),
            SampleSize(self.size[place.size], scheme) if by == "size" else None,
            self.users[place.users],
        )

    def labels(self) -> dict[str, list[str]]:
        """Return the text beside each slider, for each of its positions."""
        return {
            "epsilon": [text(e) for e in self.epsilon],
            "delta": [text(d) for d in self.delta],
            "tau": [text(t) for t in self.tau],
            "size": [f"{n:,}" for n in self.size],
            "users": ["off" if n is None else f"{n:,}" for n in self.users],
        }

    def nearby(self, place: Place, before: Place) -> Iterator[Place]:
        """Yield the places that may be next, the likeliest first.

        First come steps of the slider that was moved, onward and back; then steps of the other sliders; then all other
        positions of each slider, the nearest first.
        """
        place, by = self.place(*place), _HOW[place.how][1]
        names = ["epsilon", "delta", *([by] if by else []), *(["users"] if len(self.users) > 1 else [])]
        moved = next((name for name in names if getattr(place, name) != getattr(before, name)), "epsilon")
        onward = -1 if getattr(place, moved) < getattr(before, moved) else 1
        others = [name for name in names if name != moved]
        furthest = max(len(getattr(self, name)) for name in names)
        steps = [
            *_steps([moved], _NEAR, onward),
            *_steps(others, _ALSO),
            *_steps(names, furthest - 1),
        ]
        for name, step in dict.fromkeys(steps):
            position = getattr(place, name) + step
            if 0 <= position < len(getattr(self, name)):
                yield place._replace(**{name: position})


def _steps(names: Sequence[str], furthest: int, onward: int = 1) -> Iterator[tuple[str, int]]:
    """Steps of some sliders, the nearest first, in both directions."""
    for distance in range(1, furthest + 1):
        for name in names:
            yield name, distance * onward
            yield name, -distance * onward


def _between(
    low: Fraction | int, high: Fraction | int, steps: Sequence[str], near: float
) -> tuple[tuple[Fraction, ...], int]:
    """Return round numbers between two bounds, and the position of the one that is nearest to a number, by ratio."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [Fraction(step) * Fraction(10) ** power for power in powers for step in steps]
    grid = tuple(n for n in every if low <= n <= high)
    return grid, min(range(len(grid)), key=lambda n: abs(math.log(grid[n] / near)))


def _with(grid: tuple[Fraction, ...], nearest: int, start: Number | None) -> tuple[tuple[Fraction, ...], int]:
    """Return a grid that includes a number to start with, and its position; without one, the grid as it is."""
    if start is None:
        return grid, nearest
    first = exact(start, "a number to start with")
    position = bisect_left(grid, first)
    return (grid if first in grid else (*grid[:position], first, *grid[position:])), position

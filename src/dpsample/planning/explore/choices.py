"""Choices: where sliders can stand. A page asks for places, never for numbers, so that there are few to compute."""

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
SAMPLING = {  # as on the page: scheme, and what sets it
    "All keys, no sampling": ("all", ""),
    "ppswor, by tau": ("ppswor", "tau"),
    "ppswor, by sample size": ("ppswor", "size"),
    "priority, by tau": ("priority", "tau"),
    "priority, by sample size": ("priority", "size"),
}
_HOW = tuple(SAMPLING.values())
_COARSE = ("1", "2", "5")
_FINE = ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
_NEAR, _ALSO = 4, 2  # steps to compute ahead: of the slider that was moved, and of the others


class Place(NamedTuple):
    """Where each slider stands."""

    epsilon: int
    delta: int
    how: int
    tau: int
    size: int
    users: int


@dataclass(frozen=True)
class Choices:
    """The numbers that each slider can be set to, ascending, and where they stand at first.

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
        """Return choices around a setting to start with, which is checked, and which is among them."""
        privacy, keys, elements = Privacy(epsilon, delta), frequencies.total, frequencies.elements
        how = (scheme, "" if scheme == "all" else "tau" if size is None else "size")
        if how not in _HOW:
            raise InvalidValue("a scheme is all, ppswor or priority", repr(scheme), "choose one")
        # a tenth of the keys, or so, unless told
        sizes, fourth = _with(*_between(1, 10 ** len(str(keys)), _COARSE, keys / 10), size)
        least = Fraction(1, 10 ** len(str(elements)))
        taus, third = _with(*_between(least, 1, _COARSE, keys / 10 / elements), tau)
        epsilons, first = _with(*_between(*EPSILONS, _FINE, 1), privacy.epsilon)
        deltas, second = _with(*_between(*DELTAS, _COARSE, 1e-8), privacy.delta)
        made = Choices(
            epsilons,
            deltas,
            taus,
            tuple(map(int, sizes)),
            tuple(users),
            Place(first, second, _HOW.index(how), third, fourth, 0),
        )
        for n in range(len(made.users)):
            made.setting(made.start._replace(users=n))  # checks it
        return made

    def place(self, *positions: int) -> Place:
        """Check where sliders are said to stand; those that do not matter are put to 0.

        >>> Choices.of(Frequencies.zipf(1, 1000), epsilon=1, delta="1e-6").place(3, 2, 0, 5, 7, 0)
        Place(epsilon=3, delta=2, how=0, tau=0, size=0, users=0)
        """
        lengths = [len(self.epsilon), len(self.delta), len(_HOW), len(self.tau), len(self.size), len(self.users)]
        if len(positions) != len(lengths) or not all(0 <= n < m for n, m in zip(positions, lengths, strict=True)):
            raise InvalidValue("sliders stand where the page lets them", "another place", "load the page again")
        found = Place(*positions)
        _, by = _HOW[found.how]
        return found._replace(tau=found.tau if by == "tau" else 0, size=found.size if by == "size" else 0)

    def setting(self, place: Place) -> Setting:
        """Return what the release is to be."""
        scheme, by = _HOW[place.how]
        kind = Ppswor if scheme == "ppswor" else Priority
        return Setting(
            Privacy(self.epsilon[place.epsilon], self.delta[place.delta]),
            kind(self.tau[place.tau]) if by == "tau" else KeepAll(),
            SampleSize(self.size[place.size], scheme) if by == "size" else None,
            self.users[place.users],
        )

    def labels(self) -> dict[str, list[str]]:
        """Return what is shown beside each slider where it stands."""
        return {
            "epsilon": [text(e) for e in self.epsilon],
            "delta": [text(d) for d in self.delta],
            "tau": [text(t) for t in self.tau],
            "size": [f"{n:,}" for n in self.size],
            "users": ["off" if n is None else f"{n:,}" for n in self.users],
        }

    def nearby(self, place: Place, before: Place) -> Iterator[Place]:
        """Yield places that may be next, the likeliest first: onward, back, other sliders, then all of each slider."""
        place, by = self.place(*place), _HOW[place.how][1]
        names = ["epsilon", "delta", *([by] if by else []), *(["users"] if len(self.users) > 1 else [])]
        moved = next((name for name in names if getattr(place, name) != getattr(before, name)), "epsilon")
        onward = -1 if getattr(place, moved) < getattr(before, moved) else 1
        steps = [(moved, d * way) for d in range(1, _NEAR + 1) for way in (onward, -onward)]
        steps += [(n, d * way) for d in range(1, _ALSO + 1) for n in names if n != moved for way in (1, -1)]
        steps += [
            (n, d * way) for d in range(1, max(len(getattr(self, n)) for n in names)) for n in names for way in (1, -1)
        ]
        for name, step in dict.fromkeys(steps):
            at = getattr(place, name) + step
            if 0 <= at < len(getattr(self, name)):
                yield place._replace(**{name: at})


def _between(
    low: Fraction | int, high: Fraction | int, steps: Sequence[str], near: float
) -> tuple[tuple[Fraction, ...], int]:
    """Numbers of few figures, and which of them is nearest, by ratio, to a number."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [Fraction(step) * Fraction(10) ** power for power in powers for step in steps]
    grid = tuple(n for n in every if low <= n <= high)
    return grid, min(range(len(grid)), key=lambda n: abs(math.log(grid[n] / near)))


def _with(grid: tuple[Fraction, ...], start: int, asked: Number | None) -> tuple[tuple[Fraction, ...], int]:
    """The same with a number that was asked for, to start with."""
    if asked is None:
        return grid, start
    wanted = exact(asked, "a number to start with")
    at = bisect_left(grid, wanted)
    return (grid if wanted in grid else (*grid[:at], wanted, *grid[at:])), at

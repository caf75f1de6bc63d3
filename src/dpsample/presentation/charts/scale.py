"""From numbers to places in a picture, and the ticks of an axis."""

import math
from dataclasses import dataclass

# An axis has about this many ticks at most: more crowd a narrow picture.
_TICKS = 6


@dataclass(frozen=True)
class Scale:
    """Places, in pixels from `start` to `end`, of the numbers from `low` to `high`; even, or even by magnitude."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a number; one beyond an end is placed at that end."""
        inside = min(max(value, self.low), self.high)
        length = self.end - self.start
        return round(self.start + self._share(inside) * length, 1)

    def _share(self, value: float) -> float:
        """Return how far a number is from `low` to `high`, from 0 to 1."""
        if self.low == self.high:
            return 0.5
        if self.log:
            span = math.log(self.high / self.low)
            return math.log(value / self.low) / span
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return the numbers that are labelled."""
        if self.log:
            return log_ticks(self.low, self.high)
        return even_ticks(self.low, self.high)


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers, even by magnitude: powers of ten, and numbers between where these are few.

    >>> log_ticks(0.002, 30), log_ticks(0.02, 3), log_ticks(0.2, 3)
    ([0.01, 0.1, 1.0, 10.0], [0.03, 0.1, 0.3, 1.0, 3.0], [0.2, 0.5, 1.0, 2.0])
    """
    decades = math.log10(high / low)
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    every = max(
        1, math.ceil(decades / _TICKS)
    )  # over many decades, some powers of ten are left out
    ticks = []
    for power in range(first, last + 1, every):
        for step in _steps(decades):
            ticks.append(float(f"{step}e{power}"))
    # a tick at an end may be rounded past it
    return [tick for tick in ticks if 0.999 * low <= tick <= 1.001 * high]


def _steps(decades: float) -> tuple[float, ...]:
    """Return the multiples of a power of ten that are labelled: about four to eight ticks in all."""
    if decades < 0.7:
        return 1, 1.5, 2, 3, 4, 5, 7
    if decades < 1.5:
        return 1, 2, 5
    if decades < 3:
        return 1, 3
    return (1,)


def even_ticks(low: float, high: float) -> list[float]:
    """Return round numbers at equal distances.

    >>> even_ticks(0, 1), even_ticks(0, 1841)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 500.0, 1000.0, 1500.0])
    """
    if low == high:
        return [low]
    least = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(least))
    round_steps = [factor * power for factor in (1, 2, 5, 10)]
    step = next(step for step in round_steps if step >= least)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    # rounded to the digits of a step, which multiplication does not keep
    digits = 1 - math.floor(math.log10(step))
    ticks = [round(n * step, digits) for n in range(first, last + 1)]
    room = 0.001 * step  # a tick at an end may be rounded past it
    first_shown = low - room
    last_shown = high + room
    return [tick for tick in ticks if first_shown <= tick <= last_shown]


def tick_text(value: float) -> str:
    """Write the number of a tick.

    >>> [tick_text(value) for value in (0.001, 0.5, 1500, 2e6, 1e10, 1e15)]
    ['0.001', '0.5', '1,500', '2 million', '10 billion', '1e+15']
    """
    if value < 1e6:
        return f"{value:,.12g}"
    if value < 1e9:
        return f"{value / 1e6:g} million"
    if value < 1e12:
        return f"{value / 1e9:g} billion"
    return f"{value:g}"

"""Goals: the smallest epsilon that reaches one, and which of several forecasts to release by.

Goal               a least coverage, or a largest error
smallest_epsilon   the forecast for the smallest epsilon that reaches a goal
recommended        of several forecasts, the one to release by
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.exact import exact, text
from dpsample.planning.forecast import Forecast, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy

# the range of epsilons that are tried: beyond it, forecasts take minutes, or hardly change
SMALLEST = Fraction(1, 1000)
LARGEST = Fraction(20)
_FIGURES = 3  # of the epsilon that is returned
_IN_A_DECADE = 900  # numbers with three figures in each power of ten: 100 to 999
# What is recommended covers at least this share of the elements that the best setting covers. With more, it would spend
# more for little; with less, it would leave out much.
ENOUGH = 0.9
_FIELDS = {  # what a goal bounds -> the field of `Expected`
    "keys": "keys",
    "elements": "share_of_elements",
    "nrmse": "nrmse",
    "selection": "selection_nrmse",
}
_ERRORS = ("nrmse", "selection")  # these a goal bounds from above, the others from below
Progress = Callable[[str, int, int | None], None]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Goal:
    """A least number of reported keys or share of elements, or a largest error."""

    what: str
    bound: Fraction

    FORMS = "keys>=N, elements>=SHARE, nrmse<=ERROR or selection<=ERROR"

    @staticmethod
    def of(goal: "Goal | str") -> "Goal":
        """Read a goal: a least number of reported keys or share of elements, or a largest NRMSE.

        >>> print(Goal.of("keys>=10000"), Goal.of("nrmse <= 0.05"))
        keys>=10000 nrmse<=0.05
        """
        if isinstance(goal, Goal):
            return goal
        parsed = re.fullmatch(r"\s*(keys|elements|nrmse|selection)\s*(>=|<=)\s*(\S+)\s*", str(goal))
        if parsed is None or parsed[2] != _sign(parsed[1]):
            raise InvalidValue(f"{str(goal)!r} is not a goal", f"write {Goal.FORMS}")
        what, _, number = parsed.groups()
        bound = exact(number, what)
        if bound <= 0:
            raise InvalidValue(f"the bound of a goal must be above 0, not {text(bound)}")
        if what == "elements" and bound > 1:
            raise InvalidValue(f"the share of elements must be at most 1, not {text(bound)}")
        return Goal(what, bound)

    @property
    def about_errors(self) -> bool:
        """Whether the goal is about errors, which take time to compute."""
        return self.what in _ERRORS

    def value(self, expected: Forecast) -> float | None:
        """Return the number that the goal bounds."""
        value: float | None = getattr(expected.pws, _FIELDS[self.what])
        return value

    def reached(self, expected: Forecast) -> bool:
        """Whether a forecast reaches the goal."""
        value = self.value(expected)
        if value is None or math.isnan(value):
            return False
        return value <= self.bound if self.about_errors else value >= self.bound

    def __str__(self) -> str:
        return f"{self.what}{_sign(self.what)}{text(self.bound)}"


def _sign(what: str) -> str:
    return "<=" if what in _ERRORS else ">="


def smallest_epsilon(
    frequencies: Frequencies | ArrayLike,
    setting: Setting,
    goal: Goal | str,
    share: float = 0.01,
    progress: Progress = no_progress,
) -> Forecast:
    """Return the forecast for the smallest epsilon with which PWS reaches a goal.

    It lies between 0.001 and 20, and is rounded up to 3 figures. All else is as in the setting. A goal that no such
    epsilon reaches is refused. Coverage grows with epsilon. An NRMSE falls, but not always monotonically; the result is
    then an epsilon that reaches the goal while the next smaller one does not. Quick forecasts find about where it is;
    the result, and that the next smaller one does not reach the goal, are by full forecasts.

    >>> result = smallest_epsilon(Frequencies.zipf(1, 10**5), Setting(Privacy(1, 1e-8)), "keys>=5000")
    >>> float(result.setting.privacy.epsilon), round(result.pws.keys)
    (0.9, 5003)
    """
    if setting.privacy.definition is not None:
        raise InvalidValue(
            f"a goal finds an epsilon, but the budget is {setting.privacy.definition}",
            "state Privacy(epsilon, delta), or forecast some of these budgets without a goal",
        )
    known = Frequencies.of(frequencies)
    search = _Search(known, setting, Goal.of(goal), share, progress)
    below = _place(SMALLEST) - 1
    highest = _place(LARGEST)
    best = search.forecast_at(highest)
    if not search.goal.reached(best):
        raise _out_of_reach(search.goal, best)

    near = _first_reaching(search.reaches_quickly, below, highest)
    low, high = _bracket(search.reaches, near, below, highest)
    place = _first_reaching(search.reaches, low, high)
    return forecast(known, search.setting_at(place), share)


class _Search:
    """The forecasts of one search for an epsilon. A place is the position of an epsilon among all 3-figure numbers."""

    def __init__(
        self,
        frequencies: Frequencies,
        setting: Setting,
        goal: Goal,
        share: float,
        progress: Progress,
    ) -> None:
        self.frequencies = frequencies
        self.setting = setting
        self.goal = goal
        self.share = share
        self.progress = progress
        self.tries = count(1)

    def setting_at(self, place: int) -> Setting:
        """Return the setting with the epsilon of a place."""
        privacy = Privacy(_epsilon(place), self.setting.privacy.delta)
        return replace(self.setting, privacy=privacy)

    def forecast_at(self, place: int, quick: bool = False) -> Forecast:
        """Return the forecast at a place, without other methods."""
        self.progress("trying epsilons", next(self.tries), None)
        setting = self.setting_at(place)
        return forecast(
            self.frequencies,
            setting,
            self.share,
            errors=self.goal.about_errors,
            baselines=False,
            quick=quick,
        )

    def reaches(self, place: int) -> bool:
        """Whether the epsilon of a place reaches the goal."""
        return self.goal.reached(self.forecast_at(place))

    def reaches_quickly(self, place: int) -> bool:
        """Whether the epsilon of a place reaches the goal by a quick forecast, which is approximate."""
        return self.goal.reached(self.forecast_at(place, quick=True))


def _out_of_reach(goal: Goal, best: Forecast) -> InvalidValue:
    """Return the refusal of a goal, with the best value that is reached if the frequencies are public."""
    value = goal.value(best)
    problem = f"no epsilon up to {text(LARGEST)} reaches the goal {goal}"
    if value is not None and not best.private:
        problem += f": the best is {value:.4g}"
    return InvalidValue(problem, "choose a lesser goal")


def _first_reaching(reaches: Callable[[int], bool], low: int, high: int) -> int:
    """Return a place that reaches the goal after one that does not, by bisection.

    `high` reaches it; `low` does not, or is below all places.
    """
    while high - low > 1:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high


def _bracket(reaches: Callable[[int], bool], near: int, low: int, high: int) -> tuple[int, int]:
    """Narrow the range from `low`, which misses the goal, to `high`, which reaches it, around the place `near`.

    Steps away from it double until one falls on the other side of the goal.
    """
    upward = not reaches(near)
    if upward:
        low = near
    else:
        high = near
    for power in count():
        step = 2**power
        place = near + step if upward else near - step
        if not low < place < high:
            break
        reached = reaches(place)
        if reached:
            high = place
        else:
            low = place
        if reached == upward:
            break
    return low, high


def recommended(forecasts: Sequence[Forecast], goal: Goal | None = None) -> Forecast:
    """Return the forecast to release by: of those that are good enough, the one that spends least.

    With a goal, all are good enough; without, those that cover at least 90 % of the elements that the best one covers.
    The smallest epsilon (or rho, or mu) spends least, then the smallest delta. If these are equal, the forecast that
    covers more is returned.

    >>> epsilons, zipf = ["0.1", "0.25", "0.5", "1", "2"], Frequencies.zipf(1, 10**5)
    >>> results = [forecast(zipf, Setting(Privacy(e, 1e-8)), errors=False, baselines=False) for e in epsilons]
    >>> [round(100 * result.covered) for result in results], float(recommended(results).setting.privacy.epsilon)
    ([59, 66, 71, 76, 82], 1.0)
    """
    least = 0.0
    if goal is None:
        least = ENOUGH * max(result.covered for result in forecasts)
    good_enough = [result for result in forecasts if result.covered >= least]

    def spent(result: Forecast) -> tuple[Fraction, Fraction, float]:
        privacy = result.setting.privacy
        stated = privacy.epsilon if privacy.definition is None else privacy.definition.value
        return stated, privacy.delta, -result.covered

    return min(good_enough, key=spent)


def _epsilon(place: int) -> Fraction:
    """Return the number of 3 figures at a place in their order; 1.00 has place 0."""
    power, figures = divmod(place, _IN_A_DECADE)
    return (100 + figures) * Fraction(10) ** (power - _FIGURES + 1)


def _place(epsilon: Fraction) -> int:
    """Return the place of a number of 3 figures in their order."""
    power = math.floor(math.log10(epsilon))
    figures = int(epsilon / Fraction(10) ** (power - _FIGURES + 1)) - 100
    return _IN_A_DECADE * power + figures

"""Goals: grids of settings, and the smallest epsilon that reaches a goal."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, product
from typing import Literal, Protocol, TypeVar

from numpy.typing import ArrayLike

from dpsample.accounting.amounts import Amount
from dpsample.accounting.totals import SampleSize
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.planning.forecast import Forecast, forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.release.options import Discover
from dpsample.scheme.sampling import KeepAll, Sampling

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(20)  # epsilons that are tried
_FIGURES = 3  # of the epsilon that is returned
ENOUGH = 0.9  # of the elements that the best setting covers: what is recommended covers as much
ANY_DELTA = "1e-9"  # stands for a delta that is not yet known, to check a grid

Stated = Literal["epsilon", "zcdp", "gdp"]
_STATED: dict[Stated, Callable[[Number, Number], Privacy]] = {
    "epsilon": Privacy,
    "zcdp": Privacy.zcdp,
    "gdp": Privacy.gdp,
}
Progress = Callable[[str, int, int | None], None]


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Show nothing."""


def default_delta(frequencies: Frequencies) -> Fraction:
    """Return the largest power of ten that is at most a tenth of 1 / (number of elements), and at most 0.01.

    It reveals the magnitude of that number. If the frequencies are private, so is this delta.

    >>> float(default_delta(Frequencies.of([1] * 2000)))
    1e-05
    """
    return Fraction(1, 10 ** (1 + len(str(frequencies.elements - 1))))


def settings(
    epsilon: Sequence[Number],
    delta: Sequence[Number],
    sampling: Sequence[Sampling | SampleSize] = (KeepAll(),),
    max_keys_per_user: Sequence[int | None] = (None,),
    total: bool | Number = False,
    discover: Discover | None = None,
    stated: Stated = "epsilon",
    amounts: tuple[Amount, ...] = (),
) -> Iterator[Setting]:
    """Yield all combinations, epsilon changing fastest; `stated` says that it is the rho of zCDP, or the mu of GDP.

    >>> [str(s.privacy.epsilon) for s in settings(["0.1", "0.5"], [1e-8])]
    ['1/10', '1/2']
    """
    for bound, d, scheme, e in product(max_keys_per_user, delta, sampling, epsilon):
        is_size = isinstance(scheme, SampleSize)
        yield Setting(
            _STATED[stated](e, d),
            sampling=KeepAll() if is_size else scheme,  # type: ignore[arg-type]
            size=scheme if is_size else None,  # type: ignore[arg-type]
            max_keys_per_user=bound,
            total=total,
            discover=discover,
            amounts=amounts,
        )


@dataclass(frozen=True)
class Goal:
    """What is to be reached, as `Goal.of` reads it."""

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
        if parsed is None or (parsed[2] == ">=") != (parsed[1] in ("keys", "elements")):
            raise InvalidValue(f"a goal is one of {Goal.FORMS}", repr(goal), "write one, such as 'keys>=10000'")
        what, _, number = parsed.groups()
        bound = exact(number, what)
        if bound <= 0 or (what == "elements" and bound > 1):
            raise InvalidValue(
                "the bound of a goal is above 0, and a share of elements at most 1",
                text(bound),
                "write one, such as 'elements>=0.9'",
            )
        return Goal(what, bound)

    @property
    def about_errors(self) -> bool:
        """Whether the goal is about errors, which take time to compute."""
        return self.what in ("nrmse", "selection")

    def value(self, expected: Forecast) -> float | None:
        """Return the number that the goal bounds."""
        names = {"keys": "keys", "elements": "share_of_elements", "nrmse": "nrmse", "selection": "selection_nrmse"}
        value: float | None = getattr(expected.pws, names[self.what])
        return value

    def reached(self, expected: Forecast) -> bool:
        """Whether a forecast reaches the goal."""
        value = self.value(expected)
        if value is None or math.isnan(value):
            return False
        return value <= self.bound if self.about_errors else value >= self.bound

    def __str__(self) -> str:
        return f"{self.what}{'<=' if self.about_errors else '>='}{text(self.bound)}"


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
    checked, aim = Frequencies.of(frequencies), Goal.of(goal)
    if setting.privacy.definition is not None:
        raise InvalidValue(
            "a goal finds an epsilon",
            f"a budget of {setting.privacy.definition}",
            "forecast some of these budgets instead, without a goal, or state Privacy(epsilon, delta)",
        )

    def with_epsilon(place: int) -> Setting:
        return replace(setting, privacy=Privacy(_epsilon(place), setting.privacy.delta))

    tries = count(1)

    def forecast_at(place: int, quick: bool = False) -> Forecast:
        progress("trying epsilons", next(tries), None)
        return forecast(checked, with_epsilon(place), share, errors=aim.about_errors, baselines=False, quick=quick)

    def search(low: int, high: int, quick: bool = False) -> int:
        """Return a place that reaches the goal after one that does not; `low` does not, or is not tried."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if aim.reached(forecast_at(middle, quick)) else (middle, high)
        return high

    low, high = _place(SMALLEST) - 1, _place(LARGEST)
    best = forecast_at(high)
    if not aim.reached(best):
        value = aim.value(best)
        hidden = checked.private or value is None
        raise InvalidValue(
            f"a goal must be within reach, for epsilon up to {text(LARGEST)}",
            f"one that no epsilon up to {text(LARGEST)} reaches" if hidden else f"{value:.4g} at the best",
            "choose a lesser one",
        )
    near = search(low, high, quick=True)
    low, high = _bracket(near, low, high, lambda place: aim.reached(forecast_at(place)))
    return forecast(checked, with_epsilon(search(low, high)), share)


def _bracket(near: int, low: int, high: int, reaches: Callable[[int], bool]) -> tuple[int, int]:
    """Narrow (low, high], around a place, by steps that double; `high` reaches the goal, `low` does not."""
    up = not reaches(near)
    low, high = (near, high) if up else (low, near)
    for step in (2**n for n in count()):
        place = near + step if up else near - step
        if not low < place < high:
            break
        reached = reaches(place)
        low, high = (low, place) if reached else (place, high)
        if reached == up:
            break
    return low, high


class Planned(Protocol):
    """A forecast: its setting, and the expected share of all elements whose key is reported."""

    @property
    def setting(self) -> Setting: ...  # noqa: D102
    @property
    def covered(self) -> float: ...  # noqa: D102


_Planned = TypeVar("_Planned", bound=Planned)


def recommended(forecasts: Sequence[_Planned], goal: Goal | None = None) -> _Planned:
    """Return the forecast to release by: of those that are good enough, the one that spends least.

    With a goal, all are good enough. Else those are that cover at least 90 % of the elements that the best one covers.
    The smallest epsilon (or rho, or mu) spends least, then the smallest delta. Of equal ones, the best is returned.

    >>> zipf, grid = Frequencies.zipf(1, 10**5), settings(["0.1", "0.25", "0.5", "1", "2"], [1e-8])
    >>> results = [forecast(zipf, setting, errors=False, baselines=False) for setting in grid]
    >>> [round(100 * result.covered) for result in results], float(recommended(results).setting.privacy.epsilon)
    ([59, 66, 71, 76, 82], 1.0)
    """
    least = 0.0
    if goal is None:
        least = ENOUGH * max(result.covered for result in forecasts)
    good_enough = [result for result in forecasts if result.covered >= least]

    def spent(result: _Planned) -> tuple[Fraction, Fraction, float]:
        privacy = result.setting.privacy
        stated = privacy.epsilon if privacy.definition is None else privacy.definition.value
        return stated, privacy.delta, -result.covered

    return min(good_enough, key=spent)


@dataclass(frozen=True)
class Grid:
    """A grid of settings to plan; without a delta, it follows from the number of elements (`default_delta`).

    >>> results = Grid(["0.1", "1"]).forecasts(lambda bound: Frequencies.zipf(1, 100))
    >>> [(float(result.setting.privacy.delta), round(result.pws.keys)) for result in results]
    [(0.0001, 1), (0.0001, 11)]
    """

    epsilon: Sequence[Number]
    delta: Sequence[Number] = ()
    sampling: Sequence[Sampling | SampleSize] = (KeepAll(),)
    max_keys_per_user: Sequence[int | None] = (None,)
    total: bool | Number = False
    stated: Stated = "epsilon"

    def __post_init__(self) -> None:
        for bound in self.max_keys_per_user:
            self._settings(bound, self.delta or [ANY_DELTA])  # checks them, before any data are read

    def forecasts(
        self,
        counted: Callable[[int | None], Frequencies],
        share: float = 0.01,
        goal: Goal | str | None = None,
        progress: Progress = no_progress,
    ) -> list[Forecast]:
        """Return the forecast of each setting; with a goal, of the smallest epsilon that reaches it.

        `counted` returns the frequencies for a number of keys per user.
        """
        results = []
        for bound in self.max_keys_per_user:
            frequencies = counted(bound)
            todo = self._settings(bound, self.delta or [default_delta(frequencies.base)])
            for done, setting in enumerate(todo, 1):
                results.append(
                    forecast(frequencies, setting, share)
                    if goal is None
                    else smallest_epsilon(frequencies, setting, goal, share, progress)
                )
                progress("planning", done, len(todo))
        return results

    def _settings(self, bound: int | None, delta: Sequence[Number]) -> list[Setting]:
        return list(settings(self.epsilon, delta, self.sampling, [bound], self.total, stated=self.stated))


def _epsilon(place: int) -> Fraction:
    """Return the number of 3 figures at a place in their order; there are 900 for each power of ten."""
    power, figures = divmod(place, 900)
    return (100 + figures) * Fraction(10) ** (power - _FIGURES + 1)


def _place(epsilon: Fraction) -> int:
    """Return the place of a number of 3 figures."""
    power = math.floor(math.log10(epsilon))
    return 900 * power + int(epsilon / Fraction(10) ** (power - _FIGURES + 1)) - 100

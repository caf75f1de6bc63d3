"""Goals: which epsilon is enough? Grids of settings, and the smallest epsilon that reaches a goal."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from numpy.typing import ArrayLike

from dpsample.accounting.totals import SampleSize
from dpsample.errors import InvalidValue
from dpsample.exact import Number, exact, text
from dpsample.planning.forecast import Outlook, outlook
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.scheme.sampling import KeepAll, Sampling

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(20)  # epsilons that are looked at
_FIGURES = 3  # of an epsilon that is found


def default_delta(frequencies: Frequencies) -> Fraction:
    """Return the largest power of ten that is at most a tenth of 1 / (number of elements), and at most 0.01.

    It tells the magnitude of that number: of private data it is private.

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
) -> Iterator[Setting]:
    """Yield all combinations, epsilon changing fastest.

    >>> [str(s.privacy.epsilon) for s in settings(["0.1", "0.5"], [1e-8])]
    ['1/10', '1/2']
    """
    for users, d, how, e in product(max_keys_per_user, delta, sampling, epsilon):
        sized = isinstance(how, SampleSize)
        yield Setting(
            Privacy(e, d),
            sampling=KeepAll() if sized else how,  # type: ignore[arg-type]
            size=how if sized else None,  # type: ignore[arg-type]
            max_keys_per_user=users,
            total=total,
        )


@dataclass(frozen=True)
class Goal:
    """What is to be reached, as `Goal.of` reads it."""

    what: str
    bound: Fraction

    FORMS = "keys>=N, elements>=SHARE, nrmse<=ERROR or selection<=ERROR"

    @staticmethod
    def of(goal: "Goal | str") -> "Goal":
        """Read a goal: at least so many reported keys, or share of elements; or an NRMSE of at most so much.

        >>> print(Goal.of("keys>=10000"), Goal.of("nrmse <= 0.05"))
        keys>=10000 nrmse<=0.05
        """
        if isinstance(goal, Goal):
            return goal
        found = re.fullmatch(r"\s*(keys|elements|nrmse|selection)\s*(>=|<=)\s*(\S+)\s*", str(goal))
        if found is None or (found[2] == ">=") != (found[1] in ("keys", "elements")):
            raise InvalidValue(f"a goal is one of {Goal.FORMS}", repr(goal), "write one, such as 'keys>=10000'")
        bound = exact(found[3], found[1])
        if bound <= 0 or (found[1] == "elements" and bound > 1):
            raise InvalidValue(
                "the bound of a goal is above 0, and a share of elements at most 1",
                text(bound),
                "write one, such as 'elements>=0.9'",
            )
        return Goal(found[1], bound)

    @property
    def about_errors(self) -> bool:
        """Whether it needs errors, which take time."""
        return self.what in ("nrmse", "selection")

    def value(self, found: Outlook) -> float | None:
        """Return the number that it is about."""
        names = {"keys": "keys", "elements": "share_of_elements", "nrmse": "nrmse", "selection": "selection_nrmse"}
        value: float | None = getattr(found.pws, names[self.what])
        return value

    def reached(self, found: Outlook) -> bool:
        """Whether an outlook reaches it."""
        value = self.value(found)
        if value is None or math.isnan(value):
            return False
        return value <= self.bound if self.about_errors else value >= self.bound

    def __str__(self) -> str:
        return f"{self.what}{'<=' if self.about_errors else '>='}{text(self.bound)}"


def smallest_epsilon(
    frequencies: Frequencies | ArrayLike, setting: Setting, goal: Goal | str, share: float = 0.01
) -> Outlook:
    """Return the outlook for the smallest epsilon, rounded up to 3 figures, with which PWS reaches a goal.

    All else is as in the setting. From 0.001 to 20; a goal that none of these reaches is refused. Coverage grows with
    epsilon; an NRMSE may go up a little on its way down: then this is one of the epsilons that reach the goal while the
    next smaller one does not.

    >>> found = smallest_epsilon(Frequencies.zipf(1, 10**5), Setting(Privacy(1, 1e-8)), "keys>=5000")
    >>> float(found.setting.privacy.epsilon), round(found.pws.keys)
    (0.9, 5003)
    """
    made, aim = Frequencies.of(frequencies), Goal.of(goal)

    def at(n: int) -> Outlook:
        changed = replace(setting, privacy=Privacy(_epsilon(n), setting.privacy.delta))
        return outlook(made, changed, share, errors=aim.about_errors, baselines=False)

    low, high = _place(SMALLEST) - 1, _place(LARGEST)  # low does not reach it, or is not looked at
    best = at(high)
    if not aim.reached(best):
        value = aim.value(best)
        told = "one that no epsilon up to 20 reaches" if made.private or value is None else f"{value:.4g} at the best"
        raise InvalidValue(
            f"a goal must be within reach, for epsilon up to {text(LARGEST)}", told, "choose a lesser one"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if aim.reached(at(middle)) else (middle, high)
    return outlook(made, replace(setting, privacy=Privacy(_epsilon(high), setting.privacy.delta)), share)


def _epsilon(place: int) -> Fraction:
    """The numbers of 3 figures, in order: 900 for each power of ten."""
    power, figures = divmod(place, 900)
    return (100 + figures) * Fraction(10) ** (power - _FIGURES + 1)


def _place(epsilon: Fraction) -> int:
    power = math.floor(math.log10(epsilon))
    return 900 * power + int(epsilon / Fraction(10) ** (power - _FIGURES + 1)) - 100

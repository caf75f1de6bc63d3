"""Grid: several settings to plan together.

Grid            each combination of some privacies, samplings and contribution bounds
default_delta   the delta that a plan takes if none is given
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Literal

from dpsample.accounting.amounts import Amount
from dpsample.accounting.totals import SampleSize
from dpsample.exact import Number
from dpsample.planning.forecast import Forecast
from dpsample.planning.frequencies import Frequencies
from dpsample.planning.goals import Progress, no_progress
from dpsample.planning.setting import Setting
from dpsample.privacy import Privacy
from dpsample.release.options import Discover
from dpsample.scheme.sampling import KeepAll, Sampling

# stands for a delta that is not yet known, when a grid is checked before data are read; any small one would do
_ANY_DELTA = "1e-9"

Stated = Literal["epsilon", "zcdp", "gdp"]
_PRIVACY: dict[Stated, Callable[[Number, Number], Privacy]] = {
    "epsilon": Privacy,
    "zcdp": Privacy.zcdp,
    "gdp": Privacy.gdp,
}


def default_delta(frequencies: Frequencies) -> Fraction:
    """Return the largest power of ten that is at most a tenth of 1 / (number of elements), and at most 0.01.

    It reveals the magnitude of that number. If the frequencies are private, so is this delta.

    >>> float(default_delta(Frequencies.of([1] * 2000)))
    1e-05
    """
    digits = len(str(frequencies.elements - 1))
    return Fraction(1, 10 ** (1 + digits))


@dataclass(frozen=True)
class Grid:
    """Each combination of its values; without a delta, it follows from the number of elements (`default_delta`).

    `epsilon` holds epsilons, or, as `stated`, each rho of zCDP or each mu of GDP.

    >>> [str(setting.privacy.epsilon) for setting in Grid(["0.1", "0.5"], [1e-8]).settings()]
    ['1/10', '1/2']
    """

    epsilon: Sequence[Number]
    delta: Sequence[Number] = ()
    sampling: Sequence[Sampling | SampleSize] = (KeepAll(),)
    max_keys_per_user: Sequence[int | None] = (None,)
    total: bool | Number = False
    discover: Discover | None = None
    amounts: tuple[Amount, ...] = ()
    stated: Stated = "epsilon"

    def __post_init__(self) -> None:
        list(self.settings())  # checks them, before any data are read

    def settings(self) -> Iterator[Setting]:
        """Yield all combinations, epsilon changing fastest."""
        deltas = self.delta or [_ANY_DELTA]
        combinations = product(self.max_keys_per_user, deltas, self.sampling, self.epsilon)
        for bound, delta, scheme, epsilon in combinations:
            yield Setting(
                _PRIVACY[self.stated](epsilon, delta),
                max_keys_per_user=bound,
                total=self.total,
                discover=self.discover,
                amounts=self.amounts,
                **_sampled(scheme),
            )

    def forecasts(
        self,
        counted: Callable[[int | None], Frequencies],
        forecast: Callable[[Frequencies, Setting], Forecast],
        progress: Progress = no_progress,
    ) -> list[Forecast]:
        """Return the forecast of each setting.

        `counted` returns the frequencies for a number of keys per user; `forecast` returns what to expect of them.
        """
        results = []
        for bound in self.max_keys_per_user:
            frequencies = counted(bound)
            delta = self.delta or [default_delta(frequencies.base)]
            of_one_bound = replace(self, delta=delta, max_keys_per_user=[bound])
            settings = list(of_one_bound.settings())
            for done, setting in enumerate(settings, 1):
                results.append(forecast(frequencies, setting))
                progress("planning", done, len(settings))
        return results


def _sampled(scheme: Sampling | SampleSize) -> dict[str, Any]:
    """Return a scheme as the argument of a setting."""
    if isinstance(scheme, SampleSize):
        return {"size": scheme}
    return {"sampling": scheme}

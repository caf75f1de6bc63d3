"""What is asked of a release: one value, which is checked once for every question and every kind of release.

A kind of release may refuse more, such as an estimator that it has no use for. It never accepts what is refused here.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import ESTIMATORS, Estimator, check_estimator
from dpsample.estimators.measures import FREQUENCY, KEYS, Measure
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.scheme.sampling import Floats

Table = Any  # a pa.Table; pyarrow has no types, and strict checkers would call all that names one unknown
Where = str | Callable[[Table], Any] | Iterable[Any] | None
Weight = str | Callable[[Table], Any] | Mapping[Any, float] | None
By = str | Sequence[str] | None
Of = Measure | str | Callable[[Floats], Any]
Attributes = Any  # an Arrow table, a data frame, or the path of a Parquet, CSV or Arrow file


class MeanOptions(TypedDict, total=False):
    """The options of a mean: those of a sum, without `extrapolate`."""

    estimator: Estimator | None
    level: float
    attributes: Attributes
    at_least: int | None


class SumOptions(MeanOptions, total=False):
    """The options of a sum."""

    extrapolate: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """Which keys a question selects, what it asks of them, and with which confidence.

    `Answers.sum` documents the fields.

    >>> Question(level=0.9, estimator="mle", at_least=20).at_least
    20
    >>> Question(estimator="nonsense")
    Traceback (most recent call last):
    ...
    dpsample.errors.InvalidValue: estimator must be one of calibrated, mle, ..., not 'nonsense'
    """

    where: Where = None
    weight: Weight = None
    of: Of = "frequency"
    by: By = None
    level: float = 0.95
    at_least: int | None = None
    estimator: Estimator | None = None
    extrapolate: bool = False
    attributes: Attributes = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", check_level(self.level))
        check_estimator(self.estimator)
        if self.at_least is not None:
            object.__setattr__(self, "at_least", check_frequency(self.at_least))
        if not isinstance(self.extrapolate, bool):
            raise InvalidValue(f"extrapolate must be True or False, not {self.extrapolate!r}")

    @property
    def measure(self) -> Measure:
        """The function of the frequency that is summed."""
        return Measure.of(self.of)

    @property
    def chosen_estimator(self) -> Estimator:
        """The estimator, by default the calibrated one."""
        return check_estimator(self.estimator)

    @property
    def is_default_estimator(self) -> bool:
        """Whether the answer is by the default estimator, the only one with an interval."""
        return self.chosen_estimator == ESTIMATORS[0]

    @property
    def is_plain_sum(self) -> bool:
        """Whether the answer is a number of elements: a part of the private total, if there is one."""
        return self.weight is None and not self.by and self.measure == FREQUENCY

    @property
    def counts_keys_from(self) -> int | None:
        """The least frequency of the keys that count, if the sum is a number of keys; None if it is another one."""
        if self.measure == KEYS:
            return 1
        return self.measure.kink if self.measure.counts_keys else None

    def as_number(self) -> "Question":
        """Return the same question, with `at_least` as a part of the measure if it is a number of keys."""
        if self.at_least is None or self.of == "frequency":
            return self
        if self.of != "keys":
            raise InvalidValue(
                "`at_least` can only be used with sums of frequency and keys", "leave it out"
            )
        return replace(self, of=Measure.at_least(self.at_least), at_least=None)

    def require_default_estimator(self, what: str) -> None:
        """Refuse another estimator, by name or a function, where there is only one."""
        if not self.is_default_estimator:
            given = repr(self.estimator) if isinstance(self.estimator, str) else "a function"
            raise InvalidValue(
                f"{what} have one estimator, so {given} cannot be used", "leave the estimator out"
            )


def check_options(options: Mapping[str, Any], allowed: type) -> None:
    """Refuse a keyword that a question does not have, as Python does."""
    for name in options:
        if name not in allowed.__annotations__:
            raise TypeError(f"unexpected keyword argument {name!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_frequency(value: Any) -> int:
    """Check the least frequency of the keys that count."""
    if not _is_whole(value) or not 1 <= value <= MAX_FREQUENCY:
        raise InvalidValue(
            f"`at_least` must be a whole number from 1 on, not {value!r}", "give one, such as 20"
        )
    return int(value)


def check_k(k: Any) -> int:
    """Check the number of keys of a top list."""
    if not _is_whole(k) or k < 1:
        raise InvalidValue(f"k must be an integer from 1 on, not {k!r}", "choose one, such as 10")
    return int(k)


def check_shares(shares: Any) -> Floats:
    """Check shares of keys: one, or several."""
    try:
        several = [shares] if np.ndim(shares) == 0 else shares
        p = np.asarray(several, np.float64)
    except (TypeError, ValueError):
        p = np.array([math.nan])
    possible = (p >= 0) & (p <= 1)
    if p.ndim != 1 or not possible.all():
        raise InvalidValue(
            f"the shares of quantiles must lie between 0 and 1, unlike {shares!r}",
            "give [0.5, 0.9]",
        )
    return p

"""The arguments of questions: each is checked here, for every question and every kind of release.

A kind of release may refuse more, such as an estimator that it has no use for. It never takes what is refused here.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import ESTIMATORS, Estimator, check_estimator
from dpsample.exact import MAX_FREQUENCY, check_level
from dpsample.answers.selection import Rows, Selection
from dpsample.scheme.sampling import Floats


def check_arguments(
    *,
    level: Any = 0.95,
    estimator: Any = None,
    at_least: Any = None,
    k: Any = 1,
    shares: Any = 0.5,
    extrapolate: Any = False,
) -> None:
    """Check what a question is given, before the release is looked at; what is left out passes.

    >>> check_arguments(level=0.9, estimator="mle", at_least=20)
    >>> check_arguments(estimator="nonsense")
    Traceback (most recent call last):
    ...
    dpsample.errors.InvalidValue: an estimator is one of calibrated, mle, ...; found 'nonsense'; leave it out
    """
    check_level(level)
    check_estimator(estimator)
    if at_least is not None:
        check_frequency(at_least)
    check_k(k)
    check_shares(shares)
    if not isinstance(extrapolate, bool):
        raise InvalidValue("extrapolate is True or False", repr(extrapolate), "leave it out")


def check_frequency(value: Any) -> int:
    """Check the least frequency of the keys that count."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MAX_FREQUENCY:
        raise InvalidValue("at_least is a frequency, an integer from 1 on", repr(value), "give one, such as 20")
    return int(value)


def check_k(k: Any) -> int:
    """Check the number of keys of a top list."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidValue("k is an integer from 1 on", repr(k), "choose one, such as 10")
    return int(k)


def check_shares(shares: Any) -> Floats:
    """Check shares of keys: one, or several."""
    try:
        p = np.asarray([shares] if np.ndim(shares) == 0 else shares, np.float64)
    except (TypeError, ValueError):
        p = np.array([math.nan])
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InvalidValue("quantiles are shares from 0 to 1", repr(shares), "give some, such as [0.5, 0.9]")
    return p


def check_default_estimator(estimator: Estimator | None, what: str) -> None:
    """Refuse an estimator by name, or one's own, where there is only one. The name of the default one passes."""
    if check_estimator(estimator) != ESTIMATORS[0]:
        found = repr(estimator) if isinstance(estimator, str) else "a function"
        raise InvalidValue(f"{what} have one estimator, which needs no name", found, "leave the estimator out")


def check_keys(rows: Rows, keys: Sequence[Any]) -> None:
    """Refuse what cannot be a key of a release: of another type, or of another number of columns."""
    Selection(rows, keys)


def as_probability(number: float) -> float:
    """Return a computed probability without what rounding adds: sums of many terms may exceed 1.

    >>> as_probability(1.0000000000000004)
    1.0
    """
    return min(max(float(number), 0.0), 1.0)

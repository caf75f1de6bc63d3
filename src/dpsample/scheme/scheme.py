"""Scheme: all that the law of a token follows from."""

from typing import NamedTuple

from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling


class Scheme(NamedTuple):
    """How keys are sampled, what privacy each has, and the grid of the tokens: what functions of tokens ask for.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.scheme import token_law
    >>> scheme = Scheme(KeepAll(), Privacy(1, "0.01"), grid=1)
    >>> token_law(3, *scheme).tokens
    array([1, 2, 3])
    """

    sampling: Sampling
    per_key: PerKey
    grid: int = 1

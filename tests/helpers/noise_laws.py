"""Laws of bounded noise on several keys, in exact fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath  # type: ignore[import-untyped]

from dpsample.scheme.noise import BITS, KeyNoise


def law_of(noise: KeyNoise, frequency: int) -> dict[int, Fraction]:
    """The law of the token, by its definition; 0 if the key is not reported, or does not exist."""
    law: dict[int, Fraction] = {}
    for z, n in enumerate(noise.table):
        token = max(frequency - z, 1) if frequency and frequency - z >= 1 - noise.offset else 0
        law[token] = law.get(token, Fraction(0)) + Fraction(n, 1 << BITS)
    return law


def exact_delta(pairs: Sequence[tuple[dict[Any, Fraction], dict[Any, Fraction]]], epsilon: str) -> float:
    """Sum over all outcomes of several keys: max(0, P - exp(epsilon) Q)."""
    factor, total = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(0)
    for outcome in product(*(sorted(set(a) | set(b)) for a, b in pairs)):
        p = math.prod((a.get(x, Fraction(0)) for (a, _), x in zip(pairs, outcome, strict=True)), start=Fraction(1))
        q = math.prod((b.get(x, Fraction(0)) for (_, b), x in zip(pairs, outcome, strict=True)), start=Fraction(1))
        excess = mpmath.mpf(p.numerator) / p.denominator - factor * mpmath.mpf(q.numerator) / q.denominator
        total += max(excess, 0)
    return float(total)

"""What conversions of zCDP and GDP are compared with, in high precision."""

from fractions import Fraction

import numpy as np
from mpmath import mp, mpf  # type: ignore[import-untyped]

ORDERS = [1 + 10**e for e in np.linspace(-4, 3, 60).tolist()]


def real(x: Fraction) -> mpf:
    return mpf(x.numerator) / x.denominator


def gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)

"""Whether (epsilon, delta) holds: dpsample's certifier on the law that a peer publishes, one key, one element.

Row r of a table has the probability of each published number of a key of frequency r. Noise on integers is as it is,
and all numbers above the last are one. Continuous noise is in cells of length 1, which can only hide: the delta found
is a lower bound. A key that nobody has is never published, so row 0 is empty.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpsample import KeepAll, Privacy
from dpsample.scheme.certificate import certify, certify_table

ROWS = 80
TOKENS = 260

Law = Callable[[int], list[float]]


def geometric_threshold(scale: float, threshold: int) -> Law:
    """Discrete Laplace noise, published from the threshold on."""
    a = math.exp(-1 / scale)

    def row(r: int) -> list[float]:
        if r == 0:
            return []
        cells = [(1 - a) / (1 + a) * a ** abs(threshold + n - r) for n in range(TOKENS)]
        return [*cells, _geometric_tail(a, threshold + TOKENS - r)]

    return row


def laplace_threshold(scale: float, threshold: float) -> Law:
    """Continuous Laplace noise, published from the threshold on."""

    def row(r: int) -> list[float]:
        return [] if r == 0 else _laplace_cells(scale, threshold - r, TOKENS)

    return row


def selected(keep: Callable[[int], float], noise: Callable[[int], list[float]]) -> Law:
    """Keys are kept with a probability, and then counted with noise of its own."""

    def row(r: int) -> list[float]:
        return [] if r == 0 else [keep(r) * p for p in noise(r)]

    return row


def spent(law: Law, epsilon: float) -> float:
    """Return the largest delta that a pair of neighbouring rows spends with this epsilon."""
    table = [[_below(p) for p in law(r)] for r in range(ROWS)]
    return float(certify_table(table, Privacy(str(epsilon), "0.01")).delta)


def certificate(peer: str, stated: dict[str, Any]) -> dict[str, Any] | None:
    """What a peer claims, and what its law spends; None if it publishes no law for unknown keys."""
    epsilon, delta = stated.get("epsilon"), stated.get("delta")
    if peer == "dpsample":
        proved = certify(KeepAll(), Privacy("0.5", "1e-6"))
        found, law = float(proved.delta), "its own, in integers, at every frequency"
    elif peer in ("opendp", "opendp-polars", "tumult-core"):
        found = spent(geometric_threshold(stated["scale"], stated["threshold"]), 0.5)
        law = f"discrete Laplace, scale {stated['scale']:g}; published from {stated['threshold']} on"
    elif peer == "smartnoise":
        found = spent(laplace_threshold(stated["scale"], stated["threshold"]), 0.5)
        law = f"Laplace, scale {stated['scale']:.3g}; published above {stated['threshold']:.2f}"
    elif peer in ("pydp", "pipelinedp"):
        scale, keep = stated["noise"], stated["keep"]
        found = spent(selected(lambda r: float(keep[r]), lambda r: _laplace_cells(scale, -40 - r, TOKENS)), 0.5)
        law = f"truncated geometric selection, then Laplace, scale {scale:g}"
    elif peer == "tumult-analytics":
        a, threshold = math.exp(-1 / stated["scale"]), stated["threshold"]
        noise = geometric_threshold(stated["scale"], -40)
        found = spent(selected(lambda r: _geometric_tail(a, threshold - r), noise), 0.5)
        law = f"discrete Laplace, scale {stated['scale']:g}, twice: selected from {threshold} on, then counted"
    else:
        return None
    return {"law": law, "epsilon": epsilon, "delta": delta, "found": found}


def _geometric_tail(a: float, n: int) -> float:
    """P[noise >= n] of discrete Laplace noise."""
    return a**n / (1 + a) if n >= 1 else 1 - a ** (1 - n) / (1 + a)


def _laplace_cells(scale: float, start: float, number: int) -> list[float]:
    """Probabilities of cells of length 1 from `start` on, the last without end."""

    def tail(x: float) -> float:
        return math.exp(-x / scale) / 2 if x >= 0 else 1 - math.exp(x / scale) / 2

    cells = [-float(np.diff([tail(start + n), tail(start + n + 1)])[0]) for n in range(number)]
    return [*cells, tail(start + number)]


def _below(p: float) -> Fraction:
    """The float, a little lower, so that the sum of a row is not above 1."""
    return Fraction(p) * (1 - Fraction(1, 2**40))

"""The paper's algorithms, transcribed step by step in exact arithmetic: slow, and for the tests only.

They follow the printed order of the steps and share nothing with the library, so that agreement means
something. Throughout, `E` is exp(epsilon), `q` lists the non-decreasing sampling probabilities q_1, ..., q_m,
and index 0 of a row is the probability that the key is not reported.

Sizes: with an `E` of 50 digits every row adds 100 to 200 bits to a Fraction; keep m at 30 or so. Tests that
need more rows can take a short rational `E`, such as 3/2: the algorithms know exp(epsilon) only as `E`.

    exponential                        epsilon -> E
    algorithm_3                        q -> pi
    algorithm_4                        q -> rows of integer tokens
    algorithm_5                        q -> densities of real tokens; cells and refine make rows of them
    delta_spent, concordance           what a pair of rows costs, and what it is worth
    largest_reporting                  the optimum of algorithm 3, found by a linear program instead
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

ZERO = Fraction(0)
ONE = Fraction(1)


def exponential(epsilon: Fraction, digits: int = 50) -> Fraction:
    """exp(epsilon), with a relative error below 10**-digits; it may lie on either side.

    >>> float(exponential(Fraction(1)))
    2.718281828459045
    """
    # An error in epsilon becomes a relative error of the result: its integer digits need room as well.
    precision = digits + len(str(int(abs(epsilon)))) + 3
    context = Context(prec=precision, Emin=MIN_EMIN, Emax=MAX_EMAX)
    exponent = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return Fraction(context.exp(exponent))


def _reporting(q_i: Fraction, pi_before: Fraction, E: Fraction, delta: Fraction) -> Fraction:
    """pi_i from pi_{i-1}: the line that Algorithms 3, 4 and 5 have in common."""
    grow = E * pi_before + delta
    shrink = 1 + (pi_before + delta - 1) / E
    return min(q_i, grow, shrink)


def algorithm_3(q: Sequence[Fraction], E: Fraction, delta: Fraction) -> list[Fraction]:
    """Algorithm 3, sanitized keys: the reporting probabilities pi_0, ..., pi_m.

    >>> [str(pi) for pi in algorithm_3([Fraction(1)] * 4, Fraction(2), Fraction(1, 10))]
    ['0', '1/10', '3/10', '7/10', '9/10']
    """
    pi = [ZERO]
    for q_i in q:
        pi.append(_reporting(q_i, pi[-1], E, delta))
    return pi


def algorithm_4(q: Sequence[Fraction], E: Fraction, delta: Fraction) -> list[list[Fraction]]:
    """Algorithm 4, sanitized frequencies: row i, from 0 to m, is pi_{i,0}, ..., pi_{i,i}.

    >>> for row in algorithm_4([Fraction(1)] * 3, Fraction(2), Fraction(1, 10)):
    ...     print(*row)
    1
    9/10 1/10
    7/10 1/5 1/10
    3/10 2/5 1/5 1/10
    """
    table = [[ONE]]
    pi = ZERO
    for i in range(1, len(q) + 1):
        before = table[i - 1]
        pi = _reporting(q[i - 1], pi, E, delta)
        row = [ZERO] * (i + 1)
        row[0] = 1 - pi
        # Upwards: the least that each token needs.
        for j in range(1, i):
            least = (sum(before[1 : j + 1], ZERO) - delta) / E - sum(row[1:j], ZERO)
            least += max(before[0] / E - row[0], ZERO)
            row[j] = max(least, ZERO)
        # Downwards: what remains goes to the highest tokens, each filled to the most that it may hold.
        remaining = pi - sum(row[1:i], ZERO)
        for j in range(i, 0, -1):
            if remaining == 0:
                break
            most = E * sum(before[j:i], ZERO) + delta - sum(row[j + 1 : i + 1], ZERO)
            if most - row[j] <= remaining:
                remaining -= most - row[j]
                row[j] = most
            else:
                row[j] += remaining
                remaining = ZERO
        table.append(row)
    return table


@dataclass(frozen=True)
class Density:
    """The law of a real token: a point mass at "not reported", and a piecewise constant density above 0.

    `heights[k]` is the density on (breaks[k], breaks[k + 1]]; `breaks` ascends strictly, from 0.
    """

    breaks: tuple[Fraction, ...]
    heights: tuple[Fraction, ...]
    not_reported: Fraction

    def tail(self, x: Fraction) -> Fraction:
        """The probability of being reported with a token above x."""
        mass = ZERO
        for (left, right), height in zip(pairwise(self.breaks), self.heights, strict=True):
            if right > x:
                mass += height * (right - max(left, x))
        return mass


def algorithm_5(q: Sequence[Fraction], E: Fraction, delta: Fraction, corrected: bool = True) -> list[Density]:
    """Algorithm 5, maximum separation: the densities f_0, ..., f_m; f_i lives on (0, i].

    With `corrected=False` it is the algorithm as printed, which is *not* (epsilon, delta)-DP: the loss at
    "not reported" enters the equation of b_i divided by E.

    b_i and c_i are the smallest solutions of their equations. Other solutions differ only by a stretch on
    which f_{i-1} is 0, and so give the same f_i. c_i = 0 is a solution like any other, although the paper
    asks for one in (0, i-1]: there may be no other where pi_i = E pi_{i-1} + delta, nor at i = 1.
    """
    densities = [Density((ZERO,), (), ONE)]
    pi = ZERO
    for i in range(1, len(q) + 1):
        before = densities[i - 1]
        pi_before, pi = pi, _reporting(q[i - 1], pi, E, delta)
        not_reported = 1 - pi
        newest = min(pi, delta)

        # f_L, the least that f_i may be on (0, i-1]: 0 up to b_i, then f_{i-1} / E.
        if corrected:
            loss = max(ZERO, before.not_reported - E * not_reported)
        else:
            loss = max(ZERO, before.not_reported / E - not_reported)
        if loss + before.tail(ZERO) <= delta:
            b = Fraction(i - 1)
        else:
            b = _solve(before.breaks, before.heights, start=loss, target=delta)

        # c_i: f_i is f_L up to it, and E f_{i-1} above.
        breaks, heights = _split(before.breaks, before.heights, b)
        lower = [ZERO if right <= b else height / E for right, height in zip(breaks[1:], heights, strict=True)]
        slopes = [low - E * height for low, height in zip(lower, heights, strict=True)]
        c = _solve(breaks, slopes, start=E * pi_before, target=pi - newest)

        breaks, heights = _split(before.breaks, before.heights, c)
        if b < c:  # else f_L is 0 up to c_i, and b_i is no break of f_i
            breaks, heights = _split(breaks, heights, b)
        chosen: list[Fraction] = []
        for right, height in zip(breaks[1:], heights, strict=True):
            if right > c:
                chosen.append(E * height)
            else:
                chosen.append(ZERO if right <= b else height / E)
        densities.append(Density((*breaks, Fraction(i)), (*chosen, newest), not_reported))
    return densities


def _solve(breaks: Sequence[Fraction], slopes: Sequence[Fraction], start: Fraction, target: Fraction) -> Fraction:
    """The smallest z >= 0 at which a piecewise linear function, `start` at 0, equals `target`."""
    value = start
    if value == target:
        return breaks[0]
    for (left, right), slope in zip(pairwise(breaks), slopes, strict=True):
        end = value + slope * (right - left)
        if min(value, end) <= target <= max(value, end):  # never a flat piece: value != target here
            return left + (target - value) / slope
        value = end
    raise ArithmeticError(f"no solution: {float(start)} at 0, {float(value)} at the end, want {float(target)}")


def _split(
    breaks: tuple[Fraction, ...], heights: tuple[Fraction, ...], z: Fraction
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """The same step function with a break at z."""
    if z in breaks:
        return breaks, heights
    k = sum(x < z for x in breaks)  # z is inside piece k - 1
    return (*breaks[:k], z, *breaks[k:]), (*heights[:k], *heights[k - 1 :])


def cells(density: Density, grid: int, i: int) -> list[Fraction]:
    """A density as a row of tokens: not reported, then the mass of each ((k-1)/grid, k/grid] up to i."""
    masses = [ZERO] * (grid * i)
    for (left, right), height in zip(pairwise(density.breaks), density.heights, strict=True):
        for k in range(math.floor(left * grid), math.ceil(right * grid)):
            masses[k] += height * (min(right, Fraction(k + 1, grid)) - max(left, Fraction(k, grid)))
    return [density.not_reported, *masses]


def refine(densities: Sequence[Density]) -> list[list[Fraction]]:
    """The densities as rows of tokens, one token for each interval between their common breaks.

    Nothing is lost: all densities are constant on each interval. All rows have the same length.
    """
    common = sorted({x for density in densities for x in density.breaks})
    rows = []
    for density in densities:
        row = [density.not_reported]
        piece = 0
        for left, right in pairwise(common):
            while piece < len(density.heights) and density.breaks[piece + 1] <= left:
                piece += 1
            height = density.heights[piece] if piece < len(density.heights) else ZERO
            row.append(height * (right - left))
        rows.append(row)
    return rows


def delta_spent(row_a: Sequence[Fraction], row_b: Sequence[Fraction], E: Fraction) -> Fraction:
    """The smallest delta with which two neighbouring rows are (epsilon, delta)-DP.

    The larger of sum_j max(0, a_j - E b_j) and the same with a and b exchanged; a row goes on with zeros.
    """
    length = max(len(row_a), len(row_b))
    a = [*row_a, *[ZERO] * (length - len(row_a))]
    b = [*row_b, *[ZERO] * (length - len(row_b))]
    forth = sum((max(ZERO, x - E * y) for x, y in zip(a, b, strict=True)), ZERO)
    back = sum((max(ZERO, y - E * x) for x, y in zip(a, b, strict=True)), ZERO)
    return max(forth, back)


def concordance(row_i: Sequence[Fraction], row_j: Sequence[Fraction]) -> Fraction:
    """For frequencies i > j: the probability that the token of i is the higher one, a tie counted 1/2.

    "Not reported" is the lowest token, and two keys that are both not reported are a tie.
    """
    result = ZERO
    for token_i, p in enumerate(row_i):
        for token_j, r in enumerate(row_j):
            if token_i > token_j:
                result += p * r
            elif token_i == token_j:
                result += p * r / 2
    return result


def largest_reporting(q: Sequence[Fraction], E: Fraction, delta: Fraction, frequency: int, tokens: int) -> float:
    """The largest probability with which any (epsilon, delta)-DP scheme can report a key of that frequency.

    A linear program over all schemes of rows 0, ..., m with `tokens` tokens; the paper proves that its
    value is the pi of Algorithm 3. In floats, to about 1e-9, so delta should be well above that.

    Variables: P_r(j), and for both directions of each neighbouring pair (r-1, r) a slack
    s(j) >= max(0, P_high(j) - E P_low(j)) whose sum over j is at most delta.
    """
    rows, width = len(q) + 1, tokens + 1
    if not 0 <= frequency < rows:
        raise ValueError(f"frequency must be one of the rows 0..{rows - 1}, found {frequency}")
    size = rows * width + 2 * (rows - 1) * width

    def probability(row: int, token: int) -> int:
        return row * width + token

    def slack(row: int, direction: int, token: int) -> int:
        return rows * width + (2 * (row - 1) + direction) * width + token

    at_most: list[tuple[NDArray[np.float64], float]] = []
    equal: list[tuple[NDArray[np.float64], float]] = []
    for row in range(rows):
        total = np.zeros(size)
        total[[probability(row, token) for token in range(width)]] = 1
        equal.append((total, 1.0))
        reported = np.zeros(size)
        reported[[probability(row, token) for token in range(1, width)]] = 1
        at_most.append((reported, float(q[row - 1]) if row else 0.0))
    for row in range(1, rows):
        for direction, (high, low) in enumerate([(row, row - 1), (row - 1, row)]):
            for token in range(width):
                excess = np.zeros(size)
                excess[probability(high, token)] = 1
                excess[probability(low, token)] = -float(E)
                excess[slack(row, direction, token)] = -1
                at_most.append((excess, 0.0))
            spent = np.zeros(size)
            spent[[slack(row, direction, token) for token in range(width)]] = 1
            at_most.append((spent, float(delta)))

    objective = np.zeros(size)
    objective[[probability(frequency, token) for token in range(1, width)]] = -1
    result = linprog(
        objective,
        A_ub=np.array([line for line, _ in at_most]),
        b_ub=np.array([bound for _, bound in at_most]),
        A_eq=np.array([line for line, _ in equal]),
        b_eq=np.array([bound for _, bound in equal]),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if not result.success:
        raise RuntimeError(f"the linear program was not solved: {result.message}")
    return -float(result.fun)

"""The paper's Algorithm 5 as it stands: exact at all real tokens, by its breakpoints. For study.

A row is ``S(x)``, the probability of a token above x, which is linear between breakpoints. The next row is a function
of the one before at the same x, of three straight pieces, so it has the breakpoints of the row before, and new ones
only where that function bends: at most two. With the end of the row these are at most three more in each row.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpsample.privacy import Privacy
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Sampling


@dataclass(frozen=True, eq=False)
class Row:
    """S at its breakpoints, from 0 to the frequency; it falls from pi to 0."""

    x: Floats
    S: Floats


def algorithm_5(last: int, sampling: Sampling, privacy: Privacy, printed: bool = False) -> list[Row]:
    """Return the rows 0 .. last; with `printed`, those of the algorithm as printed, which are not private.

    >>> from dpsample import KeepAll, Privacy
    >>> rows = algorithm_5(3, KeepAll(), Privacy(1, "0.01"))
    >>> rows[3].x, rows[3].S.round(4)
    (array([0., 1., 2., 3.]), array([0.1111, 0.0372, 0.01  , 0.    ]))
    """
    E, delta = math.exp(privacy.epsilon), float(privacy.delta)
    pi = reporting_probabilities(range(last + 1), sampling, privacy).tolist()
    rows = [Row(np.zeros(1), np.zeros(1))]
    for i in range(1, last + 1):
        before, born = rows[-1], min(delta, pi[i])
        more = max(0.0, 1 - pi[i - 1] - E * (1 - pi[i])) / (E if printed else 1)  # spent on "not reported"
        spare = pi[i - 1] - delta + more
        bends = [spare, (pi[i] - born - spare / E) / (E - 1 / E)]  # of pi to the next piece, and of that to the last
        if bends[1] > bends[0]:
            bends = [(pi[i] - born) / E]  # the piece between is nowhere the smallest
        x = before.x
        for bend in bends:
            if before.S[-1] < bend < before.S[0]:
                at = np.interp(-bend, -before.S, before.x)
                if np.abs(x - at).min() > 1e-9:
                    x = np.sort(np.append(x, at))
        s = np.interp(x, before.x, before.S)
        S = np.minimum(np.minimum(pi[i], pi[i] - (spare - s) / E), E * s + born)
        rows.append(Row(np.append(x, i), np.append(S, 0.0)))
    return rows


def delta_spent(rows: list[Row], privacy: Privacy) -> float:
    """Return the largest delta that neighbouring rows need, both ways, over all sets of outcomes."""
    E, most = math.exp(privacy.epsilon), 0.0
    for before, now in pairwise(rows):
        old = _law(np.interp(now.x, before.x, before.S, right=0.0))
        new = _law(now.S)
        most = max(most, *(float(np.maximum(0, a - E * b).sum()) for a, b in ((new, old), (old, new))))
    return most


def _law(S: Floats) -> Floats:
    """Return the probability of each interval, and of no report."""
    return np.append(-np.diff(S), 1 - S[0])

"""Steps: numbers of keys up to each frequency, without bias, for quantiles of many keys.

A step is a `Functional` with a jump: values of tokens that average to 1 for keys up to some frequency, and to 0 for
those above. The smaller epsilon is, the more its values swing, and the more keys it takes until a quantile is known
better by them than by the tokens as they are.
"""

from functools import lru_cache

import numpy as np

from dpsample.estimators.calibrated import rough, student
from dpsample.estimators.calibration import TRUST, Calibration, Functional
from dpsample.estimators.measures import Measure
from dpsample.estimators.tally import Tally
from dpsample.scheme.sampling import Floats, Ints

_FIRM = 30.0  # freedom of an error, below which nothing is decided by it
_LEAST = 0.2  # of the squares of the values: their variance is not believed to be less


def narrowed(
    tally: Tally,
    scheme: Calibration,
    shares: Floats,
    least: int,
    level: float,
    dark: float,
    intervals: tuple[Floats, Floats],
) -> tuple[Floats, Floats]:
    """Return intervals of quantiles of the keys from the least frequency on: those given, or shorter ones inside.

    With N(x) keys up to x, of N, x is too low if N(x) - share N is surely negative, and too high if it is surely not at
    the frequency before x, even if so many keys are in the `dark`. A mean square is that of the variance plus that of
    the mean, which is known here.
    """
    at, steps, bias, total = numbers_upto(scheme, least, rough(tally.total))
    near = tally.cells <= len(scheme.bins)
    cells, keys, far_keys = tally.cells[near], tally.keys[near], tally.keys[~near]
    one, far = total.near[cells - 1], total.values(tally.cells[~near])
    everyone = float(one @ keys + far @ far_keys)
    lows, highs = (ends.copy() for ends in intervals)
    for n, share in enumerate(shares):
        picks = np.flatnonzero((at >= lows[n] - scheme.step) & (at <= highs[n]))
        if not len(picks) or highs[n] > at[-1]:
            continue
        values = steps[picks][:, scheme.bins[cells - 1]]
        upto = values @ keys
        values -= share * one
        square, fourth = (values**power @ keys + float((share * far) ** power @ far_keys) for power in (2, 4))
        means = (1 - share) ** 2 * upto + share**2 * (everyone - upto)
        freedom = square**2 / (fourth + 1e-300)
        off = np.sqrt(np.maximum(square - means, _LEAST * square)) * student(0.5 + level / 2, 2 * freedom)
        off += bias[picks] * tally.total
        above, known = upto - share * everyone, freedom >= _FIRM
        low = at[picks][~(known & (above + off < 0))]
        high = at[picks][~(known & (above - off >= (1 - share) * dark))] + scheme.step
        if picks[0] == 0:  # no key is below the first
            high = np.append(at[0], high)
        if len(low) and len(high) and 0 <= high[-1] - low[0] < highs[n] - lows[n]:
            lows[n], highs[n] = low[0], high[-1]
    return lows, highs


@lru_cache(maxsize=8)
def numbers_upto(scheme: Calibration, least: int, keys: int) -> tuple[Ints, Floats, Floats, Functional]:
    """Frequencies; values of bins for the number of keys from the least up to each; their bias; and that of all."""
    i = scheme.frequencies[~scheme.dark]
    at = i[(i >= least) & (i * scheme.grid <= len(scheme.bins))]
    targets = ((i >= least) & (i <= at[:, None])).astype(np.float64)
    found = scheme.correction(-targets, TRUST * keys)
    bias = np.abs(found @ scheme.binned.T - targets).max(1)
    return at, found, bias, Functional(scheme, Measure.of(f"at-least:{least}"), keys)

"""The remainder: the number of elements whose keys were not reported, from a release and its private total."""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from dpsample.accounting.totals import Total
from dpsample.errors import InvalidValue
from dpsample.estimators.estimate import Estimate
from dpsample.scheme.likelihood import likeliest_frequencies
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Floats, Ints
from dpsample.scheme.scheme import Scheme
from dpsample.scheme.tokens import token_law

# Token laws that are computed; between their frequencies, numbers are interpolated. Time grows with their number.
_LAWS = 64
# Rounds of the correction of biases: each takes away most of the bias that is left.
_ROUNDS = 20
_NOTE = (
    "the interval is approximate: "
    "if very many reported keys are below the detection threshold, the value is too low"
)


def needs_total(total: Total | None, tokens: bool = False) -> InvalidValue:
    """Return the refusal to estimate a remainder without a total, or without `tokens`."""
    missing = "total" if total is None else "tokens"
    remedy = "release with `total=True`"
    if not tokens:
        remedy += ", and not keys only"
    return InvalidValue(f"this release has no {missing}, from which the remainder follows", remedy)


def remainder(cells: Ints, scheme: Scheme, total: Total, level: float = 0.95) -> Estimate:
    """Estimate the total less the frequencies of the reported keys, whose tokens are in units of 1/grid.

    The frequency of a reported key is estimated by its token plus a distance, which depends on the likeliest frequency
    of the token. Distances are such that reported keys of each such frequency are estimated without bias. What is left
    of the bias widens the interval. Of the probability that the interval misses, half goes to the noise of the total
    and half to the noise of the tokens, whose sum is nearly normal. Keys far below the detection threshold that were
    reported all the same count as more frequent ones: where they are very many, the remainder is too low.
    """
    covered = _Covered.of(cells, scheme)
    z = NormalDist().inv_cdf((3 + level) / 4)
    reach = z * covered.error + covered.largest_bias
    found = total_less(total, covered.value, covered.error, reach, level)
    threshold = frequency_reaching(0.5, scheme.sampling, scheme.per_key)
    found = replace(found, bias=-covered.bias, keys=len(cells), detection_threshold=threshold)
    if not len(cells):
        return found
    return replace(found, guaranteed=False, notes=(_NOTE,))


def total_less(total: Total, covered: float, error: float, reach: float, level: float) -> Estimate:
    """Return a total less what reported keys have, with its error and how far its interval reaches."""
    elements = total.estimate((1 + level) / 2)
    error = math.hypot(error, elements.standard_error)
    value = max(elements.value - covered, 0.0)
    low = max(elements.low - covered - reach, 0.0)
    high = max(elements.high - covered + reach, 0.0)
    share = value / elements.value if elements.value > 0 else None
    return Estimate(value, error, low, high, level, share=share)


@dataclass(frozen=True)
class _Covered:
    """The number of elements that have the reported keys."""

    value: float
    bias: float
    largest_bias: float  # if the biases of all keys add up
    error: float

    @staticmethod
    def of(cells: Ints, scheme: Scheme) -> "_Covered":
        if not len(cells):
            return _Covered(0.0, 0.0, 0.0, 0.0)
        likeliest = likeliest_frequencies(cells, *scheme)
        laws = _TokenLaws(np.unique(likeliest), scheme)
        distances = laws.unbiased_distances()
        distance = np.interp(likeliest, laws.frequencies, distances)
        biases = laws.biases(distances)
        variances = laws.variances(distances)
        bias = np.interp(likeliest, laws.frequencies, biases)
        variance = np.interp(likeliest, laws.frequencies, variances)
        estimates = cells / scheme.grid + distance
        largest_bias = float(np.abs(bias).sum())
        error = float(variance.sum()) ** 0.5
        return _Covered(float(estimates.sum()), float(bias.sum()), largest_bias, error)


class _TokenLaws:
    """The laws of the tokens of reported keys of some frequencies, and of estimates by a token plus a distance.

    The distance is a function of the token's likeliest frequency: it is given at `frequencies`, and interpolated.
    """

    def __init__(self, likeliest: Ints, scheme: Scheme) -> None:
        last = len(likeliest) - 1
        places = np.linspace(0, last, _LAWS).round()
        chosen = np.unique(places.astype(int))
        self.frequencies = likeliest[chosen]
        laws = [token_law(i, *scheme) for i in self.frequencies.tolist()]
        cells_of_laws = [law.cells for law in laws]
        cells = np.unique(np.concatenate(cells_of_laws))
        self._tokens = cells / scheme.grid
        self._likeliest = likeliest_frequencies(cells, *scheme)
        # of each law: where its tokens are among all, and their probabilities, given that a key is reported
        self._places = [np.searchsorted(cells, own) for own in cells_of_laws]
        self._probabilities = [law.probabilities / law.reported for law in laws]

    def unbiased_distances(self) -> Floats:
        """Return the distance of the estimate from the token, at each frequency, that leaves almost no bias."""
        distances = np.zeros(len(self.frequencies))
        for _ in range(_ROUNDS):
            distances -= self.biases(distances)
        return distances

    def biases(self, distances: Floats) -> Floats:
        """Return the bias of the estimate of a reported key of each frequency."""
        estimates = self._estimates(distances)
        means = []
        for p, places in zip(self._probabilities, self._places, strict=True):
            means.append(p @ estimates[places])
        return np.asarray(np.array(means) - self.frequencies)

    def variances(self, distances: Floats) -> Floats:
        """Return the variance of the estimate of a reported key of each frequency."""
        estimates = self._estimates(distances)
        squares = []
        laws = zip(self.frequencies.tolist(), self._probabilities, self._places, strict=True)
        for frequency, p, places in laws:
            errors = estimates[places] - frequency
            squares.append(p @ errors**2)
        mean_squares = np.array(squares)
        return np.asarray(mean_squares - self.biases(distances) ** 2)

    def _estimates(self, distances: Floats) -> Floats:
        """The estimate by each token."""
        own_distances = np.interp(self._likeliest, self.frequencies, distances)
        return np.asarray(self._tokens + own_distances)

"""How accurate a method is, exactly, without simulation: before a release, or against another method.

A method is `Pws` (what dpsample releases, with any estimator) or one of `baselines`. It states for each frequency the
probability that a key is reported, and the bias and variance of its estimate; an estimate is 0 for a key that is not
reported. Keys are independent, so over keys these add up: the bias of a sum is the sum of the biases, and so is its
variance.

Frequencies are known here. The accuracy on private frequencies is as private as they are: do not publish it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpsample.errors import InvalidValue
from dpsample.estimators.measures import FREQUENCY, Measure
from dpsample.estimators.mle import mle
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tokens import TokenLaw, chosen_grid, token_laws

__all__ = [
    "Accuracy",
    "Coverage",
    "Errors",
    "Estimator",
    "Method",
    "Pws",
    "accuracy",
    "coverage",
    "selection_accuracy",
]

_TOKENS_AT_ONCE = 1 << 20  # their arrays take about 40 MB
_TOKENS_OF_LAW = 512  # for each step of the grid: a generous guess, by which laws are put together
_EXACT_FLOATS = 2**53  # larger integers are rounded as floats
Estimator = Callable[[ArrayLike, Sampling, PerKey, int, Measure | str], Floats]


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of the estimate for one key of each frequency: arrays with one entry for each."""

    frequencies: Ints
    truth: Floats
    reported: Floats
    bias: Floats
    variance: Floats

    @property
    def mean(self) -> Floats:
        """The expected estimate."""
        return self.truth + self.bias

    @property
    def mse(self) -> Floats:
        """The expected squared error."""
        return self.variance + self.bias**2


class Method(Protocol):
    """A method that can be compared: `Pws`, or a baseline."""

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return the probability that a key of each frequency is reported."""

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Return bias and variance of the estimate for a key of each frequency."""


@dataclass(frozen=True)
class Pws:
    """Private weighted sampling with a per-token estimator: what `dpsample.release` does.

    `estimator` has the shape of `estimators.mle`; `grid` is that of the release, by default the one that fits epsilon.

    >>> from dpsample import KeepAll, Privacy
    >>> errors = Pws(KeepAll(), Privacy(1, 1e-6)).errors([10, 15, 1000])
    >>> errors.reported.round(3), errors.bias.round(2), errors.variance.round(2)
    (array([0.013, 0.89 , 1.   ]), array([-9.76,  0.54,  0.04]), array([ 4.48, 31.33,  1.87]))
    """

    sampling: Sampling
    privacy: PerKey
    estimator: Estimator = mle
    grid: int | None = None

    def reported(self, frequencies: ArrayLike) -> Floats:
        """Return pi, the probability that a key of each frequency is reported."""
        return reporting_probabilities(frequencies, self.sampling, self.privacy)

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Return bias and variance, summed over the tokens of each distinct frequency."""
        distinct, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        back = back.reshape(np.shape(frequencies))
        truth = Measure.of(of)(distinct)
        grid = chosen_grid(self.grid, self.privacy, sampling=self.sampling)
        laws = token_laws(distinct, self.sampling, self.privacy, grid)
        at_once = max(1, _TOKENS_AT_ONCE // _TOKENS_OF_LAW // grid)
        parts = [np.empty((3, 0))]
        start = 0
        while block := list(islice(laws, at_once)):
            stop = start + len(block)
            parts.append(self._errors_of_laws(_Laws.of(block), truth[start:stop], grid, of))
            start = stop
        pi, bias, variance = np.concatenate(parts, axis=1)
        return Errors(distinct[back], truth[back], pi[back], bias[back], variance[back])

    def _errors_of_laws(self, laws: "_Laws", truth: Floats, grid: int, of: Measure | str) -> Floats:
        """Return the reporting probability, bias and variance for each law, as three rows.

        Bias is summed around the truth and variance around the mean, so that nothing large cancels.
        """
        estimates = self.estimator(laws.cells, self.sampling, self.privacy, grid, of)
        error = estimates - truth[laws.owner]
        bias = laws.expected(error) - laws.absent * truth
        deviation = error - bias[laws.owner]
        if_reported = laws.expected(deviation**2)
        if_absent = laws.absent * (truth + bias) ** 2
        pi = laws.expected(np.ones(len(error)))
        return np.array([pi, bias, if_reported + if_absent])


@dataclass(frozen=True, eq=False)
class _Laws:
    """The tokens of several laws, one after another."""

    owner: Ints  # the number of the law that a token belongs to
    cells: Ints
    probabilities: Floats
    absent: Floats  # the probability that a law reports nothing

    @staticmethod
    def of(laws: list[TokenLaw]) -> "_Laws":
        """Join the tokens of these laws."""
        sizes = [law.cells.size for law in laws]
        owner = np.repeat(np.arange(len(laws)), sizes)
        cells = np.concatenate([law.cells for law in laws])
        probabilities = np.concatenate([law.probabilities for law in laws])
        absent = np.array([law.not_reported for law in laws])
        return _Laws(owner, cells, probabilities, absent)

    def expected(self, values: Floats) -> Floats:
        """Return the expectation of a value of tokens under each law; it counts 0 if nothing is reported."""
        weighted = self.probabilities * values
        sums = np.bincount(self.owner, weighted, minlength=len(self.absent))
        return sums.astype(np.float64)


@dataclass(frozen=True)
class Coverage:
    """How much of the data is expected to be reported; adds up over disjoint sets of keys."""

    keys: float  # a whole number, but for a random selection
    elements: float
    reported_keys: float
    reported_elements: float

    @property
    def share_of_keys(self) -> float:
        """The expected share of keys that are reported; 0 of none."""
        return self.reported_keys / self.keys if self.keys else 0.0

    @property
    def share_of_elements(self) -> float:
        """The expected share of elements whose keys are reported; 0 of none."""
        return self.reported_elements / self.elements if self.elements else 0.0

    def of_share(self, share: float) -> "Coverage":
        """Return what is expected of a random selection of a share of the keys."""
        return Coverage(
            keys=share * self.keys,
            elements=share * self.elements,
            reported_keys=share * self.reported_keys,
            reported_elements=share * self.reported_elements,
        )

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(
            keys=self.keys + other.keys,
            elements=self.elements + other.elements,
            reported_keys=self.reported_keys + other.reported_keys,
            reported_elements=self.reported_elements + other.reported_elements,
        )


@dataclass(frozen=True)
class Accuracy:
    """The estimate of a sum over keys; adds up over disjoint sets of keys.

    >>> half = Accuracy(Coverage(keys=1, elements=9, reported_keys=0.5, reported_elements=4.5), 9.0, -3.0, 4.0)
    >>> (half + half).bias, (half + half).variance, round((half + half).nrmse, 4)
    (-6.0, 8.0, 0.3685)
    """

    coverage: Coverage
    truth: float
    bias: float
    variance: float

    @property
    def mean(self) -> float:
        """The expected estimate."""
        return self.truth + self.bias

    @property
    def mse(self) -> float:
        """The expected squared error."""
        return self.variance + self.bias**2

    @property
    def nrmse(self) -> float:
        """The root of the expected squared error, as a share of the truth; NaN if that is 0."""
        if not self.truth:
            return float("nan")
        return float(np.sqrt(self.mse) / self.truth)

    def __add__(self, other: "Accuracy") -> "Accuracy":
        return Accuracy(
            coverage=self.coverage + other.coverage,
            truth=self.truth + other.truth,
            bias=self.bias + other.bias,
            variance=self.variance + other.variance,
        )


def coverage(method: Method, frequencies: ArrayLike | Mapping[int, int]) -> Coverage:
    """Return the expected numbers of reported keys and elements; fast, since it needs no tokens.

    `frequencies` has one for each key, or is a mapping from each frequency to its number of keys.

    >>> from dpsample import KeepAll, Privacy
    >>> result = coverage(Pws(KeepAll(), Privacy(1, 1e-6)), {3: 1000, 20: 500, 10**12: 1})
    >>> result.keys, round(result.reported_keys, 2), round(result.share_of_elements, 4)
    (1501, 500.64, 1.0)
    """
    data = _Grouped.of(frequencies)
    return covered(data.frequencies, data.keys, method.reported(data.frequencies))


def accuracy(
    method: Method,
    frequencies: ArrayLike | Mapping[int, int],
    of: Measure | str = "frequency",
    weights: ArrayLike | None = None,
) -> Accuracy:
    """Return the accuracy of the estimate of a sum of g(frequency) over keys.

    `frequencies` has one for each key, or is a mapping from each frequency to its number of keys. `weights` has a
    number for each key: 0 or 1 makes a selection, others a weighted sum.

    >>> from dpsample import Priority, Privacy
    >>> paper = dict.fromkeys(range(1, 201), 1000)
    >>> result = accuracy(Pws(Priority(1), Privacy("0.1", 2**-20), grid=1), paper)
    >>> round(result.nrmse, 4), round(result.coverage.share_of_keys, 3)
    (0.2513, 0.457)
    """
    data = _Grouped.of(frequencies, weights)
    errors = method.errors(data.frequencies, of)
    reported = covered(data.frequencies, data.keys, errors.reported)
    truth = float(data.weights @ errors.truth)
    bias = float(data.weights @ errors.bias)
    variance = float(data.squares @ errors.variance)
    return Accuracy(reported, truth, bias, variance)


def selection_accuracy(
    method: Method, frequencies: ArrayLike | Mapping[int, int], share: float
) -> Accuracy:
    """Return the accuracy of a selection's estimated elements, when each key is selected with probability `share`.

    The truth is the selection's own number of elements, so the error is ``B (estimate - frequency)``, summed over keys,
    with B = 1 for a selected key and 0 for others. With s = share, its mean and variance are

        s * sum of bias        s * sum of variance + s (1 - s) * sum of bias**2

    relative to the expected truth. With share = 1, this is `accuracy` over all keys.

    >>> from dpsample import KeepAll, Privacy
    >>> method, frequencies = Pws(KeepAll(), Privacy(1, 1e-6)), {10: 1000, 1000: 100}
    >>> [round(selection_accuracy(method, frequencies, share).nrmse, 4) for share in (1, 0.1, 0.01)]
    [0.0887, 0.0891, 0.0932]
    """
    data = _Grouped.of(frequencies)
    return selected(method.errors(data.frequencies), data.keys, share)


def selected(errors: Errors, keys: Floats, share: float) -> Accuracy:
    """Return `selection_accuracy` from the errors at each frequency and its number of keys."""
    of_all_keys = covered(errors.frequencies, keys, errors.reported)
    truth = share * float(keys @ errors.truth)
    bias = share * float(keys @ errors.bias)
    squared_bias = float(keys @ errors.bias**2)
    of_estimates = share * float(keys @ errors.variance)
    of_selection = share * (1 - share) * squared_bias
    return Accuracy(of_all_keys.of_share(share), truth, bias, of_estimates + of_selection)


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Distinct frequencies, and sums over the keys of each."""

    frequencies: Ints
    keys: Floats  # number of keys with a weight other than 0
    weights: Floats  # sum of weights
    squares: Floats  # sum of squared weights

    @staticmethod
    def of(
        frequencies: ArrayLike | Mapping[int, int], weights: ArrayLike | None = None
    ) -> "_Grouped":
        """Group a list with the frequency of each key, or read a mapping from each frequency to its keys."""
        if not isinstance(frequencies, Mapping):
            return _Grouped._of_list(frequencies, weights)
        if weights is not None:
            raise InvalidValue(
                "weights go with a list of frequencies, one for each key, not with a mapping",
                "select by giving its entries",
            )
        distinct = as_frequencies(list(frequencies))
        keys = as_frequencies(list(frequencies.values())).astype(np.float64)
        return _Grouped(distinct, keys, weights=keys, squares=keys)

    @staticmethod
    def _of_list(frequencies: ArrayLike, weights: ArrayLike | None) -> "_Grouped":
        listed = as_frequencies(frequencies).reshape(-1)
        weight = np.ones(listed.shape)
        if weights is not None:
            weight = np.asarray(weights, np.float64).reshape(-1)
        if weight.shape != listed.shape or not np.isfinite(weight).all():
            raise InvalidValue(
                "weights must be finite numbers, one for each frequency", "give 0 and 1 to select"
            )
        distinct, place = np.unique(listed, return_inverse=True)

        def summed(values: Floats) -> Floats:
            return np.bincount(place, values, minlength=len(distinct)).astype(np.float64)

        return _Grouped(distinct, summed(weight != 0), summed(weight), summed(weight**2))


def covered(i: Ints, keys: Floats, reported: Floats) -> Coverage:
    """Return the coverage of a number of keys at each frequency i, which are reported with these probabilities."""
    elements = round(float(keys @ i))
    are_whole = bool((keys % 1 == 0).all())
    if elements >= _EXACT_FLOATS and are_whole:
        elements = 0
        for frequency, n in zip(i.tolist(), keys.tolist(), strict=True):
            elements += frequency * int(n)
    return Coverage(
        keys=round(float(keys.sum())),
        elements=elements,
        reported_keys=float(keys @ reported),
        reported_elements=float((keys * i) @ reported),
    )


def check_frequency_itself(of: Measure | str) -> None:
    """Refuse a measure that the expressions of a baseline do not cover."""
    measure = Measure.of(of)
    if measure != FREQUENCY:
        raise InvalidValue(
            f"the exact errors of this baseline are stated for the frequency itself, not for {measure}",
            "Pws and NonPrivate take any measure",
        )

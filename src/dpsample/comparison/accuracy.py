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
from typing import Protocol, TypeVar

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
_TOKENS_OF_LAW = 512  # times the grid: a generous guess, by which laws are put together
_Sum = TypeVar("_Sum", "Coverage", "Accuracy")
Estimator = Callable[[ArrayLike, Sampling, PerKey, int, Measure | str], Floats]


@dataclass(frozen=True, eq=False)
class Errors:
    """The estimate for one key of each frequency: all arrays, one entry for each."""

    frequencies: Ints
    truth: Floats
    reported: Floats
    bias: Floats
    variance: Floats

    @property
    def mean(self) -> Floats:
        """E, the expected estimate."""
        return self.truth + self.bias

    @property
    def mse(self) -> Floats:
        """The expected squared error."""
        return self.variance + self.bias**2


class Method(Protocol):
    """What can be compared: `Pws` and the baselines."""

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
        """pi: the probability that a key of each frequency is reported."""
        return reporting_probabilities(frequencies, self.sampling, self.privacy)

    def errors(self, frequencies: ArrayLike, of: Measure | str = "frequency") -> Errors:
        """Bias and variance, summed over the tokens of each distinct frequency."""
        i, back = np.unique(as_frequencies(frequencies), return_inverse=True)
        truth = Measure.of(of)(i)
        grid = chosen_grid(self.grid, self.privacy, sampling=self.sampling)
        laws = token_laws(i, self.sampling, self.privacy, grid)
        at_once = max(1, _TOKENS_AT_ONCE // _TOKENS_OF_LAW // grid)
        parts = [np.empty((3, 0))]
        done = 0
        while block := list(islice(laws, at_once)):
            part = truth[done : done + len(block)]
            parts.append(self._errors_of_laws(_Laws.of(block), part, grid, of))
            done += len(block)
        back = back.reshape(np.shape(frequencies))
        pi, bias, variance = np.concatenate(parts, axis=1)
        return Errors(i[back], truth[back], pi[back], bias[back], variance[back])

    def _errors_of_laws(self, laws: "_Laws", truth: Floats, grid: int, of: Measure | str) -> Floats:
        """The reporting probability, bias and variance for each law, as three rows.

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

    owner: Ints  # which law a token belongs to
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
        """Return the expectation of a value of tokens under each law, where it is 0 if nothing is reported."""
        sums = np.bincount(self.owner, self.probabilities * values, len(self.absent))
        return sums.astype(np.float64)


@dataclass(frozen=True)
class Coverage:
    """How much of the data is expected to be reported; adds up over disjoint sets of keys."""

    keys: float  # whole, but for a selection
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
        keys, elements = share * self.keys, share * self.elements
        reported_keys, reported_elements = (
            share * self.reported_keys,
            share * self.reported_elements,
        )
        return Coverage(keys, elements, reported_keys, reported_elements)

    def __add__(self, other: "Coverage") -> "Coverage":
        return _added(self, other)


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
        return float(np.sqrt(self.mse) / self.truth) if self.truth else float("nan")

    def __add__(self, other: "Accuracy") -> "Accuracy":
        return _added(self, other)


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
    """Return the same as `selection_accuracy`, from the errors at each frequency and its number of keys."""
    selection = covered(errors.frequencies, keys, errors.reported).of_share(share)
    truth = share * float(keys @ errors.truth)
    bias = share * float(keys @ errors.bias)
    squared_bias = float(keys @ errors.bias**2)
    of_estimates = share * float(keys @ errors.variance)
    of_selection = share * (1 - share) * squared_bias
    return Accuracy(selection, truth, bias, of_estimates + of_selection)


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Distinct frequencies, and what the keys of each add up to."""

    frequencies: Ints
    keys: Floats
    weights: Floats
    squares: Floats  # of weights

    @staticmethod
    def of(
        frequencies: ArrayLike | Mapping[int, int], weights: ArrayLike | None = None
    ) -> "_Grouped":
        """Group a list with the frequency of each key, or read a mapping from each frequency to its keys."""
        if isinstance(frequencies, Mapping):
            if weights is not None:
                raise InvalidValue(
                    "weights go with a list of frequencies, one for each key, not with a mapping",
                    "select by giving its entries",
                )
            keys = as_frequencies(list(frequencies.values())).astype(np.float64)
            return _Grouped(as_frequencies(list(frequencies)), keys, keys, keys)
        listed = as_frequencies(frequencies).reshape(-1)
        weight = (
            np.ones(listed.shape)
            if weights is None
            else np.asarray(weights, np.float64).reshape(-1)
        )
        if weight.shape != listed.shape or not np.isfinite(weight).all():
            raise InvalidValue(
                "weights must be finite numbers, one for each frequency", "give 0 and 1 to select"
            )
        i, place = np.unique(listed, return_inverse=True)

        def added(values: Floats) -> Floats:
            return np.bincount(place, values, len(i)).astype(np.float64)

        return _Grouped(i, added(weight != 0), added(weight), added(weight**2))


def covered(i: Ints, keys: Floats, reported: Floats) -> Coverage:
    """Return the coverage of a number of keys at each frequency, reported with these probabilities."""
    elements = round(float(keys @ i))
    whole = bool((keys % 1 == 0).all())
    if elements >= 2**53 and whole:  # floats would round
        pairs = zip(i.tolist(), keys.tolist(), strict=True)
        elements = sum(frequency * int(n) for frequency, n in pairs)
    reported_keys = float(keys @ reported)
    reported_elements = float((keys * i) @ reported)
    return Coverage(round(float(keys.sum())), elements, reported_keys, reported_elements)


def check_frequency_itself(of: Measure | str) -> None:
    """Refuse a measure that the expressions of a baseline do not cover."""
    if Measure.of(of) != FREQUENCY:
        raise InvalidValue(
            f"the exact errors of this baseline are stated for the frequency itself, not for {Measure.of(of)}",
            "Pws and NonPrivate take any measure",
        )


def _added(a: _Sum, b: _Sum) -> _Sum:
    return type(a)(**{name: value + getattr(b, name) for name, value in vars(a).items()})

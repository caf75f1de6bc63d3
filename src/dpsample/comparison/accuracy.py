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
from dpsample.estimators.measures import Measure
from dpsample.estimators.mle import mle
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import reporting_probabilities
from dpsample.scheme.sampling import Floats, Ints, Sampling, as_frequencies
from dpsample.scheme.tokens import TokenLaw, chosen_grid, token_laws

__all__ = ["Accuracy", "Coverage", "Errors", "Estimator", "Method", "Pws", "accuracy", "coverage", "selection_accuracy"]

_BLOCK = 1 << 20  # tokens at once
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
        back = back.reshape(np.shape(frequencies))
        g = Measure.of(of)(i)
        grid = chosen_grid(self.grid, self.privacy, sampling=self.sampling)
        pi = np.zeros(i.shape)
        bias = -g
        variance = np.zeros(i.shape)
        laws = token_laws(i, self.sampling, self.privacy, grid)
        at_once = max(1, _BLOCK // 512 // grid)
        done = 0
        while block := list(islice(laws, at_once)):
            part = slice(done, done + len(block))
            pi[part], bias[part], variance[part] = self._errors_of_laws(block, g[part], grid, of)
            done += len(block)
        return Errors(i[back], g[back], pi[back], bias[back], variance[back])

    def _errors_of_laws(
        self, laws: list[TokenLaw], truth: Floats, grid: int, of: Measure | str
    ) -> tuple[Floats, Floats, Floats]:
        """The reporting probability, bias and variance for each law.

        Both are summed around the truth and around the mean, so that nothing large cancels.
        """
        n = len(laws)
        owner = np.repeat(np.arange(n), [law.cells.size for law in laws])
        cells = np.concatenate([law.cells for law in laws])
        p = np.concatenate([law.probabilities for law in laws])
        absent = np.array([law.not_reported for law in laws])
        estimates = self.estimator(cells, self.sampling, self.privacy, grid, of)
        error = estimates - truth[owner]
        bias = np.bincount(owner, p * error, n) - absent * truth
        deviation = error - bias[owner]
        of_reported = np.bincount(owner, p * deviation**2, n)
        variance = of_reported + absent * (truth + bias) ** 2
        pi = np.bincount(owner, p, n).astype(np.float64)
        return pi, bias, variance


@dataclass(frozen=True)
class Coverage:
    """How much of the data is expected to be reported; adds up over disjoint sets of keys."""

    keys: int
    elements: int
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
    i, keys, _, _ = _grouped(frequencies, None)
    return covered(i, keys, method.reported(i))


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
    i, keys, linear, squares = _grouped(frequencies, weights)
    errors = method.errors(i, of)
    return Accuracy(
        covered(i, keys, errors.reported),
        float(linear @ errors.truth),
        float(linear @ errors.bias),
        float(squares @ errors.variance),
    )


def selection_accuracy(method: Method, frequencies: ArrayLike | Mapping[int, int], share: float) -> Accuracy:
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
    i, keys, _, _ = _grouped(frequencies, None)
    return selected(method.errors(i), keys, share)


def selected(errors: Errors, keys: Floats, share: float) -> Accuracy:
    """Return the same as `selection_accuracy`, from the errors at each frequency and its number of keys."""
    all_keys = covered(errors.frequencies, keys, errors.reported)
    numbers = [share * number for number in vars(all_keys).values()]
    part = Coverage(*numbers)
    truth = share * float(keys @ errors.truth)
    bias = share * float(keys @ errors.bias)
    of_estimates = share * float(keys @ errors.variance)
    of_selection = share * (1 - share) * float(keys @ errors.bias**2)
    return Accuracy(part, truth, bias, of_estimates + of_selection)


def _grouped(
    frequencies: ArrayLike | Mapping[int, int], weights: ArrayLike | None
) -> tuple[Ints, Floats, Floats, Floats]:
    """Return the distinct frequencies, and for each the number of keys, the sum of weights and of their squares."""
    if isinstance(frequencies, Mapping):
        if weights is not None:
            raise InvalidValue(
                "weights go with a list of frequencies, one for each key", "a mapping", "select by giving its entries"
            )
        i, keys = as_frequencies(list(frequencies)), as_frequencies(list(frequencies.values())).astype(np.float64)
        return i, keys, keys, keys
    flat = as_frequencies(frequencies).reshape(-1)
    i, back = np.unique(flat, return_inverse=True)
    L = np.ones(flat.shape) if weights is None else np.asarray(weights, np.float64).reshape(-1)
    if L.shape != flat.shape or not np.isfinite(L).all():
        raise InvalidValue(
            "weights are finite numbers, one for each frequency", f"{L.size} of them", "give 0 and 1 to select"
        )
    counted: list[Floats] = [np.bincount(back, w, len(i)).astype(np.float64) for w in (L != 0, L, L**2)]
    return i, counted[0], counted[1], counted[2]


def covered(i: Ints, keys: Floats, reported: Floats) -> Coverage:
    """Return the coverage of a number of keys at each frequency, reported with these probabilities."""
    elements = round(float(keys @ i))
    whole_numbers = (keys % 1 == 0).all()
    if elements >= 2**53 and whole_numbers:  # which floats would round
        pairs = zip(i.tolist(), keys.tolist(), strict=True)
        elements = sum(frequency * int(n) for frequency, n in pairs)
    reported_keys = float(keys @ reported)
    reported_elements = float((keys * i) @ reported)
    return Coverage(round(float(keys.sum())), elements, reported_keys, reported_elements)


def _added(a: _Sum, b: _Sum) -> _Sum:
    return type(a)(**{name: value + getattr(b, name) for name, value in vars(a).items()})

"""What PyDP can do, each by a snippet that runs."""

from pydp.algorithms.laplacian import BoundedMean, BoundedSum, BoundedVariance, Count, Percentile
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism
from pydp.algorithms.partition_selection import create_partition_strategy

from snippets import run

VALUES = [float(n % 10) for n in range(1000)]


def finds_keys() -> None:
    strategy = create_partition_strategy("truncated_geometric", 1, 1e-6, 1)
    assert strategy.should_keep(1000)
    assert not strategy.should_keep(0)


def aggregated() -> None:
    assert LaplaceMechanism(epsilon=1.0, sensitivity=1.0).add_noise(1000) > 0


def known_keys() -> None:
    assert Count(epsilon=1.0, dtype="int").quick_result([]) is not None


def sums() -> None:
    assert BoundedSum(epsilon=1.0, lower_bound=0, upper_bound=10, dtype="float").quick_result(VALUES) > 0


def means() -> None:
    assert BoundedMean(epsilon=1.0, lower_bound=0, upper_bound=10, dtype="float").quick_result(VALUES) > 0


def quantiles() -> None:
    median = Percentile(epsilon=1.0, percentile=0.5, lower_bound=0, upper_bound=10, dtype="float")
    assert median.quick_result(VALUES) is not None


def variance() -> None:
    assert BoundedVariance(epsilon=1.0, lower_bound=0, upper_bound=10, dtype="float").quick_result(VALUES) > 0


def intervals() -> None:
    interval = LaplaceMechanism(epsilon=1.0, sensitivity=1.0).noise_confidence_interval(0.95, 1.0)
    assert interval.lower_bound < interval.upper_bound


def zcdp() -> None:
    assert GaussianMechanism(1.0, 1e-6, 1.0).add_noise(1000.0) is not None
    raise AssertionError("Gaussian noise by epsilon and delta; no budget of zCDP")


run(finds_keys, known_keys, aggregated, sums, means, quantiles, variance, intervals, zcdp)

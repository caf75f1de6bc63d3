"""Setting: the options of a release that is planned, without its data."""

from dpsample.accounting.totals import Total
from dpsample.planning.frequencies import Frequencies
from dpsample.release.options import ReleaseOptions
from dpsample.scheme.sampling import Sampling

Setting = ReleaseOptions


def planned_sampling(setting: ReleaseOptions, frequencies: Frequencies) -> Sampling:
    """Return the sampling scheme; for a sample size, tau follows from the true total of the weights.

    A release adds noise to that total. The noise hardly changes tau.
    """
    size = setting.size
    if size is None:
        return setting.sampling
    units = size.total(frequencies.values, frequencies.keys)
    epsilon = setting.budget.spent_on(size.share)
    total = Total(units * size.unit, epsilon, size.sensitivity, size.unit)
    return size.sampling(total)

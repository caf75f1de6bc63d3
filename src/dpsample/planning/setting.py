"""Setting: the parameters of a release that is planned, without its data."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpsample.accounting.budget import Budget
from dpsample.accounting.totals import SampleSize, Total, check_share
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.planning.frequencies import Frequencies
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import KeepAll, Sampling


@dataclass(frozen=True)
class Setting:
    """The parameters of a planned release, named as the arguments of `dpsample.release`.

    >>> Setting(Privacy(1, 1e-6), max_keys_per_user=2).per_key
    Privacy(epsilon='0.5', delta='5e-07')
    """

    privacy: Privacy
    sampling: Sampling = field(default_factory=KeepAll)
    size: SampleSize | None = None
    max_keys_per_user: int | None = None
    total: bool | Number = False
    keys_only: bool = False

    def __post_init__(self) -> None:
        check_sampling_or_size(None if isinstance(self.sampling, KeepAll) else self.sampling, self.size)
        _ = self.budget  # checks the other arguments

    @cached_property
    def budget(self) -> Budget:
        """What the privacy is spent on."""
        return Budget(
            self.privacy,
            self.max_keys_per_user,
            self.size.share if self.size is not None else Fraction(0),
            check_share(self.total, "the total"),
            isinstance(self.sampling, KeepAll) and self.size is None,
            self.keys_only,
        )

    @cached_property
    def per_key(self) -> PerKey:
        """What each key has of the privacy, as in the release."""
        return self.budget.per_key

    def scheme(self, frequencies: Frequencies) -> Sampling:
        """Return the sampling scheme; for a sample size, tau follows from the true total of the weights.

        A release adds noise to that total. The noise hardly changes tau.
        """
        if self.size is None:
            return self.sampling
        size = self.size
        units = size.total(frequencies.values, frequencies.keys)
        return size.sampling(Total(units * size.unit, self.budget.spent_on(size.share), size.sensitivity, size.unit))


def check_sampling_or_size(sampling: Sampling | None, size: Any) -> None:
    """Refuse a scheme with its tau and a sample size together: tau follows from the size."""
    if sampling is not None and size is not None:
        raise InvalidValue(
            "either a scheme with its tau or a sample size is given",
            "both",
            "leave one out; SampleSize(size, scheme, power, cap) says how a sample of that size is drawn",
        )

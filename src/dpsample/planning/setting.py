"""Setting: the parameters of a release that is planned, without its data."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from dpsample.accounting.amounts import Amount
from dpsample.accounting.budget import Budget
from dpsample.accounting.discovery import LOOK_SHARE, UserBudget, capacity_cap, count_share
from dpsample.accounting.filled import FILLED_SHARE
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.totals import SampleSize, Total, check_share
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.planning.frequencies import Frequencies
from dpsample.privacy import Privacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import KeepAll, Sampling

Discover = Literal["ask", "one-key", "many-keys", "none"]  # "none" counts known keys alone
DISCOVER: tuple[Discover, ...] = ("ask", "one-key", "many-keys")


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
    discover: Discover | None = None  # how keys of users are found without a contribution bound
    count_share: Number | None = None  # of mu**2, for counting the users of keys that were found
    amounts: tuple[Amount, ...] = ()  # that are summed for these keys, beside users

    def __post_init__(self) -> None:
        check_sampling_or_size(None if isinstance(self.sampling, KeepAll) else self.sampling, self.size)
        if self.discover is not None:
            self._check_discovery()
            if self.discover == "none":
                _ = self.users.square  # checks that counts are possible
                return
            capacity_cap(self.users.one_key(), self.sampling)  # refuses what leaves nothing to the keys
            if self.discover == "many-keys" and self.users.many_keys(2) is None:
                raise InvalidValue(
                    "many keys of each user need a larger part of epsilon",
                    "too little",
                    "choose a larger epsilon, spend less on counts, or discover by one key each",
                )
        elif self.count_share is not None or self.amounts:
            raise InvalidValue(
                "users are counted in a stage of its own, with rows and sums, if keys are discovered without a bound",
                f"{'rows or sums' if self.amounts else 'count_share'} with another release",
                "name the user column (--user) and leave max_keys_per_user out",
            )
        else:
            _ = self.budget  # checks the other arguments

    def _check_discovery(self) -> None:
        if self.discover not in (*DISCOVER, "none"):
            raise InvalidValue(f"discover is one of {', '.join(DISCOVER)}", repr(self.discover), "choose one")
        if not isinstance(self.sampling, KeepAll) or self.size is not None:
            raise InvalidValue(
                "a sample of users' keys needs a contribution bound",
                "none",
                "give max_keys_per_user (--max-keys-per-user), or leave sampling out",
            )
        if self.max_keys_per_user is not None:
            raise InvalidValue(
                "keys are discovered without a contribution bound, or with one, not both",
                "discover and max_keys_per_user",
                "leave one out",
            )
        if self.keys_only and (self.count_share is not None or self.amounts):
            found = "rows or sums" if self.amounts else "a count_share"
            raise InvalidValue("keys only are not counted", found, "leave one of them out")
        if self.discover == "one-key" and check_share(self.total, "the total"):
            raise InvalidValue(
                "a total needs the look at how many keys users have", "discover='one-key'", "use 'ask', the default"
            )

    @cached_property
    def users(self) -> UserBudget:
        """What the privacy is spent on if keys are discovered, or known keys of users counted."""
        if self.discover == "none":
            return UserBudget(self.privacy, counts=Fraction(1), discovers=False, amounts=self.amounts)
        default = count_share(len(self.amounts))
        share = default if self.count_share is None else check_share(self.count_share, "the counts")
        looked = UserBudget(
            self.privacy,
            look=Fraction(0) if self.discover == "one-key" else LOOK_SHARE,
            total=check_share(self.total, "the total"),
            counts=Fraction(0) if self.keys_only else share,
            amounts=self.amounts,
        )
        if self.discover == "ask" and looked.many_keys(2) is not None:  # otherwise there is nothing to compare
            return replace(looked, look=LOOK_SHARE - FILLED_SHARE, filled=FILLED_SHARE)
        return looked

    @property
    def unit(self) -> str:
        """The unit of privacy: an element, or a user."""
        return "user" if self.discover is not None else self.budget.unit

    @property
    def curve(self) -> RenyiCurve:
        """Upper bounds of the Rényi divergences of the whole release, which a Rényi ledger adds up."""
        return RenyiCurve.of_privacy(self.privacy) if self.discover is not None else self.budget.curve

    @cached_property
    def budget(self) -> Budget:
        """What the privacy is spent on."""
        return Budget(
            self.privacy,
            self.max_keys_per_user,
            self.size.share if self.size is not None else Fraction(0),
            check_share(self.total, "the total"),
            isinstance(self.sampling.sanitized_as, KeepAll) and self.size is None,
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


def kept_from(at_least: int | None, sampling: Sampling | None, size: Any = None) -> Sampling:
    """Return the sampling, or the one that keeps all keys from a frequency on."""
    if at_least is None:
        return sampling or KeepAll()
    if size is not None or sampling not in (None, KeepAll()):
        raise InvalidValue(
            "at_least is for releases of all keys: a sample leaves keys out by its own rule",
            "at_least with sampling, or with a size",
            "leave one of them out",
        )
    return KeepAll(at_least)

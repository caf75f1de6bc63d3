"""Request: what a release is to be, checked as a whole before any data are read."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

from dpsample.accounting.budget import Budget
from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.ledger import check_ledger
from dpsample.accounting.totals import SampleSize, check_share
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.privacy import Privacy
from dpsample.private.source import Source
from dpsample.scheme.sampling import KeepAll, Sampling


@dataclass(frozen=True)
class Request:
    """What is read, how keys are sampled, what the privacy is spent on, and which ledger it is entered into."""

    source: Source
    budget: Budget
    sampling: Sampling
    size: SampleSize | None
    ledger: str | PathLike[str] | None

    @classmethod
    def of(
        cls,
        source: Source,
        privacy: Privacy,
        sampling: Sampling | None = None,
        size: int | SampleSize | None = None,
        max_keys_per_user: int | None = None,
        max_elements_per_key: Any = None,
        total: bool | Number = False,
        ledger: str | PathLike[str] | None = None,
    ) -> "Request":
        """Read the arguments of a release; what the ledger does not allow is refused now."""
        if max_elements_per_key is not None:
            raise InvalidValue(
                "a user counts once in each key: the scheme is proved for frequencies that change by one",
                "max_elements_per_key, by which a user would change a frequency by more",
                "leave it out and publish numbers of users, or protect elements",
            )
        if sampling is not None and size is not None:
            raise InvalidValue(
                "either a scheme with its tau or a sample size is given",
                "both",
                "leave one out; SampleSize(size, scheme, power, cap) says how a sample of that size is drawn",
            )
        asked = SampleSize(size) if size is not None and not isinstance(size, SampleSize) else size
        budget = Budget(
            privacy,
            check_users(source, max_keys_per_user),
            asked.share if asked is not None else check_share(False, "size"),
            check_share(total, "the total"),
        )
        if ledger is not None:
            check_ledger(ledger, privacy, budget.unit)
        return cls(source, budget, sampling or KeepAll(), asked, ledger)


def check_users(source: Source, max_keys_per_user: int | None) -> int | None:
    """Return the number of keys for each user; None if elements are protected."""
    if source.user is None and max_keys_per_user is None:
        return None
    if source.user is None or max_keys_per_user is None:
        raise InvalidValue(
            "to protect users, say which column is the user, and how many keys each user keeps",
            "only the number of keys" if source.user is None else "only the user",
            "give both, such as user='user_id' and max_keys_per_user=20 (--user, --max-keys-per-user)",
        )
    return check_keys_per_user(max_keys_per_user)

"""Request: what a release is to be, checked as a whole before any data are read.

Request = Source + Setting + what is reported, how it is drawn, and the ledger that it is entered into
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike, fspath
from typing import Any, Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from dpsample.accounting.amounts import Clip, amounts_of
from dpsample.accounting.charges import Charge, scheme_form
from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.ledger import check_ledger, read_ledger
from dpsample.accounting.parts import Part
from dpsample.accounting.totals import SampleSize
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.planning.setting import Discover, Setting, check_sampling_or_size, kept_from
from dpsample.privacy import Privacy, StatedPrivacy
from dpsample.private.known import KnownKeys
from dpsample.private.sources.source import Source, SourceOptions
from dpsample.release.kinds.counted import count_columns
from dpsample.release.kinds.tokens import TOKEN_COLUMNS
from dpsample.release.release import Release, read_release
from dpsample.release.terms import check_keys
from dpsample.scheme.sampling import KeepAll, Ppswor, Sampling
from dpsample.scheme.soft_cap import SoftCap

Strategy = Literal["auto", "aggregate", "two-pass"]

_TWO_PASS_UP_TO = 0.02  # q of one element up to which picking elements first is at worst a little slower than counting


class Options(TypedDict, total=False):
    """The options of a release, in Python, on the command line and on a cluster alike."""

    sampling: Sampling | None  # how keys are sampled; by default all are kept
    at_least: int | None  # no key of a lower frequency is reported
    size: int | SampleSize | None  # a sample of about this many keys, instead of a sampling with its tau
    user: str | None  # the column of the user: users are protected instead of elements
    max_keys_per_user: int | None  # a contribution bound: each user keeps this many keys, chosen at random
    discover: Discover | None  # without a bound: how keys are found; by default the data are asked, privately
    count_share: Number | None  # without a bound: the share of the privacy for counting users, rows and sums
    rows: int | None  # without a bound: count rows as well, of each user and key up to so many
    sums: Mapping[str, Clip] | None  # without a bound: sum columns as well, of each user and key within a clip
    keys: Any  # a public list of keys: each is reported, also with 0
    only_known: bool  # leave out keys that are not in the list
    prior: Any  # without a bound: an earlier release, whose keys come first
    total: bool | Number  # add a private total of elements: True, or the share of epsilon that it costs
    ledger: str | PathLike[str] | None  # enter the release there first, or refuse it
    part: tuple[str, str] | None  # a column and a value, as text: read the rows of this part alone
    part_vouched: tuple[str, str] | None  # a name and a value: the caller states that the source is this part alone
    keys_only: bool  # report keys without tokens and estimates
    grid: int | None  # tokens are multiples of 1/grid; by default chosen by epsilon
    drop_null: bool  # leave out rows with a NULL key or user, instead of refusing them
    strategy: Strategy  # how a sample is drawn from raw elements; by default chosen by `strategy_of`
    settings: str | None  # the SHA-256 of the file that these options come from, for the ledger alone


@dataclass(frozen=True)
class Request:
    """What is read, what is released of it, how it is drawn, and which ledger it is entered into."""

    source: Source
    setting: Setting
    ledger: str | PathLike[str] | None = None
    grid: int | None = None
    strategy: Strategy = "auto"
    part: Part | None = None  # of the dataset; unless it is vouched for, the source reads its rows alone
    prior: Any = None  # a release, or the path of one, whose keys come first in the order of keys
    known: KnownKeys | None = None  # a public list of keys
    settings: str | None = None  # the SHA-256 of the file that the options come from

    def __post_init__(self) -> None:
        if self.known is not None:
            self._check_known()
        if self.discovers:
            self._check_discovery()
        else:
            check_users(self.source, self.setting.max_keys_per_user)
            if not self.setting.keys_only:
                check_keys(self.source.key, TOKEN_COLUMNS)
            if self.prior is not None:
                raise InvalidValue(
                    "a prior release orders keys that are discovered without a contribution bound",
                    "a prior with another release",
                    "leave the prior out, or max_keys_per_user",
                )
        size, sampling = self.setting.size, self.setting.sampling
        strategy_of(self.source, sampling if size is None else size.with_tau(Fraction(1)), self.strategy)
        if self.ledger is not None:
            check_ledger(self.ledger, self.charge(""))

    def _check_known(self) -> None:
        """Refuse what does not go together with known keys."""
        setting = self.setting
        others = {
            "keys only": setting.keys_only,
            "a sample": setting.size is not None or not isinstance(setting.sampling, KeepAll),
            "at_least": setting.sampling.least > 1,
            "a total of users' keys": self.discovers and bool(setting.total),
        }
        found = [name for name, there in others.items() if there]
        if found:
            raise InvalidValue(
                "each known key is reported with a number, whatever its frequency", found[0], "leave one of them out"
            )
        check_keys(self.source.key, ["known"])

    def _check_discovery(self) -> None:
        """Refuse what does not go together with discovery; the prior is read now."""
        if self.source.user is None:
            raise InvalidValue(
                "keys are discovered where rows say whose they are", "no user column", "name it: user='...' (--user)"
            )
        if self.setting.discover == "none" and (self.known is None or not self.known.only):
            raise InvalidValue("keys are discovered unless a list is all", "discover='none'", "leave discover out")
        if self.grid is not None or self.strategy != "auto":
            raise InvalidValue(
                "discovered keys have no tokens and are not sampled",
                "a grid or a strategy",
                "leave it out, or give max_keys_per_user (--max-keys-per-user)",
            )
        if not self.setting.keys_only:
            check_keys(self.source.key, count_columns(self.setting.amounts))
        object.__setattr__(self, "prior", None if self.prior is None else prior_keys(self.prior, self.source.key))

    @classmethod
    def of(
        cls,
        data: Any,
        key: str | Sequence[str] | None = None,
        frequency: str | None = None,
        *,
        privacy: StatedPrivacy,
        **options: Any,
    ) -> "Request":
        """Read the arguments of a release, `Options`; whatever the ledger does not allow is refused now."""
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            name, others = min(unknown), f"it has {', '.join(Options.__annotations__)}"
            if name in SourceOptions.__annotations__:
                others = f"a Source has it: write release(Source(data, key, {name}=...), ...)"
            raise TypeError(f"a release has no option {name!r}; {others}")
        source = Source.of(
            data, key, frequency=frequency, drop_null=options.pop("drop_null", False), user=options.pop("user", None)
        )
        source, part = part_of_source(source, options.pop("part", None), options.pop("part_vouched", None))
        amounts = amounts_of(options.pop("rows", None), options.pop("sums", None))
        source = source.with_amounts(amounts) if amounts else source
        sampling, size = options.pop("sampling", None), options.pop("size", None)
        check_sampling_or_size(sampling, size)
        sampling = kept_from(options.pop("at_least", None), sampling, size)
        known = KnownKeys.of(options.pop("keys", None), options.pop("only_known", False), source)
        max_keys, discover = options.pop("max_keys_per_user", None), options.pop("discover", None)
        unbounded: Discover | None = "ask" if source.user is not None and max_keys is None else None
        if known is not None and known.only and unbounded:
            if any(option is not None for option in (discover, options.get("count_share"), options.get("prior"))):
                raise InvalidValue(
                    "only_known discovers no keys, and spends all on counts",
                    "discover, count_share or prior",
                    "leave it out",
                )
            unbounded = "none"
        setting = Setting(
            Privacy.of(privacy),
            sampling,
            SampleSize(size) if size is not None and not isinstance(size, SampleSize) else size,
            max_keys,
            options.pop("total", False),
            options.pop("keys_only", False),
            discover or unbounded,
            options.pop("count_share", None),
            amounts,
        )
        return cls(source, setting, part=part, known=known, **options)

    def charge(self, output: str) -> Charge:
        """State what the release spends, and on what: names and public parameters, no data."""
        setting, source = self.setting, self.source
        by_curve = self.ledger is not None and read_ledger(self.ledger).account is not None
        return Charge(
            setting.privacy,
            setting.unit,
            output,
            source=str(source),
            keys=source.key,
            user=source.user,
            max_keys=setting.max_keys_per_user,
            scheme=scheme_form(setting.size or setting.sampling),
            part=self.part,
            settings=self.settings,
            curve=setting.curve if by_curve else None,
        )

    def inputs(self) -> list[str]:
        """List the files and folders on this machine that are read, and the ledger: none of them can be the output."""
        listed = [] if self.known is None else self.known.inputs()
        return [*self.source.inputs(), *listed, *([] if self.ledger is None else [fspath(self.ledger)])]

    @property
    def discovers(self) -> bool:
        """Whether keys of users are found without a contribution bound."""
        return self.setting.discover is not None


def part_of_source(source: Source, part: Any, vouched: Any) -> tuple[Source, Part | None]:
    """Return the rows that are read, and the part that they are, if any."""
    found = part_of(part, vouched, source.part)
    whole = found is None or found.vouched or found == source.part
    return (source if whole or found is None else source.of_part(found)), found


def part_of(part: Any, vouched: Any, own: Part | None = None) -> Part | None:
    """Return the part that is released, if any: of a column, vouched for by the caller, or the source's own."""
    if sum(given is not None for given in (part, vouched, own)) > 1:
        raise InvalidValue(
            "a release is of one part: of a column, or vouched for", "two", "leave part or part_vouched out"
        )
    if vouched is not None:
        return Part.of(vouched, vouched=True)
    return own if part is None else Part.of(part)


def prior_keys(prior: Any, keys: Sequence[str]) -> pa.Table:
    """Return the keys of an earlier release, least frequent first, or in its order if it has no estimates."""
    release = prior if isinstance(prior, Release) else read_release(prior)
    if release.keys != tuple(keys):
        raise InvalidValue(
            f"a prior release has the key columns {', '.join(map(repr, keys))}",
            ", ".join(map(repr, release.keys)),
            "name another release, or leave the prior out",
        )
    table = release.table
    if "estimate" in table.column_names:
        table = table.take(pc.sort_indices(table, [("estimate", "ascending")]))
    return table.select(list(keys))


def check_users(source: Source, max_keys_per_user: int | None) -> int | None:
    """Return the contribution bound: the number of keys of each user; None if elements are protected."""
    if source.user is None and max_keys_per_user is None:
        return None
    if source.user is None or max_keys_per_user is None:
        raise InvalidValue(
            "to protect users, say which column is the user, and how many keys each user keeps",
            "only the number of keys" if source.user is None else "only the user",
            "give both, such as user='user_id' and max_keys_per_user=20 (--user, --max-keys-per-user)",
        )
    return check_keys_per_user(max_keys_per_user)


def strategy_of(source: Source, sampling: Sampling, strategy: Strategy = "auto") -> Strategy:
    """Choose how a sample is drawn, from what is public: the kind of source, and the scheme.

    "two-pass" picks elements, then counts only their keys, so that it never holds all keys. It works for raw elements
    that can be read twice, and ppswor with power 1 or a soft cap. It draws exactly the same samples as "aggregate"
    does. Where users are protected, all keys of a user are brought together anyway, and "auto" means "aggregate".

    >>> strategy_of(Source("events.parquet", key="query"), Ppswor(tau=1e-4))
    'two-pass'
    >>> strategy_of(Source("events.parquet", key="query"), KeepAll())
    'aggregate'
    """
    possible = (
        not source.aggregated
        and source.kind in ("files", "table", "frame")
        and (
            isinstance(sampling, SoftCap)
            or (isinstance(sampling, Ppswor) and sampling.power == 1 and sampling.cap is None and sampling.seed is None)
        )
    )
    if strategy == "two-pass" and not possible:
        raise InvalidValue(
            "two passes need raw elements in files or a table, and ppswor by frequency without a seed, or a soft cap",
            f"{source} with {sampling}",
            "leave the strategy out to have one chosen",
        )
    if strategy != "auto":
        return strategy
    worth = possible and source.user is None and sampling.q([1])[0] <= _TWO_PASS_UP_TO
    return "two-pass" if worth else "aggregate"

"""Request: a source and the options of a release, checked as a whole before any data are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from os import fspath
from typing import Any, Unpack

import pyarrow as pa

from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.parts import Part
from dpsample.answers.release import Release, read_release
from dpsample.errors import InvalidValue
from dpsample.lazy import pc
from dpsample.ledger.charges import Charge, scheme_form
from dpsample.ledger.ledger import check_ledger, read_ledger
from dpsample.privacy import StatedPrivacy
from dpsample.private.known import KnownKeys
from dpsample.private.sources.source import Source, SourceOptions
from dpsample.release.kinds.counted import count_columns
from dpsample.release.kinds.tokens import TOKEN_COLUMNS
from dpsample.release.made_for_tests import refused
from dpsample.release.options import (
    ReleaseKeywords,
    ReleaseOptions,
    SampleKeywords,
    Strategy,
    part_of,
)
from dpsample.release.terms import check_keys
from dpsample.scheme.sampling import Ppswor, Sampling
from dpsample.scheme.soft_cap import SoftCap

# Picking elements first is at most a little slower than counting all keys if an element is picked with this
# probability or less. A larger value would choose two passes where they only cost time; samples stay the same.
_TWO_PASS_UP_TO = 0.02


@dataclass(frozen=True)
class Request:
    """A source, and the options of the release that is made of it.

    known  the public list of keys, if there is one
    prior  the keys of an earlier release, in the order in which they are looked for
    """

    source: Source
    options: ReleaseOptions
    known: KnownKeys | None = None
    prior: pa.Table | None = None

    def __post_init__(self) -> None:
        if self.known is not None:
            self._check_known()
        if self.discovers:
            self._check_discovery()
        else:
            self._check_one_stage()
        self._check_strategy()
        if self.options.ledger is not None:
            check_ledger(self.options.ledger, self.charge(""))

    @classmethod
    def of(
        cls,
        data: Any,
        key: str | Sequence[str] | None = None,
        frequency: str | None = None,
        *,
        privacy: StatedPrivacy,
        **keywords: Unpack[ReleaseKeywords],
    ) -> "Request":
        """Read the arguments of `dpsample.release`; what the ledger does not allow is refused now."""
        check_keywords(keywords)
        source = _source_of(data, key, frequency, keywords)
        protects_users = source.user is not None
        options = ReleaseOptions.of(privacy=privacy, protects_users=protects_users, **keywords)
        source = source_of_part(source, options.part)
        if options.amounts:
            source = source.with_amounts(options.amounts)
        known = KnownKeys.of(options.keys, options.only_known, source)
        prior = None
        if options.prior is not None and options.discover is not None:
            prior = prior_keys(options.prior, source.key)
        return cls(source, options, known, prior)

    def _check_known(self) -> None:
        """Refuse options that cannot be combined with known keys."""
        options = self.options
        stated = {
            "`keys_only`": options.keys_only,
            "a sample": options.samples,
            "`at_least`": options.sampling.least > 1,
            "a total of users' keys": self.discovers and bool(options.total),
        }
        for name, is_stated in stated.items():
            if is_stated:
                raise InvalidValue(
                    f"known `keys` cannot be combined with {name}: each is reported with a number",
                    "leave one out",
                )
        check_keys(self.source.key, ["known"])

    def _check_one_stage(self) -> None:
        """Check a release of elements, or of users with a contribution bound."""
        options = self.options
        check_users(self.source, options.max_keys_per_user)
        if not options.keys_only:
            check_keys(self.source.key, TOKEN_COLUMNS)
        if options.prior is not None:
            raise InvalidValue(
                "`prior` can only be used for users without a contribution bound",
                "leave `prior` out, or `max_keys_per_user`",
            )

    def _check_discovery(self) -> None:
        """Check a release of users without a contribution bound."""
        options = self.options
        if self.source.user is None:
            raise InvalidValue(
                "keys of users can only be discovered if a column names the user", "set `user`"
            )
        only_known = self.known is not None and self.known.only
        if options.discover == "none" and not only_known:
            raise InvalidValue(
                "`discover='none'` can only be used with `only_known`", "leave `discover` out"
            )
        stated = {"grid": options.grid is not None, "strategy": options.strategy != "auto"}
        for name, is_stated in stated.items():
            if is_stated:
                raise InvalidValue(
                    f"`{name}` cannot be used where keys are discovered, which have no tokens and are not sampled",
                    f"leave `{name}` out, or set `max_keys_per_user`",
                )
        if not options.keys_only:
            check_keys(self.source.key, count_columns(options.amounts))

    def _check_strategy(self) -> None:
        """Refuse a strategy that the source, or the scheme, does not allow."""
        sampling = self.options.sampling
        if self.options.size is not None:
            # tau is not known yet: whether elements can be picked does not depend on it
            sampling = self.options.size.with_tau(Fraction(1))
        strategy_of(self.source, sampling, self.options.strategy)

    def charge(self, output: str) -> Charge:
        """Return what the release spends, and on what: names and public parameters, no data."""
        options = self.options
        charge = Charge(
            options.privacy,
            options.unit,
            output,
            source=str(self.source),
            keys=self.source.key,
            user=self.source.user,
            max_keys=options.max_keys_per_user,
            scheme=scheme_form(options.size or options.sampling),
            part=self.part,
            settings=options.settings,
        )
        if options.ledger is None or read_ledger(options.ledger).account is None:
            return charge
        return replace(charge, curve=options.curve)  # the ledger adds up Rényi divergences

    def inputs(self) -> list[str]:
        """List the files and folders on this machine that are read, and the ledger: none of them can be the output."""
        inputs = self.source.inputs()
        if self.known is not None:
            inputs = [*inputs, *self.known.inputs()]
        if self.options.ledger is not None:
            inputs = [*inputs, fspath(self.options.ledger)]
        return inputs

    @property
    def discovers(self) -> bool:
        """Whether keys of users are discovered without a contribution bound."""
        return self.options.discover is not None

    @property
    def part(self) -> Part | None:
        """The part of the dataset that is released; unless it is vouched for, the source reads its rows alone."""
        return self.options.part or self.source.part


@dataclass(frozen=True)
class SampleRequest:
    """A source, and how a sample of it is drawn; the sample is not released yet.

    max_keys  the contribution bound of users; None if elements are protected
    part      the part of the dataset that the sample is drawn from; None for all of it
    """

    source: Source
    sampling: Sampling
    max_keys: int | None
    strategy: Strategy
    part: Part | None

    @classmethod
    def of(
        cls,
        data: Any,
        key: str | Sequence[str] | None,
        frequency: str | None,
        sampling: Sampling,
        keywords: SampleKeywords,
    ) -> "SampleRequest":
        """Read the arguments of `dpsample.sample`."""
        check_keywords(keywords, SampleKeywords)
        stated_source = _source_of(data, key, frequency, keywords)
        part = part_of(keywords.get("part"), keywords.get("part_vouched"))
        source = source_of_part(stated_source, part)
        max_keys = check_users(source, keywords.get("max_keys_per_user"))
        strategy = keywords.get("strategy", "auto")
        return cls(source, sampling, max_keys, strategy, part or stated_source.part)


def check_keywords(keywords: Mapping[str, Any], allowed: type = ReleaseKeywords) -> None:
    """Refuse a keyword that is none of those `allowed`; the hint names `Source` if it has an option of this name."""
    for name in sorted(keywords):
        if name in allowed.__annotations__:
            continue
        options = ", ".join(allowed.__annotations__)
        hint = f"it has {options}"
        if name in SourceOptions.__annotations__:
            hint = f"a Source has it: write release(Source(data, key, {name}=...), ...)"
        raise TypeError(f"a release has no option {name!r}; {hint}")


def _source_of(
    data: Any, key: str | Sequence[str] | None, frequency: str | None, keywords: SampleKeywords
) -> Source:
    """Return the source that these arguments of `dpsample.release` or `dpsample.sample` describe."""
    drop_null = keywords.get("drop_null", False)
    read = {"frequency": frequency, "user": keywords.get("user"), "filter": keywords.get("filter")}
    return Source.of(data, key, drop_null=drop_null, **read)


def source_of_part(source: Source, part: Part | None) -> Source:
    """Return the rows of a part of a source; all rows, if the caller vouches that they belong to it."""
    if part is None:
        return source
    if source.part is not None:
        raise InvalidValue("the source is a part already", "leave `part` and `part_vouched` out")
    return source if part.vouched else source.of_part(part)


def prior_keys(prior: Any, keys: Sequence[str]) -> pa.Table:
    """Return the keys of an earlier release, least frequent first, or in its order if it has no estimates."""
    release = prior if isinstance(prior, Release) else read_release(prior)
    if release.terms.made_for_tests:
        raise refused("a `prior`")
    if release.keys != tuple(keys):
        wanted = ", ".join(map(repr, keys))
        found = ", ".join(map(repr, release.keys))
        raise InvalidValue(
            f"`prior` must have the key columns {wanted}, not {found}",
            "name another release",
        )
    table = release.table
    if "estimate" in table.column_names:
        table = table.take(pc.sort_indices(table, [("estimate", "ascending")]))
    return table.select(list(keys))


def check_users(source: Source, max_keys_per_user: int | None) -> int | None:
    """Return the contribution bound, checked; None if elements are protected."""
    if source.user is None:
        if max_keys_per_user is None:
            return None
        raise InvalidValue(
            "`max_keys_per_user` needs a column that names the user", "set `user` as well"
        )
    if max_keys_per_user is None:
        raise InvalidValue(
            "`user` needs a contribution bound here",
            "set `max_keys_per_user` as well, such as to 20",
        )
    return check_keys_per_user(max_keys_per_user)


def strategy_of(source: Source, sampling: Sampling, strategy: Strategy = "auto") -> Strategy:
    """Choose how a sample is drawn, from what is public: the kind of source, and the scheme.

    "two-pass" picks elements, then counts only their keys, so that it never holds all keys. It works for raw elements
    that can be read twice, and ppswor with power 1 or a soft cap. It draws exactly the same samples as "aggregate"
    does. Where users are protected, all keys of a user are brought together anyway, and "auto" means "aggregate".

    >>> from dpsample import KeepAll
    >>> strategy_of(Source("events.parquet", key="query"), Ppswor(tau=1e-4))
    'two-pass'
    >>> strategy_of(Source("events.parquet", key="query"), KeepAll())
    'aggregate'
    """
    has_elements = not source.aggregated and source.kind in ("files", "table", "frame")
    can_pick = has_elements and _picks_elements(sampling)
    if strategy == "two-pass" and not can_pick:
        raise InvalidValue(
            f"`strategy='two-pass'` cannot be used for {source} with {sampling}",
            "leave `strategy` out; two passes need raw elements in files or a table, and ppswor by frequency without "
            "a seed, or a soft cap",
        )
    if strategy != "auto":
        return strategy
    if not can_pick or source.user is not None:
        return "aggregate"
    [probability_of_one] = sampling.q([1])
    return "two-pass" if probability_of_one <= _TWO_PASS_UP_TO else "aggregate"


def _picks_elements(sampling: Sampling) -> bool:
    """Whether the scheme samples each element by itself, so that elements can be picked before keys are counted."""
    if isinstance(sampling, SoftCap):
        return True
    if not isinstance(sampling, Ppswor):
        return False
    by_frequency = sampling.power == 1 and sampling.cap is None
    return by_frequency and sampling.seed is None

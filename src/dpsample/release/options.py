"""Options: the parameters of a release, apart from its source. Every option is described here, and nowhere else.

A field of `ReleaseOptions` has a type, a default, rules, and the `Option`s by which the command line and settings files
state it. `ReleaseKeywords` has the keyword arguments of `dpsample.release`, for type checkers (a test compares both).
The help of an option is written once, here: the command line shows it, and the docstring of `dpsample.release` has it
(`explained_keywords`). Like a refusal, it names other options in backticks, by their names in Python.

    privacy      one of `epsilon`, `zcdp` and `gdp`, with `delta`
    sampling     `scheme`, `tau`, `power`, `cap`, `seed`, and `at_least`
    size         `sample_size`, `size_share`, with the same `scheme`, `power` and `cap`
    total        `with_total`, `total_share`
    amounts      `rows`, `sums`, `clips`
    part         `part` or `part_vouched`
    all others   the option of the same name
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, cached_property
from os import PathLike
from textwrap import fill, indent
from typing import Any, Literal, TypedDict, Unpack, get_args

from dpsample.accounting.amounts import Amount, Clip, amounts_of
from dpsample.accounting.budget import Budget
from dpsample.accounting.choice import capacity_cap
from dpsample.accounting.counts import count_share
from dpsample.accounting.filled import FILLED_SHARE
from dpsample.accounting.parts import Part
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.totals import SampleSize, check_share
from dpsample.accounting.user_budget import LOOK_SHARE, UserBudget
from dpsample.errors import InvalidValue
from dpsample.exact import Number
from dpsample.privacy import Privacy, StatedPrivacy
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import KeepAll, Sampling
from dpsample.scheme.tokens import check_grid

Discover = Literal["ask", "one-key", "many-keys"]
# "none": users of known keys are counted, and no other key is looked for
Discovers = Discover | Literal["none"]
Strategy = Literal["auto", "aggregate", "two-pass"]
SCHEMES = ("all", "ppswor", "priority", "soft-cap")


class SampleKeywords(TypedDict, total=False):
    """The keyword arguments of `dpsample.sample`, beside the sampling scheme."""

    user: str | None
    max_keys_per_user: int | None
    drop_null: bool
    filter: str | None
    part: tuple[str, str] | None
    part_vouched: tuple[str, str] | None
    strategy: Strategy


class ReleaseKeywords(SampleKeywords, total=False):
    """The keyword arguments of `dpsample.release`, beside the privacy."""

    sampling: Sampling | None
    at_least: int | None
    size: int | SampleSize | None
    discover: Discover | None
    count_share: Number | None
    rows: int | None
    sums: Mapping[str, Clip] | None
    keys: Any
    only_known: bool
    prior: Any
    total: bool | Number
    ledger: str | PathLike[str] | None
    keys_only: bool
    grid: int | None
    settings: str | None


@dataclass(frozen=True)
class Option:
    """How one value is stated on the command line, and by the same name in a settings file."""

    name: str
    help: str
    kind: type[str] | type[int] | type[bool] = str
    choices: tuple[str, ...] = ()
    default: str | None = None
    metavar: str | None = None
    letter: str | None = None  # a short form, such as -e
    required: bool = False
    repeatable: bool = False
    word: str = ""  # on the command line and in a file, if it is not the name

    @property
    def written(self) -> str:
        """The name on the command line and in a settings file, without leading dashes."""
        return self.word or self.name.replace("_", "-")


def stated(*options: Option) -> Mapping[str, tuple[Option, ...]]:
    """Return the metadata of a field that these options state."""
    return {"options": options}


EPSILON = Option("epsilon", "Epsilon, read exactly: 0.1 is one tenth.", letter="e")
ZCDP = Option(
    "zcdp", "Rho of zero-concentrated differential privacy, instead of `epsilon`.", metavar="RHO"
)
GDP = Option("gdp", "Mu of Gaussian differential privacy, instead of `epsilon`.", metavar="MU")
DELTA = Option(
    "delta",
    "Delta, such as 1e-8. Choose it well below 1 / (number of elements).",
    letter="d",
    required=True,
)
SCHEME = Option(
    "scheme",
    "Keep all keys, or sample a key of weight w with probability 1 - exp(-tau w) (ppswor) or min(1, tau w) (priority).",
    choices=SCHEMES,
    default="all",
)
TAU = Option("tau", "Sampling threshold of ppswor, priority and soft-cap, such as 1e-4.")
POWER = Option("power", "The weight w of a key is its frequency to this power.", default="1")
CAP = Option(
    "cap",
    "The weight w of a key is min(frequency, CAP) to the power; soft-cap samples by about that.",
    int,
)
SEED = Option(
    "seed",
    "Sample by a public hash of the key and this text, so that samples with the same seed have the same keys. The "
    "release states the seed. Choose it without looking at the data.",
    metavar="TEXT",
)
AT_LEAST = Option(
    "at_least",
    "Report no key with fewer elements than N (with `user`: fewer users), whatever its noise.",
    int,
    metavar="N",
)
SAMPLE_SIZE = Option(
    "sample_size",
    "Approximate number of sampled keys, instead of `tau`. Costs a share of epsilon.",
    int,
)
SIZE_SHARE = Option("size_share", "Share of epsilon that `sample_size` costs.", default="0.05")
MAX_KEYS = Option(
    "max_keys_per_user",
    "Contribution bound: the largest number of keys that each user keeps, chosen at random.",
    int,
)
WITH_TOTAL = Option(
    "with_total",
    "Add a private total of elements, or of users' keys. Costs a share of epsilon.",
    bool,
)
TOTAL_SHARE = Option("total_share", "Share of epsilon that `with_total` costs.", default="0.05")
KEYS_ONLY = Option("keys_only", "Report keys without tokens, or without counts of users.", bool)
DISCOVER = Option(
    "discover",
    "Without a contribution bound: find keys by one key of each user (best if users have few keys) or by many. 'ask' "
    "spends 2 % of epsilon to compare both privately, and picks the better one.  [default: ask]",
    choices=get_args(Discover),
)
COUNT_SHARE = Option(
    "count_share",
    "Without a contribution bound: the share of the privacy for counting the users of each key, between 0 and 1.  "
    "[default: 0.25; more with `rows` and `sums`]",
)
ROWS = Option(
    "rows",
    "Without a contribution bound: also count the rows of each key. Each user counts with up to CLIP rows of a key.",
    int,
    metavar="CLIP",
)
SUMS = Option(
    "sums",
    "Without a contribution bound: also sum a column for each key. The sum of each user and key is clipped to the "
    "range from LOW to HIGH, by default from -HIGH to HIGH. Repeat it for several columns.",
    metavar="COLUMN[:[LOW:]HIGH]",
    repeatable=True,
    word="sum",
)
CLIPS = Option(
    "clips",
    "The clips of `sums`, if these are columns alone: one for each, in the same order.",
    metavar="[LOW:]HIGH",
    repeatable=True,
    word="clip",
)
PRIOR = Option(
    "prior",
    "Without a contribution bound: an earlier release, whose keys are looked for first. It must be public, or paid for "
    "in the same ledger.",
)
KEYS = Option(
    "keys",
    "Public list of keys, with the key columns (.parquet, .csv or .arrow). Each is reported, also with 0. The list "
    "must not depend on the data.",
    metavar="FILE",
)
ONLY_KNOWN = Option("only_known", "With `keys`: leave out all other keys.", bool)
LEDGER = Option("ledger", "Ledger to charge. A release that exceeds its budget is refused.")
PART = Option(
    "part",
    "Read only the rows whose column has this value, as text. In a ledger with `parts`, releases of different "
    "parts cost the maximum, not the sum. Choose the part without looking at the data.",
    metavar="COLUMN=VALUE",
)
PART_VOUCHED = Option(
    "part_vouched",
    "State that the source has rows of this part alone. This is not checked, and the release says so.",
    metavar="NAME=VALUE",
)
GRID = Option(
    "grid", "Tokens are multiples of 1/GRID, a power of two.  [default: chosen by epsilon]", int
)
STRATEGY = Option(
    "strategy",
    "How a sample of raw elements is drawn: count all keys (aggregate), or pick elements first (two-pass).",
    choices=get_args(Strategy),
    default="auto",
)


USER = Option(
    "user", "Column that identifies the user of a row. Protects users instead of elements."
)
DROP_NULL = Option(
    "drop_null", "Drop rows whose key or user is NULL, instead of refusing them.", bool
)
FILTER = Option(
    "filter",
    "Read only the rows where this SQL condition on their columns is true, such as \"country = 'DE'\". Choose it "
    "without looking at the data.",
)
# Arguments of `dpsample.release` that Python states in another way than the command line, and those of the source.
_HELP_IN_PYTHON = {
    "sampling": "How keys are sampled: by `Ppswor`, `Priority`, `SoftCap`, `CustomSampling`; by default, all are kept.",
    "size": "Draw a sample of about this many keys instead, or a `SampleSize`. Costs a share of epsilon.",
    "total": "Add a private total of elements, or of users' keys: True, or the share of epsilon that it costs.",
    "sums": (
        "Without a contribution bound: also sum columns for each key. A mapping from column to clip: the range "
        "to which the sum of each user and key is clipped."
    ),
    "part": f"A column and a value, such as ('day', '2026-11-14'). {PART.help}",
    "part_vouched": f"A name and a value. {PART_VOUCHED.help}",
    "user": USER.help,
    "drop_null": DROP_NULL.help,
    "filter": FILTER.help,
    "settings": "The SHA-256 of the settings file of the release, for its ledger entry.",
}
_DOCSTRING_WIDTH = 116  # of lines that a docstring indents by four


@dataclass(frozen=True)
class ReleaseOptions:
    """The options of a release, checked as a whole; its budget follows from them.

    With a `user` column and no contribution bound, keys are discovered, and `discover` says how; otherwise it is None.

    >>> ReleaseOptions(Privacy(1, 1e-6), max_keys_per_user=2).per_key
    Privacy(epsilon='0.5', delta='5e-07')
    """

    privacy: Privacy = field(metadata=stated(EPSILON, ZCDP, GDP, DELTA))
    sampling: Sampling = field(
        default=KeepAll(), metadata=stated(SCHEME, TAU, POWER, CAP, SEED, AT_LEAST)
    )
    size: SampleSize | None = field(default=None, metadata=stated(SAMPLE_SIZE, SIZE_SHARE))
    max_keys_per_user: int | None = field(default=None, metadata=stated(MAX_KEYS))
    total: bool | Number = field(default=False, metadata=stated(WITH_TOTAL, TOTAL_SHARE))
    keys_only: bool = field(default=False, metadata=stated(KEYS_ONLY))
    discover: Discovers | None = field(default=None, metadata=stated(DISCOVER))
    count_share: Number | None = field(default=None, metadata=stated(COUNT_SHARE))
    amounts: tuple[Amount, ...] = field(default=(), metadata=stated(ROWS, SUMS, CLIPS))
    prior: Any = field(default=None, compare=False, metadata=stated(PRIOR))
    keys: Any = field(default=None, compare=False, repr=False, metadata=stated(KEYS))
    only_known: bool = field(default=False, metadata=stated(ONLY_KNOWN))
    ledger: str | PathLike[str] | None = field(default=None, metadata=stated(LEDGER))
    part: Part | None = field(default=None, metadata=stated(PART, PART_VOUCHED))
    grid: int | None = field(default=None, metadata=stated(GRID))
    strategy: Strategy = field(default="auto", metadata=stated(STRATEGY))
    settings: str | None = field(default=None, metadata=stated())  # the SHA-256 of a settings file

    def __post_init__(self) -> None:
        if self.size is not None and not isinstance(self.sampling, KeepAll):
            raise _two_samplings()
        if self.discover is None:
            self._check_one_stage()
        else:
            self._check_discovery()

    @classmethod
    def of(
        cls,
        *,
        privacy: StatedPrivacy,
        protects_users: bool = False,
        **keywords: Unpack[ReleaseKeywords],
    ) -> "ReleaseOptions":
        """Read the keyword arguments of `dpsample.release`, except those that describe the source."""
        stated_size = keywords.get("size")
        sampling = kept_from(keywords.get("at_least"), keywords.get("sampling"), stated_size)
        direct: dict[str, Any] = {
            name: value for name, value in keywords.items() if name in _SAME_FIELD
        }
        return cls(
            privacy=Privacy.of(privacy),
            size=_size_of(stated_size),
            sampling=sampling,
            amounts=amounts_of(keywords.get("rows"), keywords.get("sums")),
            part=part_of(keywords.get("part"), keywords.get("part_vouched")),
            discover=_discover_of(keywords, protects_users),
            **direct,
        )

    def _check_one_stage(self) -> None:
        """Check options without discovery: elements, or users with a contribution bound."""
        counted = self._options_of_counting()
        if counted is not None:
            raise InvalidValue(
                f"{counted} can only be used for users without a contribution bound",
                "name the `user` column and leave `max_keys_per_user` out",
            )
        _ = self.budget  # refuses shares and bounds that cannot be
        if self.grid is not None:
            check_grid(self.grid)

    def _check_discovery(self) -> None:
        """Check options of users without a contribution bound."""
        if self.discover not in (*get_args(Discover), "none"):
            allowed = ", ".join(get_args(Discover))
            raise InvalidValue(f"`discover` must be one of {allowed}, not {self.discover!r}")
        if self.samples:
            raise InvalidValue(
                "a sample of users' keys needs a contribution bound",
                "set `max_keys_per_user`, or leave `sampling` and `size` out",
            )
        if self.max_keys_per_user is not None:
            raise InvalidValue(
                "`discover` cannot be combined with `max_keys_per_user`", "leave one of them out"
            )
        counted = self._options_of_counting()
        if self.keys_only and counted is not None:
            raise InvalidValue(
                f"{counted} cannot be combined with `keys_only`, which counts nothing",
                "leave one out",
            )
        if self.discover == "one-key" and self.total_share:
            raise InvalidValue(
                "a total cannot be combined with `discover='one-key'`",
                "use `discover='ask'`, which looks at how many keys users have",
            )
        if self.discover == "none":
            _ = self.users.square  # refuses a budget that leaves nothing for counts
        else:
            self._check_privacy_of_keys()

    def _options_of_counting(self) -> str | None:
        """Return which options were stated that need a stage of counting, in words."""
        if self.amounts:
            return "`rows` and `sums`"
        return None if self.count_share is None else "`count_share`"

    def _check_privacy_of_keys(self) -> None:
        """Refuse a budget that leaves too little for finding keys."""
        capacity_cap(self.users.one_key(), self.sampling)
        if self.discover == "many-keys" and self.users.many_keys(2) is None:
            raise InvalidValue(
                "`discover='many-keys'` needs more of epsilon than is left",
                "choose a larger epsilon, spend less on counts, or use `discover='one-key'`",
            )

    @property
    def samples(self) -> bool:
        """Whether keys are sampled, rather than all kept."""
        return self.size is not None or not isinstance(self.sampling, KeepAll)

    @property
    def total_share(self) -> Fraction:
        """The share of epsilon that the total costs; 0 without one."""
        return check_share(self.total, "the total")

    @cached_property
    def users(self) -> UserBudget:
        """How the privacy is divided if keys are discovered, or the users of known keys are counted."""
        if self.discover == "none":
            return UserBudget(
                self.privacy, counts=Fraction(1), discovers=False, amounts=self.amounts
            )
        budget = UserBudget(
            self.privacy,
            look=Fraction(0) if self.discover == "one-key" else LOOK_SHARE,
            total=self.total_share,
            counts=self._share_of_counts(),
            amounts=self.amounts,
        )
        compares = self.discover == "ask" and budget.many_keys(2) is not None
        if not compares:
            return budget
        return replace(budget, look=LOOK_SHARE - FILLED_SHARE, filled=FILLED_SHARE)

    def _share_of_counts(self) -> Fraction:
        """Return the share of the privacy for counting the users of each key."""
        default = count_share(len(self.amounts))
        if self.count_share is None:
            share = default
        else:
            share = check_share(self.count_share, "the counts")
        return Fraction(0) if self.keys_only else share

    @cached_property
    def budget(self) -> Budget:
        """How the privacy is divided without discovery."""
        keeps_all = isinstance(self.sampling.sanitized_as, KeepAll)
        return Budget(
            self.privacy,
            self.max_keys_per_user,
            size=Fraction(0) if self.size is None else self.size.share,
            total=self.total_share,
            all_keys=keeps_all and self.size is None,
            keys_only=self.keys_only,
        )

    @property
    def unit(self) -> str:
        """The unit of privacy: an element, or a user."""
        return self.budget.unit if self.discover is None else "user"

    @property
    def curve(self) -> RenyiCurve:
        """Upper bounds of the Rényi divergences of the whole release, which a Rényi ledger adds up."""
        return self.budget.curve if self.discover is None else RenyiCurve.of_privacy(self.privacy)

    @cached_property
    def per_key(self) -> PerKey:
        """The privacy parameters with which each key is drawn."""
        return self.budget.per_key


# keywords of `dpsample.release` that are the field of the same name, as they are
_SAME_FIELD = {each.name for each in fields(ReleaseOptions)} & set(ReleaseKeywords.__annotations__)
_SAME_FIELD -= {"sampling", "size", "discover", "part"}


def options_of(name: str) -> tuple[Option, ...]:
    """Return the options by which a field of `ReleaseOptions` is stated."""
    metadata = {each.name: each.metadata for each in fields(ReleaseOptions)}
    options: tuple[Option, ...] = metadata[name]["options"]
    return options


@cache
def written_names() -> dict[str, str]:
    """Return the name on the command line of each field and each option; a field has that of its first option."""
    names: dict[str, str] = {}
    for each in fields(ReleaseOptions):
        for option in options_of(each.name):
            names.setdefault(each.name, option.written)
            names[option.name] = option.written
    return names


def all_options() -> Iterator[Option]:
    """Yield every option of a release."""
    for each in fields(ReleaseOptions):
        yield from options_of(each.name)


def explained_keywords() -> str:
    """Return the keyword arguments of `dpsample.release` with their help, as lines of a docstring.

    >>> print(explained_keywords()[:80])
    user               Column that identifies the user of a row. Protects users inst
    """
    helps = {option.name: option.help for option in all_options()}
    helps |= _HELP_IN_PYTHON
    names = list(ReleaseKeywords.__annotations__)
    column = max(map(len, names)) + 2
    lines = []
    for name in names:
        words = fill(
            helps[name],
            _DOCSTRING_WIDTH,
            initial_indent=name.ljust(column),
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )
        lines.append(words)
    return "\n".join(lines)


def with_keywords(docstring: str) -> str:
    """Put the keyword arguments of a release in the place of `{keywords}` in a docstring, as far indented."""
    lines = []
    for line in docstring.split("\n"):
        before, placeholder, _ = line.partition("{keywords}")
        lines.append(indent(explained_keywords(), before) if placeholder else line)
    return "\n".join(lines)


def _two_samplings() -> InvalidValue:
    """Return the refusal of a sampling scheme beside the size of a sample."""
    return InvalidValue(
        "`sampling` cannot be combined with `size`",
        "leave one out; SampleSize(size, scheme, power, cap) says how a sample of that size is drawn",
    )


def _size_of(size: int | SampleSize | None) -> SampleSize | None:
    if size is None or isinstance(size, SampleSize):
        return size
    return SampleSize(size)


def kept_from(at_least: int | None, sampling: Sampling | None, size: object = None) -> Sampling:
    """Return the sampling scheme; with `at_least`, the one that keeps all keys from this frequency on."""
    if sampling is not None and size is not None:
        raise _two_samplings()
    if at_least is None:
        return sampling or KeepAll()
    if size is not None or sampling not in (None, KeepAll()):
        raise InvalidValue(
            "`at_least` cannot be combined with a sample, which leaves keys out by its own rule"
        )
    return KeepAll(at_least)


def part_of(part: Any, vouched: Any) -> Part | None:
    """Return the part of the dataset that is released, if any: a column and its value, or one vouched for."""
    if part is not None and vouched is not None:
        raise InvalidValue("`part` cannot be combined with `part_vouched`", "leave one of them out")
    if vouched is not None:
        return Part.of(vouched, vouched=True)
    return None if part is None else Part.of(part)


def _discover_of(keywords: ReleaseKeywords, protects_users: bool) -> Discovers | None:
    """Return how keys are found: by default, users without a bound are asked; known keys alone need no search."""
    discover = keywords.get("discover")
    bounded = keywords.get("max_keys_per_user") is not None
    if not protects_users or bounded:
        return discover
    only_known = keywords.get("keys") is not None and keywords.get("only_known")
    if not only_known:
        return discover or "ask"
    for name in ("discover", "count_share", "prior"):
        if keywords.get(name) is not None:
            raise InvalidValue(
                f"`{name}` cannot be combined with `only_known`, which looks for no other keys"
            )
    return "none"

"""Terms: the public parameters of a release, and the version of its file."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dpsample.accounting.amounts import Amount
from dpsample.accounting.counts import Counts
from dpsample.accounting.discovery import Discovery
from dpsample.accounting.known import Known
from dpsample.accounting.parts import Part, protected_unit
from dpsample.accounting.reading import Reading
from dpsample.accounting.totals import Total
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files.metadata import canonical
from dpsample.privacy import Privacy
from dpsample.release.bought import NOTHING, Bought
from dpsample.release.explain import (
    explain_mechanism,
    explain_part,
    explain_privacy,
    explain_reading,
    explain_reporting,
    explain_size,
    explain_spent,
    explain_total,
)
from dpsample.release.facts import Fact, Facts, Topic, fact, joined
from dpsample.release.kinds import KeysOnly, Kind, kind_from_json
from dpsample.release.kinds.kind import AGAIN
from dpsample.release.made_for_tests import FORMAT as TEST_FORMAT
from dpsample.release.made_for_tests import WARNING, refused
from dpsample.release.spending import Spending, spending_of
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import Sampling

VERSION: Final = 1  # of release files
_FILE_FIELDS: Final = ("file", "checksum", "before")  # metadata of the file, not of the release
_FIELDS: Final = (  # the fields of the metadata, in the order in which files have them
    "format",
    "version",
    "private",
    "warning",
    "privacy",
    "unit",
    "sampling",
    "grid",
    "keys_only",
    "keys",
    "rows",
    "max_keys_per_user",
    "per_key",
    "size",
    "total",
    "dropped",
    "ledger",
    "part",
    "reading",
    "discovery",
    "counts",
    "known",
    "dpsample",
)
_MAY_BE_NULL: Final = "grid"  # other fields are left out where they do not apply
_UNREADABLE: Final = (  # errors that metadata may cause that dpsample did not write
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def _version() -> str:
    from dpsample import __version__

    return __version__


@dataclass(frozen=True)
class Terms:
    """The public parameters of a release: all that it publishes besides its rows.

    `privacy` protects one element (a counted occurrence of a key, not a row of aggregated data), or one user. `kind`
    states which numbers each key has, and by which mechanism keys were drawn. `known` are keys of a public list, which
    are all reported. `part` is the part of the dataset that was read, `reading` the expressions of its keys and the
    filter of its rows, if there are any, and `ledger` the entry that paid for the release.
    A release that was `made_for_tests` is NOT private.

    >>> from dpsample import KeepAll, Privacy
    >>> from dpsample.release.kinds import Tokens
    >>> privacy = Privacy(1, 1e-6)
    >>> terms = Terms(privacy, ("query",), Tokens(KeepAll(), privacy))
    >>> terms.columns
    ('query', 'estimate', 'low', 'high', 'token')
    >>> Terms.from_json(terms.to_json(rows=0)) == terms
    True
    """

    privacy: Privacy
    keys: tuple[str, ...]
    kind: Kind
    bought: Bought = NOTHING
    known: Known | None = None
    part: Part | None = None
    ledger: str | None = None
    reading: Reading | None = None
    made_for_tests: bool = False
    dpsample: str = field(default_factory=_version, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.privacy, Privacy):
            raise InvalidValue(
                f"privacy must be a Privacy, not a {type(self.privacy).__name__}",
                "for example Privacy(1, 1e-8)",
            )
        if not isinstance(self.dpsample, str) or not isinstance(self.ledger, str | None):
            raise InvalidValue(
                "a release names its ledger entry and the version of dpsample as text", AGAIN
            )
        if self.made_for_tests and self.ledger is not None:
            raise refused("entered in a ledger")
        keys = check_keys(self.keys, self.numbers)
        object.__setattr__(self, "keys", keys)  # a single name may come as text
        self.kind.check(self.keys_privacy, self.bought)
        if self.known is not None:
            check_keys(self.keys, ("known",))
            self.kind.check_known(self.known)

    @property
    def keys_privacy(self) -> Privacy:
        """The privacy that purchases leave to the keys: to all keys of one user, or to the key of one element."""
        return self.privacy.less(spending.epsilon for spending in self.spent)

    @property
    def spent(self) -> tuple[Spending, ...]:
        """The purchases of the release beside its keys, with the cost of each."""
        return tuple(spending_of(self.discovery, self.bought))

    def facts(self, keys: int | None = None, visibility: bool = True) -> Facts:
        """Return the facts that people are told about the release; some depend on the number of reported `keys`.

        Which frequencies are reported follows from a table, which takes long for some terms that a file may state:
        without `visibility` it is left out.
        """
        seen = [fact(Topic.SEEN, explain_reporting(self))] if visibility else []
        return joined(self.kind.facts(self.bought, keys), self._own_facts(), seen)

    def _own_facts(self) -> Iterator[Fact]:
        """Yield the facts that do not depend on the kind, and that take no time."""
        if self.made_for_tests:
            yield fact(Topic.WARNING, WARNING.rstrip("."))
        yield fact(Topic.REPORTED, explain_mechanism(self.sampling, self.per_key))
        if self.known is not None:
            yield fact(Topic.KNOWN, str(self.known))
        if self.bought.size is not None:
            yield fact(Topic.SIZE, explain_size(self.bought.size))
        if self.bought.total is not None:
            yield _total_fact(self.bought.total)
        yield self._privacy_fact()
        if self.part is not None:
            yield fact(Topic.PART, explain_part(self.part, self.max_keys), str(self.part))
        if self.reading is not None:
            yield fact(Topic.READ, explain_reading(self.reading), str(self.reading))
        if self.ledger is not None:
            yield fact(Topic.LEDGER, f"entered as {self.ledger}")

    def _privacy_fact(self) -> Fact:
        words = explain_privacy(self.privacy, self.max_keys, self.unit)
        brief = f"{explain_spent(self.privacy)}, for each {self.protects}"
        return fact(Topic.PRIVACY, words, brief)

    @property
    def detection_threshold(self) -> int | None:
        """The lowest frequency that is reported with probability 1/2 or more, of keys that are not known; if any."""
        if self.known is not None and self.known.only:
            return 0
        return frequency_reaching(0.5, self.sampling, self.per_key)

    @property
    def protects(self) -> str:
        """The unit of privacy, in words."""
        if self.unit == "element":
            return "element"
        if self.max_keys is None:
            user = "user, with all of their keys"
        else:
            plural = "" if self.max_keys == 1 else "s"
            user = f"user with up to {self.max_keys:,} key{plural}"
        part = None if self.part is None else self.part.name
        return protected_unit(user, part)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the release, in order."""
        columns = (*self.keys, *self.numbers)
        return columns if self.known is None else (*columns, "known")

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, in order."""
        return self.kind.numbers

    # ---- properties of the kind

    @property
    def unit(self) -> str:
        """The unit of privacy: element or user."""
        return self.kind.unit

    @property
    def sampling(self) -> Sampling:
        """The sampling scheme of the keys."""
        return self.kind.sampling

    @property
    def per_key(self) -> PerKey:
        """The part of the privacy that each key has."""
        return self.kind.per_key

    @property
    def grid(self) -> int | None:
        """The grid of tokens; None if there are none."""
        return self.kind.grid

    @property
    def keys_only(self) -> bool:
        """Whether there are keys and no numbers."""
        return isinstance(self.kind, KeysOnly)

    @property
    def max_keys(self) -> int | None:
        """The contribution bound of users, if there is one."""
        return self.kind.max_keys

    @property
    def discovery(self) -> Discovery | None:
        """How keys of users without a contribution bound were found."""
        return self.kind.discovery

    @property
    def counts(self) -> Counts | None:
        """The noise of counted users."""
        return self.kind.counts

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """What was summed for each key, beside users."""
        if self.counts is None:
            return ()
        return tuple(clipped.amount for clipped in self.counts.amounts)

    # ---- JSON

    def to_json(self, rows: int) -> dict[str, Any]:
        """Return the metadata of a release with this number of rows."""
        form = {
            "format": "dpsample release",
            "version": VERSION,
            "privacy": self.privacy.to_json(),
            "unit": self.unit,
            "keys": list(self.keys),
            "rows": rows,
            "ledger": self.ledger,
            "part": self.part and self.part.to_json(),
            "reading": self.reading and self.reading.to_json(),
            "known": self.known and self.known.to_json(),
            "dpsample": self.dpsample,
        }
        form |= self.bought.to_json()
        form |= self.kind.to_json()
        if self.made_for_tests:
            form |= {"format": TEST_FORMAT, "private": False, "warning": WARNING}
        if self.per_key == self.privacy:
            del form["per_key"]
        stated = [name for name in _FIELDS if form.get(name) is not None or name == _MAY_BE_NULL]
        return {name: form[name] for name in stated}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Terms":
        """Read the terms out of a release's metadata; refuse metadata that `to_json` would not write."""
        try:
            terms = cls._read(form)
            if terms._wrote(form):
                return terms
        except DpsampleError:
            raise
        except _UNREADABLE:
            pass
        raise InvalidValue(
            "the metadata of a release must state all of its terms, as dpsample writes them", AGAIN
        )

    def _wrote(self, form: Mapping[str, Any]) -> bool:
        """Return whether `to_json` of these terms gives this metadata, apart from fields of the file."""
        rows = form["rows"]
        if type(rows) is not int or rows < 0:
            return False
        stated = {name: value for name, value in form.items() if name not in _FILE_FIELDS}
        return canonical(self.to_json(rows)) == canonical(stated)

    @classmethod
    def _read(cls, form: Mapping[str, Any]) -> "Terms":
        """Read metadata without the check that dpsample wrote them."""
        known = Known.from_json(form["known"]) if "known" in form else None
        part = Part.from_json(form["part"]) if "part" in form else None
        return cls(
            privacy=Privacy.from_json(form["privacy"]),
            keys=tuple(form["keys"]),
            kind=kind_from_json(form),
            bought=Bought.from_json(form),
            known=known,
            part=part,
            ledger=form.get("ledger"),
            reading=Reading.from_json(form["reading"]) if "reading" in form else None,
            made_for_tests=form["format"] == TEST_FORMAT,
            dpsample=form["dpsample"],
        )


def _total_fact(total: Total) -> Fact:
    """Return the fact that states a private total."""
    low, high = total.interval()
    return fact(Topic.TOTAL, explain_total(total), f"{total.value:,} (95 %: {low:,} to {high:,})")


def check_keys(keys: Iterable[str], reserved: Iterable[str]) -> tuple[str, ...]:
    """Check the names of key columns: at least one, and none that is reserved."""
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidValue(
            "a release needs at least one key column, stated by name", "name the key column"
        )
    reserved_names = [name.lower() for name in reserved]
    taken = [repr(name) for name in names if name.lower() in reserved_names]
    if taken:
        raise InvalidValue(
            f"a key column cannot be called {' or '.join(taken)}, which dpsample uses itself",
            "give it another name in the release, such as `key_as='name'`",
        )
    return names

"""Terms: the public parameters of a release, and the version of its file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dpsample.accounting.amounts import Amount
from dpsample.accounting.budget import UNITS
from dpsample.accounting.composition import check_keys_per_user
from dpsample.accounting.discovery import Counts, Discovery
from dpsample.accounting.dropped import Kept
from dpsample.accounting.gaussian import delta_within, may_be_gaussian, variance_of
from dpsample.accounting.known import Known
from dpsample.accounting.many_keys import may_hold
from dpsample.accounting.parts import Part, protected_unit
from dpsample.accounting.totals import RealizedSize, Total
from dpsample.errors import DpsampleError, InvalidValue
from dpsample.files.metadata import canonical
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.per_key import PerKey, per_key_from_json
from dpsample.scheme.renyi_steps import RenyiSteps
from dpsample.scheme.reporting import frequency_reaching
from dpsample.scheme.sampling import KeepAll, Sampling
from dpsample.scheme.tokens import check_grid

VERSION: Final = 1  # of release files
TOKEN_COLUMNS: Final = ("estimate", "low", "high", "token")  # all but the last follow from it
_NOT_TERMS: Final = ("file", "checksum", "before")  # what metadata state of the file
COUNT_COLUMNS: Final = ("estimate", "low", "high", "measured", "standard_error")  # of counted users


def _version() -> str:
    from dpsample import __version__

    return __version__


@dataclass(frozen=True)
class Terms:
    """The public parameters of a release: all that it publishes besides its rows.

    With `keys_only` there are neither tokens nor estimates; grid is None. With `discovery`, keys of
    users were found without a contribution bound; with `counts`, their numbers of users were counted in a stage of its
    own, and there are no tokens.

    `privacy` protects one element (a counted occurrence of a key, not a row of aggregated data), or one user with up to
    `max_keys` keys. `per_key` is the part of it that each key has: the privacy of the scheme by which tokens were
    drawn, on which estimates rest. `known` are keys of a public list, each of which is reported.

    >>> from dpsample import KeepAll, Privacy
    >>> terms = Terms(Privacy(1, 1e-6), KeepAll(), ("query",))
    >>> terms.columns
    ('query', 'estimate', 'low', 'high', 'token')
    >>> Terms.from_json(terms.to_json(rows=0)) == terms
    True
    """

    privacy: Privacy
    sampling: Sampling
    keys: tuple[str, ...]
    grid: int | None = 8
    keys_only: bool = False
    unit: str = "element"
    max_keys: int | None = None
    per_key: PerKey = None  # type: ignore[assignment] # by default, all of `privacy`
    size: RealizedSize | None = None
    total: Total | None = None
    dropped: Total | None = None  # keys of users beyond their contribution bound
    ledger: str | None = None
    part: Part | None = None
    discovery: Discovery | None = None
    counts: Counts | None = None
    known: Known | None = None
    dpsample: str = field(default_factory=_version, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.privacy, Privacy) or not isinstance(self.sampling, Sampling):
            raise InvalidValue(
                "a release has a Privacy and a Sampling",
                f"{type(self.privacy).__name__} and {type(self.sampling).__name__}",
                "make them first, for example Privacy(1, 1e-8) and KeepAll()",
            )
        self._check_marks()
        object.__setattr__(self, "keys", check_keys(self.keys, self.numbers))
        if self.keys_only or self.counts is not None:
            object.__setattr__(self, "grid", None)
        else:
            object.__setattr__(self, "grid", check_grid(self.grid))  # type: ignore[arg-type] # it refuses None
        if self.unit not in UNITS:
            raise InvalidValue(f"the unit of privacy is one of {', '.join(UNITS)}", repr(self.unit), "leave it out")
        object.__setattr__(self, "per_key", self.per_key or self.privacy)
        held = isinstance(self.sampling, SampleAndHold)
        if held and (self.unit != "element" or self.grid not in (None, 1) or not isinstance(self.per_key, Privacy)):
            raise InvalidValue(
                "a stream's release protects elements, each key by an epsilon and delta, with whole tokens",
                "other terms",
                "get the release again from where it was written",
            )
        self._check_budget()
        if self.known is not None:
            self._check_known()

    def _check_marks(self) -> None:
        """Refuse marks of another type: a text would count as true."""
        texts = isinstance(self.dpsample, str) and (self.ledger is None or isinstance(self.ledger, str))
        if type(self.keys_only) is not bool or not texts:
            raise InvalidValue(
                "a release says whether it has keys only, and in words which dpsample made it",
                "marks of another type",
                "get the release again from where it was written",
            )

    def _check_known(self) -> None:
        """Refuse terms that do not go together with known keys."""
        assert self.known is not None
        check_keys(self.keys, ("known",))
        tokens = self.grid is not None
        if self.sampling != KeepAll() or (self.known.added is not None) != tokens or (not tokens and not self.counts):
            raise InvalidValue(
                "known keys are not sampled, and have tokens or counts",
                "other terms",
                "get the release again from where it was written",
            )

    def _check_budget(self) -> None:
        """Refuse parts that do not add up; that k keys do is proved in `accounting.proof`, since it takes time."""
        if (self.unit == "user") != (self.max_keys is not None or self.discovery is not None):
            raise InvalidValue(
                "a release has a contribution bound, or states its discovery, if and only if it protects users",
                "one alone",
                "state both or none",
            )
        if self.max_keys is not None:
            object.__setattr__(self, "max_keys", check_keys_per_user(self.max_keys))
        if self.total is not None and self.total.unit != 1:
            raise InvalidValue("a total of elements is a whole number", "steps of another size", "state it in ones")
        if self.dropped is not None and (self.max_keys is None or self.total is None or self.dropped.unit != 1):
            raise InvalidValue(
                "a total of dropped keys is a whole number beside that of the keys that users kept",
                "other terms",
                "get the release again from where it was written",
            )
        if self.discovery is not None:
            self._check_discovery()
            return
        together, each = self.keys_privacy, self.per_key
        if together.definition is not None:
            proved = isinstance(each, Privacy) and delta_within(each, self.max_keys or 1, together) <= together.delta
            table = isinstance(each, KeyNoise) and may_be_gaussian(each, variance_of(together, self.max_keys or 1))
            add_up = proved or table
        elif isinstance(each, ComposedSteps):
            add_up = False
        elif isinstance(each, KeyNoise):
            add_up = self.max_keys is not None and may_hold(each, self.max_keys, together)
        elif isinstance(each, RenyiSteps):
            add_up = self.max_keys is not None and self.keys_only
        elif self.max_keys is None:
            add_up = each == together
        else:
            add_up = each.definition is None and each.epsilon <= together.epsilon and each.delta <= together.delta
        if not add_up:
            raise InvalidValue(
                "what keys and totals spent adds up to the privacy of the release",
                "parts that do not",
                "get the release again from where it was written",
            )

    def _check_discovery(self) -> None:
        """Refuse terms that do not belong together; that they are private is proved in `accounting.proof`."""
        fits = isinstance(self.sampling, KeepAll) and self.max_keys is None and self.size is None
        if not fits or self.keys_only != (self.counts is None) or isinstance(self.per_key, KeyNoise):
            raise InvalidValue(
                "keys that were discovered are not sampled, and are counted or keys only",
                "other terms",
                "get the release again from where it was written",
            )

    @property
    def keys_privacy(self) -> Privacy:
        """The privacy of all keys of one user together, or of the key of one element: what totals and a look left."""
        totals = (self.size and self.size.weights, self.total, self.dropped)
        bought = () if self.discovery is None else self.discovery.bought
        return self.privacy.less(part.epsilon for part in (*totals, *bought) if part)

    @property
    def kept(self) -> Kept | None:
        """How much of their keys users kept, if that was measured."""
        return None if self.total is None or self.dropped is None else Kept(self.total, self.dropped)

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
        user = "user, with all of their keys"
        if self.max_keys is not None:
            user = f"user with up to {self.max_keys:,} key{'' if self.max_keys == 1 else 's'}"
        return protected_unit(user, None if self.part is None else self.part.name)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the release, in order."""
        return (*self.keys, *self.numbers, *(() if self.known is None else ("known",)))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, in order."""
        if self.keys_only:
            return ()
        return TOKEN_COLUMNS if self.counts is None else count_columns(self.amounts)

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """What was summed for each key, beside users."""
        return () if self.counts is None else tuple(clipped.amount for clipped in self.counts.amounts)

    def to_json(self, rows: int) -> dict[str, Any]:
        """Return the metadata of a release with this number of rows."""
        optional = {
            "max_keys_per_user": self.max_keys,
            "per_key": None if self.per_key == self.privacy else self.per_key.to_json(),
            "size": self.size and self.size.to_json(),
            "total": self.total and self.total.to_json(),
            "dropped": self.dropped and self.dropped.to_json(),
            "ledger": self.ledger,
            "part": self.part and self.part.to_json(),
            "discovery": self.discovery and self.discovery.to_json(),
            "counts": self.counts and self.counts.to_json(),
            "known": self.known and self.known.to_json(),
        }
        optional = {name: value for name, value in optional.items() if value is not None}
        return {
            "format": "dpsample release",
            "version": VERSION,
            "privacy": self.privacy.to_json(),
            "unit": self.unit,
            "sampling": self.sampling.to_json(),
            "grid": self.grid,
            "keys_only": self.keys_only,
            "keys": list(self.keys),
            "rows": rows,
            **optional,
            "dpsample": self.dpsample,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Terms":
        """Read the terms out of a release's metadata; refuse what is not exactly as it would be written."""
        try:
            terms = cls._read(form)
            stated = {name: value for name, value in form.items() if name not in _NOT_TERMS}
            counted = type(form["rows"]) is int and form["rows"] >= 0
            if counted and canonical(terms.to_json(form["rows"])) == canonical(stated):
                return terms
        except DpsampleError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            pass
        raise InvalidValue(
            "a release's metadata state all of its terms, as they are written",
            "some missing, or stated otherwise",
            "get it again from where it was written",
        )

    @classmethod
    def _read(cls, form: Mapping[str, Any]) -> "Terms":
        return cls(
            privacy=Privacy.from_json(form["privacy"]),
            sampling=Sampling.from_json(form["sampling"]),
            keys=tuple(form["keys"]),
            grid=form["grid"],
            keys_only=form["keys_only"],
            unit=form["unit"],
            max_keys=form.get("max_keys_per_user"),
            per_key=per_key_from_json(form.get("per_key", form["privacy"])),
            size=RealizedSize.from_json(form["size"]) if "size" in form else None,
            total=Total.from_json(form["total"]) if "total" in form else None,
            dropped=Total.from_json(form["dropped"]) if "dropped" in form else None,
            ledger=form.get("ledger"),
            part=Part.from_json(form["part"]) if "part" in form else None,
            discovery=Discovery.from_json(form["discovery"]) if "discovery" in form else None,
            counts=Counts.from_json(form["counts"]) if "counts" in form else None,
            known=Known.from_json(form["known"]) if "known" in form else None,
            dpsample=form["dpsample"],
        )


def count_columns(amounts: Iterable[Amount] = ()) -> tuple[str, ...]:
    """Return the columns of numbers of a release of counted users, with those of amounts."""
    return (*COUNT_COLUMNS, *(name for amount in amounts for name in amount.columns))


def check_keys(keys: Iterable[str], reserved: Iterable[str]) -> tuple[str, ...]:
    """Check the names of key columns: at least one, and none that is reserved."""
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidValue("there is at least one key column, stated by name", "none", "name the key column")
    reserved = [name.lower() for name in reserved]
    taken = [name for name in names if name.lower() in reserved]
    if taken:
        raise InvalidValue(
            f"a key column cannot be called {' or '.join(reserved)}",
            ", ".join(map(repr, taken)),
            "give it another name in the release, such as key_as='name'",
        )
    return names

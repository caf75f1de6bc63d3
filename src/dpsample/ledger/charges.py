"""Charges: the cost of one release, its purpose, and whether it was confirmed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from dpsample.accounting.parts import Part
from dpsample.accounting.renyi import RenyiCurve
from dpsample.accounting.totals import SampleSize
from dpsample.exact import exact, text
from dpsample.files.metadata import canonical, sha256_of
from dpsample.ledger.file import Line
from dpsample.privacy import Privacy
from dpsample.scheme.custom import CustomSampling
from dpsample.scheme.sampling import Sampling

Status = Literal["reserved", "confirmed", "cancelled"]
_STATUS_IN_WORDS = {
    "reserved": "reserved, not confirmed",
    "confirmed": "confirmed",
    "cancelled": "cancelled, not spent",
}
# Numbers of more digits are shown to six figures.
_MOST_DIGITS = 11


@dataclass(frozen=True)
class Charge:
    """The cost of a release and its purpose: names and public parameters, no data. None stands for unknown.

    privacy   what the release spends
    unit      the unit of privacy
    release   the name of the output
    source    the public description of the data that are read
    keys      the names of the key columns
    user      the name of the column of users
    max_keys  the contribution bound
    scheme    how keys are sampled, in the form of `scheme_form`
    sample    the identity of the sample that is sanitized, which reveals nothing of its rows
    part      the part of the dataset that is read
    curve     the certified Rényi curve; without one, a Rényi ledger takes that of the worst mechanism of this privacy
    settings  the SHA-256 of the file of settings that it was run from
    """

    privacy: Privacy
    unit: str
    release: str
    source: str | None = None
    keys: tuple[str, ...] | None = None
    user: str | None = None
    max_keys: int | None = None
    scheme: Mapping[str, Any] | None = None
    sample: str | None = None
    part: Part | None = None
    curve: RenyiCurve | None = None
    settings: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a ledger's line, without those of later versions that are not stated."""
        keys = None if self.keys is None else list(self.keys)
        scheme = None if self.scheme is None else dict(self.scheme)
        form: dict[str, Any] = {
            "spent": self.privacy.to_json(),
            "unit": self.unit,
            "release": self.release,
            "source": self.source,
            "keys": keys,
            "user": self.user,
            "max_keys_per_user": self.max_keys,
            "scheme": scheme,
            "sample": self.sample,
        }
        if self.part is not None:
            form["part"] = self.part.to_json()
        if self.curve is not None:
            form["curve"] = self.curve.to_json()
        if self.settings is not None:
            form["settings"] = self.settings
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Charge":
        """Read the fields of a ledger's line back."""
        keys = form.get("keys")
        part = Part.from_json(form["part"]) if "part" in form else None
        curve = _curve_of_form(form["curve"]) if "curve" in form else None
        return cls(
            Privacy.from_json(form["spent"]),
            form["unit"],
            str(form["release"]),
            source=form.get("source"),
            keys=None if keys is None else tuple(keys),
            user=form.get("user"),
            max_keys=form.get("max_keys_per_user"),
            scheme=form.get("scheme"),
            sample=form.get("sample"),
            part=part,
            curve=curve,
            settings=form.get("settings"),
        )

    def __str__(self) -> str:
        """Return the purpose of the release in words, as far as it is known."""
        words = []
        if self.source:
            words.append(f"of {shown(self.source)}")
        if self.keys:
            names = ", ".join(self.keys)
            words.append(f"key: {shown(names)}")
        if self.user:
            words.append(f"user: {shown(self.user)}")
        if self.max_keys:
            words.append(f"up to {self.max_keys} keys per user")
        if self.scheme:
            parameters = [f"{name} {value}" for name, value in self.scheme.items()]
            words.append(f"sampled by {', '.join(parameters)}")
        if self.sample:
            words.append(f"sample {self.sample}")
        if self.part:
            words.append(f"part: {self.part}")
        if self.settings:
            words.append(f"settings {shown(str(self.settings))}")
        return "; ".join(words)


@dataclass(frozen=True)
class Entry:
    """One release in a ledger.

    charge    its cost and purpose
    time      when its cost was reserved
    hash      the SHA-256 of the line that reserved it
    status    whether it was confirmed or cancelled since
    dpsample  the version of dpsample that reserved it
    sha256    the hash of the file that was written, by `release_sha256`
    """

    charge: Charge
    time: str
    hash: str
    status: Status
    dpsample: str | None = None
    sha256: str | None = None

    @property
    def privacy(self) -> Privacy:
        """The privacy that it spent."""
        return self.charge.privacy

    @property
    def release(self) -> str:
        """The name of its output."""
        return self.charge.release

    def to_json(self) -> dict[str, Any]:
        """Return all that the ledger states of this release."""
        form = self.charge.to_json()
        privacy = form.pop("spent")
        return {
            "privacy": privacy,
            **form,
            "time": self.time,
            "dpsample": self.dpsample,
            "status": self.status,
            "sha256": self.sha256,
            "hash": self.hash,
        }

    def __str__(self) -> str:
        spent = amount(self.privacy.epsilon, self.privacy.delta)
        status = _STATUS_IN_WORDS[self.status]
        return f"{spent}  {shown(self.release)}  {shown(self.time)}  {status}"


def _curve_of_form(form: Mapping[str, Any]) -> RenyiCurve:
    """Return the curve that a line states."""
    orders = tuple(form["orders"].items())
    return _curve(form["delta"], orders)


@lru_cache(maxsize=256)  # of many lines, most have the same curve
def _curve(delta: str, orders: tuple[tuple[str, str], ...]) -> RenyiCurve:
    """Read a curve; canonical JSON sorts its orders as text."""
    ordered = sorted(orders, key=lambda stated: exact(stated[0], "an order"))
    return RenyiCurve.from_json({"delta": delta, "orders": dict(ordered)})


def scheme_form(scheme: Sampling | SampleSize) -> dict[str, Any]:
    """Return how keys are sampled, as a ledger's line states it.

    A list of probabilities q is stated by its SHA-256, and a function is only stated to be one.

    >>> from dpsample import CustomSampling, Ppswor
    >>> scheme_form(Ppswor("1e-4"))
    {'scheme': 'ppswor', 'tau': '0.0001', 'power': '1'}
    >>> scheme_form(SampleSize(1000))
    {'scheme': 'ppswor', 'size': 1000, 'power': '1', 'cap': None}
    >>> scheme_form(CustomSampling(lambda i: 1))
    {'scheme': 'custom', 'sha256': None}
    """
    if isinstance(scheme, SampleSize):
        return {
            "scheme": scheme.scheme,
            "size": scheme.size,
            "power": text(scheme.power),
            "cap": scheme.cap,
        }
    if type(scheme) is CustomSampling:
        sha256 = None
        if scheme.values is not None:
            sha256 = sha256_of(canonical(scheme.to_json()))
        return {"scheme": scheme.name, "sha256": sha256}
    return scheme.to_json()


def add_line(entries: dict[str, Entry], line: Line) -> None:
    """Enter a line into `entries`, by hash: a new release, or the end of an earlier reservation.

    Raises a ValueError or a KeyError if the line does not fit the entries before it.
    """
    form = line.form
    kind = form["kind"]
    if kind == "reserve":
        charge = Charge.from_json(form)
        time = str(form["time"])
        entries[line.hash] = Entry(charge, time, line.hash, "reserved", form.get("dpsample"))
        return
    entry = entries[form["entry"]]
    if entry.status != "reserved" or kind not in ("confirm", "cancel"):
        raise ValueError
    if kind == "confirm":
        entries[entry.hash] = replace(entry, status="confirmed", sha256=form["sha256"])
    else:
        entries[entry.hash] = replace(entry, status="cancelled")


def shown(value: str) -> str:
    """Return a text as it is, or escaped if it has characters that could command a terminal."""
    return value if value.isprintable() else ascii(value)


def amount(epsilon: Fraction, delta: Fraction) -> str:
    """Return an epsilon and a delta in words, to six figures where they are long."""
    return f"epsilon {_short(epsilon)}, delta {_short(delta)}"


def _short(value: Fraction) -> str:
    digits = text(value)
    if len(digits) <= _MOST_DIGITS:
        return digits
    return f"{float(value):.6g}"

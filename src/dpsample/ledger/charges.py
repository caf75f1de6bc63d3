"""Charges: what one release spends of a budget, on what, and what became of it."""

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


@dataclass(frozen=True)
class Charge:
    """What a release spends, and on what: names and public parameters, no data.

    `source` is the public description of what is read, `scheme` the form of `scheme_form`, and `sample` the
    identity of the sample that is sanitized, which tells nothing of its rows. What is not known is None.

    `part` is the part of the dataset that is read. `curve` is the certified Rényi curve; without one, a Rényi ledger
    takes that of the worst mechanism of this privacy.
    """

    privacy: Privacy
    unit: str
    release: str  # the name of the output
    source: str | None = None
    keys: tuple[str, ...] | None = None
    user: str | None = None
    max_keys: int | None = None
    scheme: Mapping[str, Any] | None = None
    sample: str | None = None
    part: Part | None = None
    curve: RenyiCurve | None = None
    settings: str | None = None  # the SHA-256 of the file of settings that it was run from

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        return {
            "spent": self.privacy.to_json(),
            "unit": self.unit,
            "release": self.release,
            "source": self.source,
            "keys": None if self.keys is None else list(self.keys),
            "user": self.user,
            "max_keys_per_user": self.max_keys,
            "scheme": None if self.scheme is None else dict(self.scheme),
            "sample": self.sample,
            **({} if self.part is None else {"part": self.part.to_json()}),
            **({} if self.curve is None else {"curve": self.curve.to_json()}),
            **({} if self.settings is None else {"settings": self.settings}),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Charge":
        """Read the fields of a line."""
        return cls(
            Privacy.from_json(form["spent"]),
            form["unit"],
            str(form["release"]),
            form.get("source"),
            None if form.get("keys") is None else tuple(form["keys"]),
            form.get("user"),
            form.get("max_keys_per_user"),
            form.get("scheme"),
            form.get("sample"),
            Part.from_json(form["part"]) if "part" in form else None,
            _curve(form["curve"]["delta"], tuple(form["curve"]["orders"].items()))
            if "curve" in form
            else None,
            form.get("settings"),
        )

    def __str__(self) -> str:
        """What the budget is spent on, as far as it is known."""
        parts = [
            self.source and f"of {shown(self.source)}",
            self.keys and f"key: {shown(', '.join(self.keys))}",
            self.user and f"user: {shown(self.user)}",
            self.max_keys and f"up to {self.max_keys} keys per user",
            self.scheme
            and "sampled by " + ", ".join(f"{name} {value}" for name, value in self.scheme.items()),
            self.sample and f"sample {self.sample}",
            self.part and f"part: {self.part}",
            self.settings and f"settings {shown(str(self.settings))}",
        ]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True)
class Entry:
    """One release: what it spent, when, the hash of its line, and what became of it."""

    charge: Charge
    time: str
    hash: str
    status: Status
    dpsample: str | None = None
    sha256: str | None = None  # of the file that was written, see `release_sha256`

    @property
    def privacy(self) -> Privacy:
        """What it spent."""
        return self.charge.privacy

    @property
    def release(self) -> str:
        """The name of its output."""
        return self.charge.release

    def to_json(self) -> dict[str, Any]:
        """Return all that the ledger states of it."""
        form = self.charge.to_json()
        return {
            "privacy": form.pop("spent"),
            **form,
            "time": self.time,
            "dpsample": self.dpsample,
            "status": self.status,
            "sha256": self.sha256,
            "hash": self.hash,
        }

    def __str__(self) -> str:
        status = {"reserved": "reserved, not confirmed", "cancelled": "cancelled, not spent"}
        spent = amount(self.privacy.epsilon, self.privacy.delta)
        return f"{spent}  {shown(self.release)}  {shown(self.time)}  {status.get(self.status, self.status)}"


@lru_cache(maxsize=256)  # of many lines, most have the same curve
def _curve(delta: str, orders: tuple[tuple[str, str], ...]) -> RenyiCurve:
    """Read a curve; canonical JSON sorts its orders as text."""
    ordered = sorted(orders, key=lambda at: exact(at[0], "an order"))
    return RenyiCurve.from_json({"delta": delta, "orders": dict(ordered)})


def scheme_form(scheme: Sampling | SampleSize) -> dict[str, Any]:
    """State how keys are sampled, as a line does: a list of q by its SHA-256, a function by its kind alone.

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
        sha256 = None if scheme.values is None else sha256_of(canonical(scheme.to_json()))
        return {"scheme": scheme.name, "sha256": sha256}
    return scheme.to_json()


def add_line(entries: dict[str, Entry], line: Line) -> None:
    """Take a line into the entries, by their hashes: a new one, or what became of an earlier one."""
    form = line.form
    kind = form["kind"]
    if kind == "reserve":
        charge = Charge.from_json(form)
        entries[line.hash] = Entry(
            charge, str(form["time"]), line.hash, "reserved", form.get("dpsample")
        )
        return
    entry = entries[form["entry"]]
    if entry.status != "reserved" or kind not in ("confirm", "cancel"):
        raise ValueError
    if kind == "confirm":
        entries[entry.hash] = replace(entry, status="confirmed", sha256=form["sha256"])
    else:
        entries[entry.hash] = replace(entry, status="cancelled")


def shown(value: str) -> str:
    """Text as it is, unless it could command a terminal."""
    return value if value.isprintable() else ascii(value)


def amount(epsilon: Fraction, delta: Fraction) -> str:
    """State an epsilon and a delta, shortened where they are long."""
    return f"epsilon {_short(epsilon)}, delta {_short(delta)}"


def _short(value: Fraction) -> str:
    digits = text(value)
    return digits if len(digits) < 12 else f"{float(value):.6g}"

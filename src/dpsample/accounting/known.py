"""Known keys: a public list of keys, each of which a release reports, even those of frequency 0.

The token of a known key is drawn as that of any other key, after public elements were added to its frequency: enough of
them that it is reported with certainty, and that its token has the same law around every frequency. The number of these
elements is then subtracted from its token. So its privacy is that of any other key (docs/theory.md, section 4), and its
token may be 0 or negative.
"""

from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue
from dpsample.exact import MAX_FREQUENCY
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.reporting import Reporting
from dpsample.scheme.sampling import KeepAll


@dataclass(frozen=True)
class Known:
    """The statement of a release about its known keys.

    keys   the number of keys of the list
    only   whether no other keys are reported
    added  the number of elements that were added to each frequency; None if users are counted with Gaussian noise
    """

    keys: int
    only: bool = False
    added: int | None = None

    def __post_init__(self) -> None:
        numbers = [self.keys] if self.added is None else [self.keys, self.added]
        are_frequencies = all(type(n) is int and 0 < n <= MAX_FREQUENCY for n in numbers)
        if not are_frequencies or type(self.only) is not bool:
            raise InvalidValue(
                "a release with known keys must state how many there are, whether there are others, and how many "
                "elements were added to each",
                "get the release again from where it was written",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        form: dict[str, Any] = {"keys": self.keys, "only": self.only}
        if self.added is not None:
            form["added"] = self.added
        return form

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Known":
        """Read the JSON form back."""
        return cls(form["keys"], form["only"], form.get("added"))

    def __str__(self) -> str:
        plural = "" if self.keys == 1 else "s"
        listed = f"{self.keys:,} key{plural} of a public list"
        return f"{listed}, and no others" if self.only else listed


def added_to_known(per_key: PerKey) -> int:
    """Return the number of elements that are added to a known key's frequency.

    From this frequency on, every key is reported, and the laws of tokens are shifts of one another.

    >>> from dpsample import Privacy
    >>> added_to_known(Privacy(1, 1e-6))
    60
    """
    return Reporting.of(KeepAll(), per_key).steady_from

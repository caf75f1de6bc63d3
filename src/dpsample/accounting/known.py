"""Known keys: what a release states of a public list of keys, each of which it reports, also with 0.

A known key is drawn as any other, with so many public elements added to its frequency that it is reported with
certainty, and that its token has the same law around every frequency. These elements are then taken off its token. So
its privacy is that of any other key (docs/theory.md, section 4), and its token may be 0 or negative.
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
    """A list of known keys: how many there are, whether no others are reported, and what is added to each frequency.

    `added` is None where users are counted in a stage of its own.
    """

    keys: int
    only: bool = False
    added: int | None = None

    def __post_init__(self) -> None:
        numbers = [self.keys, *([] if self.added is None else [self.added])]
        if (
            not all(type(n) is int and 0 < n <= MAX_FREQUENCY for n in numbers)
            or type(self.only) is not bool
        ):
            raise InvalidValue(
                "a list of known keys states its number of keys, and what is added to their frequencies",
                "something else",
                "get the release again from where it was written",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the exact JSON form."""
        return {
            "keys": self.keys,
            "only": self.only,
            **({} if self.added is None else {"added": self.added}),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Known":
        """Read the JSON form back."""
        return cls(form["keys"], form["only"], form.get("added"))

    def __str__(self) -> str:
        listed = f"{self.keys:,} key{'' if self.keys == 1 else 's'} of a public list"
        return f"{listed}, and no others" if self.only else listed


def added_to_known(per_key: PerKey) -> int:
    """Return how many elements are added to a known key's frequency: all rows from there on are shifts of one another.

    >>> from dpsample import Privacy
    >>> added_to_known(Privacy(1, 1e-6))
    60
    """
    return Reporting.of(KeepAll(), per_key).steady_from

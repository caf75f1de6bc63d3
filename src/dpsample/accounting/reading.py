"""What a release read of each row: how its keys were computed, and which rows counted.

A key may be an expression of the columns of one row, and a filter a condition on them. Each row gives one key at most,
whatever the other rows are. So one element, or one user, more in the data is one more among what is read, and all
proofs hold for that. Both are public: they are chosen without looking at the data, and every release states them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsample.errors import InvalidValue


@dataclass(frozen=True)
class Reading:
    """The expressions of keys that are no columns, by the names of the keys; and the condition on rows, if any.

    >>> print(Reading({"query": "lower(query)"}, "country = 'DE'"))
    query = lower(query), of the rows where country = 'DE'
    """

    keys: Mapping[str, str]
    filter: str | None = None

    def __post_init__(self) -> None:
        texts = [*self.keys, *self.keys.values()]
        if self.filter is not None:
            texts.append(self.filter)
        if not texts or not all(isinstance(text, str) and text for text in texts):
            raise InvalidValue(
                "a release states computed keys and a filter as text",
                "get it again from where it was written",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        form: dict[str, Any] = {}
        if self.keys:
            form["keys"] = dict(self.keys)
        if self.filter is not None:
            form["filter"] = self.filter
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Reading":
        """Read the JSON form back."""
        return cls(dict(form.get("keys", {})), form.get("filter"))

    def __str__(self) -> str:
        written = ", ".join(f"{name} = {expression}" for name, expression in self.keys.items())
        if self.filter is not None:
            rows = f"the rows where {self.filter}"
            written = f"{written}, of {rows}" if written else rows
        return written if written.isprintable() else ascii(written)  # it could command a terminal

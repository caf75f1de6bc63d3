"""What only the publisher knows: the title of a report, what the data are, the date, and whom to ask."""

import datetime
import re
from dataclasses import dataclass

from dpsample.errors import InvalidValue

_MAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII)
_WEB = re.compile(r"https://[\w./~-]+", re.ASCII)


@dataclass(frozen=True)
class Statement:
    """What the publisher states. What is None is left out, and the title is then that of the key columns.

    >>> Statement(title="Queries", date="2026-02-30")
    Traceback (most recent call last):
    ...
    dpsample.errors.InvalidValue: date must be a day, as YYYY-MM-DD, not '2026-02-30'; state one, or leave date out
    """

    title: str | None = None
    about: str | None = None
    contact: str | None = None
    date: str | datetime.date | None = None

    def __post_init__(self) -> None:
        for name in ("title", "about", "contact"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value.strip()):
                found = "an empty text" if isinstance(value, str) else type(value).__name__
                raise InvalidValue(
                    f"{name} must be a text, not {found}", f"state one, or leave {name} out"
                )
        try:
            if self.date is not None:
                datetime.date.fromisoformat(str(self.date))
        except ValueError:
            raise InvalidValue(
                f"date must be a day, as YYYY-MM-DD, not {self.date!r}",
                "state one, or leave date out",
            ) from None

    @property
    def paragraphs(self) -> list[str]:
        """The description; an empty line begins a new paragraph."""
        parts = re.split(r"\n\s*\n", self.about or "")
        return [" ".join(part.split()) for part in parts if part.strip()]

    @property
    def link(self) -> str | None:
        """The address of the contact, if it is one of mail or of the web.

        >>> [Statement(contact=contact).link for contact in ("a@b.org", "https://b.org/a", "javascript:a", "Room 5")]
        ['mailto:a@b.org', 'https://b.org/a', None, None]
        """
        contact = self.contact or ""
        if _MAIL.fullmatch(contact):
            return f"mailto:{contact}"
        return contact if _WEB.fullmatch(contact) else None

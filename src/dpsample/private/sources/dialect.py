"""How CSV and TSV are written, where that is not the usual way: four options of a `Source`.

They are stated by the caller and never guessed: a guess would depend on private rows.
"""

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TextIO

from dpsample.errors import InvalidValue, attempt

TEXT_OPTIONS: Final = ("delimiter", "encoding", "header", "null")
SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

# Characters that are read at a time; more would take memory and no less time.
_CHUNK = 1 << 20
# These characters end a field or a row, or begin a quoted field.
_UNQUOTED = frozenset('"\r\n\0')


@dataclass(frozen=True)
class Dialect:
    """How a text file with columns is written."""

    delimiter: str
    encoding: str | None  # None is UTF-8
    header: bool  # whether the first line has the names of the columns
    nulls: tuple[str, ...]  # texts without quotes that stand for NULL, beside the empty one

    @classmethod
    def of(cls, options: Mapping[str, Any], usual_delimiter: str) -> "Dialect":
        """Return the dialect that the options of a source state."""
        return cls(
            delimiter=options.get("delimiter") or usual_delimiter,
            encoding=options.get("encoding"),
            header=options.get("header", True),
            nulls=tuple(options.get("null", ())),
        )


def checked_nulls(options: Mapping[str, Any]) -> list[str]:
    """Check the options of CSV; return the texts that stand for NULL, beside the empty one.

    >>> checked_nulls({"delimiter": ";", "null": "NA"})
    ['NA']
    >>> checked_nulls({"delimiter": ";;"})
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: delimiter must be one character, and no quote, line end or letter; write one such as \
delimiter=';'
    """
    delimiter = options.get("delimiter")
    if delimiter is not None and not _is_delimiter(delimiter):
        raise InvalidValue(
            "`delimiter` must be one character, and no quote, line end or letter",
            "write one such as `delimiter=';'`",
        )
    encoding = options.get("encoding")
    if encoding is not None:
        _check_encoding(encoding)
    stated = options.get("null", ())
    nulls = [stated] if isinstance(stated, str) else list(stated)
    forbidden = _UNQUOTED | set(delimiter or ",\t")
    for text in nulls:
        if not isinstance(text, str) or not text or forbidden & set(text):
            raise InvalidValue(
                "`null` must be text without quotes, line ends and delimiters",
                "write one or several, such as `null='NA'`",
            )
    return nulls


def _is_delimiter(value: Any) -> bool:
    is_character = isinstance(value, str) and len(value) == 1
    return is_character and value not in _UNQUOTED and not value.isalnum()


def _check_encoding(encoding: Any) -> None:
    """Refuse what is not the name of an encoding of text that Python knows."""
    unknown = InvalidValue(
        f"`encoding` must be a name that Python knows, not {encoding!r}",
        "write one such as `encoding='latin-1'`, 'cp1252' or 'utf-16'",
    )
    known: Any = attempt(
        lambda: codecs.lookup(encoding), unknown, LookupError, TypeError, ValueError
    )
    if not known._is_text_encoding:
        raise unknown


def is_recoded(encoding: str | None) -> bool:
    """Whether files of this encoding must be copied into UTF-8 before DuckDB reads them."""
    if encoding is None:
        return False
    return codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig")


def decoded(file: TextIO, path: str, encoding: str) -> Iterator[str]:
    """Yield the text of an open file in chunks; a file in another encoding than the stated one is refused."""
    refusal = InvalidValue(
        f"{path!r} is not in the encoding {encoding} that was stated",
        "state another, or write the file anew in UTF-8",
    )
    while chunk := attempt(lambda: file.read(_CHUNK), refusal, UnicodeError):
        yield chunk

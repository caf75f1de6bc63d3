"""How CSV and TSV are written, where that is not the usual way: four options of a `Source`.

They are stated by the caller and never guessed: a guess would depend on private rows.
"""

import codecs
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from dpsample.errors import InvalidValue, attempt

TEXT_OPTIONS: Final = ("delimiter", "encoding", "header", "null")
SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_CHUNK = 1 << 20  # characters that are read at a time
_UNQUOTED = frozenset(
    '"\r\n\0'
)  # characters that end a field or a row, or that begin a quoted field


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
    delimiter, encoding = options.get("delimiter"), options.get("encoding")
    if delimiter is not None and not _separates(delimiter):
        raise InvalidValue(
            "`delimiter` must be one character, and no quote, line end or letter",
            "write one such as `delimiter=';'`",
        )
    if encoding is not None:
        _check_encoding(encoding)
    stated = options.get("null", ())
    nulls = [stated] if isinstance(stated, str) else list(stated)
    outside = {*_UNQUOTED, *(delimiter or ",\t")}
    if not all(isinstance(text, str) and text and not outside & set(text) for text in nulls):
        raise InvalidValue(
            "`null` must be text without quotes, line ends and delimiters",
            "write one or several, such as `null='NA'`",
        )
    return nulls


def _separates(delimiter: Any) -> bool:
    single = isinstance(delimiter, str) and len(delimiter) == 1
    return single and delimiter not in _UNQUOTED and not delimiter.isalnum()


def _check_encoding(encoding: Any) -> None:
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
    """Whether files of this encoding are to be written anew in UTF-8."""
    return encoding is not None and codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig")


def decoded(file: TextIO, path: str, encoding: str) -> Iterator[str]:
    """Yield the text of a file that is open; text in another encoding is refused."""
    refusal = InvalidValue(
        f"{path!r} is not in the encoding {encoding} that was stated",
        "state another, or write the file anew in UTF-8",
    )
    while chunk := attempt(lambda: file.read(_CHUNK), refusal, UnicodeError):
        yield chunk

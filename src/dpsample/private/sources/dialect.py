"""Dialect: how CSV and TSV are written, where that is not the usual way.

It is stated by the caller, never guessed: what a guess sees is private.
"""

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from dpsample.errors import InvalidValue, attempt

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_CHUNK = 1 << 20  # characters that are read at a time


@dataclass(frozen=True)
class Dialect:
    """How CSV and TSV are written: arguments of a `Source`; by default UTF-8 with a header line.

    >>> Dialect(delimiter=";", null="NA").stated
    {'delimiter': ';', 'null': ['NA']}
    >>> Dialect(delimiter=";;")
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: a delimiter is one character, and no quote, line end or letter; found 2 characters; \
write one such as delimiter=';'
    """

    delimiter: str | None = None  # by default a comma, or for TSV a tab
    encoding: str | None = None  # a name that Python knows
    header: bool = True  # without one, columns are called column0, column1, ...
    null: str | Sequence[str] = ()  # texts that stand for NULL if they are not in quotes, beside the empty one

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            single = isinstance(self.delimiter, str) and len(self.delimiter) == 1
            if not single or self.delimiter in '"\r\n\0' or self.delimiter.isalnum():
                found = f"{len(self.delimiter)} characters" if isinstance(self.delimiter, str) else "no text"
                raise InvalidValue(
                    "a delimiter is one character, and no quote, line end or letter",
                    repr(self.delimiter) if single else found,
                    "write one such as delimiter=';'",
                )
        if self.encoding is not None:
            unknown = InvalidValue(
                "an encoding is a name that Python knows",
                repr(self.encoding),
                "write one such as encoding='latin-1', 'cp1252' or 'utf-16'",
            )
            known: Any = attempt(lambda: codecs.lookup(self.encoding), unknown, LookupError, TypeError, ValueError)  # type: ignore[arg-type]
            if not known._is_text_encoding:
                raise unknown
        null = (self.null,) if isinstance(self.null, str) else tuple(self.null)
        outside = {*'"\r\n\0', *(self.delimiter or ",\t")}
        if not all(isinstance(text, str) and text and not outside & set(text) for text in null):
            raise InvalidValue(
                "a null is a text without quotes, line ends and delimiters, beside the empty one",
                "another",
                "write one such as null='NA'",
            )
        object.__setattr__(self, "null", null)

    @property
    def stated(self) -> dict[str, Any]:
        """What is not as usual, by the name of the argument."""
        usual = {"delimiter": None, "encoding": None, "header": True, "null": ()}
        stated = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}

    @property
    def recoded(self) -> bool:
        """Whether files are in another encoding than UTF-8."""
        return self.encoding is not None and codecs.lookup(self.encoding).name not in ("utf-8", "utf-8-sig")


def decoded(file: TextIO, path: str, encoding: str) -> Iterator[str]:
    """Yield the text of a file that is open; what is not in its encoding is refused."""
    refusal = InvalidValue(
        f"{path!r} must be in the encoding that was stated",
        f"what is no {encoding}",
        "state another encoding, or write the file anew in UTF-8",
    )
    while chunk := attempt(lambda: file.read(_CHUNK), refusal, UnicodeError):
        yield chunk

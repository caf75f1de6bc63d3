"""The content of a report over several releases, as values: what they show together, and what each shows."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from dpsample.lazy import pc
from dpsample.presentation.asked import Changed, Published, Ranked, Together
from dpsample.presentation.numbers import with_interval
from dpsample.presentation.report.setting import TOP
from dpsample.presentation.report.statement import Statement
from dpsample.presentation.tables import printable
from dpsample.release.terms import Terms

_NUMBERS = ["estimate", "low", "high"]


@dataclass(frozen=True)
class SeveralSetting:
    """The options of a page over several releases, checked."""

    statement: Statement = field(default_factory=Statement)
    files: tuple[str, ...] = ()  # the names of the releases' files, if they are known
    top: int = TOP  # the number of keys in the top list


@dataclass(frozen=True)
class Known:
    """What one release says of a key: its estimate and interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return with_interval(self.value, self.low, self.high)


@dataclass(frozen=True)
class SeveralContent:
    """The content of a report over several releases."""

    setting: SeveralSetting
    together: Together
    names: tuple[str, ...]  # of the releases
    top: Ranked | None  # None for keys only
    each: list[
        list[Known | None]
    ]  # of each key of the top list, in each release; None where it was not reported
    changes: Changed | None  # from the first release to the last; None for keys only

    @property
    def terms(self) -> Terms:
        """The terms of the first release: all count the same."""
        return self.together.releases[0].terms

    @property
    def title(self) -> str:
        """The title that the publisher states, or the key columns."""
        keys = ", ".join(self.together.keys)
        return self.setting.statement.title or f"{len(self.names):,} private releases: {keys}"

    def command(self, name: str, files: Sequence[str], *words: object) -> str:
        """Return a command on some of the files."""
        return shlex.join(["dpsample", name, *files, *map(str, words)])


def several_content(
    together: Together, setting: SeveralSetting, changes: Changed | None
) -> SeveralContent:
    """Compute the content; `changes` are those from the first release to the last."""
    top = None
    each: list[list[Known | None]] = []
    if not together.releases[0].terms.keys_only:
        top = together.top(setting.top)
        by_release = [_numbers_in(release, top.groups) for release in together.releases]
        each = [list(numbers) for numbers in zip(*by_release, strict=True)]
    return SeveralContent(setting, together, _names(together, setting), top, each, changes)


def _names(together: Together, setting: SeveralSetting) -> tuple[str, ...]:
    """Return a name for each release: the value of its part, or its file's name, or its number."""
    parts = [release.terms.part for release in together.releases]
    values = [part.value for part in parts if part is not None]
    if len(values) == len(parts):
        return tuple(map(printable, values))
    if setting.files:
        stems = [PurePath(file).name.split(".")[0] for file in setting.files]
        return tuple(map(printable, stems))
    return tuple(str(number) for number in range(1, len(parts) + 1))


def _numbers_in(release: Published, keys: pa.Table) -> list[Known | None]:
    """Return what a release says of each of these keys."""
    columns = list(release.terms.keys)
    first = columns[0]
    has_first = pc.is_in(release.table[first], keys[first].combine_chunks())
    rows = release.table.filter(has_first)
    numbers = rows.select(_NUMBERS).to_pylist()
    known: dict[tuple[Any, ...], Known] = {}
    for key, row in zip(_keys_of(rows, columns), numbers, strict=True):
        known[key] = Known(row["estimate"], row["low"], row["high"])
    return [known.get(key) for key in _keys_of(keys, columns)]


def _keys_of(table: pa.Table, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """Return the keys of a table, as tuples."""
    return zip(*(table[column].to_pylist() for column in columns), strict=True)

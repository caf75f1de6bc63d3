"""The files of a source: their format, and where each of them is."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dpsample.errors import InvalidValue
from dpsample.private.sources.folders import DataFile, folder_values, shown_path
from dpsample.private.sources.formats import FORMATS, format_of
from dpsample.private.sources.inputs import expanded, identity, identity_of_uri, require_distinct
from dpsample.private.sources.stores import StoredFile, is_uri, public_uri, stored_files

if TYPE_CHECKING:
    from dpsample.private.sources.source import Source

STANDARD_INPUT: Final = "-"  # how standard input is named instead of a file


@dataclass(frozen=True)
class Listing:
    """The files of a source, which have one format; `stored` are those in stores, by their path."""

    format: str
    files: list[DataFile]
    stored: dict[str, StoredFile] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The absolute paths of files, and URIs."""
        return [file.path for file in self.files]


def listed(source: "Source") -> Listing:
    """List the files of a source, each once, and check that they have one format."""
    if source.is_standard_input:
        return Listing(
            str(source.options.get("format")),
            [DataFile(STANDARD_INPUT, "standard input", {})],
        )
    files = list[DataFile]()
    stored = dict[str, StoredFile]()
    for entry in source.entries:
        shown = source.shown_entry(entry)
        if is_uri(entry):
            for file in stored_files(entry, shown, is_data_file(source)):
                stored[file.uri] = file
                files.append(_stored_data_file(file))
        else:
            files += [
                _local_data_file(path) for path in expanded(entry, shown, is_data_file(source))
            ]
    require_distinct([_identity(file.path) for file in files])
    format = _format(source, files)
    if source.text_options and format not in ("csv", "tsv"):
        name = min(source.text_options)
        raise InvalidValue(f"`{name}` cannot be used with files of {format}", "leave it out")
    return Listing(format, files, stored)


def is_data_file(source: "Source") -> Callable[[str], bool]:
    """Return what says whether a file in a folder is read: all are if a format was stated, and else by their ending."""
    has_format = "format" in source.options
    return lambda path: has_format or format_of(path) is not None


def _local_data_file(path: str) -> DataFile:
    """Return a file on this machine; `path` begins as it was written, so that folders above it do not count."""
    absolute = os.path.abspath(path)
    return DataFile(absolute, shown_path(absolute), folder_values(path))


def _stored_data_file(file: StoredFile) -> DataFile:
    shown = shown_path(public_uri(file.uri))
    return DataFile(file.uri, shown, folder_values(file.path))


def _identity(path: str) -> object:
    return identity_of_uri(path) if is_uri(path) else identity(path)


def _format(source: "Source", files: Sequence[DataFile]) -> str:
    """Return the one format of all files: the stated one, or that of their endings."""
    stated = source.options.get("format")
    if stated is not None:
        return stated
    formats = set[str]()
    for file in files:
        format = format_of(public_uri(file.path))
        if format is None:
            raise _unknown_format(source, files)
        formats.add(format)
    if len(formats) > 1:
        raise InvalidValue(
            f"the files are of several formats: {' and '.join(sorted(formats))}",
            "release those of each format separately",
        )
    return formats.pop()


def _unknown_format(source: "Source", files: Sequence[DataFile]) -> InvalidValue:
    """Return the refusal of files of which at least one has no known ending."""
    endings = list[str]()
    for format in FORMATS.values():
        endings += format.endings
    remedy = "name the format, such as `format='csv'`"
    if any(file.path.lower().endswith(".json") for file in files):
        remedy = "write an array of JSON as an object on each line, as with jq -c '.[]', and state `format='jsonl'`"
    problem = f"a file at {source.location} has none of the extensions {', '.join(endings)}"
    return InvalidValue(problem, remedy)

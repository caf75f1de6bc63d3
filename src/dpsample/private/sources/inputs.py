"""Input files: which files a source names, and which names are names of one file."""

import glob
import os
import posixpath
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from dpsample.errors import InvalidValue

_SAME_STORE = {  # another name of the scheme of a store -> its usual name
    "s3a": "s3",
    "s3n": "s3",
    "abfss": "abfs",
    "wasbs": "wasb",
    "gcs": "gs",
}


def expanded(
    entry: str | os.PathLike[str], shown: str, is_data: Callable[[str], bool]
) -> list[str]:
    """Return the paths of the files that a path, a folder or a glob names, which begin as it is written.

    A folder stands for its data files, also in folders inside it, without hidden ones. `shown` is the name of the entry
    in a refusal, and `is_data` says whether a file of a folder is a data file.
    """
    path = os.path.expanduser(os.fspath(entry))
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        files = [file for file in _files_inside(path) if is_data(file)]
        problem = f"there is no data file in the folder {shown}"
    elif glob.has_magic(path):
        files = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
        problem = f"no file matches {shown}"
    else:
        files = []
        problem = f"there is no file or folder at {shown}"
    if not files:
        is_of_list = shown.startswith("entry")
        keys = ", or, if these are keys, leave out key" if is_of_list else ""
        raise InvalidValue(problem, f"check the path{keys}")
    return sorted(files, key=os.path.abspath)


def _files_inside(folder: str) -> Iterator[str]:
    """Yield all files in a folder, and in folders inside it, without hidden ones."""
    for inner, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(inner, name)
            if not is_hidden(os.path.relpath(file, folder)):
                yield file


def is_hidden(path: str) -> bool:
    """Whether a file, or a folder on the way to it, has a name that begins like those of hidden ones."""
    return any(part.startswith((".", "_")) for part in PurePath(path).parts)


def identity(path: str | os.PathLike[str]) -> Hashable:
    """Return an identity of a local file that all of its names share; links and hard links are other names of it."""
    try:
        status = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return status.st_dev, status.st_ino


def local_path(uri: str) -> str | None:
    """Return the path of a file on this machine, or None if it is elsewhere.

    >>> local_path("file:///a%20b"), local_path("hdfs://node/a")
    ('/a b', None)
    """
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None


def identity_of_uri(uri: str) -> Hashable:
    """Return an identity of a file that all of its names share, wherever it is.

    >>> identity_of_uri("s3a://Bucket/a//b") == identity_of_uri("s3://bucket/a/./b")
    True
    """
    path = local_path(uri)
    if path is not None:
        return identity(path)
    parts = urlsplit(uri)
    scheme = _SAME_STORE.get(parts.scheme, parts.scheme)
    return scheme, parts.netloc.lower(), posixpath.normpath(unquote(parts.path)), parts.query


def require_distinct(identities: Iterable[Hashable]) -> None:
    """Refuse a file that is named twice."""
    named = list(identities)
    if len(set(named)) < len(named):
        raise InvalidValue(
            "a file is named twice, so that its elements would count twice",
            "look for globs or folders that overlap, and for links",
        )

"""Input files: which files a source names, and which names are names of one file."""

import glob
import os
import posixpath
from collections.abc import Callable, Hashable, Iterable
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from dpsample.errors import InvalidValue

_SAME_STORE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs"}  # two names of one store


def expanded(entry: str | os.PathLike[str], shown: str, is_data: Callable[[str], bool]) -> list[str]:
    """Return the absolute paths of the files that a path, a folder or a glob names; `shown` is its name in a refusal.

    A folder stands for its data files, also in folders inside it, without hidden ones.
    """
    path = os.path.expanduser(os.fspath(entry))
    if os.path.isfile(path):
        return [os.path.abspath(path)]
    if os.path.isdir(path):
        inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
        files = [file for file in inside if not _hidden(os.path.relpath(file, path)) and is_data(file)]
        rule, problem = "a folder must have a data file in it", f"none in {shown}"
    elif glob.has_magic(path):
        files = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
        rule, problem = "a glob must match a file", f"no match for {shown}"
    else:
        files, rule, problem = [], "a path must name a file or folder", f"nothing at {shown}"
    if not files:
        remedy = "check the path" + ("" if "'" in shown or '"' in shown else ", or, if these are keys, leave out key")
        raise InvalidValue(rule, problem, remedy)
    return sorted(map(os.path.abspath, files))


def identity(path: str | os.PathLike[str]) -> Hashable:
    """Return what all names of one local file have in common: links and hard links are other names of it."""
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
    """Return what all names of one file have in common, wherever it is.

    >>> identity_of_uri("s3a://Bucket/a//b") == identity_of_uri("s3://bucket/a/./b")
    True
    """
    path = local_path(uri)
    if path is not None:
        return identity(path)
    parts = urlsplit(uri)
    scheme = _SAME_STORE.get(parts.scheme, parts.scheme)
    return scheme, parts.netloc.lower(), posixpath.normpath(unquote(parts.path))


def require_distinct(identities: Iterable[Hashable]) -> None:
    """Refuse a file that is named twice."""
    named = list(identities)
    if len(set(named)) < len(named):
        raise InvalidValue(
            "each file is read once, or its elements would count twice",
            "a file named twice",
            "look for globs or folders that overlap, and for links",
        )


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in PurePath(path).parts)

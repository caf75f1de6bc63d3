"""Stores: files that are elsewhere, in a bucket or behind https, through Arrow's file systems and fsspec.

Credentials come from where the tools of a store look for them, such as AWS_ACCESS_KEY_ID or a profile, and never from a
URI. No message shows what a store says, since that may quote them.
"""

import errno
import fnmatch
import glob
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from dpsample.errors import DpsampleError, InvalidValue, SystemFailure, attempt
from dpsample.extras import not_installed, packages_of
from dpsample.private.sources.inputs import is_hidden

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

SCHEMES: Final = ("s3", "gs", "gcs", "abfs", "abfss", "https", "http")
# Seconds after which a store that does not answer is given up; a store that is there answers in a fraction of one.
_CONNECT = 10
_REQUEST = 60
_ATTEMPTS = 3  # of a request: a store may be busy for a moment
_CHUNK = 8 << 20  # bytes that are copied at a time
# Where the tools of a store look for credentials.
_AWS = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws, or the role of the machine"
)
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login"
_AZURE = "AZURE_STORAGE_KEY, az login, or the identity of the machine"
_WEB = "the signature of the URI, which may have expired"
_CREDENTIALS = {"s3": _AWS, "gs": _GOOGLE, "gcs": _GOOGLE, "abfs": _AZURE, "abfss": _AZURE}
_CREDENTIALS |= {"http": _WEB, "https": _WEB}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# What a message of a store has in it, in lower case, if the store refused the credentials.
_REFUSED: Final = (
    "access_denied",
    "access denied",
    "forbidden",
    "http status 403",
    "http status 401",
    "invalid_access_key_id",
    "invalidaccesskeyid",
    "signature",
    "credential",
    "permission",
    "unauthenticated",
    "unauthorized",
    "401,",
    "403,",
)


def is_uri(text: Any) -> bool:
    """Whether a text names a file in a store."""
    return isinstance(text, str) and "://" in text and text.partition("://")[0] in SCHEMES


def public_uri(uri: str) -> str:
    """Return a path or URI as it is shown: without the options of a URI of the web, which may sign it.

    >>> public_uri("https://example.org/a.csv?token=secret")
    'https://example.org/a.csv'
    """
    if not is_uri(uri) or not _is_web(uri):
        return uri
    return uri.partition("?")[0].partition("#")[0]


def check_uri(uri: str) -> None:
    """Refuse a URI that has credentials, or that would send rows in the open."""
    parts = urlsplit(uri)
    user = parts.netloc.rpartition("@")[0]
    is_container = parts.scheme.startswith("abfs") and ":" not in user
    if user and not is_container:
        raise InvalidValue(
            f"a URI that begins with {parts.scheme}:// must have no user and no password",
            f"leave them out: credentials come from {_CREDENTIALS[parts.scheme]}",
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidValue("http:// would send private data in the open", "write https://")


@dataclass(frozen=True)
class StoredFile:
    """A file in a store: its URI, and how to open it."""

    uri: str
    store: Any  # a file system of Arrow
    path: str
    size: int

    def open(self) -> "pa.NativeFile":
        """Open the file for reading at any place."""
        return _answered(lambda: self.store.open_input_file(self.path), self.uri)

    def copy_to(self, path: str) -> None:
        """Copy the file to this machine."""

        def copy() -> None:
            with self.store.open_input_file(self.path) as file, open(path, "xb") as target:
                while chunk := file.read(_CHUNK):
                    target.write(chunk)

        _answered(copy, self.uri)


def stored_files(uri: str, shown: str, is_data: Callable[[str], bool]) -> list[StoredFile]:
    """Return the files that a URI names: a file, a folder or a glob, as `inputs.expanded` explains them."""
    store = _answered(lambda: _store(uri), uri)
    if _is_web(uri):
        return [_web_file(uri, store, shown)]
    path = uri.partition("://")[2].rstrip("/")
    scheme = uri.partition("://")[0]
    path = _without_account(path)
    start = _folder_before_pattern(path)
    info = _answered(lambda: store.get_file_info(start), uri)
    if info.is_file and start == path:
        return [StoredFile(uri, store, path, info.size)]
    if not _answered(lambda: _is_there(store, start), uri):
        _require_bucket(store, start, uri)
        raise InvalidValue(f"there is no file or folder at {shown}", "check the URI")
    files = list[StoredFile]()
    for inside in _answered(lambda: _files_inside(store, start), uri):
        relative = inside.path[len(start) :].lstrip("/")
        is_chosen = is_data(inside.path) and not is_hidden(relative)
        if start != path:
            is_chosen = _matches(inside.path.split("/"), path.split("/"))
        if is_chosen:
            files.append(StoredFile(f"{scheme}://{inside.path}", store, inside.path, inside.size))
    if not files:
        what = "no file matches" if start != path else "there is no data file in the folder"
        raise InvalidValue(f"{what} {shown}", "check the URI")
    return sorted(files, key=lambda file: file.uri)


def _is_web(uri: str) -> bool:
    return uri.partition("://")[0] in ("http", "https")


def _web_file(uri: str, store: Any, shown: str) -> StoredFile:
    """Return the one file that a URI of the web names: there are no folders."""
    info = _answered(lambda: store.get_file_info(uri), uri)
    if not info.is_file:
        raise InvalidValue(f"there is no file at {shown}", "check the URI")
    return StoredFile(uri, store, uri, info.size or 0)


def _files_inside(store: Any, folder: str) -> list[Any]:
    """Return all files in a folder of a store, and in folders inside it."""
    import pyarrow.fs

    entries = store.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
    return [entry for entry in entries if entry.is_file]


def _is_there(store: Any, path: str) -> bool:
    import pyarrow.fs

    return bool(store.get_file_info(path).type != pyarrow.fs.FileType.NotFound)


def _require_bucket(store: Any, path: str, uri: str) -> None:
    """Refuse a bucket that is not there."""
    bucket = path.partition("/")[0]
    if not _answered(lambda: _is_there(store, bucket), uri):
        raise InvalidValue(
            f"there is no bucket {bucket!r}, or the credentials do not permit seeing it",
            "check its name, the region and the credentials",
        )


def _without_account(path: str) -> str:
    """Return container/path of container@account.dfs.core.windows.net/path, and any other path as it is."""
    place, slash, inside = path.partition("/")
    return place.partition("@")[0] + slash + inside


def _folder_before_pattern(path: str) -> str:
    """Return the folder in which all files that a glob matches are; a path that is no glob as it is.

    >>> _folder_before_pattern("lake/clicks/day=*/x.parquet"), _folder_before_pattern("lake/x.parquet")
    ('lake/clicks', 'lake/x.parquet')
    """
    parts = path.split("/")
    for place, part in enumerate(parts):
        if glob.has_magic(part):
            return "/".join(parts[:place])
    return path


def _matches(parts: list[str], patterns: list[str]) -> bool:
    """Whether the parts of a path match those of a glob; ``**`` stands for any number of folders.

    >>> _matches(["lake", "a", "b", "x.csv"], ["lake", "**", "*.csv"])
    True
    """
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[skipped:], patterns[1:]) for skipped in range(len(parts) + 1))
    if not parts or not fnmatch.fnmatchcase(parts[0], patterns[0]):
        return False
    return _matches(parts[1:], patterns[1:])


# ---- file systems


def _store(uri: str) -> Any:
    """Return the file system of Arrow that reads a URI."""
    scheme = uri.partition("://")[0]
    if scheme == "s3":
        return _s3(uri)
    if scheme in ("gs", "gcs"):
        return _gcs()
    if scheme in ("abfs", "abfss"):
        return _azure(uri)
    return _web()


def _s3(uri: str) -> Any:
    import pyarrow.fs

    bucket = urlsplit(uri).netloc
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = pyarrow.fs.resolve_s3_region(bucket)
    return pyarrow.fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        connect_timeout=_CONNECT,
        request_timeout=_REQUEST,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )


def _gcs() -> Any:
    import pyarrow.fs

    return pyarrow.fs.GcsFileSystem(retry_time_limit=timedelta(seconds=_REQUEST))


def _azure(uri: str) -> Any:
    """Return the file system of an account: the one in the URI, or in the environment."""
    import pyarrow.fs

    host = urlsplit(uri).netloc.partition("@")[2]
    account = host.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not account:
        raise InvalidValue(
            "the URI names no storage account",
            "write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, or set AZURE_STORAGE_ACCOUNT",
        )
    return pyarrow.fs.AzureFileSystem(account, account_key=os.environ.get("AZURE_STORAGE_KEY"))


def _web() -> Any:
    import pyarrow.fs

    fsspec = required_fsspec()
    web = attempt(lambda: fsspec.filesystem("http"), _missing_extra(), ImportError)
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(web))


def required_fsspec() -> Any:
    """Return the module fsspec, or say how to install it."""
    return attempt(lambda: importlib.import_module("fsspec"), _missing_extra(), ImportError)


def _missing_extra() -> InvalidValue:
    problem = "files in a store are read by fsspec and aiohttp; at least one is not installed"
    return not_installed(problem, *packages_of("cloud"))


def _answered(ask: Callable[[], _T], uri: str) -> _T:
    """Return what a store answers; its errors are put into words that show nothing of what it said."""
    problem: DpsampleError
    try:
        return ask()
    except DpsampleError:
        raise
    except Exception as error:  # of Arrow, fsspec, aiohttp or the system
        problem = _refusal(error, uri)
    raise problem


def _refusal(error: Exception, uri: str) -> DpsampleError:
    """Put an error of a store into words."""
    parts = urlsplit(uri)
    place = f"{parts.scheme}://{parts.hostname if _is_web(uri) else parts.netloc}"
    message = str(error).lower()
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return SystemFailure("the disk has no room left for temporary files", "free some")
    if isinstance(error, PermissionError) or any(word in message for word in _REFUSED):
        return InvalidValue(
            f"{place} did not accept the credentials",
            f"check them, and what they permit: {_CREDENTIALS[parts.scheme]}",
        )
    if isinstance(error, FileNotFoundError) or "no_such_" in message or "not found" in message:
        return InvalidValue(f"there is nothing at {place} by this name", "check the URI")
    return SystemFailure(
        f"{place} did not answer as it should ({type(error).__name__})",
        "check the name, the region and the network, and try again",
    )

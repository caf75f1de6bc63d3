"""Real data that every machine can get: how often each key occurs.

- the identifiers in the sources of Python's standard library, which are on every machine that runs this
  (`dpsample.cli.standard_library`);
- the npm package ``dependent-packages@2.2.2``: key is a package, an element is another package that depends on it.
  926,384 elements, 80,340 keys. It is not part of dpsample: `npm pack` fetches it once into a cache,
  ``dpsample`` in the user's cache folder or the folder that DPSAMPLE_CACHE names. The recipe, by hand:

      mkdir -p ~/.cache/dpsample && cd ~/.cache/dpsample && npm pack dependent-packages@2.2.2

Both are public, so what is shown of them needs no privacy.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from dpsample.cli.standard_library import standard_library
from dpsample.errors import DpsampleError
from dpsample.files import cache_folder
from paper.reported import Spread, spread

LIBRARY, NPM = "Python’s standard library", "npm dependencies"
PACKAGE, FILE = "dependent-packages@2.2.2", "dependent-packages-2.2.2.tgz"
_SHA256 = "31fcbe7a4b5f11eddb2aaca15406b375f01be1f8d1e55dc25de8e5b5b03c9970"
_SECONDS = 120


class Unavailable(DpsampleError):  # noqa: N818 - named for what is wrong
    """A data set that this machine does not have and cannot get."""


def library() -> Spread:
    """Return the number of identifiers of the standard library for each frequency."""
    return _counted(standard_library()["word"])


def npm(fetch: bool = True) -> Spread:
    """Return the number of npm packages for each number of dependents; fetches them into the cache if necessary."""
    package = cache_folder() / FILE
    if not package.exists():
        if not fetch:
            raise Unavailable(f"{PACKAGE} is not in the cache")
        _fetch(package)
    try:
        content = package.read_bytes()
    except OSError:
        raise Unavailable(f"{FILE} in the cache cannot be read") from None
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise Unavailable(f"{FILE} in the cache is not the known file; remove it")
    counted = package.with_suffix(".json")  # reading 80,340 small files takes seconds: once is enough
    try:
        return {int(i): int(n) for i, n in json.loads(counted.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        dependents = spread(_dependents(package))
        with contextlib.suppress(Unavailable):
            _put(counted, json.dumps(dependents).encode())
        return dependents


def _counted(keys: pa.ChunkedArray) -> Spread:
    return spread(keys.value_counts().field("counts").to_numpy())


def _fetch(package: Path) -> None:
    program = shutil.which("npm")
    if program is None:
        raise Unavailable("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "pack", PACKAGE, "--pack-destination", folder, "--ignore-scripts", "--silent"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_SECONDS)
            content = (Path(folder) / FILE).read_bytes()
        except (OSError, subprocess.SubprocessError):
            raise Unavailable(f"npm pack {PACKAGE} failed") from None
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise Unavailable(f"npm pack {PACKAGE} brought another file than the known one")
    _put(package, content)


def _dependents(package: Path) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return the number of dependents of each package: an inner archive has a file with a list for each."""
    with tarfile.open(package) as outer:
        inner = outer.extractfile("package/dependents.tgz")
        assert inner is not None
        with tarfile.open(fileobj=inner) as lists:
            files = (lists.extractfile(member) for member in lists if member.isfile())
            return np.array([len(json.load(file)) for file in files if file is not None], np.int64)


def _put(path: Path, content: bytes) -> None:
    """Write a file of the cache atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpsample-", suffix=".tmp", delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        raise Unavailable("the cache cannot be written; set DPSAMPLE_CACHE") from None

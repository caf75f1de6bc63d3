"""Extras: packages that some features need, and the refusal to work without them.

dpsample may not be on a package index, and a clone may be anywhere, so 'dpsample[spark]' might install nothing. A
refusal names the packages themselves, which pip installs from any folder.
"""

import re
import shlex
from importlib import metadata

from dpsample.errors import InvalidValue


def not_installed(problem: str, *packages: str) -> InvalidValue:
    """Return the refusal of a feature whose packages are not installed.

    >>> print(not_installed("charts need Altair", "altair>=5.5"))
    charts need Altair; run: pip install 'altair>=5.5'
    """
    named = " ".join(map(shlex.quote, packages))
    return InvalidValue(problem, f"run: pip install {named}")


def packages_of(extra: str) -> tuple[str, ...]:
    """Return the packages of an extra, as the metadata of dpsample require them.

    Without metadata, where dpsample is only on the path, the result is the extra of the clone in this folder.

    >>> packages_of("spark")
    ('pyspark>=3.5', 'pandas>=2.2')
    """
    try:
        required = metadata.requires("dpsample") or []
    except metadata.PackageNotFoundError:
        return (f".[{extra}]",)
    condition = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    packages = []
    for requirement in required:
        package, _, marker = requirement.partition(";")
        if condition.fullmatch(marker.strip()):
            packages.append(package.strip())
    return tuple(packages) or (f".[{extra}]",)

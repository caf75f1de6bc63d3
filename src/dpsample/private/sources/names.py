"""Names of key columns: in the source, and in samples and releases."""

from collections.abc import Sequence
from typing import Final

from dpsample.errors import InvalidValue
from dpsample.private.sources.computed import is_computed
from dpsample.private.sources.kinds import Kind

# Columns that samples and releases have of their own. A key column with such a name would hide one of them.
RESERVED: Final = ("frequency", "token", "estimate")


def key_names(key: str | Sequence[str] | None, kind: Kind) -> tuple[str, ...]:
    """Return the names of the key columns in the source, checked; Python objects need none."""
    if key is None and kind in ("mapping", "keys"):
        return ("key",)
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        problem = "`key` must be the name of a column, or of several"
        raise InvalidValue(problem, "write `key='name'`")
    _check_distinct(names)
    return names


def _check_distinct(names: Sequence[str]) -> None:
    """Refuse a column that is named twice, also if only its case differs: databases do not tell these apart."""
    lower = [name.lower() for name in names]
    for place, name in enumerate(names):
        if lower[place] in lower[:place]:
            raise InvalidValue(f"the key has the column {name!r} twice", "name each column once")


def public_names(
    columns: tuple[str, ...], key_as: str | Sequence[str] | None, kind: Kind
) -> tuple[str, ...]:
    """Return the names of the key columns in samples and releases: those of `key_as`, or their own."""
    if key_as is not None and kind in ("mapping", "keys"):
        problem = "`key_as` cannot be used with a mapping or an iterable of keys"
        raise InvalidValue(problem, "name them by key alone")
    names = columns if key_as is None else key_names(key_as, kind)
    if len(names) != len(columns):
        raise InvalidValue(
            f"`key_as` has {len(names)} names for {len(columns)} key columns",
            "write one name for each column",
        )
    for name in names:
        if is_computed(name):
            problem = f"the name {name!r} of a key is written like an expression with a name"
            raise InvalidValue(problem, "choose one without AS")
        if name.lower() in RESERVED:
            raise InvalidValue(
                f"the key column {name!r} is called like a column that samples and releases have of their own",
                "give it another name there, such as `key_as='name'`",
            )
    return names

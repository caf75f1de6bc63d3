"""Terms for tests: the kind of a release follows from what is stated."""

from __future__ import annotations

from typing import Any

from dpsample import KeepAll, Privacy
from dpsample.release.bought import Bought
from dpsample.release.kinds import Counted, Held, KeysOnly, Kind, Tokens
from dpsample.release.terms import Terms
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.sampling import Sampling

_OF_KIND = ("sampling", "grid", "keys_only", "max_keys", "per_key", "discovery", "counts")
_BOUGHT = ("size", "total", "dropped")
_OF_ALL = ("known", "part", "ledger")


def stated_terms(
    privacy: Privacy,
    sampling: Sampling | None = None,
    keys: tuple[str, ...] | str = ("key",),
    grid: int | None = 8,
    **stated: Any,
) -> Terms:
    """Return terms of the kind that these values state; each key has all of the privacy unless `per_key` is stated."""
    values = {**dict.fromkeys(_OF_KIND), "sampling": sampling or KeepAll(), "grid": grid, **stated}
    values["per_key"] = values["per_key"] or privacy
    bought = Bought(*(values.pop(name, None) for name in _BOUGHT))
    beside = {name: values.pop(name, None) for name in _OF_ALL}
    return Terms(privacy, keys, _kind(**values), bought, **beside)  # type: ignore[arg-type] # one name is welcome


def restated(terms: Terms, **changes: Any) -> Terms:
    """Return the same terms but for these values."""
    names = ("privacy", "keys", *_OF_KIND, *_OF_ALL)
    stated = {name: getattr(terms, name) for name in names}
    stated |= {name: getattr(terms.bought, name) for name in _BOUGHT}
    return stated_terms(**{**stated, **changes})


def _kind(
    *, sampling: Sampling, per_key: Any, grid: Any, keys_only: Any, max_keys: Any, discovery: Any, counts: Any
) -> Kind:
    if counts is not None:
        return Counted(sampling, per_key, discovery, counts)
    if keys_only:
        return KeysOnly(sampling, per_key, max_keys, discovery)
    if isinstance(sampling, SampleAndHold) and max_keys is None:
        return Held(sampling, per_key)
    return Tokens(sampling, per_key, grid, max_keys)

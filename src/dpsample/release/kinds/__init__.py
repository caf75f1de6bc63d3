"""The kinds of a release: which numbers each key has, and how keys were drawn.

tokens     `Tokens`: each key has a token, from which its estimate follows
keys_only  `KeysOnly`: there are keys and no numbers
counted    `Counted`: the users of each key were counted in a stage of their own, and amounts were summed
held       `Held`: each key has a token, and was counted along a stream once it was held
kind       the base class of the kinds, and the checks that they share

Elements and users fall under these four as follows. A kind protects elements unless it states how keys of users were
found. Users with a contribution bound count once in each key that they keep: such a release has tokens or keys only,
and states the bound as `max_keys`. Users without a bound give keys in a stage of its own: such a release has keys only,
or is counted, and states its `discovery`. Known keys are a value beside the kind, `Terms.known`. A release with tokens
may have known keys among others, or alone. A release of users without a bound that has known keys is counted; with
known keys alone it is counted, and its method of discovery is "none".
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from dpsample.release.kinds.counted import Counted
from dpsample.release.kinds.held import Held
from dpsample.release.kinds.keys_only import KeysOnly
from dpsample.release.kinds.tokens import Tokens
from dpsample.scheme.holding import SampleAndHold
from dpsample.scheme.per_key import PerKey
from dpsample.scheme.sampling import Sampling
from dpsample.scheme.tokens import chosen_grid

__all__ = ["Counted", "Held", "KeysOnly", "Kind", "Tokens", "kind_from_json", "kind_with_tokens"]

Kind: TypeAlias = Tokens | KeysOnly | Counted | Held


def kind_from_json(form: Mapping[str, Any]) -> Kind:
    """Read the kind of a release back from its metadata."""
    if "counts" in form:
        return Counted.from_json(form)
    if form["keys_only"]:
        return KeysOnly.from_json(form)
    if form["sampling"]["scheme"] == SampleAndHold.name:
        return Held.from_json(form)
    return Tokens.from_json(form)


def kind_with_tokens(
    sampling: Sampling, per_key: PerKey, grid: int | None = None, max_keys: int | None = None
) -> Kind:
    """Return the kind of a release with tokens, by its sampling scheme; the default grid fits `per_key`."""
    grid = chosen_grid(grid, per_key, sampling=sampling)
    if isinstance(sampling, SampleAndHold) and max_keys is None:
        return Held(sampling, per_key)
    return Tokens(sampling, per_key, grid, max_keys)

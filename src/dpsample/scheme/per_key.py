"""What each key of a user has of the privacy: an (epsilon, delta), bounded noise, or steps."""

from typing import Any, TypeAlias

from dpsample.errors import InvalidValue
from dpsample.privacy import Privacy
from dpsample.scheme.composed_steps import ComposedSteps
from dpsample.scheme.noise import KeyNoise
from dpsample.scheme.renyi_steps import RenyiSteps

ManyKeys: TypeAlias = Privacy | KeyNoise | RenyiSteps  # for up to k keys of one user
PerKey: TypeAlias = ManyKeys | ComposedSteps

_METHODS: dict[str, type[KeyNoise | RenyiSteps | ComposedSteps]] = {
    KeyNoise.name: KeyNoise,
    RenyiSteps.name: RenyiSteps,
    ComposedSteps.name: ComposedSteps,
}


def per_key_from_json(form: dict[str, Any]) -> PerKey:
    """Read the JSON form of any of them back.

    >>> per_key_from_json(KeyNoise.of([1, 2, 1]).to_json()).cells
    3
    """
    if not isinstance(form, dict) or "method" not in form:
        return Privacy.from_json(form)
    name = form["method"]
    if name not in _METHODS:
        raise InvalidValue(
            f"keys are drawn with an epsilon and delta, or by one of {', '.join(_METHODS)}, not by {name!r}",
            "upgrade dpsample",
        )
    return _METHODS[name].from_json(form)

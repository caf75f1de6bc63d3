"""Privacy: how much one element, or one user, may change what is published. (epsilon, delta), zCDP or GDP."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dpsample.definitions import DEFINITIONS, LEAST_EPSILON, Definition, Gdp, Zcdp
from dpsample.errors import InvalidValue, PrivacyWarning, warn
from dpsample.exact import Number, exact, text

# A larger epsilon has an exp(epsilon) of which floats keep no digits. Nothing is private long before that.
_MOST_EPSILON = 10**15
# A scheme with a smaller delta has probabilities that floats, whose least value is about 1e-308, cannot hold.
_LEAST_DELTA = Fraction(1, 10**200)
# Beyond these, privacy is allowed with a warning: exp(20) is 5e8, and 1 % of all elements may be exposed.
_WEAK_EPSILON = 20
_WEAK_DELTA = Fraction(1, 100)
_warned: set[str] = set()


@dataclass(frozen=True, repr=False)
class Privacy:
    """The pair (epsilon, delta) of differential privacy, exact and checked when made.

    If a budget is stated as zCDP or GDP, `definition` is that statement. It holds outside of events of probability
    delta / 2. Otherwise `definition` is None. For neighbouring datasets D and D' and every set T of outputs,
    ``Pr[output(D) in T] <= exp(epsilon) * Pr[output(D') in T] + delta``.

    >>> Privacy(epsilon=0.1, delta=1e-6)
    Privacy(epsilon='0.1', delta='1e-06')
    >>> Privacy("0.1", "1e-6") == Privacy(0.1, 1e-6)
    True
    >>> Privacy(epsilon=1, delta=0)
    Traceback (most recent call last):
      ...
    dpsample.errors.InvalidValue: delta must be above 0: with delta = 0 a release of keys would be empty, since no key \
may be reported that might be in the data because of one element; choose one well below 1 / (number of elements), \
such as 1e-8; known keys alone (only_known) lose nothing with 1e-200
    """

    epsilon: Fraction
    delta: Fraction
    definition: Definition | None = None

    def __init__(self, epsilon: Number, delta: Number) -> None:
        exact_epsilon = exact(epsilon, "epsilon")
        exact_delta = exact(delta, "delta")
        _check_range(exact_epsilon, exact_delta)
        object.__setattr__(self, "epsilon", exact_epsilon)
        object.__setattr__(self, "delta", exact_delta)
        object.__setattr__(self, "definition", None)
        _warn_if_weak(exact_epsilon, exact_delta)

    @classmethod
    def of(cls, stated: "StatedPrivacy") -> "Privacy":
        """Return a `Privacy` unchanged, or make one of a pair (epsilon, delta).

        >>> Privacy.of((1, "1e-8"))
        Privacy(epsilon='1', delta='1e-08')
        """
        if isinstance(stated, Privacy):
            return stated
        if not isinstance(stated, tuple | list) or len(stated) != 2:
            raise InvalidValue(
                f"privacy must be an epsilon and a delta, not a value of type {type(stated).__qualname__}",
                "write Privacy(epsilon=1, delta=1e-8)",
            )
        return cls(*stated)

    @classmethod
    def zcdp(cls, rho: Number, delta: Number) -> "Privacy":
        """State a budget as zero-concentrated differential privacy, to be divided among the stages of a release.

        The release has rho-zCDP outside of events of probability delta / 2. So it also has (epsilon, delta), with the
        epsilon of rho at delta / 2, rounded up.

        >>> privacy = Privacy.zcdp(rho=0.1, delta=1e-6)
        >>> print(privacy)
        zCDP with rho 0.1 outside of delta 5e-07: epsilon 2.20604636, delta 1e-06
        """
        return cls._defined(Zcdp(rho), delta)

    @classmethod
    def gdp(cls, mu: Number, delta: Number) -> "Privacy":
        """State a budget as Gaussian differential privacy, to be divided among the stages of a release.

        The release has mu-GDP outside of events of probability delta / 2. So it also has (epsilon, delta), with the
        epsilon of mu at delta / 2, rounded up.

        >>> print(Privacy.gdp(mu=0.5, delta=1e-6))
        GDP with mu 0.5 outside of delta 5e-07: epsilon 2.32749546, delta 1e-06
        """
        return cls._defined(Gdp(mu), delta)

    @classmethod
    def _defined(cls, definition: Definition, delta: Number) -> "Privacy":
        """Return the privacy of a definition that holds outside of events of probability delta / 2."""
        checked_delta = cls(1, delta).delta
        epsilon = definition.epsilon(checked_delta / 2)
        privacy = cls(epsilon, checked_delta)
        object.__setattr__(privacy, "definition", definition)
        return privacy

    @property
    def aside(self) -> Fraction:
        """The probability of events that are set aside: half of delta where a definition is stated, else delta."""
        return self.delta if self.definition is None else self.delta / 2

    def share(self, share: Fraction) -> Fraction:
        """Return the epsilon of a mechanism with delta = 0 that may spend this share of the budget.

        >>> Privacy(1, 1e-6).share(Fraction(1, 20)), float(Privacy.zcdp(1, 1e-6).share(Fraction(1, 20)))
        (Fraction(1, 20), 0.317...)
        """
        if self.definition is None:
            return self.epsilon * share
        return self.definition.pure(share)

    def less(self, epsilons: Iterable[Fraction]) -> "Privacy":
        """Return the budget that is left after mechanisms of these epsilons, each with delta = 0.

        >>> Privacy(1, 1e-6).less([Fraction(1, 20)])
        Privacy(epsilon='0.95', delta='1e-06')
        >>> Privacy.zcdp(1, 1e-6).less([Fraction(1, 20)])
        Privacy.zcdp(rho='0.99875026', delta='1e-06')
        """
        spent = tuple(epsilons)
        if spent and min(spent) <= 0:
            raise InvalidValue(
                "each part of a release must cost an epsilon above 0", "choose larger shares"
            )
        if self.definition is None:
            return Privacy(self.epsilon - sum(spent, Fraction(0)), self.delta)
        return Privacy._defined(self.definition.less(spent), self.delta)

    def __repr__(self) -> str:
        if self.definition is None:
            return f"Privacy(epsilon={text(self.epsilon)!r}, delta={text(self.delta)!r})"
        definition = self.definition
        parameters = f"{definition.symbol}={text(definition.value)!r}, delta={text(self.delta)!r}"
        return f"Privacy.{definition.name}({parameters})"

    def __str__(self) -> str:
        if self.definition is None:
            return repr(self)
        return (
            f"{self.definition} outside of delta {text(self.aside)}: epsilon {text(self.epsilon)}, "
            f"delta {text(self.delta)}"
        )

    def to_json(self) -> dict[str, str]:
        """Return the exact JSON form, with the parameter of a definition under its name.

        >>> Privacy(1, 1e-6).to_json()
        {'epsilon': '1', 'delta': '1e-06'}
        >>> Privacy.zcdp(0.1, 1e-6).to_json()
        {'epsilon': '2.20604636', 'delta': '1e-06', 'zcdp': '0.1'}
        """
        form = {"epsilon": text(self.epsilon), "delta": text(self.delta)}
        if self.definition is not None:
            form[self.definition.name] = text(self.definition.value)
        return form

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> "Privacy":
        """Read the JSON form back.

        >>> Privacy.from_json({"epsilon": "1", "delta": "1e-06"})
        Privacy(epsilon='1', delta='1e-06')
        >>> Privacy.from_json(Privacy.gdp(0.5, 1e-6).to_json())
        Privacy.gdp(mu='0.5', delta='1e-06')
        """
        fields = set(form) if isinstance(form, dict) else set()
        definitions = fields - {"epsilon", "delta"}
        is_complete = {"epsilon", "delta"} <= fields
        if not is_complete or len(definitions) > 1 or not definitions <= set(DEFINITIONS):
            shown = sorted(map(str, form)) if isinstance(form, dict) else type(form).__name__
            raise InvalidValue(
                f"the JSON form of Privacy must have the fields epsilon and delta, unlike {shown}",
                "write it with Privacy.to_json",
            )
        if not definitions:
            return cls(form["epsilon"], form["delta"])
        [name] = definitions
        definition = DEFINITIONS[name](form[name])
        privacy = cls._defined(definition, form["delta"])
        stated_epsilon = exact(form["epsilon"], "epsilon")
        if stated_epsilon != privacy.epsilon:
            raise InvalidValue(
                f"the epsilon of this {name} budget is {text(privacy.epsilon)}, not {text(stated_epsilon)}",
                "write it with Privacy.to_json",
            )
        return privacy


def _check_range(epsilon: Fraction, delta: Fraction) -> None:
    """Refuse an epsilon or a delta for which no scheme exists, or none that integers can hold."""
    if epsilon <= 0:
        raise InvalidValue(
            f"epsilon must be above 0, not {text(epsilon)}",
            "choose one, commonly from 0.1 to 3; smaller is more private",
        )
    if delta == 0:
        raise InvalidValue(
            "delta must be above 0: with delta = 0 a release of keys would be empty, since no key may be reported "
            "that might be in the data because of one element",
            "choose one well below 1 / (number of elements), such as 1e-8; known keys alone (`only_known`) lose "
            "nothing with 1e-200",
        )
    if not 0 < delta < 1:
        raise InvalidValue(
            f"delta must be above 0 and below 1, not {text(delta)}",
            "choose one such as 1e-8; with delta = 1 nothing is private",
        )
    if epsilon > _MOST_EPSILON:
        raise InvalidValue(
            f"epsilon must be at most 1e15, not {text(epsilon)}",
            "choose one, commonly from 0.1 to 3",
        )
    if epsilon < LEAST_EPSILON or delta < _LEAST_DELTA:
        raise InvalidValue(
            f"epsilon must be at least {text(LEAST_EPSILON)} and delta at least {text(_LEAST_DELTA)}, not "
            f"{text(epsilon)} and {text(delta)}: integers cannot hold the scheme",
            "choose larger ones; each key has a part of a user's privacy",
        )


def _warn_if_weak(epsilon: Fraction, delta: Fraction) -> None:
    if epsilon > _WEAK_EPSILON:
        _warn_once(
            f"epsilon = {text(epsilon)} is above 20: it protects next to nothing; common values are 0.1 to 3"
        )
    if delta > _WEAK_DELTA:
        _warn_once(
            f"delta = {text(delta)} is above 0.01: each element is exposed with up to that probability; "
            "choose one well below 1 / (number of elements)"
        )


def _warn_once(message: str) -> None:
    """Warn unless a warning in these words was given before in this process."""
    if message not in _warned:
        _warned.add(message)
        warn(message, PrivacyWarning)


StatedPrivacy: TypeAlias = Privacy | tuple[Number, Number]
"""Privacy as the functions of the package take it: made already, or a pair (epsilon, delta)."""

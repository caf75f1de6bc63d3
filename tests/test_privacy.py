"""Privacy(epsilon, delta): what it takes, what it refuses, and that it stays what it was."""

import dataclasses
import json
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsample import KeepAll, Privacy, PrivacyWarning
from dpsample.scheme import reporting_probabilities
from support import refused


@pytest.mark.parametrize("epsilon", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), "1/10", np.float64(0.1)], ids=repr)
@pytest.mark.parametrize("delta", [1e-6, "1e-6", "0.000001", Decimal("1e-6"), Fraction(1, 10**6)], ids=repr)
def test_every_way_to_write_a_number_is_the_same_privacy(epsilon: Any, delta: Any) -> None:
    privacy = Privacy(epsilon, delta)
    assert (privacy.epsilon, privacy.delta) == (Fraction(1, 10), Fraction(1, 10**6))
    assert privacy == Privacy(epsilon="0.1", delta="1e-6")
    assert hash(privacy) == hash(Privacy(epsilon="0.1", delta="1e-6"))


def test_the_ends_of_the_ranges_are_allowed() -> None:
    assert Privacy(20, "0.01").epsilon == 20  # and no warning, which would be an error here
    assert Privacy("1e-12", "1e-200").delta == Fraction(1, 10**200)
    with pytest.warns(PrivacyWarning):
        assert Privacy(1, "0.99").delta < 1


@pytest.mark.parametrize("values", [("1e-300", "1e-6"), (1, "1e-300"), ("9e-13", "1e-6"), (1, "9e-201")], ids=repr)
def test_what_the_integers_of_a_scheme_cannot_hold_is_refused(values: tuple[Any, Any]) -> None:
    with refused("epsilon must be at least 1e-12 and delta at least 1e-200"):
        Privacy(*values)


@pytest.mark.parametrize("values", [("1e-12", "1e-6"), (1, "1e-200"), (64, "1e-200"), (20, "1e-6")], ids=repr)
@pytest.mark.filterwarnings("ignore::dpsample.PrivacyWarning")
def test_a_scheme_exists_at_the_ends(values: tuple[Any, Any]) -> None:
    assert reporting_probabilities([1], KeepAll(), Privacy(*values))[0] == pytest.approx(float(Fraction(values[1])))


@pytest.mark.parametrize("epsilon", [0, 0.0, -0.0, "0", Fraction(0), Decimal(0), -1, -1e-300, "-1/3"], ids=repr)
def test_epsilon_must_be_above_0(epsilon: Any) -> None:
    with refused("epsilon must be above 0"):
        Privacy(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, 0.0, "0", Fraction(0), Decimal("0e-9")], ids=repr)
def test_delta_0_is_refused_with_the_reason(delta: Any) -> None:
    with refused("delta must be above 0") as refusal:
        Privacy(1, delta)
    assert "a release of keys would be empty" in str(refusal.value)


@pytest.mark.parametrize("delta", [-1e-9, -1, 1, "1.0", 1.0000001, 2, "1e300", Fraction(11, 10)], ids=repr)
def test_delta_must_be_a_probability(delta: Any) -> None:
    with refused("delta must be above 0 and below 1"):
        Privacy(1, delta)


@pytest.mark.parametrize("bad", [True, False, None, "much", "", float("nan"), float("inf"), Decimal("nan"), [1], b"1"])
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_what_is_no_number_is_refused_by_name(name: str, bad: Any) -> None:
    values: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, name: bad}
    with refused(f"{name} must be"):
        Privacy(**values)


def test_it_cannot_be_changed() -> None:
    privacy = Privacy(1, 1e-6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        privacy.epsilon = Fraction(2)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del privacy.delta


def test_different_values_are_different() -> None:
    assert len({Privacy(1, 1e-6), Privacy("1", "1e-6"), Privacy(1, 1e-7), Privacy(2, 1e-6)}) == 3
    # 0.1 + 0.2 is another float than 0.3, and so another number
    assert Privacy(0.1 + 0.2, 1e-6) != Privacy(0.3, 1e-6)


positive = st.one_of(
    st.fractions(min_value=Fraction(1, 10**12), max_value=20),
    st.decimals(min_value=Decimal("1e-12"), max_value=20, allow_nan=False).map(Fraction),
)
small = st.one_of(
    st.fractions(min_value=Fraction(1, 10**60), max_value=Fraction(1, 100), max_denominator=10**70),
    st.decimals(min_value=Decimal("1e-60"), max_value=Decimal("0.01"), allow_nan=False).map(Fraction),
    st.floats(min_value=1e-200, max_value=0.01),
)


@given(positive, small)
def test_json_and_repr_round_trip_exactly(epsilon: Fraction, delta: Fraction | float) -> None:
    privacy = Privacy(epsilon, delta)
    assert Privacy.from_json(json.loads(json.dumps(privacy.to_json()))) == privacy
    assert eval(repr(privacy), {"Privacy": Privacy}) == privacy


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"epsilon": "1"},
        {"epsilon": "1", "delta": "1e-6", "tau": "1"},
        {"Epsilon": "1", "delta": "1e-6"},
        [],
        None,
        "1",
    ],
    ids=repr,
)
def test_json_with_other_fields_is_refused(form: Any) -> None:
    with refused("the JSON form of Privacy must have the fields epsilon and delta"):
        Privacy.from_json(form)


def test_json_with_a_bad_value_is_refused() -> None:
    with refused("delta must be"):
        Privacy.from_json({"epsilon": "1", "delta": None})


@pytest.mark.parametrize(("values", "name"), [((20.001, 1e-6), "epsilon"), ((1, "0.0100001"), "delta")])
def test_weak_privacy_warns_once(values: tuple[Any, Any], name: str) -> None:
    with pytest.warns(PrivacyWarning, match=f"^{name} = ") as caught:
        Privacy(*values)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line that made it, not the library's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Privacy(*values)


def test_both_warnings_are_given() -> None:
    with pytest.warns(PrivacyWarning) as caught:
        Privacy(21, 0.5)
    assert [str(w.message).split(" = ")[0] for w in caught] == ["epsilon", "delta"]

"""Sampling by a function that files name: written, read where it is registered, and refused elsewhere."""

import copy
import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsample
import support
from dpsample import CustomSampling, Sampling
from dpsample.exact import MAX_FREQUENCY, text
from dpsample.scheme import registered as module
from dpsample.scheme.reporting import reporting_probabilities
from support import refused

NAME = "tests/rational"


def rational(i: int) -> Fraction:
    return Fraction(i, i + 30)


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A registry of this test alone; the returned dictionary is the registry."""
    names: dict[str, Any] = {}
    monkeypatch.setattr(module, "_registered", names)
    return names


def test_its_form_is_a_name_and_a_hash_of_fixed_values() -> None:
    made = dpsample.register_sampling(NAME, rational)
    at = [*range(1, 257), *(2**n for n in range(9, 63)), MAX_FREQUENCY]
    lines = "".join(f"{i} {text(rational(i))}\n" for i in at)
    assert made.to_json() == {
        "scheme": "registered",
        "function": NAME,
        "sha256": hashlib.sha256(lines.encode()).hexdigest(),
    }
    assert repr(made) == f"RegisteredSampling({NAME!r})"
    assert Sampling.from_json(json.loads(json.dumps(made.to_json()))) is made
    assert dpsample.register_sampling(NAME, lambda i: rational(i)) is made  # the same values
    np.testing.assert_array_equal(made.q([0, 1, 30, 999]), CustomSampling(rational).q([0, 1, 30, 999]))


@pytest.mark.chance("certain: terms do not depend on the coins")
def test_a_release_and_a_sample_are_written_and_read(tmp_path: Path, empty_registry: dict[str, Any]) -> None:
    made = dpsample.register_sampling(NAME, rational)
    data = {"a": 10**6, "b": 2 * 10**6}
    ledger = dpsample.new_ledger(tmp_path / "l.ledger", "d", (3, "1e-5"))
    path, keys, sampled = (str(tmp_path / name) for name in ("r.parquet", "keys.csv", "sample.parquet"))
    privacy = dpsample.Privacy(1, "1e-6")
    written = dpsample.release(data, privacy=privacy, sampling=made, ledger=tmp_path / "l.ledger")
    written.write(path)
    dpsample.release(data, privacy=privacy, sampling=made, keys_only=True).write(keys)
    dpsample.sample(data, sampling=made).write(sampled)
    read = dpsample.read_release(path)
    assert read.sampling is made
    assert read == written
    assert read.sum().value >= 0
    assert dpsample.sanitize(dpsample.read_sample(sampled), privacy=privacy).sampling is made
    assert ledger.entries == ()
    assert dpsample.read_ledger(tmp_path / "l.ledger").entries[0].charge.scheme == made.to_json()
    said = support.run("info", path, cwd=tmp_path)
    assert f"RegisteredSampling('{NAME}')" in said.stdout, said.stderr

    del empty_registry[NAME]  # another reader, who knows nothing of it
    for read_again in (lambda: dpsample.read_release(path), lambda: dpsample.read_sample(sampled)):
        with refused("must be registered where it is read"):
            read_again()
    elsewhere = support.run("info", path, cwd=tmp_path)
    assert (elsewhere.returncode, "register_sampling" in elsewhere.stderr) == (2, True)
    dpsample.register_sampling(NAME, lambda i: Fraction(i, i + 31))
    with refused("must be registered where it is read"):  # with other values
        dpsample.read_release(path)


def test_its_reporting_probabilities_are_those_of_the_same_list() -> None:
    made, i, privacy = dpsample.register_sampling(NAME, rational), np.arange(1, 200), dpsample.Privacy(1, "1e-6")
    listed = CustomSampling([rational(n) for n in range(1, 300)])
    ours, theirs = (reporting_probabilities(i, scheme, privacy) for scheme in (made, listed))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "function", "rule"),
    [
        ("", rational, "by a name"),
        (None, rational, "by a name"),
        ("a\n", rational, "by a name"),
        ("a", ["0.5"], "with a function"),
        ("a", lambda i: 2, "q must lie in [0, 1]"),
        ("a", lambda i: Fraction(1, i), "q must not decrease"),
        ("a", lambda i: 0 // (i - 2**20), "q must be a number"),
        ("a", lambda i: "0.5" if i != 9_999 else "0.4", "q must not decrease"),
        ("a", lambda i: float("nan") if i == 17 << 20 else 1, "q must be a number"),
        ("a", lambda i: 1 if i < 2**62 + 2**61 else "1.5", "q must lie in [0, 1]"),
    ],
)
def test_what_is_no_scheme_is_not_registered(
    name: Any, function: Any, rule: str, empty_registry: dict[str, Any]
) -> None:
    with refused(rule):
        dpsample.register_sampling(name, function)
    assert not empty_registry


@pytest.mark.chance("certain: no error, whatever is drawn")
@pytest.mark.parametrize("bad", ["1.5", -1, "x", float("nan"), None, Fraction(0), Fraction(1)])
def test_a_function_that_fails_at_a_frequency_of_the_data_ends_no_run(bad: Any) -> None:
    """Between checked frequencies q stays between theirs, whatever others were asked before, and in other processes."""
    checked, i = 20_480, 20_481  # 20 << 10 is checked, and next 21 << 10

    def partly(n: int) -> Any:
        if n == i:
            if bad is None:
                raise ZeroDivisionError
            return bad
        return rational(n)

    made = dpsample.register_sampling(NAME, partly)
    low, high = rational(checked), rational(21 << 10)
    expected = high if bad in ("1.5", 1) else low
    for scheme in (made, copy.copy(made)):  # a copy as in another process: it has seen nothing
        assert scheme.bounds(i, 64) == (int(expected * 2**64), -int(-expected * 2**64 // 1))
    np.testing.assert_array_equal(made.q([i - 1, i + 1]), [float(low), float(rational(i + 1))])
    if bad is None:
        result = dpsample.release({"a": i, "b": 10**6}, privacy=dpsample.Privacy(1, "1e-6"), sampling=made)
        assert set(result) <= {"a", "b"}


def test_a_name_stands_for_one_scheme() -> None:
    made = dpsample.register_sampling(NAME, rational)
    with refused("a name stands for one"):
        dpsample.register_sampling(NAME, lambda i: "0.5")
    assert Sampling.from_json(made.to_json()) is made


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"function": NAME},
        {"function": "os:system", "sha256": "0"},
        {"function": ["a"], "sha256": "0"},
        {"function": NAME, "sha256": None},
        {"function": NAME, "sha256": "0", "q": []},
    ],
)
def test_other_forms_are_refused(form: Any) -> None:
    dpsample.register_sampling(NAME, rational)
    with refused(""):
        Sampling.from_json({"scheme": "registered", **form})

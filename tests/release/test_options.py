"""Each option of a release is described once: Python, the command line and the command of a plan have the same ones."""

import inspect
import re
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsample
from dpsample import InvalidValue, KeepAll, Ppswor, Priority, Privacy, SampleSize, SoftCap, spark
from dpsample.accounting.amounts import amounts_of
from dpsample.cli.release import release as command
from dpsample.release.option_words import read_arguments, stated_values
from dpsample.release.options import ReleaseKeywords, ReleaseOptions, all_options, options_of

BUDGETS = (Privacy(1, "1e-8"), Privacy.zcdp("0.1", "1e-6"), Privacy.gdp("0.5", "1e-6"))
SCHEMES: tuple[dict[str, Any], ...] = (
    {},
    {"sampling": KeepAll(at_least=20)},
    {"sampling": Ppswor("0.01", "0.5", 50)},
    {"sampling": Ppswor("0.01", seed="public")},
    {"sampling": Priority("1e-4")},
    {"sampling": SoftCap("0.2", 20)},
    {"size": SampleSize(1000, "priority", 2, 30, "0.1")},
)


def test_every_keyword_is_a_field_or_states_one() -> None:
    named = {each.name for each in fields(ReleaseOptions)} | {option.name for option in all_options()}
    keywords = {*ReleaseKeywords.__annotations__, "privacy"}
    assert keywords - named == {"user", "drop_null", "filter"}  # of the source
    assert {each.name for each in fields(ReleaseOptions)} - keywords == {"amounts"}  # rows and sums


def test_every_keyword_is_explained() -> None:
    explained = inspect.getdoc(dpsample.release) or ""
    for name in ReleaseKeywords.__annotations__.keys() - {"settings"}:
        assert re.search(rf"\b{name}\b", explained), name


def test_every_field_has_an_option_with_help() -> None:
    for each in fields(ReleaseOptions):
        assert options_of(each.name) or each.name == "settings"
    assert all(option.help.endswith((".", "]")) for option in all_options())


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError, match="no option 'max_key_per_user'"):
        dpsample.release({"a": 1}, privacy=BUDGETS[0], max_key_per_user=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no option 'total'"):
        dpsample.sample({"a": 1}, sampling=KeepAll(), total=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="a Source has it"):
        dpsample.release({"a": 1}, privacy=BUDGETS[0], encoding="latin-1")  # type: ignore[call-arg]


def test_functions_for_clusters_refuse_unknown_keywords() -> None:
    with pytest.raises(TypeError, match="no option 'total'"):
        spark.sanitize(None, "key", privacy=BUDGETS[0], sampling=KeepAll(), total=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no option 'user'"):
        spark.stream(None, "key", tau=1, state="s", checkpoint="c", user="u")  # type: ignore[call-arg]


@given(
    privacy=st.sampled_from(BUDGETS),
    scheme=st.sampled_from(SCHEMES),
    bound=st.sampled_from([None, 1, 50]),
    total=st.sampled_from([False, True, "0.1"]),
    keys_only=st.booleans(),
)
def test_options_are_read_as_they_are_written(
    privacy: Privacy, scheme: dict[str, Any], bound: int | None, total: bool | str, keys_only: bool
) -> None:
    options = ReleaseOptions(privacy, max_keys_per_user=bound, total=total, keys_only=keys_only, **scheme)
    read = _read(options)
    assert read.total_share == options.total_share
    for name in ("privacy", "sampling", "size", "max_keys_per_user", "keys_only"):
        assert getattr(read, name) == getattr(options, name)


def test_amounts_and_discovery_are_read_as_they_are_written() -> None:
    amounts = amounts_of(5, {"price": "0:100", "tip": 20})
    options = ReleaseOptions(BUDGETS[0], discover="many-keys", count_share="0.4", amounts=amounts)
    read = _read(options, protects_users=True)
    assert (read.amounts, read.discover, read.count_share) == (amounts, "many-keys", "0.4")
    assert read.users.counts == Fraction(2, 5)


def _read(options: ReleaseOptions, protects_users: bool = False) -> ReleaseOptions:
    """Write options as words of the command, and read them as the command does."""
    written = {option.name: option.written for option in all_options()}
    words = ["events.csv", "--key", "k", "-o", "out.parquet"]
    for name, value in stated_values(options):
        words += [f"--{written[name]}"] if value is True else [f"--{written[name]}", str(value)]
    arguments = read_arguments(command.make_context("release", words).params)
    return ReleaseOptions.of(protects_users=protects_users, **arguments)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--tau", "1"], "`tau` cannot be combined with `scheme=all`"),
        (["--scheme", "ppswor"], "needs a sampling threshold"),
        (["--scheme", "ppswor", "--tau", "1", "--sample-size", "9"], "`tau` cannot be combined with `sample_size`"),
        (["--scheme", "soft-cap", "--tau", "1", "--cap", "5", "--power", "2"], "`power` cannot be combined"),
        (["--zcdp", "1"], "not by `epsilon` and `zcdp`"),
        (["--sum", "price:5", "--sum", "price:6"], "names the column 'price' twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_do_not_go_together_are_refused(words: list[str], shown: str) -> None:
    given = command.make_context("release", ["e.csv", "-k", "k", "-e", "1", "-d", "1e-8", "-o", "o.csv", *words]).params
    with pytest.raises(InvalidValue) as refusal:
        read_arguments(given)
    assert shown in refusal.value.marked

"""Where a report has a total, it says what is in reported keys and what is in all keys, as `Release.sum` does."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from dpsample import KeepAll, Privacy, Release
from dpsample.accounting.totals import Total
from dpsample.presentation.report import make_report
from kinds import GRID, of_tokens
from reports import seen
from stated_terms import stated_terms

PART = Fraction(1, 20)


def with_total(release: Release) -> Release:
    """The same release of elements, with a private total of 9,000."""
    each, whole = release.terms.privacy, Privacy("1.05", "1e-6")
    terms = stated_terms(whole, KeepAll(), ("key",), grid=GRID, total=Total(9000, PART, Fraction(1)), per_key=each)
    return Release(release.table.select(["key", "token"]), terms)


def shown(number: Any) -> str:
    """The interval of an estimate or of a sum over reported keys, outward to whole numbers."""
    return f"{round(number.value):,} (95 %: {math.floor(number.low):,} to {math.ceil(number.high):,}"


def test_both_lines_of_the_sum_stand_beside_the_total_and_reported_keys_lead() -> None:
    release = with_total(of_tokens())
    asked, other = release.sum(), release.other()
    text = re.sub(r"\s+", " ", seen(make_report(release).html))
    first = f"in reported keys: {shown(asked.reported)}"
    second = f"in all keys of frequency {asked.at_least} or more: {shown(asked)}"
    third = f"in keys that were not reported: {shown(other)}"
    places = [text.find(line) for line in ("The data have about 9,000", first, second, third)]
    assert -1 not in places
    assert places == sorted(places)
    assert "print(release.sum())" in text


def test_of_no_reported_key_all_lines_are_there() -> None:
    terms = with_total(of_tokens()).terms
    nothing = Release(pa.table({"key": pa.array([], pa.string()), "token": pa.array([], pa.float64())}), terms)
    text = seen(make_report(nothing).html)
    assert "in reported keys: 0 (95 %: 0 to 0)" in re.sub(r"\s+", " ", text)
    assert "in all keys of frequency" in text


@pytest.mark.parametrize("keys_only", [False, True])
def test_without_a_total_or_numbers_there_is_no_line(keys_only: bool) -> None:
    release = of_tokens()
    if keys_only:
        terms = stated_terms(Privacy(1, "1e-6"), KeepAll(), ("key",), keys_only=True)
        release = Release(release.table.select(["key"]), terms)
    assert "in reported keys:" not in seen(make_report(release).html)

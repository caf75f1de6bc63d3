"""The privacy label: all fields, from the release alone."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsample import KeepAll, Privacy, Release, read_release
from dpsample.accounting.parts import Part
from dpsample.presentation.label import label_of
from dpsample.presentation.report import PageSetting, make_report
from places import VECTORS
from stated_terms import stated_terms
from vectors import register_halves

RELEASES = sorted(VECTORS.glob("release-*.parquet"))
FIELDS = [
    "privacy parameters",
    "unit of privacy",
    "utility",
    "mechanism",
    "hyperparameters",
    "deployment model",
    "empirical metrics",
    "interpretation",
    "other",
]


def empty(**terms: Any) -> Release:
    stated = stated_terms(**{"privacy": Privacy("0.3", "1e-8"), "sampling": KeepAll(), "keys": ("word",), **terms})
    numbers = {name: pa.array([], pa.float64()) for name in stated.numbers}
    return Release(pa.table({**{name: pa.array([], pa.string()) for name in stated.keys}, **numbers}), stated)


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_every_release_has_all_fields(path: Path) -> None:
    register_halves()
    release = read_release(path)
    label = label_of(release)
    assert list(label) == FIELDS
    for words in label.values():
        assert words[0].isupper() or words[0].isdigit()
        assert words.endswith(".")
        assert "None" not in words


def test_a_name_cannot_leave_its_field() -> None:
    names = ('a"\n  status: "Approved', "b\\", "c\u2028\u0085", "<b>d</b>", "# e: [f]")
    release = empty(keys=names, part=Part('day "x"', "y: z"))
    assert all(words.isprintable() for words in label_of(release).values())
    assert "<b>d</b>" not in make_report(release, PageSetting(prove=False)).html


def test_what_is_stated_of_each_unit() -> None:
    element, user = empty(), empty(max_keys=3, per_key=Privacy("0.1", "1e-9"), part=Part("day", "1"))
    assert "Spent: epsilon 0.3, delta 1e-08." in label_of(element)["privacy parameters"]
    assert "Each key has epsilon 0.1, delta 1e-09." in label_of(user)["privacy parameters"]
    assert "a user is protected within one day" in label_of(user)["unit of privacy"]
    assert "Contribution bound: 3 keys of each user." in label_of(user)["hyperparameters"]
    assert "several elements" in label_of(element)["other"]
    assert "two identifiers" in label_of(user)["other"]


def test_the_page_has_the_label() -> None:
    release = read_release(VECTORS / "release-1-size.parquet")
    page = html.unescape(make_report(release, PageSetting(prove=False)).html)
    for name, words in label_of(release).items():
        assert f'<th scope="row">{name}</th><td>{words}</td>' in page

"""The privacy label and the registry entry: all fields, from the release alone, in YAML that any reader takes."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dpsample import KeepAll, Privacy, Release, read_release
from dpsample.accounting.parts import Part
from dpsample.presentation.label import TODO, label_of
from dpsample.presentation.report import make_report
from places import VECTORS
from stated_terms import stated_terms
from support import run
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
REGISTRY = {  # the sections and fields of the registry's schema; those with a plus are for the publisher
    "basic": "+name +data_curators +intended_use data_product_type +data_product_region +description "
    "+publication_date +data_product_sector",
    "dp_variant": "variant_name +data_domain +unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details +actors +release_type +release_type_details +data_source_type "
    "access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "+preprocessing_and_hyperparameter_tuning mechanisms +justification",
    "administrative": "+sources notes +registry_authors",
}


def parsed(text: str) -> Any:
    """Read the part of YAML that JSON values and indentation are, by the rules of YAML and no code of ours."""
    rows = [(len(row) - len(row.lstrip(" ")), row.strip(" ")) for row in text.split("\n") if not row.startswith("#")]

    def block(depth: int) -> Any:
        values: Any = [] if rows[0][1].startswith("- ") else {}
        while rows and rows[0][0] == depth:
            head, _, value = rows.pop(0)[1].partition(" ")
            item = json.loads(value) if value else block(rows[0][0])
            if head == "-":
                values.append(item)
            else:
                assert head[-1] == ":"
                assert head[:-1].isidentifier()
                assert head not in values
                values[head[:-1]] = item
        return values

    entry = block(0)
    assert not rows
    return entry


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
        assert TODO not in words
    entry = parsed(release.registry_entry())
    assert list(entry) == ["url_slug", "status", "tier", "deployment"]
    assert (entry["status"], entry["tier"]) == ("Draft", 3)
    assert list(entry["deployment"]) == list(REGISTRY)
    for section, fields in REGISTRY.items():
        found = entry["deployment"][section]
        assert list(found) == [field.lstrip("+") for field in fields.split()]
        for field in fields.split():
            assert (TODO in json.dumps(found[field.lstrip("+")])) == field.startswith("+"), field
    loss = entry["deployment"]["privacy_loss"]
    stated = release.metadata["privacy"]
    if "epsilon" in stated:
        assert loss["privacy_parameters"] == {"epsilon": float(stated["epsilon"]), "delta": float(stated["delta"])}
    assert loss["privacy_unit"].lower().startswith(release.unit)


def test_numbers_are_numbers_in_every_version_of_yaml() -> None:
    """YAML 1.1 asks for a point in a float: 1e-08 would be text."""
    rows = empty().registry_entry().splitlines()
    assert "      epsilon: 0.3" in rows
    assert "      delta: 1.0e-08" in rows


def test_a_name_cannot_leave_its_field() -> None:
    names = ('a"\n  status: "Approved', "b\\", "c\u2028\u0085", "<b>d</b>", "# e: [f]")
    release = empty(keys=names, part=Part('day "x"', "y: z"))
    entry = parsed(release.registry_entry())
    assert entry["status"] == "Draft"
    text = release.registry_entry()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert 'a"\\n  status: "Approved, b\\\\' in entry["deployment"]["basic"]["description"]
    assert "<b>d</b>" not in make_report(release, prove=False).html


def test_what_is_stated_of_each_unit() -> None:
    element, user = empty(), empty(max_keys=3, per_key=Privacy("0.1", "1e-9"), part=Part("day", "1"))
    assert "Spent: epsilon 0.3, delta 1e-08." in label_of(element)["privacy parameters"]
    assert "Each key has epsilon 0.1, delta 1e-09." in label_of(user)["privacy parameters"]
    assert "a user is protected within one day" in label_of(user)["unit of privacy"]
    assert "Contribution bound: 3 keys of each user." in label_of(user)["hyperparameters"]
    assert "several elements" in label_of(element)["other"]
    assert "two identifiers" in label_of(user)["other"]
    assert parsed(user.registry_entry())["deployment"]["privacy_loss"]["privacy_unit"] == "User-level, within one day"


def test_the_page_has_the_label() -> None:
    release = read_release(VECTORS / "release-1-size.parquet")
    page = html.unescape(make_report(release, prove=False).html)
    for name, words in label_of(release).items():
        assert f'<th scope="row">{name}</th><td>{words}</td>' in page


def test_the_command_prints_the_entry_of_a_release_and_of_no_sample(tmp_path: Path) -> None:
    path = VECTORS / "release-1-all.parquet"
    done = run("info", str(path), "--registry", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, read_release(path).registry_entry() + "\n")
    assert run("info", str(path), "--registry", "--format", "json", cwd=tmp_path).returncode == 2
    sample = run("info", str(next(VECTORS.glob("sample-*.parquet"))), "--registry", cwd=tmp_path)
    assert sample.returncode == 2
    assert "found a dpsample sample" in sample.stderr

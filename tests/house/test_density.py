"""Functions are read in one go: not dense, not of many parameters. Modules of tests are short.

Functions that are denser, or have more parameters, are named in two lists beside this module. Each of them must still
be needed, so the lists can only become shorter: `python tests/helpers/house.py` removes what is not needed any more.
"""

import pytest

import house
from places import TESTS


@pytest.mark.parametrize("name", house.LISTS)
def test_functions_are_read_in_one_go(name: str) -> None:
    found = {function.name for function in house.functions() if house.LISTS[name](function)}
    assert found - house.listed(name) == set()


@pytest.mark.parametrize("name", house.LISTS)
def test_each_exception_is_still_needed(name: str) -> None:
    found = {function.name for function in house.functions() if house.LISTS[name](function)}
    assert house.listed(name) - found == set()


def test_modules_of_tests_are_short() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > 500} == {}

"""The page of all refusals is that of the code, and each refusal has its three parts."""

import pytest

from refusals import Refusal, refusals
from troubleshooting import PAGE, area_of, page


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write the page anew: python tests/troubleshooting.py"


def test_every_refusal_states_a_rule_what_was_found_and_a_remedy() -> None:
    assert len(refusals()) > 500
    for one in refusals():
        assert all((one.rule, one.found, one.remedy)), one
        assert " " in one.rule, one
        assert " " in one.remedy, one


def test_constants_are_shown_by_their_values() -> None:
    rules = {one.rule for one in refusals()}
    assert "max_keys_per_user is a whole number from 1 to 100,000" in rules
    assert "memory_limit is at least 300MB" in rules


def test_messages_are_found_wherever_they_are_put_together() -> None:
    found = {(one.rule, one.found): one.remedy for one in refusals()}
    columns = "NUMBER of that name / the columns NAMES[, ...] / NUMBER other column[s]"
    assert found["a list of known keys has no NULL", "one"] == "leave it out"  # in a function that adds to the rule
    assert found["Spark must start", "that it did not"].startswith("install Java 17")  # in a table
    assert "[, and that the file says it" in found["the column NAME must be in LOCATION", columns]  # appended
    assert not [one for one in refusals() if one.rule.startswith(("RULE", "WHAT WAS GIVEN"))]


def test_a_module_without_an_area_is_an_error() -> None:
    with pytest.raises(KeyError, match="must name an area for elsewhere"):
        area_of(Refusal("elsewhere.py", "a rule", "something", "the remedy"))

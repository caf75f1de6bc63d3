"""Tests that draw secret coins are found, and state their odds of a false alarm. The plugin itself is `chance`."""

import hashlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import chance
from dpsample.private.derived_coins import Secret
from places import HELPERS, ROOT

PLUGIN = f"""
import sys
sys.path.insert(0, {str(HELPERS)!r})
import chance
from chance import fixed_coins

def pytest_configure(config):
    config.pluginmanager.register(chance)
"""
TESTS = """
import os, subprocess, sys
import pytest
from dpsample.private.derived_coins import Secret
from dpsample.private.randomness import SecretCoins

@pytest.fixture(scope="module")
def drawn():
    return SecretCoins()

def test_draws():
    SecretCoins()

def test_draws_a_secret():
    Secret()

def test_uses_what_was_drawn(drawn):
    pass

def test_uses_it_too(drawn):
    pass

def test_starts_a_process_that_may_draw():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_starts_another_process():
    subprocess.run(["true"], check=True)

def test_forks_a_process_that_draws():
    child = os.fork()
    if child == 0:
        SecretCoins()
        os._exit(0)
    os.waitpid(child, 0)

def test_is_given_a_secret():
    Secret(bytes(32))

def test_has_fixed_coins(fixed_coins):
    SecretCoins()

@pytest.mark.chance("certain: nothing is asserted")
def test_says_so(drawn):
    SecretCoins()

@pytest.mark.chance("odds 3e-9: an example")
class TestClass:
    def test_says_so(self):
        SecretCoins()
"""
PAGE = ">>> from dpsample.private.randomness import SecretCoins\n>>> _ = SecretCoins()\n"


def run_tests(folder: Path, **files: str) -> tuple[dict[str, str], str]:
    """Outcomes of tests under the plugin, in a process of their own, and what pytest says of errors."""
    for name, text in {"conftest_py": PLUGIN, **files}.items():
        (folder / name.replace("_py", ".py").replace("_md", ".md")).write_text(text)
    options = ["-p", "no:cacheprovider", "-W", "ignore", "-rA", "--tb=line", "--doctest-glob=*.md", "-c", "/dev/null"]
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={folder}", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    return {words[1].split("::", 1)[1]: words[0] for words in lines}, done.stdout + done.stderr


@pytest.mark.chance("certain: the tests that are started assert nothing")
def test_what_draws_and_does_not_say_so_fails(tmp_path: Path) -> None:
    outcomes, text = run_tests(tmp_path, test_it_py=TESTS, page_md=PAGE)
    assert outcomes == {
        "test_draws": "FAILED",
        "test_draws_a_secret": "FAILED",
        "test_uses_what_was_drawn": "FAILED",
        "test_uses_it_too": "FAILED",
        "test_starts_a_process_that_may_draw": "FAILED",
        "test_starts_another_process": "PASSED",
        "test_forks_a_process_that_draws": "FAILED",
        "test_is_given_a_secret": "PASSED",
        "test_has_fixed_coins": "PASSED",
        "test_says_so": "PASSED",
        "TestClass::test_says_so": "PASSED",
        "page.md": "FAILED",
    }, text


@pytest.mark.chance("certain: nothing is run")
def test_odds_that_are_too_high_stop_all_tests(tmp_path: Path) -> None:
    outcomes, text = run_tests(tmp_path, test_it_py=TESTS.replace("odds 3e-9", "odds 3e-7"))
    assert not outcomes
    assert "test_it.py::TestClass::test_says_so: the odds of a false alarm are below 1e-07; found 3e-07" in text


def test_statements() -> None:
    assert chance.odds("certain: the columns alone are compared") == 0
    assert chance.odds("odds 2.5e-10: noise beyond 22 scales") == 2.5e-10
    for bad in (
        "",
        "certain",
        "certain:",
        "odds: small",
        "odds 1e-9",
        "odds 1e-7: not below",
        "odds 0.05: rare",
        "rare",
    ):
        with pytest.raises(ValueError, match=r"write 'certain: why'|below 1e-07"):
            chance.odds(bad)


def test_examples_state_their_odds() -> None:
    """The table has no examples that are gone, and no odds that are too high."""
    root = ROOT
    pages = {path.name for path in (root / "README.md", *(root / "docs").rglob("*.md"))}
    for name, statement in chance.DOCTESTS.items():
        chance.odds(statement)
        assert name in pages or pkgutil.resolve_name(name).__doc__


def test_fixed_coins_are_fixed(fixed_coins: None) -> None:
    for n in range(3):
        assert Secret()._key == hashlib.shake_256(str(n).encode()).digest(32)

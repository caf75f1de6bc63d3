"""Fixtures for pytest. In a `conftest.py`: `from dpsample.testing.fixtures import release_for_tests`."""

from collections.abc import Callable, Iterator

import pytest

from dpsample.answers.release import Release
from dpsample.release.made_for_tests import allowed
from dpsample.testing.releases import release


@pytest.fixture
def release_for_tests() -> Iterator[Callable[..., Release]]:
    """Yield `dpsample.testing.release`; while the test runs, its releases may be written, read and shown."""
    with allowed():
        yield release

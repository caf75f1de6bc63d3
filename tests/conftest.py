"""What holds for all tests: settings, coins that are watched, and a Spark cluster that tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import chance
import clusters
import dpsample.privacy
import servers
from browser import browser as browser
from chance import fixed_coins as fixed_coins
from support import refused as refused

collect_ignore = ["vectors/make.py"]  # run once, by hand

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    max_examples=25,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],  # by the clock: on a busy machine anything is
)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """All tests are watched, the examples in docstrings and docs among them."""
    config.pluginmanager.register(chance)


@pytest.fixture(autouse=True)
def _forget_warnings() -> Iterator[None]:
    """Each test starts as a fresh process does: no PrivacyWarning has been given yet."""
    before = set(dpsample.privacy._warned)
    dpsample.privacy._warned.clear()
    yield
    dpsample.privacy._warned.clear()
    dpsample.privacy._warned.update(before)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    """A Spark cluster. What uses it is marked xdist_group("spark"), so that there is one."""
    if clusters.java() is None and not os.environ.get("CI"):
        pytest.skip("no Java to run Spark with")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        try:
            (tmp_path_factory.getbasetemp().parent / "cluster").mkdir()
        except FileExistsError:
            pytest.fail("another process has a cluster already: run pytest with --dist loadgroup")
    with clusters.cluster() as made:
        yield made


@pytest.fixture(scope="session")
def spark(cluster: clusters.Cluster) -> Iterator[Any]:
    """A session on the cluster."""
    session = clusters.session(cluster)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server, by its address."""
    if servers.binaries() is None and not os.environ.get("CI"):
        pytest.skip("no PostgreSQL server binary")
    with servers.postgresql() as uri:
        yield uri

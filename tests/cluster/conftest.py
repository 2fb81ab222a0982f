from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pliant.testing.cluster import VirtualCluster, virtual_cluster, why_not

PATIENCE_S = 10.0


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """Tests here are skipped, with the reason, where a virtual cluster cannot be had."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def cluster(possible: None) -> Iterator[VirtualCluster]:
    """Sixteen nodes, for tests that leave them as they found them: nothing runs there after each."""
    with virtual_cluster(nodes=16) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of a test on the shared cluster, whatever it did; what has been killed may take a moment to end."""
    yield
    if "cluster" in request.fixturenames:
        cluster = request.getfixturevalue("cluster")
        deadline = time.monotonic() + PATIENCE_S
        while (left := cluster.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left

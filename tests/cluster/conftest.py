from __future__ import annotations

from collections.abc import Iterator

import pytest

from pliant.testing.cluster import VirtualCluster, virtual_cluster, why_not


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
    yield
    if "cluster" in request.fixturenames:
        assert not request.getfixturevalue("cluster").processes()

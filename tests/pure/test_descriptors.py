"""How many virtual nodes the descriptors of a process allow."""

from __future__ import annotations

import resource

import pytest

from pliant.drivers import fork
from pliant.model.limits import LIVE_NODES


@pytest.mark.parametrize(
    ("hard", "most"), [(resource.RLIM_INFINITY, LIVE_NODES), (20_000, LIVE_NODES), (1_024, 274), (64, 1)]
)
def test_nodes_are_bounded_by_what_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, hard: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, hard))
    assert fork._most() == most


@pytest.mark.parametrize(
    ("limits", "nodes", "raised"),
    [
        ((1_024, 20_000), 8, None),
        ((1_024, 20_000), 1_000, (3_200, 20_000)),
        ((1_024, 2_000), 1_000, (2_000, 2_000)),
        ((1_024, resource.RLIM_INFINITY), 1_000, (3_200, resource.RLIM_INFINITY)),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 1_000, None),
    ],
)
def test_more_are_opened_only_where_many_nodes_need_them(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], nodes: int, raised: tuple[int, int] | None
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: set_to.append(to))
    fork._make_room(nodes)
    assert set_to == ([raised] if raised else [])

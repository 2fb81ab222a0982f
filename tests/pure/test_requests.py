"""A job that asks for a size (Wants): what the core answers. Iserte et al. 2018, section 4.1, "request an action"."""

from __future__ import annotations

import job_says
import pytest
from driving import Driven

from pliant.core import commands as c
from pliant.core import events as e
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.policy.registry import make


def offered_size(size: int, nodes: int, wish: Bounds) -> int | None:
    """What a job on ``size`` of ``nodes`` nodes is offered for its wish; None for Stay."""
    core = Driven(make("fcfs"))
    spec = JobSpec(name="a", nodes=Bounds(1, 32, 2, preferred=size), job_class=JobClass.MALLEABLE)
    core.tell([e.Granted(NodeSet.first(nodes)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    answers = core.tell([job_says.wants(1, SizeRequest(wish))], 1.0)
    offers = [answer.size for answer in answers if isinstance(answer, c.Offer)]
    stays = [answer for answer in answers if isinstance(answer, c.Stay)]
    assert len(offers) + len(stays) == 1
    return offers[0] if offers else None


@pytest.mark.parametrize(
    ("size", "nodes", "wish", "offered"),
    [
        (4, 16, Bounds(8, 32), 8),  # as asked: no more than the wish needs
        (4, 16, Bounds(6, 32), 8),  # the smallest allowed size that fulfils it
        (4, 7, Bounds(8, 32), None),  # 4 more are asked for, and 3 are free
        (4, 16, Bounds(16, 32), 16),
        (4, 16, Bounds(5, 7), None),  # no allowed size lies within it
        (8, 8, Bounds(1, 4), 4),  # a shrink is always granted
        (8, 8, Bounds(1, 3), 2),
        (8, 8, Bounds(5, 7), None),
        (4, 16, Bounds(1, 32), None),  # it has what it wants
        (4, 64, Bounds(64, 64), None),
        (4, 16, Bounds(8, 10**18), 8),  # a wish of any length costs nothing
        (4, 16, Bounds(10**17, 10**18), None),
    ],
)
def test_a_job_requests_an_action(size: int, nodes: int, wish: Bounds, offered: int | None) -> None:
    assert offered_size(size, nodes, wish) == offered

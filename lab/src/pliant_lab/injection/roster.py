"""The roster of a world: its nodes, and the processes on them."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.live.fleet.fleet import Site
from pliant_lab.injection.outside import Outside
from pliant_lab.injection.standins.node import Node
from pliant_lab.injection.standins.process import Proc


class Roster:
    """The nodes that there are, by name, and the ``site`` that they are of."""

    def __init__(self, outside: Outside, site: Site, count: int) -> None:
        self.outside = outside
        self.site = site
        self.nodes: dict[str, Node] = {}
        for i in range(count):
            self.new_node(f"n{i}")

    def new_node(self, name: str) -> Node:
        """A node that is not there."""
        node = self.nodes[name] = Node(self.outside, name, self.site.slots)
        return node

    def processes(self, job: int) -> Iterator[Proc]:
        """Those of a job, daemons too."""
        return (proc for node in self.nodes.values() for proc in node.processes.values() if proc.job == job)

    def members(self, job: int, epoch: int) -> Iterator[dict[int, int]]:
        """What the processes of a job that are in ``epoch`` take for its groups, and for the ranks awake in each."""
        for proc in self.processes(job):
            team = proc.program.team(epoch) if proc.program is not None else None
            if team is not None:
                yield team

    def epochs(self, job: int) -> Iterator[tuple[Proc, int]]:
        """The processes of a job that are alive, with the epoch in which each is."""
        for proc in self.processes(job):
            if proc.program is not None and not proc.dying:
                yield proc, proc.program.epoch

"""A live controller without I/O: its fleet and the cluster that uses it, as one machine that is recorded and played.

``handle`` answers with records and with what is to be done, in this order: the records are written before anything is
done for them, and what agents have told is acknowledged as written in the call after that.
"""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import JOURNAL, Cluster, RunContext
from pliant.live.fleet.fleet import KEY, Fleet, Site
from pliant.model.nodes import NodeSet
from pliant.policy.view import Policy


class Control:
    """All nodes and jobs of a controller."""

    def __init__(self, cluster: Cluster, site: Site) -> None:
        self.cluster = cluster
        self.fleet = Fleet(site)

    @classmethod
    def of(
        cls,
        policy: Policy,
        settings: Settings,
        context: RunContext,
        site: Site,
        records: Iterable[r.Record] = (),
    ) -> Control:
        """With the ``records`` of a journal it goes on where they end; ``Resumed`` is then the first that it is
        told."""
        return cls(Cluster(policy, settings, context, records), site)

    def handle(self, inputs: Iterable[o.AnyInput], now: float) -> tuple[list[r.Record], list[o.Output]]:
        """What follows from these inputs, which have come by ``now``: seconds that never run backwards."""
        fleet = self.fleet
        fleet.now = now
        inputs = list(inputs)
        if fleet.owes(written=True):  # by what has come before this call
            held = any(isinstance(each, o.Hold) and each.key == JOURNAL for each in inputs)
            fleet.acknowledge(written=self._written and not held)
        told = [*self._news()]
        for each in inputs:
            if isinstance(each, o.OfNodes) or (isinstance(each, o.Fired) and each.key[0] == KEY):
                fleet.take(each)
            else:
                self._heed(each)
                told.append(each)
            told += self._news()
        records, wanted = self.cluster.handle(told, now)
        outputs, fleet.outputs = fleet.outputs, []
        for output in wanted:
            outputs += self._carry_out(output)
        return records, outputs

    def _news(self) -> list[o.OfCluster]:
        """What the fleet tells the cluster."""
        news, self.fleet.events = self.fleet.events, []
        return news

    def _heed(self, given: o.OfCluster) -> None:
        """What concerns the fleet of what the cluster is told."""
        if isinstance(given, o.Resumed):
            self._resume()
        elif isinstance(given, o.Reclaim) or (isinstance(given, o.Granted) and given.left_s is not None):
            self.fleet.expire(given.names)

    def _carry_out(self, output: o.Output) -> list[o.Output]:
        """What is to be done of what the cluster wants, by the fleet or by others."""
        fleet = self.fleet
        match output:
            case o.Send():
                fleet.send(output.nodes, output.message)
            case o.Acquire():
                fleet.request(output.count, output.need)
            case o.Withdraw():
                fleet.withdraw(output.count)
            case o.GiveBack():
                fleet.give_back(output.nodes)
            case o.Abandon():
                fleet.abandon(output.node)
            case _:
                return [output]
        done, fleet.outputs = fleet.outputs, []
        return done

    @property
    def pending(self) -> bool:
        """Whether ``handle`` has more to say at once, when the records of this call have been written."""
        return self.cluster.pending or bool(self.fleet.events) or self.fleet.owes(written=self._written)

    @property
    def _written(self) -> bool:
        """Whether the records of what agents have told are written, so that they may forget it."""
        return not (self.cluster.held_back or self.cluster.resuming)

    def _resume(self) -> None:
        state = self.cluster.core.state
        there, lost = (
            [state.nodes.names[number] for number in NodeSet(mask)]
            for mask in (state.nodes.all_mask & ~state.nodes.lost_mask, state.nodes.lost_mask)
        )
        self.fleet.resume(there, lost)

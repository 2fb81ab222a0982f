"""What a fleet knows of one node, and of what it and its agent have told each other."""

from __future__ import annotations

from pliant.live.fleet.channel import Numbered, Sender, is_next
from pliant.live.fleet.stages import NodeStage
from pliant.model.need import Need
from pliant.protocol import messages as m


class AgentLink:
    """The controller's end of the channel to one agent, process ``pid``. ``elsewhere``: it may have told another
    controller what this one has not heard."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        self.pid = 0
        self.heard = self.written = 0
        """Up to these numbers all has come, and is recorded where that is due."""
        self.repeats = 0
        """Up to this number the agent tells again what it may have told already."""
        self.sent: Sender[m.ControllerMessage] = Sender()
        self.unsent: list[m.ControllerMessage] = []
        """Orders that wait for a link."""

    def greeted(self, hello: m.AgentHello) -> None:
        """The agent is here, for the first time or again."""
        if not self.pid:
            self.heard = self.written = hello.base
            # What a controller orders that begins anew must not pass for what the one before it has ordered.
            self.sent = Sender(hello.obeyed)
        self.pid = hello.pid
        self.elsewhere = False
        self.repeats = hello.repeats
        self.obeyed(hello.obeyed)

    def obeyed(self, number: int) -> None:
        self.sent.was_heard(number)
        self.sent.drop()

    def takes(self, number: int, after: int) -> bool:
        """Whether a message has not been taken before, and it is its turn; it is taken from now on."""
        if not is_next(number, after, self.heard):
            return False
        self.heard = number
        return True

    def flush(self) -> list[Numbered[m.ControllerMessage]]:
        """Over a link that is here again: the orders that were not obeyed, and those that have waited for it."""
        again, unsent, self.unsent = list(self.sent), self.unsent, []
        return [*again, *map(self.sent.tell, unsent)]


class Node:
    """``is_known``: it was granted, and the scheduler knows of it. It answers a request with this ``need``.
    ``restarts``: how many agents it has had after its first. ``why``: what has become of the last one."""

    def __init__(
        self,
        name: str,
        labels: tuple[str, ...] = (),
        stage: NodeStage = NodeStage.REQUESTED,
        *,
        need: Need | None = None,
        is_known: bool = False,
    ) -> None:
        self.name = name
        self.labels = labels
        self.stage = stage
        self.need = need
        self.is_known = is_known
        self.slots = 0
        self.restarts = 0
        self.why = ""
        self.expires = False
        self.is_clearing = False
        self.due = 0.0
        """When what it waits for is given up."""
        self.link = AgentLink()

    @property
    def is_here(self) -> bool:
        """Whether what is ordered goes out to its agent now."""
        return self.stage in (NodeStage.READY, NodeStage.GRANTED, NodeStage.EXPIRING) or (
            self.stage is NodeStage.LEAVING and not self.is_clearing
        )

    @property
    def waits_for_agent(self) -> bool:
        """Whether nobody knows yet if its first agent will come."""
        return self.stage in (NodeStage.REQUESTED, NodeStage.COMING) or (
            self.stage is NodeStage.LOST and not self.is_known
        )

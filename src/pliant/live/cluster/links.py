"""The links of a cluster to its agents where these outlive them: what was told and taken, ordered and obeyed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pliant.protocol import messages as m

MOST = 1000
"""Orders that are kept for one agent until it is known to have obeyed them."""


class Link:
    """One agent. ``here``: it can be reached. ``taken`` is the number of the last message that was taken, and up to
    ``repeats`` it says again what it may have said already; ``groups`` are those of its last inventory. ``elsewhere``:
    it may have told another controller what this one has not heard."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.here = True
        self.elsewhere = elsewhere
        self.pid = 0
        self.taken = 0
        self.repeats = 0
        self.groups: frozenset[tuple[int, int]] = frozenset()
        self.sent: deque[tuple[int, m.ControllerMessage]] = deque(maxlen=MOST)
        self.unsent: list[m.ControllerMessage] = []

    @property
    def is_repeating(self) -> bool:
        return self.taken < self.repeats

    def obeyed(self, number: int) -> None:
        while self.sent and self.sent[0][0] <= number:
            self.sent.popleft()


class Links:
    """All of them, by the numbers of the nodes."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}
        self._id = 0
        self._unacknowledged: set[int] = set()

    def __getitem__(self, node: int) -> Link:
        return self._links[node]

    def __contains__(self, node: int) -> bool:
        return node in self._links

    def begin(self, node: int, *, elsewhere: bool = False) -> None:
        """There is a new agent on the node, of which nothing is known yet, or one of another controller."""
        self._links[node] = Link(elsewhere=elsewhere)

    def drop(self, node: int) -> None:
        """The agent is gone for good."""
        self._links.pop(node, None)
        self._unacknowledged.discard(node)

    def order(self, node: int, message: m.ControllerMessage) -> int | None:
        """The id under which to send an order now; None if it has to wait for a link, or there is no agent."""
        link = self._links.get(node)
        if link is None:
            return None
        if not link.here:
            link.unsent.append(message)
            return None
        self._id += 1
        link.sent.append((self._id, message))
        return self._id

    def greeted(self, node: int, hello: m.AgentHello) -> Iterator[tuple[int, m.ControllerMessage]]:
        """An agent is here again: the orders that it has not obeyed, each with its id."""
        link = self._links[node]
        link.here = True
        link.elsewhere = False
        link.pid = hello.pid
        link.repeats = hello.repeats
        link.groups = frozenset((each.job, each.group) for each in hello.groups)
        link.obeyed(hello.obeyed)
        # What a controller orders that begins anew must not pass for what the one before it has ordered.
        self._id = max(self._id, hello.obeyed)
        again, unsent, link.unsent = list(link.sent), link.unsent, []
        yield from again
        for message in unsent:
            if (number := self.order(node, message)) is not None:
                yield number, message

    def is_new(self, node: int, number: int, obeyed: int) -> bool:
        """Whether a message has not been taken before; it is from now on."""
        link = self._links[node]
        link.obeyed(obeyed)
        self._unacknowledged.add(node)
        if number <= link.taken:
            return False
        link.taken = number
        return True

    @property
    def pending(self) -> bool:
        """Whether there is anything to acknowledge."""
        return bool(self._unacknowledged)

    def acknowledge(self) -> Iterator[tuple[int, m.Ack]]:
        """What to tell the agents about what has been taken."""
        nodes, self._unacknowledged = sorted(self._unacknowledged), set()
        for node in nodes:
            if self._links[node].here:
                yield node, m.Ack(self._links[node].taken)

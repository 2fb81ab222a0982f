"""What happens to an agent as a part of the launch tree, and what its machine asks of the shell around it.
Data only."""

from __future__ import annotations

import msgspec

from pliant.model.deadlines import AGENT_START_S
from pliant.protocol import messages as m
from pliant.protocol.branches import BranchMessage

WINDOW = 32
"""So many agents one starts at a time (default)."""


class Input(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """Base of all that happens."""


class Output(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """Base of all that is to be done. The shell does it in order, and at once."""


class Seat(msgspec.Struct, frozen=True):
    """Where an agent sits: its ``rank``, ``contact``, and the tree by which agents are started and the one by which
    messages to all go (``plan/tree.py``). ``window``: how many agents it starts at a time. ``survive``: what is lost is
    left out, and orphans go to their grandparent; else the first loss ends the launch. ``patience_s`` is how long one
    agent may take to start and call. An agent has been started by ``parent``. ``place``: which one it has among those
    that a program is launched at, from 0; -1 if that goes by its rank. ``grace_s``: how long agents go on without a
    controller, where what is lost is left out; with 0 they end with it."""

    rank: int
    contact: str
    parent: int = -1
    spawning: str = "32"
    routing: str = "32"
    window: int = WINDOW
    survive: bool = False
    patience_s: float = AGENT_START_S
    place: int = -1
    grace_s: float = 0.0

    @property
    def number(self) -> int:
        return self.rank - 1 if self.place < 0 else self.place


# ---- what happens -----------------------------------------------------------------------------------


class Opened(Input, frozen=True):
    """At the root: start agents on ``nodes``, which are ranks 1, 2, ..."""

    nodes: tuple[str, ...]


class Resumed(Input, frozen=True):
    """At the root, in place of Opened: an earlier root, with the same contact, was opened on so many ``agents`` and has
    given ranks below ``following``. The agents of ``nodes``, by rank, may be there, and call within the grace; other
    ranks are gone. Such a root may tell nothing to all: it does not know what was told before."""

    nodes: dict[int, str]
    agents: int
    following: int


class More(Input, frozen=True):
    """At the root, after Opened or Resumed: start agents on these ``nodes`` too. They get the ranks that follow and are
    children of the root. What is for all is for them as well, also what was told before they came."""

    nodes: tuple[str, ...]


class Depart(Input, frozen=True):
    """This agent is to leave, as ``why`` says, when it knows all that is below it: as soon as the controller has told
    Gone of it, and at once where there is no controller. Where what is lost is left out, those below it call the next
    one further up then."""

    why: str


class Heard(Input, frozen=True):
    """``message`` has come over the link to ``rank``; a link that was accepted begins with Calling."""

    rank: int
    message: BranchMessage


class Linked(Input, frozen=True):
    """There is a link that was asked for by Reach; an agent begins with one to its parent."""

    rank: int


class Cut(Input, frozen=True):
    """The link to ``rank`` is gone, or could not be made."""

    rank: int
    why: str


class Begun(Input, frozen=True):
    """The agent of ``rank`` runs on its node, and will call when it has loaded what it needs: another one may be
    started."""

    rank: int


class NotStarted(Input, frozen=True):
    """The agent of ``rank`` cannot be started: nothing of it runs."""

    rank: int
    why: str


class Finish(Input, frozen=True):
    """At the root: the launch is over, ``why`` if it has failed."""

    why: str = ""


class Due(Input, frozen=True):
    """A timer."""

    key: str


class Announce(Input, frozen=True):
    """At the root: ``message`` is for every agent."""

    message: msgspec.Raw


class Send(Input, frozen=True):
    """At the root: ``envelope`` is for the agents that it names."""

    envelope: m.To


class Say(Input, frozen=True):
    """What is at this node tells the controller."""

    envelope: m.From


class Put(Input, frozen=True):
    """A piece of what the processes of this node, number ``part`` of those that have any, have put before the fence of
    ``round``; without ``more`` all of it has come."""

    round: int
    part: int
    entries: dict[str, str]
    more: bool = False


class Absent(Input, frozen=True):
    """No process of this node will come to a fence any more, or there is none."""


class Passed(Input, frozen=True):
    """All that was put in ``round`` has come to this node."""

    round: int


AnyInput = (
    Opened
    | Resumed
    | More
    | Depart
    | Heard
    | Linked
    | Cut
    | Begun
    | NotStarted
    | Due
    | Announce
    | Finish
    | Send
    | Say
    | Put
    | Absent
    | Passed
)


# ---- what is to be done -----------------------------------------------------------------------------


class StartAgent(Output, frozen=True):
    """Have an agent started on ``node`` that calls this one; ``place`` is that of its seat."""

    rank: int
    node: str
    place: int = -1


class Tell(Output, frozen=True):
    """Over the link to ``rank``."""

    rank: int
    message: BranchMessage


class Reach(Output, frozen=True):
    """Open a link to the agent of ``rank``: answered by Linked or Cut."""

    rank: int
    contact: str


class Close(Output, frozen=True):
    """The link to ``rank`` is not needed any more; an agent that was started by this one and may still come is
    ended."""

    rank: int


class SetTimer(Output, frozen=True):
    """Due with this key in so many seconds; another with this key is replaced."""

    key: str
    seconds: float


class CancelTimer(Output, frozen=True):
    key: str


class Deliver(Output, frozen=True):
    """A message to all has come."""

    message: msgspec.Raw


class Local(Output, frozen=True):
    """An envelope for this node has come."""

    envelope: m.To


class Arrived(Output, frozen=True):
    """At the root: an envelope of a node has come."""

    envelope: m.From


class Gathered(Output, frozen=True):
    """At the root: ``entries`` were put before the fence of ``round``; of ``parts`` that was all. They may have come
    before."""

    round: int
    parts: tuple[int, ...]
    entries: dict[str, str]


class Phase(Output, frozen=True):
    """This agent has completed the phase: 1, all its children have called; 2, it knows how all others are reached."""

    number: int


class Gone(Output, frozen=True):
    """At the root: the agent of ``node`` is not there, or no more."""

    rank: int
    node: str
    why: str


class Again(Output, frozen=True):
    """At the root: the agent of ``node`` was lost with the one that was to start it, and is started anew, as another
    ``rank``."""

    lost: int
    rank: int
    node: str
    why: str


class Adrift(Output, frozen=True):
    """``on``: the controller is gone, and is called until the grace is over. Not ``on``: there is one again."""

    on: bool


class Leave(Output, frozen=True):
    """Everything is over for this agent; ``why`` is empty if that is as it should be. ``alone``: those below go on."""

    why: str = ""
    alone: bool = False


AnyOutput = (
    StartAgent
    | Tell
    | Reach
    | Close
    | SetTimer
    | CancelTimer
    | Deliver
    | Local
    | Arrived
    | Gathered
    | Phase
    | Gone
    | Again
    | Adrift
    | Leave
)

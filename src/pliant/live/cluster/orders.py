"""What the machine of a live cluster is told, and what it wants done: data only, so that both can be recorded."""

from __future__ import annotations

import msgspec

from pliant.model.jobs import JobSpec, JobState
from pliant.model.need import Need
from pliant.protocol.messages import AgentHello, ControllerMessage

SIGTERM, SIGKILL = 15, 9
"""As on every Linux."""

Key = tuple[str | int, ...]
"""Which timer: what for, and of which job, group or node."""


class Input(msgspec.Struct, frozen=True, tag=True):
    """Base of all that a cluster is told."""


class Granted(Input, frozen=True):
    """The provider hands over nodes of these names, with so many slots each. ``left_s``: when this comes, so many
    seconds are left until it takes them back, those too that are there already; without names all that are there.
    ``labels`` are those of each, none where none has any; ``source`` and ``need`` as in the record NodesGranted."""

    names: tuple[str, ...]
    slots: tuple[int, ...]
    left_s: float | None = None
    labels: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    need: Need | None = None


class Lost(Input, frozen=True):
    """The node is gone with all that ran there; ``final``: it will not be back. ``why`` is for people."""

    node: str
    final: bool = False
    why: str = ""


class Back(Input, frozen=True):
    """A lost node can be used again: nothing of what ran there is left."""

    node: str


class Refused(Input, frozen=True):
    """The provider does not hand over ``count`` of the nodes that it was asked for with this ``need``."""

    count: int
    why: str
    need: Need | None = None


class Returned(Input, frozen=True):
    """The provider has these nodes again."""

    names: tuple[str, ...]


class Ask(Input, frozen=True):
    """An operator wants so many nodes more, each with this ``need``."""

    count: int
    need: Need | None = None


class AskLess(Input, frozen=True):
    """An operator does not want so many of the nodes any more that were asked for and have not come."""

    count: int


class Reclaim(Input, frozen=True):
    """The provider or an operator wants these nodes back: each goes when it is free and clean. ``by_s``: when this
    comes, so many seconds are left for that, and what cannot leave them is ended in time."""

    names: tuple[str, ...]
    by_s: float | None = None


class Said(Input, frozen=True):
    """A message of a node's agent: each comes once, and in order."""

    node: str
    message: msgspec.Raw


class Unlinked(Input, frozen=True):
    """The link to the node's agent is gone; what runs there may go on, and the agent may come back."""

    node: str


class Greeted(Input, frozen=True):
    """The agent of an unlinked node is here again, and says what it has. What it says again follows."""

    node: str
    hello: AgentHello


class Repeated(Input, frozen=True):
    """An agent that is here again has said again all that nobody may have heard."""

    node: str


class Batch(Input, frozen=True):
    """Jobs to be submitted, each at its time."""

    jobs: tuple[JobSpec, ...]


class Cancel(Input, frozen=True):
    job: int
    why: str


class Resize(Input, frozen=True):
    """An operator orders a job to ``size`` nodes, away from those of ``leave`` among others; 0 lets it go again, or
    moves it off those of ``leave`` to as many others. With ``slots`` it stays on its nodes, with so many
    ranks awake on these."""

    job: int
    size: int
    leave: tuple[str, ...] = ()
    slots: dict[str, int] = {}


class Tail(Input, frozen=True):
    """The last lines of a job's output: the answer to ReadTail."""

    job: int
    text: str


class Fired(Input, frozen=True):
    """The time that was asked for has come."""

    key: Key


class Hold(Input, frozen=True):
    """Begin nothing, for this reason, until it is released; what goes on goes on."""

    key: str
    why: str


class Release(Input, frozen=True):
    key: str


class Resumed(Input, frozen=True):
    """A controller that was killed begins again, for the reason ``why``. Without an orphan grace there is a new agent
    on each node and nothing is left of what ran; with one the agents come back, and the jobs go on."""

    why: str


class EndAll(Input, frozen=True):
    """End all jobs, in good order where that is possible, and begin no other. Those that run end in ``state``."""

    why: str
    state: JobState = JobState.CANCELLED


class EndNow(Input, frozen=True):
    """Book the end of all jobs: what is left of them ends with their agents. ``why`` is for people."""

    why: str = "the run ends"


class Begin(Input, frozen=True):
    """Begin with so many nodes."""

    count: int


class Heard(Input, frozen=True):
    """From a driver: an envelope has come from a node's agent (``protocol.messages.From``)."""

    node: str
    message: msgspec.Raw
    number: int = 0
    after: int = 0
    obeyed: int = 0


class Cut(Input, frozen=True):
    """From a driver: the link to a node's agent is gone. The agent may go on, and come back."""

    node: str
    why: str


class Ended(Input, frozen=True):
    """From a driver: a node's agent has ended, or could not be started."""

    node: str
    why: str


class Cleared(Input, frozen=True):
    """From a driver: no agent is on the node any more, nor what it had started; but for what is ``left``, in words."""

    node: str
    left: str = ""


class Warned(Input, frozen=True):
    """From a driver: something that people who watch the run should know."""

    text: str


class TakenAway(Input, frozen=True):
    """From a driver: the node's source has taken it away, with all that ran there."""

    node: str


OfCluster = (
    Granted | Lost | Back | Refused | Returned | Ask | AskLess | Reclaim | Said | Unlinked | Greeted | Repeated | Batch
    | Cancel | Resize | Tail | Fired | Hold | Release | Resumed | EndAll | EndNow
)  # fmt: skip
"""What the machine of the jobs is told."""
OfNodes = Begin | Heard | Cut | Ended | Cleared | TakenAway | Warned
"""What the fleet is told."""
AnyInput = OfCluster | OfNodes


class Output(msgspec.Struct, frozen=True, tag=True):
    """Base of all that a cluster wants done, when its records have been written."""


class Send(Output, frozen=True):
    """A message for the agents of these nodes, with what its envelope says (``protocol.messages.To``)."""

    nodes: tuple[str, ...]
    message: ControllerMessage
    id: int = 0
    after: int = 0


class SetTimer(Output, frozen=True):
    """Say Fired at ``at`` seconds; a timer of the same key that has not fired is moved."""

    key: Key
    at: float


class ReadTail(Output, frozen=True):
    """Read the end of a job's output, and say Tail."""

    job: int
    path: str


class Log(Output, frozen=True):
    """Add a line of ours to a job's output."""

    path: str
    text: str


class Notice(Output, frozen=True):
    """Tell people who watch the run."""

    text: str


class Acquire(Output, frozen=True):
    """Ask for so many nodes more, each with this ``need``: Granted and Refused are the answers."""

    count: int
    need: Need | None = None


class Withdraw(Output, frozen=True):
    """So many nodes that the provider was asked for are not wanted any more: it answers with Refused for those that
    will not come. Others have come by then, or come all the same."""

    count: int


class GiveBack(Output, frozen=True):
    """Give these nodes, which nobody uses, back: Returned is the answer."""

    nodes: tuple[str, ...]


class Abandon(Output, frozen=True):
    """This node is not to be relied on: end what is left there, and never grant it again."""

    node: str


class StartAgents(Output, frozen=True):
    """For a driver: start an agent on each of these nodes. Its hello is the answer, or Ended."""

    nodes: tuple[str, ...]


class Clear(Output, frozen=True):
    """For a driver: end the agent of this node, if there is one, and all that was started there. Cleared is the
    answer."""

    node: str


class CannotBegin(Output, frozen=True):
    """The run cannot begin, as not all nodes can be had."""

    why: str

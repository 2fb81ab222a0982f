"""What jobs say and are told: their messages become events for the core, and the core's wishes messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pliant.core import events as e
from pliant.daemon.jobs import LiveGroup, LiveJob
from pliant.model.errors import ProtocolError
from pliant.model.nodes import NodeSet
from pliant.protocol import codec
from pliant.protocol import messages as m


class Sessions:
    """The sessions of all jobs. ``send`` reaches a node's agent, ``happened`` the core; ``drop`` ends the
    newcomers of a job's resize, by its number."""

    def __init__(
        self,
        names: Sequence[str],
        send: Callable[[str, m.ControllerMessage], object],
        happened: Callable[[e.Event], None],
        drop: Callable[[LiveJob, int], None],
    ) -> None:
        self._names = names
        self._numbers = {name: i for i, name in enumerate(names)}
        self._send = send
        self._happened = happened
        self._drop = drop
        self._decoder = codec.from_job()

    def relayed(self, job: LiveJob, node: str, relay: m.Relay) -> None:
        """A message has come from a session; what is out of place is answered by an error, there alone."""
        group = job.groups[relay.group]
        try:
            said = self._decoder.decode(relay.message)
            if relay.session == 0 and isinstance(said, m.Error):
                self._broken(job, group, said.text)
                return
            if isinstance(said, m.Done):
                self._check_done(job, said)
            if isinstance(said, m.Hello):
                group.session = relay.session  # the latest speaks for the group
            for message in job.session.receive(group.number, said):
                self._said(job, group, message)
        except ProtocolError as error:
            self._tell(job, group, m.Error(f"{error} ({node})"), relay.session)

    def _broken(self, job: LiveJob, group: LiveGroup, why: str) -> None:
        """The agent itself says why it ends a group."""
        if group.joined:
            job.cause = job.cause or why
        else:
            group.complain(why)

    def tell_root(self, job: LiveJob, message: m.SchedulerMessage) -> None:
        """Send to the group that speaks for the job, if that may be sent now."""
        if job.session.may_send(message):
            self._tell(job, job.groups[job.session.root], job.session.send(message))

    def _tell(
        self, job: LiveJob, group: LiveGroup, message: m.SchedulerMessage, session: int | None = None
    ) -> None:
        """Send to a session of the group, its latest if none is named."""
        number = group.session if session is None else session
        self._send(self._names[group.node], m.Deliver(job.number, group.number, number, codec.raw(message)))

    def _check_done(self, job: LiveJob, done: m.Done) -> None:
        """A program may say what it likes; names and groups have to be ones that exist."""
        if done.root not in job.groups:
            raise ProtocolError(f"done names group {done.root} as root, which the job does not have")
        if unknown := sorted(set(done.released) - set(self._numbers)):
            raise ProtocolError(f"done releases {', '.join(unknown)}, which are no nodes of this cluster")

    def _said(self, job: LiveJob, group: LiveGroup, message: m.JobMessage) -> None:
        number = job.number
        match message:
            case m.Hello():
                together, bounds = job.together(group), job.agreed(message.bounds)
                self._tell(job, group, m.Welcome(number, job.spec.name, together, job.spec.model, bounds))
                if group.number == job.session.root:
                    self._happened(e.Hello(number, message.elastic, message.bounds))
            case m.Malleable():
                self._happened(e.Malleable(number, message.on))
            case m.Want():
                self._happened(e.Wants(number, message.bounds))
            case m.Accept():
                self._happened(e.Accepted(number, message.resize))
            case m.Decline():
                self._happened(e.Declined(number, message.resize, message.reason, message.late))
            case m.Done():
                released = NodeSet.of(self._numbers[name] for name in message.released)
                self._happened(e.Resized(number, message.resize, released, message.blocked_s, message.phases))
            case m.Failed():
                self._drop(job, message.resize)
                self._happened(e.ResizeFailed(number, message.resize, message.error, message.late))
            case m.Progress():
                self._happened(e.Progressed(number, message.fraction, message.pace_s, message.paced_s))
            case m.Put():
                for waiting in job.board.put(message.epoch, message.key, message.value):
                    self._tell(job, job.groups[waiting], m.Value(message.epoch, message.key, message.value))
            case m.Get():
                value = job.board.get(group.number, message.epoch, message.key)
                if value is not None:
                    self._tell(job, group, m.Value(message.epoch, message.key, value))
            case m.Error():
                (job if group.joined else group).complain(message.text)
            case m.Bye():
                job.result = message.result
            case m.Ready():
                pass  # the newcomers tell the sources themselves, by the board

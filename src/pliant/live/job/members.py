"""The groups of a live job: how they are reached and ended, and what it means to the job that one is lost."""

from __future__ import annotations

from pliant.core import events as e
from pliant.core import records as r
from pliant.live.cluster.orders import SIGKILL
from pliant.live.job.effects import Effects
from pliant.live.job.groups import LiveGroup, Place
from pliant.model.jobs import JobSpec, JobState
from pliant.model.kinds import KINDS, Loss
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.phases import Phase
from pliant.protocol.scheduler_side import SchedulerSide

SIGNALLED = 128
"""Exit codes above are those of processes that a signal has ended, as a shell shows it."""
GONE_S = 15.0
"""What the kernel has not removed so long after it was killed is given up; its node will not be proved clean."""


class Members:
    """A part of the life of a job. Its kind says what the loss of a group means to it; ``losses`` are those that it
    goes on without, each with why."""

    def __init__(self, number: int, spec: JobSpec, place: Place, effects: Effects) -> None:
        self.number = number
        self.spec = spec
        self.groups: dict[int, LiveGroup] = {}
        self.losses: dict[int, str] = {}
        self.side = SchedulerSide(0)
        self._kind = KINDS[spec.kind]
        self._place = place
        self._effects = effects
        self._exit_code = 0
        self._cause = ""

    def alive(self) -> list[LiveGroup]:
        return [group for group in self.groups.values() if group.alive]

    def newcomers(self) -> list[LiveGroup]:
        """Those of the resize that goes on, lost or not."""
        if self.side.state not in ("resizing", "recalling"):
            return []
        return [
            group for group in self.groups.values() if group.resize == self.side.resize and not group.joined
        ]

    def fail(self, code: int, cause: str) -> None:
        """Book a failure; the first one stands, as others follow from it."""
        self._exit_code = self._exit_code or code
        self._cause = self._cause or cause

    def _fail_with(self, group: LiveGroup, code: int, error: str) -> None:
        """Book that a group is lost. If that was none of our doing, what others have complained of before it was heard
        follows from it: an MPI may tell a rank that its peer is gone before the peer's own agent does."""
        unasked = (code > SIGNALLED and not group.killed) or group.early
        if self._cause and not self._exit_code and unasked:
            self._cause = f"{error}; {self._cause}"
        self.fail(code, error)

    def _signal(self, number: int, only: LiveGroup | None = None) -> None:
        for group in self.alive() if only is None else [only]:
            if number == SIGKILL and not self._doom(group):
                continue
            self._effects.send(group.node, m.Signal(self.number, number, group.number))

    def _doom(self, group: LiveGroup) -> bool:
        """The group is being killed: it gets so long to be gone. Whether that is news."""
        if group.killed:
            return False
        group.killed = True
        self._effects.later(("gone", self.number, group.number), GONE_S)
        return True

    # ---- losses --------------------------------------------------------------------------------------

    def _member_lost(self, group: LiveGroup, code: int, error: str) -> None:
        """A group that is a part of the job has failed, or its node is lost: what that means, the table of kinds
        says."""
        loss, number = self._kind.loss, group.number
        why = group.why(error)
        if loss is not Loss.ENDS_JOB:
            self.losses[number] = why
        others = [each.number for each in self.groups.values() if each is not group and self._stays(each)]
        if loss is Loss.ENDS_JOB or not others or (loss is Loss.IS_TOLD and number == self.side.root):
            self._fail_with(group, code, error)
            self._signal(SIGKILL)
            return
        if loss is Loss.FAILS_JOB:
            self._fail_with(group, code, error)
        if number == self.side.root:
            self._without_root(min(others))
        elif self._in_session():
            self._tell_root(m.GroupLost(number, why))
        self._effects.happened(e.GroupsLost(self.number, (number,), why))
        self._check_launched()

    def _without_root(self, root: int) -> None:
        """Nobody speaks for the job any more, as after a Bye; or nobody has yet, and another group may."""
        if self._in_session():
            self._leave_loop(resizing=self.side.state in ("resizing", "recalling"))
        self.side.root_lost(root)

    def _stays(self, group: LiveGroup) -> bool:
        """Whether it is one that the job has, as the core counts them."""
        return group.joined and not group.released and group.number not in self.losses

    def _in_session(self) -> bool:
        """Whether the job's root has opened its session, and has not said Bye."""
        return self.side.state not in ("new", "closed")

    def _tell_losses(self) -> None:
        """Tell the root which groups are lost; what it has been told its agent does not tell it again."""
        for number, why in self.losses.items():
            self._tell_root(m.GroupLost(number, why))

    def tell_losses_again(self) -> None:
        """It may not have heard of all."""
        if self._in_session():
            self._tell_losses()

    def _check_launched(self) -> None:
        if all(each.started or not each.alive for each in self.groups.values() if each.joined):
            self._effects.happened(e.Launched(self.number))

    def _leave_loop(self, *, resizing: bool) -> None:
        self._effects.happened(e.Malleable(self.number, on=False))
        if resizing and self.side.resize is not None:
            self._drop_newcomers(self.side.resize)
            self._effects.happened(
                e.ResizeFailed(self.number, self.side.resize, "the job has left its loop", late=True)
            )

    def _ready(self, group: LiveGroup) -> None:
        """A newcomer has come to where it can be joined; the last of its resize ends the start."""
        group.ready = True
        if not group.joined and all(
            each.ready for each in self.groups.values() if each.resize == group.resize
        ):
            self._effects.happened(e.Reached(self.number, group.resize, Phase.SYNCHRONISE))

    def failed(self, record: r.ResizeFailed | r.JobEnded) -> None:
        """Have the job's log tell in which phase a resize has failed, or the job that was resized."""
        if record.phase is None or (isinstance(record, r.ResizeFailed) and record.late):
            return
        what = f"resize {record.resize}" if isinstance(record, r.ResizeFailed) else "the job, being resized,"
        if isinstance(record, r.ResizeFailed) or record.state is not JobState.COMPLETED:
            why = record.error.partition("\n")[0]
            self._effects.log(self._place.output, f"{what} failed in its phase {record.phase}: {why}")

    def _drop_newcomers(self, resize: int) -> None:
        for group in self.alive():
            if group.resize == resize and not group.joined:
                self._signal(SIGKILL, group)

    # ---- telling -------------------------------------------------------------------------------------

    def _tell_root(self, message: m.SchedulerMessage) -> None:
        """Send to the group that speaks for the job; ProtocolError if that must not be sent now."""
        self._tell(self.groups[self.side.root], self.side.send(message))

    def _tell(self, group: LiveGroup, message: m.SchedulerMessage, session: int | None = None) -> None:
        """Send to a session of the group, its latest if none is named."""
        number = group.session if session is None else session
        once = codec.once(message)
        self._effects.send(group.node, m.Deliver(self.number, group.number, number, codec.raw(message), once))

    def _name(self, node: int) -> str:
        return self._place.names.get(node, f"n{node}")

"""What happens to a resize in the core, from an order or an offer to its end: the table of ``protocol/resizing.py`` is
followed here, and races end here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import moving, placing, wishes
from pliant.core import records as r
from pliant.core import slots as by_slots
from pliant.core.job import ALL, Job, Resize
from pliant.core.state import State
from pliant.model.errors import PolicyError
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import EMPTY, NodeSet, lowest_bits, without
from pliant.model.words import are, count
from pliant.policy import view as p
from pliant.protocol import messages as m
from pliant.protocol import resizing
from pliant.protocol.phases import DEADLINES, Course, Phase, in_order

ORDERED = p.Reason("ordered")
WANTED = p.Reason("wanted")
AT_ONCE_S = 1.0
"""Nodes that were left are waited for so long, where they are proved clean within it as a rule (``leave_s``)."""


class Resizes:
    """A part of the core. What is made of events goes to ``_records`` and ``_commands``; ``_news``: a pass is due."""

    def __init__(self, state: State, policy: p.Policy) -> None:
        self.state = state
        self.held = ""
        """Why nothing may be begun now: no pass is made and no job is offered anything; empty if it may."""
        self._left: dict[int, float] = {}
        """By job: until when the nodes that it has left, or leaves as it ends, are expected to be back at once."""
        self._policy = policy
        self._records: list[r.Record] = []
        self._commands: list[c.Command] = []
        self._news = False

    def _record(self, record: r.Record) -> None:
        self.state.apply(record)
        self._records.append(record)

    def _live(self, number: int) -> Job | None:
        """The running job, unless it is already being ended: then nothing it says matters any more."""
        job = self.state.jobs.get(number)
        if job is None or job.state is JobState.PENDING or job.ending is not None:
            return None
        return job

    def refusal(  # noqa: C901, PLR0911 - each objection supposes that those before it fail
        self, number: int, size: int, leave: NodeSet, slots: Mapping[int, int] = ALL
    ) -> str | None:
        """Why an order to resize job ``number`` to ``size``, to move it off ``leave`` where that is 0, or to so many
        ``slots`` of its nodes, cannot be given now, or None."""
        state = self.state
        if self.held:
            return f"nothing is started or resized now: {self.held}"
        job = state.jobs.get(number)
        if job is None:
            return f"job {number} is not pending or running"
        if not job.size:
            return f"job {number} ({job.spec.name}) is still pending; only a running job can be resized"
        if job.ending is not None:
            return f"job {number} ({job.spec.name}) is being ended"
        if slots:
            return by_slots.objection(state, job, slots)
        if size == 0:
            return moving.objection(state, job, leave) if leave else None
        if not job.on or job.spec.job_class is JobClass.RIGID:
            return f"job {number} ({job.spec.name}) takes no resizes now: it is {job.spec.job_class} and " + (
                "inside its loop" if job.on else "not inside its loop"
            )
        if job.resize is not None:
            return f"resize {job.resize.id} of job {number} is still under way"
        if not job.bounds.allows(size):
            rows = f"; its program can grow to {job.most}" if 0 < job.most < size else ""
            return f"{size} is no allowed size of job {number}; allowed: {job.bounds.describe()}{rows}"
        if size == job.size and not leave:
            return f"job {number} has {count(size, 'node')} already"
        more = _arriving(job, size, leave.mask)
        if more > state.free:
            return f"job {number} would need {count(more, 'more node')}, and {are(state.free)} free"
        if not leave <= NodeSet(job.nodes) or (more and leave and size != job.size):
            held, after = NodeSet(job.nodes), count(size, "node")
            return f"job {number} cannot give back {leave}: it holds {held} and goes to {after}"
        return None

    def _ordered(self, event: e.ResizeOrdered) -> None:
        if self.refusal(event.job, event.size, event.leave, event.slots) is not None:
            return
        job = self.state.jobs[event.job]
        if event.slots:
            self._offer_slots(job, event.slots)
            return
        if event.leave and not event.size:
            self._offer(job, job.size, ORDERED, event.leave)
            return
        if event.size or job.pinned:
            self._record(r.JobPinned(self.state.now, job.id, event.size != 0))
            self._news = True
        if event.size:
            self._offer(job, event.size, ORDERED, event.leave)

    def _malleable(self, job: Job, said: m.Malleable) -> None:
        if job.on != said.on and job.greeted:
            self._record(r.JobMalleable(self.state.now, job.id, said.on, said.most))
            if not said.on and job.resize is not None and job.resize.stage == resizing.OFFERED:
                # They crossed: the job will read the offer when it next looks, at its very end perhaps.
                self._withdraw(job, "its loop is over")
            self._news = True

    def _wants(self, job: Job, said: m.Want) -> None:
        """A job requests an action: Iserte et al. 2018, section 4.1. It grows if so many nodes are free, and may
        shrink."""
        wish = said.wish
        kept = wish if said.open and wishes.stays_open(job, wish) else None
        if job.wish != kept:
            self._record(r.JobWishes(self.state.now, job.id, kept))
        if job.resize is not None:
            return  # the offer that is under way is the answer
        size = wish.goal(job.bounds, job.size, self.state.free)
        too_soon = size > job.size and self.state.now < job.grow_from
        if too_soon or size == job.size or self.refusal(job.id, size, NodeSet()) is not None:
            self._commands.append(c.Stay(job.id))
        else:
            self._offer(job, size, WANTED, NodeSet())

    def _grant(self) -> None:
        """Wishes that are open get what is left when the policy has decided."""
        for job, size in wishes.to_grant(self.state):
            if self.refusal(job.id, size, EMPTY) is None:
                self._offer(job, size, WANTED, EMPTY)

    def _answered(self, job: Job, said: m.Accept | m.Decline | m.Done | m.Failed) -> Resize | None:
        """The resize that the job has answered, if that answer can still count."""
        resize = job.resize
        if resize is None or resize.id != said.resize:
            return None
        return resize if (resize.stage, type(said).__name__) in resizing.TABLE else None

    def _accepted(self, job: Job, said: m.Accept) -> None:
        if (resize := self._answered(job, said)) is None:
            return
        self._record(r.ResizeAccepted(self.state.now, job.id, resize.id))
        if (course := resize.course) is not None and (resize.started or not resize.arriving):
            course.come(Phase.START if resize.arriving else Phase.SYNCHRONISE, self.state.now)
        if resize.started:
            self._commands.append(c.Start(job.id, NodeSet(resize.nodes), resize.id))

    def _reached(self, job: Job, said: m.Reached) -> None:
        resize = job.resize
        if resize is None or resize.id != said.resize or resize.phase in (None, Phase.PREPARE):
            return
        if resize.course is not None and said.phase is not Phase.START:
            resize.course.come(said.phase, self.state.now)

    def _declined(self, job: Job, said: m.Decline) -> None:
        resize = self._answered(job, said)
        if resize is not None and not (resize.must and resize.stage == resizing.OFFERED):
            self._record(r.ResizeDeclined(self.state.now, job.id, resize.id, said.reason, said.late))
            self._news = True

    def _commit(self, job: Job, said: m.Done) -> int:
        """A resize is done: the nodes that the job has gained by it; none if that did not count, or ended the job."""
        if (resize := self._answered(job, said)) is None:
            return 0
        left = said.released
        if job.losses:
            lost = {group for loss in job.losses for group in loss.groups}
            left = tuple(group for group in left if group not in lost)
        released = 0
        if not (objection := self._objection(job, resize, left, said.root)):
            released = without(self.state.nodes_without(job, left), resize.nodes) if left else 0
            gone = released.bit_count()
            if not resize.after - resize.lost <= job.size + resize.nodes.bit_count() - gone <= resize.after:
                objection = (
                    f"from {resize.before} to {count(resize.after, 'node')} gave back {count(gone, 'node')}"
                )
        if objection:
            by_node = any(loss.node and said.root in loss.groups for loss in job.losses)
            state = JobState.NODE_FAIL if by_node else JobState.FAILED
            self._end(job, state, f"resize {resize.id}: {objection}")
            return 0
        course, phases = resize.course, in_order(said.phases)
        if course is not None:
            phases = course.seconds(phases, self.state.now)
        gained, given = NodeSet(resize.nodes), NodeSet(released) if released else EMPTY
        self._record(
            r.ResizeDone(
                self.state.now, job.id, resize.id, gained, given, said.blocked_s, phases,
                left, said.root,
            )
        )  # fmt: skip
        if released:
            self._leave(job, given)
        self._news = True
        return gained.mask

    def _objection(self, job: Job, resize: Resize, left: tuple[int, ...], root: int) -> str:
        """What is wrong with what a job says it has done, that ``left`` have gone and ``root`` speaks for it; empty if
        nothing is."""
        if resize.arriving and resize.stage == resizing.CROSSED:
            return "the job says that it is done, but it had been taken back and no group was started"
        present = self.state.groups(job)
        if left and not present.keys() >= (gone := set(left)):
            unknown = sorted(gone - present.keys())
            return f"groups {unknown} were given back, which the job does not have"
        known = root in present or any(group.id == root for group in resize.arriving)
        if root in left or not known:
            return f"group {root} is to speak for the job, but it is not one of it"
        return ""

    def _failed(self, job: Job, said: m.Failed) -> None:
        if (resize := self._answered(job, said)) is None:
            return
        dirty = NodeSet(resize.nodes)
        self._record(
            r.ResizeFailed(self.state.now, job.id, resize.id, said.error, dirty, said.late, resize.phase)
        )
        if dirty:
            self._leave(job, dirty)
        self._news = True

    def _leave(self, job: Job, nodes: NodeSet) -> None:
        """These nodes are to be proved clean of the job."""
        self._expect_back(job)
        self._commands.append(c.Release(job.id, nodes))

    def _expect_back(self, job: Job) -> None:
        """Its nodes are on their way back, and may be waited for; where passes have times of their own they are not."""
        if self.state.cost.leave_s <= AT_ONCE_S and not self.state.settings.pass_interval_s:
            self._left[job.id] = self.state.now + AT_ONCE_S

    def _back_at_once(self) -> float:
        """Until when nodes that are on their way back may be waited for; 0 if there are none.

        A pass amid nodes that come back together sees a cluster that nobody will ever see again: small jobs start on
        those that are there, and so pass the second of the queue, which would have started with the others.
        """
        state = self.state
        for number, until in list(self._left.items()):
            job = state.jobs.get(number)
            ends = job is not None and job.ending is not None
            if until <= state.now or not (
                ends or without(state.nodes.dirty.get(number, 0), state.nodes.reclaimed_mask)
            ):
                del self._left[number]
        return max(self._left.values(), default=0.0)

    def _taken_back(self, event: e.TakenBack) -> None:
        if (job := self._live(event.job)) is not None:
            self._withdraw(job, event.why)

    def _resumed(self, _event: e.Resumed) -> None:
        self._record(r.ControllerResumed(self.state.now))

    def _withdraw(self, job: Job, why: str) -> None:
        resize = job.resize
        if resize is not None and (resize.stage, "Withdraw") in resizing.TABLE:
            freed = NodeSet(0 if resize.stage == resizing.ACCEPTED else resize.nodes)
            self._record(r.ResizeWithdrawn(self.state.now, job.id, resize.id, why, freed))
            self._commands.append(c.Withdraw(job.id, resize.id))
            self._news = True

    def _overdue(self, job: Job, resize: Resize) -> None:
        """Its deadline is over: it is taken back, or its job is ended where it should have answered that."""
        phase = resize.phase
        where = "" if phase is None else f"in its phase {phase} "
        where += f"{self.state.now - resize.offered:.3g} s after the offer"
        if (resize.stage, "Withdraw") not in resizing.TABLE:
            why = f"resize {resize.id} was {where} and passed its deadline: the job has not answered"
            self._end(job, JobState.FAILED, why)
            return
        accepted = resize.stage == resizing.ACCEPTED
        name = DEADLINES[Phase.START if accepted else Phase.PREPARE]
        limit = getattr(self.state.settings, name)
        why = f"not {'done' if accepted else 'answered'} in time: {where} ({name} is {limit:g} s, and three steps more)"
        self._withdraw(job, why)

    def _end(self, job: Job, state: JobState, error: str) -> None:
        if job.ending is None:
            self._record(r.JobEnding(self.state.now, job.id, state, error))
            self._commands.append(self._kill(job, state))

    def _kill(self, job: Job, state: JobState) -> c.Kill:
        hard = state in (JobState.NODE_FAIL, JobState.FAILED)
        return c.Kill(job.id, 0.0 if hard else self.state.settings.kill_grace_s)

    def _offer(self, job: Job, size: int, reason: p.Reason, leave: NodeSet, among: int | None = None) -> None:
        """Offer the job ``size`` nodes; those that arrive are free ones, or of ``among``."""
        state = self.state
        more = _arriving(job, size, leave.mask)
        if not job.bounds.allows(size) or (size == job.size and not more):
            decision = p.Resize(job.id, size, reason)
            raise self._wrong(
                decision, f"it has {count(job.size, 'node')}; allowed are {job.bounds.describe()}"
            )
        if more > state.free:
            raise self._wrong(p.Resize(job.id, size, reason), f"only {are(state.free, 'node')} free")
        if more and among is None and state.nodes.expiry:
            among = placing.best(state, more)
        if among is None:
            mask = lowest_bits(state.nodes.free_mask, more, state.free) if more else 0
        else:
            mask = lowest_bits(among, more)
        arriving = state.new_groups(mask, job.last_group + 1) if more else ()
        leaving = state.groups_on(job, leave.mask) if leave.mask else ()
        must = size < job.size and reason is ORDERED
        self._open(job, r.ResizeOffered(
            state.now, job.id, state.next_resize, job.size, size, NodeSet(mask), reason, arriving, leaving, must=must,
        ))  # fmt: skip

    def _offer_slots(self, job: Job, wanted: Mapping[int, int]) -> None:
        """Its nodes stay the job's, so that the policy neither hears of it nor lets go of the job."""
        state, size = self.state, job.size
        slots = by_slots.by_group(state, job, wanted)
        self._open(
            job,
            r.ResizeOffered(state.now, job.id, state.next_resize, size, size, EMPTY, ORDERED, slots=slots),
        )

    def _open(self, job: Job, record: r.ResizeOffered) -> None:
        self._record(record)
        if job.resize is not None:
            job.resize.course = Course(record.at)
            self._commands.append(self.offer_of(job, job.resize))

    def of_resize(self, job: Job, resize: Resize) -> Iterable[c.Command]:
        """The commands of an open resize to which there is no answer."""
        match resize.stage:
            case resizing.OFFERED:
                yield self.offer_of(job, resize)
            case resizing.ACCEPTED if resize.arriving:
                yield c.Start(job.id, NodeSet(resize.nodes), resize.id)
            case resizing.WITHDRAWN | resizing.CROSSED | resizing.RECALLED:
                yield c.Withdraw(job.id, resize.id)

    def offer_of(self, job: Job, resize: Resize) -> c.Offer:
        """The command for it."""
        leave, leaving = EMPTY, resize.leaving
        if leaving:
            groups = self.state.groups(job)
            leaving = tuple(
                number for number in leaving if number in groups
            )  # the others were lost meanwhile
            leave = NodeSet.of(groups[number] for number in leaving)
        return c.Offer(
            job.id, resize.id, resize.before, resize.after, NodeSet(resize.nodes), leave,
            self.state.settings.offer_deadline_s, resize.arriving, leaving, must=resize.must, slots=resize.slots,
        )  # fmt: skip

    def _wrong(self, decision: p.Decision, why: str) -> PolicyError:
        state = self.state
        return PolicyError(
            f"policy {self._policy.name!r} at {state.now:.3f} s decided {decision}, but {why} "
            f"(free {state.free} of {state.total}, pending {state.waiting}, running {len(state.running)})"
        )


def _arriving(job: Job, size: int, leave: int) -> int:
    """How many new groups, one a node, it takes to come to ``size`` nodes when those of ``leave`` are left."""
    more = size - job.size + leave.bit_count()
    return max(0, more)

"""What happens to a resize in the core, from an order or an offer to its end: the table of ``protocol/resizing.py`` is
followed here, and races end here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import moving, placing, wishes
from pliant.core import records as r
from pliant.core import slots as by_slots
from pliant.core.job import ALL, OpenResize, ScheduledJob
from pliant.core.ledger import Ledger
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import EMPTY, NodeSet, lowest_bits, without
from pliant.model.words import are, count
from pliant.policy import view as p
from pliant.protocol import messages as m
from pliant.protocol import resizing
from pliant.protocol.phases import DEADLINES, Phase, PhaseTimer, in_order

ORDERED = p.Reason("ordered")
WANTED = p.Reason("wanted")


class Resizes:
    """All resizes of all jobs."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._state = ledger.state

    def refusal(  # noqa: C901, PLR0911 - each objection supposes that those before it fail
        self, number: int, size: int, leave: NodeSet, slots: Mapping[int, int] = ALL
    ) -> str | None:
        """Why an order to resize job ``number`` to ``size``, to move it off ``leave`` where that is 0, or to so many
        ``slots`` of its nodes, cannot be given now, or None."""
        state = self._state
        if self._ledger.held:
            return f"nothing is started or resized now: {self._ledger.held}"
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
        if not job.accepts_offers or job.spec.job_class is JobClass.RIGID:
            return f"job {number} ({job.spec.name}) takes no resizes now: it is {job.spec.job_class} and " + (
                "inside its loop" if job.accepts_offers else "not inside its loop"
            )
        if job.resize is not None:
            return f"resize {job.resize.id} of job {number} is still under way"
        if not job.bounds.allows(size):
            rows = f"; its program can grow to {job.growth_limit}" if 0 < job.growth_limit < size else ""
            return f"{size} is no allowed size of job {number}; allowed: {job.bounds.describe()}{rows}"
        if size == job.size and not leave:
            return f"job {number} has {count(size, 'node')} already"
        more = _arriving(job, size, leave.mask)
        if more > (free := placing.usable(state)):
            return f"job {number} would need {count(more, 'more node')}, and {are(free)} free"
        if not leave <= NodeSet(job.nodes) or (more and leave and size != job.size):
            held, after = NodeSet(job.nodes), count(size, "node")
            return f"job {number} cannot give back {leave}: it holds {held} and goes to {after}"
        return None

    def ordered(self, event: e.ResizeOrdered) -> None:
        if self.refusal(event.job, event.size, event.leave, event.slots) is not None:
            return
        job = self._state.jobs[event.job]
        if event.slots:
            self._offer_slots(job, event.slots)
            return
        if event.leave and not event.size:
            self.offer(job, job.size, ORDERED, event.leave)
            return
        if event.size or job.pinned:
            self._ledger.record_due(r.JobPinned(self._state.now, job.id, event.size != 0))
        if event.size:
            self.offer(job, event.size, ORDERED, event.leave)

    def malleable(self, job: ScheduledJob, said: m.Malleable) -> None:
        if job.accepts_offers != said.on and job.greeted:
            self._ledger.record_due(r.JobMalleable(self._state.now, job.id, said.on, said.most))
            if not said.on and job.resize is not None and job.resize.stage == resizing.OFFERED:
                # They crossed: the job will read the offer when it next looks, at its very end perhaps.
                self.withdraw(job, "its loop is over")

    def wants(self, job: ScheduledJob, said: m.Want) -> None:
        """A job requests an action: Iserte et al. 2018, section 4.1. It grows if so many nodes are free, and may
        shrink."""
        wish = said.wish
        kept = wish if said.open and wishes.stays_open(job, wish) else None
        if job.wish != kept:
            self._ledger.record(r.JobWishes(self._state.now, job.id, kept))
        if job.resize is not None:
            return  # the offer that is under way is the answer
        size = wish.goal(job.bounds, job.size, placing.usable(self._state))
        too_soon = size > job.size and self._state.now < job.grow_from
        if too_soon or size == job.size or self.refusal(job.id, size, NodeSet()) is not None:
            self._ledger.commands.append(c.Stay(job.id))
        else:
            self.offer(job, size, WANTED, NodeSet())

    def grant(self) -> None:
        """Wishes that are open get what is left when the policy has decided."""
        for job, size in wishes.to_grant(self._state):
            if self.refusal(job.id, size, EMPTY) is None:
                self.offer(job, size, WANTED, EMPTY)

    def _answered(
        self, job: ScheduledJob, said: m.Accept | m.Decline | m.Done | m.Failed
    ) -> OpenResize | None:
        """The resize that the job has answered, if that answer can still count."""
        resize = job.resize
        if resize is None or resize.id != said.resize:
            return None
        return resize if (resize.stage, type(said).__name__) in resizing.TABLE else None

    def accepted(self, job: ScheduledJob, said: m.Accept) -> None:
        if (resize := self._answered(job, said)) is None:
            return
        self._ledger.record(r.ResizeAccepted(self._state.now, job.id, resize.id))
        if (timer := resize.timer) is not None and (resize.started or not resize.arriving):
            timer.come(Phase.START if resize.arriving else Phase.SYNCHRONISE, self._state.now)
        if resize.started:
            self._ledger.commands.append(c.Start(job.id, NodeSet(resize.nodes), resize.id))

    def reached(self, job: ScheduledJob, said: m.Reached) -> None:
        resize = job.resize
        if resize is None or resize.id != said.resize or resize.phase in (None, Phase.PREPARE):
            return
        if resize.timer is not None and said.phase is not Phase.START:
            resize.timer.come(said.phase, self._state.now)

    def declined(self, job: ScheduledJob, said: m.Decline) -> None:
        resize = self._answered(job, said)
        if resize is not None and not (resize.must and resize.stage == resizing.OFFERED):
            self._ledger.record_due(
                r.ResizeDeclined(self._state.now, job.id, resize.id, said.reason, said.late)
            )

    def commit(self, job: ScheduledJob, said: m.Done) -> int:
        """A resize is done: the nodes that the job has gained by it; none if that did not count, or ended the job."""
        if (resize := self._answered(job, said)) is None:
            return 0
        left = said.released
        if job.losses:
            lost = {group for loss in job.losses for group in loss.groups}
            left = tuple(group for group in left if group not in lost)
        released = 0
        if not (objection := self._objection(job, resize, left, said.root)):
            released = without(self._state.nodes_without(job, left), resize.nodes) if left else 0
            gone = released.bit_count()
            if not resize.after - resize.lost <= job.size + resize.nodes.bit_count() - gone <= resize.after:
                objection = (
                    f"from {resize.before} to {count(resize.after, 'node')} gave back {count(gone, 'node')}"
                )
        if objection:
            by_node = any(loss.node and said.root in loss.groups for loss in job.losses)
            state = JobState.NODE_FAIL if by_node else JobState.FAILED
            self._ledger.end(job, state, f"resize {resize.id}: {objection}")
            return 0
        timer, phases = resize.timer, in_order(said.phases)
        if timer is not None:
            phases = timer.seconds(phases, self._state.now)
        gained, given = NodeSet(resize.nodes), NodeSet(released) if released else EMPTY
        self._ledger.record_due(r.ResizeDone(
            self._state.now, job.id, resize.id, gained, given, said.blocked_s, phases, left, said.root,
        ))  # fmt: skip
        if released:
            self._ledger.leave(job, given)
        return gained.mask

    def _objection(self, job: ScheduledJob, resize: OpenResize, left: tuple[int, ...], root: int) -> str:
        """What is wrong with what a job says it has done, that ``left`` have gone and ``root`` speaks for it; empty if
        nothing is."""
        if resize.arriving and resize.stage == resizing.CROSSED:
            return "the job says that it is done, but it had been taken back and no group was started"
        present = self._state.groups(job)
        if left and not present.keys() >= (gone := set(left)):
            unknown = sorted(gone - present.keys())
            return f"groups {unknown} were given back, which the job does not have"
        known = root in present or any(group.id == root for group in resize.arriving)
        if root in left or not known:
            return f"group {root} is to speak for the job, but it is not one of it"
        return ""

    def failed(self, job: ScheduledJob, said: m.Failed) -> None:
        if (resize := self._answered(job, said)) is None:
            return
        dirty = NodeSet(resize.nodes)
        self._ledger.record_due(r.ResizeFailed(
            self._state.now, job.id, resize.id, said.error, dirty, said.late, resize.phase
        ))  # fmt: skip
        if dirty:
            self._ledger.leave(job, dirty)

    def taken_back(self, event: e.TakenBack) -> None:
        if (job := self._ledger.live(event.job)) is not None:
            self.withdraw(job, event.why)

    def withdraw(self, job: ScheduledJob, why: str) -> None:
        resize = job.resize
        if resize is not None and (resize.stage, "Withdraw") in resizing.TABLE:
            freed = NodeSet(0 if resize.stage == resizing.ACCEPTED else resize.nodes)
            self._ledger.record_due(r.ResizeWithdrawn(self._state.now, job.id, resize.id, why, freed))
            self._ledger.commands.append(c.Withdraw(job.id, resize.id))

    def overdue(self, job: ScheduledJob, resize: OpenResize) -> None:
        """Its deadline is over: it is taken back, or its job is ended where it should have answered that."""
        phase = resize.phase
        where = "" if phase is None else f"in its phase {phase} "
        where += f"{self._state.now - resize.offered:.3g} s after the offer"
        if (resize.stage, "Withdraw") not in resizing.TABLE:
            why = f"resize {resize.id} was {where} and passed its deadline: the job has not answered"
            self._ledger.end(job, JobState.FAILED, why)
            return
        accepted = resize.stage == resizing.ACCEPTED
        name = DEADLINES[Phase.START if accepted else Phase.PREPARE]
        limit = getattr(self._state.settings, name)
        why = f"not {'done' if accepted else 'answered'} in time: {where} ({name} is {limit:g} s, and three steps more)"
        self.withdraw(job, why)

    def offer(
        self, job: ScheduledJob, size: int, reason: p.Reason, leave: NodeSet, among: int | None = None
    ) -> None:
        """Offer the job ``size`` nodes; those that arrive are free ones, or of ``among``."""
        state = self._state
        more = _arriving(job, size, leave.mask)
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

    def _offer_slots(self, job: ScheduledJob, wanted: Mapping[int, int]) -> None:
        """Its nodes stay the job's, so that the policy neither hears of it nor lets go of the job."""
        state, size = self._state, job.size
        slots = by_slots.by_group(state, job, wanted)
        self._open(
            job,
            r.ResizeOffered(state.now, job.id, state.next_resize, size, size, EMPTY, ORDERED, slots=slots),
        )

    def _open(self, job: ScheduledJob, record: r.ResizeOffered) -> None:
        self._ledger.record(record)
        if job.resize is not None:
            job.resize.timer = PhaseTimer(record.at)
            self._ledger.commands.append(self.offer_of(job, job.resize))

    def of_resize(self, job: ScheduledJob, resize: OpenResize) -> Iterable[c.Command]:
        """The commands of an open resize to which there is no answer."""
        match resize.stage:
            case resizing.OFFERED:
                yield self.offer_of(job, resize)
            case resizing.ACCEPTED if resize.arriving:
                yield c.Start(job.id, NodeSet(resize.nodes), resize.id)
            case resizing.WITHDRAWN | resizing.CROSSED | resizing.RECALLED:
                yield c.Withdraw(job.id, resize.id)

    def offer_of(self, job: ScheduledJob, resize: OpenResize) -> c.Offer:
        """The command for it."""
        leave, leaving = EMPTY, resize.leaving
        if leaving:
            groups = self._state.groups(job)
            # The others were lost meanwhile.
            leaving = tuple(number for number in leaving if number in groups)
            leave = NodeSet.of(groups[number] for number in leaving)
        return c.Offer(
            job.id, resize.id, resize.before, resize.after, NodeSet(resize.nodes), leave,
            self._state.settings.offer_deadline_s, resize.arriving, leaving, must=resize.must, slots=resize.slots,
        )  # fmt: skip


def _arriving(job: ScheduledJob, size: int, leave: int) -> int:
    """How many new groups, one a node, it takes to come to ``size`` nodes when those of ``leave`` are left."""
    more = size - job.size + leave.bit_count()
    return max(0, more)

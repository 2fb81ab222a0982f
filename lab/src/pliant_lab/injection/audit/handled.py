"""What has to follow, in the same instant, from what a controller is told: its records, and what it wants done. And
what has to follow within a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.history.audit import Audit
from pliant.live.cluster import orders as o
from pliant.live.cluster.orders import SIGKILL, SIGTERM
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.lasting import Lasting
from pliant.protocol import codec, resizing
from pliant.protocol import messages as m
from pliant_lab.injection.audit.amid import amid_s
from pliant_lab.injection.audit.followed import Followed
from pliant_lab.injection.audit.ordered import followed, objection_to_moving, objection_to_slots
from pliant_lab.injection.audit.overdue import Overdue
from pliant_lab.injection.audit.rests import Rests
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.audit.wished import Wished
from pliant_lab.injection.audit.words import Words
from pliant_lab.injection.standins.running import own_words

if TYPE_CHECKING:
    from pliant.live.job.life import JobLife
    from pliant.model.need import Need
    from pliant_lab.injection.standins.process import Proc
    from pliant_lab.injection.world import World

LATE_S = 0.1
"""What is to happen at a time happens so soon after it."""
DAEMON_S = 30.0
"""A controller that begins again hears for so long what there is before it gives anything back."""
CLEAN_S = 13.0
"""A node is clean or given up by then: an agent waits 5 s for what leaves by itself, kills for 3 s, and looks for
3 s."""
GIVEN_UP_S = 65.0
"""Whatever keeps it from an answer: it is asked twice, and has 30 s each time."""
BAD_LINK = frozenset({"agent killed", "link cut", "link lost", "link stalled", "slow link", "node lost"})
UNSOUND = BAD_LINK | {"undead", "hung", "hung for long"}
HARD = (JobState.NODE_FAIL, JobState.FAILED)
OFFERS = (b'"offer"', b'"drain"')
NEWS = (
    r.JobSubmitted, r.JobMalleable, r.JobPinned, r.JobEnded, r.ResizeDeclined, r.ResizeFailed, r.ResizeDone,
    r.ResizeWithdrawn, r.GroupsLost, r.NodesGranted, r.NodesClean, r.NodesLost, r.NodesBack, r.NodesRefused,
    r.NodesReclaimed, r.NodesReturned, r.NodesExpire,
)  # fmt: skip
PLAIN = frozenset({"malleable", "rigid", "cancel", "walltime", "ended"})
"""What a job may have met and still ends in good order when it is asked to."""


class Handled:
    """A second opinion on each call of the controller's machine."""

    def __init__(self, world: World, audit: Audit) -> None:
        self._world = world
        self._audit = audit
        self.ending: dict[int, r.JobEnding] = {}
        self.roots: dict[int, int] = {}
        self.accepting: set[int] = set()
        self.overdue = Overdue(world)
        self._followed = Followed(world)
        self._words = Words(world)
        self._wished = Wished(world, audit, self.objection)
        self._signalled: set[tuple[int, int, int]] = set()
        self._heard_at: dict[int, float] = {}
        self._step_s: dict[int, float] = {}
        self._orders: list[tuple[o.Resize, bool, bool]] = []
        self._owed: dict[int, bool] = {}
        """The jobs that have yet to hear of an offer; whether that was made before this call."""
        self._to_ask: Counter[tuple[int, Need | None]] = Counter()
        """Nodes that are wanted, by record, and have yet to be asked for; ``_asks_now``: the record is written."""
        self._asks_now = False
        self._dirty: dict[tuple[int, int], float] = {}
        self._ids: set[int] = set()
        self._rests = Rests(world)
        self._asked = world.policy.asked
        self._owed_pass: float | None = None
        """Since when a pass is due that has not been made."""
        self._could_start: float | None = None
        self._resuming = self._was_held = False
        self._resumed_at = world.clock.now if world.resumed else -1e9
        """Until then there was no controller, or one that still heard what there is."""
        self._agents, self._said = codec.from_agent(), codec.from_job()

    def know(self, record: r.Record) -> None:
        self._wished.know(record)
        match record:
            case r.JobEnding():
                self.ending[record.job] = record
            case r.ResizeDone():
                self.roots[record.job] = record.root
                self._rests.know(record)
            case r.ResizeOffered() | r.ResizeDeclined() | r.ResizeFailed():
                self._rests.know(record)
            case r.GroupsLost():
                self.roots[record.job] = record.root
            case r.JobMalleable():
                (self.accepting.add if record.on else self.accepting.discard)(record.job)
                self._heard_at[record.job] = record.at
            case r.JobProgressed():
                silent = record.at - self._heard_at.get(record.job, 0.0)
                self._step_s[record.job] = max(silent, self._step_s.get(record.job, 0.0))
                self._heard_at[record.job] = record.at
            case _:
                pass

    # ---- orders of operators -------------------------------------------------------------------------

    def objection(  # noqa: C901, PLR0911 - each supposes that those before it do not hold
        self, number: int, size: int, leave: frozenset[int], slots: Mapping[int, int]
    ) -> str:
        """What an order to resize has to be refused for, in a few of the words that its user gets; empty if nothing is
        against it."""
        job = self._audit.jobs.get(number)
        if self._world.head.cluster.core.held:
            return "nothing is started or resized now"
        if job is None:
            return "is not pending or running"
        if not job.started:
            return "is still pending"
        if number in self.ending:
            return "is being ended"
        if slots:
            return objection_to_slots(
                self._world, self._audit, number, slots, accepts=number in self.accepting
            )
        if not size:
            accepts = number in self.accepting
            return (
                objection_to_moving(self._world, self._audit, number, leave, accepts=accepts) if leave else ""
            )
        if (
            number not in self.accepting
            or self._world.ledger.specs_by_number[number].job_class is JobClass.RIGID
        ):
            return "takes no resizes now"
        if job.offer is not None:
            return "is still under way"
        if not job.bounds.allows(size):
            return "is no allowed size"
        if size == len(job.nodes) and not leave:
            return " already"
        more = max(0, size - len(job.nodes) + len(leave))
        if more > len(self._audit.nodes("free")):
            return "would need"
        if not leave <= job.nodes or (more and leave and size != len(job.nodes)):
            return "cannot give back"
        return ""

    def order(self, given: o.Resize) -> None:
        """An operator gives an order, and gets the reason if it cannot be followed. It is given all the same: what made
        it impossible may have come just before it."""
        head = self._world.head
        if head.pending:
            return
        core = head.cluster.core
        numbers = {name: number for number, name in core.state.nodes.names.items()}
        leave = frozenset(numbers[name] for name in given.leave)
        slots = {numbers[name]: count for name, count in given.slots.items()}
        expected = self.objection(given.job, given.size, leave, slots)
        said = core.resizes.refusal(given.job, given.size, NodeSet.of(leave), slots)
        if (said is None) == bool(expected) or expected not in (said or ""):
            raise Violation(
                "wrong", f"{given} is answered by {said!r}, and there is this against it: {expected!r}"
            )
        head.tell(given)
        job = self._audit.jobs.get(given.job)
        self._orders.append((given, not expected, job is not None and job.pinned))

    def _orders_followed(self, records: Sequence[r.Record]) -> None:
        orders, self._orders = self._orders, []
        for given, may, pinned in orders:
            followed(given, records, may=may, pinned=pinned)

    # ---- what a controller is told, and what it does ------------------------------------------------

    def look(
        self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record], outputs: Sequence[o.Output]
    ) -> None:
        was, self._resuming = self._resuming, self._world.head.cluster.resuming
        if was or self._resuming:
            self._resumed_at = self._world.clock.now
        told = self._orders_out(outputs)
        self._orders_followed(records)
        self._asked_for(inputs, records, outputs)
        self._words.done(inputs, records)
        self._heard(inputs, records, told)
        asks = any(isinstance(each, o.Said) and b'"want"' in bytes(each.message)[:400] for each in inputs)
        for record in records:
            if isinstance(record, r.ResizeOffered):
                self._wished.granted(record, asks=asks)
            self.know(record)
            self._follows(record, told)
        self._starts_in_time()
        self._policy_asked(records)
        self._offers_told(told)
        self._followed.look(inputs, records, outputs)
        if not self._resuming:
            self._wished.look(self._resumed_at)

    def _orders_out(self, outputs: Sequence[o.Output]) -> dict[int, list[tuple[int, bytes]]]:
        """What each job is told, with the group that hears it; orders that are sent again are none."""
        told: dict[int, list[tuple[int, bytes]]] = {}
        for output in outputs:
            if isinstance(output, o.Send) and output.id:
                if output.id in self._ids:
                    continue  # it is sent again, over a new link
                self._ids.add(output.id)
            if isinstance(output, o.Send) and isinstance(output.message, m.Deliver):
                order = output.message
                told.setdefault(order.job, []).append((order.group, bytes(order.message)))
            elif isinstance(output, o.Send) and isinstance(output.message, m.Signal):
                self._sends_signal(output.message)
        return told

    def _follows(self, record: r.Record, told: dict[int, list[tuple[int, bytes]]]) -> None:
        match record:
            case r.ResizeOffered():
                self._has_time(record)
                self._owed[record.job] = False
            case r.ResizeWithdrawn() if self._owed.pop(record.job, None) is None:
                self._root_told(record.job, told, b'"withdraw"')
            case r.JobMalleable(on=False):
                self._loop_is_over(record.job)
            case r.JobEnding():
                self._owed.pop(record.job, None)
                self._asked_to_end(record)
            case r.JobEnded():
                self._over(record)
            case r.NodesLost() | r.NodesBack() | r.NodesClean() if not record.nodes:
                raise Violation("wrong", f"{record} says nothing")
            case r.NodesLost():
                self.overdue.know(record)
            case r.NodesClean():
                for node in record.nodes:
                    self._dirty.pop((record.job, node), None)
            case _:
                pass

    def _loop_is_over(self, number: int) -> None:
        """It cannot answer before its end, perhaps: what it was offered is taken back."""
        job = self._world.head.cluster.core.state.jobs.get(number)
        if (
            job is not None
            and not job.accepts_offers
            and job.resize is not None
            and job.resize.stage == resizing.OFFERED
        ):
            raise Violation("stuck", f"job {number} has left its loop, and an offer waits for its answer")

    def _policy_asked(self, records: Sequence[r.Record]) -> None:
        """What may let a job start or change its size makes a pass in the same call, where there is something to
        decide, or soon after where jobs have just left nodes, or are about to."""
        asked, self._asked = self._asked, self._world.policy.asked
        cluster, state = self._world.head.cluster, self._world.head.cluster.core.state
        held = cluster.core.held or cluster.resuming or state.policy_failed or state.settings.pass_interval_s
        news = [each for each in records if isinstance(each, NEWS)]
        if held or not (state.nodes.free or state.waiting) or asked != self._asked:
            self._owed_pass = None
        elif news and self._owed_pass is None:
            self._owed_pass = self._world.clock.now
        may_wait_s = amid + LATE_S if (amid := amid_s(state)) else 0.0
        if self._owed_pass is not None and self._world.clock.now > self._owed_pass + may_wait_s:
            raise Violation("stuck", f"the policy is not asked after {self._owed_pass:.3f} s: {news[:1]}")

    def _offers_told(self, told: dict[int, list[tuple[int, bytes]]]) -> None:
        """An offer goes to the root, in the call after the one that recorded it if that is written."""
        for job, said in told.items():
            if any(word in line[:40] for _, line in said for word in OFFERS):
                self._root_told(job, told, *OFFERS)
                self._owed.pop(job, None)
        for job in [job for job, due in self._owed.items() if due and not self._world.head.cluster.held_back]:
            self._owed.pop(job)
            self._root_told(job, told, *OFFERS)
        self._owed = dict.fromkeys(self._owed, not self._world.head.cluster.held_back)

    def _asked_for(
        self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record], outputs: Sequence[o.Output]
    ) -> None:
        """Nodes that an operator wants are recorded, and asked for in the call after that if it is written."""
        cluster = self._world.head.cluster
        wanted = [(each.count, each.need) for each in inputs if isinstance(each, o.Ask)]
        recorded = [(each.count, each.need) for each in records if isinstance(each, r.NodesOrdered)]
        if wanted != recorded and not cluster.core.held:
            raise Violation("lost", f"{wanted} nodes are wanted, and {recorded} recorded")
        self._to_ask.subtract((each.count, each.need) for each in outputs if isinstance(each, o.Acquire))
        self._to_ask = +self._to_ask
        if self._to_ask and self._asks_now and not cluster.held_back:
            raise Violation("lost", f"{[*self._to_ask]} nodes are wanted, and not asked for")
        self._to_ask.update(recorded)
        self._asks_now = not cluster.held_back

    def _reaches(self, name: str) -> bool:
        link, cluster = self._world.head.links.get(name), self._world.head.cluster
        return link is not None and link.open and link.ready and cluster.nodes.reaches(name)

    def _life(self, number: int) -> JobLife | None:
        life = self._world.head.cluster.lives.get(number)
        return None if life is None or life.ended else life

    def _root_told(self, number: int, told: dict[int, list[tuple[int, bytes]]], *words: bytes) -> None:
        """Who speaks for the job hears of the resize, and nobody else."""
        life, root = self._life(number), self.roots.get(number, 0)
        if life is None or life.side.state == "closed" or number in self.ending:
            return
        name = self._world.head.cluster.core.state.nodes.names[life.groups[root].node]
        heard = {group for group, said in told.get(number, ()) if any(word in said[:40] for word in words)}
        if heard != {root} and self._reaches(name):
            raise Violation(
                "wrong", f"of a resize of job {number} hear groups {heard}, and its root is {root}"
            )

    def _has_time(self, record: r.ResizeOffered) -> None:
        """A job answers between two steps: it gets the time for three, as long as its longest so far."""
        state = self._world.head.cluster.core.state
        job = state.jobs.get(record.job)
        if job is None or job.resize is None or job.resize.stage != resizing.OFFERED:
            return
        now_s = record.at - self._heard_at.get(record.job, 0.0)
        step_s = max(now_s, self._step_s.get(record.job, 0.0))
        limit = record.at + state.settings.offer_deadline_s + 3.0 * step_s
        if abs(job.resize.deadline - limit) > LATE_S:
            raise Violation(
                "wrong", f"job {job.id} has until {job.resize.deadline:.3f} s, and needs {limit:.3f}"
            )

    def _heard(
        self,
        inputs: Sequence[o.AnyInput],
        records: Sequence[r.Record],
        told: dict[int, list[tuple[int, bytes]]],
    ) -> None:
        """What the root alone may say counts if it comes from the root, and only then."""
        if (
            len(inputs) != 1
            or not isinstance(given := inputs[0], o.Said)
            or b'"relay"' not in bytes(given.message)[:20]
        ):
            return
        relay = self._agents.decode(given.message)
        if not isinstance(relay, m.Relay):
            return
        said = bytes(relay.message)[:40]
        root = relay.group == self.roots.get(relay.job, 0)
        mine = [type(each) for each in records if getattr(each, "job", 0) == relay.job]
        life, job = self._life(relay.job), self._audit.jobs.get(relay.job)
        if life is None or job is None or relay.job in self.ending or relay.group not in life.groups:
            return
        group = life.groups[relay.group]
        if not relay.session and group.alive and not group.killed:
            raise Violation("stuck", f"job {relay.job}: group {relay.group} is being ended, without a limit")
        self._words.said(relay, records, told.get(relay.job, []), root=root)
        if not root or own_words(self._world.ledger.specs_by_number[relay.job].command)[0] != "malleable":
            return
        if b'"hello"' in said and not relay.group:
            self._followed.greeted(relay.job, len(job.nodes), mine)
        if b'"want"' in said:
            self._wished.asked(relay, records, told.get(relay.job, []))

    # ---- ends ----------------------------------------------------------------------------------------

    def _sends_signal(self, order: m.Signal) -> None:
        key = order.job, order.group or 0, order.number
        if key in self._signalled and order.number == SIGKILL:
            raise Violation("wrong", f"group {order.group} of job {order.job} is killed twice")
        self._signalled.add(key)
        ending, life = self.ending.get(order.job), self._life(order.job)
        if order.number != SIGKILL or ending is None or ending.state in HARD or life is None:
            return
        grace = self._world.head.cluster.core.state.settings.kill_grace_s
        group = life.groups.get(order.group or 0)
        if group is not None and not group.joined:
            return  # a newcomer that nobody will join
        early = self._world.clock.now < ending.at + grace - LATE_S
        failed = any(group.end[0] for group in life.groups.values())
        alone = not any(group.joined for group in life.alive())
        if early and not failed and not alone and self._world.ledger.touched(order.job) <= PLAIN:
            raise Violation("wrong", f"job {order.job} is killed before its {grace:g} s are over")

    def _asked_to_end(self, record: r.JobEnding) -> None:
        """All that lives of a job that is to end is told so at once."""
        life = self._life(record.job)
        numbers = (SIGKILL,) if record.state in HARD else (SIGKILL, SIGTERM)
        for group in life.alive() if life is not None else ():
            name = self._world.head.cluster.core.state.nodes.names.get(group.node, "")
            signalled = any((record.job, group.number, number) in self._signalled for number in numbers)
            if not (signalled or group.killed) and self._reaches(name):
                raise Violation("stuck", f"job {record.job} is to end, and group {group.number} is not told")

    def _over(self, record: r.JobEnded) -> None:
        """Nothing of a job goes on that has ended, and an end that was asked for comes in time."""
        world = self._world
        ending = self.ending.pop(record.job, None)
        self.accepting.discard(record.job)
        if world.ledger.ended_now:
            return
        touched = world.ledger.touched(record.job)
        for node in world.roster.nodes.values():
            for proc in node.processes.values():
                if proc.job == record.job and proc.program is not None and self._goes_on(proc):
                    raise Violation(
                        "leaked", f"job {record.job} is over, and {proc.name} on {node.name} goes on"
                    )
        if ending is None or touched & UNSOUND or self._on_unsound(record.job):
            return
        program = own_words(world.ledger.specs_by_number[record.job].command)
        slow = {"deaf", "liar"} & {program[0]} or any(word.startswith(("deaf=", "tidy=")) for word in program)
        soft = ending.state not in HARD
        slow = bool(slow) or (
            world.resumed and world.outside.grace > 0
        )  # it may have been started only just before
        limit = (world.head.cluster.core.state.settings.kill_grace_s if slow and soft else 0.0) + 2.5
        limit += 5.5 * (record.job % 8 == 0)  # the file system does not answer
        limit += 4.0 * CHANNEL_AGAIN_S * world.outside.lossy  # orders and answers are told again
        if record.at - max(ending.at, self._resumed_at) > limit:
            raise Violation(
                "stuck", f"job {record.job} took {record.at - ending.at:.3f} s to end, and met {touched}"
            )

    def _on_unsound(self, number: int) -> bool:
        """Whether something has met a node where the job has groups, or was to have some."""
        cluster = self._world.head.cluster
        life, names = cluster.lives.get(number), cluster.core.state.nodes.names
        groups = life.groups.values() if life is not None else ()
        return any(self._world.ledger.touched_node(names.get(group.node, "")) & UNSOUND for group in groups)

    def _goes_on(self, proc: Proc) -> bool:
        name, life = proc.node.name, self._world.head.cluster.lives.get(proc.job)
        if life is not None and proc.group not in life.groups:
            return False  # it was released before this controller began: the proof of its node waits for it
        sound = proc.node.agent is not None and self._reaches(name)
        return sound and not proc.dying and not self._world.ledger.touched_node(name) & UNSOUND

    # ---- times ---------------------------------------------------------------------------------------

    def _starts_in_time(self) -> None:
        """Under fcfs the head of the queue starts in the very pass in which it fits."""
        world, core = self._world, self._world.head.cluster.core
        state = core.state
        first = next(iter(state.queue), None)
        fcfs = bool(state.policy_failed) or (not world.policy.broken and world.policy.name == "fcfs")
        now = world.clock.now
        fits = first is not None and first.bounds.min <= len(self._audit.nodes("free"))
        if first is not None and state.nodes.expiry:
            fits &= Lasting(state).largest(first, first.bounds.preferred) > 0
        if first is None or core.held or not fcfs or not fits:
            self._could_start = None
        elif self._could_start is None:
            self._could_start = now
        elif now > self._could_start + state.settings.pass_interval_s + amid_s(state) + LATE_S:
            raise Violation("stuck", f"job {first.id} could have started at {self._could_start:.3f} s")
        self._alarm_kept()

    def _alarm_kept(self) -> None:
        """The policy is asked when it has asked to be woken."""
        world, core = self._world, self._world.head.cluster.core
        policy = world.policy
        if core.state.policy_failed:
            policy.alarm = None
        if (core.held or self._was_held) and policy.alarm is not None:
            policy.alarm = max(policy.alarm, world.clock.now)
        self._was_held = bool(core.held)
        after_s = world.settings.pass_interval_s + amid_s(core.state) + 0.1
        if policy.alarm is not None and world.clock.now > policy.alarm + after_s:
            raise Violation("stuck", f"the policy wanted to be asked at {policy.alarm:.3f} s")

    def waits(self) -> None:
        """Waits that should have been over."""
        head, now = self._world.head, self._world.clock.now
        if head.cluster.resuming:
            self._resumed_at = now
            return
        self.overdue.look(self._resumed_at)
        self._followed.waits()
        self._rests.look(self._resumed_at)
        for number, life in head.cluster.lives.items():
            if life.ended:
                continue
            self._ends_in_time(number, life, now)
        self._clean_in_time(now)
        if expired := self._audit.free_past(now - LATE_S - DAEMON_S):
            raise Violation("stuck", f"nodes {expired} have expired, and are free")

    def _ends_in_time(self, number: int, life: JobLife, now: float) -> None:
        state = self._world.head.cluster.core.state
        for group in life.groups.values():
            name = state.nodes.names.get(group.node, "")
            if "could not be ended" in group.end[1] and not self._world.ledger.touched_node(name) & UNSOUND:
                raise Violation(
                    "stuck", f"group {group.number} of job {number} was given up on {name}: {group.end}"
                )
        ending = self.ending.get(number)
        if ending is None or now < max(ending.at, self._resumed_at) + state.settings.kill_grace_s + LATE_S:
            return
        for group in life.alive():
            if group.joined and not group.killed:
                raise Violation("stuck", f"job {number} has had its grace, and group {group.number} goes on")

    def _clean_in_time(self, now: float) -> None:
        """A node is clean, or given up, soon after its job has left it."""
        world = self._world
        state = world.head.cluster.core.state
        waiting = set()
        for number, mask in state.nodes.dirty.items():
            for node in NodeSet(mask):
                waiting.add(key := (number, node))
                since, name = self._dirty.setdefault(key, now), state.nodes.names[node]
                if not self._reaches(name):
                    since = self._dirty[key] = now  # it has not heard of it
                there = world.roster.nodes.get(name)
                if now > since + GIVEN_UP_S:
                    raise Violation("stuck", f"{name} is waited for since {since:.3f} s, and not given up")
                held_up = there is None or there.agent is None or there.agent.is_starting(number)
                if now > since + CLEAN_S and not held_up and not world.ledger.touched_node(name) & BAD_LINK:
                    raise Violation(
                        "stuck", f"{name} is waited for since {since:.3f} s, to be clean of job {number}"
                    )
        for gone in self._dirty.keys() - waiting:
            del self._dirty[gone]

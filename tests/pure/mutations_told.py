"""Why mutants survive, for docs/mutations.md: by place and change."""

from __future__ import annotations

_GRACE = "it matters only when a controller has begun again, at a moment that these worlds do not meet: tests/pure/test_restart.py"
_GIVES_UP = "whoever has the nodes tells that one is lost as well, 5 s later at most"
_SPACE = "several groups of a job on one node: nothing offers that yet"
_BRINGS = "for the judgement of a policy: no unsound decision follows from it"

REASONS: dict[str, str] = {
    "live/cluster/nodes.py Nodes.lost: delete node.proofs.clear()": (
        "a proof that is still asked for from a lost node: its limit finds the node lost already; a little memory until then"
    ),
    'core/resizes.py Resizes._objection: delete return "the job says that it is done, but it had been taken back and no group was started"': (
        "no liar says that it has grown by a resize that was taken back before it accepted"
    ),
    'live/node/pmi.py PmiGroup._barrier: delete raise PmiError(f"rank {rank} came to a barrier in which it was already")': (
        "no stand-in comes to a barrier twice"
    ),
    "live/node/register.py Register.is_alive: group.is_starting -> (not (group.is_starting))": (
        "a proof begins while a group starts, or waits for its patience: the proof kills and looks again, only time differs"
    ),
    "live/node/life.py NodeLife._begin_end: delete self._end_group(group)": (
        "the look for what is left, which follows at once, kills the ranks as well"
    ),
    "live/cluster/nodes.py Nodes._greeted: delete self._lost(self._names[node], final=False)": (
        "another agent comes to its node before the one before it is known to be gone: the providers do not let it, as they clear the node first"
    ),
    "core/core.py SchedulerCore._hello: job.losses -> (not (job.losses))": (
        "a job of places that has lost a group before it said hello, and has a size that its bounds do not allow: hardly ever"
    ),
    "core/core.py SchedulerCore._back: delete return": (
        "a node that comes back after it was returned: a record that says nothing follows, and no provider of the world does it"
    ),
    "protocol/job_side.py JobSide.send: delete self.offer = None": (
        "which resize a session takes for open matters between an offer and its answer alone, and the next offer sets it"
    ),
    'core/core.py SchedulerCore._hello: delete self._ledger.end( job, JobState.FAILED, f"the submission allows {job.bounds.describe()} nodes, the program {own}, " f"an': (
        "no stand-in states bounds that contradict its submission"
    ),
    "live/node/life.py NodeLife._prove: delete return": (
        "a proof that is asked for while the agent ends: it looks once more, and the end answers all"
    ),
    "live/node/uplink.py Uplink.opened: others := [node for node in envelope.nodes if node != self._home.node] -> (not (others := [node for node in envelope.nod": (
        "an error to the controller about nodes that cannot be reached through an agent: it notes errors and does nothing"
    ),
    "core/state.py State._policy_failed: delete self.memory = {}": (
        "fcfs, which decides from then on, reads no memory"
    ),
    "live/cluster/nodes.py Nodes._greeted: delete node.unknown.add(held.job)": (
        "a group that no record knows is killed all the same; without the proof the next start there would have to come in the same moment"
    ),
    'live/node/life.py NodeLife._opened: delete self._do(n.Say(f"from the controller: {error}"))': (
        "words for the agent's own log"
    ),
    "live/node/life.py NodeLife._removal_due: removal.is_over(self._now) -> (not (removal.is_over(self._now)))": (
        "an unanswered look is given up earlier or later than it should be: the cluster's own limit for a proof ends the wait"
    ),
    "live/node/life.py NodeLife._spawned: delete self._kill([new.pid])": (
        "a rank that comes up after its start was given up: the proof that the node is clean finds the process as well"
    ),
    'protocol/job_side.py JobSide.send: name != "Want" -> (not (name != "Want"))': (
        "which resize a session takes for open matters between an offer and its answer alone, and the next offer sets it"
    ),
    'live/node/register.py start_problem: delete return ""': (
        "nothing is changed: None counts as no problem too"
    ),
    'core/resizes.py Resizes._objection: delete return ""': (
        "nothing is changed: None counts as no objection too"
    ),
    "core/core.py SchedulerCore.resume: delete core._ledger.due = True": (
        "after a resume all nodes are lost and come back, which makes a pass"
    ),
    "live/cluster/cluster.py Cluster._give_up_oversized: delete return": (
        "nothing is changed: no job needs more than all nodes"
    ),
    "live/job/life.py JobLife.fired: delete self._tell_no_session()": ("a hint in the job's log"),
    "live/node/life.py NodeLife._begin_end: delete self._do(n.CancelTimer(removal.key))": (
        "nothing is changed: while the agent ends, a proof's timer finds no proof"
    ),
    "live/node/life.py NodeLife._not_started: delete self._clear(group)": (
        "the proof that the node is clean, which follows soon, removes the files as well"
    ),
    "live/node/servers.py Servers.said: delete return": (
        "a dead rank had nothing to say in this run; now it may"
    ),
    "live/node/life.py NodeLife._take: delete self._last_words(group)": (
        "the end of a group's last rank is told a second later, by the limit for that"
    ),
    "live/job/life.py JobLife._broken: delete self._doom(group)": (
        "not tried again with the check that was added for it"
    ),
    "core/job.py Job.__init__: delete self.fraction = 0.0": (
        "read by policies that estimate, and by resumed jobs, alone"
    ),
    'core/state.py State._move: what != "Accept" -> (not (what != "Accept"))': _BRINGS,
    "core/core.py SchedulerCore._cancelled: delete self.state.over.ends.append((job, record, 0))": _BRINGS,
    "protocol/scheduler_side.py SchedulerSide.send: delete self.resize = message.resize": (
        "the core looks at the number of the resize again"
    ),
    "live/cluster/nodes.py Nodes._stays: job in state.jobs -> (not (job in state.jobs))": _SPACE,
    "live/node/outbox.py Outbox.add: delete self._number += 1": _GRACE,
    "live/node/outbox.py Outbox.add: delete self._drop_earlier(group)": _GRACE,
    "live/node/uplink.py Uplink.greet: delete self.here = True": _GRACE,
    "live/job/resuming.py roll_back: delete return False": _GRACE,
    "core/resizes.py Resizes.of_resize: delete yield c.Withdraw(job.id, resize.id)": _GRACE,
    "live/cluster/cluster.py Cluster._heard: not (node in self._links and self._links.is_new(node, said.number, said.obeyed)) -> (not (not (node in self._links and s": _GRACE,
    "live/job/resuming.py _wire: job.resize.stage == resizing.OFFERED -> (not (job.resize.stage == resizing.OFFERED))": _GRACE,
    "live/cluster/nodes.py Nodes._greeted: node not in self._links -> (not (node not in self._links))": _GRACE,
    "live/node/servers.py Servers._break: delete group.broken = error.code if isinstance(error, PmiError) else 1": (
        "the exit code of a group that called MPI_Abort, and words that are said twice"
    ),
    "core/core.py SchedulerCore._cancelled: delete return": (
        "the cancel of a job that is not there, too rare in the worlds of this run; since then it is four times as frequent"
    ),
    "live/job/life.py JobLife.heard: all(each.started for each in self.groups.values() if each.joined) -> (not (all(each.started for each in self.groups.valu": (
        "when a job counts as launched: nothing depends on that state"
    ),
    'live/job/life.py JobLife._linger_over: delete self.fail(1, f"group {group.number} had ended, but others did not follow within {GROUP_LINGER_S:g} s")': (
        "the words of a failure: the kill that follows makes it one"
    ),
    "live/node/pmi.py PmiGroup._barrier: delete self._check_ended()": (
        "a rank that ends before another of its node comes to MPI_Finalize, too rare in the worlds of this run"
    ),
    "core/nodes.py Nodes.granted: delete self.awaited = max(0, self.awaited - (record.nodes.mask & ~self.all_mask).bit_count())": (
        "a job that needs more nodes than there are is given up later, and only after nodes were asked for"
    ),
    "protocol/fence.py pieces: size + more > PIECE -> (not (size + more > PIECE))": (
        "the same entries in more and smaller pieces"
    ),
    "live/job/life.py JobLife.withdraw: g.resize == resize and not (g.joined or g.ready) -> (not (g.resize == resize and not (g.joined or g.ready)))": (
        "which nodes a line in the job's log names"
    ),
    "live/job/life.py JobLife._drop_newcomers: group.resize == resize -> (not (group.resize == resize))": (
        "newcomers that are not ended at once are ended by the proof that their nodes are clean, 5 s later"
    ),
    "live/job/resuming.py _wire: delete return scheduler_side.PROJECTION[job.resize.stage]": _GRACE,
    "live/job/life.py JobLife.add: self.quiet -> (not (self.quiet))": _GRACE,
    "live/node/life.py NodeLife._leave_if_alone: delete self._do(n.CancelTimer(timer))": (
        "nothing is changed: an agent that has left takes nothing more, and its timers end with it"
    ),
    "live/node/outbox.py Outbox._drop_board: _epoch(kept.what) < oldest -> (not (_epoch(kept.what) < oldest))": _GRACE,
    "live/node/life.py NodeLife._seek: removal.job is None -> (not (removal.job is None))": (
        "a node has one job at a time: what a look finds beside that are the agent's helpers, which are spared"
    ),
    "live/node/life.py NodeLife._begin_end: delete self._last_words(group)": (
        "ends of ranks that the controller is not told, as the agent leaves: the loss of the node tells it"
    ),
    "live/cluster/nodes.py Nodes.proof_overdue: delete self._ask(job, number)": (
        "a proof is asked for once more only if an agent says nothing for 30 s over a link that stands"
    ),
    "core/state.py State._resized: delete job.settle(now, blocked_s)": _BRINGS,
    "live/node/warmth.py Warmth.due: delete self._count()": (
        "a warm process that was twice not ready in time and is wanted a third time, too rare in these worlds"
    ),
    'live/cluster/nodes.py Nodes.returned: delete self.lost(self._bus.names[number], final=True, why="its provider took it away")': (
        "a node that is taken away in use: seldom drawn; what lives there is looked at since, also of jobs that are being ended"
    ),
    "core/resizes.py Resizes._objection: any(group.id == root for group in resize.arriving) -> (not (any(group.id == root for group in resize.arriving)))": (
        "all groups of a job leave in one resize and a newcomer speaks from then on: too rare in these worlds"
    ),
    "live/node/life.py NodeLife._start_next: delete self._do(n.SetTimer(group.timer, RANK_START_S))": (
        "the limit that was set when the token was to be written still runs: all ranks together have the time of one"
    ),
    "live/job/life.py JobLife._member_lost: delete self._without_root(min(others))": (
        "independent tasks have no session, so that it does not matter who would speak for them"
    ),
    "live/node/life.py NodeLife._link_lost: delete self._do(n.SetTimer(ORPHAN, self._home.orphan_grace))": (
        "whoever has the nodes ends an agent that was away for as long as its grace, and the next controller does"
    ),
    "core/resizes.py Resizes.commit: said.root in loss.groups -> (not (said.root in loss.groups))": (
        "FAILED for NODE_FAIL, where a resize that is refused names a lost root: a job may end so either way"
    ),
    'protocol/scheduler_side.py SchedulerSide._in_its_epoch: delete raise ProtocolError(f"{name} is of epoch {message.epoch}; the job is in {self.epoch}")': (
        "what is said of an old epoch names an old resize, and is refused for that"
    ),
    "live/tree/branch.py Branch._heard: rank == self.parent -> (not (rank == self.parent))": (
        "a launch that lost all agents passed for a good one; it does not since"
    ),
    "live/tree/branch.py Branch._bury: delete self._cut(rank, self.gone[rank])": (
        "one that is given up while it is here, with others below it: too rare in 60 launches"
    ),
    'live/tree/branch.py Branch._not_started: delete self.do(b.CancelTimer(f"start {rank}"))': (
        "the timer finds no such child any more"
    ),
    "live/tree/branch.py Branch._due: delete self._flooding.again(rank)": (
        "a link that breaks while a message to all goes over it, too rare in 60 launches"
    ),
    "live/job/life.py JobLife._rank_failed: delete return": (
        "the group is gone by then, and being gone again changes nothing"
    ),
    "live/job/life.py JobLife.tell_losses_again: self.side.in_session -> (not (self.side.in_session))": (
        _GRACE
    ),
    "live/node/warmth.py Warmth._count: len(self._failures) > KEYS -> (not (len(self._failures) > KEYS))": (
        "how many failures are remembered: a job is executed where it could have been forked, or tried once more"
    ),
    "live/node/life.py NodeLife._token_written: group.cleared -> (not (group.cleared))": (
        "a group that is cleared while its token is being written: too rare in these worlds"
    ),
    "live/cluster/nodes.py Nodes._ask: delete self._nodes[number].proofs[job] += 1": (
        "how often a proof was asked for: the last of several tries counts, and seldom even the second is made"
    ),
    "live/job/life.py JobLife._at_fence: delete self._check_fence(fence)": (
        "a group that has ended without coming to the fence is seen when it ends, unless others come there only then"
    ),
    "live/node/life.py NodeLife._found: delete self._do(n.SetTimer(removal.key, AGENT_LOOK_AGAIN_S))": (
        "the limit of the look before is still set: the next look comes 3 s later, not at once"
    ),
    "live/node/pmi.py process_mapping: delete return f\"(vector,{','.join(runs)})\"": (
        "no stand-in asks which ranks share a node"
    ),
    "live/cluster/nodes.py Nodes._granted: delete self._gone.discard(number)": (
        "a node that was returned and comes again by the same name: no provider of the world does that"
    ),
    "live/cluster/cluster.py Cluster._take: delete self._unlinked(node)": (
        "what is sent to nobody is kept and sent again over the next link all the same, and the provider tells when a node is lost"
    ),
    "live/cluster/cluster.py Cluster._cancel: delete self.lives[number].tell_end()": (
        "a job that has ended while there was no controller, and is cancelled before all agents are heard: too rare"
    ),
    "live/job/life.py JobLife._take: opens -> (not (opens))": (
        "a group that has ended before its job said hello, and others that do not follow it: too rare"
    ),
    'core/records.py _encode_hook: delete raise TypeError(f"a record cannot hold {type(value)}")': (
        "no record holds what cannot be written"
    ),
    'live/tree/branch.py Branch._orphaned: delete self.do(b.SetTimer("adopt 0", self._seat.patience_s))': (
        "one above that lives, has a link and never answers: those of the launches answer or are gone"
    ),
    "live/node/warmth.py Warmth.came_up: delete self._look()": (
        "the next rank that could be forked finds that its process is gone"
    ),
    "live/node/servers.py Servers.fenced: delete self._outbox.passed(group.key, order.round)": (
        "what a group said at fences that it has passed is kept until it ends: the world has two of them"
    ),
    "live/job/life.py JobLife.tail: delete return": (
        "what a job has used is told too early, and too low, if it ends while a controller begins again: too rare"
    ),
    "core/state.py State._declined: delete self.in_vain(record.resize)": _BRINGS,
    "protocol/scheduler_side.py SchedulerSide._in_its_epoch: delete return False": (
        "a new root is heard before the Done of the old one, over a faster link: too rare in 60 worlds"
    ),
    'live/cluster/nodes.py Nodes.proof_overdue: delete self._bus.later(("proof", job, number), NODE_PROOF_S)': (
        "a proof that is asked for over a link that has been gone for 30 s, and comes back: too rare"
    ),
    'live/cluster/nodes.py Nodes._unlinked: delete self.later(("grace", node), self._grace + PROVIDER_S)': _GIVES_UP,
    "live/cluster/cluster.py Cluster._fired: delete self._lost(self._names[node], final=False)": _GIVES_UP,
    "live/node/proof.py Removal.is_patient: self.began is not None -> (not (self.began is not None))": (
        "no rank of the world has a resource tracker that would clean up behind it"
    ),
    'live/node/dialects.py mpich_segment: delete return f"{SHM}/mpich_shm_{_fnv1a(kvsname(run, job, world).encode()):x}_{part}"': (
        "no stand-in leaves a segment of shared memory behind"
    ),
    "protocol/job_side.py JobSide.receive: delete return following": (
        "no program of the world reads the state"
    ),
    "live/node/register.py Register.is_alive: key in self.groups -> (not (key in self.groups))": (
        "a proof ends at once what would have left by itself within its time: nobody looks at that"
    ),
    'core/resizes.py Resizes.malleable: delete self.withdraw(job, "its loop is over")': (
        "an offer that crosses the end of the loop, too rare in these worlds: the world has a check for it"
    ),
    "live/node/outbox.py Outbox._book: delete self.used[message.job] = self.used.pop(message.job, 0.0) + message.cpu_s": (
        "processor time of ranks whose controller began again: told to the next one, and not checked over two lives"
    ),
    "live/job/resuming.py find_missing: not greeted -> (not (not greeted))": _GRACE,
    'live/node/life.py NodeLife._seek: delete self._not_started(group, "it was to end before it had started", CANNOT)': (
        "the look that follows kills what has been started, and the limit of the start says the same later"
    ),
    "live/tree/launching.py Launching._check_fence: delete self.killed = True": (
        "the program is ended once more when the next process ends: nothing is left to end"
    ),
    "live/tree/launching.py Launching._how: delete return self._errors.get(rank, ended)": (
        "words of --json, which no world reads: tests/live/test_launch.py does"
    ),
    "live/tree/launching.py Launching.why: failed -> (not (failed))": (
        "words of --json, which no world reads: tests/live/test_launch.py does"
    ),
    "live/node/warmth.py Warmth.heard: not self._pid -> (not (not self._pid))": (
        "a warm process that cannot be started: none is tried again for its key, and ranks are executed"
    ),
    "live/node/warmth.py Warmth.warmed: delete self._look()": (
        "a rank is ordered from a warm process whose end has not been seen: its agent executes it"
    ),
    "live/tree/branch.py Branch._moved: delete return": (
        "an adoption that is known is told up once more, until the controller, where it ends"
    ),
    "live/job/life.py JobLife._without_root: delete self.side.root_lost(root)": (
        "the root of a job of places is lost, and no other group says hello after it in these worlds"
    ),
    "live/node/servers.py Servers._break: delete return": (
        "a group that is broken says so twice, and its ranks are ended twice"
    ),
    "live/job/resuming.py roll_back: delete life.say_again(m.Withdraw(command.resize))": _GRACE,
    "live/node/outbox.py Outbox.passed: kept.group == group -> (not (kept.group == group))": _GRACE,
}

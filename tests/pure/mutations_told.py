"""Why mutants survive, for docs/mutations.md: by place and change."""

from __future__ import annotations

_GRACE = "it matters only where agents outlive their controller, which these worlds' do not: tests/pure/test_restart.py"
_SPACE = "several groups of a job on one node: nothing offers that yet"
_BRINGS = "for the judgement of a policy: no unsound decision follows from it"

REASONS: dict[str, str] = {
    "live/node.py NodeLife._spawned: delete self._kill([new.pid])": (
        "a rank that comes up after its start was given up: the proof that the node is clean finds the process as well"
    ),
    'protocol/job_side.py JobSide.send: name != "Want" -> (not (name != "Want"))': (
        "which resize a session takes for open matters between an offer and its answer alone, and the next offer sets it"
    ),
    'live/register.py start_problem: delete return ""': ("nothing is changed: None counts as no problem too"),
    'core/resizes.py Resizes._objection: delete return ""': (
        "nothing is changed: None counts as no objection too"
    ),
    "core/core.py SchedulerCore.resume: delete core._news = True": (
        "after a resume all nodes are lost and come back, which makes a pass"
    ),
    "live/cluster.py Cluster._give_up_oversized: delete return": (
        "nothing is changed: no job needs more than all nodes"
    ),
    "live/job.py JobLife.fired: delete self._tell_no_session()": ("a hint in the job's log"),
    "live/node.py NodeLife._begin_end: delete self._orphaned = orphaned": (
        "only the exit code of an agent's process"
    ),
    "live/node.py NodeLife._begin_end: delete self._do(n.CancelTimer(removal.key))": (
        "nothing is changed: while the agent ends, a proof's timer finds no proof"
    ),
    "live/node.py NodeLife._all_ended: removal.job is not None -> (not (removal.job is not None))": (
        "a proof that is open when the agent is told to leave: its controller has nothing to wait for then"
    ),
    "live/node.py NodeLife._not_started: delete self._clear(group)": (
        "the proof that the node is clean, which follows soon, removes the files as well"
    ),
    "live/node.py NodeLife._rank_said: delete return": (
        "a dead rank had nothing to say in this run; now it may"
    ),
    "live/node.py NodeLife._take: delete self._last_words(group)": (
        "the end of a group's last rank is told a second later, by the limit for that"
    ),
    "live/job.py JobLife._broken: delete self._doom(group)": (
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
    "live/cluster_nodes.py Nodes._stays: job in state.jobs -> (not (job in state.jobs))": _SPACE,
    "live/outbox.py Outbox.add: delete self._number += 1": _GRACE,
    "live/outbox.py Outbox.add: delete self._drop_earlier(group)": _GRACE,
    "live/uplink.py Uplink.greet: delete self.here = True": _GRACE,
    "live/resuming.py roll_back: delete return False": _GRACE,
    "core/resizes.py Resizes.of_resize: delete yield c.Withdraw(job.id, resize.id)": _GRACE,
    "live/cluster.py Cluster._heard: not (node in self._links and self._links.is_new(node, said.number, said.obeyed)) -> (not (not (node in self._links and s": _GRACE,
    "live/resuming.py _wire: job.resize.stage == resizing.OFFERED -> (not (job.resize.stage == resizing.OFFERED))": _GRACE,
    "live/cluster_nodes.py Nodes._greeted: node not in self._links -> (not (node not in self._links))": _GRACE,
    "core/resizes.py Resizes._withdraw: delete self._news = True": (
        "a pass comes late after a withdrawal, until something else happens; under fcfs alone that is measured"
    ),
    "live/node.py NodeLife._break: delete group.broken = error.code if isinstance(error, PmiError) else 1": (
        "the exit code of a group that called MPI_Abort, and words that are said twice"
    ),
    "core/core.py SchedulerCore._cancelled: delete return": (
        "the cancel of a job that is not there, too rare in the worlds of this run; since then it is four times as frequent"
    ),
    "live/job.py JobLife.heard: all(each.started for each in self.groups.values() if each.joined) -> (not (all(each.started for each in self.groups.valu": (
        "when a job counts as launched: nothing depends on that state"
    ),
    'live/job.py JobLife._linger_over: delete self.fail(1, f"group {group.number} had ended, but others did not follow within {LINGER_S:g} s")': (
        "the words of a failure: the kill that follows makes it one"
    ),
    "live/pmi.py PmiGroup._barrier: delete self._check_ended()": (
        "a rank that ends before another of its node comes to MPI_Finalize, too rare in the worlds of this run"
    ),
    "core/state.py State._granted: delete self.awaited = max(0, self.awaited - (record.nodes.mask & ~self.all_mask).bit_count())": (
        "a job that needs more nodes than there are is given up later, and only after nodes were asked for"
    ),
    "protocol/fence.py pieces: size + more > PIECE -> (not (size + more > PIECE))": (
        "the same entries in more and smaller pieces"
    ),
    "live/job.py JobLife.withdraw: g.resize == resize and not (g.joined or g.ready) -> (not (g.resize == resize and not (g.joined or g.ready)))": (
        "which nodes a line in the job's log names"
    ),
    "live/job.py JobLife._drop_newcomers: group.resize == resize -> (not (group.resize == resize))": (
        "newcomers that are not ended at once are ended by the proof that their nodes are clean, 5 s later"
    ),
    "live/resuming.py _wire: delete return scheduler_side.PROJECTION[job.resize.stage]": _GRACE,
    "live/job.py JobLife.add: self.quiet -> (not (self.quiet))": _GRACE,
}

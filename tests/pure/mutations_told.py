"""Why mutants survive, for docs/mutations.md: by place and change."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "live/node.py NodeLife._spawned: delete self._kill([new.pid])": (
        "a rank that comes up after its start was given up; an exec that is answered so late is rare, and the proof that "
        "the node is clean finds the process as well"
    ),
    "core/core.py SchedulerCore._tick: delete self._news = True": (
        "only time is lost: another event makes the pass, and worlds are full of them; nothing measures how late a pass is"
    ),
    'protocol/job_side.py JobSide.send: name != "Want" -> (not (name != "Want"))': (
        "which resize a session takes for open matters between an offer and its answer alone, and the next offer sets it"
    ),
    "live/job.py JobLife._relayed: delete self._tell(self.groups[number], m.Error(str(error)))": (
        "an error is for the author of a program that breaks the protocol; no stand-in waits for it"
    ),
    'core/journal.py names_of: delete return tuple(names.get(node, f"n{node}") for node in range(max(names, default=-1) + 1))': (
        "for reports: no world calls it"
    ),
    'core/resizes.py Resizes._objection: delete return f"group {event.root} is to speak for the job, but it is not one of it"': (
        "no liar names as root a group that exists and leaves; unknown ones are refused by the job's life before"
    ),
    "live/job.py JobLife._agreed: self.spec.keeps_size -> (not (self.spec.keeps_size))": (
        "the bounds in a welcome are for the program; the stand-ins do not read them, and the core checks every size"
    ),
    'core/resizes.py Resizes.refusal: delete return f"nothing is started or resized now: {self.held}"': (
        "an order while the disk is full: its records wait in memory with all others, and no world is killed in between "
        "and audited for it"
    ),
    'core/resizes.py Resizes.refusal: delete return f"job {number} ({job.spec.name}) is still pending; only a running job can be resized"': (
        "the order fault picks running jobs; others are refused two lines below, as they are in no loop"
    ),
    'live/register.py start_problem: delete return ""': "nothing is changed: None counts as no problem too",
    "core/core.py SchedulerCore._settle: self._news -> (not (self._news))": (
        "it decides only whether the core wakes for a pass at a multiple of the interval, and no world sets one"
    ),
    "core/core.py SchedulerCore._due: self._pass_at == NEVER -> (not (self._pass_at == NEVER))": (
        "passes at intervals are for the simulator: no world sets one"
    ),
    "live/node.py NodeLife._fired: group is not None -> (not (group is not None))": (
        "the agent's time for a start: the timer fires only where a kernel does not answer, and then hardly ever for a "
        "group that is left; the controller's own limit for a start ends the wait"
    ),
    "core/core.py SchedulerCore.resume: delete core._news = True": (
        "after a resume all nodes are lost and come back, which makes a pass"
    ),
    "live/cluster.py Cluster._give_up_oversized: delete return": "nothing is changed: no job needs more than all nodes",
    "live/job.py JobLife.fired: delete self._tell_no_session()": "a hint in the job's log",
    "live/register.py Register.is_over: delete return ((order.job, order.group), order.token) in self._over": (
        "no controller of a world repeats an order to start"
    ),
    "core/resizes.py Resizes.refusal: job is None -> (not (job is None))": (
        "every order and every wish is refused; nothing measures that they are followed"
    ),
    "live/node.py NodeLife._take: group is not None -> (not (group is not None))": (
        "the lines of a rank that has closed its connection are kept until its group is forgotten: memory only"
    ),
    'live/cluster.py Cluster._end_all: delete self._hold("end", why)': "no world is ended from outside",
    "live/node.py NodeLife._start: delete return": "no controller of a world repeats an order to start",
    "live/node.py NodeLife._begin_end: delete self._orphaned = orphaned": "only the exit code of an agent's process",
    "protocol/fence.py pieces: piece -> (not (piece))": "what the ranks of a world put never fills a piece",
    "protocol/fence.py pieces: delete yield piece, True": "what the ranks of a world put never fills a piece",
    "live/members.py Members._doom: delete return True": (
        "no SIGKILL is sent; the group is given up 15 s later, and the proof kills it. Nothing measures the 15 s"
    ),
    "core/job.py Job.__init__: delete self.fraction = 0.0": "read by policies that estimate, and by resumed jobs, alone",
    "core/core.py SchedulerCore._settle: not self.held -> (not (not self.held))": (
        "it decides only whether the core wakes for a pass at a multiple of the interval, and no world sets one"
    ),
    "live/members.py Members._signal: number == SIGKILL and not self._doom(group) -> (not (number == SIGKILL and not self._doom(group)))": (
        "no SIGKILL is sent; the group is given up 15 s later, and the proof kills it. Nothing measures the 15 s"
    ),
    'core/resizes.py Resizes.refusal: delete return f"job {number} ({job.spec.name}) takes no resizes now: it is {job.spec.job_class} and " + ( "inside its lo': (
        "the order fault picks jobs that are inside their loop"
    ),
    "protocol/scheduler_side.py SchedulerSide.send: delete self.resize = message.resize": (
        "the core looks at the number of the resize again"
    ),
    "live/job.py JobLife.kill: not self.alive() -> (not (not self.alive()))": (
        "a gap: a cancelled job is over at once and the proof kills its ranks; nothing measures its grace"
    ),
    "live/node_sessions.py Sessions.drop: delete return": "no session is dropped twice in a world",
}

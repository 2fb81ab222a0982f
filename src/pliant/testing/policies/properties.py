"""What holds under every policy. Each property is given what makes the policy and a case; it raises ``Broken``,
AuditError or a PliantError where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.journal import Header, header_line, read
from pliant.history.audit import Audit
from pliant.history.gantt import Gantt
from pliant.history.metrics import measure
from pliant.history.timeline import Life, Listener, told
from pliant.model.jobs import JobState
from pliant.plan.cost import INSTANT
from pliant.policy.view import ClusterView, Decision, Memory, Policy, half_life_s, rebalances, remembered
from pliant.sim.simulator import Simulator
from pliant.testing.policies.cases import Case

Make = Callable[[], Policy]
"""Makes the policy anew: all that one has kept is forgotten."""
STATES = 10
"""So many states of a run, and a few more, are compared."""


class Broken(AssertionError):  # noqa: N818 - what has become of a property
    """It does not hold."""


def simulated(make: Make, case: Case) -> list[r.Record]:
    """The records of the case. Whatever the core does not allow is an error, and so is a policy that is stuck."""
    records: list[r.Record] = []
    Simulator(case.sim_jobs(), case.nodes, make(), case.conditions, records.append).run()
    return records


def every_job_ends(make: Make, case: Case) -> None:
    """The records hold together: no node is held twice, sizes are allowed, each job ends once; all have done their
    work, but those that are killed at their walltime; and all nodes are free at the end."""
    audit = Audit()
    for record in simulated(make, case):
        audit.add(record)
    by_number = dict(enumerate(sorted(case.sim_jobs(), key=attrgetter("spec.submit_s")), 1))
    if audit.jobs or audit.ended.keys() != by_number.keys():
        raise Broken(f"of jobs {sorted(by_number)}, these have ended: {sorted(audit.ended)}")
    if (free := len(audit.nodes("free"))) != case.nodes:
        raise Broken(f"at the end {free} of {case.nodes} nodes are free")
    for number, ended in audit.ended.items():
        if ended.state is JobState.COMPLETED or (
            by_number[number].spec.kill and ended.state is JobState.TIMEOUT
        ):
            continue
        raise Broken(f"job {by_number[number].spec.name} has ended as {ended.state}")


def journal_is_enough(make: Make, case: Case) -> None:
    """The records, written to a journal and read again, give the state that there was, at any moment."""
    records: list[r.Record] = []
    states: list[tuple[int, dict[str, Any]]] = []

    def sink(record: r.Record) -> None:
        """Records of one call of the core come when it has the state after all of them: the last one counts."""
        records.append(record)
        snapshot = simulator.core.state.snapshot()
        if states and states[-1][1] == snapshot:
            states.pop()
        states.append((len(records), snapshot))

    policy = make()
    simulator = Simulator(case.sim_jobs(), case.nodes, policy, case.conditions, sink)
    simulator.run()
    header = Header(began="2026-01-01T00:00:00Z", policy=policy.name, settings=case.settings)
    lines = [header_line(header), *(r.to_line(record) for record in records)]
    journal = read([*lines, b'{"record":"JobEn'])
    if (journal.header, journal.torn) != (header, True):
        raise Broken(
            f"of a journal with a torn last line this was read: {journal.header}, torn: {journal.torn}"
        )
    _alike(journal.records, records, "read from the journal")
    for number, snapshot in [*states[:: max(1, len(states) // STATES)], states[-1]]:
        cut = read(lines[: number + 1])
        resumed = SchedulerCore.resume(make(), cut.header.settings, cut.records)
        for state in (replay(cut.records, cut.header.settings), resumed.state):
            _same_state(state.snapshot(), snapshot, number)


def _same_state(found: dict[str, Any], was: dict[str, Any], number: int) -> None:
    for key, value in was.items():
        if found[key] != value:
            raise Broken(f"after {number} records {key!r} is {value!r}, and by the journal {found[key]!r}")


def decisions_repeat(make: Make, case: Case) -> None:
    """The same workload gives the same records."""
    _alike(simulated(make, case), simulated(make, case), "the second time")


class Forgetful:
    """A policy that is made anew before every so many passes, as by a restart: all it knows is what the view tells."""

    def __init__(self, make: Make, every: int = 1) -> None:
        self._make = make
        self._every = every
        self._passes = 0
        self._made = made = make()
        self.name, self.rebalances, self.half_life_s = made.name, rebalances(made), half_life_s(made)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if self._passes % self._every == 0:
            self._made = self._make()
        self._passes += 1
        return self._made.decide(view)


def restart_loses_nothing(make: Make, case: Case) -> None:
    """With a restart before each pass, or now and then, the records are those without, and so is what is remembered."""
    known = simulated(make, case)
    for every, how in ((1, "each pass"), (5, "each fifth pass")):
        found = simulated(partial(Forgetful, make, every), case)
        _alike(memories_whole(found), memories_whole(known), f"with a restart before {how}")


def memories_whole(records: Iterable[r.Record]) -> Iterator[r.Record]:
    """The same with all that is remembered from then on in place of what has changed of it; without those that change
    nothing."""
    memory: Memory = {}
    for record in records:
        if type(record) is not r.PolicyRemembers:
            yield record
            continue
        before, memory = memory, remembered(memory, record.memory, merge=record.merge)
        if memory != before:
            yield r.PolicyRemembers(record.at, memory)


def _alike(found: Iterable[r.Record], known: Iterable[r.Record], how: str) -> None:
    for number, (one, other) in enumerate(zip_longest(found, known), 1):
        if one != other:
            raise Broken(f"record {number} is {other}, and {how} {one}")


class _Work(Listener):
    """The share of its work that each job had time for, at the sizes that it had."""

    def __init__(self, case: Case) -> None:
        jobs = sorted(case.sim_jobs(), key=attrgetter("spec.submit_s"))
        self._jobs = dict(enumerate(jobs, 1))
        self.done = dict.fromkeys(self._jobs, 0.0)
        self.completed: set[int] = set()

    def held(self, life: Life) -> None:
        time_s = self._jobs[life.job].time(life.size)
        self.done[life.job] += (self.lives.now - life.since) / time_s

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:  # noqa: ARG002
        if end.state is JobState.COMPLETED:
            self.completed.add(life.job)


def work_is_conserved(make: Make, case: Case) -> None:
    """Each job had its nodes for as long as its work takes, where resizes take no time for no longer; and what jobs
    have held is what the metrics say."""
    records = simulated(make, case)
    work, chart, figures = _Work(case), Gantt(), measure(records)
    told(records, work, chart)
    exact = case.settings.cost == INSTANT
    for number in work.completed:
        done = work.done[number]
        if done < 1 - 1e-6 or (exact and done > 1 + 1e-6):
            raise Broken(f"job {number} has completed, and had time for {done:.6f} of its work")
    area = sum(len(each.nodes) * (each.to_s - each.from_s) for each in chart.segments)
    used = figures.utilisation * case.nodes * figures.makespan_s
    sound = (
        abs(area - used) < 1e-6 * max(1.0, area)
        and figures.utilisation <= 1.0 + 1e-9
        and figures.expands + figures.shrinks == len(chart.marks)
        and chart.curve[-1][1] == 0
        and max(count for _, count in chart.curve) <= case.nodes
        and figures.ended == len(figures.jobs) == len(case.jobs)
        and figures.resizing_node_s >= 0.0
    )
    if not sound:
        raise Broken(f"jobs have held {area} node seconds, and by the metrics {used}: {figures}")

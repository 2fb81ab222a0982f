"""``pliant run``: a user's own batch, or one command, on virtual nodes of this machine or on hosts."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import typer
from msgspec import UNSET
from rich.console import Console

from pliant.cli import execute
from pliant.cli import run_options as o
from pliant.cli.execute import Variant
from pliant.cli.hosts import EXCLUDE, HOSTFILE, REMOTE_SHELL, SEND, SSH_OPTION, HostOptions, hosts_of, sent
from pliant.cli.outputs import check_report
from pliant.cli.run_input import RunInput, of_command, script_is_input
from pliant.files.batch import read_batch_file
from pliant.files.cost import read_cost
from pliant.files.policy import NOTHING_SAID, PolicySpec, inputs_of
from pliant.launch.verify import unusable
from pliant.model.batch import Batch, labels_of, read_batch
from pliant.model.durations import duration
from pliant.model.errors import BatchError, PliantError
from pliant.model.kinds import JobKind
from pliant.model.limits import as_name
from pliant.model.nodes import hostlist
from pliant.model.speedup import Phases
from pliant.model.words import count
from pliant.page.html import write_report
from pliant.report.data import report_json
from pliant.report.runs import Run
from pliant.terminal.console import console as steady_console
from pliant.terminal.console import write_out
from pliant.terminal.failures import told
from pliant.terminal.tables import compare_table, job_table

OUTPUT = Path("pliant-runs")
VIRTUAL = re.compile(r"n(0|[1-9]\d{0,3})")
"""What virtual nodes are called."""
NOT_WRITTEN = 2
"""The exit code if all went well but the report."""


def run(  # noqa: PLR0913 -- a command has its options as parameters
    batch_or_command: o.BATCH_OR_COMMAND = None,
    *,
    size: o.SIZE = "",
    walltime: o.WALLTIME = "",
    time_limit: o.TIME_LIMIT = "",
    kind: o.KIND = None,
    mpi: o.MPI = "",
    nodes: o.NODES = 0,
    hosts: o.HOSTS = "",
    hostfile: HOSTFILE = None,
    exclude: EXCLUDE = "",
    provider: o.PROVIDER = None,
    ssh_option: SSH_OPTION = None,
    remote_shell: REMOTE_SHELL = "",
    send: SEND = None,
    interface: o.INTERFACE = "",
    label: o.LABEL = None,
    degree: o.DEGREE = "",
    policy: o.POLICY = "",
    start: o.START = "",
    order: o.ORDER = "",
    rigid: o.RIGID = False,
    compare: o.COMPARE = False,
    cost: o.COST = "default",
    dry_run: o.DRY_RUN = False,
    report: o.REPORT = None,
    as_json: o.AS_JSON = False,
    output: o.OUTPUT = OUTPUT,
) -> None:
    """Run a batch of jobs, or one command, and show what became of it.

    Rank 0 of a command reads standard input, a pipe or a file; with --hosts or --provider slurm a file alone.
    """
    words = batch_or_command or []
    check_report(report, [text for text in (*words[:1], cost, *inputs_of(policy)) if text])
    costs = read_cost(cost)
    said = PolicySpec(policy, start or None, order or None)
    named = HostOptions(hosts or None, hostfile, exclude, ssh_option or (), remote_shell)
    where, slots = hosts_of(provider, named, interface=interface, degree=degree) or (None, 1)
    there = len(where.names) if where is not None else 0
    job = JobOptions(size, *_times(walltime, time_limit), kind, mpi, slots)
    batch = _sending(_batch(words, job, nodes, said, there), sent(send or ()))
    batch = _labelled(batch, label or (), where.names if where is not None else None)
    if not dry_run:
        _check_live(batch, rigid=rigid and not compare)
    batch, given = _with_input(batch, words, elsewhere=where is not None, once=not compare, live=not dry_run)
    malleable = Variant(batch, "", rigid=False, cost=costs, hosts=where)
    malleable = malleable._replace(name=malleable.policy().name)
    fixed = malleable._replace(name="rigid", rigid=True)
    variants = [fixed, malleable] if compare else [fixed if rigid else malleable]
    console = steady_console(stderr=as_json)
    runs: list[Run] = []
    for variant in variants:
        if dry_run:
            runs.append(execute.predicted(variant))
        elif not runs or runs[-1].stopped is None:
            place = output / variant.name if compare else output
            runs.append(execute.live(variant, output=place, console=console))
    given.tell_unread()
    if dry_run:
        console.print("Predicted by the simulator; nothing was started.")
    finish(runs, console, RunOutputs(report, as_json, output if not dry_run else None))


def _times(walltime: str, time_limit: str) -> tuple[float | None, float | None]:
    """The seconds of ``-t`` and ``--time-limit``, None where one is not given."""
    estimate = duration(walltime, "-t", plain=True) if walltime else None
    return estimate, duration(time_limit, "--time-limit", plain=True) if time_limit else None


def _labelled(batch: Batch, given: Sequence[str], hosts: tuple[str, ...] | None) -> Batch:
    """The batch with the labels of ``--label`` in place of its own, if there are any; BatchError where they are of
    nodes that cannot be."""
    labels = batch.cluster.labels
    if given:
        try:
            labels = labels_of((label, nodes) for label, _, nodes in (text.partition("=") for text in given))
        except ValueError as error:
            raise BatchError(f"--label: {error}; write gpu=n[0-3]") from None
    for name in labels:
        if hosts is None and not VIRTUAL.fullmatch(name):
            raise BatchError(f"labels: {name!r} is no virtual node; they are called n0, n1, ...")
        if hosts is not None and name not in hosts:
            raise BatchError(f"labels: {name!r} is none of the hosts; there are {hostlist(hosts)}")
    return msgspec.structs.replace(batch, cluster=msgspec.structs.replace(batch.cluster, labels=labels))


def _sending(batch: Batch, variables: dict[str, str]) -> Batch:
    """The batch whose jobs have these variables, unless they have them themselves."""
    jobs = [msgspec.structs.replace(job, env={**variables, **job.env}) for job in batch.jobs]
    return msgspec.structs.replace(batch, jobs=tuple(jobs))


class JobOptions(NamedTuple):
    """The options of a command's job, and how many ``slots`` each of its nodes has; in a batch each job says
    so itself, and the cluster how many slots."""

    size: str = ""
    walltime: float | None = None
    time_limit: float | None = None
    kind: JobKind | None = None
    mpi: str = ""
    slots: int = 1

    def job(self, words: list[str]) -> dict[str, Any]:
        """The command ``words`` as a job of a batch; BatchError."""
        return {
            "name": as_name(_name(words)),
            "command": words,
            "nodes": self.size or "1",
            "kind": self.kind or JobKind.MPI,
            "mpi": self.mpi,
            **self._walltime(),
        }

    def check_unsaid(self, batch: str) -> None:
        """BatchError if anything is said, though there is a ``batch``."""
        if self.time_limit is not None:
            raise BatchError(
                f"--time-limit is for a command; in {batch}, give each job that shall be ended "
                f"walltime = {self.time_limit:g} and kill = true"
            )
        for option, key, value in (
            ("-N", "nodes", self.size),
            ("-t", "walltime", self.walltime),
            ("--kind", "kind", self.kind),
            ("--mpi", "mpi", self.mpi),
        ):
            if value not in ("", None):
                raise BatchError(f"{option} is for a command; in {batch}, give each job its {key}")

    def _walltime(self) -> dict[str, Any]:
        """What ``-t`` or ``--time-limit`` says, as keys of a job; BatchError."""
        if self.time_limit is None:
            return {} if self.walltime is None else {"walltime": self.walltime}
        if self.walltime is not None:
            raise BatchError("-t and --time-limit: give one of them; a limit is an estimate as well")
        return {"walltime": self.time_limit, "kill": True}


def _check_live(batch: Batch, *, rigid: bool) -> None:
    """BatchError for jobs that only the simulator can run as they are described, and for results that cannot
    be checked."""
    if not rigid:
        execute.check_policy(batch)
    for job in batch.jobs:
        if problem := unusable(job):
            raise BatchError(f"{batch.source}: job {job.name!r}: verify: {problem}")
        if isinstance(job.model, Phases) and not rigid:
            raise BatchError(
                f"{batch.source}: job {job.name!r}: phases: evolving jobs by phases can only be simulated: "
                "use pliant simulate or --dry-run, or --rigid to run each at its preferred size"
            )


class RunOutputs(NamedTuple):
    """What becomes of the results: a report, JSON or tables; jobs and journal have written to ``where``."""

    report: Path | None
    as_json: bool
    where: Path | None


def finish(runs: list[Run], console: Console, outputs: RunOutputs) -> None:
    """Tables or JSON, what went wrong, the report, and the exit code; raises what has stopped a run early."""
    unwritten = None
    if outputs.as_json:
        unwritten = write_out(report_json(runs))
    else:
        _show(runs, console)
    if lines := list(told(runs)):
        for line in lines:
            console.print(line, soft_wrap=bool(line.no_wrap) or not console.is_terminal)
        console.print("")
    written = outputs.report is None or _write(runs, outputs.report, console)
    if outputs.where is not None:
        said = f"output of the jobs and records: {outputs.where}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    for each in runs:
        if each.stopped is not None:
            raise each.stopped
    if unwritten is not None:
        raise PliantError(f"standard output: the results could not be written: {unwritten.strerror}")
    if code := execute.exit_code(runs) or (0 if written else NOT_WRITTEN):
        raise typer.Exit(code)


def _show(runs: list[Run], console: Console) -> None:
    if len(runs) == 1 or any(run.failed or run.differing or run.unchecked for run in runs):
        for each in runs:
            console.print("", job_table(each, console.width))
    console.print("")
    if len(runs) > 1 or len(runs[0].jobs) > 1:  # of a lone job the means say nothing more
        console.print(compare_table(runs), "")


def _write(runs: list[Run], report: Path, console: Console) -> bool:
    """Write the report and its data, each even if the other cannot be; whether both are there."""
    data = report.with_suffix(".json")
    there: list[str] = []
    for what, path, page, numbers in (("data", data, None, data), ("report", report, report, None)):
        try:
            write_report(runs, page, numbers)
            there.append(f"{what}: {path}")
        except OSError as error:
            sys.stderr.write(
                f"pliant: --report {report}: {path} was not written: {error.strerror or error}\n"
            )
    if there:
        console.print(", ".join(reversed(there)), markup=False, highlight=False, soft_wrap=True)
    return len(there) == 2


def _batch(
    words: list[str], job: JobOptions, nodes: int = 0, policy: PolicySpec = NOTHING_SAID, hosts: int = 0
) -> Batch:
    """The batch that the command line means, completed by its options; BatchError. Of ``hosts``, if there are any, it
    takes all unless it says how many."""
    if not words:
        raise BatchError("nothing to run: name a BATCH.toml, or give a command after --")
    if _is_batch(words):
        job.check_unsaid(words[0])
        batch = read_batch_file(Path(words[0]), hosts or 8)
    else:
        table = {"cluster": {"nodes": nodes or hosts or 8, "slots": job.slots}, "jobs": [job.job(words)]}
        batch = read_batch(table, "the command line")
    said = policy.over(PolicySpec.of(batch.cluster))
    if hosts and (wanted := nodes or batch.cluster.nodes) > hosts:
        raise BatchError(
            f"{batch.source}: the cluster has {count(wanted, 'node')}, and there are {count(hosts, 'host')} for it"
        )
    cluster = msgspec.structs.replace(
        batch.cluster,
        nodes=nodes or batch.cluster.nodes,
        policy=said.name,
        start=said.start,
        order=said.order or batch.cluster.order,
    )
    for each in batch.jobs:
        if each.partition is not UNSET:
            raise BatchError(
                f"{batch.source}: job {each.name!r}: partition: pliant run has none, and all jobs share its nodes: "
                "leave it out, or use pliant simulate --partitions"
            )
        if each.nodes.min > cluster.nodes:
            raise BatchError(
                f"{batch.source}: job {each.name!r}: nodes: it needs {count(each.nodes.min, 'node')} "
                f"and the cluster has {cluster.nodes}; it could never start"
            )
    return msgspec.structs.replace(batch, cluster=cluster)


def _with_input(
    batch: Batch, words: list[str], *, elsewhere: bool, once: bool, live: bool
) -> tuple[Batch, RunInput]:
    """The one job of a command reads our standard input, if it can."""
    if not live or _is_batch(words):
        return batch, RunInput()
    given = of_command(elsewhere=elsewhere, once=once).tell_unread()
    if given.path and batch.jobs[0].nodes.max > 1 and script_is_input(words):
        raise BatchError(
            f"{' '.join(words[:2])}: it reads its script from standard input, which only the first process has; "
            "save the script and run: pliant run ... -- python FILE.py"
        )
    jobs = tuple(msgspec.structs.replace(job, stdin=given.path or UNSET) for job in batch.jobs)
    return msgspec.structs.replace(batch, jobs=jobs), given


def _is_batch(words: list[str]) -> bool:
    return len(words) == 1 and words[0].endswith(".toml")


def _name(command: list[str]) -> str:
    """What a person would call this command: the script or module that Python runs, else the program."""
    words = [word for word in command[1:] if not word.startswith("-")]
    if words[0:1] == ["mpi4py"] and len(words) > 1:
        del words[0]  # python -m mpi4py program.py
    if Path(command[0]).name.startswith("python") and words:
        return Path(words[0]).stem if words[0].endswith(".py") else words[0].rpartition(".")[2]
    return Path(command[0]).name

"""``pliant launch``: a program on many nodes at once."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from pliant.cli.hosts import (
    ALLOCATED,
    EXCLUDE,
    HOSTFILE,
    REMOTE_SHELL,
    ROOM,
    SEND,
    SSH_OPTION,
    HostOptions,
    is_text,
    passed_on,
    sent,
)
from pliant.cli.outputs import check_output
from pliant.daemon.directory import current_directory
from pliant.daemon.launcher import Launcher, LaunchOutcome, Plan, unwritten, unwritten_code
from pliant.launch.tree.interfaces import controller_at
from pliant.launch.tree.posting import Starting
from pliant.model.durations import duration
from pliant.model.errors import PliantError
from pliant.model.hostfile import HostSlots, placed
from pliant.model.hostfile import names as names_of
from pliant.model.limits import LIVE_NODES
from pliant.model.nodes import hostlist
from pliant.model.words import count
from pliant.plan import tree
from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.report.timeline import timeline
from pliant.terminal.working import Working

MOST_SPILLED = 1 << 30
"""MiB."""
PHASES = {
    "contacts": "all agents known to all",
    "started": "started everywhere",
    "fence": "through MPI_Init",
    "ended": "ended",
    "over": "cleaned up",
}


class Kept(NamedTuple):
    """The output of a process on this node."""

    node: str
    stdout: bytearray
    stderr: bytearray


def launch(  # noqa: PLR0913 - the options of a command
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ],
    *,
    nodes: Annotated[
        int | None,
        typer.Option(
            "-N",
            "--nodes",
            help="Take the first so many of --hosts or of Slurm's (default: all), or start so many virtual "
            "ones (default: 1).",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "-n", "--processes", help="How many processes, by the slots of the nodes; default: one a node."
        ),
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(help="Nodes that are reached by ssh, as node[01-64], a,b:2222 or [2001:db8::5]:2222."),
    ] = None,
    hostfile: HOSTFILE = None,
    exclude: EXCLUDE = "",
    mpi: Annotated[
        bool,
        typer.Option(
            "--mpi",
            help="The processes are the ranks of one MPI program. Pliant asks the program which MPI it loads.",
        ),
    ] = False,
    mpi_is: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="As --mpi, with this MPI, where Pliant cannot find out: mpich, intel or openmpi, perhaps with a "
            "version, as 'mpich 4.1'.",
        ),
    ] = "",
    degree: Annotated[
        str, typer.Option(help="Degree of the tree of agents: a number, binomial or direct.")
    ] = "32",
    routing: Annotated[
        str, typer.Option(help="Tree of the messages to all agents; default: as --degree.")
    ] = "",
    window: Annotated[int, typer.Option(help="How many agents each agent starts at a time.")] = 32,
    survive: Annotated[bool, typer.Option("--survive", help="Go on without nodes that are lost.")] = False,
    ssh_option: SSH_OPTION = None,
    remote_shell: REMOTE_SHELL = "",
    send: SEND = None,
    interface: Annotated[
        str, typer.Option(help="Where agents listen: its name, or a network: 10.0.0.0/16, 2001:db8::/64.")
    ] = "",
    stdin: Annotated[int, typer.Option(help="The process that reads standard input; -1: none.")] = 0,
    tag_output: Annotated[
        bool, typer.Option("--tag-output", help="Begin each line with its node and its process.")
    ] = False,
    spill: Annotated[
        int, typer.Option(help="MiB of output that may wait in a file on each node; then its processes wait.")
    ] = 1024,
    patience: Annotated[
        str, typer.Option(metavar="TIME", help="How long one agent may take to start; a number is seconds.")
    ] = "30",
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="End the program after so long, as 90, 30min or 1:30:00; 0: never."
        ),
    ] = "0",
    trace: Annotated[Path | None, typer.Option("--timeline", help="A file for chrome://tracing.")] = None,
    cwd: Annotated[
        Path | None, typer.Option(help="Where processes start; default: the current directory.")
    ] = None,
    remote_python: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The Python of --hosts: a path, or a name in PATH; default: the path of this one, or else "
            f"python{sys.version_info[0]}.{sys.version_info[1]} or python3. Nodes need no Pliant.",
        ),
    ] = "",
    summary: Annotated[
        bool, typer.Option("--summary", help="Say at the end how long each phase took.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object at the end, with the output in it.")
    ] = False,
) -> None:
    """Run a program on many nodes, over a tree of agents. The nodes are virtual ones of this machine, --hosts
    reached by ssh, or those of the Slurm allocation that this is called in."""
    options = HostOptions(hosts, hostfile, exclude, ssh_option or (), remote_shell)
    there, starting = _nodes(nodes, options, remote_python)
    names, sizes = names_of(there), _sizes(there, processes)
    if starting.by != "fork":
        from pliant.daemon import networks

        networks.take(names, os.environ)
    _check_words(command)
    _check_trees(degree, routing or degree)
    if window < 1:
        raise PliantError(f"--window {window}: it is 1 or more")
    patience_s = duration(patience, "--patience", plain=True)
    timeout_s = duration(timeout, "--timeout", plain=True, or_none=True)
    if not 0 <= spill <= MOST_SPILLED:
        raise PliantError(f"--spill {spill}: it is 0 to {MOST_SPILLED} MiB")
    if not -1 <= stdin < sum(sizes):
        raise PliantError(f"--stdin {stdin}: the processes are 0 to {sum(sizes) - 1}")
    dialect, told = _dialect(command, mpi_is) if mpi or mpi_is else ("launch", {})
    own = sent(send or ())
    what = t.Launch(
        tuple(command),
        told | own,
        current_directory() if cwd is None else str(cwd),
        sizes,
        dialect,
        stdin,
        spill << 20,
    )
    what = msgspec.structs.replace(what, env={**told, **passed_on(_room_beside(what)), **own})
    if trace is not None:
        check_output("--timeline", trace)
    listen = controller_at(names, interface, starting)
    plan = Plan(
        nodes=names, launch=what, listen=listen, starting=starting, interface=interface,
        spawning=degree, routing=routing or degree, window=window, survive=survive, patience_s=patience_s,
        timeout_s=timeout_s,
    )  # fmt: skip
    kept: dict[int, Kept] = {}
    write = _keeper(kept) if as_json else _printer(tag=tag_output)
    outcome = asyncio.run(_run(plan, write))
    if trace is not None:
        _write_trace(trace, plan, outcome)
    code = outcome.code
    if as_json:
        code = _print_json(_told(plan, outcome, kept), code)
    elif summary:
        sys.stderr.write(_summary(plan, outcome) + "\n")
    if not outcome.is_whole:
        sys.stderr.write(f"pliant: {outcome.why}\n")
    sys.exit(min(code, 255))


def _dialect(command: list[str], mpi_is: str) -> tuple[str, dict[str, str]]:
    from pliant.daemon import submission  # slow to load

    return submission.dialect_of(command, mpi_is)


async def _run(plan: Plan, write: Callable[[str, t.Output], object]) -> LaunchOutcome:
    """Launch the program. Progress is silent while the program runs and prints itself."""
    count = len(plan.nodes)
    with Working("starting", count, "nodes", bar=False) as progress:

        def reached(phase: str, nodes: int) -> None:
            if phase != "starting":
                progress.begin(phase)
            elif nodes < count:
                progress.reach(nodes)
            else:
                progress.pause()

        return await Launcher(plan, write, lambda text: sys.stderr.write(f"pliant: {text}\n"), reached).run()


def _check_words(command: list[str]) -> None:
    for number, word in enumerate(command):
        if not is_text(word):
            what = f"argument {number} of the command" if number else "the command"
            raise PliantError(f"{what}, {word!r}, is no text in UTF-8, and cannot be sent to nodes")


def _check_trees(*names: str) -> None:
    for text in names:
        try:
            tree.named(text)
        except ValueError as error:
            raise PliantError(str(error)) from error


def _room_beside(what: t.Launch) -> int:
    """How many bytes the environment may have in the same message; PliantError if there is no room at all."""
    if (size := len(codec.encode(what))) > ROOM:
        raise PliantError(
            f"the command and the variables of -x have {size:,} bytes, and {ROOM:,} is the most; put what is long into "
            "a file that all nodes see"
        )
    return ROOM - size


def _write_trace(trace: Path, plan: Plan, outcome: LaunchOutcome) -> None:
    rows = timeline(plan.nodes, outcome.began, outcome.phases, outcome.counted, outcome.stops)
    try:
        trace.write_text(json.dumps(rows), encoding="utf-8")
    except OSError as error:  # its place was there at the start
        sys.stderr.write(f"pliant: --timeline {trace}: cannot be written: {error.strerror or error}\n")


# ---- where ----------------------------------------------------------------------------------------------


def _nodes(count: int | None, options: HostOptions, python: str) -> tuple[tuple[HostSlots, ...], Starting]:
    """The nodes, and how agents are started there."""
    if python and not options.by_ssh:
        raise PliantError(
            "--remote-python is for nodes that are reached by ssh: name them by --hosts or --hostfile"
        )
    is_allocated = bool(os.environ.get(ALLOCATED))
    options.check_unused(allocated=is_allocated)
    if not options.by_ssh and not is_allocated:
        if count is not None and not 1 <= count <= LIVE_NODES:
            raise PliantError(f"--nodes {count}: a machine has room for 1 to {LIVE_NODES} virtual nodes")
        return tuple(HostSlots(f"n{i}") for i in range(count or 1)), Starting()
    found = options.found()
    if count is not None and not 1 <= count <= len(found):
        raise PliantError(f"--nodes {count}: there are {len(found)}, {hostlist(names_of(found))}")
    starting = options.starting()
    if options.by_ssh:
        starting = msgspec.structs.replace(
            starting, python=python or starting.python, chosen=bool(python), ships=True
        )
    return found[:count], starting


def _sizes(hosts: Sequence[HostSlots], processes: int | None) -> tuple[int, ...]:
    """How many processes each node has: as its slots say, one by default."""
    if processes is None:
        return (1,) * len(hosts)
    if processes < 1:
        raise PliantError(f"--processes {processes}: it is 1 or more")
    try:
        return placed(processes, hosts)
    except ValueError as error:
        raise PliantError(f"--processes {processes}: {error}") from None


# ---- output ---------------------------------------------------------------------------------------------


def _printer(*, tag: bool) -> Callable[[str, t.Output], None]:
    """A function that writes output here. It ends the line of a process before another one writes, also on the other
    stream where both are one file or terminal."""
    ends = (1, 1) if _is_one_file(1, 2) else (1, 2)
    last: dict[int, tuple[int, bool]] = {}

    def write(node: str, output: t.Output) -> None:
        data = output.data
        if tag:
            head = f"{node}.{output.rank}: ".encode()
            data = b"".join(head + line for line in data.splitlines(keepends=True))
            data += b"" if data.endswith(b"\n") else b"\n"
        rank, whole = last.get(ends[output.error], (output.rank, True))
        if not whole and rank != output.rank:
            data = b"\n" + data
        last[ends[output.error]] = output.rank, data.endswith(b"\n")
        _write(2 if output.error else 1, data)

    return write


def _is_one_file(*numbers: int) -> bool:
    try:
        return len({(os.fstat(each).st_dev, os.fstat(each).st_ino) for each in numbers}) == 1
    except OSError:  # one is closed
        return False


def _write(number: int, data: bytes) -> None:
    """All of it, not by ``sys.stdout``: nobody could end while a thread waits in that. Somebody else may have made it
    non-blocking, as whoever shares a terminal can."""
    while data:
        try:
            data = data[os.write(number, data) :]
        except BlockingIOError:
            select.select([], [number], [])


def _print_json(told: dict[str, Any], code: int) -> int:
    """The exit code: as where output cannot be written, if that of the program is 0."""
    try:
        _write(1, json.dumps(told, indent=2).encode() + b"\n")
    except OSError as error:
        sys.stderr.write(f"pliant: {unwritten(error)}\n")
        return code or unwritten_code(error)
    return code


def _keeper(kept: dict[int, Kept]) -> Callable[[str, t.Output], None]:
    def write(node: str, output: t.Output) -> None:
        said = kept.setdefault(output.rank, Kept(node, bytearray(), bytearray()))
        (said.stderr if output.error else said.stdout).extend(output.data)

    return write


def _told(plan: Plan, outcome: LaunchOutcome, kept: dict[int, Kept]) -> dict[str, Any]:
    """A process whose end is not known, as the launch was ended before it, has no code."""
    ended: dict[int, tuple[str, int | None, float]] = {
        rank: (each.node, None, 0.0) for rank, each in kept.items()
    }
    ended |= outcome.ended
    empty = Kept("", bytearray(), bytearray())
    return {
        "nodes": len(plan.nodes),
        "processes": sum(plan.launch.sizes),
        "code": outcome.code,
        "why": outcome.why,
        "phases": {name: round(seconds, 4) for name, seconds in outcome.phases.items()},
        "stopped_s": round(sum(until - since for since, until in outcome.stops), 1),
        "connections_max": outcome.connections_max,
        "depth": outcome.depth,
        "lost": outcome.lost,
        "strangers": outcome.strangers,
        "controller_cpu_s": round(outcome.cpu_s, 4),
        "outputs": [
            {
                "process": rank,
                "node": node,
                "code": code,
                "cpu_s": round(cpu_s, 4),
                "stdout": kept.get(rank, empty).stdout.decode(errors="replace"),
                "stderr": kept.get(rank, empty).stderr.decode(errors="replace"),
            }
            for rank, (node, code, cpu_s) in sorted(ended.items())
        ],
    }


def _summary(plan: Plan, outcome: LaunchOutcome) -> str:
    phases = ", ".join(f"{PHASES[name]} after {seconds:.2f} s" for name, seconds in outcome.phases.items())
    return (
        f"pliant: {shlex.join(plan.launch.argv)}: {count(sum(plan.launch.sizes), 'process', 'processes')} on "
        f"{count(len(plan.nodes), 'node')}, "
        f"tree of depth {outcome.depth}, at most {outcome.connections_max} connections an agent; {phases}"
    )

"""A virtual cluster from outside: made, looked at, commanded, hurt and taken down."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from pliant.launch.processes import children
from pliant.model.errors import PliantError
from pliant.testing.cluster.layout import HEAD, MOST_NODES, lay_out, names_of, slow_ssh
from pliant.testing.cluster.outer import end, ended, start, tail
from pliant.testing.cluster.possible import NAMESPACES, PATIENCE_S, found, why_not

UP_S = 30.0
UP_S_A_NODE = 1.0
"""What a cluster may take to come up: many times what it takes on an idle machine."""
SSHD = ("sshd", "sshd-session", "sshd-auth")
File = int | IO[Any] | None


class Process(NamedTuple):
    """``pid`` is its number where the cluster was made, so that it can be signalled from there."""

    pid: int
    node: str
    command: str


class Command(subprocess.Popen[str]):
    """A command in a namespace, with nsenter as its parent: signals go to the command itself."""

    def send_signal(self, sig: int) -> None:
        self.poll()
        if self.returncode is None:
            for pid in children(self.pid) or {self.pid}:
                with suppress(ProcessLookupError):
                    os.kill(pid, sig)


class VirtualCluster:
    """``nodes`` machines of their own as far as programs can tell, and a head from which they are reached by ssh.

    Each has its network, host name, processes, System V IPC, /tmp, /dev/shm and /run; files, users and processors are
    this machine's. The head has this machine's /tmp, so that what is put there can be handed to a command.
    """

    def __init__(self, place: Path, names: Sequence[str], outer: subprocess.Popen[bytes]) -> None:
        """Of ``virtual_cluster``: what ``outer`` holds, and ``place`` says."""
        self.names = tuple(names)
        self.place = place
        self._path = f"{place / 'bin'}:{os.environ.get('PATH', os.defpath)}"
        [head] = children(outer.pid)
        self._first = {HEAD: head}
        self._own = {head}
        for keeper in children(head):
            words = Path(f"/proc/{keeper}/cmdline").read_text().split("\0")
            [first] = children(keeper)
            self._first[next(word for word in words if word in self.names)] = first
            self._own |= {keeper, first}
        self._handles = {name: os.pidfd_open(pid) for name, pid in self._first.items()}
        self._spaces = {_space(f"/proc/{pid}"): name for name, pid in self._first.items()}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        on: str = HEAD,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, ``env`` added to its environment: on the head in this process' directory and
        environment, on a node by ssh from the head. PliantError if it has not ended in time; what it had started on
        the head is killed then."""
        with self.popen(argv, env=env, on=on, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                out, err = self._give_up(process)
                said = tail(err or out) or "it has said nothing"
                raise PliantError(
                    f"{shlex.join(argv)}: no end within {timeout_s:g} s on {on}: {said}"
                ) from None
            except BaseException:
                self._give_up(process)
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def popen(  # noqa: PLR0913 -- half of them are those of subprocess.Popen
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, on: str = HEAD,
        stdin: File = subprocess.DEVNULL, stdout: File = None, stderr: File = None,
    ) -> Command:  # fmt: skip
        """Start a command as ``run`` does, in a process group of its own, and leave it to the caller."""
        words = [f"{name}={value}" for name, value in (env or {}).items()]
        if on != HEAD:
            self._node(on)
            remote = shlex.join(["env", *words, *argv] if words else argv)
            argv, words = [found("ssh"), on, remote], []
        inside = [*self._enter(), "env", f"--chdir={Path.cwd()}", f"PATH={self._path}", *words, *argv]
        return Command(
            inside,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def kill(self, name: str) -> None:
        """Kill every process of a node at once, sshd included: the node is dead, its link gone, and stays so."""
        handle = self._node(name)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not ended(handle, PATIENCE_S):
            raise PliantError(f"{name} has been killed, and has not ended within {PATIENCE_S:g} s")
        os.close(self._handles.pop(name))
        self._spaces = {space: other for space, other in self._spaces.items() if other != name}

    def cut(self, name: str) -> None:
        """Take a node's link down: nothing reaches it or leaves it, and nobody is told."""
        self._set_link(name, "down")

    def slow_ssh(self, delay_s: float) -> None:
        """Make each ssh so much longer from now on, on the head and on the nodes, in seconds; 0 as it is by itself."""
        _check_delay(delay_s)
        slow_ssh(self.place, delay_s)

    def mend(self, name: str) -> None:
        """Take its link up again."""
        self._set_link(name, "up")

    def processes(self, name: str | None = None, *, of: str = "") -> list[Process]:
        """The processes of a node, or of the head and all nodes, that have ``of`` in their command line or
        environment; the cluster's own, such as sshd, and ended ones excepted."""
        if name is not None and name != HEAD and name not in self.names:
            raise PliantError(self._unknown(name))
        at = {space: node for space, node in self._spaces.items() if name in (None, node)}
        found_there = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) not in self._own:
                with suppress(OSError):
                    node = at.get(_space(entry.path))
                    if node is not None and (command := _command(entry.path, of)):
                        found_there.append(Process(int(entry.name), node, command))
        return sorted(found_there, key=lambda process: (process.node, process.pid))

    def close(self) -> None:
        """Let go of what was held open to look at it; of the end itself takes ``virtual_cluster`` care."""
        while self._handles:
            os.close(self._handles.popitem()[1])

    def _enter(self) -> list[str]:
        if HEAD not in self._handles or ended(self._handles[HEAD], 0):
            raise PliantError(f"the virtual cluster in {self.place} has ended")
        return [found("nsenter"), f"--target={self._first[HEAD]}", *NAMESPACES]

    def _node(self, name: str) -> int:
        """A handle of the node's first process; PliantError if there is no such node, or no more."""
        if name not in self.names:
            raise PliantError(self._unknown(name))
        if name not in self._handles or ended(self._handles[name], 0):
            raise PliantError(f"{name} is dead: it has been killed")
        return self._handles[name]

    def _unknown(self, name: str) -> str:
        return f"{name} is not in the virtual cluster: its nodes are {self.names[0]} to {self.names[-1]}"

    def _set_link(self, name: str, state: str) -> None:
        self._node(name)
        done = self.run([found("ip"), "link", "set", f"v{name}", state], timeout_s=PATIENCE_S)
        if done.returncode:
            raise PliantError(f"the link of {name} cannot be set {state}: {tail(done.stderr)}")

    def _give_up(self, process: Command) -> tuple[str, str]:
        """Kill the command's group; what it has said, unless others keep its pipes."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            return process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            return "", ""


@contextmanager
def virtual_cluster(nodes: int, *, ssh_delay_s: float = 0.0) -> Iterator[VirtualCluster]:
    """A cluster of ``nodes`` nodes on this machine, up when it is handed over; ``why_not`` says whether it can be had,
    and is the PliantError if it cannot. ``ssh_delay_s``: what each ssh takes longer, on the head and on the nodes, in
    seconds: two processors cannot show how a launcher deals with a network's latency otherwise.

    All of it is gone at the end, and also when this process ends in any other way. Keys and configuration lie in a
    temporary directory; ssh works on the head and on all nodes without options, and knows nothing of this user's own.
    """
    if not 1 <= nodes <= MOST_NODES:
        raise PliantError(f"a virtual cluster has 1 to {MOST_NODES} nodes, not {nodes}")
    _check_delay(ssh_delay_s)
    if reason := why_not():
        raise PliantError(reason)
    names = names_of(nodes)
    patience_s = UP_S + UP_S_A_NODE * nodes
    place = Path(tempfile.mkdtemp(prefix="pliant-cluster-"))
    try:
        lay_out(place, names, ssh_delay_s, patience_s)
        outer = start(place, patience_s + PATIENCE_S)  # the head gives up first, and says why
        try:
            with closing(VirtualCluster(place, names, outer)) as cluster:
                yield cluster
        finally:
            end(outer)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check_delay(ssh_delay_s: float) -> None:
    if not 0.0 <= ssh_delay_s <= 60.0:
        raise PliantError(f"ssh_delay_s={ssh_delay_s:g}: 0 to 60 seconds")


def _space(process: str) -> str:
    """The namespace of the process' number: that of its node. ``process``: its directory in /proc."""
    return str(Path(process, "ns/pid").readlink())


def _command(path: str, of: str) -> str:
    """The command line of a process; empty if it has ended, is an sshd, or has nothing to do with ``of``."""
    line = Path(path, "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
    if not line or Path(path, "exe").readlink().name in SSHD:
        return ""
    if of.encode() not in line and of.encode() not in Path(path, "environ").read_bytes():
        return ""
    return line.decode(errors="replace")

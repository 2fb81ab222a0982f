"""``pliant launch`` on virtual nodes of this machine: real agents, sockets and processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from harness import PATIENCE_S, PLIANT, until

from pliant.daemon.launcher import Launcher, Plan
from pliant.launch.tree import links, shell
from pliant.launch.tree.posting import Starting
from pliant.model.deadlines import TREE_END_S
from pliant.protocol import launching as t

MARK = "PLIANT_TEST_LAUNCH"
NUMBERED = 'echo "out $PLIANT_RANK of $PLIANT_SIZE, here $PLIANT_LOCAL_RANK"; echo "err $PLIANT_RANK" >&2; exit $((PLIANT_RANK % 4))'


class Launched:
    """``pliant launch`` as a process, whose agents and programs can be found by a mark in their environment."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *words: str,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        by: str = "",
        **env: str,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*([sys.executable, "-c", by] if by else [PLIANT]), "launch", *words], env={**os.environ, MARK: self.mark, **env},
            stdin=stdin, stdout=stdout, stderr=stderr,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str, stdin: Any = subprocess.DEVNULL, **env: str) -> tuple[int, str, str]:
        out, err = self.start(*words, stdin=stdin, **env).communicate(timeout=PATIENCE_S)
        assert not self.alive()
        return self.started[-1].returncode, out.decode(), err.decode()

    def run_beside(self, *words: str, **env: str) -> int:
        """The exit code of one that has nobody else's end to wait for."""
        process = self.start(*words, **env)
        process.communicate(timeout=PATIENCE_S)
        return process.returncode

    def alive(self) -> dict[int, list[str]]:
        """All processes of it, by their command lines."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_bytes().decode().split("\0")[:-1]
            except OSError:
                continue
        return found

    def programs(self, name: str) -> int:
        """How many programs of this name run. A shell's child is a shell until it has become what it is to run."""
        those = {pid for pid, words in self.alive().items() if words[:1] == [name]}
        return sum(_parent(pid) not in those for pid in those)

    def agents(self) -> list[int]:
        """Those in the tree; each has the agent of its node as a child, of the same command line."""
        those = [pid for pid, words in self.alive().items() if "pliant.launch.tree" in words]
        return sorted(pid for pid in those if _parent(pid) not in those or _is_session_leader(pid))

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself since
                os.kill(pid, signal.SIGKILL)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X", "0", "0", "0"]


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _is_session_leader(pid: int) -> bool:
    return int(_stat(pid)[3]) == pid


@pytest.fixture
def launched() -> Iterator[Launched]:
    launch = Launched()
    yield launch
    launch.end()


def test_processes_are_numbered_and_their_ends_told(launched: Launched, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    code, out, _ = launched.run(
        "-N", "5", "-n", "8", "--degree", "2", "--json", "--timeline", str(trace), "--", "sh", "-c", NUMBERED
    )
    told = json.loads(out)
    assert code == told["code"] == 3
    assert told["why"] == "process 3 on n1 has ended with 3; 5 more have failed"
    assert [each["code"] for each in told["outputs"]] == [0, 1, 2, 3, 0, 1, 2, 3]
    here = [0, 1, 0, 1, 0, 1, 0, 0]
    assert [each["stdout"] for each in told["outputs"]] == [
        f"out {i} of 8, here {here[i]}\n" for i in range(8)
    ]
    assert [each["stderr"] for each in told["outputs"]] == [f"err {i}\n" for i in range(8)]
    assert [each["node"] for each in told["outputs"]] == ["n0", "n0", "n1", "n1", "n2", "n2", "n3", "n4"]
    assert told["nodes"] == 5
    assert told["depth"] == 2
    assert told["connections_max"] <= 2 + 1 + 2
    times = [told["phases"][name] for name in ("contacts", "started", "ended", "over")]
    assert times == sorted(times)
    rows = {event["tid"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert rows == set(range(6))


def test_how_far_the_start_has_come_is_told_and_then_the_program_alone() -> None:
    soon = "from pliant.terminal import working; working.FIRST_S = working.EVERY_S = 0.0; working.LOOK_S = 0.01; "
    ran = subprocess.run(
        [sys.executable, "-c", f"{soon}from pliant.cli import main; main()", "launch", "-N", "2", "--", "sleep", "0.5"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [re.sub(r",.*", "", line) for line in ran.stderr.splitlines()]
    assert "pliant: starting: 0 of 2 nodes" in lines
    assert set(lines) <= {f"pliant: starting: {i} of 2 nodes" for i in (0, 1)} | {
        line for line in lines if line.startswith("pliant: cleaning up: ")
    }


def test_lines_are_whole_and_none_is_lost(launched: Launched) -> None:
    """More than is kept anywhere, while nobody reads."""
    count = 60_000
    process = launched.start(
        "-N", "3", "--tag-output", "--", sys.executable, "-c", f"for i in range({count}): print(i, 'x' * 30)"
    )
    until(lambda: len(launched.agents()) == 3, "the agents are there")
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    assert process.wait(PATIENCE_S) == 0
    for node in range(3):
        mine = [line for line in lines if line.startswith(f"n{node}.{node}: ".encode())]
        assert mine == [f"n{node}.{node}: {i} {'x' * 30}".encode() for i in range(count)]
    assert len(lines) == 3 * count


def test_last_lines_without_an_end_stay_lines(launched: Launched, tmp_path: Path) -> None:
    """And what one process writes alone stays as it is."""
    code, out, _ = launched.run("-N", "3", "-n", "6", "--", "sh", "-c", "printf $PLIANT_RANK; printf 'e' >&2")
    assert (code, sorted(out.split("\n"))) == (0, list("012345"))
    both = "[ $PLIANT_RANK = 0 ] && printf 'a b' || printf 'c d' >&2"
    process = launched.start(
        "-N", "2", "--", "sh", "-c", both, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert sorted(process.communicate(timeout=PATIENCE_S)[0].split(b"\n")) == [b"a b", b"c d"], "one file"
    data = os.urandom(300_000)
    (tmp_path / "data").write_bytes(data)
    process = launched.start("-N", "2", "--", "sh", "-c", f"[ $PLIANT_RANK = 1 ] || cat {tmp_path}/data")
    assert process.communicate(timeout=PATIENCE_S)[0] == data


def test_it_ends_with_its_reader_and_where_output_has_no_room(launched: Launched) -> None:
    process = launched.start("-N", "2", "--", "yes")
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
    with Path("/dev/full").open("wb") as full:
        process = launched.start("-N", "1", "--", "echo", "hi", stdout=full)
    assert process.stderr is not None
    assert b"its output cannot be written: No space left on device" in process.stderr.read()
    assert process.wait(PATIENCE_S) == 1
    process = launched.start("-N", "1", "--json", "--", "true")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read().endswith(b"pliant: its output cannot be written: Broken pipe\n")
    assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE
    assert not launched.alive()


@pytest.mark.long
def test_a_reader_that_does_not_read_keeps_nobody(launched: Launched) -> None:
    process = launched.start("-N", "1", "--timeout", "1", "--", "yes")
    assert process.wait(PATIENCE_S) == 124
    assert not launched.alive()


def test_one_process_reads_what_is_typed(launched: Launched, tmp_path: Path) -> None:
    data = os.urandom(1_500_000).hex().encode()
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as file:
        code, out, err = launched.run("-N", "2", "--stdin", "1", "--", "sh", "-c", "wc -c", stdin=file)
    assert (code, sorted(map(int, out.split())), err) == (0, [0, len(data)], "")
    process = launched.start("-N", "1", "--", "cat", stdin=subprocess.PIPE)
    assert process.communicate(b"a\nb", timeout=PATIENCE_S)[0] == b"a\nb"


@pytest.mark.long
def test_mpi_over_nodes(launched: Launched) -> None:
    program = (
        "from mpi4py import MPI; c = MPI.COMM_WORLD; print(c.rank, c.size, c.allreduce(c.rank), flush=True);"
        "c.rank == 2 and __import__('sys').exit(0)"
    )
    code, out, err = launched.run(
        "-N", "3", "-n", "4", "--mpi", "--", sys.executable, "-c", program, UCX_NET_DEVICES="lo"
    )
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"{rank} 4 6" for rank in range(4)]
    code, out, err = launched.run(
        "-N", "2", "--mpi", "--", sys.executable, "-c",
        "from mpi4py import MPI; c = MPI.COMM_WORLD; c.rank and __import__('os')._exit(5); c.barrier()",
        UCX_NET_DEVICES="lo",
    )  # fmt: skip
    assert code == 5, "one that fails ends the others, as with mpiexec"
    assert "process 1 on n1 has ended with 5, and the others with it" in err
    code, _, err = launched.run(
        "-N", "2", "-n", "4", "--mpi", "--", sys.executable, "-c",
        "import os; os.environ['PMI_RANK'] == '1' and os._exit(0); from mpi4py import MPI",
        UCX_NET_DEVICES="lo",
    )  # fmt: skip
    assert code == 1
    assert "rank 1 has ended, and others wait for it" in err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-program"], 127, "n0: 'no-such-program': No such file or directory"),
        (["-N", "3", "--timeout", "1", "--", "sleep", "60"], 124, "it was not over within 1 s"),
        (["--degree", "0", "--", "true"], 2, "'0' is no tree"),
        (["--interface", "10.255.255.0/24", "--", "true"], 2, "nothing here is '10.255.255.0/24'; this machine has lo 127.0.0.1"),
        (["--spill", "-1", "--", "true"], 2, "--spill -1: it is 0 to"),
        (["--stdin", "4", "--", "true"], 2, "--stdin 4: the processes are 0 to 0"),
        (["--hosts", "", "--", "true"], 2, "--hosts names no node"),
        (["--hosts", ",", "--", "true"], 2, "',' is no hostlist"),
        (["--hosts", "a,b,a", "--", "true"], 2, "--hosts: a twice; a node is there once"),
        (["--hosts", "-oProxyCommand=x", "--", "true"], 2, "no node is called '-oProxyCommand=x'"),
        (["-N", "0", "--", "true"], 2, "--nodes 0: a machine has room for 1 to 4096 virtual nodes"),
        (["-n", "0", "--", "true"], 2, "--processes 0: it is 1 or more"),
        (["--patience", "nan", "--", "true"], 2, "--patience: 'nan' is no time above 0"),
        (["--degre", "2", "--", "true"], 2, "No such option: --degre"),
        (["--timeline", "/no/such/trace.json", "--", "true"], 2, "--timeline /no/such/trace.json: there is no directory /no/such"),
        (["--timeline", "/", "--", "true"], 2, "--timeline /: it is a directory"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(launched: Launched, words: list[str], code: int, said: str) -> None:
    ended, _, err = launched.run(*words)
    assert ended == code
    assert said in err


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh")
def test_a_node_may_have_a_name_that_only_ssh_knows(launched: Launched, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host alias.invalid\n  HostName 127.0.0.1\n  Port 1\n")
    code, _, err = launched.run("--hosts", "me@alias.invalid", f"--ssh-option=-F{config}", "--", "true")
    assert code == 1
    assert "me@alias.invalid: ssh ended with code 255" in err
    code, _, err = launched.run("--hosts", "other.invalid", f"--ssh-option=-F{config}", "--", "true")
    assert code == 2
    assert "there is no way to other.invalid" in err
    assert "--interface says where agents are to call this machine" in err


def test_what_is_no_text_is_named(launched: Launched) -> None:
    odd = os.fsdecode(b"v\xff")
    code, _, err = launched.run("--", "echo", "x", odd)
    assert (code, err) == (
        2,
        "pliant: argument 2 of the command, 'v\\udcff', is no text in UTF-8, and cannot be sent to nodes\n",
    )
    code, out, err = launched.run("--", "sh", "-c", "echo $NEXT", ODD=odd, NEXT="x")
    assert (code, out) == (0, "x\n")
    assert err == "pliant: the environment variable 'ODD' is not sent to nodes: it is no text in UTF-8\n"
    code, _, err = launched.run("--hosts", odd, "--", "true")
    assert code == 2
    assert "no node is called 'v\\udcff'" in err


def test_of_an_environment_that_is_too_large_the_longest_variables_are_not_sent(launched: Launched) -> None:
    """They may still come from what has started a node's agent."""
    big = {f"BIG{number}": "x" * 110_000 for number in range(9)}
    code, _, err = launched.run("--", "true", **big, LONGEST="\n" * 60_000, LONGER="x" * 115_000)
    assert code == 0
    assert [line.split(": ")[1] for line in err.splitlines()] == [
        f"the environment variable {name!r} is not sent to nodes" for name in ("LONGEST", "LONGER")
    ]
    assert "is the most, and it is the longest" in err
    words = [word for number in range(12) for word in ("-x", f"BIG{number}={'x' * 110_000}")]
    code, _, err = launched.run(*words, "--", "true")
    assert code == 2
    assert "the command and the variables of -x have 1,3" in err


FULL = """mount -t tmpfs -o {0} own {1}
[ {0} != size=4k ] || echo full >{1}/full
TMPDIR={1} {2} launch -N 1 -n 2 -- echo hi
echo ended with $? and left $(find {1} -name 'pliant*')"""


@pytest.mark.parametrize(
    ("room", "code", "path"),
    [
        ("nr_inodes=1", 1, r"n0: the agent ended with code 1: pliant: n0: {}/pliant-\d+-\w+"),
        ("nr_inodes=3", 1, r"n0: the agent ended with code 1: pliant: n0: {}/pliant-\d+-\w+/n0/agent.sock"),
        ("nr_inodes=5", 125, r"n0: {}/pliant-\d+-\w+/n0.io/?"),
        ("nr_inodes=10", 125, r"n0: {}/pliant-\d+-\w+/n0.io/1.in"),
        ("size=4k", 125, r"n0: {}/pliant-\d+-\w+/n0/n0.1.0.0.0.token"),
    ],
)
def test_where_a_node_has_no_room_is_told(room: str, code: int, path: str) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    with tempfile.TemporaryDirectory() as place:  # a short path, as sockets need
        done = subprocess.run(
            [*apart, "sh", "-c", FULL.format(room, place, PLIANT)], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.stdout == f"ended with {code} and left\n", done.stderr
    said = f"pliant: {path}: No space left on device; make room there, or set TMPDIR on the node to another directory"
    assert re.match(said.format(place), done.stderr), done.stderr


def test_a_directory_that_is_too_long_for_sockets_is_told(launched: Launched, tmp_path: Path) -> None:
    place = tmp_path / ("x" * 100)
    place.mkdir()
    code, _, err = launched.run("--", "true", TMPDIR=str(place))
    assert code == 1
    assert "/agent.sock: AF_UNIX path too long; set TMPDIR on the node to a shorter one" in err
    assert not list(place.iterdir())


def test_functions_of_a_shell_and_variables_without_a_name_do_no_harm(launched: Launched) -> None:
    function = {"BASH_FUNC_greet%%": "() {  echo hello\n echo again\n}"}
    code, out, err = launched.run("--", "bash", "-c", "greet", **function)
    assert (code, out, err) == (0, "hello\nagain\n", "")
    done = subprocess.run(
        [sys.executable, "-c", NAMELESS, PLIANT, "launch", "--", "echo", "hi"], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr
    assert done.stderr == "pliant: the environment variable '' is not sent to nodes: it has no name\n"


NAMELESS = """if True:
    import ctypes, os, sys
    words, there = map(os.fsencode, sys.argv[1:]), [b"=x", *(b"%b=%b" % each for each in os.environb.items())]
    lists = [(ctypes.c_char_p * (len(each) + 1))(*each) for each in (list(words), there)]
    ctypes.CDLL(None).execve(os.fsencode(sys.argv[1]), *lists)
"""
"""Become a command in an environment that Python would not give it."""


@pytest.mark.long
def test_what_agents_leave_that_are_killed_with_all_they_have_started_the_next_one_there_removes(
    launched: Launched, tmp_path: Path
) -> None:
    """As Slurm kills on a node that it takes out of a job. An agent that lives keeps what it has."""
    env = {"TMPDIR": str(tmp_path)}

    def folders() -> set[Path]:
        return {each for run in tmp_path.glob("pliant-*-*") for each in run.iterdir()}

    killed = launched.start("-N", "1", "--", "sleep", "600", **env)
    until(lambda: launched.programs("sleep") == 1, "the program")
    for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: nobody has time to clean up
        for pid in launched.alive():
            os.kill(pid, number)
    killed.wait(PATIENCE_S)
    left = folders()
    assert {each.name for each in left} == {"n0", "n0.io"}
    launched.start("-N", "1", "--", "sleep", "600", **env)
    until(lambda: not folders() & left, "what was left being removed")
    assert launched.run_beside("-N", "1", "--", "true", **env) == 0
    assert {each.name for each in folders()} == {"n0", "n0.io"}, "those of the launch that goes on"


def test_nothing_is_left_when_the_launcher_is_killed(launched: Launched) -> None:
    process = launched.start("-N", "6", "--degree", "2", "--", "sh", "-c", "sleep 600 & sleep 600")
    until(lambda: launched.programs("sleep") == 12, "all run")
    process.kill()
    killed = time.monotonic()
    until(lambda: not launched.alive(), "all have ended")
    assert time.monotonic() - killed < 5


IMPATIENT = """#!{python}
import sys
from pliant.launch.tree import entry, shell
shell.LINK_SILENCE_S, shell.LINK_BEAT_S = 0.5, 0.1
entry.main()
"""
STARTED_SO = "import sys; sys.executable = {script!r}; from pliant.__main__ import main; main()"


def test_what_was_written_is_told_of_processes_that_were_ended_too(launched: Launched) -> None:
    process = launched.start("-N", "1", "--json", "--timeout", "2", "--", "sh", "-c", "echo began; sleep 600")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 124, err
    [told] = json.loads(out)["outputs"]
    assert (told["node"], told["code"], told["stdout"]) == ("n0", None, "began\n")


@pytest.mark.long
def test_a_launch_goes_on_after_its_command_was_stopped(launched: Launched, tmp_path: Path) -> None:
    """For longer than agents bear the silence of any other: the program runs on, and its output waits."""
    script, flag = tmp_path / "agent", tmp_path / "go"
    script.write_text(IMPATIENT.format(python=sys.executable))
    script.chmod(0o700)
    wait = f"while [ ! -e {flag} ]; do sleep 0.05; done; echo done; echo > {flag}.$PLIANT_RANK"
    process = launched.start("-N", "2", "--", "sh", "-c", wait, by=STARTED_SO.format(script=str(script)))
    until(lambda: launched.programs("sh") == 2, "all run")
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.0)  # it is the silence that is tried
    flag.touch()
    until(lambda: all(flag.with_name(f"go.{rank}").exists() for rank in range(2)), "the programs run on")
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, b"done\n" * 2), err
    assert not launched.alive()


def _inner(launched: Launched) -> int:
    """An agent that others are below, of six in a chain."""
    return next(pid for pid in launched.agents() if launched_node(pid) == "n2")


def launched_node(pid: int) -> str:
    """The node of an agent, by the processes that it has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        for rank in Path(f"/proc/{child}/task/{child}/children").read_text().split():
            if node := node_of(int(rank)):
                return node
    return ""


def node_of(pid: int) -> str:
    """The node of a process of the program."""
    for each in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        if each.startswith(b"PLIANT_NODE="):
            return each.partition(b"=")[2].decode()
    return ""


def test_the_loss_of_an_agent_ends_the_launch(launched: Launched) -> None:
    process = launched.start("-N", "4", "--degree", "1", "--", "sleep", "600")
    until(lambda: launched.programs("sleep") == 4, "all run")
    os.kill(_inner(launched), signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert b"n2: " in err
    until(lambda: not launched.alive(), "nothing is left")


def test_the_loss_of_a_nodes_agent_ends_the_launch_at_once(launched: Launched, tmp_path: Path) -> None:
    """The one that is above two others: they have been told nothing, and it does not wait for them."""
    process = launched.start("-N", "3", "--degree", "1", "--", "sleep", "600", TMPDIR=str(tmp_path))
    until(lambda: launched.programs("sleep") == 3, "all run")
    [rank] = [pid for pid, words in launched.alive().items() if words[0] == "sleep" and node_of(pid) == "n0"]
    killed = time.monotonic()
    os.kill(_parent(rank), signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - killed < TREE_END_S
    assert process.returncode == 1
    assert b"n0: " in err
    until(lambda: not launched.alive(), "nothing is left")
    assert not list(tmp_path.glob("pliant-*"))


CALLS_AND_SAYS_NOTHING = """#!{python}
import sys
from pliant.launch.tree import links, posting
mine = posting.read()
link = links.call(mine.parent, mine.seat.rank, mine.secret)
open({called!r}, "w").close()
link.recv(1)
"""


def test_whoever_has_called_and_not_spoken_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link stands when all ends, and the machine has not heard of it: nobody tells it that this is the end."""
    script, called = tmp_path / "agent", tmp_path / "called"
    script.write_text(CALLS_AND_SAYS_NOTHING.format(python=sys.executable, called=str(called)))
    script.chmod(0o700)
    monkeypatch.setattr(shell, "TREE_END_S", 10 * PATIENCE_S)

    async def live() -> None:
        launch = t.Launch(("true",), {}, "/", (1,))
        plan = Plan(nodes=("n0",), launch=launch, listen="127.0.0.1", starting=Starting(python=str(script)))
        launcher = Launcher(plan, lambda _node, _output: None, lambda _text: None)
        running = asyncio.ensure_future(launcher.run())
        while not called.exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (await running).code == 128 + signal.SIGTERM

    async def within() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await live()

    asyncio.run(within())


@pytest.mark.long
def test_those_below_a_lost_agent_go_on(launched: Launched, tmp_path: Path) -> None:
    """With --survive: an inner agent of a chain dies, and what was below it calls the next one further up."""
    flag = tmp_path / "go"
    wait = f'while [ ! -e {flag} ]; do sleep 0.05; done; echo "done $PLIANT_RANK"'
    process = launched.start("-N", "5", "--degree", "1", "--survive", "--json", "--", "sh", "-c", wait)
    until(lambda: launched.programs("sh") == 5, "all run")
    until(lambda: any(launched_node(pid) == "n2" for pid in launched.agents()), "n2 is known")
    os.kill(_inner(launched), signal.SIGKILL)
    until(lambda: launched.programs("sh") == 4, "its process is gone")
    flag.touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    told = json.loads(out)
    assert told["lost"].keys() == {"n2"}, err
    assert [each["code"] for each in told["outputs"]] == [0, 0, 255, 0, 0]
    assert [each["stdout"] for each in told["outputs"]] == [
        "done 0\n",
        "done 1\n",
        "",
        "done 3\n",
        "done 4\n",
    ]
    assert told["code"] == 255
    until(lambda: not launched.alive(), "nothing is left")


@pytest.mark.long
def test_those_that_a_lost_agent_was_starting_are_started_anew(launched: Launched) -> None:
    """With --survive, in a chain: the first agent is lost when the second one begins to run."""
    process = launched.start("-N", "3", "--degree", "1", "--survive", "--json", "--", "sh", "-c", "echo here")
    until(lambda: len(launched.agents()) == 2, "the second one")
    [first] = [pid for pid in launched.agents() if _parent(pid) == process.pid]
    os.kill(first, signal.SIGKILL)
    out, err = process.communicate(timeout=PATIENCE_S)
    told = json.loads(out)
    assert told["lost"].keys() == {"n0"}, err
    assert [each["stdout"] for each in told["outputs"]][1:] == ["here\n"] * 2
    until(lambda: not launched.alive(), "nothing is left")


def test_a_stranger_is_refused_and_the_secret_is_nowhere(launched: Launched, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    process = launched.start(
        "-N", "2", "--json", "--", "sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.05; done"
    )
    until(lambda: launched.programs("sh") == 2, "all run")
    shown = b""
    for pid in launched.alive():
        with suppress(OSError):  # a sleep that is over
            shown += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert shown.count(launched.mark.encode()) >= 1 + 2 * 2 + 2, (
        "the launcher, two processes a node, two programs"
    )
    assert not re.search(rb"[0-9a-f]{64}", shown), "what a secret looks like"
    [port] = listening(process.pid)
    with pytest.raises((links.StrangerError, ConnectionError)):
        links.call(f"127.0.0.1:{port}", 1, "guessed")
    with socket.create_connection(("127.0.0.1", port), 5) as other:
        other.sendall(b"0" * 32)
        assert len(other.recv(96, socket.MSG_WAITALL)) == 96
        other.sendall(b"00000001" + b"0" * 64)
        assert other.recv(1) == b"", "nothing more is said to it"
    flag.touch()
    told = json.loads(process.communicate(timeout=PATIENCE_S)[0])
    assert (told["code"], told["strangers"]) == (0, 1)


def listening(pid: int) -> list[int]:
    """The ports at which a process listens."""
    sockets = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        target = str(path.readlink())
        if target.startswith("socket:"):
            sockets.add(target[8:-1])
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return [int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in sockets]


def test_the_first_interrupt_is_the_programs(launched: Launched) -> None:
    process = launched.start(
        "-N", "2", "--", "sh", "-c", 'trap "echo heard; exit 4" INT; echo ready; while :; do sleep 0.05; done'
    )
    assert process.stdout is not None
    assert [process.stdout.readline(), process.stdout.readline()] == [b"ready\n"] * 2
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == b"heard\n" * 2
    assert process.returncode == 130
    assert not launched.alive()

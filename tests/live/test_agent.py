"""A node's agent alone, driven over its link; and a batch whose agents are recorded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from harness import PATIENCE_S, PROGRAMS, BatchRun, heat, until

from pliant.core import records as r
from pliant.launch import processes, shm
from pliant.live import recording as cluster_recording
from pliant.live.node import recording
from pliant.live.node.dialects import DIALECTS
from pliant.live.node.register import HELPER, token_name
from pliant.model.world import MpiWorld
from pliant.policy.registry import make
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.recorder import RECORD


class Link:
    """The controller's end of one agent."""

    def __init__(self, place: Path) -> None:
        self.run = f"test{os.getpid()}"
        self.place = place
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        self.socket = ours
        words = ["--node", "n0", "--run", self.run, "--link", str(theirs.fileno()), "--runtime", str(place)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pliant.launch.agent", *words],
            pass_fds=[theirs.fileno()], env={**os.environ, "PMI_RANK": "5"}, stderr=subprocess.PIPE,
        )  # fmt: skip
        theirs.close()
        self._lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        self._heard: list[m.AgentMessage] = []

    def send(self, *messages: m.ControllerMessage) -> None:
        self.socket.sendall(b"".join(codec.encode(m.To(("n0",), codec.raw(each))) for each in messages))

    def hear(self, kind: type[m.Message]) -> m.AgentMessage:
        """The next message of this kind."""
        envelopes, decoder = codec.from_nodes(), codec.from_agent()
        while True:
            for message in self._heard:
                if isinstance(message, kind):
                    self._heard.remove(message)
                    return message
            data = self.socket.recv(65536)
            assert data, "the agent has left"
            for line in self._lines.feed(data):
                envelope = envelopes.decode(line)
                assert envelope.node == "n0"
                self._heard.append(decoder.decode(envelope.message))

    def start(self, job: int, command: str, dialect: str = "pmi1") -> m.StartGroup:
        output = str(self.place.parent / f"{job}.log")
        return m.StartGroup(job, 0, MpiWorld(0, (1,)), ("sh", "-c", command), {}, "/", output, "t", dialect)


@pytest.fixture
def link() -> Iterator[Link]:
    place = Path(tempfile.mkdtemp(prefix="plt"))
    (place / "run").mkdir()
    link = Link(place / "run")
    yield link
    link.process.kill()
    link.process.communicate()
    link.socket.close()
    shm.sweep(place / "run", link.run)
    shutil.rmtree(place)


def test_an_agent_over_its_wire(link: Link) -> None:
    link.hear(m.AgentHello)
    link.socket.sendall(b'{"type":"to","nodes":["n0"],"message":{"type":"dance"}}\ngarbage\n')
    for _ in range(2):
        assert isinstance(link.hear(m.Error), m.Error)
    # Two dialects, and one that is not known; an order that comes twice is carried out once.
    tasks = {1: "pmi1", 2: "none"}
    for job, dialect in tasks.items():
        order = link.start(job, "echo $$; env | grep -E '^(PMI|MPI|UCX)'; exit 0", dialect)
        link.send(order, order)  # the one answer is for both
        started = link.hear(m.Started)
        link.send(order)
        assert link.hear(m.Started) == started
        assert isinstance(ended := link.hear(m.Exited), m.Exited)
        assert (ended.job, ended.code) == (job, 0)
        assert isinstance(started, m.Started)
        pid, *env = (link.place.parent / f"{job}.log").read_text().split()
        assert started.pids == (int(pid),)
        names = {each.partition("=")[0] for each in env}
        mpich = {"PMI_RANK", "PMI_SIZE", "PMI_ID", "PMI_FD", "MPIR_CVAR_CH4_NETMOD", "UCX_POSIX_DIR"}
        assert names == (mpich if dialect == "pmi1" else set())
    link.send(link.start(3, "true", "pmix"))
    refused = link.hear(m.StartFailed)
    assert isinstance(refused, m.StartFailed)
    assert f"known are {', '.join(sorted(DIALECTS))}" in refused.error
    # The token of an agent that is gone tells that its group was started: it is not started again.
    before = link.place / token_name("n0", 6, 0, 0, 0)
    before.touch()
    link.send(link.start(6, "true"))
    refused = link.hear(m.StartFailed)
    assert isinstance(refused, m.StartFailed)
    assert "before" in refused.error
    before.unlink()  # it is not this agent's, and stays otherwise
    # A job's orphans go with its proof, those of a job that goes on do not.
    daemon = "setsid sleep 600 & echo $!; "
    link.send(link.start(4, daemon + "exit 0"), link.start(5, daemon + "exec sleep 600"))
    until(lambda: all((link.place.parent / f"{job}.log").exists() for job in (4, 5)), "both jobs")
    until(lambda: len(processes.find(link.run, job=4)) == 1, "the daemon")
    until(lambda: len(processes.find(link.run, job=5)) == 2, "the daemon and its rank")
    link.send(m.Prove(4, patience_s=1.0), m.Prove(4, patience_s=1.0))
    assert link.hear(m.Proof) == m.Proof(4, clean=True)
    assert not processes.find(link.run, job=4)
    assert len(processes.find(link.run, job=5)) == 2
    link.send(m.Prove(5, patience_s=600.0), m.Shutdown())
    assert link.hear(m.Proof) == m.Proof(5, clean=True)
    _, said = link.process.communicate(timeout=PATIENCE_S)
    assert link.process.returncode == 0
    assert b"not a message" in said
    assert not processes.find(link.run)
    assert not link.place.exists()


def test_programs_are_forked_from_a_warm_process_and_what_they_leave_is_found(link: Link) -> None:
    """Proofs are as sure as of programs that were executed, and neither end takes the other with it."""
    groups = count(1)

    def start(*words: str) -> tuple[int, str]:
        """A group of job 7 starts and says whether it was forked: its process, when the agent knows that it is up."""
        group, out = next(groups), link.place.parent / "said"
        argv = (sys.executable, str(PROGRAMS / "says_hello.py"), *words)
        order = m.StartGroup(
            7, group, MpiWorld(group, (1,)), argv, {}, "/", str(out), "t", "none", ("colorsys",)
        )
        out.write_text("")
        link.send(order)
        started = link.hear(m.Started)
        assert isinstance(started, m.Started)
        until(lambda: out.read_text().endswith("\n"), "its word")
        # Before that a warm process that is found to have ended is replaced at once.
        while isinstance(hello := link.hear(m.Relay), m.Relay) and hello.group != group:
            pass
        return started.pids[0], out.read_text().strip()

    def warm_process() -> int:
        """The agent's helper."""
        return next((pid for pid, cookie in processes.find(link.run).items() if HELPER in cookie), 0)

    assert start()[1] == "cold"
    until(lambda: start()[1] == "warm", "a program that is forked")
    helper = warm_process()
    link.send(m.Prove(7, patience_s=60.0))
    assert link.hear(m.Proof) == m.Proof(7, clean=True)
    rank, said = start("stay", "daemon")
    assert said == "warm"
    assert processes.children(helper) == set()
    assert len(processes.find(link.run, job=7)) == 2
    # Its daemon, which has never been executed, goes with the proof; the warm process, which is no part of the job, stays.
    link.send(m.Signal(7, signal.SIGTERM), m.Prove(7, patience_s=60.0))
    until(
        lambda: isinstance(ended := link.hear(m.Exited), m.Exited) and ended.code == -signal.SIGTERM,
        "its end",
    )
    assert link.hear(m.Proof) == m.Proof(7, clean=True)
    assert not processes.find(link.run, job=7)
    assert {*processes.find(link.run)} == {helper}
    assert start()[1] == "warm"
    # Killed, it takes nobody with it, and the next program is executed; then there is another one.
    rank, said = start("stay")
    processes.kill(helper)
    until(lambda: warm_process() == 0, "its end")
    assert start()[1] == "cold"
    assert rank in processes.find(link.run, job=7)
    until(lambda: start()[1] == "warm", "a program that is forked by the next one")
    # The agent's end is that of its ranks and of the warm process. Whatever else is left still has its cookie.
    helper = warm_process()
    rank, said = start("stay", "daemon")
    assert said == "warm"
    assert len(processes.find(link.run, job=7)) == 3
    link.process.kill()
    until(lambda: len(processes.find(link.run)) == 1, "the end of all but the daemon")
    [(daemon, cookie)] = processes.find(link.run, node="n0", job=7).items()
    assert HELPER not in cookie
    processes.kill(daemon)


def test_what_agents_and_controllers_were_told_and_did_is_recorded_and_played_again_the_same(
    start: Callable[..., BatchRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(RECORD, str(tmp_path / "records"))
    run = start(
        "nodes = 3\nslots = 2",
        heat("grows", "{ min = 1, max = 3 }", steps=60, work_s=1.5),
        heat("world", "2", submit=0.1, steps=20, work_s=0.3),
    )
    run.wait_for(r.JobEnded)
    jobs = run.finish().values()
    assert {one["verified"] for one in jobs} == {True}
    assert all(one["cpu_s"] > 0 for one in jobs)
    paths = sorted((tmp_path / "records").iterdir())
    *files, last = [path for path in paths if not path.name.startswith("job-")]
    assert len(paths) > len(files) + 1  # the jobs' roots have theirs as well
    assert [path.name.rpartition("-")[0] for path in files] == ["agent-n0", "agent-n1", "agent-n2"]
    assert last.name == f"controller-{run.process.pid}.ndjson"
    assert last.stat().st_mode & 0o777 == 0o600
    told, *batches = last.read_bytes().splitlines(keepends=True)
    assert not list(cluster_recording.replay([told, *batches], lambda head: make(head.policy)))
    made = [each["record"] for line in batches for each in json.loads(line)["records"]]
    assert made == [type(record).__name__ for record in run.records()]
    kinds: set[str] = set()
    for path in files:
        lines = path.read_bytes().splitlines(keepends=True)
        assert not list(recording.replay(lines))
        steps = [json.loads(line) for line in lines[1:]]
        kinds |= {each["type"] for step in steps for each in step["inputs"]}
        # What was on its way to an agent that leaves is still an input.
        assert [each["type"] for step in steps for each in step["outputs"]][-1] == "leave"
        assert path.stat().st_mode & 0o777 == 0o600
    assert {"began", "linksaid", "spawned", "ranksaid", "sessionsaid", "exited", "found"} <= kinds

"""A node's agent alone, driven over its link; and a batch whose agents are recorded."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import PATIENCE_S, BatchRun, heat, until

from pliant.core import records as r
from pliant.launch import processes, shm
from pliant.live import cluster_recording, recording
from pliant.live.register import token_name
from pliant.model.world import World
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
        return m.StartGroup(job, 0, World(0, (1,)), ("sh", "-c", command), {}, "/", output, "t", dialect)


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
    assert "known are none, pmi1" in refused.error
    # The token of an agent that is gone tells that its group was started: it is not started again.
    (link.place / token_name("n0", 6, 0, 0, 0)).touch()
    link.send(link.start(6, "true"))
    refused = link.hear(m.StartFailed)
    assert isinstance(refused, m.StartFailed)
    assert "before" in refused.error
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
        kinds |= {each["type"] for line in lines[1:] for each in json.loads(line)["inputs"]}
        assert json.loads(lines[-1])["outputs"][-1]["type"] == "leave"
        assert path.stat().st_mode & 0o777 == 0o600
    assert {"began", "linksaid", "spawned", "ranksaid", "sessionsaid", "exited", "found"} <= kinds

"""A virtual cluster is what it says: machines of their own, reached by ssh, that can be hurt and leave nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pliant.model.errors import PliantError
from pliant.testing.cluster import VirtualCluster, virtual_cluster

PROGRAMS = Path(__file__).with_name("programs")
ALL = 'for node in "$@"; do ssh "$node" hostname & done; wait'
PATIENCE_S = 30.0


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)


def test_every_node_is_reached_by_its_name(cluster: VirtualCluster) -> None:
    assert cluster.names == tuple(f"node{number:02d}" for number in range(1, 17))
    done = cluster.run(["sh", "-c", ALL, "sh", *cluster.names])
    assert sorted(done.stdout.split()) == list(cluster.names)
    assert done.stderr == ""
    assert cluster.run(["hostname"]).stdout == "head\n"


def test_nodes_reach_each_other(cluster: VirtualCluster) -> None:
    done = cluster.run(["ssh", "node16", "ssh", "node01", "hostname"], on="node07")
    assert (done.stdout, done.stderr) == ("node01\n", "")


def test_a_command_is_given_its_words_and_environment(cluster: VirtualCluster) -> None:
    words = ["sh", "-c", 'echo "$1/$2/$A/$PWD"; echo "$0" >&2; exit 3', "it's", "b  c", "$HOME"]
    for where, folder in (("head", str(Path.cwd())), ("node02", str(Path.home()))):
        done = cluster.run(words, env={"A": "x y"}, on=where)
        assert (done.stdout, done.stderr, done.returncode) == (f"b  c/$HOME/x y/{folder}\n", "it's\n", 3)


def test_each_node_has_its_own(cluster: VirtualCluster) -> None:
    """Temporary files, shared memory, processes and network devices."""
    script = "touch /tmp/mine /dev/shm/mine /run/mine; ls /proc | grep -c '^[0-9]'; ls /sys/class/net"
    for name in ("node01", "node02"):
        assert cluster.run(["ls", "/tmp/mine", "/dev/shm/mine", "/run/mine"], on=name).returncode
        count, *devices = cluster.run(["sh", "-c", script], on=name).stdout.split()
        assert int(count) < 12
        assert devices == ["eth0", "lo"]
    assert not any(Path(place, "mine").exists() for place in ("/tmp", "/dev/shm", "/run"))


def test_nodes_see_the_project_and_the_cluster(cluster: VirtualCluster) -> None:
    program = "import os, pliant; os.chdir(os.environ['FROM']); print(os.listdir())"
    env = {"FROM": str(cluster.place)}
    done = cluster.run([sys.executable, "-c", program], on="node03", env=env)
    assert "hosts" in done.stdout, done.stderr


def test_what_runs_is_seen_and_signalled(cluster: VirtualCluster) -> None:
    here = cluster.popen(["sleep", "1000"])
    there = cluster.popen(["sleep", "1000"], on="node05", env={"MARK": "marked"})
    until(lambda: [each.command for each in cluster.processes("node05")] == ["sleep 1000"], "the one there")
    until(lambda: "sleep 1000" in [each.command for each in cluster.processes("head")], "the one here")
    [one] = cluster.processes("node05", of="sleep 1000")
    assert cluster.processes("node05", of="MARK=marked") == [one]
    assert cluster.processes("node06") == []
    os.kill(one.pid, signal.SIGKILL)
    here.terminate()
    assert there.wait(PATIENCE_S) == 255
    assert here.wait(PATIENCE_S) == -signal.SIGTERM
    with pytest.raises(
        PliantError, match="node17 is not in the virtual cluster: its nodes are node01 to node16"
    ):
        cluster.processes("node17")


def test_a_command_that_does_not_end_is_killed(cluster: VirtualCluster) -> None:
    with pytest.raises(
        PliantError, match=r"echo so far.*no end within 0.5 s on head: (so far|it has said nothing)$"
    ):
        cluster.run(["sh", "-c", "echo so far; sleep 1000 & sleep 1001"], timeout_s=0.5)


def test_a_node_whose_link_is_cut_is_there_again_when_mended(cluster: VirtualCluster) -> None:
    reach = ["ssh", "-o", "ConnectTimeout=1", "node09", "hostname"]
    there = cluster.popen(["sh", "-c", "read word; echo $word"], on="node09", stdin=-1, stdout=-1)
    until(lambda: bool(cluster.processes("node09")), "the command")
    cluster.cut("node09")
    done = cluster.run(reach)
    assert (done.returncode, done.stdout) == (255, "")
    assert "port 22" in done.stderr
    cluster.mend("node09")
    until(lambda: cluster.run(reach).stdout == "node09\n", "node09")
    assert there.communicate("hello\n", timeout=PATIENCE_S)[0] == "hello\n"  # it was told nothing of all that


def test_mpi_ranks_on_two_nodes_exchange_messages(cluster: VirtualCluster) -> None:
    """By MPICH's own launcher and ssh, over what the library itself chooses."""
    tools = Path(sys.executable).parent
    words = [str(tools / "mpiexec"), "-launcher", "ssh", "-hosts", "node01,node02", "-n", "2", "-ppn", "1"]
    done = cluster.run([*words, sys.executable, str(PROGRAMS / "ring.py")])
    assert sorted(done.stdout.splitlines()) == [
        "node01 of 2 heard node02: True", "node02 of 2 heard node01: True",
    ], done.stderr  # fmt: skip


def test_a_killed_node_is_dead_and_the_others_live() -> None:
    with virtual_cluster(nodes=3, ssh_delay_s=0.2) as cluster:
        there = cluster.popen(["sleep", "1000"], on="node02", stderr=subprocess.PIPE)
        until(lambda: bool(cluster.processes("node02")), "the command")
        cluster.kill("node02")
        assert there.wait(PATIENCE_S) == 255
        there.communicate()
        assert cluster.processes() == []
        with pytest.raises(PliantError, match="node02 is dead"):
            cluster.run(["true"], on="node02")
        # A node's first ssh waits as the head's does: one after the other they take twice as long.
        began = time.monotonic()
        assert cluster.run(["ssh", "node01", "ssh node03 hostname"]).stdout == "node03\n"
        assert time.monotonic() - began >= 0.4
        place = cluster.place
    assert not place.exists()
    with pytest.raises(PliantError, match="has ended"):
        cluster.run(["true"])


MAKER = [sys.executable, str(PROGRAMS / "maker.py")]


def test_nothing_is_left_when_its_maker_is_killed(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(MAKER, env=env, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        pids = maker.stdout.readline().split()
        maker.kill()
    assert len(pids) >= 4
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of its processes")
    until(lambda: not _runs(str(tmp_path)), "the end of the cluster itself")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_when_its_maker_is_killed_while_it_comes_up(tmp_path: Path) -> None:
    with subprocess.Popen(
        MAKER, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE
    ) as maker:
        until(lambda: bool(list(tmp_path.glob("*/log/node01"))), "the first node")
        maker.kill()
    until(lambda: not _runs(str(tmp_path)), "the end of the cluster itself")
    assert not list(tmp_path.iterdir())


def _runs(text: str) -> list[Path]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (entry / "cmdline").read_bytes():
                found.append(entry)
        except OSError:
            continue
    return found

"""``pliant launch`` over ssh, on machines that have networks and processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.testing.cluster import VirtualCluster, virtual_cluster

PLIANT = str(Path(sys.executable).with_name("pliant"))
PATIENCE_S = 40.0
LISTEN, TIME_WAIT = "0A", "06"
"""States of /proc/net/tcp."""
ALLREDUCE = (
    "from mpi4py import MPI; import os; c = MPI.COMM_WORLD;"
    "print(os.uname().nodename, c.rank, c.size, c.allreduce(c.rank))"
)


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def launch_json(cluster: VirtualCluster, *words: str, **env: str) -> dict[str, Any]:
    done = cluster.run([PLIANT, "launch", "--json", *words], timeout_s=PATIENCE_S, env=env)
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return {**answer, "stderr": done.stderr}


def started(cluster: VirtualCluster, *words: str) -> subprocess.Popen[str]:
    return cluster.popen([PLIANT, "launch", "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def sleepers(cluster: VirtualCluster, seconds: int) -> int:
    found = [each for each in cluster.processes() if each.command == f"sleep {seconds}"]
    return len(found)


def test_a_program_runs_on_every_node(cluster: VirtualCluster) -> None:
    answer = launch_json(cluster, "--hosts", "node[01-16]", "--degree", "3", "--", "hostname")
    assert [(each["node"], each["stdout"]) for each in answer["outputs"]] == [
        (name, f"{name}\n") for name in cluster.names
    ]
    assert answer["code"] == 0
    assert answer["depth"] == 3
    assert answer["connections_max"] <= 3 + 1 + 4


def test_the_doctor_finds_the_network_that_works_and_launches_take_it(
    cluster: VirtualCluster, tmp_path: Path
) -> None:
    """MPICH's UCX hangs between nodes that have TCP alone. Where it does not, either may be the quicker one."""
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    asked = [PLIANT, "doctor", "--hosts", "node[01-03]", "--json"]
    done = cluster.run(asked, timeout_s=3 * PATIENCE_S, env=env)
    found = {each["what"]: each for each in json.loads(done.stdout)}
    assert found["nodes"]["found"].startswith("3 nodes, in ")
    assert found["MPI over ofi"]["ok"], found
    if not found["MPI over ucx"]["ok"]:
        assert "MPI_Dist_graph_create" in found["MPI over ucx"]["found"]
    best = found["network"]["found"].partition(":")[0]
    words = ["--hosts", "node[01-02]", "--", "sh", "-c", "echo $MPIR_CVAR_CH4_NETMOD"]
    taken = launch_json(cluster, *words, **env)
    assert [each["stdout"] for each in taken["outputs"]] == [f"{best}\n"] * 2
    others = launch_json(cluster, *words, **env, MPIR_CVAR_CH4_NETMOD="own")
    assert [each["stdout"] for each in others["outputs"]] == ["own\n"] * 2


NEW = """#!{python}
import os, shlex, sys
hide = "mount -t tmpfs own {top} && exec sh -c \\"$1\\""
words = ["unshare", "-m", "sh", "-c", hide, "sh", sys.argv[-1]]
os.execv({ssh!r}, ["ssh", *sys.argv[1:-1], shlex.join(words)])
"""


def test_nodes_that_have_never_seen_pliant(cluster: VirtualCluster, tmp_path: Path) -> None:
    """Nothing of this clone is there, nor its virtual environment."""
    python, top = str(Path(sys.executable).resolve()), Path(__file__).parents[2]
    ssh = tmp_path / "ssh"
    ssh.write_text(NEW.format(python=python, top=top, ssh=shutil.which("ssh")))
    ssh.chmod(0o755)
    words = ["--hosts", "node[01-04]", "--cwd", "/", "--remote-python", python, "--", "sh", "-c"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    answer = launch_json(cluster, *words, f"hostname; ls {top}", PATH=path)
    assert answer["code"] == 0, answer
    assert [each["stdout"] for each in answer["outputs"]] == [f"{name}\n" for name in cluster.names[:4]]


def test_sixty_four_nodes_and_an_mpi_world_on_sixteen_of_them() -> None:
    """An inner node of the large tree is killed as well: the others go on."""
    with virtual_cluster(nodes=64) as cluster:
        answer = launch_json(cluster, "--hosts", "node[01-64]", "--degree", "8", "--", "hostname")
        assert [each["stdout"] for each in answer["outputs"]] == [f"{name}\n" for name in cluster.names]
        assert (answer["code"], answer["depth"]) == (0, 2)
        assert answer["connections_max"] <= 8 + 1 + 6
        words = ("--degree", "4", "--mpi", "--", sys.executable, "-c", ALLREDUCE)
        world = launch_json(cluster, "--hosts", "node[01-16]", *words)
        assert sorted(int(each["stdout"].split()[1]) for each in world["outputs"]) == list(range(16))
        assert {each["stdout"].split()[3] for each in world["outputs"]} == {"120"}
        process = started(
            cluster, "--hosts", "node[01-64]", "--degree", "8", "--survive", "--", "sleep", "93"
        )
        until(lambda: sleepers(cluster, 93) == 64, "the program")
        cluster.kill("node02")
        until(lambda: sleepers(cluster, 93) == 63, "the end of it on one node")
        process.kill()
        killed = time.monotonic()
        until(lambda: not cluster.processes(of="pliant.launch.tree") and not sleepers(cluster, 93), "the end")
        assert time.monotonic() - killed < 5
        process.communicate()


def test_one_mpi_world_over_nodes(cluster: VirtualCluster) -> None:
    answer = launch_json(
        cluster, "--hosts", "node[01-03]", "-n", "4", "--mpi", "--", sys.executable, "-c", ALLREDUCE
    )
    assert answer["code"] == 0, answer
    said = [each["stdout"].split() for each in answer["outputs"]]
    assert said == [
        ["node01", "0", "4", "6"], ["node01", "1", "4", "6"], ["node02", "2", "4", "6"], ["node03", "3", "4", "6"],
    ]  # fmt: skip


def test_what_listens_is_reached_at_the_interface_that_was_named(cluster: VirtualCluster) -> None:
    process = started(cluster, "--hosts", "node[01-02]", "--interface", "10.77.0.0/16", "--", "sleep", "77")
    until(lambda: sleepers(cluster, 77) == 2, "the program")
    listening = cluster.run(["cat", "/proc/net/tcp"], on="node01").stdout.splitlines()[1:]
    local = {line.split()[1].partition(":")[0] for line in listening if line.split()[3] == "0A"}
    ours = local - {"00000000"}  # sshd's
    assert ours, "the agent's"
    assert all(bytes.fromhex(each)[::-1][:2] == bytes((10, 77)) for each in ours)
    process.terminate()
    assert process.wait(PATIENCE_S) == 128 + 15
    process.communicate()


def test_nodes_that_cannot_be_had_are_named(cluster: VirtualCluster) -> None:
    answer = launch_json(cluster, "--hosts", "node02,node99,node03", "--", "true")
    assert answer["code"] == 1
    assert "node99: ssh ended with code 255: ssh: Could not resolve hostname node99" in answer["stderr"]
    answer = launch_json(
        cluster, "--hosts", "node02,node99,node03", "--survive", "--degree", "1", "--", "hostname"
    )
    assert {each["node"]: each["stdout"] for each in answer["outputs"]} == {
        "node02": "node02\n", "node99": "", "node03": "node03\n",
    }  # fmt: skip
    assert answer["lost"].keys() == {"node99"}
    refused = launch_json(
        cluster, "--hosts", "node04", "--ssh-option=-i/dev/null", "--ssh-option=-Fnone", "--", "true"
    )
    assert refused["code"] == 1
    assert refused["why"].startswith("node04: ssh ended with code 255")


@pytest.mark.parametrize("names", ["node99,node02,node03", "node02,node99,node03", "node02,node03,node99"])
def test_a_host_that_cannot_be_had_is_lost_wherever_it_is_named(cluster: VirtualCluster, names: str) -> None:
    answer = launch_json(cluster, "--hosts", names, "--survive", "--", "hostname")
    assert {each["node"]: each["stdout"] for each in answer["outputs"]} == {
        "node02": "node02\n", "node99": "", "node03": "node03\n",
    }  # fmt: skip
    assert answer["lost"]["node99"].startswith(
        "ssh ended with code 255: ssh: Could not resolve hostname node99"
    )
    assert answer["code"] == 255
    ended = launch_json(cluster, "--hosts", names, "--", "hostname")
    assert ended["why"].startswith("node99: ssh ended with code 255: ssh: Could not resolve hostname node99")
    assert ended["code"] == 1


def test_hosts_are_reached_by_ipv6(own: VirtualCluster) -> None:
    """By addresses with and without a port, in a hostfile, and by names with an IPv6 network as the interface."""
    enable = "echo 0 >/proc/sys/net/ipv6/conf/{0}/disable_ipv6; ip -6 address add fd77::{1}/64 dev {0} nodad"
    own.run(["sh", "-c", enable.format("br0", 99)])
    for number, name in enumerate(own.names[:3], 1):
        own.run(["sh", "-c", enable.format("eth0", number)], on=name)
    (own.place / "hostfile").write_text("fd77::1 slots=2\n[fd77::2]:22\n")
    asked = "--ssh-option=-oStrictHostKeyChecking=no"
    for words, said in (
        (("--hosts", "fd77::1,[fd77::2]:22,root@[fd77::3]:22"), "123"),
        (("--hostfile", str(own.place / "hostfile"), "-n", "3"), "112"),
        (("--hosts", "node[01-03]", "--interface", "fd77::/64"), "123"),
    ):
        answer = launch_json(own, *words, "--degree", "1", asked, "--", "sh", "-c", "echo $PLIANT_PLACE_HOST")
        assert [each["stdout"] for each in answer["outputs"]] == [f"fd77::{each}\n" for each in said], answer


def test_the_first_host_may_be_this_machine(cluster: VirtualCluster) -> None:
    """Under a name by which the others would not reach it."""
    words = ["--hosts", "localhost,node02", "--ssh-option=-oStrictHostKeyChecking=no", "--", "hostname"]
    done = cluster.run([PLIANT, "launch", *words], on="node01", timeout_s=PATIENCE_S)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["node01", "node02"]), done.stderr


def test_a_node_whose_login_stalls_is_given_up(own: VirtualCluster) -> None:
    """Its ssh ends on both sides. When the login goes on, nobody waits for the agent, and it ends."""
    flag = own.place / "go"
    stall = f"case $(hostname) in node03) while [ ! -e {flag} ]; do sleep 0.1; done;; esac\n"
    (own.place / "ssh" / "sshrc").write_text(stall)
    for words, code in (((), 1), (("--survive",), 255)):
        answer = launch_json(
            own, "--hosts", "node[01-04]", "--degree", "1", "--patience", "4", *words, "--", "hostname"
        )
        assert answer["code"] == code
        assert "node03" in answer["stderr"]
        assert "it has not called within 4 s" in answer["stderr"]
    assert [each["stdout"] for each in answer["outputs"]] == ["node01\n", "node02\n", "", "node04\n"]
    assert not [each for each in own.processes() if each.node != "node03"], "ssh has ended here"
    [stalled, *_] = own.processes("node03")
    rows = [line.split() for line in Path(f"/proc/{stalled.pid}/net/tcp").read_text().splitlines()[1:]]
    assert {row[3] for row in rows} <= {LISTEN, TIME_WAIT}, "and there, where the login alone is left"
    flag.touch()
    until(lambda: not own.processes(), "the end of what has stalled")


def test_nothing_is_left_on_any_node_when_the_launcher_is_killed(cluster: VirtualCluster) -> None:
    process = started(
        cluster, "--hosts", "node[01-16]", "--degree", "4", "--", "sh", "-c", "sleep 78 & sleep 78"
    )
    until(lambda: sleepers(cluster, 78) == 32, "the program")
    process.kill()
    killed = time.monotonic()
    until(lambda: not cluster.processes(of="pliant.launch.tree") and not sleepers(cluster, 78), "the end")
    assert time.monotonic() - killed < 5
    process.communicate()


@pytest.fixture
def own() -> Any:
    """A cluster that is hurt."""
    with virtual_cluster(nodes=7) as made:
        yield made


def test_lost_nodes_and_cut_links(own: VirtualCluster, tmp_path: Path) -> None:
    """A dead node, an inner one, and one whose link is cut: the others go on, and end well."""
    flag = own.place / "go"
    script = f"while [ ! -e {flag} ]; do sleep 0.1; done; hostname"
    process = started(own, "--hosts", "node[01-07]", "--degree", "2", "--survive", "--", "sh", "-c", script)
    until(lambda: len({each.node for each in own.processes(of="PLIANT_RANK")}) == 7, "the program")
    own.kill("node01")  # above node02, node03 and node04
    own.cut("node06")  # nobody is told
    gone = time.monotonic()
    until(lambda: not own.processes("node06", of="PLIANT_RANK"), "the end of what ran on node06")
    assert time.monotonic() - gone < 30, "one that is cut off ends by itself"
    flag.touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    answer = json.loads(out)
    assert answer["lost"].keys() == {"node01", "node06"}, err
    assert {each["node"]: each["stdout"] for each in answer["outputs"] if not each["code"]} == {
        name: f"{name}\n" for name in ("node02", "node03", "node04", "node05", "node07")
    }
    assert not own.processes(of="pliant.launch.tree")
